"""`parity plan`: what the node-hours of a night buy."""

from __future__ import annotations

import json

import typer

from parity.cli.common import JSON

HOURS = typer.Option(..., '--node-hours', min=0.001, metavar='N', help='Node-hours that a night may cost.')
SYSTEM = typer.Option('', '--system', help='Plan for this system; for that of the newest session if not given.')


def run(node_hours: float = HOURS, system: str = SYSTEM, as_json: bool = JSON):
    """Say which figures show a slowdown of 5 %, what one repeat or night more buys, and what to leave out.

    \b
    parity plan --node-hours 20
    parity plan --node-hours 20 --system onebox --json

    Exit code: 0 printed, 2 usage, 3 no figure is judged yet."""
    from parity.base import console
    from parity.lab import hours
    plan = hours.worth(system, node_hours)
    if as_json:
        print(json.dumps(hours.document(plan), indent=1))
    else:
        console.lines(hours.lines(plan))
