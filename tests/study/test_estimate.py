"""Intervals of functions of cells: what they cover, and where they decide nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from parity.judge.compare.model import Value
from parity.study.published.estimate import Quantity, estimated
from parity.study.published.figures import StudyCell
from parity.study.published.rows import ratio


def cell(name, values, turns=False, **fields):
    sessions = [f'{name}{number}' for number in range(len(values))]
    runs = [Value(float(value), session=session) for value, session in zip(values, sessions, strict=True)]
    of_turn = {session: str(number) for number, session in enumerate(sessions)} if turns else {}
    return StudyCell('one', 'rate', {'side': name}, 's', 'lower', runs, turns=of_turn, **fields)


def sides(drift, turns):
    """Twelve runs a side, AB BA, which get slower from run to run; b takes 3 % longer."""
    noise = np.random.default_rng(2).normal(0, .002, 24)
    slower = np.linspace(0, drift, 24)
    runs = {'a': [], 'b': []}
    for turn in range(12):
        for place, side in enumerate('ab' if turn % 2 == 0 else 'ba'):
            at = 2 * turn + place
            runs[side].append((1.03 if side == 'b' else 1.0) * math.exp(slower[at] + noise[at]))
    return [cell(side, values, turns) for side, values in runs.items()]


def test_a_drift_hides_a_difference_but_for_runs_that_are_pairs():
    apart, pairs = (sides(.1, turns) for turns in (False, True))
    unpaired, paired = estimated(ratio(apart[1], apart[0])), estimated(ratio(pairs[1], pairs[0]))
    assert unpaired.low < 1 < unpaired.high and unpaired.few == '12 runs that are no pairs: 15 are the least'
    assert 1.02 < paired.low < 1.03 < paired.high < 1.04 and not paired.few


def test_a_number_of_several_cells_is_as_wide_as_the_row_of_the_same_ratio():
    walk = np.cumsum(np.random.default_rng(1).normal(0, .01, 30))
    cells = [cell('a', np.exp(walk)), cell('b', np.exp(.1 + walk[::-1]))]
    row = estimated(ratio(cells[1], cells[0]))
    same = estimated(Quantity('', cells, lambda level: 1 / (level(cells[0]) / level(cells[1]))))
    assert (same.low, same.high) == pytest.approx((row.low, row.high), rel=1e-3) and 'neighbours in time' in row.why


@pytest.mark.parametrize('runs, few', [(2, None), (3, '3 runs that are no pairs: 15 are the least'), (15, '')])
def test_few_runs_that_are_no_pairs_decide_nothing(runs, few):
    above, below = (cell(side, [level * v for v in ([1.0, 1.2, 1.1] * 5)[:runs]]) for side, level in (('b', 2), ('a', 1)))
    found = estimated(ratio(above, below))
    assert (found.low is None) if few is None else found.few == few


def test_a_maximum_counts_each_cell_that_may_be_the_largest():
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(200):
        cells = [cell(name, rng.normal(1, .02, 20)) for name in 'abcd']
        found = estimated(Quantity('', cells, lambda level, of=cells: level(of[0]) / max(level(c) for c in of[1:])))
        missed += not found.low <= 1 <= found.high
    assert missed / 200 <= .07


def test_a_spread_of_heavy_tails_is_covered():
    rng = np.random.default_rng(6)
    missed = 0
    for _ in range(200):
        above, below = (cell(name, 1 + .02 * rng.standard_t(3, 35)) for name in 'ab')
        found = estimated(replace(ratio(above, below), of='spread'))
        missed += not found.low <= 1 <= found.high
    assert missed / 200 <= .07


def test_a_figure_printed_once_has_the_rounding_of_its_digits_only_and_a_setting_is_exact():
    once = cell('a', [2.0], line='x', text='2 s')
    setting = cell('b', [10.0], line='x', text='10')
    setting.better = ''
    found = estimated(Quantity('', [once, setting], lambda level: level(once) * level(setting)))
    assert (found.low, found.value, found.high, found.why) == (15, 20, 25, 'printed once: rounding only')
    exact = estimated(Quantity('', [setting], lambda level: level(setting)))
    assert (exact.low, exact.high, exact.why) == (10, 10, 'exact')
