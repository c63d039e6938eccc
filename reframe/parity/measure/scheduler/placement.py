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

    def node_of(self, rank: int) -> int:
        """Return the place of a rank's node among the nodes."""
        if self.order == 'block':
            return rank // self.ranks_per_node
        return rank % self.nodes


class Rank(NamedTuple):
    """One rank's own note: its number, its node, the CPUs it may run on, and the UUID of its GPU."""

    number: int
    node: str
    cpus: frozenset[int]
    device: str = ''                # 'unknown' where nothing tells, '' where the case has none


class Place(NamedTuple):
    """The core and the socket of a CPU, by their numbers on its node."""

    core: int
    socket: int


class Ran(NamedTuple):
    """The ranks of a job, the place of each CPU of a node, and the CPUs that the job may use."""

    ranks: tuple[Rank, ...]
    topology: dict[int, Place]
    allowed: frozenset[int] = frozenset()

    def as_records(self) -> list[dict]:
        """Return rank, node, CPUs and GPU for the results, in short form."""
        records = []
        for rank in self.ranks:
            record = {'rank': rank.number, 'node': rank.node, 'cpus': text.cpu_list(rank.cpus)}
            if rank.device:
                record['device'] = rank.device
            records.append(record)
        return records


def needs_node_file(partition) -> bool:
    """Return whether mpirun needs the job's nodes as an argument: under PBS one without `tm` sees only its own
    node."""
    return (partition.scheduler.registered_name.startswith('pbs')
            and partition.launcher_type.registered_name == 'mpirun')


def variables(asked: RankLayout, node_file: bool = False) -> dict[str, str]:
    """Return the variables that ask every known launcher for this placement. For a node that a ``node_file`` names
    once, Open MPI assumes as many slots as cores: so it is given the number of ranks."""
    values = {}
    for variable, words in _ASKED_BY.items():
        values[variable] = words.get(asked.binding) or words[asked.order]
    if node_file and asked.order == 'block':
        values.update(dict.fromkeys(_PER_NODE, f'ppr:{asked.ranks_per_node}:node'))
    return values


def read(folder: Path) -> Ran:
    """Read the notes that a job's ranks wrote into ``folder``; any other file is no rank."""
    ranks = []
    for file in folder.glob('[0-9]*'):
        words = file.read_text(errors='replace').split()
        if file.name.isdecimal() and len(words) in (3, 4) and words[0] == file.name:
            _, node, cpus, *device = words
            ranks.append(Rank(int(file.name), node, text.cpus(cpus), *device))
    return Ran(tuple(sorted(ranks)), _topology(folder / 'topology'), _allowed(folder / 'allowed'))


def _topology(file: Path) -> dict[int, Place]:
    """Read the output of `lscpu -p=CPU,CORE,SOCKET`."""
    rows = re.findall(r'^(\d+),(\d+),(\d*)$', _text(file), re.MULTILINE)
    return {int(cpu): Place(int(core), int(socket or 0)) for cpu, core, socket in rows}


def _allowed(file: Path) -> frozenset[int]:
    """Read the line Cpus_allowed_list of /proc/self/status."""
    words = _text(file).split()
    return text.cpus(words[-1]) if words else frozenset()


def _text(file: Path) -> str:
    return file.read_text(errors='replace') if file.exists() else ''


def problem(asked: RankLayout, ran: Ran) -> str:
    """Say how the job ran elsewhere than asked; '' where it did not."""
    numbers = [rank.number for rank in ran.ranks]
    if numbers != list(range(asked.ranks)):
        return f'{len(numbers)} of {counted(asked.ranks, "rank")} noted where they ran'
    ranks_on = Counter(rank.node for rank in ran.ranks)
    nodes = list(ranks_on)
    if len(nodes) != asked.nodes:
        return f'ran on {counted(len(nodes), "node")} ({", ".join(nodes)}), asked for {asked.nodes}'
    most = max(ranks_on.values())
    if most > asked.ranks_per_node:
        return f'{counted(most, "rank")} on one node, asked for {asked.ranks_per_node}: {dict(ranks_on)}'
    for rank in ran.ranks:
        if rank.node != nodes[asked.node_of(rank.number)]:
            return f'rank {rank.number} is on {rank.node}: not in {asked.order} order'
    return _binding(asked.binding, ran) or _shared_device(ran)


def _shared_device(ran: Ran) -> str:
    first_on = {}
    for rank in ran.ranks:
        if rank.device in ('', 'unknown'):
            continue
        other = first_on.setdefault(rank.device, rank)
        if other is not rank:
            return f'ranks {other.number} and {rank.number} are on one device of {rank.node}: {rank.device}'
    return ''


def _binding(binding: str, ran: Ran) -> str:
    if not ran.topology or not ran.allowed:
        return 'the node did not tell its cores: the binding is not known'
    least = _least_cpus(binding, ran)
    for rank in ran.ranks:
        may = f'rank {rank.number} may run on CPUs {text.cpu_list(rank.cpus)}'
        if len(rank.cpus) < least:
            return f'{may} only: not bound to {binding}'
        if binding != 'none' and len(_parts(binding, rank, ran)) != 1:
            return f'{may}: not bound to one {binding}'
    return _shared_core(ran) if binding == 'core' else ''


def _least_cpus(binding: str, ran: Ran) -> int:
    """Return the fewest CPUs on which a rank runs that is bound in this way."""
    if binding == 'core':
        return 1
    if binding == 'none':
        return len(ran.allowed)
    cpus_of = Counter(ran.topology[cpu].socket for cpu in ran.allowed if cpu in ran.topology)
    return min(cpus_of.values(), default=0)


def _parts(binding: str, rank: Rank, ran: Ran) -> set[int]:
    """Return the cores, or the sockets, on which a rank may run; -1 for a CPU that the node does not list."""
    places = [ran.topology.get(cpu, Place(-1, -1)) for cpu in rank.cpus]
    return {getattr(place, binding) for place in places}


def _shared_core(ran: Ran) -> str:
    """Say which core has several ranks, each bound to one core; '' where none has."""
    ranks_on = Counter((rank.node, *_parts('core', rank, ran)) for rank in ran.ranks)
    if not ranks_on:
        return ''
    (node, core), count = ranks_on.most_common(1)[0]
    return f'{count} ranks are bound to core {core} of {node}' if count > 1 else ''
