"""Bad nights that belong together, and what parts them."""

from __future__ import annotations

import numpy as np
import pytest

from parity.judge.stats import bad_nights


def nights(drawn: str) -> bad_nights.BadNights:
    """Return the bad nights of a row of nights: `x` bad, `s` of a slowdown that was found, `.` good."""
    bad, slow = (np.array([each == what for each in drawn]) for what in 'xs')
    return bad_nights.newest(bad, slow, np.zeros(len(bad)), [''] * len(bad))


@pytest.mark.parametrize('drawn, count, spells, tonight', [
    ('....', 0, 0, False), ('...x', 1, 1, True), ('..xx', 2, 1, True), ('x..x', 2, 2, True), ('x..x.', 2, 2, False),
    ('x' + 13 * '.' + 'x', 2, 2, True), ('x' + 14 * '.' + 'x', 1, 1, True),
    ('x.x' + 13 * '.', 2, 2, False), ('x.x' + 14 * '.', 0, 0, False),
    ('xsss', 0, 0, False),                       # the slowdown began with it
    ('x.sss', 1, 1, False), ('x.sss.x', 2, 2, True),
    ('x.' + 15 * 's' + '.x', 1, 1, True)])       # a slowdown that lasted is no spell
def test_bad_nights_belong_together_until_14_were_good(drawn, count, spells, tonight):
    found = nights(drawn)
    assert (found.count, found.spells, found.tonight) == (count, spells, tonight)


def test_each_bad_night_has_the_number_of_those_before_it():
    drawn = 'x.x..' + 14 * '.' + 'xx'
    assert bad_nights.counts(np.array([each == 'x' for each in drawn])).tolist() == [1, 0, 2, *[0] * 16, 1, 2]
