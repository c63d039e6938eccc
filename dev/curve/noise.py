"""The rule, the best detector and the usual rules on families of noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from dev.curve import oracle, rule
from dev.curve.families import GROUP, HISTORY, RUNS, Family, Studied, harder, lives, nonstationary, stationary
from dev.curve.figures import Amount, Figure, Row
from dev.curve.rule import caught, fresh, per_group
from parity.judge.stats import bounds

#: New alarms per 1000 cell-nights of stationary noise and of other histories; % of quiet cell-nights run again.
STEADY, MOVING, RERUNS = 1.0, 3.0, 5.0
#: % of the oracle's 5 % found, in the mean of all families and in each; % of 5 % found with named nodes.
OF_ALL, OF_EACH, OF_LIFE, NAMED = 90.0, 45.0, 85.0, 90.0
#: The first judged night, and new alarms per 1000 cell-nights from it to the end of the history.
FIRST, EARLY = bounds.FIRST, 1.5
#: Weak spots, and what is held there. A slow node in spells is slow: its alarms are true, one each 40 nights.
WEAK = {'node -3 % in spells': 25.0, 'node -6 % in spells': 25.0}
WEAK_SHARE = {'a group shares 20 % slow nights': 20.0}
_DRAWN = 3               # nights to draw for one that counts: some are missing
_STAGGER = 8             # groups learn every 10 nights: each learns before a slowdown, none while it is new


def rows(families: Callable, limits: tuple[float, ...], small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Measure families, and the mean of the stationary ones; ``limits`` are those of a row."""
    made = []
    for family in families()[::9 if small else 1]:
        made.append(each := _Measured(family, seed, amount))
        yield each.row(*limits)
    if families is stationary:
        new, ours, best = (np.mean([each.by_group[i] for each in made], axis=0) for i in range(3))
        yield Row(f'mean of {len(made)}', {'new': Figure.of(new), '5 % in 3': Figure.of(ours),
                                           'oracle': Figure.of(best),
                                           'share': Figure.share(ours, best, OF_EACH if small else OF_ALL)})


def default(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Measure the families at the rate of a system of a hundred cells."""
    for some, most in () if small else ((stationary(), STEADY), (nonstationary(), MOVING)):
        for each in (_Measured(family, seed, amount, rule.DEFAULT) for family in some):
            new = fresh(each.judged.known)
            yield Row(each.name, {'new': Figure.of(new, most=WEAK.get(each.family.name, most)),
                                  '5 % in 3': Figure.of(each.caught(0.05, 3, each.slow))})


class _Measured:
    """A family: its noise without slowdowns, judged, and the slowdowns that are found."""

    def __init__(self, family: Family | Studied, seed: int, amount: Amount, rate: float = rule.RATE):
        self.family, self.seed, self.many, self.rate = family, seed, amount.stepped // 2, rate
        self.name = f'{family.name}, CV {100 * family.cv:g} %' if family.cv else family.name
        shape = amount.groups * GROUP, family.history + amount.nights
        self.null, nodes = family.draw(self._draws('null'), *shape)
        self.judged = rule.follow(self.null, rate, nodes=nodes, accept_after=family.accept_after)
        self.plain = family.plain.draw(self._draws('plain'), *shape)[0] if family.plain else self.null

    def caught(self, size: float, within: int, slow: Callable, family: Family | None = None) -> np.ndarray:
        """Return the % found in each group [groups]; ``slow`` gives the alarms of values and their nodes.

        Half of the groups slow down after the history, half after 40 nights more. ``family``: another noise."""
        begins = self.family.history, self.family.history + HISTORY
        made = [self._slowed(f'{size} {begin}', begin, size, within, family) for begin in begins]
        return np.concatenate([caught(slow(x, nodes), np.isfinite(x[..., 0]), *when, within)
                               for x, nodes, when in made])

    def slow(self, values: np.ndarray, nodes: np.ndarray | None) -> np.ndarray:
        return rule.follow(values, self.rate, nodes=nodes, accept_after=self.family.accept_after).slow

    def row(self, new: float, share: float = -np.inf, reruns: float = RERUNS, first: float = np.inf) -> Row:
        """Return all figures: alarms in 1000 cell-nights, the others in %.

        Limits: the most ``new`` alarms, the least ``share`` of the oracle, the most ``reruns``. ``first``: the
        most new alarms from the first judged night to night 40."""
        early = fresh(self.judged.known, FIRST, HISTORY)
        five, best, two, best_two = (
            self.caught(size, within, *of) for size, within in ((0.05, 3), (0.02, 7)) for of in (
                (self.slow,), (partial(self._oracle, size=size), self.family.plain)))
        self.by_group = fresh(self.judged.known, self.family.history), five, best
        again = np.where(self.judged.quiet, 100 * self.judged.wanted, np.nan)[:, self.family.history:]
        named = NAMED if self.family.name.endswith('named') else -np.inf
        figures = {
            'new': Figure.of(self.by_group[0], most=WEAK.get(self.family.name, new)),
            'early': Figure.of(early, most=first),
            'reruns': Figure.of(per_group(again), most=reruns),
            'visible': Figure(100 * float(np.nanmedian(self.judged.visible))), 'found': self._honest(),
            '5 % in 3': Figure.of(five, named), 'oracle': Figure.of(best),
            'share': Figure.share(five, best, WEAK_SHARE.get(self.family.name, share)),
            '2 % in 7': Figure.of(two), 'oracle, 2 %': Figure.of(best_two)}
        for name, slow in _rivals(self.null).items():
            ours = self.caught(0.05, 3, lambda x, _, name=name: _rivals(x)[name])
            figures |= {f'{name}: new': Figure.of(fresh(slow)), f'{name}: 5 %': Figure.of(ours)}
        return Row(self.name, figures)

    def _oracle(self, values: np.ndarray, _: np.ndarray | None, size: float) -> np.ndarray | None:
        return oracle.alarms(self.family, self.plain, values, size)

    def _draws(self, what: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *f'{self.name} {what}'.encode()])

    def _slowed(self, what: str, first: int, size: float | np.ndarray, within: int,
                family: Family | None = None) -> tuple:
        """Draw groups: values and nodes. Half of the cells of each slow down on the night ``first`` or soon after:
        which [series], and on which night [series]."""
        rng = self._draws(what)
        begin = first + np.arange(self.many * GROUP) // GROUP % _STAGGER * (first > self.family.history)
        which = (np.argsort(rng.random((self.many, GROUP)), axis=1) < GROUP // 2).ravel()
        when = which[:, None] & (np.arange(begin.max() + _DRAWN * within) >= begin[:, None])
        drawn = (family or self.family).draw(rng, len(begin), when.shape[1], np.reshape(size, (-1, 1)) * when)
        return (*drawn, (which, begin))

    def _honest(self) -> Figure:
        """Slow cells down by what each says is visible, in the same noise; return the % found within 3 nights."""
        values, nodes, when = self._slowed('visible', self.family.history + HISTORY, 0.0, 3)
        last = when[1].max()
        told = rule.follow(values[:, :last], self.rate, nodes=None if nodes is None else nodes[:, :last],
                           accept_after=self.family.accept_after)
        x, nodes, _ = self._slowed('visible', self.family.history + HISTORY, np.nan_to_num(told.visible), 3)
        return Figure.of(caught(self.slow(x, nodes), np.isfinite(x[..., 0]), *when, 3))


def _rivals(values: np.ndarray) -> dict[str, np.ndarray]:
    """Alarm if the median of a night's runs is 5 % below the first night's, or 3 sigma below the mean before."""
    night = np.median(values[..., :RUNS], axis=2)
    n = np.fmax(np.arange(night.shape[1]), 2)
    total, squares = (np.cumsum(x, axis=1) - x for x in (night, night ** 2))
    spread = np.sqrt(np.fmax(0, squares - total ** 2 / n) / (n - 1))
    return {'-5 %': night < night[:, :1] * 0.95,
            '3 sigma': (night < total / n - 3 * spread) & (np.arange(night.shape[1]) > 1)}


STEADY_ONES, HARDER, MOVING_ONES, LIVES = (partial(rows, *each) for each in (
    (stationary, (STEADY, OF_EACH, RERUNS, EARLY)), (harder, (np.inf, -np.inf, np.inf)),
    (nonstationary, (MOVING,)), (lives, (STEADY, OF_LIFE, np.inf))))
