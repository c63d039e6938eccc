"""The interval of any function of cells: one method for ratios, slopes, spreads and formulas.

A function takes the level of each cell: the mean of its runs, or their spread. The interval follows the deviations
of the runs through numerical derivatives (delta method). Runs that were measured in one turn are pairs: their
deviations add up before their variance is taken. Runs that follow one another widen it by their autocorrelation. A
figure that is printed once has its rounding only. Coverage: docs/studies.md, `python -m dev.coverage --study`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from parity.base.figures import counted
from parity.base.groups import grouped
from parity.study.published.figures import StudyCell

#: Runs without which a cell has no interval.
LEAST = 3
#: Runs of a mean, or of a spread, without which an interval decides nothing: of fewer it covers too little.
#: Pairs take away what their runs share, but not of a spread.
APART = {'mean': 15, 'spread': 30}
PAIRED = {'mean': LEAST, 'spread': 30}
#: No benchmark repeats better than by this share.
FLOOR = 0.001

_NORMAL = 1.959963984540054
#: A correlation of neighbours counts from this share of 1 / sqrt(n) on, and up to the second figure.
_NOTICED, _STRONGEST = 1.0, 0.9
#: Farther on the logarithm there is no number.
_FARTHEST = 300.0

Level = Callable[[StudyCell], float]
Of = Literal['mean', 'spread']


class Quantity(NamedTuple):
    """A function of cells. ``of``: whether it takes their means or their spreads."""

    name: str
    cells: Sequence[StudyCell]
    function: Callable[[Level], float]
    of: Of = 'mean'
    label: str = ''
    linear: bool = False            # it may cross 0: its interval is not that of a logarithm


class Estimate(NamedTuple):
    """A value with its 95 % interval; ``freedom`` are the interval's degrees of freedom.

    Of freedom 0 it is certain: what printed digits leave open. ``few`` says why it decides nothing."""

    value: float
    low: float | None = None
    high: float | None = None
    freedom: float = math.inf
    why: str = ''
    few: str = ''


@dataclass(frozen=True)
class _Sample:
    """The runs of a cell. ``level`` is a logarithm where all runs are above 0; the mean of ``deviations`` is 0.

    ``rounding`` is half of a step of the timer or of a printed digit, ``deviation`` that which print states."""

    level: float
    logarithmic: bool
    deviations: np.ndarray = field(default_factory=lambda: np.array([]))
    turns: tuple[str, ...] = ()
    rounding: float = 0.0
    deviation: float = 0.0

    @property
    def figure(self) -> float:
        return math.exp(self.level) if self.logarithmic else self.level

    @property
    def step(self) -> float:
        """Return how far a derivative looks: to the ends of what is known of the level."""
        runs = len(self.deviations)
        error = self.deviations.std(ddof=1) / math.sqrt(runs) if runs >= LEAST else 0.0
        return _NORMAL * (error or self.deviation) or self.rounding or 1e-6 * max(1.0, abs(self.level))


def estimated(quantity: Quantity) -> Estimate:
    """Return the value of a quantity and its interval. ValueError where it has no value."""
    samples = {id(cell): _sample(cell, quantity.of) for cell in quantity.cells}
    value, positive = _value(quantity, samples), False
    try:
        slopes, positive = _slopes(quantity, samples, value)
    except (ArithmeticError, ValueError):
        return Estimate(value, why='no interval: it has no value near by')
    printed = math.hypot(*(_NORMAL * slope * samples[key].deviation for key, slope in slopes.items()))
    sampled = {key: sample for key, sample in samples.items() if len(sample.deviations) >= LEAST}
    alone = [cell for cell in quantity.cells if id(cell) not in sampled]
    if any(cell.line == '' or len(cell.values) > 1 for cell in alone if cell.better):
        return Estimate(value, why=f'no interval: {LEAST} repeats are the least')
    half, freedom = _half_width([(slopes[key], sample) for key, sample in sampled.items()])
    if sampled and half:
        half = max(half, FLOOR * (1.0 if positive else abs(value)))
    low, high = _ends(value, half + printed, positive)
    below, above = _rounded(quantity, samples, value)
    low, high = low - below, high + above
    if sampled:
        return Estimate(value, low, high, freedom, _noted(samples.values()), _few(quantity, sampled.values()))
    why = 'printed once: by its standard deviation' if printed else \
        'printed once: rounding only' if below or above else 'exact'
    return Estimate(value, low, high, math.inf if printed else 0.0, why)


def mean_limits(cell: StudyCell) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a cell's mean; None of fewer than 3 runs, and of runs at 0 or below."""
    if len(cell.values) < LEAST or min(v.value for v in cell.values) <= 0:
        return None, None
    found = estimated(Quantity('', [cell], lambda level: level(cell)))
    return found.low, found.high


# ---- samples

def _sample(cell: StudyCell, of: Of) -> _Sample:
    values = np.array([v.value for v in cell.values] or [cell.figure], dtype=float)
    turns = tuple(cell.turns.get(v.session, '') for v in cell.values)
    if of == 'spread':
        return _Sample(*_spread(values), turns if all(turns) else ())
    logarithmic = bool(values.min() > 0)
    runs = np.log(values) if logarithmic else values
    level = float(runs.mean())
    scale = abs(cell.figure) if logarithmic else 1.0
    if len(values) == 1:
        rounding = cell.rounding if logarithmic else cell.rounding * abs(cell.figure)
        return _Sample(level, logarithmic, rounding=rounding, deviation=cell.deviation if logarithmic else 0.0)
    rounding = (cell.step or 0.0) / 2 / scale
    return _Sample(level, logarithmic, runs - level, turns if all(turns) else (), rounding)


def _spread(values: np.ndarray) -> tuple[float, bool, np.ndarray]:
    """Return the logarithm of the mean deviation from the median over the mean, and the deviations of its runs.

    They are pseudo-values of the jackknife. With heavy tails, a standard deviation has no variance."""
    runs = len(values)
    if runs < LEAST:
        raise ValueError(f'{counted(runs, "run")}: no spread, {LEAST} are needed')

    def statistic(part: np.ndarray) -> float:
        deviation = float(np.abs(part - np.median(part)).mean())
        if not deviation or part.mean() <= 0:
            raise ValueError('a mean or a spread of 0 has no ratio')
        return math.log(deviation / part.mean())

    whole = statistic(values)
    without = np.array([statistic(np.delete(values, run)) for run in range(runs)])
    pseudo = runs * whole - (runs - 1) * without
    return whole, True, pseudo - pseudo.mean()


# ---- the function and its derivatives

def _value(quantity: Quantity, samples: dict[int, _Sample], moved: int = 0, by: float = 0.0) -> float:
    """Return the value with one level moved."""
    def level(cell: StudyCell) -> float:
        sample = samples[id(cell)]
        if id(cell) != moved:
            return float(f'{sample.figure:.12g}')
        return math.exp(sample.level + by) if sample.logarithmic else sample.level + by

    value = float(f'{quantity.function(level):.12g}')
    if not math.isfinite(value):
        raise ValueError('the value is not finite')
    return value


def _slopes(quantity: Quantity, samples: dict[int, _Sample], value: float) -> tuple[dict[int, float], bool]:
    """Return the derivative by each level, and whether they are those of the logarithm.

    It is the steeper of the two sides: so a maximum of several cells counts each that may be the largest."""
    ends: dict[int, tuple[float, float]] = {}
    for key, sample in samples.items():
        ends[key] = tuple(_value(quantity, samples, key, sign * sample.step) for sign in (-1, 1))
    positive = not quantity.linear and value > 0 and all(min(pair) > 0 for pair in ends.values())

    def scaled(number: float) -> float:
        return math.log(number) if positive else number

    slopes: dict[int, float] = {}
    for key, (below, above) in ends.items():
        sides = [(scaled(above) - scaled(value)), (scaled(value) - scaled(below))]
        slopes[key] = max(sides, key=abs) / samples[key].step
    return slopes, positive


def _rounded(quantity: Quantity, samples: dict[int, _Sample], value: float) -> tuple[float, float]:
    """Return by how much less and by how much more the value may be, by half of a step of each cell."""
    below, above = 0.0, 0.0
    for key, sample in samples.items():
        if not sample.rounding:
            continue
        ends = [sample.rounding, -sample.rounding]
        if sample.logarithmic:
            ends = [math.log1p(sample.rounding), math.log1p(-min(sample.rounding, 0.999))]
        moved = [_value(quantity, samples, key, by) for by in ends]
        below += max(0.0, value - min(moved))
        above += max(0.0, max(moved) - value)
    return below, above


def _half_width(weighted: Sequence[tuple[float, _Sample]]) -> tuple[float, float]:
    """Return half the width of Student's interval, of independent groups of runs, and its degrees of freedom."""
    parts = [_variance(series) for series in _series(weighted)]
    parts = [(variance, freedom) for variance, freedom in parts if variance > 0]
    total = math.fsum(variance for variance, _ in parts)
    if not total:
        return 0.0, math.inf
    freedom = total ** 2 / math.fsum(variance ** 2 / each for variance, each in parts)
    return float(stdtrit(freedom, 0.975)) * math.sqrt(total), freedom


def _series(weighted: Sequence[tuple[float, _Sample]]) -> list[np.ndarray]:
    """Return what moves the value, run by run: one series of all cells with the same turns, one a cell apart."""
    apart = [slope * sample.deviations for slope, sample in weighted if not sample.turns]
    paired = [(slope, sample) for slope, sample in weighted if sample.turns]
    series = []
    for turns, of_turns in grouped(paired, lambda pair: frozenset(pair[1].turns)).items():
        by_turn = []
        for turn in sorted(turns):
            by_turn.append(math.fsum(slope * _of_turn(sample, turn) for slope, sample in of_turns))
        series.append(np.array(by_turn) - np.mean(by_turn))
    return apart + series


def _of_turn(sample: _Sample, turn: str) -> float:
    return float(np.mean([run for run, of in zip(sample.deviations, sample.turns, strict=True) if of == turn]))


def _variance(series: np.ndarray) -> tuple[float, float]:
    """Return the variance of a series' mean, and its degrees of freedom: of as many runs as it is worth.

    Of runs whose neighbours correlate by r, n count as n (1 - r) / (1 + r) (Bartlett, 1946)."""
    runs = len(series)
    if runs < 2:
        return 0.0, 1.0
    worth = runs / _stretch(correlation(series))
    variance = float(series.var()) / (1 - min(1 / worth, 0.9)) / worth
    return variance, max(worth - 1, 1.0)


def correlation(series: np.ndarray) -> float:
    """Return by how much neighbours correlate, without the bias of few runs; 0 where it may be chance."""
    runs = len(series)
    total = float(series @ series)
    if runs < 5 or not total:
        return 0.0
    corrected = (float(series[1:] @ series[:-1]) / total + 1 / runs) / (1 - 3 / runs)
    return min(corrected, _STRONGEST) if corrected > _NOTICED / math.sqrt(runs) else 0.0


def _stretch(r: float) -> float:
    return (1 + r) / (1 - r)


def _ends(value: float, half: float, positive: bool) -> tuple[float, float]:
    if not positive:
        return value - half, value + half
    factor = math.exp(min(half, _FARTHEST))
    return value / factor, value * factor


# ---- sentences

def _noted(samples: Sequence[_Sample]) -> str:
    """Say how much neighbours in time correlate, where they do."""
    apart = [sample for sample in samples if len(sample.deviations) and not sample.turns]
    strongest = max((correlation(sample.deviations) for sample in apart), default=0.0)
    if not strongest:
        return ''
    wider = math.sqrt(_stretch(strongest))
    return f'neighbours in time correlate by {strongest:.2f}: interval {wider:.1f} times as wide'


def _few(quantity: Quantity, samples: Sequence[_Sample]) -> str:
    """Say why so few runs decide nothing; '' where they do."""
    paired = all(sample.turns for sample in samples) and len({frozenset(s.turns) for s in samples}) == 1
    fewest = min(len(set(sample.turns)) if paired else len(sample.deviations) for sample in samples)
    least = (PAIRED if paired else APART)[quantity.of]
    if fewest >= least:
        return ''
    kind = 'in pairs' if paired else 'that are no pairs'
    of = 'of a spread ' if quantity.of == 'spread' else ''
    return f'{counted(fewest, "run")} {of}{kind}: {least} are the least'
