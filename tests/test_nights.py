"""The verdict of a session whose cells have a history: worse than the nights before, run again, too short."""

from __future__ import annotations

import random

import pytest

from parity.nightly import again
from parity.site import systems
from parity.verdict import judge
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


def test_a_history_of_few_nights_judges_nothing_and_says_so(nights):
    nights(20)
    cell, verdict = hpl()
    assert cell.verdict == 'unreferenced' and '2 histories too short for that (40 nights)' in verdict.trust


def test_a_slowdown_is_found_within_three_nights_and_the_nights_before_stay_as_they_were(nights):
    nights(45)
    before, verdict = hpl()
    assert before.verdict == 'unreferenced' and 'at most 1 false alarm per 1000 cell-nights' in verdict.trust
    nights(3, 0.93)
    cell, verdict = hpl()
    assert cell.verdict == 'regressed' and verdict.exit_code == 1 and 'worse than the median of the' in cell.reason
    assert 'worse since 2026-' in cell.reason or 'worse since 2027-' in cell.reason
    assert hpl('night-0044')[0] == before


def test_a_low_night_is_worth_another_run_and_what_confirms_it_is_no_night_of_its_own(nights):
    nights(45)
    nights(1, 0.93)
    cell, verdict = hpl()
    assert cell.suspicious and again.runs(systems.read('local'), verdict.session.uuid, [cell], ['-r'])
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


def test_an_improvement_is_reported(nights):
    nights(45)
    nights(3, 1.08)
    cell, verdict = hpl()
    assert cell.verdict == 'improved' and verdict.exit_code == 0
