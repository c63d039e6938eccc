"""parity's own version is one of a session's facts: a change of it may have made a figure another."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from parity import __version__
from parity.base import paths
from parity.session import current


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for folder in ('systems', 'checks', 'docs'):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'file').write_text('first\n')
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return tmp_path


def test_a_commit_and_a_change_of_what_measures_are_told_and_docs_are_not(checkout):
    for words in (['init', '-q'], ['add', '.'], ['-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'x']):
        subprocess.run(['git', '-C', str(checkout), *words], check=True)
    versions = [paths.version()]
    for folder, text in (('docs', 'second\n'), ('checks', 'second\n'), ('checks', 'third\n')):
        (checkout / folder / 'file').write_text(text)
        versions.append(paths.version())
    first, docs, second, third = versions
    assert first.startswith(f'{__version__} ') and '+' not in first and docs == first
    assert second.startswith(f'{first} + ') and third.startswith(f'{first} + ') and third != second
    partition = SimpleNamespace(extras={}, environs=[])
    assert current._facts(partition)['parity'] == third             # a session keeps it


def test_without_git_the_version_stands_alone(checkout, monkeypatch):
    monkeypatch.setenv('GIT_CEILING_DIRECTORIES', str(checkout.parent))
    assert paths.version() == __version__
    monkeypatch.setenv('PATH', '')
    assert paths.version() == __version__
