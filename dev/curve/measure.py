"""Rows of the curve: a detector's false alarms and found slowdowns on one noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from parity.stats.search import SLOW, TOO_FEW, follow

from dev.curve.families import RUNS
from dev.curve.rivals import RIVALS
from dev.curve.sources import Source
from parity.stats.noise import DEFAULT, Nights, grouped, of_nights

SIZES = (0.01, 0.02, 0.03, 0.05, 0.10)
WITHIN = (1, 3, 7)
HISTORY, LONG = 40, 120


@dataclass(frozen=True)
class Amount:
    """The size of a sample."""

    series: int = 1000       # for false alarms
    nights: int = 80         # after the history
    slowed: int = 400        # series that slow down, for each size
    sizes: tuple[float, ...] = SIZES


@dataclass(frozen=True)
class Row:
    """One detector on one noise: false alarms and insufficient nights per 1000; shares ``found``."""

    noise: str
    kind: str
    cv: str
    detector: str
    false: float
    insufficient: float
    found: dict[float, tuple[float, ...]]      # by size, within 1, 3, 7 nights


def parity(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (alarms, insufficient) of the rules [series, nights], with reruns for every night."""
    many, nights, runs = values.shape
    flat, night = values.ravel(), np.repeat(np.arange(many * nights), runs)
    run = np.tile(np.arange(runs) < RUNS, many * nights)
    groups = [grouped(night[chosen], flat[chosen], many * nights) for chosen in (run, ~run, run | ~run)]
    table = Nights(np.arange(many + 1) * nights, *groups, np.zeros(many * nights, dtype=bool))
    state = follow(table, of_nights(table, DEFAULT), DEFAULT).state.reshape(many, nights)
    return state == SLOW, state == TOO_FEW


def rows(name: str, kind: str, cv: str, source: Source, rng: np.random.Generator, amount: Amount) -> list[Row]:
    """Return one row a detector, and one for parity after a long history."""
    null = source.seen(rng, source.draw(rng, amount.series, HISTORY + amount.nights))
    after = {size: _slowed(source, rng, amount.slowed, HISTORY, size) for size in amount.sizes}
    long = _slowed(source, rng, amount.slowed, LONG, 0.05)
    alarms, few = parity(null)
    false = {'parity': _rate(alarms)} | {rival: _rate(alarm(null)) for rival, alarm in RIVALS.items()}
    found = {'parity': {size: _found(parity(v)[0], HISTORY) for size, v in after.items()}}
    found |= {rival: {size: _found(alarm(v), HISTORY) for size, v in after.items()}
              for rival, alarm in RIVALS.items()}
    limit = source.seen(rng, source.draw(rng, amount.series, HISTORY + amount.nights))
    found['oracle'] = {size: _found(source.oracle(size, limit)(v), HISTORY) for size, v in after.items()}
    made = [Row(name, kind, cv, detector, false.get(detector, 1.0), _rate(few) if detector == 'parity' else 0.0,
                share) for detector, share in found.items()]
    late = Row(name, kind, cv, f'parity, {LONG} nights', made[0].false, 0.0, {0.05: _found(parity(long)[0], LONG)})
    return [made[0], late, *made[1:]]


def _rate(alarms: np.ndarray) -> float:
    return 1000 * float(alarms[:, HISTORY:].mean())


def _slowed(source: Source, rng: np.random.Generator, many: int, history: int, size: float) -> np.ndarray:
    values = source.draw(rng, many, history + WITHIN[-1])
    values[:, history:] -= size
    return source.seen(rng, values)


def _found(alarms: np.ndarray, history: int) -> tuple[float, ...]:
    return tuple(float(alarms[:, history:history + n].any(axis=1).mean()) for n in WITHIN)
