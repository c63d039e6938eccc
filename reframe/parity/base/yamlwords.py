"""What is wrong with a file that a model refused, in words: of which key, what it is and what would be valid."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from parity.base.errors import near


def told(data: Any, model: type[BaseModel], errors: list[dict[str, Any]]) -> list[tuple[tuple, str]]:
    """(keys, sentence) for every wrong entry of ``data``, once, whatever may stand in its place."""
    found: dict[tuple, list[str]] = {}
    for error in errors:
        keys = _keys(data, error)
        found.setdefault(keys, []).append(_sentence(error, keys, model))
    return [(keys, '; or '.join(dict.fromkeys(said))) for keys, said in found.items()]


def _keys(data: Any, error: dict[str, Any]) -> tuple:
    """The way to the entry; pydantic's own words for kinds of values are no part of it."""
    keys: list[str | int] = []
    for key in error['loc']:
        if isinstance(data, dict) and key in data or isinstance(data, list) and isinstance(key, int):
            keys.append(key)
            data = data[key]
        elif isinstance(data, dict) and error['type'] == 'missing':
            keys.append(key)
            break
    return tuple(keys)


def _sentence(error: dict[str, Any], keys: tuple, model: type[BaseModel]) -> str:
    kind, context = error['type'], error.get('ctx', {})
    given = repr(error['input'])
    given = given if len(given) < 60 else given[:56] + '...'
    if kind == 'extra_forbidden':
        return _no_such_key(str(keys[-1]), _valid_keys(model, keys[:-1]))
    if kind == 'literal_error':
        return f'{given}; valid: {context["expected"]}'
    if kind == 'string_pattern_mismatch':
        return f'{given} does not match pattern {context["pattern"]}'
    if kind == 'greater_than':
        return f'{given} must be greater than {context["gt"]:g}'
    if kind in ('too_short', 'string_too_short'):
        least = context['min_length']
        what = 'characters' if kind == 'string_too_short' else 'items' if least > 1 else 'item'
        return f'must have at least {least} {what}'
    known = next((words for start, words in _WORDS.items() if kind.startswith(start)), '')
    return f'{given} {known}' if known else error['msg'].removeprefix('Value error, ')


#: By the beginning of pydantic's name for the error.
_WORDS = {
    'string_type': 'is no valid string; in quotes it would be',
    'list_type': 'is no list; valid is, for instance, [a, b]',
    'dict_type': 'is no mapping of keys to values', 'model_type': 'is no mapping of keys to values',
    'bool_': 'is neither true nor false', 'int_': 'is no whole number', 'float_': 'is no number',
    'finite_number': 'is no finite number', 'date_': 'is no valid date; one is 2027-01-31',
}


def _no_such_key(key: str, valid: list[str]) -> str:
    return f'no such key{near(key, valid) or ";"} valid: {", ".join(valid)}'


def _valid_keys(model: type[BaseModel], keys: tuple) -> list[str]:
    """The keys that are valid where ``keys`` point, following nested models as far as they go."""
    for key in keys:
        if isinstance(key, int):
            continue
        field = model.model_fields.get(key)
        nested = _arguments(field.annotation) if field else []
        models = [a for a in nested if isinstance(a, type) and issubclass(a, BaseModel)]
        if not models:
            return []
        model = models[0]
    return sorted(model.model_fields)


def _arguments(annotation) -> list:
    """The annotation itself and everything named inside it: list[X] gives list and X."""
    inner = getattr(annotation, '__args__', ())
    return [annotation, *(b for a in inner for b in _arguments(a))]
