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
_BEGUN = re.compile(r'\[ RUN +\] (.+) /(\w+) @(\S+)')
_ENDED = re.compile(r'\[ *([A-Z]+) *\] \( *(\d+)/(\d+)\) .* /(\w+) @(\S+)')
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
    return {f'{case} @{system}:{partition}+{environ}': seconds
            for case, partition, environ, seconds in cases.iter_rows()}


@dataclass
class _Case:
    name: str
    patterns: tuple[str, ...]           # of its folder, below ReFrame's stage directory
    usual: float | None = None          # seconds that it took before
    folder: Path | None = None          # once it is there
    standing: Standing | None = None    # once its job waits or runs

    def ran(self, now: float) -> float:
        """Return the seconds that its job has run."""
        return now - self.standing.since if self.standing and not self.standing.waits else 0.0

    def line(self, now: float) -> str:
        reason = f', {self.standing.reason}' if self.standing.reason else ''
        return f'{self.name} ({duration(max(0.0, now - self.standing.since))}{reason})'


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
            name, digest, place = begun.groups()
            folder, name = re.sub(r'[:+]', '/', place), re.sub(r' %\.repeat_no=\d+', '', name)
            usual = self.usual.get(f'{name} @{place}')
            self._open[f'{digest} {place}'] = _Case(name, (
                f'{folder}/*{digest}*', f'{folder}/{name.split()[0]}'), usual)    # without parameters: no digest
        elif ended := _ENDED.search(line):
            self.done, self.total = int(ended[2]), int(ended[3])
            case = self._open.pop(f'{ended[4]} {ended[5]}', None)
            if ended[1] != 'SKIP':
                self.last, self.worth = now, self.worth + ((case and case.usual) or 0.0)

    def _polled(self) -> list[_Case]:
        """Return the cases that wait or run, the oldest first, after a look at their stage directories."""
        cases = list(self._open.values())       # another thread reads on
        for case in cases:
            case.folder = case.folder or next(chain(*map(self.stage.glob, case.patterns)), None)
            if case.folder:
                case.standing = command.read_standing(case.folder) or case.standing or _started(case.folder)
        return sorted((c for c in cases if c.standing), key=lambda c: c.standing.since)

    def news(self) -> bool:
        """Return whether cases wait for long in the queue, or for a node that is down, for a reason that was not
        printed yet; also true at first."""
        now, printed = time.time(), self._printed
        standings = [case.standing for case in self._polled()]
        held_up = {s.reason for s in standings if (now - s.since >= _WAIT_SECONDS if s.waits else s.reason)}
        self._printed = held_up | (printed or set())
        return self._printed != printed

    def left(self, now: float) -> float | None:
        """Return the seconds that the open cases took before, at the pace of those that have ended."""
        known = [case for case in self._open.values() if case.usual is not None]
        if not known:
            return None
        # a case that takes longer than before does not use up what is left for the others
        left = sum(max(0.0, case.usual - case.ran(now)) for case in known)
        return left * ((self.last - self.began) / self.worth if self.worth else 1.0)

    def line(self, now: float) -> str:
        """Return one line on the progress."""
        cases = self._polled()
        running, waiting = ([c for c in cases if c.standing.waits is waits] for waits in (False, True))
        held = bool(waiting and not running)
        said = [f'{self.step}: ' if self.step else '']
        said[0] += f'{self.done} of {self.total} done' if self.total else 'nothing done yet'
        if (left := self.left(now)) is not None:
            end = time.strftime('until %a %H:%M', time.localtime(now + left))
            new = sum(case.usual is None for case in self._open.values())
            said.append(f'about {duration(left)} left, {"once a job starts" if held else end}'
                        + (f', and {counted(new, "new case")}' if new else ''))
        for what, group in (('running', running), ('waiting in the queue', waiting)):
            if group:
                more = [f'{len(group) - _NAMED} more'] if len(group) > _NAMED else []
                said.append(f'{what}: {", ".join([c.line(now) for c in group[:_NAMED]] + more)}')
        return '; '.join(said)


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
    with console.progress(lambda: (state.done, state.total, state.line(time.time())), state.news) as say:
        for line in output:
            state.read(line, time.time())
            with contextlib.suppress(OSError, ValueError):      # a reader that has gone away does not end the run
                say(line.rstrip('\n'))
