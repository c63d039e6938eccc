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


def as_share(slower: float) -> float:
    """Return the share of the speed that a slowdown takes, by its logarithm."""
    return -math.expm1(-slower)


def as_log(share: float) -> float:
    """Return the logarithm of a slowdown that takes a share of the speed."""
    return -math.log1p(-share)


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
        return as_share(self.slower)

    @property
    def interval(self) -> tuple[float, float]:
        return as_share(self.slower - self.half), as_share(self.slower + self.half)


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
    is_backwards = number % 2 == 1
    return turns[::-1] if is_backwards else turns


def rounds(noise: float, loss: float) -> int:
    """Return how many rounds tell half the slowdown from none. ``noise``: the standard deviation of a turn, a
    share."""
    wanted = _COUNTS * as_log(loss)
    of_turn = max(noise, _FLOOR)
    for count in range(FEWEST, _MANY):
        of_mean = of_turn / math.sqrt(count)
        half = _student(3 * count - 4) * of_mean
        if half <= wanted:
            return count
    return _MANY


def _student(freedom: int) -> float:
    """Return the factor of an interval of two effects that hold at once (Bonferroni)."""
    beyond = (1 - CONFIDENCE) / 4
    factor = scipy.special.stdtrit(max(freedom, 1), 1 - beyond)
    return float(factor)


def decide(turns: Sequence[Turn], loss: float, either: bool = False) -> Decision:
    """Return the cause of a slowdown by the share ``loss``. ``turns``: in time, rounds of TURNS; a factor is
    measured where both of its values are among them. ``either``: what is faster counts as what is slower."""
    factors = []
    for name in ('node', 'software'):
        values = {getattr(turn, name) for turn in turns}
        if len(values) == 2:
            factors.append(name)
    count = len(turns) // TURNS
    if count < FEWEST or not factors:
        return Decision('not decided', more=FEWEST - count)
    fit = _Fit(turns, factors, as_log(loss), either)
    effects = {}
    for name in factors:
        weights = [float(name == other) for other in factors]
        effects[name] = fit.effect(weights)
    joint = len(factors) == 2 and fit.is_joint()
    word = 'both' if joint else _word(effects)
    more = 0
    if word == 'not decided':
        needed = rounds(fit.noise, loss)
        more = max(1, needed - count)
    return Decision(word, effects.get('node'), effects.get('software'), joint, more)


class _Fit:
    """Turns, fitted by least squares: the factors from -1/2 to 1/2, their product, a drift, a level a round.

    ``noise``: the standard deviation of a turn. ``slowdown``: the logarithm of that which is explained."""

    def __init__(self, turns: Sequence[Turn], factors: Sequence[str], slowdown: float, either: bool):
        self._slowdown, self._either = slowdown, either
        columns = []
        for name in factors:
            values = np.array([getattr(turn, name) for turn in turns], dtype=float)
            columns.append(values - 0.5)
        if len(factors) == 2:
            product = columns[0] * columns[1]
            columns.append(product)
        at = np.arange(len(turns))
        drift = (at - at.mean()) / TURNS
        columns.append(drift)
        round_of_turn = at // TURNS
        for number in np.unique(round_of_turn):
            level = round_of_turn == number
            columns.append(level.astype(float))
        table = np.column_stack(columns)
        logs = np.array([turn.log for turn in turns])
        self._inverse = np.linalg.pinv(table.T @ table)
        self._values = self._inverse @ table.T @ logs
        self._freedom = len(turns) - len(columns)
        left = logs - table @ self._values
        variance = (left ** 2).sum() / self._freedom
        self.noise = math.sqrt(variance)

    def effect(self, weights: Sequence[float]) -> Effect:
        """Return the effect of a combination of the first columns."""
        along = np.zeros(len(self._values))
        along[:len(weights)] = weights
        faster = float(along @ self._values)
        in_noise = along @ self._inverse @ along
        standard_error = self.noise * math.sqrt(in_noise)
        half = max(_student(self._freedom) * standard_error, _FLOOR)
        return _judged(-faster, half, self._slowdown, self._either)

    def is_joint(self) -> bool:
        """Return whether the slowdown needs both faults: neither shows without the other one's."""
        node_alone = self.effect([1.0, 0.0, -0.5])
        software_alone = self.effect([0.0, 1.0, -0.5])
        for alone in (node_alone, software_alone):
            if alone.guilty is not False:
                return False
        together = self.effect([1.0, 1.0])
        return bool(together.guilty)


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
