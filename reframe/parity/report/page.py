"""The text of a verdict's pages: the answer, the nights, the table of figures, and each figure's own history."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from markupsafe import Markup

from parity import __version__
from parity.base import codes, figures, text
from parity.base.figures import several
from parity.base.groups import grouped
from parity.records.incidents import Incident
from parity.records.plan_file import CELL
from parity.report import answer, drawings, incidents, nights
from parity.report.answer import Answered, Entry
from parity.report.drawings import Curve
from parity.report.nights import LETTERS, Nights, Past
from parity.report.previous import Previous
from parity.report.templates import template
from parity.verdict.model import WORDS, Cell, Change, Row, Verdict, rows

SUBSYSTEMS = (*codes.SUBSYSTEMS, 'other')
#: Characters of a reason in the table, and on a figure's own page; verdict.json has the whole.
SHORT, WHOLE = 140, 2000
#: Cases of one table: a browser lays out a table as a whole, and only those in view.
CASES = 25
#: Curves of an entry.
CURVES = 3
#: Cells with a row and a history, and lines of any other list: a browser does not open a page of 100,000 rows.
ROWS, LISTED = 5000, 200
_HERE = Path(__file__).parent
#: Word on the page -> the file's name in the run's folder, as ReFrame names it.
_FILES = {'output': 'rfm_job.out', 'errors': 'rfm_job.err', 'script': 'rfm_job.sh'}
#: The word of a letter that a person looks at.
_MARKED = {form: word for word, letter in LETTERS.items() if word in (*answer.BAD, 'improved', 'disturbed')
           for form in {letter, letter.lower()}}

#: (word, address) of what is left of a run.
Links = list[tuple[str, str]]
#: The same cell on another night has the same.
key = attrgetter(*CELL)
_check = attrgetter('subsystem', 'check')
_run = attrgetter('check', 'case', 'system', 'partition', 'environ', 'size', 'attempt', 'jobid', 'outputdir')


def render(verdict: Answered, directory: Path, root: Path, previous: Previous | None = None) -> dict[str, str]:
    """Return the pages by their file below ``directory``: index.html, and one with the figures of each check.

    Each is self-contained; everything that comes from the verdict is escaped."""
    names = {'figures': figures, 'drawings': drawings, 'version': __version__, 'count': _count, 'listed': LISTED}
    previous = previous or Previous()
    lines, sources = of_cells(verdict.cells, previous.nights or Nights())
    _choose(lines)
    _find(lines, directory, root)
    shown = _shown(verdict, previous, lines, sources)
    pages = {'index.html': template('page.html.j2', **names).render(v=shown, **_script('filter.js'))}
    incident = template('incident.html.j2', **names)
    by_name = {line.name: line for line in lines} if verdict.incidents else {}
    for one in verdict.incidents:
        pages[f'incidents/{one.number}.html'] = incident.render(v=shown, **_incident(one, by_name))
    figure, script = template('figure.html.j2', **names), _script('zoom.js')
    by_file = attrgetter('file')
    for file, same in groupby(sorted(filter(by_file, lines), key=by_file), by_file):
        told = [_figure(line, previous) for line in same]
        pages[file] = figure.render(v=shown, own=told, **script)
    return pages


def _incident(one: Incident, by_name: dict[str, Line]) -> dict[str, Any]:
    """Return what the page of an incident shows: its place and changes, its life, its cells with their lines."""
    when = [f'{datetime.datetime.fromtimestamp(event.start):%Y-%m-%d %H:%M}' for event in one.events]
    return {'one': one, 'about': incidents.about(one, 0), 'stands': incidents.since(one),
            'events': list(zip(when, one.events, strict=True)),
            'cells': [(fault, by_name.get(fault.cell)) for fault in incidents.worst(one)]}


def _script(name: str) -> dict[str, str]:
    """Return our own script and its hash: no other runs. It holds nothing that a job printed."""
    script = f"'use strict';\n(() => {{\n{(_HERE / name).read_text(encoding='utf-8')}}})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {'script': Markup(script), 'script_hash': f'sha256-{digest}'}


def _count(n: int, one: str, many: str) -> str:
    return f'{n:,} {one if n == 1 else many}'


def _shown(verdict: Answered, previous: Previous, lines: list[Line], sources: list[str]) -> dict[str, Any]:
    """Return what the pages show, as plain data."""
    history, facts = previous.nights or Nights(), verdict.session.facts
    drawn = [found for plot in sorted(previous.plots, key=lambda plot: rank(plot.subsystem))
             if (found := drawings.draw(plot, previous.plots[plot]))]
    plots = groupby(drawn[:drawings.MOST], lambda d: d.plot.subsystem)
    table = [line for line in lines if line.here]
    here = nights.nodes(verdict.cells, previous.facts, previous.speeds)
    named = {node.name for node in here}
    return {
        'of_node': _numbers_by_node(verdict),
        'verdict': verdict,
        'answer': verdict.answer,
        'previous': previous,
        'when': verdict.session.start[:16].replace('T', ' '),
        'counts': [(word, verdict.counts[word]) for word in WORDS if verdict.counts.get(word)],
        'words': _words(table),
        'nights': history.labels,
        'data': Markup(json.dumps(history.labels, separators=(',', ':')).replace('<', '\\u003c')),
        'tiles': list(_tiles(lines, history)),
        'cards': list(_cards(verdict.answer.entries[:LISTED], lines)),
        'known': [line for line in lines if line.cell.acknowledged],
        'map': _map(lines) if len(history.labels) > 1 else [],
        'rest': _words(line for line in lines if not line.here),
        'changes': changes(lines, previous.before) if previous.before else None,
        'left': _left_out(lines),
        'table': tables(table),
        'rows': table,
        'columns': {*(name for name in ('reference', 'limit') if any(getattr(line, name) for line in lines)),
                    *(['history'] if len(history.labels) > 1 else [])},
        'partitions': sorted({c.partition for c in verdict.cells}),
        'sources': sources,
        'plots': [(subsystem, list(same)) for subsystem, same in plots],
        'plots_left_out': len(drawn[drawings.MOST:]),
        'nodes': here,
        'away': sorted((name, history.labels[at][0]) for name, at in history.nodes.items() if name not in named),
        'facts': facts and yaml.safe_dump(facts, sort_keys=False, allow_unicode=True),
    }


def _numbers_by_node(verdict: Answered) -> dict[str, list[int]]:
    """Return the numbers of the incidents of each node."""
    numbers: dict[str, list[int]] = {}
    for incident in verdict.incidents:
        for name in incident.nodes:
            numbers.setdefault(name, []).append(incident.number)
    return numbers


def _left_out(lines: Iterable[Line]) -> list[tuple[tuple[str, str], list[Line]]]:
    """Return the skipped and disturbed lines by word and reason, those with most lines first."""
    left = grouped((line for line in lines if line.word in ('skipped', 'disturbed')), attrgetter('word', 'reason'))
    return sorted(left.items(), key=lambda pair: (WORDS.index(pair[0][0]), -len(pair[1])))


def _words(lines: Iterable[Line]) -> list[tuple[str, int]]:
    counts = Counter(line.word for line in lines)
    return [(word, counts[word]) for word in WORDS if counts[word]]


def _find(lines: list[Line], directory: Path, root: Path) -> None:
    """Set each line's links to what is left of its run."""
    left = {folder: _links(folder, directory, root) for folder in {line.cell.outputdir for line in lines}}
    for line in lines:
        line.links = left[line.cell.outputdir]


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
    past: Past = Past()
    count: int = 0                   # nights of the page
    short_reason: str = ''                   # the reason, cut; '' where the case tells it
    here: bool = True                # has a row in the table and, with a figure, a history
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
        self.file = f'figures/{re.sub(r"[^A-Za-z0-9]+", "-", c.check)[:80]}.html' if c.value is not None or \
            self.past.at else ''
        self.page = f'{self.file}#{self.id}' if self.file else ''
        self.letters = nights.tonight(c, self.past, self.count) if self.count else ''
        self.last_bad = max(map(self.letters.rfind, _MARKED))      # -1: no night was
        self.order = WORDS.index(c.verdict) if c.verdict in answer.BAD else len(WORDS), -self.last_bad

    @property
    def href(self) -> str:
        """The address of what the job printed, else of the run's folder."""
        known = dict(self.links)
        return known.get('output') or known.get('run', '')

    @property
    def show(self) -> str:
        return f'parity show {shlex.quote(self.name)}'

    @property
    def spark(self) -> Curve | None:
        return self.curve(24)

    def curve(self, height: int) -> Curve | None:
        """Return the drawing of its nights; None where fewer than two have a figure."""
        at, values, low, high, _ = self.past
        return drawings.history(at, values, low, high, self.count, height) if at[1:] else None

    @property
    def span(self) -> str:
        """Return the number of its nights, the least and the greatest value, and the last one."""
        values, unit = self.past.values, self.cell.unit
        return (f'{_count(len(values), "night", "nights")}, {figures.band(min(values), max(values), unit)}, '
                f'the last one {figures.figure(values[-1], unit)}')


class Case(NamedTuple):
    """The rows of one case, with their common facts and, where all have the same, their reason."""

    name: str
    facts: list[str]
    reason: str
    rows: list[Line]


def rank(subsystem: str) -> tuple[int, str]:
    return SUBSYSTEMS.index(subsystem) if subsystem in SUBSYSTEMS else len(SUBSYSTEMS), subsystem


def of_cells(cells: list[Cell], history: Nights) -> tuple[list[Line], list[str]]:
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
    return [Line(row.cell, row.several, number, notes[_source(row.cell)], history.cells.get(key(row.cell), Past()),
                 len(history.labels)) for number, row in enumerate(table, 1)], sources


def _source(cell: Cell) -> str:
    if cell.limit is None:
        return ''
    return f'{cell.limit_source or "source not stated"} ({"certain" if cell.limit_certain else "a ceiling"})'


def _choose(lines: list[Line]) -> None:
    """Leave a row and a history to ROWS cells: tonight's worst, those with bad nights, the first of each check."""
    count: Counter[tuple] = Counter()
    found = []
    for line in lines:
        count[check := _check(line.cell)] += 1
        found.append((line.order, count[check], line.number, line))
    for *_, line in sorted(found)[ROWS:]:
        line.here, line.file, line.page = False, '', ''


def tables(lines: list[Line]) -> dict[str, list[list[Case]]]:
    """Return the tables of each subsystem, each of cases of one check."""
    cases = [_case(list(same)) for _, same in groupby(lines, lambda line: _run(line.cell))]
    found: dict[str, list[list[Case]]] = {}
    for (subsystem, _), of_check in groupby(cases, lambda case: _check(case.rows[0].cell)):
        same = list(of_check)
        found.setdefault(subsystem, []).extend(same[at:at + CASES] for at in range(0, len(same), CASES))
    return found


def _case(lines: list[Line]) -> Case:
    cell = lines[0].cell
    common = cell.reason if len(lines) > 1 and len({line.reason for line in lines}) == 1 else ''
    for line in lines:
        line.short_reason = '' if common else text.brief(line.reason, SHORT)
    facts = [lines[0].place, cell.environ, cell.size, several(cell.nodes),
             '' if cell.virtualisation == 'none' else cell.virtualisation,
             f'job {cell.jobid}' if cell.jobid else '', f'attempt {cell.attempt}' if cell.attempt > 1 else '']
    return Case(cell.case, [text.brief(fact, 100) for fact in facts if fact], text.brief(common, 2 * SHORT), lines)


# ---- the first screen

class Tile(NamedTuple):
    """A subsystem's speed over the nights, 1 as expected, of so many figures."""

    subsystem: str
    speed: float | None              # tonight
    curve: Curve | None
    cells: int


def _tiles(lines: list[Line], history: Nights) -> Iterator[Tile]:
    for subsystem in sorted({line.cell.subsystem for line in lines}, key=rank):
        cells = [line.cell for line in lines if line.cell.subsystem == subsystem]
        shares, count = nights.speed(cells, history, map(key, cells)) if len(history.labels) > 1 else ([], 0)
        known = [(at, share) for at, share in enumerate(shares) if share is not None]
        if known:
            at, values = zip(*known, strict=True)
            spread = max(0.02, *(abs(value - 1) for value in values))      # noise is no landscape
            none = [None] * (len(at) - 1)
            yield Tile(subsystem, shares[-1], drawings.history(
                at, values, [1 - spread, *none], [1 + spread, *none], len(shares), 60)._replace(band=''), count)


class Card(NamedTuple):
    """An entry of the answer with its lines: the first with their curves, and the rest."""

    entry: Entry
    shown: list[tuple[Line, Curve | None]]
    rest: list[Line]


def _cards(entries: list[Entry], lines: list[Line]) -> Iterator[Card]:
    by_name = {line.name: line for line in lines}
    for entry in entries:
        own = [by_name[name] for name in entry.cells if name in by_name]
        shown = [line for line in own if line.value][:CURVES]
        yield Card(entry, [(line, line.curve(100)) for line in shown],
                   [line for line in own if line not in shown])


#: Letters, the word where a person looks at them, and the night of the first.
Letters = list[tuple[str, str, int]]


def _map(lines: list[Line]) -> list[tuple[Line, Letters]]:
    """Return the letters of the figures that were not always in order: tonight's worst ones, then the newest."""
    found = sorted((line for line in lines if line.last_bad >= 0), key=lambda line: (line.order, line.number))
    return [(line, list(_letters(line.letters)) if at < LISTED else []) for at, line in enumerate(found)]


def _letters(letters: str) -> Iterator[tuple[str, str, int]]:
    at = 0
    for letter, same in groupby(letters, lambda letter: letter if letter in _MARKED else ''):
        run = ''.join(letters[at:at + len(list(same))])
        yield from ((each, _MARKED[each], at + n) for n, each in enumerate(run)) if letter else [(run, '', at)]
        at += len(run)


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


# ---- a figure's own page

class FigureNights(NamedTuple):
    """A figure with its nights: dots by word, the nights with another word than ok, and what changed."""

    line: Line
    curve: Curve | None
    factor: float                    # brings the curve's edges to ``unit``
    unit: str
    low: str                         # of the curve's lower edge, and its upper one
    high: str
    dots: dict[str, str]             # paths by word
    nights: list[tuple[int, str, str, str]]      # night, when, word, figure
    changes: list[tuple[int, Change]]            # the first night with the new value


def _figure(line: Line, previous: Previous) -> FigureNights:
    cell, past, labels = line.cell, line.past, (previous.nights or Nights()).labels
    curve, dots, told = line.curve(1000), {}, []
    value_of = dict(zip(past.at, past.values, strict=True))
    for at, letter in enumerate(line.letters):
        word = _MARKED.get(letter, '')
        if curve and at in value_of:
            dots[word] = dots.get(word, '') + f'M{at} {curve.y(value_of[at])}h0'
        if word:
            value = figures.figure(value_of[at], cell.unit) if at in value_of else ''
            told.append((at, labels[at][0], word, value))
    changed = [(at, change) for change in previous.changes.get(cell.environ, ())
               if change.concerns((*cell.nodes, *cell.ran_on))
               and (at := next((n for n, (when, _) in enumerate(labels) if when >= change.when[:16]), 0))]
    factor, unit = figures.moved(curve.high, cell.unit) if curve else (1.0, '')
    edges = [f'{figures.number(edge * factor)} {unit}' for edge in (curve.low, curve.high)] if curve else ['', '']
    return FigureNights(line, curve, factor, unit, *edges, dots, told, changed)
