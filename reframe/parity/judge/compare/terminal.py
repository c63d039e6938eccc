"""A comparison as a person reads it: the answer, then a row a metric: both sides, the ratio, a bar and a word."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from parity.base.console import plain
from parity.base.figures import NOTHING, alike, counted, number, percent
from parity.base.text import brief, visible
from parity.judge.compare import bars, forest, sentence
from parity.judge.compare.forest import Bar, Scale
from parity.judge.compare.model import WORDS, Comparison, Mean, Row, Side
from parity.judge.compare.pairs import SPEEDUP

_STYLES = {'faster': 'green', 'slower': 'bold red', 'equivalent': 'green', 'undecided': 'cyan'}
_BACKENDS = {'uml': 'User-mode Linux', 'kvm': 'KVM', 'qemu': 'QEMU emulation', 'none': 'no hypervisor'}
#: A name that leaves room for figures beside it.
_SHORT = 50
#: Characters in a line that most comparisons need. With fewer, a bar stands below its metric, an interval below
#: its ratio; with fewer than _COUNTS, the numbers of sessions and runs are left out.
_WIDE, _COUNTS = 120, 90
#: Characters of a bar: below a metric, and in a column of its own. Odd, so that 1 has a middle.
_BELOW, _BESIDE = 19, 25
#: What stands in the head of its own accord, or says nothing there.
_NOTED = ('arguments', 'input', 'profiled', 'order', 'direction', 'unit', 'check', 'nodes')


@dataclass(frozen=True)
class Paper:
    """A terminal: its characters in a line, and whether it has ASCII alone."""

    width: int
    ascii: bool = False

    @property
    def narrow(self) -> bool:
        return self.width < _WIDE

    @property
    def counts(self) -> bool:
        return self.width >= _COUNTS

    def line(self, text: str, style: str = '') -> Text:
        shown = visible(text)
        if self.ascii:
            shown = plain(shown)
        return Text(shown, style=style, overflow='fold')


def rendered(c: Comparison, paper: Paper) -> RenderableType:
    """Render the answer, what was compared, how far it is alike, rows, means and notes."""
    baseline = _with_virtualisation(c.baseline)
    candidate = _with_virtualisation(c.candidate)
    answer = paper.line(c.answer, 'bold')
    title = paper.line(f'{baseline} against {candidate}')
    parts: list[RenderableType] = [answer, title, *map(paper.line, head(c))]
    with_ratio = [row for row in c.rows if row.ratio is not None]
    like = [row for row in with_ratio if not row.against]
    if like:
        parts.append(paper.line(''))
        parts += _table(c, like, paper)
    speedups = [row for row in with_ratio if row.against]
    if speedups:
        title = paper.line(f'{SPEEDUP}, the devices of a node added up', 'bold')
        parts += [paper.line(''), title]
        parts += _table(c, speedups, paper)
    if c.means:
        means = ' · '.join(map(mean, c.means))
        speeds = f'geometric means, as speed of {c.candidate.name}: {means}'
        parts += [paper.line(''), paper.line(speeds)]
    parts.append(paper.line(''))
    parts += map(paper.line, footnotes(c))
    return Group(*parts)


def mean(one: Mean) -> str:
    """Return the speed of a subsystem with its interval, and the checks in it."""
    subsystem = one.subsystem or 'all'
    speed = number(one.speed, pad=True)
    interval = _limits(one)
    checks = ', '.join(one.checks)
    text = f'{subsystem} {speed}{interval} ({checks})'
    return text if one.low else f'{text}: no interval'


def _with_virtualisation(side: Side) -> str:
    backends = [_BACKENDS.get(backend, backend) for backend in side.facts.get('virtualisation', [])]
    return f'{side.name} ({", ".join(backends)})' if backends else side.name


def head(c: Comparison) -> list[str]:
    """Return how far the sides are alike, and how many metrics have each word."""
    lines = []
    shared = [f'{fact} {value}' for fact, value in c.alike.items() if fact not in _NOTED]
    if shared:
        facts = '; '.join(shared)
        lines.append(f'like for like: {facts}')
    word = 'compared all the same' if c.labelled else 'refused'
    for unlike in c.differs:
        baseline, candidate = brief(unlike.baseline, 80), brief(unlike.candidate, 80)
        metrics = counted(unlike.metrics, 'metric')
        lines.append(f'not like for like, {word}: {unlike.fact} {baseline} | {candidate} ({metrics})')
    of_nodes = '; '.join(_other_nodes(c))
    if of_nodes:
        lines.append(f'other nodes: {of_nodes}')
    if c.rows:
        lines.append(_counts(c.rows))
    return lines


def _counts(rows: list[Row]) -> str:
    """Return how many rows have each word or label."""
    count_of = Counter(_label(row) or row.verdict for row in rows)
    labels = count_of.keys() - {*WORDS}
    parts = []
    for word in (*WORDS, *sorted(labels)):
        if count_of[word]:
            parts.append(f'{count_of[word]} {word}')
    metrics = counted(len(rows), 'metric')
    return f'{metrics}: {" · ".join(parts)}'


def _other_nodes(c: Comparison) -> list[str]:
    """Return the facts that the nodes of both sides state otherwise."""
    differences = []
    for fact, one in c.baseline.facts.items():
        other = c.candidate.facts.get(fact, one)
        if fact != 'virtualisation' and set(other) != set(one):
            baseline, candidate = ', '.join(one), ', '.join(other)
            differences.append(f'{fact} {baseline} | {candidate}')
    return differences


def _label(row: Row) -> str:
    """Return why the figures are not what they seem, in a word: cached; '' where they are."""
    return row.label.partition(':')[0]


@dataclass(frozen=True)
class _Plot:
    """The bars of a table, by the place of their row; empty where no row has a ratio to draw."""

    bars: dict[int, Bar]
    scale: Scale
    width: int

    def bar(self, row: Row) -> str:
        bar = self.bars.get(id(row))
        return bars.drawn(bar, self.scale, self.width) if bar else ''


def _plot(c: Comparison, rows: list[Row], paper: Paper) -> _Plot:
    bar_of = {}
    for row in rows:
        bar = forest.bar(row, c.expectation(row))
        if bar:
            bar_of[id(row)] = bar
    scale = forest.scale([*bar_of.values()], forest.TERMINAL)
    width = _BELOW if paper.narrow else _BESIDE
    return _Plot(bar_of, scale, width)


def _table(c: Comparison, rows: list[Row], paper: Paper) -> list[RenderableType]:
    """Return a table with a line a metric, below the name of its case, or behind it where that is short and alone;
    and a line on its bars."""
    plot = _plot(c, rows, paper)
    table = _columns(c, plot, paper)
    for subsystem, of_subsystem in groupby(rows, attrgetter('subsystem')):
        if subsystem:
            table.add_row(paper.line(subsystem.upper(), 'bold'))
        for case, of_case in groupby(of_subsystem, attrgetter('title')):
            first, *others = of_case
            name = f'  {case}: {_metric(first)}'
            if not others and len(name) <= _SHORT:
                table.add_row(*_row(c, first, name, plot, paper))
                continue
            table.add_row(paper.line(f'  {case}'))
            for row in (first, *others):
                name = f'    {_metric(row)}'
                table.add_row(*_row(c, row, name, plot, paper))
    legend = _legend(c, plot, paper)
    return [table, paper.line(legend)]


def _columns(c: Comparison, plot: _Plot, paper: Paper) -> Table:
    """Return an empty table."""
    table = Table(box=None, pad_edge=False, header_style='')
    axis = bars.head(plot.scale, plot.width)
    sides = c.baseline.name, c.candidate.name
    interval = f'{100 * c.confidence:.4g} %'
    if paper.narrow:
        title = paper.line(f'    {axis}')
        table.add_column(title, min_width=plot.width + 4)
        for name in sentence.short_names(*sides):
            table.add_column(paper.line(name), justify='right', max_width=12)
        if paper.counts:
            table.add_column(paper.line('sessions: runs'), justify='right', max_width=9)
        ratio = paper.line(f'ratio\n{interval}')
        table.add_column(ratio, justify='right', no_wrap=True)
        table.add_column(paper.line(''), max_width=10)
        return table
    table.add_column(paper.line(''))
    for name in sides:
        table.add_column(paper.line(name), justify='right')
    for name in ('sessions: runs', 'ratio', interval):
        table.add_column(paper.line(name), justify='right', no_wrap=True)
    table.add_column(paper.line(axis), no_wrap=True)
    table.add_column(paper.line(''))
    return table


def _row(c: Comparison, row: Row, name: str, plot: _Plot, paper: Paper) -> list[Text]:
    """Return the texts of a row, one a column; on narrow paper, what belongs together in one column."""
    style = 'bold red' if row.state == 'regressed' else _STYLES[row.verdict]
    bar = paper.line(plot.bar(row), style)
    title = paper.line(name)
    counts = paper.line(_runs(row))
    ratio = paper.line(number(row.ratio, pad=True))
    limits = _limits(row).strip()
    interval = paper.line(limits or NOTHING)
    medians = _medians(row)
    if not paper.narrow:
        figures = [paper.line(' '.join(parts)) for parts in medians]
        word = paper.line(_word(row, c.margin), style)
        return [title, *figures, counts, ratio, interval, bar, word]
    below = [title, bar]
    details = _details(row)
    if details:
        below.append(paper.line(details))
    figures = [paper.line('\n'.join(parts)) for parts in medians]
    if paper.counts:
        figures.append(counts)
    first = Text('\n    ', overflow='fold').join(below)
    both = Text('\n').join([ratio, interval])
    return [first, *figures, both, paper.line(row.verdict, style)]


def _legend(c: Comparison, plot: _Plot, paper: Paper) -> str:
    """Return the words for the signs of the bars."""
    baseline, candidate = sentence.short_names(c.baseline.name, c.candidate.name)
    figure = f'bars: {bars.FIGURE} the speed of {candidate}, {baseline} being 1 ({bars.ONE})'
    parts = [figure, f'{bars.INTERVAL} its interval']
    drawn = plot.bars.values()
    if any(bar.low is None for bar in drawn):
        parts.append(f'{bars.ALONE} without one')
    if any(bar.bounds for bar in drawn):
        parts.append(f'{bars.BOUND} what is expected')
    if paper.narrow:
        parts.append(f'equivalent: within {100 * c.margin:g} % of 1')
    furthest = -math.log(plot.scale.end)
    if any(bar.far > furthest for bar in drawn):
        parts.append(f'{bars.LEFT} {bars.RIGHT} beyond the axis')
    return ', '.join(parts)


def _metric(row: Row) -> str:
    return f'{row.metric} / {row.against}' if row.against else row.metric


def _medians(row: Row) -> list[list[str]]:
    """Return the figure of each side, and its spread where that is known."""
    (one, other), unit = alike(row.unit, row.baseline, row.candidate)
    with_unit = f'{one} {unit}'.strip()
    baseline, candidate = [with_unit], [other]
    if row.spread_baseline is not None:
        baseline.append(f'± {percent(row.spread_baseline)}')
    if row.spread_candidate is not None:
        candidate.append(f'± {percent(row.spread_candidate)}')
    return [baseline, candidate]


def _runs(row: Row) -> str:
    """Return how many sessions and runs both sides have."""
    baseline = f'{row.sessions_baseline}: {row.n_baseline}'
    candidate = f'{row.sessions_candidate}: {row.n_candidate}'
    if candidate == baseline:
        return baseline
    return f'{baseline} + {candidate}'


def _word(row: Row, margin: float) -> str:
    word: str = row.verdict
    if word == 'equivalent':
        word += f' (within {100 * margin:g} %)'
    for note in (_direction(row), _label(row)):
        if note:
            word += f' ({note})'
    return f'{word}; {_expected(row)}' if row.expected else word


def _details(row: Row) -> str:
    """Return what stands below a bar: why its word is not as it seems, and what is expected."""
    details = _direction(row), _label(row), _expected(row)
    return '; '.join(filter(None, details))


def _direction(row: Row) -> str:
    has_direction = row.verdict in ('faster', 'slower')
    return 'lower is better' if has_direction and row.better == 'lower' else ''


def _expected(row: Row) -> str:
    return f'{row.expected}: {row.state}' if row.expected else ''


def _left_out(row: Row) -> str:
    """Return the nights that were left out. A declared pair has its ratio with them; others share a line."""
    return row.with_left_out if row.expected else row.left_out


def _limits(of: Row | Mean) -> str:
    if of.low is None:
        return ''
    low, high = number(of.low, pad=True), number(of.high, pad=True)
    return f' [{low}, {high}]'


def footnotes(c: Comparison) -> list[str]:
    """Return the reasons and notes of the rows, and what the intervals hold."""
    lines = []
    rows_of: dict[str, list[Row]] = {}
    for row in c.rows:
        for why in (row.reason, *row.notes, _left_out(row)):
            if why:
                rows_of.setdefault(why, []).append(row)
    for why, rows in rows_of.items():
        lines.append(f'{_name_of(rows)}: {why}')
    ones, others = set(c.baseline.sessions), set(c.candidate.sessions)
    if any(row.paired for row in c.rows):
        lines.append('both sides were measured in the same sessions: the interval is of their differences in each')
    elif ones and others and ones.isdisjoint(others):
        lines.append('the sides were measured at other times: '
                     'what else changed between them is in the ratios, too')
    intervals = sum(row.low is not None for row in c.rows)
    if intervals:
        lines.append(_confidence(c.confidence, intervals))
    lines += [f'note: {note}' for note in c.notes]
    return lines


def _confidence(confidence: float, intervals: int) -> str:
    """Return with what confidence an interval holds, and how many of so many may miss."""
    line = f'each interval holds with {100 * confidence:.4g} % by itself, not all of them together'
    misses = round((1 - confidence) * intervals)
    if misses:
        line += f': of {intervals} about {misses} may miss'
    return line


def _name_of(rows: list[Row]) -> str:
    if len(rows) == 1:
        row, = rows
        return f'{row.title}: {row.metric}'
    metrics = counted(len(rows), 'metric')
    checks = dict.fromkeys(row.check for row in rows)
    listed = ', '.join(checks)
    return f'{metrics} ({listed})'
