"""`parity summary --since TIME`."""

from __future__ import annotations

import sys

import typer

from parity.base import paths
from parity.base.errors import NothingMeasured, UsageError

SINCE = typer.Option('7d', '--since', metavar='TIME', help='How far back, such as 7d or 30d.')
SYSTEM = typer.Option('', '--system', help='This system only; all if not given.')
MARKDOWN = typer.Option(False, '--markdown', help='Print it as Markdown.')


def run(since: str = SINCE, system: str = SYSTEM, as_markdown: bool = MARKDOWN):
    """Sum up a week or a month: incidents, nights, nodes, node-hours, coverage, drift, false alarms.

    \b
    parity summary --since 7d                   cron mails what this prints
    parity summary --since 30d --markdown

    Exit code: 0 printed, 2 usage, 3 nothing is stored."""
    from parity.base import console, times
    from parity.judge.report import export, summary
    from parity.measure.scheduler import nodes
    from parity.site import systems
    try:
        seconds = times.seconds(since)
    except ValueError as err:
        raise UsageError(f'--since: {err}') from None
    named = [systems.read(system).name] if system else export.measured()
    if not named:
        raise NothingMeasured(f'no session is stored; run: {paths.nightly()}')
    found = [summary.of(name, seconds, nodes.of_system(systems.read(name))) for name in named]
    if as_markdown:
        sys.stdout.write(summary.markdown(found))
    else:
        console.lines(summary.lines(found))
