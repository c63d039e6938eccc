"""The size of a large system's report page, and the time in which a browser shows it."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from dev.bench.browser import Browser, browser_program
from dev.bench.took import at_most
from parity.judge.verdict.model import Cell, Coverage, JudgedSession, Verdict

CELLS, NIGHTS = 5000, 90
#: The limits of such a page.
BYTES, SECONDS = 5e6, 1.0
_SUBSYSTEMS = {'compute': 'Gflop/s', 'memory': 'GB/s', 'network': 'us', 'storage': 'MB/s'}
_METRICS = ('copy', 'scale', 'add', 'triad')


def run(times: int = 5) -> bool:
    """Print both figures of a page of CELLS cells with NIGHTS nights; return True if they keep to the limits."""
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        page = write(Path(folder))
        return is_quick(page, f'the page of {CELLS} cells, {NIGHTS} nights each', times)


def is_quick(page: Path, what: str, times: int = 5) -> bool:
    """Print the size of a page and the time to open it; return whether both keep to the limits."""
    size = page.stat().st_size
    is_small = at_most(what, size / 1e6, BYTES / 1e6, 'MB')
    program = browser_program()
    if program is None:
        print('skipped: opening the page: no Chromium here')
        return is_small
    with Browser(program) as browser:
        browser.look(1400)
        seconds = median(browser.open(page) for _ in range(times))
    return at_most(f'opening it in Chromium, {times} times', seconds, SECONDS, 's') and is_small


def write(folder: Path) -> Path:
    """Write the page as the nightly does, for a made-up session and history, and return its path."""
    from parity.judge import report
    from parity.judge.report import nights
    from parity.judge.report.previous import Previous
    cells = _cells()
    today = _verdict(cells, 'today', '2026-11-20')
    rng = random.Random(2)
    before = _verdict([c.model_copy(update={'verdict': 'ok'}) if rng.random() < 0.5 else c for c in cells],
                      'yesterday', '2026-11-19')
    history = nights.of_recent(_history(cells), [(f'night {n}', 86400.0 * (20_590 + n)) for n in range(NIGHTS)])
    return report.write(today, folder, folder, Previous(before=before, nights=history))[0]


def _verdict(cells: list[Cell], uuid: str, day: str) -> Verdict:
    session = JudgedSession(uuid=uuid, system='made-up', start=f'{day}T02:14:00', end=f'{day}T06:40:00',
                      elapsed=15960.0, run_time=15200.0)
    coverage = Coverage(line='13 of 13 codes', codes=[], measured=13, total=13, cells=len(cells))
    return Verdict(session=session, coverage=coverage, counts=Counter(c.verdict for c in cells), trust='made up',
                   warnings=[], next='', exit_code=1, cells=cells)


def _cells() -> list[Cell]:
    rng = random.Random(1)
    cells = []
    for number in range(CELLS // len(_METRICS)):
        subsystem = list(_SUBSYSTEMS)[number * len(_SUBSYSTEMS) * len(_METRICS) // CELLS]
        check = f'{subsystem.title()}{number // 25 % 12}'
        for metric in _METRICS:
            word = rng.choices(('ok', 'regressed', 'unreferenced', 'failed'), (95, 2, 2, 1))[0]
            value = None if word == 'failed' else rng.uniform(60, 90)
            why = f'{word}: -{number % 97 / 10} % of the reference; median of 3'
            cells.append(Cell(
                check=check, case=f'{check} %threads={number % 5} %mode={number}', subsystem=subsystem,
                system='made-up', partition=f'part{number % 4}', environ='spack', size='nightly', metric=metric,
                unit=_SUBSYSTEMS[subsystem], better='lower' if subsystem == 'network' else 'higher', value=value,
                reference=75.0, low=71.0, high=79.0, limit=173.0, limit_source='DDR4, stated', efficiency=0.41,
                verdict=word, reason='' if word == 'ok' else why,
                nodes=[f'node{number % 200:03}'], jobid=str(880000 + number)))
    return cells


def _history(cells: list[Cell]):
    """Return one figure a cell and night, in the form of parity.judge.store.history.load."""
    import numpy as np
    import polars as pl

    from parity.judge.store.history import SCHEMA
    at = np.repeat(np.arange(NIGHTS), len(cells))
    of_cell = {name: [getattr(c, name) for c in cells] * NIGHTS for name in
               ('system', 'partition', 'environ', 'check', 'case', 'size', 'metric', 'unit', 'better')}
    values = np.random.default_rng(1).normal(75, 2, at.size)
    known = {'session': [f'night {n}' for n in at], 'start': at.astype(float), 'night': [f'night {n}' for n in at],
             'value': values, 'low': np.full(at.size, 71.0), 'high': np.full(at.size, 79.0), **of_cell}
    empty = {pl.String: '', pl.Boolean: False, pl.Int32: 0}
    return pl.DataFrame(known).with_columns(
        *(pl.lit(empty.get(kind)).cast(kind).alias(name) for name, kind in SCHEMA.items() if name not in known)
    ).select(list(SCHEMA))
