"""Is one node slower than the others? Said beside the judgement where the history names the nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from parity.stats.judgement import Judgement

if TYPE_CHECKING:
    from parity.stats.judge import Cell

#: Nights on a node before it is compared with the others.
_LEAST = 4


def named(told: Judgement, cell: Cell, spread: float) -> Judgement:
    """The judgement with a warning for each node that is three spreads worse than the others."""
    if told.baseline is None:
        return told
    slow = slower(cell, told.baseline, 3 * spread)
    said = tuple(f'{node} is {100 * by:.1f} % worse than the other nodes' for node, by in slow)
    return replace(told, warnings=told.warnings + said)


def slower(cell: Cell, baseline: float, by: float) -> list[tuple[str, float]]:
    """(node, how much worse, relative) for nodes worse than the median of the others by more than ``by``."""
    sign = 1 if cell.better == 'higher' else -1
    values: dict[str, list[float]] = defaultdict(list)
    for night in cell.nights:
        for node, value in (*zip(night.nodes, night.runs, strict=False),
                            *zip(night.rerun_nodes, night.reruns, strict=False)):
            values[node].append(sign * (value - baseline) / abs(baseline))
    middle = {node: median(found) for node, found in values.items() if len(found) >= _LEAST}
    found = []
    for node, own in middle.items():
        others = [m for other, m in middle.items() if other != node]
        if others and median(others) - own > by:
            found.append((node, median(others) - own))
    return sorted(found, key=lambda x: -x[1])
