"""Runs that are killed, stopped, refused or find damage: nothing is lost, nothing passes silently."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import PATIENCE, TOP, eventually, run_python, shell
from jobs import QUICK, finished, journal_of, killed, processes_of, sessions_of, start, verdict_of
from parity.base import lock
from parity.base.errors import InfrastructureError
from parity.nightly import run as nightly_run
from parity.session import owner, recovery


def test_a_killed_run_loses_no_finished_case_and_leaves_no_process(checkout):
    run = start('. ci/activate && exec reframe -c checks/ -r -n FileCopy --repeat=9', checkout)
    journals = checkout / 'results' / 'running'
    eventually(lambda: list(journals.glob('*.json')))
    session_id = next(journals.glob('*.json')).stem
    eventually(lambda: finished(checkout) >= 1)
    eventually(lambda: processes_of(session_id))
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    done_before = finished(checkout)

    again = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    assert f'session {session_id} was killed: recovered {done_before} finished case' in again.stderr + again.stdout
    assert not processes_of(session_id) and not list(journals.glob('*.json'))
    killed, whole = sessions_of(checkout)
    assert killed['session_info']['interrupted'] and len(killed['runs'][0]['testcases']) == done_before
    uuid = killed['session_info']['uuid']
    code = shell(f'. ci/activate && parity verdict --session {uuid[:8]}', checkout)
    assert code.returncode == 3 and 'interrupted' in code.stdout and 'MISSING' in code.stdout
    assert 'missing' not in verdict_of(checkout)[1]['counts']


def test_ctrl_c_keeps_what_had_finished(checkout):
    run = start('exec ci/nightly -n FileCopy', checkout)
    eventually(lambda: finished(checkout) >= 1)
    os.killpg(run.pid, signal.SIGINT)
    printed, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 4, printed[-2000:]
    assert 'interrupted' in printed and 'Traceback' not in printed
    words = [c['verdict'] for c in verdict_of(checkout)[1]['cells'] if c['value'] is not None]
    assert words and 'failed' not in words
    assert (checkout / 'results' / 'report' / 'index.html').is_file()


def test_a_nightly_that_is_told_to_stop_ends_reframe_and_judges_what_had_finished(checkout):
    run = start('exec ci/nightly -n FileCopy', checkout)
    eventually(lambda: finished(checkout) >= 1)
    os.kill(run.pid, signal.SIGTERM)
    printed, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 4 and 'parity: told to stop (SIGTERM): what had finished is judged above' in printed, printed[-2000:]
    assert not list((checkout / 'results' / 'running').glob('*.json')), 'its session is stored'


def test_a_reframe_that_does_not_heed_a_signal_is_killed(monkeypatch, results):
    """Told by a Ctrl-C, told again, killed."""
    monkeypatch.setattr(nightly_run, 'GRACE_SECONDS', 0.1)
    deaf = [sys.executable, '-c', 'import signal, time; signal.signal(15, signal.SIG_IGN); print("up", flush=True); time.sleep(600)']
    process = subprocess.Popen(deaf, stdout=subprocess.PIPE)
    process.stdout.readline()
    nightly_run._end(process, 0.1)
    assert process.returncode == -signal.SIGKILL


def test_a_second_nightly_is_refused_while_one_runs(checkout):
    run = start(f'exec ci/nightly {QUICK}', checkout)
    eventually(lambda: (checkout / 'results' / '.nightly.lock').exists())
    os.killpg(run.pid, signal.SIGSTOP)      # it runs, however long the other takes
    second = shell('ci/nightly --dry-run', checkout)
    os.killpg(run.pid, signal.SIGCONT)
    run.communicate(timeout=PATIENCE)
    assert second.returncode == 4 and 'ci/nightly (pid' in second.stderr and 'Traceback' not in second.stderr


def test_the_time_limit_ends_the_run_and_keeps_what_had_finished(checkout):
    done = shell('ci/nightly --time-limit 0.003 -n FileCopy --repeat=9', checkout)
    assert done.returncode == 4, done.stdout[-1500:] + done.stderr
    assert 'time limit of 0.003 h reached' in done.stderr


def test_a_second_run_is_refused_before_it_touches_the_first(checkout):
    first = start('. ci/activate && exec reframe -c checks/ -r -n FileCopy', checkout)
    eventually(lambda: finished(checkout) >= 1)
    os.killpg(first.pid, signal.SIGSTOP)    # it runs, however long the others take
    second = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    nightly = shell(f'ci/nightly {QUICK}', checkout)
    os.killpg(first.pid, signal.SIGCONT)
    printed, _ = first.communicate(timeout=PATIENCE)
    for refused in (second, nightly):
        assert refused.returncode == 4 and 'held by reframe on local' in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1 and 'Ran' not in refused.stdout
    assert 'Ran 12/12 test case(s)' in printed, printed[-1500:]
    session, = sessions_of(checkout)
    assert all(r['result'] == 'pass' for r in session['runs'][0]['testcases'])


def test_a_run_in_which_nothing_started_is_a_session_of_its_own(checkout, tmp_path):
    assert shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout).returncode == 0
    shell('. ci/activate && reframe -c checks/ -r -n NoSuch', checkout)
    code, verdict = verdict_of(checkout)
    assert code == 3 and verdict['cells'] == []
    (checkout / 'checks' / 'x.py').write_text('import nope\n')
    broken = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    assert 'checks/x.py: cannot be loaded' in broken.stderr
    code, verdict = verdict_of(checkout)
    assert code == 2 and any('checks/x.py' in w for w in verdict['warnings'])


@pytest.mark.parametrize('content', ['[]', '3', '{', '{"id": "x"}', ''])
def test_a_damaged_journal_is_moved_aside(results, content, capsys):
    journal = results / 'running' / 'x.json'
    journal.parent.mkdir()
    journal.write_text(content)
    assert recovery.recover_all() == [] == recovery.warnings()
    assert f'{journal} is no journal of a session: moved to x.json.bad' in capsys.readouterr().err
    assert journal.with_name('x.json.bad').read_text() == content and not journal.exists()


def test_a_damaged_journal_and_an_empty_database_stop_no_nightly(checkout):
    running = checkout / 'results' / 'running'
    running.mkdir(parents=True)
    (running / 'x.json').write_text('{')
    (checkout / 'results' / 'results.db').touch()
    done = shell(f'ci/nightly {QUICK}', checkout)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    assert 'is no journal of a session' in done.stderr


def test_a_killed_run_is_recovered_where_no_system_is_called_local(checkout):
    for name in os.listdir(checkout / 'systems'):
        if name != 'onebox':
            (checkout / 'systems' / name).rename(checkout / name)
    session_id = journal_of(checkout / 'results', killed(), 'onebox')
    done = run_python('from parity.session import recovery; print(recovery.recover_all())', checkout)
    assert f'session {session_id} was killed: recovered 0 finished cases' in done.stdout, done.stderr
    assert len(sessions_of(checkout)) == 1 and not list((checkout / 'results' / 'running').iterdir())


def test_a_run_that_recovers_another_makes_its_own_runtime(results):
    """ReFrame makes one only where there is none: it would be of the system of the recovered run."""
    journal_of(results, killed(), 'local')
    done = run_python('from parity.session import recovery; recovery.recover_all()\n'
                      'from reframe.core import runtime; print(runtime.runtime())', results)
    assert 'no runtime context is configured' in done.stderr and 'was killed' in done.stderr


NAMESPACE = 'unshare --pid --fork --mount-proc --kill-child '
namespaces = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which('unshare')
                                or subprocess.run([*NAMESPACE.split(), 'true'], capture_output=True).returncode != 0,
                                reason='needs root and unshare to make a pid namespace')


@namespaces
def test_a_run_in_another_pid_namespace_is_left_alone_until_it_is_taken(checkout):
    inside = start(f"exec {NAMESPACE} bash -c '. ci/activate && exec reframe -c checks/ -r -n FileCopy --repeat=9'", checkout)
    journals = checkout / 'results' / 'running'
    eventually(lambda: list(journals.glob('*.json')))
    session_id = next(journals.glob('*.json')).stem
    eventually(lambda: finished(checkout) >= 1)
    second = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    assert second.returncode == 4 and f'on {os.uname().nodename}): it is measuring now' in second.stderr
    taken = shell(f'. ci/activate && parity merge --recover {session_id}', checkout)
    assert taken.returncode == 4 and 'it is measuring now' in taken.stderr
    assert inside.poll() is None and processes_of(session_id)
    inside.kill()
    inside.communicate()
    eventually(lambda: not processes_of(session_id))
    done_before = finished(checkout)

    after = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    assert after.returncode == 0 and '(pid namespace ' in after.stderr and 'recovered' not in after.stderr
    assert f'parity merge --recover {session_id}' in after.stderr and [j.stem for j in journals.iterdir()] == [session_id]
    assert any('is left alone' in w for w in verdict_of(checkout)[1]['warnings'])
    taken = shell(f'. ci/activate && parity merge --recover {session_id[:6]}', checkout)
    assert taken.returncode == 0 and f'recovered {done_before} finished case' in taken.stdout, taken.stderr
    assert sum(bool(s['session_info'].get('interrupted')) for s in sessions_of(checkout)) == 1 and not list(journals.iterdir())
    again = shell(f'. ci/activate && parity merge --recover {session_id}', checkout)
    assert again.returncode == 2 and "is named '" in again.stderr and 'there: none' in again.stderr


@namespaces
def test_a_run_is_left_alone_by_one_in_another_pid_namespace(results):
    """There its number is another process's, or nobody's."""
    journal = results / 'running' / f'{journal_of(results, owner.current(), "local")}.json'
    code = f'{sys.executable} -c "from parity.session import recovery; recovery.recover_all()"'
    for proc in ('--mount-proc', ''):       # without it /proc shows the processes of the namespace above
        done = shell(f'unshare --pid --fork {proc} {code}', results)
        assert done.returncode == 0 and f'process {os.getpid()} on' in done.stderr and 'is left alone' in done.stderr
    assert journal.exists()


def test_a_session_that_runs_is_not_taken(results, capsys):
    session_id = journal_of(results, owner.current(), 'local')
    with pytest.raises(InfrastructureError, match=f'session {session_id} still runs: process {os.getpid()} on'):
        recovery.take(session_id)
    assert recovery.recover_all() == [] == recovery.warnings() and capsys.readouterr().err == ''


@pytest.mark.parametrize('arguments', ['', '--recover nosuch', '--recover ../../x', "--recover '*'"])
def test_what_is_no_session_to_recover_is_named(results, arguments):
    done = shell(f'{sys.executable} -m parity.cli merge {arguments}', TOP)
    assert done.returncode == 2 and 'Traceback' not in done.stderr and '--recover' in done.stderr + arguments


def test_the_session_of_another_host_whose_system_is_measured_is_no_leftover(results):
    """Where locks work between the hosts they tell that it runs."""
    elsewhere = dataclasses.replace(owner.current(), host='far', started='another-boot:1')
    journal_of(results, elsewhere, 'onebox')
    held = lock.of_system('onebox', 'reframe on onebox')
    read = [sys.executable, '-c', 'from parity.session import recovery; print(recovery.warnings())']
    with held.held():
        assert subprocess.check_output(read, text=True) == '[]\n' and recovery.warnings()
    assert 'on far, is left alone' in subprocess.check_output(read, text=True)


def test_a_file_system_without_locks_is_named(results, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOSYS, 'Function not implemented')
    monkeypatch.setattr(lock.fcntl, 'flock', refused)
    with pytest.raises(InfrastructureError, match='Function not implemented: results need a file system with locks'):
        lock.of_system('local', 'reframe on local').acquire()
