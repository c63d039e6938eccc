"""`parity prune` and `parity merge`: what is removed, what stays, and what is never mixed."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands import parity, process
from jobs import journal_of
from parity.base import paths
from parity.base.errors import InfrastructureError, UsageError
from parity.base.files import Lock
from parity.judge.store import database, merging
from parity.measure.session import retain
from sessions import store
from stored import case as stored_case

NOW = time.time()
DAY = 86400


def case(folder, days: float, source_days: float = 0) -> None:
    folder.mkdir(parents=True)
    for name, age in (('rfm_job.sh', days), ('rfm_job.out', days), ('copied.py', source_days or days)):
        (folder / name).write_text('x' * 100)
        os.utime(folder / name, (NOW - age * DAY,) * 2)
    os.utime(folder, (NOW - days * DAY,) * 2)


def test_old_folders_of_cases_go_and_others_stay(results, tmp_path):
    case(results / 'output/local/default/distro/Old', 40, source_days=4000)
    case(results / 'output/local/default/distro/Young', 2, source_days=4000)
    case(results / 'stage/2026-01-01/local/default/distro/Old', 300)
    case(tmp_path / 'elsewhere' / 'Case', 400)
    (results / 'stage/by hand').mkdir(parents=True)
    (results / 'stage/link').symlink_to(tmp_path / 'elsewhere')     # it is not followed
    told = retain.prune_files(NOW - 30 * DAY, dry_run=True)
    assert told.folders == 2 and told.size > 600 and (results / 'output/local/default/distro/Old').exists()
    assert retain.prune_files(NOW - 30 * DAY, dry_run=False) == told
    assert [p.name for p in (results / 'output/local/default/distro').iterdir()] == ['Young']
    assert {p.name for p in (results / 'stage').iterdir()} == {'by hand', 'link'} and (tmp_path / 'elsewhere' / 'Case').exists()


def test_old_lines_of_perflogs_go_and_the_header_stays_once_killed_sessions_are_recovered(results):
    stays = 'job_completion_time_unix|result', f'{NOW - DAY}|pass|a \udcff b', 'null|fail'
    log = results / 'perflogs/local/default/Toy.log'
    log.parent.mkdir(parents=True)
    log.write_text('\n'.join([stays[0], f'{NOW - 40 * DAY}|pass', *stays[1:]]), errors='surrogateescape')
    case(results / 'output/local/default/distro/Old', 40)

    def full():
        raise InfrastructureError('database or disk is full')
    with pytest.raises(InfrastructureError):
        retain.prune_files(NOW - 30 * DAY, False, full)
    assert not (results / 'output/local').exists(), 'room is made on a full disk before a session is recovered'
    assert retain.prune_files(NOW - 30 * DAY, True, full).lines == 1
    assert retain.prune_files(NOW - 30 * DAY, dry_run=False).lines == 1
    assert tuple(log.read_text(errors='surrogateescape').splitlines()) == stays
    retain.prune_files(NOW + DAY, dry_run=False)
    assert not log.exists()


def test_old_sessions_go_but_the_newest_of_each_system(results):
    paths.database().touch()
    assert retain.prune(NOW, dry_run=False) == (0, 0), 'there are no tables yet'
    paths.database().unlink()
    for uuid, days, system in (('d', 500, 'two'), ('e', 450, 'two'), ('a', 400, 'one'), ('future', -900, 'one'), ('b', 300, 'one'), ('c', 3, 'one')):
        store(paths.database(), uuid, days, system)
    assert {s.uuid for name in ('one', 'two') for s in database.sessions(name)} == {*'abcde', 'future'}
    assert retain.prune(NOW - 100 * DAY, dry_run=True).gone == 4 and len(database.uuids()) == 6
    assert retain.prune(NOW - 100 * DAY, dry_run=False).gone == 4, 'one from the future goes with its neighbours'
    assert {file.stem for file in (results / 'cache').rglob('*.json')} == {'c', 'e'}
    assert database.uuids() == ['e', 'c'] and retain.prune(NOW - 100 * DAY, dry_run=False).gone == 0
    with closing(sqlite3.connect(paths.database())) as conn:
        assert conn.execute('SELECT COUNT(*) FROM testcases').fetchone() == (2,)


def test_a_night_goes_and_stays_with_its_reruns(stored):
    first, again = stored.add(stored_case()), stored.add(stored_case(), parity_rerun_of='00000000-0')
    newest, rerun = stored.add(stored_case()), stored.add(stored_case(), parity_rerun_of='00000002-0')
    starts = database.starts()
    assert retain.prune(starts[again], dry_run=False).gone == 2 and database.uuids() == [newest, rerun], first
    assert retain.prune(starts[rerun] + DAY, dry_run=False).gone == 0 and database.uuids() == [newest, rerun]


def test_the_command_keeps_sessions_unless_it_is_told(results):
    for uuid, days in (('a', 400), ('b', 1)):
        store(paths.database(), uuid, days)
    case(results / 'output/x/Old', 40)
    with Lock(results / '.session-local.lock', 'reframe on local').held():
        done = parity('prune', '--keep-days', '30')
        assert done.returncode == 4 and 'held by reframe on local' in done.stderr and (results / 'output/x/Old').exists()
    done = parity('prune', '--keep-days', '30')
    assert done.returncode == 0 and '1 folder of cases' in done.stdout and 'all sessions are kept' in done.stdout, done.stderr
    for rehearsed in (['--dry-run'], []):
        assert len(database.uuids()) == 2
        done = parity('prune', '--keep-days', '30', '--sessions-days', '365', *rehearsed)
        assert f'{"would be " * bool(rehearsed)}removed, older than 365 days: 1 session' in done.stdout
    assert database.uuids() == ['b'] and process('prune').returncode == 2 and parity('prune', '--keep-days', '0').returncode == 2


def test_prune_recovers_a_killed_session_unless_it_only_counts(results):
    session_id = journal_of(results, 'local')
    assert parity('prune', '--keep-days', '30', '--dry-run').returncode == 0
    assert [file.stem for file in (results / 'running').iterdir()] == [session_id] and not paths.database().exists()
    paths.database().touch()        # a full disk left it without tables
    assert 'was killed' in parity('prune', '--keep-days', '30').stderr and len(database.uuids()) == 1


def test_databases_of_several_machines_become_one_in_the_order_of_their_nights(results, tmp_path):
    other, older = tmp_path / 'other.db', tmp_path / 'older.db'
    for file, days in ((paths.database(), {'c': 8, 'future': -900, 'e': 6, 'g': 4}), (other, {'b': 9, 'c': 8, 'd': 7, 'f': 5, 'past': 20000, 'h': 3})):
        for uuid, age in days.items():
            store(file, uuid, age, 'ibm' if uuid == 'd' else 'cray')
    before = other.read_bytes()
    assert merging.merge(other) == ({'cray': 4, 'ibm': 1}, 1) and merging.merge(other) == ({}, 6)
    assert other.read_bytes() == before and database.partitions() == ['cray:default', 'ibm:default']
    assert database.uuids() == ['b', 'c', 'future', 'd', 'e', 'f', 'past', 'g', 'h']
    store(older, 'a', 10)
    merging.merge(older)
    assert database.uuids()[:2] == ['a', 'b'] and database.report('d')['session_info']['uuid'] == 'd'


def test_two_machines_of_one_name_are_never_one_history(results, tmp_path):
    store(paths.database(), 'a', host='alice')
    for uuid, host, system in (('b', 'bob', 'local'), ('c', '', 'cray')):
        store(tmp_path / 'other.db', uuid, host=host, system=system)
    with pytest.raises(UsageError, match='system local was measured on bob, here on alice'):
        merging.merge(tmp_path / 'other.db')
    assert database.uuids() == ['a']
    store(tmp_path / 'same.db', 'd', host='alice')
    assert merging.merge(tmp_path / 'same.db') == ({'local': 1}, 0)


@pytest.mark.parametrize('name, said', [('nosuch.db', 'no such file'), ('text.db', "not a results database of ReFrame's"),
                                        ('other.db', "not a results database of ReFrame's"), ('results.db', 'would be added to: name')])
def test_what_is_no_results_database_is_refused(results, tmp_path, name, said):
    store(paths.database(), 'a')
    (tmp_path / 'text.db').write_text('no database')
    with closing(sqlite3.connect(tmp_path / 'other.db')) as conn, conn:
        conn.execute('CREATE TABLE sessions(uuid TEXT)')
    done = parity('merge', str(paths.database() if name == 'results.db' else tmp_path / name))
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr, done.stderr
    assert database.uuids() == ['a']


@pytest.mark.parametrize('damage, code', [(None, 0), (lambda whole: b'', 0), (lambda whole: whole[:5000], 4), (lambda whole: b'no database', 4)])
def test_merge_makes_the_database_and_blames_a_damaged_one_of_ours(results, tmp_path, damage, code):
    store(tmp_path / 'other.db', 'b', 1)
    if damage:
        paths.database().write_bytes(damage((tmp_path / 'other.db').read_bytes()))
    done = parity('merge', str(tmp_path / 'other.db'))
    assert done.returncode == code and 'Traceback' not in done.stderr, done.stderr
    if code:
        assert f'{paths.database()}: ' in done.stderr
    else:
        assert 'sessions added: 1 of local; 0 were here already' in done.stdout
        assert parity('verdict', '--session', 'b').stdout.splitlines()[1].startswith('local · ')


def test_a_damaged_session_does_not_keep_others_from_being_merged(results, tmp_path):
    for uuid, blob in (('a', '{"x": '), ('b', '{"session_info": {}, "runs": 3}')):
        store(paths.database(), uuid, blob=blob)
    store(tmp_path / 'other.db', 'c')
    assert merging.merge(tmp_path / 'other.db') == ({'local': 1}, 0)
    for uuid in 'ab':
        done = parity('verdict', '--session', uuid)
        assert done.returncode == 4 and f'session {uuid} cannot be read' in done.stderr, done.stderr


def test_each_environment_keeps_builds_of_its_own(monkeypatch):
    def night(*builds: str):
        software = {f'e{i}': {'packages': {'hpl': {}}, 'view': f'/builds/{build}/view/bin'} for i, build in enumerate(builds)}
        return SimpleNamespace(rerun_of='', facts={'software': software})

    monkeypatch.setattr(retain.database, 'sessions', lambda system: [night('a', 'x'), night('b', 'x'), night('c', 'y')])
    assert {*retain.builds('local', 2)} == {Path(f'/builds/{name}') for name in 'bcxy'}
    assert retain.builds('local', 1) == [Path('/builds/c'), Path('/builds/y')]
