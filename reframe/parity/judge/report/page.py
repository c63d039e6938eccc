"""The text of a verdict's pages: the answer, the nights, the table of figures, and each figure's own history."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jinja2 import Template
from markupsafe import Markup

from parity import __version__
from parity.base import codes, figures, text, times
from parity.base.figures import several
from parity.base.groups import grouped
from parity.judge.report import answer, curves, drawings, forest, incidents, nights
from parity.judge.report.answer import Answered, FaultEntry
from parity.judge.report.curves import Curve, JudgedNights, NightCurve
from parity.judge.report.nights import LETTERS, NightHistory, NodeNights, Past
from parity.judge.report.pen import LOW, Pen
from parity.judge.report.previous import Previous
from parity.judge.report.templates import template
from parity.judge.store.plan_file import CELL
from parity.judge.verdict.model import WORDS, Cell, CellText, Change, Verdict, rows

SUBSYSTEMS = (*codes.SUBSYSTEMS, 'other')
#: Characters of a reason in the table; verdict.json has the whole.
SHORT = 140
#: Cases of one table: a browser lays out a table as a whole, and only those in view.
CASES = 25
#: Curves of an entry.
CURVES = 3
#: Cells with a row and a history, and lines of any other list: a browser does not open a page of 100,000 rows.
ROWS, LISTED = 5000, 200
#: Nights of a map of letters, at least: tonight's words say what fewer would. Its rows that are not folded.
MAP_NIGHTS, MAP_ROWS = 7, 40
_HERE = Path(__file__).parent
#: Word on the page -> the file's name in the run's folder, as ReFrame names it.
_FILES = {'output': 'rfm_job.out', 'errors': 'rfm_job.err', 'script': 'rfm_job.sh'}
#: The word of a letter that a person looks at.
_MARKED: dict[str, str] = {}
for _word in (*answer.BAD, 'improved', 'disturbed'):
    _MARKED[LETTERS[_word]] = _MARKED[LETTERS[_word].lower()] = _word

#: (word, address) of what is left of a run.
Links = list[tuple[str, str]]
#: The same cell on another night has the same.
key = attrgetter(*CELL)
_check = attrgetter('subsystem', 'check')
_run = attrgetter('check', 'case', 'system', 'partition', 'environ', 'size', 'attempt', 'jobid', 'outputdir')


def render(verdict: Answered, directory: Path, root: Path, previous: Previous | None = None) -> dict[str, str]:
    """Return the pages by their file below ``directory``: index.html, and one with the figures of each check.

    Each is self-contained; everything that comes from the verdict is escaped."""
    previous = previous or Previous()
    lines, sources = of_cells(verdict.cells, previous.nights or NightHistory())
    _add_links(lines, directory, root)
    pen = Pen(verdict.incidents, previous)
    shown = _Shown(verdict, previous, lines, sources, pen)
    first = _template('page.html.j2')
    pages = {'index.html': first.render(v=shown, **_script('filter.js'))}
    pages |= _incident_pages(shown, lines, pen)
    pages |= _figure_pages(shown, lines, pen)
    return pages


def _template(name: str) -> Template:
    return template(name, figures=figures, drawings=drawings, times=times, version=__version__, count=_count,
                    listed=LISTED)


def _add_links(lines: list[PageRow], directory: Path, root: Path) -> None:
    links: dict[str, Links] = {}
    for line in lines:
        folder = line.cell.outputdir
        if folder not in links:
            links[folder] = _links(folder, directory, root)
        line.links = links[folder]


def _incident_pages(shown: _Shown, lines: list[PageRow], pen: Pen) -> dict[str, str]:
    """Return the page of each incident by its file."""
    page = _template('incident.html.j2')
    by_name = {line.name: line for line in lines}
    pages = {}
    for incident in shown.verdict.incidents:
        about = incidents.about(incident, 0)
        stands = incidents.since(incident)
        events = [(times.minute(event.start), event) for event in incident.events]
        faults = incidents.worst(incident)
        of_faults = [by_name.get(fault.cell) for fault in faults]
        drawn = pen.on_one_scale(of_faults[:LISTED])
        cells = list(zip(faults, of_faults, drawn, strict=False))
        pages[f'incidents/{incident.number}.html'] = page.render(
            v=shown, one=incident, about=about, stands=stands, events=events, cells=cells,
            left=len(faults[LISTED:]), ended=incidents.ended)
    return pages


def _figure_pages(shown: _Shown, lines: list[PageRow], pen: Pen) -> dict[str, str]:
    """Return the pages with the figures of each check by their files."""
    page = _template('figure.html.j2')
    script = _script('zoom.js')
    with_page = [line for line in lines if line.file]
    pages = {}
    for file, of_file in grouped(with_page, attrgetter('file')).items():
        of_check = [_FigurePage(line, shown.previous, pen.tall(line)) for line in of_file]
        pages[file] = page.render(v=shown, own=of_check, **script)
    return pages


def _script(name: str) -> dict[str, str]:
    """Return our own script and its hash: no other runs. It holds nothing that a job printed."""
    body = (_HERE / name).read_text(encoding='utf-8')
    script = f"'use strict';\n(() => {{\n{body}}})();\n"
    digest = hashlib.sha256(script.encode()).digest()
    encoded = base64.b64encode(digest).decode()
    return {'script': Markup(script), 'script_hash': f'sha256-{encoded}'}


def _count(n: int, one: str, many: str) -> str:
    return f'{n:,} {one if n == 1 else many}'


class _Shown:
    """Everything that the first page shows, as plain data."""

    def __init__(self, verdict: Answered, previous: Previous, lines: list[PageRow], sources: list[str],
                 pen: Pen):
        history = previous.nights or NightHistory()
        several_nights = len(history.labels) > 1
        self.verdict = verdict
        self.answer = verdict.answer
        self.previous = previous
        self.when = verdict.session.start[:16].replace('T', ' ')
        self.counts = [(word, verdict.counts[word]) for word in WORDS if verdict.counts.get(word)]
        self.nights = history.labels
        self.data = _embedded(history.labels)
        self.table = _table(lines, sources, several_nights)

        self.tiles = _tiles(lines, history) if several_nights else []
        self.cards = _cards(verdict.answer.entries[:LISTED], lines, pen)
        self.with_curves = any(curve for card in self.cards for _, curve in card.shown)
        self.map = _map(lines) if len(history.labels) >= MAP_NIGHTS else []
        self.map_rows = MAP_ROWS
        self.changes = changes(lines, previous.before) if previous.before else None
        self.left = _left_out(lines)

        drawn = _drawings(previous)
        self.plots = grouped(drawn[:drawings.MOST], lambda drawing: drawing.plot.subsystem)
        self.plots_left_out = len(drawn[drawings.MOST:])

        self.pairs = forest.of_pairs(verdict.pairs)

        self.nodes = nights.nodes(verdict.cells, previous.facts, previous.speeds)
        self.of_node = _incidents_by_node(verdict)
        self.away = _away(history, self.nodes)
        self.facts = ''
        if verdict.session.facts:
            self.facts = yaml.safe_dump(verdict.session.facts, sort_keys=False, allow_unicode=True)


def _embedded(data: Any) -> Markup:
    """Return data as JSON inside a script element, which no text in it can end."""
    text = json.dumps(data, separators=(',', ':'))
    return Markup(text.replace('<', '\\u003c'))


def _left_out(lines: list[PageRow]) -> list[tuple[tuple[str, str], list[PageRow]]]:
    """Return the cells that were not judged by word and reason, the most frequent reason of a word first."""
    not_judged = [line for line in lines if line.word in ('skipped', 'disturbed')]
    groups = grouped(not_judged, attrgetter('word', 'reason'))

    def order(group: tuple[tuple[str, str], list[PageRow]]) -> tuple[int, int]:
        (word, _), rows_of_group = group
        return WORDS.index(word), -len(rows_of_group)

    return sorted(groups.items(), key=order)


def _drawings(previous: Previous) -> list[drawings.Drawing]:
    in_order = sorted(previous.plots, key=lambda plot: rank(plot.subsystem))
    drawn = []
    for plot in in_order:
        drawing = drawings.draw(plot, previous.plots[plot])
        if drawing:
            drawn.append(drawing)
    return drawn


def _away(history: NightHistory, measured: list[NodeNights]) -> list[tuple[str, str]]:
    """Return the nodes that tonight did not measure, each with its last night."""
    tonight = {node.name for node in measured}
    away = []
    for name in sorted(history.nodes.keys() - tonight):
        last, _ = history.labels[history.nodes[name]]
        away.append((name, last))
    return away


def _incidents_by_node(verdict: Answered) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for incident in verdict.incidents:
        for node in incident.nodes:
            of_node = numbers.setdefault(node, [])
            of_node.append(incident.number)
    return numbers


def _links(outputdir: str, directory: Path, root: Path) -> Links:
    """Return word and address of a run's folder and of each file in it that is not empty; only below ``root``."""
    folder = text.link(outputdir, directory, root)
    if not folder or not os.path.isdir(outputdir):
        return []
    links = [('run', folder)]
    for word, name in _FILES.items():
        file = os.path.join(outputdir, name)
        if os.path.isfile(file) and os.path.getsize(file):
            links.append((word, folder + name))
    return links


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
        """Make the texts, addresses and letters of the row, and its order among the rows: the worst verdict first,
        then the newest night that is marked."""
        cell = self.cell
        texts, self.unit = figures.alike(cell.unit, cell.value, cell.reference, cell.low, cell.high, cell.limit)
        shown = ['' if text == figures.NOTHING else text for text in texts]
        self.value, self.reference, low, high, self.limit = shown
        self.band = _band(low, high)
        self.change = figures.change(cell.value, cell.expected)
        self.efficiency = '' if cell.efficiency is None else figures.percent(cell.efficiency)
        self.id = f'c{self.number}'
        has_figures = cell.value is not None or self.past.at
        self.file = _file(cell.check) if has_figures else ''
        self.page = f'{self.file}#{self.id}' if self.file else ''
        self.letters = nights.tonight(cell, self.past, self.count) if self.count else ''
        last_nights = [self.letters.rfind(letter) for letter in _MARKED]
        self.last_marked = max(last_nights)             # -1: no night was
        severity = len(WORDS)
        if cell.verdict in answer.BAD:
            severity = WORDS.index(cell.verdict)
        self.order = severity, -self.last_marked

    @property
    def href(self) -> str:
        """The address of what the job printed, else of the run's folder."""
        addresses = dict(self.links)
        return addresses.get('output') or addresses.get('run', '')

    @property
    def show(self) -> str:
        return f'parity show {shlex.quote(self.name)}'

    def curve(self, height: int) -> Curve | None:
        """Return the drawing of its nights; None where fewer than two have a figure."""
        judged = self.judged_nights
        return judged.curve(height) if judged else None

    @property
    def judged_nights(self) -> JudgedNights | None:
        """Return its nights, with the bounds that judge tonight as the last ones; None where fewer than two have a
        figure."""
        past = self.past
        if len(past.at) < 2:
            return None
        low = list(past.low)
        high = list(past.high)
        if past.at[-1] == self.count - 1:
            low[-1], high[-1] = _judging(self.cell)
        return JudgedNights(past.at, past.values, low, high, self.count, self.cell.expected)

    @property
    def span(self) -> str:
        """Return the number of its nights, the least and the greatest value, and the last one."""
        values = self.past.values
        unit = self.cell.unit
        count = _count(len(values), 'night', 'nights')
        band = figures.band(min(values), max(values), unit)
        last = figures.figure(values[-1], unit)
        return f'{count}, {band}, the last one {last}'


def _judging(cell: Cell) -> tuple[float | None, float | None]:
    """Return the bounds that judge a cell tonight: those accepted, or of its own nights."""
    if cell.judged_by == 'history':
        return cell.usual_low, cell.usual_high
    return cell.low, cell.high


def _band(low: str, high: str) -> str:
    if low and high:
        return f'{low} .. {high}'
    if low:
        return f'at least {low}'
    if high:
        return f'at most {high}'
    return ''


def _file(check: str) -> str:
    name = re.sub(r'[^A-Za-z0-9]+', '-', check)
    return f'figures/{name[:80]}.html'


def rank(subsystem: str) -> tuple[int, str]:
    place = len(SUBSYSTEMS)
    if subsystem in SUBSYSTEMS:
        place = SUBSYSTEMS.index(subsystem)
    return place, subsystem


def of_cells(cells: list[Cell], history: NightHistory) -> tuple[list[PageRow], list[str]]:
    """Return the rows in the page's order, and the sources of their limits.

    Subsystems come in their rank; checks and cases stay together, in the order of their first cells. ROWS cells
    have a row and a history: tonight's worst, those with bad nights, the first of each check."""
    first: dict[tuple, int] = {}
    for number, cell in enumerate(cells):
        first.setdefault(_check(cell), number)
        first.setdefault(_run(cell), number)

    def order(row: CellText) -> tuple:
        cell = row.cell
        return rank(cell.subsystem), first[_check(cell)], first[_run(cell)]

    in_order = sorted(rows(cells), key=order)
    notes = {'': 0}
    lines = []
    for number, row in enumerate(in_order, 1):
        source = _source(row.cell)
        note = notes.setdefault(source, len(notes))
        past = history.cells.get(key(row.cell), Past())
        lines.append(PageRow(row.cell, row.several, number, note, past, len(history.labels)))
    _hide_beyond(lines, ROWS)
    return lines, list(notes)[1:]


def _hide_beyond(lines: list[PageRow], most: int) -> None:
    """Take row and history from all lines but the worst ``most``: among equal ones the first of a check stay."""
    of_check: Counter[tuple] = Counter()
    order = {}
    for line in lines:
        check = _check(line.cell)
        of_check[check] += 1
        order[line.number] = line.order, of_check[check], line.number
    worst_first = sorted(lines, key=lambda line: order[line.number])
    for line in worst_first[most:]:
        line.here = False
        line.file = line.page = ''


def _source(cell: Cell) -> str:
    if cell.limit is None:
        return ''
    source = cell.limit_source or 'source not stated'
    kind = 'certain' if cell.limit_certain else 'a ceiling'
    return f'{source} ({kind})'


class _Table(NamedTuple):
    """The table of cells, and what a reader selects rows by."""

    rows: list[PageRow]
    by_subsystem: dict[str, list[list[_Case]]]
    words: list[tuple[str, int]]     # of the rows
    hidden: list[tuple[str, int]]    # words of the cells without a row
    partitions: list[str]
    columns: set[str]                # that only some pages have
    sources: list[str]               # of the limits


def _table(lines: list[PageRow], sources: list[str], several_nights: bool) -> _Table:
    rows_here = [line for line in lines if line.here]
    words = nights.by_word(line.word for line in rows_here)
    hidden = nights.by_word(line.word for line in lines if not line.here)
    partitions = {line.cell.partition for line in lines}
    columns = set()
    if any(line.reference for line in lines):
        columns.add('reference')
    if any(line.limit for line in lines):
        columns.add('limit')
    if several_nights:
        columns.add('history')
    return _Table(rows_here, tables(rows_here), words, hidden, sorted(partitions), columns, sources)


def tables(lines: list[PageRow]) -> dict[str, list[list[_Case]]]:
    """Return the tables of each subsystem, each of cases of one check."""
    cases = []
    for _, of_run in groupby(lines, lambda line: _run(line.cell)):
        cases.append(_Case(list(of_run)))
    by_subsystem: dict[str, list[list[_Case]]] = {}
    for (subsystem, _), of_check in groupby(cases, lambda case: _check(case.rows[0].cell)):
        parts = by_subsystem.setdefault(subsystem, [])
        remaining = list(of_check)
        while remaining:
            parts.append(remaining[:CASES])
            remaining = remaining[CASES:]
    return by_subsystem


class _Case:
    """The rows of one case, with their common facts and, where all have the same, their reason."""

    def __init__(self, lines: list[PageRow]):
        cell = lines[0].cell
        self.rows = lines
        self.name = cell.case
        reasons = {line.reason for line in lines}
        self.reason = ''
        if len(lines) > 1 and len(reasons) == 1:
            self.reason = text.brief(cell.reason, 2 * SHORT)
        else:
            for line in lines:
                line.short_reason = text.brief(line.reason, SHORT)
        facts = [lines[0].place, cell.environ, cell.size, several(cell.nodes)]
        if cell.virtualisation != 'none':
            facts.append(cell.virtualisation)
        if cell.jobid:
            facts.append(f'job {cell.jobid}')
        if cell.attempt > 1:
            facts.append(f'attempt {cell.attempt}')
        self.facts = [text.brief(fact, 100) for fact in facts if fact]


# ---- the first screen

class _Tile(NamedTuple):
    """A subsystem's speed: tonight, 1 as expected, over the nights, and of how many figures it is."""

    subsystem: str
    speed: float | None
    curve: NightCurve
    cells: int


class _Speed(NamedTuple):
    """A subsystem's nights, in per cent above what is expected. ``tonight``: 1 as expected."""

    nights: JudgedNights
    tonight: float | None
    cells: int


def _tiles(lines: list[PageRow], history: NightHistory) -> list[_Tile]:
    speeds = _speeds(lines, history)
    scale = curves.shared([speed.nights for speed in speeds.values()])
    starts = [start for start, _ in history.labels]
    tiles = []
    for subsystem, speed in speeds.items():
        tonight = ''
        if speed.tonight is not None:
            tonight = f'{100 * speed.tonight:.1f} %'
        count = _count(len(speed.nights.at), 'night', 'nights')
        text = f'{subsystem}: {count}, the last one {tonight or "not measured"}'
        drawn = curves.drawn(speed.nights, LOW, scale)
        curve = curves.labelled(drawn, starts, tonight, text, _speed_text)
        tiles.append(_Tile(subsystem, speed.tonight, curve, speed.cells))
    return tiles


def _speeds(lines: list[PageRow], history: NightHistory) -> dict[str, _Speed]:
    """Return the speed of each subsystem that was measured, in their rank."""
    by_subsystem = grouped([line.cell for line in lines], attrgetter('subsystem'))
    speeds = {}
    for subsystem in sorted(by_subsystem, key=rank):
        cells = by_subsystem[subsystem]
        shares, count = nights.speed(cells, history, map(key, cells))
        at = []
        values = []
        for night, share in enumerate(shares):
            if share is not None:
                at.append(night)
                values.append(100 * (share - 1))
        if at:
            unbounded = [None] * len(at)
            judged = JudgedNights(at, values, unbounded, unbounded, len(shares), expected=0.0)
            speeds[subsystem] = _Speed(judged, shares[-1], count)
    return speeds


def _speed_text(per_cent: float) -> str:
    """Return a speed that is so many per cent above what is expected."""
    return f'{100 + per_cent:g} %'


class _Card(NamedTuple):
    """An entry of the answer with its lines: the first, which have their curves, and the rest."""

    entry: FaultEntry
    shown: list[tuple[PageRow, NightCurve | None]]
    rest: list[PageRow]


def _cards(entries: list[FaultEntry], lines: list[PageRow], pen: Pen) -> list[_Card]:
    by_name = {line.name: line for line in lines}
    cards = []
    for entry in entries:
        of_entry = [by_name[name] for name in entry.cells if name in by_name]
        with_figure = [line for line in of_entry if line.value]
        shown = with_figure[:CURVES]
        rest = [line for line in of_entry if line not in shown]
        drawn = pen.on_one_scale(shown)
        cards.append(_Card(entry, list(zip(shown, drawn, strict=True)), rest))
    return cards


class _Letters(NamedTuple):
    """A bad night's letter with its word, or some nights without one; ``at``: the first night."""

    text: str
    word: str
    at: int


def _map(lines: list[PageRow]) -> list[tuple[PageRow, list[_Letters]]]:
    """Return the letters of the figures that were not always in order: tonight's worst ones, then the newest."""
    bad = [line for line in lines if line.last_marked >= 0]
    bad.sort(key=lambda line: (line.order, line.number))
    letters: list[tuple[PageRow, list[_Letters]]] = []
    for line in bad[:LISTED]:
        letters.append((line, _letters(line.letters)))
    for line in bad[LISTED:]:
        letters.append((line, []))
    return letters


def _letters(letters: str) -> list[_Letters]:
    parts: list[_Letters] = []
    for at, letter in enumerate(letters):
        word = _MARKED.get(letter, '')
        if word or not parts or parts[-1].word:
            parts.append(_Letters(letter, word, at))
            continue
        good = parts[-1]
        parts[-1] = good._replace(text=good.text + letter)
    return parts


class Changes(NamedTuple):
    """Cells that differ from the night before. ``turns``: by (word before, word now), with the figure before."""

    turns: dict[tuple[str, str], list[tuple[PageRow, str]]]
    new: list[PageRow]
    gone: list[CellText]


def changes(lines: list[PageRow], before: Verdict) -> Changes:
    """Return how the cells differ from the night before. Those that became worse come first, the worst first."""
    earlier = {key(row.cell): row for row in rows(before.cells)}
    turns: dict[tuple[str, str], list[tuple[PageRow, str]]] = {}
    new = []
    for line in lines:
        was = earlier.pop(key(line.cell), None)
        if was is None:
            new.append(line)
        elif was.word != line.word:
            turn = turns.setdefault((was.word, line.word), [])
            turn.append((line, was.figure))
    worst_first = {words: turns[words] for words in sorted(turns, key=_badness)}
    return Changes(worst_first, new, list(earlier.values()))


def _badness(words: tuple[str, str]) -> tuple:
    was, now = map(WORDS.index, words)
    improved = now > was
    worse = min(was, now)
    return improved, worse, was


# ---- a figure's own page

class _BadNight(NamedTuple):
    at: int                          # its place among all nights
    start: str
    word: str
    figure: str                      # '' without one


class _FigurePage:
    """A figure with its nights: the curve, its edges in their unit and the factor that leads there; dots by word;
    the nights with another word than ok; and (first night, change)."""

    def __init__(self, line: PageRow, previous: Previous, drawn: NightCurve | None):
        history = previous.nights or NightHistory()
        starts = [start for start, _ in history.labels]
        self.line = line
        self.drawn = drawn
        self.curve = drawn.curve if drawn else None
        self.dots: dict[str, str] = {}
        self.nights: list[_BadNight] = []
        self._add_nights(starts)
        self.changes = self._changes(previous, starts)
        self.factor = 1.0
        self.unit = self.low = self.high = ''
        if self.curve:
            low, high = self.curve.scale
            self.factor, self.unit = figures.moved(high, line.cell.unit)
            self.low = self._edge(low)
            self.high = self._edge(high)

    def _edge(self, value: float) -> str:
        number = figures.number(value * self.factor)
        return f'{number} {self.unit}'

    def _add_nights(self, starts: list[str]) -> None:
        past = self.line.past
        value_of = dict(zip(past.at, past.values, strict=True))
        for at, letter in enumerate(self.line.letters):
            word = _MARKED.get(letter, '')
            value = value_of.get(at)
            if self.curve and value is not None:
                dots = self.dots.get(word, '')
                self.dots[word] = f'{dots}M{at} {self.curve.y(value)}h0'
            if word:
                figure = '' if value is None else figures.figure(value, self.line.cell.unit)
                self.nights.append(_BadNight(at, starts[at], word, figure))

    def _changes(self, previous: Previous, starts: list[str]) -> list[tuple[int, Change]]:
        """Return the changes that concern the figure with the first night after each; none before all nights."""
        cell = self.line.cell
        nodes = (*cell.nodes, *cell.ran_on)
        placed = []
        for change in previous.changes.get(cell.environ, ()):
            if not change.concerns(nodes):
                continue
            minute = change.when[:16]
            later = (at for at, start in enumerate(starts) if start >= minute)
            night = next(later, 0)
            if night:
                placed.append((night, change))
        return placed
