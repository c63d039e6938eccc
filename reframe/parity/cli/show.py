"""`parity show CELL|INCIDENT`: all that is known of one."""

from __future__ import annotations

import typer

from parity.cli.common import JSON

CELL = typer.Argument(metavar='CELL|INCIDENT',
                      help='CASE.METRIC@SYSTEM:PARTITION, or any part that fits no other cell; or an '
                           'incident, by its number.')
SESSION = typer.Option('', '--session',
                       help="A session's uuid or its beginning; by default the newest that planned the cell.")


def run(cell: str = CELL, as_json: bool = JSON, session: str = SESSION) -> None:
    """Print all that is known of one cell: value, band, nights, nodes, output, cause, how to rerun it. Or of one
    incident, by its number: its place, cells and life.

    \b
    parity show 17
    parity show 'Stream%threads=all.triad@onebox:virtual'
    parity show triad --session 5d5ec1ad
    """
    from parity.base import console
    from parity.judge.report import incidents, show
    from parity.judge.store.incidents import read
    if cell.isdecimal():
        found, lines = read(cell), incidents.lines
    else:
        found, lines = show.of_cell(cell, session), show.lines
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        console.lines(lines(found))
