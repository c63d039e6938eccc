"""The figures of stored sessions as one frame; a clock that was wrong changes no order, and is told."""

from __future__ import annotations

import sqlite3
import time

import polars as pl
import pytest

from conftest import TOP, run_python
from parity.base import paths
from parity.judge.report import previous
from parity.judge.store import database, history
from parity.judge.verdict import judge
from sessions import case


def hpl(**also):
    return history.load('local', **{'reruns': True, 'labelled': True, **also}).filter(metric='hpl')


def test_every_figure_of_a_system_oldest_first_but_of_what_failed_and_was_tried_again(stored):
    stored('a', case(100.0), case(101.0, parity={'labels': {'hpl': {'word': 'cached'}}, 'changed': {'nodes': '4', 'order': 'cyclic'}}))
    stored('b', case(99.0), {**case(7.0), 'system': 'other'}, case(float('nan')))
    stored('c', {**case(1.0), 'result': 'fail', 'fail_phase': 'run'}, retries=[case(100.0)])
    assert hpl().select('session', 'run', 'value', 'label', 'changed', 'node', 'software').rows() == [
        ('a', 0, 100.0, '', '', 'node01', 'x'), ('a', 1, 101.0, 'cached', 'nodes=4,order=cyclic', 'node01', 'x'), ('b', 0, 99.0, '', '', 'node01', 'x')]


def test_one_rule_says_which_figures_count_and_what_a_night_is_made_of(stored):
    disturbed, cached = {'disturbed': 'others ran'}, {'labels': {'hpl': {'word': 'cached'}}}
    stored('a', case(100.0), case(104.0), case(1.0, parity=disturbed))
    stored('b', case(98.0), case(2.0, parity=disturbed), parity_rerun_of='a')
    stored('c', case(97.0, parity=cached), case(3.0, parity=disturbed))
    stored('d', case(4.0, parity=disturbed))
    stored('e', case(5.0), parity_rerun_of='gone')

    def values(**also):
        return history.load('local', **also).filter(metric='hpl')['value'].to_list()
    assert values() == [100.0, 104.0] and values(reruns=True) == [100.0, 104.0, 98.0, 5.0]
    quickly = [figure.value for uuid in 'acd' for _, name, figure in database.read(uuid).counted() if name == 'hpl']
    assert quickly == values(), 'a session by itself says the same'
    assert values(labelled=True) == [100.0, 104.0, 97.0] and values(disturbed=True) == [100.0, 104.0, 1.0, 3.0, 4.0]
    found = history.nights(hpl(disturbed=True)).select('session', 'value', 'runs', 'disturbed', pl.col('reruns').list.eval(
        pl.element().struct.field('value'))).collect()
    assert found.rows() == [('a', 102.0, [100.0, 104.0], False, [98.0]), ('c', 97.0, [97.0], False, []), ('d', 4.0, [4.0], True, [])]


def test_small_files_are_one_part_of_a_history_and_large_ones_four_at_a_time(stored, monkeypatch):
    for uuid in 'abcdefghi':
        stored(uuid, case(100.0))
    together = history.parts('local').gathered(lambda part: part)
    assert len(history.parts('local').parts) == 1
    monkeypatch.setattr(history, '_BYTES_AT_ONCE', 0)
    history._scanned.cache_clear()
    parts = history.parts('local')
    assert [len(part.sessions) for part in parts.parts] == [4, 4, 1]
    assert parts.gathered(lambda part: part).equals(together)


def test_a_question_reads_only_the_parts_that_hold_its_nights_or_cases(stored, monkeypatch):
    monkeypatch.setattr(history, '_BYTES_AT_ONCE', 0)
    for uuid in 'abcdefg':
        stored(uuid, case(100.0))
    stored('h', case(99.0), parity_rerun_of='b')
    parts = history.parts('local', reruns=True)

    def read(found):
        return ''.join(sorted(found['session'].unique()))
    assert [read(part.sessions) for part in parts.parts] == ['abcd', 'efgh']
    assert [read(parts.of_session(uuid).sessions) for uuid in 'bdg'] == ['abcdefgh', 'abcd', 'efgh'], 'h runs b again'
    assert [read(parts.newest(many, lambda part: part)) for many in (1, 4, 5, 99)] == ['efgh', 'efgh', 'abcdefgh', 'abcdefgh']
    nothing = parts.of_cases(['Stream'])
    assert nothing.gathered(lambda part: part).is_empty() and parts.of_cases(['Toy']).gathered(lambda part: part).height


def test_a_night_knows_whether_an_accepted_value_applied(stored):
    stored('a', case(100.0, refs={'hpl': (99.0, -0.1, None)}))
    stored('b', case(100.0))
    found = history.nights(hpl()).select('session', 'applied').collect()
    assert found.rows() == [('a', True), ('b', False)]


def test_a_night_and_its_reruns_are_one_file_which_later_reruns_and_removed_ones_renew(stored):
    def files():
        return sorted(file.name.count('.') for file in (paths.results() / 'cache').rglob('a.*parquet'))
    stored('a', case(100.0))
    stored('b', case(98.0), case(97.0), parity_rerun_of='a')
    wanted = [('a', 100.0), ('b', 98.0), ('b', 97.0)]
    assert hpl().select('session', 'value').rows() == wanted and files() == [1, 2]
    stored('c', case(96.0), parity_rerun_of='a')
    stored('d', case(95.0))
    assert hpl().select('session', 'value').rows() == [*wanted, ('c', 96.0), ('d', 95.0)] and files() == [1, 2]
    stored('e', case(94.0), parity_rerun_of='a')
    assert hpl()['session'].to_list() == ['a', 'b', 'b', 'c', 'd', 'e'], 'in the order of storing'
    sqlite3.connect(paths.database()).execute('DELETE FROM sessions WHERE uuid = "b"').connection.commit()
    assert hpl().select('session', 'value').rows() == [('a', 100.0), ('c', 96.0), ('d', 95.0), ('e', 94.0)] and files() == [1, 2]
    assert [database.nights([*database.starts()])] == [[['a', 'c'], ['d'], ['e']]] and len(database.files_of('a')) == 5


def test_a_session_is_read_once_and_one_that_was_taken_away_is_gone(stored, monkeypatch):
    stored('a', case(1.0, parity={'node': {'node': 'v3', 'kernel': '6.1.187'}}), parity_rerun_of='b')
    first = database.brief('a')
    assert len(hpl()) == 1 and (first.rerun_of, first.software, first.runs) == ('b', ('x',), ())
    stored('b', case(1.0, parity={'node': {'node': 'v3', 'kernel': '6.1.192'}}))
    read, blob = [], database._blob
    monkeypatch.setattr(database, '_blob', lambda uuid: read.append(uuid) or blob(uuid))
    assert len(hpl()) == 2 and read == ['b'] and database.brief('a') == first
    assert [s.nodes['v3']['kernel'] for s in database.sessions('local')] == ['6.1.187', '6.1.192']
    sqlite3.connect(paths.database()).execute('DELETE FROM sessions WHERE uuid = "a"').connection.commit()
    assert hpl()['session'].to_list() == ['b']


@pytest.mark.parametrize('figures, report', [
    (['not', 'by', 'name'], ''), ({'local:default:hpl': []}, ''), ({'local:default:hpl': ['fast', 0, None, None, '', '']}, ''),
    ({}, '{'), ({}, '[]'), ({}, '{"session_info": {}}'), ({}, '{"runs": [{"testcases": [7]}]}'), ({}, '[' * 100_000)])
def test_a_session_that_cannot_be_read_is_named_once_and_the_others_are_kept(stored, capsys, figures, report, monkeypatch):
    monkeypatch.setattr(database, '_warned', set())
    stored('a', case(100.0))
    stored('broken', {**case(1.0), 'perfvalues': figures})
    if report:
        sqlite3.connect(paths.database()).execute('UPDATE sessions SET json_blob = ? WHERE uuid = "broken"', (report,)).connection.commit()
        assert [s.uuid for s in database.sessions('local')] == ['a']
    stored('c', case(101.0))
    assert hpl().select('session', 'value').rows() == [('a', 100.0), ('c', 101.0)]
    said = capsys.readouterr().err
    assert 'session broken cannot be read' in said and len(said.splitlines()) == 1


@pytest.mark.parametrize('nights, short, loaded', [('a', True, []), ('abcdefghij', True, []), ('abcdefghijk', False, ['polars', 'scipy.special'])])
def test_the_verdicts_of_the_first_nights_load_no_statistics(stored, nights, short, loaded):
    for night in nights:
        stored(night, case(100.0))
    code = ("import sys; from parity.judge.verdict import judge; print(judge.newest().trust)\n"
            "print([m for m in ('polars', 'scipy.special', 'reframe') if m in sys.modules])")
    done = run_python(code, TOP)
    assert ('2 histories too short' in done.stdout) is short and done.stdout.endswith(f'{loaded}\n'), done.stdout + done.stderr


def ago(stored, uuid: str, days: float, **other) -> None:
    """Store a session that ended so many days ago by its clock; a negative age lies in the future."""
    end = time.time() - days * 86400.0
    stored(uuid, case(100.0), time_start_unix=end - 100, time_end_unix=end, **other)


@pytest.mark.parametrize('said, corrected', [
    ([], []), ([2, 2, 3], [2, 2, 3]), ([1, 8, 9, 2, 3, 4], [1, 1.001, 1.002, 2, 3, 4]),     # a clock that was ahead
    ([1, 2, 0, 3], [1, 2, 2.001, 3]), ([9, 1, 2], [0.999, 1, 2]), ([1, 2, 9], [1, 2, 9]),   # one that was behind
])
def test_as_many_clocks_as_possible_are_believed(said, corrected):
    assert database.in_order(said) == pytest.approx(corrected)


def test_a_session_from_the_future_is_the_newest_only_until_another_is_stored(stored):
    ago(stored, 'aa', 3)
    assert not judge.newest().warnings
    ago(stored, 'bb', -900)
    assert database.last() == 'bb'
    said, = judge.newest().warnings
    assert 'this session began on 20' in said and 'which lies in the future: correct the clock' in said
    ago(stored, 'cc', 2)
    ago(stored, 'dd', 1)
    said, = judge.newest().warnings
    assert said.startswith('session bb began on 20') and 'later than this one, and was stored before it' in said
    assert judge.newest('aa').warnings == [] and database.uuids() == ['aa', 'bb', 'cc', 'dd'] and database.newest('local').uuid == 'dd'
    assert [facts.uuid for facts in database.sessions('local', last=3)] == ['bb', 'cc', 'dd']
    assert hpl()['session'].to_list() == database.uuids() and hpl()['start'].is_sorted() and hpl()['session'][-1] == 'dd'
    assert [previous.before(database.read(uuid), 'local').uuid for uuid in ('dd', 'cc')] == ['cc', 'bb']


@pytest.mark.parametrize('first, second, other', [(-300 / 86400, 0, {}), (1, 2, {'interrupted': True})])
def test_clocks_a_few_minutes_apart_and_a_session_recovered_late_are_no_wrong_clocks(stored, first, second, other):
    ago(stored, 'aa', first)
    ago(stored, 'bb', second, **other)
    assert not [said for said in judge.newest().warnings if 'clock' in said]
