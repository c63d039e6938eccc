"""`parity report`: the page, and its files for machines."""

from __future__ import annotations

from pathlib import Path

import typer

from parity.base.errors import UsageError
from parity.cli.common import OLDEST, SESSION, demand_one, seconds

SYSTEM = typer.Option('', '--system', help='Take the newest session of this system.')
EVERY = typer.Option(False, '--all', help='Write a page of all systems, and the page of each.')
RESULTS = typer.Argument([], metavar='[RESULTS]...', help='With --all: results folders; by default this one.')


def run(folders: list[Path] = RESULTS, session: str = SESSION, system: str = SYSTEM, every: bool = EVERY,
        max_age: str = OLDEST) -> int:
    """Write results/report/index.html, verdict.json and junit.xml, and print where they are.

    \b
    parity report --system onebox
    parity report --all                         results/report/all.html: a row a system
    parity report --all /a/results /b/results   of several sites, read only

    Exit code: 0 written, 2 usage, 3 nothing is stored; of --all 4 if a results.db cannot be read."""
    from parity.base import paths
    from parity.judge import report
    from parity.judge.verdict import judge
    demand_one(session, system)
    if not every:
        if folders:
            raise UsageError(f'{folders[0]}: results folders are for --all: add it')
        for file in report.of_session(judge.newest(session, system)):
            typer.echo(file)
        return 0
    if session or system:
        raise UsageError('--all takes all systems: leave --session and --system out')
    from parity.judge.report import overview
    from parity.measure.scheduler import nodes
    directory = paths.results() / 'report'
    rows = overview.rows(folders, seconds('--max-age', max_age), nodes.of_system, directory)
    typer.echo(overview.write(rows, directory))
    return overview.unread(rows)
