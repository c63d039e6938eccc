"""How long the commands take, and how much memory, on the histories of a large system: figures are made up."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dev.bench import nights
from dev.bench.said import at_most
from parity.base.errors import OK, REGRESSED

#: What a command may take.
SECONDS, BYTES = 10.0, 2e9
#: `parity detect`: so many series, nights of each, runs of each night: a million rows.
SERIES, NIGHTS, RUNS = 2000, 100, 5


def run() -> bool:
    """Print all figures; True where they are as they should be."""
    return all([detect(), verdict(), compare()])


def detect() -> bool:
    """A million rows, in the lowest 3 nights of each hundredth series 10 % slower."""
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        file = Path(folder, 'history.csv')
        _history(file)
        return _good('parity detect, 1,000,000 rows', SECONDS, 'detect', str(file))


def verdict() -> bool:
    """1,000 nodes x 20 metrics x 50 nights, from ReFrame's database to the verdict."""
    with _stored({'cpu': 1000}, 20, 50) as results:
        what = 'verdict, 20,000 cells, 50 nights'
        first = _took(results, 'verdict')
        print(f'{what}, first load {first[0]:.1f} s, {first[1] / 1e9:.2f} GB')
        return _good(f'{what}, cached load', SECONDS, 'verdict', results=results)


def compare() -> bool:
    """1,000 cells of two partitions, 90 nights."""
    with _stored({'cpu': 125, 'virtual': 125}, 4, 90) as results:
        words = ('compare', *(f'{nights.SYSTEM}:{name}' for name in ('cpu', 'virtual')))
        print(f'compare, 1,000 cells, 90 nights, first load {_took(results, *words)[0]:.1f} s')
        return _good('compare, 1,000 cells, 90 nights, cached load', 2.0, *words, results=results)


def _good(what: str, seconds: float, *words: str, results: str | None = None) -> bool:
    took, peak = _took(results, *words)
    quick = at_most(what, took, seconds, 's')
    return at_most('    memory at its peak', peak / 1e9, BYTES / 1e9, 'GB') and quick


def _took(results: str | None, *words: str) -> tuple[float, int]:
    """Seconds and peak memory (bytes) of `parity WORDS`."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, '-m', 'parity.cli', *words], stdout=subprocess.DEVNULL,
                             env={**os.environ, **({'PARITY_RESULTS': results} if results else {})})
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (OK, REGRESSED):
        raise RuntimeError(f'parity {words[0]} ended with {child.returncode}')
    return time.perf_counter() - start, used.ru_maxrss * 1024


def _stored(partitions: dict[str, int], metrics: int, count: int) -> tempfile.TemporaryDirectory:
    """A results folder with so many nights; another process writes them: ReFrame's runtime is one a process."""
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
