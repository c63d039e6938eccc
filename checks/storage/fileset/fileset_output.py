"""Output of jobs/programs/fileset.py: populations of files of one size, read in random order. Under the checksum
stand the options, the seconds of every iteration, and the medians, which follow from them. With a time limit, an
iteration reads as many files as it can."""

from __future__ import annotations

from statistics import median

from parity.check import Incomplete, Lines, Read, Wrong, half, number, sealed, whole

START, SEAL = 'fileset: start of results, format 1', 'crc32 = ([0-9a-f]{8})'
_COUNTS = ('bytes', 'files', 'chunk', 'iterations', 'ranks', 'nodes')
_WORDS = ('mode', 'launch', 'python', 'mpi4py', 'mpi', 'source filesystem', 'destination filesystem')
_ABOVE = ('host', 'source', 'source device', 'destination', 'destination device')
_LIMIT = 'time limit: (.+)'
_ROW = r'iteration (\d+) bytes (\d+) files (\d+) seconds (\S+) rate .* wrong (\d+)'


def read(text: str) -> Read:
    """Medians over the iterations: rate (Mb/s: 10^6 bits), ns_per_byte (of a rank), file_rate (files/s), seconds.

    A byte that is read and written counts once.

    Facts: ranks, nodes, bytes (of a file), files (of a rank), chunk (bytes), mode, seed, iterations, read_from
    ('other node' or 'own'); with a time limit (s) files_read, of all ranks and iterations.

    Further facts: launch, python, mpi4py, mpi, filesystems, seconds_min and seconds_max (s), 'source cached' (yes,
    no, unknown) with its why, host and folders."""
    above, _, out = sealed(text, START, SEAL)
    counts = {name: out.count(f'{name}: (.+)') for name in _COUNTS}
    files, limit = counts['files'] * counts['ranks'], out.count(_LIMIT) if out.maybe(_LIMIT) else 0
    rows = out.every(_ROW)
    if len(rows) < counts['iterations']:
        raise Incomplete(f'line {out.end}: {len(rows)} iterations of {counts["iterations"]}')
    for at, row in enumerate(rows, 1):
        some = whole(row[3], 'files')
        early = limit and counts['ranks'] <= some < files and float(number(row[4], 'seconds')) >= limit
        for what, one, other in (('number', row[1], at), ('files', row[3], some if early else files),
                                 ('bytes', row[2], some * counts['bytes']), ('wrong files', row[5], 0)):
            if one != str(other):
                raise Wrong(f'iteration {at}: {what}: {one}, not {other}')
    for name, other in (('mismatches', 0), ('records', len(rows)), ('iterations', len(rows))):
        if (one := out.count(f'{name}(?: =|:) (.+)', zero=True)) != other:
            raise Wrong(f'{name}: {one}, not {other}')
    seconds = [float(number(row[4], 'seconds', places=9)) for row in rows]
    each = [(int(row[3]), int(row[2]), s) for row, s in zip(rows, seconds, strict=True)]
    metrics = {name: _median(out, name, places, of) for name, places, of in (
        ('rate', 6, [moved * 8 / 10**6 / s for _, moved, s in each]),
        ('ns_per_byte', 6, [s * counts['ranks'] / moved * 10**9 for _, moved, s in each]),
        ('file_rate', 6, [some / s for some, _, s in each]), ('seconds', 9, seconds))}
    cached = out.one('source cached: (yes|no|unknown), (.+)', 'source cached: yes, no or unknown')
    printed = {name: line[1] for name in _ABOVE if (line := above.maybe(f'{name}: (.+)'))}
    return metrics, {
        **printed, **{name: float(count) for name, count in counts.items()},
        **{name: out.one(f'{name}: (.+)')[1] for name in _WORDS},
        'seed': float(out.count('seed: (.+)', zero=True)), 'read_from': out.one('read from: (.+)')[1],
        'source cached': cached[1], 'source cached why': cached[2],
        **({'time limit': float(limit), 'files_read': float(sum(some for some, *_ in each))} if limit else {}),
        'seconds_min': min(seconds), 'seconds_max': max(seconds)}


def _median(out: Lines, name: str, places: int, iterations: list[float]) -> float:
    """The median printed under ``name``, which must be that of the iterations, within its last digits."""
    value, expected = out.figure(f'{name} = (.+)', places=places), median(iterations)
    if abs(float(value) - expected) > 2 * half(value) + 1e-12 * expected:
        raise Wrong(f'{name} is {value}, but {expected:.6f} by bytes, files and seconds')
    return float(value)
