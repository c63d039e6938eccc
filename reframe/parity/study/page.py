"""The page, the CSV and the JSON of a study: results/report/studies/NAME; and an index of all studies."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.base import csvfile, files, paths
from parity.base.figures import amount
from parity.base.groups import grouped
from parity.judge.report import drawings
from parity.judge.report.drawings import Drawing, Plot, PlotLine
from parity.judge.report.templates import template
from parity.study import compared, tables
from parity.study.compared import Compared
from parity.study.published import derived, estimate
from parity.study.published import rows as published_rows
from parity.study.published.figures import FIGURE, StudyCell
from parity.study.published.findings import Judged

#: The folder of the templates.
_HERE = Path(__file__).parent
_COLUMNS = ('benchmark', 'metric', 'unit', 'better', 'of', 'n_baseline', 'n_candidate', 'baseline', 'candidate',
            'ratio', 'low', 'high', 'like', 'where')
#: The rows that both machines have, in this order; then print's others, then those of what was measured.
_MACHINE = ('processor', 'memory', 'network', 'compiler', 'BLAS', 'MPI', 'kernel')
#: Values of an axis that become lines of a plot, at most.
_MOST_LINES = 6
#: Columns of figures of a table: the others follow in a table below.
_ACROSS = 6


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
    counts, experiments = compared.experiments(of.study, of.ran.cells if of.ran else None)
    rest = [*((heading.capitalize(), rows) for heading, rows in compared.tables(of)),
            ('What else differs between the sides', [(c.what, c.why) for c in of.study.confounders]),
            ('Repairs', [(text,) for text in of.study.repairs]),
            ('Left out', [(c.what, c.why) for c in of.study.dropped])]
    shown = tables.of_study(of)
    plots = {key: list(_plots(of, key)) for key in of.study.experiments}
    return template('study.html.j2', _HERE, drawings=drawings, compared=compared).render(
        c=of, title=of.title, across=_ACROSS, counts=counts, experiments=experiments, tables=shown, rest=rest,
        plots=plots, lead=_lead(of, plots), words=list(_words(of)), again=_again(of), cut=_cut(of),
        machines=list(_machines(of)),
        version=paths.version(), today=f'{datetime.date.today()}')


def _lead(of: Compared, plots: Mapping[str, Sequence[Drawing]]) -> list[Drawing]:
    """Return the picture of the head: the first one of what was measured, else the first one in print."""
    measured = {cell.experiment for cell in of.ran.cells if cell.values} if of.ran else set()
    order = sorted(plots, key=lambda key: key not in measured)
    return next(([*plots[key][:1]] for key in order if plots[key]), [])


def _words(of: Compared) -> Iterator[tuple[str, str]]:
    """Yield how many findings have each word, in print and here."""
    for place, here in (('in print', False), *([('here', True)] if of.ran else [])):
        counts = Counter(compared.judged(finding, here)[0] for finding in of.analysis.findings)
        if counts:
            yield place, ', '.join(f'{count} {word}' for word, count in counts.items())


def _again(of: Compared) -> str:
    """Return the command that measures it again."""
    if not of.ran:
        return f'parity study run {of.name} --system NAME'
    quick = ' --quick' if of.ran.mode == 'quick' else ''
    return f'parity study run {of.name} --system {of.ran.system}{quick} --again'


def _cut(of: Compared) -> list[str]:
    """Return what --quick cut of each experiment, where it was taken."""
    if not of.ran or of.ran.mode != 'quick':
        return []
    lines = []
    for key, experiment in of.study.experiments.items():
        if experiment.check:
            lines.append(f'{key}: {experiment.cut}' if experiment.quick else f'{key}: left out')
    return lines


def _machines(of: Compared) -> Iterator[tuple[str, str, str]]:
    """Yield what is known of print's machine and of the measured one, side by side."""
    printed, here = of.study.machine, of.ran.machine if of.ran else {}
    for key in dict.fromkeys((*_MACHINE, *printed, *here)):
        yield key, printed.get(key, 'not printed' if key in _MACHINE else ''), here.get(key, '')


# ---- plots

def _plots(of: Compared, key: str) -> Iterator[Drawing]:
    """Yield the plots of an experiment: each metric along its numbers, with a line for each side or value."""
    found: dict[tuple, list[StudyCell]] = {}
    firsts = published_rows.tables(of.cells)
    for cells in (of.cells, of.ran.cells if of.ran else []):
        mine = [c for c in cells if c.experiment == key and c.values and c.better and not (
            c.metric.endswith('_sd') or c.label.startswith('disturbed'))]
        for row, alike in grouped(mine, lambda c: (c.metric, c.unit, c.label.startswith('cached'))).items():
            first = next((c.mean for c in alike if c.point == firsts.get((key, c.metric))), 0.0)
            found.setdefault(row, []).extend(replace(c, unit='of the first', values=[
                replace(v, value=v.value / first) for v in c.values]) if first else c for c in alike)
    for cells in found.values():
        count = {axis: len({c.point.get(axis) for c in cells}) for axis in tables.varying(of, cells)}
        along = max(count, default='', key=lambda axis: (
            axis != FIGURE, axis != of.study.contrast, bool(_numbers(cells, axis)), count[axis]))
        lines = {axis: n for axis, n in count.items() if axis != along and n <= _MOST_LINES}
        named = of.study.contrast if of.study.contrast in lines else max(lines, key=lines.get, default='')
        for point, alike in derived.by_point(cells, [along, named]).items() if along else ():
            title = ' '.join([key, *(f'{axis} {value}' for axis, value in point if axis in count)])
            if drawn := _plot(of, along, named, title, alike):
                yield drawn


def _numbers(cells: Sequence[StudyCell], axis: str) -> dict[str, float]:
    """Return the values of an axis as numbers; nothing where one is none."""
    found = {c.point.get(axis, ''): amount(c.point.get(axis, '')) for c in cells}
    return {value: of[0] for value, of in found.items() if of} if all(found.values()) else {}


def _plot(of: Compared, along: str, named: str, title: str, cells: Sequence[StudyCell]) -> Drawing | None:
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


def _line(of: Compared, along: str, at: dict[str, float], name: str, printed: bool,
          cells: list[StudyCell]) -> PlotLine:
    def placed(value: Callable[[StudyCell], Any]) -> dict[float, Any]:
        return {at[c.point.get(along, '')]: found for c in cells if (found := value(c))}

    law = next((fit.law for fit in of.study.fits if fit.along == along and derived.chosen(
        cells, of.study.series(fit.series))), '')
    row = derived.fitted(of.study, 'here', '', law, cells, along) if law else None
    return PlotLine(name, placed(lambda c: c.mean), printed, placed(_limits),
                (lambda x: row.a * x ** row.b if x > 0 else 0.0) if row and row.a and row.b else None,
                placed(lambda c: c.values[1:] and [v.value for v in c.values]))


def _limits(cell: StudyCell) -> tuple[float, float] | None:
    """Return the interval of several runs, or that of a printed standard deviation."""
    low, high = estimate.mean_limits(cell)
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
    rows = ({**row.model_dump(), 'of': source, 'like': texts.like, 'where': tables.where(texts.cells)}
            for texts in compared.rows(of)
            for row, source in zip(texts.both, ('published', 'here'), strict=True) if row)
    return csvfile.written(_COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
