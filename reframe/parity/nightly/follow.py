"""What ReFrame prints is handed on as it comes, with the progress of the run beside it.

On a terminal the progress is a bar below the lines; elsewhere it is a line now and then, without colours."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO

from parity.base import paths
from parity.base.errors import ParityError
from parity.nightly import progress
from parity.nightly.progress import Progress
from parity.records import database, kept
from parity.report import earlier
from parity.system import systems

#: Where nobody sees a bar, progress is told so often.
EVERY_SECONDS = 600.0
_POLL_SECONDS = 1.0
#: A job that waits so long is told of at once, and a new reason, too; how often that is looked for.
_WAIT_SECONDS, _LOOK_SECONDS = 60.0, 15.0
#: A process that ReFrame left behind may hold its output open: nobody waits longer for the rest.
_REST_SECONDS = 5.0


def start(command: list[str]) -> subprocess.Popen:
    """ReFrame with its output ours to read: in colours on a terminal only."""
    plain = {} if sys.stdout.isatty() else {'RFM_COLORIZE': os.environ.get('RFM_COLORIZE', 'n')}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, **plain},
                            stderr=subprocess.STDOUT if sys.stdout.isatty() else None)


class Follower:
    """Reads a process's output in a thread of its own, so that signals are the main thread's."""

    def __init__(self, process: subprocess.Popen, arguments: list[str]):
        self._progress = Progress(paths.results() / 'stage', time.monotonic(), _earlier(arguments))
        self._lines = _lines(process.stdout)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait for the rest of what a process that has ended printed."""
        self._thread.join(_REST_SECONDS)

    def _follow(self) -> None:
        (_on_terminal if sys.stdout.isatty() else _in_lines)(self._lines, self._progress)


def _earlier(arguments: list[str]) -> progress.Earlier | None:
    """How the newest session with the same selection went. A run is not refused for what cannot be told of it."""
    try:
        known = earlier.newest(database.uuids(), systems.named(arguments), arguments)
        return known and progress.of_session(kept.read(known.uuid))
    except (ParityError, ValueError):
        return None


def _lines(output: IO[bytes]) -> Iterator[str]:
    """Every line as it comes, '' where none came for a while."""
    handle, rest = output.fileno(), b''
    while True:
        if not select.select([handle], [], [], _POLL_SECONDS)[0]:
            yield ''
            continue
        if not (more := os.read(handle, 1 << 16)):
            break
        *lines, rest = (rest + more).split(b'\n')
        yield from (line.decode(errors='replace') + '\n' for line in lines)
    if rest:
        yield rest.decode(errors='replace')


def _in_lines(lines: Iterator[str], state: Progress) -> None:
    told = looked = time.monotonic()
    known: set[str] = set()
    if state.earlier:
        _say(f'parity: {state.told(told, time.time())}\n')
    for line in lines:
        now = time.monotonic()
        if line:
            state.read(line, now)
            _say(line)
        news: set[str] = set()
        if now - looked >= _LOOK_SECONDS:
            looked, news = now, state.held_up(now, time.time(), _WAIT_SECONDS) - known
        if news or now - told >= EVERY_SECONDS:
            told, known = now, known | news
            _say(f'parity: {state.told(now, time.time())}\n')


def _say(text: str) -> None:
    """A reader that has gone away does not end the run."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError):
        pass


def _on_terminal(lines: Iterator[str], state: Progress) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    with Live(console=console, get_renderable=lambda: _bar(state), transient=True, refresh_per_second=1) as live:
        for line in lines:
            if line:
                state.read(line, time.monotonic())
                live.console.print(Text.from_ansi(line.rstrip('\n')))


def _bar(state: Progress):
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=state.total or 1, completed=state.done, width=20),
                Text(state.told(time.monotonic(), time.time()), overflow='ellipsis', no_wrap=True))
    return row
