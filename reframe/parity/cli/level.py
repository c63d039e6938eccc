"""`parity level`: levels that a person begins, from a day on."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import typer

from parity.base import paths
from parity.base.errors import UsageError
from parity.base.text import visible
from parity.cli.common import BY, SYSTEM_OF_CELL, day, on, person, reason

if TYPE_CHECKING:
    from parity.judge.verdict.model import Cell

CELL = typer.Argument('', metavar='CELL', help='The cell, as for parity show.')
SINCE = typer.Option('', metavar='DATE', help='The first day of the level, such as 2026-11-20.')
WHY = typer.Option('', '--why', metavar='TEXT', help='What changed that day.')
LIST = typer.Option(False, '--list', help='List the levels begun by hand, and how those cells stand.')


def run(cell: str = CELL, since: str = SINCE, why: str = WHY, by: str = BY, system: str = SYSTEM_OF_CELL,
        listed: bool = LIST) -> None:
    """Begin a level of a cell by hand: from that day on it is judged by what it measures then.

    \b
    parity level triad@onebox:virtual --since 2026-11-20 --why 'new memory policy, as ordered'
    parity level --list
    """
    if listed:
        _list(system)
    else:
        _begin(cell, since, why, by, system)


def _begin(wanted: str, since: str, why: str, by: str, system: str) -> None:
    """Write the level of a cell into its system's levels.yaml. UsageError for what cannot be one."""
    from parity.judge.refs import levels
    from parity.judge.report import show
    from parity.site import systems
    if not wanted:
        raise UsageError('name the cell: parity level CELL --since DATE --why TEXT; '
                         'parity verdict --all names them')
    today = datetime.date.today()
    begin = day('--since', since, today)
    if begin > today:
        raise UsageError(f'--since {begin}: that day has not come; today is {today}')
    why, by = reason(why), person(by)
    _, name, cell = show.find(on(wanted, system))
    first = _first_night(cell)
    if first is None:
        raise UsageError(f'{name} has no undisturbed night yet: a level begins between two nights; '
                         f'run: {paths.nightly()}')
    if begin <= first:
        raise UsageError(f'--since {begin}: the nights of {name} begin on {first}; a level begins on a later day')
    level = levels.Level(cell=name, since=begin, why=why, by=by)
    file = levels.write(cell.system, [level])
    note = ''
    if cell.reference is not None:
        references = systems.references(cell.system) / f'{cell.partition}.yaml'
        note = f'; its accepted bounds judge it on, until you take its value out of {references}'
    print(visible(f'parity: {name}, a level {level}{note}; {file}'))


def _first_night(cell: Cell) -> datetime.date | None:
    """Return the day of the cell's first night."""
    import polars as pl

    from parity.judge.store import history
    nights = history.load(cell.system, labelled=True)
    for name in history.CELL:
        nights = nights.filter(pl.col(name) == getattr(cell, name))
    first = nights['night'].min()
    return None if first is None else datetime.date.fromisoformat(first[:10])


def _list(system: str) -> None:
    """Print the levels that a person began on every system, or on one, and how those cells stand."""
    from parity.base import console
    from parity.judge.refs import levels
    from parity.judge.report import show
    from parity.judge.verdict import acks
    from parity.site import systems
    listed: list[levels.Level] = []
    for name in systems.asked(system):
        listed += levels.read(name)
    if not listed:
        console.say('no level was begun by hand' + (f' on {system}' if system else ''))
        return
    newest = acks.by_name(show.newest())
    lines = []
    for level in listed:
        states = {cell.state or cell.verdict for cell in newest.get(level.cell, ())}
        stands = ', '.join(sorted(states)) or 'not measured in the newest sessions'
        lines.append(f'{level.cell}   {stands}   {level}')
    console.lines(lines)
