"""The progress of a run: how far it is, when it will end, what waits; ReFrame as a process that is followed and ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from conftest import TOP, eventually
from parity.base import console
from parity.measure.scheduler import command
from parity.measure.session import progress, runner
from parity.measure.session.progress import Progress
from stored import case

RUN = '[ \x1b[32mRUN     \x1b[0m ] Stream %threads={} %.repeat_no=0 /5e9ecbc{} @local:default+distro\n'
OK = '[ \x1b[32m      OK\x1b[0m ] ({:>2}/{}) Stream %threads={} %.repeat_no=0 /5e9ecbc{} @local:default+distro\n'
SKIP = '[     SKIP ] ({:>3}/{}) Npb %c=A /bb{} @local:default+distro [no reason]\n'


def begun(folder, cases: int = 0, usual: dict | None = None, step: str = '') -> Progress:
    """The progress of a run since 0.0 whose cases 1..``cases`` have begun; ``usual``: seconds by number."""
    state = Progress(folder, 0.0, {f'Stream %threads={n} @local:default+distro': seconds for n, seconds in (usual or {}).items()}, step)
    for n in range(1, cases + 1):
        state.read(RUN.format(n, n), 1.0)
    return state


def end(state, number, total, now):
    state.read(OK.format(number, total, number, number), now)


def skip(state, first, last, total, now):
    for number in range(first, last + 1):
        state.read(SKIP.format(number, total, number), now)


def stage(folder, number, **standing):
    """What the job of a case has in its stage directory: its output, or the scheduler's word."""
    own = folder / 'local' / 'default' / 'distro' / f'Stream_5e9ecbc{number}'
    own.mkdir(parents=True, exist_ok=True)
    (own / (command.FILE if standing else 'rfm_job.out')).write_text(json.dumps(standing))
    (own / 'rfm_job.sh').touch()
    os.utime(own / 'rfm_job.sh', (2.5, 2.5))


def test_a_case_runs_once_its_job_has_an_output_and_what_has_ended_is_counted(tmp_path):
    state = begun(tmp_path, 2)
    assert state.line(2.0) == 'nothing done yet'
    stage(tmp_path, 2)
    assert state.line(3.0) == 'nothing done yet; running: Stream %threads=2 (0.5 s)' and state.line(92.5).endswith('running: Stream %threads=2 (90 s)')
    for line in ('[==========] Running 3 check(s)\n', OK.format(1, 3, 2, 2), '[     FAIL ] ( 2/3) Hpl /aa @local:default+spack\n',
                 '[  PASSED  ] Ran 3/3 test case(s)\n', '[     SKIP ] (3/3) Npb %c=A /bb @a:b+c [why]\n'):
        state.read(line, 5.0)
    assert state.line(5.0) == '3 of 3 done' and state.last == 5.0


def test_a_case_without_parameters_is_named_though_its_folder_has_no_digest(tmp_path):
    state = begun(tmp_path)
    state.read('[ RUN      ] Hpcc %size=quick /5e9ecbc1 @local:default+distro\n', 1.0)
    stage(tmp_path, 1)
    (tmp_path / 'local' / 'default' / 'distro' / 'Stream_5e9ecbc1').rename(tmp_path / 'local' / 'default' / 'distro' / 'Hpcc')
    assert state.line(3.0).endswith('running: Hpcc %size=quick (0.5 s)')


def test_a_case_that_waits_in_a_queue_is_told_with_the_time_and_the_scheduler_s_reason(tmp_path):
    state = begun(tmp_path, 5, {1: 1.2})
    stage(tmp_path, 1, waits=True, since=400.0, reason='Not Running: Dedicated time conflict')
    assert state.line(1000.0) == ('nothing done yet; about 1.2 s left, once a job starts, and 4 new cases; waiting in the queue: '
                                  'Stream %threads=1 (10 min, Not Running: Dedicated time conflict)')
    stage(tmp_path, 1, waits=False, since=1000.0, reason='pbs1 is down (communication closed)')
    assert state.line(1010.0).endswith('running: Stream %threads=1 (10 s, pbs1 is down (communication closed))')
    for n in range(1, 6):
        stage(tmp_path, n, waits=True, since=1000.0 - n, reason='Resources')
    waits = state.line(1000.0)
    assert 'queue: Stream %threads=5 (5.0 s, Resources), ' in waits and waits.endswith('Stream %threads=3 (3.0 s, Resources), 2 more')


def test_a_wait_is_told_once_it_is_long_and_again_when_its_reason_changes(tmp_path, capsys):
    turns = [(True, 5, 'Priority'), (True, 90, 'Priority'), (True, 90, 'Priority'), (True, 90, 'Licenses'), (False, 5, ''), (False, 5, 'pbs1 is down')]

    def ended(_):
        if turns:
            waits, seconds, reason = turns.pop(0)
            stage(tmp_path, 1, waits=waits, since=time.time() - seconds, reason=reason)
            return False
        return True
    state = begun(tmp_path, 1)
    console.print_often(lambda: (0, 1, state.line(time.time())), ended, state.news)
    found = re.findall(r'^parity: nothing done yet; (.*): Stream %threads=1 \((\d+).* s, (.*)\)$', capsys.readouterr().out, re.M)
    assert found == [('waiting in the queue', '5', 'Priority'), ('waiting in the queue', '90', 'Priority'),
                     ('waiting in the queue', '90', 'Licenses'), ('running', '5', 'pbs1 is down')]


#: Seconds that cases 1, 2, 3 took before.
THEN = {1: 10.0, 2: 30.0, 3: 60.0}


@pytest.mark.parametrize('usual, events, running, now, left', [
    (THEN, [], None, 4.0, 100.0), (THEN, [], 1, 4.0, 96.0), (THEN, [], 1, 5000.0, 90.0),       # a slow case leaves the others their time
    (THEN, [(end, 1, 3, 20.0)], None, 20.0, 180.0), (THEN, [(end, 1, 3, 5.0)], None, 5.0, 45.0),      # at the pace of what has ended
    (THEN, [(end, 1, 3, 10.0), (end, 2, 3, 40.0), (end, 3, 3, 100.0)], None, 100.0, None), ({}, [(end, 1, 40, 10.0)], None, 10.0, None),
    ({2: 7.0}, [(skip, 1, 90, 100, 1.0)], None, 1.0, 7.0)])
def test_what_is_left_is_what_the_open_cases_took_before_at_today_s_pace(tmp_path, usual, events, running, now, left):
    state = begun(tmp_path, 3, usual)
    for happened, *given in events:
        happened(state, *given)
    if running:
        stage(tmp_path, running, waits=False, since=0.0)
        state.line(now)                                   # it looks at the stage directories
    assert state.left(now) == (left and pytest.approx(left)) and (', until ' in state.line(now)) is bool(left)
    assert begun(tmp_path, step='rerun 1 of 2').line(0.0) == 'rerun 1 of 2: nothing done yet'


def test_the_usual_time_of_a_case_is_the_median_of_its_runs(stored):
    assert progress.usual('local') == {}
    for seconds in (10.0, 20.0, 60.0):
        stored.add(case(parity={'job': {'submitted': 1.0, 'waited': 500.0, 'ran': seconds}}))
    assert progress.usual('local') == {'Toy @local:default+distro': 20.0}


def test_what_is_printed_is_handed_on_and_an_output_that_stays_open_is_not_waited_for(results, monkeypatch, capfd):
    monkeypatch.setattr(runner, 'REST_SECONDS', 0.2)
    monkeypatch.setattr(console, 'LOOK_SECONDS', 0.01)
    monkeypatch.setattr(runner, '_command', lambda _: ['bash', '-c', 'echo said; sleep 7777 &'])
    assert runner.reframe(['-r'], 7777) == '' and threading.active_count() > 1
    said = ''

    def printed():
        nonlocal said
        said += capfd.readouterr().out
        return sorted(said.splitlines()) == ['parity: nothing done yet', 'said']
    eventually(printed)


def test_a_reframe_that_does_not_heed_a_signal_is_killed(monkeypatch):
    """Told by a Ctrl-C, told again, killed."""
    monkeypatch.setattr(runner, 'GRACE_SECONDS', 0.1)
    process = subprocess.Popen(['bash', '-c', 'trap "" TERM; echo up; sleep 7777'], stdout=subprocess.PIPE)
    process.stdout.readline()
    runner._end(process, 0.1)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize('given', ('', '/their/settings.py'))
def test_reframe_reads_our_settings_unless_others_are_given(results, monkeypatch, capfd, given):
    monkeypatch.delenv('RFM_CONFIG_FILES', raising=False)
    if given:
        monkeypatch.setenv('RFM_CONFIG_FILES', given)
    monkeypatch.setattr(runner, '_command', lambda _: ['bash', '-c', 'echo "$RFM_CONFIG_FILES"'])
    assert runner.reframe(['-r']) == '' and (given or str(TOP / 'reframe' / 'settings.py')) in capfd.readouterr().out


def test_what_is_not_shown_is_read_to_its_end_and_printed_nowhere(capfd):
    import subprocess
    process = subprocess.Popen(['bash', '-c', 'for i in {1..20000}; do echo "line $i"; done'], stdout=subprocess.PIPE, text=True)
    progress.follow(process, [], 'turn 1', shown=False).join(60)
    assert process.wait(60) == 0 and capfd.readouterr().out == ''
