"""`parity compare BASELINE CANDIDATE`."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from parity.base import errors
from parity.base.errors import UsageError
from parity.base.figures import counted
from parity.cli.common import JSON

#: The width of lines that go to no terminal.
_WIDE = 200
BASELINE = typer.Argument(help='A system or system:partition (its last 14 days), system:partition+environment, a '
                               'session, or a file (.json, .csv). FOLDER@SYSTEM is of another results folder.')
CANDIDATE = typer.Argument(help='The same; ratios are candidate / baseline.')
LABEL = typer.Option(False, '--label', help='Compare also what is not like for like, and print what differs.')
MARGIN = typer.Option(2.0, '--margin', metavar='PERCENT', help='Ratios so near to 1 are equivalent.')
PAGE = typer.Option('', '--page', metavar='FILE', help='Write a page, too: a plot by subsystem, the worst first, '
                                                       'and the curves of both sides.')
CSV = typer.Option('', '--csv', metavar='FILE', help="Write the rows as CSV instead; '-' is standard output.")


def run(baseline: str = BASELINE, candidate: str = CANDIDATE, as_json: bool = JSON, label: bool = LABEL,
        margin: float = MARGIN, page: str = PAGE, csv: str = CSV) -> int:
    """Compare two systems, partitions, sessions or files: ratios with intervals, like for like.

    \b
    parity compare onebox:physical onebox:virtual --page virtual.html
    parity compare alpha /other/site/results@beta
    parity compare local:default+gcc local:default+oneapi
    parity compare before.json after.csv --margin 5

    Exit code: 0 compared, 1 a declared expectation is broken, 2 usage or not like for like, 3 nothing in common.
    """
    if not 0 < margin < 50:
        raise UsageError(f'--margin {margin:g}: must be a percentage above 0 and below 50')
    if as_json and csv:
        raise UsageError('--json and --csv: give only one')
    from parity.judge.compare import join, pairs, resolve, sentence
    one, other = resolve.sides(baseline, candidate)
    declared = pairs.between(one.name, other.name)
    compared = sentence.answered(join.compare(one, other, margin / 100, label, declared=declared))
    if as_json:
        print(compared.model_dump_json(indent=1))
    elif csv:
        _write_csv(compared, csv)
    else:
        printed(compared)
    if page:
        _write_page(compared, page, quiet=as_json or csv == '-')
    return _code(compared)


def _write_csv(compared, file: str) -> None:
    from parity.base import files
    from parity.judge.compare import table
    if file == '-':
        sys.stdout.write(table.as_csv(compared))
    else:
        print(files.write(Path(file), table.as_csv(compared)))


def _write_page(compared, file: str, quiet: bool) -> None:
    """Write the page; print where it is unless standard output is for another program."""
    from parity.base import files
    from parity.judge.report import comparison
    written = files.write(Path(file), comparison.page(compared))
    if not quiet:
        print(f'\n{written}')


def printed(compared) -> None:
    """Print a comparison; colours only on a terminal, signs that the terminal has."""
    from parity.base.colours import Console
    from parity.base.console import ascii_only
    from parity.judge.compare import terminal
    console = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)
    paper = terminal.Paper(console.width, ascii_only())
    console.print(terminal.rendered(compared, paper))


def _code(compared) -> int:
    unlike = [row for row in compared.rows if row.refused]
    if unlike:
        facts = ', '.join(dict.fromkeys(difference.fact for row in unlike for difference in row.differs))
        way = 'no label helps' if compared.labelled else '--label compares them and says what differs'
        total = counted(len(compared.rows), 'metric', 'are')
        print(f'parity: {len(unlike)} of {total} not like for like ({facts}), refused: {way}', file=sys.stderr)
        return errors.USAGE
    if any(row.state == 'regressed' for row in compared.rows):
        return errors.REGRESSED
    if not any(row.n for row in compared.rows):
        print(f'parity: {compared.baseline.name} and {compared.candidate.name} measured nothing in common',
              file=sys.stderr)
        return errors.MISSING
    return errors.OK
