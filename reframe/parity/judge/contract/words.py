"""A contract as the terminal prints it: one line a clause."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from parity.base.console import Line
from parity.base.figures import NOTHING, alike, counted, figure, number
from parity.base.text import brief, columns
from parity.judge.contract.model import WORDS, ClauseVerdict, NodeFigure
from parity.site.contract import MEDIAN, Clause, Contract

_STYLES = {'not met': 'bold red', 'open': 'yellow', 'missing': 'bold yellow', 'met': 'green'}
#: Nodes that a line names.
_NAMED = 3


def status(system: str, contract: Contract, verdicts: Sequence[ClauseVerdict]) -> Iterator[Line]:
    """Yield the answer, a line for each clause, and the next command."""
    yield answer(system, contract, verdicts), 'bold'
    rows = []
    for verdict in verdicts:
        clause = verdict.clause
        rows.append([verdict.word, clause.id, measured(verdict), promised(clause), extent(verdict)])
    for verdict, line in zip(verdicts, columns(rows), strict=True):
        why = '; '.join(filter(None, (_fails(verdict), verdict.reason)))
        yield f'{line}   {brief(why, 300)}'.rstrip(), _STYLES[verdict.word]
    words = {verdict.word for verdict in verdicts}
    following = 'run' if 'open' in words else 'report'
    page = '' if 'open' in words else ' --page FILE.html'
    yield f'next: parity contract {following} --system {system}{page}'


def answer(system: str, contract: Contract, verdicts: Sequence[ClauseVerdict]) -> str:
    """Return the first sentence: how many clauses have each word."""
    counts = Counter(verdict.word for verdict in verdicts)
    words = [f'{counts[word]} {word}' for word in WORDS if counts[word]]
    title = f'{system}, {brief(contract.offer, 100)}' if contract.offer else system
    return f'{title}: {counted(len(verdicts), "clause")}: {", ".join(words)}'


def promised(clause: Clause) -> str:
    """Return the bound and where it holds: 'at least 14 GB/s of each node'."""
    word = 'at least' if clause.at_least is not None else 'at most'
    where = 'the median node' if clause.holds == MEDIAN else clause.holds
    return f'{word} {figure(clause.bound, clause.unit)} of {where}'


def measured(verdict: ClauseVerdict) -> str:
    """Return the figure with its interval: '14.6 [14.3, 14.9] GB/s'."""
    return with_interval(verdict.value, verdict.low, verdict.high, verdict.clause.unit)


def with_interval(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    """Return a figure with its interval, as far as both are known; an end that is not known is a dash."""
    if value is None:
        return NOTHING
    if low is None or high is None:
        return figure(value, unit)
    (text, *ends), shown = alike(unit, value, *map(_finite, (low, high)))
    return f'{text} [{ends[0]}, {ends[1]}] {shown}'.strip()


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None


def extent(verdict: ClauseVerdict) -> str:
    """Return how much was measured: '4 nodes, 5 runs', or '4 nodes, 5 to 20 runs' where some needed more."""
    runs = counted(verdict.looked or verdict.runs, 'run')
    if verdict.looked < verdict.most_looked:
        runs = f'{verdict.looked or verdict.runs} to {verdict.most_looked} runs'
    if verdict.clause.is_together:
        return runs
    return f'{counted(len(verdict.nodes), "node")}, {runs}'


def of_node(node: NodeFigure, unit: str) -> str:
    """Return a node with its figure: 'p3 9.9 GB/s'."""
    shown = node.word if node.value is None else figure(node.value, unit)
    return f'{node.name} {shown}'.strip()


def _fails(verdict: ClauseVerdict) -> str:
    """Return the nodes that break the promise, the worst first."""
    if verdict.clause.is_together or not verdict.failing:
        return ''
    named = ', '.join(of_node(node, verdict.clause.unit) for node in verdict.failing[:_NAMED])
    rest = len(verdict.failing) - _NAMED
    return f'fails: {named}' + (f' and {number(rest)} more' if rest > 0 else '')
