"""The folders of the codes: their recorded outputs, and what each must give (expected.yaml)."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path

import pytest

from parity.base import codes, yamlfile
from parity.base.codes import Code
from parity.base.errors import UsageError
from parity.measure.check.reader import Incomplete, Refused, Unread, Wrong, room

WORDS = {kind.word: kind for kind in (Incomplete, Wrong, Unread)}
#: How the sentence of an output that ends begins.
WHERE = r'^(line \d+: |no title of )'


def outputs(folder: Path) -> dict[str, Path]:
    """The outputs of a code's folder by their names: the recorded ones, and in made/ those that nobody has run."""
    files = (folder / 'outputs').glob('*.txt'), (folder / 'outputs').glob('made/*.txt')
    return {str(file.relative_to(folder / 'outputs')): file for each in files for file in sorted(each)}


@functools.cache
def texts(code: Code) -> dict[str, str]:
    """The outputs by their names, with the carriage returns that a check meets."""
    return {name: file.read_bytes().decode('utf-8', 'replace') for name, file in outputs(code.file.parent).items()}


@functools.cache
def expected(file: Path) -> dict:
    """An expected.yaml. Raises UsageError, with the line, for an output that is not there or not named."""
    stated, root = yamlfile.load(file)
    data = {'outputs': {}} | {key: value for key, value in (stated or {}).items() if value is not None}
    there = outputs(file.parent).keys()
    for name in data['outputs']:
        if name not in there:
            raise UsageError(f'{file}:{yamlfile.line_of(root, ("outputs", name))}: no output {name!r}; valid: {", ".join(sorted(there))}')
    for at, edit in enumerate(data.get('edits', [])):
        if edit.get('of', '*') not in {'*', *there}:
            raise UsageError(f'{file}:{yamlfile.line_of(root, ("edits", at))}: no output {edit["of"]!r}; valid: {", ".join(sorted(there))}')
    if lacking := there - data['outputs'].keys():
        raise UsageError(f'{file}:1: outputs/{min(lacking)} is not named: state its figures, or why it is refused')
    return data


def of_code(code: Code) -> dict:
    return expected(code.file.parent / 'expected.yaml')


def figures(code: Code, name: str):
    """The figures that an output must give. Python 3.12 and later add floats more exactly: the last digits may differ."""
    return pytest.approx(of_code(code)['outputs'][name]['figures'], rel=1e-12, abs=0)


def good(code: Code) -> list[str]:
    """The outputs that have figures."""
    return [name for name, of in of_code(code)['outputs'].items() if 'figures' in of]


def refusal(said: dict) -> tuple[str, str]:
    """The word and the sentence with which an output is refused."""
    (word, why), = ((word, why) for word, why in said.items() if word in WORDS)
    return word, why


def problem(code: Code) -> str:
    """Return why a folder cannot be tested, in one line; '' if it can."""
    try:
        data = of_code(code)
    except UsageError as err:
        return str(err)
    needed = {'output with figures': good(code), '`mutations:`': 'mutations' in data, '`cases:`': data.get('cases') or code.profiles}
    return next((f'{code.file.parent}/expected.yaml: no {what}; docs/new-check.md shows it' for what, there in needed.items() if not there), '')


#: The codes whose folders are whole: test_rooms.py names the others.
EVERY = tuple(code for code in codes.every() if not problem(code))


@functools.cache
def reader(code: Code, name: str):
    """The code's ``read``, which knows the message sizes that this output was asked for."""
    read = room(code).read
    asked = of_code(code)['outputs'][name].get('asked', {})
    takes = inspect.signature(read).parameters
    return functools.partial(read, **{word: value for word, value in asked.items() if word in takes})


def outcome(read, text):
    """(figures, facts), or None where ``read`` refuses the text in one of the ways allowed."""
    try:
        return read(text)
    except Refused:
        return None
