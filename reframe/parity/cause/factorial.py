"""The cause of a slowdown, from turns: the node, the software, both or neither.

A case takes turns on the slow node and on a sound one, with tonight's software and with the earlier one. Four
turns are a round, and the next round runs backwards, so that a steady drift cancels. Least squares gives the
effect of the node and that of the software, beside the level of each round and a drift.

An effect is *guilty* if its interval lies above 0 and it is a quarter of the slowdown at least. It is *innocent*
if its interval lies below half the slowdown and it is less than a quarter. Both intervals hold at once with 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy

from parity.judge.stats.interval import CONFIDENCE

Word = Literal['software', 'node', 'both', 'neither', 'not decided']
#: Turns of a round. Fewer rounds tell nothing of the noise.
TURNS, FEWEST = 4, 2
#: The share of the slowdown from which on an effect counts; twice as much must show.
_COUNTS = 0.25
#: No experiment resolves less: no benchmark repeats so well.
_FLOOR = 0.0005


class Turn(NamedTuple):
    """A turn: on the slow ``node`` or a sound one, with tonight's ``software`` or the earlier one. ``log``: of its
    speed, higher is better."""

    node: bool
    software: bool
    log: float


class Effect(NamedTuple):
    """A slowdown: a logarithm, and half of its interval. ``guilty``: None where that is open."""

    slower: float
    half: float
    guilty: bool | None

    @property
    def share(self) -> float:
        return -math.expm1(-self.slower)

    @property
    def interval(self) -> tuple[float, float]:
        return -math.expm1(self.half - self.slower), -math.expm1(-self.half - self.slower)


class Decision(NamedTuple):
    """``joint``: both, and only the two together. ``more``: rounds that would decide it, by the noise now."""

    word: Word
    node: Effect | None = None
    software: Effect | None = None
    joint: bool = False
    more: int = 0


def order(number: int, node: bool, software: bool) -> list[tuple[bool, bool]]:
    """Return the turns of a round (from 0) as (node, software). A factor that is not measured stays as tonight."""
    if not (node and software):
        first, other = (True, True), (not node, not software)
        turns = [first, other, other, first]
        return turns[::-1] if number % 2 else turns
    turns = [(True, True), (False, True), (False, False), (True, False)]
    if number // 2 % 2:     # the software changes oftener, then the node
        turns = [turns[0], turns[3], turns[2], turns[1]]
    return turns[::-1] if number % 2 else turns


def rounds(noise: float, loss: float) -> int:
    """Return how many rounds tell half the slowdown from none. ``noise``: the standard deviation of a turn, a
    share."""
    wanted = _COUNTS * -math.log1p(-loss)
    for count in range(FEWEST, 1000):
        if _student(3 * count - 4) * max(noise, _FLOOR) / math.sqrt(count) <= wanted:
            return count
    return 1000


def _student(freedom: int) -> float:
    return float(scipy.special.stdtrit(max(freedom, 1), 1 - (1 - CONFIDENCE) / 4))    # two effects at once


def decide(turns: Sequence[Turn], loss: float, either: bool = False) -> Decision:
    """Return the cause of a slowdown by the share ``loss``. ``turns``: in time, rounds of TURNS; a factor is
    measured where both of its values are among them. ``either``: what is faster counts as what is slower."""
    factors = [name for name in ('node', 'software') if len({getattr(turn, name) for turn in turns}) == 2]
    count, slowdown = len(turns) // TURNS, -math.log1p(-loss)
    if count < FEWEST or not factors:
        return Decision('not decided', more=FEWEST - count)
    effect, noise = _fitted(turns, factors, slowdown, either)
    effects = {name: effect([float(name == other) for other in factors]) for name in factors}
    # of each factor without the other one's fault
    single = [effect([1.0, 0.0, -0.5]), effect([0.0, 1.0, -0.5])] if factors[1:] else []
    innocent = bool(single) and all(one.guilty is False for one in single)
    joint = innocent and bool(effect([1.0, 1.0]).guilty)
    word = 'both' if joint else _word([effects[name].guilty for name in factors], factors)
    more = max(1, rounds(noise, loss) - count) if word == 'not decided' else 0
    return Decision(word, effects.get('node'), effects.get('software'), joint, more)


def _fitted(turns: Sequence[Turn], factors: Sequence[str], slowdown: float, either: bool
            ) -> tuple[Callable[[list[float]], Effect], float]:
    """Fit the turns. Return what tells the effect of a combination of factors, and the noise of a turn."""
    at, logs = np.arange(len(turns)), np.array([turn.log for turn in turns])
    values = [np.array([float(getattr(turn, name)) for turn in turns]) - 0.5 for name in factors]
    both = [values[0] * values[1]] if factors[1:] else []
    table = np.column_stack([*values, *both, (at - at.mean()) / TURNS,
                             *((at // TURNS == number).astype(float) for number in range(at[-1] // TURNS + 1))])
    inverse = np.linalg.pinv(table.T @ table)
    fit = inverse @ table.T @ logs
    freedom = len(turns) - table.shape[1]
    noise = math.sqrt(((logs - table @ fit) ** 2).sum() / freedom)

    def effect(weights: list[float]) -> Effect:
        along = np.array(weights + [0.0] * (table.shape[1] - len(weights)))
        half = _student(freedom) * noise * math.sqrt(along @ inverse @ along)
        return _judged(-float(along @ fit), max(half, _FLOOR), slowdown, either)
    return effect, noise


def _judged(slower: float, half: float, slowdown: float, either: bool) -> Effect:
    size = abs(slower) if either else slower
    counts = size >= _COUNTS * slowdown
    guilty = True if counts and size - half > 0 else \
        False if not counts and size + half < 2 * _COUNTS * slowdown else None
    return Effect(slower, half, guilty)


def _word(guilty: Sequence[bool | None], factors: Sequence[str]) -> Word:
    if None in guilty:
        return 'not decided'
    blamed = [name for name, is_so in zip(factors, guilty, strict=True) if is_so]
    return 'both' if len(blamed) == 2 else blamed[0] if blamed else 'neither'
