"""`parity scaling CHECK`."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

CHECK = typer.Argument(metavar='CHECK', help="The check's class, such as Hpcc.")
BY = typer.Option('', '--by', metavar='AXIS', help='nodes, ranks or threads; by default the first that was swept.')
CSV = typer.Option('', '--csv', metavar='FILE', help="Write it as CSV instead; '-' is standard output.")


def run(check: str = CHECK, by: str = BY, csv: str = CSV):
    """Print how a check scales: figures, times and efficiency by size, with intervals.

    \b
    reframe -c checks/ -n Hpcc -P nodes=1,2,4 -r      measure such a sweep
    parity scaling Hpcc --by nodes

    Exit code: 0 printed, 2 usage, 3 no two sizes."""
    from parity.base import console, files
    from parity.judge.report import scaling
    found = scaling.of_check(check, by)
    if csv == '-':
        sys.stdout.write(scaling.table(found))
    elif csv:
        print(files.write(Path(csv), scaling.table(found)))
    else:
        console.lines(scaling.lines(found))
