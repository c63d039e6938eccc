"""The text of a verdict's page: the table of cells, what is not ok in it, and what changed."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import yaml
from markupsafe import Markup

from parity import __version__
from parity.base import figures, text
from parity.records.outset import CELL
from parity.report import drawings, nights
from parity.report.beside import Beside
from parity.verdict.model import WORDS, Cell, Row, Verdict, rows, several

SUBSYSTEMS = ('compute', 'memory', 'network', 'storage', 'gpu')
#: Words whose values say nothing yet: their cells are named, the table has the figures.
QUIET = ('insufficient', 'disturbed', 'unreferenced', 'skipped')
#: Characters of a reason in the table, and in an opened row; verdict.json has the whole.
SHORT, _WHOLE = 140, 2000
#: Cases of one table: a browser lays out a table as a whole, and only those in view.
CASES = 25
_HERE = Path(__file__).parent
_SCRIPTS = ('spark.js', 'details.js', 'filter.js')
#: Word on the page -> the file's name in the run's folder, as ReFrame names it.
_FILES = {'output': 'rfm_job.out', 'errors': 'rfm_job.err', 'script': 'rfm_job.sh'}

#: (word, address) of what is left of a run.
Links = list[tuple[str, str]]
#: The same cell on another night has the same.
key = attrgetter(*CELL)
_check = attrgetter('subsystem', 'check')
_run = attrgetter('check', 'case', 'system', 'partition', 'environ', 'size', 'attempt', 'jobid', 'outputdir')


def render(verdict: Verdict, directory: Path, root: Path, beside: Beside | None = None) -> str:
    """Return the page, self-contained; everything that comes from the verdict is escaped."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_HERE), autoescape=True, finalize=_visible,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters['brief'] = text.brief
    # Our own script filters and draws; no other runs, by its hash. It holds nothing that a job printed.
    parts = ''.join((_HERE / name).read_text(encoding='utf-8') for name in _SCRIPTS)
    script = f"'use strict';\n(() => {{\n{parts}}})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template('page.html.j2').render(
        v=_shown(verdict, beside or Beside(), lambda folder: _links(folder, directory, root)), figures=figures,
        drawings=drawings, version=__version__, script=Markup(script), script_hash=f'sha256-{digest}')


def _visible(value: object) -> object:
    """Jinja2 applies this to all that a template prints, before it escapes it."""
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _shown(verdict: Verdict, beside: Beside, links: Callable[[str], Links]) -> dict[str, Any]:
    """Return what the page shows, as plain data."""
    lines, sources = of_cells(verdict.cells)
    history, facts = beside.nights or nights.Nights(), verdict.session.facts
    reasons = {line.number: text.visible(line.reason[:_WHOLE]) for line in lines if len(line.reason) > SHORT}
    drawn = [found for plot in sorted(beside.plots, key=lambda plot: rank(plot.subsystem))
             if (found := drawings.draw(plot, beside.plots[plot]))]
    plots = groupby(drawn[:drawings.MOST], lambda d: d.plot.subsystem)
    columns = {'reference': any(line.reference for line in lines), 'limit': any(line.limit for line in lines),
               'history': len(history.labels) > 1}
    return {
        'verdict': verdict,
        'beside': beside,
        'when': verdict.session.start[:16].replace('T', ' '),
        'counts': [(word, verdict.counts[word]) for word in WORDS if verdict.counts.get(word)],
        'changes': changes(lines, beside.before) if beside.before else None,
        'attention': not_ok(lines),
        'table': tables(lines, links),
        'columns': {name for name, filled in columns.items() if filled},
        'partitions': sorted({c.partition for c in verdict.cells}),
        'sources': sources,
        'plots': [(subsystem, list(same)) for subsystem, same in plots],
        'plots_left_out': len(drawn[drawings.MOST:]),
        'nodes': nights.nodes(verdict.cells, beside.facts, beside.speeds),
        'facts': facts and yaml.safe_dump(facts, sort_keys=False, allow_unicode=True),
        'data': Markup(nights.as_json(history, [key(line.cell) for line in lines], reasons)),
    }


def _links(outputdir: str, directory: Path, root: Path) -> Links:
    """Return word and address of a run's folder and of each file in it that is not empty; only below ``root``."""
    folder = text.link(outputdir, directory, root)
    if not folder or not os.path.isdir(outputdir):
        return []
    files = [(word, name) for word, name in _FILES.items() if _filled(os.path.join(outputdir, name))]
    return [('run', folder), *((word, folder + name) for word, name in files)]


def _filled(file: str) -> bool:
    try:
        return os.path.getsize(file) > 0
    except OSError:
        return False


# ---- the table of cells

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
        self.id = f'c{self.number}'

    @property
    def href(self) -> str:
        """The address of what the job printed, else of the run's folder."""
        known = dict(self.links)
        return known.get('output') or known.get('run', '')


class Case(NamedTuple):
    """The rows of one case, with their common facts and, where all have the same, their reason."""

    name: str
    facts: list[str]
    reason: str
    rows: list[Line]


def rank(subsystem: str) -> tuple[int, str]:
    return SUBSYSTEMS.index(subsystem) if subsystem in SUBSYSTEMS else len(SUBSYSTEMS), subsystem


def of_cells(cells: list[Cell]) -> tuple[list[Line], list[str]]:
    """Return the rows in the page's order, and the sources of their limits.

    Subsystems come in their rank; checks and cases stay together, in the order of their first cells."""
    first: dict[tuple, int] = {}
    for n, c in enumerate(cells):
        first.setdefault(_check(c), n)
        first.setdefault(_run(c), n)
    table = sorted(rows(cells), key=lambda row: (rank(row.cell.subsystem), first[_check(row.cell)],
                                                 first[_run(row.cell)]))
    sources = list(dict.fromkeys(filter(None, (_source(row.cell) for row in table))))
    notes = {'': 0} | {source: note for note, source in enumerate(sources, 1)}
    lines = [Line(row.cell, row.several, number, notes[_source(row.cell)]) for number, row in enumerate(table, 1)]
    return lines, sources


def _source(cell: Cell) -> str:
    if cell.limit is None:
        return ''
    return f'{cell.limit_source or "source not stated"} ({"certain" if cell.limit_certain else "a ceiling"})'


def tables(lines: list[Line], links: Callable[[str], Links]) -> dict[str, list[list[Case]]]:
    """Return the tables of each subsystem, each of cases of one check; ``links`` finds what is left of a run."""
    cases = [_case(list(same), links) for _, same in groupby(lines, lambda line: _run(line.cell))]
    found: dict[str, list[list[Case]]] = {}
    for (subsystem, _), of_check in groupby(cases, lambda case: _check(case.rows[0].cell)):
        same = list(of_check)
        found.setdefault(subsystem, []).extend(same[at:at + CASES] for at in range(0, len(same), CASES))
    return found


def _case(lines: list[Line], links: Callable[[str], Links]) -> Case:
    cell = lines[0].cell
    common = cell.reason if len(lines) > 1 and len({line.reason for line in lines}) == 1 else ''
    left = links(cell.outputdir)
    for line in lines:
        line.told, line.links = '' if common else text.brief(line.reason, SHORT), left
    facts = [lines[0].place, cell.environ, cell.size, several(cell.nodes),
             '' if cell.virtualisation == 'none' else cell.virtualisation,
             f'job {cell.jobid}' if cell.jobid else '', f'attempt {cell.attempt}' if cell.attempt > 1 else '']
    return Case(cell.case, [text.brief(fact, 100) for fact in facts if fact], text.brief(common, 2 * SHORT), lines)


# ---- what is not ok, and what changed

#: Word, place, until when and why it is known, and the reason; '' where each cell tells its own.
Alike = tuple[str, str, str, str]


def not_ok(lines: list[Line]) -> dict[str, dict[Alike, list[Line]]]:
    """Return the cells that are not ok by subsystem, those that are alike together; the worst word comes first."""
    found: dict[str, dict[Alike, list[Line]]] = {}
    count = Counter(line.reason for line in lines)
    bad = [line for line in lines if line.word != 'ok']
    for line in sorted(bad, key=lambda each: (WORDS.index(each.word), bool(each.cell.acknowledged))):
        own = line.value and line.word not in QUIET and count[line.reason] == 1
        alike = line.word, line.place, line.cell.acknowledged, '' if own else line.reason
        found.setdefault(line.cell.subsystem, {}).setdefault(alike, []).append(line)
    return found


class Changes(NamedTuple):
    """The cells by (word before, word now), each with its figure before; those that are new, and that are gone."""

    turns: dict[tuple[str, str], list[tuple[Line, str]]]
    new: list[Line]
    gone: list[Row]


def changes(lines: list[Line], before: Verdict) -> Changes:
    """Return the changes since ``before``: cells that became worse come first, the worst one first."""
    earlier = {key(row.cell): row for row in rows(before.cells)}
    turns: dict[tuple[str, str], list[tuple[Line, str]]] = {}
    new = []
    for line in lines:
        was = earlier.pop(key(line.cell), None)
        if was is None:
            new.append(line)
        elif was.word != line.word:
            turns.setdefault((was.word, line.word), []).append((line, was.figure))
    return Changes({words: turns[words] for words in sorted(turns, key=_badness)}, new, list(earlier.values()))


def _badness(words: tuple[str, str]) -> tuple:
    was, now = map(WORDS.index, words)
    return now > was, min(was, now), was
