"""The interval of any function of cells: one method for ratios, slopes, spreads and formulas.

A function takes the level of each cell: the mean of its runs, or their spread. The interval follows the deviations
of the runs through numerical derivatives (delta method). Runs that were measured in one turn are pairs: their
deviations add up before their variance is taken. Runs that follow one another widen it by their autocorrelation. A
figure that is printed once has its rounding only. Coverage: docs/studies.md, `python -m dev.coverage --study`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from parity.base.figures import counted, number
from parity.base.groups import grouped
from parity.study.published.figures import Cells, StudyCell

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


@dataclass(frozen=True)
class Quantity:
    """A function of cells. ``of``: whether it takes their means or their spreads."""

    name: str
    cells: Cells
    function: Callable[[Level], float]
    of: Of = 'mean'
    label: str = ''
    linear: bool = False            # it may cross 0: its interval is not that of a logarithm


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, of so many ``runs`` of a cell; ``freedom`` are its degrees of freedom.

    Of freedom 0 it is certain: what printed digits leave open. ``few`` says why it decides nothing."""

    value: float
    low: float | None = None
    high: float | None = None
    freedom: float = math.inf
    why: str = ''
    few: str = ''
    runs: int = 0


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
    def sampled(self) -> bool:
        """Return whether it has runs enough for an interval."""
        return len(self.deviations) >= LEAST

    def figure(self, by: float = 0.0) -> float:
        """Return the level, moved, as a figure."""
        moved = self.level + by
        return math.exp(moved) if self.logarithmic else moved

    @property
    def step(self) -> float:
        """Return how far a derivative looks: to the ends of what is known of the level."""
        error = self.deviation
        if self.sampled:
            scatter = self.deviations.std(ddof=1)
            error = scatter / math.sqrt(len(self.deviations)) or error
        least = 1e-6 * max(1.0, abs(self.level))
        half = _NORMAL * error
        return half or self.rounding or least


def estimated(quantity: Quantity) -> Estimate:
    """Return the value of a quantity and its interval. ValueError where it has no value."""
    function = _Function(quantity)
    value = function.value()
    try:
        gradient = function.gradient(value)
    except (ArithmeticError, ValueError):
        return Estimate(value, why='no interval: it has no value near by')
    for cell in quantity.cells:
        repeated = cell.line == '' or len(cell.values) > 1
        sample = function.samples[id(cell)]
        if repeated and cell.better and not sample.sampled:
            return Estimate(value, why=f'no interval: {LEAST} repeats are the least')
    printed = math.hypot(*(_NORMAL * part.slope * part.sample.deviation for part in gradient.parts))
    sampled = [part for part in gradient.parts if part.sample.sampled]
    half, freedom = _half_width(sampled)
    if half:
        half = max(half, FLOOR * (1.0 if gradient.logarithmic else abs(value)))
    low, high = _ends(value, half + printed, gradient.logarithmic)
    below, above = function.rounding(value)
    low, high = low - below, high + above
    if sampled:
        samples = [part.sample for part in sampled]
        runs = max(len(sample.deviations) for sample in samples)
        return Estimate(value, low, high, freedom, _noted(samples), _few(quantity.of, samples), runs)
    if printed:
        return Estimate(value, low, high, why='printed once: by its standard deviation')
    why = 'printed once: rounding only' if below or above else 'exact'
    return Estimate(value, low, high, 0.0, why)


def mean_limits(cell: StudyCell) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a cell's mean; None of fewer than 3 runs, and of runs at 0 or below."""
    values = [run.value for run in cell.values]
    if len(values) < LEAST or min(values) <= 0:
        return None, None
    mean = estimated(Quantity('', [cell], lambda level: level(cell)))
    return mean.low, mean.high


# ---- samples

def _sample(cell: StudyCell, of: Of) -> _Sample:
    values = np.array([run.value for run in cell.values] or [cell.figure], dtype=float)
    turns = tuple(cell.turns.get(run.session, '') for run in cell.values)
    if not all(turns):
        turns = ()
    if of == 'spread':
        level, deviations = _spread(values)
        return _Sample(level, True, deviations, turns)
    logarithmic = bool(values.min() > 0)
    runs = np.log(values) if logarithmic else values
    level = float(runs.mean())
    scale = abs(cell.figure)
    if len(values) > 1:
        half = (cell.step or 0.0) / 2
        rounding = half / scale if logarithmic else half
        return _Sample(level, logarithmic, runs - level, turns, rounding)
    if logarithmic:
        return _Sample(level, True, rounding=cell.rounding, deviation=cell.deviation)
    return _Sample(level, False, rounding=cell.rounding * scale)


def _spread(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the logarithm of the mean deviation from the median over the mean, and the deviations of its runs.

    They are pseudo-values of the jackknife. With heavy tails, a standard deviation has no variance."""
    runs = len(values)
    if runs < LEAST:
        raise ValueError(f'{counted(runs, "run")}: no spread, {LEAST} are needed')
    whole = _logarithm_of_spread(values)
    without = np.array([_logarithm_of_spread(np.delete(values, run)) for run in range(runs)])
    pseudo = runs * whole - (runs - 1) * without
    return whole, pseudo - pseudo.mean()


def _logarithm_of_spread(values: np.ndarray) -> float:
    mean = values.mean()
    deviations = np.abs(values - np.median(values))
    spread = float(deviations.mean())
    if not spread or mean <= 0:
        raise ValueError('a mean or a spread of 0 has no ratio')
    return math.log(spread / mean)


# ---- the function and its derivatives

@dataclass(frozen=True)
class _Part:
    """A sample, and by how much the value moves with its level."""

    slope: float
    sample: _Sample


@dataclass(frozen=True)
class _Gradient:
    """The derivatives by each level; where ``logarithmic``, those of the logarithm."""

    parts: Sequence[_Part]
    logarithmic: bool


class _Function:
    """A quantity as a function of the levels of its cells."""

    def __init__(self, quantity: Quantity):
        self.quantity = quantity
        self.samples: dict[int, _Sample] = {}
        self.levels: dict[int, float] = {}
        for cell in quantity.cells:
            sample = _sample(cell, quantity.of)
            self.samples[id(cell)] = sample
            self.levels[id(cell)] = _digits(sample.figure())

    def value(self, moved: int = 0, by: float = 0.0) -> float:
        """Return the value with one level moved."""
        def level(cell: StudyCell) -> float:
            if id(cell) == moved:
                return self.samples[moved].figure(by)
            return self.levels[id(cell)]

        value = _digits(self.quantity.function(level))
        if not math.isfinite(value):
            raise ValueError('the value is not finite')
        return value

    def gradient(self, value: float) -> _Gradient:
        """Return the derivative by each level.

        It is the steeper of the two sides: so a maximum of several cells counts each that may be the largest."""
        below = [self.value(key, -sample.step) for key, sample in self.samples.items()]
        above = [self.value(key, sample.step) for key, sample in self.samples.items()]
        logarithmic = not self.quantity.linear and min([value, *below, *above]) > 0
        scaled = math.log if logarithmic else float
        middle = scaled(value)
        parts = []
        for sample, less, more in zip(self.samples.values(), below, above, strict=True):
            rise, fall = scaled(more) - middle, middle - scaled(less)
            steeper = max(rise, fall, key=abs)
            parts.append(_Part(steeper / sample.step, sample))
        return _Gradient(parts, logarithmic)

    def rounding(self, value: float) -> tuple[float, float]:
        """Return by how much less and by how much more the value may be, by half of a step of each cell."""
        below, above = 0.0, 0.0
        for key, sample in self.samples.items():
            if not sample.rounding:
                continue
            more, less = sample.rounding, -sample.rounding
            if sample.logarithmic:
                more, less = math.log1p(more), math.log1p(max(less, -0.999))
            moved = [self.value(key, more), self.value(key, less)]
            lowest, highest = min(moved), max(moved)
            below += max(0.0, value - lowest)
            above += max(0.0, highest - value)
        return below, above


def _digits(value: float) -> float:
    return float(f'{value:.12g}')


def _half_width(parts: Sequence[_Part]) -> tuple[float, float]:
    """Return half the width of Student's interval, of independent groups of runs, and its degrees of freedom."""
    variances = [_variance(series) for series in _series(parts)]
    total = math.fsum(variance for variance, _ in variances)
    if not total:
        return 0.0, math.inf
    squares = math.fsum(variance ** 2 / freedom for variance, freedom in variances)
    freedom = total ** 2 / squares
    quantile = float(stdtrit(freedom, 0.975))
    return quantile * math.sqrt(total), freedom


def _series(parts: Sequence[_Part]) -> list[np.ndarray]:
    """Return what moves the value, run by run: one series of all cells with the same turns, one a cell apart."""
    series = []
    for turns, alike in grouped(parts, lambda part: frozenset(part.sample.turns)).items():
        if not turns:
            series += [part.slope * part.sample.deviations for part in alike]
            continue
        moves = [_moved(alike, turn) for turn in sorted(turns)]
        by_turn = np.array(moves)
        series.append(by_turn - by_turn.mean())
    return series


def _moved(parts: Sequence[_Part], turn: str) -> float:
    """Return by how much the runs of a turn move the value."""
    moves = []
    for part in parts:
        of_turn = np.array(part.sample.turns) == turn
        deviation = part.sample.deviations[of_turn].mean()
        moves.append(part.slope * float(deviation))
    return math.fsum(moves)


def _variance(series: np.ndarray) -> tuple[float, float]:
    """Return the variance of a series' mean, and its degrees of freedom: of as many runs as it is worth.

    Of runs whose neighbours correlate by r, n count as n (1 - r) / (1 + r) (Bartlett, 1946)."""
    runs = len(series)
    if runs < 2:
        return 0.0, 1.0
    worth = runs / _stretch(correlation(series))
    unbiased = float(series.var()) / (1 - min(1 / worth, 0.9))
    variance = unbiased / worth
    return variance, max(worth - 1, 1.0)


def correlation(series: np.ndarray) -> float:
    """Return by how much neighbours correlate, without the bias of few runs; 0 where it may be chance."""
    runs = len(series)
    total = float(series @ series)
    if runs < 5 or not total:
        return 0.0
    of_neighbours = float(series[1:] @ series[:-1]) / total
    corrected = (of_neighbours + 1 / runs) / (1 - 3 / runs)
    if corrected <= _NOTICED / math.sqrt(runs):
        return 0.0
    return min(corrected, _STRONGEST)


def _stretch(r: float) -> float:
    return (1 + r) / (1 - r)


def _ends(value: float, half: float, logarithmic: bool) -> tuple[float, float]:
    if not logarithmic:
        return value - half, value + half
    factor = math.exp(min(half, _FARTHEST))
    return value / factor, value * factor


# ---- sentences

@dataclass(frozen=True)
class Part:
    """One of the estimates that count together. Without one ``why`` says why. ``absent``: it was not measured."""

    name: str
    estimate: Estimate | None = None
    why: str = ''
    label: str = ''
    absent: bool = False

    @property
    def sampled(self) -> bool:
        """Return whether it has an interval that other runs might miss."""
        return self.estimate is not None and self.estimate.low is not None and self.estimate.freedom > 0

    @property
    def decides(self) -> bool:
        return self.estimate is not None and self.estimate.low is not None and not self.estimate.few

    def __str__(self) -> str:
        if self.estimate is None:
            return f'{self.name}: {self.why}'.removeprefix(': ')
        texts = [_figure(self.estimate), self.estimate.why, self.estimate.few, self.why]
        text = ', '.join(filter(None, texts))
        label = f' ({self.label})' if self.label else ''
        return f'{self.name} {text}{label}'.strip()


def _figure(estimate: Estimate) -> str:
    """Return a value with its interval, in as many digits as tell the ends apart."""
    if estimate.low is None or estimate.high is None:
        return number(estimate.value)
    if estimate.low == estimate.high:
        short = estimate.value == round(estimate.value, 6)
        digits = 10 if short else 6
        return f'{estimate.value:.{digits}g}'
    low, high = number(estimate.low), number(estimate.high)
    if low != high:
        return f'{number(estimate.value)} [{low}, {high}]'
    return f'{estimate.value:.6g} [{estimate.low:.6g}, {estimate.high:.6g}]'


def _noted(samples: Sequence[_Sample]) -> str:
    """Say how much neighbours in time correlate, where they do."""
    apart = [sample for sample in samples if not sample.turns]
    strongest = max((correlation(sample.deviations) for sample in apart), default=0.0)
    if not strongest:
        return ''
    wider = math.sqrt(_stretch(strongest))
    return f'neighbours in time correlate by {strongest:.2f}: interval {wider:.1f} times as wide'


def _few(of: Of, samples: Sequence[_Sample]) -> str:
    """Say why so few runs decide nothing; '' where they do."""
    turns = {frozenset(sample.turns) for sample in samples}
    fewest = min(len(sample.deviations) for sample in samples)
    least, kind = APART[of], 'that are no pairs'
    if len(turns) == 1 and turns != {frozenset()}:
        shared, = turns
        fewest = len(shared)
        least, kind = PAIRED[of], 'in pairs'
    if fewest >= least:
        return ''
    spread = 'of a spread ' if of == 'spread' else ''
    return f'{counted(fewest, "run")} {spread}{kind}: {least} are the least'
