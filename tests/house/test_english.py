"""The mechanical part of plain English: docstrings, messages, comments and pages."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from conftest import TOP
from parity.base import errors

MOST = 25       # words a sentence
TURNS = re.compile(r"\b(of (it|them)|(that )?(is|are) (told|said)|told of)\b(?!')", re.I)
RIDDLE = re.compile(r'What\b(?!\s+(is|was|are|if|do|does|to)\b)[^.?!]*\b(is|are)\b')
#: A docstring begins with a verb or with the name of the thing, not with one of these.
OPENERS = set('what whether that how which for so of where when who whose why as if in on by those these there because '
              'to without with at from it'.split())
SAID = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)} | {
    'Ended', 'Refused', 'Incomplete', 'Wrong', 'ValueError', 'BadParameter', 'print', 'say', 'fail', 'warn', 'echo', 'error', 'skip_case'}
FILES = [f for name in subprocess.run(['git', 'ls-files', '--cached', '--others', '--exclude-standard'], cwd=TOP, text=True, check=True,
                                      capture_output=True).stdout.splitlines() if (f := TOP / name).is_file()]


def below(*places: str, suffixes: tuple[str, ...]) -> dict:
    files = [f for f in FILES if f.relative_to(TOP).parts[0] in places and f.suffix in suffixes]
    return {'argnames': 'file', 'argvalues': files, 'ids': [str(f.relative_to(TOP)) for f in files]}


def amiss(text: str, most: int | None = MOST) -> list[str]:
    """Return the parts of a text that are not plain."""
    sentences = [s for s in re.split(r'(?<=[.;:!?])\s+|\n\s*\n', text) if s]
    found = [f'"{turn[0]}"' for turn in TURNS.finditer(text)] + [f'"{s[:40]}"' for s in sentences if RIDDLE.match(s)]
    return found + [f'{len(s.split())} words: {s[:60]}' for s in sentences if most and len(s.split()) > most]


def words_of(node: ast.expr) -> str:
    """Return the text of a literal; a value in it is one word."""
    if isinstance(node, ast.JoinedStr):
        return ''.join(part.value if isinstance(part, ast.Constant) else 'X' for part in node.values)
    if isinstance(node, ast.BinOp):
        return words_of(node.left) + words_of(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ''


#: Words that name no thing.
NAMELESS = set('told said found known own each beside outset traps keep together lived stands untold seen'.split())


def names(file: Path) -> set[str]:
    """The names of a module, of its classes, functions and fields; not those of local variables."""
    found = {*file.relative_to(TOP).with_suffix('').parts}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        if isinstance(node, (ast.ClassDef, ast.Module)):
            found |= {target.id for own in node.body if isinstance(own, (ast.Assign, ast.AnnAssign))
                      for target in (own.targets if isinstance(own, ast.Assign) else [own.target]) if isinstance(target, ast.Name)}
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return {name.strip('_').lower() for name in found}


def docstrings(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = [(getattr(n, 'lineno', 1), ast.get_docstring(n)) for n in nodes if isinstance(n, kinds)]
    return [(line, re.sub(r'^ {2,}.*$|\x08\n(.+\n?)*', '', d, flags=re.M)) for line, d in found if d]     # without tables and code


def messages(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    return [(n.lineno, words_of(a)) for n in calls if getattr(n.func, 'id', getattr(n.func, 'attr', '')) in SAID for a in n.args]


def comments(text: str) -> list[tuple[int, str]]:
    """Return the comments of a module in which one may be amiss: to find comments takes most of the time."""
    if not any('#' in line and ('What' in line or TURNS.search(line)) for line in text.splitlines()):
        return []
    return [(t.start[0], t.string) for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]


@pytest.mark.parametrize(**below('reframe', 'checks', 'dev', 'ci', suffixes=('.py',)))
def test_a_name_says_what_the_thing_is(file):
    assert not names(file) & NAMELESS


@pytest.mark.parametrize(**below('reframe', 'checks', 'dev', 'ci', 'jobs', suffixes=('.py',)))
def test_code_speaks_plainly(file: Path):
    text = file.read_text()
    nodes = [*ast.walk(ast.parse(text))]
    documented = docstrings(nodes)
    found = [(line, f'begins with "{d.split()[0]}"') for line, d in documented if d.split()[0].strip(',:').lower() in OPENERS]
    found += [(line, why) for line, d in [*documented, *messages(nodes)] for why in amiss(d)]
    found += [(line, why) for line, c in comments(text) for why in amiss(c, None)]
    assert not found, '\n'.join(f'{file.relative_to(TOP)}:{line}: {why}' for line, why in sorted(found))


@pytest.mark.parametrize(**below('ci', 'jobs', suffixes=('', '.sh', '.j2', '.yaml', '.yml', '.service', '.timer', '.crontab')))
def test_a_script_speaks_plainly(file: Path):
    found = [f'{n}: {why}' for n, line in enumerate(file.read_text().splitlines(), 1) for why in amiss(line, None)]
    assert not found, f'{file.relative_to(TOP)}: {found}'


@pytest.mark.parametrize(**below('docs', 'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', suffixes=('.md',)))
def test_a_page_speaks_plainly(file: Path):
    text = re.sub(r'^```.*?^```|^(    |\|---)[^\n]*', '', file.read_text(), flags=re.M | re.S)
    parts = [re.sub(r'\s+', ' ', p) for line in re.split(r'\n\s*\n|^\s*(?:[-*]|\d+\.) ', text, flags=re.M)
             for p in (re.split(r'[|\n]', line) if line.lstrip().startswith('|') else [line])]
    assert not (found := [why for part in parts for why in amiss(part)]), '\n'.join(found)
