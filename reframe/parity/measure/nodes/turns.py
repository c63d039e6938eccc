"""Nodes by turns: a night measures those that were measured longest ago, within the budget and the window of
`nightly:` in system.yaml."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

import polars as pl

from parity.base import console
from parity.base.figures import number, several
from parity.base.reasons import Kind
from parity.judge.nodes import figures, listing, words
from parity.judge.nodes.listing import ListedNode
from parity.judge.store import database, history
from parity.measure.nodes import measure
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.scheduler import scheduled
from parity.site.systems import ROTATES, Partition, System

#: Of a run that the operator ended, or the end of its session.
_TAKEN_BACK = [Kind.CANCELLED.value, Kind.STOPPED.value]


@dataclass(frozen=True)
class Case:
    """A case of a night, which one node runs alone."""

    partition: str
    environ: str
    name: str


#: The seconds that one run of a case takes on one node.
Costs = dict[Case, float]


@dataclass(frozen=True)
class Night:
    """A night whose nodes are measured by turns: its session, and what it used and its cases cost."""

    uuid: str
    node_seconds: float         # used, reruns included
    costs: Costs


def by_turns(system: System, arguments: list[str], night: str, seconds: float, suspects: Collection[str] = ()
             ) -> str:
    """Measure the nodes longest unmeasured, within what a night has left of its budget, its window and its time.

    Prints which were measured, what failed there, which were left, and which are slower than their peers. Returns
    why the measuring was stopped or did not begin, or ''. ``arguments``: of ReFrame, the night's own. ``night``:
    its uuid. ``seconds``: left until its time limit. ``suspects``: nodes whose turn comes first."""
    if not system.nightly:
        return ''
    known = of_scheduler.of_system(system)
    tonight = _night(system, night)
    waiting = _without_turn(system, listing.of_system(system, known), tonight, suspects)
    chosen = _chosen(system, waiting, tonight, seconds)
    hours = f'{number(tonight.node_seconds / 3600)} of {number(system.nightly.node_hours)} node-hours were used'
    stopped = ''
    if not tonight.costs:
        _say('no case of this night ran on one node alone: no node is measured by turns')
    elif chosen:
        _say(f'{hours}; now {_order(chosen, suspects)}')
        measured = measure.on(chosen, arguments, 'nodes by turns', seconds)
        stopped = measured.stopped
        waiting = _without_turn(system, waiting, tonight, suspects)
        _say_measured(chosen, waiting, measured)
    elif waiting:
        _say(f'{hours}: no time is left for another node')
    if waiting:
        _say(f'left for the next night: {several([node.name for node in waiting])}')
    later = of_scheduler.of_system(system)        # some may have gone down meanwhile
    for line in words.coverage(system.name, listing.of_system(system, later), later.unknown):
        _say(line)
    return stopped or known.unknown


def _order(chosen: list[ListedNode], suspects: Collection[str]) -> str:
    """Return the names of the nodes that are measured now, and why these."""
    names = [node.name for node in chosen]
    longest = f'those longest unmeasured, by turns: {several(names)}'
    first = [name for name in names if name in suspects]
    return f'{several(first)}, slow tonight, and then {longest}' if first else longest


def _say_measured(chosen: list[ListedNode], waiting: list[ListedNode], measured: measure.Measured) -> None:
    """Print how many nodes had their turn, and what failed or was disturbed on which."""
    still_waiting = {node.name for node in waiting}
    done = [node for node in chosen if node.name not in still_waiting]
    stopped = f' ({measured.stopped})' if measured.stopped else ''
    _say(f'{len(done)} of {len(chosen)} had their turn{stopped}')
    for name, runs in sorted(measured.runs.items()):
        for why in (measure.faults(runs), measure.disturbed(runs)):
            if why:
                _say(f'{name}: {why}')


def _say(text: str) -> None:
    console.say(f'parity: nodes: {text}')


def _without_turn(system: System, nodes: list[ListedNode], night: Night, suspects: Collection[str] = ()
                  ) -> list[ListedNode]:
    """Return the nodes that take jobs and have not run all cases since the night began: ``suspects`` first, then
    those longest without.

    A failed or disturbed run counts, else such nodes would take the turns of all others. One that was taken back
    does not."""
    starts = database.starts()
    last_run = _last_runs(system, starts)
    turns = {}
    for node in nodes:
        partitions = _seconds_on(node, system, night) if node.state and node.state.takes else {}
        if not partitions:
            continue
        cases = [case for case in night.costs if case.partition in partitions]
        turn = min(last_run[case, node.name] for case in cases)
        if turn < starts[night.uuid]:
            turns[node.name] = turn
    waiting = [node for node in nodes if node.name in turns]
    return sorted(waiting, key=lambda node: (node.name not in suspects, turns[node.name], node.name))


def _last_runs(system: System, starts: dict[str, float]) -> dict[tuple[Case, str], float]:
    """Return the start of the session that last ran a case on a node by itself; 0 where none has."""
    alone = figures.ON_ONE_NODE & (pl.col('system') == system.name) & ~pl.col('kind').is_in(_TAKEN_BACK)
    rows = figures.undistributed(history.rows(starts).filter(alone))
    runs = rows.select('partition', 'environ', 'case', 'node', 'session').unique().collect()
    last: dict[tuple[Case, str], float] = defaultdict(float)
    for partition, environ, name, node, session in runs.iter_rows():
        run = Case(partition, environ, name), node
        last[run] = max(last[run], starts[session])
    return last


def _chosen(system: System, waiting: list[ListedNode], night: Night, seconds: float) -> list[ListedNode]:
    """Return the first of the nodes, as many as the night's budget, its window and the ``seconds`` left allow."""
    until = float(os.environ.get(scheduled.UNTIL, 'inf'))
    seconds = min(seconds, until - time.time())
    budget = system.nightly.node_hours * 3600 - night.node_seconds
    at_once = {part.name: part.max_jobs for part in system.partitions}
    ends = defaultdict(float)           # of the last job, by partition, in seconds from now
    chosen = []
    for node in waiting:
        by_partition = _seconds_on(node, system, night)
        budget -= sum(by_partition.values())
        later = {name: ends[name] + cost / at_once[name] for name, cost in by_partition.items()}
        if budget < 0 or max(later.values()) > seconds:
            break
        ends.update(later)
        chosen.append(node)
    return chosen


def _night(system: System, uuid: str) -> Night:
    """Return a night with the node-seconds that it used, and the cost of its cases on one node."""
    runs = [run for run in database.read(uuid).runs if run.seconds and run.nodes]
    node_seconds = sum(run.seconds * len(run.nodes) for run in runs)
    again = history.load(system.name, reruns=True, labelled=True, disturbed=True).filter(rerun_of=uuid)
    jobs = again.unique(('session', 'jobid')).select('seconds', 'node').drop_nulls()
    for seconds, nodes in jobs.iter_rows():
        node_seconds += seconds * len(nodes.split(','))
    times = defaultdict(list)
    for run in runs:
        if len(run.nodes) == 1 and not run.fixture:
            times[Case(run.partition, run.environ, run.case)].append(run.seconds)
    costs = {case: median(of_case) for case, of_case in times.items()}
    return Night(uuid, node_seconds, costs)


def _seconds_on(node: ListedNode, system: System, night: Night) -> dict[str, float]:
    """Return the seconds that a night's cases take on a node, by each partition that has it."""
    seconds = {}
    for part in system.partitions:
        costs = [cost for case, cost in night.costs.items() if case.partition == part.name]
        if costs and part.scheduler in ROTATES and _has(part, node):
            seconds[part.name] = sum(costs)
    return seconds


def _has(part: Partition, node: ListedNode) -> bool:
    """Return whether a node serves the queue of a partition, as far as its scheduler tells."""
    queues = node.state.queues
    return not queues or of_scheduler.queue_of(part) in ('', *queues)
