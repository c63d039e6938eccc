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
from parity.judge.contract.look import Look, NodeLook
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
        stored = runs.get(clause.key(system), ())
        measured = evidence.alike(stored)
        known = nodes.get(clause.partition, ())
        verdict = of_clause(clause, measured, known, len(contract.clauses))
        if clause.id in lacking and verdict.word == 'open':
            reason = lacking[clause.id]
            verdict = replace(verdict, word='missing', further=None, reason=reason)
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
    first = rule.runs[0]
    nodes = []
    for name in names:
        node = _node(name, outcomes.get(name, ()))
        nodes.append(replace(node, target=first))
    verdict = ClauseVerdict(clause, measured=tuple(measured), nodes=tuple(nodes), first=first)
    if not nodes:
        return replace(verdict, further=first, reason='never measured')
    runs = min(len(node.values) for node in nodes)
    verdict = replace(verdict, runs=runs, further=first - runs)
    look = looks.of_clause(nodes, clause, rule)
    if look:
        verdict = _looked(verdict, look, rule)
    failed = [node for node in verdict.nodes if node.fails]
    if failed:
        others = [node for node in verdict.failing if not node.fails]
        verdict = replace(verdict, word='not met', further=None, failing=(*failed, *others))
    verdict = replace(verdict, nodes=_worst_first(verdict.nodes, clause))
    reason = _reason(verdict)
    failing = _worst_first(verdict.failing, clause)
    return replace(verdict, failing=failing, reason=reason)


def _names(clause: Clause, outcomes: Mapping[str, object], known: Sequence[str]) -> list[str]:
    """Return the nodes of a clause; one without a name for a job of several nodes, or of none."""
    if clause.is_together:
        return ['']
    if clause.nodes:
        return list(clause.nodes)
    names = {*known, *outcomes} - {''}
    return sorted(names) or [*outcomes]


def _node(name: str, outcomes: Sequence[Outcome]) -> NodeFigure:
    values = tuple(outcome.value for outcome in outcomes if not outcome.word)
    node = NodeFigure(name, values)
    if values:
        node = replace(node, value=median(values))
    for outcome in outcomes:
        if outcome.fails:
            value = node.value if outcome.value is None else outcome.value
            return replace(node, value=value, word=outcome.word, reason=outcome.reason)
    last = outcomes[-1] if outcomes else Outcome()
    return replace(node, word=last.word, reason=last.reason) if last.word else node


def _looked(verdict: ClauseVerdict, look: Look, rule: Rule) -> ClauseVerdict:
    """Return the verdict with the word and the limits of its nodes' looks."""
    clause = verdict.clause
    nodes = []
    failing: list[NodeFigure] = []
    for node, of_node in zip(verdict.nodes, look.nodes, strict=True):
        looked = _with_limits(node, of_node, clause)
        nodes.append(looked)
        # nodes of a clause that is met or open are not named: that would be one more word that may be wrong
        if look.word == 'not met' and of_node.is_named:
            failing.append(looked)
    low, high = _span(clause, look.low, look.high)
    value = looks.sign(clause) * look.value
    further = None
    if look.word == 'open' and look.is_complete:
        further = looks.further(look, rule)
    elif look.word == 'open':
        further = verdict.first - verdict.runs
    return replace(verdict, word=look.word, value=value, low=low, high=high, further=further,
                   nodes=tuple(nodes), failing=tuple(failing))


def _with_limits(node: NodeFigure, look: NodeLook, clause: Clause) -> NodeFigure:
    """Return a node with what a look at it shows. One that fails has the figure of the run that fails it."""
    looked = replace(node, looked=look.runs, target=look.target)
    if look.value is None:
        return looked
    low, high = _span(clause, look.low, look.high)
    value = node.value if node.fails else looks.sign(clause) * look.value
    return replace(looked, value=value, low=low, high=high)


def _span(clause: Clause, low: float, high: float) -> tuple[float, float]:
    """Return the figures at two places, the smaller one first."""
    sign = looks.sign(clause)
    ends = sorted([sign * low, sign * high])
    return ends[0], ends[1]


def _worst_first(nodes: Sequence[NodeFigure], clause: Clause) -> tuple[NodeFigure, ...]:
    """Return the nodes: those that fail, then by their figures, those without any last."""
    def order(node: NodeFigure) -> tuple[bool, float]:
        place = math.inf
        if node.value is not None:
            place = looks.sign(clause) * node.value
        return not node.fails, place

    return tuple(sorted(nodes, key=order))


def _reason(verdict: ClauseVerdict) -> str:
    """Return what a person needs to know beside the word, '' where the interval says it all."""
    failed = [node for node in verdict.failing if node.fails]
    if failed:
        first = failed[0]
        where = f'{first.name}: ' if first.name else ''
        return f'{where}{first.word}: {first.reason}'
    if verdict.word != 'open':
        return ''
    reasons = []
    if not verdict.looked:
        first_look = counted(verdict.first, 'run')
        reasons.append(f'{verdict.runs} of {first_look}')
    lacking = [node for node in verdict.nodes if node.word]
    if lacking:
        names = several([node.name for node in lacking if node.name])
        where = f'{names}: ' if names else ''
        reasons.append(f'{where}{lacking[0].word}: {lacking[0].reason}')
    if verdict.looked:
        reasons.append(_what_decides(verdict))
    return '; '.join(reasons)


def _what_decides(verdict: ClauseVerdict) -> str:
    """Return how many more runs of which nodes would decide an open clause."""
    if not verdict.further:
        return 'so near to the bound that no number of runs decides it soon'
    runs = counted(verdict.further, 'more run')
    waiting = [node.name for node in verdict.nodes if node.target and node.name]
    of_nodes = ''
    if len(waiting) > _NAMED:
        of_nodes = f' of each of {counted(len(waiting), "node")}'
    elif waiting:
        of_nodes = f' of {several(waiting)}'
    return f'{runs}{of_nodes} would decide it'
