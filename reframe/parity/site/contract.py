"""The promises of a delivery: systems/NAME/contract.yaml (docs/accepting-a-new-machine.md)."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from parity.base import units, yamlfile
from parity.base.errors import UsageError, near, unknown
from parity.base.figures import several
from parity.base.strict import Strict
from parity.base.yamlfile import Text
from parity.site import identity, systems
from parity.site.plan import OWN, Asked, LoadedCheck, Plan
from parity.site.systems import Name, NodeName, System, Variable

_NotNegative = Field(ge=0, allow_inf_nan=False)
TOGETHER, EACH, MEDIAN = 'all together', 'each node', 'median of nodes'
_SHARE = re.compile(r'(\d{1,3}(?:\.\d{1,3})?) % of nodes', re.ASCII)


def _place(text: str) -> str:
    share = _SHARE.fullmatch(text)
    if text in (TOGETHER, EACH, MEDIAN) or share and 0 < float(share[1]) <= 100:
        return text
    raise ValueError(f'{text!r}; valid: {EACH}, {MEDIAN}, 95 % of nodes, {TOGETHER}')


class Clause(Strict):
    """One promise, and the measurement that shows whether it is met."""

    id: Name
    promise: str = Field(min_length=3)          # in the contract's own words
    page: Text = ''                             # of the offer
    partition: Name
    check: Annotated[str, StringConstraints(pattern=r'^\w+$')]      # its class, as `reframe -l` prints it
    parameters: dict[str, Text] = {}            # one value of each parameter of the check
    set: dict[Variable, Text] = {}              # variables of the check, such as nodes: 4
    #: Of the check's work; `own` for a test that is not parity's.
    size: Literal['quick', 'nightly', 'acceptance', 'own'] = 'acceptance'
    environ: Name | None = None                 # needed where several environments can run the check
    metric: Annotated[str, StringConstraints(pattern=r'^\w+$')]
    at_least: Annotated[float, _NotNegative] | None = None
    at_most: Annotated[float, _NotNegative] | None = None
    unit: str                                   # of the metric, or one of the same kind
    #: `each node`, `median of nodes`, a share such as `95 % of nodes`, or `all together`: one job's figure.
    holds: Annotated[str, AfterValidator(_place)] = 'each node'
    nodes: list[NodeName] = []                  # these alone; none: all nodes of the partition
    runs: Annotated[int, Field(ge=2, le=1000)] = 5      # of each node at its first look

    @model_validator(mode='after')
    def _one_bound(self) -> 'Clause':
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError('must have one bound: at_least or at_most')
        if self.is_together and self.nodes:
            raise ValueError(f'nodes: not where it holds {TOGETHER}: the job takes what the scheduler gives; '
                             'set: {nodes: 4} says how many')
        return self

    @property
    def is_together(self) -> bool:
        """Return whether one job of several nodes gives the figure."""
        return self.holds == TOGETHER

    @property
    def share(self) -> float:
        """Return the share of the nodes that must keep the promise. At least half do if their median does."""
        share = _SHARE.fullmatch(self.holds)
        if share:
            return float(share[1]) / 100
        return 0.5 if self.holds == MEDIAN else 1.0

    @property
    def bound(self) -> float:
        return self.at_least if self.at_least is not None else self.at_most

    @property
    def better(self) -> str:
        return 'higher' if self.at_least is not None else 'lower'

    @property
    def variables(self) -> dict[str, str]:
        """Return what the command line sets for the check."""
        return dict(self.set) if self.size == OWN else {'size': self.size, **self.set}

    @property
    def asked(self) -> Asked:
        """Return the case as the plan is asked for it."""
        return Asked(check=self.check, parameters=self.parameters, variables=self.variables,
                     partition=self.partition, environ=self.environ or '')

    def key(self, system: str) -> str:
        """Return a digest of what is measured: clauses with the same one share their runs."""
        measured = [system, self.partition, self.environ, self.check, self.parameters, self.variables,
                    self.is_together]
        return identity.digest(json.dumps(measured, sort_keys=True).encode())


class Contract(Strict):
    """systems/NAME/contract.yaml."""

    offer: str = ''                             # its title, number and day
    clauses: list[Clause] = Field(min_length=1)


def file_of(system: str) -> Path:
    return systems.folder(system) / 'contract.yaml'


def read(system: System) -> Contract:
    """Return the contract of a system. UsageError gives file, line and what is valid."""
    file = file_of(system.name)
    if not file.exists():
        raise UsageError(f'{file}: no such file; write the promises there '
                         '(docs/accepting-a-new-machine.md has an example)')
    contract = yamlfile.read(file, Contract)
    partitions = [partition.name for partition in system.partitions]
    _refuse(system.name, list(_mistakes(contract, partitions)))
    return contract


def _refuse(system: str, wrong: Sequence[tuple[tuple, str]]) -> None:
    """Raise UsageError, with file and line, for each (keys, sentence); nothing for none."""
    if not wrong:
        return
    file = file_of(system)
    node = yamlfile.load(file)[1]
    lines = [f'{file}:{yamlfile.line_of(node, ("clauses", *keys))}: {why}' for keys, why in wrong]
    raise UsageError('\n'.join(lines))


def _mistakes(contract: Contract, partitions: list[str]) -> Iterator[tuple[tuple, str]]:
    """Yield the keys of each wrong entry, and why it is wrong."""
    first: dict[str, int] = {}
    for place, clause in enumerate(contract.clauses):
        if clause.id in first:
            yield (place, 'id'), (f'id: {clause.id} is clause {first[clause.id] + 1}, too; '
                                  'each clause needs an id of its own')
        first.setdefault(clause.id, place)
        if clause.partition not in partitions:
            yield (place, 'partition'), f'partition: {unknown("partition", clause.partition, partitions)}'
        for node in clause.nodes:
            if clause.nodes.count(node) > 1:
                yield (place, 'nodes'), f'nodes: {node} is given twice'
                break


def demand(system: System, contract: Contract, plan: Plan, nodes: Mapping[str, Collection[str]]) -> None:
    """Raise UsageError, with file and line, for what the clauses name and is not there.

    ``plan``: of the checks of the clauses. ``nodes``: of each partition, none where nobody knows them."""
    checks = {check.check: check for check in plan.checks}
    wrong = []
    for place, clause in enumerate(contract.clauses):
        for keys, why in _lost(clause, checks, plan, list(nodes.get(clause.partition, ()))):
            wrong.append(((place, *keys), f'{clause.id}: {why}'))
    _refuse(system.name, wrong)
    faults = [str(problem) for problem in plan.problems if problem.refuses]
    if faults:
        raise UsageError('\n'.join(faults))


def _lost(clause: Clause, checks: Mapping[str, LoadedCheck], plan: Plan, nodes: list[str]
          ) -> Iterator[tuple[tuple, str]]:
    """Yield the keys of each entry of a clause that names nothing, and what is valid."""
    if clause.check not in checks:
        yield ('check',), f'check: {unknown("check", clause.check, list(checks))}'
        return
    check = checks[clause.check]
    yield from _wrong_parameters(clause, check)
    yield from _wrong_metric(clause, check)
    for node in clause.nodes:
        if nodes and node not in nodes:
            hint = near(node, nodes) or ';'
            yield ('nodes',), f'nodes: unknown node {node!r}{hint} {clause.partition} has {several(nodes)}'
    environs = {case.environ for case in plan.cases
                if (case.check, case.partition) == (clause.check, clause.partition)} - {''}
    if clause.environ and environs and clause.environ not in environs:
        yield ('environ',), f'environ: {unknown("environment", clause.environ, sorted(environs))}'
    if not clause.environ and len(environs) > 1:
        yield ('check',), f'environ: must name one of {", ".join(sorted(environs))}: each can run {clause.check}'


def _wrong_parameters(clause: Clause, check: LoadedCheck) -> Iterator[tuple[tuple, str]]:
    for name, value in clause.parameters.items():
        if name not in check.parameters:
            yield ('parameters', name), f'parameters: {unknown("parameter", name, list(check.parameters))}'
        elif value not in check.parameters[name]:
            yield ('parameters', name), f'parameters: {unknown(f"{name}", value, check.parameters[name])}'
    for name, values in check.parameters.items():
        if name not in clause.parameters and len(values) > 1:
            yield ('check',), f'parameters: must name {name}, one of {", ".join(values)}'


def _wrong_metric(clause: Clause, check: LoadedCheck) -> Iterator[tuple[tuple, str]]:
    metrics = {metric.name: metric for metric in check.metrics}
    if clause.metric not in metrics:
        yield ('metric',), f'metric: {unknown("metric", clause.metric, list(metrics))}'
        return
    metric = metrics[clause.metric]
    if units.factor(clause.unit, metric.unit) is None:
        yield ('unit',), (f'unit: {clause.unit!r} is not of the kind of {metric.unit!r}, the unit of '
                          f'{clause.metric}; valid: {metric.unit}')
    if metric.better and metric.better != clause.better:
        given, valid = ('at_most', 'at_least') if metric.better == 'higher' else ('at_least', 'at_most')
        yield (given,), (f'{given}: {metric.better} is better of {clause.metric}: a promise is {valid}. What no '
                         'figure can exceed belongs to limits: of the partition in system.yaml')


def demand_values(system: System, contract: Contract, plan: Plan) -> None:
    """Raise UsageError for a variable that its check lacks, or whose value is none of its."""
    wrong = []
    for place, (clause, answer) in enumerate(zip(contract.clauses, plan.answers, strict=True)):
        if answer.wrong or answer.beyond:
            keys = ('set', answer.wrong or answer.beyond) if clause.set else ('size',)
            wrong.append(((place, *keys), f'{clause.id}: {keys[0]}: {answer.reason}'))
    _refuse(system.name, wrong)


def factor(clause: Clause, unit: str) -> float:
    """Return what brings figures in ``unit`` to the unit of the clause."""
    return units.factor(unit, clause.unit) or 1.0
