"""Formulas with values that were worked out by hand."""
import numpy as np
import pytest

from parity.judge.stats import bounds, counts, hindsight, laws, levels, peers, repeats, replay, rule
from parity.judge.stats.nights import Nights
from parity.judge.stats.table import Table


def test_the_scatter_of_runs_is_pooled_over_nights():
    assert repeats.scatter([[np.e, 1.0], [1.0], [1.0, 1.0, 1.0]]) == pytest.approx(np.sqrt(0.5 / 3))
    assert repeats.scatter([[1.0], [2.0]]) is None


@pytest.mark.parametrize('n, iterations, ranks, warm_up', [(0, 1, 1, 0), (12, 0, 1, 0), (12, 1, 0, 0), (12, 1, 1, -1)])
def test_lu_needs_points_iterations_and_ranks(n, iterations, ranks, warm_up):
    with pytest.raises(ValueError, match='each must be at least 1'):
        laws.lu_messages(n, iterations, ranks, warm_up)


def test_lu_of_one_rank_has_no_message_and_of_six_seven_edges():
    assert laws.lu_messages(12, 1, 1)[::2] == (0, 0)
    # 3 x 2 ranks: 7 edges, 3 sides; 10 inner planes twice in 4 iterations; 6 right-hand sides
    blocking, size, others, large = laws.lu_messages(12, 4, 6)
    assert (blocking, size) == pytest.approx((2 * 10 * 4 * 7 / 6, 40 * 10 * 3 / 7))
    assert (others, large) == pytest.approx((2 * 6 * 7 / 6, 80 * 144 * 3 / 7))


def test_the_most_likely_change_is_where_the_ranks_part():
    calm = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8, 10.1, 10.0]
    change = bounds.most_likely_change([*calm, *(value * 0.9 for value in calm)])
    assert change.at == 8 and change.effect == pytest.approx(-0.1, abs=0.005) and change.p < 0.01
    assert bounds.most_likely_change(calm) is None
    # a single value that stands out is no change, wherever it is
    assert bounds.most_likely_change([*calm[:4], 30.0, *calm[4:]]) is None


def test_three_low_nights_and_three_high_ones_have_a_chance_of_one_in_ten(monkeypatch):
    # of the 20 ways to choose the last three, one has the highest and one the lowest
    nights = [1.0, 1.1, 1.2, 2.0, 2.1, 2.2]
    assert bounds.most_likely_change(nights) is None
    monkeypatch.setattr(bounds, 'ALPHA', 0.12)
    change = bounds.most_likely_change(nights)
    assert change.at == 3 and change.effect == pytest.approx(1 / 1.1) and change.p == pytest.approx(0.1, abs=0.015)


def test_lone_nights_of_like_cells_count_for_60_nights_but_not_the_newest_14():
    cell, column = np.repeat([0, 1], 100), np.tile(np.arange(100), 2)
    value = np.zeros(200)
    nights = Nights(np.array([0, 100, 200]), column, value, value + np.nan, value, np.array([False, False]))
    run = levels._Follow(Table(nights, cell, column), np.array([0, 0]), rule.RATE)
    shares = {}
    for lone in (25, 26, 85, 86):               # before night 100: nights 26 to 85 of both cells
        run.table.lone[:] = 0
        run.table.lone[1, lone] = 0.1
        shares[lone] = run._lone_share(np.array([0, 1]), 100)
    assert shares == {25: 0, 26: 1 / 120, 85: 1 / 120, 86: 0}


def test_boundaries_are_found_where_the_level_moves_and_nowhere_else():
    random = np.random.default_rng(1)
    assert all(hindsight.boundaries(random.normal(0, 0.01, 120)) == [] for _ in range(10))
    noise = random.normal(0, 0.01, 120)
    steps = noise + np.repeat([0.0, -0.1, 0.05], 40)
    found = hindsight.boundaries(steps)
    assert len(found) == 2 and all(abs(at - true) <= 1 for at, true in zip(found, (40, 80), strict=True))
    (at, change), = hindsight.drops(steps, found)
    assert abs(at - 40) <= 1 and change == pytest.approx(-0.1, abs=0.01)


def test_counts_are_slow_until_some_nights_in_a_row_are_nearer_to_the_level_before():
    level, slow = [1, 0, 2, 1] * 12, [12, 11, 13, 12]
    nearer, farther = [1, 2, 0, 1], [12]
    totals = np.array([*level, *slow, *nearer[:3], *farther, *nearer, *nearer], float)
    state = np.full(len(totals), rule.TOO_FEW)
    one = Nights(np.array([0, len(totals)]), np.arange(len(totals)), totals, totals, totals, np.array([True]))
    counts.judge(one, np.array([0]), 1 / 1000, state)
    words = ''.join({rule.TOO_FEW: '.', rule.QUIET: 'q', rule.SLOW: 'S'}[each] for each in state.tolist())
    assert words[:rule.COUNTED] == '.' * rule.COUNTED
    # three of four slow nights, three good ones, a slow one, and three of four good ones: the fourth ends it
    assert words[rule.COUNTED:] == 'q' * 9 + 'S' * 10 + 'q' * 5


@pytest.mark.parametrize('better, value, low, high, side, word, shown', [
    ('higher', 100, 95, 110, 0, 'ok', 0.05), ('higher', 94, 95, 110, -1, 'regressed', 0.010638), ('higher', 111, 95, 110, 1, 'improved', 0.144144),
    ('lower', 94, 95, 110, -1, 'improved', 0.170213), ('lower', 111, 95, 110, 1, 'regressed', 0.009009),
    ('', 94, 95, 110, -1, 'regressed', 0.170213), ('', 111, 95, 110, 1, 'regressed', 0.144144),
    ('higher', 95, 95, None, 0, 'ok', 0.0), ('higher', 100, None, 110, 0, 'ok', None), ('', 100, 95, None, 0, 'ok', None)])
def test_a_value_beside_its_bounds(better, value, low, high, side, word, shown):
    assert (bounds.side(value, low, high), bounds.word(better, value, low, high)) == (side, word)
    assert bounds.visible(better, value, low, high) == shown


@pytest.mark.parametrize('better, value, usual, unit, times', [
    ('higher', 1000, 1, 'GB/s', 1000), ('higher', 999, 1, 'GB/s', None), ('lower', 0.001, 1, 's', 1000), ('lower', 0.001, 1, 'errors', None),
    ('', 1000, 1, 'GB/s', None), ('higher', 0, 1, 'GB/s', None), ('higher', 1000, 0, 'GB/s', None), ('higher', 1000, -1, 'GB/s', None)])
def test_no_machine_is_a_thousand_times_as_fast(better, value, usual, unit, times):
    assert bounds.absurd(better, value, usual, unit) == times


def test_the_step_in_which_runs_were_read():
    assert bounds.resolution([1.25, 1.5, 2.0]) == 0.01
    assert bounds.resolution([1.0, 1.0, 1.5, 1.5, 2.5]) == 0.5, 'most repeat another value: the smallest step'
    assert bounds.resolution([1.2345678, 2.3456789]) == 0.0


def test_the_spread_of_five_values_is_the_third_smallest_of_ten_differences():
    assert bounds.spread([1, 2, 4, 8, 16]) == pytest.approx(2.2219 * 3)


def test_a_place_that_differs_is_named_with_its_share():
    here, there = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98, 10.07], [8.0, 8.1, 7.9, 8.05, 7.95]
    place, effect = bounds.other_place([*here, *there], [*['p1'] * 8, *['p2'] * 5])
    assert place == 'p2' and effect == pytest.approx((8.0 - 10.01) / 10.01)
    assert bounds.other_place(here, ['p1', 'p2'] * 4) is None
    assert bounds.other_place([*here, 5.0, 5.1], [*['p1'] * 8, 'p2', 'p2']) is None, 'of two nights nobody knows'


def test_figures_of_other_sizes_do_not_hide_that_a_node_is_slower():
    speeds = np.array([[1.0, 100.0, 3.0]] * 6) * np.array([[1.01], [0.99], [1.0], [1.005], [0.995], [0.80]])
    speed = peers.relative_speed(np.log(speeds), 5, 0.01)
    assert speed.slower and speed.share == pytest.approx(0.8, rel=0.01) and speed.peers == 5


def test_a_slowdown_ends_with_three_good_nights_and_loses_what_its_nights_lost():
    x = np.log(np.array([10.0] * 20 + [8.0, 8.0, 10.0, 10.0, 8.0, 8.0] + [10.0] * 10))
    slow = np.isclose(x, np.log(8.0))
    labels = [f'n{night}' for night in range(len(x))]
    one = replay._slowdown('a', labels, x, np.arange(len(x)), slow, 20, accept_after=6)
    assert (one.begin, one.end, one.accepted) == ('n20', 'n25', True) and one.loss == pytest.approx(0.2)
    assert not replay._slowdown('a', labels, x, np.arange(len(x)), slow, 20, accept_after=7).accepted


def test_a_night_of_one_run_has_its_figure_and_one_of_several_their_mean():
    night, figures = np.array([0, 0, 1, 1, 1, 2]), np.array([8.0, 8.0, 8.0, 8.04, 8.08, 0.0])
    again = np.array([False, True, False, False, False, False])
    nights = Nights.of(np.array([0, 3]), night, figures, again, np.array([1]))
    assert nights.value[:2] == pytest.approx([np.log(8), np.log([8, 8.04, 8.08]).mean()]) and not np.isfinite(nights.value[2])
    assert nights.total.tolist() == pytest.approx([8, 24.12, 0])
    assert np.isfinite(nights.again).tolist() == [True, False, False]
