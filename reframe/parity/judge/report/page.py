"""The text of a verdict's pages: the answer, the nights, the table of figures, and each figure's own history."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup

from parity import __version__
from parity.base import codes, figures, text, times
from parity.base.figures import several
from parity.base.groups import grouped
from parity.judge.report import answer, drawings, incidents, nights
from parity.judge.report.answer import Answered, FaultEntry
from parity.judge.report.drawings import Curve
from parity.judge.report.nights import LETTERS, NightHistory, Past
from parity.judge.report.previous import Previous
from parity.judge.report.templates import template
from parity.judge.store.plan_file import CELL
from parity.judge.verdict.model import WORDS, Cell, CellText, Verdict, rows

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
    names = {'figures': figures, 'drawings': drawings, 'times': times, 'version': __version__, 'count': _count,
             'listed': LISTED}
    previous = previous or Previous()
    lines, sources = of_cells(verdict.cells, previous.nights or NightHistory())
    left = {folder: _links(folder, directory, root) for folder in {line.cell.outputdir for line in lines}}
    for line in lines:
        line.links = left[line.cell.outputdir]
    shown = _shown(verdict, previous, lines, sources)
    pages = {'index.html': template('page.html.j2', **names).render(v=shown, **_script('filter.js'))}
    incident, by_name = template('incident.html.j2', **names), {line.name: line for line in lines}
    for one in verdict.incidents:
        when = [times.minute(event.start) for event in one.events]
        pages[f'incidents/{one.number}.html'] = incident.render(
            v=shown, one=one, about=incidents.about(one, 0), stands=incidents.since(one),
            events=list(zip(when, one.events, strict=True)),
            cells=[(fault, by_name.get(fault.cell)) for fault in incidents.worst(one)])
    figure, script = template('figure.html.j2', **names), _script('zoom.js')
    for file, same in grouped(filter(attrgetter('file'), lines), attrgetter('file')).items():
        pages[file] = figure.render(v=shown, own=[_figure(line, previous) for line in same], **script)
    return pages


def _script(name: str) -> dict[str, str]:
    """Return our own script and its hash: no other runs. It holds nothing that a job printed."""
    script = f"'use strict';\n(() => {{\n{(_HERE / name).read_text(encoding='utf-8')}}})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {'script': Markup(script), 'script_hash': f'sha256-{digest}'}


def _count(n: int, one: str, many: str) -> str:
    return f'{n:,} {one if n == 1 else many}'


def _shown(verdict: Answered, previous: Previous, lines: list[PageRow], sources: list[str]) -> dict[str, Any]:
    """Return what the pages show, as plain data."""
    history, facts = previous.nights or NightHistory(), verdict.session.facts
    drawn = [found for plot in sorted(previous.plots, key=lambda plot: rank(plot.subsystem))
             if (found := drawings.draw(plot, previous.plots[plot]))]
    plots = grouped(drawn[:drawings.MOST], lambda d: d.plot.subsystem)
    table = [line for line in lines if line.here]
    here = nights.nodes(verdict.cells, previous.facts, previous.speeds)
    named = {node.name for node in here}
    left = grouped((line for line in lines if line.word in ('skipped', 'disturbed')), attrgetter('word', 'reason'))
    of_node = grouped(((name, incident.number) for incident in verdict.incidents for name in incident.nodes),
                      itemgetter(0))
    return {
        'of_node': {name: [number for _, number in numbers] for name, numbers in of_node.items()},
        'verdict': verdict,
        'answer': verdict.answer,
        'previous': previous,
        'when': verdict.session.start[:16].replace('T', ' '),
        'counts': [(word, verdict.counts[word]) for word in WORDS if verdict.counts.get(word)],
        'words': nights.by_word(line.word for line in table),
        'nights': history.labels,
        'data': Markup(json.dumps(history.labels, separators=(',', ':')).replace('<', '\\u003c')),
        'tiles': list(_tiles(lines, history)),
        'cards': list(_cards(verdict.answer.entries[:LISTED], lines)),
        'map': _map(lines) if len(history.labels) > 1 else [],
        'rest': nights.by_word(line.word for line in lines if not line.here),
        'changes': changes(lines, previous.before) if previous.before else None,
        'left': sorted(left.items(), key=lambda pair: (WORDS.index(pair[0][0]), -len(pair[1]))),
        'table': tables(table),
        'rows': table,
        'columns': {*(name for name in ('reference', 'limit') if any(getattr(line, name) for line in lines)),
                    *(['history'] if len(history.labels) > 1 else [])},
        'partitions': sorted({c.partition for c in verdict.cells}),
        'sources': sources,
        'plots': plots,
        'plots_left_out': len(drawn[drawings.MOST:]),
        'nodes': here,
        'away': sorted((name, history.labels[at][0]) for name, at in history.nodes.items() if name not in named),
        'facts': facts and yaml.safe_dump(facts, sort_keys=False, allow_unicode=True),
    }


def _links(outputdir: str, directory: Path, root: Path) -> Links:
    """Return word and address of a run's folder and of each file in it that is not empty; only below ``root``."""
    folder = text.link(outputdir, directory, root)
    if not folder or not os.path.isdir(outputdir):
        return []
    places = ((word, name, os.path.join(outputdir, name)) for word, name in _FILES.items())
    files = [(word, name) for word, name, file in places if os.path.isfile(file) and os.path.getsize(file)]
    return [('run', folder), *((word, folder + name) for word, name in files)]


# ---- the table of cells

@dataclass(eq=False)
class PageRow(CellText):
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


def rank(subsystem: str) -> tuple[int, str]:
    return SUBSYSTEMS.index(subsystem) if subsystem in SUBSYSTEMS else len(SUBSYSTEMS), subsystem


def of_cells(cells: list[Cell], history: NightHistory) -> tuple[list[PageRow], list[str]]:
    """Return the rows in the page's order, and the sources of their limits.

    Subsystems come in their rank; checks and cases stay together, in the order of their first cells. ROWS cells
    have a row and a history: tonight's worst, those with bad nights, the first of each check."""
    first: dict[tuple, int] = {}
    for n, c in enumerate(cells):
        first.setdefault(_check(c), n)
        first.setdefault(_run(c), n)
    table = sorted(rows(cells), key=lambda row: (rank(row.cell.subsystem), first[_check(row.cell)],
                                                 first[_run(row.cell)]))
    sources = list(dict.fromkeys(filter(None, (_source(row.cell) for row in table))))
    notes = {'': 0} | {source: note for note, source in enumerate(sources, 1)}
    lines = [PageRow(row.cell, row.several, number, notes[_source(row.cell)],
                  history.cells.get(key(row.cell), Past()), len(history.labels))
             for number, row in enumerate(table, 1)]
    of_check: Counter[tuple] = Counter()
    worst = []
    for line in lines:
        of_check[check := _check(line.cell)] += 1
        worst.append((line.order, of_check[check], line.number, line))
    for *_, line in sorted(worst)[ROWS:]:
        line.here, line.file, line.page = False, '', ''
    return lines, sources


def _source(cell: Cell) -> str:
    if cell.limit is None:
        return ''
    return f'{cell.limit_source or "source not stated"} ({"certain" if cell.limit_certain else "a ceiling"})'


def tables(lines: list[PageRow]) -> dict[str, list[list[dict[str, Any]]]]:
    """Return the tables of each subsystem, each of cases of one check."""
    cases = [_case(list(same)) for _, same in groupby(lines, lambda line: _run(line.cell))]
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for (subsystem, _), of_check in groupby(cases, lambda case: _check(case['rows'][0].cell)):
        same = list(of_check)
        found.setdefault(subsystem, []).extend(same[at:at + CASES] for at in range(0, len(same), CASES))
    return found


def _case(lines: list[PageRow]) -> dict[str, Any]:
    """Return the rows of one case, with their common facts and, where all have the same, their reason."""
    cell = lines[0].cell
    common = cell.reason if len(lines) > 1 and len({line.reason for line in lines}) == 1 else ''
    for line in lines:
        line.short_reason = '' if common else text.brief(line.reason, SHORT)
    facts = [lines[0].place, cell.environ, cell.size, several(cell.nodes),
             '' if cell.virtualisation == 'none' else cell.virtualisation,
             f'job {cell.jobid}' if cell.jobid else '', f'attempt {cell.attempt}' if cell.attempt > 1 else '']
    return {'name': cell.case, 'facts': [text.brief(fact, 100) for fact in facts if fact],
            'reason': text.brief(common, 2 * SHORT), 'rows': lines}


# ---- the first screen

def _tiles(lines: list[PageRow], history: NightHistory) -> Iterator[tuple[str, float | None, Curve, int]]:
    """Yield each subsystem, its speed tonight, 1 as expected, over the nights, and of how many figures it is."""
    for subsystem in sorted({line.cell.subsystem for line in lines}, key=rank):
        cells = [line.cell for line in lines if line.cell.subsystem == subsystem]
        shares, count = nights.speed(cells, history, map(key, cells)) if len(history.labels) > 1 else ([], 0)
        known = [(at, share) for at, share in enumerate(shares) if share is not None]
        if known:
            at, values = zip(*known, strict=True)
            spread = max(0.02, *(abs(value - 1) for value in values))      # noise is no landscape
            none = [None] * (len(at) - 1)
            yield subsystem, shares[-1], drawings.history(
                at, values, [1 - spread, *none], [1 + spread, *none], len(shares), 60)._replace(band=''), count


def _cards(entries: list[FaultEntry],
           lines: list[PageRow]) -> Iterator[tuple[FaultEntry, list[PageRow], list[PageRow]]]:
    """Yield each entry of the answer with its lines: the first, which have their curves, and the rest."""
    by_name = {line.name: line for line in lines}
    for entry in entries:
        own = [by_name[name] for name in entry.cells if name in by_name]
        shown = [line for line in own if line.value][:CURVES]
        yield entry, shown, [line for line in own if line not in shown]


def _map(lines: list[PageRow]) -> list[tuple[PageRow, list[tuple[str, str, int]]]]:
    """Return the letters of the figures that were not always in order: tonight's worst ones, then the newest."""
    found = sorted((line for line in lines if line.last_bad >= 0), key=lambda line: (line.order, line.number))
    return [(line, list(_letters(line.letters)) if at < LISTED else []) for at, line in enumerate(found)]


def _letters(letters: str) -> Iterator[tuple[str, str, int]]:
    at = 0
    for letter, same in groupby(letters, lambda letter: letter if letter in _MARKED else ''):
        run = ''.join(letters[at:at + len(list(same))])
        yield from ((each, _MARKED[each], at + n) for n, each in enumerate(run)) if letter else [(run, '', at)]
        at += len(run)


def changes(lines: list[PageRow], before: Verdict) -> dict[str, Any]:
    """Return the cells by (word before, word now), each with its figure before; those that are new, and that are
    gone. Cells that became worse come first, the worst one first."""
    earlier = {key(row.cell): row for row in rows(before.cells)}
    both = [(line, earlier.pop(key(line.cell), None)) for line in lines]
    turns = grouped(((line, was) for line, was in both if was and was.word != line.word),
                    lambda pair: (pair[1].word, pair[0].word))
    return {'turns': {words: [(line, was.figure) for line, was in turns[words]]
                      for words in sorted(turns, key=_badness)},
            'new': [line for line, was in both if was is None], 'gone': list(earlier.values())}


def _badness(words: tuple[str, str]) -> tuple:
    was, now = map(WORDS.index, words)
    return now > was, min(was, now), was


# ---- a figure's own page

def _figure(line: PageRow, previous: Previous) -> dict[str, Any]:
    """Return a figure with its nights: the curve, its edges in their unit and the factor that leads there; dots by
    word; (night, when, word, figure) of those with another word than ok; and (first night, change)."""
    cell, past, labels = line.cell, line.past, (previous.nights or NightHistory()).labels
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
    return {'line': line, 'curve': curve, 'factor': factor, 'unit': unit, 'low': edges[0], 'high': edges[1],
            'dots': dots, 'nights': told, 'changes': changed}
