"""NAS Parallel Benchmarks 3.3.1 and 3.4 (MPI): BT, CG, EP, FT, IS, LU, MG and SP.

An output is believed when its figures agree with one another: the rate of one process times the
processes is the total, the total times the seconds is the class's number of operations, the class has
this size and these iterations. Figures have two decimals, so that a change below them is not noticed:
of a total rate about its 0.005 times the processes, of the seconds 0.005.
"""

from __future__ import annotations

import re
from decimal import Decimal

from . import Incomplete, Wrong, npb_problems, npb_text
from .hpcc_text import whole
from .npb_text import ACTIVE, COMPILED, Output
from .printed import best_known_seconds, duration, half_digit, positive, rate_agrees

_OPERATION = {'ep': 'Random numbers generated', 'is': 'keys ranked'}          # the others: floating point
_CLASS = re.compile(r'.*\(class (\w)\)')
_TOTAL = re.compile(r'(?:Total number|Number) of processes\s*:\s*(\d+)', re.ASCII)
_OF_WHICH_ACTIVE = re.compile(r'(?:WARNING: .*\((\d+) active\)|Number of active processes:\s*(\d+))', re.ASCII)


def parse(text: str) -> dict[str, float]:
    """mops_total (Mop/s), mops_per_process (Mop/s of one of all processes), seconds.

    ``seconds`` is the time printed; for a run below 0.005 s, which prints 0.00, operations over rate.
    Raises Incomplete with the line where something is missing, Wrong when the run was refused, failed
    its verification, or contradicts itself.
    """
    out = npb_text.read(text)
    _known_problem(out)
    _processes(out)
    total, each = (positive(out.values[label], label, places=2) for label in ('Mop/s total', 'Mop/s/process'))
    processes = whole(out.values['Total processes'], 'Total processes')
    if abs(each * processes - total) > Decimal(half_digit(total)) * (processes + 1):
        raise Wrong(f'{each} Mop/s a process of {processes} are not {total} Mop/s in total')
    work = npb_problems.million_operations(out.benchmark, out.values['Class'])
    seconds = duration(out.values['Time in seconds'], 'Time in seconds', places=2)
    if not rate_agrees(total, seconds, work):
        raise Wrong(f'{total} Mop/s for {seconds} s is not the work of this class, {work:.6g} Mop')
    return {'mops_total': float(total), 'mops_per_process': float(each),
            'seconds': best_known_seconds(total, seconds, work)}


def facts(text: str) -> dict[str, float | str]:
    """What was run: benchmark (bt ... sp), class, size, iterations, processes, operation type, version.

    ``size`` is 64x64x64 or one number. ``active_processes`` is below ``total_processes`` where NPB let
    some idle. NPB 3.3.1 is compiled for a number of processes: ``compiled_processes``.
    Raises as ``parse`` does.
    """
    parse(text)
    out = npb_text.read(text)
    total, active = _processes(out)
    compiled = {'compiled_processes': float(out.values[COMPILED])} if COMPILED in out.values else {}
    return {'benchmark': out.benchmark, 'class': out.values['Class'], 'size': 'x'.join(map(str, _size(out))),
            'iterations': float(out.values['Iterations']), 'total_processes': float(total),
            'active_processes': float(active), **compiled,
            'operation_type': out.values['Operation type'], 'version': out.values['Version']}


def check(facts: dict[str, float | str], benchmark: str, npb_class: str, ranks: int) -> None:
    """Raise Wrong unless this was the benchmark and class asked for, on all ``ranks`` and no others."""
    asked = {'benchmark': benchmark.lower(), 'class': npb_class.upper(),
             'total_processes': ranks, 'active_processes': ranks}
    for name, expected in asked.items():
        if facts[name] != expected:
            ran = facts[name] if isinstance(facts[name], str) else f'{facts[name]:g}'
            raise Wrong(f'{name.replace("_", " ")}: ran {ran}, asked for {expected}')


def _known_problem(out: Output) -> None:
    """The class is one of NPB's and has the size, iterations and operation that it should."""
    name, letter = out.benchmark, out.values['Class']
    if out.values['Verification'] != 'SUCCESSFUL':
        raise Wrong(f'verification: {out.values["Verification"][:40]!r}')
    if not npb_problems.exists(name, letter):
        raise Wrong(f'{name.upper()} class {letter[:40]!r} is none of NPB')
    known = npb_problems.problem(name, letter)
    iterations = whole(out.values['Iterations'], 'Iterations')
    if (_size(out), iterations) != (known.size, known.iterations):
        raise Wrong(f'{name.upper()} class {letter} with size {out.values["Size"][:40]}, '
                    f'{iterations} iterations is none of NPB')
    if any(found[1] != letter for found in map(_CLASS.fullmatch, out.said) if found):
        raise Wrong(f'the run began as another class than {letter}')
    if out.values['Operation type'] != _OPERATION.get(name, 'floating point'):
        raise Wrong(f'operation type of {name.upper()}: {out.values["Operation type"][:40]!r}')
    if not re.fullmatch(re.escape(out.series) + r'(\.\d+)?', out.values['Version']):
        raise Wrong(f'NPB {out.series} began, {out.values["Version"][:40]!r} completed')


def _size(out: Output) -> tuple[int, ...]:
    return tuple(whole(part.strip(), 'Size') for part in out.values['Size'].split('x'))


def _processes(out: Output) -> tuple[int, int]:
    """(total, active): the results and what the program said when it began must agree.

    3.4 warns at its beginning when some processes idle. 3.3.1 says the active ones at its beginning
    (BT, CG, EP, SP) or only all of them (FT, IS, LU, MG: there none can idle).
    """
    total = whole(out.values['Total processes'], 'Total processes')
    begun = [int(found[1]) for found in map(_TOTAL.fullmatch, out.said) if found]
    active = [int(found[1] or found[2]) for found in map(_OF_WHICH_ACTIVE.fullmatch, out.said) if found]
    if len(begun) > 1 or len(active) > 1 or any(count != total for count in begun):
        raise Wrong(f'{total} processes in the results, {begun or active} when the run began')
    if not begun and not active:
        raise Incomplete('line 1: the number of processes is absent from the beginning of the output')
    if ACTIVE in out.values and whole(out.values[ACTIVE], ACTIVE) != (*active, total)[0]:
        raise Wrong(f'{out.values[ACTIVE]} of {total} processes active, {(*active, total)[0]} when the run began')
    if COMPILED in out.values:
        whole(out.values[COMPILED], COMPILED)
    if not 0 < (*active, total)[0] <= total:
        raise Wrong(f'{(*active, total)[0]} of {total} processes active')
    return total, (*active, total)[0]
