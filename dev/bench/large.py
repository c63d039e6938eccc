"""The time and memory of the commands on the made-up histories of a large system."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dev.bench import nights
from dev.bench.took import Took, at_most, took
from parity.base.errors import OK, REGRESSED

#: The limits of a command.
SECONDS, GIGABYTES = 10.0, 1.0
#: `parity detect`: series, nights of each, runs of each night: a million rows.
SERIES, NIGHTS, RUNS = 2000, 100, 5


def run() -> bool:
    """Print all figures; return True if all keep to their limits."""
    return all([detect(), verdict(), compare()])


def detect() -> bool:
    """Judge a million rows; each hundredth series is 10 % slower in its last 3 nights."""
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        file = Path(folder, 'history.csv')
        _history(file)
        return _good('parity detect, 1,000,000 rows', SECONDS, 'detect', str(file))


def verdict() -> bool:
    """Judge 1,000 nodes x 20 metrics x 50 nights, from ReFrame's database to the verdict."""
    with _stored({'cpu': 1000}, 20, 50) as results:
        what = 'verdict, 20,000 cells, 50 nights'
        first = _took(results, 'verdict')
        print(f'{what}, first load {first.seconds:.1f} s, {first.megabytes / 1000:.2f} GB')
        return _good(f'{what}, cached load', SECONDS, 'verdict', results=results)


def compare() -> bool:
    """Compare 1,000 cells of two partitions over 90 nights."""
    with _stored({'cpu': 125, 'virtual': 125}, 4, 90) as results:
        words = ('compare', *(f'{nights.SYSTEM}:{name}' for name in ('cpu', 'virtual')))
        print(f'compare, 1,000 cells, 90 nights, first load {_took(results, *words).seconds:.1f} s')
        return _good('compare, 1,000 cells, 90 nights, cached load', 2.0, *words, results=results)


def _good(what: str, seconds: float, *words: str, results: str | None = None) -> bool:
    done = _took(results, *words)
    quick = at_most(what, done.seconds, seconds, 's')
    return at_most('    memory at its peak', done.megabytes / 1000, GIGABYTES, 'GB') and quick


def _took(results: str | None, *words: str) -> Took:
    """Return the cost of `parity WORDS`."""
    done = took('-m', 'parity.cli', *words, env={**os.environ, **({'PARITY_RESULTS': results} if results else {})})
    if done.code not in (OK, REGRESSED):
        raise RuntimeError(f'parity {words[0]} ended with {done.code}: {done.printed[-500:]}')
    return done


def _stored(partitions: dict[str, int], metrics: int, count: int) -> tempfile.TemporaryDirectory:
    """Make a results folder with so many nights, in another process: ReFrame has one runtime a process."""
    folder = tempfile.TemporaryDirectory(prefix='parity-bench-')
    code = f'from dev.bench import nights; nights.stored({partitions!r}, {metrics}, {count})'
    subprocess.run([sys.executable, '-c', code], check=True, env={**os.environ, 'PARITY_RESULTS': folder.name})
    return folder


def _history(file: Path) -> None:
    import numpy as np
    import polars as pl
    shape = SERIES, NIGHTS, RUNS
    value = np.random.default_rng(1).normal(100, 1, shape)
    value[::100, -3:] *= 0.9
    series, night, each = (index.ravel() for index in np.indices(shape))
    frame = pl.DataFrame({'series': series, 'night': night, 'run': each, 'value': value.ravel()})
    frame.with_columns(kind=pl.lit('run')).write_csv(file)


if __name__ == '__main__':
    sys.exit(OK if run() else REGRESSED)
