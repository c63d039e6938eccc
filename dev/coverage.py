"""Coverage of the intervals of parity.compare: ``python -m dev.coverage``.

Both sides are drawn from a family of noise with a known ratio of the medians. The program counts how often the
interval contains that ratio. docs/compare.md has the tables; a small version is a test.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable

from parity.stats.interval import Sample, ratio

#: The true ratio of the medians.
TRUE = 0.97
#: The logarithm of one run's noise, in units of the side's coefficient of variation. All have the median 0.
FAMILIES: dict[str, Callable[[random.Random], float]] = {
    'normal': lambda r: r.gauss(0, 1),
    'heavy tails (t, 3 df)': lambda r: r.gauss(0, 1) / math.sqrt(r.gammavariate(1.5, 2) / 3),
    'one-sided (exponential)': lambda r: r.expovariate(1) - math.log(2),
    'skewed (lognormal)': lambda r: math.exp(r.gauss(0, 1)) - 1,
    'outliers (10 % at 10 sigma)': lambda r: r.gauss(0, 1) + 10 * (r.random() < 0.1) - 0.13971,
    'bimodal (30 % slow)': lambda r: 0.3 * r.gauss(0, 1) + 3 * (r.random() < 0.3) - 0.169785,
}
NUMBERS = ((3, 3), (4, 4), (5, 5), (6, 6), (8, 8), (10, 10), (20, 20), (35, 35), (3, 35), (6, 20))
#: The candidate's noise over the baseline's: alike, and five times as noisy.
NOISE = (1.0, 5.0)
_CV = 0.01


def share(family: str, numbers: tuple[int, int], noise: float = 1.0, pairs: bool = False,
          trials: int = 1000, seed: int = 1) -> float:
    """Return the share of ``trials`` intervals that hold the true ratio."""
    draw, generator = FAMILIES[family], random.Random(f'{seed} {family} {numbers} {noise} {pairs}')
    held = 0
    for _ in range(trials):
        baseline = _sample([_CV * draw(generator) for _ in range(numbers[0])])
        candidate = _sample([math.log(TRUE) + noise * _CV * draw(generator) for _ in range(numbers[1])])
        found = ratio(baseline, candidate, pairs)
        held += found.low <= TRUE <= found.high
    return held / trials


def dependent(lag: float, n: int, trials: int = 1000, seed: int = 1) -> float:
    """Return that share for normal noise in which a run depends on the one before (AR 1)."""
    generator = random.Random(f'{seed} {lag} {n}')
    held = 0
    for _ in range(trials):
        baseline, candidate = (_sample([at + _CV * x for x in _series(generator, lag, n)])
                               for at in (0, math.log(TRUE)))
        found = ratio(baseline, candidate)
        held += found.low <= TRUE <= found.high
    return held / trials


def _sample(logs: list[float]) -> Sample:
    return Sample(tuple(map(math.exp, logs)))


def _series(generator: random.Random, lag: float, n: int) -> list[float]:
    values = [generator.gauss(0, 1)]
    for _ in range(n - 1):
        values.append(lag * values[-1] + math.sqrt(1 - lag * lag) * generator.gauss(0, 1))
    return values


def _row(name: str, shares: list[float]) -> str:
    return f'| {name} | ' + ' | '.join(f'{100 * s:.1f}' for s in shares) + ' |'


def main(trials: int) -> None:
    """Print the tables of docs/compare.md."""
    print(f'Percent of {trials} intervals that hold the true ratio; 95 is stated.\n')
    print('| noise | ' + ' | '.join(f'{m}+{n}' for m, n in NUMBERS) + ' |\n' + '|---' * (1 + len(NUMBERS)) + '|')
    for noise in NOISE:
        for family in FAMILIES:
            name = family if noise == 1 else f'{family}, candidate {noise:g} x as noisy'
            print(_row(name, [share(family, n, noise, trials=trials) for n in NUMBERS]), flush=True)
    numbers = [n for n in NUMBERS if n[0] == n[1]]
    print('\n| pairs | ' + ' | '.join(str(n) for n, _ in numbers) + ' |\n' + '|---' * (1 + len(numbers)) + '|')
    for family in FAMILIES:
        print(_row(family, [share(family, n, pairs=True, trials=trials) for n in numbers]), flush=True)
    print('\n| lag-1 autocorrelation | 10+10 | 20+20 | 35+35 |\n|---|---|---|---|')
    for lag in (0.0, 0.3, 0.5, 0.7):
        print(_row(f'{lag:g}', [dependent(lag, n, trials) for n in (10, 20, 35)]), flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(prog='python -m dev.coverage', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trials', nargs='?', type=int, default=4000, help='of each figure (default 4000)')
    main(parser.parse_args().trials)
