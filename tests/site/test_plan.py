"""The plan: every case that runs, and those that no environment can run; it lies beside the database, by parity's id of the session."""

from __future__ import annotations

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import sessions as made
from commands import parity
from nights import DAY
from parity.base.errors import UsageError
from parity.judge.compare import resolve
from parity.judge.store import database, history, merging, plan_file
from parity.measure.rfm import planning
from parity.measure.session import retain
from sessions import store

CHECKS = '''
import reframe as rfm
import reframe.utility.udeps as udeps
from reframe.core.builtins import parameter, run_after, variable


class Toy(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    length = variable(int, value=1)


@rfm.simple_test
class Here(Toy):
    way = parameter(['a', 'b'])


@rfm.simple_test
class Nowhere(Toy):
    valid_prog_environs = ['+nowhere']
    way = parameter(['a', 'b'])


@rfm.simple_test
class After(Toy):       # its dependency cannot run
    @run_after('init')
    def wait(self):
        self.depends_on(Nowhere.variant_name(0), udeps.fully)


@rfm.simple_test
class Elsewhere(Toy):
    valid_systems = ['+nowhere']
'''


@pytest.mark.parametrize('options, names', [
    ('', {'Here %way=a', 'Here %way=b', 'Nowhere %way=a', 'Nowhere %way=b', 'After'}), ("-n 'Nowhere %way=b'", {'Nowhere %way=b'}),
    ("-x Nowhere%way=b -x 'Nowhere %way=a' -x After", {'Here %way=a', 'Here %way=b'}),
    ('-n Nowhere%way=a -P length=1,2', {'Nowhere %way=a %length=1', 'Nowhere %way=a %length=2'}),
    ('-n Nowhere%way=a -n Here%way=a --repeat=3', {'Nowhere %way=a', 'Here %way=a'})])
def test_a_case_that_no_environment_can_run_is_planned_without_one_as_it_was_selected(results_here, tmp_path, options, names):
    (tmp_path / 'toys.py').write_text(CHECKS)
    cases = planning.of_command(['-c', str(tmp_path / 'toys.py'), '-r', '--system', 'local', *shlex.split(options)]).cases
    assert {c.case for c in cases} == names and len({(c.case, c.environ) for c in cases}) == len(cases)
    assert all(bool(c.environ) is (c.check == 'Here') for c in cases)


def moved(results: Path, uuid: str, number: str) -> Path:
    """The plan that the session carries, moved into a file of its own."""
    with closing(sqlite3.connect(results / 'results.db')) as conn, conn:
        report = json.loads(conn.execute('SELECT json_blob FROM sessions WHERE uuid = ?', (uuid,)).fetchone()[0])
        report['runs'][0]['testcases'][0]['parity']['journal'] = number
        kept = {**report.pop('parity_session'), 'id': number}
        conn.execute('UPDATE sessions SET json_blob = ? WHERE uuid = ?', (json.dumps(report), uuid))
    file = results / 'sessions' / f'{number}.json'
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(kept))
    return file


def words(*arguments: str) -> list[str]:
    done = parity('verdict', '--json', *arguments)
    return [cell['verdict'] for cell in json.loads(done.stdout)['cells']]


@pytest.mark.parametrize('text', [None, '{"plan": {', '{}', '[]', 'null', '{"id": "0123456789ab", "cells": 3}'])
def test_a_session_is_judged_by_the_plan_in_its_file_or_its_loss_is_an_infrastructure_failure(stored, results, text):
    for uuid in ('aaaaaaaa-0', 'bbbbbbbb-0'):
        stored(uuid, made.case(100.0))
    kept_apart = moved(results, 'bbbbbbbb-0', '0123456789ab')
    whole = json.loads(kept_apart.read_text())
    kept_apart.write_text(text) if text else kept_apart.unlink()
    for arguments in ([], ['--system', 'local'], ['--session', 'bbbbbbbb']):
        done = parity('verdict', *arguments)
        assert done.returncode == 4 and str(kept_apart) in done.stderr and 'is lost' in done.stderr
        assert not done.stdout
    assert words('--session', 'aaaaaaaa') == ['unreferenced', 'unreferenced'], 'other sessions are judged'
    assert history.load('local')['session'].n_unique() == 2, 'its figures stay in the history'
    assert database.newest('local').planned == ''
    whole['plan']['cases'].append(made.planned('Absent'))
    kept_apart.write_text(json.dumps(whole))
    assert database.newest('local').planned != '' and sorted(words()) == ['missing'] * 2 + ['unreferenced'] * 2


def test_merge_takes_the_plans_along_and_refuses_a_session_without_and_prune_removes_them(results, tmp_path):
    other = tmp_path / 'other'
    other.mkdir()
    store(other / 'results.db', 'bbbbbbbb-0', days=40)
    away = moved(other, 'bbbbbbbb-0', '0123456789ab').rename(other / 'away')
    with pytest.raises(UsageError, match=r'0123456789ab\.json.* is lost; the folder sessions belongs beside results\.db'):
        merging.merge(other / 'results.db')
    assert database.uuids() == []
    away.rename(other / 'sessions' / '0123456789ab.json')
    store(results / 'results.db', 'aaaaaaaa-0', days=1)
    assert merging.merge(other / 'results.db') == ({'local': 1}, 0)
    assert plan_file.of_report(database.report('bbbbbbbb'))['plan']['cases']
    new, old = moved(results, 'aaaaaaaa-0', 'aaaaaaaa'), results / 'sessions' / '0123456789ab.json'
    until = database.starts()['aaaaaaaa-0'] - DAY
    assert retain.prune(until, dry_run=True).gone == 1 and old.exists()
    assert retain.prune(until, dry_run=False).gone == 1 and not old.exists() and new.exists()


def test_a_report_of_another_machine_brings_its_plan_or_says_what_is_not_told(results, tmp_path):
    report = made.report([made.case(100.0)], [made.planned(), made.planned('Absent')])
    kept = {**report.pop('parity_session'), 'id': 'abc'}
    file = tmp_path / 'there' / 'reports' / 'run-0.json'
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(report))
    side = resolve.of_file(str(file))
    assert {c.case for c in side.cells} == {'Toy'} and 'cases that never ran are not in it' in side.notes[0]
    (tmp_path / 'there' / 'sessions').mkdir()
    (tmp_path / 'there' / 'sessions' / 'abc.json').write_text(json.dumps(kept))
    side = resolve.of_file(str(file))
    assert {c.case for c in side.cells} == {'Toy', 'Absent'} and side.notes == []
