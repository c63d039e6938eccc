"""Hand a notice to the command, which has a minute."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile

from parity.base import paths
from parity.nightly.notify import secrets as hidden

TIMEOUT_SECONDS = 60.0
#: What is kept of what the command printed, to tell why it failed.
_PRINTED_BYTES = 1 << 14


def send(command: list[str], text: str, secrets: dict[str, str], timeout: float = TIMEOUT_SECONDS) -> str:
    """Run ``command`` without a shell, ``text`` on its standard input, in the top of the checkout.

    Returns '' or, on one line, why it was not sent; the command and its children are killed after ``timeout``.
    """
    with tempfile.TemporaryFile() as printed:       # not a pipe: a child left behind would keep it open
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.STDOUT,
                                       cwd=paths.root(), env={**os.environ, **secrets}, start_new_session=True)
        except OSError as err:
            return f'{command[0]}: {err.strerror}'
        try:
            process.communicate(text.encode('utf-8', 'backslashreplace'), timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            return f'{command[0]}: not done after {timeout:g} s: killed'
        except BaseException:
            _end(process)
            raise
        if process.returncode == 0:
            return ''
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - _PRINTED_BYTES))
        said = hidden.masked(printed.read().decode('utf-8', 'replace'), secrets).split('\n')
    last = next((line.strip() for line in reversed(said) if line.strip()), '')
    code = process.returncode
    how = f'exit code {code}' if code > 0 else f'killed by signal {-code}'
    return f'{command[0]}: {how}' + (f': {last[:200]}' if last else '')


def _end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
