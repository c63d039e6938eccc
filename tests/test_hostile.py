"""Results that another hand made: names that lead out of the folder, links, files that were cut."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest

import sessions as made
from commands import parity
from parity.base import files, paths
from parity.base.files import Lock
from parity.records import database, history
from sessions import case
from test_retain import store

NAMES = ['/NAME', '../../../NAME', 'a/b', '', 'a\x1b[2J', '*', 'a.b']


@pytest.mark.parametrize('uuid', NAMES)
def test_a_session_whose_uuid_is_no_name_is_not_merged(results, tmp_path, uuid):
    store(paths.database(), 'a')
    store(tmp_path / 'other.db', uuid)
    done = parity('merge', str(tmp_path / 'other.db'))
    assert done.returncode == 2 and 'is no name of a session: valid are letters, digits and -' in done.stderr, done.stderr
    assert '\x1b' not in done.stderr and database.uuids() == ['a']


@pytest.mark.parametrize('where', ['column', 'report', 'journal'])
@pytest.mark.parametrize('name', ['PATH', '../../../../../..PATH'])
def test_a_stored_session_never_names_a_file_elsewhere(results, tmp_path, name, where):
    target, name = tmp_path / 'victim', name.replace('PATH', str(tmp_path / 'victim'))
    for ending in ('json', 'parquet'):
        target.with_suffix(f'.{ending}').write_text('{"id": 1}')
    report = made.report([case()], [made.planned()], uuid=name if where != 'journal' else 'b')
    if where == 'journal':
        report['parity_session'] = {'id': name}
    store(paths.database(), name if where == 'column' else 'b', 400, blob=json.dumps(report))
    store(paths.database(), 'c')
    assert [session.uuid for session in database.sessions('local')] == ['c'] and history.rows(database.uuids()).collect()['session'].unique().to_list() == ['c']
    assert parity('prune', '--keep-days', '30', '--sessions-days', '30').returncode == 0 and database.uuids() == ['c']
    assert [target.with_suffix(f'.{ending}').read_text() for ending in ('json', 'parquet')] == ['{"id": 1}'] * 2


def test_no_link_below_results_is_followed_on_writing(results, tmp_path):
    victim = tmp_path / 'victim'
    victim.mkdir()
    (victim / 'mine').write_text('mine')
    for name in ('a.json', f'.b.json.{os.getpid()}', '.session-local.lock', '.build.lock'):
        (results / name).symlink_to(victim / 'mine')
    (results / 'folder').symlink_to(victim)
    for name in ('a.json', 'b.json'):
        files.write(results / name, 'x')
        assert (results / name).read_text() == 'x' and not (results / name).is_symlink()
    with pytest.raises(OSError, match='lies behind a link: none below results/ is followed'):
        files.write(results / 'folder' / 'x', 'x')
    with pytest.raises(Exception, match='session-local.lock: '):
        Lock(results / '.session-local.lock', 'x').acquire()
    with pytest.raises(OSError), files.alone(results / '.build.lock', 'builds'):
        pass
    assert [file.name for file in victim.iterdir()] == ['mine'] and (victim / 'mine').read_text() == 'mine'
    (tmp_path / 'ours').symlink_to(victim / 'mine')
    files.write(tmp_path / 'ours', 'ours')
    assert (victim / 'mine').read_text() == 'ours', 'elsewhere a link is the wish of its owner'


def test_a_cached_file_that_was_cut_is_made_anew_and_one_is_on_the_disk_before_it_has_its_name(stored, monkeypatch):
    stored('a', case(100.0))
    whole = history.load('local')
    file = database.file('a', 'parquet')
    content = file.read_bytes()
    for cut in (b'', content[:4], content[:-1], bytes(len(content))):
        file.write_bytes(cut)
        history._loaded.cache_clear()
        assert history.load('local').equals(whole) and history._whole(file)
    order, sync, rename = [], os.fsync, os.replace
    monkeypatch.setattr(os, 'fsync', lambda fd: order.append('fsync') or sync(fd))
    monkeypatch.setattr(os, 'replace', lambda *names: order.append('rename') or rename(*names))
    file.unlink()
    history._loaded.cache_clear()
    assert len(history.load('local')) == 2 and order == ['fsync', 'rename'] * 2


@pytest.mark.parametrize('clock', ['Infinity', 'NaN', '1e300', '1e18', 'true', '"now"', 'null'])
def test_a_session_whose_clock_is_no_time_is_left_out(results, clock):
    blob = json.dumps(made.report([case()], [made.planned()], uuid='b', time_start_unix=-7.5)).replace('-7.5', clock)
    store(paths.database(), 'b', 2, blob=blob)
    store(paths.database(), 'a', 1)
    done = parity('verdict')
    assert done.returncode == 0 and 'Traceback' not in done.stderr, done.stderr
    with sqlite3.connect(paths.database()) as conn:
        assert conn.execute('SELECT COUNT(*) FROM sessions').fetchone() == (2,)
