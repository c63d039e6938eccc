"""NAS Parallel Benchmarks 3.3.1 and 3.4 (MPI): BT, CG, EP, FT, IS, LU, MG and SP.

The total rate times the seconds is the class's number of operations, and the processes' rates add up to it. All
have two decimals: a change below them is not noticed.
"""

from __future__ import annotations

from . import Incomplete, Read, Wrong, npb_problems
from .reader import Lines, agree, half

# Sentences with which the programs refuse a number of processes or a size (3.3.1 and 3.4).
_REFUSED = (r'Expecting a .* number of processes|ERROR: [Nn]umber of processes |ERROR: requested for '
            r'|(couldn.t|could not) determine proper proc_grid|SIZE IS TOO SMALL|Cell size too small'
            r'|Too many nodes')
_NO_MEMORY = 'Error encountered in allocating space|ERROR: memoy allocation failed|Error: integer overflow'
_FAILED = (r'(?i:verification failed|no verification performed|^FAILURE:|UNSUCCESSFUL|NOT PERFORMED'
           r'|Failed partial verification|number of keys out of sort|(?<![\w.])(nan|inf|infinity)(?![\w.]))')


def read(text: str) -> Read:
    """mops_total (Mop/s), mops_per_process (Mop/s of one of all processes), seconds.

    ``seconds`` is the time printed; for a run below 0.005 s, which prints 0.00, operations over rate.

    Facts: benchmark (bt ... sp), class, version, total_processes, active_processes: fewer where NPB let some idle.
    """
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
    if not npb_problems.exists(ran['benchmark'], ran['class']):
        raise Wrong(f'{name} class {ran["class"][:40]!r} is none of NPB')
    total = out.count(r'Total processes = (\S+)')
    active = out.count(r'Active processes ?= (\S+)') if series == '3.4' else _active_of_33(out, total)
    rate, each = (out.figure(rf'{label} = (\S+)', places=2) for label in ('Mop/s total', 'Mop/s/process'))
    if abs(each * total - rate) > (total + 1) * half(rate):
        raise Wrong(f'{each} Mop/s a process of {total} are not {rate} Mop/s in total')
    seconds = out.figure(r'Time in seconds = (\S+)', zero=True, places=2)
    work = npb_problems.million_operations(ran['benchmark'], ran['class'])
    agree(rate, seconds, work, f'Mop/s of {name} class {ran["class"]}')
    values = {'mops_total': float(rate), 'mops_per_process': float(each),
              'seconds': float(seconds) or work / float(rate)}
    return values, {**ran, 'total_processes': total, 'active_processes': active}


def check(facts: dict[str, int | str], benchmark: str, npb_class: str, ranks: int) -> None:
    """Raise Wrong unless this was the benchmark and class asked for, on all ``ranks`` and no others."""
    asked = {'benchmark': benchmark, 'class': npb_class, 'total_processes': ranks, 'active_processes': ranks}
    for name, expected in asked.items():
        if facts[name] != expected:
            raise Wrong(f'{name.replace("_", " ")}: ran {facts[name]}, asked for {expected}')


def _active_of_33(out: Lines, total: int) -> int:
    """BT, CG, EP and SP say how many processes are active, the others how many there are: there none can idle."""
    told = out.one(r'Number of (?:active )?processes ?: (\d+)', 'Number of processes: ...')
    if 'active' not in told[0] and int(told[1]) != total:
        raise Wrong(f'{told[1]} processes began, {total} ended')
    return int(told[1])
