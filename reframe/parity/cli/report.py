"""`parity report`: the page, and its files for machines."""

from __future__ import annotations

import typer

from parity.cli.common import SESSION, demand_one

SYSTEM = typer.Option('', '--system', help='Take the newest session of this system.')


def run(session: str = SESSION, system: str = SYSTEM) -> None:
    """Write results/report/index.html, verdict.json and junit.xml, and print where they are.

    \b
    parity report --system onebox
    """
    from parity.judge import report
    from parity.judge.verdict import judge
    demand_one(session, system)
    for file in report.of_session(judge.newest(session, system)):
        typer.echo(file)
