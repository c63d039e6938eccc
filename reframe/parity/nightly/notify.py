"""The news of incidents, by the commands that system.yaml names: a notice, and each incident for `on_incident`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from parity.base import paths, times
from parity.base.errors import InfrastructureError
from parity.base.figures import counted
from parity.base.text import visible
from parity.judge.report import answer
from parity.judge.report import incidents as words
from parity.judge.store import incidents as table
from parity.judge.store import writing
from parity.judge.store.incidents import Incident
from parity.judge.verdict import incidents, judge
from parity.judge.verdict.model import Verdict
from parity.site import secrets, systems
from parity.site.systems import Command, Notify

TIMEOUT_SECONDS = 60.0
#: The same for `on_incident`, which is called for each incident.
INCIDENT_SECONDS = 30.0
#: After so long (30 days) without a measurement nobody is reminded: the check may be gone.
_FORGOTTEN_SECONDS = 30 * 86400.0
#: A night ends earlier or later than the one a week ago: the reminder must not slip by a day.
_EARLY_SECONDS = 6 * 3600.0
#: Bytes of the command's output that are searched for why it failed.
_PRINTED_BYTES = 1 << 14


@dataclass
class Notifier:
    """The commands of a system for the news of its incidents, each None where the system names none."""

    system: str
    notify: Notify | None = None
    on_incident: Command | None = None
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    own_secrets: dict[str, str] = field(default_factory=dict, repr=False)       # of on_incident
    hangs: str = ''             # on_incident did, this night

    def catch_up(self) -> None:
        """Record and tell what earlier nights did not come to, as they were killed, oldest first. Prints what
        fails and raises nothing."""
        try:
            if not paths.database().exists():
                writing.make_database()
            self._report_unsent()
            for uuid in table.unrecorded(self.system):
                print(f'parity: the night of session {uuid[:8]} was killed before it was recorded: it is now',
                      flush=True)
                self.judged(self.recorded(judge.newest(uuid)))
            from parity.judge.verdict import states  # it loads polars
            completed = states.complete(self.system)
            if completed:
                print(f"parity: {counted(completed, 'night')} had no states of cells: they are made", flush=True)
        except InfrastructureError as err:
            print(f'parity: warning: {visible(str(err))}: the next night reports the earlier ones',
                  file=sys.stderr)

    def _report_unsent(self) -> None:
        """Report the news that an earlier night recorded and did not send."""
        incidents_stored = table.of_system(self.system)
        unsent = any(news_of(incident, incident.called) or news_of(incident, incident.notified)
                     for incident in incidents_stored)
        if not unsent:
            return
        for failure in self._called(incidents_stored):
            _warn(failure)
        self.judged(None)

    def recorded(self, verdict: Verdict | None, interrupted: bool = False) -> Verdict | None:
        """Record the night's incidents and give them to `on_incident`. Return the verdict with them, and with a
        warning for what failed: that is no measurement. None where the night stored no session."""
        try:
            known = incidents.record(verdict, self.system, interrupted)
            warnings = self._called(known)
            if verdict:
                from parity.judge.verdict import states  # likewise
                verdict = incidents.joined(verdict, known)
                states.store(verdict)
        except InfrastructureError as err:
            warnings = [f'{err}; the next night tries again']
        if verdict:
            return verdict.model_copy(update={'warnings': [*warnings, *verdict.warnings]})
        for warning in warnings:
            _warn(warning)
        return None

    def _called(self, known: list[Incident]) -> list[str]:
        """Give `on_incident` what it does not know yet; return why it failed. A command that hangs is not called
        again this night."""
        without_call = {}
        failures = [self.hangs] if self.hangs else []
        for incident in known:
            if incident.called == len(incident.events) or self.hangs:
                continue
            all_called = {incident.number: _noted(called=len(incident.events))}
            news = news_of(incident, incident.called)
            if self.on_incident and news:
                sent = self._call(incident, news)
                if not sent.failure:
                    table.change(all_called)     # at once: a kill must not have it called again
                    continue
                failure = (f'on_incident: {sent.failure}; '
                           f'the next night calls it again for incident {incident.number}')
                failures.append(failure)
                if sent.hung:
                    self.hangs = failure
            elif not self.on_incident or incident.state == 'over':
                without_call |= all_called
        table.change(without_call)
        return failures

    def _call(self, incident: Incident, news: str) -> Sent:
        """Give `on_incident` the incident. The first event that made the news numbers the call."""
        numbered = enumerate(incident.events, 1)
        first = next(number for number, event in numbered if number > incident.called and event.what == news)
        message = {'news': news, 'event_id': f'{incident.uuid}#{first}'}
        message |= incident.model_dump(mode='json')
        message |= {'cells': incident.cells, 'nodes': incident.nodes}
        return send(self.on_incident.command, json.dumps(message) + '\n', self.own_secrets, INCIDENT_SECONDS)

    def judged(self, verdict: Verdict | None) -> None:
        """Tell the news of incidents, and remind of what lasts. Prints what fails and raises nothing."""
        try:
            self._tell(verdict, time.time())
        except InfrastructureError as err:
            print(f'parity: {visible(str(err))}: the next night may send this notice again',
                  file=sys.stderr)

    def _tell(self, verdict: Verdict | None, now: float) -> None:
        known = table.of_system(self.system)
        news = []
        for incident in known:
            word = news_of(incident, incident.notified)
            if word:
                news.append((incident, word))
        headline = ''
        if self.notify:
            reminder = times.seconds(self.notify.reminder)
            if not news and not any(reminded(incident, now, reminder) for incident in known):
                return
            headline = subject(self.system, news, known)
            notice = text(headline, lines(news, known, verdict), verdict)
            failure = send(self.notify.command, notice, self.secrets).failure
            if failure:
                print(f'parity: notice not sent: {visible(failure)}; the next night tries again', file=sys.stderr)
                return
        notified = {incident.number: _noted(notified_at=now) for incident in known if incident.state == 'open'}
        for incident, _ in news:
            notified[incident.number] = _noted(notified=len(incident.events), notified_at=now)
        table.change(notified)
        if headline:
            print(f'notice sent: {headline}')

    def test(self) -> str:
        """Send a notice that says it is a test; return '' or why it was not sent."""
        notice = text(f'parity: {self.system}: a test', ['A test of notify in system.yaml.'], None)
        return send(self.notify.command, notice, self.secrets).failure


def _warn(warning: str) -> None:
    print(f'parity: warning: {visible(warning)}', file=sys.stderr)


def prepared(system: str) -> Notifier:
    """Return the system's notifier. UsageError where a command or its secrets cannot be used."""
    stated = systems.read(system)
    file = systems.file_of(system)

    def secrets_of(key: str, command: Command | None) -> dict[str, str]:
        return secrets.read(command.secrets, f'{file}: {key}') if command else {}

    return Notifier(system, stated.notify, stated.on_incident,
                    secrets_of('notify', stated.notify), secrets_of('on_incident', stated.on_incident))


class Sent(NamedTuple):
    """The end of a command that was sent a text: '' or, on one line, why it failed, and whether it hung."""

    failure: str = ''
    hung: bool = False


def send(command: list[str], text: str, secrets: dict[str, str], timeout: float = TIMEOUT_SECONDS) -> Sent:
    """Run ``command`` in the top of the checkout, else of the site, without a shell; it reads ``text``.

    Command and children are killed after ``timeout``."""
    place = paths.checkout() or paths.site()
    with tempfile.TemporaryFile() as printed:       # not a pipe: a child left behind would keep it open
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.STDOUT,
                                       cwd=place, env={**os.environ, **secrets}, start_new_session=True)
        except OSError as err:
            return Sent(f'{command[0]}: {err.strerror}')
        try:
            process.communicate(text.encode('utf-8', 'backslashreplace'), timeout=timeout)
        except BaseException as err:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(err, subprocess.TimeoutExpired):
                return Sent(f'{command[0]}: not done after {timeout:g} s: killed', hung=True)
            raise
        output = _end_of(printed)
    code = process.returncode
    if not code:
        return Sent()
    how = f'exit code {code}' if code > 0 else f'killed by signal {-code}'
    failure = f'{command[0]}: {how}'
    complaint = _last_line(_without(secrets, output))
    return Sent(f'{failure}: {complaint[:200]}' if complaint else failure)


def _end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _PRINTED_BYTES))
    return file.read().decode('utf-8', 'replace')


def _without(secrets: dict[str, str], text: str) -> str:
    """Hide the secrets in ``text``: a command may complain with the very header it sent. Longer ones first, as
    one may contain another."""
    for value in sorted(secrets.values(), key=len, reverse=True):
        if value:
            text = text.replace(value, '***')
    return text


def _last_line(text: str) -> str:
    """Return the last line that holds anything; '' for none."""
    for line in reversed(text.split('\n')):
        if line.strip():
            return line.strip()
    return ''


def _noted(**update: float) -> Callable[[Incident], dict[str, float]]:
    return lambda _: update


def news_of(incident: Incident, since: int) -> str:
    """Return the news after so many events: new, also, worse, due, over, back; '' for none. An incident that
    began and ended in between is no news, nor one that was known from its first night on."""
    words = [event.what for event in incident.events[since:] if event.what in incidents.NEWS]
    never_reported = since == 0
    if not words or (never_reported and incident.state != 'open'):
        return ''
    if incident.state == 'over':
        return 'over'
    return next(word for word in words if word != 'over')


def reminded(incident: Incident, now: float, seconds: float) -> bool:
    """Return whether another notice repeats the incident, ``seconds`` after the last one. That one's clock may
    have been ahead."""
    if incident.state != 'open':
        return False
    since_notice = now - incident.notified_at
    if 0 <= since_notice < seconds - _EARLY_SECONDS:
        return False
    faults = incident.left or incident.faults
    newest = max((fault.measured for fault in faults.values()), default=0.0)
    return now - newest < _FORGOTTEN_SECONDS


# ---- the text of a notice

#: News that a text explains.
_EXPLAINED = ('also', 'worse', 'back')
#: Incidents, and cells of each, that are named one by one; lines of a notice, and of those before the verdict.
_NAMED, _CELLS, _SCREEN, _NEWS = 5, 5, 40, 20


def text(subject: str, lines: list[str], verdict: Verdict | None) -> str:
    """Return subject, an empty line, ``lines``, and the verdict as the terminal shows it: one screen."""
    most = _NEWS if verdict else _SCREEN - 3
    if len(lines) > most:
        hidden = len(lines) - most + 1
        lines = [*lines[:most - 1], f'and {hidden} more lines: parity verdict']
    screen = [f'Subject: {subject}', '', *map(visible, lines)]
    if verdict:
        room = _SCREEN - len(screen) - 1
        screen += ['', *(line for line, _ in answer.lines(verdict, most=room))]
    return '\n'.join([*screen, ''])


def subject(system: str, news: list[tuple[Incident, str]], known: list[Incident]) -> str:
    """Return one line of words and numbers only: nothing that a job printed is in it."""
    still_open = [incident for incident in known if incident.state == 'open']
    if not news:
        return f'parity: {system}: still {words.numbers(still_open, "open")}'
    parts = [f'incident {incident.number} {what}' for incident, what in news[:_CELLS]]
    if len(news) > _CELLS:
        parts.append(f'{len(news) - _CELLS} more')
    all_over = not still_open and all(what == 'over' for _, what in news)
    well = 'all is well again: ' if all_over else ''
    return f'parity: {system}: {well}{", ".join(parts)}'


def _explained(incident: Incident, what: str) -> str:
    """Return the text of the newest such event, in brackets: what joined or became worse, and what a new incident
    takes from others; '' for none."""
    texts = [event.text for event in incident.events if event.what == what]
    if texts and (what in _EXPLAINED or ' of incident ' in texts[-1]):
        return f' ({texts[-1]})'
    return ''


def lines(news: list[tuple[Incident, str]], known: list[Incident], verdict: Verdict | None) -> list[str]:
    """Return a line for each incident with news, and its cells where the verdict does not show them; then the open
    ones that it does not show, and the known ones. A cell that joined or became worse stands behind the title."""
    in_verdict = {cell.incident for cell in verdict.cells} if verdict else set()
    notice = []
    for incident, what in news[:_NAMED]:
        notice.append(f'incident {incident.number}, {what}: {incident.title}{_explained(incident, what)}')
        if what != 'over' and incident.number not in in_verdict:
            notice += [f'  {line}' for line in words.about(incident, _CELLS)]
            notice.append(f'  parity show {incident.number}')
    if len(news) > _NAMED:
        notice.append(f'and {len(news) - _NAMED} more')
    notice += _still_open(news, known, in_verdict)
    acknowledged = words.numbers([incident for incident in known if incident.state == 'known'], 'known')
    if acknowledged:
        notice.append(acknowledged)
    return notice


def _still_open(news: list[tuple[Incident, str]], known: list[Incident], in_verdict: set[int]) -> list[str]:
    """Return a line for each open incident that neither the news nor, with news, the verdict shows."""
    shown = {incident.number for incident, _ in news}
    if news:
        shown |= in_verdict
    others = [incident for incident in known if incident.state == 'open' and incident.number not in shown]
    notice = [f'still open: incident {incident.number}: {incident.title}: {words.since(incident)}'
              for incident in others[:_NAMED]]
    if len(others) > _NAMED:
        notice.append(f'still open: {len(others) - _NAMED} more')
    return notice
