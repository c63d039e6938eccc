"""Everything about the machine, gathered; what fails becomes a note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from parity.machine import cgroup, cpuinfo, memory, topology
from parity.machine.clock import clock
from parity.machine.kernel import kernel
from parity.machine.kind import kind
from parity.machine.model import Machine
from parity.machine.tree import Tree


def detect(root: Path | str = '/') -> Machine:
    """Look at the machine through /proc and /sys below ``root``.

    Below another root than / nothing is asked of the real machine: tests feed a made-up tree.
    """
    tree = Tree(root)
    notes: list[str] = []

    def part(name: str, unknown: Any, function: Callable, *args) -> Any:
        """One finding. A machine that surprises us must still be measured: no error gets out."""
        try:
            found, why = function(*args)
        except Exception as error:
            found, why = unknown, [f'{name} unknown: {type(error).__name__}: {error}']
        notes.extend(why)
        return found

    processors = cpuinfo.processors(tree)
    first = processors[0] if processors else {}
    cpus = part('cpus', frozenset({0}), topology.usable, tree, processors)
    each = tuple((cpu,) for cpu in sorted(cpus))
    nothing = {'kind': 'unknown', 'backend': None, 'container': None, 'evidence': ()}
    nature = part('physical or virtual', nothing, kind, tree, first)
    facts = {
        **part('processor', _UNKNOWN_PROCESSOR, cpuinfo.identity, tree, first),
        **part('memory', {'memory_bytes': None, 'memory_available_bytes': None}, memory.memory, tree),
        **part('kernel', _UNKNOWN_KERNEL, kernel, tree, cpus),
        **nature,
        'cpu_list': tuple(sorted(cpus)),
        'cpu_quota': part('cpu quota', None, lambda: (cgroup.cpu_quota(tree), [])),
        'core_sets': part('cores', each, topology.cores, tree, cpus, processors),
        'socket_sets': part('sockets', (), topology.sockets, tree, cpus, processors),
        'numa_sets': part('NUMA nodes', (), topology.numa_nodes, tree, cpus),
        'caches': part('caches', (), topology.caches, tree, cpus, processors),
        'clock': part('maximum clock', None, clock, tree, cpus, nature['kind']),
        'memory_channels': part('memory channels', None, memory.channels, tree, nature['kind']),
    }
    return Machine(**facts, notes=tuple(notes))


_UNKNOWN_PROCESSOR = {'architecture': 'unknown', 'microarchitecture': None, 'vendor': None, 'family': None,
                      'model_name': None, 'simd': ()}
_UNKNOWN_KERNEL = {'hostname': 'unknown', 'kernel': None, 'governor': None, 'mitigations': None,
                   'clocksource': None}
