"""Lines of code by room, and what is longer than it may be: `python -m dev.sizes`.

Blank lines, comments and docstrings do not count."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

from parity.base import paths

#: The most lines of code of a file and of a function.
FILE, FUNCTION = 350, 40
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code."""
    found = {line for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in _NO_CODE
             for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
            found -= {*range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    return found


def longest(file: Path) -> list[str]:
    """Return what is too long in a file: itself, and its functions."""
    source = file.read_text()
    code, name = lines(source), file.relative_to(paths.root())
    functions = ((node.name, sum(node.lineno <= line <= node.end_lineno for line in code))
                 for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return [*([f'{name}: {len(code)} lines'] if len(code) > FILE else []),
            *(f'{name}: {function}: {count} lines' for function, count in functions if count > FUNCTION)]


def rooms() -> Counter[str]:
    """Return the lines of code of each room of the library."""
    library = paths.root() / 'reframe' / 'parity'
    return Counter({room.name: sum(len(lines(file.read_text())) for file in room.glob('*.py'))
                    for room in library.iterdir() if room.is_dir() and room.name[0] != '_'})


def main() -> None:
    print('lines of code:', ', '.join(f'{room} {count}' for room, count in rooms().most_common()))


if __name__ == '__main__':
    main()
