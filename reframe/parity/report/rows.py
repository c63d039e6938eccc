"""The table of cells as the page shows it, what is not ok in it, and what changed since the session before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from parity.base import figures, text
from parity.records.outset import CELL
from parity.verdict.model import WORDS, Cell, Row, Verdict, rows

SUBSYSTEMS = ('compute', 'memory', 'network', 'storage', 'gpu')
#: Characters of a reason in the table; verdict.json has the whole.
SHORT = 140
#: Rows of one table: a browser lays out a table as a whole, and only those in view.
MOST_ROWS = 100
#: Rows that are elements from the start; later tables become elements when they come near the view.
AT_ONCE = 300

#: (word, address) of what is left of a run.
Links = list[tuple[str, str]]
#: The same cell on another night has the same.
key = attrgetter(*CELL)
_run = attrgetter('check', 'case', 'system', 'partition', 'environ', 'size', 'attempt', 'jobid', 'outputdir')


@dataclass(eq=False)
class Line(Row):
    """A row of the page: its figures share one unit."""

    number: int = 0                  # on the page, from 1
    note: int = 0                    # number of the footnote with the limit's source; 0: none
    told: str = ''                   # the reason, cut; '' where the case tells it
    links: Links = field(default_factory=list)

    def __post_init__(self):
        c = self.cell
        texts, self.unit = figures.alike(c.unit, c.value, c.reference, c.low, c.high, c.limit)
        self.value, self.reference, low, high, self.limit = ('' if t == figures.NOTHING else t for t in texts)
        bounds = (f'at least {low}' if low else '', f'at most {high}' if high else '')
        self.band = f'{low} .. {high}' if all(bounds) else ''.join(bounds)
        self.change = figures.change(c.value, c.expected)
        self.efficiency = '' if c.efficiency is None else figures.percent(c.efficiency)

    @property
    def bar(self) -> int | None:
        """Per cent of the bar that are filled; None for NaN, too."""
        share = self.cell.efficiency
        return round(100 * min(share, 1.0)) if share is not None and share >= 0 else None

    @property
    def href(self) -> str:
        """The address of what the job printed, else of the run's folder."""
        return next((address for word, address in self.links if word == 'output'),
                    self.links[0][1] if self.links else '')

    @property
    def id(self) -> str:
        return f'c{self.number}'


class Case(NamedTuple):
    """The rows of one case, and their common facts."""

    name: str
    facts: list[str]
    links: Links
    reason: str
    rows: list[Line]


@dataclass
class Table:
    """Some cases of one check."""

    check: str
    goes_on: bool                    # the check's cases began in the table before
    later: bool                      # far down in the page
    cases: list[Case] = field(default_factory=list)

    @property
    def lines(self) -> int:
        """Rows and heads of cases: from this a browser guesses the height of a table out of view."""
        return sum(1 + len(case.rows) for case in self.cases)


def rank(subsystem: str) -> tuple[int, str]:
    return SUBSYSTEMS.index(subsystem) if subsystem in SUBSYSTEMS else len(SUBSYSTEMS), subsystem


def of_cells(cells: list[Cell]) -> tuple[list[Line], list[str]]:
    """Return the rows in the page's order, and the sources of their limits.

    Subsystems come in their rank; checks and cases stay together, in the order of their first cells."""
    first: dict[tuple, int] = {}
    for n, c in enumerate(cells):
        first.setdefault((c.subsystem, c.check), n)
        first.setdefault(_identity(c), n)
    table = sorted(rows(cells), key=lambda row: (rank((c := row.cell).subsystem), first[c.subsystem, c.check],
                                                 first[_identity(c)]))
    sources = list(dict.fromkeys(filter(None, (_source(row.cell) for row in table))))
    notes = {'': 0} | {source: note for note, source in enumerate(sources, 1)}
    lines = [Line(row.cell, row.several, number, notes[_source(row.cell)]) for number, row in enumerate(table, 1)]
    return lines, sources


def _identity(cell: Cell) -> tuple:
    """One case of one run."""
    return *_run(cell), *cell.nodes


def _source(cell: Cell) -> str:
    if cell.limit is None:
        return ''
    return f'{cell.limit_source or "source not stated"} ({"certain" if cell.limit_certain else "a ceiling"})'


def by_subsystem(lines: list[Line]) -> list[tuple[str, list[Line]]]:
    return [(name, list(group)) for name, group in groupby(lines, lambda line: line.cell.subsystem)]


def tables(lines: list[Line], links: Callable[[str], Links]) -> list[tuple[str, list[Table]]]:
    """Return the tables by subsystem; ``links`` gives what an output directory holds."""
    return [(subsystem, [table for check, same in groupby(group, lambda line: line.cell.check)
                         for table in _tables(check, same, links)]) for subsystem, group in by_subsystem(lines)]


def _tables(check: str, lines, links) -> list[Table]:
    found: list[Table] = []
    for _, same in groupby(lines, lambda line: _identity(line.cell)):
        case = _case(list(same), links)
        if not found or found[-1].lines + len(case.rows) > MOST_ROWS:
            found.append(Table(check, goes_on=bool(found), later=case.rows[0].number > AT_ONCE))
        found[-1].cases.append(case)
    return found


def _case(lines: list[Line], links) -> Case:
    cell = lines[0].cell
    common = cell.reason if len(lines) > 1 and len({line.reason for line in lines}) == 1 else ''
    left = links(cell.outputdir)
    for line in lines:
        line.told, line.links = '' if common else text.brief(line.reason, SHORT), left
    nodes = ' '.join(cell.nodes[:4]) + (f' and {len(cell.nodes) - 4} more' if len(cell.nodes) > 4 else '')
    facts = [lines[0].place, cell.environ, cell.size, nodes,
             '' if cell.virtualisation == 'none' else cell.virtualisation,
             f'job {cell.jobid}' if cell.jobid else '', f'attempt {cell.attempt}' if cell.attempt > 1 else '']
    return Case(name(cell), [text.brief(fact, 100) for fact in facts if fact], left, text.brief(common, 2 * SHORT),
                lines)


def name(cell: Cell) -> str:
    return cell.case if cell.case.startswith(cell.check) else f'{cell.check}: {cell.case}'


# ---- what is not ok

#: Characters of a reason that are shown in full; verdict.json has the whole.
FULL = 4000
#: Words whose values say nothing yet: their cells are named, the table has the figures.
QUIET = ('insufficient', 'disturbed', 'unreferenced', 'skipped')


class Entry(NamedTuple):
    """Cells of one place that are not ok for one reason."""

    word: str
    place: str
    reason: str                      # '': each line tells its own
    short: bool                      # the reason fits on the entry's first line
    rest: int                        # characters of the reason that only verdict.json has
    lines: list[Line]                # cells with a value, told one by one
    names: list[tuple[str, list[Line]]]   # cells without, by case
    known: str                       # until when, by whom and why it is acknowledged
    cells: int


def not_ok(lines: list[Line]) -> list[tuple[str, list[Entry]]]:
    """Return the entries by subsystem, the worst word first."""
    groups = [(subsystem, _entries([line for line in group if line.word != 'ok']))
              for subsystem, group in by_subsystem(lines)]
    return sorted(((subsystem, entries) for subsystem, entries in groups if entries),
                  key=lambda group: (WORDS.index(group[1][0].word), rank(group[0])))


def _entries(lines: list[Line]) -> list[Entry]:
    count = Counter(line.reason for line in lines)
    same: dict[tuple, list[Line]] = {}
    for line in sorted(lines, key=lambda each: (WORDS.index(each.word), bool(each.cell.acknowledged))):
        own = _one_by_one(line) and count[line.reason] == 1 and len(line.reason) <= SHORT
        alike = line.word, line.place, '' if own else line.reason, line.cell.acknowledged
        same.setdefault(alike, []).append(line)
    return [_entry(*alike, group) for alike, group in same.items()]


def _one_by_one(line: Line) -> bool:
    return bool(line.value) and line.word not in QUIET


def _entry(word: str, place: str, reason: str, known: str, group: list[Line]) -> Entry:
    told = [line for line in group if _one_by_one(line)]
    named = [line for line in group if not _one_by_one(line)]
    names = [(case, list(lines)) for case, lines in groupby(named, lambda line: name(line.cell))]
    short = bool(reason) and len(reason) <= SHORT and '\n' not in reason and not told
    return Entry(word, place, reason[:FULL], short, len(reason[FULL:]), told, names, known,
                 len(group))


# ---- what changed

_JUDGED_BY = {'limit': 'limit', 'reference': 'accepted', 'history': 'usual'}


class Change(NamedTuple):
    """A cell with another word than before."""

    row: Line
    before: str                      # its figure in the session before
    off: str                         # how far its value is from what judges it


class Turn(NamedTuple):
    """The cells that went from one word to another."""

    before: str
    now: str
    changes: list[Change]


class Changes(NamedTuple):
    when: str                        # start of the session before
    session: str
    turns: list[Turn]
    new: list[Line]
    gone: list[tuple[str, list[str]]]    # case, and its metrics


def changes(lines: list[Line], before: Verdict) -> Changes:
    """Return the changes since ``before``: cells that became worse come first, the worst one first."""
    earlier = {key(row.cell): row for row in rows(before.cells)}
    turns: dict[tuple[str, str], list[Change]] = {}
    new = []
    for line in lines:
        was = earlier.pop(key(line.cell), None)
        if was is None:
            new.append(line)
        elif was.word != line.word:
            turns.setdefault((was.word, line.word), []).append(Change(line, was.figure, _off(line)))
    gone: dict[str, list[str]] = {}
    for row in earlier.values():
        gone.setdefault(f'{name(row.cell)} on {row.place}', []).append(row.cell.metric)
    return Changes(before.session.start[:16].replace('T', ' '), before.session.uuid,
                   [Turn(*words, turns[words]) for words in sorted(turns, key=_badness)], new, list(gone.items()))


def _off(line: Line) -> str:
    expected = figures.figure(line.cell.expected, line.cell.unit)
    return f'{line.change} of the {_JUDGED_BY[line.cell.judged_by]} {expected}' if line.change else ''


def _badness(words: tuple[str, str]) -> tuple:
    was, now = map(WORDS.index, words)
    return now > was, min(was, now), was
