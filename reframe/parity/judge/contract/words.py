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
        reasons = [_fails(verdict), verdict.reason]
        why = '; '.join(filter(None, reasons))
        text = f'{line}   {brief(why, 300)}'
        yield text.rstrip(), _STYLES[verdict.word]
    following, page = 'report', ' --page FILE.html'
    if any(verdict.word == 'open' for verdict in verdicts):
        following, page = 'run', ''
    yield f'next: parity contract {following} --system {system}{page}'


def answer(system: str, contract: Contract, verdicts: Sequence[ClauseVerdict]) -> str:
    """Return the first sentence: how many clauses have each word."""
    title = system
    if contract.offer:
        offer = brief(contract.offer, 100)
        title = f'{system}, {offer}'
    counts = Counter(verdict.word for verdict in verdicts)
    words = [f'{counts[word]} {word}' for word in WORDS if counts[word]]
    clauses = counted(len(verdicts), 'clause')
    return f'{title}: {clauses}: {", ".join(words)}'


def promised(clause: Clause) -> str:
    """Return the bound and where it holds: 'at least 14 GB/s of each node'."""
    side = 'at most' if clause.at_least is None else 'at least'
    bound = figure(clause.bound, clause.unit)
    where = 'the median node' if clause.holds == MEDIAN else clause.holds
    return f'{side} {bound} of {where}'


def measured(verdict: ClauseVerdict) -> str:
    """Return the figure with its interval: '14.6 [14.3, 14.9] GB/s'."""
    return with_interval(verdict.value, verdict.low, verdict.high, verdict.clause.unit)


def with_interval(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    """Return a figure with its interval, as far as both are known; an end that is not known is a dash."""
    if value is None:
        return NOTHING
    if low is None or high is None:
        return figure(value, unit)
    texts, shown_unit = alike(unit, value, _finite(low), _finite(high))
    text, lowest, highest = texts
    return f'{text} [{lowest}, {highest}] {shown_unit}'.strip()


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None


def extent(verdict: ClauseVerdict) -> str:
    """Return how much was measured: '4 nodes, 5 runs', or '4 nodes, 5 to 20 runs' where some needed more."""
    fewest = verdict.looked or verdict.runs
    most = verdict.most_looked
    runs = counted(fewest, 'run')
    if verdict.looked < most:
        runs = f'{fewest} to {most} runs'
    if verdict.clause.is_together:
        return runs
    nodes = counted(len(verdict.nodes), 'node')
    return f'{nodes}, {runs}'


def of_node(node: NodeFigure, unit: str) -> str:
    """Return a node with its figure: 'p3 9.9 GB/s'."""
    shown = node.word if node.value is None else figure(node.value, unit)
    return f'{node.name} {shown}'.strip()


def _fails(verdict: ClauseVerdict) -> str:
    """Return the nodes that break the promise, the worst first."""
    failing = verdict.failing
    if verdict.clause.is_together or not failing:
        return ''
    worst = [of_node(node, verdict.clause.unit) for node in failing[:_NAMED]]
    text = f'fails: {", ".join(worst)}'
    rest = len(failing) - _NAMED
    if rest > 0:
        text += f' and {number(rest)} more'
    return text
