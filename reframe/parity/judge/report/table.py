"""The table of a verdict's cells as lines of text: the worst word first, then by subsystem."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from parity.base.figures import counted, figure
from parity.base.text import columns
from parity.judge.verdict.model import STYLES, WORDS, CellText, Verdict, rows

#: Changed facts that are listed; parity show lists all.
CHANGES = 4


def table(verdict: Verdict, words: Iterable[str] = WORDS) -> list[tuple[str, str]]:
    """Return (text, style) for each line of the table of cells with these words; of all words, warnings and pairs,
    too."""
    everything = set(words) == set(WORDS)
    said = [('', ''), *((f'warning: {w}', 'yellow') for w in verdict.warnings)] if everything else []
    found = rows(verdict.cells)
    for word in (word for word in WORDS if word in words):
        for subsystem in sorted({row.cell.subsystem for row in found if row.word == word}):
            own = [row for row in found if row.word == word and row.cell.subsystem == subsystem]
            said += [('', ''), (f'{word.upper()}  {subsystem}', STYLES[word])]
            said += [(text, '') for text in _rows(own)]
    if everything and verdict.pairs:
        said += [('', ''), ('PAIRS', '')]
        said += [(f'  {p.candidate} / {p.baseline}   {p.benchmark}: {p.metric}{p.suffix} {p.expected}   '
                  f'{p.state}: {p.why}', STYLES.get(p.state, '')) for p in verdict.pairs]
    return said


def _rows(listed: list[CellText]) -> Iterator[str]:
    """Yield one row a cell. Cells that were skipped or gave no figure for one reason share a row. Neighbours with
    one cause share its lines."""
    groups: dict[tuple, list[CellText]] = {}
    for row in listed:
        c = row.cell
        alike = (c.check,) if row.word == 'skipped' else (c.case, '' if c.value is None else c.metric)
        groups.setdefault((*alike, c.partition, c.environ, c.reason), []).append(row)
    causes = [c.cause.lines(CHANGES) if (c := group[0].cell).cause else [] for group in groups.values()]
    table = columns([_columns(group) for group in groups.values()], right=(2,))
    for line, told, following in zip(table, causes, [*causes[1:], []], strict=True):
        yield line
        if told != following:
            yield from (f'      {each}' for each in told)


def _columns(group: list[CellText]) -> tuple[str, ...]:
    row, c = group[0], group[0].cell
    place = f'{c.partition}+{c.environ}' if c.environ else c.partition
    where = ' · '.join(filter(None, (place, *c.nodes[:3], c.virtualisation)))
    if len(group) > 1:
        return _several([r.cell for r in group]), where, '', '', row.reason
    limit = f'{100 * c.efficiency:.0f} % of {bound}' if (bound := row.bound) else ''
    low, high = ('' if end is None else figure(end) for end in (c.low, c.high))
    band = '' if c.reference is None else f'band {low} .. {high}'
    return row.title, where, row.figure, limit, '   '.join(filter(None, (band, row.reason)))


def _several(cells: list) -> str:
    cases, metrics = {c.case for c in cells}, {c.metric for c in cells}
    if len(cases) > 1:
        return f'{cells[0].check}: {counted(len(cases), "case")}, {counted(len(cells), "metric")}'
    common = os.path.commonprefix(sorted(metrics)).rpartition('_')[0]
    return f'{cells[0].case}: {counted(len(metrics), "metric")}' + (f' {common}_*' if common else '')
