"""The record of the cluster, kept in the state folder. Everything else follows from it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

#: All processes keep their files here; `down` removes the folder. ci/pbs has its own.
STATE = Path(os.environ.get('PARITY_CLUSTER_STATE', '/run/parity-cluster'))
RECORD = STATE / 'state.json'
#: The cloud nodes of a site that come when a job wants them; four more never come.
CLOUD = 2
#: A node's memory: the same for both kinds, so that they fit the same problem sizes.
MEMORY_MIB = 1200
#: A guest's memory: its kernel and daemons take the rest.
GUEST_MIB = 1400


class Link(NamedTuple):
    """A node's connection with a bridge."""

    port: str               # the bridge's end
    device: str             # the node's end
    address: str
    rate: str | None

    @property
    def bridge(self) -> str:
        return f'br{self.device[-1]}'

    @property
    def mac(self) -> str:
        network, node = self.address.split('.')[2:]
        return f'02:70:61:72:{int(network):02x}:{int(node):02x}'


@dataclass(frozen=True)
class Node:
    name: str
    kind: str               # head, physical, virtual or cloud
    address: str
    cpus: int
    cores: list[int]        # of this machine; nodes may share them
    rate: str | None
    second: str | None = None       # rate of its link to the second network, where there is one

    @property
    def links(self) -> list[Link]:
        own = Link(self.name, 'eth0', self.address, self.rate)
        return [own, Link(f'{self.name}-2', 'eth1', second(self.address), self.second)] if self.second else [own]


@dataclass(frozen=True)
class Cluster:
    nodes: int              # a partition
    virtual_nodes: int
    cpus: int
    physical_rate: str | None
    virtual_rate: str | None
    shared: str
    backend: str            # kind of the virtual nodes: kvm, uml, or none; tcg in a test
    files: str              # how guests reach the shared folder: virtio, 9p or hostfs
    network: str            # the first three numbers of its addresses
    why: str = ''           # the reason against a better backend
    uml: str = ''           # the guests' linux.uml
    second_network: str | None = None       # the rate of eth1; None: the nodes have eth0 only
    slurm: str = ''         # the prefix of its Slurm; '': the one of the distribution
    site: bool = False      # it has the settings of slurm_conf.SITE

    def head(self) -> Node:
        return Node('head', 'head', f'{self.network}.1', 1, self._cores(0, 1), None)

    def computes(self) -> list[Node]:
        physical = [Node(f'p{i + 1}', 'physical', f'{self.network}.{10 + i + 1}', self.cpus,
                         self._cores(i * self.cpus, self.cpus), self.physical_rate, self.second_network)
                    for i in range(self.nodes)]
        cpus = 1 if self.backend == 'uml' else self.cpus  # a User-mode Linux kernel has no more
        virtual = [Node(f'v{i + 1}', 'virtual', f'{self.network}.{30 + i + 1}', cpus,
                        self._cores(i * cpus, cpus), self.virtual_rate, self.second_network)
                   for i in range(self.virtual_nodes)]
        cloud = [Node(f'nid{i:06}', 'cloud', f'{self.network}.{50 + i}', 1, self._cores(i, 1), None)
                 for i in (range(1, CLOUD + 1) if self.site else ())]
        return physical + virtual + cloud

    def all(self) -> list[Node]:
        return [self.head(), *self.computes()]

    def partitions(self) -> dict[str, int]:
        """Return the number of nodes of each partition that has some."""
        both = {'physical': self.nodes, 'virtual': self.virtual_nodes}
        return {name: count for name, count in both.items() if count}

    def node(self, name: str) -> Node | None:
        return next((node for node in self.all() if node.name == name), None)

    @property
    def patience(self) -> float:
        """Seconds that nodes may take to start."""
        return 600 if self.backend == 'tcg' else 30

    @property
    def host(self) -> str:
        """This machine's address on the cluster's network."""
        return f'{self.network}.254'

    @property
    def files_address(self) -> str:
        """The file server's address."""
        return f'{self.network}.2'

    def _cores(self, first: int, count: int) -> list[int]:
        here = sorted(os.sched_getaffinity(0))
        return sorted({here[(first + i) % len(here)] for i in range(count)})

    def save(self) -> None:
        """Write the record whole or not at all, with the nodes' own facts for readers."""
        record = {**asdict(self), 'members': [asdict(node) for node in self.all()]}
        new = RECORD.with_suffix('.new')
        new.write_text(json.dumps(record, indent=2) + '\n')
        new.replace(RECORD)


def second(address: str) -> str:
    """Return the address on the second network that belongs to one on the first."""
    one, two, three, rest = address.split('.', 3)
    return f'{one}.{two}.{int(three) + 1}.{rest}'


def load() -> Cluster | None:
    try:
        record = json.loads(RECORD.read_text())
        record.pop('members')
        return Cluster(**record)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not up, or cut off before its record was written
