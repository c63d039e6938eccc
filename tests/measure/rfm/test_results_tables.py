"""ReFrame and parity make the same tables, and read each other's sessions."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from reframe.core import config, runtime
from reframe.frontend.reporting.storage import StorageBackend, _SqliteStorage

from parity.base import paths
from parity.judge.store import database, writing
from parity.measure.rfm import store


@pytest.fixture
def reframes(results):
    """ReFrame's own storage of results.db."""
    site = config.load_config('<builtin>')
    site.update_config({'storage': [store.storage()]}, 'test')
    site.select_subconfig('generic')
    with runtime.temp_runtime(None):
        runtime.init_runtime(site)
        yield StorageBackend.default()


def tables() -> set[tuple]:
    with closing(sqlite3.connect(paths.database())) as conn:
        made = {(kind, name, sql) for kind, name, sql in conn.execute('SELECT type, name, sql FROM sqlite_master')}
        return made | {('version', *conn.execute('SELECT schema_version FROM metadata').fetchone())}


def report() -> dict:
    case = {'name': 'Stream', 'system': 'local', 'partition': 'default', 'environ': 'spack', 'result': 'pass',
            'job_completion_time_unix': 5.0}
    return writing.as_report({}, [case], 1.0, 9.0)


def test_the_tables_are_those_of_reframe(reframes):
    reframes._db_file()
    made, mode = tables(), paths.database().stat().st_mode
    paths.database().unlink()
    writing.make_database()
    assert tables() == made
    assert paths.database().stat().st_mode == mode
    assert writing.SCHEMA_VERSION == _SqliteStorage.SCHEMA_VERSION


@pytest.mark.parametrize('first', ['reframe', 'parity'])
def test_each_reads_what_both_have_stored(reframes, first):
    mine, other = report(), report()
    if first == 'parity':
        writing.store(mine)
        reframes.store(other, '')
    else:
        reframes.store(other, '')
        writing.store(mine)
    uuids = {each['session_info']['uuid'] for each in (mine, other)}
    assert set(database.uuids()) == uuids
    found = reframes._fetch_testcases_raw('TRUE')
    assert {case['session_uuid'] for case in found} == uuids
