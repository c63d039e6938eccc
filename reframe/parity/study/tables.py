"""The tables of a study in the shape of print, for the terminal and the page."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import NamedTuple

from parity.base.figures import NOTHING, number
from parity.base.groups import grouped
from parity.base.text import brief
from parity.study import compared
from parity.study.compared import Compared, Texts
from parity.study.published.figures import FIGURE, StudyCell

#: Values of an axis that become columns of a table, at most.
_MOST_COLUMNS = 16


class Table(NamedTuple):
    """The figures of an experiment. A row has its name, its place in print, and texts of each column."""

    head: list[str]
    rows: list[tuple[str, str, list[list[str]]]]
    notes: list[str]


def of_study(of: Compared) -> dict[str, Table]:
    """Return the table of each experiment that has figures."""
    sides = grouped(compared.rows(of), lambda row: row.cells[0].experiment)
    return {key: _table(of, rows, bool(of.study.candidate and key in sides)) for key in of.study.experiments
            if (rows := sides.get(key) or list(_uncompared(of, key)))}


def _uncompared(of: Compared, key: str) -> Iterator[Texts]:
    """Yield the figures of an experiment that has no row in the comparison: its sides are not compared."""
    def text(cells: Sequence[StudyCell]) -> list[str]:
        return [', '.join(c.text or f'{number(c.figure)} {c.unit}'.strip() for c in cells) + ''.join(
            f', flagged {why}' for c in cells for _, why in c.flagged) or NOTHING]

    mine = (c for c in (*of.cells, *(of.ran.cells if of.ran else ())) if c.experiment == key)
    for (metric, *point), cells in grouped(mine, lambda c: (c.metric, *c.point.items())).items():
        if cells := [c for c in cells if c.values or c.flagged]:
            name = ' '.join([key, *(f'%{axis}={value}' for axis, value in point)])
            yield Texts(f'{name}: {metric}', (None, None), cells, text([c for c in cells if c.line]),
                        text([c for c in cells if not c.line]), '', '')


def _table(of: Compared, rows: Sequence[Texts], sides: bool) -> Table:
    """Return the table of an experiment: each side and their ratio; without, two axes as rows by columns."""
    every = [c for row in rows for c in row.cells]
    printed, axes = where(every), [axis for axis in varying(of, every) if not sides or axis != of.study.contrast]
    several = any(where(row.cells) != printed for row in rows)
    ways = grouped(dict.fromkeys((c.better, c.metric) for c in every if c.better), itemgetter(0))
    notes = [f'{better} is better: {", ".join(metric for _, metric in of_way)}' + (
        f'; {of.study.candidate} is better {"above" if better == "higher" else "below"} 1' if sides else '')
        for better, of_way in ways.items()]
    notes += [] if several or not printed else [f'from {printed}']
    few = [axis for axis in axes if all(axis in c.point for c in every)
           and len({c.point[axis] for c in every}) <= _MOST_COLUMNS]
    names = [of.study.baseline, of.study.candidate, 'ratio'] if sides else ['']
    measured = of.ran and any(text != NOTHING for row in rows for text in row.here)
    sources = ['in print', *(['here'] if measured else [])]
    head = [f'{source} {side}'.strip() for source in sources for side in names]
    if few and len({*axes, *(c.metric for c in every)}) > 2 and (not sides or len(rows) > _MOST_COLUMNS):
        notes += [f'a cell has {", ".join(head)}'] if head[1:] else []
        across = max(few[::-1], key=lambda axis: len({c.point[axis] for c in every if c.line}))
        return _crossed(of, rows, axes, across, notes, several)
    return Table([*head, *([''] if measured and sides else [])], [
        (row.name, '; '.join(filter(None, (where(row.cells) if several else '',
                                           row.reason if row.reason not in row.published else ''))),
         [[text] for text in (*row.published, *(row.here if measured else ()),
                              *([row.like] if measured and sides else []))]) for row in rows], notes)


def where(cells: Iterable[StudyCell]) -> str:
    """Return where these figures stand in print."""
    return ', '.join(dict.fromkeys(c.where for c in cells if c.where))


def varying(of: Compared, cells: Sequence[StudyCell]) -> list[str]:
    """Return the axes of which these figures have several values."""
    return [axis for axis in (*of.study.axes, FIGURE) if len({c.point.get(axis) for c in cells}) > 1]


def _crossed(of: Compared, rows: Sequence[Texts], axes: list[str], across: str, notes: list[str],
             several: bool) -> Table:
    """Return a table with a column for each value of an axis."""
    cells = [c for row in rows for c in row.cells]
    order = of.study.axes[across].values if across in of.study.axes else {c.point[across]: '' for c in cells}
    columns = [value for value in order if any(c.point[across] == value for c in cells)]
    axes, found = [axis for axis in axes if axis != across], []
    lines: dict[tuple, dict[str, Texts]] = {}
    for row in rows:            # beside a cached figure in print stands a cached one only: there are two rows
        one = row.cells[0]
        line = (one.metric, *(one.point.get(axis, '') for axis in axes))
        nth = next(n for n in itertools.count() if one.point[across] not in lines.get((n, *line), ()))
        lines.setdefault((nth, *line), {})[one.point[across]] = row
    for (_, metric, *point), at in lines.items():
        mine = list(at.values())
        texts = [text for row in mine for text in (*row.published, *row.here) if text != NOTHING]
        label = re.search(r'(, flagged .*| \([^()]*\))?$', texts[0] if texts else '')[0]
        common = [part for part in (label, ' of the first', f' {mine[0].cells[0].unit}')
                  if part.strip() and texts and all(part in text for text in texts)]
        name = ' '.join([metric, *(f'{axis} {value}' for axis, value in zip(axes, point, strict=True) if value)])
        found.append((
            ', '.join([name, *(part.strip(' (),') for part in common[::-1])]),
            brief(where(c for row in mine for c in row.cells), 80) if several else '',
            [[reduce(lambda text, part: text.replace(part, '', 1), common, text)
              for text in (*at[value].published, *(at[value].here if {*at[value].here} != {NOTHING} else ()))]
             if value in at else [NOTHING] for value in columns]))
    return Table([f'{across} {value}' for value in columns], found, notes)
