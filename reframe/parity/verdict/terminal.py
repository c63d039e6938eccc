"""A verdict as lines of text, in the order in which a person reads them at seven in the morning."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from parity.base.figures import duration, figure
from parity.base.text import visible
from parity.verdict.model import WORDS, Cell, Verdict

STYLES = {'wrong': 'bold red', 'impossible': 'bold red', 'regressed': 'bold red', 'failed': 'bold yellow',
          'missing': 'bold yellow', 'insufficient': 'cyan', 'disturbed': 'yellow', 'unreferenced': 'cyan',
          'skipped': 'dim', 'improved': 'bold green', 'ok': 'green'}
#: Words whose cells are listed only with --all: counted, but nothing to act on tonight.
QUIET = ('ok', 'unreferenced', 'insufficient')
#: So many improved cells are listed: after an update all of a system may be better.
IMPROVED = 10
#: So many of the facts that changed are told; parity show tells all.
CHANGES = 4


def lines(verdict: Verdict, everything: bool = False) -> list[tuple[str, str]]:
    """(text, style) a line; ``everything`` lists the cells that are in order, too."""
    said = [(_head(verdict), 'bold'), (_counts(verdict), ''), (verdict.trust, '')]
    said += [(f'warning: {w}', 'yellow') for w in verdict.warnings]
    for word in WORDS:
        cells = [c for c in verdict.cells if c.verdict == word and (everything or word not in QUIET)]
        rest = cells[IMPROVED:] if word == 'improved' and not everything else []
        cells = cells[:len(cells) - len(rest)]
        for subsystem in sorted({c.subsystem for c in cells}):
            said += [('', ''), (f'{word.upper()}  {subsystem}', STYLES[word])]
            said += [(text, '') for text in _rows([c for c in cells if c.subsystem == subsystem], everything)]
        said += [(f'  and {len(rest)} more improved: parity verdict --all', '')] if rest else []
    said += _pairs(verdict, everything)
    said += [('', ''), (f'next: {verdict.next}', '')]
    return [(visible(text), style) for text, style in said]  # nothing a job printed commands the terminal


def _pairs(v: Verdict, everything: bool) -> list[tuple[str, str]]:
    """How the declared pairs stand: one line of counts, and a row for what is not ok."""
    if not v.pairs:
        return []
    counts = Counter(p.state for p in v.pairs)
    said = [('', ''), ('PAIRS  ' + ' · '.join(f'{n} {state}' for state, n in sorted(counts.items())), '')]
    listed = [p for p in v.pairs if everything or p.state != 'ok']
    return said + [(f'  {p.candidate} / {p.baseline}   {p.benchmark}: {p.metric} {p.expected}   '
                    f'{p.state}: {p.why}', STYLES.get(p.state, '')) for p in listed]


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


def _rows(cells: list[Cell], everything: bool = False) -> Iterable[str]:
    """One row a cell; but what was skipped, disturbed or gave no figure for one reason is one row. ``everything``:
    what was disturbed is told one by one."""
    groups = _grouped(cells, ('skipped',) if everything else ('skipped', 'disturbed'))
    table = [_columns(group) for group in groups]
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    causes = [_cause(group[0]) for group in groups]
    for row, told, following in zip(table, causes, [*causes[1:], []], strict=True):
        fixed = '   '.join(text.rjust(w) if i == 2 else text.ljust(w)
                           for i, (text, w) in enumerate(zip(row[:4], widths, strict=True)))
        yield f'  {fixed}   {row[4]}'.rstrip()
        if told != following:
            yield from (f'      {line}' for line in told)


def _cause(cell: Cell) -> list[str]:
    """What is known of a slower figure; rows that follow one another with the same cause are told it once."""
    return cell.cause.lines(CHANGES) if cell.cause else []


def _grouped(cells: list[Cell], by_reason: tuple[str, ...]) -> list[list[Cell]]:
    groups: dict[tuple, list[Cell]] = {}
    for c in cells:
        if c.verdict in by_reason:
            key = (c.check, c.partition, c.environ, c.reason)
        else:
            key = (c.case, c.partition, c.environ, c.reason, c.metric if c.value is not None else '')
        groups.setdefault(key, []).append(c)
    return list(groups.values())


def _columns(group: list[Cell]) -> tuple[str, str, str, str, str]:
    c = group[0]
    place = f'{c.partition}+{c.environ}' if c.environ else c.partition
    where = ' · '.join(filter(None, (place, *c.nodes[:3], c.virtualisation)))
    if len(group) > 1:
        return _several(group), where, '', '', c.reason
    value = '' if c.value is None else figure(c.value, c.unit)
    return f'{c.case}: {c.metric}', where, value, _limit(c), '   '.join(filter(None, (_band(c), c.reason)))


def _several(group: list[Cell]) -> str:
    cases, metrics = {c.case for c in group}, {c.metric for c in group}
    if len(cases) > 1:
        return f'{group[0].check}: {len(cases)} cases, {len(group)} metrics'
    common = os.path.commonprefix(sorted(metrics)).rpartition('_')[0]
    return f'{group[0].case}: {len(metrics)} metrics' + (f' {common}_*' if common else '')


def _limit(c: Cell) -> str:
    if c.efficiency is None:
        return ''
    return f'{100 * c.efficiency:.0f} % of {"limit" if c.limit_certain else "ceiling"} {figure(c.limit, c.unit)}'


def _band(c: Cell) -> str:
    if c.reference is None:
        return ''
    low = '' if c.low is None else figure(c.low, '')
    high = '' if c.high is None else figure(c.high, '')
    return f'band {low} .. {high}'
