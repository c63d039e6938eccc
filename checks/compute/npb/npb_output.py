"""NAS Parallel Benchmarks 3.3.1 and 3.4 (MPI): BT, CG, EP, FT, IS, LU, MG and SP.

The total rate times the seconds is the class's number of operations, and the processes' rates add up to it. All
have two decimals: a change below them is not noticed.

Sizes and iterations of the classes: sys/setparams.c and IS/is.c of NPB 3.4.3; NPB 3.3.1 has the same up to class E
(IS: D). Operations: what each program divides by its time, at its end (BT/bt.f90 and so on)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from parity.check import Incomplete, Lines, Read, Wrong, agree, half, number, ordered, same

# Sentences with which the programs refuse a number of processes or a size (3.3.1 and 3.4).
_REFUSED = (r'Expecting a .{1,40} number of processes|ERROR: [Nn]umber of processes |ERROR: requested for '
            r'|(couldn.t|could not) determine proper proc_grid|SIZE IS TOO SMALL|Cell size too small'
            r'|Too many nodes')
_TYPES = {'EP': 'Random numbers generated', 'IS': 'keys ranked'}
_NO_MEMORY = 'Error encountered in allocating space|ERROR: memoy allocation failed|Error: integer overflow'
_FAILED = (r'(?i:verification failed|no verification performed|^FAILURE:|UNSUCCESSFUL|NOT PERFORMED'
           r'|Failed partial verification|number of keys out of sort|(?<![\w.])(nan|inf|infinity)(?![\w.]))')

#: Of BT with NPB_TIMER_FLAG: the seconds of a routine, by the timer that has them.
ROUTINES = {'rhs_computation': 'rhs', 'rhs_communication': 'exch', **{
    f'{axis}solve_{what}': f'{axis}{timer}' for axis in 'xyz'
    for what, timer in (('computation', 'solve'), ('communication', 'comm'))}}


def read(text: str) -> Read:
    """mops_total (Mop/s), mops_per_process (Mop/s of one of all processes), seconds.
    ``seconds`` is the time printed; for a run below 0.005 s, which prints 0.00, operations over rate.
    Facts: benchmark (bt ... sp), class, version, total_processes, active_processes: fewer where NPB let some
    idle."""
    out = Lines(text)
    out.refuse(_REFUSED)
    out.refuse(_NO_MEMORY, Incomplete)
    out.refuse(_FAILED)
    out.one(r'(?:Internet: )?npb@nas\.nasa\.gov', 'npb@nas.nasa.gov')      # the last line of every program
    series, name = out.one(r'NAS Parallel Benchmarks (3\.[34]) -- ([A-Z]{2}) Benchmark').groups()
    out.one(rf'{name} Benchmark Completed\.?')
    if (verified := out.one(r'Verification = (.*)')[1]) != 'SUCCESSFUL':
        raise Wrong(f'verification: {verified[:40]!r}')
    ran = {'benchmark': name.lower(), 'class': out.one(r'Class = (.*)')[1],
           'version': out.one(rf'Version = ({series}(?:\.\d+)?)')[1]}
    if (ran['benchmark'], ran['class']) not in PROBLEMS:
        raise Wrong(f'{name} class {ran["class"][:40]!r} is none of NPB')
    if series == '3.4':
        same('class', out.one(r'.*\(class ([A-Z])\)', '(class ...)')[1], ran['class'])
    problem = PROBLEMS[ran['benchmark'], ran['class']]
    same('iterations', out.count(r'Iterations = (\S+)', zero=True), problem.iterations)
    same('operations', out.one(r'Operation type = (.*)')[1], _TYPES.get(name, 'floating point'))
    total = out.count(r'Total processes = (\S+)')
    active = out.count(r'Active processes ?= (\S+)') if series == '3.4' else _active_of_33(out, total)
    rate, each = (out.figure(rf'{label} = (\S+)', places=2) for label in ('Mop/s total', 'Mop/s/process'))
    if abs(each * total - rate) > (total + 1) * half(rate):
        raise Wrong(f'{each} Mop/s a process of {total} are not {rate} Mop/s in total')
    seconds = out.figure(r'Time in seconds = (\S+)', zero=True, places=2)
    work = million_operations(ran['benchmark'], ran['class'])
    agree(rate, seconds, work, f'Mop/s of {name} class {ran["class"]}')
    values = {'mops_total': float(rate), 'mops_per_process': float(each),
              'seconds': float(seconds) or work / float(rate)}
    if name == 'BT' and out.every(r'timer .*'):
        values |= _routines(out)
    return values, {**ran, 'total_processes': total, 'active_processes': active}


def _routines(out: Lines) -> dict[str, float]:
    """Return the mean seconds of BT's routines over its ranks. Raise Wrong where timers contradict each other."""
    mean: dict[str, Decimal] = {}
    for timer in (*ROUTINES.values(), 'totcomp', 'totcomm'):
        row = out.one(rf'timer \d+\( ?{timer} ?\) : (\S+) (\S+) (\S+)', f'timer ({timer})')
        least, most, mean[timer] = (number(row[i], f'timer {timer}', zero=True, places=4) for i in (1, 2, 3))
        ordered(f'timer {timer}', least, mean[timer], most)
    for total, what, exact in (('totcomm', 'communication', True), ('totcomp', 'computation', False)):
        parts = sum(mean[timer] for name, timer in ROUTINES.items() if name.endswith(what))
        if (abs(parts - mean[total]) if exact else parts - mean[total]) > Decimal('0.00025'):
            raise Wrong(f'timers: the routines make {parts} s of {what}, {total} is {mean[total]}')
    return {name: float(mean[timer]) for name, timer in ROUTINES.items()}


def check(facts: dict[str, int | str], benchmark: str, npb_class: str, ranks: int) -> None:
    """Raise Wrong unless this was the benchmark and class asked for, on all ``ranks`` and no others."""
    asked = {'benchmark': benchmark, 'class': npb_class, 'total_processes': ranks, 'active_processes': ranks}
    for name, expected in asked.items():
        if facts[name] != expected:
            raise Wrong(f'{name.replace("_", " ")}: ran {facts[name]}, asked for {expected}')


def receive_seconds(calls: Sequence[Mapping[str, Any]], npb_class: str, ranks: int) -> float:
    """Return the mean time of a rank in MPI_Recv (s), of a profile of LU. Raise Wrong for any other number of
    receives than LU's messages ask for (`parity.judge.stats.laws.lu_messages`)."""
    from parity.judge.stats import laws  # numpy, which no other case needs
    problem = PROBLEMS['lu', npb_class]
    needed = {round(ranks * laws.lu_messages(problem.size[0], problem.iterations, ranks, warm_up).blocking)
              for warm_up in (0, 1)}
    found = next((call for call in calls if call['call'] == 'Recv'), {'count': 0, 'mean_seconds': 0.0})
    if found['count'] not in needed:
        raise Wrong(f'{found["count"]} receives of LU class {npb_class} on {ranks} ranks: must be '
                    + ' or '.join(map(str, sorted(needed))))
    return found['mean_seconds']


def _active_of_33(out: Lines, total: int) -> int:
    """BT, CG, EP and SP say how many processes are active, the others how many there are: there none can idle."""
    told = out.one(r'Number of (?:active )?processes ?: (\d+)', 'Number of processes: ...')
    if 'active' not in told[0] and int(told[1]) != total:
        raise Wrong(f'{told[1]} processes began, {total} ended')
    return int(told[1])


BENCHMARKS = ('bt', 'cg', 'ep', 'ft', 'is', 'lu', 'mg', 'sp')
CLASSES = 'SWABCDEF'


class Problem(NamedTuple):
    """``size``: grid points in x, y and z, or one number (rows of CG, keys of IS, random numbers of EP).
    ``iterations`` as printed (EP: 0); ``nonzeros`` of a row of CG's matrix, as setparams counts them."""

    size: tuple[int, ...]
    iterations: int
    nonzeros: int = 0


def million_operations(benchmark: str, npb_class: str) -> float:
    """Mop of the timed part, by NPB's own count: Mop/s total is this over the time."""
    return _OPERATIONS[benchmark](PROBLEMS[benchmark, npb_class]) * 1e-6


def _cubes(sides: tuple[int, ...], iterations: tuple[int, ...]) -> list[Problem]:
    return [Problem((n, n, n), count) for n, count in zip(sides, iterations, strict=True)]


_GRID = (64, 102, 162, 408, 1020, 2560)                               # A to F of BT, LU and SP
_TABLE = {
    'bt': _cubes((12, 24, *_GRID), (60, 200, 200, 200, 200, 250, 250, 250)),
    'sp': _cubes((12, 36, *_GRID), (100, 400, 400, 400, 400, 500, 500, 500)),
    'lu': _cubes((12, 33, *_GRID), (50, 300, 250, 250, 250, 300, 300, 300)),
    'mg': _cubes((32, 128, 256, 256, 512, 1024, 2048, 4096), (4, 4, 4, 20, 20, 50, 50, 50)),
    'ft': [Problem((64, 64, 64), 6), Problem((128, 128, 32), 6), Problem((256, 256, 128), 6),
           Problem((512, 256, 256), 20), Problem((512, 512, 512), 20), Problem((2048, 1024, 1024), 25),
           Problem((4096, 2048, 2048), 25), Problem((8192, 4096, 4096), 25)],
    'cg': [Problem((1400,), 15, 7), Problem((7000,), 15, 8), Problem((14000,), 15, 11),
           Problem((75000,), 75, 13), Problem((150000,), 75, 15), Problem((1500000,), 100, 21),
           Problem((9000000,), 100, 26), Problem((54000000,), 100, 31)],
    'ep': [Problem((2 ** (m + 1),), 0) for m in (24, 25, 28, 30, 32, 36, 40, 44)],
    'is': [Problem((2 ** k,), 10) for k in (16, 20, 23, 25, 27, 31, 35)],      # there is no class F
}
#: By one of BENCHMARKS and one of CLASSES.
PROBLEMS = {(name, letter): given for name, row in _TABLE.items()
            for letter, given in zip(CLASSES, row, strict=False)}


def _polynomial(*factors: float) -> Callable[[Problem], float]:
    """Operations of an iteration of BT, SP and LU, by powers of the grid points in x."""
    return lambda p: p.iterations * sum(factor * p.size[0] ** power for power, factor in enumerate(factors))


def _ft(p: Problem) -> float:
    points = math.prod(p.size)
    log = math.log(points)
    return points * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * p.iterations)


def _cg(p: Problem) -> float:
    row = p.nonzeros * (p.nonzeros + 1)
    return 2 * p.iterations * p.size[0] * (3 + row + 25 * (5 + row) + 3)


_OPERATIONS = {
    'bt': _polynomial(0, 28023.7, -17655.7, 3478.8), 'sp': _polynomial(-19272.4, 11484.5, -4683.91, 881.174),
    'lu': _polynomial(-144010, 27770.9, -10923.3, 1984.77), 'ft': _ft, 'cg': _cg,
    'mg': lambda p: 58 * p.iterations * math.prod(p.size), 'is': lambda p: p.iterations * p.size[0],
    'ep': lambda p: p.size[0],
}
