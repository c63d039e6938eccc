"""The statistics of promises: intervals worked out by hand, levels by other formulas, and the stated rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from dev import contract as simulated
from parity.judge.stats import promise


def test_a_node_is_decided_by_exact_binomials():
    """One clause of 8 spends 0.005 in its first look: 8 runs of a coin are all heads with 1/256 = 0.0039."""
    of_clause = promise.rule(1, 1.0, 5, 8)
    assert of_clause.runs[:4] == (8, 16, 32, 64), 'five runs decide nothing'
    spent = scipy.stats.binom.cdf(of_clause.good[:4], of_clause.runs[:4], 0.5)
    allowed = [0.005, 0.006, 0.0062, 0.00624]
    assert (np.cumsum(spent) <= allowed).all(), spent
    one_more = scipy.stats.binom.cdf(np.array(of_clause.good[:4]) + 1, of_clause.runs[:4], 0.5)
    assert (np.cumsum(spent) - spent + one_more > allowed).all(), 'no look could allow one more'
    assert of_clause.good[:4] == (0, 2, 5, 17) == of_clause.bad[:4]


def test_all_looks_spend_no_more_than_the_level_of_a_node():
    for nodes, share, clauses in ((1, 1.0, 1), (4, 0.5, 3), (1000, 1.0, 8)):
        of_clause = promise.rule(nodes, share, 5, clauses)
        levels = promise.node_levels(of_clause.demand, promise.LEVEL / clauses)
        for level, allowed in zip(levels, (of_clause.good, of_clause.bad), strict=True):
            assert sum(scipy.stats.binom.cdf(most, runs, 0.5) for most, runs in zip(allowed, of_clause.runs, strict=True)) <= level


def test_more_runs_than_can_decide_are_taken_as_stated():
    assert [promise.rule(1, 1.0, 5, clauses).runs[0] for clauses in (1, 2, 8, 40)] == [5, 6, 8, 10]
    assert promise.rule(1, 1.0, 20, 8).runs[:2] == (20, 40)


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


def test_the_limits_of_a_node_are_order_statistics():
    runs = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert promise.limits(runs, 0, 1) == (1.0, 4.0)
    assert promise.limits(runs, 1, -1) == (2.0, math.inf), 'no number of these runs is enough to call it bad'


def test_no_interval_is_narrower_than_a_benchmark_repeats():
    assert promise.limits(np.full(5, 100.0), 0, 0) == (99.9, 100.1)


@pytest.mark.parametrize('family', simulated.FAMILIES)
@pytest.mark.parametrize('situation', simulated.SITUATIONS, ids=lambda s: s.name)
def test_a_figure_at_its_bound_is_called_met_in_at_most_5_percent(situation, family):
    trials = 1000 if situation.nodes == 1 else 30
    shares = simulated.wrong(situation, family, trials)
    allowed = 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / trials)
    assert shares.met <= allowed and shares.not_met <= allowed


def test_the_families_of_noise_have_half_of_their_runs_below_the_bound():
    draw = np.random.default_rng(1)
    for noise in simulated.FAMILIES.values():
        assert abs((noise(draw, (200_000,)) < 0).mean() - 0.5) < 0.005


def test_a_good_machine_is_accepted():
    assert simulated.cost(1, 0.05, 0.01, 300, clauses=8).met[0] > 0.99
    of_thousand = simulated.cost(1000, 0.05, 0.02, 20, clauses=8)
    assert of_thousand.met[2] > 0.9 and of_thousand.runs < 9, 'only nodes that are not decided have more than 8 runs'
    assert simulated.cost(1, 0.05, 0.02, 300, family='slow outliers (10 % of the runs)').met[2] > 0.9
