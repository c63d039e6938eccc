"""Runs that are killed, stopped, refused or find damage: nothing is lost, nothing passes silently."""

from __future__ import annotations

import json
import os
import signal

import pytest

from conftest import run_python, shell
from jobs import QUICK, finished, processes_of, sessions_of, start, verdict_of, wait_for
from parity.session import recovery


def test_a_killed_run_loses_no_finished_case_and_leaves_no_process(checkout):
    run = start('. ci/activate && exec reframe -c checks/ -r -n FileCopy --repeat=9', checkout)
    journals = checkout / 'results' / 'running'
    wait_for(lambda: list(journals.glob('*.json')))
    session_id = next(journals.glob('*.json')).stem
    wait_for(lambda: finished(checkout) >= 1, 120)
    wait_for(lambda: processes_of(session_id), 30)
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
    wait_for(lambda: finished(checkout) >= 1, 120)
    os.killpg(run.pid, signal.SIGINT)
    printed, _ = run.communicate(timeout=90)
    assert run.returncode == 4, printed[-2000:]
    assert 'interrupted' in printed and 'Traceback' not in printed
    words = [c['verdict'] for c in verdict_of(checkout)[1]['cells'] if c['value'] is not None]
    assert words and 'failed' not in words
    assert (checkout / 'results' / 'report' / 'index.html').is_file()


def test_a_second_nightly_is_refused_while_one_runs(checkout):
    run = start(f'exec ci/nightly {QUICK}', checkout)
    wait_for(lambda: (checkout / 'results' / '.nightly.lock').exists())
    second = shell('ci/nightly --dry-run', checkout)
    run.communicate(timeout=120)
    assert second.returncode == 4 and 'ci/nightly (pid' in second.stderr and 'Traceback' not in second.stderr


def test_the_time_limit_ends_the_run_and_keeps_what_had_finished(checkout):
    done = shell('ci/nightly --time-limit 0.003 -n FileCopy --repeat=9', checkout)
    assert done.returncode == 4, done.stdout[-1500:] + done.stderr
    assert 'time limit of 0.003 h reached' in done.stderr


def test_a_second_run_is_refused_before_it_touches_the_first(checkout):
    first = start('. ci/activate && exec reframe -c checks/ -r -n FileCopy', checkout)
    wait_for(lambda: finished(checkout) >= 1, 120)
    second = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    nightly = shell(f'ci/nightly {QUICK}', checkout)
    printed, _ = first.communicate(timeout=120)
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
    assert recovery.interrupted() == []
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


def journal_of_a_killed_run(results, system: str, **other) -> str:
    """Leave behind what a killed run of ``system`` leaves; returns the id of its session."""
    state = {'id': 'abcdef012345', 'pid': 1, 'started': 'another-boot:1', 'time_start_unix': 1795190000.0,
             'argv': ['reframe', '-r'], 'system': system, 'session': {'id': 'abcdef012345', 'facts': {}, 'announcement': '',
             'plan': {'system': system, 'providers': [], 'cases': [], 'checks': [], 'problems': []}}}
    (results / 'running').mkdir(parents=True, exist_ok=True)
    (results / 'running' / f'{state["id"]}.json').write_text(json.dumps(state | other))
    return state['id']


def test_a_killed_run_is_recovered_where_no_system_is_called_local(checkout):
    for name in os.listdir(checkout / 'systems'):
        if name != 'onebox':
            (checkout / 'systems' / name).rename(checkout / name)
    session_id = journal_of_a_killed_run(checkout / 'results', 'onebox')
    done = run_python('from parity.session import recovery; print(recovery.recover_all())', checkout)
    assert f'session {session_id} was killed: recovered 0 finished cases' in done.stdout, done.stderr
    assert len(sessions_of(checkout)) == 1 and not list((checkout / 'results' / 'running').iterdir())


def test_a_run_that_recovers_another_makes_its_own_runtime(results):
    """ReFrame makes one only where there is none: it would be of the system of the recovered run."""
    journal_of_a_killed_run(results, 'local')
    done = run_python('from parity.session import recovery; recovery.recover_all()\n'
                      'from reframe.core import runtime; print(runtime.runtime())', results)
    assert 'no runtime context is configured' in done.stderr and 'was killed' in done.stderr
