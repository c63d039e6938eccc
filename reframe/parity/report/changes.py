"""What changed since the session before: cells whose word differs, cells that are new, cells that are gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from parity.base import figures
from parity.report import rows
from parity.report.rows import Row
from parity.verdict.model import WORDS, Cell, Verdict

#: What stands before the figure that judges a cell.
_BY = {'limit': 'limit', 'reference': 'accepted', 'history': 'usual'}
#: So many cells of a group are told one by one, the rest is folded.
TOLD = 12


@dataclass
class Change:
    """A cell whose word is another; ``off`` is how far its value is from what judges it."""

    row: Row
    before: str                      # its figure in the session before, with the unit
    off: str


@dataclass
class Turn:
    """The cells that went from one word to another."""

    before: str
    now: str
    worse: bool
    changes: list[Change]

    @property
    def told(self) -> list[Change]:
        return self.changes[:TOLD]

    @property
    def folded(self) -> list[Change]:
        return self.changes[TOLD:]


@dataclass
class Changes:
    when: str                        # start of the session before
    session: str
    turns: list[Turn] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)
    gone: list[tuple[str, list[str]]] = field(default_factory=list)      # case, and its metrics

    @property
    def cells(self) -> int:
        return sum(len(t.changes) for t in self.turns)


def of_rows(given: list[Row], before: Verdict) -> Changes:
    """What became worse comes first, and of that what is worst."""
    earlier = {key(c): c for c in before.cells}
    turns: dict[tuple[str, str], list[Change]] = {}
    new = []
    for row in given:
        was = earlier.pop(key(row.cell), None)
        if was is None:
            new.append(row)
        elif was.verdict != row.cell.verdict:
            turns.setdefault((was.verdict, row.cell.verdict), []).append(_change(row, was))
    ordered = sorted(turns.items(), key=lambda turn: _badness(*turn[0]))
    return Changes(before.session.start[:16].replace('T', ' '), before.session.uuid,
                   [Turn(was, now, _worse(was, now), found) for (was, now), found in ordered],
                   new, _gone(list(earlier.values())))


def key(cell: Cell) -> tuple:
    """What makes it the same cell on another night."""
    return cell.partition, cell.environ, cell.case, cell.size, cell.metric


def _change(row: Row, was: Cell) -> Change:
    before = '' if was.value is None else figures.figure(was.value, was.unit)
    expected = figures.figure(row.cell.expected, row.cell.unit)
    off = f'{row.change} of the {_BY[row.cell.judged_by]} {expected}' if row.change else ''
    return Change(row, before, off)


def _worse(was: str, now: str) -> bool:
    return WORDS.index(now) < WORDS.index(was)


def _badness(was: str, now: str) -> tuple:
    """What became worse, the worst word first; then what became better, that from the worst word first."""
    worse = _worse(was, now)
    return not worse, WORDS.index(now if worse else was), WORDS.index(was)


def _gone(cells: list[Cell]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for cell in cells:
        found.setdefault(f'{rows.name(cell)} on {rows.place(cell)}', []).append(cell.metric)
    return list(found.items())
