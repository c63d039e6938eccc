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
from typing import Literal, NamedTuple

from pydantic import BaseModel, ValidationError

from parity.base import files, paths, strict
from parity.base.errors import UsageError
from parity.base.text import visible
from parity.report import answer
from parity.system import systems
from parity.system.systems import Notify
from parity.verdict import acks, judge
from parity.verdict.model import Verdict, rows

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

    def judged(self, verdict: Verdict | None) -> None:
        """Tell the verdict if it changes the state; None where the night stored no session.

        Prints what fails and raises nothing: it is no measurement."""
        if self.notify is None:
            return
        now = time.time()
        try:
            known = load(self.system).after(seen_in(verdict), now)
            if news := known.news(now, strict.seconds(self.notify.reminder)):
                headline = subject(self.system, known, news)
                if why := send(self.notify.command, text(headline, changes(known), verdict), self.secrets):
                    print(f'parity: notice not sent: {visible(why)}; the next night tries again', file=sys.stderr)
                else:
                    print(f'notice sent: {headline}')
                    known = known.heard(now)
            else:
                known = known.heard(known.told_at)
            files.write(path(self.system), known.model_dump_json(indent=1) + '\n')
        except OSError as err:
            print(f'parity: {err.filename or paths.results()}: {err.strerror}: what was told is not known; '
                  'the next night may tell it again', file=sys.stderr)

    def test(self) -> str:
        """Send a notice that says it is a test; return '' or why it was not sent."""
        notice = text(f'parity: {self.system}: a test', ['A test of notify in system.yaml.'], None)
        return send(self.notify.command, notice, self.secrets)


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
#: A cell that was not measured for so long (30 days) is no longer called bad: its check may be gone.
_FORGOTTEN_SECONDS = 30 * 86400.0
#: A night ends earlier or later than the one a week ago: the reminder must not slip by a day.
_EARLY_SECONDS = 6 * 3600.0


class Seen(NamedTuple):
    """A cell or a pair as one night measured it."""

    word: str = ''                   # a bad one, or ''
    acknowledged: bool = False
    ran_on: list[str] = []
    place: list[str] = []            # the nodes that a bad word is about


def seen_in(verdict: Verdict | None) -> dict[str, Seen]:
    """Return what a night measured: cells, named with their size, and declared pairs. None stored no session.

    A cell that was skipped, or that is disturbed tonight, was not measured. Nobody waits for a retired one."""
    if verdict is None:
        return {WHOLE: Seen('failed')}
    gone, often = {id(c) for c in verdict.retired}, {id(c) for c in judge.too_often(verdict.cells)}
    night = {WHOLE: Seen()}
    for row in rows([*verdict.cells, *verdict.retired]):
        cell, name = row.cell, f'{row.name} ({row.cell.size})'
        if id(cell) in gone:
            night[name] = Seen()
        elif cell.verdict in BAD or id(cell) in often:
            where = cell.cause.where if cell.cause else None
            night[name] = Seen(cell.verdict + (OUTGROWN if cell.outgrown else ''), bool(cell.acknowledged),
                               cell.ran_on, [where.name] if where and where.kind == 'node' else cell.ran_on)
        elif cell.verdict not in ('skipped', 'disturbed'):
            night[name] = Seen(ran_on=cell.ran_on)
    night |= {f'{p.candidate} / {p.baseline} {p.benchmark}: {p.metric}{p.beside}':
              Seen('' if p.state == 'ok' else p.state) for p in verdict.pairs if p.state in ('ok', 'regressed')}
    if verdict.exit_code and not any(seen.word for seen in night.values()):
        night[WHOLE] = Seen('missing')      # nothing at all was measured, or a check is broken
    return night


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

    def after(self, night: dict[str, Seen], now: float) -> State:
        """Return the state at ``now``, once ``night`` was judged. A fault that was not measured again, in the same
        place, stays for a while; it is then forgotten, and not called well."""
        bad, known, forgotten = {}, {}, set()
        for name in {**self.bad, **self.acknowledged, **night}:
            old, seen = self.bad.get(name) or self.acknowledged.get(name), night.get(name)
            left = {*(old.nodes if old else ())} - {*(seen.ran_on if seen else ())}     # not measured again
            if seen and seen.word:
                since = old.since if old and old.word == seen.word else now
                fault = Fault(word=seen.word, since=since, seen=now, nodes=sorted({*seen.place, *left}))
                (known if seen.acknowledged else bad)[name] = fault
            elif old and (not seen or seen.ran_on and left):
                new = {'nodes': sorted(left), 'elsewhere': True} if seen else {}
                if now - old.seen < _FORGOTTEN_SECONDS:
                    (bad if name in self.bad else known)[name] = old.model_copy(update=new)
                else:
                    forgotten.add(name)
        kept = bad.keys() | known.keys() | (night.keys() - forgotten)
        return State(bad=bad, acknowledged=known, told_at=self.told_at,
                     told={name: word for name, word in self.told.items() if name in kept})

    def news(self, now: float, reminder_seconds: float) -> Literal['', 'changed', 'well', 'reminder']:
        """Return what is to be sent: a cell is bad, or bad in another way; all is well; a reminder."""
        if any(self.told.get(name) != fault.word for name, fault in self.bad.items()):
            return 'changed'
        if not self.bad:
            return 'well' if self.told and not self.acknowledged else ''
        return 'reminder' if now - self.told_at >= reminder_seconds - _EARLY_SECONDS else ''

    def heard(self, at: float) -> State:
        """Return the state after everything was sent; ``at`` is the time of the last notice."""
        told = {name: fault.word for name, fault in self.bad.items()}
        told |= {name: 'acknowledged' for name in self.acknowledged if name in self.told}
        return self.model_copy(update={'told': told, 'told_at': at})


def path(system: str) -> Path:
    return paths.results() / 'state' / f'{system}.json'


def load(system: str) -> State:
    """Return the stored state; without a readable one an empty state, so that everything is sent again."""
    try:
        return State.model_validate_json(path(system).read_bytes())
    except (FileNotFoundError, ValidationError):
        return State()


# ---- the text of a notice

#: Cells that are named one by one; the verdict below names the others.
_NAMED = 20
#: Nodes that are named one by one.
_NODES = 4


def text(subject: str, lines: Iterable[str], verdict: Verdict | None) -> str:
    """Return subject, an empty line, ``lines``, and the verdict as the terminal shows it."""
    shown = ['', *(line for line, _ in answer.lines(verdict))] if verdict else []
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
