"""The counter of code: what counts as volume, as density and as packed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conftest import TOP
from dev import density

PLAIN = '''\
def scaled(values, factor):
    result = []
    for value in values:
        result.append(factor * value)
    return result
'''
IN_FEWER_LINES = '''\
def scaled(values, factor):
    result = []
    for value in values: result.append(factor * value)
    return result
'''
DOCUMENTED = PLAIN.replace(':\n', ':\n    """Return the values, each times the factor."""\n', 1)
#: Two conditions in one statement more.
DENSER = PLAIN.replace('return result', 'return result if result and len(result) < factor else None')


def counted(folder, text: str) -> density.Count:
    folder.mkdir(exist_ok=True)
    (folder / 'made.py').write_text(text)
    return density.total(folder)


def test_neither_line_breaks_nor_docstrings_count(tmp_path):
    plain = counted(tmp_path, PLAIN)
    assert (plain.functions, plain.statements, len(plain.dense)) == (1, 5, 1)
    for same in (IN_FEWER_LINES, DOCUMENTED):
        other = counted(tmp_path, same)
        assert (other.nodes, other.statements) == (plain.nodes, plain.statements)
        assert other.dense[0].density == plain.dense[0].density


def test_more_in_a_statement_is_denser(tmp_path):
    plain, denser = counted(tmp_path, PLAIN), counted(tmp_path, DENSER)
    assert denser.nodes > plain.nodes and denser.statements == plain.statements
    assert denser.dense[0].density > plain.dense[0].density


def test_a_function_of_two_statements_has_no_density(tmp_path):
    assert counted(tmp_path, 'def two(a):\n    b = a\n    return b\n').dense == []


@pytest.mark.parametrize('text, kind', [
    ('if (a := 1): pass', 'walruses'),
    ('a = [b for c in d for b in c]', 'nested'),
    ('a = [[b for b in c] for c in d]', 'nested'),
    ('a = 1 if b else 2 if c else 3', 'conditionals'),
    ('a = lambda: 1', 'lambdas')])
def test_each_way_to_pack_a_line_is_counted_once(tmp_path, text, kind):
    count = counted(tmp_path, text)
    packed = {name: getattr(count, name) for name in ('walruses', 'nested', 'conditionals', 'lambdas')}
    assert packed == {'walruses': 0, 'nested': 0, 'conditionals': 0, 'lambdas': 0} | {kind: 1}


def test_the_command_has_a_row_for_each_room_and_names_the_densest_function(tmp_path):
    counted(tmp_path / 'one', PLAIN)
    counted(tmp_path / 'other', DENSER)
    command = [sys.executable, '-m', 'dev.density', tmp_path, '--rooms', '--worst', '1']
    printed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[0] for line in printed[1:3]] == ['one', 'other'] and len(printed) == 5
    assert printed[4].endswith('other/made.py:1 scaled')


def test_a_folder_that_is_not_there_is_named():
    command = [sys.executable, '-m', 'dev.density', 'nosuch']
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 2 and 'nosuch: no such folder' in done.stderr
