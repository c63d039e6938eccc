"""A comparison as a person reads it: one row a metric, both sides with their spread, the ratio, one word."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import itemgetter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from parity.base.figures import NOTHING, alike, counted, number, percent
from parity.base.groups import grouped
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
    title = f'{_named(c.baseline)} against {_named(c.candidate)}'
    parts: list[RenderableType] = [_line(title, 'bold'), *map(_line, _head(c))]
    for title, against in (('', False), (f'{SPEEDUP}, the devices of a node added up', True)):
        if compared := [r for r in c.rows if r.ratio is not None and bool(r.against) == against]:
            parts += [_line(''), *([_line(title, 'bold')] if title else []), _table(c, compared, width < _WIDE)]
    if c.means:
        parts += [_line(''), _line(f'geometric means, as speed of {c.candidate.name}: ' + ' · '.join(
            f'{m.subsystem or "all"} {number(m.speed, pad=True)}{_limits(m)} ({", ".join(m.checks)})'
            f'{"" if m.low else ": no interval"}' for m in c.means))]
    parts += map(_line, _footnotes(c))
    return Group(*parts)


def _named(side: Side) -> str:
    said = ', '.join(_BACKENDS.get(b, b) for b in side.facts.get('virtualisation', []))
    return f'{side.name} ({said})' if said else side.name


def _line(text: str, style: str = '') -> Text:
    return Text(visible(text), style=style, overflow='fold')


def _head(c: Comparison) -> list[str]:
    alike_ = '; '.join(f'{fact} {value}' for fact, value in c.alike.items() if fact not in _NOTED)
    said = [f'like for like: {alike_}'] if alike_ else []
    word = 'compared all the same' if c.labelled else 'refused'
    said += [f'not like for like, {word}: {d.fact} {brief(d.baseline, 80)} | {brief(d.candidate, 80)} '
             f'({counted(d.metrics, "metric")})' for d in c.differs]
    other = [f'{fact} {", ".join(one)} | {", ".join(two)}' for fact, one in c.baseline.facts.items()
             if fact != 'virtualisation' and set(two := c.candidate.facts.get(fact, one)) != set(one)]
    said += [f'other nodes: {"; ".join(other)}'] if other else []
    counts = Counter(_label(row) or row.verdict for row in c.rows)
    words = [*WORDS, *sorted(counts.keys() - {*WORDS})]
    if c.rows:
        parts = ' · '.join(f'{counts[word]} {word}' for word in words if counts[word])
        said.append(f'{counted(len(c.rows), "metric")}: {parts}')
    return said


def _label(row: Row) -> str:
    """Return why the figures are not what they seem, in a word: cached; '' where they are."""
    return row.label.partition(':')[0]


def _table(c: Comparison, rows: list[Row], narrow: bool) -> Table:
    """Return a line a metric, below the name of its case, or behind it where that is short and alone."""
    table = Table(box=None, pad_edge=False, header_style='')
    head = '', c.baseline.name, c.candidate.name, 'sessions: runs', 'ratio', f'{100 * c.confidence:.4g} %', ''
    for i, name in enumerate(head):         # narrow: medians and words fold before names, figures never
        table.add_column(_line(name), justify='left' if i in (0, 6) else 'right', no_wrap=i in (3, 4, 5),
                         max_width=10 if narrow and i in (1, 2, 6) else None)
    for subsystem, of_subsystem in groupby(rows, lambda r: r.subsystem):
        if subsystem:
            table.add_row(_line(subsystem.upper(), 'bold'))
        for case, of_case in groupby(of_subsystem, lambda r: r.benchmark):
            metrics = list(of_case)
            alone = len(metrics) == 1 and len(case) <= _SHORT
            if not alone:
                table.add_row(_line(f'  {case}'))
            for row in metrics:
                *cells, word = _cells(row, alone, c.margin)
                style = 'bold red' if row.state == 'regressed' else _STYLES[row.verdict]
                table.add_row(*map(_line, cells), _line(word, style))
    return table


def _cells(row: Row, alone: bool, margin: float) -> list[str]:
    (one, two), unit = alike(row.unit, row.baseline, row.candidate)
    metric = f'{row.metric} / {row.against}' if row.against else row.metric
    one, two = (text + ('' if share is None else f' ± {percent(share)}') for text, share in (
        (f'{one} {unit}'.strip(), row.spread_baseline), (two, row.spread_candidate)))
    counts = {f'{row.sessions_baseline}: {row.n_baseline}': 1, f'{row.sessions_candidate}: {row.n_candidate}': 1}
    word = row.verdict + (f' (within {100 * margin:g} %)' if row.verdict == 'equivalent' else
                          ' (lower is better)' if row.better == 'lower' and row.verdict != 'undecided' else '')
    word += f' ({_label(row)})' if row.label else ''
    return [f'  {row.benchmark}: {metric}' if alone else f'    {metric}', one, two, ' + '.join(counts),
            number(row.ratio, pad=True), _limits(row).strip() or NOTHING,
            word + (f'; {row.expected}: {row.state}' if row.expected else '')]


def _left_out(row: Row) -> str:
    """Return the nights that were left out. A declared pair has its ratio with them; others share a line."""
    return row.with_left_out if row.expected else row.left_out


def _limits(of: Row | Mean) -> str:
    return '' if of.low is None else f' [{number(of.low, pad=True)}, {number(of.high, pad=True)}]'


def _footnotes(c: Comparison) -> list[str]:
    said = ['']
    noted = ((why, row) for row in c.rows for why in filter(None, (row.reason, *row.notes, _left_out(row))))
    for why, found in grouped(noted, itemgetter(0)).items():
        rows = [row for _, row in found]
        named = f'{rows[0].benchmark}: {rows[0].metric}' if len(rows) == 1 else \
            f'{counted(len(rows), "metric")} ({", ".join(dict.fromkeys(r.check for r in rows))})'
        said.append(f'{named}: {why}')
    if any(r.paired for r in c.rows):
        said.append('both sides were measured in the same sessions: the interval is of their differences in each')
    elif c.baseline.sessions and c.candidate.sessions and not {*c.baseline.sessions} & {*c.candidate.sessions}:
        said.append('the sides were measured at other times: what else changed between them is in the ratios, too')
    if intervals := sum(r.low is not None for r in c.rows):
        misses = round((1 - c.confidence) * intervals)
        said.append(f'each interval holds with {100 * c.confidence:.4g} % by itself, not all of them together'
                    + (f': of {intervals} about {misses} may miss' if misses else ''))
    return [*said, *(f'note: {n}' for n in c.notes)]
