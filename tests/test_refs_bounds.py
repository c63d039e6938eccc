"""The bounds that are proposed state an error rate: it holds; a change is found and chance is not."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from parity.stats import bounds


@pytest.mark.parametrize('n', [10, 17, 30])
def test_in_95_of_100_histories_at_most_1_of_1000_nights_lies_beyond(n):
    rng = np.random.default_rng(7)
    histories = rng.standard_normal((4000, n))
    k = bounds.FACTORS[n - bounds.FEWEST]
    beyond = stats.norm.sf([k * bounds.spread(h) - np.median(h) for h in histories])
    assert np.mean(beyond <= 0.001) == pytest.approx(0.95, abs=0.012)
    assert len(bounds.FACTORS) == bounds.MOST - bounds.FEWEST + 1


def test_fewer_nights_than_ten_would_need_bounds_twice_as_wide_as_the_noise():
    rng = np.random.default_rng(8)
    for n, wide in ((9, True), (10, False)):
        histories = rng.standard_normal((20000, n))
        spreads = np.array([bounds.spread(h) for h in histories])
        k = np.quantile((stats.norm.isf(0.001) + np.median(histories, axis=1)) / spreads, 0.95)
        assert (np.median(k * spreads) > 2 * stats.norm.isf(0.001)) == wide


def test_the_spread_is_that_of_the_nights_without_the_odd_one():
    rng = np.random.default_rng(9)
    nights = rng.normal(100, 2, 2000)
    assert bounds.spread(nights) == pytest.approx(2, rel=0.05)
    few = [*rng.normal(100, 2, 20)]
    assert bounds.spread([*few, 10.0]) < 1.5 * bounds.spread(few)


@pytest.mark.parametrize('runs, step', [
    ([10.0, 11.0, 10.0, 10.0], 1.0),            # a clock of seconds
    ([3.25, 3.5, 3.75], 0.01),                  # printed with two decimals
    ([6.7108, 6.7108, 3.3554, 3.3554], 3.3554),  # a rate of such a clock
    ([1 / 3, 2 / 7, 1 / 9], 0.0),
])
def test_the_step_of_a_timer_is_seen(runs, step):
    assert bounds.resolution(runs) == pytest.approx(step)


def test_bounds_have_floors():
    quiet = [100 + i / 1000 + 1e-7 for i in range(12)]
    assert bounds.share(quiet, quiet) == bounds.LEAST
    seconds = [10.0] * 12
    assert bounds.share(seconds, seconds) == 0.15
    assert bounds.share([-v for v in quiet], quiet) == bounds.LEAST


def alarms(make, n: int, times: int = 400) -> float:
    return sum(bounds.found(make(n)) is not None for _ in range(times)) / times


def test_a_quiet_history_seldom_looks_changed_whatever_its_noise():
    rng = random.Random(5)
    assert alarms(lambda n: [rng.gauss(100, 2) for _ in range(n)], 20) < 0.09
    assert alarms(lambda n: [100 + 2 * rng.expovariate(1) for _ in range(n)], 20) < 0.09
    assert alarms(lambda n: [float(rng.randint(9, 11)) for _ in range(n)], 20) < 0.09   # ties
    assert alarms(lambda n: [rng.gauss(100, 0.4) for _ in range(n)], 20) == 0, 'too small to matter'


def test_a_change_is_found_where_it_is():
    rng = random.Random(6)
    found = bounds.found([rng.gauss(100, 1) for _ in range(12)] + [rng.gauss(95, 1) for _ in range(9)])
    assert found.at == 12 and found.effect == pytest.approx(-0.05, abs=0.01) and found.p < 0.001


def test_the_score_of_a_split_is_that_of_mann_and_whitney():
    values = [5.0, 3.0, 8.0, 1.0, 9.0, 9.0, 2.0, 7.0]
    scores = bounds._scores(stats.rankdata(values)[None])[0]
    for split, score in zip(range(3, 6), scores, strict=True):
        p = stats.mannwhitneyu(values[split:], values[:split], method='asymptotic', use_continuity=False).pvalue
        assert 2 * stats.norm.sf(abs(score)) == pytest.approx(p)


def test_another_node_is_found_among_those_that_are_alike():
    rng = random.Random(7)
    places = ['a', 'b', 'c'] * 7
    values = [rng.gauss(94 if p == 'b' else 100, 0.5) for p in places]
    assert bounds.other_place(values, places)[0] == 'b'
    assert bounds.other_place([rng.gauss(100, 1) for _ in places], places) is None
    assert bounds.other_place(values[:4], ['a', 'b', 'a', 'c']) is None
