"""One night's notice: made ready before the run, so that a bad file is told before hours of measuring."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from parity.base import paths, times
from parity.base.text import visible
from parity.nightly.notify import message, night, secrets, send, state
from parity.system import systems
from parity.system.schema import Notify
from parity.verdict.model import Verdict


@dataclass
class Notifier:
    """``notify`` is None where the system names no command: then nothing is sent or stored."""

    system: str
    notify: Notify | None
    secrets: dict[str, str] = field(default_factory=dict, repr=False)

    def judged(self, verdict: Verdict) -> None:
        """Tell the verdict if it changes the state. Says what fails, raises nothing: it is no measurement."""
        self._told(night.of(verdict), verdict)

    def failed(self) -> None:
        """Tell that the night stored no session."""
        self._told(night.failed(), None)

    def test(self) -> str:
        """Send a notice that says it is a test; returns '' or why it was not sent."""
        text = message.text(f'parity: {self.system}: a test', ['A test of notify in system.yaml.'], None)
        return send.send(self.notify.command, text, self.secrets)

    def _told(self, tonight: night.Night, verdict: Verdict | None) -> None:
        if self.notify is None:
            return
        now = time.time()
        try:
            known = state.load(self.system).after(tonight, now)
            if news := known.news(now, times.seconds(self.notify.reminder)):
                known = self._sent(known, news, verdict, now)
            else:
                known = known.heard()
            state.store(self.system, known)
        except OSError as err:
            print(f'parity: {err.filename or paths.results()}: {err.strerror}: what was told is not known; '
                  'the next night may tell it again', file=sys.stderr)

    def _sent(self, known: state.State, news: str, verdict: Verdict | None, now: float) -> state.State:
        """The state after the attempt: as it was told before, if that failed."""
        subject = message.subject(self.system, known, news)
        why = send.send(self.notify.command, message.text(subject, message.changes(known), verdict), self.secrets)
        if why:
            print(f'parity: notice not sent: {visible(why)}; the next night tries again', file=sys.stderr)
            return known
        print(f'notice sent: {subject}')
        return known.heard(now)


def prepared(system: str) -> Notifier:
    """The system's notifier. UsageError where its command or its secrets cannot be used."""
    stated = systems.read(system).notify
    if stated is None:
        return Notifier(system, None)
    file = paths.root() / 'systems' / system / 'system.yaml'
    return Notifier(system, stated, secrets.read(stated, str(file)))
