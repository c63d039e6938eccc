"""A results folder of a group: who may only read it, and who may write it, too."""

import os
import stat
from pathlib import Path

import pytest

from parity.base import files
from parity.judge.store import database


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv('PARITY_RESULTS', str(tmp_path / 'results'))
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'home'))
    database._cache.cache_clear()
    yield tmp_path / 'results'
    database._cache.cache_clear()


@pytest.mark.parametrize('writable, place', [(('own results', 'home'), 'results'), (('home',), 'home'), ((), 'neither')])
def test_who_may_only_read_has_a_cache_of_its_own(results, monkeypatch, tmp_path, writable, place):
    """Where the home cannot be written either, the cache goes with the process."""
    (results / 'cache').mkdir(parents=True)
    (tmp_path / 'home').mkdir(exist_ok=True)
    tops = {'own results': results, 'home': tmp_path / 'home'}
    monkeypatch.setattr(os, 'access', lambda path, mode: any(Path(path).is_relative_to(tops[name]) for name in writable))    # root may
    cache = database.cache()
    assert cache.is_relative_to(results) is (place == 'results')
    assert cache.is_relative_to(tmp_path / 'home' / 'parity') is (place == 'home')


def test_a_group_may_take_a_lock_where_the_umask_lets_it(results):
    mask = os.umask(0o002)
    try:
        with files.Lock(results / 'one.lock', 'a test').held(), files.alone(results / 'two.lock', 'tests'):
            assert {stat.S_IMODE(each.stat().st_mode) for each in results.glob('*.lock')} == {0o664}
    finally:
        os.umask(mask)


@pytest.mark.parametrize('folder, mode', [(0o775, 0o664), (0o755, 0o644), (0o777, 0o664)])
def test_a_group_that_may_write_in_the_folder_may_take_a_lock_whatever_the_umask_of_its_maker(results, folder, mode):
    results.mkdir()
    results.chmod(folder)
    mask = os.umask(0o022)
    try:
        with files.Lock(results / 'one.lock', 'a test').held(), files.alone(results / 'two.lock', 'tests'):
            assert {stat.S_IMODE(each.stat().st_mode) for each in results.glob('*.lock')} == {mode}
    finally:
        os.umask(mask)
