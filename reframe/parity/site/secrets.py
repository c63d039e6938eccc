"""Secrets of the site's commands and headers: of a file that nobody else reads, or of the environment."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from parity.base.errors import UsageError

_SECRET = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)')


def read(named: str | list[str], where: str) -> dict[str, str]:
    """Return the secrets by name; those named in the environment leave it, so that jobs do not inherit them.

    UsageError names ``where`` they are named, or the file of secrets."""
    if isinstance(named, str):
        return _of_file(Path(os.path.expandvars(named)))
    lacking = [name for name in named if name not in os.environ]
    if lacking:
        raise UsageError(f'{where}.secrets: not set in the environment: {", ".join(lacking)}; '
                         'export them, or name a file of KEY=VALUE lines')
    return {name: os.environ.pop(name) for name in named}


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
        raise UsageError(f'{file}: {err.strerror}; secrets must name a file that you may read') from None
    except UnicodeDecodeError:
        raise UsageError(f'{file}: must be UTF-8 text') from None
    secrets = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith('#'):
            continue
        match = _SECRET.fullmatch(line)
        if not match:
            raise UsageError(f'{file}:{number}: must be KEY=VALUE, KEY of letters, digits and _')
        secrets[match[1]] = match[2]
    return secrets
