"""The record that a check writes: what is stored, and what is read of it, also of before it had a version."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from reframe.utility import jsonext

import sessions
from commands import parity
from parity.base.reasons import Kind
from parity.judge.store import case_record, database, record
from parity.judge.store.case_record import CaseRecord, JobTimes, Label, MetricRecord
from sessions import case, planned

FULL = CaseRecord(
    journal='abc', subsystem='memory', size='quick', needs=['stream'], left_out={'copy': 'one rank'}, variant={'threading': 'one'},
    metrics={'triad': MetricRecord('GB/s', 'higher', limit={'value': 80.0, 'unit': 'GB/s', 'source': 'DIMMs', 'certain': True}),
             'add': MetricRecord('GB/s', 'higher', "the check's own", ceiling={'of': 'Hpcc.dgemm', 'times': 2}, absent='cut')},
    labels={'triad': Label('cached', 'fits in L3')}, changed={'nodes': '2'}, software={'identity': 'x'}, sizing={'n': {'n': 5, 'why': 'memory'}},
    inputs={}, image='', check='1', code='2', profile={'calls': 3}, placement={'ranks': 4}, traffic={'ib0': 5}, facts={'seconds': 9.0},
    gpus={'driver': '580'}, devices={'gpu0': 'GPU-a'}, node={'node': 'n1'}, nodes=['n1'], watched={'seconds': 9.5}, disturbed='others',
    before={'time_s': 1.0}, after={'time_s': 2.0}, job=JobTimes(1000.0, 40.0, 50.0), until_unix=2000.0, exitcode=1, status='failed',
    kind='limit', reason='time limit reached')


def test_a_record_is_read_as_it_was_written_by_reframe():
    stored = json.loads(jsonext.dumps({'parity': FULL}))['parity']
    assert stored['version'] == case_record.VERSION == 1
    assert CaseRecord.from_json(stored) == FULL
    assert {each.name for each in dataclasses.fields(CaseRecord)} == stored.keys(), 'every field is tried'


def test_what_a_check_did_not_note_is_not_stored():
    assert CaseRecord().as_json() == {'version': 1}
    assert CaseRecord.from_json({'version': 1}) == CaseRecord()
    assert CaseRecord(inputs={}, image='', kind='').as_json() == {'version': 1, 'inputs': {}, 'image': '', 'kind': ''}


def test_a_record_without_a_version_has_times_without_units():
    stored = {'journal': 'abc', 'job': {'submitted': 1000.0, 'waited': 40.0, 'ran': 50.0}, 'until': 2000.0, 'labels': None, 'gone': 1}
    assert CaseRecord.from_json(stored) == CaseRecord(journal='abc', job=JobTimes(1000.0, 40.0, 50.0), until_unix=2000.0)
    assert CaseRecord.from_json({'job': {}}).job is None


def test_both_forms_give_the_same_run():
    before = sessions.report([case(parity={'job': {'submitted': 1000.0, 'waited': 40.0, 'ran': 50.0}, 'labels': {'hpl': {'word': 'cached', 'reason': 'x'}}})], [planned()])
    now = json.loads(json.dumps(before))
    for raw in (each for run in now['runs'] for each in run['testcases']):
        raw['parity'] = CaseRecord.from_json(raw['parity']).as_json()
    assert now != before
    (one,), (other,) = record.of_report(before).runs, record.of_report(now).runs
    assert one == other and one.seconds == 50.0 and one.figures['hpl'].label == 'cached'


def test_a_record_of_a_newer_parity_leaves_its_session_out_and_says_so(site, stored):
    stored.add(case())
    stored.add(case(parity={'version': 2}))
    done = parity('verdict', '--session', '00000001')
    assert done.returncode == 4 and 'a newer parity wrote its record: version 2, and up to 1 are read' in done.stderr
    assert 'Traceback' not in done.stderr
    with pytest.raises(database.Unreadable):
        database.read(database.last())


def test_a_refusal_and_a_name_that_is_no_field():
    noted = CaseRecord()
    noted.refuse('failed', 'a node failed', Kind.NODE)
    assert (noted.status, noted.reason, noted.kind) == ('failed', 'a node failed', 'node')
    noted['facts'] |= {'link': 'eth0'}
    assert noted.facts == noted['facts'] == {'link': 'eth0'}
    with pytest.raises(KeyError):
        noted['fact'] = {}


@pytest.mark.parametrize('lines, said', [
    (['no space left', '', '--- stdout ---', '\x1b[31mdisk full\x1b[0m', 'more'], 'no space left; disk full'),
    (['', '--- stderr ---', 'sbatch: refused'], 'sbatch: refused'), ([''], '')])
def test_what_stopped_a_run_is_its_first_two_lines_without_rules_and_colours(lines, said):
    stopped = '[2026-11-29T01:00:00] ERROR: run session stopped: '
    first = f'{stopped}an earlier error\n'
    log = f'{first}{stopped}' + '\n'.join(lines) + '\n[2026-11-29T01:00:01] info: the end\n'
    assert record._last_error(log) == said


@pytest.mark.parametrize('seconds, said', [(59, 'no space left'), (-59, 'no space left'), (61, ''), (-61, '')])
def test_why_a_run_stopped_is_in_the_log_that_was_written_when_it_ended(tmp_path, seconds, said):
    log = tmp_path / 'reframe.log'
    log.write_text('[2026-11-29T01:00:00] ERROR: run session stopped: no space left\n')
    os.utime(log, (1000, 1000 + seconds))
    assert record._why_stopped({'log_files': [str(log), str(tmp_path / 'gone.log')], 'time_end_unix': 1000.0}) == said
