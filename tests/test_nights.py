"""The verdict of a session whose cells have a history: worse than the nights before, run again, too short."""

from __future__ import annotations

import random
import re

import pytest

import judging
import nights as made
from parity.nightly import run as again_tonight
from parity.records import history
from parity.system import systems
from parity.verdict import judge
from parity.verdict import nights as by_series
from sessions import case


@pytest.fixture
def nights(stored):
    """Stores nights of three runs each, at a share of 100 Gflop/s; the n-th night is `night-<n>`."""
    noise, count = random.Random(1), iter(range(1000))

    def store(number: int, level: float = 1.0, **info):
        for _ in range(number):
            runs = [case(level * noise.gauss(100, 1)) for _ in range(3)]
            stored(f'night-{next(count):04d}', *runs, **info)
    return store


def hpl(session: str = ''):
    verdict = judge.newest(session)
    return next(c for c in verdict.cells if c.metric == 'hpl'), verdict


@pytest.mark.parametrize('level, word, code', [(0.93, 'regressed', 1), (1.08, 'improved', 0)])
def test_a_change_is_found_within_three_nights_and_the_nights_before_stay_as_they_were(nights, level, word, code):
    nights(20)
    cell, verdict = hpl()
    assert cell.verdict == 'unreferenced' and '2 histories too short for that (40 nights)' in verdict.trust
    nights(25)
    before, verdict = hpl()
    assert before.verdict == 'ok' and ' the median of ' in before.reason
    assert 'at most 1 false alarm per 1000 cell-nights' in verdict.trust
    nights(3, level)
    cell, verdict = hpl()
    assert (cell.verdict, verdict.exit_code) == (word, code) and hpl('night-0044')[0] == before
    assert verdict.trust.startswith('2 of 2 judged: no reference has been accepted for these cells; 2 against their last')
    if code:
        assert 'worse than the median of the' in cell.reason and re.search('worse since 202[67]-', cell.reason)


def test_accepted_bounds_are_counted_and_a_low_night_is_worth_another_run_that_is_no_night_of_its_own(stored, nights):
    nights(45)
    stored('bounded', *[case(100.0 + i, latency=1.5, refs={'hpl': (100.0, -0.1, 0.1)}) for i in (-1, 0, 1)])
    cell, verdict = hpl()
    assert cell.verdict == 'ok' and not cell.reason.startswith('tonight')        # the accepted bounds said so
    assert verdict.trust.startswith('2 of 2 judged: 1 against accepted bounds; 1 against their last nights: at most')
    assert verdict.next.startswith('parity refs propose')
    nights(1, 0.93)
    cell, verdict = hpl()
    assert cell.suspicious and again_tonight.runs(systems.read('local'), verdict.session.uuid, [cell], ['-r'])
    nights(1, 0.93, parity_rerun_of=verdict.session.uuid)
    cell, verdict = hpl()
    assert verdict.session.uuid == 'night-0045' and not cell.suspicious


@pytest.mark.parametrize('again_at, word, code', [(100.0, 'ok', 0), (80.0, 'regressed', 1), (None, 'regressed', 1)])
def test_a_value_beyond_its_bounds_is_a_regression_unless_another_run_is_within_them(stored, again_at, word, code):
    bounds = {'hpl': (100.0, -0.05, 0.05)}
    stored('a', case(80.0, refs=bounds))
    if again_at:
        stored('b', *[case(again_at, refs=bounds)] * 3, parity_rerun_of='a')
    cell, verdict = hpl()
    assert verdict.session.uuid == 'a' and (cell.verdict, verdict.exit_code) == (word, code)
    assert cell.suspicious == (again_at is None) and cell.value == 80.0
    assert word != 'ok' or 'run again it was within its bounds' in cell.reason


def test_all_series_together_are_judged_as_one_by_one(monkeypatch):
    """The verdict makes its table from the frame at once, judging.judge_all night by night."""
    rng = random.Random(3)
    rows, cells, singly = [], [], []
    for metric, better, last in (('triad', 'higher', 0.93), ('copy', 'lower', 1.08), ('add', 'higher', 1.0)):
        past, of = [], {'metric': metric, 'better': better}
        for night in range(50):
            runs, again = (tuple(100 * (last if night > 46 else 1.0) * rng.gauss(1, 0.01) for _ in range(number))
                           for number in (3, 2 * (night % 7 == 0 or night == 49)))
            node, other = f'v{night % 2}', f'v{night % 2 + night % 3}'
            rows += [made.rerun(night, value, other, **of) for value in again]
            if (metric, night) == ('add', 7):       # reruns of a night without runs of its own
                continue
            rows += [made.figure(night, value, node, run=i, **of) for i, value in enumerate(runs)]
            past.append(judging.Night(runs, again, f'n{night}', bool(again) and other != node))
        cells.append(made.cell('unreferenced', **of))
        singly.append(judging.Cell(tuple(past), better))
    monkeypatch.setattr(history, 'load', lambda system: made.frame(*rows))
    expected = judging.judge_all(singly, len(singly))
    assert [each.verdict for each in expected] == ['regressed', 'regressed', 'ok']
    for (told, *figures), each, past in zip(by_series.of_cells(cells, 'onebox', 'night-49'), expected, singly, strict=True):
        assert (told.verdict, told.why, told.needs_rerun, told.value) == (each.verdict, each.why, each.needs_rerun, pytest.approx(each.value))
        assert tuple(figures) == past.nights[-1][:2]
