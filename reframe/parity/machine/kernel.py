"""What the running kernel says of itself."""

from __future__ import annotations

import os
import platform

from parity.machine.tree import Tree


def kernel(tree: Tree, cpus: frozenset[int]) -> tuple[dict, list[str]]:
    """Host name, release, governor, mitigations and clock source."""
    cpu = min(cpus)
    hostname = tree.text('proc/sys/kernel/hostname') or (platform.node() if tree.real else None)
    facts = {
        'hostname': hostname or 'unknown',
        'kernel': tree.text('proc/sys/kernel/osrelease') or (os.uname().release if tree.real else None),
        'governor': tree.text(f'sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor'),
        'mitigations': mitigations(tree),
        'clocksource': tree.text('sys/devices/system/clocksource/clocksource0/current_clocksource'),
    }
    unknown = [name for name, value in facts.items() if value in (None, 'unknown')]
    return facts, [f'{", ".join(unknown)}: unknown, not shown by /proc and /sys'] if unknown else []


def mitigations(tree: Tree) -> str | None:
    """``mitigated: ...; vulnerable: ...``: the names of CPU faults that concern this machine."""
    folder = 'sys/devices/system/cpu/vulnerabilities'
    states = {name: tree.text(f'{folder}/{name}') or '' for name in tree.listing(folder)}
    if not states:
        return None
    mitigated = [name for name, state in states.items() if state.startswith('Mitigation')]
    vulnerable = [name for name, state in states.items() if state.startswith('Vulnerable')]
    return f'mitigated: {" ".join(mitigated) or "none"}; vulnerable: {" ".join(vulnerable) or "none"}'
