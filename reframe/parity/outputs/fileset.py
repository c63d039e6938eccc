"""What programs/fileset.py printed: a population of files of one size, read in random order.

Under the checksum stand the options, what was measured of every iteration, and the medians. Only the
seconds are measured: all other figures follow from them, and are computed again here.
"""

from __future__ import annotations

import re
import statistics
import zlib
from dataclasses import dataclass
from decimal import Decimal

from . import Incomplete, Wrong
from .hpcc_text import whole
from .printed import half_digit, positive

START, END = 'fileset: start of results, format 1', 'fileset: end of results'
COUNTS = ('bytes', 'files', 'chunk', 'iterations', 'ranks', 'nodes')
SAID = ('mode', 'bytes', 'files', 'chunk', 'seed', 'iterations', 'ranks', 'nodes', 'launch', 'read from', 'python',
        'mpi4py', 'mpi', 'source filesystem', 'destination filesystem')
MEDIANS = {'seconds': 9, 'rate': 6, 'ns_per_byte': 6, 'file_rate': 6}           # decimals
ENDS = (*MEDIANS, 'mismatches', 'records')
_HEADER = re.compile('(host|(?:source|destination)(?: device)?): (.+)')
_ITERATION = re.compile(r'(\S+) bytes (\S+) files (\S+) seconds (\S+) rate (\S+) Mb/s '
                        r'ns-per-byte (\S+) file-rate (\S+) wrong (\S+)')
_CACHED = re.compile('source cached: (yes|no|unknown), (.+)')


@dataclass(frozen=True)
class _Run:
    """One complete output: the options, the seconds of every iteration, the medians and the page cache."""

    said: dict[str, str]
    counts: dict[str, int]
    seconds: list[Decimal]
    medians: dict[str, Decimal]
    cached: tuple[str, str]


def parse(text: str) -> dict[str, float]:
    """Medians over the iterations: rate (Mb/s: 10^6 bits), ns_per_byte (of a rank), file_rate (files/s), seconds.

    A byte that is read and written counts once. Raises Incomplete with the line where something is missing,
    Wrong when a file was not what was written, or figures contradict each other.
    """
    return {name: float(_run(text)[1].medians[name]) for name in ('rate', 'ns_per_byte', 'file_rate', 'seconds')}


def facts(text: str) -> dict[str, float | str]:
    """ranks, nodes, bytes (of a file), files (of a rank), chunk (bytes), mode, seed, iterations, read_from
    ('other node' or 'own'), launch, python, mpi4py, mpi, filesystems, seconds_min and seconds_max (s),
    'source cached' (yes, no, unknown) with its why, and host and folders where they were printed.

    Raises as ``parse`` does.
    """
    before, run = _run(text)
    names = ('mode', 'launch', 'python', 'mpi4py', 'mpi', 'source filesystem', 'destination filesystem')
    return {**before, **{name: float(count) for name, count in run.counts.items()},
            **{name: run.said[name] for name in names},
            'seed': float(run.said['seed']), 'read_from': run.said['read from'],
            'source cached': run.cached[0], 'source cached why': run.cached[1],
            'seconds_min': float(min(run.seconds)), 'seconds_max': float(max(run.seconds))}


def _run(text: str) -> tuple[dict[str, str], _Run]:
    """What stands above the results, and the results once they can be believed."""
    lines = [line.rstrip('\r') for line in text.split('\n')]
    start, block = _block(lines)
    said = {name: _after(f'{name}: ', block, at, start) for at, name in enumerate(SAID)}
    counts = _counts(said)
    first, last = len(SAID), len(SAID) + counts['iterations']
    if len(block) != last + 1 + len(ENDS):
        raise Incomplete(f'line {start + len(block)}: {len(block)} lines of results, '
                         f'not {last + 1 + len(ENDS)} as for {counts["iterations"]} iterations')
    rows = [_iteration(_after('iteration ', block, at, start), at - first + 1, counts)
            for at in range(first, last)]
    cached = _CACHED.fullmatch(block[last])
    if not cached:
        raise Incomplete(f'line {start + last + 1}: "source cached: yes, no or unknown" is absent')
    ends = {name: _after(f'{name} = ', block, last + 1 + at, start) for at, name in enumerate(ENDS)}
    medians = _medians(ends, rows)
    _counted(ends, len(rows))
    return _header(lines[:start]), _Run(said, counts, [row['seconds'] for row in rows], medians, cached.groups())


def _block(lines: list[str]) -> tuple[int, list[str]]:
    """The number of the line START, and the lines between it and the checksum, when this fits."""
    starts, ends = ([at for at, line in enumerate(lines, 1) if line == mark] for mark in (START, END))
    if len(starts) > 1 or len(ends) > 1:
        raise Wrong(f'{max(len(starts), len(ends))} runs in one output')
    if not starts:
        raise Incomplete(f'line {len(lines)}: the output ends without "{START}"')
    if not ends or ends[0] < starts[0] + 2:
        raise Incomplete(f'line {len(lines)}: the output ends without "{END}" after the results')
    sealed, seal = lines[starts[0] - 1:ends[0] - 2], lines[ends[0] - 2]
    if seal != f'crc32 = {zlib.crc32(chr(10).join(sealed).encode("utf-8", "surrogatepass")):08x}':
        raise Incomplete(f'line {ends[0] - 1}: the checksum does not fit the lines above')
    return starts[0], sealed[1:]


def _after(label: str, block: list[str], at: int, start: int) -> str:
    """What follows the label in a line of the block, which has its place."""
    if at >= len(block) or not block[at].startswith(label) or block[at] == label:
        raise Incomplete(f'line {start + at + 1}: "{label}" with a value is absent')
    return block[at][len(label):]


def _header(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in filter(None, map(_HEADER.fullmatch, lines)):
        if match[1] in found:
            raise Wrong(f'"{match[1]}:" stands twice above the results')
        found[match[1]] = match[2]
    return found


def _counts(said: dict[str, str]) -> dict[str, int]:
    """The counts among the options, once these do not contradict each other."""
    counts = {name: whole(said[name], name) for name in COUNTS}
    whole(said['seed'], 'seed')
    for name, count in counts.items():
        if not count:
            raise Wrong(f'{name} is 0')
    ranks, nodes, copies = counts['ranks'], counts['nodes'], said['mode'] == 'read-write'
    for allowed, what in (
            (said['mode'] in ('read', 'read-write'), f'mode is {said["mode"][:40]!r}, not read or read-write'),
            (nodes <= ranks, f'{nodes} nodes, but {ranks} ranks'),
            (said['read from'] == ('other node' if nodes > 1 else 'own'),
             f'read from {said["read from"][:40]!r} with {nodes} nodes'),
            (ranks == 1 or said['launch'] == 'mpi', f'launch: {said["launch"][:40]!r}, but {ranks} ranks'),
            (ranks == 1 or 'none' not in (said['mpi4py'], said['mpi']), f'{ranks} ranks without mpi4py or MPI'),
            ((said['destination filesystem'] != 'none') == copies,
             f'{said["mode"]} to the file system {said["destination filesystem"][:40]!r}')):
        if not allowed:
            raise Wrong(what)
    return counts


def _iteration(line: str, number: int, counts: dict[str, int]) -> dict[str, Decimal]:
    match = _ITERATION.fullmatch(line)
    if not match:
        raise Incomplete(f'iteration {number} is unreadable: {line[:120]!r}')
    found, moved, files, *figures, wrong = match.groups()
    total = counts['files'] * counts['ranks']
    for token, what, expected in ((found, 'the number of the iteration', number), (files, 'files', total),
                                  (moved, 'bytes', total * counts['bytes']), (wrong, 'wrong files', 0)):
        if whole(token, f'iteration {number}: {what}') != expected:
            raise Wrong(f'iteration {number}: {what}: {token}, not {expected}')
    row = {name: positive(token, f'iteration {number}: {name}', places)
           for token, (name, places) in zip(figures, MEDIANS.items(), strict=True)}
    seconds = row['seconds']
    expected = {'rate': total * counts['bytes'] * 8 / seconds / 10**6, 'file_rate': total / seconds,
                'ns_per_byte': seconds * counts['ranks'] / (total * counts['bytes']) * 10**9}
    for name, value in expected.items():
        _agrees(row[name], value, f'iteration {number}: {name}')
    return row


def _medians(ends: dict[str, str], rows: list[dict[str, Decimal]]) -> dict[str, Decimal]:
    medians = {name: positive(ends[name], name, places) for name, places in MEDIANS.items()}
    for name, value in medians.items():
        _agrees(value, statistics.median(row[name] for row in rows), name)
    return medians


def _agrees(value: Decimal, expected: Decimal, what: str) -> None:
    """Two roundings, and the arithmetic of the program in double precision, may part them."""
    if abs(value - expected) > 2 * Decimal(half_digit(value)) + expected * Decimal('1e-12'):
        raise Wrong(f'{what} is {value}, but {expected:.6f} by the other figures')


def _counted(ends: dict[str, str], iterations: int) -> None:
    for name, expected in (('mismatches', 0), ('records', iterations)):
        if whole(ends[name], name) != expected:
            raise Wrong(f'{name} = {ends[name]}, not {expected}')
