"""Every accepted reference, with who accepted it and why, its age, and when it was last applied."""

from __future__ import annotations

import datetime

from parity.base.text import visible
from parity.records import history
from parity.refs import accepted, nights, table
from parity.refs.accepted import Accepted
from parity.refs.nights import Cell
from parity.system import systems


def lines(system: str = '') -> list[str]:
    """Of one system, or of all. UsageError for an unknown one."""
    said: list[str] = []
    for name in [systems.read(system).name] if system else systems.names():
        if found := accepted.of_system(name):
            said += _of_system(found)
    if not said:
        said = ['no reference has been accepted' + (f' for {system}' if system else ''),
                f'next: parity refs propose --system {system or "NAME"}']
    return [visible(line) for line in said]


def _of_system(found: list[Accepted]) -> list[str]:
    cells = nights.cells(history.load(found[0].system))
    said = []
    for file in sorted({each.file for each in found}):
        own = [each for each in found if each.file == file]
        rows = table.rows([_row(each, cells) for each in own])
        said += [str(file), *(line for row, each in zip(rows, own, strict=True) for line in (row, _why(each)))]
    return said


def _row(each: Accepted, cells: list[Cell]) -> tuple[str, ...]:
    reference = (each.value, each.lower, each.upper, each.unit)
    used = max((n.night for cell in cells if each.is_of(cell) for n in cell.nights if n.applied), default='')
    applied = f'last applied {used}' if used else 'never applied'
    told = each.provenance
    life = f'accepted {told.date} ({_days(told.date)})   {_expiry(told.expires)}' if told else 'by hand'
    return each.id, each.index.get('size', ''), table.value(reference), table.limits(reference), life, applied


def _expiry(day: datetime.date) -> str:
    return f'{"expired" if day < datetime.date.today() else "expires"} {day} ({_days(day)})'


def _days(day: datetime.date) -> str:
    days = (day - datetime.date.today()).days
    if not days:
        return 'today'
    return f'in {days} days' if days > 0 else f'{-days} days ago'


def _why(each: Accepted) -> str:
    if not (told := each.provenance):
        return '      nothing tells who accepted it, why, or until when'
    figures = f'n {told.n}, median {told.median:g}, spread {told.spread:g} {each.unit}'
    return (f'      by {told.by}: {told.why} · {figures} · {told.nights}, sessions {told.sessions} · '
            f'nodes {told.nodes} · software {told.software}')
