"""The nodes of a system's partitions, asked of its scheduler."""

from __future__ import annotations

from parity.measure.scheduler import command, pbs, slurm
from parity.measure.scheduler.command import SchedulerError
from parity.site.nodes import NodeState, Scheduled
from parity.site.systems import Partition, System


def of_system(system: System) -> Scheduled:
    """Return the nodes of the system's partitions as their scheduler sees them, or none and why."""
    nodes: dict[str, NodeState] = {}
    try:
        for schedulers, asked in ((('slurm', 'squeue'), slurm.nodes), (('pbs',), pbs.nodes)):
            queues = {queue_of(partition) for partition in system.partitions if partition.scheduler in schedulers}
            for node in asked() if queues else ():
                if '' in queues or not node.queues or queues & set(node.queues):
                    nodes[node.name] = node
    except SchedulerError as err:
        return Scheduled(unknown=str(err))
    if not nodes:
        return Scheduled(unknown=f'no partition of {system.name} has a node in a queue of Slurm or PBS')
    return Scheduled(tuple(nodes.values()))


def queue_of(partition: Partition) -> str:
    """Return the queue that the partition's `access` names, or ''."""
    kind = 'pbs' if partition.scheduler == 'pbs' else 'slurm'
    return command.read(kind, partition.access).where.get('queue', '')
