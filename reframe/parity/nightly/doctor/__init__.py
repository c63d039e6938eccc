"""`parity doctor`: the examination of all that the nightly run of a system needs, one finding for each thing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from parity.base.errors import INFRASTRUCTURE, MISSING, OK, USAGE


@dataclass(frozen=True)
class Finding:
    """One thing that was examined. Its ``word`` is ok, note (the nightly runs all the same) or lacking."""

    area: str
    word: str
    what: str
    mend: str = ''                      # the command, or what to do
    exit_code: int = OK


def ok(area: str, what: str) -> Finding:
    return Finding(area, 'ok', what)


def note(area: str, what: str, mend: str = '') -> Finding:
    return Finding(area, 'note', what, mend)


def lacking(area: str, what: str, mend: str, exit_code: int) -> Finding:
    return Finding(area, 'lacking', what, mend, exit_code)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 where the nightly could run; else 2 configuration, 4 infrastructure, 3 something missing."""
    found = {f.exit_code for f in findings}
    return next((code for code in (USAGE, INFRASTRUCTURE, MISSING) if code in found), OK)
