"""The one JSON document that a program printed, among lines of the job; values are asked for by their kind."""

from __future__ import annotations

import json
import math
from typing import Any

from . import Incomplete, Wrong


class Object:
    """A JSON object that knows where it stands in its document: what it lacks is named.

    Every method raises Incomplete where the name is absent, Wrong where its value is of another kind.
    """

    def __init__(self, values: dict[str, Any], where: str = ''):
        self._values, self._where = values, where

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def named(self, name: str) -> str:
        """Where a value stands, for instance end.sum_sent.bytes."""
        return f'{self._where}.{name}'.lstrip('.')

    def object(self, name: str) -> Object:
        return Object(self._of(name, dict, 'an object'), self.named(name))

    def objects(self, name: str) -> list[Object]:
        """A list of objects."""
        listed = self._of(name, list, 'a list')
        if not all(isinstance(each, dict) for each in listed):
            raise Wrong(f'{self.named(name)} is not a list of objects')
        return [Object(each, f'{self.named(name)}[{at}]') for at, each in enumerate(listed)]

    def text(self, name: str) -> str:
        return self._of(name, str, 'a text')

    def flag(self, name: str) -> bool:
        return self._of(name, bool, 'true or false')

    def count(self, name: str) -> int:
        """A whole number, zero or more."""
        return self._number(name, int, 'a count')

    def figure(self, name: str) -> float:
        """A finite number, zero or more."""
        return float(self._number(name, (int, float), 'a figure, zero or more'))

    def _of(self, name: str, kind: Any, told: str) -> Any:
        if name not in self._values:
            raise Incomplete(f'{self.named(name)} is absent')
        value = self._values[name]
        if not isinstance(value, kind):
            raise Wrong(f'{self.named(name)} is {str(value)[:40]!r}: not {told}')
        return value

    def _number(self, name: str, kind: Any, told: str) -> Any:
        value = self._of(name, kind, told)
        if isinstance(value, bool) or value < 0:
            raise Wrong(f'{self.named(name)} is {str(value)[:40]}: not {told}')
        return value


def only(text: str, repeats: bool = False) -> Object:
    """The document that begins with the one line that is ``{`` and goes to its closing brace.

    ``repeats``: the program may tell a key again with the same value.

    Raises Incomplete with the line where there is none or it is not whole, Wrong for several, for a key
    that is there twice and for what is no number of JSON (NaN, 1e999).
    """
    lines = text.replace('\r\n', '\n').split('\n')
    starts = [at for at, line in enumerate(lines) if line == '{']
    if not starts:
        raise Incomplete(f'line {len(lines)}: the output ends without a line "{{", where its JSON begins')
    body = '\n'.join(lines[starts[0]:])
    try:
        values, end = _decoder(repeats).raw_decode(body)
    except json.JSONDecodeError as err:
        raise Incomplete(f'line {starts[0] + err.lineno}: the JSON is not whole: {err.msg}') from None
    except RecursionError:
        raise Wrong('the JSON is nested too deeply') from None
    if any(line == '{' for line in body[end:].split('\n')):
        raise Wrong('several JSON documents in one output')
    return Object(values)


def _decoder(repeats: bool) -> json.JSONDecoder:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found and (not repeats or found[name] != value):
                raise Wrong(f'{name[:40]!r} is there twice in one object')
            found[name] = value
        return found

    return json.JSONDecoder(object_pairs_hook=unique, parse_float=_float, parse_int=_whole,
                            parse_constant=_constant)


def _float(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise Wrong(f'{token[:40]} is no finite number')
    return value


def _whole(token: str) -> int:
    if len(token) > 20:
        raise Wrong(f'{token[:40]} has too many digits')
    return int(token)


def _constant(token: str) -> float:
    raise Wrong(f'{token} is no finite number')

