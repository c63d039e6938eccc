"""`parity compare BASELINE CANDIDATE`."""

from __future__ import annotations

import sys

import typer

from parity.base import errors
from parity.base.errors import UsageError
from parity.base.figures import counted
from parity.cli.common import JSON

#: The width of lines that go to no terminal.
_WIDE = 200
BASELINE = typer.Argument(help='system:partition (its last 14 days), system:partition+environment, a session, '
                               'or a file (.json, .csv).')
CANDIDATE = typer.Argument(help='The same; ratios are candidate / baseline.')
LABEL = typer.Option(False, '--label', help='Compare also what is not like for like, and print what differs.')
MARGIN = typer.Option(2.0, '--margin', metavar='PERCENT', help='Ratios so near to 1 are equivalent.')


def run(baseline: str = BASELINE, candidate: str = CANDIDATE, as_json: bool = JSON, label: bool = LABEL,
        margin: float = MARGIN) -> int:
    """Compare two partitions, sessions or files: ratios with intervals, like for like.

    \b
    parity compare onebox:physical onebox:virtual
    parity compare local:default+gcc local:default+oneapi
    parity compare before.json after.csv --margin 5

    Exit code: 0 compared, 1 a declared expectation is broken, 2 usage or not like for like, 3 nothing in common.
    """
    if not 0 < margin < 50:
        raise UsageError(f'--margin {margin:g}: must be a percentage above 0 and below 50')
    from parity.judge.compare import join, pairs, resolve
    one, other = resolve.sides(baseline, candidate)
    declared = pairs.between(one.name, other.name)
    comparison = join.compare(one, other, margin / 100, label, declared=declared)
    if as_json:
        print(comparison.model_dump_json(indent=1))
    else:
        printed(comparison)
    return _code(comparison)


def printed(found) -> None:
    """Print a comparison; colours only on a terminal."""
    from parity.base.colours import Console
    from parity.judge.compare import terminal
    console = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)
    console.print(terminal.rendered(found, console.width))


def _code(found) -> int:
    """Return the exit code of a comparison, and say why it is no comparison where it is none."""
    refused = [row for row in found.rows if row.refused]
    if refused:
        facts: dict[str, None] = {}
        for row in refused:
            facts |= dict.fromkeys(difference.fact for difference in row.differs)
        advice = 'no label helps' if found.labelled else '--label compares them and says what differs'
        print(f'parity: {len(refused)} of {counted(len(found.rows), "metric", "are")} not like for like '
              f'({", ".join(facts)}), refused: {advice}', file=sys.stderr)
        return errors.USAGE
    if any(row.state == 'regressed' for row in found.rows):
        return errors.REGRESSED
    if not any(row.n for row in found.rows):
        print(f'parity: {found.baseline.name} and {found.candidate.name} measured nothing in common',
              file=sys.stderr)
        return errors.MISSING
    return errors.OK
