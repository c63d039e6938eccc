"""What a stored session measured, kept as a comparison needs it: its report is read once.

In results/cache/compare, a file a session, that can be removed at any time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from parity.base import files
from parity.compare import sessions
from parity.compare.sessions import Key
from parity.compare.sides import Measured, Value
from parity.records import cache, database, readable

#: Goes up when what is kept, or what it means, changes.
_VERSION = 4
#: The first fields of Measured.
NAMES = ('subsystem', 'check', 'case', 'metric', 'unit', 'better', 'place', 'environ')
#: And the last ones.
LAST = ('label', 'reason', 'step', 'changed')

#: A check and one of its metrics.
Spoken = tuple[str, str]


@dataclass(frozen=True)
class Night:
    """What a session measured, as it is kept.

    ``confirms``: it was made because a figure of another session looked bad. ``rows``: a cell each, its place
    among them, the fields in NAMES, its runs and the fields in LAST; as JSON by check and metric, because of
    all that a large night has a pair speaks of a few.
    ``facts``: those that runs share.
    """

    uuid: str
    confirms: bool
    context: dict[str, dict[str, list[str]]]
    facts: list[dict[str, str]]
    rows: dict[Spoken, str]

    def cells(self, place: str = '', metrics: frozenset[Spoken] | None = None) -> dict[Key, Measured]:
        """The cells of a partition ('': of all), of these checks and metrics only where they are given."""
        found = {}
        wanted = [text for of, text in self.rows.items() if metrics is None or of in metrics]
        rows = sorted((row for text in wanted for row in json.loads(text)), key=lambda row: row[0])
        for _, *names, values, label, reason, step, changed in rows:
            if place in ('', names[6]):
                runs = [Value(value, when, session, self.facts[at])
                        for value, when, session, at in values]
                cell = Measured(*names, runs, label, reason, step, changed)
                found[cell.case, cell.place, cell.environ, cell.metric] = cell
        return found


def night(uuid: str) -> Night | None:
    """What the session measured; None, and a warning that names it, where parity cannot read it."""
    return _night(uuid, cache.file('compare', _VERSION, uuid, 'json'))


@lru_cache(maxsize=64)
def _night(uuid: str, file: Path) -> Night | None:
    try:
        return _read(file)
    except (OSError, *readable.MALFORMED):
        found = readable.read(uuid, of_report)
        if found:
            files.write(file, _text(found))
        return found


def of_report(report: dict[str, Any]) -> Night:
    """Raises what a report of another form ends in: KeyError, TypeError, AttributeError ..."""
    info = report['session_info']
    cells, context = sessions.measured(report)
    at: dict[int, int] = {}          # the figures of one run share their facts
    facts: list[dict[str, str]] = []
    rows: dict[Spoken, list[Any]] = {}
    for place, cell in enumerate(cells.values()):
        for value in cell.values:
            if id(value.facts) not in at:
                at[id(value.facts)] = len(facts)
                facts.append(value.facts)
        values = [(v.value, v.when, v.session, at[id(v.facts)]) for v in cell.values]
        rows.setdefault((cell.check, cell.metric), []).append(
            [place, *(getattr(cell, name) for name in NAMES), values, *(getattr(cell, name) for name in LAST)])
    return Night(info['uuid'], bool(info.get(database.RERUN_OF)), context, facts,
                 {of: json.dumps(told) for of, told in rows.items()})


def _read(file: Path) -> Night:
    """The first line is all but the rows; then a line of check and metric, and one of their rows, in turn."""
    first, *lines = file.read_text().split('\n')
    rows = {tuple(json.loads(of)): text for of, text in zip(lines[::2], lines[1::2], strict=True)}
    return Night(**{**json.loads(first), 'rows': rows})


def _text(found: Night) -> str:
    rows = [line for of, text in found.rows.items() for line in (json.dumps(of), text)]
    return '\n'.join([json.dumps({**vars(found), 'rows': None}), *rows])
