"""The words on what hides a slowdown, with values that were worked out by hand."""

from __future__ import annotations

import numpy as np

from judging import Cell, Night, judge
from parity.judge.verdict import reasons


def test_two_modes_are_counted_with_their_spells():
    low = np.array([0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0], bool)
    nights = np.where(low, np.log(0.5), 0.0) + 0.001 * np.arange(14)
    assert reasons._two_modes(nights) == '4 nights of 14 were 50 % lower, in 3 spells'
    once = np.sort(low)[::-1]
    assert reasons._two_modes(np.where(once, np.log(0.5), 0.0)) == '', 'one spell is a step'
    assert reasons._two_modes(np.where(low, np.log(0.96), 0.0)) == '', 'less than 5 % hides no slowdown'
    assert reasons._two_modes(nights[:7]) == '', 'a mode has four nights'


def test_two_modes_that_scatter_as_far_as_they_are_apart_are_none():
    # the upper mode has a standard deviation of 0.3: 1.1 is less than four times that
    upper, lower = [0.7, 1.3] * 4, [-0.1] * 5
    assert reasons._two_modes(np.array([*upper[:3], *lower[:2], *upper[3:5], *lower[2:4], *upper[5:], *lower[4:]])) == ''


def test_a_wild_time_lies_between_its_first_and_its_last_large_step():
    nights = np.zeros(40)
    nights[[5, 9]] = 0.2                      # steps at 5, 6, 9 and 10
    assert reasons._wild_time(nights, 0.05) == (4, 10)
    assert reasons._wild_time(nights[:30], 0.05) is None, 'too few nights'
    assert reasons._wild_time(np.where(np.arange(40) == 5, 0.2, 0.0), 0.05) is None, 'two steps are one wild night'
    calm_end = nights + 0.02 * (np.arange(40) % 2)
    assert reasons._wild_time(calm_end, 0.08) is None, 'its end scatters, too: 4 x 0.02 is no less than 0.08'


def test_a_night_without_a_measure_is_counted_but_not_tonight():
    nights = [Night((100.0 + at % 3,) * 2, label=f'n{at}') for at in range(60)]
    nights[20] = Night((-1.0, -1.0), label='n20')
    told = judge(Cell(tuple(nights)))
    assert [*reasons.warnings(told)] == ['1 night with a figure of 0 or below: left out']
    assert 'tonight is' in reasons.why(told) and 'the level of 59 nights' in reasons.why(told)


def test_a_fall_from_a_rise_is_said_to_lead_back_to_the_level_before_and_no_other_fall():
    wave = 0.1 * np.sin(np.arange(90))
    risen = [Night((100.0 * (1.1 if 60 <= at < 85 else 1.0) + wave[at],) * 2, label=f'n{at}') for at in range(88)]
    fallen = [Night((100.0 * (0.9 if at >= 85 else 1.0) + wave[at],) * 2, label=f'n{at}') for at in range(88)]
    assert ', back to the level before n60, ' in reasons.why(judge(Cell(tuple(risen))))
    assert 'worse since n85' in reasons.why(judge(Cell(tuple(fallen))))
    assert 'back to the level' not in reasons.why(judge(Cell(tuple(fallen))))
