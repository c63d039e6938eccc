"""The table of a verdict's cells as lines of text: the worst word first, then by subsystem."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

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
    groups = grouped(rows(incidents.agreeing(verdict)), lambda row: (row.word, row.cell.subsystem))
    in_order = [group for group in groups if group[0] in words]
    for word, subsystem in sorted(in_order, key=lambda group: (WORDS.index(group[0]), group[1])):
        lines += [('', ''), (f'{word.upper()}  {subsystem}', STYLES[word])]
        lines += [(text, '') for text in _rows(groups[word, subsystem])]
    if everything and verdict.pairs:
        lines += [('', ''), ('PAIRS', '')]
        lines += [(_pair(pair), STYLES.get(pair.state, '')) for pair in verdict.pairs]
    return lines


def _pair(pair: PairState) -> str:
    sides = f'{pair.candidate} / {pair.baseline}'
    figure = f'{pair.benchmark}: {pair.metric}{pair.suffix}'
    return f'  {sides}   {figure} {pair.expected}   {pair.state}: {pair.why}'


def _rows(listed: list[CellText]) -> Iterator[str]:
    """Yield one row a cell. Cells that were skipped or gave no figure for one reason share a row. Neighbours with
    one cause share its lines."""
    groups = list(grouped(listed, _alike).values())
    causes = [_cause(group[0].cell) for group in groups]
    table = columns([_columns(group) for group in groups], right=(2,))
    for line, cause, following in zip(table, causes, [*causes[1:], []], strict=True):
        yield line
        if cause != following:
            yield from (f'      {text}' for text in cause)


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
    row, cell = group[0], group[0].cell
    place = f'{cell.partition}+{cell.environ}' if cell.environ else cell.partition
    where = ' · '.join(filter(None, (place, *cell.nodes[:3], cell.virtualisation)))
    if len(group) > 1:
        return _several([row.cell for row in group]), where, '', '', row.reason
    limit = f'{100 * cell.efficiency:.0f} % of {row.bound}' if row.bound else ''
    reasons = [_band(cell), row.reason]
    return row.title, where, row.figure, limit, '   '.join(filter(None, reasons))


def _band(cell: Cell) -> str:
    if cell.reference is None:
        return ''
    low = '' if cell.low is None else figure(cell.low)
    high = '' if cell.high is None else figure(cell.high)
    return f'band {low} .. {high}'


def _several(cells: list[Cell]) -> str:
    cases = {cell.case for cell in cells}
    metrics = {cell.metric for cell in cells}
    if len(cases) > 1:
        return f'{cells[0].check}: {counted(len(cases), "case")}, {counted(len(cells), "metric")}'
    text = f'{cells[0].case}: {counted(len(metrics), "metric")}'
    common = os.path.commonprefix(sorted(metrics)).rpartition('_')[0]
    return f'{text} {common}_*' if common else text
