"""The state of the machine at an instant: read before and after a measurement."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from parity.machine.cpuinfo import processors
from parity.machine.memory import memory
from parity.machine.tree import Tree


def reading(root: Path | str = '/') -> dict[str, Any]:
    """Cheap facts; a value that cannot be read is None.

    ``steal_jiffies`` is time a hypervisor gave to others (proc(5), /proc/stat, 8th column);
    guest time is part of user time and not counted twice. ``clock_mhz_*`` is what cores ran at,
    not what they can reach.
    """
    tree = Tree(root)
    steal, total = _jiffies(tree)
    clocks = _clocks(tree)
    return {
        'time_s': time.time(),
        'load_1min': _load(tree),
        'steal_jiffies': steal,
        'total_jiffies': total,
        'clock_mhz_min': min(clocks, default=None),
        'clock_mhz_max': max(clocks, default=None),
        'memory_available_bytes': memory(tree)[0]['memory_available_bytes'],
    }


def steal_share(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Part (0 to 1) of all cpu time between two readings that a hypervisor took away."""
    values = [r.get(key) for key in ('steal_jiffies', 'total_jiffies') for r in (before, after)]
    if None in values:
        return None
    steal, total = values[1] - values[0], values[3] - values[2]
    # counters that went backwards belong to two boots
    return steal / total if total > 0 and 0 <= steal <= total else None


def _jiffies(tree: Tree) -> tuple[int | None, int | None]:
    line = (tree.text('proc/stat') or '').partition('\n')[0].split()
    if len(line) < 9 or line[0] != 'cpu' or not all(word.isdecimal() for word in line[1:9]):
        return None, None
    counts = [int(word) for word in line[1:9]]
    return counts[7], sum(counts)


def _load(tree: Tree) -> float | None:
    try:
        return float((tree.text('proc/loadavg') or '').split()[0])
    except (ValueError, IndexError):
        return None


def _clocks(tree: Tree) -> list[float]:
    found = []
    for fields in processors(tree):
        try:
            found.append(float(fields['cpu MHz']))
        except (KeyError, ValueError):
            pass
    return found
