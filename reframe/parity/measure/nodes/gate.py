"""The gate of a node: it is measured at once, and stands beside its peers before it returns to service."""

from __future__ import annotations

import time

from parity.base import console, paths
from parity.base.errors import INFRASTRUCTURE, MISSING, OK, REGRESSED
from parity.base.figures import duration
from parity.judge.nodes import listing, words
from parity.judge.nodes.listing import ListedNode
from parity.judge.store import database, plan_file
from parity.judge.store.record import Run
from parity.measure.nodes import measure
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.scheduler import slurm
from parity.measure.session import runner
from parity.site.systems import System

#: Runs of each case, as in a night.
_RUNS = 3


def gate(name: str, system: System, reservation: str = '') -> int:
    """Measure one node now, and print how it stands beside its peers.

    Returns 0 if it is like them, 1 if it is slower, 3 if they tell nothing, 4 if it could not be measured.
    ``reservation``: of Slurm, in which its jobs run.

    Raises UsageError for an unknown node, InfrastructureError where another run measures."""
    known = of_scheduler.of_system(system)
    node, = listing.of_system(system, known, name)
    why = known.unknown or _refusal(node, system, reservation)
    if why:
        return _not_measurable(name, why)
    nights = [night for night in database.sessions(system.name) if night.selection and not night.rerun_of]
    if not nights:
        console.say(f'{name}: no night of {system.name} is stored, so that it has no peers; '
                    f'run ci/nightly --system {system.name}')
        return MISSING
    began, where = time.time(), ['-J', f'reservation={reservation}'] if reservation else []
    lock = runner.lock_results(f'parity node {name} --gate', ['--system', system.name])
    try:
        stopped, sessions, runs = measure.on([node], plan_file.words_again(nights[-1].cmdline), f'gate of {name}',
                                             more=[f'--repeat={_RUNS}', *where])
    finally:
        lock.release()
    newest = next(iter(listing.sessions(node, system.name, 1)), node)
    if stopped or newest.session not in sessions:
        no_case = f'no case ran on it undisturbed; see {paths.results()}/reframe.log'
        return _not_measurable(name, stopped or measure.faults(runs[node.name]) or no_case)
    print()
    console.lines(words.part_lines(newest))
    code, word = _judged(newest, runs[node.name])
    console.say(f'{name}: {word} (measured in {duration(time.time() - began)}; of 100 gates of sound nodes '
                'at most one says slower)')
    return code


def _refusal(node: ListedNode, system: System, reservation: str) -> str:
    """Return why the node can run no job now, and what to do; '' where it can."""
    if node.state is None:
        return ('its scheduler does not list it; if it is gone, name it below retired: in '
                f'systems/{system.name}/system.yaml')
    states = set(node.state.state.upper().split('+'))
    if states <= {*slurm.TAKES, 'MAINTENANCE'} if reservation else node.state.takes and 'RESERVED' not in states:
        return ''
    reason = f' ({node.state.reason})' if node.state.reason else ''
    return (f'it takes no jobs: {node.state.state}{reason}; put it into a reservation of yours, resume it, and '
            f'name that: parity node {node.name} --gate --reservation NAME')


def _judged(node: ListedNode, runs: list[Run]) -> tuple[int, str]:
    """Return the gate's exit code and words. ``node`` has the figures of its ``runs`` alone."""
    faults = measure.faults(runs)
    if node.slower or any(run.status == 'wrong' for run in runs):
        return REGRESSED, '; '.join(filter(None, ('slower than its peers' if node.slower else '', faults)))
    if faults:
        return INFRASTRUCTURE, f'not measurable: {faults}'
    if others := measure.disturbed(runs):
        return MISSING, f'{others}; measure it again once it is idle'
    if doubtful := [part for part, speed in node.parts.items() if speed and speed.doubtful]:
        return MISSING, f'its peers differ too much to say ({", ".join(doubtful)})'
    return (OK, 'like its peers') if any(node.parts.values()) else (MISSING, 'too few peers to say')


def _not_measurable(name: str, why: str) -> int:
    console.say(f'{name}: not measurable: {why}')
    return INFRASTRUCTURE
