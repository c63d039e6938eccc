"""Everything about the machine, gathered; what fails becomes a note."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parity.machine import cpuinfo, memory, topology
from parity.machine.cpuinfo import Tree
from parity.machine.kind import kind
from parity.machine.model import Clock, Machine


def detect(root: Path | str = '/') -> Machine:
    """Look at /proc and /sys below ``root``; below another root than / (in tests) nothing real is asked."""
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
    nature = part('physical or virtual', {'kind': 'unknown'}, kind, tree, first)
    facts = {
        **part('processor', {}, cpuinfo.identity, tree, first),
        **part('memory', {}, memory.memory, tree),
        **part('kernel', {}, kernel, tree, cpus),
        **nature,
        'cpu_list': tuple(sorted(cpus)),
        'cpu_quota': part('cpu quota', None, lambda: (memory.cpu_quota(tree), [])),
        'core_sets': part('cores', each, topology.cores, tree, cpus, processors),
        'socket_sets': part('sockets', (), topology.sockets, tree, cpus, processors),
        'numa_sets': part('NUMA nodes', (), topology.numa_nodes, tree, cpus),
        'caches': part('caches', (), topology.caches, tree, cpus, processors),
        'clock': part('maximum clock', None, clock, tree, cpus, nature['kind']),
        'memory_channels': part('memory channels', None, memory.channels, tree, nature['kind']),
    }
    return Machine(**facts, notes=tuple(notes))


_CPU = 'sys/devices/system/cpu'
#: Drivers whose cpuinfo_max_freq is the single-core turbo or boost clock.
#: Source: Linux Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst.
_TURBO_INCLUDED = {'intel_pstate', 'intel_cpufreq', 'amd-pstate', 'amd-pstate-epp'}


def clock(tree: Tree, cpus: frozenset[int], kind: str) -> tuple[Clock | None, list[str]]:
    """The maximum over the usable cpus, or None and why."""
    maxima = [tree.number(f'{_CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq') for cpu in sorted(cpus)]
    khz = max((value for value in maxima if value), default=None)
    if khz is None:
        return None, ['maximum clock unknown: no cpufreq cpuinfo_max_freq']
    if kind != 'physical':
        return None, [f'maximum clock unknown: cpufreq says {khz / 1e6:.3g} GHz, '
                      f'which a {kind} machine cannot vouch for']
    driver = tree.text(f'{_CPU}/cpu{min(cpus)}/cpufreq/scaling_driver') or 'unknown driver'
    if driver not in _TURBO_INCLUDED and _boosts(tree):
        # acpi-cpufreq: the whole turbo range stands as one state 1 MHz above nominal
        return None, [f'maximum clock unknown: boost is on, and the {khz / 1e6:.3g} GHz of {driver} '
                      'may be without it']
    return Clock(hz=khz * 1e3, source=f'cpufreq cpuinfo_max_freq, {driver}'), []


def _boosts(tree: Tree) -> bool:
    """Boost may be on: the switch says so, or there is none and the driver is not known."""
    if (switch := tree.number(f'{_CPU}/cpufreq/boost')) is not None:
        return switch != 0
    # ARM and POWER drivers without a switch have no clock above the maximum they state
    return (tree.text('proc/sys/kernel/arch') or 'x86_64') == 'x86_64'


def kernel(tree: Tree, cpus: frozenset[int]) -> tuple[dict, list[str]]:
    """Host name, release, governor, mitigations and clock source."""
    hostname = tree.text('proc/sys/kernel/hostname') or (platform.node() if tree.real else None)
    facts = {
        'hostname': hostname or 'unknown',
        'kernel': tree.text('proc/sys/kernel/osrelease') or (os.uname().release if tree.real else None),
        'governor': tree.text(f'{_CPU}/cpu{min(cpus)}/cpufreq/scaling_governor'),
        'mitigations': mitigations(tree),
        'clocksource': tree.text('sys/devices/system/clocksource/clocksource0/current_clocksource'),
    }
    unknown = [name for name, value in facts.items() if value in (None, 'unknown')]
    return facts, [f'{", ".join(unknown)}: unknown, not shown by /proc and /sys'] if unknown else []


def mitigations(tree: Tree) -> str | None:
    """``mitigated: ...; vulnerable: ...``: the names of CPU faults that concern this machine."""
    folder = f'{_CPU}/vulnerabilities'
    states = {name: tree.text(f'{folder}/{name}') or '' for name in tree.listing(folder)}
    if not states:
        return None
    mitigated = [name for name, state in states.items() if state.startswith('Mitigation')]
    vulnerable = [name for name, state in states.items() if state.startswith('Vulnerable')]
    return f'mitigated: {" ".join(mitigated) or "none"}; vulnerable: {" ".join(vulnerable) or "none"}'
