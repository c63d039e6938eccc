"""What is not there is told: a session that is too old, cells that the nights before had, cases that take longer."""

from __future__ import annotations

import re
import time

import pytest

import stored as store
from commands import parity
from parity.base.errors import UsageError
from parity.judge import report
from parity.judge.verdict import incidents, judge
from parity.site import systems
from sessions import planned, ran

SLOW = ran(hpl=50.0, refs={'hpl': (100.0, -0.05, 0.05)})


def test_max_age_is_of_the_newest_session_of_the_system_and_hides_no_worse_word(stored):
    def ended_ago(hours: float, *cases: dict, **other) -> None:
        end = time.time() - 3600 * hours
        stored.add(*cases or [store.case()], time_start_unix=end - 100, time_end_unix=end, **other)
    ended_ago(50, system='onebox')
    ended_ago(50, SLOW)
    assert parity('verdict', '--max-age', '1h').returncode == 1
    for age, limit, code in ((27, '1d2h', 3), (27, '2d', 0), (25, '26h', 0), (3, '90m', 3), (3, '26h', 0)):
        ended_ago(age)
        done = parity('verdict', '--max-age', limit)
        assert done.returncode == code and done.stdout.startswith('The newest session of local is ') == (code == 3)
    done = parity('verdict', '--max-age', '26h', '--system', 'onebox')
    assert done.returncode == 3 and done.stdout.startswith('The newest session of onebox is 2 d 2 h old: older than 26h.')
    older = parity('verdict', '--max-age', '26h', '--session', '00000001')
    assert older.returncode == 1 and '(2 d 2 h old)' in older.stdout and 'older than' not in older.stdout
    assert re.search(r' \(3 h 00 min old\) · session', parity('verdict').stdout.splitlines()[1])
    ended_ago(-5)
    assert parity('verdict', '--max-age', '2d').returncode == 3 and parity('verdict').returncode == 0


@pytest.mark.parametrize('words, said', [
    (['--max-age', '26'], "--max-age: '26' must be a time, such as 30m, 8h or 1d12h"),
    (['--max-age', '-1h'], "--max-age: '-1h' must be a time"), (['--system', 'nowhere'], "unknown system 'nowhere'; valid: "),
    (['--system', 'local', '--session', 'ab'], '--session and --system: give only one')])
def test_a_bad_option_of_verdict_is_a_usage_error(stored, words, said):
    stored.add(store.case())
    done = parity('verdict', *words)
    assert done.returncode == 2 and said in done.stderr


NIGHTLY = 'reframe -c /opt/parity/checks -r --repeat=3 --session-extras parity_night=yes'
BY_HAND = 'reframe -c checks/ -r'
LOST = ['Stream.hpl', 'Stream.latency']


@pytest.fixture
def system(site):
    text = site.read_text()
    return lambda retired: site.write_text(f'{text}retired: {retired}\n')


def night(stored: store.Stored, *names: str, cmdline: str = NIGHTLY, **other) -> None:
    stored.add(*(store.case(name=name) for name in names), cmdline=cmdline, **other)


def missing() -> list[str]:
    return [f'{c.case}.{c.metric}' for c in judge.newest().cells if c.verdict == 'missing']


def test_a_cell_that_the_nights_before_had_is_missing_tonight_and_tomorrow(stored):
    night(stored, 'Toy', 'Stream')
    for _ in range(2):
        night(stored, 'Toy', 'Renamed')
        assert missing() == LOST
        said = f'not in this plan; planned last on {store.day(0)} (session 00000000)'
        assert {c.reason for c in judge.newest().cells if c.verdict == 'missing'} == {said}
    done = parity('verdict')
    assert done.returncode == 3 and done.stdout.startswith('local:default: Stream: never ran.')
    assert 'bring Stream back, or name it below retired: in systems/local/system.yaml' in done.stdout
    assert all(said in file.read_text() for file in report.of_session(judge.newest()))
    stored.add(SLOW, cmdline=NIGHTLY)
    assert missing() and parity('verdict').returncode == 1               # a worse word decides
    night(stored, 'Toy', 'Stream', 'Renamed')
    assert not missing() and parity('verdict').returncode == 0


def test_a_missing_cell_is_one_of_those_that_trust_counts(stored):
    night(stored, 'Toy', 'Stream')
    night(stored, 'Toy')
    verdict = judge.newest()
    assert len(verdict.cells) == 4 and '0 of 4 judged' in verdict.trust


@pytest.mark.parametrize('cmdline', [f'{NIGHTLY} -n Toy', f'{NIGHTLY} -t memory', f'{NIGHTLY} --mode acceptance', f'{NIGHTLY} -S size=nightly',
                                     BY_HAND, f'{NIGHTLY} --session-extras parity_rerun_of=00000000'])
def test_a_session_of_another_selection_makes_nothing_missing_and_is_not_missed(stored, cmdline):
    night(stored, 'Toy', 'Stream')
    night(stored, 'Toy', 'Other', cmdline=cmdline, **({'parity_rerun_of': '00000000-0'} if 'rerun' in cmdline else {}))
    assert judge.newest('00000001').counts.get('missing') is None
    night(stored, 'Toy', 'Stream')
    assert not missing()


@pytest.mark.parametrize('plan, other, lost', [
    ([planned(size='nightly')], {}, []),
    ([planned(), planned('Stream', environ='', needs=['stream'])], {}, LOST),     # no environment can run it any more
    ([planned()], {'interrupted': True}, LOST)])
def test_a_cell_is_missed_at_its_own_size_and_selection_whatever_kept_it_away(stored, plan, other, lost):
    night(stored, 'Toy', 'Stream', cmdline=f'{NIGHTLY} -t memory')
    for _ in range(2):
        stored.add(store.case(), plan=plan, cmdline=f'{NIGHTLY} -t memory', **other)
        assert missing() == lost


@pytest.mark.parametrize('entry, fits', [
    ('check: Stream', True), ("check: 'Stream %threads=all'", True), ('check: Stream%threads=all', True), ('environ: old', True),
    ('check: Stream, environ: old', True), ('check: Stream, partition: default', True), ('check: Str', False),
    ('check: Stream, partition: gpu', False), ('check: Stream %threads=one', False), ('environ: new', False)])
def test_what_is_retired_is_not_missed_from_its_day_on(stored, system, entry, fits):
    cases = store.case(), store.case(name='Stream %threads=all', environ='old')
    stored.add(*cases, cmdline=NIGHTLY)
    night(stored, 'Toy')
    assert len(missing()) == 2
    one, = incidents.after([], incidents.of_verdict(judge.newest(), 'local', 1.0), incidents.Calendar.stored())
    assert [fault.word for fault in one.faults.values()] == ['missing', 'missing']
    for day in (2, 1):
        system(f"[{{{entry}, reason: replaced, since: {store.day(day)}}}]")
        found, gone = judge.newest(), fits and day == 1
        assert len(missing()) == 2 * (not gone) and len(found.retired) == 2 * gone
        assert found.exit_code == (0 if gone else 3) and not found.warnings
    again, = incidents.after([one.model_copy(update={'number': 1})], incidents.of_verdict(judge.newest(), 'local', 2.0), incidents.Calendar.stored())
    assert (again.state == 'over') == fits
    stored.add(*cases, cmdline=NIGHTLY)
    assert [bool(re.search(r'system.yaml:\d+: retired: .* is planned again: take the entry out', said)) for said in judge.newest().warnings] == [True] * fits


def test_the_case_of_a_node_by_itself_is_not_missed_when_the_node_is_retired(stored, system):
    nodes = [f'Stream %part=local:default %nid=c{node}.cluster.example' for node in (1, 2)]
    night(stored, *nodes)
    night(stored, nodes[0])
    assert len(missing()) == 2
    system(f'[{{nodes: [c2], reason: sent back, since: {store.day(1)}}}]')
    assert not missing() and len(judge.newest().retired) == 2


def test_a_retired_entry_that_names_nothing_is_refused_with_its_line(system):
    system('[{reason: replaced, since: 2026-11-22}]')
    with pytest.raises(UsageError, match=r'system.yaml:\d+: .*must name a check, a partition or an environ'):
        systems.read('local')


def lasting(stored: store.Stored, *seconds: float, waited: float = 0.0, **other) -> None:
    """One night with a run of so many seconds each, which waited in a queue before."""
    runs = [store.case(unique_name=f'Toy_{i}', parity={'job': {'submitted': 1.0, 'waited': waited, 'ran': each}}, **other)
            for i, each in enumerate(seconds)]
    stored.add(*runs, plan=[planned(**other)])


@pytest.mark.parametrize('before, tonight, other, said', [
    ([58, 62, 300, 60, 59, 61], [125, 130, 20], {}, ['Toy on default+distro ran 2 min, usual is 60 s (median of 6 nights)']),
    ([60] * 5, [119], {}, []), ([60] * 4, [500], {}, []), ([0.2] * 9, [0.5], {}, []), ([4] * 9, [13.9], {}, []),
    ([60, 60, 60, 300, 300, 300, 300], [500], {}, []), ([60] * 5, [60], {'waited': 3600}, []), ([10] * 6, [60], {'partition': 'other'}, []),
    ([-86400] * 6, [30], {}, [])])      # the clock was set back meanwhile
def test_a_case_that_takes_twice_its_usual_time_is_a_warning_with_both_times(stored, before, tonight, other, said):
    for seconds in before:
        lasting(stored, seconds)
    lasting(stored, *tonight, **other)
    done = parity('verdict')
    assert done.returncode == 0
    assert [line.removeprefix('careful').strip() for line in done.stdout.splitlines() if ' usual ' in line] == said


def skips(stored: store.Stored, why: str, name: str = 'Stream', **other) -> None:
    """A night on which a check skipped itself."""
    left_out = ran(name, hpl='absent', latency='absent', result='skip', parity={'status': 'skipped', 'reason': why})
    stored.add(store.case(), left_out, cmdline=NIGHTLY, **other)


def test_a_cell_that_skips_itself_three_nights_in_a_row_ends_with_3_where_it_was_measured_before(stored, system):
    night(stored, 'Toy', 'Stream')
    for code in (0, 0, 3, 3):
        skips(stored, 'too slow to measure')
        verdict = judge.newest()
        assert verdict.exit_code == code
    done = parity('verdict')
    assert done.returncode == 3 and '2 cells were left out 3 nights in a row, and measured before: Stream: hpl (too slow' in ' '.join(done.stdout.split())
    assert '2 left out for 3 nights in a row or more' in verdict.trust
    one, = incidents.after([], incidents.of_verdict(verdict, 'local', 1.0), incidents.Calendar.stored())
    assert one.title == 'local:default: Stream: left out night after night'
    system(f'[{{check: Stream, reason: too slow, since: {store.day(3)}}}]')
    verdict = judge.newest()
    assert verdict.exit_code == 0 and not verdict.warnings
    night(stored, 'Toy', 'Stream')
    assert judge.newest().exit_code == 0 and any('planned again' in said for said in judge.newest().warnings)


def test_a_cell_that_always_skipped_itself_has_no_history(stored):
    for _ in range(4):
        skips(stored, 'no licence')
        assert judge.newest().exit_code == 0


def test_a_late_night_in_which_a_cell_skips_itself_is_counted_like_a_first_one(stored):
    for _ in range(14):
        night(stored, 'Toy', 'Stream')
    for code in (0, 0, 3):
        skips(stored, 'too slow to measure')
        assert judge.newest().exit_code == code
    night(stored, 'Toy', 'Stream')
    skips(stored, 'too slow to measure')
    assert judge.newest().exit_code == 0


def test_what_a_person_measured_by_hand_no_night_has_to_measure(stored):
    skips(stored, 'needs 2 nodes')
    night(stored, 'Toy', 'Stream', cmdline=BY_HAND)
    for _ in range(4):
        skips(stored, 'needs 2 nodes')
        assert judge.newest().exit_code == 0


def test_disturbed_nights_between_measure_nothing_of_a_cell_that_skips_itself(stored):
    night(stored, 'Toy', 'Stream')
    for code in (0, 0, 3):
        skips(stored, 'too slow to measure')
        assert judge.newest().exit_code == code
        stored.add(store.case(), store.case(50.0, name='Stream', parity={'disturbed': 'others'}), cmdline=NIGHTLY)


def test_cells_that_end_with_another_selection_are_named_once(stored):
    for _ in range(3):
        night(stored, 'Toy', 'Stream')
    other, third = f'{NIGHTLY} -n Toy', f'{NIGHTLY} -x Stream'
    said = f'the selection changed: 2 cells of {store.day(2)} (session 00000002) end with it, told once: Stream on default+distro'
    for cmdline, warnings in ((other, [said]), (other, []), (NIGHTLY, []), (other, [])):
        night(stored, *(['Toy', 'Stream'] if cmdline == NIGHTLY else ['Toy']), cmdline=cmdline)
        verdict = judge.newest()
        assert ([text for text in verdict.warnings if 'selection' in text], verdict.exit_code) == (warnings, 0)
    renamed = store.case(environ='other')
    stored.add(renamed, cmdline=third)
    assert any('Toy on default+distro' in text for text in judge.newest().warnings), 'an environment that was renamed'


@pytest.mark.parametrize('back', ['planned', 'retired'])
def test_what_never_ran_keeps_exit_code_3_under_another_selection_until_it_is_back_or_retired(stored, system, back):
    night(stored, 'Toy', 'Stream')
    night(stored, 'Toy')
    incidents.record(judge.newest(), 'local')
    other = f'{NIGHTLY} -x Stream'
    for _ in range(2):
        night(stored, 'Toy', cmdline=other)
        assert (judge.newest().exit_code, missing()) == (3, LOST)
        known, = incidents.record(judge.newest(), 'local')
        assert known.state == 'open' and not any('selection' in text for text in judge.newest().warnings)
    if back == 'retired':
        system(f'[{{check: Stream, reason: replaced, since: {store.day(3)}}}]')
    night(stored, *(['Toy'] if back == 'retired' else ['Toy', 'Stream']), cmdline=other)
    assert judge.newest().exit_code == 0
    known, = incidents.record(judge.newest(), 'local')
    assert known.state == 'over'
    night(stored, 'Toy', cmdline=f'{NIGHTLY} -t compute')
    assert judge.newest().exit_code == 0


def test_what_no_environment_offers_any_more_is_one_incident_that_ends_in_any_environment(stored, site):
    site.write_text(site.read_text().replace('requires: []', 'requires: [hpcc]'))
    gone = [planned(), planned('Stream', environ='', needs=['hpcc'])]
    night(stored, 'Toy', 'Stream')
    for _ in range(2):
        stored.add(store.case(), plan=gone, cmdline=NIGHTLY)
        found = judge.newest()
        absent = [cell for cell in found.cells if cell.verdict == 'missing']
        assert [f'{cell.case}.{cell.metric}+{cell.environ}' for cell in absent] == [f'{name}+distro' for name in LOST]
        assert {cell.reason for cell in absent} == {
            f'no environment offers hpcc, which the system requires; it ran last on {store.day(0)} (session 00000000)'}
        assert found.next == 'parity doctor --system local (names what each code needs)' and found.exit_code == 3
        known, = incidents.record(found, 'local')
        assert (known.title, known.state) == ('local:default: Stream: never ran', 'open')
    night(stored, 'Toy', 'Stream')
    assert [one.state for one in incidents.record(judge.newest(), 'local')] == ['over']


def test_what_no_environment_offered_at_first_is_in_order_in_the_first_that_does(stored, site):
    site.write_text(site.read_text().replace('requires: []', 'requires: [hpcc]'))
    stored.add(store.case(), plan=[planned(), planned('Stream', environ='', needs=['hpcc'])], cmdline=NIGHTLY)
    assert [one.state for one in incidents.record(judge.newest(), 'local')] == ['open']
    night(stored, 'Toy', 'Stream')
    assert [one.state for one in incidents.record(judge.newest(), 'local')] == ['over']


def test_a_waiver_lets_what_ran_before_be_absent(stored, site):
    waiver = '{code: hpcc, reason: no licence, until: 2999-01-01}'
    text = site.read_text().replace('requires: []', 'requires: [hpcc]')
    site.write_text(text.replace('waivers: []', f'waivers: [{waiver}]'))
    night(stored, 'Toy', 'Stream')
    stored.add(store.case(), plan=[planned(), planned('Stream', environ='', needs=['hpcc'])], cmdline=NIGHTLY)
    found = judge.newest()
    assert (missing(), found.exit_code, found.counts['skipped']) == ([], 0, 2)


@pytest.mark.parametrize('figures, said', [
    (lambda night: (98.7312, 1.5077), True), (lambda night: (98.73, 1.5), False), (lambda night: (98.7312, 1.5077 + 1e-6 * (night == 3)), False),
    (lambda night: (98.7312 + (night == 0), 1.5077), True), (lambda night: (98.7312 + (night == 1), 1.5077), False)])
def test_figures_that_repeat_to_the_last_digit_for_ten_nights_are_told(stored, figures, said):
    for night in range(11):
        hpl, latency = figures(night)
        stored.add(store.case(hpl, latency=latency))
    done = parity('verdict')
    told = ' '.join(' '.join(done.stdout.split()).partition('careful')[2].split()[:22])
    assert done.returncode == 0 and told.startswith('Toy on default+distro has the same 2 figures to the last digit for 10 nights: see whether') == said, done.stdout
