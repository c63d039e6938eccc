"""The nodes of a system's partitions, asked of its scheduler."""

from __future__ import annotations

from collections.abc import Callable

from parity.measure.scheduler import command, pbs, slurm
from parity.measure.scheduler.command import SchedulerError
from parity.site.nodes import NodeState, Scheduled
from parity.site.systems import Partition, System


def of_system(system: System) -> Scheduled:
    """Return the nodes of the system's partitions as their scheduler sees them, or none and why."""
    try:
        nodes = _in_queues(system, ('slurm', 'squeue'), slurm.nodes) + _in_queues(system, ('pbs',), pbs.nodes)
    except SchedulerError as err:
        return Scheduled(unknown=str(err))
    if not nodes:
        return Scheduled(unknown=f'no partition of {system.name} has a node in a queue of Slurm or PBS')
    by_name = {node.name: node for node in nodes}
    return Scheduled(tuple(by_name.values()))


def _in_queues(system: System, schedulers: tuple[str, ...], ask: Callable[[], list[NodeState]]) -> list[NodeState]:
    """Ask for all nodes, and return those in the queues of the partitions that one of the schedulers has."""
    queues = {queue_of(partition) for partition in system.partitions if partition.scheduler in schedulers}
    if not queues:
        return []
    nodes = ask()
    if '' in queues:
        return nodes
    return [node for node in nodes if not node.queues or queues & set(node.queues)]


def queue_of(partition: Partition) -> str:
    """Return the queue that the partition's `access` names, or ''."""
    kind = 'pbs' if partition.scheduler == 'pbs' else 'slurm'
    return command.read(kind, partition.access).where.get('queue', '')
