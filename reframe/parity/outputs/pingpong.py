"""mpi4py's own ping-pong (`python -m mpi4py.bench pingpong`): one pair of ranks, sizes that double.

The output has no end: without ``max_size`` nothing but a table that stops below 4 KiB tells that it was
cut. A bandwidth is the size over the mean time, both printed, so each row is checked by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from . import Incomplete, Wrong, curve
from .hpcc_text import whole
from .printed import duration, half_digit, positive

_TITLE = '# MPI PingPong Test'
_HEADING = re.compile(r'# Size \[B\]  Bandwidth \[MB/s\] \| Time Mean \[s\] (?:±|\ufffd+) StdDev \[s\]  Samples')
_BARE = '# Size [B]  Bandwidth [MB/s]'
_ROW = re.compile(r'( *\d+)( *\d+\.\d\d) \| (\d\.\d{7}e[-+]\d\d) (?:±|\ufffd+) (\d\.\d{4}e[-+]\d\d) ( *\d+)',
                  re.ASCII)
_LIKE_ROW = re.compile(r'\s+\d.*|.* \| .*|[\d. |]*\d[\d. |]*')  # what may be a row, damaged or not
_WIDTHS = (10, 18, 8)                                        # of size, bandwidth and samples
_LEAST = 4096                                                # a table that ends below this was cut


@dataclass(frozen=True)
class _Row:
    """MB/s, mean time of one message and its standard deviation (s), how many messages went to and fro."""

    bandwidth: Decimal
    seconds: Decimal
    deviation: Decimal
    samples: int


def parse(text: str, max_size: int | None = None) -> dict[str, float]:
    """latency_<size> in us, the mean of half a round trip, and bandwidth_<size> in MB/s (10^6 bytes).

    ``max_size``: the last size (bytes) that was asked for. Raises Incomplete with the line where something
    is missing, Wrong when figures contradict each other.
    """
    rows = _read(text, max_size)
    return {**{f'latency_{size}': 1e6 * float(row.seconds) for size, row in rows.items()},
            **{f'bandwidth_{size}': float(row.bandwidth) for size, row in rows.items()}}


def facts(text: str, max_size: int | None = None) -> dict[str, float]:
    """first_size and last_size (bytes); deviation_<size> (us) and samples_<size>. Raises as ``parse`` does."""
    rows = _read(text, max_size)
    return {'first_size': float(min(rows)), 'last_size': float(max(rows)),
            **{f'deviation_{size}': 1e6 * float(row.deviation) for size, row in rows.items()},
            **{f'samples_{size}': float(row.samples) for size, row in rows.items()}}


def _read(text: str, max_size: int | None) -> dict[int, _Row]:
    lines = curve.split(text)
    start = _start(lines)
    rows: dict[int, _Row] = {}
    for at in range(start, len(lines)):
        if _LIKE_ROW.fullmatch(lines[at]):
            size, row = _row(lines, at)
            if not size or not curve.follows(size, max(rows, default=None)):
                raise Wrong(f'line {at + 1}: {size} B is not the size that follows: powers of two without a gap')
            rows[size] = row
    if not rows:
        raise Incomplete(f'line {len(lines)}: the output ends without a row')
    if max_size is not None:
        curve.ended(lines, max(rows), max_size)
    elif max(rows) < _LEAST:
        raise Incomplete(f'line {len(lines)}: the table ends at {max(rows)} B already')
    return rows


def _start(lines: list[str]) -> int:
    """The index of the first line below the heading."""
    titles = [at for at, line in enumerate(lines) if line == _TITLE]
    headings = [at for at, line in enumerate(lines) if _HEADING.fullmatch(line)]
    if _BARE in lines[:-1]:
        raise Wrong('a table of --no-stats is not read: its figures cannot be checked')
    if not titles or not headings:
        raise Incomplete(f'line {len(lines)}: the output ends without "{_TITLE}" and its columns')
    if len(titles) > 1 or len(headings) > 1:
        raise Wrong(f'{max(len(titles), len(headings))} tables in one output')
    if headings[0] != titles[0] + 1 or any(map(_LIKE_ROW.fullmatch, lines[:titles[0]])):
        raise Incomplete(f'line {titles[0] + 1}: the heading is not whole')
    return headings[0] + 1


def _row(lines: list[str], at: int) -> tuple[int, _Row]:
    match = _ROW.fullmatch(lines[at])
    if not match or not _whole_columns(match):
        if not any(lines[at + 1:]):
            raise Incomplete(f'line {at + 1}: the output ends within a row: {lines[at][:80]!r}')
        raise Wrong(f'line {at + 1}: {lines[at][:80]!r} is no row of 5 columns')
    size, samples = (whole(match[group].strip(), what) for group, what in ((1, 'a size'), (5, 'samples')))
    row = _Row(duration(match[2].strip(), f'MB/s of {size} B', places=2), positive(match[3], f'time of {size} B'),
               duration(match[4], f'deviation of {size} B'), samples)
    most, least = (size / (float(row.seconds) + sign * half_digit(row.seconds)) / 1e6 for sign in (-1, 1))
    near = half_digit(row.bandwidth) * 1.001
    if not least - near <= float(row.bandwidth) <= most + near:
        raise Wrong(f'{size} B: {row.bandwidth} MB/s in {row.seconds} s are not one message')
    if not samples:
        raise Wrong(f'{size} B: 0 samples')
    return size, row


def _whole_columns(match: re.Match) -> bool:
    """Whether each column fills its width, or more than that: a figure that lost its first digits does not."""
    return all(len(match[group]) == width or (len(match[group]) > width and match[group][0] != ' ')
               for group, width in zip((1, 2, 5), _WIDTHS, strict=True))
