"""What differs between the last good night and the bad one, and since when: facts, no guesses."""

from __future__ import annotations

from parity.attribution import facts
from parity.attribution.model import Change
from parity.history.facts import SessionFacts

Known = list[tuple[float, str]]      # when a session began, and the fact's text in it


def between(nights: list[SessionFacts], good: float, bad: float, environ: str, nodes: set[str]) -> list[Change]:
    """The facts that differ between the session begun at ``good`` and the one begun at ``bad`` (Unix times).

    ``nights``: sessions of one system, oldest first; those before ``good`` tell of nodes that did not run
    in it. ``nodes``: the nodes of the bad figure: what changed on none of them is left out, and where it
    changed elsewhere, too, those nodes are named with them.
    """
    known: dict[tuple[str, str], Known] = {}
    for night in nights:
        if night.start <= bad:
            for node, said in facts.of(night, environ).items():
                for name, text in said.items():
                    known.setdefault((node, name), []).append((night.start, text))
    changed: dict[tuple, list[str]] = {}
    for (node, name), values in known.items():
        if step := _step(values, good):
            changed.setdefault((name, *step), []).append(node)
    here = {facts.ANYWHERE, *map(_short, nodes)}
    return [Change(fact=name, old=old, new=new, since=since, nodes=sorted(filter(None, where)))
            for (name, old, new, since), where in changed.items() if here & set(map(_short, where))]


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
