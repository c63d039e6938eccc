"""The record of the PBS, kept in the state folder. Everything else follows from it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from model import STATE, Node

RECORD = STATE / 'state.json'
HEAD = 'pbshead'
#: No packet leaves the namespaces, so the network may be in use elsewhere.
NETWORK = '10.77.63'


@dataclass(frozen=True)
class Pbs:
    nodes: int              # execution hosts
    shared: str
    installed: str          # PBS_EXEC

    def head(self) -> Node:
        return self._node(HEAD, 'head', 0)

    def computes(self) -> list[Node]:
        return [self._node(f'pbs{i}', 'physical', i) for i in range(1, self.nodes + 1)]

    def all(self) -> list[Node]:
        return [self.head(), *self.computes()]

    def node(self, name: str) -> Node | None:
        return next((node for node in self.all() if node.name == name), None)

    def _node(self, name: str, kind: str, number: int) -> Node:
        here = sorted(os.sched_getaffinity(0))
        cores = [here[(number - 1) % len(here)]] if number else here
        return Node(name, kind, f'{NETWORK}.{10 + number}', 1, cores, None)

    def save(self) -> None:
        """Write the record whole or not at all."""
        new = RECORD.with_suffix('.new')
        new.write_text(json.dumps(asdict(self), indent=2) + '\n')
        new.replace(RECORD)


def load() -> Pbs | None:
    try:
        return Pbs(**json.loads(RECORD.read_text()))
    except (OSError, ValueError, TypeError):
        return None  # not up, or cut off before its record was written
