"""The wheel of this checkout in an empty environment: it judges without a checkout, ReFrame or a scheduler."""

from __future__ import annotations

import datetime
import os
import random
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from conftest import TOP

SECONDS = 600
COLUMNS = ('job_completion_time_unix', 'result', 'system', 'partition', 'environ', 'name', 'display_name', 'jobid',
           'bw_value', 'bw_unit', 'bw_ref', 'bw_lower_thres', 'bw_upper_thres')
DAY, BEGAN, NIGHTS, SLOW = 86400, 1790000000, 40, 3


def pins() -> str:
    """The versions of requirements.lock, as constraints without hashes."""
    return '\n'.join(re.findall(r'^([a-z0-9.-]+==[^\\\n]+?)\s*\\', (TOP / 'requirements.lock').read_text(), re.M))


def perflog() -> str:
    """Nights of two tests; the last ones of the first are 15 % slower."""
    noise = random.Random(1)
    lines = ['|'.join(COLUMNS)]
    for night in range(NIGHTS):
        for name in ('copy', 'multiply'):
            value = 100 * (1 + noise.gauss(0, 0.004))
            if name == 'copy' and night >= NIGHTS - SLOW:
                value *= 0.85
            lines.append(f'{BEGAN + night * DAY}|pass|daint|gpu|gnu|{name}|{name}|{night}|{value:.3f}|GB/s|0|None|None')
    return '\n'.join(lines) + '\n'


def demand_packages(done: subprocess.CompletedProcess) -> None:
    if re.search(r'No matching distribution|Connection|Temporary failure|timed out', done.stderr):
        pytest.skip('pip reaches no package index here')
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """A folder with a perflog, and `run(ARGUMENTS)`: the command of the wheel, without a variable of parity's."""
    folder = tmp_path_factory.mktemp('alone')
    source = folder / 'source'
    source.mkdir()
    for name in ('pyproject.toml', 'README.md', 'LICENSE'):
        shutil.copy(TOP / name, source)
    shutil.copytree(TOP / 'reframe', source / 'reframe', ignore=shutil.ignore_patterns('__pycache__', '*.egg-info'))
    built = subprocess.run([sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '--no-build-isolation', str(source),
                            '-w', str(folder)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    wheel, = folder.glob('*.whl')
    venv.create(folder / 'venv', with_pip=True)
    (folder / 'constraints').write_text(pins())
    demand_packages(subprocess.run([folder / 'venv/bin/pip', 'install', '-q', '-c', folder / 'constraints', wheel],
                                   capture_output=True, text=True, timeout=SECONDS))
    (folder / 'home').mkdir()
    (folder / 'empty').mkdir()
    (folder / 'empty' / 'perflog.log').write_text(perflog())

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
        clean = {'HOME': str(folder / 'home'), 'PATH': f'{folder}/venv/bin:/usr/bin:/bin', **variables}
        return subprocess.run(['parity', *arguments], cwd=folder / 'empty', env=clean, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS)
    run.folder = folder
    return run


def test_the_wheel_brings_nothing_that_only_measures(alone):
    listed = subprocess.run([alone.folder / 'venv/bin/pip', 'list', '--format=freeze'], capture_output=True, text=True).stdout
    names = {line.partition('==')[0].lower() for line in listed.splitlines()}
    assert 'parity' in names and 'polars' in names
    assert not names & {'reframe-hpc', 'mpi4py', 'clingo', 'archspec', 'clustershell'}


def test_a_site_is_judged_without_a_checkout(alone):
    nothing = alone('verdict')
    assert nothing.returncode == 3 and 'parity import' in nothing.stderr
    taken = alone('import', 'perflog.log')
    assert taken.returncode == 1 and 'copy: bw' in taken.stdout, taken.stderr
    assert f'imported: {NIGHTS} of {NIGHTS} sessions' in taken.stdout
    described = alone.folder / 'home/.config/parity/systems/daint/system.yaml'
    assert f'{described}: written' in taken.stdout and described.exists()
    judged = alone('verdict')
    assert judged.returncode == 1 and 'copy: bw' in judged.stdout, judged.stdout + judged.stderr
    assert 'REGRESSED' in alone('show', 'copy').stdout
    until = (datetime.date.today() + datetime.timedelta(days=9)).isoformat()
    known = alone('ack', 'copy.bw', '--why', 'a new driver', '--by', 'ana', '--until', until)
    assert known.returncode == 0, known.stderr
    assert alone('verdict').returncode == 0
    assert alone('unack', 'copy.bw').returncode == 0
    written = alone('report')
    assert written.returncode == 0 and Path(written.stdout.splitlines()[0]).is_relative_to(alone.folder / 'home/.local/share/parity')
    assert alone('export', '--csv', 'all.csv').returncode == 0
    assert len((alone.folder / 'empty/all.csv').read_text().splitlines()) == 2 * NIGHTS + 1
    replayed = alone('replay', 'perflog.log')
    assert replayed.returncode == 0 and 'copy.bw@daint:gpu' in replayed.stdout


@pytest.mark.parametrize('command', ['doctor', 'node x --gate --system daint', 'refs accept --all --why x --system daint'])
def test_what_measures_names_what_brings_it(alone, command):
    alone('import', 'perflog.log')
    done = alone(*command.split())
    assert done.returncode in (2, 4) and 'Traceback' not in done.stderr
    assert "pip install 'parity[measure]'" in done.stderr or 'needs a checkout of parity' in done.stderr, done.stderr


def test_a_site_of_its_own_is_named_by_an_option_or_a_variable(alone):
    site = alone.folder / 'site'
    site.mkdir(exist_ok=True)
    assert alone('--site', str(site), 'import', 'perflog.log').returncode == 1
    assert (site / 'systems/daint/system.yaml').exists() and (site / 'results/results.db').exists()
    assert alone('verdict', PARITY_SITE=str(site)).returncode == 1
    other = alone('--site', str(alone.folder / 'no-such'), 'verdict', PARITY_SITE=str(site))
    assert other.returncode == 2 and 'no-such: no such folder' in other.stderr
    home = alone('--site', str(alone.folder / 'home/.config/parity'), 'verdict')
    assert home.returncode == 1, 'the default site keeps its results when it is named'


def test_the_results_of_a_checkout_are_read(alone, tmp_path):
    checkout = tmp_path / 'checkout'
    for name in ('checks', 'systems/daint', 'results'):
        (checkout / name).mkdir(parents=True)
    shutil.copy(alone.folder / 'home/.config/parity/systems/daint/system.yaml', checkout / 'systems/daint')
    shutil.copy(alone.folder / 'home/.local/share/parity/results.db', checkout / 'results')
    assert alone('verdict', PARITY_ROOT=str(checkout)).returncode == 1
    assert alone('--site', str(checkout), 'verdict').returncode == 1


@pytest.mark.skipif(os.geteuid() == 0, reason='root may write anywhere')
def test_a_site_that_is_read_only_says_where_results_may_go(alone, tmp_path):
    site = tmp_path / 'site'
    site.mkdir(mode=0o500)
    done = alone('--site', str(site), 'import', 'perflog.log')
    assert done.returncode == 4 and 'PARITY_RESULTS' in done.stderr + done.stdout
