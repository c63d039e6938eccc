"""The cause of a slowdown from turns: the decision, and how often it is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dev import cause as simulated
from parity.cause import factorial
from parity.cause.factorial import Turn


def turns(rounds: int, node: float = 0.0, software: float = 0.0, noise: float = 0.01, both: tuple[bool, bool] = (True, True),
          drift: float = 0.0, together: float = 0.0) -> list[Turn]:
    """Turns with effects that are shares, and a steady drift from turn to turn."""
    draw, found = np.random.default_rng(1), []
    for number in range(rounds):
        for on, new in factorial.order(number, *both):
            slower = on * math.log1p(-node) + new * math.log1p(-software) + (on and new) * math.log1p(-together)
            found.append(Turn(on, new, slower + drift * len(found) + draw.normal(0, noise)))
    return found


@pytest.mark.parametrize(('node', 'software', 'word'), [(0, 0.08, 'software'), (0.08, 0, 'node'), (0.04, 0.04, 'both'), (0, 0, 'neither')])
def test_the_cause_is_told(node, software, word):
    assert factorial.decide(turns(6, node, software), 0.08).word == word


def test_a_steady_drift_blames_nobody():
    assert factorial.decide(turns(6, drift=0.01), 0.08).word == 'neither'
    assert factorial.decide(turns(6, software=0.08, drift=-0.02), 0.08).word == 'software'


def test_two_that_are_slow_only_together_are_both():
    found = factorial.decide(turns(6, together=0.10), 0.10)
    assert (found.word, found.joint) == ('both', True)
    assert not factorial.decide(turns(6, 0.05, 0.05), 0.10).joint


@pytest.mark.parametrize(('both', 'word'), [((True, False), 'node'), ((False, True), 'software')])
def test_one_factor_alone(both, word):
    found = factorial.decide(turns(4, 0.08, 0.08, both=both), 0.08)
    assert found.word == word and (found.node is None) is (word == 'software')
    assert factorial.decide(turns(4, both=both), 0.08).word == 'neither'


def test_of_two_environments_the_faster_one_is_told_like_the_slower_one():
    faster = turns(6, software=-0.08, both=(False, True))
    assert factorial.decide(faster, 0.04).word == 'neither' and factorial.decide(faster, 0.04, either=True).word == 'software'
    assert factorial.decide(turns(3, noise=0.1, software=-0.02, both=(False, True)), 0.04, either=True).word == 'not decided'


def test_what_the_noise_hides_is_not_decided_and_the_rounds_that_would_are_counted():
    found = factorial.decide(turns(3, software=0.01, noise=0.05), 0.01)
    assert found.word == 'not decided' and found.more == factorial.rounds(0.05, 0.01) - 3 or 500 < found.more < 1000
    assert factorial.decide(turns(1, software=0.1), 0.1).more == 1


def test_rounds_follow_from_the_noise():
    assert factorial.rounds(0.01, 0.10) < factorial.rounds(0.02, 0.10) < factorial.rounds(0.02, 0.05)
    assert factorial.rounds(0.0, 0.5) == factorial.FEWEST


def test_neighbours_differ_in_one_thing_only_and_a_round_has_each_turn_once():
    for number in range(4):
        found = factorial.order(number, True, True)
        assert len(set(found)) == 4 and all(sum(a != b for a, b in zip(one, other, strict=True)) == 1
                                            for one, other in zip(found, found[1:], strict=False))


def test_a_wrong_word_is_rare():
    rows = simulated.table(60)
    assert max(row.wrong for row in rows) <= simulated.MOST_WRONG
    assert all(row.open < 0.05 for row in rows if '(e)' not in row.case) and all(row.open > 0.9 for row in rows if '(e)' in row.case)


@pytest.mark.parametrize('both', [(True, True), (True, False), (False, True)])
def test_two_rounds_weigh_early_and_late_turns_alike(both):
    for first in (0, 2):
        found = [turn for number in (first, first + 1) for turn in factorial.order(number, *both)]
        for factor in range(2):
            if both[factor]:
                assert sum(at if turn[factor] else -at for at, turn in enumerate(found)) == 0
