"""The shape of NPB's output: what a program says while it runs, one block of results, an address.

    NAS Parallel Benchmarks 3.4 -- BT Benchmark
    ...
    BT Benchmark Completed.
    Class           =                        A
    ...
    Internet: npb@nas.nasa.gov

The address is the last line that every program prints unasked, in 3.3.1 and in 3.4.1 to 3.4.3 (timers
may follow). Other ranks, the job and tools such as mpiP may print between the lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import Incomplete, Wrong

LABELS = ('Class', 'Size', 'Iterations', 'Time in seconds', 'Total processes', 'Mop/s total',
          'Mop/s/process', 'Operation type', 'Verification', 'Version')
ACTIVE, COMPILED = 'Active processes', 'Compiled procs'        # 3.4 prints the one, 3.3.1 the other
_BANNER = re.compile(r'NAS Parallel Benchmarks (\d\.\d) -- ([A-Z]{2}) Benchmark')
_COMPLETED = re.compile(r'([A-Z]{2}) Benchmark Completed\.?')
_END = re.compile(r'(Internet: )?npb@nas\.nasa\.gov')
_LABEL = re.compile('(' + '|'.join(map(re.escape, (*LABELS, ACTIVE, COMPILED))) + r')\s*=\s*(.*)')

# Sentences with which the programs refuse a number of processes or a size (3.3.1 and 3.4).
_REFUSAL = re.compile(
    r'Expecting a .* number of processes.*|ERROR: Number of processes .*|ERROR: number of processes .*'
    r'|Error: couldn.t determine proper proc_grid.*|ERROR: could not determine proper proc_grid.*'
    r'|ERROR: requested for .*|(SUB|PRO)\w* SIZE IS TOO SMALL.*|Error: Cell size too small.*|Too many nodes.*')
_NO_MEMORY = re.compile(r'Error encountered in allocating space|ERROR: memoy allocation failed'
                        r'|Error: integer overflow.*')
_FAILED = re.compile(r'(Result )?verification failed|no verification performed|FAILURE:.*'
                     r'|Verification\s*=\s*(UNSUCCESSFUL|NOT PERFORMED)'
                     r'|.*Failed partial verification.*|.*number of keys out of sort.*', re.IGNORECASE)
_NO_NUMBER = re.compile(r'(?<![\w.])[-+]?(nan|inf(inity)?)(?![\w.])', re.IGNORECASE)


@dataclass(frozen=True)
class Output:
    """One complete run: its name and version by the banner, what it said, and the values of its block."""

    benchmark: str
    series: str
    said: tuple[str, ...]
    values: dict[str, str]


def read(text: str) -> Output:
    """Raise Incomplete or Wrong unless the text is one complete run that does not say it failed."""
    lines = [line.strip() for line in text.split('\n')]
    _own_words(lines)
    series, banner, start = _banner(lines)
    first = _start(lines, start)
    benchmark = _COMPLETED.fullmatch(lines[first])[1]
    if benchmark != banner:
        raise Wrong(f'{banner} began, {benchmark} completed')
    values = _values(lines, first)
    said = tuple(lines[start:first])
    for line in said:
        if _NO_NUMBER.search(line):
            raise Wrong(f'not a number among the figures of the run: {line[:120]}')
    return Output(benchmark.lower(), series, said, values)


def _own_words(lines: list[str]) -> None:
    """What NPB itself says went wrong, wherever it stands: lines of other ranks come in any order."""
    for number, line in enumerate(lines, 1):
        if _REFUSAL.fullmatch(line):
            raise Wrong(f'the program refused to run: {line[:160]}')
        if _NO_MEMORY.fullmatch(line):
            raise Incomplete(f'line {number}: {line[:160]}')
        if _FAILED.fullmatch(line):
            raise Wrong(f'verification failed: {" ".join(line.split())[:160]}')


def _banner(lines: list[str]) -> tuple[str, str, int]:
    found = [(match, at) for at, match in enumerate(map(_BANNER.fullmatch, lines)) if match]
    if len(found) > 1:
        raise Wrong(f'{len(found)} runs in one output')
    if not found:
        raise Incomplete('line 1: "NAS Parallel Benchmarks" is absent: the output lacks its beginning')
    match, at = found[0]
    return match[1], match[2], at


def _start(lines: list[str], banner: int) -> int:
    found = [at for at, line in enumerate(lines) if _COMPLETED.fullmatch(line)]
    if len(found) > 1:
        raise Wrong(f'{len(found)} blocks of results, in lines {found[0] + 1} and {found[1] + 1}')
    if not found or found[0] < banner:
        raise Incomplete(f'line {len(lines)}: the output ends without results ("Benchmark Completed")')
    return found[0]


def _values(lines: list[str], first: int) -> dict[str, str]:
    ends = [at for at in range(first, len(lines)) if _END.fullmatch(lines[at])]
    values: dict[str, str] = {}
    for at in range(first, len(lines)):
        if pair := _LABEL.fullmatch(lines[at]):
            if pair[1] in values:
                raise Wrong(f'line {at + 1}: "{pair[1]}" a second time')
            if not ends or at < ends[0]:
                values[pair[1]] = pair[2]
    for label in LABELS:
        if label not in values:
            raise Incomplete(f'line {len(lines)}: the results end without "{label}"')
    if (ACTIVE in values) == (COMPILED in values):
        raise Incomplete(f'line {len(lines)}: the results have not one of "{ACTIVE}" and "{COMPILED}"')
    if not ends:
        raise Incomplete(f'line {len(lines)}: the output is cut before its end ("npb@nas.nasa.gov")')
    return values
