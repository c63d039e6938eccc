"""What a stored session measured, kept as a comparison needs it: its report is read once.

In results/cache/compare, a file a session, that can be removed at any time.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
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
_NAMES = ('subsystem', 'check', 'case', 'metric', 'unit', 'better', 'place', 'environ')


@dataclass(frozen=True)
class Night:
    """The cells of a session, and what is known of each partition's nodes."""

    uuid: str
    confirms: bool                   # made again because a figure of another session looked bad
    cells: dict[Key, Measured]
    context: dict[str, dict[str, list[str]]]

    def of(self, place: str) -> Night:
        """The same of one partition ('': of all), to be changed at will."""
        return replace(self, cells={key: replace(cell, values=list(cell.values))
                                    for key, cell in self.cells.items() if place in ('', key[1])})


def night(uuid: str) -> Night | None:
    """What the session measured; None, and a warning that names it, where parity cannot read it."""
    file = paths.results() / 'cache' / 'compare' / f'v{_VERSION}' / f'{uuid}.json'
    return _night(uuid, file)


@lru_cache(maxsize=64)
def _night(uuid: str, file: Path) -> Night | None:
    try:
        return _restored(json.loads(file.read_bytes()))
    except (OSError, *readable.MALFORMED):
        found = readable.read(uuid, of_report)
        if found:
            _keep(found, file)
        return found


def of_report(report: dict[str, Any]) -> Night:
    """Raises what a report of another form ends in: KeyError, TypeError, AttributeError ..."""
    info = report['session_info']
    return Night(info['uuid'], bool(info.get(database.RERUN_OF)), *sessions.measured(report))


def _keep(found: Night, file: Path) -> None:
    """Written aside and renamed: another parity may read at the same time."""
    facts: dict[int, int] = {}       # the figures of one run share theirs
    texts: list[dict[str, str]] = []
    cells = []
    for cell in found.cells.values():
        for value in cell.values:
            if id(value.facts) not in facts:
                facts[id(value.facts)] = len(texts)
                texts.append(value.facts)
        values = [(v.value, v.when, v.session, facts[id(v.facts)], v.unusual) for v in cell.values]
        cells.append((*(getattr(cell, name) for name in _NAMES), values, cell.label, cell.reason, cell.step))
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f'.{file.name}.{os.getpid()}')
    aside.write_text(json.dumps({'uuid': found.uuid, 'confirms': found.confirms, 'context': found.context,
                                 'facts': texts, 'cells': cells}))
    aside.replace(file)


def _restored(said: dict[str, Any]) -> Night:
    facts = said['facts']
    cells = {}
    for *names, values, label, reason, step in said['cells']:
        runs = [Value(value, when, session, facts[at], unusual) for value, when, session, at, unusual in values]
        cell = Measured(*names, runs, label, reason, step)
        cells[cell.case, cell.place, cell.environ, cell.metric] = cell
    return Night(said['uuid'], said['confirms'], cells, said['context'])
