"""The clauses of a contract beside what there is: checks, programs and nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from parity.base import paths
from parity.base.text import node_name
from parity.judge.contract import evidence, judged
from parity.judge.contract.evidence import Measured
from parity.judge.contract.model import ClauseVerdict
from parity.measure.rfm import planning
from parity.measure.scheduler import nodes as of_scheduler
from parity.site import contract as contracts
from parity.site import systems
from parity.site.contract import Contract
from parity.site.nodes import NodeState, Scheduled
from parity.site.systems import ROTATES, Partition, System


@dataclass(frozen=True)
class Survey:
    """A system and its contract. ``nodes``: the states of each partition's nodes, by their short names; none of a
    partition that cannot be asked. ``lacking``: by clause, why nothing can run it."""

    system: System
    contract: Contract
    files: dict[str, str]               # of each check
    nodes: dict[str, dict[str, NodeState]]
    lacking: dict[str, str]
    unknown: str = ''                   # why no scheduler told its nodes
    runs: dict[str, list[Measured]] = field(default_factory=dict)

    def verdicts(self) -> list[ClauseVerdict]:
        """Return how each clause stands by the runs."""
        names = {partition: list(states) for partition, states in self.nodes.items()}
        return judged.of_contract(self.system.name, self.contract, self.runs, names, self.lacking)

    def is_spread(self, partition: str) -> bool:
        """Return whether jobs of the partition can be sent to each node by its name."""
        return bool(self.nodes.get(partition))


def of_system(name: str) -> Survey:
    """Return the survey of a system's contract, with the runs that are stored.

    UsageError, with file and line, for a clause that names what is not there."""
    system = systems.read(name)
    contract = contracts.read(system)
    asked = [clause.asked for clause in contract.clauses]
    plan = planning.of_cases(asked, name)
    scheduled = of_scheduler.of_system(system)
    nodes = {}
    for partition in system.partitions:
        nodes[partition.name] = _nodes(system, partition, scheduled.nodes)
    contracts.demand(system, contract, plan, nodes)
    contracts.demand_values(system, contract, plan)
    lacking = {}
    for clause, answer in zip(contract.clauses, plan.answers, strict=True):
        if answer.reason:
            lacking[clause.id] = answer.reason
    files = {check.check: str(paths.root() / check.file) for check in plan.checks}
    unknown = _unknown(system, contract, scheduled)
    return Survey(system, contract, files, nodes, lacking, unknown, evidence.of_system(name, contract))


def _nodes(system: System, partition: Partition, states: Sequence[NodeState]) -> dict[str, NodeState]:
    """Return the nodes of a partition, without retired ones."""
    if partition.scheduler not in ROTATES:
        return {}
    queue = of_scheduler.queue_of(partition)
    retired = systems.gone(system, time.time())
    nodes = {}
    for state in states:
        name = node_name(state.name)
        if name not in retired and (not state.queues or queue in ('', *state.queues)):
            nodes[name] = state
    return nodes


def _unknown(system: System, contract: Contract, scheduled: Scheduled) -> str:
    """Return why the nodes of a clause are not known; '' where no clause asks for them."""
    queued = {partition.name for partition in system.partitions if partition.scheduler in ROTATES}
    for clause in contract.clauses:
        if clause.partition in queued and not clause.is_together:
            return scheduled.unknown
    return ''
