"""The cells as rows of tables: plain text, '' where there is nothing, put together before any HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from parity.base import figures, text
from parity.verdict.model import Cell

SUBSYSTEMS = ('compute', 'memory', 'network', 'storage', 'gpu')

#: How much of a reason stands in the table; verdict.json has all of it.
SHORT = 140

#: Rows of one table: a browser lays a table out as a whole, and only those in view.
MOST_ROWS = 100
#: So many rows are elements from the start; the tables after them become it when they come near the view.
AT_ONCE = 300


@dataclass(eq=False)
class Row:
    """One cell of a table; ``number`` counts the rows of the page from 1."""

    cell: Cell
    number: int
    unit: str
    value: str
    change: str
    reference: str
    band: str
    limit: str
    note: int                        # number of the footnote that names the limit's source; 0: none
    efficiency: str
    bar: int | None                  # per cent of the bar that is filled
    reason: str
    links: tuple[tuple[str, str], ...] = ()      # what is left of the run, and where

    @property
    def href(self) -> str:
        """What the job printed, else the run's folder; '' where nothing is left."""
        return next((address for word, address in self.links if word == 'output'),
                    self.links[0][1] if self.links else '')

    @property
    def id(self) -> str:
        return f'c{self.number}'


@dataclass
class Case:
    """The rows of one case, and what is the same for all of them."""

    name: str
    facts: list[str]
    links: list[tuple[str, str]]     # what is left of the run, and where
    output: str
    reason: str
    rows: list[Row]

    @property
    def place(self) -> str:
        return self.rows[0].cell.partition


@dataclass
class Table:
    """Cases of one check, one table of the page."""

    subsystem: str
    check: str
    cases: list[Case]
    goes_on: bool                    # the check's cases began in the table before
    later: bool                      # far down in the page

    @property
    def lines(self) -> int:
        """Rows and heads of cases: a browser guesses its height from that, before it is in view."""
        return sum(1 + len(case.rows) for case in self.cases)


def of_cells(cells: list[Cell]) -> tuple[list[Row], list[str]]:
    """The rows in the page's order, and where their limits come from."""
    ordered = _ordered(cells)
    sources = list(dict.fromkeys(_source(c) for c in ordered if _source(c)))
    return [_row(cell, number, sources) for number, cell in enumerate(ordered, 1)], sources


def tables(rows: list[Row], links: Callable[[str], list[tuple[str, str]]]) -> list[tuple[str, list[Table]]]:
    """The tables by subsystem. ``links`` are those of what an output directory holds."""
    return [(subsystem, [table for check, same in groupby(group, lambda r: r.cell.check)
                         for table in _tables(subsystem, check, list(same), links)])
            for subsystem, group in by_subsystem(rows)]


def _tables(subsystem: str, check: str, rows: list[Row], links) -> list[Table]:
    found: list[Table] = []
    for _, same in groupby(rows, lambda r: _identity(r.cell)):
        case = _case(list(same), links)
        if not found or found[-1].lines + len(case.rows) > MOST_ROWS:
            later = case.rows[0].number > AT_ONCE
            found.append(Table(subsystem, check, [], goes_on=bool(found), later=later))
        found[-1].cases.append(case)
    return found


def rank(subsystem: str) -> tuple[int, str]:
    known = SUBSYSTEMS.index(subsystem) if subsystem in SUBSYSTEMS else len(SUBSYSTEMS)
    return known, subsystem


def _ordered(cells: list[Cell]) -> list[Cell]:
    """By subsystem; checks, and cases in them, together in the order in which they first appear."""
    first: dict[tuple, int] = {}
    for cell in cells:
        first.setdefault((cell.subsystem, cell.check), len(first))
        first.setdefault(_identity(cell), len(first))
    return sorted(cells, key=lambda c: (rank(c.subsystem), first[c.subsystem, c.check], first[_identity(c)]))


def _identity(cell: Cell) -> tuple:
    return (cell.check, cell.case, cell.system, cell.partition, cell.environ, cell.size, cell.attempt,
            tuple(cell.nodes), cell.jobid, cell.outputdir)


def by_subsystem(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    return [(name, list(group)) for name, group in groupby(rows, lambda r: r.cell.subsystem)]


def _source(cell: Cell) -> str:
    if cell.limit is None:
        return ''
    return f'{cell.limit_source or "source not stated"} ({"certain" if cell.limit_certain else "a ceiling"})'


def _row(cell: Cell, number: int, sources: list[str]) -> Row:
    texts, unit = figures.alike(cell.unit, cell.value, cell.reference, cell.low, cell.high, cell.limit)
    value, reference, low, high, limit = ('' if t == figures.NOTHING else t for t in texts)
    efficiency = '' if cell.efficiency is None else figures.percent(cell.efficiency)
    return Row(cell=cell, number=number, unit=unit if any((value, reference, low, high, limit)) else cell.unit,
               value=value, change=figures.change(cell.value, cell.expected), reference=reference,
               band=_band(low, high), limit=limit, note=sources.index(_source(cell)) + 1 if limit else 0,
               efficiency=efficiency, bar=_bar(cell.efficiency), reason=cell.reason)


def _band(low: str, high: str) -> str:
    if low and high:
        return f'{low} .. {high}'
    return f'at least {low}' if low else f'at most {high}' if high else ''


def _bar(efficiency: float | None) -> int | None:
    # The comparison is False for NaN as well: no bar.
    if efficiency is None or not efficiency >= 0:
        return None
    return round(100 * min(efficiency, 1.0))


def _case(rows: list[Row], links) -> Case:
    cell = rows[0].cell
    reasons = {r.reason for r in rows}
    common = reasons.pop() if len(rows) > 1 and len(reasons) == 1 else ''
    kept = links(cell.outputdir)
    for row in rows:
        row.reason = '' if common else text.brief(row.reason, SHORT)
        row.links = tuple(kept)
    return Case(name=name(cell), facts=_facts(cell), links=kept, output=cell.outputdir,
                reason=text.brief(common, 2 * SHORT), rows=rows)


def name(cell: Cell) -> str:
    return cell.case if cell.case.startswith(cell.check) else f'{cell.check}: {cell.case}'


def _facts(cell: Cell) -> list[str]:
    nodes = ' '.join(cell.nodes[:4]) + (f' and {len(cell.nodes) - 4} more' if len(cell.nodes) > 4 else '')
    inside = '' if cell.virtualisation == 'none' else cell.virtualisation
    facts = [place(cell), cell.environ, cell.size, nodes, inside,
             f'job {cell.jobid}' if cell.jobid else '', f'attempt {cell.attempt}' if cell.attempt > 1 else '']
    return [text.brief(fact, 100) for fact in facts if fact]


def place(cell: Cell) -> str:
    return f'{cell.system}:{cell.partition}' if cell.partition else cell.system
