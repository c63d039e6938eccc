"""The progress of a run: what runs, what waits, what is left, beside the lines that ReFrame prints.

ReFrame says RUN of a case that only waits for its turn. Whether it runs is the scheduler's word in its stage
directory (parity.scheduler.command). Without a queue a case runs once its job has an output."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

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
#: Without a terminal a line tells the progress so often.
EVERY_SECONDS = 600.0
#: A wait of this length is printed at once, and so is a new reason; how often parity looks for one.
_WAIT_SECONDS, _LOOK_SECONDS = 60.0, 15.0


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
    pattern: str                        # of its folder, below ReFrame's stage directory
    folder: Path | None = None          # once it is there
    standing: Standing | None = None    # once its job waits or runs

    def told(self, now: float) -> str:
        reason = f', {self.standing.reason}' if self.standing.reason else ''
        return f'{self.name} ({duration(max(0.0, now - self.standing.since))}{reason})'


@dataclass
class Progress:
    """The state of a run. ``stage`` is where ReFrame's cases run. ``last`` and every ``now`` are Unix times."""

    stage: Path
    last: float                      # when the newest case that ran ended; the run's start before that
    earlier: Earlier | None = None
    done: int = 0
    ran: int = 0                     # of those that are done; the others were skipped
    total: int = 0
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
            if ended[1] != 'SKIP':
                self.ran, self.last = self.ran + 1, now
            self._open.pop(ended[4], None)

    def _seen(self, now: float) -> list[_Case]:
        """Return the cases that wait or run, the oldest first, after a look at their stage directories."""
        cases = list(self._open.values())       # another thread reads on
        for case in cases:
            case.folder = case.folder or next(self.stage.glob(case.pattern), None)
            if case.folder:
                case.standing = command.read_standing(case.folder) or case.standing or (
                    Standing(False, now) if (case.folder / 'rfm_job.out').exists() else None)
        return sorted((c for c in cases if c.standing), key=lambda c: c.standing.since)

    def held_up(self, now: float) -> set[str]:
        """Return why cases wait in the queue for long, or for a node that is down."""
        found = [case.standing for case in self._seen(now)]
        return {s.reason for s in found if (now - s.since >= _WAIT_SECONDS if s.waits else s.reason)}

    def left(self, now: float) -> float | None:
        """Return the seconds that the earlier session had left when as many of its cases had run."""
        if not self.earlier or not self.earlier.ends or self.total and self.done >= self.total:
            return None
        whole, ends, skipped = self.earlier
        share = len(ends) / (len(ends) + skipped)       # of all cases then, those that ran
        longer = max(1, round(share * self.total)) / len(ends) if self.total else 1
        at = min(int(self.ran / longer), len(ends) - 1)
        then = (ends[at - 1] if at else 0.0) + (now - self.last) / longer
        # a case that takes longer than it did then cannot use up what is left for the others
        return max(0.0, whole - min(then, ends[at])) * longer

    def told(self, now: float) -> str:
        """Return one line on the progress."""
        cases = self._seen(now)
        running, waiting = ([c for c in cases if c.standing.waits is waits] for waits in (False, True))
        held = bool(waiting and not running)
        said = [f'{self.done} of {self.total} done' if self.total else 'nothing done yet']
        if (left := self.left(self.last if held else now)) is not None:
            end = time.strftime('until %a %H:%M', time.localtime(now + left))
            said.append(f'about {duration(left)} left, {"once a job starts" if held else end}')
        for what, group in (('running', running), ('waiting in the queue', waiting)):
            if group:
                more = [f'{len(group) - _NAMED} more'] if len(group) > _NAMED else []
                said.append(f'{what}: {", ".join([c.told(now) for c in group[:_NAMED]] + more)}')
        return '; '.join(said)


def start(command: list[str]) -> subprocess.Popen:
    """Start ReFrame with its output ours to read: in colours on a terminal only."""
    terminal = sys.stdout.isatty()
    plain = {} if terminal else {'RFM_COLORIZE': os.environ.get('RFM_COLORIZE', 'n')}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding='utf-8',
                            errors='replace', stderr=subprocess.STDOUT if terminal else None,
                            env={**os.environ, **plain})


def follow(process: subprocess.Popen, arguments: list[str]) -> threading.Thread:
    """Hand on a process's output in a thread of its own: signals are the main thread's.

    A terminal's last line tells the progress; elsewhere a line does so now and then. What cannot be known of an
    earlier session refuses no run."""
    try:
        known = beside.newest(database.uuids(), systems.named(arguments), arguments)
        earlier = of_session(database.read(known.uuid)) if known else None
    except (ParityError, ValueError):
        earlier = None
    state = Progress(paths.results() / 'stage', time.time(), earlier)
    show = _on_terminal if sys.stdout.isatty() else _in_lines
    thread = threading.Thread(target=show, args=(process.stdout, state), daemon=True)
    thread.start()
    return thread


def _in_lines(output: Iterable[str], state: Progress) -> None:
    ended = threading.Event()
    threading.Thread(target=tell, args=(state, ended.wait), daemon=True).start()
    for line in output:
        state.read(line, time.time())
        _say(line)
    ended.set()


def tell(state: Progress, ended: Callable[[float], bool]) -> None:
    """Print the progress now and then, and at once where cases are held up for a new reason."""
    told, known = 0.0, set()
    while not ended(_LOOK_SECONDS):
        now = time.time()
        news = state.held_up(now) - known
        if news or now - told >= EVERY_SECONDS:
            told, known = now, known | news
            _say(f'parity: {state.told(now)}\n')


def _say(text: str) -> None:
    """Print a text. A reader that has gone away does not end the run."""
    with contextlib.suppress(OSError, ValueError):
        print(text, end='', flush=True)


def _on_terminal(output: Iterable[str], state: Progress) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def newest() -> Text:
        return Text(state.told(time.time()), style='dim', overflow='ellipsis', no_wrap=True)

    console = Console(soft_wrap=True, highlight=False, emoji=False)
    with Live(console=console, get_renderable=newest, transient=True, refresh_per_second=1) as live:
        for line in output:
            state.read(line, time.time())
            live.console.print(Text.from_ansi(line.rstrip('\n')))
