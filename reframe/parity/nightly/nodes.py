"""Nodes by turns: a night measures those that were measured longest ago, within the budget and the window of
`nightly:` in system.yaml. The gate measures one node at once.

Both are sessions that belong to no night: no verdict judges their cells, and none misses them. They have the
night's own selection, on chosen nodes (reframe --distribute), so that jobs on several nodes are left out."""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from statistics import median

import polars as pl

from parity.base import console, paths
from parity.base.errors import INFRASTRUCTURE, MISSING, OK, REGRESSED, UsageError
from parity.base.figures import duration, number
from parity.nightly import guard, run
from parity.records import database, history, outset
from parity.records.outset import RERUN_OF
from parity.report import nodes as report
from parity.scheduler import scheduled, slurm
from parity.session import recovery
from parity.system import systems
from parity.system.systems import ROTATES, System
from parity.verdict import nodes
from parity.verdict.model import several
from parity.verdict.nodes import Standing

#: Of a session that measures chosen nodes: it confirms no session, and is no night.
_OWN = ['--session-extras', f'{RERUN_OF}=nodes']
#: Runs of each case at a gate, as in a night.
_RUNS = 3


def wait_for_window(system: System, longest: float) -> None:
    """Return when jobs may start; the night starts none after the window's end. ``longest``: seconds.

    Raises UsageError where the window opens later than that."""
    if not (system.nightly and system.nightly.window):
        return
    now, window = time.time(), system.nightly.window
    begin, end = system.nightly.opens(now)
    if begin - now > longest:
        raise UsageError(f'{systems.file_of(system.name)}: nightly: the window {window} opens in '
                         f'{duration(begin - now)}, after the time limit of {duration(longest)}: '
                         'start ci/nightly later, or correct the window')
    if begin > now:
        console.say(f'parity: waiting for the window {window}: it opens in {duration(begin - now)}')
        time.sleep(begin - now)
    os.environ[scheduled.UNTIL] = str(end)


def by_turns(system: System, arguments: list[str], night: str, seconds: float) -> None:
    """Measure the nodes longest unmeasured, within what a night has left of its budget, its window and its time.

    Says which were measured, which were left, and which are slower than their peers. ``arguments``: of ReFrame,
    the night's own. ``night``: its uuid. ``seconds``: left until its time limit."""
    if not system.nightly:
        return
    states, unknown = nodes.states(system)
    found = nodes.of_system(system, states)
    spent, costs = _costs(system, night)
    now = time.time()
    left = min(seconds, float(os.environ.get(scheduled.UNTIL, 'inf')) - now)
    waiting = [each for each in sorted(found, key=lambda each: (each.measured or 0.0, each.name))
               if each.state and each.state.takes and _cost(system, each, costs) and not _tonight(each, night)]
    chosen, budget, ends = [], system.nightly.node_hours * 3600 - spent, defaultdict(float)
    for each in waiting:
        by_partition = _cost(system, each, costs)
        later = {name: ends[name] + cost / _at_once(system, name) for name, cost in by_partition.items()}
        if (budget := budget - sum(by_partition.values())) < 0 or max(later.values()) > left:
            break
        ends.update(later)
        chosen.append(each)
    hours = f'{number(spent / 3600)} of {number(system.nightly.node_hours)} node-hours were used'
    if not costs:
        console.say('parity: nodes: no case of this night ran on one node alone: no node is measured by turns')
    elif chosen:
        names = [each.name for each in chosen]
        console.say(f'parity: nodes: {hours}; now those longest unmeasured, by turns: {several(names)}')
        stopped = run.reframe(_on([each.asked for each in chosen], _plain(arguments)), seconds, 'nodes by turns')
        found = nodes.of_system(system, states)
        done = _done(system.name, now)
        why = f' ({stopped})' if stopped else ''
        console.say(f'parity: nodes: {len(done)} of {len(names)} measured by turns{why}')
        waiting = [each for each in waiting if each.name not in done]
    elif waiting:
        console.say(f'parity: nodes: {hours}: no time is left for another node')
    if waiting and costs:
        console.say(f'parity: nodes: left for the next night: {several([each.name for each in waiting])}')
    said = [f'the scheduler does not tell its nodes: {unknown}'] if unknown else []
    for line in (*said, *report.told(system.name, found)):
        console.say(f'parity: nodes: {line}')


def _tonight(each: Standing, night: str) -> bool:
    return each.measured is not None and each.measured >= database.starts()[night]


def _done(system: str, since: float) -> set[str]:
    """Return the nodes that have a figure of every case that any has since then (Unix time)."""
    each = nodes.figures(system).filter(pl.col('start') > since)
    cases = each.group_by('partition', 'node').agg(pl.col('case', 'environ').n_unique())
    return set(cases.filter(pl.col('case') == pl.col('case').max().over('partition'))['node'])


def _at_once(system: System, partition: str) -> int:
    return next(p.max_jobs for p in system.partitions if p.name == partition)


def _costs(system: System, night: str) -> tuple[float, dict[str, float]]:
    """Return the node-seconds that the night used, reruns included, and the seconds that one run of all its cases
    takes on one node, by partition."""
    session = database.read(night)
    runs = [run for run in session.runs if run.seconds and run.nodes]
    spent = sum(run.seconds * len(run.nodes) for run in runs)
    again = history.load(system.name, disturbed=True).filter(rerun_of=night).unique(('session', 'jobid'))
    spent += sum(seconds * len(node.split(','))
                 for seconds, node in again.select('seconds', 'node').drop_nulls().iter_rows())
    each: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for one in runs:
        if len(one.nodes) == 1 and not one.fixture:
            each[one.partition, one.environ, one.case].append(one.seconds)
    costs: dict[str, float] = defaultdict(float)
    for (partition, *_), took in each.items():
        costs[partition] += median(took)
    return spent, dict(costs)


def _cost(system: System, each: Standing, costs: dict[str, float]) -> dict[str, float]:
    """Return the seconds that a node takes, by each partition that has it."""
    return {p.name: costs[p.name] for p in system.partitions if p.name in costs and p.scheduler in ROTATES
            and (not each.state.queues or nodes.queue_of(p) in ('', *each.state.queues))}


def _plain(arguments: list[str]) -> list[str]:
    """Return the options that select and size a night's cases, without those that say how often and where."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in (('--repeat',), ('--session-extras',), ('-J', '--job-option'), ('--distribute',),
                    ('-c', '--checkpath')):
        parser.add_argument(*options, action='append')
    parser.add_argument('-r', '--run', action='store_true')
    return parser.parse_known_args(arguments)[1]


def _on(names: Sequence[str], options: list[str], *more: str) -> list[str]:
    return ['-c', str(paths.root() / 'checks'), '-r', *options, '--distribute=all',
            '-J', f'nodelist={",".join(names)}', *more, *_OWN]


def gate(name: str, system: System, reservation: str = '') -> int:
    """Measure one node now, and say how it stands beside its peers.

    Returns 0 if it is like them, 1 if it is slower, 3 if they tell nothing, 4 if it could not be measured.
    ``reservation``: of Slurm, in which its jobs run.

    Raises UsageError for an unknown node, InfrastructureError where another run measures."""
    states, unknown = nodes.states(system)
    found, = nodes.of_system(system, states, name)
    if unknown or found.state is None:
        return _not_measurable(name, unknown or 'its scheduler does not know it')
    words = set(found.state.state.upper().split('+'))
    takes = found.state.takes and 'RESERVED' not in words
    if not (words <= {*slurm.TAKES, 'MAINTENANCE'} if reservation else takes):
        reason = f' ({found.state.reason})' if found.state.reason else ''
        why = f'it takes no jobs: {found.state.state}{reason}'
        return _not_measurable(name, f'{why}; put it into a reservation of yours, resume it, and name that: '
                                     f'parity node {name} --gate --reservation NAME')
    nights = [night for night in database.sessions(system.name) if night.selection and not night.rerun_of]
    if not nights:
        console.say(f'{name}: no night of {system.name} is stored, so that it has no peers; '
              f'run ci/nightly --system {system.name}')
        return MISSING
    lock = guard.alone(f'parity node {name} --gate', ['--system', system.name])
    try:
        recovery.recover_all()
        os.environ.setdefault('RFM_CONFIG_FILES', str(paths.root() / 'reframe' / 'settings.py'))
        before, began = set(database.uuids()), datetime.now()
        where = ['-J', f'reservation={reservation}'] if reservation else []
        arguments = _plain(outset.words(nights[-1].cmdline))
        stopped = run.reframe(_on([found.asked], arguments, f'--repeat={_RUNS}', *where), step=f'gate of {name}')
    finally:
        lock.release()
    new = [uuid for uuid in database.uuids() if uuid not in before]
    found, = nodes.of_system(system, states, name)
    if stopped or found.session not in new:
        reasons = [one.reason for uuid in new for one in database.read(uuid).runs if one.status == 'failed']
        no_case = f'no case ran on it; see {paths.results()}/reframe.log'
        return _not_measurable(name, stopped or next(iter(reasons), no_case))
    print()
    console.lines(report.beside(found))
    took = duration((datetime.now() - began).total_seconds())
    judged = [each for each in found.parts.values() if each]
    doubtful = [part for part, each in found.parts.items() if each and each.doubtful]
    code, word = OK, 'like its peers'
    if found.slower:
        code, word = REGRESSED, 'slower than its peers'
    elif not judged or doubtful:
        code = MISSING
        word = f'its peers differ too much to say ({", ".join(doubtful)})' if doubtful else 'too few peers to say'
    console.say(f'{name}: {word} (measured in {took}; of 100 gates of sound nodes at most one says slower)')
    return code


def _not_measurable(name: str, why: str) -> int:
    console.say(f'{name}: not measurable: {why}')
    return INFRASTRUCTURE
