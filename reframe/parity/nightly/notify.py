"""A notice when the state of a system changes, by the one command that its system.yaml names."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from parity.base import files, paths, strict
from parity.base.errors import UsageError
from parity.base.text import visible
from parity.system import systems
from parity.system.systems import Notify
from parity.verdict import acks, judge, terminal
from parity.verdict.model import Cell, Verdict, rows

TIMEOUT_SECONDS = 60.0
#: Bytes of the command's output that are searched for why it failed.
_PRINTED_BYTES = 1 << 14
_SECRET = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)')


@dataclass
class Notifier:
    """``notify`` is None where the system names no command: then nothing is sent or stored."""

    system: str
    notify: Notify | None
    secrets: dict[str, str] = field(default_factory=dict, repr=False)

    def judged(self, verdict: Verdict) -> None:
        """Tell the verdict if it changes the state. Prints what fails and raises nothing: it is no measurement."""
        self._told(night_of(verdict), verdict)

    def failed(self) -> None:
        """Tell that the night stored no session."""
        self._told(FAILED, None)

    def test(self) -> str:
        """Send a notice that says it is a test; return '' or why it was not sent."""
        notice = text(f'parity: {self.system}: a test', ['A test of notify in system.yaml.'], None)
        return send(self.notify.command, notice, self.secrets)

    def _told(self, tonight: Night, verdict: Verdict | None) -> None:
        if self.notify is None:
            return
        now = time.time()
        try:
            known = load(self.system).after(tonight, now)
            news = known.news(now, strict.seconds(self.notify.reminder))
            if not news or self._sent(known, news, verdict):
                known = known.heard(now if news else None)
            store(self.system, known)
        except OSError as err:
            print(f'parity: {err.filename or paths.results()}: {err.strerror}: what was told is not known; '
                  'the next night may tell it again', file=sys.stderr)

    def _sent(self, known: State, news: str, verdict: Verdict | None) -> bool:
        headline = subject(self.system, known, news)
        why = send(self.notify.command, text(headline, changes(known), verdict), self.secrets)
        if why:
            print(f'parity: notice not sent: {visible(why)}; the next night tries again', file=sys.stderr)
        else:
            print(f'notice sent: {headline}')
        return not why


def prepared(system: str) -> Notifier:
    """Return the system's notifier. UsageError where its command or its secrets cannot be used."""
    stated = systems.read(system).notify
    file = paths.root() / 'systems' / system / 'system.yaml'
    return Notifier(system, stated, _secrets(stated, file) if stated else {})


def _secrets(notify: Notify, system: Path) -> dict[str, str]:
    """Return the secrets by name; those named in the environment leave it, so that jobs do not inherit them.

    UsageError names ``system``, the system's file, or the file of secrets."""
    if isinstance(notify.secrets, str):
        return _of_file(Path(os.path.expandvars(notify.secrets)))
    lacking = [name for name in notify.secrets if name not in os.environ]
    if lacking:
        raise UsageError(f'{system}: notify.secrets: not set in the environment: {", ".join(lacking)}')
    return {name: os.environ.pop(name) for name in notify.secrets}


def _of_file(file: Path) -> dict[str, str]:
    """UsageError for a file that others may read, and for a bad line by its number alone."""
    try:
        with open(file, 'rb') as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if not stat.S_ISREG(mode) or stat.S_IMODE(mode) != 0o600:
                raise UsageError(f'{file}: mode is {stat.S_IMODE(mode):o}: secrets must be a file of mode 600; '
                                 f'chmod 600 {file}')
            lines = opened.read().decode('utf-8').splitlines()
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}') from None
    except UnicodeDecodeError:
        raise UsageError(f'{file}: not UTF-8') from None
    found = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith('#'):
            if not (secret := _SECRET.fullmatch(line)):
                raise UsageError(f'{file}:{number}: must be KEY=VALUE, KEY of letters, digits and _')
            found[secret[1]] = secret[2]
    return found


def send(command: list[str], text: str, secrets: dict[str, str], timeout: float = TIMEOUT_SECONDS) -> str:
    """Run ``command`` in the top of the checkout, without a shell, with ``text`` on its standard input.

    Returns '' or, on one line, why it was not sent. Command and children are killed after ``timeout``."""
    with tempfile.TemporaryFile() as printed:       # not a pipe: a child left behind would keep it open
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.STDOUT,
                                       cwd=paths.root(), env={**os.environ, **secrets}, start_new_session=True)
        except OSError as err:
            return f'{command[0]}: {err.strerror}'
        try:
            process.communicate(text.encode('utf-8', 'backslashreplace'), timeout=timeout)
        except BaseException as err:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(err, subprocess.TimeoutExpired):
                return f'{command[0]}: not done after {timeout:g} s: killed'
            raise
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - _PRINTED_BYTES))
        said = printed.read().decode('utf-8', 'replace')
    if not (code := process.returncode):
        return ''
    for value in sorted(filter(None, secrets.values()), key=len, reverse=True):
        said = said.replace(value, '***')           # a command may complain with the very header it sent
    how = f'exit code {code}' if code > 0 else f'killed by signal {-code}'
    last = next((line.strip() for line in reversed(said.split('\n')) if line.strip()), '')
    return f'{command[0]}: {how}' + (f': {last[:200]}' if last else '')


#: Words that somebody must hear of.
BAD = (*acks.BAD, 'missing')
#: Follows the word of a cell that is plainly worse than when it was acknowledged: it is sent again.
OUTGROWN = ' (worse than acknowledged)'
#: Stands for a whole night that stored no session, or measured nothing.
WHOLE = 'ci/nightly'
#: Stands for a cell that was told as bad and is acknowledged since.
ACKNOWLEDGED = 'acknowledged'
DAY = 86400.0
#: A cell that was not measured for so long is no longer called bad: its check may be gone.
FORGOTTEN_DAYS = 30
#: A night ends earlier or later than the one a week ago: the reminder must not slip by a day.
_EARLY_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class Night:
    """Words by name: ``bad`` ones count, ``known`` ones are acknowledged."""

    bad: dict[str, str]
    known: dict[str, str] = field(default_factory=dict)
    measured: frozenset[str] = frozenset({WHOLE})                   # names
    ran_on: dict[str, list[str]] = field(default_factory=dict)      # nodes by name
    places: dict[str, list[str]] = field(default_factory=dict)      # nodes that a bad word is about


#: A night that stored no session.
FAILED = Night({WHOLE: 'failed'})


def night_of(verdict: Verdict) -> Night:
    """Return the words of cells, named with their size, and of declared pairs.

    A cell that was skipped, or that is disturbed tonight, was not measured."""
    gone, often = {id(c) for c in verdict.retired}, {id(c) for c in judge.too_often(verdict.cells)}
    every = {f'{row.name} ({row.cell.size})': row.cell for row in rows([*verdict.cells, *verdict.retired])}
    retired = [name for name, c in every.items() if id(c) in gone]      # nobody waits for them
    cells = {name: c for name, c in every.items()
             if id(c) not in gone and (c.verdict not in ('skipped', 'disturbed') or id(c) in often)}
    words = {name: c.verdict + (OUTGROWN if c.outgrown else '') for name, c in cells.items()
             if c.verdict in BAD or id(c) in often}
    known = {name: word for name, word in words.items() if cells[name].acknowledged}
    pairs = {f'{p.candidate} / {p.baseline} {p.benchmark}: {p.metric}': p.state for p in verdict.pairs
             if p.state in ('ok', 'regressed')}
    bad = {name: word for name, word in words.items() if name not in known}
    bad |= {name: word for name, word in pairs.items() if word == 'regressed'}
    if verdict.exit_code and not bad and not known:     # nothing at all was measured, or a check is broken
        bad = {WHOLE: 'missing'}
    return Night(bad, known, frozenset({WHOLE, *cells, *retired, *pairs}),
                 {name: c.ran_on for name, c in cells.items()}, {name: _place(cells[name]) for name in words})


def _place(cell: Cell) -> list[str]:
    """Return the node that is slower, where it is known; else all that the cell ran on."""
    where = cell.cause.where if cell.cause else None
    return [where.name] if where and where.kind == 'node' else cell.ran_on


class Fault(BaseModel, extra='forbid'):
    word: str
    since: float                     # Unix times: when it became so, when it was last measured so
    seen: float
    nodes: list[str] = []            # where; it is over when all were measured again, and are in order
    elsewhere: bool = False          # since then the cell was in order, but on other nodes


class State(BaseModel, extra='forbid'):
    """The words by name of cell or pair: ``bad``, and ``acknowledged`` apart; ``told``: the words last sent."""

    bad: dict[str, Fault] = {}
    acknowledged: dict[str, Fault] = {}
    told: dict[str, str] = {}
    told_at: float = 0.0

    def after(self, night: Night, now: float) -> State:
        """Return the state once ``night`` was judged, at ``now``. A fault that was not measured stays."""
        bad = _faults(night.bad, self.bad, night, now)
        known = _faults(night.known, self.acknowledged, night, now)
        # a forgotten fault is not well: nothing is known about it
        unseen = {name for faults in (self.bad, self.acknowledged) for name, fault in faults.items()
                  if _left(fault, name, night)}
        kept = bad.keys() | known.keys() | (night.measured - unseen)
        return State(bad=bad, acknowledged=known, told_at=self.told_at,
                     told={name: word for name, word in self.told.items() if name in kept})

    def news(self, now: float, reminder_seconds: float) -> Literal['', 'changed', 'well', 'reminder']:
        """Return what is to be sent: a cell is bad, or bad in another way; all is well; a reminder."""
        if any(self.told.get(name) != fault.word for name, fault in self.bad.items()):
            return 'changed'
        if not self.bad:
            return 'well' if self.told and not self.acknowledged else ''
        return 'reminder' if now - self.told_at >= reminder_seconds - _EARLY_SECONDS else ''

    def heard(self, now: float | None = None) -> State:
        """Return the state after everything was sent; ``now`` only if something was sent."""
        told = {name: fault.word for name, fault in self.bad.items()}
        told |= {name: ACKNOWLEDGED for name in self.acknowledged if name in self.told}
        return self.model_copy(update={'told': told, 'told_at': self.told_at if now is None else now})


def _faults(words: dict[str, str], before: dict[str, Fault], night: Night, now: float) -> dict[str, Fault]:
    """Return the faults after ``night``; one that was not measured again, in the same place, stays for a while."""
    kept = {}
    for name, fault in before.items():
        left = _left(fault, name, night)
        if (left or name not in night.measured) and now - fault.seen < FORGOTTEN_DAYS * DAY:
            kept[name] = fault.model_copy(update={'nodes': left, 'elsewhere': True}) if left else fault
    for name, word in words.items():
        old = before.get(name)
        nodes = {*night.places.get(name, ()), *(set(old.nodes) - set(night.ran_on.get(name, ())) if old else ())}
        kept[name] = Fault(word=word, since=old.since if old and old.word == word else now, seen=now,
                           nodes=sorted(nodes))
    return kept


def _left(fault: Fault, name: str, night: Night) -> list[str]:
    """Return the nodes of a fault that ``night`` did not measure, although the cell was in order in it."""
    ran_on = night.ran_on.get(name)
    if not ran_on or name in night.bad or name in night.known:
        return []
    return [node for node in fault.nodes if node not in ran_on]


def path(system: str) -> Path:
    return paths.results() / 'state' / f'{system}.json'


def load(system: str) -> State:
    """Return the stored state; without a readable one an empty state, so that everything is sent again."""
    try:
        return State.model_validate_json(path(system).read_bytes())
    except (FileNotFoundError, ValidationError):
        return State()


def store(system: str, state: State) -> None:
    files.write(path(system), state.model_dump_json(indent=1) + '\n')


# ---- the text of a notice

#: Cells that are named one by one; the verdict below names the others.
_NAMED = 20
#: Nodes that are named one by one.
_NODES = 4


def text(subject: str, lines: Iterable[str], verdict: Verdict | None) -> str:
    """Return subject, an empty line, ``lines``, and the verdict as the terminal shows it."""
    shown = ['', *(line for line, _ in terminal.lines(verdict))] if verdict else []
    return '\n'.join([f'Subject: {subject}', '', *map(visible, lines), *shown, ''])


def subject(system: str, state: State, news: str) -> str:
    """Return one line of words and numbers only: nothing that a job printed is in it."""
    if news == 'well':
        return f'parity: {system}: all is well again'
    words = Counter('not measured again' if fault.elsewhere else fault.word for fault in state.bad.values())
    return (f'parity: {system}: ' + ('still ' if news == 'reminder' else '')
            + ', '.join(f'{n} {word}' for word, n in words.items()))


def changes(state: State) -> list[str]:
    """Return a line for each cell: new since the last notice, over, unchanged, acknowledged."""
    told = state.told
    new = [f'now {fault.word}: {name}' + (f' (was {told[name]})' if name in told else '')
           for name, fault in state.bad.items() if told.get(name) != fault.word]
    over = [f'over: {name} (was {word})' for name, word in told.items()
            if name not in state.bad and name not in state.acknowledged]
    still = [_still(name, fault) for name, fault in state.bad.items() if told.get(name) == fault.word]
    known = [f'acknowledged: {name} ({fault.word})' for name, fault in state.acknowledged.items()]
    return [line for group in (new, over, still, known)
            for line in group[:_NAMED] + ([f'and {len(group) - _NAMED} more'] if len(group) > _NAMED else [])]


def _still(name: str, fault: Fault) -> str:
    since, seen = (datetime.date.fromtimestamp(unix) for unix in (fault.since, fault.seen))
    if fault.elsewhere:
        said = (f'not measured again on {", ".join(fault.nodes[:_NODES])} ({fault.word} since {since}; '
                'in order on other nodes)')
    else:
        said = f'still {fault.word} since {since}'
    return f'{said}: {name}' + ('' if seen == datetime.date.today() else f', last measured {seen}')
