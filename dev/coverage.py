"""Coverage of the intervals of parity.judge.compare: ``python -m dev.coverage [TRIALS]``.

Both sides are drawn from a family of noise with a known ratio. The program counts how often the interval contains
that ratio, and how wide it is beside one that knows the variance. It calls what
`parity.judge.stats.interval.ratio` calls, on arrays. docs/compare.md has the table.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import groupby
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from parity.judge.stats.interval import CONFIDENCE, half_width, part

#: Noise of mean 0 and variance 1.
FAMILIES: dict[str, Callable[..., np.ndarray]] = {
    'normal': lambda draw, shape: draw.standard_normal(shape),
    'heavy tails (t, 3 df)': lambda draw, shape: draw.standard_t(3, shape) / math.sqrt(3),
    'one-sided (exponential)': lambda draw, shape: draw.exponential(1, shape) - 1,
}
#: The share of a run's variance that is between sessions.
SHARES = {'independent': 0.0, 'half between sessions': 0.5}
SESSIONS = (2, 3, 5, 10, 30)
RUNS, METRICS, HISTORY = 3, 5, 14
#: An interval is to hold the ratio so often, two standard errors aside. Two or three sessions a side, and unequal
#: sides, may hold more: Satterthwaite's degrees of freedom and their limit err to the safe side.
LEAST, MOST = 0.93, 0.97
_NOISE = 0.01


class Row(NamedTuple):
    """``width``: beside an interval that knows the variance. ``safe``: may be above MOST."""

    name: str
    sessions: str
    coverage: float
    width: float
    safe: bool
    error: float        # of the coverage


def table(trials: int = 4000, seed: int = 1) -> list[Row]:
    """Return the coverage of every method, family and number of sessions."""
    draw = np.random.default_rng(seed)
    return [row for share, between in SHARES.items() for family, noise in FAMILIES.items()
            for row in _rows(f'{family}, {share}', trials, between, lambda shape, noise=noise: noise(draw, shape))]


def missed(rows: list[Row]) -> list[Row]:
    """Return the rows whose coverage is outside LEAST to MOST."""
    return [row for row in rows if row.coverage < LEAST - 2 * row.error
            or not row.safe and row.coverage > MOST + 2 * row.error]


def _rows(name: str, trials: int, between: float, noise: Callable[[tuple[int, ...]], np.ndarray]) -> Iterator[Row]:
    def sessions(count: int, metrics: int = 1, shared: np.ndarray | float = 0.0, runs: int = RUNS) -> np.ndarray:
        """Draw the mean of each session; a session's own noise is in all its metrics."""
        own = math.sqrt(between) * noise((trials, count, 1, 1)) + shared
        return _NOISE * (own + math.sqrt(1 - between) * noise((trials, count, metrics, runs))).mean((-1, -2))

    def row(how: str, count: str, difference: np.ndarray, parts: list, variance: float, safe: bool = False) -> Row:
        """``variance``: the difference's, known; in units of that of a run."""
        half, sd = half_width(parts, CONFIDENCE), _NOISE * math.sqrt(variance)
        known = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * sd
        share = float((abs(difference) <= half).mean())
        return Row(f'{how}; {name}', count, share, float(np.median(half)) / known, safe,
                   math.sqrt(share * (1 - share) / trials))

    within = (1 - between) / RUNS
    for one, other in [*((k, k) for k in SESSIONS), (2, 10), (3, 30)]:
        a, b = sessions(one), sessions(other)
        yield row('apart', f'{one}+{other}', b.mean(-1) - a.mean(-1), [part(a), part(b)],
                  (between + within) * (1 / one + 1 / other), min(one, other) < 4)
    for k in SESSIONS:          # what both sides share in a session is as much as what each has by itself
        nights = noise((trials, k, 1, 1))
        found = sessions(k, shared=nights) - sessions(k, shared=nights)
        yield row('same sessions', f'{k}', found.mean(-1), [part(found)], 2 * (between + within) / k)
    for runs in (RUNS, 1):      # one session a side, of as many runs as the nights before, or of a single one
        past, a, b = sessions(HISTORY), sessions(1, runs=runs)[..., 0], sessions(1, runs=runs)[..., 0]
        yield row(f'{HISTORY} nights of history, {runs} now', '1+1', b - a, [part(past, 2 * RUNS / runs)],
                  2 * (between + (1 - between) / runs), runs < RUNS)
    for k in SESSIONS[2:]:
        a, b = sessions(k), sessions(1)
        yield row('the other side tells', f'{k}+1', b[..., 0] - a.mean(-1), [part(a, 1 + 1 / k)],
                  (between + within) * (1 + 1 / k), k < 10)
    for k in SESSIONS:
        a, b = sessions(k, METRICS), sessions(k, METRICS)
        yield row(f'mean of {METRICS} metrics', f'{k}+{k}', b.mean(-1) - a.mean(-1), [part(a), part(b)],
                  2 * (between + within / METRICS) / k, k < 4)


def main(trials: int, seed: int) -> int:
    """Print the table of docs/compare.md; return 1 where a row is outside its limits."""
    rows = table(trials, seed)
    print(f'Percent of {trials} intervals that hold the true ratio (95 is stated), and their median width beside\n'
          'that of an interval which knows the variance.')
    head: list[str] = []
    for name, of in groupby(sorted(rows, key=lambda r: r.name.partition(';')[0]), lambda r: r.name):
        each = list(of)
        if (columns := [r.sessions for r in each]) != head:
            print('\n| method; noise | ' + ' | '.join(head := columns) + ' |\n' + '|---' * (1 + len(head)) + '|')
        print(f'| {name} | ' + ' | '.join(f'{100 * r.coverage:.1f} ({r.width:.2f})' for r in each) + ' |')
    for row in (wrong := missed(rows)):
        print(f'outside {100 * LEAST:g} to {100 * MOST:g}: {row.name}, {row.sessions}: {100 * row.coverage:.1f}')
    return bool(wrong)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(prog='python -m dev.coverage', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trials', nargs='?', type=int, default=10_000, help='of each figure (default 10000)')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--study', action='store_true', help='the intervals of studies (docs/studies.md)')
    given = parser.parse_args()
    if given.study:
        from dev import coverage_study
        raise SystemExit(coverage_study.main(given.trials, given.seed))
    raise SystemExit(main(given.trials, given.seed))
