"""The nodes of a system as its scheduler sees them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeState:
    """A node as its scheduler sees it. ``reason``: why it takes no jobs, ``by`` whom and ``since`` when."""

    name: str
    state: str                          # the scheduler's own word: idle, mixed+drain, job-busy
    takes: bool                         # it takes jobs, now or when its jobs have ended
    queues: tuple[str, ...] = ()        # (): not known
    reason: str = ''
    by: str = ''
    since: float | None = None          # Unix time


@dataclass(frozen=True)
class Scheduled:
    """The nodes of a system's partitions; where the scheduler does not tell them, why."""

    nodes: tuple[NodeState, ...] = ()
    unknown: str = ''
