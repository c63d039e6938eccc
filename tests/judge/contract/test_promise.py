"""The statistics of promises: intervals worked out by hand, levels by other formulas, and the stated rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from dev import contract as simulated
from parity.judge.stats import promise


def test_the_interval_of_one_node_is_students():
    """Five logarithms 0.01 apart: s = 0.0158114; one of 8 clauses spends 0.005 in its first look, t(4) = 4.6041."""
    logs = np.array([[-.02, -.01, 0, .01, .02]])
    low, high = promise.interval_at(0, logs.mean(1), logs.var(1, ddof=1), 5, promise.demand(1, 1.0), 8)
    half = 4.604095 * 0.0158114 / math.sqrt(5)
    assert (low, high) == (pytest.approx(-half, rel=1e-5), pytest.approx(half, rel=1e-5))
    assert half == pytest.approx(0.032556, rel=1e-4)


def test_later_looks_spend_what_is_left():
    spent = [promise.level_of_look(look, 8) for look in range(3)]
    assert spent == pytest.approx([0.005, 0.001, 0.0002]) and sum(spent) < 0.05 / 8
    assert [promise.runs_of_look(look, 5) for look in range(3)] == [5, 10, 20]


@pytest.mark.parametrize('nodes, share, good, bad, spare', [
    (1, 1.0, 1, 1, 0), (4, 1.0, 4, 1, 0), (4, 0.5, 2, 3, 0), (5, 0.5, 3, 3, 0), (1000, 1.0, 1000, 1, 0), (1000, 0.95, 950, 51, 2),
    (1000, 0.5, 500, 501, 25), (20, 0.95, 19, 2, 0)])
def test_how_many_nodes_keep_or_break_a_promise(nodes, share, good, bad, spare):
    demanded = promise.demand(nodes, share)
    assert (demanded.good, demanded.bad, demanded.spare) == (good, bad, spare)


@pytest.mark.parametrize('nodes, share', [(1, 1.0), (4, 1.0), (4, 0.5), (1000, 0.95), (1000, 0.5)])
def test_the_level_of_a_node_is_the_binomials(nodes, share):
    demanded = promise.demand(nodes, share)
    lower, upper = promise.node_levels(demanded, 0.01)
    assert scipy.stats.binom.sf(demanded.spare, demanded.bad, lower) == pytest.approx(0.01, rel=1e-6)
    assert scipy.stats.binom.sf(demanded.spare, demanded.good, upper) == pytest.approx(0.01, rel=1e-6)


def test_each_node_is_met_without_correction_and_not_met_with_one():
    """One wrong limit of 4: 1 - 0.99 ** (1 / 4)."""
    assert promise.node_levels(promise.demand(4, 1.0), 0.01) == pytest.approx((0.01, 1 - 0.99 ** 0.25))


def test_the_interval_is_of_the_node_that_decides():
    lows, highs = np.array([1.0, 2, 3, 4]), np.array([5.0, 6, 7, 8])
    assert promise.interval(lows, highs, promise.demand(4, 1.0)) == (1, 5), 'the worst node'
    assert promise.interval(lows, highs, promise.demand(4, 0.5)) == (3, 7), 'the second best: half of the nodes are as good'
    many = np.arange(1000.0)
    low, high = promise.interval(many, many, promise.demand(1000, 0.95))
    assert (low, high) == (48, 52), 'the 952nd best lower limit, and 53 nodes below the upper one'


def test_no_interval_is_narrower_than_a_benchmark_repeats():
    low, high = promise.interval_at(0, np.zeros(1), np.zeros(1), 5, promise.demand(1, 1.0), 1)
    assert (low, high) == (-0.001, 0.001)


def test_a_node_whose_runs_lie_together_by_chance_has_the_limit_of_the_median_node():
    """t(4) of 0.005 is 4.6041, and t(12), of three nodes with five runs each, is 3.0545."""
    halves = promise.half(np.array([0.0, 0.0004, 0.0009]), 5, 0.005)
    expected = np.array([3.054540 * 0.02, 4.604095 * 0.02, 4.604095 * 0.03]) / math.sqrt(5)
    assert halves == pytest.approx(expected, rel=1e-5)


def test_the_runs_that_would_decide():
    means, variances = np.array([math.log(1.03)]), np.array([0.02 ** 2])
    one = promise.demand(1, 1.0)
    assert promise.deciding_look(0, 0.0, means, variances, 5, one, 8) == 1
    assert promise.deciding_look(0, 0.0, np.zeros(1), variances, 5, one, 8) is None


@pytest.mark.parametrize('situation', simulated.SITUATIONS, ids=lambda s: s.name)
def test_a_figure_at_its_bound_is_called_met_in_at_most_5_percent(situation):
    trials = 2000 if situation.nodes == 1 else 100
    shares = simulated.wrong(situation, 'normal', trials)
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
    assert shares.met <= allowed and shares.not_met <= allowed


def test_a_good_machine_is_accepted():
    assert simulated.power(1, 0.01, 5, 300) > 0.99
    assert simulated.power(1000, 0.01, 10, 20) > 0.9
