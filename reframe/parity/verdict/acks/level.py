"""How bad a cell was when its fault was acknowledged, and whether it is plainly worse now."""

from __future__ import annotations

import math

from parity.base import figures
from parity.verdict.acks.file import Ack
from parity.verdict.model import Cell


def of(cell: Cell) -> dict[str, float]:
    """What an acknowledgement stores of the cell's figure; {} where nothing judges one."""
    if cell.value is None or cell.expected is None or not math.isfinite(cell.value):
        return {}
    return {'value': float(f'{cell.value:.6g}'), 'expected': float(f'{cell.expected:.6g}')}


def worse(cell: Cell, ack: Ack) -> str:
    """Both levels in a sentence where ``cell`` is plainly worse than when ``ack`` was given; else ''.

    Distances are relative to what a cell is judged by, each environment and size to its own. Plainly worse is
    twice the distance, or farther than the accepted bounds reach from there; and clear of a night's noise.
    '' where the acknowledgement holds no level.
    """
    if ack.value is None or cell.value is None or cell.expected is None:
        return ''
    was, found = _distance(ack.value, ack.expected), _distance(cell.value, cell.expected)
    side = 1 if was > 0 else -1
    known = abs(was)
    room = _room(cell, cell.low if side < 0 else cell.high, cell.reference)
    reach = min(2 * known, known + room) if room else 2 * known
    if side * found <= max(reach, known + _room(cell, cell.usual_low, cell.usual)):
        return ''
    now, then = shown(cell.unit, cell.value, cell.expected), shown(cell.unit, ack.value, ack.expected)
    return f'worse than acknowledged: {now} now, {then} on {ack.since} ({ack})'


def _distance(value: float, expected: float) -> float:
    return (value - expected) / abs(expected) if expected else value - expected


def _room(cell: Cell, bound: float | None, around: float | None) -> float:
    """How far a bound is from what it is around, as `_distance` has it; 0: not known."""
    known = bound is not None and around is not None and cell.verdict != 'impossible'
    return abs(_distance(bound, around)) if known else 0.0


def shown(unit: str, value: float, expected: float) -> str:
    change = figures.change(value, expected)
    return figures.figure(value, unit) + (f' ({change} of {figures.figure(expected, unit)})' if change else '')
