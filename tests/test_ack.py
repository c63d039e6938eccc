"""Known faults: shown as acknowledged, out of the exit code while it holds, loud when it is over."""

from __future__ import annotations

import datetime
import functools

import pytest
import yaml

import nights
import sessions as made
import stored as storing
from commands import parity, process
from conftest import TOP
from parity import plan
from parity.base.errors import UsageError
from parity.system import systems
from parity.verdict import acks, terminal
from stored import case

TODAY = datetime.date.today()
LATER, OVER = TODAY + datetime.timedelta(days=10), TODAY - datetime.timedelta(days=1)
BAND = {'hpl': (100.0, -0.05, 0.05)}
HPL = 'Toy.hpl@local:default'


@pytest.fixture
def top(tmp_path, results, monkeypatch):
    """A checkout with one system; returns the file of its acknowledgements."""
    folder = tmp_path / 'systems' / 'local'
    folder.mkdir(parents=True)
    (folder / 'system.yaml').write_text((TOP / 'systems/local/system.yaml').read_text())
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return folder / 'acks.yaml'


@pytest.fixture
def stored(top):
    return storing.Stored()


ack = functools.partial(parity, 'ack')


def written(top, **fields):
    entry = {'cell': HPL, 'until': LATER, 'why': 'broken DIMM', 'by': 'bea', 'since': TODAY, **fields}
    top.write_text(yaml.safe_dump({'acks': [entry]}))


def verdict(hpl=84.0, **other):
    report = made.report([case(hpl, refs=BAND, **other)], [made.planned()])
    return made.verdict_on(report)


def test_a_known_fault_is_shown_and_does_not_count_while_it_holds(top):
    assert verdict().exit_code == 1
    written(top)
    judged = verdict()
    assert judged.exit_code == 0 and judged.counts['regressed'] == 1 and not judged.warnings
    said = '\n'.join(text for text, _ in terminal.lines(judged))
    assert f'acknowledged until {LATER} by bea: broken DIMM' in said and 'REGRESSED  compute' in said
    assert '1 regressed (1 acknowledged)' in said
    assert judged.cells[0].acknowledged and not judged.cells[1].acknowledged


def test_other_faults_count_beside_it(top):
    written(top)
    assert verdict(latency=float('nan')).exit_code == 1


def test_a_failure_that_is_known_is_no_infrastructure_error(top):
    written(top)
    failed = case('absent', latency='absent', result='fail', fail_phase='run')
    report = made.report([failed, case(1.0, 'Other')], [made.planned(), made.planned('Other')])
    assert made.verdict_on(report).exit_code == 4           # the latency is not acknowledged
    top.write_text(top.read_text() + yaml.safe_dump([{'cell': 'Toy.latency@local:default', 'until': LATER,
                                                      'why': 'node down', 'by': 'bea', 'since': TODAY}]))
    assert made.verdict_on(report).exit_code == 0


def test_one_that_is_over_is_a_warning_and_the_cell_counts_again(top):
    written(top, until=OVER)
    judged = verdict()
    assert judged.exit_code == 1 and not judged.cells[0].acknowledged
    assert judged.warnings == [f'the acknowledgement of {HPL} by bea expired on {OVER} (broken DIMM): it counts again']
    assert 'take it out of systems/local/acks.yaml' in verdict(100.0).warnings[0]


def test_a_cell_that_is_ok_again_is_said_so(top):
    written(top)
    judged = verdict(100.0)
    assert judged.exit_code == 0 and 'is ok again' in judged.warnings[0]


def test_another_word_than_the_known_one_counts(top):
    written(top, word='failed')
    assert verdict().exit_code == 1
    written(top, word='regressed')
    assert verdict().exit_code == 0


def test_what_never_ran_counts_in_spite_of_an_acknowledgement(top):
    written(top)
    report = made.report([case(1.0, 'Other')], [made.planned(), made.planned('Other')])
    assert made.verdict_on(report).exit_code == 3


def test_one_without_an_environment_speaks_of_all_and_one_with_it_of_that(top):
    plan_of = [made.planned(), made.planned(environ='spack')]
    report = made.report([case(84.0, refs=BAND), case(84.0, refs=BAND, environ='spack')], plan_of)
    written(top)
    assert made.verdict_on(report).exit_code == 0
    written(top, cell=f'{HPL}+spack')
    assert made.verdict_on(report).exit_code == 1


@pytest.mark.parametrize('text, said', [
    ('acks: [{cell: x}]', ":1: acks.0.cell: 'x' is no cell; valid: CASE.METRIC@SYSTEM:PARTITION"),
    ('acks:\n  - cell: Toy.hpl@local:default\n    until: soon\n', ':3: acks.0.until'),
    ('acks:\n  - cell: Toy.hpl@other:default\n    until: 2026-12-01\n    why: broken\n    by: bea\n    since: 2026-11-20',
     "is of system 'other', this file of 'local'"),
    ('ack: []', "no such key; did you mean 'acks'?"), ('- a list', 'must be a mapping'), ('acks: [', ':1'),
    ('acks:\n  - {cell: Toy.hpl@local:default, until: 2026-12-01, why: "", by: bea, since: 2026-11-20}', 'acks.0.why'),
])
def test_a_bad_file_is_an_error_with_its_line(top, text, said):
    top.write_text(text)
    with pytest.raises(UsageError) as err:
        verdict()
    assert str(top) in str(err.value) and said in str(err.value)


def test_the_nightly_refuses_names_that_fit_nothing(top):
    written(top)
    toy = made.planned()
    known = plan.Plan(system='local', cases=[], problems=[], checks=[
        {'check': 'Toy', 'file': 'x', 'metrics': toy['metrics']}])
    assert acks.problems(systems.read('local'), known) == []
    for cell, said in (('Tyo.hpl@local:default', "unknown check 'Tyo'; did you mean 'Toy'?"),
                       ('Toy.hlp@local:default', "unknown metric 'hlp'; did you mean 'hpl'?"),
                       ('Toy.hpl@local:gpu', "unknown partition 'gpu'")):
        written(top, cell=cell)
        problem, = acks.problems(systems.read('local'), known)
        assert problem.startswith(f'{top}:') and said in problem


def test_a_cell_is_acknowledged_by_any_part_of_its_name(stored, top):
    stored.add(case(84.0, refs=BAND))
    done = ack('hpl', '--until', str(LATER), '--why', 'broken: DIMM #3 "äöü"', '--by', 'bea')
    assert done.returncode == 0, done.stderr
    assert f'{HPL}, acknowledged until {LATER} by bea' in done.stdout
    entry, = yaml.safe_load(top.read_text())['acks']
    assert entry == {'cell': HPL, 'until': LATER, 'why': 'broken: DIMM #3 "äöü"', 'by': 'bea', 'since': TODAY,
                     'word': 'regressed', 'value': 84.0, 'expected': 100.0}
    assert '; known at 84 Gflop/s (-16.0 % of 100 Gflop/s); ' in done.stdout
    assert verdict().exit_code == 0


def test_a_second_one_takes_the_place_of_the_first_and_comments_stay(stored, top):
    stored.add(case(84.0, refs=BAND))
    top.write_text('# ours\nacks:\n- cell: Toy.hpl@local:default   # the old one\n  until: 2020-01-01\n  why: old\n'
                   '  by: bea\n  since: 2019-01-01\n# between\n- cell: Toy.latency@local:default\n'
                   f'  until: {LATER}\n  why: |\n    two\n    lines\n  by: cy\n  since: 2019-01-01\n')
    for why in ('new', 'newer'):
        assert ack('toy.hpl', '--until', str(LATER), '--why', why).returncode == 0
    text = top.read_text()
    assert '# ours' in text and '# between' in text and 'the old one' not in text and 'two' in text
    assert [(a.cell, a.why) for a in acks.read('local')] == [('Toy.latency@local:default', 'two\nlines'), (HPL, 'newer')]


def test_a_file_that_cannot_be_added_to_is_left_as_it_is(stored, top):
    stored.add(case(84.0, refs=BAND))
    flow = ('acks: [{cell: Toy.latency@local:default, until: 2099-01-01, why: known, by: cy, since: 2026-11-01}]\n')
    top.write_text(flow)
    done = ack('toy.hpl', '--until', str(LATER), '--why', 'broken DIMM')
    assert done.returncode == 2 and 'by hand' in done.stderr and f'cell: {HPL}' in done.stderr
    assert top.read_text() == flow


@pytest.mark.parametrize('arguments, said', [
    (['toy.hpl', '--until', str(OVER), '--why', 'broken'], 'that day is over'),
    (['toy.hpl', '--until', 'tomorrow', '--why', 'broken'], 'must be a day such as'),
    (['toy.hpl', '--why', 'broken'], 'must be a day such as'),
    (['toy.hpl', '--until', str(LATER)], "--why ''"),
    (['toy.hpl', '--until', str(LATER), '--why', '  '], "--why '  ': must say in three letters"),
    (['toy.hlp', '--until', str(LATER), '--why', 'broken'], f'the nearest: {HPL}'),
    (['toy', '--until', str(LATER), '--why', 'broken'], 'fits 2 cells'),
    (['--until', str(LATER), '--why', 'broken'], 'name the cell'),
    (['toy.hpl', '--until', str(LATER), '--why', 'broken', '--system', 'nowhere'], "unknown system 'nowhere'"),
    (['never.hpl', '--until', str(LATER), '--why', 'broken'], 'what never ran cannot be acknowledged'),
])
def test_what_is_no_acknowledgement_is_refused(stored, top, arguments, said):
    stored.add(case(84.0, refs=BAND), plan=[made.planned(), made.planned('Never')])
    done = ack(*arguments)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr
    assert not top.exists()


def test_the_list_says_how_the_cells_stand(stored, top):
    assert process('ack', '--list').stdout == 'nothing is acknowledged\n'
    stored.add(case(84.0, refs=BAND))
    entries = [{'cell': cell, 'until': until, 'why': 'known [bold]', 'by': 'bea', 'since': TODAY}
               for cell, until in ((HPL, LATER), ('Toy.latency@local:default', OVER), ('Gone.x@local:default', LATER))]
    top.write_text(yaml.safe_dump({'acks': entries}))
    said = ack('--list', '--system', 'local').stdout.splitlines()
    assert said[0] == f'{HPL}   regressed   until {LATER} by bea: known [bold] (since {TODAY}, at no level)'
    assert 'EXPIRED: unreferenced' in said[1] and 'not measured in the newest sessions' in said[2]
    stored.add(case(100.0, refs=BAND))
    assert 'ok again: it can go' in ack('--list').stdout


def test_who_says_so_is_the_login_name(stored, top):
    stored.add(case(84.0, refs=BAND))
    ack('toy.hpl', '--until', str(LATER), '--why', 'broken', SUDO_USER='ada')
    assert acks.read('local')[0].by == 'ada'


@pytest.mark.parametrize('value, code', [(84.0, 0), (80.0, 0), (86.0, 0), (78.0, 1), (60.0, 1)])
def test_a_fault_that_is_plainly_worse_than_acknowledged_counts_again(top, value, code):
    """Acknowledged at -16 %, with accepted bounds of 5 %: -21 % is the last that is known."""
    written(top, word='regressed', value=84.0, expected=100.0)
    judged = verdict(value)
    assert judged.exit_code == code and bool(judged.cells[0].acknowledged) == (code == 0)
    said = judged.cells[0].reason
    assert ('worse than acknowledged' in said) == (code == 1)
    if code:
        assert f'{value:g} Gflop/s ({value - 100:+.1f} % of 100 Gflop/s) now, 84 Gflop/s (-16.0 %' in said
        assert judged.next.startswith('parity show')


def test_twice_the_distance_is_plainly_worse_where_nothing_is_accepted():
    ack = acks.Ack(cell=HPL, until=LATER, why='known', by='bea', since=TODAY, word='regressed', value=97.0,
                   expected=100.0)

    def worse(value: float, **other) -> bool:
        return bool(acks.outgrown(nights.cell('regressed', value=value, **other), ack))
    usual = {'usual': 100.0, 'usual_low': 98.0, 'usual_high': 102.0}
    assert worse(93.9, **usual) and not worse(94.1, **usual)
    noisy = {'usual': 100.0, 'usual_low': 90.0, 'usual_high': 110.0}
    assert worse(86.9, **noisy) and not worse(87.1, **noisy)      # within the noise of a night
    other = {'usual': 10.0, 'usual_low': 9.9, 'usual_high': 10.1}
    assert worse(9.3, **other) and not worse(9.5, **other)        # another size: by its own level
    assert not worse(50.0)                                        # nothing judges it tonight
    assert not acks.outgrown(nights.cell('regressed', value=50.0, **usual), ack.model_copy(
        update={'value': None, 'expected': None}))


def test_a_count_that_may_not_rise_and_a_limit_have_levels_too():
    hangs = {'better': 'lower', 'unit': 'count', 'reference': 0.0, 'high': 0.0}
    ack = acks.Ack(cell=HPL, until=LATER, why='known', by='bea', since=TODAY, value=3.0, expected=0.0)
    assert acks.outgrown(nights.cell(value=7.0, **hangs), ack).startswith('worse than acknowledged: 7 count now, 3 count')
    assert not acks.outgrown(nights.cell(value=5.0, **hangs), ack)
    beyond = acks.Ack(cell=HPL, until=LATER, why='known', by='bea', since=TODAY, value=110.0, expected=100.0)
    impossible = nights.cell('impossible', value=130.0, limit=100.0, reference=90.0, low=85.0, high=95.0)
    assert acks.outgrown(impossible, beyond)
    assert not acks.outgrown(impossible.model_copy(update={'value': 115.0}), beyond)


def test_an_acknowledgement_without_a_level_says_so(top):
    written(top, word='regressed')
    judged = verdict(60.0)
    assert judged.exit_code == 0 and 'without a level: any worse figure is taken as known' in judged.cells[0].reason


def test_another_word_says_what_was_acknowledged(top):
    written(top, word='regressed', value=84.0, expected=100.0)
    judged = verdict(float('nan'))
    assert (judged.cells[0].verdict, judged.exit_code) == ('wrong', 1)
    assert f'acknowledged as regressed only (until {LATER} by bea' in judged.cells[0].reason


def test_an_environment_that_is_acknowledged_by_itself_keeps_its_own(top):
    plan_of = [made.planned(), made.planned(environ='spack')]
    report = made.report([case(84.0, refs=BAND), case(60.0, refs=BAND, environ='spack')], plan_of)
    written(top, word='regressed', value=84.0, expected=100.0)
    assert made.verdict_on(report).exit_code == 1
    own = {'cell': f'{HPL}+spack', 'until': LATER, 'why': 'known', 'by': 'bea', 'since': TODAY, 'word': 'regressed',
           'value': 60.0, 'expected': 100.0}
    top.write_text(top.read_text() + yaml.safe_dump([own]))
    assert made.verdict_on(report).exit_code == 0


@pytest.mark.parametrize('fields, said', [
    ('value: 1', 'value and expected: must be there both, or neither'),
    ('value: much\n    expected: 1', 'acks.0.value'), ('value: .inf\n    expected: 1', 'acks.0.value')])
def test_a_level_that_is_none_is_refused(top, fields, said):
    top.write_text(f'acks:\n  - cell: {HPL}\n    until: {LATER}\n    why: known\n    by: bea\n    since: {TODAY}\n    {fields}\n')
    with pytest.raises(UsageError) as err:
        verdict()
    assert f'{top}:' in str(err.value) and said in str(err.value)
