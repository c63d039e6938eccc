"""Findings of an examination: things in order, things that deserve a look, things that a night lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial

from parity.base.errors import INFRASTRUCTURE, MISSING, OK, USAGE, ParityError

#: What each exit code says.
WORDS = {USAGE: 'configuration', MISSING: 'something is missing', INFRASTRUCTURE: 'infrastructure'}


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was examined. Its ``word`` is ok, note (the nightly runs all the same) or lacking."""

    word: str
    area: str
    what: str
    fix: str = ''                      # the command, or what to do
    exit_code: int = OK
    file: str = ''                     # FILE:LINE to correct, where ``what`` does not begin with it
    stops: bool = False                # no night starts; else it runs, and some of its cases have no figure

    def __str__(self) -> str:
        where = f'{self.file}: {self.area}: ' if self.file else ''
        remedy = f'; {self.fix}' if self.fix else ''
        return f'{where}{self.what}{remedy}'


ok, note, lacking = (partial(Diagnosis, word) for word in ('ok', 'note', 'lacking'))
#: A mistake in a file or on the command line, for which no night starts.
mistake = partial(lacking, exit_code=USAGE, stops=True)


class Refused(ParityError):
    """A night, or a study, that does not start; one line for each finding that stops it."""

    def __init__(self, stopping: Collection[Diagnosis]):
        super().__init__('\n'.join(map(str, stopping)))
        self.exit_code = exit_code(stopping)


def exit_code(found: Iterable[Diagnosis]) -> int:
    """Return 0 where nothing lacks; else 2 configuration, 4 infrastructure, 3 something missing."""
    codes = {finding.exit_code for finding in found}
    for code in (USAGE, INFRASTRUCTURE, MISSING):
        if code in codes:
            return code
    return OK


def refuse(found: Iterable[Diagnosis]) -> None:
    """Raise Refused where a finding keeps a night from starting."""
    stopping = [finding for finding in found if finding.stops]
    if stopping:
        raise Refused(stopping)


def answer(system: str, found: Collection[Diagnosis]) -> str:
    """Say in one sentence whether the nightly of a system could run."""
    code = exit_code(found)
    if not code:
        return f'the nightly of {system} could run: ci/nightly --system {system}'
    count = sum(finding.word == 'lacking' for finding in found)
    lacks = f'{count} lacking (exit code {code}: {WORDS[code]})'
    if any(finding.stops for finding in found):
        return f'the nightly of {system} could not run: {lacks}'
    return f'the nightly of {system} would run, and some cases would have no figure: {lacks}'
