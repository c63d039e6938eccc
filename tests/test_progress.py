"""How far a run is: what runs, what is left, when it will end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

import sessions as made
from parity.nightly import follow, progress
from parity.nightly.progress import Earlier, Progress
from parity.records import outset, record
from parity.scheduler import command

RUN = '[ \x1b[32mRUN     \x1b[0m ] Stream %threads={} %.repeat_no=0 /5e9ecbc{} @local:default+distro\n'
OK = '[ \x1b[32m      OK\x1b[0m ] ({:>2}/{}) Stream %threads={} %.repeat_no=0 /5e9ecbc{} @local:default+distro\n'


def _progress(tmp_path, **given):
    return Progress(tmp_path, began=0.0, **given)


def _end(state, number, total, now):
    state.read(OK.format(number, total, number, number), now)


def test_lines_of_reframe_are_counted_with_and_without_colours(tmp_path):
    state = _progress(tmp_path)
    for line in ('[==========] Running 3 check(s)\n', RUN.format(1, 1), OK.format(1, 3, 1, 1),
                 '[     FAIL ] ( 2/3) Hpl /aa @local:default+spack\n', '[  PASSED  ] Ran 3/3 test case(s)\n',
                 '[     SKIP ] (3/3) Npb %c=A /bb @a:b+c [why]\n'):
        state.read(line, 5.0)
        assert state.told(5.0, 0.0)
    assert (state.done, state.total, state.left(5.0)) == (3, 3, 0.0)
    assert state.told(5.0, 0.0) == '3 of 3 done'


def test_a_case_runs_once_its_job_has_an_output(tmp_path):
    state = _progress(tmp_path)
    for n in (1, 2):
        state.read(RUN.format(n, n), 1.0)
    assert state.running(2.0) == []
    folder = tmp_path / 'local' / 'default' / 'distro' / 'Stream_5e9ecbc2'
    folder.mkdir(parents=True)
    (folder / 'rfm_job.out').touch()
    assert state.running(3.0) == ['Stream %threads=2 (0.0 s)']
    assert state.running(93.0) == ['Stream %threads=2 (90 s)']
    _end(state, 2, 2, 100.0)
    assert state.running(101.0) == []


def _queue(tmp_path, number, **standing):
    folder = tmp_path / 'local' / 'default' / 'distro' / f'Stream_5e9ecbc{number}'
    folder.mkdir(parents=True, exist_ok=True)
    (folder / command.FILE).write_text(json.dumps(standing))


def test_a_case_that_waits_in_a_queue_is_told_with_the_time_and_the_scheduler_s_reason(tmp_path):
    state = _progress(tmp_path, earlier=Earlier(1.2, [1.2]))
    state.read(RUN.format(1, 1), 1.0)
    _queue(tmp_path, 1, waits=True, since=400.0, reason='Not Running: Dedicated time conflict')
    assert state.told(2.0, 1000.0) == ('nothing done yet; about 1.2 s left, once a job starts; waiting in the queue: '
                                       'Stream %threads=1 (10 min, Not Running: Dedicated time conflict)')
    _queue(tmp_path, 1, waits=False, since=1000.0, reason='')
    assert state.running(50.0) == ['Stream %threads=1 (0.0 s)'] and state.waiting(50.0, 1000.0) == []
    _queue(tmp_path, 1, waits=False, since=1000.0, reason='pbs1 is down (communication closed)')
    assert state.running(60.0) == ['Stream %threads=1 (10 s, pbs1 is down (communication closed))']


def test_many_that_wait_are_counted(tmp_path):
    state = _progress(tmp_path)
    for n in range(5):
        state.read(RUN.format(n, n), 1.0)
        _queue(tmp_path, n, waits=True, since=100.0 - n, reason='Resources')
    waits = state.waiting(2.0, 100.0)
    assert waits[0] == 'Stream %threads=4 (4.0 s, Resources)' and waits[3:] == ['2 more']


def test_a_wait_is_told_once_it_is_long_and_again_when_its_reason_changes(tmp_path):
    state = _progress(tmp_path)
    state.read(RUN.format(1, 1), 1.0)
    _queue(tmp_path, 1, waits=True, since=0.0, reason='Priority')
    assert state.held_up(1.0, 59.0, 60.0) == set() and state.held_up(1.0, 60.0, 60.0) == {'Priority'}
    _queue(tmp_path, 1, waits=False, since=61.0, reason='')
    assert state.held_up(1.0, 200.0, 60.0) == set()
    _queue(tmp_path, 1, waits=False, since=61.0, reason='pbs1 is down (communication closed)')
    assert state.held_up(1.0, 62.0, 60.0) == {'pbs1 is down (communication closed)'}


def test_a_line_tells_of_a_wait_before_its_time(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(follow, '_LOOK_SECONDS', 0.0)
    _queue(tmp_path, 1, waits=True, since=0.0, reason='Licenses')
    follow._in_lines(iter([RUN.format(1, 1), '', '']), _progress(tmp_path))
    assert capfd.readouterr().out.count('waiting in the queue: Stream %threads=1') == 1


def test_what_is_left_is_what_was_left_of_the_session_before(tmp_path):
    state = _progress(tmp_path, earlier=Earlier(110.0, [10.0, 40.0, 100.0]))
    assert state.left(0.0) == 110.0 and state.left(4.0) == 106.0
    _end(state, 1, 3, 20.0)         # it took twice as long as then
    assert state.left(20.0) == 100.0
    _end(state, 2, 3, 50.0)
    assert state.left(60.0) == 60.0


def test_a_case_that_takes_longer_than_then_leaves_the_others_their_time(tmp_path):
    state = _progress(tmp_path, earlier=Earlier(110.0, [10.0, 40.0, 100.0]))
    assert state.left(5000.0) == 100.0


def test_three_repeats_take_three_times_as_long_as_one(tmp_path):
    state = _progress(tmp_path, earlier=Earlier(100.0, [50.0, 100.0]))
    _end(state, 3, 6, 150.0)
    assert state.left(150.0) == pytest.approx(150.0)


def test_without_an_earlier_session_the_pace_is_told_when_it_is_known(tmp_path):
    state = _progress(tmp_path)
    assert state.left(1.0) is None and state.told(1.0, 0.0) == 'nothing done yet'
    _end(state, 1, 40, 10.0)
    assert state.left(10.0) is None
    _end(state, 10, 40, 100.0)
    assert state.left(100.0) == 300.0
    assert state.told(100.0, 0.0).startswith('10 of 40 done; about 5 min left, until ')


SKIP = '[     SKIP ] ({:>3}/{}) Npb %c=A /bb{} @local:default+distro [no reason]\n'


def _skip(state, first, last, total, now):
    for number in range(first, last + 1):
        state.read(SKIP.format(number, total, number), now)


def test_skipped_cases_take_no_time_that_is_left(tmp_path):
    """Of 100 cases 90 are skipped in the first second: the 10 that run take all of the time."""
    state = _progress(tmp_path)
    _skip(state, 1, 90, 100, 1.0)
    assert state.left(1.0) is None
    _end(state, 91, 100, 60.0)
    assert state.left(60.0) == 540.0 and state.left(70.0) == 530.0
    then = Earlier(600.0, [60.0 * n for n in range(1, 11)], skipped=90)
    for order in ('first', 'last'):
        state = _progress(tmp_path, earlier=then)
        assert state.left(0.0) == 600.0
        if order == 'first':
            _skip(state, 1, 90, 100, 1.0)
        _end(state, 91 if order == 'first' else 1, 100, 60.0)
        assert state.left(60.0) == 540.0 and not state.late(60.0)
        if order == 'last':
            _skip(state, 2, 91, 100, 61.0)
            assert state.left(61.0) == 539.0


def test_more_cases_than_last_time_are_skipped(tmp_path):
    state = _progress(tmp_path, earlier=Earlier(100.0, [50.0, 100.0]))
    _skip(state, 1, 1, 2, 0.0)
    assert state.left(0.0) == pytest.approx(50.0)


def test_a_run_that_is_late_says_so_and_names_no_end(tmp_path):
    state = _progress(tmp_path, earlier=Earlier(110.0, [10.0, 40.0, 110.0]))
    assert ', until ' in state.told(9.0, 0.0)
    assert state.told(5000.0, 0.0) == 'nothing done yet; longer than last time, at least 2 min left'
    _end(state, 1, 3, 10.0)
    _end(state, 2, 3, 40.0)
    assert ', until ' in state.told(100.0, 0.0)
    assert state.told(900.0, 0.0) == '2 of 3 done; longer than last time'
    alone = _progress(tmp_path)
    _end(alone, 2, 3, 20.0)
    assert ', until ' in alone.told(25.0, 0.0) and alone.told(900.0, 0.0) == '2 of 3 done'


def test_cases_begin_and_end_while_another_thread_looks_at_them(tmp_path):
    state = _progress(tmp_path)
    numbers = iter(range(1000))

    class Stage:
        """Looking at a case's folder lets the reading thread go on."""
        def glob(self, pattern):
            reader = threading.Thread(target=lambda: state.read(RUN.format(0, next(numbers)), 1.0))
            reader.start()
            reader.join()
            return iter(())

    for n in range(3):
        state.read(RUN.format(n, f'f{n}'), 1.0)
    state.stage = Stage()
    assert state.told(2.0, 0.0) == 'nothing done yet'


def test_a_session_tells_when_its_cases_ended():
    skipped = made.report([made.ran(job_completion_time_unix=1795190060.0), made.ran(result='skip')], [])
    assert progress.of_session(record.of_report(skipped)) == Earlier(100.0, [60.0], 1)
    told = made.report([made.ran(job_completion_time_unix=1795190060.0), made.ran(job_completion_time_unix=None)], [])
    assert progress.of_session(record.of_report(told)) == Earlier(100.0, [0.0, 60.0])


def test_the_time_that_a_session_s_jobs_waited_is_no_time_that_is_left():
    job = {'submitted': 1795190000.0, 'waited': 3600.0, 'ran': 10.0}
    after = {'submitted': 1795193610.0, 'waited': 20.0, 'ran': 30.0}
    told = made.report([made.ran(parity={'job': job}), made.ran(parity={'job': after}), made.ran(parity={'job': after | {'ran': 5.0}}),
                        made.ran(parity={'job': {}})], [], time_elapsed=3700.0)
    assert progress.of_session(record.of_report(told)) == Earlier(80.0, [0.0, 10.0, 15.0, 40.0])


def test_everything_printed_is_handed_on_and_a_line_told_now_and_then(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(follow, 'EVERY_SECONDS', 0.0)
    code = f'print({OK.format(1, 2, 1, 1)!r}, end=""); print("last, without an end", end="")'
    process = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)
    follow._in_lines(follow._lines(process.stdout), _progress(tmp_path))
    process.wait()
    said = capfd.readouterr().out
    assert '1/2) Stream %threads=1' in said and 'parity: 1 of 2 done' in said and 'last, without an end' in said


def test_a_process_that_holds_the_output_open_is_not_waited_for(results, monkeypatch):
    monkeypatch.setattr(follow, '_REST_SECONDS', 0.2)
    process = subprocess.Popen(['bash', '-c', 'sleep 7777 & echo said'], stdout=subprocess.PIPE)
    following = follow.Follower(process, ['-r'])
    process.wait()
    following.end()
    assert threading.active_count() > 1


@pytest.mark.parametrize('one, other, same', [
    (['-c', '/a/checks', '-r'], ['-r', '-c', 'checks/'], True),
    (['-c', 'checks', '-r', '--repeat=3'], ['-c', 'checks', '-r', '--repeat', '5'], True),
    (['-c', 'checks', '-r'], ['-c', 'checks', '-r', '-n', 'Hpl'], False),
    (['-c', 'checks', '-r'], ['-c', 'checks/memory', '-r'], False),
    (['-c', 'checks', '-r', '-S', 'size=quick'], ['-c', 'checks', '-r', '-S', 'size=nightly'], False),
])
def test_which_options_select(one, other, same):
    assert (outset.of_arguments(one) == outset.of_arguments(other)) is same
