"""What a reader looks at first: what is not ok, worst first, and what changed since the session before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby

from parity.base import figures
from parity.report import rows
from parity.report.rows import Row
from parity.verdict.model import WORDS, Cell, Verdict

#: How much of a reason is told in full: verdict.json has all of it.
FULL = 4000
#: An entry with more cases than this is folded.
MANY = 8
#: Words under which a value says nothing yet: their cells are named, the table has the figures.
QUIET = ('insufficient', 'disturbed', 'unreferenced', 'skipped')


@dataclass
class Entry:
    """Cells that are not ok for one and the same reason."""

    word: str
    place: str
    reason: str                      # '': each line tells its own
    short: bool                      # the reason fits on the entry's first line
    rest: int                        # characters of the reason that only verdict.json has
    lines: list[Row]                 # those with a value: told one by one
    names: list[tuple[str, list[Row]]]   # those without: named, by case
    known: str                       # until when, by whom and why it is acknowledged
    folded: bool
    cells: int


def not_ok(given: list[Row]) -> list[tuple[str, list[Entry]]]:
    """By subsystem: the one with the worst word first, and the worst word first in it."""
    groups = [(name, _entries([r for r in group if r.cell.verdict != 'ok']))
              for name, group in rows.by_subsystem(given)]
    return sorted(((name, entries) for name, entries in groups if entries),
                  key=lambda g: (WORDS.index(g[1][0].word), rows.rank(g[0])))


def _entries(given: list[Row]) -> list[Entry]:
    count = Counter(r.cell.reason for r in given)
    same: dict[tuple, list[Row]] = {}
    for row in sorted(given, key=lambda r: (WORDS.index(r.cell.verdict), bool(r.cell.acknowledged))):
        cell = row.cell
        own = _one_by_one(row) and count[cell.reason] == 1 and len(cell.reason) <= rows.SHORT
        key = cell.verdict, rows.place(cell), '' if own else cell.reason, cell.acknowledged
        same.setdefault(key, []).append(row)
    return [_entry(*key, group) for key, group in same.items()]


def _one_by_one(row: Row) -> bool:
    return bool(row.value) and row.cell.verdict not in QUIET


def _entry(word: str, place: str, reason: str, known: str, group: list[Row]) -> Entry:
    told = {True: [], False: []}
    for row in group:
        told[_one_by_one(row)].append(row)
    names = [(name, list(same)) for name, same in groupby(told[False], lambda r: rows.name(r.cell))]
    short = bool(reason) and len(reason) <= rows.SHORT and '\n' not in reason and not told[True]
    return Entry(word=word, place=place, reason=reason[:FULL], short=short, rest=len(reason[FULL:]),
                 lines=told[True], names=names, known=known, folded=len(names) > MANY, cells=len(group))


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


def changes(given: list[Row], before: Verdict) -> Changes:
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
