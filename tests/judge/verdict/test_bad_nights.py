"""Bad nights: one is `once`, the second is a slowdown from the first one on. Small slowdowns are a state."""

from __future__ import annotations

import random

import pytest

import sessions as made
from commands import parity
from nights import start
from parity.base.errors import UsageError
from parity.judge.report import answer
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import cause, incidents, judge
from parity.judge.verdict.acks import LASTING
from parity.site import systems
from stored import case, day

REFS = {'refs': {'hpl': (100.0, -0.05, 0.05)}}
#: Nights that flap so often that chance explains a low one to the history.
FLAPPING = [100, 50, 100, 100, 50, 50, 100, 100, 50] * 4


def store(stored, nights: list[float], rerun: bool = True, seed: int = 1) -> None:
    """Store nights of three runs; those below the bound were run again, and were as low."""
    noise = random.Random(seed)

    def fill() -> None:
        for level in nights:
            uuid = stored.add(*[case(level * noise.gauss(1, 0.003), **REFS) for _ in range(3)])
            if level < 95 and rerun:
                stored.add(*[case(level * noise.gauss(1, 0.003), **REFS) for _ in range(3)], **{RERUN_OF: uuid})
    stored.once(f'{nights} {rerun} {seed} {REFS}', fill)


def tonight(stored, level: float, again: float | None = None):
    """Return the cell of a further night, and the verdict on it."""
    uuid = stored.add(*[case(level, **REFS)] * 3)
    if again is not None:
        stored.add(*[case(again, **REFS)] * 3, **{RERUN_OF: uuid})
    verdict = judge.newest(uuid)
    return next(cell for cell in verdict.cells if cell.metric == 'hpl'), verdict


@pytest.mark.parametrize('nights', [FLAPPING, [*FLAPPING, 100.0, 100.0]])
def test_a_fall_that_reruns_confirm_is_red_where_the_cell_fell_before_and_says_that_it_comes_and_goes(stored, site, nights):
    store(stored, nights)
    cell, verdict = tonight(stored, 50.0, 50.0)
    assert (cell.verdict, cell.state, verdict.exit_code) == ('regressed', 'comes and goes', 1), cell.reason
    assert 'comes and goes: ' in cell.reason and 'chance' not in cell.reason
    cell, verdict = tonight(stored, 100.0)
    assert (cell.verdict in ('ok', 'blind'), cell.state in LASTING, verdict.exit_code) == (True, True, 0), cell.reason


def test_the_first_fall_is_once_and_each_one_after_it_is_red(stored, site):
    store(stored, [100.0] * 12)
    words = []
    for level in (50.0, 100.0, 100.0, 50.0, 100.0, 100.0, 50.0):
        cell, verdict = tonight(stored, level, level if level < 95 else None)
        words.append((cell.verdict == 'regressed', verdict.exit_code, bool(cell.once)))
    good, red = (False, 0, False), (True, 1, False)
    assert words == [(False, 0, True), good, good, red, good, good, red]


def test_the_first_fall_of_a_noisy_cell_is_a_line_and_the_second_is_red(stored, site, monkeypatch):
    monkeypatch.setitem(REFS, 'refs', {'hpl': (100.0, -0.32, 0.4)})
    store(stored, [75.0, 100.0, 135.0, 115.0, 87.0] * 8, rerun=False)
    cell, verdict = tonight(stored, 65.0)
    assert (verdict.exit_code, cell.once) == (0, pytest.approx(0.35)) and 'not run again' in cell.reason, cell.reason
    tonight(stored, 100.0)
    cell, verdict = tonight(stored, 65.0, 65.0)
    assert (verdict.exit_code, cell.once) == (0, pytest.approx(0.35)) and 'a slowdown if it comes again' in cell.reason
    assert any(text.startswith('once') and '35 %' in text for text, _ in answer.lines(verdict))
    tonight(stored, 100.0)
    cell, verdict = tonight(stored, 65.0, 65.0)
    assert (cell.verdict, cell.state, verdict.exit_code) == ('regressed', 'comes and goes', 1), cell.reason
    assert f'comes and goes: 2 spells since {day(42)}' in cell.reason


def test_a_fall_that_reruns_contradict_is_none(stored, site):
    store(stored, FLAPPING)
    tonight(stored, 100.0)
    cell, verdict = tonight(stored, 50.0, 100.0)
    assert (cell.verdict in ('ok', 'blind'), verdict.exit_code) == (True, 0), cell.reason


@pytest.mark.parametrize('level', [100.0, 95.5, 104.0])
def test_a_night_within_its_bound_is_never_regressed_after_bad_ones(stored, site, level):
    store(stored, [100.0] * 30 + [50.0] * 2)
    assert judge.newest(stored_last(stored)).exit_code == 1
    for _ in range(2):
        cell, verdict = tonight(stored, level)
        assert (cell.verdict in ('ok', 'blind'), verdict.exit_code) == (True, 0), cell.reason
    assert 'tonight is within it' in cell.reason or cell.state == 'normal'


def stored_last(stored) -> str:
    """Return the newest session that is no rerun."""
    return [uuid for uuid, blob in stored.database.execute('SELECT uuid, json_blob FROM sessions') if RERUN_OF not in blob][-1]


def test_a_fall_of_long_ago_tells_nothing(stored, site):
    store(stored, [100.0] * 12 + [90.0] + [100.0] * 70)
    cell, verdict = tonight(stored, 94.0, 94.0)
    assert cell.state != 'comes and goes', cell.reason
    cell, _ = tonight(stored, 100.0)
    assert cell.state == 'normal'


@pytest.mark.parametrize('own, word', [(50.0, 'regressed'), (100.0, 'ok')])
@pytest.mark.usefixtures('red_at_once')
def test_reruns_on_other_nodes_contradict_no_fall_of_this_one(stored, site, own, word):
    store(stored, [100.0] * 20)
    uuid = stored.add(*[case(50.0, **REFS)] * 3)
    stored.add(case(own, **REFS), *[case(100.0, job_nodelist=['other'], **REFS)] * 2, **{RERUN_OF: uuid})
    cell = next(cell for cell in judge.newest(uuid).cells if cell.metric == 'hpl')
    assert cell.verdict == word, cell.reason


def test_a_count_beyond_a_bound_of_0_has_a_line(stored, site):
    """A reference of 0 is no divisor."""
    for count in [0.0, 3.0, 0.0, 0.0, 1.0] * 9:
        stored.add(case(100.0, latency=count, refs={'latency': (0.0, None, 0.0)}))
    uuid = stored.add(case(100.0, latency=2.0, refs={'latency': (0.0, None, 0.0)}))
    cell = next(cell for cell in judge.newest(uuid).cells if cell.metric == 'latency')
    assert (cell.verdict, bool(cell.once)) == ('ok', True), cell.reason


# ---- the promise: one bad night opens no incident

def night(stored, level: float, refs: dict = REFS['refs']) -> str:
    """Store a night, with reruns that agree where it is bad. Nobody judges it: that takes most of the time of a test."""
    uuid = stored.add(*[case(level, refs=refs)] * 3)
    if level < 97:
        stored.add(*[case(level, refs=refs)] * 3, **{RERUN_OF: uuid})
    return uuid


def live(stored, *levels: float, **given) -> list[tuple[str, int, list[str]]]:
    """Live through nights as ci/nightly does. Return word, exit code and new events of each."""
    found = []
    for level in levels:
        uuid = night(stored, level, **given)
        verdict = judge.newest(uuid)
        known = incidents.record(verdict, 'local')
        verdict = incidents.joined(verdict, known)
        cell = next(cell for cell in verdict.cells if cell.metric == 'hpl')
        word = 'once' if cell.once else 'red' if cell.verdict == 'regressed' else 'ok'
        events = [f'{one.number} {event.what}' for one in known for event in one.events if event.session == uuid]
        found.append((word, verdict.exit_code, events))
    return found


QUIET, ONCE = ('ok', 0, []), ('once', 0, [])


@pytest.mark.parametrize('refs', [REFS['refs'], {}])
def test_one_bad_night_opens_no_incident_and_the_second_is_one_that_began_on_the_first(stored, site, refs):
    """Beyond an accepted bound, and where the history alone judges."""
    store_calm(stored, 30, refs)
    told = live(stored, 60.0, 100.0, 100.0, 60.0, refs=refs)
    assert told == [ONCE, QUIET, QUIET, ('red', 1, ['1 new'])]
    incident, = incidents.record(judge.newest(), 'local')
    fault, = incident.faults.values()
    assert (fault.since, incident.begin) == (start(30), start(30)), 'it began on the first bad night'


def store_calm(stored, count: int, refs: dict) -> None:
    """Store nights that scatter by .5 %."""
    noise = random.Random(3)

    def fill() -> None:
        for _ in range(count):
            stored.add(*[case(100 * noise.gauss(1, 0.005), refs=refs)] * 3)
    stored.once(f'{count} calm {refs}', fill)


@pytest.mark.parametrize('good, second', [(13, ('red', 1, ['1 new'])), (14, ONCE)])
def test_two_bad_nights_belong_together_with_less_than_14_good_ones_between_them(stored, site, good, second):
    store_calm(stored, 20, REFS['refs'])
    assert live(stored, 60.0) == [ONCE]
    for _ in range(good):
        night(stored, 100.0)
    assert live(stored, 60.0) == [second]


def test_without_a_history_the_first_night_beyond_a_bound_is_once_too(stored, site):
    assert live(stored, 60.0, 60.0, 100.0) == [ONCE, ('red', 1, ['1 new']), ('ok', 0, ['1 over'])]


@pytest.mark.usefixtures('red_at_once')
def test_a_site_that_wants_it_has_the_first_night_red(stored, site):
    store_calm(stored, 20, REFS['refs'])
    assert live(stored, 60.0) == [('red', 1, ['1 new'])]


def test_a_lasting_slowdown_is_red_from_its_second_night_on_until_it_is_mended(stored, site):
    store_calm(stored, 20, REFS['refs'])
    told = live(stored, 80.0, 80.0, 80.0, 100.0, 100.0)
    assert told == [ONCE, ('red', 1, ['1 new']), ('red', 1, []), QUIET, ('ok', 0, ['1 over'])]


def test_a_bad_night_after_a_slowdown_that_lasted_for_weeks_is_a_first_one(stored, site):
    store_calm(stored, 20, REFS['refs'])
    live(stored, 80.0, 80.0)
    for _ in range(13):
        night(stored, 80.0)
    assert live(stored, 80.0) == [('red', 1, [])]
    assert live(stored, 100.0, 100.0, 60.0)[-1] == ONCE


def test_a_fault_on_every_second_night_is_one_incident_with_one_notice_and_one_acknowledgement(stored, site):
    store_calm(stored, 30, REFS['refs'])
    told = live(stored, 60.0, 100.0, 60.0)
    assert told == [ONCE, QUIET, ('red', 1, ['1 new'])]
    assert parity('ack', '1', '--until', '2999-01-01', '--why', 'a test').returncode == 0
    for level in [100.0, 60.0] * 10:
        night(stored, level)
    for _ in range(2):
        assert live(stored, 100.0, 60.0) == [QUIET, ('red', 0, [])]
    assert live(stored, *[100.0] * 14) == [QUIET] * 13 + [('ok', 0, ['1 over'])]


@pytest.mark.parametrize('better, refs', [('', (100.0, -0.05, 0.05)), ('lower', (100.0, None, 0.05))])
def test_a_figure_of_any_direction_has_two_nights(stored, site, better, refs):
    plan = [{**made.planned(), 'metrics': [{'name': 'hpl', 'unit': 's', 'better': better}, made.METRICS[1]]}]
    noted = {'metrics': {'hpl': {'unit': 's', 'better': better}, 'latency': {'unit': 'us', 'better': 'lower'}}}
    words = []
    for level in (100.0, 120.0, 100.0, 120.0):
        stored.add(case(level, refs={'hpl': refs}, parity=noted), plan=plan)
        verdict = judge.newest()
        words.append((verdict.cells[0].verdict == 'regressed', bool(verdict.cells[0].once), verdict.exit_code))
    good = False, False, 0
    assert words == [good, (False, True, 0), good, (True, False, 1)]


def test_the_line_names_the_node_on_which_alone_a_night_was_bad(stored, site):
    store_calm(stored, 20, REFS['refs'])
    uuid = stored.add(*[case(60.0, **REFS)] * 3)
    stored.add(*[case(60.0, **REFS)] * 3, *[case(100.0, job_nodelist=['node02'], **REFS)] * 3, **{RERUN_OF: uuid})
    verdict = judge.newest(uuid)
    once, = [text for label, text in answer.of(verdict).notes if label == 'once']
    assert once == 'Toy.hpl@local:default: tonight 40 % low on node01 (not slow on node02): a slowdown if it lasts'
    assert cause.named_once(verdict.cells) == ['node01'] and verdict.exit_code == 0


# ---- small slowdowns

def test_a_slowdown_of_less_than_least_is_a_state_and_a_line(stored, site):
    store_calm(stored, 40, {})
    told = live(stored, *[96.8] * 5, refs={})
    assert told == [QUIET] * 5, 'one night is too little for a line, too'
    verdict = judge.newest()
    cell = next(cell for cell in verdict.cells if cell.metric == 'hpl')
    assert (cell.verdict, cell.state, cell.history) == ('ok', 'slow', 'regressed') and cell.slight == pytest.approx(0.032, abs=0.004)
    line, = [text for label, text in answer.of(verdict).notes if label == 'slightly']
    assert line.startswith('1 figure 3.') and f'% slower since {day(40)}' in line
    assert '1 slightly slower' in answer.of(verdict).sentence
    assert 'slightly' in parity('summary').stdout
    assert live(stored, *[100.0] * 3, refs={})[-1] == QUIET and judge.newest().cells[0].slight is None


@pytest.mark.parametrize('level, stated, refs, red', [
    (94.5, '', {}, True), (96.8, 'least: 2 %', {}, True), (94.5, 'least: 10 %', {}, False),
    (95.8, '', {'hpl': (100.0, -0.03, 0.03)}, True), (95.8, 'least: 5 %', {'hpl': (100.0, -0.03, 0.03)}, True)])
def test_least_decides_what_alarms_but_beyond_an_accepted_bound(stored, site, level, stated, refs, red):
    site.write_text(site.read_text().replace('partitions:', f'alarms: {{{stated}}}\npartitions:', 1))
    store_calm(stored, 40, refs)
    told = live(stored, *[level] * 3, refs=refs)
    assert any(word == 'red' for word, *_ in told) is red and any(code for _, code, _ in told) is red


@pytest.mark.parametrize('stated, said', [
    ('nights: 0', 'greater than 0'), ('nights: two', 'must be a whole number'), ('least: 4', '4 is no percentage'),
    ('least: 60 %', 'of at most 50 %; valid is, for example, 4 %'), ('least: -1 %', 'no percentage'), ('least: few', 'no percentage')])
def test_what_alarms_is_stated_as_nights_and_a_percentage(site, stated, said):
    site.write_text(site.read_text().replace('partitions:', f'alarms: {{{stated}}}\npartitions:', 1))
    with pytest.raises(UsageError, match='system.yaml') as raised:
        systems.read('local')
    assert said in str(raised.value)


def test_what_a_system_does_not_state_alarms_as_the_page_says(site):
    alarms = systems.read('local').alarms
    assert (alarms.a_month, alarms.nights, alarms.least) == (1.0, 2, 0.04)
