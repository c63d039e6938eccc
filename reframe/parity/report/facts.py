"""Facts of the machine as a page shows them, and what differs in those of two sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parity.base import figures, text
from parity.records.record import Session


@dataclass
class Fact:
    """A fact of the machine: text (and where it comes from), or further facts."""

    name: str
    text: str = ''
    source: str = ''
    inner: list[Fact] = field(default_factory=list)


# A key's ending says what its number is counted in; the page then says it better.
_ENDINGS = {'bytes': 'B', 'hz': 'Hz', 'seconds': 's', 'percent': '%'}
_DEEPEST = 8
_LIMIT = {'value', 'unit', 'source', 'certain'}


def facts(given: dict, depth: int = 0) -> list[Fact]:
    """Nested facts as they were given, in their order; empty ones say so."""
    return [_fact(str(key), value, depth) for key, value in given.items()]


def _fact(key: str, value: object, depth: int) -> Fact:
    stem, _, ending = key.rpartition('_')
    unit = _ENDINGS.get(ending.lower(), '') if stem and (value is None or _is_number(value)) else ''
    name = text.brief((stem if unit else key).replace('_', ' '), 80)
    if isinstance(value, dict) and 'value' in value and value.keys() <= _LIMIT:
        return Fact(name, text=_scalar(value['value'], str(value.get('unit') or '')), source=_origin(value))
    if depth < _DEEPEST and isinstance(value, dict) and value:
        return Fact(name, inner=facts(value, depth + 1))
    if isinstance(value, list) and value:
        return _list(name, value, depth)
    return Fact(name, text=_scalar(value, unit))


def _origin(limit: dict) -> str:
    source = str(limit.get('source') or 'source not stated')
    return text.brief(source, 240) + (' (certain)' if limit.get('certain') else '')


def _list(name: str, values: list, depth: int) -> Fact:
    if depth >= _DEEPEST or not any(isinstance(v, dict | list) for v in values):
        return Fact(name, text=text.brief(', '.join(_scalar(v) for v in values), 400))
    return Fact(name, inner=[_item(str(i), v, depth + 1) for i, v in enumerate(values, 1)])


def _item(number: str, value: object, depth: int) -> Fact:
    """One of a list: a cache of one level, say, is a line and not a list of its own."""
    fact = _fact(number, value, depth)
    if any(f.inner for f in fact.inner):
        return fact
    line = ', '.join(f'{f.name} {f.text}' for f in fact.inner)
    return Fact(number, text=text.brief(line, 400) if fact.inner else fact.text, source=fact.source)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: object, unit: str = '') -> str:
    if value is None or value == '':
        return 'not known'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    # A count is a name as much as a number (a process id, a model): it keeps all of its digits.
    if _is_number(value) and (unit or isinstance(value, float)):
        return figures.figure(value, unit)
    if value in ({}, []):
        return 'none'
    return text.brief(str(value), 400)


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


def differences(before: Session, now: Session) -> list[Difference]:
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
