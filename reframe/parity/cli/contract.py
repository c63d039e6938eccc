"""`parity contract`: the promises of a delivery, measured and judged."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import typer

from parity.base import errors
from parity.base.errors import UsageError
from parity.cli.common import BY, person
from parity.cli.group import Group

app = typer.Typer(cls=Group, no_args_is_help=True,
                  help='Measure the promises of systems/NAME/contract.yaml, and say which are met.')
SYSTEM = typer.Option(..., '--system', help='The system whose contract it is.')
YES = typer.Option(False, '--yes', help='Measure without a question.')
PAGE = typer.Option('', '--page', metavar='FILE.html', help='By default results/report/contract-SYSTEM.html.')


@app.command()
def run(system: str = SYSTEM, yes: bool = YES, by: str = BY) -> int:
    """Measure what is not decided yet. Print the node-hours first, and ask.

    \b
    parity contract run --system onebox
    parity contract run --system onebox --yes

    What is stored is not measured again: after an interruption the same command goes on.

    Exit code: 0 all clauses are met, 1 one is not, 2 usage, 3 one is open or missing, 4 infrastructure."""
    from parity.base import console
    from parity.measure.contract import run as running
    from parity.measure.contract import survey as surveys
    name = _name(person(by))
    survey = surveys.of_system(system)
    if survey.unknown:
        raise errors.InfrastructureError(f'the nodes of {system} are not known: {survey.unknown}')
    todo = running.steps(survey)
    if not todo:
        return _printed(survey)
    console.lines(running.announced(survey, todo))
    if yes or _agreed():
        running.measure(survey, todo, name)
    return _printed(survey)


def _name(name: str) -> str:
    """Return who measures, as a session can have it."""
    if not re.fullmatch(r'[\w.@ -]+', name):
        raise UsageError(f'--by {name!r}: must be letters, digits, blanks and . @ - _')
    return name


def _agreed() -> bool:
    """Ask at a terminal. UsageError where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError('no terminal to ask at: --yes measures without a question')
    return typer.confirm('Measure it?')


def _printed(survey) -> int:
    """Print a line for each clause; return the exit code."""
    from parity.base import console
    from parity.judge.contract import judged, words
    verdicts = survey.verdicts()
    console.lines(words.status(survey.system.name, survey.contract, verdicts))
    return judged.exit_code(verdicts)


def _warn(survey) -> None:
    if survey.unknown:
        print(f'parity: warning: nodes that were never measured are not listed: {survey.unknown}', file=sys.stderr)


@app.command()
def status(system: str = SYSTEM) -> int:
    """Print a line for each clause: met, not met, open or missing, and what would decide it.

    Exit code: 0 all clauses are met, 1 one is not, 2 usage, 3 one is open or missing, 4 a node of an open one
    failed."""
    from parity.measure.contract import survey as surveys
    survey = surveys.of_system(system)
    _warn(survey)
    return _printed(survey)


@app.command()
def report(system: str = SYSTEM, page: str = PAGE) -> int:
    """Write the page to print and sign: each promise, what was measured, on what, by whom and when.

    Exit code: as of parity contract status."""
    from parity.base import paths
    from parity.judge.contract import judged
    from parity.judge.contract import page as pages
    from parity.measure.contract import survey as surveys
    file = Path(page) if page else paths.results() / 'report' / f'contract-{system}.html'
    if file.suffix != '.html':
        raise UsageError(f'--page {page}: must be a file that ends with .html')
    survey = surveys.of_system(system)
    _warn(survey)
    verdicts = survey.verdicts()
    print(pages.write(system, survey.contract, verdicts, file))
    return judged.exit_code(verdicts)
