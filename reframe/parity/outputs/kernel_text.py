"""What our kernels print alike: how they were compiled, a line a result, an end that counts them."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from . import Incomplete, Wrong
from .printed import half_digit, positive

_COMPILED = re.compile(r'(compiler|flags): (\S.*)')


@dataclass(frozen=True)
class Printed:
    """``head`` is the number in the first line; ``rows`` are the words of each line between first and last."""

    head: int
    rows: list[dict[str, str]]
    compiled: dict[str, str]


def read(text: str, name: str, head: str, row: re.Pattern) -> Printed:
    """The output of the kernel ``name``, whose first line gives ``head``; every other line is a ``row``.

    Raises Incomplete where the beginning, the end or a result is absent or the checksum does not fit, Wrong
    where a result is wrong or a line is none of the kernel's.
    """
    lines = [line.rstrip('\r') for line in text.split('\n')]
    first = [at for at, line in enumerate(lines) if line.startswith(f'{name} 1 ')]
    last = [at for at, line in enumerate(lines) if line.startswith(f'{name} end ')]
    if len(first) != 1 or len(last) != 1:
        raise Incomplete(f'line {len(lines)}: {len(first)} beginnings "{name} 1", {len(last)} ends "{name} end"')
    own = lines[first[0]:last[0]]
    seal = zlib.crc32(''.join(f'{line}\n' for line in own).encode('utf-8', 'surrogatepass'))
    end = re.fullmatch(rf'{name} end (\d{{1,6}}) crc32 {seal:08x}', lines[last[0]], re.ASCII)
    begin = re.fullmatch(rf'{name} 1 {head} (\d{{1,18}})', lines[first[0]], re.ASCII)
    if not end or not begin:
        raise Incomplete(f'line {last[0] + 1}: the checksum does not fit the lines above')
    rows = [_row(lines, at, row) for at in range(first[0] + 1, last[0])]
    if sum('wrong' in each for each in rows) != int(end[1]):
        raise Incomplete(f'line {last[0] + 1}: {len(rows)} results, {end[1]} by the last line')
    compiled = dict(match.groups() for match in map(_COMPILED.fullmatch, lines[:first[0]]) if match)
    if len(compiled) != 2:
        raise Incomplete(f'line {first[0] + 1}: how it was compiled is not told')
    return Printed(int(begin[1]), rows, compiled)


def _row(lines: list[str], at: int, row: re.Pattern) -> dict[str, str]:
    match = row.fullmatch(lines[at])
    if not match:
        raise Wrong(f'line {at + 1}: {lines[at][:80]!r} is no result')
    found = {name: token for name, token in match.groupdict().items() if token is not None}
    if found.get('wrong', '0') != '0':
        raise Wrong(f'line {at + 1}: {found["wrong"]} threads computed a wrong result: {lines[at][:80]!r}')
    return found


def rate(row: dict[str, str], work: float) -> float:
    """The rate of a row (10^9/s), which its ``work`` and its seconds make; raises Wrong where they do not."""
    told, seconds = positive(row['rate'], 'a rate'), positive(row['seconds'], 'seconds', places=6)
    expected = work / float(seconds) / 1e9
    near = half_digit(told) + expected * (half_digit(seconds) / float(seconds) + 1e-9)
    if abs(float(told) - expected) > 1.01 * near:
        raise Wrong(f'{told} x 10^9/s in {seconds} s are not {work:.6g}: {expected:.6g}')
    return float(told)


