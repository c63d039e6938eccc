"""The page, the CSV and the JSON of a study: results/report/studies/NAME; and an index of all studies."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from parity.base import csvfile, files, paths
from parity.base.figures import NOTHING, amount, number
from parity.base.groups import grouped
from parity.base.text import brief
from parity.report import drawings
from parity.report.drawings import Drawn, Line, Plot
from parity.report.templates import template
from parity.study import compared, derived, figures
from parity.study.compared import Compared, Texts
from parity.study.figures import FIGURE, Cell
from parity.study.findings import Judged

#: The folder of the templates.
_HERE = Path(__file__).parent
_COLUMNS = ('benchmark', 'metric', 'unit', 'better', 'of', 'n_baseline', 'n_candidate', 'baseline', 'candidate',
            'ratio', 'low', 'high', 'like', 'where')
#: The rows that both machines have, in this order; then print's others, then those of what was measured.
_MACHINE = ('processor', 'memory', 'network', 'compiler', 'BLAS', 'MPI', 'kernel')
#: Values of an axis that become columns of a table, and lines of a plot, at most.
_MOST_COLUMNS, _MOST_LINES = 16, 6


class Table(NamedTuple):
    """The figures of an experiment. A row has its name, a note, and for each column texts in print and here."""

    head: list[str]
    rows: list[tuple[str, str, list[list[str]]]]
    notes: list[str]


def write(of: Compared) -> list[Path]:
    """Write the files of a study, and return them."""
    file = _folder() / f'{of.name}.html'
    contents = {file: page(of), file.with_suffix('.csv'): _rows(of),
                file.with_name(f'{of.name}-findings.csv'): _findings(of),
                file.with_suffix('.json'): json.dumps(of.as_json(), indent=1) + '\n'}
    files.write_all({path: content.encode() for path, content in contents.items()})
    return list(contents)


def write_index(studies: Sequence[Compared]) -> Path:
    """Write the index of these studies, and return it: what ran of each, and how many findings have each word."""
    def counted(words: Sequence[str]) -> str:
        order = dict.fromkeys(('holds', 'does not hold', *words))
        return ', '.join(f'{word} {words.count(word)}' for word in order if word in words)

    lines = [(of.name, of.study.title, of.title.partition(', ')[2],
              counted([f.published for f in of.analysis.findings]),
              counted([compared.judged(f, here=True)[0] for f in of.analysis.findings]) if of.ran
              else 'nothing measured')
             for of in studies]
    file = _folder() / 'index.html'
    files.write_all({file: template('studies.html.j2', _HERE).render(lines=lines).encode()})
    return file


def _folder() -> Path:
    return paths.results() / 'report' / 'studies'


def page(of: Compared) -> str:
    """Return the page. It has no script, and all that it prints is escaped."""
    counts, experiments = compared.experiments(of.study)
    rest = [*((heading.capitalize(), rows) for heading, rows in compared.tables(of)),
            ('What else differs between the sides', [(c.what, c.why) for c in of.study.confounders]),
            ('Repairs', [(text,) for text in of.study.repairs]),
            ('Left out', [(c.what, c.why) for c in of.study.dropped])]
    sides = grouped(compared.rows(of), lambda row: row.cells[0].experiment)
    tables = {key: _table(of, rows, bool(of.study.candidate and key in sides)) for key in of.study.experiments
              if (rows := sides.get(key) or list(_uncompared(of, key)))}
    return template('study.html.j2', _HERE, drawings=drawings, compared=compared).render(
        c=of, title=of.title, counts=counts, experiments=experiments, tables=tables, rest=rest,
        plots={key: list(_plots(of, key)) for key in of.study.experiments}, machines=list(_machines(of)),
        version=paths.version(), today=f'{datetime.date.today()}')


def _machines(of: Compared) -> Iterator[tuple[str, str, str]]:
    """Yield what is known of print's machine and of the measured one, side by side."""
    printed, here = of.study.machine, of.ran.machine if of.ran else {}
    for key in dict.fromkeys((*_MACHINE, *printed, *here)):
        yield key, printed.get(key, 'not printed' if key in _MACHINE else ''), here.get(key, '')


# ---- tables

def _uncompared(of: Compared, key: str) -> Iterator[Texts]:
    """Yield the figures of an experiment that has no row in the comparison: its sides are not compared."""
    def text(cells: Sequence[Cell]) -> list[str]:
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
    where, axes = _where(every), [axis for axis in _varying(of, every) if not sides or axis != of.study.contrast]
    several = any(_where(row.cells) != where for row in rows)
    ways = grouped(dict.fromkeys((c.better, c.metric) for c in every if c.better), itemgetter(0))
    notes = [f'{better} is better: {", ".join(metric for _, metric in of_way)}' + (
        f'; {of.study.candidate} is better {"above" if better == "higher" else "below"} 1' if sides else '')
        for better, of_way in ways.items()]
    notes += [] if several or not where else [f'from {where}']
    few = [axis for axis in axes if all(axis in c.point for c in every)
           and len({c.point[axis] for c in every}) <= _MOST_COLUMNS]
    names = [of.study.baseline, of.study.candidate, 'ratio'] if sides else ['']
    measured = of.ran and any(text != NOTHING for row in rows for text in row.here)
    sources = ['in print', *(['here'] if measured else [])]
    head = [f'{source} {side}'.strip() for source in sources for side in names]
    if few and len({*axes, *(c.metric for c in every)}) > 2 and (not sides or len(rows) > _MOST_COLUMNS):
        notes += [f'each from above: {", ".join(head)}'] if head[1:] else []
        return _crossed(of, rows, axes, few[-1], notes, several)
    return Table([*head, *([''] if measured and sides else [])], [
        (row.name, '; '.join(filter(None, (_where(row.cells) if several else '',
                                           row.reason if row.reason not in row.published else ''))),
         [[text] for text in (*row.published, *(row.here if measured else ()),
                              *([row.like] if measured and sides else []))]) for row in rows], notes)


def _where(cells: Iterable[Cell]) -> str:
    """Return where these figures stand in print."""
    return ', '.join(dict.fromkeys(c.where for c in cells if c.where))


def _varying(of: Compared, cells: Sequence[Cell]) -> list[str]:
    """Return the axes of which these figures have several values."""
    return [axis for axis in (*of.study.axes, FIGURE) if len({c.point.get(axis) for c in cells}) > 1]


def _crossed(of: Compared, rows: Sequence[Texts], axes: list[str], across: str, notes: list[str],
             several: bool) -> Table:
    """Return a table with a column for each value of an axis."""
    cells = [c for row in rows for c in row.cells]
    order = of.study.axes[across].values if across in of.study.axes else {c.point[across]: '' for c in cells}
    columns = [value for value in order if any(c.point[across] == value for c in cells)]
    axes, found = [axis for axis in axes if axis != across], []
    measured = any(text != NOTHING for row in rows for text in row.here)
    for (metric, *point), mine in grouped(rows, lambda row: (row.cells[0].metric, *(
            row.cells[0].point.get(axis, '') for axis in axes))).items():
        at = {row.cells[0].point[across]: row for row in mine}
        texts = [text for row in mine for text in (*row.published, *row.here) if text != NOTHING]
        label = re.search(r'(, flagged .*| \([^()]*\))?$', texts[0] if texts else '')[0]
        common = [part for part in (label, ' of the first', f' {mine[0].cells[0].unit}')
                  if part.strip() and texts and all(part in text for text in texts)]
        where = brief(_where(c for row in mine for c in row.cells), 80) if several else ''
        found.append((
            ' '.join([metric, *(f'{axis} {value}' for axis, value in zip(axes, point, strict=True) if value)]),
            '; '.join(filter(None, (' '.join(part.strip(' (),') for part in common[::-1]), where))),
            [[reduce(lambda text, part: text.replace(part, '', 1), common, text)
              for text in (*at[value].published, *(at[value].here if measured else ()))]
             if value in at else [NOTHING] for value in columns]))
    return Table([f'{across} {value}' for value in columns], found, notes)


# ---- plots

def _plots(of: Compared, key: str) -> Iterator[Drawn]:
    """Yield the plots of an experiment: each metric along its numbers, with a line for each side or value."""
    found: dict[tuple, list[Cell]] = {}
    firsts = figures.tables(of.cells)
    for cells in (of.cells, of.ran.cells if of.ran else []):
        mine = [c for c in cells if c.experiment == key and c.values and c.better and not (
            c.metric.endswith('_sd') or c.label.startswith('disturbed'))]
        for row, alike in grouped(mine, lambda c: (c.metric, c.unit, c.label.startswith('cached'))).items():
            first = next((c.mean for c in alike if c.point == firsts.get((key, c.metric))), 0.0)
            found.setdefault(row, []).extend(replace(c, unit='of the first', values=[
                replace(v, value=v.value / first) for v in c.values]) if first else c for c in alike)
    for cells in found.values():
        count = {axis: len({c.point.get(axis) for c in cells}) for axis in _varying(of, cells)}
        along = max(count, default='', key=lambda axis: (
            axis != FIGURE, axis != of.study.contrast, bool(_numbers(cells, axis)), count[axis]))
        lines = {axis: n for axis, n in count.items() if axis != along and n <= _MOST_LINES}
        named = of.study.contrast if of.study.contrast in lines else max(lines, key=lines.get, default='')
        for point, alike in derived.by_point(cells, [along, named]).items() if along else ():
            title = ' '.join([key, *(f'{axis} {value}' for axis, value in point if axis in count)])
            if drawn := _plot(of, along, named, title, alike):
                yield drawn


def _numbers(cells: Sequence[Cell], axis: str) -> dict[str, float]:
    """Return the values of an axis as numbers; nothing where one is none."""
    found = {c.point.get(axis, ''): amount(c.point.get(axis, '')) for c in cells}
    return {value: of[0] for value, of in found.items() if of} if all(found.values()) else {}


def _plot(of: Compared, along: str, named: str, title: str, cells: Sequence[Cell]) -> Drawn | None:
    """Return the plot of these figures; None where they are at one place."""
    def values(axis: str) -> list[str]:
        there = dict.fromkeys(c.point.get(axis, '') for c in cells)
        return [value for value in getattr(of.study.axes.get(axis), 'values', there) if value in there]

    places, numbers, one = values(along), _numbers(cells, along), cells[0]
    if len(places) < 2:
        return None
    size = amount(places[0]) if numbers else None
    metric = one.metric + ' (cached)' * one.label.startswith('cached')
    plot = Plot('', title, along, size[1] if size else '', metric, one.unit, one.better,
                () if numbers else tuple(places))
    at = numbers or {value: float(i) for i, value in enumerate(places)}
    lines = grouped(cells, lambda c: (c.point.get(named) or ('in print' if c.line else 'here'), bool(c.line)))
    order = [*values(named), 'in print', 'here']
    return drawings.draw(plot, [_line(of, along, at, name, printed, lines[name, printed])
                                for name, printed in sorted(lines, key=lambda line: order.index(line[0]))])


def _line(of: Compared, along: str, at: dict[str, float], name: str, printed: bool, cells: list[Cell]) -> Line:
    def placed(value: Callable[[Cell], Any]) -> dict[float, Any]:
        return {at[c.point.get(along, '')]: found for c in cells if (found := value(c))}

    law = next((fit.law for fit in of.study.fits if fit.along == along and derived.chosen(
        cells, of.study.series(fit.series))), '')
    row = derived.fitted(of.study, 'here', '', law, cells, along) if law else None
    return Line(name, placed(lambda c: c.mean), printed, placed(_limits),
                (lambda x: row.a * x ** row.b if x > 0 else 0.0) if row and row.a and row.b else None,
                placed(lambda c: c.values[1:] and [v.value for v in c.values]))


def _limits(cell: Cell) -> tuple[float, float] | None:
    """Return the interval of several runs, or that of a printed standard deviation."""
    low, high = cell.limits
    if low is None or high is None:
        factor = math.exp(1.96 * cell.deviation)
        return (cell.mean / factor, cell.mean * factor) if cell.deviation else None
    return low, high


# ---- files beside the page

def _findings(of: Compared) -> str:
    """Return the findings as CSV."""
    return csvfile.written([*Judged.model_fields], (list(finding.model_dump().values())
                                                    for finding in of.analysis.findings))


def _rows(of: Compared) -> str:
    """Return the rows in print and here as CSV."""
    rows = ({**row.model_dump(), 'of': source, 'like': texts.like, 'where': _where(texts.cells)}
            for texts in compared.rows(of)
            for row, source in zip(texts.both, ('published', 'here'), strict=True) if row)
    return csvfile.written(_COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
