"""Levels that a person began, systems/<name>/levels.yaml: a cell is judged by what it measures from that day on.

    levels:
      - cell: Stream%threads=all.triad@onebox:virtual
        why: the partition has another memory policy, as ordered
        by: bea
        since: 2026-11-20
"""

from __future__ import annotations

from parity.base.strict import Strict
from parity.judge.refs.listed import Entry, Listed


class Level(Entry):
    """A level that a person began; ``since``: its first day."""

    def __str__(self) -> str:
        return f'since {self.since} by {self.by}: {self.why}'


class Levels(Strict):
    levels: list[Level] | None


_FILE = Listed(
    name='levels',
    model=Levels,
    about='Levels that a person began: parity level CELL --since DATE --why TEXT',
    what='has a level since that day',
    key=lambda level: (level.cell, level.since))
read = _FILE.read
problems = _FILE.problems
write = _FILE.write
