"""The cause of a slowdown, from turns: the node, the software, both or neither.

A case takes turns on the slow node and on a sound one, with tonight's software and with the earlier one. Four
turns are a round, and the next round runs backwards, so that a steady drift cancels. Least squares gives the
effect of the node and that of the software, beside the level of each round and a drift.

An effect is *guilty* if its interval lies above 0 and it is a quarter of the slowdown at least. It is *innocent*
if its interval lies below half the slowdown and it is less than a quarter. Both intervals hold at once with 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
#: Rounds of which no more are counted.
_MANY = 1000


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
    slow_now, sound_now, sound_before, slow_before = (True, True), (False, True), (False, False), (True, False)
    if node and software:
        turns = [slow_now, sound_now, sound_before, slow_before]
        software_oftener = number // 2 % 2 == 1
        if software_oftener:
            turns = [slow_now, slow_before, sound_before, sound_now]
    else:
        other = (not node, not software)
        turns = [slow_now, other, other, slow_now]
    return turns[::-1] if number % 2 else turns


def rounds(noise: float, loss: float) -> int:
    """Return how many rounds tell half the slowdown from none. ``noise``: the standard deviation of a turn, a
    share."""
    wanted = _COUNTS * -math.log1p(-loss)
    for count in range(FEWEST, _MANY):
        half = _student(3 * count - 4) * max(noise, _FLOOR) / math.sqrt(count)
        if half <= wanted:
            return count
    return _MANY


def _student(freedom: int) -> float:
    """Return the factor of an interval of two effects that hold at once (Bonferroni)."""
    return float(scipy.special.stdtrit(max(freedom, 1), 1 - (1 - CONFIDENCE) / 4))


def decide(turns: Sequence[Turn], loss: float, either: bool = False) -> Decision:
    """Return the cause of a slowdown by the share ``loss``. ``turns``: in time, rounds of TURNS; a factor is
    measured where both of its values are among them. ``either``: what is faster counts as what is slower."""
    factors = [name for name in ('node', 'software') if len({getattr(turn, name) for turn in turns}) == 2]
    count = len(turns) // TURNS
    if count < FEWEST or not factors:
        return Decision('not decided', more=FEWEST - count)
    fit = _Fit(turns, factors, -math.log1p(-loss), either)
    effects = {name: fit.effect([float(name == other) for other in factors]) for name in factors}
    joint = len(factors) == 2 and fit.is_joint()
    word = 'both' if joint else _word(effects)
    more = max(1, rounds(fit.noise, loss) - count) if word == 'not decided' else 0
    return Decision(word, effects.get('node'), effects.get('software'), joint, more)


class _Fit:
    """Turns, fitted by least squares: the factors from -1/2 to 1/2, their product, a drift, a level a round.

    ``noise``: the standard deviation of a turn. ``slowdown``: the logarithm of that which is explained."""

    def __init__(self, turns: Sequence[Turn], factors: Sequence[str], slowdown: float, either: bool):
        self._slowdown, self._either = slowdown, either
        at = np.arange(len(turns))
        columns = [np.array([float(getattr(turn, name)) for turn in turns]) - 0.5 for name in factors]
        if len(factors) == 2:
            columns.append(columns[0] * columns[1])
        columns.append((at - at.mean()) / TURNS)
        for number in range(at[-1] // TURNS + 1):
            columns.append((at // TURNS == number).astype(float))
        table = np.column_stack(columns)
        logs = np.array([turn.log for turn in turns])
        self._inverse = np.linalg.pinv(table.T @ table)
        self._values = self._inverse @ table.T @ logs
        self._freedom = len(turns) - table.shape[1]
        self.noise = math.sqrt(((logs - table @ self._values) ** 2).sum() / self._freedom)

    def effect(self, weights: Sequence[float]) -> Effect:
        """Return the effect of a combination of the first columns."""
        along = np.zeros(len(self._values))
        along[:len(weights)] = weights
        slower = -float(along @ self._values)
        standard_error = self.noise * math.sqrt(along @ self._inverse @ along)
        half = max(_student(self._freedom) * standard_error, _FLOOR)
        return _judged(slower, half, self._slowdown, self._either)

    def is_joint(self) -> bool:
        """Return whether the slowdown needs both faults: neither shows without the other one's."""
        node_alone, software_alone = self.effect([1.0, 0.0, -0.5]), self.effect([0.0, 1.0, -0.5])
        if node_alone.guilty is not False or software_alone.guilty is not False:
            return False
        return bool(self.effect([1.0, 1.0]).guilty)


def _judged(slower: float, half: float, slowdown: float, either: bool) -> Effect:
    size = abs(slower) if either else slower
    counts = size >= _COUNTS * slowdown
    guilty = None
    if counts and size - half > 0:
        guilty = True
    elif not counts and size + half < 2 * _COUNTS * slowdown:
        guilty = False
    return Effect(slower, half, guilty)


def _word(effects: Mapping[Word, Effect]) -> Word:
    blamed = [name for name, effect in effects.items() if effect.guilty]
    if any(effect.guilty is None for effect in effects.values()):
        return 'not decided'
    if len(blamed) == 2:
        return 'both'
    return blamed[0] if blamed else 'neither'
