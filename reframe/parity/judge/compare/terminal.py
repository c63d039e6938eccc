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
        return Text(plain(shown) if self.ascii else shown, style=style, overflow='fold')


def rendered(c: Comparison, paper: Paper) -> RenderableType:
    """Render the answer, what was compared, how far it is alike, rows, means and notes."""
    title = f'{_with_virtualisation(c.baseline)} against {_with_virtualisation(c.candidate)}'
    answer = [paper.line(c.answer, 'bold'), paper.line(title)]
    parts: list[RenderableType] = [*answer, *map(paper.line, head(c))]
    with_ratio = [row for row in c.rows if row.ratio is not None]
    like = [row for row in with_ratio if not row.against]
    if like:
        parts += [paper.line(''), *_table(c, like, paper)]
    speedups = [row for row in with_ratio if row.against]
    if speedups:
        title = f'{SPEEDUP}, the devices of a node added up'
        parts += [paper.line(''), paper.line(title, 'bold'), *_table(c, speedups, paper)]
    if c.means:
        means = ' · '.join(map(mean, c.means))
        parts += [paper.line(''), paper.line(f'geometric means, as speed of {c.candidate.name}: {means}')]
    parts += map(paper.line, ['', *footnotes(c)])
    return Group(*parts)


def mean(one: Mean) -> str:
    """Return the speed of a subsystem with its interval, and the checks in it."""
    checks = ', '.join(one.checks)
    text = f'{one.subsystem or "all"} {number(one.speed, pad=True)}{_limits(one)} ({checks})'
    return text if one.low else f'{text}: no interval'


def _with_virtualisation(side: Side) -> str:
    backends = [_BACKENDS.get(backend, backend) for backend in side.facts.get('virtualisation', [])]
    return f'{side.name} ({", ".join(backends)})' if backends else side.name


def head(c: Comparison) -> list[str]:
    """Return how far the sides are alike, and how many metrics have each word."""
    lines = []
    shared = [f'{fact} {value}' for fact, value in c.alike.items() if fact not in _NOTED]
    if shared:
        lines.append(f'like for like: {"; ".join(shared)}')
    word = 'compared all the same' if c.labelled else 'refused'
    for unlike in c.differs:
        both = f'{brief(unlike.baseline, 80)} | {brief(unlike.candidate, 80)}'
        lines.append(f'not like for like, {word}: {unlike.fact} {both} ({counted(unlike.metrics, "metric")})')
    of_nodes = _other_nodes(c)
    if of_nodes:
        lines.append(f'other nodes: {"; ".join(of_nodes)}')
    if c.rows:
        counts = Counter(_label(row) or row.verdict for row in c.rows)
        words = [*WORDS, *sorted(counts.keys() - {*WORDS})]
        parts = ' · '.join(f'{counts[word]} {word}' for word in words if counts[word])
        lines.append(f'{counted(len(c.rows), "metric")}: {parts}')
    return lines


def _other_nodes(c: Comparison) -> list[str]:
    """Return the facts that the nodes of both sides state otherwise."""
    differences = []
    for fact, one in c.baseline.facts.items():
        other = c.candidate.facts.get(fact, one)
        if fact != 'virtualisation' and set(other) != set(one):
            differences.append(f'{fact} {", ".join(one)} | {", ".join(other)}')
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
        own = self.bars.get(id(row))
        return bars.drawn(own, self.scale, self.width) if own else ''


def _plot(c: Comparison, rows: list[Row], paper: Paper) -> _Plot:
    drawn = {}
    for row in rows:
        own = forest.bar(row, c.expectation(row))
        if own:
            drawn[id(row)] = own
    return _Plot(drawn, forest.scale([*drawn.values()], forest.TERMINAL), _BELOW if paper.narrow else _BESIDE)


def _table(c: Comparison, rows: list[Row], paper: Paper) -> list[RenderableType]:
    """Return a table with a line a metric, below the name of its case, or behind it where that is short and alone;
    and a line on its bars."""
    plot = _plot(c, rows, paper)
    table = _columns(c, plot, paper)
    for subsystem, of_subsystem in groupby(rows, attrgetter('subsystem')):
        if subsystem:
            table.add_row(paper.line(subsystem.upper(), 'bold'))
        for case, of_case in groupby(of_subsystem, attrgetter('title')):
            metrics = list(of_case)
            together = f'  {case}: {_metric(metrics[0])}'
            if len(metrics) == 1 and len(together) <= _SHORT:
                table.add_row(*_row(c, metrics[0], together, plot, paper))
                continue
            table.add_row(paper.line(f'  {case}'))
            for row in metrics:
                table.add_row(*_row(c, row, f'    {_metric(row)}', plot, paper))
    return [table, paper.line(_legend(c, plot, paper))]


def _columns(c: Comparison, plot: _Plot, paper: Paper) -> Table:
    """Return an empty table."""
    table = Table(box=None, pad_edge=False, header_style='')
    axis = bars.head(plot.scale, plot.width)
    sides = c.baseline.name, c.candidate.name
    interval = f'{100 * c.confidence:.4g} %'
    if paper.narrow:
        table.add_column(paper.line(f'    {axis}'), min_width=plot.width + 4)
        for name in sentence.short_names(*sides):
            table.add_column(paper.line(name), justify='right', max_width=12)
        if paper.counts:
            table.add_column(paper.line('sessions: runs'), justify='right', max_width=9)
        table.add_column(paper.line(f'ratio\n{interval}'), justify='right', no_wrap=True)
        table.add_column(paper.line(''), max_width=10)
        return table
    table.add_column(paper.line(''))
    for name in (*sides, 'sessions: runs', 'ratio', interval):
        table.add_column(paper.line(name), justify='right', no_wrap=name not in sides)
    table.add_column(paper.line(axis), no_wrap=True)
    table.add_column(paper.line(''))
    return table


def _row(c: Comparison, row: Row, name: str, plot: _Plot, paper: Paper) -> list[Text]:
    style = 'bold red' if row.state == 'regressed' else _STYLES[row.verdict]
    drawn = paper.line(plot.bar(row), style)
    title, counts = paper.line(name), paper.line(_runs(row))
    ratio, interval = paper.line(number(row.ratio, pad=True)), paper.line(_limits(row).strip() or NOTHING)
    if not paper.narrow:
        figures = [paper.line(' '.join(parts)) for parts in _medians(row)]
        return [title, *figures, counts, ratio, interval, drawn, paper.line(_word(row, c.margin), style)]
    below = [title, drawn]
    details = _details(row)
    if details:
        below.append(paper.line(details))
    figures = [paper.line('\n'.join(parts)) for parts in _medians(row)]
    if paper.counts:
        figures.append(counts)
    first = Text('\n    ', overflow='fold').join(below)
    return [first, *figures, Text('\n').join([ratio, interval]), paper.line(row.verdict, style)]


def _legend(c: Comparison, plot: _Plot, paper: Paper) -> str:
    """Return the words for the signs of the bars."""
    baseline, candidate = sentence.short_names(c.baseline.name, c.candidate.name)
    parts = [f'bars: {bars.FIGURE} the speed of {candidate}, {baseline} being 1 ({bars.ONE})',
             f'{bars.INTERVAL} its interval']
    drawn = plot.bars.values()
    if any(bar.low is None for bar in drawn):
        parts.append(f'{bars.ALONE} without one')
    if any(bar.bounds for bar in drawn):
        parts.append(f'{bars.BOUND} what is expected')
    if paper.narrow:
        parts.append(f'equivalent: within {100 * c.margin:g} % of 1')
    if any(-math.log(plot.scale.end) < bar.far for bar in drawn):
        parts.append(f'{bars.LEFT} {bars.RIGHT} beyond the axis')
    return ', '.join(parts)


def _metric(row: Row) -> str:
    return f'{row.metric} / {row.against}' if row.against else row.metric


def _medians(row: Row) -> list[list[str]]:
    """Return the figure of each side, and its spread where that is known."""
    (one, two), unit = alike(row.unit, row.baseline, row.candidate)
    figures = [[f'{one} {unit}'.strip()], [two]]
    for figure, spread in zip(figures, (row.spread_baseline, row.spread_candidate), strict=True):
        if spread is not None:
            figure.append(f'± {percent(spread)}')
    return figures


def _runs(row: Row) -> str:
    """Return how many sessions and runs both sides have."""
    counts = f'{row.sessions_baseline}: {row.n_baseline}'
    counts_candidate = f'{row.sessions_candidate}: {row.n_candidate}'
    return counts if counts_candidate == counts else f'{counts} + {counts_candidate}'


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
    return '; '.join(filter(None, (_direction(row), _label(row), _expected(row))))


def _direction(row: Row) -> str:
    return 'lower is better' if row.better == 'lower' and row.verdict in ('faster', 'slower') else ''


def _expected(row: Row) -> str:
    return f'{row.expected}: {row.state}' if row.expected else ''


def _left_out(row: Row) -> str:
    """Return the nights that were left out. A declared pair has its ratio with them; others share a line."""
    return row.with_left_out if row.expected else row.left_out


def _limits(of: Row | Mean) -> str:
    return '' if of.low is None else f' [{number(of.low, pad=True)}, {number(of.high, pad=True)}]'


def footnotes(c: Comparison) -> list[str]:
    """Return the reasons and notes of the rows, and what the intervals hold."""
    lines = []
    rows_of: dict[str, list[Row]] = {}
    for row in c.rows:
        for why in filter(None, (row.reason, *row.notes, _left_out(row))):
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
        line = f'each interval holds with {100 * c.confidence:.4g} % by itself, not all of them together'
        misses = round((1 - c.confidence) * intervals)
        lines.append(f'{line}: of {intervals} about {misses} may miss' if misses else line)
    lines += [f'note: {note}' for note in c.notes]
    return lines


def _name_of(rows: list[Row]) -> str:
    if len(rows) == 1:
        return f'{rows[0].title}: {rows[0].metric}'
    checks = dict.fromkeys(row.check for row in rows)
    return f'{counted(len(rows), "metric")} ({", ".join(checks)})'
