"""What parity itself is: a change of it is one of the things that may have made a figure another."""

from __future__ import annotations

import hashlib
import subprocess

from parity import __version__
from parity.base import paths

#: What measures and judges; other files (docs, a system's references) change no figure.
_OURS = ('reframe', 'checks')


def text() -> str:
    """'0.1.0 1a2b3c4d5e', with '+' and a digest where files are changed; the version alone outside git."""
    commit = _git('log', '-1', '--format=%h', '--abbrev=10', '--', *_OURS).decode().strip()
    if not commit:
        return __version__
    changed = _git('diff', 'HEAD', '--', *_OURS)
    return f'{__version__} {commit}' + (f' + {hashlib.sha256(changed).hexdigest()[:8]}' if changed else '')


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(['git', '-C', str(paths.root()), *arguments], capture_output=True, timeout=20,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return b''
    return b'' if done.returncode else done.stdout
