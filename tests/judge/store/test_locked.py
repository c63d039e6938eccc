"""A results database that another process holds: whoever needs it waits, and says for whom."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from commands import parity
from nights import start
from parity.base import files, paths
from parity.base.errors import InfrastructureError
from parity.judge.store import database, incidents, states
from parity.measure.rfm import store
from parity.measure.session import retain
from stored import case

HOLD = ('import sqlite3, sys\nconn = sqlite3.connect(sys.argv[1], isolation_level=None)\nconn.execute("BEGIN EXCLUSIVE")\n'
        'print("held", flush=True)\nsys.stdin.readline()\nconn.execute("COMMIT")')


@pytest.fixture
def held(stored, monkeypatch):
    """Another process, which holds the database until it gets a line. One session is stored."""
    monkeypatch.setattr(database, '_SILENT', 0.1)
    stored.add(case())
    stored.database.close()
    process = subprocess.Popen([sys.executable, '-c', HOLD, paths.database()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == 'held\n'
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize('use', [
    lambda: len(database.uuids()) == 1, lambda: not incidents.unrecorded('local'), lambda: retain.prune(0.0, False).gone == 0,
    lambda: states.write('local', {'a': pl.DataFrame(schema=states.SCHEMA)}, {'a': start(0)}) is None], ids=['read', 'incidents', 'prune', 'states'])
def test_whoever_needs_a_database_that_is_held_waits_and_names_the_holder_once(held, use, capsys, monkeypatch):
    holders = files.holders

    def named(file: Path) -> str:
        holder = holders(file)
        held.communicate('let go\n')
        return holder

    monkeypatch.setattr(files, 'holders', named)
    assert use()
    said, = [line for line in capsys.readouterr().err.splitlines() if 'locked' in line]
    assert said.startswith(f'parity: {paths.database()}: locked by process {held.pid} ({sys.executable} -c import sqlite3')
    assert said.endswith('): waiting for at most 300 s')


def test_a_database_that_is_held_for_too_long_is_infrastructure_with_the_holder(held, monkeypatch):
    monkeypatch.setattr(paths, 'PATIENCE', 0.2)
    with pytest.raises(InfrastructureError, match=f'locked by process {held.pid} .* for more than 0.2 s; end it, or come back later'):
        database.uuids()
    done = parity('verdict')
    assert done.returncode == 4 and f'process {held.pid}' in done.stderr.splitlines()[-1], done.stderr


def test_a_session_is_stored_as_late_as_a_night_begins():
    assert store.storage()['sqlite_conn_timeout'] == paths.PATIENCE == 300
