"""`parity refs` as a person types it; test_main_job.py has a real run that applies what was accepted."""

from __future__ import annotations

import pytest

import commands


def parity(*arguments: str):
    return commands.parity('refs', *arguments)


@pytest.mark.parametrize('arguments, code, says', [
    (['propose'], 2, "Missing option '--system'"), (['propose', '--system', 'nosuch'], 2, "unknown system 'nosuch'"),
    (['propose', '--system', 'local'], 3, 'no figure of local is stored'),
    (['accept', '--all', '--system', 'local'], 2, "Missing option '--why'"),
    (['accept', '--system', 'local', '--why', 'x'], 2, 'name the cells, or --all'),
    (['accept', 'a', '--all', '--system', 'local', '--why', 'x'], 2, 'not both'),
    (['accept', '--all', '--system', 'local', '--why', 'x'], 3, 'nothing is proposed for local'),
    (['show', '--system', 'nosuch'], 2, "unknown system 'nosuch'"), (['lint', '--system', 'nosuch'], 2, 'nosuch'),
])
def test_what_is_wrong_is_one_line_with_its_exit_code(results, arguments, code, says):
    done = parity(*arguments)
    assert done.returncode == code and says in done.stdout + done.stderr and 'Traceback' not in done.stderr


def test_the_references_of_all_systems_here_pass_the_lint(results):
    done = commands.process('refs', 'lint')
    assert done.returncode == 0, done.stdout + done.stderr
