"""Wrong words about contracts, and how often a good machine is accepted: ``python -m dev.contract [TRIALS]``.

Nodes whose true level is exactly the bound are drawn, with noise of a family. The program counts how often a
clause is called met or not met over three looks, by what `parity contract status` calls. Then it counts how often
a machine 5 % above the bound is called met after so many runs. docs/accepting-a-new-machine.md has the figures."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dev import coverage
from parity.judge.stats import promise

#: Noise of mean 0 and variance 1, where higher is better: some runs of a benchmark are far slower than the others.
FAMILIES = {
    'normal': coverage.FAMILIES['normal'],
    'heavy tails': coverage.FAMILIES['heavy tails (t, 3 df)'],
    'slow outliers': lambda draw, shape: 1 - draw.exponential(1, shape),
    'fast outliers': coverage.FAMILIES['one-sided (exponential)'],
}
RUNS, LOOKS = 5, 3
POWER_RUNS = (3, 5, 10, 20)
#: Of one run, a share.
NOISE = 0.02
#: How far a good machine is above the bound, a share.
ABOVE = 0.05
#: Values of one draw: more would take more memory.
_CHUNK = 2_000_000


class Situation(NamedTuple):
    """Nodes of which some are exactly at the bound and ``above`` are better; in each of so many clauses."""

    name: str
    nodes: int
    share: float
    above: int = 0
    clauses: int = 1


SITUATIONS = (
    Situation('1 node at the bound', 1, 1.0),
    Situation('1,000 nodes at the bound', 1000, 1.0),
    Situation('1 of 1,000 nodes at the bound, the others 5 % above', 1000, 1.0, above=999),
    Situation('median of 1,000 nodes, all at the bound', 1000, 0.5),
    Situation('median of 1,000 nodes, 499 of them 5 % above', 1000, 0.5, above=499),
    Situation('95 % of 1,000 nodes, 949 of them 5 % above', 1000, 0.95, above=949),
    Situation('8 clauses of 1 node, all at the bound', 1, 1.0, clauses=8),
)


class Counted(NamedTuple):
    """Shares of the contracts with a clause that was called so."""

    met: float
    not_met: float


def wrong(situation: Situation, family: str, trials: int, seed: int = 1) -> Counted:
    """Return how often a contract with this situation has a wrong word."""
    draw = np.random.default_rng(seed)
    levels = np.zeros(situation.nodes)
    levels[:situation.above] = math.log1p(ABOVE)
    met = np.zeros(trials, bool)
    not_met = np.zeros(trials, bool)
    most = promise.runs_of_look(LOOKS - 1, RUNS)
    step = max(1, _CHUNK // (situation.nodes * most))
    for start in range(0, trials, step):
        part = slice(start, min(start + step, trials))
        for _ in range(situation.clauses):
            shape = part.stop - part.start, situation.nodes, most
            values = levels[:, None] + NOISE * FAMILIES[family](draw, shape)
            called = _called(values, situation)
            met[part] |= called == 1
            not_met[part] |= called == -1
    return Counted(met.mean(), not_met.mean())


def _called(values: np.ndarray, situation: Situation, looks: int = LOOKS, runs: int = RUNS) -> np.ndarray:
    """Return 1 for met, -1 for not met, 0 for open, of values [trials, nodes, runs]: the first look decides."""
    demanded = promise.demand(situation.nodes, situation.share)
    called = np.zeros(len(values), int)
    for look in range(looks):
        first = values[..., :promise.runs_of_look(look, runs)]
        low, high = promise.interval_at(look, first.mean(-1), first.var(-1, ddof=1), runs, demanded,
                                        situation.clauses)
        called[(called == 0) & (low >= 0)] = 1
        called[(called == 0) & (high < 0)] = -1
    return called


def power(nodes: int, noise: float, runs: int, trials: int, clauses: int = 1, seed: int = 1) -> float:
    """Return how often nodes that are all 5 % above the bound are called met by so many runs, in one look."""
    draw = np.random.default_rng(seed)
    situation = Situation('', nodes, 1.0, clauses=clauses)
    step = max(1, _CHUNK // (nodes * runs))
    met = 0
    for start in range(0, trials, step):
        values = math.log1p(ABOVE) + noise * draw.standard_normal((min(step, trials - start), nodes, runs))
        met += int((_called(values, situation, 1, runs) == 1).sum())
    return met / trials


def _wrong_rows(trials: int, seed: int) -> Iterator[tuple[list[str], bool]]:
    """Yield the row of each situation and noise, and whether its rates are as promised."""
    for situation in SITUATIONS:
        for family in FAMILIES:
            many = trials if situation.nodes == 1 else max(200, trials // 20)
            shares = wrong(situation, family, many, seed)
            error = math.sqrt(promise.LEVEL * (1 - promise.LEVEL) / many)
            is_well = family != 'normal' or max(shares) <= promise.LEVEL + 2 * error
            yield [situation.name, family, f'{100 * shares.met:.1f}', f'{100 * shares.not_met:.1f}'], is_well


def _power_rows(trials: int, seed: int) -> Iterator[list[str]]:
    """Yield the row of each number of nodes, of clauses and each noise."""
    for nodes in (1, 1000):
        many = trials if nodes == 1 else max(100, trials // 100)
        for clauses in (1, 8):
            for noise in (0.01, 0.02, 0.05):
                shares = [power(nodes, noise, runs, many, clauses, seed) for runs in POWER_RUNS]
                percents = [f'{100 * share:.0f}' for share in shares]
                yield [f'{nodes:,}', f'{clauses}', f'{100 * noise:g} %', *percents]


def _print(*cells: str) -> None:
    print(f'| {" | ".join(cells)} |', flush=True)


def main(trials: int, seed: int) -> int:
    """Print the tables; return 1 where a rate of normal noise is above what is promised."""
    level = f'{100 * promise.LEVEL:g}'
    counts = ', '.join(str(promise.runs_of_look(look, RUNS)) for look in range(LOOKS))
    print(f'Percent of contracts with a clause that is called met, or not met, in looks of {counts} runs.\n'
          f'Each is to be {level} at most. The noise of a run is {100 * NOISE:g} %.\n')
    _print('situation', 'noise', 'met', 'not met')
    _print('---', '---', '---:', '---:')
    is_well = True
    for row, holds in _wrong_rows(trials, seed):
        _print(*row, *([] if holds else [f'above {level}']))
        is_well = is_well and holds
    print(f'\nPercent of machines {100 * ABOVE:g} % above the bound that are called met by so many runs.\n')
    _print('nodes', 'clauses', 'noise', *map(str, POWER_RUNS))
    _print('---', '---', '---', *['---:'] * len(POWER_RUNS))
    for row in _power_rows(trials, seed):
        _print(*row)
    return not is_well


if __name__ == '__main__':
    parser = argparse.ArgumentParser(prog='python -m dev.contract', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trials', nargs='?', type=int, default=10_000, help='of each figure (default 10000)')
    parser.add_argument('--seed', type=int, default=1)
    given = parser.parse_args()
    raise SystemExit(main(given.trials, given.seed))
