"""The tables of a study in the shape of print, for the terminal and the page."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from parity.base.figures import NOTHING
from parity.base.groups import grouped
from parity.base.text import brief, columns
from parity.study import compared
from parity.study.compared import Compared, Texts
from parity.study.published.figures import FIGURE, Cells, count, spelled
from parity.study.published.model import Study

#: Values of an axis that become columns of a table, at most.
_MOST_COLUMNS = 16
#: Behind a figure: why it is flagged, or its label in brackets.
_LABEL = re.compile(r'(, flagged .*| \([^()]*\))?$')


class TableRow(NamedTuple):
    """A row of a table: its name, a note such as its place in print, and the texts of each column."""

    name: str
    note: str
    figures: list[list[str]]


class Table(NamedTuple):
    """The figures of an experiment."""

    head: list[str]
    rows: list[TableRow]
    notes: list[str]

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        rows = [['', *self.head]]
        for row in self.rows:
            rows.append([row.name, *(' | '.join(texts) for texts in row.figures)])
        return columns(rows, range(1, len(self.head) + 1))


def of_study(result: Compared) -> dict[str, Table]:
    """Return the table of each experiment that has figures."""
    of_sides = grouped(compared.rows(result), lambda row: row.cells[0].experiment)
    tables = {}
    for key in result.study.experiments:
        rows = of_sides.get(key)
        sides = bool(rows and result.study.candidate)
        rows = rows or list(_uncompared(result, key))
        if rows:
            experiment = _Experiment(result, rows, sides)
            tables[key] = experiment.table()
    return tables


def _uncompared(result: Compared, key: str) -> Iterator[Texts]:
    """Yield the figures of an experiment that has no row in the comparison: its sides are not compared."""
    mine = [cell for cell in [*result.cells, *result.here] if cell.experiment == key]
    shown = [cell for cell in mine if cell.values or cell.flagged]
    for cells in grouped(shown, lambda cell: cell.name).values():
        first = cells[0]
        printed = [cell for cell in cells if cell.line]
        here = [cell for cell in cells if not cell.line]
        yield Texts(f'{spelled(key, first.point)}: {first.metric}', cells, [_text(printed)], [_text(here)])


def _text(cells: Cells) -> str:
    figures = ', '.join(cell.shown(cell.figure) for cell in cells)
    flagged = itertools.chain.from_iterable(cell.flagged for cell in cells)
    flags = ''.join(f', flagged {why}' for _, why in flagged)
    return figures + flags or NOTHING


def where(cells: Cells) -> str:
    """Return where these figures stand in print."""
    return ', '.join(dict.fromkeys(cell.where for cell in cells if cell.where))


def varying(result: Compared, cells: Cells) -> list[str]:
    """Return the axes of which these figures have several values."""
    return [axis for axis in (*result.study.axes, FIGURE) if count(cells, axis) > 1]


def ordered(study: Study, axis: str, cells: Cells) -> list[str]:
    """Return the values of an axis that these figures have, in the order of print."""
    there = dict.fromkeys(cell.point.get(axis, '') for cell in cells)
    if axis not in study.axes:
        return list(there)
    return [value for value in study.axes[axis].values if value in there]


class _Experiment:
    """The figures of an experiment, as they become a table. ``sides``: they are compared."""

    def __init__(self, result: Compared, rows: Sequence[Texts], sides: bool):
        self.study, self.rows, self.sides = result.study, rows, sides
        self.cells = list(itertools.chain.from_iterable(row.cells for row in rows))
        self.axes = varying(result, self.cells)
        if sides and self.study.contrast in self.axes:
            self.axes.remove(self.study.contrast)
        self.where = where(self.cells)
        self.apart = any(where(row.cells) != self.where for row in rows)      # rows of several places in print
        texts = set(itertools.chain.from_iterable(row.here for row in rows))
        self.measured = result.ran is not None and texts != {NOTHING}

    def table(self) -> Table:
        """Return each side and their ratio, or two axes as rows by columns."""
        across = self._across()
        return self._crossed(across) if across else self._plain()

    def _head(self) -> list[str]:
        sources = ['in print', 'here'] if self.measured else ['in print']
        if not self.sides:
            return sources
        names = [*self.study.sides, 'ratio']
        return [f'{source} {name}' for source, name in itertools.product(sources, names)]

    def _notes(self) -> list[str]:
        notes = []
        ways = dict.fromkeys((cell.better, cell.metric) for cell in self.cells if cell.better)
        for better, metrics in grouped(ways, lambda way: way[0]).items():
            note = f'{better} is better: {", ".join(metric for _, metric in metrics)}'
            if self.sides:
                note += f'; {self.study.candidate} is better {"above" if better == "higher" else "below"} 1'
            notes.append(note)
        if self.where and not self.apart:
            notes.append(f'from {self.where}')
        return notes

    def _plain(self) -> Table:
        """Return a table with a column for each side."""
        head, rows = self._head(), []
        compared_here = self.measured and self.sides
        if compared_here:
            head.append('')
        for row in self.rows:
            texts = [*row.published, *(row.here if self.measured else ())]
            if compared_here:
                texts.append(row.like)
            notes = [where(row.cells) if self.apart else '', '' if row.reason in row.published else row.reason]
            rows.append(TableRow(row.name, '; '.join(filter(None, notes)), [[text] for text in texts]))
        return Table(head, rows, self._notes())

    # ---- two axes as rows by columns

    def _across(self) -> str:
        """Return the axis whose values become columns; '' for none."""
        metrics = {cell.metric for cell in self.cells}
        if len(metrics.union(self.axes)) <= 2:
            return ''
        if self.sides and len(self.rows) <= _MOST_COLUMNS:
            return ''
        printed = [cell for cell in self.cells if cell.line]
        few = list(filter(self._is_short, reversed(self.axes)))
        return max(few, key=lambda axis: count(printed, axis), default='')

    def _is_short(self, axis: str) -> bool:
        return all(axis in cell.point for cell in self.cells) and count(self.cells, axis) <= _MOST_COLUMNS

    def _crossed(self, across: str) -> Table:
        """Return a table with a column for each value of an axis."""
        values = ordered(self.study, across, self.cells)
        columns = [f'{across} {value}' for value in values]
        notes = self._notes()
        head = ', '.join(self._head())
        if head != 'in print':
            notes.append(f'a cell has {head}')
        rows = [self._line(name, rows, values) for name, rows in self._lines(across)]
        return Table(columns, rows, notes)

    def _lines(self, across: str) -> Iterator[tuple[str, dict[str, Texts]]]:
        """Yield the name of each line, and its rows by the value across.

        Beside a cached figure in print stands a cached one only: they are two lines."""
        axes = [axis for axis in self.axes if axis != across]
        lines: dict[tuple[int, str], dict[str, Texts]] = {}
        for row in self.rows:
            cell = row.cells[0]
            named = [f'{axis} {cell.point[axis]}' for axis in axes if cell.point.get(axis)]
            name = ' '.join([cell.metric, *named])
            for nth in itertools.count():
                line = lines.setdefault((nth, name), {})
                if cell.point[across] not in line:
                    break
            line[cell.point[across]] = row
        for (_, name), line in lines.items():
            yield name, line

    def _line(self, name: str, rows: dict[str, Texts], values: Sequence[str]) -> TableRow:
        """Return a row of the table. What all its figures share stands in its name."""
        cells = list(itertools.chain.from_iterable(row.cells for row in rows.values()))
        shared = _shared(list(rows.values()), cells[0].unit)
        figures = []
        for value in values:
            texts = _texts(rows[value]) if value in rows else [NOTHING]
            figures.append([_without(text, shared) for text in texts])
        names = [name, *(part.strip(' (),') for part in reversed(shared))]
        note = brief(where(cells), 80) if self.apart else ''
        return TableRow(', '.join(names), note, figures)


def _texts(row: Texts) -> list[str]:
    """Return the figures in print and, where there are any, here."""
    return row.published if set(row.here) == {NOTHING} else row.published + row.here


def _shared(rows: Iterable[Texts], unit: str) -> list[str]:
    """Return what all figures end in: a label, `of the first`, a unit."""
    texts = list(itertools.chain.from_iterable(row.published + row.here for row in rows))
    figures = [text for text in texts if text != NOTHING]
    if not figures:
        return []
    label = _LABEL.search(figures[0])[0]
    shared = []
    for ending in filter(str.strip, (label, ' of the first', f' {unit}')):
        if all(ending in text for text in figures):
            shared.append(ending)
    return shared


def _without(text: str, parts: Iterable[str]) -> str:
    for part in parts:
        text = text.replace(part, '', 1)
    return text
