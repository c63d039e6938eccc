"""`parity refs`: accepted values, proposed from the history, accepted with a reason, linted."""

from __future__ import annotations

import typer

from parity.base import errors
from parity.cli.group import Group

app = typer.Typer(cls=Group, no_args_is_help=True,
                  help='Propose values from the history, accept them, print and check them.')
SYSTEM = typer.Option(..., '--system', help='The system of the references.')
ANY_SYSTEM = typer.Option('', '--system', help='This system only; by default all.')
PARTITION = typer.Option('', '--partition', help='This partition only.')
CHECK = typer.Option('', '--check', metavar='NAME', help='This check, or this case of it, only.')
SINCE = typer.Option('', '--since', metavar='DATE', help='Leave out the nights before this day of a change.')
CELLS = typer.Argument(None, metavar='[CELL]...', help='Cells as `propose` names them.')
ALL = typer.Option(False, '--all', help='Accept all proposals.')
WHY = typer.Option(..., '--why', metavar='TEXT', help='Why these values are right.')
BY = typer.Option('', '--by', metavar='NAME', help='Who accepts them; by default the login name.')
EXPIRES = typer.Option('', '--expires', metavar='DATE', help='When to review them; by default in half a year.')


@app.command()
def propose(system: str = SYSTEM, partition: str = PARTITION, check: str = CHECK, since: str = SINCE):
    """Propose references from the history, for review. Exit code 3 where nothing could be proposed."""
    from parity.base import console
    from parity.judge.refs import propose as command
    from parity.judge.refs import table
    answer = command.run(system, partition, check, since)
    console.lines(table.lines(answer))
    return errors.OK if answer.proposals else errors.MISSING


@app.command()
def accept(cells: list[str] = CELLS, everything: bool = ALL, system: str = SYSTEM, why: str = WHY,
           by: str = BY, expires: str = EXPIRES):
    """Merge all proposals into the system's files, or none."""
    from parity.base import console
    from parity.judge.refs import accept as command
    from parity.judge.refs import table
    from parity.measure.rfm import planning
    from parity.site import systems
    if bool(cells) == everything:
        raise errors.UsageError('accept: name the cells, or --all' + (', not both' if everything else ''))
    reason = command.reason(why, by, expires)
    done = command.run(system, cells or [], reason, planning.of_system(systems.read(system).name))
    console.lines(table.accepted(system, done))


@app.command()
def show(system: str = ANY_SYSTEM):
    """Print every accepted reference: value, bounds, who accepted it and why, expiry, when last applied."""
    from parity.base import console
    from parity.judge.refs import table
    console.lines(table.shown(system))


@app.command()
def lint(system: str = ANY_SYSTEM):
    """Print errors and warnings on accepted references. Exit code 2 for errors, else 0."""
    from parity.base import console
    from parity.judge.refs import lint, table
    from parity.measure.rfm import planning
    linted = lint.lint(system, planning.of_system)
    console.lines(table.linted(linted))
    return errors.USAGE if any(each.errors for each in linted) else errors.OK
