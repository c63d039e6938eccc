"""A comparison as a person reads it: one row a metric, both sides with their spread, the ratio, one word."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from parity.base.figures import NOTHING, alike, counted, number, percent
from parity.base.text import brief, visible
from parity.judge.compare.model import WORDS, Comparison, Mean, Row, Side
from parity.judge.compare.pairs import SPEEDUP

_STYLES = {'faster': 'green', 'slower': 'bold red', 'equivalent': 'green', 'undecided': 'cyan'}
_BACKENDS = {'uml': 'User-mode Linux', 'kvm': 'KVM', 'qemu': 'QEMU emulation', 'none': 'no hypervisor'}
#: A name that leaves room for figures beside it.
_SHORT = 44
#: Characters in a line that most comparisons need.
_WIDE = 120
#: What stands in the head of its own accord, or says nothing there.
_NOTED = ('arguments', 'input', 'profiled', 'order', 'direction', 'unit', 'check', 'nodes')


def rendered(c: Comparison, width: int) -> RenderableType:
    """Render what was compared, how far it is alike, rows, means and notes, so many characters wide."""
    narrow = width < _WIDE
    title = f'{_named(c.baseline)} against {_named(c.candidate)}'
    parts: list[RenderableType] = [_line(title, 'bold'), *map(_line, _head(c))]
    with_ratio = [row for row in c.rows if row.ratio is not None]
    like = [row for row in with_ratio if not row.against]
    if like:
        parts += [_line(''), _table(c, like, narrow)]
    speedups = [row for row in with_ratio if row.against]
    if speedups:
        title = f'{SPEEDUP}, the devices of a node added up'
        parts += [_line(''), _line(title, 'bold'), _table(c, speedups, narrow)]
    if c.means:
        means = ' · '.join(map(_mean, c.means))
        parts += [_line(''), _line(f'geometric means, as speed of {c.candidate.name}: {means}')]
    parts += map(_line, _footnotes(c))
    return Group(*parts)


def _mean(mean: Mean) -> str:
    checks = ', '.join(mean.checks)
    text = f'{mean.subsystem or "all"} {number(mean.speed, pad=True)}{_limits(mean)} ({checks})'
    return text if mean.low else f'{text}: no interval'


def _named(side: Side) -> str:
    backends = [_BACKENDS.get(backend, backend) for backend in side.facts.get('virtualisation', [])]
    return f'{side.name} ({", ".join(backends)})' if backends else side.name


def _line(text: str, style: str = '') -> Text:
    return Text(visible(text), style=style, overflow='fold')


def _head(c: Comparison) -> list[str]:
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


def _table(c: Comparison, rows: list[Row], narrow: bool) -> Table:
    """Return a line a metric, below the name of its case, or behind it where that is short and alone."""
    table = _columns(c, narrow)
    for subsystem, of_subsystem in groupby(rows, attrgetter('subsystem')):
        if subsystem:
            table.add_row(_line(subsystem.upper(), 'bold'))
        for case, of_case in groupby(of_subsystem, attrgetter('benchmark')):
            metrics = list(of_case)
            alone = len(metrics) == 1 and len(case) <= _SHORT
            if not alone:
                table.add_row(_line(f'  {case}'))
            for row in metrics:
                name = f'  {case}: {_metric(row)}' if alone else f'    {_metric(row)}'
                style = 'bold red' if row.state == 'regressed' else _STYLES[row.verdict]
                cells = map(_line, [name, *_figures(row)])
                table.add_row(*cells, _line(_word(row, c.margin), style))
    return table


def _columns(c: Comparison, narrow: bool) -> Table:
    """Return an empty table. If it is narrow, medians and words fold before names, figures never."""
    table = Table(box=None, pad_edge=False, header_style='')
    folded = 10 if narrow else None
    table.add_column(_line(''))
    for side in (c.baseline, c.candidate):
        table.add_column(_line(side.name), justify='right', max_width=folded)
    for head in ('sessions: runs', 'ratio', f'{100 * c.confidence:.4g} %'):
        table.add_column(_line(head), justify='right', no_wrap=True)
    table.add_column(_line(''), max_width=folded)
    return table


def _metric(row: Row) -> str:
    return f'{row.metric} / {row.against}' if row.against else row.metric


def _figures(row: Row) -> list[str]:
    """Return both medians with their spread, the counts, the ratio and its interval."""
    (one, two), unit = alike(row.unit, row.baseline, row.candidate)
    one = f'{one} {unit}'.strip()
    if row.spread_baseline is not None:
        one += f' ± {percent(row.spread_baseline)}'
    if row.spread_candidate is not None:
        two += f' ± {percent(row.spread_candidate)}'
    counts = f'{row.sessions_baseline}: {row.n_baseline}'
    counts_candidate = f'{row.sessions_candidate}: {row.n_candidate}'
    if counts_candidate != counts:
        counts += f' + {counts_candidate}'
    return [one, two, counts, number(row.ratio, pad=True), _limits(row).strip() or NOTHING]


def _word(row: Row, margin: float) -> str:
    word = row.verdict
    if word == 'equivalent':
        word += f' (within {100 * margin:g} %)'
    elif word != 'undecided' and row.better == 'lower':
        word += ' (lower is better)'
    if row.label:
        word += f' ({_label(row)})'
    return f'{word}; {row.expected}: {row.state}' if row.expected else word


def _left_out(row: Row) -> str:
    """Return the nights that were left out. A declared pair has its ratio with them; others share a line."""
    return row.with_left_out if row.expected else row.left_out


def _limits(of: Row | Mean) -> str:
    return '' if of.low is None else f' [{number(of.low, pad=True)}, {number(of.high, pad=True)}]'


def _footnotes(c: Comparison) -> list[str]:
    lines = ['']
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
        return f'{rows[0].benchmark}: {rows[0].metric}'
    checks = dict.fromkeys(row.check for row in rows)
    return f'{counted(len(rows), "metric")} ({", ".join(checks)})'
