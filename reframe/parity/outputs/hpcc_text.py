"""The shape of hpccoutf.txt: sections between Begin and End lines, a summary of key=value lines, an end.

Incomplete is raised for what is absent, with the line where it was missed; Wrong for what is there
twice or is not a number. Lines before the banner and after the end belong to the job script.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from . import Incomplete, Wrong

BANNER = 'This is the DARPA/DOE HPC Challenge Benchmark'
LAST = 'End of HPC Challenge tests.'
SECTIONS = (
    'MPIRandomAccess', 'StarRandomAccess', 'SingleRandomAccess',
    'MPIRandomAccess_LCG', 'StarRandomAccess_LCG', 'SingleRandomAccess_LCG',
    'PTRANS', 'StarDGEMM', 'SingleDGEMM', 'StarSTREAM', 'SingleSTREAM',
    'MPIFFT', 'StarFFT', 'SingleFFT', 'LatencyBandwidth', 'HPL', 'Summary',
)
_BEGIN = re.compile(r'Begin of (\w+) section\.')
_END = re.compile(r'End of (\w+) section\.')
_KEY = re.compile(r'([A-Za-z]\w*)=(.*)')
_NUMBER = re.compile(r'[-+]?\d{1,40}(\.\d{0,40})?([eE][-+]?\d{1,3})?', re.ASCII)
_WHOLE = re.compile(r'\d{1,18}', re.ASCII)


@dataclass(frozen=True)
class Section:
    """The lines between a Begin and its End line; ``end`` is the number of that End line."""

    name: str
    lines: tuple[str, ...]
    end: int

    def every(self, pattern: str) -> list[tuple[str, ...]]:
        """The tokens at # of every line that is ``pattern``: # a word, * anything, blanks any blanks."""
        found = (_compiled(pattern).fullmatch(line) for line in self.lines)
        return [match.groups() for match in found if match]

    def one(self, pattern: str) -> tuple[str, ...]:
        """The tokens of the one line that is ``pattern``."""
        found = self.every(pattern)
        if not found:
            raise Incomplete(f'line {self.end}: section {self.name} ends without "{pattern}"')
        if len(found) > 1:
            raise Wrong(f'section {self.name} has {len(found)} lines "{pattern}"')
        return found[0]

    def after(self, pattern: str) -> Section:
        """The part of this section below the one line that is ``pattern``."""
        self.one(pattern)
        start = next(i for i, line in enumerate(self.lines) if _compiled(pattern).fullmatch(line))
        return Section(self.name, self.lines[start + 1:], self.end)


@dataclass(frozen=True)
class Output:
    """A complete output: every section of SECTIONS, and the summary's values as printed."""

    text: str
    sections: dict[str, Section]
    summary: dict[str, str]

    def word(self, key: str) -> str:
        if key not in self.summary:
            raise Incomplete(f'line {self.sections["Summary"].end}: the summary ends without {key}=')
        return self.summary[key]

    def real(self, key: str) -> Decimal:
        return number(self.word(key), f'{key} in the summary')

    def whole(self, key: str) -> int:
        return whole(self.word(key), f'{key} in the summary')


def read(text: str) -> Output:
    """Cut the text into its sections; raises Incomplete or Wrong when it is not one complete run."""
    lines = [line.strip() for line in text.replace('\r\n', '\n').split('\n')]
    runs = sum(line.startswith(BANNER) for line in lines)
    if runs > 1:
        raise Wrong(f'{runs} runs in one output: hpcc appends to an hpccoutf.txt that is already there')
    sections = _sections(lines)
    _ends(lines, sections)
    if not runs:
        raise Incomplete(f'line 1: the banner "{BANNER}" is absent: the output lacks its beginning')
    return Output('\n'.join(lines), sections, _summary(sections['Summary']))


def number(token: str, what: str) -> Decimal:
    """A finite decimal number as C prints it, with the digits that it has; raises Wrong for others."""
    if not _NUMBER.fullmatch(token) or not math.isfinite(float(token)):
        raise Wrong(f'{what} is {token[:40]!r}, not a finite number')
    return Decimal(token)


def whole(token: str, what: str) -> int:
    if not _WHOLE.fullmatch(token):
        raise Wrong(f'{what} is {token[:40]!r}, not a count')
    return int(token)


def _sections(lines: list[str]) -> dict[str, Section]:
    found: dict[str, Section] = {}
    name, first = '', 0
    for at, line in enumerate(lines, 1):
        begin, end = _BEGIN.fullmatch(line), _END.fullmatch(line)
        if begin and name:
            raise Incomplete(f'line {at}: section {begin[1]} begins before section {name} has ended')
        if begin and begin[1] in found:
            raise Wrong(f'line {at}: section {begin[1]} begins a second time')
        if end and end[1] != name:
            raise Incomplete(f'line {at}: section {end[1]} ends without having begun')
        if begin:
            name, first = begin[1], at
        if end:
            found[name], name = Section(name, tuple(lines[first:at - 1]), at), ''
    if name:
        raise Incomplete(f'line {len(lines)}: the output ends inside section {name}')
    return found


def _ends(lines: list[str], sections: dict[str, Section]) -> None:
    for name in SECTIONS:
        if name not in sections:
            raise Incomplete(f'line {len(lines)}: the output ends without section {name}')
    ends = [at for at, line in enumerate(lines, 1) if line == LAST]
    if len(ends) > 1:
        raise Wrong(f'"{LAST}" stands in lines {ends[0]} and {ends[1]}')
    if not ends or ends[0] < sections['Summary'].end:
        raise Incomplete(f'line {len(lines)}: "{LAST}" is absent after the summary')


def _summary(section: Section) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in section.lines:
        if pair := _KEY.fullmatch(line):
            if pair[1] in values:
                raise Wrong(f'the summary has {pair[1]}= twice')
            values[pair[1]] = pair[2]
    return values


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    words = (re.escape(word).replace(r'\#', r'(\S+)').replace(r'\*', '.*') for word in pattern.split())
    return re.compile(r'\s+'.join(words))
