"""Facts of the machine as the page shows them, and the facts that differ between two sessions."""

from __future__ import annotations

from typing import Any, NamedTuple

from parity.base import figures, text
from parity.records.record import Session


class Fact(NamedTuple):
    """Text (and its source), or further facts."""

    name: str
    text: str = ''
    source: str = ''
    inner: list[Fact] = []


#: A key's ending names the unit of its number.
_ENDINGS = {'bytes': 'B', 'hz': 'Hz', 'seconds': 's', 'percent': '%'}
_DEEPEST, _LONG = 8, 400
_LIMIT = {'value', 'unit', 'source', 'certain'}


def facts(given: dict, depth: int = 0) -> list[Fact]:
    """Return nested facts in their order."""
    return [_fact(str(key), value, depth) for key, value in given.items()]


def _fact(key: str, value: Any, depth: int) -> Fact:
    stem, _, ending = key.rpartition('_')
    unit = _ENDINGS.get(ending.lower(), '') if stem and (value is None or _is_number(value)) else ''
    name = text.brief((stem if unit else key).replace('_', ' '), 80)
    if isinstance(value, dict) and 'value' in value and value.keys() <= _LIMIT:
        source = text.brief(str(value.get('source') or 'source not stated'), 240)
        return Fact(name, _scalar(value['value'], str(value.get('unit') or '')),
                    source + (' (certain)' if value.get('certain') else ''))
    if depth < _DEEPEST and isinstance(value, dict) and value:
        return Fact(name, inner=facts(value, depth + 1))
    if not isinstance(value, list) or not value:
        return Fact(name, _scalar(value, unit))
    if depth < _DEEPEST and any(isinstance(v, dict | list) for v in value):
        return Fact(name, inner=[_item(str(i), v, depth + 1) for i, v in enumerate(value, 1)])
    return Fact(name, text.brief(', '.join(map(_scalar, value)), _LONG))


def _item(number: str, value: Any, depth: int) -> Fact:
    """Return one of a list: a cache of one level, for instance, is one line."""
    fact = _fact(number, value, depth)
    if not fact.inner or any(f.inner for f in fact.inner):
        return fact
    return Fact(number, text.brief(', '.join(f'{f.name} {f.text}' for f in fact.inner), _LONG), fact.source)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: Any, unit: str = '') -> str:
    if value is None or value == '':
        return 'not known'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if _is_number(value) and (unit or isinstance(value, float)):    # a count may be a name: it keeps its digits
        return figures.figure(value, unit)
    return 'none' if value in ({}, []) else text.brief(str(value), _LONG)


#: Facts that differ every time and tell nothing.
_RESTLESS = ('memory_available_bytes', 'quota_bytes', 'free_bytes')


class Difference(NamedTuple):
    """A fact that changed. ``nodes`` are those that state it, [] for the machine."""

    fact: str
    before: str
    now: str
    nodes: list[str]


def differences(before: Session, now: Session) -> list[Difference]:
    """Return the changes of nodes, each once with all of its nodes; then those of machine and software."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in sorted(before.nodes.keys() & now.nodes.keys()):
        for change in _differing(before.nodes[node], now.nodes[node]):
            found.setdefault(change, []).append(node)
    return [*(Difference(*change, nodes) for change, nodes in found.items()),
            *(Difference(*change, []) for change in _differing(_of_session(before), _of_session(now)))]


def _of_session(session: Session) -> dict[str, Any]:
    return {'nodes': ' '.join(sorted(session.nodes)), **session.facts, 'throttled': session.throttled,
            'ReFrame': session.reframe, 'options': ' '.join(session.cmdline.split()[1:])}


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    old, new = dict(_flat(before)), dict(_flat(now))
    pairs = {fact: (old.get(fact, ''), new.get(fact, '')) for fact in old | new}
    return [(fact, *pair) for fact, pair in pairs.items() if pair[0] != pair[1]]


def _flat(value: Any, path: str = '') -> list[tuple[str, str]]:
    """Return (path, text) of everything below; a list is one text."""
    if isinstance(value, dict):
        return [pair for name, inner in value.items() if str(name) not in _RESTLESS
                for pair in _flat(inner, f'{path} {name}'.strip())]
    said = ', '.join(map(str, value)) if isinstance(value, list) else '' if value is None else str(value)
    return [(text.brief(path.replace('_', ' '), 200), text.brief(said, 200))]
