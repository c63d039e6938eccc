"""Known faults: shown as acknowledged, out of the exit code while it holds, loud when it is over."""

from __future__ import annotations

import collections
import datetime
import functools
import subprocess
import sys

import pytest
import yaml

import nights
import sessions as made
from commands import parity, process
from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.judge.report import answer
from parity.judge.store.incidents import Event, Fault, Incident, Where
from parity.judge.verdict import acks, judge
from parity.judge.verdict.model import Attribution, Subsystem
from parity.nightly import doctor
from parity.site import plan, systems
from stored import case

TODAY = datetime.date.today()
LATER, OVER = TODAY + datetime.timedelta(days=10), TODAY - datetime.timedelta(days=1)
BAND = {'hpl': (100.0, -0.05, 0.05)}
HPL, LATENCY = 'Toy.hpl@local:default', 'Toy.latency@local:default'
REGRESSED = {'word': 'regressed', 'value': 84.0, 'expected': 100.0}
ENTRY = f'cell: {HPL}, until: {LATER}, why: known, by: bea, since: {TODAY}'
UNTIL, WHY = ['--until', str(LATER)], ['--why', 'broken DIMM']
ack = functools.partial(parity, 'ack')


@pytest.fixture
def top(site):
    """The file of the system's acknowledgements."""
    return site.with_name('acks.yaml')


def written(top, *entries, **fields):
    """An acknowledgement of each of the entries, or of these fields."""
    common = {'cell': HPL, 'until': LATER, 'why': 'broken DIMM', 'by': 'bea', 'since': TODAY}
    top.write_text(yaml.safe_dump({'acks': [{**common, **each} for each in entries or [fields]]}))


def verdict(hpl=84.0, **other):
    return made.verdict_on(made.report([case(hpl, refs=BAND, **other)], [made.planned()]))


def test_a_known_fault_is_shown_and_does_not_count_while_it_holds(top):
    assert verdict().exit_code == 1
    written(top)
    judged = verdict()
    assert judged.exit_code == 0 and judged.counts['regressed'] == 1 and judged.cells[0].acknowledged and not judged.cells[1].acknowledged
    said = ' '.join(' '.join(text for text, _ in answer.lines(judged)).split())
    assert f'known {HPL}: ' in said and f'acknowledged until {LATER} by bea: broken DIMM' in said
    assert verdict(latency=float('nan')).exit_code == 1             # another fault counts beside it


@pytest.mark.parametrize('fields, value, code, reason, warning', [
    ({'until': OVER}, 84.0, 1, '', f'the acknowledgement of {HPL} by bea expired on {OVER} (broken DIMM): it counts again'),
    ({'until': OVER}, 100.0, 0, '', 'take it out of systems/local/acks.yaml'), ({}, 100.0, 0, '', 'is ok again'),
    ({'word': 'failed'}, 84.0, 1, 'acknowledged as failed only', ''), ({'word': 'regressed'}, 60.0, 0, 'acknowledged until', ''),
    (REGRESSED, float('nan'), 1, f'acknowledged as regressed only (until {LATER} by bea', ''), (REGRESSED, 78.0, 0, 'acknowledged until', '')])
def test_a_fault_that_is_over_or_another_counts_again(top, fields, value, code, reason, warning):
    written(top, **fields)
    judged = verdict(value)
    cell = judged.cells[0]
    assert judged.exit_code == code and bool(cell.acknowledged) == (value < 100 and code == 0) and reason in cell.reason
    assert judged.next.startswith('parity show') == bool(code)
    assert warning in ''.join(judged.warnings) and bool(judged.warnings) == bool(warning)


def test_a_verdict_parses_the_file_once_and_does_not_look_through_all_cells_for_each(top, monkeypatch):
    cases, calls = [f'Toy %n={number}' for number in range(20)], collections.Counter()
    written(top, *({'cell': f'{each.replace(" ", "")}.hpl@local:default'} for each in cases))

    def counted(module, name):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda first, *given: calls.update([(name, first == top)]) or function(first, *given))
    counted(acks, 'cell_id')
    counted(yamlfile, '_parsed')
    judged = made.verdict_on(made.report([case(84.0, each, refs=BAND) for each in cases], [*map(made.planned, cases)]))
    assert sum(map(bool, (cell.acknowledged for cell in judged.cells))) == 20 == len(acks.read('local'))
    assert calls['_parsed', True] == 1 and calls['cell_id', False] <= 3 * len(judged.cells)    # not for each acknowledgement


FAILED = [case('absent', latency='absent', result='fail', fail_phase='run')]
BOTH = [case(84.0, refs=BAND), case(60.0, refs=BAND, environ='spack')]


@pytest.mark.parametrize('entries, ran, code', [
    ([{}], FAILED, 4), ([{}, {'cell': LATENCY}], FAILED, 0), ([{}, {'cell': LATENCY}], [], 3),      # what never ran counts
    ([{}], BOTH, 0), ([{'cell': f'{HPL}+spack'}], BOTH, 1),         # without an environment it speaks of all
    ([REGRESSED], BOTH, 0), ([REGRESSED, {**REGRESSED, 'cell': f'{HPL}+spack', 'value': 60.0}], BOTH, 0)])
def test_failures_and_single_environments_can_be_known_and_what_never_ran_cannot(top, entries, ran, code):
    written(top, *entries)
    plan = [made.planned(environ=each['environ']) for each in ran] or [made.planned()]
    assert made.verdict_on(made.report([*ran, case(1.0, 'Other')], [*plan, made.planned('Other')])).exit_code == code


@pytest.mark.parametrize('text, said', [
    ('acks: [{cell: x}]', ":1: acks.0.cell: 'x' is no cell; valid: CASE.METRIC@SYSTEM:PARTITION"),
    ('acks:\n  - cell: Toy.hpl@local:default\n    until: soon\n', ':3: acks.0.until'),
    (f'acks:\n  - {{{ENTRY.replace("local", "other")}}}', ":2: Toy.hpl@other:default is of system 'other', this file of 'local'"),
    (f'acks:\n  - {{{ENTRY}}}\n  - {{{ENTRY}}}', f':3: {HPL} is acknowledged twice'),
    ('ack: []', "no such key; did you mean 'acks'?"), ('acks: [', ':1'), (f'acks: [{{{ENTRY.replace("known", "")}}}]', 'acks.0.why'),
    (f'acks: [{{{ENTRY}, value: 1}}]', 'value and expected: must be there both, or neither'),
    (f'acks: [{{{ENTRY}, value: .inf, expected: 1}}]', 'acks.0.value')])
def test_a_bad_file_is_an_error_with_its_line(top, text, said):
    top.write_text(text)
    with pytest.raises(UsageError) as err:
        verdict()
    assert f'{top}:' in str(err.value) and said in str(err.value)


@pytest.mark.parametrize('cell, said', [
    (HPL, ''), ('Tyo.hpl@local:default', "unknown check 'Tyo'; did you mean 'Toy'?"),
    ('Toy.hlp@local:default', "unknown metric 'hlp'; did you mean 'hpl'?"), ('Toy.hpl@local:gpu', "unknown partition 'gpu'; valid: default")])
def test_the_nightly_refuses_names_that_fit_nothing(top, cell, said):
    written(top, cell=cell)
    checks = [{'check': 'Toy', 'file': 'x', 'metrics': made.METRICS, 'needs': []}]
    problems = acks.problems(systems.read('local'), plan.Plan(system='local', cases=[], problems=[], checks=checks))
    assert len(problems) == bool(said) and all(each.startswith(f'{top}:') and said in each for each in problems)


@pytest.mark.usefixtures('red_at_once')
def test_parity_ack_stores_the_level_in_the_place_of_the_old_entry_and_keeps_comments(stored, top):
    stored.add(case(84.0, refs=BAND))
    top.write_text(f'# ours\nacks:\n- cell: {HPL}   # the old one\n  until: 2020-01-01\n  why: old\n  by: bea\n  since: 2019-01-01\n'
                   f'# between\n- cell: {LATENCY}\n  until: {LATER}\n  why: |\n    two\n    lines\n  by: cy\n  since: 2019-01-01\n')
    why = 'broken: DIMM #3 "äöü"'
    for reason in ('new', why):
        done = ack('hpl', *UNTIL, '--why', reason, SUDO_USER='ada')
        assert done.returncode == 0, done.stderr
    assert f'{HPL}, acknowledged until {LATER} by ada: {why}; known at 84 Gflop/s (-16.0 % of 100 Gflop/s); ' in done.stdout
    text, entry = top.read_text(), {'cell': HPL, 'until': LATER, 'why': why, 'by': 'ada', 'since': TODAY, **REGRESSED}
    assert '# ours' in text and '# between' in text and 'the old one' not in text
    other, own = yaml.safe_load(text)['acks']
    assert (other['cell'], other['why'], own) == (LATENCY, 'two\nlines\n', entry) and verdict().exit_code == 0
    top.unlink()
    assert ack('toy.hpl', *UNTIL, '--why', why, '--by', 'ada').returncode == 0 and yaml.safe_load(top.read_text())['acks'] == [entry]


@pytest.mark.parametrize('arguments, said', [
    (['toy.hpl', '--until', str(OVER), *WHY], 'that day is over'), (['toy.hpl', *WHY], 'must be a day such as'),
    (['toy.hpl', *UNTIL, '--why', '  '], "--why '  ': must say in three letters"), (['toy.hlp', *UNTIL, *WHY], f'the nearest: {HPL}'),
    (['toy', *UNTIL, *WHY], 'fits 2 cells'), ([*UNTIL, *WHY], 'name the cell'),
    (['toy.hpl', *UNTIL, *WHY, '--system', 'nowhere'], "unknown system 'nowhere'"),
    (['never.hpl', *UNTIL, *WHY], 'what never ran cannot be acknowledged'), (['toy.hpl', *UNTIL, *WHY], f'by hand:\n- cell: {HPL}')])
def test_what_is_no_acknowledgement_is_refused(stored, top, arguments, said):
    stored.add(case(84.0, refs=BAND), plan=[made.planned(), made.planned('Never')])
    top.write_text(flow := f'acks: [{{{ENTRY.replace("hpl", "latency")}}}]\n')       # nothing can be added to it as it is written
    done = ack(*arguments)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr and top.read_text() == flow


@pytest.mark.usefixtures('red_at_once')
def test_the_list_says_how_the_cells_stand(stored, top):
    assert process('ack', '--list').stdout == 'nothing is acknowledged\n'
    stored.add(case(84.0, refs=BAND))
    written(top, {'why': 'known [bold]'}, {'cell': LATENCY, 'until': OVER}, {'cell': 'Gone.x@local:default'})
    said = ack('--list', '--system', 'local').stdout.splitlines()
    assert said[0] == f'{HPL}   regressed   until {LATER} by bea: known [bold] (since {TODAY}, at no level)'
    assert 'EXPIRED: unreferenced' in said[1] and 'not measured in the newest sessions' in said[2]
    stored.add(case(100.0, refs=BAND))
    assert 'ok again: it can go' in ack('--list').stdout


def test_an_acknowledgement_of_an_incident_that_is_not_stored_is_a_warning_and_can_be_taken_back(stored, top):
    stored.add(case(84.0, refs=BAND))
    written(top, {'incident': 99}, {'incident': 98, 'cell': 'Gone.x@local:default'})
    said = ' '.join(parity('verdict').stdout.split())
    assert f'{top}:3: no incident 99; valid: none: a bad night opens them' in said and f'{top}:9: no incident 98; valid: none' in said, said
    for number in ('98', '99'):
        done = parity('unack', number)
        assert done.returncode == 0 and f'incident {number}, no longer acknowledged' in done.stdout, done.stderr
    done = parity('unack', '99')
    assert done.returncode == 2 and 'no incident 99; valid: none' in done.stderr
    top.write_text(f'acks:\n- {{until: {LATER}, why: known, by: bea, since: {TODAY}}}\n')
    assert f'{top}:2: acks.0: must name a cell, an incident, or both' in parity('verdict').stderr


WRITER = """from parity.judge.verdict.acks import Ack, read, write
for at in range(20):
    write('local', [Ack(cell=f'{name}{at}.hpl@local:default', until='2999-01-01', why='known', by=name, since='2026-01-01')])"""


def test_two_people_who_acknowledge_at_once_lose_nothing(top):
    people = [subprocess.Popen([sys.executable, '-c', f'name = "{name}"\n{WRITER}'], stdout=subprocess.PIPE) for name in ('Ana', 'Bea')]
    assert [person.wait() for person in people] == [0, 0] and len(acks.read('local')) == 40


def tonight(incident=7, **fields):
    """A slower cell of tonight."""
    return nights.cell(check='Toy', case='Toy', metric='hpl', system='local', partition='default', verdict='regressed', reason='slow', state='slow',
                       incident=incident, **fields)


def stored_incident(*names, node='', number=7):
    """An incident of slower cells, of a node or of a partition."""
    where = Where(kind='node', name=node) if node else Where(kind='partition', name='default')
    faults = {name: Fault(word='regressed', since=0.0, measured=0.0, cell=name, part='compute', blamed='compute clock', where=where) for name in names}
    return Incident(number=number, uuid=str(number), system='local', key=['regressed', 'node', node, 'compute'], where=where, part='compute clock', faults=faults,
                    events=[Event(what='new', session='', start=0.0)])


@pytest.mark.parametrize('found, said', [(-1, 'acknowledged until'), (1, 'worse than acknowledged: a drop was found since')])
def test_an_acknowledgement_of_a_cell_holds_until_a_further_drop(top, found, said):
    written(top)
    now = datetime.datetime.now().timestamp()
    (cell,), _ = acks.applied([tonight(detected=now + found * 86400, begin=now - 9 * 86400)], 'local', TODAY, {})
    assert bool(cell.acknowledged) == said.startswith('acknowledged') and cell.reason.removeprefix('slow; ').startswith(said)


@pytest.mark.parametrize('node, where, part, known', [
    ('', ('partition', 'default'), 'compute clock', True),                # what joined by place, part and begin
    ('c9', ('node', 'c9'), 'compute clock', True), ('c9', ('', ''), 'compute and memory alike', True),
    ('c9', ('node', 'c9'), 'memory', False), ('c9', ('everything', 'default, gpu'), 'compute clock', False)])
def test_an_acknowledgement_covers_what_joins_its_incident_by_place_part_and_begin(top, node, where, part, known):
    other = 'Toy.other@local:default'
    written(top, {'cell': other, 'incident': 7, 'value': 12.0, 'expected': 10.0})
    cause = Attribution(where=Where(kind=where[0], name=where[1]), subsystem=Subsystem(name=part))
    later = datetime.datetime.now().timestamp() + 9 * 86400
    found = [acks.applied([tonight(number, cause=cause, begin=later, detected=later, subsystem='compute')], 'local', TODAY, {7: OVER, 8: OVER},
                          [stored_incident(other, node=node), stored_incident(HPL, number=8)])[0][0] for number in (7, 8)]
    assert [bool(cell.acknowledged) for cell in found] == [known, False]


DAY = 86400.0


def test_an_acknowledgement_of_a_young_level_covers_no_drop_of_the_settled_one(top):
    """Acknowledged on its second night at 26 %, the level settles at 20 %. A drop to 45 % is less than twice the acknowledged one."""
    now = datetime.datetime.now().timestamp()
    written(top, {'incident': 7, 'value': 74.0, 'expected': 100.0})
    incident = stored_incident(HPL)
    settled = incident.faults[HPL].model_copy(update={'since': now - 2 * DAY, 'detected': now - DAY, 'measured': now + 9 * DAY, 'loss': 0.2,
                                                        'acknowledged': True})
    incident = incident.model_copy(update={'faults': {HPL: settled}})
    drop = tonight(7, begin=now - 2 * DAY, detected=now + 10 * DAY, level=55.0, value=55.0, usual=100.0, usual_low=97.0, better='higher')
    same = drop.model_copy(update={'level': 79.9, 'value': 79.9})
    known = [acks.applied([cell], 'local', TODAY, {7: OVER}, [incident])[0][0].acknowledged for cell in (drop, same)]
    assert [*map(bool, known)] == [False, True]


def test_a_level_whose_begin_was_put_too_early_is_no_drop_while_it_settles(top):
    """Its first nights were good: 8 % over five nights is 22 % over two. The others of its incident lost as much."""
    now = datetime.datetime.now().timestamp()
    other = 'Toy.other@local:default'
    written(top, {'incident': 7, 'value': 92.0, 'expected': 100.0}, {'cell': other, 'incident': 7, 'value': 79.0, 'expected': 100.0})
    incident = stored_incident(HPL, other)
    early = incident.faults[HPL].model_copy(update={'since': now - 5 * DAY, 'detected': now - DAY, 'measured': now, 'loss': 0.08, 'acknowledged': True})
    incident = incident.model_copy(update={'faults': {**incident.faults, HPL: early}})
    cell = tonight(7, begin=now - 5 * DAY, detected=now + 2 * DAY, level=78.0, value=78.0, usual=100.0, usual_low=97.0, better='higher')
    assert acks.applied([cell], 'local', TODAY, {7: OVER}, [incident])[0][0].acknowledged


@pytest.mark.parametrize('level, detected, known', [(80.0, 20, False), (89.5, 20, True), (80.0, 9, True)],
                         ids=['a further drop', 'the same level', 'no drop since it joined'])
def test_an_acknowledgement_covers_no_further_drop_of_a_cell_that_joined(top, level, detected, known):
    """The incident was acknowledged 25 days ago. An acknowledgement of today covers the drop, too."""
    given = datetime.datetime.now().timestamp() - 25 * DAY
    other = 'Toy.other@local:default'
    incident = stored_incident(other, HPL)
    joined = incident.faults[HPL].model_copy(update={'since': given + 2 * DAY, 'detected': given + 9 * DAY, 'measured': given + 19 * DAY, 'loss': 0.1,
                                                     'acknowledged': True})
    incident = incident.model_copy(update={'faults': {**incident.faults, HPL: joined}})
    cell = tonight(7, begin=given + 2 * DAY, detected=given + detected * DAY, level=level, value=level, usual=100.0, usual_low=97.0, better='higher')
    for since, covered in ((TODAY - datetime.timedelta(days=25), known), (TODAY, True)):
        written(top, {'cell': other, 'incident': 7, 'since': since})
        judged = acks.applied([cell], 'local', TODAY, {7: OVER - datetime.timedelta(days=30)}, [incident])[0][0]
        assert bool(judged.acknowledged) == covered
        assert ('worse than acknowledged: a drop was found after it joined incident 7' in judged.reason) != covered


@pytest.mark.parametrize('partition, known', [('default', True), ('gpu', False)])
def test_an_acknowledgement_covers_no_other_partition_than_those_it_was_given_for(top, partition, known):
    """Memory of one partition is known. A night later that of another one is slow, too, and both may have begun together."""
    other = 'Toy.other@local:default'
    written(top, {'cell': other, 'incident': 7, 'value': 12.0, 'expected': 10.0})
    elsewhere = tonight(7).model_copy(update={'partition': partition})
    (cell,), _ = acks.applied([elsewhere], 'local', TODAY, {7: OVER}, [stored_incident(other)])
    assert bool(cell.acknowledged) == known


def test_an_acknowledgement_covers_no_cell_that_another_incident_has(top):
    """The clock of c9 is known. Later all nodes are slow in one of its cells, which moves to the incident of that."""
    written(top, {'incident': 7})
    of, other = stored_incident(HPL, node='c9'), stored_incident(HPL, number=8)
    found = [acks.applied([tonight(number)], 'local', TODAY, {7: OVER, 8: OVER}, [of, other])[0][0] for number in (7, 8, 0)]
    assert [bool(cell.acknowledged) for cell in found] == [True, False, False]
    assert 'acknowledged in incident 7 only' in found[1].reason


def test_a_level_that_is_found_after_one_low_night_is_no_further_drop(top):
    written(top, {'value': 90.0, 'expected': 100.0})
    found = datetime.datetime.now().timestamp() + 86400
    slower = tonight(0, detected=found, usual=100.0, usual_low=97.0, history='regressed')
    cells = [acks.applied([slower.model_copy(update={'level': level})], 'local', TODAY, {})[0][0] for level in (89.5, 80.0)]
    assert [bool(cell.acknowledged) for cell in cells] == [True, False]


@pytest.mark.parametrize('until, said', [(OVER, 'over: incident 7'), (LATER, '1 known fault, valid')])
def test_doctor_counts_the_acknowledgement_of_a_slow_node_which_names_no_cell(top, until, said):
    top.write_text(f'acks:\n  - {{incident: 7, until: {until}, why: a fan, by: ana, since: {OVER}}}\n')
    assert [each.what for each in doctor._files(systems.read('local')) if each.area == 'acks'] == [said]


def test_an_acknowledgement_that_is_given_while_a_verdict_is_made_costs_nothing(top, monkeypatch):
    """The verdict reads the file once: here another process adds an entry right after that."""
    written(top)
    read = acks.Listed.placed

    def beside(self, system):
        found = read(self, system)
        if self.name == 'acks':
            written(top, {}, {'cell': f'Other{len(top.read_text())}.hpl@local:default'})
        return found
    monkeypatch.setattr(acks.Listed, 'placed', beside)
    assert verdict().exit_code == 0 and verdict().cells[0].acknowledged


def test_an_error_of_parity_s_own_is_no_damaged_session(top, monkeypatch):
    monkeypatch.setattr(acks, 'applied', lambda *_: [][1])
    with pytest.raises(IndexError):
        verdict()
    monkeypatch.setattr(judge, '_with_history', lambda *_: {}['x'])
    with pytest.raises(KeyError):
        verdict()


@pytest.mark.parametrize('text', ['', '\n', '# nothing is known\n', '# nothing\nacks:\n', '# nothing\nacks: []\n'])
@pytest.mark.usefixtures('red_at_once')
def test_a_file_without_an_entry_is_no_error_and_takes_the_next_one(stored, top, text):
    top.write_text(text)
    stored.add(case(84.0, refs=BAND))
    assert parity('verdict').returncode == 1 and acks.read('local') == []
    if 'acks:' not in text:
        assert ack(HPL, *UNTIL, *WHY).returncode == 0 and [each.cell for each in acks.read('local')] == [HPL]
        assert '# nothing is known' in top.read_text() or '#' not in text


@pytest.mark.parametrize('until, code', [(LATER, 0), (TODAY, 0), (OVER, 1)])
def test_an_acknowledgement_holds_on_its_last_day_and_not_on_the_next(top, until, code):
    written(top, until=until, since=OVER)
    assert verdict().exit_code == code
    entry, = acks.read('local')
    assert [entry.holds(until + datetime.timedelta(days=days)) for days in (-1, 0, 1)] == [True, True, False]
    assert len(acks.held('local')) == (code == 0)
