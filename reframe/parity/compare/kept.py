"""What a stored session measured, kept as a comparison needs it: its report is read once.

In results/cache/compare, a file a session, that can be removed at any time.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from parity import paths
from parity.compare import sessions
from parity.compare.sessions import Key
from parity.compare.sides import Measured, Value
from parity.session import database, readable

#: Goes up when what is kept, or what it means, changes.
_VERSION = 1
#: The first fields of Measured.
NAMES = ('subsystem', 'check', 'case', 'metric', 'unit', 'better', 'place', 'environ')

#: A check and one of its metrics.
Spoken = tuple[str, str]


@dataclass(frozen=True)
class Night:
    """What a session measured, as it is kept.

    ``confirms``: it was made because a figure of another session looked bad. ``rows``: a cell each, the fields in
    NAMES, its runs, label, reason and step; ``facts``: those that runs share.
    """

    uuid: str
    confirms: bool
    context: dict[str, dict[str, list[str]]]
    facts: list[dict[str, str]]
    rows: list[list[Any]]

    def cells(self, place: str = '', metrics: frozenset[Spoken] | None = None) -> dict[Key, Measured]:
        """The cells of a partition ('': of all), of these checks and metrics only where they are given."""
        found = {}
        for *names, values, label, reason, step in self.rows:
            if place in ('', names[6]) and (metrics is None or (names[1], names[3]) in metrics):
                runs = [Value(value, when, session, self.facts[at], unusual)
                        for value, when, session, at, unusual in values]
                cell = Measured(*names, runs, label, reason, step)
                found[cell.case, cell.place, cell.environ, cell.metric] = cell
        return found


def night(uuid: str) -> Night | None:
    """What the session measured; None, and a warning that names it, where parity cannot read it."""
    return _night(uuid, paths.results() / 'cache' / 'compare' / f'v{_VERSION}' / f'{uuid}.json')


@lru_cache(maxsize=64)
def _night(uuid: str, file: Path) -> Night | None:
    try:
        return Night(**json.loads(file.read_bytes()))
    except (OSError, *readable.MALFORMED):
        found = readable.read(uuid, of_report)
        if found:
            _keep(found, file)
        return found


def of_report(report: dict[str, Any]) -> Night:
    """Raises what a report of another form ends in: KeyError, TypeError, AttributeError ..."""
    info = report['session_info']
    cells, context = sessions.measured(report)
    at: dict[int, int] = {}          # the figures of one run share their facts
    facts: list[dict[str, str]] = []
    rows = []
    for cell in cells.values():
        for value in cell.values:
            if id(value.facts) not in at:
                at[id(value.facts)] = len(facts)
                facts.append(value.facts)
        values = [(v.value, v.when, v.session, at[id(v.facts)], v.unusual) for v in cell.values]
        rows.append([*(getattr(cell, name) for name in NAMES), values, cell.label, cell.reason, cell.step])
    return Night(info['uuid'], bool(info.get(database.RERUN_OF)), context, facts, rows)


def _keep(found: Night, file: Path) -> None:
    """Written aside and renamed: another parity may read at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f'.{file.name}.{os.getpid()}')
    aside.write_text(json.dumps(vars(found)))
    aside.replace(file)
