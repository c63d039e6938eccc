"""ci/test: every part runs, and no process that a test started outlives the run."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import PATIENCE, TOP, eventually

SECONDS = f'7777.{os.getpid()}'
#: One test fails, one passes; each leaves a process behind, in a session of its own. A push leaves the third out.
FAILS = f'''
import subprocess, pytest
def leave():
    subprocess.Popen(['sleep', '{SECONDS}'], start_new_session=True)
@pytest.mark.alone
def test_alone():
    leave()
    assert False
def test_beside():
    leave()
@pytest.mark.full
def test_long():
    assert False
'''
HANGS = f'''
import subprocess
def test_hangs():
    subprocess.run(['bash', '-c', 'sleep {SECONDS} & sleep {SECONDS}'], start_new_session=True)
'''
WAITS_IN_VAIN = f'''
import glob, subprocess, pytest
def test_times_out():
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(['bash', '-c', 'sleep {SECONDS} & sleep {SECONDS}'], timeout=0.5)
def test_next():
    done = subprocess.run(['grep', '-lsz', '{SECONDS}', *glob.glob('/proc/[0-9]*/cmdline')], capture_output=True, text=True)
    assert [name for name in done.stdout.split() if open(name).read().startswith('sleep')] == []
'''


def running() -> int:
    """Count the processes that a planted test started."""
    words = ['grep', '-lszx', SECONDS, *glob.glob('/proc/[0-9]*/cmdline')]
    return len(subprocess.run(words, capture_output=True).stdout.split())


def begin(folder, text: str, workers: int) -> subprocess.Popen:
    """Run ci/test on one planted file."""
    (folder / 'test_planted.py').write_text(text)
    return subprocess.Popen([TOP / 'ci' / 'test', '-p', 'no:cacheprovider', f'-n{workers}', folder], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def test_a_failed_part_hides_no_later_one_a_push_leaves_out_full_and_no_process_stays(tmp_path):
    process = begin(tmp_path, FAILS, 0)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, printed
    assert '1 failed' in printed and '1 passed, 2 deselected' in printed
    assert printed.count('left running by the tests, ended: sleep') == 2 and not running()


@pytest.mark.parametrize('number, whole_group, workers', [(signal.SIGINT, True, 2), (signal.SIGTERM, False, 0)], ids=['Ctrl-C', 'kill'])
def test_an_interrupted_run_leaves_no_process(tmp_path, number, whole_group, workers):
    process = begin(tmp_path, HANGS, workers)
    eventually(lambda: running() == 2)
    os.killpg(process.pid, number) if whole_group else process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number and not running(), printed


def test_a_process_that_a_test_started_ends_with_the_test(tmp_path):
    (tmp_path / 'test_planted.py').write_text(WAITS_IN_VAIN)
    done = subprocess.run([sys.executable, '-m', 'pytest', '-p', 'conftest', '-p', 'no:cacheprovider', tmp_path], text=True,
                          capture_output=True, env={**os.environ, 'PYTHONPATH': str(TOP / 'tests')})
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize('option', ['--nonsense', '--ful'])
def test_an_option_that_pytest_does_not_know_runs_no_test(option):
    done = subprocess.run([TOP / 'ci' / 'test', option], capture_output=True, text=True)
    assert done.returncode == 2 and f'unrecognized arguments: {option}' in done.stderr and 'passed' not in done.stdout


@pytest.mark.parametrize('script', ['ci/test', 'ci/venv'])
def test_a_machine_without_python_learns_what_to_install(tmp_path, script):
    for name in ('bash', 'dirname', 'sed', 'cat'):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run([shutil.which('bash'), TOP / script], capture_output=True, text=True, env={'PATH': str(tmp_path)})
    assert done.returncode == 4 and done.stderr.endswith('install python3 python3-venv, or load a module\n')
