"""Families of noise. Series come in groups of ``GROUP`` like cells; reboots, seasons and weeks befall a group."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from parity.base import paths

#: Runs of a night, and reruns; like cells in a group; nights before the first that is judged.
RUNS, RERUNS, GROUP, HISTORY = 3, 3, 10, 40
_NODES, _SPELL, _LEAST = 8, 5, 0.1

Rng = np.random.Generator
#: For [series, nights]: a shift of each night, a factor of its noise, and the numbers of nodes or None.
Moves = Callable[[Rng, tuple[int, int]], tuple]
#: ``draw(rng, shape)`` and ``logpdf(x)`` of noise, of mean 0 and standard deviation 1.
Noise = tuple[Callable[[Rng, tuple], np.ndarray], Callable[[np.ndarray], np.ndarray]]


def of(distribution, side: int = 1) -> Noise:
    """Standardise a distribution of scipy; side -1 turns it over, so that its long tail is below."""
    mean, sd = distribution.mean(), distribution.std()
    return (lambda rng, shape: side * (distribution.rvs(size=shape, random_state=rng) - mean) / sd,
            lambda x: np.fmax(distribution.logpdf(side * x * sd + mean) + np.log(sd), -700))


def modes(often: float, share: float) -> Noise:
    """Make a good mode and a slow one, which is met so ``often``; they have ``share`` of the variance."""
    gap, rest = np.sqrt(share / often / (1 - often)), np.sqrt(1 - share)
    slow, good = (often - 1) * gap, often * gap
    return (lambda rng, shape: np.where(rng.random(shape) < often, slow, good) + rest * rng.standard_normal(shape),
            lambda x: np.logaddexp(*(np.log(weight) + stats.norm.logpdf(x, at, rest)
                                     for weight, at in ((often, slow), (1 - often, good)))))


NORMAL: Noise = (lambda rng, shape: rng.standard_normal(shape), stats.norm.logpdf)


@dataclass(frozen=True)
class Family:
    """Noise in which the night has ``share`` of the variance and its runs the rest; reruns share the night.

    ``cv`` is the coefficient of variation without ``moves``. The night's part is ``night``, or normal with
    autocorrelation ``phi``. ``step``: a timer's, in standard deviations. ``like``: what an oracle takes it for;
    ``plain``: what an oracle sees that knows the moves. ``history``: nights before the first alarm that counts;
    ``accept_after``: an operator accepts what still alarms after so many nights."""

    name: str
    cv: float
    run: Noise = NORMAL
    night: Noise | None = None
    share: float = 0.0
    phi: float = 0.0
    step: float = 0.0
    moves: Moves | None = None
    like: Family | None = None
    plain: Family | None = None
    history: int = HISTORY
    accept_after: int = 0

    def draw(self, rng: Rng, series: int, nights: int, slower: np.ndarray | float = 0.0) -> tuple:
        """Draw values [series, nights, RUNS + RERUNS] around 1, less ``slower`` [series, nights]; and nodes."""
        x = np.sqrt(1 - self.share) * self.run[0](rng, (series, nights, RUNS + RERUNS))
        if self.share:
            part = (self.night or NORMAL)[0](rng, (series, nights, 1))
            for t in range(1, nights if self.phi else 0):
                part[:, t] = self.phi * part[:, t - 1] + np.sqrt(1 - self.phi ** 2) * part[:, t]
            x += np.sqrt(self.share) * part
        shift, factor, nodes = self.moves(rng, (series, nights)) if self.moves else (0.0, 1.0, None)
        level, factor = (np.broadcast_to(x, (series, nights))[..., None] for x in (1 + shift - slower, factor))
        values = np.maximum(_LEAST, level + self.cv * factor * x)
        if self.step:                # its steps lie elsewhere in each series
            step, offset = self.step * self.cv, self.step * self.cv * rng.random((series, 1, 1))
            values = np.round((values - offset) / step) * step + offset
        return values, nodes if self.name.endswith('named') else None


class Studied:
    """Repeats of NPB and XHPL in the study of 2012. A group has one of the series, in blocks of two nights."""

    name, cv, moves, plain, history, accept_after = 'NPB, XHPL', 0.0, None, None, HISTORY, 0

    def __init__(self):
        found: dict[tuple, list[float]] = defaultdict(list)
        with (paths.root() / 'studies' / 'jungels2012' / 'published.csv').open(newline='') as lines:
            for row in csv.DictReader(lines):
                if row['metric'] != 'seconds':
                    found[row['experiment'], row['code'], row['side']].append(float(row['value']))
        self.series = [np.array(v) / np.median(v) for v in found.values()]

    def draw(self, rng: Rng, series: int, nights: int, slower: np.ndarray | float = 0.0) -> tuple:
        values, block = np.empty((series, nights, RUNS + RERUNS)), np.arange(2 * (RUNS + RERUNS))
        for i in range(series):
            v = self.series[i // GROUP % len(self.series)]
            at = (rng.integers(0, len(v), (-(-nights // 2), 1)) + block) % len(v)
            values[i] = v[at].reshape(-1, RUNS + RERUNS)[:nights]
        return values - np.broadcast_to(slower, values.shape[:2])[..., None], None


def stationary() -> list[Family]:
    return [Family(name, cv, **kind) for name, kind in {
        'normal': {}, 'heavy tails t3': {'run': of(stats.t(3))},
        'one-sided gamma 1.2': {'run': of(stats.gamma(1.2), -1)}, '12 % slow runs': {'run': modes(0.12, 0.75)},
        'half night-shared': {'share': 0.5}, 'autoregressive .5': {'phi': 0.5, 'share': 0.7},
    }.items() for cv in (0.01, 0.02)]


def harder() -> list[Family | Studied]:
    return [*(Family(f'{100 * often:g} % slow nights', cv, night=modes(often, 0.9), share=0.8)
              for often, cv in ((0.07, 0.02), (0.15, 0.01), (0.15, 0.02))),
            Family('autoregressive .7, half', 0.02, phi=0.7, share=0.5),
            Family('timer of 2 sigma', 0.02, of(stats.logistic()), step=2.0), Studied()]


def nonstationary() -> list[Family]:
    """Return eight families, and two more whose nodes are named."""
    known = Family('', 0.01 * 2 ** 0.5, phi=1 - 1 / 15, share=0.5)      # noise and reboots
    return [Family(name, 0.01, moves=moves, like=known if 'reboots' in name else None) for name, moves in {
        '1 % of nights -30 %': lambda rng, shape: (-0.3 * (rng.random(shape) < 0.01), 1.0, None),
        'node -3 % in spells': slow_node(0.03), 'node -6 % in spells': slow_node(0.06),
        'reboots move it by 1 %': lambda rng, shape: (held(rng, rng.normal(0, 0.01, shape), 15, GROUP), 1.0, None),
        'season of 60 nights, 1 %': wave(60), 'week, 1 %': wave(7),
        'variance doubles for weeks': lambda rng, shape: (
            0.0, np.where(held(rng, rng.random(shape), 21) < 0.25, 2 ** 0.5, 1.0), None),
        'random walk .1 % a night': lambda rng, shape: (rng.normal(0, 0.001, shape).cumsum(axis=1), 1.0, None),
        'node -3 %, named': slow_node(0.03), 'node -6 %, named': slow_node(0.06)}.items()]


def lives() -> list[Family]:
    """Return families whose first 60 nights are not calm, and what befalls a cell later. An operator accepts."""
    modal, calm = modes(0.2, 0.9), Family('', 0.01)

    def later(rng: Rng, shape: tuple[int, int], often: float) -> np.ndarray:
        return np.repeat(rng.random((-(-shape[0] // GROUP), shape[1])) < often, GROUP, axis=0)[:shape[0]]

    def changes(rng: Rng, shape: tuple[int, int]) -> tuple:
        at, size = rng.integers(3, 60, (3, shape[0], 1)), rng.uniform(0.03, 0.15, (3, shape[0], 1))
        size *= rng.choice([-1, 1], size.shape) * (np.arange(3)[:, None, None] < rng.integers(1, 4, (shape[0], 1)))
        return (size * (np.arange(shape[1]) >= at)).sum(axis=0), 1.0, None

    def rise(rng: Rng, shape: tuple[int, int]) -> tuple:
        begin, nights = rng.integers(5, 35, (shape[0], 1)), rng.integers(10, 26, (shape[0], 1))
        now = np.arange(shape[1])
        return 0.08 * ((now >= begin) & (now < begin + nights)), 1.0, None

    def maintenance(rng: Rng, shape: tuple[int, int]) -> tuple:
        return (later(rng, shape, 1 / 30) * rng.choice([-0.01, 0.01], shape)).cumsum(axis=1), 1.0, None

    def swaps(rng: Rng, shape: tuple[int, int]) -> tuple:
        nodes, group = held(rng, rng.integers(0, _NODES, shape), _SPELL), np.arange(shape[0])[:, None] // GROUP
        # no swap makes a node 2 % slower: that would be a slowdown
        speed = held(rng, rng.uniform(-0.01, 0.01, (_NODES * -(-shape[0] // GROUP), shape[1])), 60)
        return speed[_NODES * group + nodes, np.arange(shape[1])], 1.0, nodes

    def bimodal(rng: Rng, shape: tuple[int, int]) -> tuple:
        night = np.repeat(modal[0](rng, (-(-shape[0] // GROUP), shape[1])), GROUP, axis=0)[:shape[0]]
        return 0.02 * 0.8 ** 0.5 * night, 1.0, None

    return [Family(name, cv, moves=moves, **{'history': HISTORY, 'accept_after': 7, 'plain': calm, **more})
            for name, cv, moves, more in (
        ('1 to 3 changes of level in 60 nights', 0.01, changes, {'history': 64}),
        ('a rise of 10 to 25 nights in the first 60', 0.01, rise, {'history': 64}),
        ('maintenance moves it by 1 %', 0.01, maintenance, {}),
        ('nodes swapped under one name, named', 0.01, swaps, {}),
        ('standard deviation doubles', 0.01, lambda rng, shape: (
            0.0, np.where(np.arange(shape[1]) < 60, 1.0, 2.0), None), {'plain': Family('', 0.02)}),
        ('a group shares 20 % slow nights', 0.02 * 0.2 ** 0.5, bimodal,
         {'plain': None, 'like': Family('', 0.02, night=modal, share=0.8)}),
        ('30 % of the nights missing', 0.01, lambda rng, shape: (
            np.where(rng.random(shape) < 0.3, np.nan, 0.0), 1.0, None),
         {'plain': None, 'like': Family('', 0.01, of(stats.norm()))}))]


def held(rng: Rng, drawn: np.ndarray, nights: float, like: int = 1) -> np.ndarray:
    """Keep each value of ``drawn`` [series, nights] for a spell; ``like`` rows in turn have the same spells."""
    many, n = drawn.shape
    fresh = np.repeat(rng.random((-(-many // like), n)) < 1 / nights, like, axis=0)[:many]
    return np.take_along_axis(drawn, np.maximum.accumulate(np.where(fresh, np.arange(n), 0), axis=1), axis=1)


def wave(nights: int) -> Moves:
    """Return a sine of 1 % with this period, whose phase a group shares."""
    def moves(rng: Rng, shape: tuple[int, int]) -> tuple[np.ndarray, float, None]:
        phase = np.repeat(rng.random(-(-shape[0] // GROUP)), GROUP)[:shape[0], None]
        return 0.01 * np.sin(2 * np.pi * (np.arange(shape[1]) / nights + phase)), 1.0, None
    return moves


def slow_node(loss: float) -> Moves:
    """Return spells of five nights on one of eight nodes. Node 0 is slower; the history has met each once."""
    def moves(rng: Rng, shape: tuple[int, int]) -> tuple[np.ndarray, float, np.ndarray]:
        met = np.repeat(np.argsort(rng.random((shape[0], _NODES)), axis=1), _SPELL, axis=1)
        later = held(rng, rng.integers(0, _NODES, shape), _SPELL)
        nodes = np.concatenate([met, later], axis=1)[:, :shape[1]]
        return -loss * (nodes == 0), 1.0, nodes
    return moves
