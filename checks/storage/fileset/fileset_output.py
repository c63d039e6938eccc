"""Output of jobs/programs/fileset.py: populations of files of one size, read in random order. Under the checksum
stand the options, the seconds of every iteration, and the medians, which follow from them. With a time limit, an
iteration reads as many files as it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from parity.check import Incomplete, Lines, Program, Read, Wrong, half, number, sealed, whole

#: The host and the folders stand above the start of the results.
PROGRAM = Program('fileset', title=r'host: .+(?=(?:\n.*){0,5}\n.*fileset: start of results, format 1)',
                  alone=r'fileset: the launcher started \d+ tasks, but each is a run of its own: .*')
START, SEAL = 'fileset: start of results, format 1', 'crc32 = ([0-9a-f]{8})'
_COUNTS = ('bytes', 'files', 'chunk', 'iterations', 'ranks', 'nodes')
_WORDS = ('mode', 'launch', 'python', 'mpi4py', 'mpi', 'source filesystem', 'destination filesystem')
_ABOVE = ('host', 'source', 'source device', 'destination', 'destination device')
_LIMIT = 'time limit: (.+)'
_ROW = (r'iteration (?P<number>\d+) bytes (?P<bytes>\d+) files (?P<files>\d+) seconds (?P<seconds>\S+) rate .* '
        r'wrong (?P<wrong>\d+)')
_NAMES = {'wrong': 'wrong files'}


@dataclass(frozen=True)
class Iteration:
    """The work of all ranks in an iteration."""

    files: int
    bytes: int
    seconds: float


def read(text: str) -> Read:
    """Medians over the iterations: rate (Mb/s: 10^6 bits), ns_per_byte (of a rank), file_rate (files/s), seconds.

    A byte that is read and written counts once.

    Facts: ranks, nodes, bytes (of a file), files (of a rank), chunk (bytes), mode, seed, iterations, read_from
    ('other node' or 'own'); with a time limit (s) files_read, of all ranks and iterations.

    Further facts: launch, python, mpi4py, mpi, filesystems, seconds_min and seconds_max (s), 'source cached' (yes,
    no, unknown) with its why, host and folders."""
    above, _, out = sealed(PROGRAM.output(text, fold=False).text, START, SEAL)
    counts = {name: out.count(f'{name}: (.+)') for name in _COUNTS}
    limit = out.count(_LIMIT) if out.maybe(_LIMIT) else 0
    iterations = _iterations(out, counts, limit)
    for name, expected in (('mismatches', 0), ('records', len(iterations)), ('iterations', len(iterations))):
        printed = out.count(f'{name}(?: =|:) (.+)', zero=True)
        if printed != expected:
            raise Wrong(f'{name}: {printed}, not {expected}')
    facts = _facts(above, out) | {name: float(count) for name, count in counts.items()}
    if limit:
        files_read = sum(iteration.files for iteration in iterations)
        facts |= {'time limit': float(limit), 'files_read': float(files_read)}
    seconds = [iteration.seconds for iteration in iterations]
    facts |= {'seconds_min': min(seconds), 'seconds_max': max(seconds)}
    return _medians(out, iterations, counts['ranks']), facts


def _iterations(out: Lines, counts: dict[str, int], limit: int) -> list[Iteration]:
    """Return what was done in each iteration: all files, or with a time limit as many as it allowed."""
    rows = out.every(_ROW)
    if len(rows) < counts['iterations']:
        raise Incomplete(f'line {out.end}: {len(rows)} iterations of {counts["iterations"]}')
    all_files = counts['files'] * counts['ranks']
    iterations = []
    for at, row in enumerate(rows, 1):
        files = whole(row['files'], 'files')
        seconds = number(row['seconds'], 'seconds')
        ended_early = limit and counts['ranks'] <= files < all_files and seconds >= limit
        expected = {'number': at, 'files': files if ended_early else all_files, 'bytes': files * counts['bytes'],
                    'wrong': 0}
        for name, count in expected.items():
            if row[name] != str(count):
                raise Wrong(f'iteration {at}: {_NAMES.get(name, name)}: {row[name]}, not {count}')
        number(row['seconds'], 'seconds', places=9)
        iterations.append(Iteration(files, int(row['bytes']), float(seconds)))
    return iterations


def _medians(out: Lines, iterations: Sequence[Iteration], ranks: int) -> dict[str, float]:
    """Return the medians that are printed, which must be those of the iterations."""
    rates, costs, file_rates, seconds = [], [], [], []
    for iteration in iterations:
        rates.append(iteration.bytes * 8 / 10**6 / iteration.seconds)
        costs.append(iteration.seconds * ranks / iteration.bytes * 10**9)
        file_rates.append(iteration.files / iteration.seconds)
        seconds.append(iteration.seconds)
    return {'rate': _median(out, 'rate', 6, rates), 'ns_per_byte': _median(out, 'ns_per_byte', 6, costs),
            'file_rate': _median(out, 'file_rate', 6, file_rates), 'seconds': _median(out, 'seconds', 9, seconds)}


def _median(out: Lines, name: str, places: int, iterations: list[float]) -> float:
    """The median printed under ``name``, which must be that of the iterations, within its last digits."""
    value = out.figure(f'{name} = (.+)', places=places)
    expected = median(iterations)
    if abs(float(value) - expected) > 2 * half(value) + 1e-12 * expected:
        raise Wrong(f'{name} is {value}, but {expected:.6f} by bytes, files and seconds')
    return float(value)


def _facts(above: Lines, out: Lines) -> dict[str, str | float]:
    """Return what else is printed: the host and its folders, the programs, what is known of caches."""
    facts: dict[str, str | float] = {}
    for name in _ABOVE:
        line = above.maybe(f'{name}: (.+)')
        if line:
            facts[name] = line[1]
    facts |= {name: out.one(f'{name}: (.+)')[1] for name in _WORDS}
    facts['seed'] = float(out.count('seed: (.+)', zero=True))
    facts['read_from'] = out.one('read from: (.+)')[1]
    cached = out.one('source cached: (yes|no|unknown), (.+)', 'source cached: yes, no or unknown')
    facts |= {'source cached': cached[1], 'source cached why': cached[2]}
    return facts
