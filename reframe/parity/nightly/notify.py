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
            known = table.of_system(self.system)
            if any(news_of(each, each.called) or news_of(each, each.notified) for each in known):
                for why in self._called(known):
                    print(f'parity: warning: {visible(why)}', file=sys.stderr)
                self.judged(None)
            for uuid in table.unrecorded(self.system):
                print(f'parity: the night of session {uuid[:8]} was killed before it was recorded: it is now',
                      flush=True)
                self.judged(self.recorded(judge.newest(uuid)))
            from parity.judge.verdict import states  # it loads polars
            if made := states.complete(self.system):
                print(f"parity: {counted(made, 'night')} had no states of cells: they are made", flush=True)
        except InfrastructureError as err:
            print(f'parity: warning: {visible(str(err))}: the next night reports the earlier ones',
                  file=sys.stderr)

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
            print(f'parity: warning: {visible(warning)}', file=sys.stderr)
        return None

    def _called(self, known: list[Incident]) -> list[str]:
        """Give `on_incident` what it does not know yet; return why it failed. A command that hangs is not called
        again this night."""
        silent, said = {}, [*filter(None, [self.hangs])]
        for incident in known:
            noted = {incident.number: _noted(called=len(incident.events))}
            if incident.called == len(incident.events) or self.hangs:
                continue
            if not self.on_incident or not (news := news_of(incident, incident.called)):
                silent |= noted if not self.on_incident or incident.state == 'over' else {}
                continue
            why, hung = self._call(incident, news)
            if why:
                said.append(f'on_incident: {why}; the next night calls it again for incident {incident.number}')
                self.hangs = said[-1] if hung else ''
            else:
                table.change(noted)     # at once: a kill must not have it called again
        table.change(silent)
        return said

    def _call(self, incident: Incident, news: str) -> tuple[str, bool]:
        at = next(i for i, event in enumerate(incident.events, 1) if i > incident.called and event.what == news)
        said = {'news': news, 'event_id': f'{incident.uuid}#{at}', **incident.model_dump(mode='json'),
                'cells': incident.cells, 'nodes': incident.nodes}
        return send(self.on_incident.command, json.dumps(said) + '\n', self.own_secrets, INCIDENT_SECONDS)

    def judged(self, verdict: Verdict | None) -> None:
        """Tell the news of incidents, and remind of what lasts. Prints what fails and raises nothing."""
        try:
            self._tell(verdict, time.time())
        except InfrastructureError as err:
            print(f'parity: {visible(str(err))}: the next night may send this notice again',
                  file=sys.stderr)

    def _tell(self, verdict: Verdict | None, now: float) -> None:
        known = table.of_system(self.system)
        news = [(incident, what) for incident in known if (what := news_of(incident, incident.notified))]
        heard = {incident.number: _noted(notified=len(incident.events), notified_at=now) for incident, _ in news}
        headline = ''
        if self.notify:
            seconds = times.seconds(self.notify.reminder)
            if not news and not any(reminded(incident, now, seconds) for incident in known):
                return
            headline = subject(self.system, news, known)
            notice = text(headline, lines(news, known, verdict), verdict)
            why, _ = send(self.notify.command, notice, self.secrets)
            if why:
                print(f'parity: notice not sent: {visible(why)}; the next night tries again', file=sys.stderr)
                return
        for incident in known:
            if incident.state == 'open':
                heard.setdefault(incident.number, _noted(notified_at=now))
        table.change(heard)
        if headline:
            print(f'notice sent: {headline}')

    def test(self) -> str:
        """Send a notice that says it is a test; return '' or why it was not sent."""
        notice = text(f'parity: {self.system}: a test', ['A test of notify in system.yaml.'], None)
        return send(self.notify.command, notice, self.secrets)[0]


def prepared(system: str) -> Notifier:
    """Return the system's notifier. UsageError where a command or its secrets cannot be used."""
    stated = systems.read(system)
    file = systems.file_of(system)
    commands = {'notify': stated.notify, 'on_incident': stated.on_incident}
    return Notifier(system, *commands.values(),
                    *(secrets.read(named.secrets, f'{file}: {key}') if named else {}
                      for key, named in commands.items()))


def send(command: list[str], text: str, secrets: dict[str, str],
         timeout: float = TIMEOUT_SECONDS) -> tuple[str, bool]:
    """Run ``command`` in the top of the checkout, else of the site, without a shell; it reads ``text``.

    Returns '' or, on one line, why it was not sent, and whether it hung. Command and children are killed after
    ``timeout``."""
    place = paths.checkout() or paths.site()
    with tempfile.TemporaryFile() as printed:       # not a pipe: a child left behind would keep it open
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.STDOUT,
                                       cwd=place, env={**os.environ, **secrets}, start_new_session=True)
        except OSError as err:
            return f'{command[0]}: {err.strerror}', False
        try:
            process.communicate(text.encode('utf-8', 'backslashreplace'), timeout=timeout)
        except BaseException as err:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(err, subprocess.TimeoutExpired):
                return f'{command[0]}: not done after {timeout:g} s: killed', True
            raise
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - _PRINTED_BYTES))
        said = printed.read().decode('utf-8', 'replace')
    if not (code := process.returncode):
        return '', False
    for value in sorted(filter(None, secrets.values()), key=len, reverse=True):
        said = said.replace(value, '***')           # a command may complain with the very header it sent
    how = f'exit code {code}' if code > 0 else f'killed by signal {-code}'
    last = next((line.strip() for line in reversed(said.split('\n')) if line.strip()), '')
    return f'{command[0]}: {how}' + (f': {last[:200]}' if last else ''), False


def _noted(**update: float) -> Callable[[Incident], dict[str, float]]:
    return lambda _: update


def news_of(incident: Incident, since: int) -> str:
    """Return the news after so many events: new, also, worse, due, over, back; '' for none. An incident that
    began and ended in between is no news, nor one that was known from its first night on."""
    words = [event.what for event in incident.events[since:] if event.what in incidents.NEWS]
    if not words or not since and incident.state != 'open':
        return ''
    return 'over' if incident.state == 'over' else next(word for word in words if word != 'over')


def reminded(incident: Incident, now: float, seconds: float) -> bool:
    """Return whether another notice repeats the incident, ``seconds`` after the last one. That one's clock may
    have been ahead."""
    newest = max((fault.measured for fault in (incident.left or incident.faults).values()), default=0.0)
    return (incident.state == 'open' and not 0 <= now - incident.notified_at < seconds - _EARLY_SECONDS
            and now - newest < _FORGOTTEN_SECONDS)


# ---- the text of a notice

#: News that a text explains.
_EXPLAINED = ('also', 'worse', 'back')
#: Incidents, and cells of each, that are named one by one; lines of a notice, and of those before the verdict.
_NAMED, _CELLS, _SCREEN, _NEWS = 5, 5, 40, 20


def text(subject: str, lines: list[str], verdict: Verdict | None) -> str:
    """Return subject, an empty line, ``lines``, and the verdict as the terminal shows it: one screen."""
    most = _NEWS if verdict else _SCREEN - 3
    if len(lines) > most:
        lines = [*lines[:most - 1], f'and {len(lines) - most + 1} more lines: parity verdict']
    above = [f'Subject: {subject}', '', *map(visible, lines)]
    shown = ['', *(line for line, _ in answer.lines(verdict, most=_SCREEN - len(above) - 1))] if verdict else []
    return '\n'.join([*above, *shown, ''])


def subject(system: str, news: list[tuple[Incident, str]], known: list[Incident]) -> str:
    """Return one line of words and numbers only: nothing that a job printed is in it."""
    left = [incident for incident in known if incident.state == 'open']
    told = [f'incident {incident.number} {what}' for incident, what in news[:_CELLS]]
    rest = [f'{len(news) - _CELLS} more'] if len(news) > _CELLS else []
    if news and not left and all(what == 'over' for _, what in news):
        return f'parity: {system}: all is well again: {", ".join([*told, *rest])}'
    return f'parity: {system}: ' + (', '.join([*told, *rest]) or f'still {words.numbers(left, "open")}')


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
    shown = {cell.incident for cell in verdict.cells} if verdict else set()
    found = []
    for incident, what in news[:_NAMED]:
        found.append(f'incident {incident.number}, {what}: {incident.title}{_explained(incident, what)}')
        if what != 'over' and incident.number not in shown:
            found += [f'  {line}' for line in words.about(incident, _CELLS)]
            found += [f'  parity show {incident.number}']
    told = {incident.number for incident, _ in news} | (shown if news else set())
    left = [each for each in known if each.state == 'open' and each.number not in told]
    found += [f'and {len(news) - _NAMED} more'] if len(news) > _NAMED else []
    for each in left[:_NAMED]:
        found.append(f'still open: incident {each.number}: {each.title}: {words.since(each)}')
    found += [f'still open: {len(left) - _NAMED} more'] if len(left) > _NAMED else []
    return [*found, *filter(None, [words.numbers([i for i in known if i.state == 'known'], 'known')])]
