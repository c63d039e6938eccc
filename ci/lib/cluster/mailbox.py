"""Commands in a guest. No namespace leads there: the console takes the command, a folder brings the answer."""

from __future__ import annotations

import os
import shlex
import sys
import time
import uuid
from pathlib import Path

import process
from errors import Ended
from model import STATE


def console(name: str) -> Path:
    """Make a new guest's mail folder and its console, a named pipe; return the console."""
    mail = STATE / 'mail' / name
    mail.mkdir(parents=True, exist_ok=True)
    for left in mail.iterdir():
        left.unlink()
    os.mkfifo(mail / 'console', 0o600)
    return mail / 'console'


def execute(name: str, command: list[str], folder: str) -> int:
    """Run a command in a guest, print its output, and return its exit code."""
    mail, ticket = STATE / 'mail' / name, uuid.uuid4().hex
    (mail / f'{ticket}.sh').write_text(f'cd {shlex.quote(folder)} 2>/dev/null || cd /\n{shlex.join(command)}\n')
    with open(os.open(mail / 'console', os.O_WRONLY | os.O_NONBLOCK), 'w') as told:
        told.write(ticket + '\n')
    try:
        while not (mail / f'{ticket}.rc').exists():
            if not process.alive(name):
                raise Ended(4, f'{name} died meanwhile')
            time.sleep(0.02)
        for stream, out in ((sys.stdout, 'out'), (sys.stderr, 'err')):
            stream.buffer.write((mail / f'{ticket}.{out}').read_bytes())
            stream.flush()
        return int((mail / f'{ticket}.rc').read_text())
    finally:
        for left in mail.glob(f'{ticket}.*'):
            left.unlink()
