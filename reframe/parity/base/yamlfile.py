"""YAML files that people edit: loaded safely, validated by one schema, errors with file and line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ValidationError

from parity.base import files
from parity.base.errors import UsageError, near
from parity.base.strict import Model
from parity.base.text import printable, refuse, strange

#: Characters of a file: 40,000 accepted values with their provenance are 14 million.
LARGEST = 16_000_000
#: Characters that the aliases of a file may repeat: a few anchors can stand for more than any memory holds.
REPEATED = 1_000_000
#: Levels of mappings and lists.
DEEPEST = 64


def _text(given: Any) -> Any:
    """Return a number as its text; YAML's yes and no must be quoted."""
    if isinstance(given, bool) or given is None:
        raise ValueError(f'{given!r} must be text; put it in quotes')
    return str(given) if isinstance(given, (int, float)) else given


#: A text that may look like a number.
Text = Annotated[str, BeforeValidator(_text)]


class _UniqueKeys:
    """A safe loader that refuses a key given twice (YAML keeps the last without a word)."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _wrong(key, 'a key must be plain text')
            if key.value in seen:
                raise _wrong(key, f'key {key.value!r} is given twice')
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node, deep=False):
        try:
            return super().construct_object(node, deep)
        except ValueError as err:       # 2027-02-30 looks like a day
            raise _wrong(node, f'{node.value!r}: {err}') from None


def _wrong(node: yaml.Node, what: str) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


class _Plain(_UniqueKeys, yaml.SafeLoader):
    """PyYAML's own."""


class _Quick(_UniqueKeys, getattr(yaml, 'CSafeLoader', yaml.SafeLoader)):
    """libyaml's, ten times as fast: it refuses more, in other words."""


def guard(path: Path, text: str) -> None:
    """Refuse with file and line text that no person writes, before its aliases are expanded."""
    if len(text) > LARGEST:
        raise UsageError(f'{path}: {len(text)} characters: must have at most {LARGEST}')
    for loader in (_Quick, _Plain):
        with contextlib.suppress(yaml.YAMLError, UnicodeError):     # no YAML: whoever loads it says so
            _measure(path, yaml.parse(text, Loader=loader))
            return


def _measure(path: Path, events: Iterable[yaml.Event]) -> None:
    """Follow the nesting, and count the characters that each anchor stands for and aliases repeat."""
    sizes: dict[str, int | None] = {}                   # of what an anchor stands for; None: it is still open
    levels: list[tuple[str | None, int]] = [(None, 0)]  # anchor, characters so far
    repeated = 0

    def refused(what: str) -> UsageError:
        return UsageError(f'{path}:{event.start_mark.line + 1}: {what}')

    for event in events:
        anchor = getattr(event, 'anchor', None)
        size = 0
        if isinstance(event, yaml.CollectionStartEvent):
            if anchor:
                sizes[anchor] = None
            levels.append((anchor, 1))
            if len(levels) > DEEPEST:
                raise refused(f'nested too deeply: must have at most {DEEPEST - 1} levels')
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(anchor, 0)
            if size is None:
                raise refused(f'*{anchor} stands inside &{anchor}: it must come after what it repeats')
            repeated += size
            if repeated > REPEATED:
                raise refused(f'the aliases up to *{anchor} repeat more than {REPEATED} characters: '
                              'write the values out')
            anchor = None
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = levels.pop()
        elif isinstance(event, yaml.ScalarEvent):
            size = 1 + len(event.value)
        if size and anchor:
            sizes[anchor] = size
        around, size_around = levels[-1]
        levels[-1] = (around, size_around + size)


def load(path: Path) -> tuple[Any, yaml.Node | None]:
    """Return the file's data and its node tree (for line numbers). UsageError gives file and line."""
    return parse(path, text_of(path))


def text_of(path: Path) -> str:
    """Return the file's text. UsageError where it cannot be read, or is no regular file."""
    files.demand_file(path)
    try:
        return path.read_text(encoding='utf-8')
    except UnicodeDecodeError as err:
        raise UsageError(f'{path}: not YAML in UTF-8: {err}; save it as UTF-8') from None
    except OSError as err:
        raise UsageError(f'{path}: {err.strerror}; it must be a file that you may read') from None


def parse(path: Path, text: str) -> tuple[Any, yaml.Node | None]:
    """Return what ``load`` returns, of the text that ``path`` has or will have."""
    guard(path, text)
    with contextlib.suppress(yaml.YAMLError, UnicodeError):
        return _parsed(path, text, _Quick)
    try:
        return _parsed(path, text, _Plain)
    except yaml.YAMLError as err:
        for line, words in enumerate(text.replace('\r\n', '\n').split('\n'), 1):
            refuse(f'{path}:{line}', words)      # it may have ended a line where nobody sees one
        if isinstance(err, yaml.MarkedYAMLError):
            line = err.problem_mark.line + 1 if err.problem_mark else 1
            raise UsageError(f'{path}:{line}: {err.problem}') from None
        raise UsageError(f'{path}: not YAML in UTF-8: {err}; save it as UTF-8') from None


def _parsed(path: Path, text: str, kind: type) -> tuple[Any, yaml.Node | None]:
    loader = kind(text)
    try:
        node = loader.get_single_node()
        _refuse_characters(path, text, node)
        return (loader.construct_document(node) if node else None), node
    finally:
        loader.dispose()


def _refuse_characters(path: Path, text: str, root: yaml.Node | None) -> None:
    """Refuse a key or value with a character that a script must not hold, also one written as an escape.

    The file's own characters count, too: YAML takes U+0085 for a line break and folds it into a space."""
    escapes = '\\' in text and '"' in text      # only between such quotes
    if root is None or not (escapes or strange(text)):
        return
    seen: set[int] = set()

    def refuse_below(node: yaml.Node, keys: tuple[str, ...]) -> None:
        if id(node) in seen:            # an alias
            return
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            start, end = node.start_mark.index, node.end_mark.index
            line = text.count('\n', 0, start) + 1
            where = f'{path}:{line}: {".".join(keys)}'
            refuse(where, text[start:end].replace('\r\n', '\n'))
            refuse(where, node.value)
        elif isinstance(node, yaml.SequenceNode):
            for index, entry in enumerate(node.value):
                refuse_below(entry, (*keys, str(index)))
        else:
            for key, value in node.value:
                below = (*keys, printable(str(key.value))[:60])
                refuse_below(key, below)
                refuse_below(value, below)

    refuse_below(root, ())


def line_of(node: yaml.Node | None, keys: tuple) -> int:
    """Return the line (from 1) of the entry that ``keys`` lead to, or of the last one found on the way."""
    line = 1
    for key in keys:
        begin, node = _entry(node, key)
        if begin is None:
            break
        line = begin.start_mark.line + 1
    return line


def _entry(node: yaml.Node | None, key: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the node where an entry begins, and that of its value; (None, None) where there is no such entry."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == str(key):
                return name, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key], node.value[key]
    return None, None


def read(path: Path, model: type[Model]) -> Model:
    """Return the file as ``model``. UsageError gives file, line, key and what would be valid."""
    return valid(path, text_of(path), model)[0]


def valid(path: Path, text: str, model: type[Model]) -> tuple[Model, yaml.Node]:
    """Return what ``read`` returns, of the text of ``path``; and its node tree."""
    data, node = parse(path, text)
    if not isinstance(data, dict):
        raise UsageError(f'{path}:1: must be a mapping of keys to values')
    try:
        return model.model_validate(data), node
    except ValidationError as err:
        lines = []
        for keys, sentence in sentences(data, model, err.errors()):
            entry = f'{".".join(map(str, keys))}: ' if keys else ''
            lines.append(f'{path}:{line_of(node, keys)}: {entry}{sentence}')
        raise UsageError('\n'.join(lines)) from None


def sentences(data: Any, model: type[BaseModel], errors: list[dict[str, Any]]) -> list[tuple[tuple, str]]:
    """Return (keys, sentence) for every wrong entry of ``data``, once, whatever may stand in its place."""
    by_entry: dict[tuple, list[str]] = {}
    for error in errors:
        keys = _keys(data, error)
        sentence = _sentence(error, keys, model)
        if sentence not in by_entry.setdefault(keys, []):
            by_entry[keys].append(sentence)
    return [(keys, '; or '.join(alternatives)) for keys, alternatives in by_entry.items()]


def _keys(data: Any, error: dict[str, Any]) -> tuple:
    """Return the way to the entry, without pydantic's own words for kinds of values."""
    keys = ()
    for key in error['loc']:
        is_key = isinstance(data, dict) and key in data
        is_index = isinstance(data, list) and isinstance(key, int)
        if is_key or is_index:
            keys, data = (*keys, key), data[key]
        elif isinstance(data, dict) and error['type'] == 'missing':
            return *keys, key
    return keys


def _sentence(error: dict[str, Any], keys: tuple, model: type[BaseModel]) -> str:
    """Return what is wrong with an entry, in words of the file instead of pydantic's."""
    kind, context, given = error['type'], error.get('ctx', {}), repr(error['input'])
    if len(given) >= 60:
        given = f'{given[:56]}...'
    if kind == 'extra_forbidden':
        valid = _valid_keys(model, keys[:-1])
        hint = near(str(keys[-1]), valid) or ';'
        return f'no such key{hint} valid: {", ".join(valid)}'
    if kind == 'literal_error':
        return f'{given}; valid: {context["expected"]}'
    if kind == 'string_pattern_mismatch':
        return f'{given} must match the pattern {context["pattern"]}'
    if kind == 'greater_than':
        return f'{given} must be greater than {context["gt"]:g}'
    if kind == 'string_too_short':
        return f'must have at least {context["min_length"]} characters'
    if kind == 'too_short':
        least = context['min_length']
        return f'must have at least {least} {"items" if least > 1 else "item"}'
    for beginning, words in _WORDS.items():
        if kind.startswith(beginning):
            return f'{given} {words}'
    return error['msg'].removeprefix('Value error, ')


#: By the beginning of pydantic's name for the error.
_WORDS = {
    'string_type': 'must be text; put it in quotes',
    'list_type': 'must be a list, such as [a, b]', 'tuple_type': 'must be a list, such as [a, b]',
    'dict_type': 'must be a mapping of keys to values', 'model_type': 'must be a mapping of keys to values',
    'bool_': 'must be true or false', 'int_': 'must be a whole number', 'float_': 'must be a number',
    'finite_number': 'must be a finite number', 'date_': 'must be a date, such as 2027-01-31',
}


def _valid_keys(model: type[BaseModel], keys: tuple) -> list[str]:
    """Return the keys that are valid where ``keys`` point, following nested models as far as they go."""
    for key in keys:
        if isinstance(key, int):
            continue
        field = model.model_fields.get(key)
        model = _model_in(field.annotation) if field else None
        if model is None:
            return []
    return sorted(model.model_fields)


def _model_in(annotation) -> type[BaseModel] | None:
    """Return the first model that the annotation names: X of list[X]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, '__args__', ()):
        model = _model_in(part)
        if model:
            return model
    return None
