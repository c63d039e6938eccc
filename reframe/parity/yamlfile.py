"""YAML files that people edit: loaded safely, validated by one schema, errors with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from parity import yamlwords
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

    def construct_object(self, node, deep=False):
        try:
            return super().construct_object(node, deep)
        except ValueError as err:       # 2027-02-30 looks like a day
            what = f'{node.value!r}: {err}'
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from None


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
    except RecursionError:
        raise UsageError(f'{path}: nested too deeply to be read') from None


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


def read(path: Path, model: type[Model]) -> Model:
    """The file as ``model``; UsageError with file, line, key and what would be valid."""
    data, node = load(path)
    if not isinstance(data, dict):
        raise UsageError(f'{path}:1: must be a mapping of keys to values')
    try:
        return model.model_validate(data)
    except ValidationError as err:
        lines = [f'{path}:{line_of(node, keys)}: {_named(keys)}{what}'
                 for keys, what in yamlwords.told(data, model, err.errors())]
        raise UsageError('\n'.join(lines)) from None


def _named(keys: tuple) -> str:
    return f'{".".join(map(str, keys))}: ' if keys else ''
