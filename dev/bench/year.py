"""A year of a large system: ``python -m dev.bench.year [--nodes N] [--nights N] [--results DIR]``.

Made-up nights are stored, 20 metrics on each node. The program prints the time and memory of the verdict, and the
sizes of the database and the cache. Then two readers and a writer work at once, and nothing may be lost. At last
`parity prune` removes the older half, and the slower cells and the incidents must stay. 1,000 nodes and 365 nights
take about 4 GB of disk, and an hour or more."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from dev.bench import nights
from dev.bench.took import Took, at_most, took
from parity.base import errors
from parity.base.figures import counted

NODES, METRICS, NIGHTS = 1000, 20, 365
#: The limits of a verdict on the year.
SECONDS, GIGABYTES = 10.0, 2.0
#: `prune` leaves so many nights at least: a level needs some.
_LEAST = 30
#: Nights that are stored while others read.
MORE = 3
#: Bytes of disk that a case of a night takes, its part of the cache included: for the question before the start.
_CASE_BYTES = 11_000


class Year:
    """A results folder with the nights. Each step is a process of its own: its memory is its own, too."""

    def __init__(self, results: Path, nodes: int, count: int):
        self.results, self.nodes, self.count = results, nodes, count
        self.environ = {**os.environ, 'PARITY_RESULTS': str(results)}
        self.zero = time.time() - (count + MORE) * nights.DAY

    def store(self, count: int, first: int = 0) -> list[str]:
        """Return the command that stores so many nights."""
        given = f'{{"cpu": {self.nodes}}}, {METRICS}, {count}, first={first}, zero={self.zero!r}'
        return [sys.executable, '-c', f'from dev.bench import nights; nights.stored({given})']

    def took(self, *words: str) -> Took:
        """Return the cost of `parity WORDS`. RuntimeError where it could not do that."""
        done = took('-m', 'parity.cli', *words, env=self.environ)
        if done.code not in (errors.OK, errors.REGRESSED):
            raise RuntimeError(f'parity {" ".join(words)} ended with {done.code}: {done.printed[-500:]}')
        return done

    def asked(self, code: str) -> str:
        """Return what a line of Python prints."""
        command = [sys.executable, '-c', code]
        return subprocess.run(command, env=self.environ, check=True, capture_output=True, text=True).stdout.strip()

    def megabytes(self, *below: str) -> float:
        folder = self.results.joinpath(*below)
        found = [folder] if folder.is_file() else folder.rglob('*')
        return sum(file.stat().st_size for file in found if file.is_file()) / 1e6


def run(results: Path, nodes: int, count: int) -> bool:
    """Print all figures; return True if all keep to their limits."""
    year = Year(results, nodes, count)
    began = time.perf_counter()
    subprocess.run(year.store(count), env=year.environ, check=True)
    what = f'{nodes * METRICS:,} cells, {count} nights'
    print(f'{what}: stored in {time.perf_counter() - began:.0f} s; '
          f'results.db {year.megabytes("results.db"):,.1f} MB', flush=True)
    good = verdict(year, what)
    good = at_once(year) and good
    return pruned(year) and good


def verdict(year: Year, what: str) -> bool:
    """Judge the last night twice: the first reads the year into the cache."""
    first = year.took('verdict')
    print(f'verdict, {what}, first load {first.seconds:.1f} s, {first.megabytes / 1000:.2f} GB; '
          f'cache {year.megabytes("cache"):,.1f} MB', flush=True)
    done = year.took('verdict')
    quick = at_most(f'verdict, {what}, cached load', done.seconds, SECONDS, 's')
    return at_most('    memory at its peak', done.megabytes / 1000, GIGABYTES, 'GB') and quick


def at_once(year: Year) -> bool:
    """Judge in two processes while a third stores nights; return whether nothing was lost."""
    writer = subprocess.Popen(year.store(MORE, first=year.count), env=year.environ)
    words = [sys.executable, '-m', 'parity.cli', 'verdict']
    codes: Counter[int] = Counter()
    while True:
        readers = [subprocess.Popen(words, env=year.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for _ in range(2)]
        codes.update(reader.wait() for reader in readers)
        if writer.poll() is not None:
            break
    stored = int(year.asked('from parity.judge.store import database; print(len(database.uuids()))'))
    is_whole = year.asked('import sqlite3; from parity.base import paths; '
                          'print(*sqlite3.connect(paths.database()).execute("PRAGMA integrity_check").fetchone())')
    good = writer.returncode == 0 and stored == year.count + MORE and is_whole == 'ok' and set(codes) <= {0, 1}
    verdicts = f'{sum(codes.values())} verdicts, exit codes {dict(codes)}'
    sessions = f'{stored} of {year.count + MORE} sessions, database {is_whole}'
    print(f'two readers and a writer at once: {verdicts}; {sessions}   {"ok" if good else "LOST"}', flush=True)
    return good


def pruned(year: Year) -> bool:
    """Remove the older half of the sessions; return whether the slower cells and the incidents stay."""
    year.asked('from parity.judge.verdict import incidents, judge; '
               f'incidents.record(judge.newest(), {nights.SYSTEM!r})')
    before = _slower(year)
    days = str(max(_LEAST, year.count // 2))
    done = year.took('prune', '--keep-days', days, '--sessions-days', days)
    after = _slower(year)
    good = before == after
    removed = done.printed.strip().splitlines()[-1].removeprefix('parity: ')
    size = f'results.db {year.megabytes("results.db"):,.1f} MB'
    end = 'ok' if good else f'CHANGED to: {after}'
    print(f'prune: {removed}, in {done.seconds:.0f} s; {size}; {before}   {end}', flush=True)
    return good


class Slower(NamedTuple):
    """The cells that are slower, and the numbers of the incidents."""

    cells: frozenset[str]
    incidents: tuple[int, ...]

    def __str__(self) -> str:
        return f'{counted(len(self.cells), "slower cell")}, {counted(len(self.incidents), "incident")}'


def _slower(year: Year) -> Slower:
    judged = json.loads(year.took('verdict', '--json').printed)
    slower = [cell for cell in judged['cells'] if cell['verdict'] == 'regressed']
    cells = frozenset(f'{cell["case"]} {cell["metric"]}' for cell in slower)
    return Slower(cells, tuple(sorted(incident['number'] for incident in judged['incidents'])))


def main() -> int:
    parser = argparse.ArgumentParser(prog='python -m dev.bench.year', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--nodes', type=int, default=NODES, help=f'each has {METRICS} cells (default {NODES})')
    parser.add_argument('--nights', type=int, default=NIGHTS, help=f'at least 10 (default {NIGHTS})')
    parser.add_argument('--results', type=Path, help='an empty folder that stays; by default one that goes')
    given = parser.parse_args()
    if given.nodes < 1 or given.nights < 10:
        parser.error('--nodes must be at least 1, and --nights at least 10')
    if given.results and given.results.exists() and any(given.results.iterdir()):
        parser.error(f'--results {given.results}: must be an empty folder')
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        results = given.results or Path(folder)
        results.mkdir(parents=True, exist_ok=True)
        needed = given.nodes * given.nights * _CASE_BYTES
        free = shutil.disk_usage(results).free
        if needed > free:
            parser.error(f'{results}: needs about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free; --results '
                         'names another disk')
        return errors.OK if run(results, given.nodes, given.nights) else errors.REGRESSED


if __name__ == '__main__':
    sys.exit(main())
