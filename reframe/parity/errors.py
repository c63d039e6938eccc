"""Errors that a person can mend: one clear line and an exit code, never a traceback."""

from __future__ import annotations

#: Exit codes, in the precedence that a verdict applies (design: 2, 1, 4, 3, 0).
OK, REGRESSED, USAGE, MISSING, INFRASTRUCTURE = 0, 1, 2, 3, 4


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
