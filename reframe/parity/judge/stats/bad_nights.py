"""Bad nights of a cell on which no slowdown was found: how many belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from parity.judge.stats import rule


@dataclass(frozen=True)
class BadNights:
    """The bad nights that belong together: less than GOOD_NIGHTS good ones lie between two, and after the last.

    ``places``: among the nights that were given. ``tonight``: whether the last of these is one. ``spells``: in how
    many they came; a good night parts two."""

    places: tuple[int, ...] = ()
    tonight: bool = False
    spells: int = 0

    @property
    def count(self) -> int:
        return len(self.places)


def newest(bad: np.ndarray, slow: np.ndarray, below: np.ndarray, nodes: Sequence[str]) -> BadNights:
    """Return the bad nights that belong together.

    ``bad``, ``slow`` [nights]: bad ones on which nothing was found, and those of a slowdown that was. A slowdown
    takes in the bad nights right before it. One of more than GOOD_NIGHTS nights parts those before it from those
    after it: a slowdown that lasted is no spell. ``below``: how far each night is below its level. ``nodes``: the
    names of its nodes, '' where they are not known."""
    tonight = len(bad) - 1
    last, places = -1, []
    for night, chain in _chains(bad, slow):
        last, places = night, chain
    good = tonight - last
    if not places or good >= rule.GOOD_NIGHTS:
        return BadNights()
    return BadNights(
        places=tuple(places),
        tonight=places[-1] == tonight,
        spells=_spells(places, below, nodes))


def _spells(places: Sequence[int], below: np.ndarray, nodes: Sequence[str]) -> int:
    """Return in how many spells bad nights came. A night between two parts them if it was good: not half as low.

    Where all bad ones ran on one node, a night elsewhere says nothing of that: jobs come and go there, and not the
    cell."""
    nodes_of_places = [set(nodes[place].split(',')) for place in places]
    shared = set.intersection(*nodes_of_places) - {''}
    spells = 1
    for before, after in pairwise(places):
        depth = min(below[before], below[after])
        for night in range(before + 1, after):
            is_good = depth <= 0 or below[night] < depth / 2
            there = nodes[night].split(',')
            is_elsewhere = shared and shared.isdisjoint(there)
            if is_good and not is_elsewhere:
                spells += 1
                break
    return spells


def counts(bad: np.ndarray) -> np.ndarray:
    """Return for each bad night how many belong together until then; 0 for the others."""
    count = np.zeros(len(bad), dtype=int)
    for night, places in _chains(bad, np.zeros_like(bad)):
        count[night] = len(places)
    return count


def _chains(bad: np.ndarray, slow: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Yield each night that is bad or slow, with the bad nights that belong together until then.

    Nights without a good one between them are a stretch. A slow night takes the bad ones of its stretch out. If
    the stretch began GOOD_NIGHTS nights before or earlier, it takes out all."""
    chain: list[int] = []
    last = -rule.GOOD_NIGHTS - 1        # the last night that was not good
    begin = 0                           # the first night of the stretch
    for night in np.flatnonzero(bad | slow).tolist():
        good_nights = night - last - 1
        if good_nights:
            begin = night
        if good_nights >= rule.GOOD_NIGHTS:
            chain = []
        nights_since_begin = night - begin
        if not slow[night]:
            chain = [*chain, night]
        elif nights_since_begin >= rule.GOOD_NIGHTS:
            chain = []
        else:
            chain = [place for place in chain if place < begin]
        last = night
        yield night, chain
