"""The options that several commands share, and the values that these accept."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from parity.base.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from parity.site.systems import System

JSON = typer.Option(False, '--json', help='Print it as JSON.')
SESSION = typer.Option('', help="A session's uuid or its beginning; the newest if not given.")
#: From this age on a night is too old, where all systems are asked.
MAX_AGE = '26h'
OLDEST = typer.Option(MAX_AGE, '--max-age', metavar='TIME', help='With all systems: an older night is too old.')
BY = typer.Option('', metavar='NAME', help='Who says so; by default the login name.')
SYSTEM_OF_CELL = typer.Option('', '--system', help='The system of the cell; --list: of this system only.')


def demand_one(session: str, system: str) -> None:
    """Refuse a session and a system together."""
    if session and system:
        raise UsageError('--session and --system: give only one')


def seconds(option: str, text: str) -> float:
    """Return the seconds of a time such as 26h. UsageError for what is none."""
    from parity.base import times
    try:
        return times.seconds(text)
    except ValueError as err:
        raise UsageError(f'{option}: {err}') from None


def day(option: str, text: str, example: datetime.date) -> datetime.date:
    """Return the day that an option gives. UsageError, with an example, for what is none."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f'{option} {text!r}: must be a day such as {example}') from None


def reason(why: str) -> str:
    """Return the text of --why. UsageError for one that says nothing, or has what nobody sees."""
    from parity.base.text import refuse_in_words
    if len(why.strip()) < 3:
        raise UsageError(f'--why {why!r}: must say in three letters or more what happened')
    refuse_in_words([why])
    return why


def person(by: str) -> str:
    """Return who speaks: --by, else the login name. UsageError for a name with what nobody sees."""
    import getpass
    import os

    from parity.base.text import refuse_in_words
    refuse_in_words([by])
    return by or os.environ.get('SUDO_USER') or getpass.getuser()


def on(wanted: str, system: str) -> str:
    """Return the name of a cell, on the system that --system gives."""
    if not system:
        return wanted
    from parity.site import systems
    name, _, rest = wanted.partition('@')
    return f'{name}@{systems.read(system).name}:{rest.partition(":")[2]}'


def system_or_newest(name: str) -> System:
    """Return the system of this name, or that of the newest session."""
    from parity.base import paths
    from parity.judge.store import database
    from parity.site import systems
    if name:
        return systems.read(name)
    last = database.last()
    newest = database.brief(last) if last else None
    if newest is None:
        raise NothingMeasured(f'{paths.database()}: no session is stored; name a system: --system NAME')
    return systems.read(newest.system)


def read_input(file: str) -> bytes:
    """Return what a file contains; '-' is standard input."""
    from parity.base import files
    return sys.stdin.buffer.read() if file == '-' else files.read(Path(file))


def print_json(answer: dict[str, Any]) -> None:
    """Print an answer as JSON."""
    print(json.dumps(answer, indent=1, allow_nan=False))
