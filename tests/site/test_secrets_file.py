"""Secrets: a file that nobody else reads, or the environment; their text is in no message."""

from __future__ import annotations

import os

import pytest

from parity.base.errors import UsageError
from parity.site import secrets


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a file of secrets, and returns its path."""
    def written(text: str, mode: int = 0o600) -> str:
        file = tmp_path / 'secrets'
        file.write_bytes(text.encode('latin-1'))
        file.chmod(mode)
        return str(file)
    return written


def test_lines_are_keys_and_values_and_the_others_blank_or_remarks(file, monkeypatch, tmp_path):
    text = '# ours\n\n  # indented\n \nTOKEN=hunter2 = x\n_A1=\n'
    assert secrets.read(file(text), 'notify') == {'TOKEN': 'hunter2 = x', '_A1': ''}
    monkeypatch.setenv('WHERE', str(tmp_path))
    assert secrets.read('$WHERE/secrets', 'notify') == {'TOKEN': 'hunter2 = x', '_A1': ''}


@pytest.mark.parametrize('mode', [0o644, 0o640, 0o400, 0o700, 0o606])
def test_a_file_that_others_may_read_is_refused(file, mode):
    with pytest.raises(UsageError, match=f'mode is {mode:o}: secrets must be a file of mode 600; chmod 600 '):
        secrets.read(file('A=1', mode), 'notify')


@pytest.mark.parametrize('text, line', [('hunter2', 1), ('A=1\nhunter2', 2), ('\n\n2x=hunter2', 3), (' A=1', 1), ('A B=1', 1), ('A=\0', 1)])
def test_a_bad_line_is_named_by_its_number_and_its_text_is_not_told(file, text, line):
    with pytest.raises(UsageError, match=f'secrets:{line}: must be KEY=VALUE') as err:
        secrets.read(file(text), 'notify')
    assert 'hunter2' not in str(err.value)


def test_a_folder_bytes_that_are_no_text_and_no_file_are_refused(file, tmp_path):
    for named, why in ((str(tmp_path), 'secrets must name a file'), (file('A=\xff'), 'must be UTF-8 text'), (f'{tmp_path}/none', 'No such file')):
        with pytest.raises(UsageError, match=why):
            secrets.read(named, 'notify')


def test_secrets_of_the_environment_leave_it(monkeypatch):
    monkeypatch.setenv('TOKEN', 'hunter3')
    with pytest.raises(UsageError, match='notify.secrets: not set in the environment: NO_SUCH; export them, or name a file'):
        secrets.read(['TOKEN', 'NO_SUCH'], 'notify')
    assert secrets.read(['TOKEN'], 'notify') == {'TOKEN': 'hunter3'}
    assert 'TOKEN' not in os.environ, 'what is started from here on does not inherit it'
