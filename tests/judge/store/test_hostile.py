"""Results that another hand made: names that lead out of the folder, links, files that were cut."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing

import pytest

import sessions as made
from commands import parity
from conftest import TOP, shell
from parity.base import files, paths
from parity.base.errors import InfrastructureError
from parity.base.files import Lock
from parity.judge.store import database, history, merging, writing
from parity.judge.verdict import incidents, judge
from parity.nightly import notify
from sessions import case, store

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
    for name in ('a.json', '.session-local.lock', '.build.lock'):
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


@pytest.mark.parametrize('write', [files.write, lambda file, text: files.write_all({file: text.encode()})])
def test_a_member_of_the_group_who_swaps_the_temporary_file_for_a_link_reaches_no_other_file(results, tmp_path, monkeypatch, write):
    results.mkdir(exist_ok=True)
    victim, opened, names = tmp_path / 'victim', os.open, []
    victim.write_text('mine')
    victim.chmod(0o600)
    (results / 'a.json').write_text('before')
    (results / 'a.json').chmod(0o664)

    def swapping(path, flags, *rest, **more):
        made = opened(path, flags, *rest, **more)
        if os.fspath(path).startswith(str(results)) and flags & os.O_CREAT:
            names.append((os.path.basename(path), flags))
            os.unlink(path)
            os.symlink(victim, path)
        return made
    monkeypatch.setattr(os, 'open', swapping)
    for _ in range(2):
        write(results / 'a.json', 'x')
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ('mine', 0o600)
    assert len({name for name, _ in names}) == 2, 'no name is guessed'
    assert all(flags & os.O_EXCL and flags & os.O_NOFOLLOW for _, flags in names)


def test_a_cached_file_that_was_cut_is_made_anew_and_one_is_on_the_disk_before_it_has_its_name(stored, monkeypatch):
    def forget() -> None:
        history._loaded.cache_clear()
        history._scanned.cache_clear()

    stored('a', case(100.0))
    whole = history.load('local')
    file = database.file('a', 'parquet')
    content = file.read_bytes()
    flipped = bytes([*content[:200], content[200] ^ 1, *content[201:]])
    for cut in (b'', content[:4], content[:-1], bytes(len(content)), flipped):
        file.write_bytes(cut)
        forget()
        assert history.load('local').equals(whole) and history._whole(file)
    order, sync, rename = [], os.fsync, os.replace
    monkeypatch.setattr(os, 'fsync', lambda fd: order.append('fsync') or sync(fd))
    monkeypatch.setattr(os, 'replace', lambda *names: order.append('rename') or rename(*names))
    file.unlink()
    forget()
    assert len(history.load('local')) == 2 and order == ['fsync', 'rename'] * 3


def test_a_file_that_another_command_removes_while_it_is_read_is_named(stored, monkeypatch):
    monkeypatch.setattr(history, '_BYTES_AT_ONCE', 0)
    for uuid in 'abcde':
        stored(uuid, case(100.0))
    parts = history.parts('local')
    file = database.file('a', 'parquet')
    file.unlink()
    with pytest.raises(InfrastructureError, match=f'{re.escape(str(file.parent))}.*run this one again'):
        parts.gathered(lambda part: part)


@pytest.mark.parametrize('clock', ['Infinity', 'NaN', '1e300', '1e18', 'true', '"now"', 'null'])
def test_a_session_whose_clock_is_no_time_is_left_out(results, clock):
    blob = json.dumps(made.report([case()], [made.planned()], uuid='b', time_start_unix=-7.5)).replace('-7.5', clock)
    store(paths.database(), 'b', 2, blob=blob)
    store(paths.database(), 'a', 1)
    done = parity('verdict')
    assert done.returncode == 0 and 'Traceback' not in done.stderr, done.stderr
    with closing(sqlite3.connect(paths.database())) as conn:
        assert conn.execute('SELECT COUNT(*) FROM sessions').fetchone() == (2,)


def emptied(*statements: str):
    with closing(sqlite3.connect(paths.database())) as conn, conn:
        for statement in statements:
            conn.execute(statement)


OLDER = "UPDATE metadata SET schema_version = '9.0'", 'has tables of version 9.0, parity stores version 1.0'


@pytest.mark.parametrize('damage, said', [
    OLDER, ('DROP TABLE testcases', 'lacks the table testcases and is not empty'),
    ('ALTER TABLE sessions RENAME TO nights', 'lacks the table sessions and is not empty')])
def test_a_database_that_could_not_take_a_session_is_refused_and_stays(results, damage, said):
    store(paths.database(), 'a')
    emptied(damage)
    before = paths.database().read_bytes()
    with pytest.raises(InfrastructureError, match=said):
        writing.make_usable()
    assert paths.database().read_bytes() == before


def test_a_run_is_refused_before_it_measures_what_could_not_be_stored(results_here):
    store(paths.database(), 'a')
    emptied(OLDER[0])
    for line in ('. ci/activate && reframe -c checks/storage/filecopy/filecopy.py -r -n NoSuch', 'ci/nightly -n NoSuch'):
        done = shell(line, TOP)
        assert done.returncode == 4 and OLDER[1] in done.stderr and 'Traceback' not in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize('killed', ['DROP TABLE metadata', 'DELETE FROM metadata'])
def test_a_database_that_a_kill_left_without_a_version_gets_one_and_takes_sessions(results, tmp_path, killed):
    store(paths.database(), 'a')
    emptied(killed)
    store(tmp_path / 'other.db', 'b')
    assert merging.merge(tmp_path / 'other.db') == ({'local': 1}, 0) and database.uuids() == ['a', 'b']


def test_a_database_without_a_table_or_a_row_makes_room(results, tmp_path):
    store(paths.database(), 'a')
    emptied('DELETE FROM sessions', 'DELETE FROM testcases', 'DROP TABLE testcases', 'DROP TABLE metadata')
    writing.make_usable()
    assert not paths.database().exists()
    store(tmp_path / 'victim.db', 'b')
    paths.database().symlink_to(tmp_path / 'victim.db')
    with pytest.raises(InfrastructureError, match='lies behind a link'):
        writing.make_usable()


@pytest.mark.usefixtures('red_at_once')
def test_an_incident_that_cannot_be_read_is_left_out_with_a_warning(stored, site, monkeypatch):
    monkeypatch.setattr(database, '_warned', set())
    slow, failed = case(84.0, refs={'hpl': (100.0, -0.05, 0.05)}), case(name='Other', result='fail', fail_phase='run', perfvalues={})
    incidents.record(judge.newest(stored.add(slow, failed)), 'local')
    stored.database.execute("UPDATE parity_incidents SET json = '{\"from\": \"tomorrow\"}' WHERE number = 1").connection.commit()
    for command, code in (('verdict', 1), ('notify', 0), ('summary', 0)):
        done = parity(command)
        assert done.returncode == code and 'warning: ' in done.stderr and 'incident 1 cannot be read' in done.stderr, (command, done)
        database._warned.clear()
    assert parity('show', '1').returncode == 4 and parity('show', '2').returncode == 0
    assert [each.number for each in incidents.record(judge.newest(), 'local')] == [2]
    for text in ('{"state":"over"', '{"state":"over","events":[]}', '{"state":"over"}'):
        stored.database.execute('UPDATE parity_incidents SET json = ?', (text,)).connection.commit()
        database._warned.clear()
        assert parity('verdict').returncode == 1 and parity('notify').stdout == 'local: no incident that can be read is open\n'
        assert [each.title for each in incidents.record(judge.newest(stored.add(slow, failed)), 'local')] == [
            'local:default: compute 16 % slower', 'local:default: Other: failed'], text
        stored.database.execute('DELETE FROM parity_incidents WHERE number > 2').connection.commit()


@pytest.mark.usefixtures('red_at_once')
def test_a_database_of_a_newer_version_is_written_and_its_plans_are_named(stored, site):
    def night(value):
        found = notify.prepared('local').recorded(judge.newest(stored.add(case(value, refs={'hpl': (100.0, -0.05, 0.05)}))))
        return found.exit_code, found.warnings
    assert night(100.0) == (0, [])
    for table in ('parity_incidents', 'parity_nights', 'parity_states'):
        stored.database.execute(f'ALTER TABLE {table} ADD COLUMN colour TEXT').connection.commit()
    assert night(84.0) == (1, []) and parity('show', '1').returncode == 0
    stored.database.execute("UPDATE sessions SET json_blob = json_set(json_blob, '$.parity_session.plan.colour', 'red') "
                            "WHERE uuid = '00000001-0'").connection.commit()
    done = parity('verdict')
    assert done.returncode == 4 and 'session 00000001-0 cannot be read (colour: Extra inputs are not permitted; ' \
        'perhaps a newer parity wrote it)' in done.stderr, done.stderr


def damaged(uuid: str, old: bytes, new: bytes) -> None:
    """Change bytes of a stored report, as a bad disk does."""
    with closing(sqlite3.connect(paths.database())) as conn, conn:
        conn.text_factory = bytes
        blob, = conn.execute('SELECT json_blob FROM sessions WHERE uuid = ?', (uuid,)).fetchone()
        assert old in blob
        conn.execute('UPDATE sessions SET json_blob = CAST(? AS TEXT) WHERE uuid = ?', (blob.replace(old, new, 1), uuid))


COMMANDS = [['verdict'], ['report'], ['show', 'Toy.hpl@local:default'], ['sessions'], ['refs', 'propose'], ['prune', '--keep-days', '30'], ['compare', 'local:default', 'local:default']]


@pytest.mark.parametrize('cached', [True, False])
@pytest.mark.parametrize('old, new', [(b'"node01"', b'"node\xff1"'), (b'"Toy"', b'"To\xc3"'), (b'"session_info"', b'"session\xffinfo"'), (b'"unit"', b'"\xed\xa0\x80it"'),
                                      (b'"runs"', b'"runs'), (b'{', b'\x00'), (b'"reframe -c checks/ -r"', b'"\xfe"')])
def test_a_session_with_a_bad_byte_is_left_out_with_one_warning(stored, monkeypatch, old, new, cached):
    monkeypatch.setattr(database, '_warned', set())
    for _ in range(4):
        stored.add(case())
    stored.database.close()
    if cached:
        assert len(history.load('local')) == 8 and len(database.sessions('local')) == 4
    damaged('00000001-0', old, new)
    commands = [parity(*command) for command in COMMANDS]
    for done in commands:
        assert done.returncode in (0, 2) and 'Traceback' not in done.stderr, (done.args, done.stderr)
    warned = [line for line in commands[0].stderr.splitlines() if 'warning' in line]
    assert commands[0].returncode == 0 and len(warned) == 1 and 'session 00000001-0 cannot be read (' in warned[0], commands[0].stderr
    assert [session.uuid for session in database.sessions('local')] == ['00000000-0', '00000002-0', '00000003-0']


def test_a_cached_session_that_was_damaged_is_read_again(stored):
    stored.add(case())
    whole, file = database.sessions('local'), database.file('00000000-0', 'json')
    content = file.read_text()
    for bad in (content.replace('"local"', '"locaL"'), content.replace('4.10.4', '4.10.5'), 'x', '', content[9:]):
        file.write_text(bad)
        database._brief.cache_clear()
        assert database.sessions('local') == whole and file.read_text() == content


def test_a_merge_takes_sessions_beside_one_with_a_bad_byte(results, tmp_path):
    for uuid in ('a', 'b'):
        store(paths.database(), uuid)
    damaged('b', b'node01', b'node\xff1')
    os.rename(paths.database(), tmp_path / 'other.db')
    store(paths.database(), 'c')
    done = parity('merge', str(tmp_path / 'other.db'))
    assert done.returncode == 0 and sorted(database.uuids()) == ['a', 'b', 'c'], done.stderr
    assert len(database.sessions('local')) == 2


@pytest.mark.parametrize('column, value', [
    ('session_start_unix', 'soon'), ('session_start_unix', float('inf')), ('session_start_unix', None), ('session_start_unix', b'x'),
    ('uuid', b'\xff'), ('uuid', None), ('uuid', 5), ('json_blob', None), ('json_blob', 5), ('json_blob', '{}'), ('json_blob', '{"session_info": 5}')])
def test_a_session_with_a_column_of_another_kind_ends_no_command(stored, column, value):
    for _ in range(3):
        stored.add(case())
    with stored.database as conn:
        conn.execute(f"UPDATE sessions SET {column} = ? WHERE uuid = '00000002-0'", (value,))
    for command in (*COMMANDS, ['verdict', '--session', '00000001'], ['summary']):
        done = parity(*command)
        assert done.returncode in (0, 2, 3, 4) and 'Traceback' not in done.stderr, (command, done.stderr)
    assert len(database.sessions('local')) in (2, 3) and database.infos()
    assert parity('verdict', '--session', '00000001').returncode == 0
