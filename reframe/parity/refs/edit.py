"""New entries in a YAML file that people write: every other character of it stays as it is.

ruamel.yaml, which keeps comments, was tried: it moves a comment away from the entry that it stands
below when one is added there, spaces and indents lines anew that nobody touched, and writes YAML 1.2, in
which `yes` and `1e-05` are not what ReFrame's YAML 1.1 reads. So the text is edited where PyYAML found each
entry, and is refused unless PyYAML then reads from it what was meant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.refs.accepted import PROVENANCE

#: How much deeper a level stands than the one above it.
_STEP = 2


@dataclass(frozen=True)
class Line:
    """A value that is written on its key's line."""

    value: Any


Tree = dict[str, Any]               # of Trees and Lines
Edit = tuple[int, int, str]         # from, to, what stands there instead


def merged(file: Path, text: str, tree: Tree) -> str:
    """``text`` with what ``tree`` says: a Line replaces the value that is there, or is added to its level.

    ``file`` is for the messages. New checks stand before `provenance`, new provenance at the end.
    Raises UsageError where the file is no YAML, or written so that nothing can be added to it."""
    data, root = yamlfile.parse(file, text)
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise UsageError(f'{file}:1: must be a mapping of checks to references')
    edits = _of_root(file, text, root, tree) if root else [(len(text), len(text), _block(tree, 0))]
    new, newline = text, '\r\n' if '\r\n' in text else '\n'
    for start, end, instead in reversed(sorted(edits, key=lambda edit: edit[:2])):      # of one place: in order
        gap = '\n' if start == end and start and new[start - 1] != '\n' else ''
        new = new[:start] + (gap + instead).replace('\n', newline) + new[end:]
    _as_meant(file, new, _over(data or {}, tree))
    return new


def _of_root(file: Path, text: str, root: yaml.MappingNode, tree: Tree) -> list[Edit]:
    checks = {key: sub for key, sub in tree.items() if key != PROVENANCE}
    pairs = [(key, value) for key, value in root.value if key.value != PROVENANCE]
    above = yaml.MappingNode(root.tag, pairs, root.start_mark, root.end_mark, root.flow_style)
    edits = _of_level(file, text, above, checks) if checks else []
    if PROVENANCE in tree:
        if len(pairs) < len(root.value):
            edits += _of_level(file, text, root, {PROVENANCE: tree[PROVENANCE]})
        else:
            said = _block({PROVENANCE: tree[PROVENANCE]}, root.start_mark.column)
            edits.append((len(text), len(text), f'\n{said}'))
    return edits


def _of_level(file: Path, text: str, node: yaml.Node, tree: Tree) -> list[Edit]:
    """The edits that bring ``tree`` below ``node``; what is new stands behind what is there."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        how = 'in braces' if isinstance(node, yaml.MappingNode) else 'not as a mapping'
        raise UsageError(f'{file}:{node.start_mark.line + 1}: written {how}, nothing can be added here: '
                         'write one entry a line, indented')
    there = {key.value: value for key, value in node.value}
    edits: list[Edit] = []
    new: Tree = {}
    for key, sub in tree.items():
        if key not in there:
            new[key] = sub
        elif isinstance(sub, Line):
            edits.append((there[key].start_mark.index, _end(there[key]), flow(sub.value)))
        else:
            edits += _of_level(file, text, there[key], sub)
    if new:
        end = _end(node) if node.value else 0
        at = (text.find('\n', end - 1) + 1 or len(text)) if end else node.start_mark.index      # the next line
        column = node.start_mark.column
        edits.append((at, at, ('\n' if not column else '') + _block(new, column)))
    return edits


def _end(node: yaml.Node) -> int:
    """Where the last value below ``node`` ends: PyYAML ends a block where the next entry begins."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _block(tree: Tree, column: int) -> str:
    lines = []
    for key, sub in tree.items():
        head = ' ' * column + flow(key) + ':'
        lines.append(f'{head} {flow(sub.value)}\n' if isinstance(sub, Line)
                     else f'{head}\n{_block(sub, column + _STEP)}')
    return ''.join(lines)


class _OneLine(yaml.SafeDumper):
    """Text with line breaks in it is quoted with escapes, not broken."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    breaks = any(c in text for c in '\n\r\x85\u2028\u2029')
    return dumper.represent_scalar('tag:yaml.org,2002:str', text, style='"' if breaks else None)


_OneLine.add_representer(str, _text)


def flow(value: Any) -> str:
    """``value`` on one line, as PyYAML reads it back."""
    said = yaml.dump(value, Dumper=_OneLine, default_flow_style=True, width=float('inf'), allow_unicode=True,
                     sort_keys=False)
    return said.removesuffix('\n').removesuffix('\n...')


def _over(data: Any, tree: Tree) -> dict:
    """``data`` with what ``tree`` says, as it must be read back."""
    return {**data, **{key: sub.value if isinstance(sub, Line) else _over(data.get(key) or {}, sub)
                       for key, sub in tree.items()}}


def _as_meant(file: Path, text: str, meant: dict) -> None:
    try:
        data, _ = yamlfile.parse(file, text)
    except UsageError as err:
        raise UsageError(f'{file}: nothing can be added to it as it is written: {err}') from None
    if data != meant:
        raise UsageError(f'{file}: nothing can be added to it as it is written (an anchor that several entries '
                         'share?): write each reference out')
