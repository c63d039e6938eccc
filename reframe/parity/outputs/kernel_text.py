"""What our kernels print alike: how they were compiled, a line a result, a checksum."""

from __future__ import annotations

from typing import NamedTuple

from . import Wrong
from .reader import agree, number, sealed

#: The end of a row: seconds and rate, of which ``rate`` makes one of the other's.
FIGURES = r'seconds (?P<seconds>\S+) rate (?P<rate>\S+)'


class Printed(NamedTuple):
    """``head`` is the number in the first line; ``rows`` are the words of each line between first and last."""

    head: int
    rows: list[dict[str, str]]
    compiled: dict[str, str]


def read(text: str, name: str, head: str, row: str) -> Printed:
    """The output of the kernel ``name``, whose first line gives ``head``; every other line is a ``row``.

    Raises Incomplete where the beginning, the end or a result is absent or the checksum does not fit, Wrong
    where a result is wrong or a line is none of the kernel's.
    """
    above, first, out = sealed(text, rf'{name} 1 {head} (\d+)', rf'{name} end \d+ crc32 (\S+)', last='\n')
    for at, match in out.found(r'(.*) wrong ([1-9]\d*)'):
        raise Wrong(f'line {at}: {match[2]} threads computed a wrong result: {match[1][:80]!r}')
    rows = [match.groupdict() for match in out.every(row)]
    if len(rows) < len(out.lines):
        raise Wrong(f'{len(out.lines) - len(rows)} lines of {name} are no results')
    compiled = {word: above.one(f'{word}: (.+)')[1] for word in ('compiler', 'flags')}
    return Printed(int(first[1]), rows, compiled)


def rate(row: dict[str, str], work: float) -> float:
    """The rate of a row (10^9/s), which its ``work`` and its seconds make; raises Wrong where they do not."""
    told, seconds = number(row['rate'], 'a rate'), number(row['seconds'], 'seconds', places=6)
    agree(told, seconds, work / 1e9, '10^9/s')
    return float(told)
