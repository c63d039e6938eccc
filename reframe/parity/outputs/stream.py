"""STREAM 5.10 in C and 5.6 in Fortran (McCalpin): copy, scale, add and triad.

The best rate is that of the least time: bytes of a kernel over the least time, both printed, so that a
rate altered by more than the digits of the time (1 us) is noticed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from . import Incomplete, Wrong
from .hpcc_text import whole
from .printed import positive, rate_agrees

ARRAYS = {'Copy': 2, 'Scale': 2, 'Add': 3, 'Triad': 3}       # arrays read or written by each kernel
_EPSILON = 1e-6                                              # the loosest that STREAM accepts itself
_BANNER = re.compile(r'STREAM [Vv]ersion \$Revision: (\d+\.\d+) \$', re.ASCII)
_SIZE = re.compile(r'Array size = (\S+) \(elements\), Offset = \S+ \(elements\)|Array size =\s+(\S+)')
_BYTES = re.compile(r'This system uses (\S+) bytes per array element\.'
                    r'|Assuming (\S+) bytes per DOUBLE PRECISION word')
_TIMES = re.compile(r'Each kernel will be executed (\S+) times\.|You are running each test\s+(\S+) times')
_ASKED = re.compile(r'Number of Threads(?: requested)? =\s*(\S+)')
_COUNTED = re.compile(r'Number of Threads counted = (\S+)')
_THREAD = 'Printing one line per active thread....'
_VALIDATES = re.compile(r'Solution Validates: avg error less than (\S+) on all three arrays|Solution Validates!')


@dataclass(frozen=True)
class _Kernel:
    rate: Decimal
    average: Decimal
    least: Decimal
    most: Decimal


def parse(text: str) -> dict[str, float]:
    """copy, scale, add, triad: best rates in MB/s (10^6 bytes).

    Raises Incomplete with the line where something is missing, Wrong when the result was not
    validated, threads are missing, or figures contradict each other.
    """
    return {name.lower(): float(kernel.rate) for name, kernel in _kernels(_lines(text)).items()}


def facts(text: str) -> dict[str, float | str]:
    """array_elements, bytes_per_element, threads, repetitions, version, and times of each kernel (s).

    A program built without OpenMP says nothing of threads and runs one. Raises as ``parse`` does.
    """
    lines = _lines(text)
    kernels = _kernels(lines)
    times = {f'{name.lower()}_seconds_{how}': float(value) for name, kernel in kernels.items()
             for how, value in (('avg', kernel.average), ('min', kernel.least), ('max', kernel.most))}
    return {'array_elements': float(_whole(lines, _SIZE, 'Array size')),
            'bytes_per_element': float(_whole(lines, _BYTES, 'bytes per array element')),
            'threads': float(_threads(lines)), 'repetitions': float(_whole(lines, _TIMES, 'executed ... times')),
            'version': _one(lines, _BANNER, 'STREAM version'), **times}


def _lines(text: str) -> list[str]:
    return [' '.join(line.split()) for line in text.split('\n')]


def _kernels(lines: list[str]) -> dict[str, _Kernel]:
    """The rows of the table, once the whole output can be believed."""
    _validated(lines)
    _one(lines, _BANNER, 'STREAM version')
    _whole(lines, _TIMES, 'executed ... times')
    _threads(lines)
    work = _whole(lines, _SIZE, 'Array size') * _whole(lines, _BYTES, 'bytes per array element') / 1e6
    return {name: _kernel(lines, name, arrays * work) for name, arrays in ARRAYS.items()}


def _validated(lines: list[str]) -> None:
    failed = [line for line in lines if line.startswith('Failed Validation')]
    if failed:
        raise Wrong(f'STREAM: {failed[0][:120]}')
    found = [match for match in map(_VALIDATES.fullmatch, lines) if match]
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without "Solution Validates"')
    if len(found) > 1:
        raise Wrong(f'{len(found)} runs in one output')
    if found[0][1] and positive(found[0][1], 'the bound of the average error') > _EPSILON:
        raise Wrong(f'STREAM validated to an average error of {found[0][1]} only')


def _one(lines: list[str], pattern: re.Pattern, what: str) -> str:
    """The word in the one line that is ``pattern``."""
    found = [next(filter(None, match.groups())) for match in map(pattern.fullmatch, lines) if match]
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without "{what}"')
    if len(found) > 1:
        raise Wrong(f'{len(found)} lines "{what}"')
    return found[0]


def _whole(lines: list[str], pattern: re.Pattern, what: str) -> int:
    value = whole(_one(lines, pattern, what), what)
    if not value:
        raise Wrong(f'{what} is 0')
    return value


def _threads(lines: list[str]) -> int:
    """Threads that ran: C counts them, Fortran lets each print a line."""
    counted = lines.count(_THREAD)
    if not any(_ASKED.fullmatch(line) or _COUNTED.fullmatch(line) for line in lines):
        if counted > 1:
            raise Incomplete(f'{counted} threads ran, but "Number of Threads" is absent')
        return 1
    asked = _whole(lines, _ASKED, 'Number of Threads')
    ran = counted or _whole(lines, _COUNTED, 'Number of Threads counted')
    if asked != ran:
        raise Wrong(f'{asked} threads were asked for, {ran} ran')
    return ran


def _kernel(lines: list[str], name: str, megabytes: float) -> _Kernel:
    row = _one(lines, re.compile(rf'{name}: (\S+ \S+ \S+ \S+)'), f'{name}:').split()
    whats = (f'rate of {name}', f'average time of {name}', f'least time of {name}', f'longest time of {name}')
    kernel = _Kernel(*(positive(token, what, places)
                       for token, what, places in zip(row, whats, (1, 6, 6, 6), strict=True)))
    if not kernel.least <= kernel.average <= kernel.most:
        raise Wrong(f'{name}: minimum {kernel.least}, average {kernel.average}, maximum {kernel.most}')
    if not rate_agrees(kernel.rate, kernel.least, megabytes):
        raise Wrong(f'{name}: {kernel.rate} MB/s in {kernel.least} s is not the work of {megabytes:.6g} MB')
    return kernel
