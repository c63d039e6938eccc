"""Wrong words about contracts, and how often a good machine is accepted: ``python -m dev.contract [TRIALS]``.

Nodes with half of their runs above the bound are drawn, with noise of a family. The program counts how often a
clause is called met or not met over three looks, by what `parity contract status` calls. Then it counts the runs
that a machine which is 2, 5 or 10 % better needs. docs/accepting-a-new-machine.md has the figures."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from parity.judge.stats import promise


def _slow_runs(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw normal runs of which one in ten is ten standard deviations slower."""
    values = draw.standard_normal(shape) - 10 * (draw.random(shape) < 0.1)
    return values + 0.1397      # its median is the place below which 5/9 of the fast runs are, less their mean


#: Noise of median 0, where higher is better. One standard deviation of most runs is 1.
FAMILIES: dict[str, Callable[..., np.ndarray]] = {
    'normal': lambda draw, shape: draw.standard_normal(shape),
    'heavy tails (t, 3 df)': lambda draw, shape: draw.standard_t(3, shape) / math.sqrt(3),
    'exponential, to the slow side': lambda draw, shape: math.log(2) - draw.exponential(1, shape),
    'exponential, to the fast side': lambda draw, shape: draw.exponential(1, shape) - math.log(2),
    'slow outliers (10 % of the runs)': _slow_runs,
}
RUNS, LOOKS = 5, 3
#: Of one run, a share.
NOISE = 0.02
#: How far a good machine is above the bound, a share.
ABOVE = (0.02, 0.05, 0.10)
NOISES = (0.01, 0.02, 0.05)
#: Looks of a good machine.
_POWER_LOOKS = 7
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
    Situation('8 clauses, each of 1 of 1,000 nodes at the bound', 1000, 1.0, above=999, clauses=8),
)


class Counted(NamedTuple):
    """Shares of the contracts with a clause that was called so."""

    met: float
    not_met: float


class Cost(NamedTuple):
    """Good nodes on their way to be called met. ``met``: the share of trials, by look. ``runs``: mean."""

    met: list[float]
    runs: float


def wrong(situation: Situation, family: str, trials: int, seed: int = 1) -> Counted:
    """Return how often a contract with this situation has a wrong word."""
    draw = np.random.default_rng(seed)
    rule = promise.rule(situation.nodes, situation.share, RUNS, situation.clauses)
    levels = np.zeros(situation.nodes)
    levels[:situation.above] = math.log1p(0.05)
    met = np.zeros(trials, bool)
    not_met = np.zeros(trials, bool)
    for part in _parts(trials, situation.nodes * rule.runs[LOOKS - 1]):
        for _ in range(situation.clauses):
            shape = part.stop - part.start, situation.nodes, rule.runs[LOOKS - 1]
            runs = np.exp(levels[:, None] + NOISE * FAMILIES[family](draw, shape))
            called = _looked(runs, rule, LOOKS).called[-1]
            met[part] |= called == 1
            not_met[part] |= called == -1
    return Counted(met.mean(), not_met.mean())


def _parts(trials: int, values: int) -> Iterator[slice]:
    """Yield the trials in parts that fit into memory. ``values``: of one trial."""
    step = max(1, _CHUNK // values)
    for start in range(0, trials, step):
        yield slice(start, min(start + step, trials))


class _Looked(NamedTuple):
    """``called``: of each look [trials], 1 for met, -1 for not met, 0 for open. ``runs`` [trials, nodes]."""

    called: list[np.ndarray]
    runs: np.ndarray


def _looked(runs: np.ndarray, rule: promise.Rule, looks: int) -> _Looked:
    """Look at runs [trials, nodes, runs] whose bound is 1. Decided nodes and clauses have no more looks."""
    shape = runs.shape[:2]
    lows, highs = np.full(shape, -math.inf), np.full(shape, math.inf)
    needed = np.zeros(shape, int)
    called = [np.zeros(shape[0], int)]
    for look in range(looks):
        waits = (lows < 1) & (highs >= 1) & (called[-1] == 0)[:, None]
        first = runs[..., :rule.runs[look]][waits]
        lows[waits], highs[waits] = promise.limits(first, rule.good[look], rule.bad[look])
        needed[waits] = rule.runs[look]
        low, high = promise.interval(lows, highs, rule.demand)
        called.append(np.where(low >= 1, 1, np.where(high < 1, -1, 0)))
    return _Looked(called[1:], needed)


def cost(nodes: int, above: float, noise: float, trials: int, clauses: int = 1, family: str = 'normal',
         seed: int = 1) -> Cost:
    """Return how nodes of which all are so far ``above`` the bound come to be called met in one of ``clauses``."""
    draw = np.random.default_rng(seed)
    rule = promise.rule(nodes, 1.0, RUNS, clauses)
    met = np.zeros(_POWER_LOOKS)
    needed = 0.0
    for part in _parts(trials, nodes * rule.runs[_POWER_LOOKS - 1]):
        shape = part.stop - part.start, nodes, rule.runs[_POWER_LOOKS - 1]
        runs = np.exp(math.log1p(above) + noise * FAMILIES[family](draw, shape))
        looked = _looked(runs, rule, _POWER_LOOKS)
        met += [(called == 1).sum() for called in looked.called]
        needed += looked.runs.mean(1).sum()
    return Cost((met / trials).tolist(), needed / trials)


def _wrong_rows(trials: int, seed: int) -> Iterator[tuple[list[str], bool]]:
    """Yield the row of each situation and noise, and whether its rates are as promised."""
    for situation in SITUATIONS:
        for family in FAMILIES:
            many = trials if situation.nodes == 1 else max(200, trials // 5)
            shares = wrong(situation, family, many, seed)
            error = math.sqrt(promise.LEVEL * (1 - promise.LEVEL) / many)
            is_well = max(shares) <= promise.LEVEL + 2 * error
            yield [situation.name, family, f'{100 * shares.met:.1f}', f'{100 * shares.not_met:.1f}'], is_well


def _cost_rows(trials: int, seed: int) -> Iterator[list[str]]:
    """Yield the row of each number of nodes and clauses, noise and distance from the bound."""
    for nodes, clauses in ((1, 1), (1, 8), (1000, 8)):
        many = trials if nodes == 1 else max(50, trials // 200)
        for family in ('normal', 'slow outliers (10 % of the runs)'):
            for noise in NOISES:
                row = [f'{nodes:,}', f'{clauses}', family, f'{100 * noise:g} %']
                for above in ABOVE:
                    row.append(_shown(cost(nodes, above, noise, many, clauses, family, seed),
                                      promise.rule(nodes, 1.0, RUNS, clauses)))
                yield row


def _shown(of_machine: Cost, rule: promise.Rule) -> str:
    """Return the mean runs of a node, and those that call nine of ten machines met."""
    enough = [runs for runs, met in zip(rule.runs, of_machine.met, strict=False) if met >= 0.9]
    most = f'{enough[0]}' if enough else f'above {rule.runs[_POWER_LOOKS - 1]}'
    return f'{of_machine.runs:.0f}; {most}'


def _print(*cells: str) -> None:
    print(f'| {" | ".join(cells)} |', flush=True)


def main(trials: int, seed: int) -> int:
    """Print the tables; return 1 where a rate is above what is promised."""
    level = f'{100 * promise.LEVEL:g}'
    print(f'Percent of contracts with a clause that is called met, or not met, in {LOOKS} looks.\n'
          f'Each is to be {level} at most. The noise of a run is {100 * NOISE:g} %.\n')
    _print('situation', 'noise', 'met', 'not met')
    _print('---', '---', '---:', '---:')
    is_well = True
    for row, holds in _wrong_rows(trials, seed):
        _print(*row, *([] if holds else [f'above {level}']))
        is_well = is_well and holds
    print('\nRuns of a node until its clause is met, by how far all nodes are above the bound: their mean;\n'
          'and how many are enough for 9 of 10 machines.\n')
    _print('nodes', 'clauses', 'noise', 'of a run', *(f'{100 * above:g} %' for above in ABOVE))
    _print(*['---'] * 4, *['---:'] * len(ABOVE))
    for row in _cost_rows(trials, seed):
        _print(*row)
    return not is_well


if __name__ == '__main__':
    parser = argparse.ArgumentParser(prog='python -m dev.contract', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trials', nargs='?', type=int, default=10_000, help='of each figure (default 10000)')
    parser.add_argument('--seed', type=int, default=1)
    given = parser.parse_args()
    raise SystemExit(main(given.trials, given.seed))
