"""YAML files that people edit: loaded safely, validated by one schema, errors with file and line."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from parity.errors import UsageError

Model = TypeVar('Model', bound=BaseModel)


class _UniqueKeys(yaml.SafeLoader):
    """A safe loader that refuses a key given twice (YAML keeps the last without a word)."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, 'a key must be plain text', key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'key {key!r} is given twice', key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(path: Path) -> tuple[Any, yaml.Node | None]:
    """The file's data and its node tree (for line numbers).

    Raises UsageError naming file and line where the file cannot be read or is not YAML.
    """
    try:
        return parse(path, path.read_text(encoding='utf-8'))
    except UnicodeDecodeError as err:
        raise UsageError(f'{path}: not YAML in UTF-8: {err}') from None
    except OSError as err:
        raise UsageError(f'{path}: {err.strerror}') from None


def parse(path: Path, text: str) -> tuple[Any, yaml.Node | None]:
    """What ``load`` gives, of the text that ``path`` has or will have."""
    try:
        loader = _UniqueKeys(text)
        try:
            node = loader.get_single_node()
            return (loader.construct_document(node) if node else None), node
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as err:
        line = err.problem_mark.line + 1 if err.problem_mark else 1
        raise UsageError(f'{path}:{line}: {err.problem}') from None
    except yaml.YAMLError as err:
        raise UsageError(f'{path}: not YAML in UTF-8: {err}') from None


def line_of(node: yaml.Node | None, keys: tuple) -> int:
    """The line (from 1) of the entry that ``keys`` lead to, or of the last one found on the way."""
    line = 1
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            found = [(k, v) for k, v in node.value if k.value == str(key)]
            if not found:
                break
            key_node, node = found[0]
            line = key_node.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _valid_keys(model: type[BaseModel], keys: tuple) -> list[str]:
    """The keys that are valid where ``keys`` point, following nested models as far as they go."""
    for key in keys:
        if isinstance(key, int):
            continue
        field = model.model_fields.get(key)
        nested = [a for a in _arguments(field.annotation) if field] if field else []
        models = [a for a in nested if isinstance(a, type) and issubclass(a, BaseModel)]
        if not models:
            return []
        model = models[0]
    return sorted(model.model_fields)


def _arguments(annotation) -> list:
    """The annotation itself and everything named inside it: list[X] gives list and X."""
    inner = getattr(annotation, '__args__', ())
    return [annotation, *(b for a in inner for b in _arguments(a))]


def _sentence(path: Path, node, model: type[BaseModel], error: dict) -> str:
    keys = tuple(k for k in error['loc'] if not (isinstance(k, str) and k.startswith('function-')))
    where = f'{path}:{line_of(node, keys)}: {".".join(str(k) for k in keys)}: '
    if error['type'] == 'extra_forbidden':
        valid = _valid_keys(model, keys[:-1])
        near = get_close_matches(str(keys[-1]), valid, n=1)
        hint = f'; did you mean {near[0]!r}?' if near else ''
        return where + f'no such key{hint} valid: {", ".join(valid)}'
    return where + error['msg'].removeprefix('Value error, ')


def read(path: Path, model: type[Model]) -> Model:
    """The file as ``model``; UsageError with file, line, key and what would be valid."""
    data, node = load(path)
    if not isinstance(data, dict):
        raise UsageError(f'{path}:1: must be a mapping of keys to values')
    try:
        return model.model_validate(data)
    except ValidationError as err:
        raise UsageError('\n'.join(_sentence(path, node, model, e) for e in err.errors())) from None
