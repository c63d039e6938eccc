"""`parity export`: what is stored, for other programs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import typer

from parity.base.errors import UsageError

METRICS = typer.Option('', '--openmetrics', metavar='FILE', help='The newest session of each system as metrics.')
TABLE = typer.Option('', '--csv', metavar='FILE', help='All figures of all sessions, with units and verdicts.')
SINCE = typer.Option('', '--since', metavar='TIME', help='--csv: sessions no older than this, such as 30d, 12h.')


def run(openmetrics: str = METRICS, csv: str = TABLE, since: str = SINCE):
    """Write figures and verdicts for other programs; '-' is standard output. A reader never sees half a file.

    \b
    parity export --openmetrics /var/lib/node_exporter/parity.prom
    parity export --csv figures.csv --since 30d
    """
    from parity.base import files, times
    from parity.judge.report import export
    if not openmetrics and not csv:
        raise UsageError('name what to export: --openmetrics FILE, --csv FILE, or both')
    if since and not csv:
        raise UsageError('--since is only for --csv: --openmetrics has the newest session of each system')
    try:
        oldest = time.time() - times.seconds(since) if since else 0.0
    except ValueError as err:
        raise UsageError(f'--since: {err}') from None
    wanted = [(openmetrics, export.openmetrics), (csv, lambda: export.table(oldest))]
    for file, text in ((file, make()) for file, make in wanted if file):
        if file == '-':
            sys.stdout.write(text)
        else:
            print(files.write(Path(file), text))
