"""Where ranks run: asked of the launcher by variables, and read back from the job that ran. Launchers bind by
their own rules and ignore in silence what they do not know, so every rank notes where it is before it becomes the
program (programs/rank.sh)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from parity.base import ranges

BINDINGS = ('core', 'socket', 'none')
ORDERS = ('block', 'cyclic')

#: Open MPI 4, Open MPI 5 (PRRTE), Intel MPI, Slurm's srun: each reads its own and no other's.
_BIND = {
    'OMPI_MCA_hwloc_base_binding_policy': {'core': 'core', 'socket': 'socket', 'none': 'none'},
    'PRTE_MCA_hwloc_default_binding_policy': {'core': 'core', 'socket': 'package', 'none': 'none'},
    'I_MPI_PIN_DOMAIN': {'core': 'core', 'socket': 'socket', 'none': 'node'},
    'SLURM_CPU_BIND': {'core': 'cores', 'socket': 'sockets', 'none': 'none'},
}
_ORDER = {
    'OMPI_MCA_rmaps_base_mapping_policy': {'block': 'slot', 'cyclic': 'node'},
    'PRTE_MCA_rmaps_default_mapping_policy': {'block': 'slot', 'cyclic': 'node'},
    'I_MPI_PERHOST': {'block': 'allcores', 'cyclic': '1'},
    'SLURM_DISTRIBUTION': {'block': 'block', 'cyclic': 'cyclic'},
}
#: Those of them that take a number of ranks a node.
_PER_NODE = ('OMPI_MCA_rmaps_base_mapping_policy', 'PRTE_MCA_rmaps_default_mapping_policy')


@dataclass(frozen=True)
class Asked:
    """``ranks`` in all on ``nodes``; bound to a core each, to a socket, or not; in block or cyclic order."""

    nodes: int
    ranks: int
    binding: str = 'core'
    order: str = 'block'


@dataclass(frozen=True)
class Rank:
    """One rank as it noted itself: its number, its node and the CPUs it may run on."""

    number: int
    node: str
    cpus: frozenset[int]


@dataclass(frozen=True)
class Ran:
    """The ranks of a job, and of each CPU of a node its (core, socket)."""

    ranks: tuple[Rank, ...]
    topology: dict[int, tuple[int, int]]
    allowed: frozenset[int] = frozenset()       # the CPUs of a node that the job may use

    def told(self) -> list[dict]:
        """For the results: rank, node and CPUs, as short as they can be said."""
        return [{'rank': r.number, 'node': r.node, 'cpus': ranges.text(r.cpus)} for r in self.ranks]


def needs_node_file(partition) -> bool:
    """Whether mpirun is told the nodes of its job: under PBS one without `tm` sees this node only."""
    return (partition.scheduler.registered_name.startswith('pbs')
            and partition.launcher_type.registered_name == 'mpirun')


def variables(asked: Asked, node_file: bool = False) -> dict[str, str]:
    """What asks the launchers that are known for this placement. With a ``node_file``, Open MPI takes a node that
    is named once for one with as many slots as it has cores: so it is told how many ranks go there."""
    found = {**{name: words[asked.binding] for name, words in _BIND.items()},
             **{name: words[asked.order] for name, words in _ORDER.items()}}
    if node_file and asked.order == 'block':
        found.update(dict.fromkeys(_PER_NODE, f'ppr:{-(-asked.ranks // asked.nodes)}:node'))
    return found


def read(folder: Path) -> Ran:
    """What the ranks of a job wrote into ``folder``; a file that is no such note is no rank."""
    ranks = []
    for file in folder.glob('[0-9]*'):
        words = file.read_text(errors='replace').split()
        if len(words) == 3 and words[0] == file.name and words[0].isdecimal():
            ranks.append(Rank(int(words[0]), words[1], ranges.cpus(words[2])))
    ranks.sort(key=lambda rank: rank.number)
    return Ran(tuple(ranks), _topology(folder / 'topology'), _allowed(folder / 'allowed'))


def problem(asked: Asked, ran: Ran) -> str:
    """How the job ran elsewhere than asked; '' where it did not."""
    numbers = [r.number for r in ran.ranks]
    if numbers != list(range(asked.ranks)):
        return f'{len(numbers)} of {asked.ranks} ranks noted where they ran'
    return _nodes(asked, ran.ranks) or _order(asked, ran.ranks) or _binding(asked.binding, ran)


def _nodes(asked: Asked, ranks: tuple[Rank, ...]) -> str:
    counts = Counter(r.node for r in ranks)
    if len(counts) != asked.nodes:
        return f'ran on {len(counts)} nodes ({", ".join(counts)}), asked for {asked.nodes}'
    each = -(-asked.ranks // asked.nodes)
    if max(counts.values()) > each:
        return f'{max(counts.values())} ranks on one node, asked for {each}: {dict(counts)}'
    return ''


def _order(asked: Asked, ranks: tuple[Rank, ...]) -> str:
    if asked.nodes == 1:
        return ''
    nodes = list(dict.fromkeys(r.node for r in ranks))
    each = -(-asked.ranks // asked.nodes)
    places = {'block': lambda r: nodes[r.number // each], 'cyclic': lambda r: nodes[r.number % asked.nodes]}
    bad = [r for r in ranks if r.node != places[asked.order](r)]
    return f'rank {bad[0].number} is on {bad[0].node}: not in {asked.order} order' if bad else ''


def _binding(binding: str, ran: Ran) -> str:
    if not ran.topology or not ran.allowed:
        return 'the node did not tell its cores: the binding is not known'
    wanted = {'none': len(ran.allowed), 'socket': min(Counter(ran.topology[c][1] for c in ran.allowed
                                                              if c in ran.topology).values(), default=0)}
    tight = next((r for r in ran.ranks if len(r.cpus) < wanted.get(binding, 1)), None)
    if tight:
        return f'rank {tight.number} may run on CPUs {ranges.text(tight.cpus)} only: not bound to {binding}'
    if binding == 'none':
        return ''
    which = BINDINGS.index(binding)             # 0: cores, 1: sockets
    held = {r.number: {ran.topology.get(cpu, (-1, -1))[which] for cpu in r.cpus} for r in ran.ranks}
    loose = next((r for r in ran.ranks if len(held[r.number]) != 1), None)
    if loose:
        return f'rank {loose.number} may run on CPUs {ranges.text(loose.cpus)}: not bound to one {binding}'
    shared = Counter((r.node, *held[r.number]) for r in ran.ranks).most_common(1)[0]
    return f'{shared[1]} ranks are bound to core {shared[0][1]} of {shared[0][0]}' \
        if binding == 'core' and shared[1] > 1 else ''


def _topology(file: Path) -> dict[int, tuple[int, int]]:
    """`lscpu -p=CPU,CORE,SOCKET`; {} where it is not there."""
    try:
        rows = [line.split(',') for line in file.read_text().splitlines() if line and line[0] != '#']
        return {int(cpu): (int(core), int(socket or 0)) for cpu, core, socket in rows}
    except (OSError, ValueError):
        return {}


def _allowed(file: Path) -> frozenset[int]:
    """The line Cpus_allowed_list of /proc/self/status."""
    try:
        return ranges.cpus(file.read_text().split()[-1])
    except (OSError, IndexError):
        return frozenset()
