"""`parity verdict`: what a session says of every planned cell."""

from __future__ import annotations

from pathlib import Path

import typer

from parity.base.errors import UsageError
from parity.cli import common
from parity.cli.common import JSON, SESSION, demand_one, print_json, seconds

ALL = typer.Option(False, '--all', help='List all cells, too.')
SKIPPED = typer.Option(False, '--skipped', help='List the skipped cells, too.')
SYSTEM = typer.Option('', '--system', help='Judge the newest session of this system.')
EVERY = typer.Option(False, '--all-systems', help='A line for each system; an age above 26h ends with 3.')
RESULTS = typer.Option([], '--results', metavar='DIR', help="With --all-systems: another site's results folder.")
MAX_AGE = typer.Option(None, '--max-age', metavar='TIME',
                       help="End with 3 where the system's newest session ended longer ago, such as 26h, 90m, 2d.")


def run(everything: bool = ALL, skipped: bool = SKIPPED, as_json: bool = JSON, session: str = SESSION,
        system: str = SYSTEM, max_age: str = MAX_AGE, every: bool = EVERY, folders: list[Path] = RESULTS) -> int:
    """Judge a session: the answer first, one word for every planned cell.

    \b
    parity verdict --skipped                    also why cells were left out
    parity verdict --system onebox --max-age 26h
    parity verdict --all-systems                the worst system's exit code

    Exit code: 0 all is well, 1 regressed, impossible or wrong, 2 usage, 3 missing or too old, 4 infrastructure."""
    from parity.base import console
    from parity.judge.report import answer, documents
    from parity.judge.verdict import judge
    demand_one(session, system)
    oldest = seconds('--max-age', max_age) if max_age is not None else 0
    if every:
        if session or system or everything or skipped:
            raise UsageError('--all-systems judges the newest session of each system: leave --session, --system, '
                             '--all and --skipped out')
        return _of_all(folders, oldest or seconds('--max-age', common.MAX_AGE), as_json)
    if folders:
        raise UsageError('--results is for --all-systems: add it')
    judged = judge.newest(session, system)
    judged = judge.not_older(judged, oldest, max_age) if oldest else judged
    if as_json:
        print(documents.as_json(answer.answered(judged)))
        return judged.exit_code
    lines = answer.lines(judged)
    if everything or skipped:
        from parity.judge.report import table
        lines = [*lines, *(table.table(judged) if everything else table.table(judged, ['skipped']))]
    console.lines(lines)
    return judged.exit_code


def _of_all(folders: list[Path], oldest: float, as_json: bool) -> int:
    """Print a line for each system, and return the code of the worst."""
    from parity.base import console
    from parity.judge.report import overview
    from parity.measure.scheduler import nodes
    rows = overview.rows(folders, oldest, nodes.of_system)
    if as_json:
        print_json({'systems': overview.document(rows)})
    else:
        console.lines(overview.lines(rows))
    return overview.exit_code(rows)
