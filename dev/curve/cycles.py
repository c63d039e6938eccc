"""Life cycles of a cell: a level night by night, events, nodes, and the nights on which an alarm is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from dev.curve import rule
from dev.curve.families import GROUP, RERUNS, RUNS
from dev.curve.figures import Amount, Figure, Row

#: The noise of a run (normal), by how many nights cells differ, and the % of cells that have to do what is wanted.
CV, STAGGER, WANTED = 0.01, 10, 95.0


@dataclass(frozen=True)
class Cycle:
    """``level`` gives the log of the level for nights since the beginning, NaN where the cell did not run.

    ``wants``: a word, and nights [from, to) since the beginning; True: at least one is to be slow, False: none.
    ``events`` by night; ``nodes``: another node from the beginning on; ``begin``: nights before, at least."""

    name: str
    level: Callable[[np.ndarray], np.ndarray]
    wants: tuple[tuple[str, int, int, bool], ...]
    events: dict[int, str] = field(default_factory=dict)
    nodes: bool = False
    begin: int = 60


def step(*steps: tuple[int, float]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a level that is multiplied by 1 + change from each night on."""
    return lambda night: np.sum([np.where(night >= at, np.log1p(change), 0.0) for at, change in steps], axis=0)


def gap(night: np.ndarray) -> np.ndarray:
    return np.where((night >= 0) & (night < 10), np.nan, 0.0)


def told(what: str, night: int = 0) -> tuple[str, int, int, bool]:
    return f'{what} told within 3', night, night + 3, True


_QUIET = ('quiet', 0, 20, False)
CYCLES = [
    Cycle('-6 %, accepted after 10, -5 % after 40', step((0, -.06), (40, -.05)), (
        told('-6 %'), ('then quiet', 10, 40, False), told('-5 %', 40)), {10: 'accepted'}),
    Cycle('-6 %, acked after 10, -40 % after 20', step((0, -.06), (20, -.4)), (
        told('-6 %'), ('then quiet', 10, 20, False), told('-40 %', 20)), {10: 'acked'}),
    Cycle('+8 %, -5 % after 20', step((0, .08), (20, -.05)), (_QUIET, told('-5 %', 20))),
    Cycle('+8 %, -5 % after 5', step((0, .08), (5, -.05)), (('quiet for 40', 0, 40, False),)),
    Cycle('-.05 % a night from night 41', lambda night: -.0005 * np.fmax(night, 0), (
        ('told within 100', 0, 100, True),), begin=40),
    Cycle('-.05 % a night from night 1', lambda night: -.0005 * night, (
        ('told within 140', 0, 140, True),), begin=0),
    Cycle('software that slows by 5 %', step((0, -.05)), (told('-5 %'),), {0: 'software'}),
    Cycle('software alike, -5 % after 20', step((20, -.05)), (_QUIET, told('-5 %', 20)), {0: 'software'}),
    Cycle('another node, 5 % slower', step((0, -.05)), (told('-5 %'),), nodes=True),
    Cycle('another node, alike, -5 % after 20', step((20, -.05)), (_QUIET, told('-5 %', 20)), nodes=True),
    Cycle('one night -30 %', step((0, -.3), (1, 1 / .7 - 1)), (_QUIET,)),
    Cycle('missing for 10', gap, (('quiet for 30', 0, 30, False),)),
    Cycle('missing for 10, then -5 %', lambda night: gap(night) + step((10, -.05))(night), (told('-5 %', 10),))]


def rows(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Return the % of the cells that do what is wanted, for each wanted thing."""
    for cycle in CYCLES:
        rng, cells = np.random.default_rng([seed, *cycle.name.encode()]), amount.cycles * GROUP
        begin = cycle.begin + rng.integers(0, STAGGER, cells)
        night = np.arange(cycle.begin + STAGGER + max(want[2] for want in cycle.wants)) - begin[:, None]
        noise = CV * rng.standard_normal((*night.shape, RUNS + RERUNS))
        events = np.full(night.shape, '', dtype='<U8')
        for at, word in cycle.events.items():
            events[night == at] = word
        slow = rule.follow(np.exp(cycle.level(night))[..., None] * (1 + noise), events=events,
                           nodes=(night >= 0).astype(int) if cycle.nodes else None).slow
        for said, start, end, wanted in cycle.wants:
            right = (slow & (night >= start) & (night < end)).any(axis=1) == wanted
            yield Row(f'{cycle.name}: {said}', {'cells': Figure.of(rule.per_group(100 * right), WANTED)})
