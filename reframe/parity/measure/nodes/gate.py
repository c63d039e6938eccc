"""The gate of a node: it is measured at once, and stands beside its peers before it returns to service."""

from __future__ import annotations

import time

from parity.base import console, paths
from parity.base.errors import INFRASTRUCTURE, MISSING, OK, REGRESSED
from parity.base.figures import duration
from parity.judge.nodes import listing, words
from parity.judge.nodes.listing import ListedNode
from parity.judge.store import database, plan_file
from parity.judge.store.record import Run, Session
from parity.measure.nodes import measure
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.scheduler import slurm
from parity.measure.session import runner
from parity.site.nodes import NodeState
from parity.site.systems import System

#: Runs of each case, as in a night.
_RUNS = 3


def gate(name: str, system: System, reservation: str = '') -> int:
    """Measure one node now, and print how it stands beside its peers.

    Returns 0 if it is like them, 1 if it is slower, 3 if they tell nothing, 4 if it could not be measured.
    ``reservation``: of Slurm, in which its jobs run.

    Raises UsageError for an unknown node, InfrastructureError where another run measures."""
    scheduled = of_scheduler.of_system(system)
    node, = listing.of_system(system, scheduled, name)
    why = scheduled.unknown or _refusal(node, system, reservation)
    if why:
        return _not_measurable(name, why)
    night = _newest_night(system)
    if night is None:
        console.say(f'{name}: no night of {system.name} is stored, so that it has no peers; '
                    f'run ci/nightly --system {system.name}')
        return MISSING
    began = time.time()
    measured = _measured(node, system, night, reservation)
    took = time.time() - began
    runs = measured.runs.get(node.name, [])
    beside_peers = next(iter(listing.sessions(node, system.name, 1)), node)
    is_of_gate = beside_peers.session in measured.sessions
    if measured.stopped or not is_of_gate:
        no_case = f'no case ran on it undisturbed; see {paths.results()}/reframe.log'
        return _not_measurable(name, measured.stopped or measure.faults(runs) or no_case)
    print()
    console.lines(words.part_lines(beside_peers))
    code, text = _judged(beside_peers, runs)
    console.say(f'{name}: {text} (measured in {duration(took)}; of 100 gates of sound nodes '
                'at most one says slower)')
    return code


def _newest_night(system: System) -> Session | None:
    """Return the newest night of a system that measured a selection; None where none is stored."""
    newest = None
    for session in database.sessions(system.name):
        if session.selection and not session.rerun_of:
            newest = session
    return newest


def _measured(node: ListedNode, system: System, night: Session, reservation: str) -> measure.Measured:
    """Measure the node by the selection of a night."""
    more = [f'--repeat={_RUNS}']
    if reservation:
        more += ['-J', f'reservation={reservation}']
    lock = runner.lock_results(f'parity node {node.name} --gate', ['--system', system.name])
    try:
        return measure.on([node], plan_file.words_again(night.cmdline), f'gate of {node.name}', more=more)
    finally:
        lock.release()


def _refusal(node: ListedNode, system: System, reservation: str) -> str:
    """Return why the node can run no job now, and what to do; '' where it can."""
    if node.state is None:
        return ('its scheduler does not list it; if it is gone, name it below retired: in '
                f'systems/{system.name}/system.yaml')
    if _takes_jobs(node.state, reservation):
        return ''
    reason = f' ({node.state.reason})' if node.state.reason else ''
    return (f'it takes no jobs: {node.state.state}{reason}; put it into a reservation of yours, resume it, and '
            f'name that: parity node {node.name} --gate --reservation NAME')


def _takes_jobs(node: NodeState, reservation: str) -> bool:
    """Return whether a node runs jobs: those of a reservation, or all."""
    states = set(node.state.upper().split('+'))
    if reservation:
        return states <= {*slurm.TAKES, 'MAINTENANCE'}
    return node.takes and 'RESERVED' not in states


def _judged(node: ListedNode, runs: list[Run]) -> tuple[int, str]:
    """Return the gate's exit code and words. ``node`` has the figures of its ``runs`` alone."""
    faults = measure.faults(runs)
    slower = 'slower than its peers' if node.slower else ''
    if slower or any(run.status == 'wrong' for run in runs):
        return REGRESSED, '; '.join(filter(None, (slower, faults)))
    if faults:
        return INFRASTRUCTURE, f'not measurable: {faults}'
    others = measure.disturbed(runs)
    if others:
        return MISSING, f'{others}; measure it again once it is idle'
    doubtful = [part for part, speed in node.parts.items() if speed and speed.doubtful]
    if doubtful:
        return MISSING, f'its peers differ too much to say ({", ".join(doubtful)})'
    if not any(node.parts.values()):
        return MISSING, 'too few peers to say'
    return OK, 'like its peers'


def _not_measurable(name: str, why: str) -> int:
    console.say(f'{name}: not measurable: {why}')
    return INFRASTRUCTURE
