"""What stands beside an accepted value: `provenance` in the same file, a line each, where ReFrame ignores it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from parity.base.strict import Strict

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Observed(Strict):
    """The nights that a value stands on."""

    n: int = Field(ge=1)                        # nights
    median: float                               # in the metric's unit
    spread: float = Field(ge=0)                 # of the nights, robust, in the metric's unit
    nights: Text                                # the first and the last one
    sessions: Text                              # theirs, 8 digits each
    nodes: str                                  # where the cases ran
    software: str                               # identity of what they ran


class Provenance(Observed):
    """Who accepted a value, when, why, and until when it is to be believed."""

    date: datetime.date
    by: Text
    why: Text
    expires: datetime.date

    def expired(self, day: datetime.date) -> bool:
        return day > self.expires


def wrong(entries: Any) -> Iterator[tuple[tuple, str]]:
    """(keys, what is wrong) below `provenance`: what no date can be read from would never expire."""
    if not isinstance(entries, dict):
        yield (), 'provenance must be a mapping of references to who accepted them'
        return
    for path, entry in entries.items():
        try:
            of(entry)
        except ValueError as err:
            yield (path,), f'provenance of {path}: {err}'


def of(entry: Any) -> Provenance:
    """Raises ValueError, in one sentence, for an entry that is none."""
    try:
        return Provenance.model_validate(entry)
    except ValidationError as err:
        first = err.errors()[0]
        key = '.'.join(map(str, first['loc'])) or 'provenance'
        what = f'no such key; valid: {", ".join(Provenance.model_fields)}' if first['type'] == 'extra_forbidden' \
            else first['msg']
        raise ValueError(f'{key}: {what}') from None
