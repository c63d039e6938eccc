"""A verdict as lines of text, in the order in which a person reads them at seven in the morning."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from parity.base.figures import duration, figure
from parity.base.text import columns, visible
from parity.verdict.model import WORDS, Row, Verdict, rows

STYLES = {'wrong': 'bold red', 'impossible': 'bold red', 'regressed': 'bold red', 'failed': 'bold yellow',
          'missing': 'bold yellow', 'insufficient': 'cyan', 'disturbed': 'yellow', 'unreferenced': 'cyan',
          'skipped': 'dim', 'improved': 'bold green', 'ok': 'green'}
#: Cells of a word that are listed without --all: none of those that need no action tonight, and few of those that
#: improved, since after an update all may be better.
LISTED = {'ok': 0, 'unreferenced': 0, 'insufficient': 0, 'improved': 10}
#: Changed facts that are listed; parity show lists all.
CHANGES = 4


def lines(verdict: Verdict, everything: bool = False) -> list[tuple[str, str]]:
    """Return (text, style) for each line; ``everything`` lists the cells that are in order, too."""
    said = [(_head(verdict), 'bold'), (_counts(verdict), ''), (verdict.trust, '')]
    said += [(f'warning: {w}', 'yellow') for w in verdict.warnings]
    table: dict[str, list[Row]] = {word: [] for word in WORDS}
    for row in rows(verdict.cells):
        table[row.word].append(row)
    for word, found in table.items():
        listed = found if everything else found[:LISTED.get(word)]
        for subsystem in sorted({row.cell.subsystem for row in listed}):
            said += [('', ''), (f'{word.upper()}  {subsystem}', STYLES[word])]
            own = [row for row in listed if row.cell.subsystem == subsystem]
            said += [(text, '') for text in _rows(own, everything)]
        if word == 'improved' and found[len(listed):]:
            said.append((f'  and {len(found) - len(listed)} more improved: parity verdict --all', ''))
    said += [*_pairs(verdict, everything), ('', ''), (f'next: {verdict.next}', '')]
    return [(visible(text), style) for text, style in said]  # nothing a job printed commands the terminal


def _pairs(v: Verdict, everything: bool) -> list[tuple[str, str]]:
    """One line of counts, and a row for each declared pair that is not ok."""
    if not v.pairs:
        return []
    counts = sorted(Counter(p.state for p in v.pairs).items())
    return [('', ''), ('PAIRS  ' + ' · '.join(f'{n} {state}' for state, n in counts), ''),
            *((f'  {p.candidate} / {p.baseline}   {p.benchmark}: {p.metric} {p.expected}   {p.state}: {p.why}',
               STYLES.get(p.state, '')) for p in v.pairs if everything or p.state != 'ok')]


def _head(v: Verdict) -> str:
    day, _, clock = v.session.start.partition('T')
    state = ' · interrupted' if v.session.interrupted else ''
    age = f' ({duration(v.session.age)} old)' if v.session.age >= 0 else ''
    return (f'{v.session.system} · {day} {clock[:5]}{age} · session {v.session.uuid[:8]}{state} · '
            f'{v.coverage.line} · {v.coverage.cells} cells')


def _counts(v: Verdict) -> str:
    known = Counter(c.verdict for c in v.cells if c.acknowledged)
    budget = sum(c.verdict == 'skipped' and c.reason.startswith('io_budget: ') for c in v.cells)
    beside = {'skipped': f' ({budget} beyond io_budget)' if budget else ''}
    beside |= {word: f' ({n} acknowledged)' for word, n in known.items()}
    return ' · '.join(f'{n} {word}{beside.get(word, "")}' for word, n in v.counts.items()) or 'no cell was planned'


def _rows(listed: list[Row], everything: bool) -> Iterator[str]:
    """Yield one row a cell. Cells that were skipped, disturbed or gave no figure for one reason share a row;
    ``everything`` tells the disturbed ones apart. Neighbours with one cause share its lines."""
    by_reason = ('skipped',) if everything else ('skipped', 'disturbed')
    groups: dict[tuple, list[Row]] = {}
    for row in listed:
        c = row.cell
        alike = (c.check,) if row.word in by_reason else (c.case, '' if c.value is None else c.metric)
        groups.setdefault((*alike, c.partition, c.environ, c.reason), []).append(row)
    causes = [c.cause.lines(CHANGES) if (c := group[0].cell).cause else [] for group in groups.values()]
    table = columns([_columns(group) for group in groups.values()], right=(2,))
    for line, told, following in zip(table, causes, [*causes[1:], []], strict=True):
        yield line
        if told != following:
            yield from (f'      {each}' for each in told)


def _columns(group: list[Row]) -> tuple[str, ...]:
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
        return f'{cells[0].check}: {len(cases)} cases, {len(cells)} metrics'
    common = os.path.commonprefix(sorted(metrics)).rpartition('_')[0]
    return f'{cells[0].case}: {len(metrics)} metrics' + (f' {common}_*' if common else '')
