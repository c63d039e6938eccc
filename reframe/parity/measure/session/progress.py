"""The progress of a run: what runs, what waits, what is left, beside the lines that ReFrame prints.

ReFrame says RUN of a case that only waits for its turn. Whether it runs is the scheduler's word in its stage
directory (parity.measure.scheduler.command). Without a queue a case runs once its job has an output."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from parity.base import console, paths
from parity.base.errors import ParityError
from parity.base.figures import counted, duration
from parity.judge.store import database
from parity.measure.scheduler import command
from parity.measure.scheduler.command import Standing
from parity.site import systems

_COLOUR = re.compile(r'\x1b\[[0-9;]*m')
_BEGUN = re.compile(r'\[ RUN +\] (?P<name>.+) /(?P<digest>\w+) @(?P<place>\S+)')
_ENDED = re.compile(r'\[ *(?P<word>[A-Z]+) *\] \( *(?P<done>\d+)/(?P<total>\d+)\) '
                    r'.* /(?P<digest>\w+) @(?P<place>\S+)')
#: At most so many cases are named.
_NAMED = 3
#: A wait of this length is printed at once, and so is a new reason.
_WAIT_SECONDS = 60.0


def usual(system: str) -> dict[str, float]:
    """Return the seconds that each case of the system took, the median of its nights, as ReFrame names the case.

    Empty without a history."""
    if not database.uuids():
        return {}
    import polars as pl  # here and not above: a first night does without it

    from parity.judge.store import history
    frame = history.load(system, reruns=True, labelled=True).filter(pl.col('seconds').is_not_null())
    runs = frame.group_by('case', 'partition', 'environ', 'session', 'run').agg(pl.col('seconds').first())
    cases = runs.group_by('case', 'partition', 'environ').agg(pl.col('seconds').median())
    seconds_of = {}
    for case, partition, environ, seconds in cases.iter_rows():
        seconds_of[f'{case} @{system}:{partition}+{environ}'] = seconds
    return seconds_of


@dataclass
class _Case:
    name: str
    patterns: tuple[str, ...]           # of its folder, below ReFrame's stage directory
    usual: float | None = None          # seconds that it took before
    folder: Path | None = None          # once it is there
    standing: Standing | None = None    # once its job waits or runs

    def ran(self, now: float) -> float:
        """Return the seconds that its job has run."""
        if not self.standing or self.standing.waits:
            return 0.0
        return now - self.standing.since

    def line(self, now: float) -> str:
        stood = duration(max(0.0, now - self.standing.since))
        reason = self.standing.reason
        return f'{self.name} ({stood}, {reason})' if reason else f'{self.name} ({stood})'

    def look(self, stage: Path) -> None:
        """Look for its folder, and there for how its job stands."""
        if not self.folder:
            self.folder = next(chain(*map(stage.glob, self.patterns)), None)
        if self.folder:
            self.standing = command.read_standing(self.folder) or self.standing or _started(self.folder)


@dataclass
class Progress:
    """The state of a run. ``stage`` is where ReFrame's cases run. ``began`` and every ``now`` are Unix times."""

    stage: Path
    began: float
    usual: dict[str, float] = field(default_factory=dict)       # seconds by case
    step: str = ''                   # of the night, such as `rerun 1 of 2`
    done: int = 0
    total: int = 0
    last: float = 0.0                # when the newest case that ran ended
    worth: float = 0.0               # usual seconds of the cases that ran
    _open: dict[str, _Case] = field(default_factory=dict)
    _printed: set[str] | None = None     # why cases are held up

    def read(self, line: str, now: float) -> None:
        """Take notice of a line of ReFrame's."""
        line = _COLOUR.sub('', line)
        if begun := _BEGUN.search(line):
            self._begin(**begun.groupdict())
        elif ended := _ENDED.search(line):
            self.done = int(ended['done'])
            self.total = int(ended['total'])
            case = self._open.pop(f'{ended["digest"]} {ended["place"]}', None)
            if ended['word'] != 'SKIP':
                self.last = now
                if case and case.usual:
                    self.worth += case.usual

    def _begin(self, name: str, digest: str, place: str) -> None:
        name = re.sub(r' %\.repeat_no=\d+', '', name)
        folder = re.sub(r'[:+]', '/', place)
        check = name.split()[0]
        patterns = f'{folder}/*{digest}*', f'{folder}/{check}'      # a check without parameters has no digest
        usual = self.usual.get(f'{name} @{place}')
        self._open[f'{digest} {place}'] = _Case(name, patterns, usual)

    def _polled(self) -> list[_Case]:
        """Return the cases that wait or run, the oldest first, after a look at their stage directories."""
        cases = list(self._open.values())       # another thread reads on
        for case in cases:
            case.look(self.stage)
        standing = [case for case in cases if case.standing]
        return sorted(standing, key=lambda case: case.standing.since)

    def news(self) -> bool:
        """Return whether cases wait for long in the queue, or for a node that is down, for a reason that was not
        printed yet; also true at first."""
        now = time.time()
        held_up = set()
        for case in self._polled():
            standing = case.standing
            waits_for_long = standing.waits and now - standing.since >= _WAIT_SECONDS
            if waits_for_long or (standing.reason and not standing.waits):
                held_up.add(standing.reason)
        if self._printed is not None and held_up <= self._printed:
            return False
        self._printed = held_up | (self._printed or set())
        return True

    def left(self, now: float) -> float | None:
        """Return the seconds that the open cases took before, at the pace of those that have ended."""
        measured = [case for case in self._open.values() if case.usual is not None]
        if not measured:
            return None
        # a case that takes longer than before does not use up what is left for the others
        seconds = sum(max(0.0, case.usual - case.ran(now)) for case in measured)
        pace = (self.last - self.began) / self.worth if self.worth else 1.0
        return seconds * pace

    def line(self, now: float) -> str:
        """Return one line on the progress."""
        cases = self._polled()
        running = [case for case in cases if not case.standing.waits]
        waiting = [case for case in cases if case.standing.waits]
        done = f'{self.done} of {self.total} done' if self.total else 'nothing done yet'
        parts = [f'{self.step}: {done}' if self.step else done]
        left = self.left(now)
        if left is not None:
            is_held_up = bool(waiting and not running)
            parts.append(self._about(left, now, is_held_up))
        if running:
            parts.append(f'running: {_listed(running, now)}')
        if waiting:
            parts.append(f'waiting in the queue: {_listed(waiting, now)}')
        return '; '.join(parts)

    def _about(self, left: float, now: float, is_held_up: bool) -> str:
        """Return how long the open cases will take, and how many cases this does not count."""
        end = time.strftime('until %a %H:%M', time.localtime(now + left))
        if is_held_up:
            end = 'once a job starts'
        about = f'about {duration(left)} left, {end}'
        new = sum(case.usual is None for case in self._open.values())
        return f'{about}, and {counted(new, "new case")}' if new else about


def _listed(cases: list[_Case], now: float) -> str:
    """Return the lines of the first cases, and how many more there are."""
    lines = [case.line(now) for case in cases[:_NAMED]]
    if len(cases) > _NAMED:
        lines.append(f'{len(cases) - _NAMED} more')
    return ', '.join(lines)


def _started(folder: Path) -> Standing | None:
    """Return since when a case without a queue runs: ReFrame writes its script as it starts it."""
    with contextlib.suppress(OSError):          # the case has ended and its directory is gone
        if (folder / 'rfm_job.out').exists():
            return Standing(False, (folder / 'rfm_job.sh').stat().st_mtime)
    return None


def follow(process: subprocess.Popen, arguments: list[str], step: str = '',
           shown: bool = True) -> threading.Thread:
    """Hand on a process's output in a thread of its own: signals are the main thread's. What is not ``shown`` is
    read and left to ReFrame's own log.

    A terminal's last line tells the progress; elsewhere a line a minute does so. What cannot be known of earlier
    nights refuses no run."""
    if not shown:
        thread = threading.Thread(target=deque, args=(process.stdout, 0), daemon=True)
        thread.start()
        return thread
    try:
        known = usual(systems.named(arguments))
    except (ParityError, ValueError):
        known = {}
    state = Progress(paths.results() / 'stage', time.time(), known, step)
    thread = threading.Thread(target=_show, args=(process.stdout, state), daemon=True)
    thread.start()
    return thread


def _show(output: Iterable[str], state: Progress) -> None:
    def progress() -> tuple[int, int, str]:
        return state.done, state.total, state.line(time.time())

    with console.progress(progress, state.news) as say:
        for line in output:
            state.read(line, time.time())
            with contextlib.suppress(OSError, ValueError):      # a reader that has gone away does not end the run
                say(line.rstrip('\n'))
