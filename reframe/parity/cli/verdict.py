"""`parity verdict`: what a session says of every planned cell."""

from __future__ import annotations

import typer

from parity.base.errors import UsageError
from parity.cli.common import JSON, SESSION, demand_one

ALL = typer.Option(False, '--all', help='List all cells, too.')
SKIPPED = typer.Option(False, '--skipped', help='List the skipped cells, too.')
SYSTEM = typer.Option('', '--system', help='Judge the newest session of this system.')
MAX_AGE = typer.Option(None, '--max-age', metavar='TIME',
                       help="End with 3 where the system's newest session ended longer ago, such as 26h, 90m, 2d.")


def run(everything: bool = ALL, skipped: bool = SKIPPED, as_json: bool = JSON, session: str = SESSION,
        system: str = SYSTEM, max_age: str = MAX_AGE) -> int:
    """Judge a session: the answer first, one word for every planned cell.

    \b
    parity verdict --skipped                    also why cells were left out
    parity verdict --system onebox --max-age 26h

    Exit code: 0 all is well, 1 regressed, impossible or wrong, 2 usage, 3 missing or too old, 4 infrastructure."""
    from parity.base import console, times
    from parity.judge.report import answer, documents
    from parity.judge.verdict import judge
    demand_one(session, system)
    try:
        oldest = times.seconds(max_age) if max_age is not None else 0
    except ValueError as err:
        raise UsageError(f'--max-age: {err}') from None
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
