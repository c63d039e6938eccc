"""What is not there is told: a session that is too old, cells that the nights before had, cases that take longer."""

from __future__ import annotations

import re
import time

import pytest
from typer.testing import CliRunner

import stored as store
from parity.cli import app
from parity.errors import UsageError
from sessions import ran


@pytest.fixture
def nights(results) -> store.Stored:
    return store.Stored()


def verdict(*words: str):
    return CliRunner().invoke(app, ['verdict', *words], catch_exceptions=False)


def ended_ago(nights: store.Stored, hours: float, case=None, **other) -> None:
    """Store a session that ended so many hours ago."""
    end = time.time() - 3600 * hours
    nights.add(case or store.case(), time_start_unix=end - 100, time_end_unix=end, **other)


@pytest.mark.parametrize('age, limit, code', [(25, '26h', 0), (27, '26h', 3), (27, '1d2h', 3), (47, '2d', 0),
                                              (1.6, '90m', 3), (-5, '2d', 3)])
def test_a_session_older_than_max_age_ends_with_3_and_a_sentence(nights, age, limit, code):
    ended_ago(nights, age)
    done = verdict('--max-age', limit)
    assert done.exit_code == code
    assert ('warning: the newest session of local ' in done.stdout) == (code == 3)
    assert verdict().exit_code == 0


def test_max_age_does_not_hide_a_worse_word(nights):
    ended_ago(nights, 50, ran(hpl=50.0, refs={'hpl': (100.0, -0.05, 0.05)}))
    assert verdict('--max-age', '1h').exit_code == 1


def test_the_session_of_another_system_makes_none_newer(nights):
    ended_ago(nights, 50, system='onebox')
    ended_ago(nights, 1)
    assert verdict('--max-age', '26h').exit_code == 0
    done = verdict('--max-age', '26h', '--system', 'onebox')
    assert done.exit_code == 3 and 'the newest session of onebox is 2 d 2 h old: older than 26h' in done.stdout


def test_an_older_session_is_judged_and_the_newest_one_is_as_old_as_it_is(nights):
    ended_ago(nights, 50)
    ended_ago(nights, 1)
    done = verdict('--max-age', '26h', '--session', '00000000')
    assert done.exit_code == 0 and '(2 d 2 h old)' in done.stdout


def test_the_age_of_a_session_stands_in_the_first_line(nights):
    ended_ago(nights, 3)
    assert re.search(r' \(3 h 00 min old\) · session', verdict().stdout.splitlines()[0])


@pytest.mark.parametrize('words, said', [
    (['--max-age', '26'], "--max-age: '26' is no time; valid is, for instance, 30m, 8h or 1d12h"),
    (['--max-age', ''], "--max-age: '' is no time"),
    (['--max-age', '-1h'], "--max-age: '-1h' is no time"),
    (['--system', 'nowhere'], "unknown system 'nowhere'; valid: "),
    (['--system', 'local', '--session', 'ab'], '--session and --system: give one of them'),
])
def test_a_bad_option_of_verdict_is_a_usage_error(nights, words, said):
    ended_ago(nights, 1)
    with pytest.raises(UsageError, match=re.escape(said)):
        verdict(*words)
