"""The word of each clause: met, not met, open, or missing where it cannot be measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from parity.base.errors import INFRASTRUCTURE, MISSING, OK, REGRESSED
from parity.base.figures import counted, several
from parity.judge.contract import evidence
from parity.judge.contract import look as looks
from parity.judge.contract.evidence import Measured, Outcome
from parity.judge.contract.look import Look
from parity.judge.contract.model import ClauseVerdict, NodeFigure
from parity.judge.stats import promise
from parity.judge.stats.promise import Rule
from parity.site.contract import Clause, Contract

#: Nodes that a reason names.
_NAMED = 3


def of_contract(system: str, contract: Contract, runs: Mapping[str, Sequence[Measured]],
                nodes: Mapping[str, Sequence[str]], lacking: Mapping[str, str]) -> list[ClauseVerdict]:
    """Return how each clause stands.

    ``runs``: the stored ones, by key. ``nodes``: of each partition, as its scheduler lists them. ``lacking``: by
    clause, why nothing can run it."""
    verdicts = []
    for clause in contract.clauses:
        measured = evidence.alike(runs.get(clause.key(system), ()))
        verdict = of_clause(clause, measured, nodes.get(clause.partition, ()), len(contract.clauses))
        if clause.id in lacking and verdict.word == 'open':
            verdict = replace(verdict, word='missing', further=None, reason=lacking[clause.id])
        verdicts.append(verdict)
    return verdicts


def exit_code(verdicts: Sequence[ClauseVerdict]) -> int:
    """Return 1 if a clause is not met. Else return 4 if a node of an open one failed, 3 if one is open or missing,
    and 0 if all are met."""
    words = {verdict.word for verdict in verdicts}
    if 'not met' in words:
        return REGRESSED
    for verdict in verdicts:
        if verdict.word == 'open' and any(node.word == 'failed' for node in verdict.nodes):
            return INFRASTRUCTURE
    return OK if words == {'met'} else MISSING


def of_clause(clause: Clause, measured: Sequence[Measured], known: Sequence[str], clauses: int) -> ClauseVerdict:
    """Return how a clause of so many ``clauses`` stands. ``known``: the nodes of its partition."""
    outcomes = evidence.by_node(measured, clause)
    names = _names(clause, outcomes, known)
    rule = promise.rule(max(1, len(names)), clause.share, clause.runs, clauses)
    nodes = [_node(name, outcomes.get(name, ())) for name in names]
    nodes = [replace(node, target=rule.runs[0]) for node in nodes]
    verdict = ClauseVerdict(clause, measured=tuple(measured), nodes=tuple(nodes), first=rule.runs[0])
    if not nodes:
        return replace(verdict, further=rule.runs[0], reason='never measured')
    counted_runs = min(len(node.values) for node in nodes)
    verdict = replace(verdict, runs=counted_runs, further=rule.runs[0] - counted_runs)
    look = looks.of_clause(nodes, clause, rule)
    if look:
        verdict = _looked(verdict, look, rule)
    failed = [node for node in verdict.nodes if node.fails]
    if failed:
        failing = [*failed, *(node for node in verdict.failing if not node.fails)]
        verdict = replace(verdict, word='not met', further=None, failing=tuple(failing))
    verdict = replace(verdict, nodes=_worst_first(verdict.nodes, clause))
    return replace(verdict, failing=_worst_first(verdict.failing, clause), reason=_reason(verdict))


def _names(clause: Clause, outcomes: Mapping[str, object], known: Sequence[str]) -> list[str]:
    """Return the nodes of a clause; one without a name for a job of several nodes, or of none."""
    if clause.is_together:
        return ['']
    named = list(clause.nodes) or sorted({*known, *outcomes} - {''})
    return named or [*outcomes]


def _node(name: str, outcomes: Sequence[Outcome]) -> NodeFigure:
    values = tuple(outcome.value for outcome in outcomes if not outcome.word)
    node = NodeFigure(name, values)
    if values:
        node = replace(node, value=median(values))
    failing = next((outcome for outcome in outcomes if outcome.fails), None)
    if failing:
        value = failing.value if failing.value is not None else node.value
        return replace(node, value=value, word=failing.word, reason=failing.reason)
    if outcomes and outcomes[-1].word:
        return replace(node, word=outcomes[-1].word, reason=outcomes[-1].reason)
    return node


def _looked(verdict: ClauseVerdict, look: Look, rule: Rule) -> ClauseVerdict:
    """Return the verdict with the word and the limits of its nodes' looks."""
    clause = verdict.clause
    nodes = []
    failing: list[NodeFigure] = []
    for node, of_node in zip(verdict.nodes, look.nodes, strict=True):
        node = replace(node, looked=of_node.runs, target=of_node.target)
        if of_node.value is not None:
            low, high = _span(clause, of_node.low, of_node.high)
            value = node.value if node.fails else looks.sign(clause) * of_node.value
            node = replace(node, value=value, low=low, high=high)
        nodes.append(node)
        # nodes of a clause that is met or open are not named: that would be one more word that may be wrong
        if look.word == 'not met' and of_node.is_named:
            failing.append(node)
    low, high = _span(clause, look.low, look.high)
    further = None
    if look.word == 'open':
        further = looks.further(look, rule) if look.is_complete else rule.runs[0] - verdict.runs
    return replace(verdict, word=look.word, value=looks.sign(clause) * look.value, low=low, high=high,
                   further=further, nodes=tuple(nodes), failing=tuple(failing))


def _span(clause: Clause, low: float, high: float) -> tuple[float, float]:
    """Return the figures at two places, the smaller one first."""
    ends = looks.sign(clause) * low, looks.sign(clause) * high
    return min(ends), max(ends)


def _worst_first(nodes: Sequence[NodeFigure], clause: Clause) -> tuple[NodeFigure, ...]:
    """Return the nodes: those that fail, then by their figures, those without any last."""
    def order(node: NodeFigure) -> tuple[bool, float]:
        place = math.inf if node.value is None else looks.sign(clause) * node.value
        return not node.fails, place
    return tuple(sorted(nodes, key=order))


def _reason(verdict: ClauseVerdict) -> str:
    """Return what a person needs to know beside the word, '' where the interval says it all."""
    failed = [node for node in verdict.failing if node.fails]
    if failed:
        where = f'{failed[0].name}: ' if failed[0].name else ''
        return f'{where}{failed[0].word}: {failed[0].reason}'
    if verdict.word != 'open':
        return ''
    reasons = []
    if not verdict.looked:
        reasons.append(f'{verdict.runs} of {counted(verdict.first, "run")}')
    lacking = [node for node in verdict.nodes if node.word]
    if lacking:
        names = several([node.name for node in lacking if node.name])
        first = lacking[0]
        reasons.append(f'{names + ": " if names else ""}{first.word}: {first.reason}')
    if verdict.looked:
        reasons.append(_what_decides(verdict))
    return '; '.join(reasons)


def _what_decides(verdict: ClauseVerdict) -> str:
    """Return how many more runs of which nodes would decide an open clause."""
    if not verdict.further:
        return 'so near to the bound that no number of runs decides it soon'
    runs = counted(verdict.further, 'more run')
    waiting = [node.name for node in verdict.nodes if node.target and node.name]
    if len(waiting) > _NAMED:
        return f'{runs} of each of {counted(len(waiting), "node")} would decide it'
    return f'{runs}{" of " + several(waiting) if waiting else ""} would decide it'
