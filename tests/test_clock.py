"""A clock that was wrong changes no order: what was stored later is the later session, and the clock is told."""

from __future__ import annotations

import time

import polars as pl
import pytest

import stored as store
from parity.records import database, history, kept
from parity.report import earlier
from parity.verdict import judge

DAY = 86400.0


@pytest.fixture
def ago(results):
    """Stores a session that ended so many days ago by its clock; a negative age lies in the future."""
    nights = store.Stored()

    def stored(uuid: str, days: float, hpl: float = 100.0, **other) -> str:
        end = time.time() - days * DAY
        return nights.add(store.case(hpl), uuid=uuid, time_start_unix=end - 100, time_end_unix=end, **other)
    return stored


@pytest.mark.parametrize('said, corrected', [
    ([], []), ([5], [5]), ([1, 2, 3], [1, 2, 3]), ([2, 2, 3], [2, 2, 3]),
    ([1, 9, 2, 3], [1, 1.001, 2, 3]),                 # a clock that was ahead
    ([1, 8, 9, 2, 3, 4], [1, 1.001, 1.002, 2, 3, 4]),
    ([1, 2, 0, 3], [1, 2, 2.001, 3]),                 # one that was behind
    ([9, 1, 2], [0.999, 1, 2]), ([1, 2, 9], [1, 2, 9]),
])
def test_as_many_clocks_as_possible_are_believed(said, corrected):
    assert database.in_order(said) == pytest.approx(corrected)


def test_a_session_from_the_future_is_the_newest_only_until_another_is_stored(ago):
    ago('aa', 2)
    ago('bb', -900)
    assert database.newest() == 'bb'
    ago('cc', 1)
    assert database.uuids() == ['aa', 'bb', 'cc'] and judge.newest().session.uuid == 'cc'
    assert kept.newest('local').uuid == 'cc'
    assert [facts.uuid for facts in kept.sessions('local', last=2)] == ['bb', 'cc']


def test_the_history_of_a_night_ends_with_that_night(ago):
    """The session from the future is one of the nights before, and no later one."""
    for night in range(6):
        ago(f'{night:08}', 10 - night, hpl=100.0 + night)
    ago('ffffffff', -900, hpl=1.0)
    ago('00000010', 1, hpl=50.0)
    frame = history.load('local').filter(pl.col('metric') == 'hpl')
    assert frame['value'].to_list()[-3:] == [105.0, 1.0, 50.0] and frame['start'].is_sorted()
    assert history.load('local', nights=1)['session'].unique().to_list() == ['00000010']


def test_tonight_is_compared_with_the_night_before_and_not_with_the_future(ago):
    for uuid, days in {'aa': 3, 'bb': -900, 'cc': 2, 'dd': 1}.items():
        ago(uuid, days)
    assert earlier.before(kept.read('dd'), 'local').uuid == 'cc'
    assert earlier.before(kept.read('cc'), 'local').uuid == 'bb'


def test_a_clock_in_the_future_is_a_warning_that_night_and_the_next(ago):
    ago('aa', 3)
    assert not judge.newest().warnings
    ago('bb', -900)
    said, = judge.newest().warnings
    assert 'this session began on 20' in said and 'which lies in the future: correct the clock' in said
    ago('cc', 2)
    said, = judge.newest().warnings
    assert said.startswith('session bb began on 20') and 'later than this one, and was stored before it' in said
    assert judge.newest('aa').warnings == []


def test_a_clock_a_few_minutes_apart_is_no_warning(ago):
    ago('aa', -300 / DAY)
    ago('bb', 0)
    assert not judge.newest().warnings


def test_a_session_that_was_recovered_late_warns_of_no_clock(ago):
    ago('aa', 1)
    ago('bb', 2, interrupted=True)
    assert not [said for said in judge.newest().warnings if 'clock' in said]
