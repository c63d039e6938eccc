"""The judgement of a cell: what its history says about noise, and when a drop is believed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import Cell, Night, judge, judge_all
from mutations import examples
from parity.stats.judgement import Reference
from parity.stats.noise import DEFAULT, Nights, of_history, of_nights
from parity.stats.search import SLOW, exact, follow


def nights(levels, cv=0.01, seed=0, reruns=2, shared=0.0) -> tuple[Night, ...]:
    """Nights at 100 x level: three runs and so many reruns each, with a spread of ``cv``, normal noise."""
    rng = np.random.default_rng(seed)
    made = []
    for i, level in enumerate(levels):
        night = shared * rng.standard_normal()
        runs, again = (tuple((100 * level * (1 + cv * rng.standard_normal(n) + night)).tolist()) for n in (3, reruns))
        made.append(Night(runs, again, label=f'n{i + 1}'))
    return tuple(made)


def steps(*parts) -> list[float]:
    """steps((40, 1.0), (3, 0.95)): forty nights at 1, then three at 0.95."""
    return [level for many, level in parts for _ in range(many)]


# what the noise is

def model(values, within=None):
    values = np.atleast_2d(np.asarray(values, dtype=float))
    return of_history(values, np.full_like(values, np.nan) if within is None else within, DEFAULT)


def test_the_spread_of_normal_noise_is_its_standard_deviation():
    values = 100 * (1 + 0.02 * np.random.default_rng(1).standard_normal((400, 60)))
    assert model(values).spread.mean() == pytest.approx(0.02, rel=0.03)


def test_a_history_that_never_moves_has_the_floor_as_its_spread():
    assert model([50.0] * 40).spread[0] == DEFAULT.floor


def test_a_timer_of_whole_seconds_shows_as_the_resolution():
    found = model([45, 45, 46, 45, 45, 44, 45, 46, 45, 45] * 4)
    assert found.resolution[0] == pytest.approx(1 / 45)
    assert found.spread[0] >= 1 / 45 / 2


def test_l_skewness_of_exponential_noise_is_a_third():
    values = 1000 - np.random.default_rng(2).exponential(size=(2000, 100))
    assert model(values).skew.mean() == pytest.approx(-1 / 3, abs=0.03)


def test_dependence_on_the_night_before_is_estimated():
    rng = np.random.default_rng(3)
    e, x = rng.standard_normal((300, 100)), np.zeros((300, 100))
    for t in range(1, 100):
        x[:, t] = 0.6 * x[:, t - 1] + e[:, t]
    assert model(100 + x).lag.mean() == pytest.approx(0.6, abs=0.05)
    assert abs(model(100 + e).lag.mean()) < 0.03


def test_nights_that_share_noise_scatter_more_than_their_runs_explain():
    rng = np.random.default_rng(4)
    mean = 100 + rng.standard_normal((300, 60)) * math.sqrt(1 / 3)
    within = np.full_like(mean, math.sqrt(1 / 3))
    assert model(mean, within).shared.mean() == pytest.approx(1, abs=0.05)
    assert model(mean + rng.standard_normal(mean.shape), within).shared.mean() == pytest.approx(2, abs=0.1)


def test_slow_nights_among_good_ones_are_counted_and_do_not_widen_the_core():
    found = model([100, 101, 99, 100, 100.5, 99.5, 100, 100, 88, 100] * 4)
    assert found.slow[0] == 4 and found.core[0] < 0.01


@pytest.mark.parametrize('below, k, n', [(0, 3, 10), (2, 3, 10), (4, 2, 12), (10, 3, 10)])
def test_the_exact_p_counts_the_choices_of_nights(below, k, n):
    """Of all choices of k among n + k ranks, those whose best is at most the lowest below + k."""
    choices = list(itertools.combinations(range(n + k), k))
    assert exact(below, k, n) == pytest.approx(sum(max(c) < below + k for c in choices) / len(choices))


# when a drop is believed

def test_a_short_history_is_insufficient_and_says_from_when_on_it_is_not():
    told = judge(Cell(nights(steps((35, 1), (4, 0.5)))))
    assert told.verdict == 'insufficient' and 'night 40' in told.why and not told.alarm


def test_forty_nights_are_history_enough():
    assert judge(Cell(nights(steps((40, 1))))).verdict == 'ok'
    assert judge(Cell(nights(steps((40, 1), (3, 0.95))))).verdict == 'regressed'


def test_a_drop_of_five_percent_is_found_within_three_nights():
    told = [judge(Cell(nights(steps((60, 1), (n, 0.95))))) for n in (1, 2, 3)]
    assert [t.verdict for t in told] == ['ok', 'regressed', 'regressed']
    assert told[2].why.startswith('worse since n61 (3 nights): ')
    assert told[2].value / told[2].baseline == pytest.approx(0.95, abs=0.015)
    assert told[2].value < told[2].low < told[2].baseline < told[2].high


def test_a_large_drop_is_believed_at_once_if_a_rerun_confirms_it():
    drop = steps((60, 1), (1, 0.85))
    assert judge(Cell(nights(drop))).verdict == 'regressed'
    alone = judge(Cell(nights(drop, reruns=0)))
    assert alone.verdict == 'ok' and alone.needs_rerun and 'not run again' in ' '.join(alone.warnings)


def test_a_rerun_that_contradicts_the_runs_stands():
    past = nights(steps((60, 1)))
    tonight = Night((85.0, 85.5, 84.8), (100.2, 99.7))
    told = judge(Cell((*past, tonight)))
    assert told.verdict == 'ok' and told.value == pytest.approx(100, abs=0.5)


def test_a_rerun_on_another_node_confirms_what_one_on_the_same_does_not():
    past = nights(steps((60, 1)))
    tonight = Night((94.0, 94.3, 93.8), (94.1, 94.4))
    assert judge(Cell((*past, tonight))).verdict == 'ok'
    assert judge(Cell((*past, replace(tonight, elsewhere=True)))).verdict == 'regressed'


def test_after_a_long_history_without_a_slow_night_one_night_is_enough():
    assert judge(Cell(nights(steps((130, 1), (1, 0.94))))).verdict == 'regressed'


def test_one_wild_run_makes_no_night():
    past = nights(steps((60, 1)))
    wild = Night((100.1, 60.0, 99.8), (100.3, 99.6))
    told = judge(Cell((*past, wild)))
    assert told.verdict == 'ok' and told.value > 98


def test_a_slow_node_on_some_nights_is_no_regression():
    rng = np.random.default_rng(5)
    levels = np.where(rng.random(80) < 0.15, 0.94, 1.0)
    levels[-1] = 0.94
    told = judge(Cell(nights(levels)))
    assert told.verdict == 'ok' and any('slow ones among good ones' in w for w in told.warnings)


def test_nights_that_share_noise_or_depend_on_each_other_are_told_of():
    told = judge(Cell(nights(steps((60, 1)), cv=0.003, shared=0.01)))
    assert any('scatter' in w for w in told.warnings)
    drifting = 1 + 0.02 * np.cumsum(np.random.default_rng(6).standard_normal(60)) / 8
    assert any('depend on the night before' in w for w in judge(Cell(nights(drifting, cv=0.002))).warnings)


def test_many_cells_at_once_make_the_rules_stricter():
    cell = Cell(nights(steps((40, 1), (3, 0.978))))
    assert judge(cell).verdict == 'regressed'
    assert judge(cell, cells=1_000_000).verdict == 'ok'
    assert judge_all([cell] * 3, at_once=1) == [judge(cell)] * 3


def test_a_slowdown_that_lasts_is_never_adopted_as_normal_and_its_end_is_seen():
    lasting = steps((60, 1), (200, 0.95))
    told = judge(Cell(nights(lasting)))
    assert told.verdict == 'regressed' and told.why.startswith('worse since n61 (200 nights)')
    assert judge(Cell(nights([*lasting, 1, 1]))).verdict == 'ok'


def test_an_improvement_is_told_becomes_the_baseline_and_a_fall_back_is_a_regression():
    assert judge(Cell(nights(steps((60, 1), (3, 1.05))))).verdict == 'improved'
    assert judge(Cell(nights(steps((60, 1), (30, 1.05))))).verdict == 'improved'
    assert judge(Cell(nights(steps((60, 1), (60, 1.05))))).verdict == 'ok'
    assert judge(Cell(nights(steps((60, 1), (60, 1.05), (3, 1))))).verdict == 'regressed'
    assert judge(Cell(nights(steps((60, 1), (10, 1.05), (5, 1))))).verdict == 'ok'


def test_a_slow_drift_is_found_although_no_window_shows_a_step():
    told = judge(Cell(nights(1 - 0.0004 * np.arange(200))))
    assert told.verdict == 'regressed' and 'drift' in told.why


def test_the_accepted_reference_is_held_against_the_last_nights():
    past = nights(steps((60, 1)))
    assert judge(Cell(past, reference=Reference(100, 95, 105))).verdict == 'ok'
    told = judge(Cell(past, reference=Reference(107, 103, None)))
    assert told.verdict == 'regressed' and 'accepted 107' in told.why
    assert judge(Cell(past, reference=Reference(93, None, 97))).verdict == 'improved'
    assert judge(Cell(past, 'lower', Reference(93, None, 97))).verdict == 'regressed'
    assert judge(Cell(past, reference=Reference(100.2, 100.1, None))).verdict == 'ok', 'the noise is wider than that bound'


def test_a_rerun_is_wanted_for_a_low_night_only():
    past = nights(steps((60, 1)), reruns=0)
    assert judge(Cell((*past, Night((95.0, 95.2, 94.9))))).needs_rerun
    assert not judge(Cell((*past, Night((100.0, 100.2, 99.9))))).needs_rerun
    assert not judge(Cell((*past, Night((95.0, 95.2, 94.9), (95.1, 95.0))))).needs_rerun, 'it was run again'
    known = nights(steps((60, 1), (10, 0.95)), reruns=0)
    assert not judge(Cell(known)).needs_rerun, 'the slowdown is known already'


def test_a_median_of_zero_has_no_measure():
    told = judge(Cell(tuple(Night((0.0, 0.0, 0.0)) for _ in range(60))))
    assert told.verdict == 'insufficient' and '0' in told.why and told.baseline is None


# what must always hold

histories = st.builds(
    lambda seed, step, at, cv: nights(steps((at, 1), (70 - at, 1 + step)), cv=cv, seed=seed),
    st.integers(0, 10**6), st.sampled_from([0, -0.02, -0.05, -0.2, 0.1]), st.integers(41, 69),
    st.sampled_from([0.002, 0.01, 0.03]))


def changed(cell: tuple[Night, ...], change) -> tuple[Night, ...]:
    return tuple(replace(n, runs=tuple(map(change, n.runs)), reruns=tuple(map(change, n.reruns))) for n in cell)


@examples(40)
@given(histories, st.sampled_from([2.0 ** -20, 0.25, 1024.0]))
def test_the_unit_does_not_matter(past, unit):
    assert judge(Cell(changed(past, lambda v: v * unit))).why == judge(Cell(past)).why


@examples(40)
@given(histories)
def test_lower_is_better_is_the_mirror_of_higher_is_better(past):
    one, other = judge(Cell(past)), judge(Cell(changed(past, lambda v: -v), 'lower'))
    assert (one.verdict, one.why) == (other.verdict, other.why)


@examples(40)
@given(histories)
def test_the_order_of_a_nights_runs_does_not_matter(past):
    turned = tuple(replace(n, runs=n.runs[::-1], reruns=n.reruns[::-1]) for n in past)
    assert judge(Cell(turned)).verdict == judge(Cell(past)).verdict


def states(values: np.ndarray) -> np.ndarray:
    """The state of every night of series [series, nights, runs], reruns known."""
    many, count, runs = values.shape
    night, run = np.repeat(np.arange(many * count), runs), np.tile(np.arange(runs) < 3, many * count)
    table = Nights.of(np.arange(many + 1) * count, night, values.ravel(), ~run)
    return follow(table, of_nights(table, DEFAULT), DEFAULT).state.reshape(many, count)


@examples(15)
@given(st.integers(0, 10**6), st.sampled_from([0.0, -0.05, 0.06]))
def test_later_nights_never_change_what_was_said_before(seed, step):
    rng = np.random.default_rng(seed)
    values = 1 + 0.02 * rng.standard_normal((4, 170, 5))
    values[:, rng.integers(45, 100):rng.integers(100, 165)] += step
    whole = states(values)
    for until in (60, 101, 130, 169):
        assert (states(values[:, :until]) == whole[:, :until]).all()


def test_series_are_judged_each_for_itself():
    values = 1 + 0.02 * np.random.default_rng(7).standard_normal((30, 120, 6))
    values[::3, 80:] -= 0.06
    together = states(values)
    assert all((states(values[k:k + 1])[0] == together[k]).all() for k in range(30))
    assert (together[::3, -1] == SLOW).all() and (together == SLOW).sum() >= 10 * 35
