"""The bounds that are proposed state an error rate: it holds; a change is found and chance is not."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from parity.stats import bounds


@pytest.mark.parametrize('n', [10, 17, 30])
def test_in_95_of_100_histories_at_most_1_of_1000_nights_lies_beyond(n):
    histories = np.random.default_rng(7).standard_normal((4000, n))
    k = bounds.FACTORS[n - bounds.FEWEST]
    beyond = stats.norm.sf([k * bounds.spread(h) - np.median(h) for h in histories])
    assert np.mean(beyond <= 0.001) == pytest.approx(0.95, abs=0.012)
    assert len(bounds.FACTORS) == bounds.MOST - bounds.FEWEST + 1


@pytest.mark.parametrize('runs, step', [    # two decimals; the rate of a clock of seconds; none
    ([3.25, 3.5, 3.75], 0.01), ([6.7108, 6.7108, 3.3554, 3.3554], 3.3554), ([1 / 3, 2 / 7, 1 / 9], 0.0)])
def test_the_step_of_a_timer_is_seen(runs, step):
    assert bounds.resolution(runs) == pytest.approx(step)


@pytest.mark.parametrize('one, most', [     # ties; too small to matter
    (lambda rng: rng.gauss(100, 2), 0.09), (lambda rng: float(rng.randint(9, 11)), 0.09), (lambda rng: rng.gauss(100, 0.4), 0.0)])
def test_a_quiet_history_seldom_looks_changed_whatever_its_noise(one, most):
    rng = random.Random(5)
    assert sum(bounds.found([one(rng) for _ in range(20)]) is not None for _ in range(400)) <= most * 400


def test_another_node_is_found_among_those_that_are_alike():
    rng = random.Random(7)
    places = ['a', 'b', 'c'] * 7
    values = [rng.gauss(94 if p == 'b' else 100, 0.5) for p in places]
    assert bounds.other_place(values, places)[0] == 'b'
    assert bounds.other_place([rng.gauss(100, 1) for _ in places], places) is None
    assert bounds.other_place(values[:4], ['a', 'b', 'a', 'c']) is None
