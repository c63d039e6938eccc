"""`parity level`: levels that a person begins, from a day on."""

from __future__ import annotations

import datetime

import polars as pl

from parity.base import console
from parity.base.errors import UsageError
from parity.base.text import visible
from parity.cli import ack
from parity.judge.refs import levels
from parity.judge.report import show
from parity.judge.store import history
from parity.judge.verdict import acks
from parity.judge.verdict.model import Cell
from parity.site import systems


def add(wanted: str, since: str, why: str, by: str, system: str) -> None:
    """Write the level of a cell into its system's levels.yaml. UsageError for what cannot be one."""
    if not wanted:
        raise UsageError('name the cell: parity level CELL --since DATE --why TEXT; '
                         'parity verdict --all names them')
    today = datetime.date.today()
    day = ack.day('--since', since, today)
    if day > today:
        raise UsageError(f'--since {day}: that day has not come; today is {today}')
    why, by = ack.reason(why), ack.person(by)
    _, name, cell = show.find(ack.on(wanted, system))
    if (first := _first(cell)) is None:
        raise UsageError(f'{name} has no undisturbed night yet: a level begins between two nights; '
                         'run: ci/nightly')
    if day <= first:
        raise UsageError(f'--since {day}: the nights of {name} begin on {first}; a level begins on a later day')
    said = levels.Level(cell=name, since=day, why=why, by=by)
    file = levels.write(cell.system, [said])
    note = '' if cell.reference is None else ('; its accepted bounds judge it on, until you take its value out of '
                                              f'{systems.references(cell.system) / cell.partition}.yaml')
    print(visible(f'parity: {name}, a level {said}{note}; {file}'))


def _first(cell: Cell) -> datetime.date | None:
    """Return the day of the cell's first night."""
    own = history.load(cell.system, labelled=True)
    night = own.filter(pl.col(name) == getattr(cell, name) for name in history.CELL)['night'].min()
    return None if night is None else datetime.date.fromisoformat(night[:10])


def listing(system: str) -> None:
    """Print the levels that a person began on every system, or on one, and how those cells stand."""
    found = [level for name in ([systems.read(system).name] if system else systems.names())
             for level in levels.read(name)]
    newest = acks.by_name(show.newest()) if found else {}
    said = [] if found else ['no level was begun by hand' + (f' on {system}' if system else '')]
    for level in found:
        states = ', '.join(sorted({cell.state or cell.verdict for cell in newest.get(level.cell, ())}))
        said.append(f'{level.cell}   {states or "not measured in the newest sessions"}   {level}')
    console.lines((line, '') for line in said)
