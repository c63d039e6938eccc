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
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from statistics import median

import polars as pl

from parity.base import console, paths
from parity.base.errors import INFRASTRUCTURE, MISSING, OK, REGRESSED
from parity.base.figures import counted, duration, number, several
from parity.base.reasons import Kind
from parity.nodes import listing as nodes
from parity.nodes import words as report
from parity.nodes.listing import Standing
from parity.plan import identity
from parity.records import database, history, plan_file
from parity.records.plan_file import RERUN_OF
from parity.records.record import Run, node_name
from parity.scheduler import scheduled, slurm
from parity.session import runner
from parity.system.systems import ROTATES, System

#: Of a session that measures chosen nodes: it confirms no session, and is no night.
_EXTRAS = ['--session-extras', f'{RERUN_OF}=nodes']
#: Runs of each case at a gate, as in a night.
_RUNS = 3
#: Of a run that the operator ended, or the end of its session.
_TAKEN_BACK = [Kind.CANCELLED.value, Kind.STOPPED.value]
#: The seconds that one run of a case (partition, environment, name) takes on one node.
Costs = dict[tuple[str, str, str], float]


def by_turns(system: System, arguments: list[str], night: str, seconds: float) -> str:
    """Measure the nodes longest unmeasured, within what a night has left of its budget, its window and its time.

    Says which were measured, what failed there, which were left, and which are slower than their peers. Returns
    why the measuring was stopped or did not begin, or ''. ``arguments``: of ReFrame, the night's own. ``night``:
    its uuid. ``seconds``: left until its time limit."""
    if not system.nightly:
        return ''
    states, silent = nodes.states(system)
    spent, costs = _costs(system, night)
    waiting = _without_turn(system, nodes.of_system(system, states), costs, night)
    left = min(seconds, float(os.environ.get(scheduled.UNTIL, 'inf')) - time.time())
    chosen = _chosen(system, waiting, costs, system.nightly.node_hours * 3600 - spent, left)
    hours, stopped = f'{number(spent / 3600)} of {number(system.nightly.node_hours)} node-hours were used', ''
    if not costs:
        console.say('parity: nodes: no case of this night ran on one node alone: no node is measured by turns')
    elif chosen:
        names = [each.name for each in chosen]
        console.say(f'parity: nodes: {hours}; now those longest unmeasured, by turns: {several(names)}')
        before = set(database.uuids())
        arguments = _on([each.asked for each in chosen], _plain(arguments))
        stopped = runner.reframe(arguments, seconds, 'nodes by turns')
        waiting = _without_turn(system, waiting, costs, night)
        done = len(names) - len({*names} & {each.name for each in waiting})
        console.say(f'parity: nodes: {done} of {len(names)} had their turn{f" ({stopped})" if stopped else ""}')
        for node, runs in sorted(_runs(before).items()):
            if faults := _faults(runs):
                console.say(f'parity: nodes: {node}: {faults}')
    elif waiting:
        console.say(f'parity: nodes: {hours}: no time is left for another node')
    if waiting:
        console.say(f'parity: nodes: left for the next night: {several([each.name for each in waiting])}')
    states, unknown = nodes.states(system)      # some may have gone down meanwhile
    said = [f'the scheduler does not tell its nodes: {unknown}'] if unknown else []
    for line in (*said, *report.coverage(system.name, nodes.of_system(system, states))):
        console.say(f'parity: nodes: {line}')
    return stopped or silent


def _without_turn(system: System, found: Sequence[Standing], costs: Costs, night: str) -> list[Standing]:
    """Return the nodes that take jobs and have not run all cases since the night began, longest without first.

    A failed or disturbed run counts, else such nodes would take the turns of all others. One that was taken back
    does not."""
    starts = database.starts()
    alone = ~pl.col('node').str.contains(',', literal=True) & (pl.col('node') != '')
    frame = history.rows(starts).filter(
        alone, pl.col('system') == system.name, ~pl.col('kind').is_in(_TAKEN_BACK))
    frame = nodes.undistributed(frame).select('partition', 'environ', 'case', 'node', 'session').unique().collect()
    last: dict[tuple, float] = defaultdict(float)
    for *case, session in frame.iter_rows():
        last[tuple(case)] = max(last[tuple(case)], starts[session])
    waiting = []
    for node in found:
        if node.state and node.state.takes and (partitions := _cost(system, node, costs)):
            turn = min(last[(*case, node.name)] for case in costs if case[0] in partitions)
            if turn < starts[night]:
                waiting.append((turn, node.name, node))
    return [node for *_, node in sorted(waiting, key=itemgetter(0, 1))]


def _chosen(system: System, waiting: list[Standing], costs: Costs, budget: float, left: float) -> list[Standing]:
    """Return the first of the nodes, as many as the budget (node-seconds) and the seconds that are left allow."""
    chosen, ends = [], defaultdict(float)
    for each in waiting:
        by_partition = _cost(system, each, costs)
        later = {name: ends[name] + cost / _at_once(system, name) for name, cost in by_partition.items()}
        if (budget := budget - sum(by_partition.values())) < 0 or max(later.values()) > left:
            break
        ends.update(later)
        chosen.append(each)
    return chosen


def _at_once(system: System, partition: str) -> int:
    return next(p.max_jobs for p in system.partitions if p.name == partition)


def _costs(system: System, night: str) -> tuple[float, Costs]:
    """Return the node-seconds that the night used, reruns included, and the cost of its cases on one node."""
    session = database.read(night)
    runs = [run for run in session.runs if run.seconds and run.nodes]
    spent = sum(run.seconds * len(run.nodes) for run in runs)
    again = history.load(system.name, reruns=True, labelled=True, disturbed=True).filter(rerun_of=night)
    jobs = again.unique(('session', 'jobid')).select('seconds', 'node').drop_nulls()
    spent += sum(seconds * len(node.split(',')) for seconds, node in jobs.iter_rows())
    each: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for one in runs:
        if len(one.nodes) == 1 and not one.fixture:
            each[one.partition, one.environ, one.case].append(one.seconds)
    return spent, {case: median(took) for case, took in each.items()}


def _cost(system: System, each: Standing, costs: Costs) -> dict[str, float]:
    """Return the seconds that a node takes, by each partition that has it."""
    found: dict[str, float] = defaultdict(float)
    for (partition, *_), seconds in costs.items():
        found[partition] += seconds
    return {p.name: found[p.name] for p in system.partitions if p.name in found and p.scheduler in ROTATES
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
            '-J', f'nodelist={",".join(names)}', *more, *_EXTRAS]


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
    lock = runner.alone(f'parity node {name} --gate', ['--system', system.name])
    try:
        before, began = set(database.uuids()), datetime.now()
        where = ['-J', f'reservation={reservation}'] if reservation else []
        arguments = _on([found.asked], _plain(plan_file.words(nights[-1].cmdline)), f'--repeat={_RUNS}', *where)
        stopped = runner.reframe(arguments, step=f'gate of {name}')
    finally:
        lock.release()
    runs = _runs(before).get(found.name, [])
    (measured, session, parts), = nodes.past(nodes.figures(system.name), found.name, 1) or [(None, '', {})]
    if stopped or session in before | {''}:
        no_case = f'no case ran on it undisturbed; see {paths.results()}/reframe.log'
        return _not_measurable(name, stopped or _faults(runs) or no_case)
    print()
    found = replace(found, measured=measured, session=session, parts=parts)
    console.lines(report.part_lines(found))
    took = duration((datetime.now() - began).total_seconds())
    code, word = _judged(found, runs)
    console.say(f'{name}: {word} (measured in {took}; of 100 gates of sound nodes at most one says slower)')
    return code


def _judged(found: Standing, runs: list[Run]) -> tuple[int, str]:
    """Return the gate's exit code and words. ``found`` has the figures of its ``runs`` alone."""
    faults = _faults(runs)
    if found.slower or any(one.status == 'wrong' for one in runs):
        return REGRESSED, '; '.join(filter(None, ('slower than its peers' if found.slower else '', faults)))
    if faults:
        return INFRASTRUCTURE, f'not measurable: {faults}'
    if disturbed := sorted({one.case for one in runs} - {one.case for one in runs if not one.disturbed}):
        return MISSING, f'others used its CPUs in all runs of {several(disturbed)}'
    if doubtful := [part for part, each in found.parts.items() if each and each.doubtful]:
        return MISSING, f'its peers differ too much to say ({", ".join(doubtful)})'
    return (OK, 'like its peers') if any(found.parts.values()) else (MISSING, 'too few peers to say')


def _runs(before: set[str]) -> dict[str, list[Run]]:
    """Return the runs of distributed cases by node, of the sessions that are stored and not in ``before``."""
    found: dict[str, list[Run]] = defaultdict(list)
    for uuid in database.uuids():
        for one in database.read(uuid).runs if uuid not in before else ():
            case, node = identity.undistributed(one.case)
            if node:
                found[node_name(node)].append(replace(one, case=case))
    return found


def _faults(runs: list[Run]) -> str:
    """Say which case failed or was wrong first, and how many more runs did; '' where none did."""
    bad = [f'{one.case}: {one.status}: {one.reason}' for one in runs
           if one.status in ('failed', 'wrong') and not one.unfinished]
    more = f' (and {counted(len(bad) - 1, "more run")})' if bad[1:] else ''
    return f'{bad[0]}{more}' if bad else ''


def _not_measurable(name: str, why: str) -> int:
    console.say(f'{name}: not measurable: {why}')
    return INFRASTRUCTURE
