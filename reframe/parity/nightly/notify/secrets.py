"""Secrets of the command that sends a notice: never printed, stored, or seen by a measurement."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from parity.base.errors import UsageError
from parity.system.schema import Notify

_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')


def read(notify: Notify, of: str) -> dict[str, str]:
    """The secrets by name; those named in the environment are taken out of it: jobs do not inherit them.

    ``of`` names the system file. UsageError for a file that others may read, a line that is no KEY=VALUE
    (told by its number alone), or a variable that is not set.
    """
    if isinstance(notify.secrets, str):
        return _of_file(Path(os.path.expandvars(notify.secrets)))
    lacking = [name for name in notify.secrets if name not in os.environ]
    if lacking:
        raise UsageError(f'{of}: notify.secrets: not set in the environment: {", ".join(lacking)}')
    return {name: os.environ.pop(name) for name in notify.secrets}


def _of_file(file: Path) -> dict[str, str]:
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
            name, equals, value = line.partition('=')
            if not equals or not _NAME.fullmatch(name) or '\0' in value:
                raise UsageError(f'{file}:{number}: must be KEY=VALUE, KEY of letters, digits and _')
            found[name] = value
    return found


def masked(text: str, secrets: dict[str, str]) -> str:
    """``text`` without the secrets: a command may complain with the very header it sent."""
    for value in sorted(filter(None, secrets.values()), key=len, reverse=True):
        text = text.replace(value, '***')
    return text
