"""Cases beside the families of noise: counts, life cycles of a cell, a large system."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from dev.curve import rule
from dev.curve.families import GROUP, HISTORY, RERUNS, RUNS, Family
from dev.curve.figures import Amount, Figure, Row
from dev.curve.oracle import bar, cusum

#: Counts: events a run, and the variance of a night's sum over its mean (negative binomial; 1: Poisson).
COUNTS = [(mean, over) for over in (1.0, 3.0) for mean in (0.05, 0.3, 2.0, 20.0)]
#: New alarms per 1000 cell-nights; % of fourfold rates to find within so many nights at .3 a run, Poisson.
NEW, FOUND, TIMES, WITHIN = 1.0, 80.0, 4, 7
#: Life cycles: normal noise of a run, by how many nights cells differ, % of cells that do what is wanted.
CV, STAGGER, WANTED = 0.01, 10, 95.0
#: A large system: its nights, how many of the last are slower, and by how much; % of quiet cells with independent
#: noise that are blind, by CV. For the rule's call and its tables; seconds count if others leave the cores idle.
NIGHTS, LAST, SIZE, BLIND = 50, 3, 0.05, {0.01: 0.0, 0.02: 80.0}
SECONDS, MB, IDLE = 4.0, 1024.0, 0.2


def counts(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Measure the counts. The oracle knows rate and distribution."""
    begin = np.full(amount.stepped * GROUP, 2 * HISTORY)
    which = np.arange(len(begin)) % GROUP < GROUP // 2
    times = np.where(which[:, None] & (np.arange(2 * HISTORY + WITHIN) >= 2 * HISTORY), TIMES, 1.0)
    usual = np.ones((amount.groups * GROUP, HISTORY + amount.nights))
    for mean, over in COUNTS[:2] if small else COUNTS:
        rng = np.random.default_rng([seed, int(100 * mean), int(over)])
        drawn = [_draw(rng, mean, over, t) for t in (usual, times)]
        null, slow = (rule.follow(each, sign=-1).slow for each in drawn)
        on_null, evidence = (_evidence(mean, over, each.sum(axis=2)) for each in drawn)
        ours, best = (rule.caught(each, np.ones_like(each), which, begin, WITHIN)
                      for each in (slow, cusum(evidence, bar(on_null))))
        yield Row(f'mean {mean:g} a run, variance {over:g} x mean', {
            'new': Figure.of(rule.fresh(null), most=NEW),
            f'x{TIMES} in {WITHIN}': Figure.of(ours, FOUND if (mean, over) == (0.3, 1) else -np.inf),
            'oracle': Figure.of(best)})


def _draw(rng: np.random.Generator, mean: float, over: float, times: np.ndarray) -> np.ndarray:
    """Draw counts [series, nights, RUNS] whose rate is ``times`` [series, nights] the mean's."""
    shape = RUNS * mean / (over - 1) if over > 1 else np.inf
    rate = mean * times * (rng.gamma(shape, 1 / shape, times.shape) if over > 1 else 1)
    return rng.poisson(np.repeat(rate[..., None], RUNS, axis=2)).astype(float)


def _evidence(mean: float, over: float, sums: np.ndarray) -> np.ndarray:
    """Return the log likelihood ratio of the fourfold rate for the sums of nights [series, nights]."""
    n = RUNS * mean / max(over - 1, 1e-9)
    return np.subtract(*(stats.poisson.logpmf(sums, m) if over == 1 else stats.nbinom.logpmf(sums, n, n / (n + m))
                         for m in (TIMES * RUNS * mean, RUNS * mean)))


class Cycle(NamedTuple):
    """``level`` gives the log of the level for nights since the beginning, NaN where the cell did not run.

    ``wants``: a word, and nights [from, to) since the beginning; True: at least one is to be slow, False: none.
    ``events`` by night; ``nodes``: another node from the beginning on; ``begin``: nights before, at least."""

    name: str
    level: Callable[[np.ndarray], np.ndarray]
    wants: tuple[tuple[str, int, int, bool], ...]
    events: dict[int, str] = {}
    nodes: bool = False
    begin: int = 60


def step(*steps: tuple[int, float]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a level that is multiplied by 1 + change from each night on."""
    return lambda night: np.sum([np.where(night >= at, np.log1p(change), 0.0) for at, change in steps], axis=0)


_TOLD, _QUIET, _THEN = ('told within 3', 0, 3, True), ('quiet', 0, 20, False), ('-5 % told within 3', 20, 23, True)
CYCLES = [
    Cycle('-6 %, accepted after 10, -5 % after 40', step((0, -.06), (40, -.05)), (
        _TOLD, ('then quiet', 10, 40, False), ('-5 % told within 3', 40, 43, True)), {10: 'accepted'}),
    Cycle('+8 %, -5 % after 20', step((0, .08), (20, -.05)), (_QUIET, _THEN)),
    Cycle('+8 %, -5 % after 5', step((0, .08), (5, -.05)), (('quiet for 40', 0, 40, False),)),
    Cycle('software that slows by 5 %', step((0, -.05)), (_TOLD,), {0: 'software'}),
    Cycle('software alike, -5 % after 20', step((20, -.05)), (_QUIET, _THEN), {0: 'software'}),
    Cycle('another node, 5 % slower', step((0, -.05)), (_TOLD,), nodes=True),
    Cycle('another node, alike, -5 % after 20', step((20, -.05)), (_QUIET, _THEN), nodes=True),
    Cycle('one night -30 %', step((0, -.3), (1, 1 / .7 - 1)), (_QUIET,)),
    Cycle('missing for 10', lambda night: np.where((night >= 0) & (night < 10), np.nan, 0.0), (_QUIET,)),
    Cycle('missing for 10, then -5 %', lambda night: np.where(night < 0, 0.0, np.where(
        night < 10, np.nan, np.log(.95))), (('told within 3', 10, 13, True),))]


def cycles(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Return the % of the cells that do what is wanted, for each wanted thing."""
    for cycle in CYCLES:
        rng, cells = np.random.default_rng([seed, *cycle.name.encode()]), amount.cycles * GROUP
        begin = cycle.begin + rng.integers(0, STAGGER, cells)
        night = np.arange(cycle.begin + STAGGER + max(want[2] for want in cycle.wants)) - begin[:, None]
        noise = CV * rng.standard_normal((*night.shape, RUNS + RERUNS))
        events = np.full(night.shape, '', dtype='<U8')
        for at, word in cycle.events.items():
            events[night == at] = word
        slow = rule.follow(np.exp(cycle.level(night))[..., None] * (1 + noise), events=events,
                           nodes=(night >= 0).astype(int) if cycle.nodes else None).slow
        for said, start, end, wanted in cycle.wants:
            right = (slow & (night >= start) & (night < end)).any(axis=1) == wanted
            yield Row(f'{cycle.name}: {said}', {'cells': Figure.of(rule.per_group(100 * right), WANTED)})


def large(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Measure two CVs, independent and half night-shared."""
    for share in (0.0, 0.5):
        for cv in (0.01, 0.02)[:1 if small else 2]:
            with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as one:
                name = f'{10 * amount.large} cells, CV {100 * cv:g} %' + ', half night-shared' * bool(share)
                yield Row(name, one.submit(_judged, cv, share, seed, amount.large).result())


def _judged(cv: float, share: float, seed: int, many: int) -> dict[str, Figure]:
    """Judge ``many`` groups, without reruns. Half of the cells are 5 % slower on the last three nights."""
    rng, cells, libraries = np.random.default_rng([seed, int(1000 * cv), int(10 * share)]), many * GROUP, _peak()
    slowed = np.arange(cells) % GROUP < GROUP // 2
    values, _ = Family('', cv, share=share).draw(
        rng, cells, NIGHTS, SIZE * (slowed[:, None] & (np.arange(NIGHTS) >= NIGHTS - LAST)))
    started, other = time.perf_counter(), _others()
    told = rule.follow(values[..., :RUNS], 1 / (30 * cells))
    seconds = time.perf_counter() - started
    busy = (_others() - other) / seconds
    visible = told.visible[~slowed & told.quiet[:, -1]]
    found = rule.per_group(np.where(slowed, 100 * told.slow[:, -LAST:].any(axis=1), np.nan))
    blind = Figure(100 * float((visible > SIZE).mean()), most=np.inf if share else BLIND[cv])
    return {'load': Figure(os.getloadavg()[0]), 'others, cores': Figure(busy),
            'seconds': Figure(seconds, most=SECONDS if busy < IDLE else np.inf), 'MB': Figure(_peak(), most=MB),
            'libraries, MB': Figure(libraries), 'quiet': Figure(len(visible)), 'blind': blind,
            'visible': Figure(100 * float(np.median(visible))), '5 % in 3': Figure.of(found)}


def _others() -> float:
    """Return the seconds of cores that other processes have used."""
    ticks = map(int, Path('/proc/stat').read_text().split()[1:4])
    return sum(ticks) / os.sysconf('SC_CLK_TCK') - time.process_time()


def _peak() -> float:
    """Return the most MB that this process held (getrusage would count its parent's, too)."""
    return int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]) / 1024
