"""A view as lines of text, in the order of the questions that a person asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parity.base import figures
from parity.base.text import visible
from parity.report.inspect.view import View
from parity.verdict.model import Cell
from parity.verdict.terminal import STYLES

Line = tuple[str, str]               # text and style


def lines(view: View) -> list[Line]:
    """(text, style) a line; nothing that a job printed commands the terminal."""
    cell = view.cell
    said: list[Line] = [(view.name, 'bold'), (_head(view), STYLES[cell.verdict])]
    said += [(f'{label:8} {text}', '') for label, text in _facts(view) if text]
    for file, tail in view.output.items():
        said += [('', ''), (f'{file}, its end:', '')] + [(f'  {line}', 'dim') for line in tail]
    if view.rerun:
        said += [('', ''), (f'rerun: {view.rerun}', '')]
    return [(visible(text), style) for text, style in said]


def _head(view: View) -> str:
    cell = view.cell
    value = '' if cell.value is None else figures.figure(cell.value, cell.unit)
    return '   '.join(filter(None, (cell.verdict.upper(), value, cell.reason)))


def _facts(view: View) -> Iterable[tuple[str, str]]:
    cell, cause = view.cell, view.attribution
    day, _, clock = view.start.partition('T')
    yield 'session', f'{view.session[:8]} · {day} {clock[:5]} · size {cell.size}'
    yield 'band', _band(cell)
    yield 'limit', _limit(cell)
    yield 'nights', _nights(view)
    yield 'runs', _runs(view)
    yield 'nodes', ' · '.join(filter(None, (*cell.nodes, cell.virtualisation,
                                            f'job {cell.jobid}' if cell.jobid else '')))
    yield 'output', ' · '.join(filter(None, (cell.outputdir, view.output_note)))
    if cell.verdict == 'regressed':
        yield 'where', str(cause.where)
        yield 'part', str(cause.subsystem)
        yield '', ', '.join(name for name in cause.subsystem.cells if name != view.name)
    for i, change in enumerate(cause.changes):
        yield '' if i else 'changed', str(change)


def _band(cell: Cell) -> str:
    if cell.value is None or cell.reference is None:
        return ''
    band = figures.band(cell.low, cell.high, cell.unit)
    better = 'lower is better' if cell.better == 'lower' else ''
    return '   '.join(filter(None, (band, bar(cell.value, cell.low, cell.high, cell.reference), better)))


def _limit(cell: Cell) -> str:
    if cell.limit is None or cell.efficiency is None:
        return ''
    kind = 'limit' if cell.limit_certain else 'ceiling'
    bound = figures.figure(cell.limit, cell.unit)
    return f'{figures.percent(cell.efficiency)} of the {kind} {bound} ({cell.limit_source})'


def _nights(view: View) -> str:
    if not view.nights:
        return 'no figure is stored'
    values = [night.value for night in view.nights]
    spark = sparkline(values, view.cell.low, view.cell.high)
    first, last = view.nights[0].night[:10], view.nights[-1].night[:10]
    if len(values) == 1:
        return f'only {first}'
    count = sum(night.disturbed for night in view.nights)
    disturbed = f', {count} of them disturbed' if count else ''
    band = figures.band(min(values), max(values), view.cell.unit)
    return f'{spark}   {band}   {len(values)}, {first} .. {last}{disturbed}'


def _runs(view: View) -> str:
    """The single runs of this session where there are several, and its reruns with their nodes."""
    tonight = view.nights[-1] if view.nights and view.nights[-1].session == view.session else None
    if tonight is None or len(tonight.runs) + len(tonight.reruns) < 2:
        return ''
    texts, unit = figures.alike(view.cell.unit, *tonight.runs, *(value for value, _ in tonight.reruns))
    again = [f'{text} on {node}' if node else text
             for text, (_, node) in zip(texts[len(tonight.runs):], tonight.reruns, strict=True)]
    return ' '.join((*texts[:len(tonight.runs)], unit)).strip() + (f'; again: {", ".join(again)}' if again else '')


BLOCKS = '▁▂▃▄▅▆▇█'
_WIDTH = 40
#: Nights that differ by less than this share of their height are drawn level: noise is no landscape.
_LEVEL = 0.05


def bar(value: float, low: float | None, high: float | None, reference: float | None) -> str:
    """The band as ├──┼──┤ (open where a bound is missing), the value as ●, to one scale."""
    known = [x for x in (low, reference, high) if x is not None]
    if not known:
        return ''
    first, last = min(*known, value), max(*known, value)
    if first == last:
        return ''

    def place(x: float) -> int:
        return round((x - first) / (last - first) * (_WIDTH - 1))

    begin, end = place(first if low is None else low), place(last if high is None else high)
    line = [('─' if begin <= i <= end else ' ') for i in range(_WIDTH)]
    for x, mark in ((low, '├'), (high, '┤'), (reference, '┼'), (value, '●')):
        if x is not None:
            line[place(x)] = mark
    return ''.join(line).rstrip()


def sparkline(values: Sequence[float], *also: float | None) -> str:
    """One block a value, oldest first; ``also``: bounds that the scale takes in, too."""
    if not values:
        return ''
    known = [*values, *(x for x in also if x is not None)]
    first, last = min(known), max(known)
    room = _LEVEL * max(abs(first), abs(last))
    if last - first < room:
        first, last = first - room / 2, last + room / 2
    if first == last:
        return BLOCKS[3] * len(values)
    return ''.join(BLOCKS[round((v - first) / (last - first) * (len(BLOCKS) - 1))] for v in values)
