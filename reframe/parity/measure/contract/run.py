"""Measure what is open of a contract: a session of ReFrame for each case and round.

Runs of one session share a clock and their neighbours, so each run of a node has a session of its own. What is
stored is not measured again: after a kill the same command goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from parity.base import console, paths
from parity.base.errors import InfrastructureError
from parity.base.figures import counted, number, several
from parity.base.times import seconds as seconds_of
from parity.judge.contract import evidence
from parity.judge.contract.evidence import Measured
from parity.judge.store import database
from parity.measure.contract.survey import Survey
from parity.measure.session import runner
from parity.site.contract import Clause

#: A run that others disturbed is measured again so often.
_TRIES = 3


@dataclass
class Step:
    """A case that clauses share. ``targets``: by clause and node, so many runs.

    ``left``: clauses and nodes with a run that failed, was wrong or impossible now. They have no more turns."""

    key: str
    nodes: list[str]                    # [''] where ReFrame takes whichever nodes
    clauses: list[Clause] = field(default_factory=list)
    targets: dict[tuple[str, str], int] = field(default_factory=dict)
    left: set[tuple[str, str]] = field(default_factory=set)

    @property
    def clause(self) -> Clause:
        return self.clauses[0]

    @property
    def target(self) -> int:
        return max(self.targets.values())

    @property
    def nodes_of_job(self) -> int:
        nodes = self.clause.set.get('nodes', '')
        return int(nodes) if nodes.isdecimal() else 1


def steps(survey: Survey) -> list[Step]:
    """Return what is to be measured until each open clause has its next look."""
    by_key: dict[str, Step] = {}
    for verdict in survey.verdicts():
        clause = verdict.clause
        targets = {}
        for node in _nodes(survey, clause):
            targets[clause.id, node] = verdict.target(node)
        nodes = [node for (_, node), target in targets.items() if target]
        if not nodes:
            continue
        key = clause.key(survey.system.name)
        step = by_key.setdefault(key, Step(key, nodes))
        step.clauses.append(clause)
        step.targets.update(targets)
        step.nodes = list(dict.fromkeys([*step.nodes, *nodes]))
    return [step for step in by_key.values() if _lacking(survey, step, step.target)]


def _nodes(survey: Survey, clause: Clause) -> list[str]:
    """Return the nodes that take jobs now, of those that a clause speaks of."""
    if clause.is_together or not survey.is_spread(clause.partition):
        return ['']
    states = survey.nodes[clause.partition]
    return [name for name in clause.nodes or states if name in states and states[name].takes]


def _lacking(survey: Survey, step: Step, wanted: int) -> list[str]:
    """Return the nodes that have fewer runs than ``wanted`` for a clause."""
    return [node for node in step.nodes if _missing(survey, step, node, wanted)]


def _missing(survey: Survey, step: Step, node: str, wanted: int) -> int:
    """Return the runs of a node that are missing, for the clause that misses most."""
    measured = evidence.alike(survey.runs.get(step.key, ()))
    of_node = [one.run for one in measured if node in ('', one.node)]
    most = 0
    for clause in step.clauses:
        if (clause.id, node) in step.targets and (clause.id, node) not in step.left:
            count = sum(not evidence.outcome(run, clause).word for run in of_node)
            most = max(most, min(wanted, step.targets[clause.id, node]) - count)
    return most


# ---- before anything is measured

def announced(survey: Survey, todo: Sequence[Step]) -> Iterator[str]:
    """Yield what is about to be measured, and its node-hours."""
    for clause in survey.contract.clauses:
        if why := survey.lacking.get(clause.id):
            yield f'  {clause.id}: cannot be measured: {why}'
    for partition, states in survey.nodes.items():
        away = [f'{name} ({state.state})' for name, state in states.items() if not state.takes]
        if away:
            yield f'  {partition}: {several(away)}: no jobs now; left out'
    unmeasured = []
    node_seconds = 0.0
    runs = 0
    for step in todo:
        missing = sum(_missing(survey, step, node, step.target) for node in step.nodes)
        one_run, known = _seconds(survey, step)
        runs += missing
        node_seconds += missing * one_run * step.nodes_of_job
        if not known:
            unmeasured.append(step.clause.id)
    names = ', '.join(clause.id for step in todo for clause in step.clauses)
    yield f'{survey.system.name}: {names}'
    line = f'  {counted(runs, "run")}, about {number(node_seconds / 3600)} node-hours'
    if unmeasured:
        line += f'; never measured, counted with the time limit of their partition: {several(unmeasured)}'
    yield line
    yield f'  {database.demand_room_for(sum(step.target for step in todo))}'


def _seconds(survey: Survey, step: Step) -> tuple[float, bool]:
    """Return the seconds of a run, and whether they were measured; else the time limit of its partition."""
    measured = [one.run.seconds for one in survey.runs.get(step.key, ()) if one.run.seconds]
    if measured:
        return median(measured), True
    partition = next(p for p in survey.system.partitions if p.name == step.clause.partition)
    return seconds_of(partition.time_limit) if partition.time_limit else 3600.0, False


# ---- the rounds

def measure(survey: Survey, todo: Sequence[Step], by: str) -> None:
    """Measure the steps in rounds: each round gives every node of each step one more run.

    InfrastructureError where another run measures, or ReFrame was stopped: the same command goes on."""
    name = survey.system.name
    lock = runner.lock_results(f'parity contract run --system {name}', ['--system', name])
    try:
        for step in todo:       # what a killed session left was recovered with the lock
            survey.runs[step.key] = evidence.of_key(step.key)
        for wanted in range(1, max(step.target for step in todo) + 1):
            for step in todo:
                if wanted <= step.target:
                    _round(survey, step, wanted, by)
    finally:
        lock.release()


def _round(survey: Survey, step: Step, wanted: int, by: str) -> None:
    """Give each node of a step so many runs that count. Disturbed ones are measured again."""
    again = ''
    for _ in range(_TRIES):
        nodes = _lacking(survey, step, wanted)
        if not nodes:
            return
        where = several([node for node in nodes if node]) or step.clause.partition
        title = f'{step.clause.id}, run {wanted} of {step.target} on {where}{again}'
        console.say(f'parity: {title}')
        new = _session(survey, step, nodes, title, by)
        survey.runs[step.key] = [*survey.runs.get(step.key, ()), *new]
        step.left |= _given_up(step, nodes, new)
        is_disturbed = any(one.run.disturbed for one in new)
        again = ', again: disturbed' if is_disturbed else ', again: runs of other software do not count'


def _given_up(step: Step, nodes: Sequence[str], new: Sequence[Measured]) -> set[tuple[str, str]]:
    """Return the clauses and nodes whose run failed, or does not count for another reason; says why."""
    given_up = set()
    for node in nodes:
        of_node = [one for one in new if node in ('', one.node)]
        if not of_node:
            given_up |= {(clause.id, node) for clause in step.clauses}
            console.say(f'parity: {step.clause.id}: no case ran{f" on {node}" if node else ""}; see '
                        f'{paths.results() / "reframe.log"}')
        for one in of_node:
            for clause in step.clauses:
                outcome = evidence.outcome(one.run, clause)
                if outcome.word not in ('', 'disturbed'):
                    given_up.add((clause.id, node))
                    console.say(f'parity: {clause.id}: {one.node}: {outcome.word}: {outcome.reason}')
    return given_up


def _session(survey: Survey, step: Step, nodes: Sequence[str], title: str, by: str) -> list[Measured]:
    """Run the case once on each node; return the new runs. InfrastructureError where ReFrame was stopped."""
    before = set(database.uuids())
    stopped = runner.reframe(_arguments(survey, step, nodes, by), None, title, shown=False)
    new = [uuid for uuid in database.uuids() if uuid not in before]
    if stopped or not new:
        database.demand_room()      # a disk that filled in the meantime is named
        raise InfrastructureError(f'{stopped or "ReFrame stored no session"} '
                                  f'({paths.results() / "reframe.log"}): the same command goes on from here')
    return evidence.of_sessions(new)


def _arguments(survey: Survey, step: Step, nodes: Sequence[str], by: str) -> list[str]:
    """Return ReFrame's arguments for a session."""
    clause = step.clause
    place = f'{survey.system.name}:{clause.partition}'
    arguments = ['-c', survey.files[clause.check], '-r', '--system', place, '-n', _name(clause)]
    if clause.environ:
        arguments += ['-p', f'^{re.escape(clause.environ)}$']
    for name, value in clause.variables.items():
        arguments += ['-S', f'{clause.check}.{name}={value}']
    if nodes != ['']:
        states = survey.nodes[clause.partition]
        listed = ','.join(states[node].name for node in nodes)
        arguments += ['--distribute=all', '-J', f'nodelist={listed}']
    return arguments + evidence.extras(step.key, by)


def _name(clause: Clause) -> str:
    """Return the pattern of the clause's case for -n."""
    having = ''
    for name, value in clause.parameters.items():
        having += f'(?=.*%{name}={_selecting(value)}(%|$))'
    return f'^{clause.check}{having}(%|$)'


def _selecting(value: str) -> str:
    """Return the pattern of a parameter's value for -n: it leaves out blanks, and takes @ for a case's number."""
    return re.escape(value.replace(' ', '')).replace('@', '.')
