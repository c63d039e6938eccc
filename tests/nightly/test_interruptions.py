"""Runs that are killed, stopped, refused or find damage: nothing is lost, nothing passes silently."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import sessions
import slurm_site
import warm
from commands import parity, process
from conftest import PATIENCE, TOP, eventually, run_python
from jobs import finished, journal_of, sessions_of, start, verdict_of
from parity.base import files
from parity.base.errors import InfrastructureError
from parity.judge.store import incidents as table
from parity.judge.store import journals
from parity.judge.verdict import judge
from parity.measure.nodes import turns as node_turns
from parity.measure.session import recovery, runner
from parity.nightly import run as nightly_run
from parity.nightly.heartbeat import Heartbeat
from parity.nightly.notify import Notifier

#: How squeue is asked for the jobs of the user.
ASKED = f'-h -u {os.getuid()} -o %i|%Z'
#: One case, of a second; and its check alone, as loading all of them takes longer.
ONE = "--repeat=1 -n 'FileCopy.*small-write.*clients=one.*as-is'"
FILECOPY = 'reframe -c checks/storage/filecopy/filecopy.py -r'


def test_a_run_that_is_killed_was_disturbed_by_no_other_loses_no_finished_case_and_leaves_no_process(checkout):
    run = start(f". ci/activate && exec {FILECOPY} -n 'small-write.*as-is' --repeat=9", checkout)
    eventually(lambda: finished(checkout) >= 1)
    session_id = next((checkout / 'results' / 'running').glob('*.json')).stem
    os.killpg(run.pid, signal.SIGSTOP)      # it is there, however long they take
    for line in f'reframe -c checks/ -r {ONE}', f'ci/nightly {ONE}':
        refused = warm.line(checkout, line)
        assert refused.returncode == 4 and 'held by reframe on local' in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1 and 'Ran' not in refused.stdout
    os.killpg(run.pid, signal.SIGCONT)
    before = finished(checkout)
    eventually(lambda: finished(checkout) > before and recovery.processes_of(session_id))
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    done_before = finished(checkout)

    again = warm.line(checkout, f'{FILECOPY} {ONE}')
    assert f'session {session_id} was killed: recovered {done_before} finished case' in again.stderr + again.stdout
    assert not recovery.processes_of(session_id) and not list((checkout / 'results' / 'running').glob('*.json'))
    killed, _ = sessions_of(checkout)
    assert killed['session_info']['interrupted'] and [case['result'] for case in killed['runs'][0]['testcases']] == done_before * ['pass']
    code = warm.parity(checkout, f'verdict --session {killed["session_info"]["uuid"][:8]}')
    assert code.returncode == 3 and 'interrupted' in code.stdout and 'never ran' in code.stdout
    assert 'missing' not in verdict_of(checkout)[1]['counts']


def test_ctrl_c_on_a_nightly_keeps_what_had_finished(checkout):
    run = start("exec ci/nightly -n 'small-write.*as-is'", checkout)
    eventually(lambda: finished(checkout) >= 1)
    os.killpg(run.pid, signal.SIGINT)
    printed, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 4 and 'interrupted' in printed and 'Traceback' not in printed, printed[-2000:]
    words = [c['verdict'] for c in verdict_of(checkout)[1]['cells'] if c['value'] is not None]
    assert words and 'failed' not in words
    assert (checkout / 'results' / 'report' / 'index.html').is_file()
    assert not list((checkout / 'results' / 'running').glob('*.json')), 'its session is stored'


@pytest.mark.parametrize('number, limit, said', [
    (signal.SIGTERM, 7777, 'told to stop (SIGTERM)'), (None, 0.36, 'time limit of 0.0001 h reached')], ids=['SIGTERM', 'time limit'])
def test_a_nightly_that_is_stopped_ends_reframe_and_judges_what_had_finished(results, stored, monkeypatch, capsys, number, limit, said):
    begin, end = runner._start, runner._end

    def up(*given):
        process = begin(*given)
        if number:      # it comes while the run waits
            process.wait = lambda _: (vars(process).pop('wait'), signal.raise_signal(number))
        return process

    def ended(process):
        end(process)
        assert process.returncode == -signal.SIGTERM
        stored.add(sessions.ran(), plan=[sessions.planned(), sessions.planned('Later')], uuid='new')
    monkeypatch.setattr(runner, '_command', lambda _: ['sleep', '7777'])
    monkeypatch.setattr(runner, '_end', ended)
    monkeypatch.setattr(runner, '_start', up)
    code = nightly_run.judged(['-r'], limit, time.time(), Notifier('local', None), Heartbeat(['--system', 'local']))
    printed = capsys.readouterr()
    assert code == 4 and f'parity: {said}: what had finished is judged above' in printed.err
    assert {(c.case, c.verdict) for c in judge.newest('new').cells} >= {('Toy', 'unreferenced'), ('Later', 'missing')}
    ends = 'never here: waivers: (a code) or retired: (a case) in systems/local/system.yaml'
    assert (len(table.of_system('local')), ends in printed.out) == ((0, False) if number else (1, True)), 'an operator opens none'
    assert (results / 'report' / 'index.html').is_file() and not (results / 'state').exists(), 'no command for notices: nothing is stored'


@pytest.mark.parametrize('stopped, limit, code, turns', (
    ('rerun 1 of 1', 7777, 4, 0), ('nodes by turns', 7777, 4, 1), ('nodes by turns', -1, 0, 1), ('', 7777, 0, 1)))
def test_a_stop_ends_a_night_in_its_reruns_and_in_its_turns(results, stored, monkeypatch, stopped, limit, code, turns):
    """The time limit ends turns, too, and is no failure."""
    steps = []

    def reframe(arguments, seconds=None, step=''):
        steps.append(step)
        if not step:
            stored.add(sessions.ran(), plan=[sessions.planned()], uuid='new')
        return 'told to stop (SIGTERM)' if step and step == stopped else ''
    monkeypatch.setattr(runner, 'reframe', reframe)
    monkeypatch.setattr(nightly_run, 'runs', lambda *_: [['again']])
    monkeypatch.setattr(node_turns, 'by_turns', lambda system, arguments, night, seconds, suspects: reframe(arguments, seconds, 'nodes by turns'))
    ended = nightly_run.judged(['-r'], limit, time.time(), Notifier('local', None), Heartbeat(['--system', 'local']))
    assert (ended, steps.count('nodes by turns')) == (code, turns)


def test_sigterm_between_two_runs_of_reframe_ends_a_nightly_with_4(checkout):
    run = start('exec ci/nightly', checkout)
    beat = checkout / 'results' / 'heartbeat' / 'local.json'
    eventually(beat.is_file)
    os.kill(run.pid, signal.SIGTERM)
    printed, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 4 and 'parity: interrupted' in printed and json.loads(beat.read_text())['exit_code'] == 4, printed


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_nightly_with_4_wherever_it_arrives(results, tmp_path, number):
    """Here in code that Python makes from text, as it does for each dataclass."""
    (tmp_path / 'sitecustomize.py').write_text(
        'import sys\n'
        'class Finder:\n'
        '    def find_spec(self, name, *_):\n'
        "        if name == 'parity.nightly.guard':\n"
        f"            exec('import os; os.kill(os.getpid(), {int(number)})')\n"
        'sys.meta_path.insert(0, Finder())\n')
    done = subprocess.run([sys.executable, '-m', 'parity.nightly'], cwd=TOP, capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, 'PYTHONPATH': str(tmp_path)})
    beat = json.loads((results / 'heartbeat' / 'local.json').read_text())
    assert (done.returncode, beat['exit_code']) == (4, 4) and 'parity: interrupted' in done.stderr


def test_a_run_in_which_nothing_started_is_a_session_of_its_own(checkout):
    (checkout / 'checks' / 'x.py').write_text('import reframe\nimport nope\n')
    broken = warm.line(checkout, f'{FILECOPY} -c checks/x.py {ONE}')
    assert 'checks/x.py: cannot be loaded' in broken.stderr
    code, verdict = verdict_of(checkout)
    assert code == 2 and verdict['cells'] and any('checks/x.py' in w for w in verdict['warnings'])


@pytest.mark.parametrize('content', ['[]', '3', '{', '{"id": "x"}', ''])
def test_a_damaged_journal_is_moved_aside(results, content, capsys):
    journal = results / 'running' / 'x.json'
    journal.parent.mkdir()
    journal.write_text(content)
    assert recovery.recover_all() == [] == journals.warnings()
    assert f'{journal} is no journal of a session: moved to x.json.bad' in capsys.readouterr().err
    assert journal.with_name('x.json.bad').read_text() == content and not journal.exists()


def test_a_killed_run_is_recovered_where_no_system_is_called_local(checkout, monkeypatch):
    monkeypatch.setenv('PATH', f'{slurm_site.install(checkout / "bin", {"squeue": {ASKED: ""}})}:{os.environ["PATH"]}')
    for name in os.listdir(checkout / 'systems'):
        if name != 'onebox':
            (checkout / 'systems' / name).rename(checkout / name)
    session_id = journal_of(checkout / 'results', 'onebox')
    done = run_python('from parity.measure.session import recovery; print(recovery.recover_all())\n'
                      'from reframe.core import runtime; print(runtime.runtime())', checkout)
    assert f'session {session_id} was killed: recovered 0 finished cases' in done.stdout, done.stderr
    assert len(sessions_of(checkout)) == 1 and not list((checkout / 'results' / 'running').iterdir())
    # ReFrame makes a runtime only where there is none: it would be of the system of the recovered run
    assert 'no runtime context is configured' in done.stderr


def test_the_jobs_that_a_killed_run_left_in_the_queue_are_cancelled(results, monkeypatch, capsys):
    """A scheduler that does not answer is asked by the next run; jobs of another session, and others, are left alone."""
    session_id = journal_of(results, 'onebox')
    for folder, number in (('ours', session_id), ('theirs', 'x' + session_id[1:])):
        (results / 'stage' / folder).mkdir(parents=True)
        (results / 'stage' / folder / 'rfm_job.sh').write_text(f'#!/bin/bash\nexport PARITY_SESSION={number}\n')
    stage, told = results / 'stage', []
    for commands in ({'squeue': {}}, {'squeue': {ASKED: f'7|{stage}/ours\n8|{stage}/theirs\n9|/home/x\n'}, 'scancel': {'7': ''}}):
        monkeypatch.setenv('PATH', f'{slurm_site.install(results / "bin", commands)}:/usr/bin:/bin')
        told += recovery.recover_all()
    first, second = told
    assert 'was killed: recovered 0' in first and 'the next run cancels the jobs that it may have left in the queue: squeue: ' in first
    assert second == f'session {session_id} was complete; cancelled 1 job that it had left in the queue'
    assert not list((results / 'running').iterdir())


def test_a_run_of_another_host_is_left_alone_until_it_is_taken(results, stored):
    """Where locks work between the hosts they tell that it runs."""
    stored('a', sessions.ran())
    session_id = journal_of(results, 'local', 'far')
    assert recovery.recover_all() == []
    warning, = (w for w in judge.newest('a').warnings if 'is left alone' in w)
    assert ' on far, ' in warning and f'parity merge --recover {session_id}' in warning
    with files.lock_of('local', 'reframe on local').held():
        refused = process('merge', '--recover', session_id)
        assert refused.returncode == 4 and 'it is measuring now' in refused.stderr
        read = [sys.executable, '-c', 'from parity.judge.store import journals; print(journals.warnings())']
        assert subprocess.check_output(read, text=True) == '[]\n' and journals.warnings()
    taken = parity('merge', '--recover', session_id)
    assert taken.returncode == 0 and 'recovered 0 finished cases' in taken.stdout and not list((results / 'running').iterdir()), taken.stderr


@pytest.mark.parametrize('name', ['nosuch', '../../x', '*'])
def test_what_is_no_session_to_recover_is_named(results, name):
    done = parity('merge', '--recover', name)
    assert done.returncode == 2 and f"0 sessions are named '{name}'" in done.stderr and 'valid: none was killed' in done.stderr
    assert parity('merge').returncode == 2


def test_a_file_system_without_locks_is_named(results, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOSYS, 'Function not implemented')
    monkeypatch.setattr(files.fcntl, 'flock', refused)
    with pytest.raises(InfrastructureError, match='Function not implemented: results need a file system with locks'):
        files.lock_of('local', 'reframe on local').acquire()


#: ReFrame's log of a session that it gave up.
LOG = ("[2026-11-21T17:03:38.80] error: reframe: \x1b[31mERROR: run session stopped: spawned process error: command 'sacct -P -j 98' failed with exit code 1:\n"
       '--- stdout ---\n\n--- stdout ---\n--- stderr ---\nsacct: error: Problem talking to the database: Connection refused\n--- stderr ---\x1b[0m\n'
       "[2026-11-21T17:03:38.82] info: reframe: Log file(s) saved in 'x'\n")
STOPPED = 'ReFrame stopped before it ended'


@pytest.mark.parametrize('age, said', [
    (0, f"{STOPPED}: spawned process error: command 'sacct -P -j 98' failed with exit code 1:; sacct: error: Problem talking to the database: Connection refused"),
    (86400, STOPPED)])      # the log is that of a later run
def test_the_cases_of_a_run_that_was_given_up_failed_for_its_reason(tmp_path, age, said):
    log = tmp_path / 'reframe.log'
    log.write_text(LOG)
    report = sessions.report([sessions.ran(), {**sessions.ran('Other'), 'result': '<unknown>', 'perfvalues': {}, 'parity': {}}],
                             [sessions.planned(), sessions.planned('Other')], log_files=[str(log)], time_end_unix=log.stat().st_mtime - age)
    verdict = sessions.verdict_on(report)
    assert {(c.case, c.verdict, c.reason) for c in verdict.cells} == {('Toy', 'unreferenced', ''), ('Other', 'failed', said)}
    assert verdict.exit_code == 4
