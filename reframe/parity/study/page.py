"""The page, the CSV and the JSON of a study: results/report/studies/NAME; and an index of all studies."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from parity.study.published.derived import FitRow
from parity.study.published.figures import FIGURE, Cells, StudyCell, count
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


def write(result: Compared) -> list[Path]:
    """Write the files of a study, and return them."""
    answer = json.dumps(result.as_json(), indent=1)
    contents = {'.html': page(result), '.csv': _rows(result), '-findings.csv': _findings(result)}
    contents['.json'] = f'{answer}\n'
    folder = _folder()
    encoded = {folder / f'{result.name}{ending}': text.encode() for ending, text in contents.items()}
    files.write_all(encoded)
    return list(encoded)


def write_index(studies: Sequence[Compared]) -> Path:
    """Write the index of these studies, and return it: what ran of each, and how many findings have each word."""
    lines = []
    for result in studies:
        here = _counted(result.words(here=True)) if result.ran else 'nothing measured'
        printed = _counted(result.words(here=False))
        lines.append((result.name, result.study.title, result.what_ran or 'as published', printed, here))
    file = _folder() / 'index.html'
    text = template('studies.html.j2', _HERE).render(lines=lines)
    files.write_all({file: text.encode()})
    return file


def _counted(words: Counter[str]) -> str:
    order = dict.fromkeys(('holds', 'does not hold', *words))
    return ', '.join(f'{word} {words[word]}' for word in order if words[word])


def _folder() -> Path:
    return paths.results() / 'report' / 'studies'


def page(result: Compared) -> str:
    """Return the page. It has no script, and all that it prints is escaped."""
    values: dict[str, object] = {'c': result, 'title': result.title, 'across': _ACROSS}
    values['version'] = paths.version()
    values['today'] = str(datetime.date.today())
    extents = compared.experiments(result.study, result.here if result.ran else None)
    values['counts'] = extents.summary
    values['experiments'] = extents.rows
    plots = {key: list(_plots(result, key)) for key in result.study.experiments}
    values['plots'] = plots
    values['lead'] = _lead(result, plots)
    values['tables'] = tables.of_study(result)
    values['rest'] = _rest(result)
    values['words'] = list(_words(result))
    values['machines'] = list(_machines(result))
    values['again'] = _again(result)
    values['cut'] = _cut(result)
    return template('study.html.j2', _HERE, drawings=drawings, compared=compared).render(values)


def _rest(result: Compared) -> list[tuple[str, list[list[str]]]]:
    """Return the tables at the end of the page, each with its heading."""
    rest = [(heading.capitalize(), rows) for heading, rows in compared.tables(result).items()]
    confounders = [entry.row for entry in result.study.confounders]
    rest.append(('What else differs between the sides', confounders))
    rest.append(('Repairs', [[text] for text in result.study.repairs]))
    rest.append(('Left out', [entry.row for entry in result.study.dropped]))
    return rest


def _lead(result: Compared, plots: Mapping[str, Sequence[Drawing]]) -> list[Drawing]:
    """Return the picture of the head: the first one of what was measured, else the first one in print."""
    measured = {cell.experiment for cell in result.here if cell.values}
    drawn = [key for key in plots if plots[key]]
    for key in [key for key in drawn if key in measured] or drawn:
        return list(plots[key][:1])
    return []


def _words(result: Compared) -> Iterator[tuple[str, str]]:
    """Yield how many findings have each word, in print and here."""
    for place, here in result.places.items():
        counts = [f'{count} {word}' for word, count in result.words(here).items()]
        text = ', '.join(counts)
        if text:
            yield place, text


def _again(result: Compared) -> str:
    """Return the command that measures it again."""
    if not result.ran:
        return f'parity study run {result.name} --system NAME'
    quick = ' --quick' if result.quick else ''
    return f'parity study run {result.name} --system {result.ran.system}{quick} --again'


def _cut(result: Compared) -> list[str]:
    """Return what --quick cut of each experiment, where it was taken."""
    if not result.quick:
        return []
    lines = []
    for key, experiment in result.study.experiments.items():
        if experiment.check:
            lines.append(f'{key}: {experiment.cut if experiment.quick else "left out"}')
    return lines


def _machines(result: Compared) -> Iterator[tuple[str, str, str]]:
    """Yield what is known of print's machine and of the measured one, side by side."""
    printed = dict.fromkeys(_MACHINE, 'not printed')
    printed |= result.study.machine
    here = result.ran.machine if result.ran else {}
    for key in dict.fromkeys([*printed, *here]):
        yield key, printed.get(key, ''), here.get(key, '')


# ---- plots

def _plots(result: Compared, key: str) -> Iterator[Drawing]:
    """Yield the plots of an experiment: each metric along its numbers, with a line for each side or value."""
    for cells in _drawable(result, key):
        varying = tables.varying(result, cells)
        along = _along(result, cells, varying)
        if not along:
            continue
        named = _axis_of_lines(result, cells, [axis for axis in varying if axis != along])
        for point, alike in derived.by_point(cells, [along, named]).items():
            title = [key]
            title += [f'{axis} {value}' for axis, value in point if axis in varying]
            places = _Places(result, along, named, alike)
            drawn = places.drawn(' '.join(title))
            if drawn:
                yield drawn


def _drawable(result: Compared, key: str) -> list[list[StudyCell]]:
    """Return the figures of an experiment that one plot can have: of one metric, unit and label."""
    firsts = published_rows.tables(result.cells)
    drawable: list[StudyCell] = []
    for source in (result.cells, result.here):
        first = published_rows.first(source, firsts)
        for cell in source:
            if cell.experiment == key and cell.drawable:
                drawable.append(_divided(cell, first.get((key, cell.metric))))
    plots = grouped(drawable, lambda cell: (cell.metric, cell.unit, cell.cached))
    return list(plots.values())


def _divided(cell: StudyCell, first: StudyCell | None) -> StudyCell:
    """Return a figure that no table shows by itself as its ratio to the first one."""
    if not first or not first.values or not first.mean:
        return cell
    runs = [replace(run, value=run.value / first.mean) for run in cell.values]
    return replace(cell, unit='of the first', values=runs)


def _along(result: Compared, cells: Cells, axes: Sequence[str]) -> str:
    """Return the axis that a plot goes along: rather one of numbers, and of many values; '' for none."""
    def rank(axis: str) -> tuple:
        numbers = bool(_numbers(cells, axis))
        return axis != FIGURE, axis != result.study.contrast, numbers, count(cells, axis)

    return max(axes, key=rank, default='')


def _axis_of_lines(result: Compared, cells: Cells, axes: Sequence[str]) -> str:
    """Return the axis whose values name the lines: that of the sides, or one of many values; '' for none."""
    few = [axis for axis in axes if count(cells, axis) <= _MOST_LINES]
    if result.study.contrast in few:
        return result.study.contrast
    return max(few, key=lambda axis: count(cells, axis), default='')


def _numbers(cells: Cells, axis: str) -> dict[str, float]:
    """Return the values of an axis as numbers; nothing where one is none."""
    numbers = {}
    for cell in cells:
        value = cell.point.get(axis, '')
        size = amount(value)
        if not size:
            return {}
        numbers[value] = size[0]
    return numbers


@dataclass(frozen=True)
class _Places:
    """Figures of one plot ``along`` an axis, with a line for each value of the axis ``named``."""

    result: Compared
    along: str
    named: str
    cells: Cells

    def drawn(self, title: str) -> Drawing | None:
        """Return the plot of these figures; None where they are at one place."""
        places = self._values(self.along)
        if len(places) < 2:
            return None
        numbers = _numbers(self.cells, self.along)
        at = numbers or {value: float(number) for number, value in enumerate(places)}
        by_name = grouped(self.cells, lambda cell: (self._name(cell), bool(cell.line)))
        order = [*self._values(self.named), 'in print', 'here']
        names = sorted(by_name, key=lambda line: order.index(line[0]))
        lines = [self._line(*line, by_name[line], at) for line in names]
        return drawings.draw(self._plot(title, places, bool(numbers)), lines)

    def _plot(self, title: str, places: Sequence[str], numbers: bool) -> Plot:
        """Return the plot without its lines."""
        first = self.cells[0]
        metric = f'{first.metric} (cached)' if first.cached else first.metric
        if not numbers:
            return Plot('', title, self.along, '', metric, first.unit, first.better, tuple(places))
        _, unit = amount(places[0])
        return Plot('', title, self.along, unit, metric, first.unit, first.better, ())

    def _values(self, axis: str) -> list[str]:
        """Return the values of an axis that these figures have, in the order of print."""
        return tables.ordered(self.result.study, axis, self.cells)

    def _name(self, cell: StudyCell) -> str:
        return cell.point.get(self.named) or ('in print' if cell.line else 'here')

    def _line(self, name: str, printed: bool, cells: Cells, at: Mapping[str, float]) -> PlotLine:
        means, limits, runs = {}, {}, {}
        for cell in cells:
            place = at[cell.point.get(self.along, '')]
            means[place] = cell.mean
            interval = _limits(cell)
            if interval:
                limits[place] = interval
            if len(cell.values) > 1:
                runs[place] = [run.value for run in cell.values]
        return PlotLine(name, means, printed, limits, self._curve(cells), runs)

    def _curve(self, cells: Cells) -> Callable[[float], float] | None:
        """Return the law that study.yaml fits to these figures; None without one."""
        study = self.result.study
        for fit in study.fits:
            if fit.along == self.along and derived.chosen(cells, study.series(fit.series)):
                fitted = derived.fitted(study, 'here', '', fit.law, cells, self.along)
                return _curve(fitted)
        return None


def _curve(fit: FitRow) -> Callable[[float], float] | None:
    if not fit.a or not fit.b:
        return None
    return lambda x: fit.a * x ** fit.b if x > 0 else 0.0


def _limits(cell: StudyCell) -> tuple[float, float] | None:
    """Return the interval of several runs, or that of a printed standard deviation."""
    low, high = estimate.mean_limits(cell)
    if low is not None and high is not None:
        return low, high
    if not cell.deviation:
        return None
    factor = math.exp(1.96 * cell.deviation)
    return cell.mean / factor, cell.mean * factor


# ---- files beside the page

def _findings(result: Compared) -> str:
    """Return the findings as CSV."""
    rows = [list(finding.model_dump().values()) for finding in result.analysis.findings]
    return csvfile.written([*Judged.model_fields], rows)


def _rows(result: Compared) -> str:
    """Return the rows in print and here as CSV."""
    rows = []
    for texts in compared.rows(result):
        shared = {'like': texts.like, 'where': tables.where(texts.cells)}
        both = {'published': texts.pair.printed, 'here': texts.pair.here}
        for source, row in both.items():
            if row:
                fields = {**row.model_dump(), **shared, 'of': source}
                rows.append([fields[column] for column in _COLUMNS])
    return csvfile.written(_COLUMNS, rows)
