"""User errors: one clear line and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

#: Exit codes, in the precedence that a verdict applies (design: 2, 1, 4, 3, 0).
OK, REGRESSED, USAGE, MISSING, INFRASTRUCTURE = 0, 1, 2, 3, 4
PRECEDENCE = (USAGE, REGRESSED, INFRASTRUCTURE, MISSING, OK)
#: No file is named where standard output cannot be written: the disk is full, or broken.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
#: A shell reports this of a command whose reader has gone.
PIPE = 141


def first(codes: Iterable[int]) -> int:
    """Return the exit code of several: the one that comes first in PRECEDENCE, OK for none."""
    return min(codes, key=PRECEDENCE.index, default=OK)


class ParityError(Exception):
    """Tell what was wrong, where, and what would be valid; ``exit_code`` gives the kind."""

    exit_code = INFRASTRUCTURE


class UsageError(ParityError):
    """The command line or a configuration file is wrong."""

    exit_code = USAGE


class NothingMeasured(ParityError):
    """Nothing was measured."""

    exit_code = MISSING


class InfrastructureError(ParityError):
    """The disk, the scheduler or a lock failed: the machine's speed stays unknown."""


def run(command: Callable[[], None]) -> None:
    """Run a command; a user error ends it with one line and its exit code."""
    try:
        command()
        return
    except BrokenPipeError:
        unread()
    except ParityError as err:
        sentence, code = str(err), err.exit_code
    except OSError as err:
        _discard_output()
        where = err.filename or ('standard output' if err.errno in _FULL else '')
        sentence, code = f'{where}: {err.strerror}' if where else str(err), INFRASTRUCTURE
    except ModuleNotFoundError as err:
        package = str(err.name).partition('.')[0]
        if package in ('parity', 'None'):
            raise
        sentence, code = _absent(package), INFRASTRUCTURE
    except KeyboardInterrupt:
        sentence, code = 'interrupted', INFRASTRUCTURE
    from parity.base.text import visible
    with contextlib.suppress(OSError):      # a full disk must not change the exit code
        print(f'parity: {visible(sentence)}', file=sys.stderr)
    sys.exit(code)


def _discard_output() -> None:
    """Throw away what standard output does not take: Python would write it at its end, and fail with code 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _absent(package: str) -> str:
    """Say what brings a Python package that is absent."""
    from parity.base import paths
    brings = "run ci/venv, which makes .venv anew" if paths.checkout() else "pip install 'parity[measure]'"
    return f'{sys.prefix} has no Python package {package}: {brings}'


def unread() -> NoReturn:
    """End a command whose reader has gone: that is no error of ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(PIPE)


def unknown(kind: str, name: str, valid: list[str]) -> str:
    """Return the sentence for an unknown name: what it may have meant, and what is valid."""
    name = str(name)
    return f'unknown {kind} {name!r}{near(name, valid)}; valid: {", ".join(sorted(valid)) or "none"}'


def near(name: str, valid: list[str]) -> str:
    """Return ``; did you mean 'this'?``, or '' where nothing valid is near to ``name``."""
    from difflib import get_close_matches
    by_lower_case = {word.lower(): word for word in valid}
    matches = get_close_matches(name.lower(), by_lower_case, n=1)
    return f'; did you mean {by_lower_case[matches[0]]!r}?' if matches else ''
