"""Nights beyond an accepted bound, of a cell that fell before: reruns confirm a fall, and chance explains none."""

from __future__ import annotations

import random

import pytest

from parity.judge.report import answer
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import judge
from parity.judge.verdict.acks import LASTING
from stored import case, day

REFS = {'refs': {'hpl': (100.0, -0.05, 0.05)}}
#: Nights that flap so often that chance explains a low one to the history.
FLAPPING = [100, 50, 100, 100, 50, 50, 100, 100, 50] * 4


def store(stored, nights: list[float], rerun: bool = True, seed: int = 1) -> None:
    """Store nights of three runs; those below the bound were run again, and were as low."""
    noise = random.Random(seed)
    for level in nights:
        uuid = stored.add(*[case(level * noise.gauss(1, 0.003), **REFS) for _ in range(3)])
        if level < 95 and rerun:
            stored.add(*[case(level * noise.gauss(1, 0.003), **REFS) for _ in range(3)], **{RERUN_OF: uuid})


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


def test_each_fall_after_the_first_is_red_from_the_first_nights_of_a_history_on(stored, site):
    store(stored, [100.0] * 12)
    words = []
    for level in (50.0, 100.0, 100.0, 50.0, 100.0, 100.0, 50.0):
        cell, verdict = tonight(stored, level, level if level < 95 else None)
        words.append((cell.verdict == 'regressed', verdict.exit_code))
    assert words == [(level < 95, int(level < 95)) for level in (50, 100, 100, 50, 100, 100, 50)]


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
