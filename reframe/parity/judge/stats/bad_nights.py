"""Bad nights of a cell on which no slowdown was found: how many belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parity.judge.stats import rule


@dataclass(frozen=True)
class BadNights:
    """The bad nights that belong together: less than GOOD_NIGHTS good ones lie between two, and after the last.

    ``places``: among the nights that were given. ``tonight``: whether the last of these is one."""

    places: tuple[int, ...] = ()
    tonight: bool = False

    @property
    def count(self) -> int:
        return len(self.places)

    @property
    def spells(self) -> int:
        """Return in how many spells they came: neighbouring nights are one."""
        if not self.places:
            return 0
        return 1 + int((np.diff(self.places) > 1).sum())


def newest(bad: np.ndarray, slow: np.ndarray) -> BadNights:
    """Return the bad nights that belong together.

    ``bad``, ``slow`` [nights]: bad ones on which nothing was found, and those of a slowdown that was. A slowdown
    takes in the bad nights right before it. One of more than GOOD_NIGHTS nights parts those before it from those
    after it: a slowdown that lasted is no spell."""
    last, places = max(_chains(bad, slow), default=(-1, []))
    if len(bad) - 1 - last >= rule.GOOD_NIGHTS:
        return BadNights()
    tonight = len(bad) - 1
    return BadNights(tuple(places), tonight in places)


def counts(bad: np.ndarray) -> np.ndarray:
    """Return for each bad night how many belong together until then; 0 for the others."""
    count = np.zeros(len(bad), dtype=int)
    for night, places in _chains(bad, np.zeros_like(bad)):
        count[night] = len(places)
    return count


def _chains(bad: np.ndarray, slow: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Yield each night that is not good, with the bad nights that belong together until then."""
    places: list[int] = []
    last, begin = -rule.GOOD_NIGHTS - 1, 0          # the last night that was not good, and its neighbours' first
    for night in np.flatnonzero(bad | slow).tolist():
        good = night - last - 1
        if good:
            begin = night
        if good >= rule.GOOD_NIGHTS:
            places = []
        if not slow[night]:
            places = [*places, night]
        elif night - begin >= rule.GOOD_NIGHTS:
            places = []
        else:
            places = [place for place in places if place < begin]
        last = night
        yield night, places
