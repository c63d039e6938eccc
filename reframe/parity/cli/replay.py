"""`parity replay`: what parity would have said of a history."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from parity.base.errors import OK, NothingMeasured, UsageError
from parity.cli.common import JSON

if TYPE_CHECKING:
    from parity.judge.stats import detect, replay
    from parity.judge.store import histories

PATHS = typer.Argument(None, metavar='FILE|DIR',
                       help='A CSV; perflogs or a results.db of ReFrame; results of asv, github-action-benchmark, '
                            'Google Benchmark; or a folder. '
                            'At most 10000 files, 256 MiB unpacked and 10000 columns.')
FORMAT = typer.Option('', '--format', metavar='FORMAT',
                      help='csv, perflog, reframe, asv, benchmark-action or google-benchmark; '
                           'found by looking if not given.')
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
PAGE = typer.Option('', '--page', metavar='FILE',
                      help='Write a page: a map of the nights, a curve of each series.')

_DATE = re.compile('[0-9]{4}-[0-9]{2}-[0-9]{2}')


def run(paths: list[Path] = PATHS, form: str = FORMAT, system: str = SYSTEM, since: str = SINCE,
        columns: str = COLUMNS, higher: str = HIGHER, lower: str = LOWER,
        accept_after: int = ACCEPT, a_month: float = A_MONTH, page: str = PAGE, as_json: bool = JSON) -> int:
    """Live through a history night by night: what parity would have told, and what it would have missed."""
    from parity.base import files
    from parity.judge.verdict import budget
    from parity.lab import replay as words
    from parity.lab import replay_page
    from parity.site import systems
    from parity.site.systems import Alarms
    if bool(paths) == bool(system):
        raise UsageError('name files or folders, or a system by --system NAME')
    if since and not system:
        raise UsageError('--since needs --system NAME; leave it out for files')
    if since and not _DATE.fullmatch(since):
        raise UsageError(f'--since {since!r}: must be a date such as 2026-01-01')
    patterns = _pattern('--higher', higher), _pattern('--lower', lower)
    sources = _sources(paths, form, system, since, columns, patterns)
    if page and len(sources) > 1:
        raise UsageError(f'--page is for one history; {len(sources)} were found: '
                         f'{", ".join(source.name for source in sources)}')
    alarms = systems.read(system).alarms if system else Alarms()
    documents = []
    for source in sources:
        rate = budget.of(a_month, len(source.history.names), 0, 0).rate
        life = _live(source.history, accept_after, rate, alarms.least)
        if page:
            files.write(Path(page), replay_page.page(source, life, a_month, accept_after))
        if as_json:
            documents.append(words.document(source, life))
        else:
            if source is not sources[0]:
                typer.echo()
            typer.echo('\n'.join(words.lines(source, life, a_month, accept_after)))
    if as_json:
        typer.echo(json.dumps(documents, indent=1))
    elif page:
        typer.echo(f'\n{page}')
    return OK


def _sources(paths: list[Path], form: str, system: str, since: str, columns: str, patterns: tuple[str, str]
             ) -> list[histories.Source]:
    """Return the histories. UsageError where none has a night that can be judged, NothingMeasured of a system."""
    from parity.base import console
    from parity.base.figures import counted, several
    from parity.judge.stats.bounds import FIRST
    from parity.judge.store import histories, tables
    from parity.judge.store.reading import Reading
    if form and form not in histories.FORMATS:
        raise UsageError(f'--format {form}: valid are {", ".join(histories.FORMATS)}')
    directions = histories.Directions(*patterns)
    if system:
        sources = [histories.of_system(system, since, directions)]
    else:
        reading = Reading()
        with console.progress(reading.state) if sys.stdout.isatty() else contextlib.nullcontext():
            sources = list(histories.of_paths(paths, _columns(columns, tables.NAMED), directions, form, reading))
    longest = max(source.history.longest for source in sources)
    if longest <= FIRST:
        few = f'{several([s.name for s in sources])}: the longest series has {counted(longest, "night")}; ' \
              f'a series is judged from night {FIRST + 1} on'
        raise NothingMeasured(few) if system else UsageError(few)
    return sources


def _live(history: detect.History, accept_after: int, rate: float, least: float) -> replay.Life:
    """Live through a history; on a terminal, show how far, and the time left."""
    from parity.base import console, figures
    from parity.judge.stats import replay
    total = len(history.names)
    begin = time.monotonic()
    done, last = 0, begin

    def state() -> console.Progress:
        text = f'{done} of {total} series'
        if done:
            expected = (last - begin) * total / done
            left = expected - (time.monotonic() - begin)
            if left > 0:
                text += f', {figures.duration(left)} left'
        return done, total, text

    def count(series: int) -> None:
        nonlocal done, last
        done, last = series, time.monotonic()
    with console.progress(state) if sys.stdout.isatty() else contextlib.nullcontext():
        return replay.live(history, accept_after, rate, least, count)


def _pattern(option: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as err:
        raise UsageError(f'{option} {text!r}: must be a regular expression: {err}') from None
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
