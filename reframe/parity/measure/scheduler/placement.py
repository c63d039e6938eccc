"""The placement of ranks: asked of the launcher by variables, and read back from the job that ran.

Launchers bind by their own rules and silently ignore variables they do not know. So every rank notes where it is
before it becomes the program (programs/rank.sh)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from parity.base import text
from parity.base.figures import counted

BINDINGS = ('core', 'socket', 'none')
ORDERS = ('block', 'cyclic')

#: Open MPI 4, Open MPI 5 (PRRTE), MPICH (Hydra), Intel MPI, Slurm's srun: each reads its own and no other's.
_ASKED_BY = {
    'OMPI_MCA_hwloc_base_binding_policy': {'core': 'core', 'socket': 'socket', 'none': 'none'},
    'PRTE_MCA_hwloc_default_binding_policy': {'core': 'core', 'socket': 'package', 'none': 'none'},
    'HYDRA_BINDING': {'core': 'core', 'socket': 'socket', 'none': 'none'},
    'I_MPI_PIN_DOMAIN': {'core': 'core', 'socket': 'socket', 'none': 'node'},
    'SLURM_CPU_BIND': {'core': 'cores', 'socket': 'sockets', 'none': 'none'},
    'OMPI_MCA_rmaps_base_mapping_policy': {'block': 'slot', 'cyclic': 'node'},
    'PRTE_MCA_rmaps_default_mapping_policy': {'block': 'slot', 'cyclic': 'node'},
    # the cores of a node one after another; Hydra has no variable for the order of nodes
    'HYDRA_MAPPING': {'block': 'core', 'cyclic': 'core'},
    'I_MPI_PERHOST': {'block': 'allcores', 'cyclic': '1'},
    'SLURM_DISTRIBUTION': {'block': 'block', 'cyclic': 'cyclic'},
}
#: The variables that take a number of ranks a node.
_PER_NODE = ('OMPI_MCA_rmaps_base_mapping_policy', 'PRTE_MCA_rmaps_default_mapping_policy')
#: What a job runs once, before its ranks: it notes the cores of the node, and the CPUs that the job may use.
NOTE_NODE = ('mkdir -p ranks && lscpu -p=CPU,CORE,SOCKET >ranks/topology',
             'grep Cpus_allowed_list /proc/self/status >ranks/allowed')
#: The variable by which an MPI's mpirun takes the binding, by the name that `mpirun --version` has.
BOUND_BY = {
    'Open MPI': ('OMPI_MCA_hwloc_base_binding_policy', 'PRTE_MCA_hwloc_default_binding_policy'),
    'MPICH': ('HYDRA_BINDING',),
    'Intel MPI': ('I_MPI_PIN_DOMAIN',),
}


class Misplaced(Exception):
    """The ranks ran elsewhere than asked, whatever they computed: infrastructure."""


@dataclass(frozen=True)
class RankLayout:
    """``ranks`` in all on ``nodes``; bound to a core each, to a socket, or not; in block or cyclic order."""

    nodes: int
    ranks: int
    binding: str = 'core'
    order: str = 'block'

    @property
    def ranks_per_node(self) -> int:
        """Return the most ranks on a node."""
        return -(-self.ranks // self.nodes)


class Rank(NamedTuple):
    """One rank's own note: its number, its node, the CPUs it may run on, and the UUID of its GPU."""

    number: int
    node: str
    cpus: frozenset[int]
    device: str = ''                # 'unknown' where nothing tells, '' where the case has none


class Ran(NamedTuple):
    """The ranks of a job, the (core, socket) of each CPU of a node, and the CPUs that the job may use."""

    ranks: tuple[Rank, ...]
    topology: dict[int, tuple[int, int]]
    allowed: frozenset[int] = frozenset()

    def as_records(self) -> list[dict]:
        """Return rank, node, CPUs and GPU for the results, in short form."""
        return [{'rank': r.number, 'node': r.node, 'cpus': text.cpu_list(r.cpus),
                 **({'device': r.device} if r.device else {})} for r in self.ranks]


def needs_node_file(partition) -> bool:
    """Return whether mpirun needs the job's nodes as an argument: under PBS one without `tm` sees only its own
    node."""
    return (partition.scheduler.registered_name.startswith('pbs')
            and partition.launcher_type.registered_name == 'mpirun')


def variables(asked: RankLayout, node_file: bool = False) -> dict[str, str]:
    """Return the variables that ask every known launcher for this placement. For a node that a ``node_file`` names
    once, Open MPI assumes as many slots as cores: so it is given the number of ranks."""
    found = {name: words.get(asked.binding) or words[asked.order] for name, words in _ASKED_BY.items()}
    if node_file and asked.order == 'block':
        found.update(dict.fromkeys(_PER_NODE, f'ppr:{asked.ranks_per_node}:node'))
    return found


def read(folder: Path) -> Ran:
    """Read the notes that a job's ranks wrote into ``folder``; any other file is no rank."""
    notes = ((file.name, file.read_text(errors='replace').split()) for file in folder.glob('[0-9]*'))
    ranks = sorted(Rank(int(name), words[1], text.cpus(words[2]), *words[3:]) for name, words in notes
                   if len(words) in (3, 4) and words[0] == name and name.isdecimal())
    topology, allowed = (file.read_text(errors='replace') if file.exists() else ''
                         for file in (folder / 'topology', folder / 'allowed'))
    # `lscpu -p=CPU,CORE,SOCKET`, and the line Cpus_allowed_list of /proc/self/status
    rows = re.findall(r'^(\d+),(\d+),(\d*)$', topology, re.MULTILINE)
    return Ran(tuple(ranks), {int(cpu): (int(core), int(socket or 0)) for cpu, core, socket in rows},
               text.cpus(''.join(allowed.split()[-1:])))


def problem(asked: RankLayout, ran: Ran) -> str:
    """Say how the job ran elsewhere than asked; '' where it did not."""
    if [r.number for r in ran.ranks] != list(range(asked.ranks)):
        return f'{len(ran.ranks)} of {counted(asked.ranks, "rank")} noted where they ran'
    counts = Counter(r.node for r in ran.ranks)
    if len(counts) != asked.nodes:
        return f'ran on {counted(len(counts), "node")} ({", ".join(counts)}), asked for {asked.nodes}'
    if max(counts.values()) > asked.ranks_per_node:
        return (f'{counted(max(counts.values()), "rank")} on one node, asked for {asked.ranks_per_node}: '
                f'{dict(counts)}')
    nodes = list(counts)
    for rank in ran.ranks:
        place = rank.number // asked.ranks_per_node if asked.order == 'block' else rank.number % asked.nodes
        if rank.node != nodes[place]:
            return f'rank {rank.number} is on {rank.node}: not in {asked.order} order'
    return _binding(asked.binding, ran) or _shared_device(ran)


def _shared_device(ran: Ran) -> str:
    seen = {}
    for rank in ran.ranks:
        if rank.device not in ('', 'unknown') and (other := seen.setdefault(rank.device, rank)) is not rank:
            return f'ranks {other.number} and {rank.number} are on one device of {rank.node}: {rank.device}'
    return ''


def _binding(binding: str, ran: Ran) -> str:
    if not ran.topology or not ran.allowed:
        return 'the node did not tell its cores: the binding is not known'
    sockets = Counter(ran.topology[cpu][1] for cpu in ran.allowed if cpu in ran.topology)
    least = {'core': 1, 'socket': min(sockets.values(), default=0), 'none': len(ran.allowed)}[binding]
    taken = Counter()
    for rank in ran.ranks:
        may = f'rank {rank.number} may run on CPUs {text.cpu_list(rank.cpus)}'
        if len(rank.cpus) < least:
            return f'{may} only: not bound to {binding}'
        if binding != 'none':
            held = {ran.topology.get(cpu, (-1, -1))[BINDINGS.index(binding)] for cpu in rank.cpus}
            if len(held) != 1:
                return f'{may}: not bound to one {binding}'
            taken[(rank.node, *held)] += 1
    (node, core), count = max(taken.items(), key=lambda item: item[1], default=(('', 0), 0))
    return f'{count} ranks are bound to core {core} of {node}' if binding == 'core' and count > 1 else ''
