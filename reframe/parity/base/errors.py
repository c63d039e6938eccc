"""Errors that a person can mend: one clear line and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

#: Exit codes, in the precedence that a verdict applies (design: 2, 1, 4, 3, 0).
OK, REGRESSED, USAGE, MISSING, INFRASTRUCTURE = 0, 1, 2, 3, 4
#: What a shell reports of a command whose reader has gone.
PIPE = 141


class ParityError(Exception):
    """What was wrong, where, and what would be valid; ``exit_code`` says of which kind it is."""

    exit_code = INFRASTRUCTURE


class UsageError(ParityError):
    """The command line or a configuration file is wrong."""

    exit_code = USAGE


class NothingMeasured(ParityError):
    """There is no measurement to speak of."""

    exit_code = MISSING


class InfrastructureError(ParityError):
    """The disk, the scheduler, a lock: not the machine's speed."""

    exit_code = INFRASTRUCTURE


def told(command: Callable[[], None]) -> None:
    """Run a command; what a person can mend ends it with one line and its exit code, no traceback."""
    try:
        command()
    except ParityError as err:
        _end(str(err), err.exit_code)
    except BrokenPipeError:
        unread()
    except OSError as err:
        _end(f'{err.filename}: {err.strerror}' if err.filename else str(err), INFRASTRUCTURE)
    except KeyboardInterrupt:
        _end('interrupted', INFRASTRUCTURE)


def unread() -> NoReturn:
    """End a command whose output nobody reads on: it is no error of ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(PIPE)


def _end(sentence: str, code: int) -> None:
    print(f'parity: {sentence}', file=sys.stderr)
    sys.exit(code)


def unknown(kind: str, name: str, valid: list[str]) -> str:
    """The sentence for a name that is not there: what it may have meant, and what is valid."""
    name = str(name)
    return f'unknown {kind} {name!r}{near(name, valid)}; valid: {", ".join(sorted(valid))}'


def near(name: str, valid: list[str]) -> str:
    """``; did you mean 'this'?``; '' where nothing valid is near to ``name``."""
    from difflib import get_close_matches
    found = get_close_matches(name, valid, n=1)
    return f'; did you mean {found[0]!r}?' if found else ''
