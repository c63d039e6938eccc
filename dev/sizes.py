"""Lines of code by room, and what is longer than it may be: `python -m dev.sizes`.

Blank lines, comments and docstrings do not count."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from parity.base import paths

#: The most lines of code of a file and of a function.
FILE, FUNCTION = 350, 40


def lines(tree: ast.Module, source: str) -> set[int]:
    """Return the numbers of the lines that hold code; lines of a text are code, too."""
    found = {n for n, line in enumerate(source.splitlines(), 1) if line.strip() and line.lstrip()[0] != '#'}
    docs: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            found.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, False):
            docs.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return found - docs


def longest(file: Path) -> list[str]:
    """Return what is too long in a file: itself, and its functions."""
    source = file.read_text()
    tree = ast.parse(source)
    code, name = lines(tree, source), file.relative_to(paths.root())
    functions = ((node.name, sum(node.lineno <= line <= node.end_lineno for line in code))
                 for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [*([f'{name}: {len(code)} lines'] if len(code) > FILE else []),
            *(f'{name}: {function}: {count} lines' for function, count in functions if count > FUNCTION)]


def rooms() -> Counter[str]:
    """Return the lines of code of each room of the library."""
    library = paths.root() / 'reframe' / 'parity'
    counts: Counter[str] = Counter()
    for file in library.glob('[!_]*/*.py'):
        counts[file.parent.name] += len(lines(ast.parse(source := file.read_text()), source))
    return counts


def main() -> None:
    print('lines of code:', ', '.join(f'{room} {count}' for room, count in rooms().most_common()))


if __name__ == '__main__':
    main()
