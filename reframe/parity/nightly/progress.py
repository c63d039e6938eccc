"""How far a run is: what runs, what is left, when it will probably end.

Read from what ReFrame prints. It says RUN of a case that only waits for its turn, so what really runs is
told by the scheduler's word in the case's stage directory (parity.scheduler.command), or where there is no
queue by the job's output, which is there from the job's start."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from parity.base.figures import duration
from parity.records import record
from parity.records.record import Session
from parity.scheduler import command
from parity.scheduler.command import Standing

_COLOUR = re.compile(r'\x1b\[[0-9;]*m')
_BEGUN = re.compile(r'\[ RUN +\] (.+) /(\w+) @(\S+)')
_ENDED = re.compile(r'\[ *([A-Z]+) *\] \( *(\d+)/(\d+)\) .* /(\w+) @\S+')
#: So many cases that are running are named.
_NAMED = 3
#: The share of the cases that must have run before their pace alone says anything of the end.
_ENOUGH = 0.1


@dataclass
class Earlier:
    """A session with the same selection: its length, and when its cases ended, in seconds from its start. Skipped
    cases end at once: they are only counted."""

    elapsed: float
    ends: list[float]
    skipped: int = 0


def of_session(session: Session) -> Earlier:
    """What a stored session says, without the time in which its jobs merely waited in a queue."""
    runs = [run for run in session.runs if not run.fixture]
    _, waited = record.ran_and_waited(runs)
    ran = [run for run in runs if run.status != 'skipped']
    return Earlier(session.elapsed - waited, record.ends(ran, session.start), len(runs) - len(ran))


@dataclass
class _Case:
    name: str
    pattern: str                     # of its folder, below ReFrame's stage directory
    since: float | None = None       # when it was first seen to run
    folder: Path | None = None       # once it is there
    queue: Standing | None = None    # how its job stands with the scheduler; None where there is none


@dataclass
class Progress:
    """``began`` and every ``now`` are seconds of one clock; ``stage`` is where ReFrame's cases run."""

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

    def running(self, now: float) -> list[str]:
        """The cases whose jobs have begun, with the time that they run, the longest first."""
        begun = sorted((c for c in self._seen(now) if c.since is not None), key=lambda c: c.since)
        return _named([_case(c, now - c.since) for c in begun])

    def waiting(self, now: float, clock: float) -> list[str]:
        """The cases whose jobs wait in a queue, with the time and the scheduler's reason, the longest first."""
        waits = sorted((c for c in self._seen(now) if c.since is None and c.queue), key=lambda c: c.queue.since)
        return _named([_case(c, max(0.0, clock - c.queue.since)) for c in waits])

    def held_up(self, now: float, clock: float, least: float) -> set[str]:
        """Why cases wait in the queue for ``least`` seconds or more, or for a node that is down."""
        return {c.queue.reason for c in self._seen(now) if c.queue
                and (clock - c.queue.since >= least if c.queue.waits else c.queue.reason)}

    def _seen(self, now: float) -> list[_Case]:
        """The open cases, once their stage directories were looked at."""
        cases = list(self._open.values())
        for case in cases:
            case.folder = case.folder or next(self.stage.glob(case.pattern), None)
            if case.folder:
                case.queue = command.read_standing(case.folder)
                begun = not case.queue.waits if case.queue else (case.folder / 'rfm_job.out').exists()
                case.since = (now if case.since is None else case.since) if begun else None
        return cases

    def left(self, now: float) -> float | None:
        """Seconds that are left: as many as were left of the earlier session when as many of its cases had run.
        None where nothing can be said: too little has run yet, or the pace so far said that all was over by
        now."""
        if self.total and self.done >= self.total:
            return 0.0
        if self.earlier and self.earlier.ends:
            return self._as_before(now)[0]
        ran = self.done - self.skipped
        if ran < max(1.0, _ENOUGH * (self.total - self.skipped)):
            return None
        left = (self.last - self.began) / ran * (self.total - self.done) - (now - self.last)
        return left if left > 0 else None

    def late(self, now: float) -> bool:
        """Does a case take longer than in the earlier session? Then more is left than ``left`` says."""
        return bool(self.earlier and self.earlier.ends) and self._as_before(now)[1]

    def _as_before(self, now: float) -> tuple[float, bool]:
        """Seconds that are left at least, and whether the next case should have ended by now."""
        ends, whole = self.earlier.ends, self.earlier.elapsed
        share = len(ends) / (len(ends) + self.earlier.skipped)      # that ran of all cases, then
        count = max(1, min(round(share * self.total), self.total - self.skipped)) if self.total else len(ends)
        at = min((self.done - self.skipped) * len(ends) // count, len(ends) - 1)
        since = now - (self.last or self.began)
        then = (ends[at - 1] if at else 0.0) + since * len(ends) / count
        # a case that takes longer than it did then cannot use up what is left for the others
        return max(0.0, whole - min(then, ends[at])) * count / len(ends), then > ends[at]

    def told(self, now: float, clock: float) -> str:
        """One line; ``clock`` is the Unix time of ``now``."""
        said = [f'{self.done} of {self.total} done' if self.total else 'nothing done yet']
        running, waits = self.running(now), self.waiting(now, clock)
        held = waits and not running
        left = self.left(self.last or self.began if held else now)
        if left is not None and self.done < (self.total or 1):
            said.append(self._until(left, held, now, clock))
        if running:
            said.append(f'running: {", ".join(running)}')
        if waits:
            said.append(f'waiting in the queue: {", ".join(waits)}')
        return '; '.join(said)

    def _until(self, left: float, held: bool, now: float, clock: float) -> str:
        if held:
            return f'about {duration(left)} left, once a job starts'
        if self.late(now):
            return 'longer than last time' + (f', at least {duration(left)} left' if left >= 1 else '')
        return f'about {duration(left)} left, until {_clock(clock, clock + left)}'


def _case(case: _Case, seconds: float) -> str:
    reason = f', {case.queue.reason}' if case.queue and case.queue.reason else ''
    return f'{case.name} ({duration(seconds)}{reason})'


def _named(cases: list[str]) -> list[str]:
    return cases[:_NAMED] + ([f'{len(cases) - _NAMED} more'] if len(cases) > _NAMED else [])


def _clock(now: float, then: float) -> str:
    """The time of day, with the weekday where it is another day."""
    same = time.localtime(now).tm_yday == time.localtime(then).tm_yday
    return time.strftime('%H:%M' if same else '%a %H:%M', time.localtime(then))
