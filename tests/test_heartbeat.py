"""results/heartbeat/SYSTEM.json: a monitor sees a night that began, ended, was refused, or died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import TOP, eventually, shell
from parity.base.files import Lock
from parity.nightly import heartbeat
from parity.nightly.heartbeat import Heartbeat


def told(folder, system: str = 'local') -> dict:
    return json.loads((folder / 'heartbeat' / f'{system}.json').read_text())


def nightly(*arguments: str) -> int:
    return subprocess.run([sys.executable, '-m', 'parity.nightly', *arguments], cwd=TOP, capture_output=True,
                          env={**os.environ, 'RFM_CONFIG_FILES': str(TOP / 'reframe/settings.py')}).returncode


@pytest.mark.parametrize('arguments, system', [
    ('--time-limit 0 --system onebox', 'onebox'), ('--repeats x --system=onebox', 'onebox'), ('--system onebox --nonsense', 'onebox'),
    ('--system nosuch:part', 'nosuch'), ('--system ../../etc/x', heartbeat.UNKNOWN)])
def test_a_run_that_refuses_to_start_says_so(results, arguments, system):
    assert nightly(*arguments.split()) == 2
    said = told(results, system)
    assert said['exit_code'] == 2 and said['start'] <= said['end'] and said['session'] is None and said['system'] == system
    assert time.strptime(said['start'], '%Y-%m-%dT%H:%M:%SZ') and said['host'] == os.uname().nodename and said['pid']


@pytest.mark.parametrize('arguments, variable, system', [
    ('--system site:cpu', '', 'site'), ('-n Hpl', 'other:cpu', 'other'), ('-n Hpl', '', heartbeat.UNKNOWN)])
def test_files_that_cannot_be_read_leave_the_name_that_is_given(monkeypatch, results, tmp_path, arguments, variable, system):
    (tmp_path / 'systems' / 'bad').mkdir(parents=True)
    (tmp_path / 'systems' / 'bad' / 'system.yaml').write_text('name: [')
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    monkeypatch.setenv('RFM_SYSTEM', variable)
    heartbeat.refused(2, arguments.split())
    assert told(results, system)['exit_code'] == 2


def test_a_second_run_leaves_the_file_of_the_one_that_measures_alone(results):
    first = Heartbeat(['--system', 'local'])
    first.begin()
    locked = Lock(results / '.nightly.lock', 'ci/nightly')
    locked.acquire()
    before = told(results)
    assert (before['end'], before['exit_code'], before['session'], before['pid']) == (None, None, None, os.getpid())
    assert nightly('--system', 'local') == 4 and told(results) == before
    assert nightly('--system', 'onebox') == 4 and told(results, 'onebox')['exit_code'] == 4
    first.stored('3f2a91bb-0')
    first.end(1)
    locked.release()
    assert told(results) | {'end': None} == before | {'exit_code': 1, 'session': '3f2a91bb-0'}


def test_the_run_that_measures_has_the_file_although_another_was_refused_meanwhile(results, monkeypatch):
    refused = Lock(results / 'heartbeat' / '.local.lock', 'ci/nightly')
    refused.acquire()
    ours = Heartbeat(['--system', 'local'])
    ours.begin()
    assert not (results / 'heartbeat' / 'local.json').exists()
    monkeypatch.setattr(heartbeat.time, 'sleep', lambda _: refused.release())
    ours.measures()
    assert told(results)['end'] is None


def test_a_rehearsal_has_no_heartbeat(results):
    assert nightly('--dry-run', '--system', 'nosuch') == 2 and nightly('--help') == 0
    assert not (results / 'heartbeat').exists()


def test_a_file_that_cannot_be_written_ends_no_run(results, capsys, monkeypatch):
    beat = Heartbeat(['--system', 'local'])
    beat.begin()

    def full(*_):
        raise OSError(28, 'No space left on device')
    monkeypatch.setattr(heartbeat.files, 'write', full)
    beat.end(0)
    assert 'heartbeat/local.json: No space left on device' in capsys.readouterr().err


def test_a_night_that_is_killed_leaves_its_start(checkout):
    run = subprocess.Popen([checkout / 'ci' / 'nightly', '-n', 'FileCopy'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: (checkout / 'results' / 'heartbeat' / 'local.json').exists() or run.poll() is not None)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert told(checkout / 'results')['end'] is None


def test_a_night_that_a_login_node_refuses_says_so(checkout, tmp_path):
    (tmp_path / 'bin').mkdir()
    (tmp_path / 'bin' / 'scontrol').write_text('#!/bin/sh\necho Slurmctld is UP\n')
    (tmp_path / 'bin' / 'scontrol').chmod(0o755)
    for option in ('--dry-run', ''):
        done = shell(f'PATH="{tmp_path}/bin:$PATH" ci/nightly {option}', checkout)
        assert done.returncode == 2 and 'looks like a login node' in done.stderr
        assert (checkout / 'results' / 'heartbeat').exists() == (not option)
    assert told(checkout / 'results')['exit_code'] == 2
