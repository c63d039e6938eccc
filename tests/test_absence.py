"""What is not there is told: a session that is too old, cells that the nights before had, cases that take longer."""

from __future__ import annotations

import re
import time

import pytest
from typer.testing import CliRunner

import stored as store
from conftest import TOP
from parity import report
from parity.base.errors import UsageError
from parity.cli import app
from parity.nightly.notify import state
from parity.nightly.notify.state import State
from parity.system import systems
from parity.verdict import judge
from sessions import planned, ran


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


NIGHTLY = 'reframe -c /opt/parity/checks -r --repeat=3 --session-extras parity_night=yes'


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Writes `retired` into a copy of systems/local, and puts that in the place of the real one."""
    file = tmp_path / 'systems' / 'local' / 'system.yaml'
    file.parent.mkdir(parents=True)
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))

    def written(retired: str = '') -> None:
        text = (TOP / 'systems' / 'local' / 'system.yaml').read_text()
        file.write_text(text + (f'retired: {retired}\n' if retired else ''))
    written()
    return written


def night(nights: store.Stored, *names: str, cmdline: str = NIGHTLY, **other) -> None:
    nights.add(*(store.case(name=name, **other) for name in names), cmdline=cmdline)


def missing() -> dict[str, str]:
    """Why cells of the newest session are missing, by name."""
    return {f'{c.case}.{c.metric}': c.reason for c in judge.newest().cells if c.verdict == 'missing'}


def test_a_cell_that_the_nights_before_had_is_missing_tonight_and_tomorrow(nights):
    night(nights, 'Toy', 'Stream %threads=all')
    for _ in range(2):
        night(nights, 'Toy', 'StreamRenamed %threads=all')
        said = missing()
        assert list(said) == ['Stream %threads=all.hpl', 'Stream %threads=all.latency']
        assert set(said.values()) == {f'not in this plan; planned last on {store.day(0)} (session 00000000)'}
    done = verdict()
    assert done.exit_code == 3 and 'MISSING  compute' in done.stdout and '2 missing' in done.stdout
    assert 'next: bring Stream back, or name it below retired: in systems/local/system.yaml' in done.stdout
    night(nights, 'Toy', 'Stream %threads=all', 'StreamRenamed %threads=all')
    assert not missing() and verdict().exit_code == 0


def test_a_worse_word_than_missing_decides_the_exit_code(nights):
    night(nights, 'Toy', 'Other')
    nights.add(ran(hpl=50.0, refs={'hpl': (100.0, -0.05, 0.05)}), cmdline=NIGHTLY)
    assert missing() and verdict().exit_code == 1


@pytest.mark.parametrize('cmdline', [
    NIGHTLY + ' -n Toy', NIGHTLY + ' -t memory', NIGHTLY + ' --mode acceptance', NIGHTLY + ' -S size=nightly',
    'reframe -c checks/ -r', 'reframe -c checks/ -r -n Toy',
    NIGHTLY + ' --session-extras parity_rerun_of=00000000',
])
def test_a_session_of_another_selection_makes_nothing_missing(nights, cmdline):
    night(nights, 'Toy', 'Stream')
    extras = {'parity_rerun_of': '00000000-0'} if 'rerun' in cmdline else {}
    nights.add(store.case(), cmdline=cmdline, **extras)
    assert judge.newest('00000001').counts.get('missing') is None
    night(nights, 'Toy', 'Stream')       # and is no night before
    assert not missing()


def test_what_another_selection_had_is_not_missed(nights):
    night(nights, 'Toy', 'Stream', cmdline='reframe -c checks/ -r')
    night(nights, 'Toy', 'Stream', cmdline=NIGHTLY + ' -t memory')
    night(nights, 'Toy')
    assert not missing()
    night(nights, 'Toy', cmdline=NIGHTLY + ' -t memory')
    assert list(missing()) == ['Stream.hpl', 'Stream.latency']


def test_cells_of_another_size_are_not_missed(nights):
    night(nights, 'Toy', 'Stream')
    plan = [planned(size='nightly')]
    nights.add(store.case(), plan=plan, cmdline=NIGHTLY)
    assert not missing()


def test_a_case_that_no_environment_can_run_any_more_is_missing(nights):
    night(nights, 'Toy', 'Stream')
    nights.add(store.case(), plan=[planned(), planned('Stream', environ='', needs=['stream'])], cmdline=NIGHTLY)
    assert list(missing()) == ['Stream.hpl', 'Stream.latency']
    nights.add(store.case(), plan=[planned()], cmdline=NIGHTLY)
    assert list(missing()) == ['Stream.hpl', 'Stream.latency']


def test_a_night_that_was_killed_is_compared_as_well(nights):
    night(nights, 'Toy', 'Stream')
    nights.add(store.case(), cmdline=NIGHTLY, interrupted=True)
    assert list(missing()) == ['Stream.hpl', 'Stream.latency']


@pytest.mark.parametrize('entry', [
    'check: Stream', "check: 'Stream %threads=all'", 'check: Stream%threads=all', 'environ: old',
    'check: Stream, environ: old', 'check: Stream, partition: default'])
def test_what_is_retired_is_not_missed_any_more(nights, system, entry):
    nights.add(store.case(), store.case(name='Stream %threads=all', environ='old'), cmdline=NIGHTLY)
    night(nights, 'Toy')
    assert len(missing()) == 2
    system(f'[{{{entry}, reason: replaced, since: {store.day(1)}}}]')
    told = judge.newest()
    assert not missing() and told.exit_code == 0 and len(told.retired) == 2 and not told.warnings
    system(f'[{{{entry}, reason: replaced, since: {store.day(2)}}}]')
    assert len(missing()) == 2


def test_another_entry_retires_nothing(nights, system):
    night(nights, 'Toy', 'Stream %threads=all')
    night(nights, 'Toy')
    for entry in ('check: Str', 'check: Stream, partition: gpu', 'check: Stream %threads=one', 'environ: old'):
        system(f"[{{{entry}, reason: replaced, since: {store.day(0)}}}]")
        assert len(missing()) == 2


def test_an_entry_that_is_planned_again_is_a_warning_with_its_line(nights, system):
    system(f'[{{check: Toy, reason: replaced, since: {store.day(0)}}}]')
    night(nights, 'Toy')
    said, = judge.newest().warnings
    assert re.search(r'system.yaml:\d+: retired: Toy is planned again: take the entry out', said)


@pytest.mark.parametrize('entry, said', [
    ('{reason: replaced, since: 2026-11-22}', 'must name a check, a partition or an environ'),
    ('{check: Toy, since: 2026-11-22}', 'retired.0.reason'),
    ('{check: Toy, reason: replaced}', 'retired.0.since'),
    ('{check: Toy, reason: replaced, since: soon}', 'retired.0.since'),
    ('{checks: Toy, reason: replaced, since: 2026-11-22}', 'retired.0.checks'),
    ('{check: [Toy], reason: replaced, since: 2026-11-22}', 'retired.0.check'),
])
def test_a_bad_entry_is_refused_with_its_line(system, entry, said):
    system(f'[{entry}]')
    with pytest.raises(UsageError, match=r'system.yaml:\d+: ') as refused:
        systems.read('local')
    assert said in str(refused.value)


def lasting(nights: store.Stored, *seconds: float, waited: float = 0.0, **other) -> None:
    """One night with a run of so many seconds each, which waited in a queue before."""
    runs = [store.case(unique_name=f'Toy_{i}', parity={'job': {'submitted': 1.0, 'waited': waited, 'ran': each}}, **other)
            for i, each in enumerate(seconds)]
    nights.add(*runs, plan=[planned()])


def longer() -> list[str]:
    return [said for said in judge.newest().warnings if ' usual ' in said]


def test_a_case_that_takes_twice_its_usual_time_is_a_warning_with_both_times(nights):
    for seconds in (58, 62, 300, 60, 59, 61):
        lasting(nights, seconds)
    assert not longer()
    lasting(nights, 125, 130, 20)
    assert longer() == ['Toy on default+distro ran 2 min, usual is 60 s (median of 6 nights)']
    assert 'warning: Toy on default+distro ran 2 min, usual is 60 s' in verdict().stdout
    assert judge.newest().exit_code == 0


@pytest.mark.parametrize('before, tonight', [
    ([60] * 5, 119), ([60] * 4, 500), ([0.2] * 9, 0.5), ([4] * 9, 13.9), ([60, 60, 60, 300, 300, 300, 300], 500)])
def test_a_case_within_its_usual_time_is_no_warning(nights, before, tonight):
    for seconds in before:
        lasting(nights, seconds)
    lasting(nights, tonight)
    assert not longer()


def test_a_queue_makes_no_case_slow(nights):
    for waited in (0, 0, 0, 0, 0, 3600):
        lasting(nights, 60, waited=waited)
    assert not longer()


def test_the_time_of_a_case_is_compared_on_its_own_partition(nights):
    for _ in range(6):
        lasting(nights, 10)
    lasting(nights, 60, partition='other')
    assert not longer()


def test_the_report_shows_what_is_missing(nights, results):
    night(nights, 'Toy', 'Stream')
    night(nights, 'Toy')
    for file in report.of_session(judge.newest()):
        assert 'not in this plan; planned last on' in file.read_text()


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


def test_a_missing_cell_is_told_and_is_over_when_it_is_retired(nights, system):
    night(nights, 'Toy', 'Stream')
    night(nights, 'Toy')
    told = State().after(state.night_of(judge.newest()), 1.0)
    assert [fault.word for fault in told.bad.values()] == ['missing', 'missing']
    system(f'[{{check: Stream, reason: replaced, since: {store.day(1)}}}]')
    again = told.heard(1.0).after(state.night_of(judge.newest()), 2.0)
    assert not again.bad and again.news(2.0, 1e9) == 'well'
