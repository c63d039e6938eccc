"""Bad nights that belong together: in how many spells they came."""

from __future__ import annotations

import numpy as np
import pytest

from parity.judge.stats.bad_nights import newest


@pytest.mark.parametrize('below, nodes, spells', [
    # bad, good, good, bad; and with nights between that were half as low, on one of them or on both
    ([.12, .0, .01, .12], [''] * 4, 2), ([.12, .07, .01, .12], [''] * 4, 2), ([.12, .07, .08, .12], [''] * 4, 1),
    # how low a night was is not known without a level: it was in order
    ([.0, .0, .0, .0], [''] * 4, 2),
    # both ran on c3: a night elsewhere says nothing of it, and a good one there does
    ([.12, .0, .01, .12], ['c3', 'c1', 'c2', 'c3'], 1), ([.12, .0, .01, .12], ['c3', 'c1', 'c3', 'c3'], 2),
    ([.12, .0, .01, .12], ['c3,c4', 'c1', 'c2', 'c5,c3'], 1),
    # they ran on different nodes, or on the same ones each night
    ([.12, .0, .01, .12], ['c3', 'c1', 'c2', 'c4'], 2), ([.12, .0, .01, .12], ['c3'] * 4, 2)])
def test_a_good_night_parts_two_spells_where_it_ran_on_the_same_node(below, nodes, spells):
    bad = np.array([True, False, False, True])
    found = newest(bad, np.zeros_like(bad), np.array(below), nodes)
    assert (found.count, found.tonight, found.spells) == (2, True, spells)


def test_no_bad_night_is_no_spell():
    none = np.zeros(3, dtype=bool)
    assert newest(none, none, np.zeros(3), [''] * 3).spells == 0
