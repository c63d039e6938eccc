"""What differs in the facts of two sessions: of the machine, of each node, of the software."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parity.base import text
from parity.records.record import Session

#: Facts that differ every time and say nothing: what is free at the moment, the clock seen so far.
_RESTLESS = ('memory_available_bytes', 'quota_bytes', 'free_bytes')
_LONG = 200


@dataclass
class Difference:
    """A fact that is another now; '' where there is none. ``nodes`` are those that say so, [] of the machine."""

    fact: str
    before: str
    now: str
    nodes: list[str]


def of_sessions(before: Session, now: Session) -> list[Difference]:
    """The nodes' first, each change once with all of its nodes; then the machine's and the software's."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in sorted(before.nodes.keys() & now.nodes.keys()):
        for change in _differing(before.nodes[node], now.nodes[node]):
            found.setdefault(change, []).append(node)
    said = [Difference(*change, nodes) for change, nodes in found.items()]
    return said + [Difference(*change, []) for change in _differing(_session(before), _session(now))]


def _session(facts: Session) -> dict[str, Any]:
    return {'nodes': ' '.join(sorted(facts.nodes)), **facts.facts, 'throttled': facts.throttled,
            'ReFrame': facts.reframe,
            'options': ' '.join(facts.cmdline.split()[1:])}


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    old, new = dict(_flat(before)), dict(_flat(now))
    return [(fact, old.get(fact, ''), new.get(fact, '')) for fact in {**old, **new}
            if old.get(fact, '') != new.get(fact, '')]


def _flat(value: Any, path: str = '') -> list[tuple[str, str]]:
    """(path, text) of everything below; a list is one text."""
    if isinstance(value, dict):
        return [pair for name, inner in value.items() if str(name) not in _RESTLESS
                for pair in _flat(inner, f'{path} {name}'.strip())]
    if isinstance(value, list):
        value = ', '.join(map(str, value))
    return [(text.brief(path.replace('_', ' '), _LONG), '' if value is None else text.brief(str(value), _LONG))]
