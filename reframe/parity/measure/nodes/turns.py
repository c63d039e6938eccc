"""Nodes by turns: a night measures those that were measured longest ago, within the budget and the window of
`nightly:` in system.yaml."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection
from operator import attrgetter, itemgetter
from statistics import median

import polars as pl

from parity.base import console
from parity.base.figures import number, several
from parity.base.groups import grouped
from parity.base.reasons import Kind
from parity.judge.nodes import figures, listing, words
from parity.judge.nodes.listing import ListedNode
from parity.judge.store import database, history
from parity.measure.nodes import measure
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.scheduler import scheduled
from parity.site.systems import ROTATES, System

#: Of a run that the operator ended, or the end of its session.
_TAKEN_BACK = [Kind.CANCELLED.value, Kind.STOPPED.value]
#: The seconds that one run of a case (partition, environment, name) takes on one node.
Costs = dict[tuple[str, str, str], float]


def by_turns(system: System, arguments: list[str], night: str, seconds: float, suspects: Collection[str] = ()
             ) -> str:
    """Measure the nodes longest unmeasured, within what a night has left of its budget, its window and its time.

    Prints which were measured, what failed there, which were left, and which are slower than their peers. Returns
    why the measuring was stopped or did not begin, or ''. ``arguments``: of ReFrame, the night's own. ``night``:
    its uuid. ``seconds``: left until its time limit. ``suspects``: nodes whose turn comes first."""
    if not system.nightly:
        return ''
    known = of_scheduler.of_system(system)
    nodes = listing.of_system(system, known)
    spent, costs = _costs(system, night)
    waiting, stopped = _without_turn(system, nodes, costs, night, suspects), ''
    left = min(seconds, float(os.environ.get(scheduled.UNTIL, 'inf')) - time.time())
    chosen = _chosen(system, waiting, costs, system.nightly.node_hours * 3600 - spent, left)
    hours = f'{number(spent / 3600)} of {number(system.nightly.node_hours)} node-hours were used'
    if not costs:
        _say('no case of this night ran on one node alone: no node is measured by turns')
    elif chosen:
        names = [node.name for node in chosen]
        first = [name for name in names if name in suspects]
        after = f'{several(first)}, slow tonight, and then ' if first else ''
        _say(f'{hours}; now {after}those longest unmeasured, by turns: {several(names)}')
        stopped, _, runs = measure.on(chosen, arguments, 'nodes by turns', seconds)
        waiting = _without_turn(system, waiting, costs, night, suspects)
        done = len(names) - len({*names} & {node.name for node in waiting})
        _say(f'{done} of {len(names)} had their turn{f" ({stopped})" if stopped else ""}')
        for name, of_node in sorted(runs.items()):
            for why in filter(None, (measure.faults(of_node), measure.disturbed(of_node))):
                _say(f'{name}: {why}')
    elif waiting:
        _say(f'{hours}: no time is left for another node')
    if waiting:
        _say(f'left for the next night: {several([node.name for node in waiting])}')
    later = of_scheduler.of_system(system)        # some may have gone down meanwhile
    for line in words.coverage(system.name, listing.of_system(system, later), later.unknown):
        _say(line)
    return stopped or known.unknown


def _say(text: str) -> None:
    console.say(f'parity: nodes: {text}')


def _without_turn(system: System, nodes: list[ListedNode], costs: Costs, night: str,
                  suspects: Collection[str] = ()) -> list[ListedNode]:
    """Return the nodes that take jobs and have not run all cases since the night began: ``suspects`` first, then
    those longest without.

    A failed or disturbed run counts, else such nodes would take the turns of all others. One that was taken back
    does not."""
    starts = database.starts()
    rows = history.rows(starts).filter(
        figures.ON_ONE_NODE, pl.col('system') == system.name, ~pl.col('kind').is_in(_TAKEN_BACK))
    rows = figures.undistributed(rows).select('partition', 'environ', 'case', 'node', 'session').unique().collect()
    last: dict[tuple, float] = defaultdict(float)
    for *case, session in rows.iter_rows():
        last[tuple(case)] = max(last[tuple(case)], starts[session])
    waiting = []
    for node in nodes:
        if node.state and node.state.takes and (partitions := _cost(system, node, costs)):
            turn = min(last[(*case, node.name)] for case in costs if case[0] in partitions)
            if turn < starts[night]:
                waiting.append((node.name not in suspects, turn, node.name, node))
    return [node for *_, node in sorted(waiting, key=itemgetter(0, 1, 2))]


def _chosen(system: System, waiting: list[ListedNode], costs: Costs, budget: float, left: float
            ) -> list[ListedNode]:
    """Return the first of the nodes, as many as the budget (node-seconds) and the seconds that are left allow."""
    chosen, ends, at_once = [], defaultdict(float), {p.name: p.max_jobs for p in system.partitions}
    for node in waiting:
        by_partition = _cost(system, node, costs)
        later = {name: ends[name] + cost / at_once[name] for name, cost in by_partition.items()}
        if (budget := budget - sum(by_partition.values())) < 0 or max(later.values()) > left:
            break
        ends.update(later)
        chosen.append(node)
    return chosen


def _costs(system: System, night: str) -> tuple[float, Costs]:
    """Return the node-seconds that the night used, reruns included, and the cost of its cases on one node."""
    runs = [run for run in database.read(night).runs if run.seconds and run.nodes]
    spent = sum(run.seconds * len(run.nodes) for run in runs)
    again = history.load(system.name, reruns=True, labelled=True, disturbed=True).filter(rerun_of=night)
    jobs = again.unique(('session', 'jobid')).select('seconds', 'node').drop_nulls()
    spent += sum(seconds * len(node.split(',')) for seconds, node in jobs.iter_rows())
    alone = grouped((run for run in runs if len(run.nodes) == 1 and not run.fixture),
                    attrgetter('partition', 'environ', 'case'))
    return spent, {case: median(run.seconds for run in same) for case, same in alone.items()}


def _cost(system: System, node: ListedNode, costs: Costs) -> dict[str, float]:
    """Return the seconds that a node takes, by each partition that has it."""
    total: dict[str, float] = defaultdict(float)
    for (partition, *_), seconds in costs.items():
        total[partition] += seconds
    return {p.name: total[p.name] for p in system.partitions if p.name in total and p.scheduler in ROTATES
            and (not node.state.queues or of_scheduler.queue_of(p) in ('', *node.state.queues))}
