"""The report of programs/watch.py: who else used the CPUs of a job, whether its clock was right, and which
processes it left.

A figure is `disturbed` if others took more of the job's CPUs than ALLOWED. Others are processes outside the job,
by their time in user mode, and the hypervisor, by the time that the worst CPU lost. Both count in CPUs, not as a
share: ranks that wait for one another are as slow as the slowest. One busy loop on one of 64 cores can halve
their speed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parity.site import systems

#: CPUs that others may take, where the partition states nothing (`extras: others_cpus`): 4 % of one, or 0.25 % of
#: all that the job has, whichever is more. docs/disturbed.md has the measurements behind it.
ALLOWED, ALLOWED_OF_ALL = 0.04, 0.0025
#: The kernel counts in ticks of 10 ms.
UNSURE_SECONDS = 0.05
#: Smaller shares of a CPU are not reported.
UNIT = 0.005


class NodeClock(NamedTuple):
    """A clock of the node. The job's own may differ from it by a share and by seconds."""

    words: str
    share: float
    seconds: float


#: The node's clocks that the job's own is held against. The hardware clock counts whole seconds.
_CLOCKS = {
    'uptime': NodeClock("the kernel's uptime", share=0.01, seconds=0.1),
    'raw': NodeClock('the clock that no time server slows', share=0.01, seconds=0.1),
    'rtc': NodeClock('the hardware clock', share=0.02, seconds=3.0),
}
#: A clock that seems to run slower or faster was set meanwhile.
_SLOWEST, _FASTEST = 0.1, 10.0
#: A time that a program printed may be longer than its job by a share and by seconds: it was rounded.
_LONGER, _ROUNDED = 0.01, 0.1

#: Begin anew below watch.py; without Python on the node the job runs as it is.
_WATCH = ('[ "$1" = watched ] || [ ! -x "$0" ] || ! command -v python3 >/dev/null || '
          'exec python3 -IS ./watch.py "$0" watched')


def begin(case) -> None:
    """Have the job watched; ``case`` is a ReFrame test whose other commands are all known."""
    if not case.standalone and case.current_partition.scheduler.registered_name in ('local', *systems.QUEUED):
        case.stage_program('watch.py')
        case.prerun_cmds = [_WATCH, *case.prerun_cmds]


def report(stagedir: str) -> dict[str, Any]:
    """Return the report watch.json; {} if the job was not watched, or was killed."""
    try:
        found = json.loads(Path(stagedir, 'watch.json').read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def false_clock(seen: dict[str, Any]) -> str:
    """Return which clock of the node the clock of the job contradicts, and by how much; '' where all agree.

    Figures that come from such a clock are no figures."""
    seconds = seen.get('seconds') or 0.0
    clocks = seen.get('clocks') or {}
    for name, clock in _CLOCKS.items():
        elapsed = clocks.get(name, seconds)
        tolerance = clock.share * max(seconds, elapsed) + clock.seconds
        if abs(seconds - elapsed) <= tolerance:
            continue
        rate = seconds / elapsed if elapsed > 0 else 0.0
        was_set = not _SLOWEST < rate < _FASTEST
        if not was_set:
            return f'the clock of the job counted {seconds:.1f} s, {clock.words} {elapsed:.1f} s'
    return ''


def longer(seen: dict[str, Any], times: Mapping[str, float]) -> str:
    """Return which of the ``times`` (s) that a program printed is longer than its job ran; '' for none.

    Where its clock was wrong, or its node slept, that clock says nothing of how long it ran: it is disturbed."""
    if false_clock(seen):
        return ''
    ran = seen.get('seconds') or math.inf
    for name, seconds in times.items():
        if seconds > ran * (1 + _LONGER) + _ROUNDED:
            return f'{name} is {seconds:.6g} s, but the job ran {ran:.6g} s: no program runs longer than its job'
    return ''


def disturbed(seen: dict[str, Any], allowed: float | None) -> str:
    """Return who took more than ``allowed`` CPUs (None: ALLOWED), and how much; '' for nobody, or if unknown."""
    seconds = seen.get('seconds') or 0.0
    if not seconds:
        return ''
    others = seen.get('others') or 0.0
    steal = seen.get('steal') or 0.0
    if allowed is None:
        allowed = max(ALLOWED, ALLOWED_OF_ALL * seen.get('cpus', 0))
    if others + steal <= max(allowed * seconds, UNSURE_SECONDS):
        return ''
    takers = []
    if others >= UNIT * seconds:
        cpus = 'its CPU' if seen['cpus'] == 1 else f'its {seen["cpus"]} CPUs'
        takers.append(f'processes outside the job took {others / seconds:.2f} of {cpus}')
    if steal >= UNIT * seconds:
        takers.append(f'the hypervisor took {steal / seconds:.2f} of one CPU')
    return f'{", ".join(takers)}, for {seconds:.1f} s (allowed: {allowed:.2g} CPUs)'
