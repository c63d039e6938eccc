"""What is not ok, for the top of the page: by subsystem, worst first, cells with one reason together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby

from parity.report import rows
from parity.report.rows import Row
from parity.verdict.model import WORDS

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


def of_rows(given: list[Row]) -> list[tuple[str, list[Entry]]]:
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
