"""`parity replay`: what parity would have said of a history."""

from __future__ import annotations

import json
import re
from pathlib import Path

import typer

from parity.base.errors import OK, UsageError

PATHS = typer.Argument(None, metavar='FILE|DIR',
                       help="A CSV, perflogs or a results.db of ReFrame, results of asv; or a folder.")
SYSTEM = typer.Option('', '--system', help="Replay this system's stored nights instead of files.")
SINCE = typer.Option('', '--since', metavar='DATE', help='With --system: begin with this date.')
COLUMNS = typer.Option('', '--columns', metavar='KEY=NAME,...',
                       help='Columns of a CSV: night, value, series, group, unit; such as night=date,value=mops.')
HIGHER = typer.Option('', '--higher', metavar='PATTERN', help='Of series with such a name, more is better.')
LOWER = typer.Option('', '--lower', metavar='PATTERN', help='Of series with such a name, less is better.')
ACCEPT = typer.Option(7, '--accept-after', min=0, metavar='N',
                      help='Nights after which the operator accepts a slowdown; 0: never.')
A_MONTH = typer.Option(1.0, '--a-month', min=0.01, max=100, metavar='N',
                       help='False alarms a month, of all series.')
JSON = typer.Option(False, '--json', help='Print it as JSON.')


def run(paths: list[Path] = PATHS, system: str = SYSTEM, since: str = SINCE, columns: str = COLUMNS,
        higher: str = HIGHER, lower: str = LOWER, accept_after: int = ACCEPT, a_month: float = A_MONTH,
        as_json: bool = JSON) -> int:
    """Live through a history night by night: what parity would have told, and what it would have missed."""
    from parity.report import replay as words
    from parity.session import histories
    from parity.stats import replay
    from parity.verdict import budget
    if bool(paths) == bool(system):
        raise UsageError('name files or folders, or a system by --system NAME')
    if since and not system:
        raise UsageError('--since needs --system')
    directions = histories.Directions(_pattern('--higher', higher), _pattern('--lower', lower))
    sources = [histories.of_system(system, since, directions)] if system else [
        *histories.of_paths(paths, _columns(columns, histories.NAMED), directions)]
    documents = []
    for source in sources:
        rate = budget.of(a_month, len(source.history.names), 0, 0).rate
        lived = replay.live(source.history, accept_after, rate)
        if as_json:
            documents.append(words.document(source, lived))
        else:
            typer.echo('\n'.join([*([''] if source is not sources[0] else []),
                                  *words.lines(source, lived, a_month, accept_after)]))
    if as_json:
        typer.echo(json.dumps(documents, indent=1))
    return OK


def _pattern(option: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as err:
        raise UsageError(f'{option} {text!r}: this is no regular expression: {err}') from None
    return text


def _columns(columns: str, valid: tuple[str, ...]) -> dict[str, str]:
    """Return the columns that the option names, by key. UsageError for another key than ``valid``, or no name."""
    names = {}
    for word in filter(None, columns.split(',')):
        key, _, name = word.partition('=')
        if key not in valid or not name:
            raise UsageError(f'--columns {word!r}: valid is KEY=NAME, with KEY one of {", ".join(valid)}')
        names[key] = name
    return names
