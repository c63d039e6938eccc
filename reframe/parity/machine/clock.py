"""The highest clock: known only where the kernel's frequency driver knows it.

The 'cpu MHz' of /proc/cpuinfo is what a core ran at a moment ago, and in a virtual machine the
nominal clock whatever the silicon does (seen: DGEMM at 79.6 Gflop/s a core where 'cpu MHz' times
32 flop a cycle is 73.6). It never counts as a maximum.
"""

from __future__ import annotations

from parity.machine.model import Clock
from parity.machine.tree import Tree

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
    switch = tree.number(f'{_CPU}/cpufreq/boost')
    if switch is not None:
        return switch != 0
    # ARM and POWER drivers without a switch have no clock above the maximum they state
    return (tree.text('proc/sys/kernel/arch') or 'x86_64') == 'x86_64'
