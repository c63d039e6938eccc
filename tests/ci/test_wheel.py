"""The wheel of this checkout in an empty environment: it judges without a checkout, ReFrame or a scheduler."""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import TOP

SECONDS = 600
COLUMNS = ('job_completion_time_unix', 'result', 'system', 'partition', 'environ', 'name', 'display_name', 'jobid',
           'bw_value', 'bw_unit', 'bw_ref', 'bw_lower_thres', 'bw_upper_thres')
DAY, BEGAN, NIGHTS, SLOW = 86400, 1790000000, 40, 3


#: Runs each of the commands that its argument lists; prints for each its words, exit code, output and errors.
IN_TURN = '''
import contextlib, io, json, sys
from parity.cli import main
ended = []
for words in json.loads(sys.argv[1]):
    sys.argv[:] = ['parity', *words]
    code, out, errors = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    ended.append([words, code, out.getvalue(), errors.getvalue()])
json.dump(ended, sys.stdout)
'''


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


def brought(requirements: list[str]) -> dict[str, Distribution]:
    """Return the packages of .venv that a package with these requirements brings, by name."""
    packages: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        is_asked = not requirement.marker or requirement.marker.evaluate({'extra': ''})
        if is_asked and name not in packages:
            assert not requirement.extras, f'follow the extras of {requirement}'
            packages[name] = distribution(name)
            waiting += [Requirement(text) for text in packages[name].requires or []]
    return packages


def link(package: Distribution, site_packages: Path) -> None:
    """Install a package of .venv: the index need not answer, and nothing is unpacked."""
    for name in {file.parts[0] for file in package.files} - {'..', '__pycache__'}:
        (site_packages / name).symlink_to(package.locate_file(name))


def wheel_in(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    source = folder / 'source'
    source.mkdir()
    for name in ('pyproject.toml', 'README.md', 'LICENSE'):
        shutil.copy(TOP / name, source)
    shutil.copytree(TOP / 'reframe', source / 'reframe', ignore=shutil.ignore_patterns('__pycache__', '*.egg-info'))
    built = subprocess.run([sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '--no-build-isolation', str(source),
                            '-w', str(folder)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    wheel, = folder.glob('*.whl')
    return wheel


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """The wheel in an environment of its own: `pip(ARGUMENTS)`, and `run(ARGUMENTS)`, its command, without a variable of
    parity's; `run_in_turn` runs several. A perflog is imported: `nothing` is the verdict before, `taken` the import."""
    folder = tmp_path_factory.mktemp('alone')
    venv.create(folder / 'venv', with_pip=False)
    (folder / 'tools').mkdir()
    (folder / 'tools' / 'pip').symlink_to(Path(find_spec('pip').origin).parent)

    def pip(*arguments: str | Path) -> str:
        done = subprocess.run([folder / 'venv/bin/python', '-m', 'pip', *arguments], capture_output=True, text=True,
                              env={**os.environ, 'PYTHONPATH': str(folder / 'tools')}, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip('install', '-q', '--no-deps', '--no-index', wheel_in(folder))
    metadata, = folder.glob('venv/lib/python3*/site-packages/parity-*.dist-info')
    for package in brought(Distribution.at(metadata).requires).values():
        link(package, metadata.parent)
    (folder / 'home').mkdir()
    (folder / 'empty').mkdir()
    (folder / 'empty' / 'perflog.log').write_text(perflog())

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
        clean = {'HOME': str(folder / 'home'), 'PATH': f'{folder}/venv/bin:/usr/bin:/bin', **variables}
        return subprocess.run(['parity', *arguments], cwd=folder / 'empty', env=clean, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS)

    def run_in_turn(*lines: list[str], **variables: str) -> list[subprocess.CompletedProcess]:
        """Run several commands in one process: each alone loads the same packages."""
        clean = {'HOME': str(folder / 'home'), 'PATH': f'{folder}/venv/bin:/usr/bin:/bin', **variables}
        done = subprocess.run(['python', '-c', IN_TURN, json.dumps(lines)], cwd=folder / 'empty', env=clean, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return [subprocess.CompletedProcess(*ended) for ended in json.loads(done.stdout)]

    return SimpleNamespace(folder=folder, pip=pip, run=run, run_in_turn=run_in_turn, nothing=run('verdict'),
                           taken=run('import', 'perflog.log'))


def test_the_wheel_brings_nothing_that_only_measures(alone):
    names = {line.partition('==')[0].lower() for line in alone.pip('list', '--format=freeze').splitlines()}
    assert 'parity' in names and 'polars' in names
    assert not names & {'reframe-hpc', 'mpi4py', 'clingo', 'archspec', 'clustershell'}
    assert 'No broken requirements found' in alone.pip('check')


def test_a_site_is_judged_without_a_checkout(alone):
    assert alone.nothing.returncode == 3 and 'parity import' in alone.nothing.stderr
    taken = alone.taken
    assert taken.returncode == 1 and 'copy: bw' in taken.stdout, taken.stderr
    assert f'imported: {NIGHTS} of {NIGHTS} sessions' in taken.stdout
    described = alone.folder / 'home/.config/parity/systems/daint/system.yaml'
    assert f'{described}: written' in taken.stdout and described.exists()
    until = (datetime.date.today() + datetime.timedelta(days=9)).isoformat()
    judged, shown, known, quiet, undone, written, exported, replayed = alone.run_in_turn(
        ['verdict'], ['show', 'copy'], ['ack', 'copy.bw', '--why', 'a new driver', '--by', 'ana', '--until', until], ['verdict'],
        ['unack', 'copy.bw'], ['report'], ['export', '--csv', 'all.csv'], ['replay', 'perflog.log'])
    assert judged.returncode == 1 and 'copy: bw' in judged.stdout, judged.stdout + judged.stderr
    assert 'REGRESSED' in shown.stdout
    assert known.returncode == 0, known.stderr
    assert quiet.returncode == 0
    assert undone.returncode == 0
    assert written.returncode == 0 and Path(written.stdout.splitlines()[0]).is_relative_to(alone.folder / 'home/.local/share/parity')
    assert exported.returncode == 0
    assert len((alone.folder / 'empty/all.csv').read_text().splitlines()) == 2 * NIGHTS + 1
    assert replayed.returncode == 0 and 'copy.bw@daint:gpu' in replayed.stdout


@pytest.mark.parametrize('command', ['doctor', 'node x --gate --system daint', 'refs accept --all --why x --system daint'])
def test_what_measures_names_what_brings_it(alone, command):
    done = alone.run(*command.split())
    assert done.returncode in (2, 4) and 'Traceback' not in done.stderr
    assert "pip install 'parity[measure]'" in done.stderr or 'needs a checkout of parity' in done.stderr, done.stderr


def test_a_site_of_its_own_is_named_by_an_option_or_a_variable(alone):
    site = alone.folder / 'site'
    site.mkdir(exist_ok=True)
    assert alone.run('--site', str(site), 'import', 'perflog.log').returncode == 1
    assert (site / 'systems/daint/system.yaml').exists() and (site / 'results/results.db').exists()
    variable, other, home = alone.run_in_turn(
        ['verdict'], ['--site', str(alone.folder / 'no-such'), 'verdict'], ['--site', str(alone.folder / 'home/.config/parity'), 'verdict'],
        PARITY_SITE=str(site))
    assert variable.returncode == 1
    assert other.returncode == 2 and 'no-such: no such folder' in other.stderr
    assert home.returncode == 1, 'the default site keeps its results when it is named'


def test_the_results_of_a_checkout_are_read(alone, tmp_path):
    checkout = tmp_path / 'checkout'
    for name in ('checks', 'systems/daint', 'results'):
        (checkout / name).mkdir(parents=True)
    shutil.copy(alone.folder / 'home/.config/parity/systems/daint/system.yaml', checkout / 'systems/daint')
    shutil.copy(alone.folder / 'home/.local/share/parity/results.db', checkout / 'results')
    assert alone.run('verdict', PARITY_ROOT=str(checkout)).returncode == 1
    assert alone.run('--site', str(checkout), 'verdict').returncode == 1


@pytest.mark.skipif(os.geteuid() == 0, reason='root may write anywhere')
@pytest.mark.parametrize('writable, said', [
    ([], 'systems/daint/system.yaml: Permission denied; name a folder that you may write: parity --site DIR'),
    (['systems'], 'PARITY_RESULTS')])
def test_a_site_that_is_read_only_says_where_systems_and_results_may_go(alone, tmp_path, writable, said):
    site = tmp_path / 'site'
    site.mkdir()
    for name in writable:
        (site / name).mkdir()
    site.chmod(0o500)
    done = alone.run('--site', str(site), 'import', 'perflog.log')
    assert done.returncode == 4 and said in done.stderr + done.stdout, done.stderr + done.stdout
