"""`parity doctor`: each thing that is lacking is named, with what mends it, and decides the exit code."""

from __future__ import annotations

import json
import os

import pytest

import slurm_site
from commands import parity
from conftest import TOP, shell
from parity.base import yamlfile
from parity.nightly import doctor
from parity.nightly.doctor import Finding, exit_code
from parity.system import systems
from parity.system.systems import System

SYSTEM = """\
name: trial
hostnames: ['login']
requires: offered
environments: [{name: distro, codes: [filecopy]}]
partitions:
  - name: cpu
    scheduler: slurm
    launcher: srun
    access: [--partition=batch, --account=bench, --exclusive]
    time_limit: 1h
    extras: {nodes: 4, cores: 128, memory_bytes: 257_698_037_760, filesystems: {scratch: $PARITY_RESULTS/scratch}}
"""


@pytest.mark.parametrize('codes, code', [((), 0), ((0, 0), 0), ((3,), 3), ((3, 4), 4), ((4, 3, 2), 2), ((0, 4), 4)])
def test_the_exit_code_is_that_of_what_comes_first(codes, code):
    assert exit_code(Finding('a', 'lacking' if each else 'note', '', exit_code=each) for each in codes) == code


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Puts a Slurm on PATH, with an answer in the place of another; a script in the place of a whole command."""
    answers = slurm_site.answers()
    answers['scontrol']['--oneliner show licenses'] = 'LicenseName=matlab Total=5 Used=0\n'
    answers['sacct'] = {'-n -X -P -S now -o JobID': ''}
    folder = tmp_path / 'bin'
    monkeypatch.setenv('PATH', f'{folder}:{os.environ["PATH"]}')

    def install(command='', question='', text=''):
        if question:
            answers[command][question] = text
        slurm_site.install(folder, answers)
        if command and not question:
            (folder / command).write_text(f'#!/bin/bash\n{text}\n')
    return install


def examined(tmp_path, *changes: tuple[str, str]) -> list[Finding]:
    text = SYSTEM
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / 'system.yaml'
    file.write_text(text)
    return list(doctor.batch_systems(yamlfile.read(file, System)))


def test_a_partition_that_is_as_stated_is_ok(tmp_path, slurm):
    slurm()
    found = examined(tmp_path)
    assert [(f.area, f.word) for f in found] == [('scheduler', 'ok'), ('scheduler', 'ok'), ('partition cpu', 'ok'), ('launcher', 'ok')]
    assert '1000 nodes, 988 up' in found[0].what and 'batch is up: 888 of 900 nodes' in found[2].what


@pytest.mark.parametrize('change, what, code', [
    (('--partition=batch', '--partition=nosuch'), "no queue 'nosuch'", 2), (('cores: 128', 'cores: 1024'), 'cores 1024: of batch a job gets at most 256', 2),
    (('nodes: 4', 'nodes: 2000'), 'at most 900', 2), (('257_698_037_760', '2_000_000_000_000'), 'memory_bytes', 2),
    (('time_limit: 1h', 'time_limit: 2d'), 'batch gives 86400 s', 2), (('--account=bench', '--account=other'), "account 'other' is none of yours", 2),
    (('--exclusive', '--licenses=nosuch:1'), 'there is no such licence', 2), (('--exclusive', '--licenses=matlab:1'), 'batch is up', 0),
    (('--partition=batch', '--partition=astro'), 'AllowAccounts=astro', 4), (('nodes: 4', 'nodes: 890'), 'wait, at most 6h', 0)])
def test_what_a_partition_can_never_have_is_configuration(tmp_path, slurm, change, what, code):
    slurm()
    found = examined(tmp_path, change)
    assert exit_code(found) == code and any(what in f.what for f in found), found
    assert all(f.mend for f in found if f.word == 'lacking')


@pytest.mark.parametrize('answer, what', [
    (('scontrol', '--oneliner show partition', '\n'.join(p.replace('State=UP', 'State=DOWN') for p in slurm_site.PARTITIONS)), 'batch is not up'),
    (('scontrol', '--oneliner show node', '\n'.join(slurm_site.Nodes('c', 3, 'batch', state='DOWN*').lines())), 'none of the 3 nodes of batch is up'),
    (('sacct', '', 'echo "sacct: error: slurm_persist_conn_open: Connection refused" >&2; exit 1'), 'Connection refused'),
    (('scontrol', '', 'echo "slurm_load_node error: Unable to contact slurm controller" >&2; exit 1'), 'Unable to contact')])
def test_a_batch_system_that_is_down_is_infrastructure(tmp_path, slurm, answer, what):
    slurm(*answer)
    found = examined(tmp_path, ('nodes: 4', 'nodes: 3'))
    lacks, = (f for f in found if f.word == 'lacking')
    assert exit_code(found) == 4 and what in lacks.what and lacks.mend
    if answer[0] == 'sacct':
        assert 'slurmdbd' in lacks.mend and exit_code(examined(tmp_path, ('scheduler: slurm', 'scheduler: squeue'))) == 0


def test_packages_against_the_lock(monkeypatch):
    import setuptools  # noqa: F401  its own copy of tomli is none that is installed
    real = doctor.version
    assert doctor.python().word == 'ok', doctor.python().what
    monkeypatch.setattr(doctor, 'version', lambda name: '')
    found = doctor.python()
    assert found.word == 'lacking' and 'pydantic' in found.what and 'colorama' not in found.what
    monkeypatch.setattr(doctor, 'version', lambda name: '0.1' if name == 'rich' else real(name))
    assert doctor.python().word == 'note' and 'rich 0.1, not ' in doctor.python().what


def test_a_bad_system_file_is_told_with_its_line(checkout):
    file = checkout / 'systems' / 'trial' / 'system.yaml'
    file.parent.mkdir()
    file.write_text(SYSTEM.replace('launcher:', 'luncher:'))
    done = parity('doctor', '--system', 'trial', PARITY_ROOT=str(checkout))
    assert done.returncode == 2 and "did you mean 'launcher'" in done.stdout and f'{file}:8' in done.stdout
    assert 'the rest was not examined' in done.stdout and 'Traceback' not in done.stderr
    done = parity('doctor', '--system', 'nosuch')
    assert done.returncode == 2 and "unknown system 'nosuch'; valid: " in done.stderr


def test_a_site_in_order_and_what_each_code_lacks(checkout, slurm):
    slurm()
    (checkout / 'requirements.lock').write_text('')
    folder = checkout / 'systems' / 'trial'
    folder.mkdir()
    (folder / 'system.yaml').write_text(SYSTEM.replace('requires: offered', 'requires: [filecopy]'))
    done = shell('. ci/activate; parity doctor --system trial --json', checkout)
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told['exit_code'] == 0 and told['system'] == 'trial', done.stdout + done.stderr
    words = {f['area']: f['word'] for f in told['findings']}
    assert words['scheduler'] == words['partition cpu'] == words['settings'] == 'ok' and 'timer' in words
    (folder / 'system.yaml').write_text(SYSTEM)                  # requires what a build would offer
    (folder / 'references').mkdir()
    (folder / 'references' / 'gpu.yaml').write_text('Hpcc: {}')
    done = parity('doctor', '--system', 'trial', PARITY_ROOT=str(checkout), RFM_CONFIG_FILES=str(checkout / 'reframe' / 'settings.py'))
    assert done.returncode == 2 and 'references/gpu.yaml:1' in done.stdout
    assert 'required, and no environment offers them: ' in done.stdout and 'fileset' in done.stdout and 'parity software build --system trial' in done.stdout
    assert 'could not run: 2 lacking (exit code 2: configuration)' in done.stdout


def test_results_are_kept_in_a_database_that_the_nodes_see(results):
    assert doctor.filesystem(TOP) and doctor.filesystem(type(TOP)('/proc/self')) == 'proc'
    (results / 'results.db').write_text('this is no database')
    found, = doctor.results(systems.read('local'))
    assert found.word == 'lacking' and 'not a database' in found.what and exit_code([found]) == 4
