"""The table of a verdict's cells as lines of text: the worst word first, then by subsystem."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from operator import attrgetter

from parity.base.figures import counted, figure
from parity.base.groups import grouped
from parity.base.text import columns
from parity.judge.compare.pairs import PairState
from parity.judge.report import incidents
from parity.judge.verdict.model import STYLES, WORDS, Cell, CellText, Verdict, rows

#: Changed facts that are listed; parity show lists all.
CHANGES = 4


def table(verdict: Verdict, words: Iterable[str] = WORDS) -> list[tuple[str, str]]:
    """Return (text, style) for each line of the table of cells with these words; of all words, warnings and pairs,
    too."""
    everything = set(words) == set(WORDS)
    lines = []
    if everything:
        lines.append(('', ''))
        lines += [(f'warning: {warning}', 'yellow') for warning in verdict.warnings]
    shown = [row for row in rows(incidents.agreeing(verdict)) if row.word in words]
    groups = grouped(shown, attrgetter('word', 'cell.subsystem'))

    def order(group: tuple[str, str]) -> tuple[int, str]:
        word, subsystem = group
        return WORDS.index(word), subsystem

    for word, subsystem in sorted(groups, key=order):
        lines += [('', ''), (f'{word.upper()}  {subsystem}', STYLES[word])]
        lines += [(text, '') for text in _rows(groups[word, subsystem])]
    if everything and verdict.pairs:
        lines += [('', ''), ('PAIRS', '')]
        lines += [(_pair(pair), STYLES.get(pair.state, '')) for pair in verdict.pairs]
    return lines


def _pair(pair: PairState) -> str:
    sides = f'{pair.candidate} / {pair.baseline}'
    figure = f'{pair.benchmark}: {pair.metric}{pair.suffix}'
    result = f'{pair.state}: {pair.why}'
    return f'  {sides}   {figure} {pair.expected}   {result}'


def _rows(listed: list[CellText]) -> Iterator[str]:
    """Yield one row a cell. Cells that were skipped or gave no figure for one reason share a row. Neighbours with
    one cause share its lines."""
    groups = list(grouped(listed, _alike).values())
    table = columns([_columns(group) for group in groups], right=(2,))
    causes = [_cause(group[0].cell) for group in groups]
    following_causes = [*causes[1:], []]
    for line, cause, following in zip(table, causes, following_causes, strict=True):
        yield line
        if cause == following:
            continue
        for text in cause:
            yield f'      {text}'


def _alike(row: CellText) -> tuple:
    """Return what rows that share a line have in common."""
    cell = row.cell
    place = cell.partition, cell.environ, cell.reason
    if row.word == 'skipped':
        return cell.check, *place
    metric = '' if cell.value is None else cell.metric
    return cell.case, metric, *place


def _cause(cell: Cell) -> list[str]:
    return cell.cause.lines(CHANGES) if cell.cause else []


def _columns(group: list[CellText]) -> tuple[str, ...]:
    """Return case and metric, place, figure, share of the limit, and reason. Several cells have no figure."""
    row = group[0]
    cell = row.cell
    place = f'{cell.partition}+{cell.environ}' if cell.environ else cell.partition
    parts = [place, *cell.nodes[:3], cell.virtualisation]
    where = ' · '.join(filter(None, parts))
    if len(group) > 1:
        return _several(group), where, '', '', row.reason
    share = ''
    if row.bound:
        share = f'{100 * cell.efficiency:.0f} % of {row.bound}'
    reasons = [_band(cell), row.reason]
    reason = '   '.join(filter(None, reasons))
    return row.title, where, row.figure, share, reason


def _band(cell: Cell) -> str:
    if cell.reference is None:
        return ''
    low = '' if cell.low is None else figure(cell.low)
    high = '' if cell.high is None else figure(cell.high)
    return f'band {low} .. {high}'


def _several(group: list[CellText]) -> str:
    first = group[0].cell
    cases = {row.cell.case for row in group}
    if len(cases) > 1:
        count = counted(len(cases), 'case')
        figures = counted(len(group), 'metric')
        return f'{first.check}: {count}, {figures}'
    metrics = sorted({row.cell.metric for row in group})
    count = counted(len(metrics), 'metric')
    prefix = os.path.commonprefix(metrics)
    common, _, _ = prefix.rpartition('_')
    if common:
        count += f' {common}_*'
    return f'{first.case}: {count}'
