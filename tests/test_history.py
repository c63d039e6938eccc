"""The figures of stored sessions as one frame: what regressions, references and comparisons judge from."""

from __future__ import annotations

import sqlite3

import pytest

from conftest import TOP, run_python
from parity.base import paths
from parity.records import history, kept
from sessions import case


def hpl(**options):
    frame = history.load('local', **options)
    return frame.filter(frame['metric'] == 'hpl')


def test_every_figure_of_a_system_oldest_first(stored):
    stored('a', case(100.0), case(101.0))
    stored('b', case(99.0), {**case(7.0), 'system': 'other'})
    assert hpl().select('session', 'run', 'value').rows() == [('a', 0, 100.0), ('a', 1, 101.0), ('b', 0, 99.0)]
    assert history.cell_id(hpl().row(0, named=True)) == 'Toy.hpl@local:default'


def test_what_failed_and_what_was_tried_again_is_no_figure(stored):
    stored('a', {**case(1.0), 'result': 'fail', 'fail_phase': 'run'}, retries=[case(100.0)])
    stored('b', case(float('nan')), case(99.0))
    assert hpl()['value'].to_list() == [99.0]


def test_labels_and_what_was_changed_are_told(stored):
    stored('a', case(100.0, parity={'labels': {'hpl': {'word': 'cached'}}, 'changed': {'nodes': '4', 'order': 'cyclic'}}))
    assert hpl().select('label', 'changed', 'node', 'software').rows() == [('cached', 'nodes=4,order=cyclic', 'node01', 'x')]


def test_the_newest_nights_come_with_their_reruns(stored):
    for uuid in 'abc':
        stored(uuid, case(100.0))
    stored('d', case(99.0), parity_rerun_of='c')
    assert set(hpl(nights=1)['session']) == {'c', 'd'}
    assert hpl(nights=1).filter(hpl(nights=1)['session'] == 'd')['rerun_of'].to_list() == ['c']


def test_a_session_is_read_once_and_one_that_was_taken_away_is_gone(stored, monkeypatch):
    stored('a', case(100.0))
    assert len(hpl()) == 1
    stored('b', case(99.0))
    read = []
    report = kept.database.report
    monkeypatch.setattr(kept.database, 'report', lambda uuid: read.append(uuid) or report(uuid))
    assert len(hpl()) == 2 and read == ['b']
    sqlite3.connect(paths.database()).execute('DELETE FROM sessions WHERE uuid = "a"').connection.commit()
    assert hpl()['session'].to_list() == ['b']


def test_nothing_stored_is_an_empty_history(tmp_path, monkeypatch):
    monkeypatch.setenv('PARITY_RESULTS', str(tmp_path))
    assert history.load('local').is_empty() and kept.sessions('local') == []


def test_what_each_node_said_of_itself_is_kept_by_session(stored):
    stored('a', case(1.0, parity={'node': {'node': 'v3', 'kernel': '6.1.187'}}))
    stored('b', case(1.0, parity={'node': {'node': 'v3', 'kernel': '6.1.192'}}))
    assert [s.nodes['v3']['kernel'] for s in kept.sessions('local')] == ['6.1.187', '6.1.192']
    assert [s.uuid for s in kept.sessions('local', last=1)] == ['b']


@pytest.mark.parametrize('perfvalues', [
    ['not', 'by', 'name'], {'local:default:hpl': 100.0}, {'local:default:hpl': []}, 'text',
    {'local:default:hpl': [[1], 0, None, None, 'Gflop/s', 'pass']}, {'local:default:hpl': ['fast', 0, None, None, '', '']},
])
def test_a_session_that_cannot_be_read_is_named_and_the_others_are_kept(stored, capsys, perfvalues, monkeypatch):
    monkeypatch.setattr(kept, '_told', set())
    stored('a', case(100.0))
    stored('broken', {**case(1.0), 'perfvalues': perfvalues})
    stored('c', case(101.0))
    assert hpl()['value'].to_list() == [100.0, 101.0]
    said = capsys.readouterr().err
    assert 'session broken is not one that parity can read' in said and len(said.splitlines()) == 1
    assert hpl()['session'].to_list() == ['a', 'c']


@pytest.mark.parametrize('blob', ['{', '[]', 'null', '{"session_info": {}}', '[' * 100_000])
def test_a_report_that_is_none_is_named_and_the_others_are_kept(stored, capsys, blob, monkeypatch):
    monkeypatch.setattr(kept, '_told', set())
    stored('a', case(100.0))
    sqlite3.connect(paths.database()).execute('INSERT INTO sessions VALUES ("b", 1.0, ?)', (blob,)).connection.commit()
    assert hpl()['value'].to_list() == [100.0] and [s.uuid for s in kept.sessions('local')] == ['a']
    assert 'session b is not one' in capsys.readouterr().err


def test_a_session_is_the_same_from_the_cache(stored, monkeypatch):
    stored('a', case(1.0, parity={'node': {'node': 'v3', 'kernel': '6.1.187'}}), parity_rerun_of='b')
    first = kept.brief('a')
    monkeypatch.setattr(kept.database, 'report', None)
    assert kept.brief('a') == first and (first.rerun_of, first.software, first.runs) == ('b', ('x',), ())


def test_a_first_verdict_loads_no_polars(stored):
    """Loading it takes as long as the rest of such a verdict."""
    stored('a', case(100.0))
    code = "import sys; from parity.verdict import judge; print(judge.newest().trust, 'polars' in sys.modules)"
    done = run_python(code, TOP)
    assert '2 histories too short' in done.stdout and done.stdout.endswith('False\n'), done.stdout + done.stderr
