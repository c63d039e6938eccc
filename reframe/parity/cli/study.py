"""`parity study`: published experiments."""

from __future__ import annotations

import sys

import typer

app = typer.Typer(no_args_is_help=True, help='Published experiments: what their own figures say.')
NAME = typer.Argument(metavar='NAME', help='A folder of studies/.')
JSON = typer.Option(False, '--json', help='Print it as JSON.')


@app.callback()
def study():
    """Published experiments: what their own figures say."""


@app.command()
def compare(name: str = NAME, as_json: bool = JSON):
    """Compare a study's two sides, benchmark by benchmark; name what its own averages do not match."""
    from parity.cli.compare import printed
    from parity.study.compare import of_study
    found = of_study(name)
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=1) + '\n')
    else:
        printed(found)
