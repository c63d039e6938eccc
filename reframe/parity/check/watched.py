"""The report of programs/watch.py: who else used the CPUs of a job, and which processes it left.

A figure is `disturbed` if others took more of the job's CPUs than ALLOWED. Others are processes outside the job,
by their time in user mode, and the hypervisor, by the time that the worst CPU lost. Both count in CPUs, not as a
share: ranks that wait for one another are as slow as the slowest. One busy loop on one of 64 cores can halve
their speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parity.scheduler import scheduled

#: CPUs that others may take, where the partition states nothing (`extras: others_cpus`): 4 % of one, or 0.25 % of
#: all that the job has, whichever is more. docs/disturbed.md has the measurements behind it.
ALLOWED, ALLOWED_OF_ALL = 0.04, 0.0025
#: The kernel counts in ticks of 10 ms.
UNSURE_SECONDS = 0.05
#: Smaller shares of a CPU are not reported.
UNIT = 0.005

#: Begin anew below watch.py; without Python on the node the job runs as it is.
_WATCH = ('[ "$1" = watched ] || [ ! -x "$0" ] || ! command -v python3 >/dev/null || '
          'exec python3 -IS ./watch.py "$0" watched')


def begin(case) -> None:
    """Have the job watched; ``case`` is a ReFrame test whose other commands are all known."""
    if not case.standalone and case.current_partition.scheduler.registered_name in ('local', *scheduled.QUEUED):
        case.stage_program('watch.py')
        case.prerun_cmds = [_WATCH, *case.prerun_cmds]


def report(stagedir: str) -> dict[str, Any]:
    """Return the report watch.json; {} if the job was not watched, or was killed."""
    try:
        found = json.loads(Path(stagedir, 'watch.json').read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def disturbed(seen: dict[str, Any], allowed: float | None) -> str:
    """Return who took more than ``allowed`` CPUs (None: ALLOWED), and how much; '' for nobody, or if unknown."""
    seconds = seen.get('seconds') or 0.0
    others, steal = seen.get('others') or 0.0, seen.get('steal') or 0.0
    most = max(ALLOWED, ALLOWED_OF_ALL * seen.get('cpus', 0)) if allowed is None else allowed
    if not seconds or others + steal <= max(most * seconds, UNSURE_SECONDS):
        return ''
    cpus = 'its CPU' if seen['cpus'] == 1 else f'its {seen["cpus"]} CPUs'
    by = [f'processes outside the job took {others / seconds:.2f} of {cpus}' if others >= UNIT * seconds else '',
          f'the hypervisor took {steal / seconds:.2f} of one CPU' if steal >= UNIT * seconds else '']
    return f'{", ".join(filter(None, by))}, for {seconds:.1f} s (allowed: {most:.2g} CPUs)'
