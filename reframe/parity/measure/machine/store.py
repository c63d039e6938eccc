"""The machine detected once a boot, and cached as JSON."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parity import __version__
from parity.base import files
from parity.measure.machine import procfs
from parity.measure.machine.model import Clock, Machine
from parity.measure.machine.procfs import Tree, kind


def load(cache_file: Path | str, root: Path | str = '/') -> Machine:
    """Return the cached machine with the memory available now, or look again where the key has changed."""
    tree = Tree(root)
    memory_limit = procfs.memory_limit(tree)
    key = {
        'parity': __version__,
        'boot': tree.text('proc/sys/kernel/random/boot_id'),
        'kernel': tree.text('proc/sys/kernel/osrelease'),
        'cpus': sorted(procfs.usable(tree)),
        'cpu_quota': procfs.cpu_quota(tree),
        'memory_limit': memory_limit.limit if memory_limit else None,
        'root': str(tree.root),
    }
    with contextlib.suppress(ValueError):       # none is cached, or another hand wrote it
        machine = Machine.model_validate(read(cache_file, key))
        return machine.model_copy(update={'memory_available_bytes': procfs.memory(tree)['memory_available_bytes']})
    machine = detect(root)
    write(cache_file, key, machine.model_dump(mode='json'))
    return machine


def read(cache_file: Path | str, key: dict[str, Any]) -> Any:
    """Return the value stored under ``key``; None where there is none or the file is not ours."""
    try:
        stored = json.loads(Path(cache_file).read_text())
        return stored['value'] if stored['key'] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(cache_file: Path | str, key: dict[str, Any], value: Any) -> None:
    """Store a value under ``key``. A cache that cannot be written costs time, not the run."""
    with contextlib.suppress(OSError):
        files.write(Path(cache_file), json.dumps({'key': key, 'value': value}))


def detect(root: Path | str = '/') -> Machine:
    """Look at /proc and /sys below ``root``. Below another root than / (in tests) nothing real is asked."""
    tree = Tree(root)

    def part(name: str, unknown: Any, function: Callable, *args) -> Any:
        """Return one finding. A machine that surprises us must still be measured: no error gets out."""
        try:
            return function(tree, *args)
        except Exception as error:
            return tree.unknown(f'{name} unknown: {type(error).__name__}: {error}', unknown)

    cpus = procfs.usable(tree)
    nature = part('physical or virtual', {'kind': 'unknown'}, kind)
    facts = part('processor', {}, procfs.identity)
    facts |= part('memory', {}, procfs.memory)
    facts |= part('kernel', {}, kernel, cpus)
    facts |= nature
    facts['cpu_list'] = tuple(sorted(cpus))
    facts['cpu_quota'] = part('cpu quota', None, procfs.cpu_quota)
    every_cpu = tuple((cpu,) for cpu in sorted(cpus))
    facts['core_sets'] = part('cores', every_cpu, procfs.cores, cpus)
    facts['socket_sets'] = part('sockets', (), procfs.sockets, cpus)
    facts['numa_sets'] = part('NUMA nodes', (), procfs.numa_nodes, cpus)
    facts['caches'] = part('caches', (), procfs.caches, cpus)
    facts['memory_channels'] = part('memory channels', None, procfs.channels, nature['kind'])
    facts['clock'] = part('maximum clock', None, clock, cpus, nature['kind'])
    return Machine(**facts, notes=tuple(tree.notes))


#: Drivers whose cpuinfo_max_freq is the single-core turbo or boost clock.
#: Source: Linux Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst.
_TURBO_INCLUDED = {'intel_pstate', 'intel_cpufreq', 'amd-pstate', 'amd-pstate-epp'}


def clock(tree: Tree, cpus: frozenset[int], kind: str) -> Clock | None:
    """Return the maximum over the usable CPUs, or None where it is in doubt."""
    maxima = [tree.number(f'{procfs.CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq') for cpu in cpus]
    khz = max(filter(None, maxima), default=None)
    if khz is None:
        return tree.unknown('maximum clock unknown: no cpufreq cpuinfo_max_freq')
    ghz = f'{khz / 1e6:.3g} GHz'
    if kind != 'physical':
        return tree.unknown(f'maximum clock unknown: cpufreq says {ghz}, which a {kind} machine cannot vouch for')
    driver = tree.text(f'{procfs.CPU}/cpu{min(cpus)}/cpufreq/scaling_driver') or 'unknown driver'
    if driver not in _TURBO_INCLUDED and _boosts(tree):
        # acpi-cpufreq: the whole turbo range stands as one state 1 MHz above nominal
        return tree.unknown(f'maximum clock unknown: boost is on, and the {ghz} of {driver} may be without it')
    return Clock(hz=khz * 1e3, source=f'cpufreq cpuinfo_max_freq, {driver}')


def _boosts(tree: Tree) -> bool:
    """Return whether a core may run faster than the maximum that its driver states."""
    switch = tree.number(f'{procfs.CPU}/cpufreq/boost')
    if switch is not None:
        return bool(switch)
    # drivers of ARM and POWER without a switch have no clock above the maximum they state
    architecture = tree.text('proc/sys/kernel/arch') or 'x86_64'
    return architecture == 'x86_64'


def kernel(tree: Tree, cpus: frozenset[int]) -> dict[str, str | None]:
    """Return host name, release and settings of the kernel that change how fast a program is."""
    hostname = tree.text('proc/sys/kernel/hostname')
    release = tree.text('proc/sys/kernel/osrelease')
    if tree.real:
        hostname = hostname or platform.node()
        release = release or platform.release()
    facts = {
        'hostname': hostname or 'unknown',
        'kernel': release,
        'governor': tree.text(f'{procfs.CPU}/cpu{min(cpus)}/cpufreq/scaling_governor'),
        'mitigations': _mitigations(tree),
        'clocksource': tree.text('sys/devices/system/clocksource/clocksource0/current_clocksource'),
        'transparent_huge_pages': _transparent_huge_pages(tree),
        'huge_pages': tree.text('proc/sys/vm/nr_hugepages'),
        'numa_balancing': tree.text('proc/sys/kernel/numa_balancing'),
    }
    missing = [name for name, value in facts.items() if value in (None, 'unknown')]
    if missing:
        tree.unknown(f'{", ".join(missing)}: unknown, not shown by /proc and /sys')
    return facts


def _transparent_huge_pages(tree: Tree) -> str | None:
    """Return always, madvise or never: the one in brackets."""
    choices = tree.text('sys/kernel/mm/transparent_hugepage/enabled') or ''
    _, _, chosen = choices.partition('[')
    return chosen.partition(']')[0] or None


def _mitigations(tree: Tree) -> str | None:
    """Return the processor faults that the kernel mitigates, and those that it does not; None if it lists none."""
    folder = f'{procfs.CPU}/vulnerabilities'
    names = tree.listing(folder)
    if not names:
        return None
    mitigated = []
    vulnerable = []
    for name in names:
        state = tree.text(f'{folder}/{name}') or ''
        if state.startswith('Mitigation'):
            mitigated.append(name)
        elif state.startswith('Vulnerable'):
            vulnerable.append(name)
    return f'mitigated: {" ".join(mitigated) or "none"}; vulnerable: {" ".join(vulnerable) or "none"}'
