"""What programs/watch.py tells of a job: who else had its CPUs, and what it left running.

A figure is `disturbed` where others took more of the job's CPUs than ALLOWED: processes outside the job, by their
time in user mode, and the hypervisor, by the time that it took from the CPU that lost most. Both count in CPUs,
not as a share of all of them: a program whose ranks or threads wait for one another is as slow as the slowest, so
one busy loop on one of 64 cores costs it up to half of its speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parity.scheduler import scheduled

#: CPUs that others may take, where the partition states nothing (`extras: others_cpus`): 4 % of one, or 0.25 % of
#: all that the job has, whichever is more. docs/disturbed.md has the measurements behind it.
ALLOWED, ALLOWED_OF_ALL = 0.04, 0.0025
#: What the kernel counts in ticks of 10 ms is not known better than so.
UNSURE_SECONDS = 0.05
#: CPUs below which nothing is told.
UNIT = 0.005

#: Begin anew below watch.py; without Python on the node the job runs as it is.
_WATCH = ('[ "$1" = watched ] || [ ! -x "$0" ] || ! command -v python3 >/dev/null || '
          'exec python3 -I ./watch.py "$0" watched')


def begin(case) -> None:
    """Have the job watched; ``case`` is a ReFrame test whose other commands are all known."""
    if not case.standalone and case.current_partition.scheduler.registered_name in ('local', *scheduled.QUEUED):
        case.stage_program('watch.py')
        case.prerun_cmds = [_WATCH, *case.prerun_cmds]


def told(stagedir: str) -> dict[str, Any]:
    """What watch.json says; {} where the job was not watched, or killed."""
    try:
        found = json.loads(Path(stagedir, 'watch.json').read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def disturbed(seen: dict[str, Any], allowed: float | None) -> str:
    """Who took how much, where it was more than ``allowed`` CPUs (None: ALLOWED); '' where not, or unknown."""
    seconds = seen.get('seconds') or 0.0
    others, steal = seen.get('others') or 0.0, seen.get('steal') or 0.0
    most = max(ALLOWED, ALLOWED_OF_ALL * seen.get('cpus', 0)) if allowed is None else allowed
    if not seconds or others + steal <= max(most * seconds, UNSURE_SECONDS):
        return ''
    cpus = 'its CPU' if seen['cpus'] == 1 else f'its {seen["cpus"]} CPUs'
    by = [f'processes outside the job took {others / seconds:.2f} of {cpus}' if others >= UNIT * seconds else '',
          f'the hypervisor took {steal / seconds:.2f} of one CPU' if steal >= UNIT * seconds else '']
    return f'{", ".join(filter(None, by))}, for {seconds:.1f} s ({most:.2g} is allowed)'
