"""Print how much Python code a folder holds, and how densely it is written.

    python -m dev.density FOLDER... [--rooms] [--worst N]

volume: the syntax nodes of whole files, docstrings apart. A reader has to take in so much.
median, p90, max: the nodes of a statement, over the functions of three statements and more. One function in ten is
denser than p90. Line breaks change none of these figures.
per 1000: these per 1000 statements. `:=` is an assignment inside an expression, `nested` a comprehension inside
another one or with two loops, `if-if` a conditional inside another."""

from __future__ import annotations

import argparse
import ast
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: A function with fewer statements has no density.
LEAST_STATEMENTS = 3
HEADER = f'{"":28} functions statements volume   median  p90   max    per 1000: :=  nested  if-if lambda'


@dataclass(frozen=True, order=True)
class Function:
    """A function that has a density: the syntax nodes of a statement."""

    density: float
    statements: int
    place: str              # file, line and name


@dataclass
class Count:
    """The sums over some files."""

    functions: int = 0
    statements: int = 0
    nodes: int = 0
    walruses: int = 0
    nested: int = 0         # comprehensions in a comprehension, or of several loops
    conditionals: int = 0   # with another one inside
    lambdas: int = 0
    dense: list[Function] = field(default_factory=list)

    def add_file(self, file: Path) -> None:
        """Count a file."""
        for node in ast.walk(ast.parse(file.read_text('utf-8'), str(file))):
            self._add_node(node)
            if isinstance(node, FUNCTIONS):
                self._add_function(node, file)

    def _add_node(self, node: ast.AST) -> None:
        if is_docstring(node):
            self.nodes -= 1     # takes the text below it away, too
            return
        self.nodes += 1
        if isinstance(node, ast.stmt):
            self.statements += 1
        elif isinstance(node, ast.NamedExpr):
            self.walruses += 1
        elif isinstance(node, ast.Lambda):
            self.lambdas += 1
        elif isinstance(node, ast.IfExp) and has_inside(node, ast.IfExp):
            self.conditionals += 1
        elif isinstance(node, COMPREHENSIONS):
            if len(node.generators) > 1 or has_inside(node, COMPREHENSIONS):
                self.nested += 1

    def _add_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef, file: Path) -> None:
        self.functions += 1
        nodes = statements = 0
        for top in function.body:
            if is_docstring(top):
                continue
            for node in ast.walk(top):
                nodes += 1
                statements += isinstance(node, ast.stmt)
        if statements >= LEAST_STATEMENTS:
            place = f'{file}:{function.lineno} {function.name}'
            self.dense.append(Function(nodes / statements, statements, place))

    def row(self, name: str) -> str:
        """Return the line of the table."""
        densities = sorted(function.density for function in self.dense) or [0]
        median = densities[len(densities) // 2]
        p90 = densities[int(.9 * len(densities))]
        thousands = max(self.statements, 1) / 1000
        return (f'{name:28.28} {self.functions:9} {self.statements:10} {self.nodes:6}   '
                f'{median:5.1f} {p90:5.1f} {densities[-1]:6.1f}   '
                f'{self.walruses / thousands:7.1f} {self.nested / thousands:6.1f} '
                f'{self.conditionals / thousands:6.1f} {self.lambdas / thousands:6.1f}')


def is_docstring(node: ast.AST) -> bool:
    """Return whether a statement is a docstring, or another text that does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def has_inside(node: ast.AST, kinds: type | tuple[type, ...]) -> bool:
    """Return whether a node of these kinds is below this one."""
    below = (inner for inner in ast.walk(node) if inner is not node)
    return any(isinstance(inner, kinds) for inner in below)


def rooms_of(folder: Path) -> dict[str, Count]:
    """Return what each folder and file directly below a folder holds."""
    rooms: dict[str, Count] = defaultdict(Count)
    for file in sorted(folder.rglob('*.py')):
        rooms[file.relative_to(folder).parts[0]].add_file(file)
    return rooms


def total(folder: Path) -> Count:
    """Return what a folder holds."""
    count = Count()
    for file in sorted(folder.rglob('*.py')):
        count.add_file(file)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m dev.density', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folders', nargs='+', type=Path, metavar='FOLDER')
    parser.add_argument('--rooms', action='store_true', help='a row for each folder and file directly below, too')
    parser.add_argument('--worst', type=int, default=0, metavar='N', help='the N densest functions, too')
    options = parser.parse_args()
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f'{folder}: no such folder')
    print(HEADER)
    for folder in options.folders:
        if options.rooms:
            for room, count in sorted(rooms_of(folder).items()):
                print(count.row(room))
        count = total(folder)
        print(count.row(f'{folder} (all)' if options.rooms else str(folder)))
        for function in sorted(count.dense, reverse=True)[:options.worst]:
            print(f'    {function.density:5.1f} a statement, {function.statements} statements: {function.place}')


if __name__ == '__main__':
    main()
