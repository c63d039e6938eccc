"""Coverage of the intervals of studies: ``python -m dev.coverage --study [TRIALS]``.

Cells are drawn from a family of noise, and have one level: so a quotient is 1 and a slope 0. The program counts
how often `parity.study.published.estimate` holds that. docs/studies.md has the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dev.coverage import FAMILIES, LEAST
from parity.judge.compare.model import Value
from parity.study.published.estimate import APART, PAIRED, Level, Of, Quantity, estimated
from parity.study.published.figures import StudyCell

RUNS = (3, 5, 8, 10, 15, 20, 30, 35)
#: A run in twelve is this many standard deviations slower.
_SHARE, _DEPTH = 0.08, 10.0
_LAG = 0.5
_NOISE = 0.02
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
Function = Callable[[Sequence[float]], float]


def _drops(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    dropped = draw.random(shape) < _SHARE
    variance = 1 + _DEPTH ** 2 * _SHARE * (1 - _SHARE)
    return (draw.standard_normal(shape) - _DEPTH * (dropped - _SHARE)) / math.sqrt(variance)


def _dependent(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    found = draw.standard_normal(shape)
    for run in range(1, shape[-1]):
        found[..., run] = _LAG * found[..., run - 1] + math.sqrt(1 - _LAG ** 2) * found[..., run]
    return found


NOISES: dict[str, Draw] = {**FAMILIES, '8 % of drops': _drops, f'lag-1 correlation of {_LAG}': _dependent}


class Kind(NamedTuple):
    """A function of so many cells, and its value where all have one level."""

    name: str
    cells: int
    function: Function
    truth: float
    of: Of = 'mean'


def _slope(levels: Sequence[float]) -> float:
    return float(np.polyfit(np.log([1, 2, 4, 8]), np.log(levels), 1)[0])


KINDS = [Kind('ratio', 2, lambda levels: levels[0] / levels[1], 1.0),
         Kind('highest of 3', 4, lambda levels: levels[0] / max(levels[1:]), 1.0),
         Kind('slope', 4, _slope, 0.0),
         Kind('variation', 2, lambda levels: levels[0] / levels[1], 1.0, 'spread')]


class Row(NamedTuple):
    name: str
    runs: int
    coverage: float
    decides: bool
    error: float


def table(trials: int, seed: int = 1) -> list[Row]:
    """Return the coverage of each kind, apart and in pairs, by family and number of runs."""
    draw = np.random.default_rng(seed)
    return [_row(draw, kind, pairs, family, runs, trials)
            for kind in KINDS for pairs in (False, True) for family in NOISES for runs in RUNS]


def missed(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that decide, and whose coverage is below LEAST, two standard errors aside."""
    return [row for row in rows if row.decides and row.coverage < LEAST - 2 * row.error]


def _row(draw: np.random.Generator, kind: Kind, pairs: bool, family: str, runs: int, trials: int) -> Row:
    held = 0
    for _ in range(trials):
        noise = _in_turns(draw, NOISES[family], kind.cells, runs) if pairs else \
            NOISES[family](draw, (kind.cells, runs))
        found = estimated(_quantity(kind, 1 + _NOISE * noise, pairs))
        held += found.low is not None and found.low <= kind.truth <= found.high
    share = held / trials
    least = (PAIRED if pairs else APART)[kind.of]
    name = f'{kind.name}, {"in pairs" if pairs else "apart"}; {family}'
    return Row(name, runs, share, runs >= least, math.sqrt(share * (1 - share) / trials))


def _in_turns(draw: np.random.Generator, noise: Draw, cells: int, runs: int) -> np.ndarray:
    """Return noise of cells that take turns in one course of time, AB BA."""
    course = noise(draw, (1, runs * cells)).reshape(runs, cells)
    course[1::2] = course[1::2, ::-1]
    return course.T


def _quantity(kind: Kind, values: np.ndarray, pairs: bool) -> Quantity:
    cells = []
    for side, of_side in enumerate(values):
        runs = [Value(float(value), session=f'{side} {run}') for run, value in enumerate(of_side)]
        turns = {f'{side} {run}': f'{run}' for run in range(len(runs))} if pairs else {}
        cells.append(StudyCell('', '', {}, 's', 'lower', runs, turns=turns))

    def value(level: Level) -> float:
        return kind.function([level(cell) for cell in cells])

    return Quantity('', cells, value, kind.of, linear=kind.name == 'slope')


def main(trials: int, seed: int) -> int:
    """Print the table of docs/studies.md; return 1 where a row that decides covers too little."""
    rows = table(trials, seed)
    print(f'Percent of {trials} intervals that hold the true value; in brackets: too few runs for a word.\n')
    print('| function; noise | ' + ' | '.join(map(str, RUNS)) + ' |\n' + '|---' * (1 + len(RUNS)) + '|')
    for name in dict.fromkeys(row.name for row in rows):
        cells = [f'{100 * row.coverage:.1f}' if row.decides else f'({100 * row.coverage:.1f})'
                 for row in rows if row.name == name]
        print(f'| {name} | ' + ' | '.join(cells) + ' |')
    wrong = missed(rows)
    for row in wrong:
        print(f'below {100 * LEAST:g}: {row.name}, {row.runs} runs: {100 * row.coverage:.1f}')
    return bool(wrong)
