"""The page, the CSV and the JSON of a study: results/report/studies/NAME; and an index of all studies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from parity.base import csvfile, files, paths
from parity.base.figures import amount
from parity.report import drawings
from parity.report.drawings import Drawn, Line, Plot
from parity.report.templates import template
from parity.study import compared, derived
from parity.study.compared import Compared
from parity.study.figures import Cell
from parity.study.findings import Judged

#: The folder of the templates.
_HERE = Path(__file__).parent
_COLUMNS = ('benchmark', 'metric', 'unit', 'better', 'of', 'n_baseline', 'n_candidate', 'baseline', 'candidate',
            'ratio', 'low', 'high', 'like')


def write(of: Compared) -> list[Path]:
    """Write the files of a study, and return them."""
    file = _folder() / f'{of.name}.html'
    contents = {file: page(of), file.with_suffix('.csv'): _table(of),
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
    tables = [(f'Experiments: {counts}', experiments),
              *((heading.capitalize(), rows) for heading, rows in compared.tables(of)),
              ('What else differs between the sides', [(c.what, c.why) for c in of.study.confounders]),
              ('What differs here', [(key, text) for key, experiment in of.study.experiments.items()
                                     for text in experiment.differs]),
              ('Flagged figures in print', [(text,) for text in compared.flagged(of.cells)]),
              ('Repairs', [(text,) for text in of.study.repairs]),
              ('Left out', [(c.what, c.why) for c in of.study.dropped])]
    return template('study.html.j2', _HERE, drawings=drawings, compared=compared).render(
        c=of, title=of.title, rows=list(compared.rows(of)), tables=tables, plots=list(_plots(of)))


def _plots(of: Compared) -> Iterator[Drawn]:
    """Yield a plot for each fitted series, with all values of the contrasted axis in it."""
    printed, axis = {id(cell) for cell in of.cells}, of.study.contrast
    for fit in of.study.fits:
        series = of.study.series(fit.series)
        cells = derived.chosen([*of.cells, *(of.ran.cells if of.ran else ())], series)
        for point, group in derived.by_point(cells, [fit.along, axis]).items():
            lines: dict[tuple[str, bool], list[Cell]] = {}
            for cell in group:
                side = cell.point.get(axis, of.study.baseline)
                lines.setdefault((side, id(cell) in printed), []).append(cell)
            unit = next((c.unit for c in group if c.values), '')
            size = amount(group[0].point[fit.along])
            plot = Plot('', ' '.join([series.experiment, *(f'{a} {v}' for a, v in point)]), fit.along,
                        size[1] if size else '', series.metric, unit, '')
            if drawn := drawings.draw(plot, [_line(of, fit.law, fit.along, name, hollow, same)
                                             for (name, hollow), same in lines.items()]):
                yield drawn


def _line(of: Compared, law: str, along: str, name: str, hollow: bool, cells: list[Cell]) -> Line:
    row = derived.fitted(of.study, 'published' if hollow else 'here', '', law, cells, along)
    a, b = row.a, row.b
    at = {derived.numeric(c, along): c for c in cells if c.values and c.mean > 0}
    limits = {x: (low, high) for x, c in at.items() for low, high in [c.limits] if low is not None}
    return Line(name, {x: c.mean for x, c in at.items()}, hollow, limits,
                None if a is None or b is None else lambda x: a * x ** b if x > 0 else 0.0)


def _findings(of: Compared) -> str:
    """Return the findings as CSV."""
    return csvfile.written([*Judged.model_fields], (list(finding.model_dump().values())
                                                    for finding in of.analysis.findings))


def _table(of: Compared) -> str:
    """Return the rows in print and here as CSV."""
    rows = ({**row.model_dump(), 'of': source, 'like': like} for one, other, like in compared.pairs(of)
            for row, source in ((one, 'published'), (other, 'here')) if row)
    return csvfile.written(_COLUMNS, ([row[name] for name in _COLUMNS] for row in rows))
