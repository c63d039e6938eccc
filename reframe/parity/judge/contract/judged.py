"""The word of each clause: met, not met, open, or missing where it cannot be measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from parity.base.errors import INFRASTRUCTURE, MISSING, OK, REGRESSED
from parity.base.figures import counted, several
from parity.judge.contract import evidence
from parity.judge.contract.evidence import Measured, Outcome
from parity.judge.contract.look import Look, Scale, look_at
from parity.judge.contract.model import ClauseVerdict, NodeFigure
from parity.judge.stats import promise
from parity.site.contract import Clause, Contract


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
    values = [outcome.value for name in names for outcome in outcomes.get(name, ()) if not outcome.word]
    scale = Scale.of_clause(clause, values)
    nodes = [_node(name, outcomes.get(name, ()), scale) for name in names]
    verdict = ClauseVerdict(clause, measured=tuple(measured), nodes=tuple(nodes))
    if not nodes:
        return replace(verdict, further=clause.runs, reason='never measured')
    counted_runs = min(len(node.values) for node in nodes)
    verdict = replace(verdict, runs=counted_runs, further=clause.runs - counted_runs)
    last = _deciding(nodes, clause, scale, clauses)
    if last:
        verdict = _looked(verdict, last, scale)
    failed = [node for node in verdict.nodes if node.fails]
    if failed:
        failing = [*failed, *(node for node in verdict.failing if not node.fails)]
        verdict = replace(verdict, word='not met', further=None, failing=tuple(failing))
    verdict = replace(verdict, nodes=_worst_first(verdict.nodes, scale))
    return replace(verdict, failing=_worst_first(verdict.failing, scale), reason=_reason(verdict))


def _names(clause: Clause, outcomes: Mapping[str, object], known: Sequence[str]) -> list[str]:
    """Return the nodes of a clause; one without a name for a job of several nodes, or of none."""
    if clause.is_together:
        return ['']
    named = list(clause.nodes) or sorted({*known, *outcomes} - {''})
    return named or [*outcomes]


def _node(name: str, outcomes: Sequence[Outcome], scale: Scale) -> NodeFigure:
    values = tuple(outcome.value for outcome in outcomes if not outcome.word)
    node = NodeFigure(name, values)
    if values:
        mean = np.mean([scale.place(value) for value in values])
        node = replace(node, value=scale.value(float(mean)))
    failing = next((outcome for outcome in outcomes if outcome.fails), None)
    if failing:
        value = failing.value if failing.value is not None else node.value
        return replace(node, value=value, word=failing.word, reason=failing.reason)
    if outcomes and outcomes[-1].word:
        return replace(node, word=outcomes[-1].word, reason=outcomes[-1].reason)
    return node


def _deciding(nodes: Sequence[NodeFigure], clause: Clause, scale: Scale, clauses: int) -> Look | None:
    """Return the first look that decides: later runs change no word. Else the last one that every node has."""
    last = None
    for number in range(promise.LOOKS):
        look = look_at(nodes, clause, scale, number, clauses)
        if look is None:
            break
        if look.word != 'open':
            return look
        if look.complete or last is None:
            last = look
    return last


def _looked(verdict: ClauseVerdict, look: Look, scale: Scale) -> ClauseVerdict:
    """Return the verdict with the word and the limits of a look."""
    nodes = []
    for place, node in enumerate(verdict.nodes):
        if math.isfinite(look.lows[place]):
            low, high = scale.span(look.lows[place], look.highs[place])
            node = replace(node, low=low, high=high)
        nodes.append(node)
    failing: list[NodeFigure] = []
    # nodes of a clause that is met or open are not named: that would be one more word that may be wrong
    if look.word == 'not met':
        failing = [node for node, is_bad in zip(nodes, look.surely_bad, strict=True) if is_bad]
    is_over = look.complete or look.word != 'open'
    low, high = scale.span(look.low, look.high)
    verdict = replace(verdict, word=look.word, value=scale.value(look.value), low=low, high=high)
    verdict = replace(verdict, looked=look.count if is_over else 0, further=_further(verdict, look))
    return replace(verdict, nodes=tuple(nodes), failing=tuple(failing))


def _further(verdict: ClauseVerdict, look: Look) -> int | None:
    """Return the runs of each node that would decide an open clause; None where that is not known."""
    if look.word != 'open':
        return None
    if not look.complete:
        return look.count - verdict.runs
    if look.decides is None:
        return None
    return max(1, promise.runs_of_look(look.decides, verdict.clause.runs) - verdict.runs)


def _worst_first(nodes: Sequence[NodeFigure], scale: Scale) -> tuple[NodeFigure, ...]:
    """Return the nodes: those that fail, then by their figures, those without any last."""
    def order(node: NodeFigure) -> tuple[bool, float]:
        if node.value is None:
            return not node.fails, math.inf
        if scale.is_log and node.value <= 0:
            return not node.fails, -math.inf
        return not node.fails, scale.place(node.value)
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
        reasons.append(f'{verdict.runs} of {counted(verdict.clause.runs, "run")}')
    lacking = [node for node in verdict.nodes if node.word]
    if lacking:
        names = several([node.name for node in lacking if node.name])
        first = lacking[0]
        reasons.append(f'{names + ": " if names else ""}{first.word}: {first.reason}')
    if verdict.looked:
        more = f'{counted(verdict.further, "more run")} would decide it' if verdict.further else \
            'so near to the bound that no number of runs decides it soon'
        reasons.append(more)
    return '; '.join(reasons)
