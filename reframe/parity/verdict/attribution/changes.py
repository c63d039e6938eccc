"""What differs between the last good night and the bad one, and since when: facts, no guesses."""

from __future__ import annotations

from parity.records.record import Session
from parity.verdict.attribution import facts
from parity.verdict.attribution.model import Change

Known = list[tuple[float, str]]      # when a session began, and the fact's text in it


def known(nights: list[Session], bad: float, environ: str) -> dict[tuple[str, str], Known]:
    """What was known of each node and fact when, up to the session begun at ``bad`` (Unix time).

    ``nights``: sessions of one system, oldest first; those before the last good one tell of nodes that did not
    run in it.
    """
    found: dict[tuple[str, str], Known] = {}
    for night in nights:
        if night.start <= bad:
            for node, said in facts.of(night, environ).items():
                for name, text in said.items():
                    found.setdefault((node, name), []).append((night.start, text))
    return found


def since(told: dict[tuple[str, str], Known], good: float) -> list[Change]:
    """All that changed since the session begun at ``good``, with the nodes on which it did."""
    changed: dict[tuple, list[str]] = {}
    for (node, name), values in told.items():
        if step := _step(values, good):
            changed.setdefault((name, *step), []).append(node)
    return [Change(fact=name, old=old, new=new, since=began, nodes=sorted(where))
            for (name, old, new, began), where in changed.items()]


def on(changed: list[Change], nodes: set[str]) -> list[Change]:
    """Those of the changes that concern the nodes, or no node in particular.

    ``nodes``: those of the bad figure. Where a fact changed elsewhere, too, those nodes are named with them.
    """
    here = {facts.ANYWHERE, *map(_short, nodes)}
    return [change.model_copy(update={'nodes': [n for n in change.nodes if n]})
            for change in changed if here & set(map(_short, change.nodes))]


def _step(values: Known, good: float) -> tuple[str, str, float] | None:
    """(old, new, since) where the last known text is another than the one known at the good night."""
    before = [text for start, text in values if start <= good]
    if not before or values[-1][0] <= good or values[-1][1] == before[-1]:
        return None
    new = values[-1][1]
    since = values[-1][0]
    for start, text in reversed(values):
        if text != new:
            break
        since = start
    return before[-1], new, since


def of_nodes(good: set[str], bad: set[str], since: float) -> list[Change]:
    """The node list itself, where the bad figure was taken on nodes that share none with the good one."""
    if not good or not bad or good & bad:
        return []
    return [Change(fact='nodes', old=' '.join(sorted(good)), new=' '.join(sorted(bad)), since=since)]


def _short(node: str) -> str:
    """A scheduler and the node itself may say its name with and without the domain."""
    return node.partition('.')[0]
