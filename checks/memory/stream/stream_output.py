"""STREAM 5.10 in C, with and without OpenMP: the table of four rates.

The bytes of a kernel over its least time are its rate. The mean and the longest time stand once. So do the
threads: an output of OpenMP that lost exactly the three lines about them is one without OpenMP."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from parity.check import Output, Program, Read, Unread, Wrong, agree, number, ordered

PROGRAM = Program('STREAM', title=r'STREAM (?P<language>[Vv]ersion) \$Revision: (?P<version>\d[\d.]*) \$',
                  tried=('5.10', '5.10'))

#: Arrays read or written by each kernel, in the order of the table.
ARRAYS = {'Copy': 2, 'Scale': 2, 'Add': 3, 'Triad': 3}
HEADING = 'Function Best Rate MB/s Avg time Min time Max time'
LINE = '-{61}'
#: Without OpenMP the clock follows here; with it the threads stand between.
WITHOUT_OPENMP = rf'\nwill be used to compute the reported bandwidth\.\n{LINE}\nYour clock '
ELEMENT = 8                         # bytes
EPSILON = Decimal('1e-13')          # STREAM's own bound in double precision


class Kernel(NamedTuple):
    """A row of the table: the best rate (MB/s), and the times (s) of the repetitions but the first."""

    rate: Decimal
    mean: Decimal
    shortest: Decimal
    longest: Decimal


def read(text: str) -> Read:
    """copy, scale, add, triad: best rates in MB/s (10^6 bytes); _mean, _min, _max: seconds of each.

    Facts: array_elements, threads (1 without OpenMP), repetitions, version."""
    out = PROGRAM.output(text)
    _refuse_other_programs(out)
    out.refuse('Failed Validation')
    validates = out.ends_with(r'Solution Validates: avg error less than (\S+) on all three arrays')
    error = number(validates[1], 'the average error')
    if error > EPSILON:
        raise Wrong(f'STREAM validated to an average error of {error:e} only')
    out.one(rf'This system uses {ELEMENT} bytes per array element\.')
    elements = out.count(r'Array size = (\S+) \(elements\), Offset = \S+ \(elements\)')
    repetitions = out.count(r'Each kernel will be executed (\S+) times\.')
    figures: dict[str, float] = {}
    for name, kernel in _table(out).items():
        megabytes = ARRAYS[name] * ELEMENT * elements / 1e6
        ordered(f'times of {name}', kernel.shortest, kernel.mean, kernel.longest)
        agree(kernel.rate, kernel.shortest, megabytes, f'MB/s of {name}')
        metric = name.lower()
        figures[metric] = float(kernel.rate)
        figures[f'{metric}_mean'] = float(kernel.mean)
        figures[f'{metric}_min'] = float(kernel.shortest)
        figures[f'{metric}_max'] = float(kernel.longest)
    return figures, {'array_elements': elements, 'threads': _threads(out), 'version': out.version,
                     'repetitions': repetitions, **PROGRAM.untried(out.version)}


def _refuse_other_programs(out: Output) -> None:
    """Raise Unread for STREAM in Fortran, for MPI, and for elements of another size."""
    if out.title['language'] == 'Version':
        raise Unread('STREAM in Fortran is not read; read is stream.c')
    if out.every(r'This system uses \S+ bytes per DOUBLE PRECISION word\.'):
        raise Unread(f'STREAM {out.version[:20]} is not read; read is 5.10')
    if out.every(r'Data is distributed across \S+ MPI ranks'):
        raise Unread("STREAM's version for MPI is not read; read is stream.c")
    element = out.maybe(r'This system uses (\d+) bytes per array element\.')
    if element and int(element[1]) != ELEMENT:
        raise Unread(f'elements of {element[1][:20]} bytes are not read; read are those of {ELEMENT}, '
                     'double precision')


def _threads(out: Output) -> int:
    """Return the threads. STREAM without OpenMP prints none."""
    if not out.every('Number of Threads .*'):
        if not re.search(WITHOUT_OPENMP, '\n'.join(out.lines)):
            raise Unread('no line "Number of Threads counted = ...", and not the lines of STREAM without OpenMP')
        return 1
    requested = out.count(r'Number of Threads requested = (\S+)')
    counted = out.count(r'Number of Threads counted = (\S+)')
    if requested != counted:
        raise Wrong(f'{requested} threads were asked for, {counted} ran')
    return counted


def _table(out: Output) -> dict[str, Kernel]:
    """Return the rows of the table: four, in STREAM's order, right below its heading."""
    heading = out.maybe('Function .*', 'Function ...')
    if not heading:
        raise Unread(f'an edited table: it has no heading "{HEADING}"')
    if heading[0] != HEADING:
        raise Unread(f'an edited table: its heading is "{heading[0][:80]}", that of STREAM 5.10 is "{HEADING}"')
    names = _names(out)
    if names != list(ARRAYS):
        raise Unread(f'an edited table: its rows are {", ".join(names)}; those of STREAM are {", ".join(ARRAYS)}')
    return {name: _kernel(out, name) for name in ARRAYS}


def _names(out: Output) -> list[str]:
    """Return the names of the rows, from the heading to the next line of dashes."""
    names = []
    below = out.matches('Function .*')[0][0] + 1 - out.first
    for line in out.lines[below:]:
        if re.fullmatch(LINE, line):
            break
        name, colon, _ = line.partition(':')
        if colon and name.isalpha():
            names.append(name[:20])
    return names


def _kernel(out: Output, name: str) -> Kernel:
    row = out.one(rf'{name}: (\S+) (\S+) (\S+) (\S+)', f'{name}:')
    rate = number(row[1], name, places=1)
    mean = number(row[2], name, places=6)
    shortest = number(row[3], name, places=6)
    longest = number(row[4], name, places=6)
    return Kernel(rate, mean, shortest, longest)
