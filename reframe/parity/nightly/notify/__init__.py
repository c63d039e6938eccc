"""A notice when the state of a system changes, by the one command that its system.yaml names."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from parity.base import paths, strict
from parity.base.errors import UsageError
from parity.base.text import visible
from parity.nightly.notify import state
from parity.system import systems
from parity.system.systems import Notify
from parity.verdict.model import Verdict

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
        self._told(state.night_of(verdict), verdict)

    def failed(self) -> None:
        """Tell that the night stored no session."""
        self._told(state.FAILED, None)

    def test(self) -> str:
        """Send a notice that says it is a test; return '' or why it was not sent."""
        text = state.text(f'parity: {self.system}: a test', ['A test of notify in system.yaml.'], None)
        return send(self.notify.command, text, self.secrets)

    def _told(self, tonight: state.Night, verdict: Verdict | None) -> None:
        if self.notify is None:
            return
        now = time.time()
        try:
            known = state.load(self.system).after(tonight, now)
            news = known.news(now, strict.seconds(self.notify.reminder))
            if not news or self._sent(known, news, verdict):
                known = known.heard(now if news else None)
            state.store(self.system, known)
        except OSError as err:
            print(f'parity: {err.filename or paths.results()}: {err.strerror}: what was told is not known; '
                  'the next night may tell it again', file=sys.stderr)

    def _sent(self, known: state.State, news: str, verdict: Verdict | None) -> bool:
        subject = state.subject(self.system, known, news)
        why = send(self.notify.command, state.text(subject, state.changes(known), verdict), self.secrets)
        if why:
            print(f'parity: notice not sent: {visible(why)}; the next night tries again', file=sys.stderr)
        else:
            print(f'notice sent: {subject}')
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
