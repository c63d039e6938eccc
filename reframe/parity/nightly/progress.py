"""The progress of a run: what runs, what waits, what is left, beside the lines that ReFrame prints.

ReFrame says RUN of a case that only waits for its turn. Whether it runs is the scheduler's word in its stage
directory (parity.scheduler.command). Without a queue a case runs once its job has an output."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from parity.base import paths
from parity.base.errors import ParityError
from parity.base.figures import duration
from parity.records import database, record
from parity.records.record import Session
from parity.report import beside
from parity.scheduler import command
from parity.scheduler.command import Standing
from parity.system import systems

_COLOUR = re.compile(r'\x1b\[[0-9;]*m')
_BEGUN = re.compile(r'\[ RUN +\] (.+) /(\w+) @(\S+)')
_ENDED = re.compile(r'\[ *([A-Z]+) *\] \( *(\d+)/(\d+)\) .* /(\w+) @\S+')
#: At most so many cases are named.
_NAMED = 3
#: The share of the cases that must have run before their pace tells the end.
_ENOUGH = 0.1
#: Without a terminal a line tells the progress so often.
EVERY_SECONDS = 600.0
#: A wait of this length is printed at once, and so is a new reason; how often parity looks for one.
_WAIT_SECONDS, _LOOK_SECONDS = 60.0, 15.0
_POLL_SECONDS = 1.0


class Earlier(NamedTuple):
    """A session with the same selection: its length, and when its cases ended, in seconds from its start."""

    elapsed: float
    ends: list[float]
    skipped: int = 0        # cases that ended at once are only counted


def of_session(session: Session) -> Earlier:
    """Return a stored session's length and ends, without the time in which all its jobs waited in a queue."""
    runs = [run for run in session.runs if not run.fixture]
    ran = [run for run in runs if run.status != 'skipped']
    return Earlier(session.elapsed - record.ran_and_waited(runs)[1], record.ends(ran, session.start),
                   len(runs) - len(ran))


@dataclass
class _Case:
    name: str
    pattern: str                     # of its folder, below ReFrame's stage directory
    since: float | None = None       # when it was first seen to run
    folder: Path | None = None       # once it is there
    queue: Standing | None = None    # how its job stands with the scheduler; None where there is none


@dataclass
class Progress:
    """The state of a run. ``began`` and every ``now`` are seconds of one clock, ``clock`` is the Unix time of
    ``now``; ``stage`` is where ReFrame's cases run."""

    stage: Path
    began: float
    earlier: Earlier | None = None
    done: int = 0
    skipped: int = 0                 # of those that are done
    total: int = 0
    last: float = 0.0                # when the newest case that ran ended
    _open: dict[str, _Case] = field(default_factory=dict)

    def read(self, line: str, now: float) -> None:
        """Take notice of a line of ReFrame's."""
        line = _COLOUR.sub('', line)
        if begun := _BEGUN.search(line):
            name, digest, place = begun.groups()
            folder = re.sub(r'[:+]', '/', place)
            self._open[digest] = _Case(re.sub(r' %\.repeat_no=\d+', '', name), f'{folder}/*{digest}*')
        elif ended := _ENDED.search(line):
            self.done, self.total = int(ended[2]), int(ended[3])
            if ended[1] == 'SKIP':
                self.skipped += 1
            else:
                self.last = now
            self._open.pop(ended[4], None)

    def held_up(self, now: float, clock: float) -> set[str]:
        """Return why cases wait in the queue for long, or for a node that is down."""
        return {c.queue.reason for c in self._seen(now) if c.queue
                and (clock - c.queue.since >= _WAIT_SECONDS if c.queue.waits else c.queue.reason)}

    def _seen(self, now: float) -> list[_Case]:
        """Look at the stage directories of the open cases."""
        cases = list(self._open.values())
        for case in cases:
            case.folder = case.folder or next(self.stage.glob(case.pattern), None)
            if case.folder:
                case.queue = command.read_standing(case.folder)
                begun = not case.queue.waits if case.queue else (case.folder / 'rfm_job.out').exists()
                case.since = (now if case.since is None else case.since) if begun else None
        return cases

    def left(self, now: float) -> tuple[float | None, bool]:
        """Return the seconds that are left, None where unknown, and whether a case takes longer than last time.

        An earlier session tells them: it had so many left when as many of its cases had run. Otherwise the pace
        so far tells them, once enough cases have run."""
        ran = self.done - self.skipped
        if self.total and self.done >= self.total:
            return 0.0, False
        if not self.earlier or not self.earlier.ends:
            if ran < max(1.0, _ENOUGH * (self.total - self.skipped)):
                return None, False
            left = (self.last - self.began) / ran * (self.total - self.done) - (now - self.last)
            return left if left > 0 else None, False
        whole, ends, skipped = self.earlier
        share = len(ends) / (len(ends) + skipped)       # of all cases then, those that ran
        count = max(1, min(round(share * self.total), self.total - self.skipped)) if self.total else len(ends)
        at = min(ran * len(ends) // count, len(ends) - 1)
        since = now - (self.last or self.began)
        then = (ends[at - 1] if at else 0.0) + since * len(ends) / count
        # a case that takes longer than it did then cannot use up what is left for the others
        return max(0.0, whole - min(then, ends[at])) * count / len(ends), then > ends[at]

    def told(self, now: float, clock: float) -> str:
        """Return one line on the progress."""
        cases = self._seen(now)
        running = sorted((c for c in cases if c.since is not None), key=lambda c: c.since)
        waiting = sorted((c for c in cases if c.since is None and c.queue), key=lambda c: c.queue.since)
        held = bool(waiting and not running)
        left, late = self.left(self.last or self.began if held else now)
        said = [f'{self.done} of {self.total} done' if self.total else 'nothing done yet']
        if left is None or self.total and self.done >= self.total:
            pass
        elif held:
            said.append(f'about {duration(left)} left, once a job starts')
        elif late:
            said.append('longer than last time' + (f', at least {duration(left)} left' if left >= 1 else ''))
        else:
            today, end = time.localtime(clock), time.localtime(clock + left)
            day = '' if today.tm_yday == end.tm_yday else '%a '
            said.append(f'about {duration(left)} left, until {time.strftime(f"{day}%H:%M", end)}')
        if running:
            said.append(f'running: {_named([(c, now - c.since) for c in running])}')
        if waiting:
            said.append(f'waiting in the queue: {_named([(c, max(0.0, clock - c.queue.since)) for c in waiting])}')
        return '; '.join(said)


def _named(cases: list[tuple[_Case, float]]) -> str:
    """Name the first cases, each with its seconds and the scheduler's reason, and count the others."""
    named = []
    for case, seconds in cases[:_NAMED]:
        reason = f', {case.queue.reason}' if case.queue and case.queue.reason else ''
        named.append(f'{case.name} ({duration(seconds)}{reason})')
    return ', '.join(named + ([f'{len(cases) - _NAMED} more'] if len(cases) > _NAMED else []))


def start(command: list[str]) -> subprocess.Popen:
    """Start ReFrame with its output ours to read: in colours on a terminal only."""
    plain = {} if sys.stdout.isatty() else {'RFM_COLORIZE': os.environ.get('RFM_COLORIZE', 'n')}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, **plain},
                            stderr=subprocess.STDOUT if sys.stdout.isatty() else None)


def follow(process: subprocess.Popen, arguments: list[str]) -> threading.Thread:
    """Hand on a process's output in a thread of its own: signals are the main thread's.

    A bar on a terminal, elsewhere a line now and then, tells the progress. What cannot be known of an earlier
    session refuses no run."""
    try:
        known = beside.newest(database.uuids(), systems.named(arguments), arguments)
        earlier = of_session(database.read(known.uuid)) if known else None
    except (ParityError, ValueError):
        earlier = None
    state = Progress(paths.results() / 'stage', time.monotonic(), earlier)
    show = _on_terminal if sys.stdout.isatty() else _in_lines
    thread = threading.Thread(target=show, args=(_lines(process.stdout), state), daemon=True)
    thread.start()
    return thread


def _lines(output: IO[bytes]) -> Iterator[str]:
    """Yield every line as it comes, and '' where none came for a while."""
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
            looked, news = now, state.held_up(now, time.time()) - known
        if news or now - told >= EVERY_SECONDS:
            told, known = now, known | news
            _say(f'parity: {state.told(now, time.time())}\n')


def _say(text: str) -> None:
    """Print a text. A reader that has gone away does not end the run."""
    with contextlib.suppress(OSError, ValueError):
        print(text, end='', flush=True)


def _on_terminal(lines: Iterator[str], state: Progress) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def bar() -> Table:
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=state.total or 1, completed=state.done, width=20),
                    Text(state.told(time.monotonic(), time.time()), overflow='ellipsis', no_wrap=True))
        return row

    console = Console(soft_wrap=True, highlight=False, emoji=False)
    with Live(console=console, get_renderable=bar, transient=True, refresh_per_second=1) as live:
        for line in lines:
            if line:
                state.read(line, time.monotonic())
                live.console.print(Text.from_ansi(line.rstrip('\n')))
