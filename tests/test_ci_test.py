"""ci/test itself: every part runs, and nothing that a test started outlives it."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import PATIENCE, TOP, eventually

#: Fails, beside one that passes; each leaves a process behind, in a session of its own.
FAILS = '''
import subprocess, pytest
def leave():
    subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)
@pytest.mark.alone
def test_alone():
    leave()
    assert False
def test_beside():
    leave()
'''
MARKED = '''
import pytest
@pytest.mark.full
def test_long():
    assert False
def test_short():
    pass
'''
HANGS = '''
import subprocess, pathlib
def test_hangs():
    subprocess.run(['bash', '-c', 'sleep {seconds} & sleep {seconds}'], start_new_session=True)
'''
WAITS_IN_VAIN = '''
import glob, subprocess, pytest
def test_times_out():
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(['bash', '-c', 'sleep {seconds} & sleep {seconds}'], timeout=0.5)
def test_next():
    done = subprocess.run(['grep', '-lsz', '{seconds}', *glob.glob('/proc/[0-9]*/cmdline')], capture_output=True, text=True)
    assert [name for name in done.stdout.split() if open(name).read().startswith('sleep')] == []
'''


@pytest.fixture
def planted(tmp_path):
    """Writes a test file, and says how many of the processes that it starts are running."""
    seconds = f'7777.{os.getpid()}'

    def running() -> int:
        words = ['grep', '-lszx', seconds, *glob.glob('/proc/[0-9]*/cmdline')]
        return len(subprocess.run(words, capture_output=True).stdout.split())

    def write(text: str):
        (tmp_path / 'test_planted.py').write_text(text.format(seconds=seconds))
        return tmp_path, running
    return write


def begin(folder, workers: int) -> subprocess.Popen:
    return subprocess.Popen([TOP / 'ci' / 'test', '-p', 'no:cacheprovider', f'-n{workers}', folder], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def test_a_part_that_fails_hides_none_that_follows_and_leaves_nothing(planted):
    folder, running = planted(FAILS)
    process = begin(folder, 0)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, printed
    assert '1 failed' in printed and '1 passed' in printed
    assert printed.count('left running by the tests, ended: sleep') == 2 and not running()


def test_a_push_leaves_out_what_is_marked_full(planted):
    folder, _ = planted(MARKED)
    printed, _ = begin(folder, 0).communicate(timeout=PATIENCE)
    assert '1 passed, 1 deselected' in printed and 'failed' not in printed, printed


@pytest.mark.parametrize('number, whole_group, workers', [(signal.SIGINT, True, 2), (signal.SIGTERM, False, 0)], ids=['Ctrl-C', 'kill'])
def test_an_interrupted_run_leaves_nothing(planted, number, whole_group, workers):
    folder, running = planted(HANGS)
    process = begin(folder, workers)
    eventually(lambda: running() == 2)
    os.killpg(process.pid, number) if whole_group else process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number and not running(), printed


def test_what_a_test_started_ends_with_it(planted):
    folder, _ = planted(WAITS_IN_VAIN)
    done = subprocess.run([sys.executable, '-m', 'pytest', '-p', 'conftest', '-p', 'no:cacheprovider', folder], text=True,
                          capture_output=True, env={**os.environ, 'PYTHONPATH': str(TOP / 'tests')})
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize('option', ['--nonsense', '--ful'])
def test_an_option_that_pytest_does_not_know_runs_nothing(option):
    done = subprocess.run([TOP / 'ci' / 'test', option], capture_output=True, text=True)
    assert done.returncode == 2 and f'unrecognized arguments: {option}' in done.stderr and 'passed' not in done.stdout


@pytest.mark.parametrize('script', ['ci/test', 'ci/venv'])
def test_a_machine_without_python_is_told_what_to_install(tmp_path, script):
    for name in ('bash', 'dirname', 'sed', 'cat'):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run([shutil.which('bash'), TOP / script], capture_output=True, text=True, env={'PATH': str(tmp_path)})
    assert done.returncode == 4 and done.stderr.endswith('install python3 python3-venv, or load a module\n')
