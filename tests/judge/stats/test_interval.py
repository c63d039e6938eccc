"""The interval of a ratio: the degrees of freedom behind its width."""

from __future__ import annotations

import math

import numpy as np
import pytest

from parity.judge.stats import interval

#: Student's t for 95 %, from a printed table, by degrees of freedom.
T = {1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 18: 2.101}


@pytest.mark.parametrize('sessions, freedom', [(2, 1), (3, 2), (5, 4), (10, 9)])
def test_a_side_has_one_degree_of_freedom_less_than_sessions(sessions, freedom):
    found = np.random.default_rng(sessions).normal(size=sessions)
    half = interval.half_width([interval.part(found)], 0.95)
    assert half == pytest.approx(T[freedom] * found.std(ddof=1) / math.sqrt(sessions), rel=1e-3)


@pytest.mark.parametrize('variances, freedom', [((1.0, 1.0), 18), ((1.0, 1e-9), 9), ((0.0, 1.0), 9)])
def test_two_sides_of_ten_sessions_have_the_degrees_of_satterthwaite(variances, freedom):
    half = interval.half_width([(variance, 1 / 10, 9) for variance in variances], 0.95)
    assert half == pytest.approx(T[freedom] * math.sqrt(sum(variances) / 10), rel=1e-3)


def test_two_sessions_that_lie_together_beside_many_have_no_more_degrees_than_alike_noise_gives():
    half = interval.half_width([(1e-12, 1 / 2, 1), (1.0, 1 / 30, 29)], 0.95)
    alike = (1 / 2 + 1 / 30) ** 2 / ((1 / 2) ** 2 + (1 / 30) ** 2 / 29)
    assert alike < 1.2 and half > T[2] * math.sqrt(1 / 30)


def test_another_session_has_two_thirds_of_the_degrees():
    assert interval.part(np.arange(10.0), weight=1.0)[2] == pytest.approx(6) and interval.part(np.arange(10.0))[1:] == (0.1, 9)
