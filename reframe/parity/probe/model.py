"""The nodes and queues of a batch system, whichever it is, and its login node."""

from __future__ import annotations

from typing import NamedTuple

#: Marks the comments that ask a person for something.
TODO = 'TODO'


class Node(NamedTuple):
    """A compute node. ``gpus`` is (type, number) pairs; ``labels`` are the operator's words."""

    name: str
    queues: tuple[str, ...]
    cores: int
    threads: int                        # hardware threads a core, as far as the batch system knows
    memory_bytes: int
    gpus: tuple[tuple[str, int], ...] = ()
    labels: tuple[str, ...] = ()
    up: bool = True
    state: str = ''                     # in the batch system's words


class Queue(NamedTuple):
    """A partition of Slurm or a queue of PBS. Times in seconds; None: without a limit."""

    name: str
    default: bool = False
    longest: int | None = None
    most_nodes: int | None = None
    closed: str = ''                    # why this user's jobs do not run in it
    exclusive: bool = False             # jobs have whole nodes without asking
    up: bool = True                     # whether it takes and starts jobs today
    memory: str = ''                    # of a job that asks for none, where that is not all


class Like(NamedTuple):
    """Like nodes behind one queue: a partition of system.yaml. ``options`` tell them from the queue's others."""

    name: str
    queue: Queue
    nodes: tuple[Node, ...]
    options: tuple[str, ...] = ()
    mixed: str = ''                     # the kinds its jobs may get, where no option tells them apart


class Cluster(NamedTuple):
    """A batch system as its login node shows it. ``notes`` are for the file's head."""

    scheduler: str                      # ReFrame's name of the backend
    version: str
    name: str
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    source: str                         # the command that listed the nodes
    account: str = ''                   # this user's default
    accounts: tuple[str, ...] = ()      # all of this user's; () where none is known
    licences: tuple[str, ...] = ()
    launcher: str = ''
    launcher_source: str = ''
    mpi_type: str = ''                  # for srun, which does not know it
    notes: tuple[str, ...] = ()


class Filesystem(NamedTuple):
    name: str
    path: str
    source: str


class Link(NamedTuple):
    """The rate of a port in MB/s, one way, and its source."""

    rate: float
    source: str


class Host(NamedTuple):
    """The login node itself."""

    name: str
    filesystems: list[Filesystem]
    unknown: list[str]                      # file systems on which no folder of this user's is known
    link: Link | None = None
    no_link: str = ''
    arches: dict[str, tuple[str, str]] = {}     # GPU type -> architecture, source
    modules_system: str = 'nomod'
    mpi_modules: list[str] = []
    codes: tuple[str, ...] = ()             # that start on this node, from its own packages
    cores: int = 0                          # of this node
    llc_bytes: int = 0                      # its last-level caches together
