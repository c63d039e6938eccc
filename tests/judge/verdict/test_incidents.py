"""Incidents: what belongs together has one number, from the night that finds it until all of it is well."""

from __future__ import annotations

import datetime
import json
import random
import re
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest

from commands import parity
from conftest import TOP
from dev.clock import Days
from nights import cell, start, verdict_of
from parity.base import reasons
from parity.judge import report
from parity.judge.nodes import listing
from parity.judge.report import answer, page, summary
from parity.judge.report import incidents as words
from parity.judge.store import database, merging
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Change, Fault, Where
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import acks, incidents, judge, tonight
from parity.judge.verdict.model import Attribution, CellText, Subsystem
from parity.measure.session import retain
from parity.nightly import notify
from sessions import case, planned
from stored import day

pytestmark = pytest.mark.usefixtures('results')
NODES = 'c1', 'c2', 'c3', 'c4'
PARTS = {'memory': ['Stream', 'Npb', 'Zstd', 'Scan', 'Ring'], 'network': ['Osu'], 'storage': ['Fio', 'Copy']}
NAMES = 'Stream', 'Npb', 'Hpl', 'Osu', 'Fio', 'Zstd', 'Sort', 'Fft', 'Gemm', 'Copy', 'Scan', 'Ring', 'Lu', 'Mg', 'Ft', 'Is'


class Cluster:
    """A system whose cases run each on a node of its own; faults are planted, and suspicious cells run again elsewhere."""

    def __init__(self, stored):
        self.stored, self.noise, self.night, self.told = stored, random.Random(7), 0, []
        self.home = {name: NODES[i % 4] for i, name in enumerate(NAMES)}

    def run(self, slow=lambda name, node: 1.0, away=(), raw=(), judged=True, twice=True):
        """One night. ``slow``: the share of the speed by case and node; ``away``: node by case, '' leaves it out; ``raw``: by case.
        ``judged``: else it is only stored; ``twice``: it is recorded again."""
        where, raw, info = {**self.home, **dict(away)}, dict(raw), {'time_start_unix': start(self.night), 'time_end_unix': start(self.night) + 100}

        def ran(name, node):
            speed = slow(name, node) * (1 + self.noise.gauss(0, 0.004))
            return case(100 * speed, name=name, latency=1.5 / speed, job_nodelist=[node], **raw.get(name, {}))
        Days.now = start(self.night)
        part_of = {name: part for part, names in PARTS.items() for name in names}
        plan = [planned(name, subsystem=part_of.get(name, 'compute')) for name, node in where.items() if node for _ in range(3)]
        uuid = self.stored.add(*(ran(name, node) for name, node in where.items() if node for _ in range(3)), plan=plan, **info)
        if not judged:
            self.night += 1
            return None, {}
        found = judge.newest(uuid)
        if again := sorted({cell.case for cell in found.cells if cell.suspicious}):
            others = [ran(name, node) for name in again for node in [where[name]] * 3 + [next(n for n in NODES if n != where[name])] * 3]
            self.stored.add(*others, **{RERUN_OF: uuid}, **info)
            found = judge.newest(uuid)
        self.night += 1
        known = incidents.record(found, 'local')
        assert not twice or incidents.record(judge.newest(uuid), 'local') == known, 'a session is recorded once'
        news = {each.number: what for each in known if (what := notify.news_of(each, each.notified))}
        table.change({each.number: lambda now: {'notified': len(now.events)} for each in known if each.number in news})
        self.told += news.values()
        return incidents.joined(found, known), news


@pytest.fixture
def cluster(site, stored, monkeypatch):
    monkeypatch.setattr(datetime, 'date', Days('date', (), {}))
    return Cluster(stored)


#: Nights, cases, the node that is slow, and the speed on it.
FAULTS = [(range(0, 6), ['Stream'], 'c1', 0.9), (range(2, 9), ['Npb', 'Zstd'], 'c2', 0.88),
          (range(4, 15), ['Hpl'], 'c3', 0.9), (range(9, 15), ['Sort'], 'c3', 0.9),       # it joins the node's
          (range(6, 13), ['Osu'], 'c4', 0.92), (range(13, 19), ['Osu'], 'c4', 0.7),      # worse
          (range(12, 25), ['Fio'], 'c1', 0.9),          # known until it is mended
          (range(16, 29), ['Copy'], 'c2', 0.9), (range(29, 36), ['Copy'], 'c2', 0.6),    # known, and plainly worse
          (range(26, 27), ['Gemm'], 'c1', float('nan')), (range(20, 37), ['Scan'], 'c3', 0.9),         # known until night 30
          (range(30, 37), ['Ring'], 'c4', 0.9),         # then not measured
          (range(40, 45), ['Stream'], 'c1', 0.9),       # then measured elsewhere
          *((range(50, 56), ['Lu', 'Mg', 'Ft', 'Is'], node, 0.9) for node in NODES)]
@contextmanager
def clock_at(seconds: float):
    """The time of day within it."""
    with mock.patch('time.time', lambda: seconds):
        yield


FAILED = {'Fft': {'result': 'fail', 'fail_phase': 'run', 'perfvalues': {}, 'parity': {'status': 'failed', 'reason': 'disk full'}}}


@pytest.mark.parametrize('nights, expected', [
    (20, {'new': 6, 'also': 1, 'worse': 1, 'over': 4, 'known': 1}),
    pytest.param(60, {'new': 12, 'also': 1, 'worse': 2, 'due': 1, 'over': 12, 'known': 3}, marks=pytest.mark.full)])
def test_nights_with_faults(cluster, nights, expected):
    """Each cause opens one incident, which is told once for each turn of its life, and closed once. Of 60 nights, the quiet ones
    before them open none, and each is recorded twice."""
    full = nights == 60
    quiet = 41 if full else 20
    for night in range(quiet):
        assert not cluster.run(judged=full or night == quiet - 1)[1]
    numbers = {}
    for night in range(nights):
        away = {'Ring': ''} if night in range(37, 40) else {'Stream': 'c3'} if night in range(45, 48) else {}
        raw = FAILED if night in range(24, 28) else {}

        def slow(name, node, night=night):
            return next((share for nights, names, of, share in FAULTS if night in nights and name in names and node == of), 1.0)
        found, news = cluster.run(slow, away, raw, twice=full or night % 10 == 0)
        numbers |= {each.cells[0].partition('.')[0]: each.number for each in found.incidents if news.get(each.number) == 'new'}
        for at, name, days in ((16, 'Fio', 90), (20, 'Copy', 90), (24, 'Scan', 6)):
            if night == at:
                day = datetime.date.today() + datetime.timedelta(days)
                done = parity('ack', str(numbers[name]), '--until', str(day), '--why', 'it is being mended')
                assert done.returncode == 0, done.stderr
    known = table.of_system('local')
    events, told = (dict(Counter(what)) for what in ((event.what for each in known for event in each.events), cluster.told))
    stood = [(each.number, each.title, [*each.faults], [(event.what, event.text) for event in each.events]) for each in known]
    assert events == expected and told == {what: count for what, count in events.items() if what != 'known'}, stood
    assert max([event.what for event in each.events].count('over') for each in known) == 1
    by_case = {tuple(sorted({cell.partition('.')[0] for cell in each.cells})): each for each in known}
    assert {('Npb', 'Zstd'), ('Hpl', 'Sort')} < by_case.keys() and by_case['Npb', 'Zstd'].nodes == ['c2']
    assert not full or ('Ft', 'Is', 'Lu', 'Mg') in by_case


@pytest.fixture
def slow(stored, site):
    """Returns a night with accepted bounds, in which HPL has a speed, and which is recorded."""
    def night(hpl=84.0, **other):
        found = judge.newest(stored.add(case(hpl, refs={'hpl': (100.0, -0.05, 0.05)}, **other)))
        return incidents.joined(found, incidents.record(found, 'local'))
    return night


@pytest.mark.usefixtures('red_at_once')
def test_an_incident_is_shown_acknowledged_and_taken_back(slow, site):
    found = slow()
    assert answer.lines(found)[0][0].startswith('local:default: compute 16 % slower (incident 1, new).')
    shown = parity('show', '1').stdout
    assert shown.startswith('incident 1   local:default: compute 16 % slower\nOPEN   since 2026-11-18') and re.search(r'  Toy.hpl@local:default   100.* -> 84.0 Gflop/s   -16.0 %   regressed\n', shown)
    assert json.loads(parity('show', '1', '--json').stdout)['state'] == 'open' and 'parity ack 1 --until DATE --why TEXT' in shown
    done = parity('ack', '1', '--until', '2999-01-01', '--why', 'a test', '--by', 'ana')
    assert done.stdout.startswith('parity: incident 1, 1 cell, acknowledged until 2999-01-01 by ana: a test; ')
    ack, = acks.read('local')
    assert (ack.cell, ack.incident, ack.value) == ('Toy.hpl@local:default', 1, 84.0) and table.of_system('local')[0].state == 'known'
    found = slow()
    assert not found.exit_code and '1 known incident: 1' in dict(answer.of(found).notes)['known']
    assert parity('unack', '1').stdout.startswith('parity: incident 1, no longer acknowledged (until 2999-01-01 by ana: a test)')
    assert not acks.read('local') and table.of_system('local')[0].state == 'open' and slow().exit_code == 1
    assert parity('show', '1').stdout.count('known: taken back\n') == 1
    for arguments in (['show', '2'], ['ack', '2', '--until', '2999-01-01', '--why', 'a test'], ['unack', '2']):
        assert (done := parity(*arguments)).returncode == 2 and done.stderr == 'parity: no incident 2; valid: 1\n'
    assert parity('unack', '1').returncode == parity('unack', 'Toy.hpl').returncode == 2
    parity('ack', 'Toy.hpl', '--until', '2999-01-01', '--why', 'a test')
    assert parity('unack', 'toy.hpl').returncode == 0 and not acks.read('local')
    slow(100.0)
    assert 'is over' in parity('ack', '1', '--until', '2999-01-01', '--why', 'a test').stderr


@pytest.mark.usefixtures('red_at_once')
def test_a_fault_that_is_back_is_its_incident_and_counts_until_it_is_acknowledged_again(cluster, slow, stored):
    def night(hpl: float):
        Days.now = start(stored.count)
        return slow(hpl)

    def ack() -> None:
        done = parity('ack', '1', '--until', str(datetime.date.today() + datetime.timedelta(90)), '--why', 'a fan is ordered')
        assert done.returncode == 0, done.stderr
    night(84.0)
    ack()
    codes = [night(hpl).exit_code for hpl in (84.0, 100.0, 100.0)]
    assert codes == [0, 0, 0]
    found = night(84.0)
    (known,) = found.incidents
    assert (found.exit_code, known.number, known.state, known.faults.popitem()[1].acknowledged) == (1, 1, 'open', False)
    assert [event.what for event in known.events] == ['new', 'known', 'over', 'back'] and known.events[-1].text.startswith('over 20')
    assert known.title == 'local:default: compute 16 % slower' and notify.news_of(known, 3) == notify.news_of(known, 2) == 'back'
    assert known.acks_from == Days.real.fromtimestamp(known.events[-1].start), 'one of the day on which it was over ended, too'
    assert parity('show', '1').stdout.splitlines()[1].startswith('OPEN   back since 2026-11-22')
    assert [line for line in night(84.0).warnings if 'the acknowledgement of incident 1 ended with it: parity unack 1 (' in line]
    assert parity('ack', '--list').stdout.startswith('Toy.hpl@local:default   incident 1 is back: it can go')
    ack()
    assert [night(84.0).exit_code, *(night(hpl).incidents[0].state for hpl in [100.0] * 13)] == [0, *['known'] * 13]
    assert [each.state for each in night(100.0).incidents] == ['over'] and night(100.0).incidents == []


@pytest.mark.usefixtures('red_at_once')
def test_a_cell_taken_out_of_an_acknowledged_incident_stays_known_and_the_answer_says_so(slow, site):
    slow()
    assert parity('ack', '1', '--until', '2999-01-01', '--why', 'a test').returncode == 0
    with site.with_name('acks.yaml').open('a') as file:
        file.write('  - {cell: Toy.latency@local:default, until: 2999-01-01, why: a test, by: ana, since: 2026-11-18, incident: 1}\n')
    done = parity('unack', 'Toy.hpl')
    assert done.returncode == 0 and '; incident 1 still is, with its cells: parity unack 1; ' in done.stdout, done.stderr
    assert slow().exit_code == 0 and 'still is' not in parity('unack', '1').stdout and slow().exit_code == 1


@pytest.mark.usefixtures('red_at_once')
def test_an_acknowledgement_is_in_both_places_or_in_none(slow, stored, site):
    slow()
    stored.database.execute("CREATE TRIGGER no BEFORE UPDATE ON parity_incidents BEGIN SELECT RAISE(FAIL, 'read-only'); END")
    stored.database.commit()
    done = parity('ack', '1', '--until', '2999-01-01', '--why', 'a test')
    assert done.returncode == 4 and 'read-only: incidents are not recorded' in done.stderr and not site.with_name('acks.yaml').exists()
    stored.database.execute('DROP TRIGGER no')
    stored.database.commit()
    site.with_name('acks.yaml').mkdir()
    assert parity('ack', '1', '--until', '2999-01-01', '--why', 'a test').returncode
    assert parity('show', '1', '--json').stdout.count('"state": "open"') == 1


@pytest.mark.usefixtures('red_at_once')
def test_page_and_junit_speak_of_incidents(slow, results):
    slow()
    assert parity('report').returncode == 0
    page, own = ((results / 'report' / name).read_text() for name in ('index.html', 'incidents/1.html'))
    assert page.count('href="incidents/1.html"') == 1 and 'href="../figures/Toy.html#c1"' in own and 'parity show 1' in own
    xml = (results / 'report' / 'junit.xml').read_text()
    assert '<property name="incident" value="1"' in xml and '<property name="incidents" value="1 new"' in xml
    slow()
    parity('report')
    assert (results / 'report' / 'index.html').read_text().count('href="incidents/1.html"') == 1         # a card; so few nights have no map
    slow(100.0)
    parity('report')
    own = (results / 'report' / 'incidents' / '1.html').read_text()
    now, before = re.findall(r'<p>(.*?<strong class="fig">.*?)</p>', own)
    assert now.startswith('in order again <strong class="fig">100.0 Gflop/s</strong>') and 'regressed' not in now
    assert before.startswith('2026-11-19: ') and '84 Gflop/s</strong> -16.0 %' in before
    slow(100.0)
    parity('report')
    assert not (results / 'report' / 'incidents' / '1.html').exists()


@pytest.mark.usefixtures('red_at_once')
def test_an_older_session_is_shown_with_what_was_known_then(cluster, slow, stored, results):
    """An acknowledgement of a later day does not hold for it; one that has run out since does."""
    def night(hpl=84.0):
        Days.now = start(stored.count)
        return slow(hpl).session.uuid

    def page(uuid):
        found = judge.newest(uuid)
        report.write(found, results / uuid, results)
        own = results / uuid / 'incidents' / '1.html'
        return found.exit_code, ' acknowledged until' in own.read_text(), 'class="label">acknowledged' in (results / uuid / 'index.html').read_text()

    first, second = night(), night()
    with clock_at(start(1) + 3600):
        until = str(datetime.date.today() + datetime.timedelta(1))
        assert parity('ack', '1', '--until', until, '--why', 'a fan is ordered').returncode == 0
    assert page(second) == (0, True, True), 'the newest one shows what is known now'
    third, fourth = night(), night()
    assert page(first) == (1, False, False) and not [each for each in judge.newest(first).warnings if 'acknowledgement' in each]
    assert page(second) == page(third) == (0, True, True)
    assert page(fourth) == (1, False, False)
    night(100.0)
    assert page(first) == (1, False, False) and [each.state for each in judge.newest(first).incidents] == ['open']


@pytest.mark.usefixtures('red_at_once')
def test_incidents_survive_prune_merge_and_a_second_writer(slow, stored, results, tmp_path, monkeypatch):
    slow()
    before = table.of_system('local')
    stored.database.execute('PRAGMA user_version')
    assert retain.prune(float('inf'), dry_run=False).gone == 0 and slow().incidents and retain.prune(float('inf'), dry_run=False).gone == 1
    assert [each.number for each in table.of_system('local')] == [1] and table.of_system('local')[0].events == before[0].events
    threads = [threading.Thread(target=table.change, args=({1: lambda now: {'notified': now.notified + 1}},)) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert table.of_system('local')[0].notified == 8


@pytest.mark.usefixtures('red_at_once')
def test_merge_takes_incidents_under_new_numbers_once(slow, results, tmp_path, monkeypatch):
    slow()
    other = tmp_path / 'other'
    monkeypatch.setenv('PARITY_RESULTS', str(other))
    other.mkdir()
    with database.sqlite3.connect(other / 'results.db') as conn:
        conn.execute('ATTACH DATABASE ? AS other', (str(results / 'results.db'),))
        for _ in range(2):
            merging._merge_incidents(conn)
    first, = table.of_system('local')
    assert first.number == 1 and first.uuid == '00000000-0:Toy.hpl@local:default+distro (quick)'


@pytest.mark.usefixtures('red_at_once')
def test_an_incident_of_a_node_waits_until_that_node_is_measured(site, stored):
    """The case is slow on c1 and fast on c2. A good night on c2 says nothing of c1."""
    def night(value, node, again=()):
        def ran(value, node):
            return case(value, refs={'hpl': (100.0, -0.05, 0.05)}, job_nodelist=[node])
        uuid = stored.add(ran(value, node))
        if again:
            stored.add(*(ran(*each) for each in again for _ in range(3)), **{RERUN_OF: uuid})
        incidents.record(judge.newest(uuid), 'local')
        return parity('show', '1').stdout, json.loads(parity('show', '1', '--json').stdout)

    _, found = night(84.0, 'c1', [(84.0, 'c1'), (100.0, 'c2')])
    assert found['state'] == 'open' and found['where']['name'] == 'c1' and found['where']['kind'] == 'node', found
    shown, found = night(100.0, 'c2')
    assert found['state'] == 'open' and 'not measured again on c1 since' in shown, shown
    assert night(100.0, 'c1')[1]['state'] == 'over'


@pytest.mark.usefixtures('red_at_once')
def test_an_incident_of_a_node_that_is_gone_ends_when_the_node_is_retired(site, stored, tmp_path):
    """The case is slow on c1, which dies. Without a word in system.yaml its incident stays open for ever."""
    called, text = tmp_path / 'called', site.read_text()
    text += f'on_incident: {{command: [/bin/sh, -c, "cat >>{called}"]}}\n'
    site.write_text(text)

    def night(*runs, again=()):
        def ran(node, value=100.0):
            return case(value, refs={'hpl': (100.0, -0.05, 0.05)}, job_nodelist=[node])
        uuid = stored.add(*(ran(*run) for run in runs))
        if again:
            stored.add(*(ran(*run) for run in again for _ in range(3)), **{RERUN_OF: uuid})
        found = notify.prepared('local').recorded(judge.newest(uuid))
        one, = table.of_system('local')
        return found, one, [json.loads(line)['news'] for line in called.read_text().splitlines()]

    _, one, news = night(('c1', 84.0), again=[('c1', 84.0), ('c2',)])
    assert news == ['new'] and one.nodes == ['c1'] and '\nc1 ' in parity('nodes').stdout
    for _ in range(2):
        _, one, news = night(('c2',))
        assert news == ['new'] and one.state == 'open' and 'not measured again on c1' in words.since(one)
    site.write_text(f'{text}retired: [{{nodes: [c1.cluster.example], reason: sent back, since: {day(stored.count)}}}]\n')
    for night_after in range(2):
        found, one, news = night(('c2',))
        assert news == ['new', 'over'] and one.closed.text == 'c1 retired' and found.exit_code == 0
        assert ('Incident 1 is over (c1 retired)' in answer.of(found).sentence) == (not night_after)
    assert not summary.false_alarms([one], [start(number) for number in (0, 2, 3, 4)], 4.0, 1.0).false
    listed, of_node = parity('nodes').stdout, parity('node', 'c1').stdout
    assert '\nc1 ' not in listed and '\nretired: c1\n' in listed and '1 of 1 node ' in listed
    assert f'retired   since {day(stored.count - 2)}: sent back' in of_node and '00000000' in of_node
    shown = parity('show', '1').stdout
    assert 'over: c1 retired' in shown and re.search(r'-16.0 %   regressed on 20\d\d-\d\d-\d\d, (retired|in order again)', shown)
    index, *_ = report.of_session(judge.newest())
    assert 'not measured tonight' not in index.read_text()
    assert any(re.search(r'system.yaml:\d+: c1 ran again: take it out', said) for said in night(('c1',))[0].warnings)


@pytest.mark.parametrize('entry, said', [
    ('nodes: ["c[1-4]"]', r"yaml:\d+: retired.0.nodes.0: 'c\[1-4\]' is no name of a node; valid is one name, such as c1"),
    ('nodes: c1', "nodes: 'c1' must be a list"), ('nodes: [3]', '3 must be text'), ('nodes: []', 'must name a check, a partition or an environ, or nodes alone'),
    ('nodes: [c1], partition: default', 'must name a check, a partition or an environ, or nodes alone')])
def test_a_retired_node_that_is_none_is_refused_with_its_line(site, entry, said):
    site.write_text(f'{site.read_text()}retired: [{{{entry}, reason: sent back, since: 2026-11-22}}]\n')
    done = parity('nodes', '--system', 'local')
    assert done.returncode == 2 and re.search(said, done.stderr), done.stderr


def test_an_unknown_retired_node_is_a_warning_with_the_known_ones(site, stored):
    site.write_text(f'{site.read_text()}retired:\n- {{nodes: [c1, node33], reason: sent back, since: 2026-11-22}}\n')
    stored.add(case(job_nodelist=['node3']), case(name='Failed', result='fail', fail_phase='run', perfvalues={}, job_nodelist=['c1']))
    said = r'system.yaml:\d+: unknown node node33; did you mean .node3.\? valid: c1, node3$'
    assert re.search(said, parity('nodes').stdout, re.M)


def work(nodes):
    """The calls that a night with a slow figure on each of so many nodes takes, where as many incidents are open."""
    calls = Counter()

    class Faults(dict):
        def __contains__(self, name):
            calls['look'] += 1
            return super().__contains__(name)

    def bad(name, number):
        cause = Attribution(where=Where(kind='node', name=f'n{number}'), subsystem=Subsystem(name='memory'))
        return incidents.Bad(f'{name} {number}', ['regressed', 'node', f'n{number}', 'memory'],
                             Fault(word='regressed', since=0.0, measured=0.0, cell=name), cause, CellText(cell(case=f'{name} %n={number}')))
    night = incidents.Night('local', 's', 1.0, {each.name: each for each in (bad('now', n) for n in range(nodes))}, {}, frozenset())
    before, together = replace(night, bad={each.name: each for each in (bad('then', n) for n in range(nodes))}), incidents.Calendar.stored()
    known = [each.model_copy(update={'number': n, 'faults': Faults(each.faults)})
             for n, each in enumerate(incidents.after([], before, together), 1)]
    sys.setprofile(lambda frame, event, _: calls.update([event] if frame.f_code.co_filename == incidents.__file__ else []))
    try:
        after = incidents.after(known, night, together)
    finally:
        sys.setprofile(None)
    assert [[*each.faults] for each in after] == [[f'then {n}', f'now {n}'] for n in range(nodes)]
    return calls


def test_work_grows_as_the_number_of_open_incidents_does():
    few, many = work(50), work(100)
    assert many['call'] < 2.5 * few['call'] and many['look'] <= 2.5 * few['look']


# ---- which faults are one: cells as a verdict has them, night after night

def slower(case: str, begin: int, kind: str = '', name: str = '', part: str = '', changes: tuple = (), on: tuple = (), alone: bool = False, **other):
    """A slower cell whose level began in a night, with its cause. ``on``: the nodes of its changes; ``alone``: no other partition measured it."""
    cause = Attribution(where=Where(kind=kind, name=name, alone=alone), subsystem=Subsystem(name=part), changes=[
        Change(fact=fact, old='1', new='2', nodes=[*on], since=start(begin)) for fact in changes])
    partition = name.partition(',')[0] if kind == 'partition' else 'virtual'
    return cell(case=case, metric='rate', **{'partition': partition, 'begin': start(begin), 'detected': start(begin), 'state': 'slow', 'level': 90.0, 'value': 91.0,
                                             'usual': 100.0, 'cause': cause, **other})


def fine(case: str, *nodes: str, **other):
    return cell('ok', case, 'rate', **{'value': 100.0, 'usual': 100.0, 'state': 'normal', 'ran_on': [*nodes], **other})


def broken(case: str, *nodes: str, reason: str = 'exit code 1', **other):
    return cell('failed', case, 'rate', kind=reasons.kind('failed', reason), reason=reason, ran_on=[*nodes], **other)


TIMEOUT, CRASH = 'time limit reached, 120 s (job 1 on c1: TIMEOUT)', 'exit code 139; MPI_Finalize: Segmentation fault; although the output is complete'


def live(*turns: list, known: tuple = (), first: int = 0) -> tuple[list, list[list[str]]]:
    """The incidents after nights with these cells, and the events of each night, with the numbers of their incidents.

    ``known``: those before; ``first``: the number of the first night."""
    known, events = [*known], []
    for number, cells in enumerate(turns, first):
        cells = [*cells, fine('Other', 'c0')]
        verdict = verdict_of(cells, exit_code=judge.exit_code(cells))
        verdict = verdict.model_copy(update={'incidents': [], 'session': verdict.session.model_copy(update={'uuid': str(number)})})
        night = incidents.of_verdict(verdict, 'onebox', start(number))
        now = incidents.after(known, night, incidents.Calendar.stored())
        new = [each.model_copy(update={'number': len(known) + at}) for at, each in enumerate((each for each in now if not each.number), 1)]
        known = [*({each.number: each for each in known} | {each.number: each for each in now if each.number}).values(), *new]
        events.append([f'{each.number} {event.what}' for each in known for event in each.events if event.session == str(number)])
    return known, events


ALL = 'fat, gpu, physical, virtual'
GPU_ALONE = slower('GpuOsu', 0, 'partition', 'gpu', 'network', alone=True)
EVERYWHERE = [slower('Osu', 0, 'everything', 'fat, physical, virtual', 'network', partition=name, first_slow=start(0)) for name in ('fat', 'physical', 'virtual')]


@pytest.mark.parametrize('turns, titles', [
    # a network at 90 %: its cells are found in three nights, and each night knows other partitions
    ([[slower('Osu %a=1', 0, 'partition', 'fat', 'network'), slower('Imb', 0, 'everything', ALL, 'network')],
      [slower('Osu %a=2', 0, 'partition', 'gpu', 'network')], [slower('Ring', 1, 'partition', 'virtual', 'network')]],
     ['everything: network 10 % slower']),
    # a partition with checks of its own: nothing says that it is another place than everything, whichever is found first
    *(([*first, [GPU_ALONE, *EVERYWHERE]], ['everything: network 10 % slower']) for first in ([], [[GPU_ALONE]], [EVERYWHERE])),
    ([[*EVERYWHERE], [slower('GpuOsu %a=2', 0, 'partition', 'gpu', 'network', alone=True)]], ['everything: network 10 % slower']),
    # ... where others measure the same and are in order, it is; and of another part, of another night, or where not all others are slow
    *(([[gpu, *others]], ['onebox:gpu: network 15 % slower', other]) for gpu, others, other in (
        (slower('GpuOsu', 0, 'partition', 'gpu', 'network', level=85.0), EVERYWHERE, 'everything: network 10 % slower'),
        (slower('GpuOsu', 0, 'partition', 'gpu', 'network', alone=True, level=85.0), [slower('Stream', 0, 'everything', 'fat, virtual', 'memory', partition=name)
                                                                         for name in ('fat', 'virtual')], 'fat, virtual: memory 10 % slower'),
        (slower('GpuOsu', 0, 'partition', 'gpu', 'network', alone=True, level=85.0), [slower('Osu', 0, 'partition', 'fat, virtual', 'network', partition=name)
                                                                         for name in ('fat', 'virtual')], 'fat, virtual: network 10 % slower'))),
    ([EVERYWHERE, EVERYWHERE, [slower('GpuOsu', 2, 'partition', 'gpu', 'network', alone=True, last_good=start(1))]],
     ['everything: network 10 % slower', 'onebox:gpu: network 10 % slower']),
    # a compiler's change in all partitions; an older slow node is another. A shared change joins nothing
    ([[slower('Stream', 0, 'node', 'c3', 'memory')], *[[]] * 6,
      [slower('Npb', 7, 'everything', 'fat, gpu', 'compute', ['gcc'], partition='fat'), slower('Npb', 7, 'everything', 'fat, gpu', 'compute', ['gcc'], partition='gpu')]],
     ['c3: memory 10 % slower', 'fat, gpu: compute 10 % slower']),
    ([[slower('Ior', 0, 'partition', 'fat', 'storage', ['kernel'], on=['c1']), slower('Hpl', 0, 'partition', 'virtual', 'compute', ['kernel'], on=['c1'])]],
     ['onebox:fat: storage 10 % slower', 'onebox:virtual: compute 10 % slower']),
    ([[slower('Ior', 0, 'partition', 'fat', 'storage', ['kernel'], on=['c1'])], *[[]] * 6,
      [slower('Imb', 0, 'partition', 'virtual', 'network', ['kernel'], on=['c1'], detected=start(7))]],
     ['onebox:fat: storage 10 % slower', 'onebox:virtual: network 10 % slower']),
    # of a node, also where the worst cell does not say so: it ran there alone, and not again; what comes later is the node's
    ([[slower('Stream', 0, 'node', 'c3', 'memory'), slower('Npb', 0, part='memory', level=70.0, ran_on=['c3'])], [slower('Hpcc', 1, 'node', 'c3', 'memory')]],
     ['c3: memory 10 % slower']),
    # one node in several codes, whose part nobody knows; two nodes; two parts of a partition
    ([[slower('Hpl', 0, 'node', 'c3', subsystem='compute'), slower('Stream', 0, 'node', 'c3'), slower('Osu', 0, 'node', 'c3', subsystem='network')]],
     ['c3: compute and memory and network 10 % slower']),
    ([[slower('Stream', 0, 'node', 'c3', 'memory'), slower('Stream %n=2', 0, 'node', 'c4', 'memory')]],
     ['c3: memory 10 % slower', 'c4: memory 10 % slower']),
    ([[slower('Stream', 0, 'partition', 'fat', 'memory'), slower('Ior', 0, 'partition', 'fat', 'storage')]],
     ['onebox:fat: memory 10 % slower', 'onebox:fat: storage 10 % slower']),
    # found nine nights later with a begin beside the first; begun later, within 21 nights or not; begun later on a known node
    ([[slower('Stream', 0, 'partition', 'fat', 'memory')], *[[]] * 8, [slower('Npb', 1, 'partition', 'fat', 'memory')]],
     ['onebox:fat: memory 10 % slower']),
    ([[slower('Stream', 0, 'partition', 'fat', 'memory')], *[[]] * 8, [slower('Npb', 8, 'partition', 'fat', 'memory')]],
     ['onebox:fat: memory 10 % slower']),
    # two partitions, each with an incident: a cell that both may explain is of its own partition's
    ([[slower('Fio', 0, 'partition', 'cpu', 'storage', first_slow=start(0))], [], [slower('Ior', 2, 'partition', 'fat', 'storage', last_good=start(1), first_slow=start(2))],
      [slower('Copy', 2, 'partition', 'cpu, fat', 'storage', partition='fat')]], ['onebox:cpu: storage 10 % slower', 'onebox:fat: storage 10 % slower']),
    # ... with a further drop of it, or without one
    *(([[slower('Stream', 0, 'partition', 'fat', 'memory', first_slow=start(0))], *[[]] * 8,
        [slower('Stream', 0, 'partition', 'fat', 'memory', first_slow=start(0), level=level, detected=start(9))],
        [slower('Npb', 9, 'partition', 'fat', 'memory', last_good=start(8), first_slow=start(9))]], titles) for level, titles in (
            (70.0, ['onebox:fat: memory 20 % slower']), (90.0, ['onebox:fat: memory 10 % slower'] * 2))),
    # ... of another part
    ([[slower('Stream', 0, 'partition', 'fat', 'memory')], *[[]] * 8, [slower('Ior', 8, 'partition', 'fat', subsystem='storage')]],
     ['onebox:fat: memory 10 % slower', 'onebox:fat: storage 10 % slower']),
    # ... but in no partition that is in order again
    ([[slower('Stream', 0, 'partition', 'fat, virtual', 'memory'), slower('Stream', 0, 'partition', 'fat, virtual', 'memory', partition='virtual')],
      *[[slower('Stream', 0, 'partition', 'fat', 'memory'), fine('Stream', 'v1', partition='virtual')]] * 7,
      [slower('Npb', 8, 'partition', 'virtual', 'memory')]], ['onebox:fat: memory 10 % slower', 'onebox:virtual: memory 10 % slower']),
    # ... nor if it was surely good when the first was surely slow, on the next night or later
    *(([[slower('Stream', 0, 'partition', 'fat', 'memory', first_slow=start(0))], *[[]] * wait,
        [slower('Npb', begin, 'partition', 'fat', 'memory', last_good=start(good))]], ['onebox:fat: memory 10 % slower'] * count)
      for wait, begin, good, count in ((0, 1, 0, 1), (1, 2, 1, 2), (7, 8, 3, 2), (7, 8, 0, 1))),
    ([[slower('Osu', 0, 'everything', ALL, 'network', partition='fat', first_slow=start(0))],
      *[[]] * 1, [slower('Osu', 2, 'everything', ALL, 'network', last_good=start(1))]], ['onebox:fat: network 10 % slower', 'onebox:virtual: network 10 % slower']),
    ([[slower('Stream', 0, 'partition', 'fat', 'memory', first_slow=start(0)), slower('Npb', 2, 'partition', 'fat', 'memory', last_good=start(1))]],
     ['onebox:fat: memory 10 % slower'] * 2),
    ([[slower('Stream', 0, 'partition', 'fat', 'memory')], *[[]] * 25, [slower('Npb', 25, 'partition', 'fat', 'memory')]],
     ['onebox:fat: memory 10 % slower'] * 2),
    ([[slower('Stream', 0, 'node', 'c3', 'memory')], *[[]] * 8, [slower('Npb', 8, 'node', 'c3', 'memory')]], ['c3: memory 10 % slower']),
    ([[slower('Hpl', 0, 'node', 'c3', 'compute clock')], *[[]] * 8, [slower('Npb', 8, 'node', 'c3', 'compute and memory alike')]],
     ['c3: compute clock 10 % slower']),
    ([[slower('Stream', 0, 'node', 'c3')], *[[]] * 8, [slower('Npb', 8, 'node', 'c3')]], ['c3: memory 10 % slower']),
    # ... of another part: its good nights before ran on other nodes; but not weeks later
    *(([[slower('Stream', 0, 'node', 'c3', 'memory', first_slow=start(0))], *[[]] * (night - 1),
        [slower('Osu', night, 'node', 'c3', subsystem='network', last_good=start(night - 1), first_slow=start(night))]], titles)
      for night, titles in ((6, ['c3: memory 10 % slower']), (25, ['c3: memory 10 % slower', 'c3: network 10 % slower']))),
    # unknown equals nothing, but for the cells of one check
    ([[slower('Stream', 0), slower('Npb', 0)]], ['onebox:virtual: memory 10 % slower'] * 2),
    ([[slower('Stream', 0), slower('Stream %n=2', 0)]], ['onebox:virtual: memory 10 % slower']),
    ([[slower('Stream', 0), slower('Stream %n=2', 0, 'partition', 'virtual')]], ['onebox:virtual: memory 10 % slower']),
    ([[slower('Stream', 0, 'partition', 'virtual'), slower('Npb', 0)]], ['onebox:virtual: memory 10 % slower'] * 2),
    # of a partition that two cells name, all of that part are
    ([[slower('Stream', 0, 'partition', 'virtual'), slower('Hpl', 0, 'partition', 'virtual'), slower('Npb', 0)]],
     ['onebox:virtual: memory 10 % slower']),
    ([[slower('Stream', 0, part='memory')], [slower('Npb', 0, part='memory')]], ['onebox:virtual: memory 10 % slower'] * 2),
    # a level that is no worse is no negative slowdown
    ([[slower('Stream', 0, 'node', 'c3', 'memory', level=100.4, value=100.4)]], ['c3: memory slower']),
    # the median change, and two names of three
    ([[slower('Stream', 0, 'node', 'c3', 'memory'), slower('Npb', 0, 'node', 'c3', 'memory', level=80.0), slower('Hpcc', 0, 'node', 'c3', level=60.0)]],
     ['c3: memory 20 % slower']),
    ([[slower('Stream', 0, 'partition', 'fat, gpu, physical', 'memory'), *(
        slower('Npb', 0, 'partition', 'fat, gpu, physical', 'memory', partition=other) for other in ('gpu', 'physical'))]],
     ['3 partitions: memory 10 % slower']),
    # a partition that is slow in one figure only is no place
    ([[slower('Stream', 0, 'partition', 'fat, gpu', 'memory')]], ['onebox:fat: memory 10 % slower']),
    # a partition joins no node; but where most cells name the partition, one may name a node by chance
    ([[slower('Stream', 0, 'node', 'c3', 'memory', partition='fat'), slower('Npb', 0, 'node', 'c3', 'memory', partition='fat'),
       slower('Hpcc', 0, 'partition', 'fat', 'memory')]], ['c3: memory 10 % slower', 'onebox:fat: memory 10 % slower']),
    ([[slower('Stream', 0, 'node', 'c3', 'memory', partition='fat'), slower('Npb', 0, 'partition', 'fat', 'memory'),
       slower('Hpcc', 0, 'partition', 'fat', 'memory')]], ['onebox:fat: memory 10 % slower']),
    # ... of another part it is that node's, as it is where it surely began before
    ([[slower('Hpl', 0, 'node', 'c3', 'compute clock', partition='fat'), slower('Npb', 0, 'partition', 'fat', 'memory'),
       slower('Hpcc', 0, 'partition', 'fat', 'memory')]], ['c3: compute clock 10 % slower', 'onebox:fat: memory 10 % slower']),
    ([[slower('Stream', 0, 'node', 'c3', 'memory', partition='fat', first_slow=start(0)),
       *(slower(name, 3, 'partition', 'fat', 'memory', last_good=start(2)) for name in ('Npb', 'Hpcc'))]],
     ['c3: memory 10 % slower', 'onebox:fat: memory 10 % slower']),
    # a kernel slows memory everywhere, a night after the clock of c3: the mail names both, and a cell that both slow stays with the first
    ([[slower('Hpl', 0, 'node', 'c3', 'compute clock', last_good=start(-1), first_slow=start(0), subsystem='compute')],
      [slower('Hpl', 0, 'node', 'c3', 'compute clock', last_good=start(-1), first_slow=start(0), subsystem='compute'),
       *(slower(name, 1, 'everything', ALL, 'memory', last_good=start(0), first_slow=start(1), partition=partition)
         for name, partition in (('Stream', 'virtual'), ('Npb', 'fat'), ('Hpcc', 'gpu')))],
      [slower('Hpl', 0, 'everything', ALL, 'memory', last_good=start(-1), first_slow=start(0))]],
     ['c3: compute clock 10 % slower', 'everything: memory 10 % slower']),
    # a partition of old takes no new cell that names a node; a node's other part began with it, whatever nights were good elsewhere
    ([[slower(name, 0, 'partition', 'fat', 'memory') for name in ('Npb', 'Hpcc')], *[[]] * 8, [slower('Stream', 0, 'node', 'c3', 'memory', partition='fat')]],
     ['onebox:fat: memory 10 % slower', 'c3: memory 10 % slower']),
    ([[]] * 10 + [[slower('Hpl', 10, 'node', 'c3', 'compute clock', last_good=start(9), first_slow=start(10), subsystem='compute')],
                  [slower('Blocks', 5, 'node', 'c3', 'memory', first_slow=start(8))]], ['c3: compute clock 10 % slower']),
    # a cell that calls another partition slow, too, is not of that one's incident
    ([[slower('Osu', 0, 'partition', 'fat', 'network')], [slower('Imb', 1, 'partition', 'fat, virtual', 'network', partition='virtual')]],
     ['onebox:fat: network 10 % slower', 'onebox:virtual: network 10 % slower']),
    # failures by kind and place
    ([[broken('Hpl', 'c7', reason='a node failed (job 1 on c7: NODE_FAIL)'), broken('Npb', 'c7', reason='exit code 9'), fine('Stream', 'c1'),
       cell('missing', 'Fio %part=x %nid=c7', 'rate')]], ['c7: Fio, Hpl, Npb, 3 cases: failed']),
    ([[broken('Hpl', 'c6', 'c7', reason='a node failed (job 1)'), broken('Npb', 'c7', 'c8', reason='a node failed (job 2)'), fine('Stream', 'c1')]],
     ['c7: Hpl, Npb, 2 cases: failed']),
    ([[broken('Hpl', 'c1', reason='time limit reached, 3600 s (job 1 on c1: TIMEOUT)'), fine('Stream', 'c1')],
      [broken('Hpl', 'c2', reason='time limit reached, 3600 s (job 9 on c2: TIMEOUT) (3 attempts)'), broken('Npb', 'c3', reason='time limit reached'), fine('Stream', 'c1')]],
     ['onebox:virtual: Hpl: reached its limit of time or memory', 'onebox:virtual: Npb: reached its limit of time or memory']),
    # two faults of one check on one node; of one case on two nights the newest
    ([[broken('Hpl %n=1', 'c1', reason=TIMEOUT), broken('Hpl %n=2', 'c1', reason=CRASH), fine('Stream', 'c2')]],
     ['onebox:virtual: Hpl: reached its limit of time or memory', 'onebox:virtual: Hpl: failed after its whole output']),
    ([[broken('Hpl', 'c1', reason=TIMEOUT), broken('Hpl', 'c1', reason=CRASH, environ='spack'), fine('Stream', 'c2')]],
     ['onebox:virtual: Hpl: reached its limit of time or memory', 'onebox:virtual: Hpl: failed after its whole output']),
    ([[broken('Hpl', 'c1', reason=TIMEOUT, partition='fat'), broken('Npb', 'c1', reason=CRASH, partition='fat')]],
     ['onebox:fat: Hpl: reached its limit of time or memory', 'onebox:fat: Npb: failed after its whole output']),
    ([[broken('Hpl', 'c1', reason=TIMEOUT)], [broken('Hpl', 'c1', reason=CRASH)]], ['onebox:virtual: Hpl: failed after its whole output']),
    # several cases that run out of time on one node alone are that node's; a job of two nodes that ran there shows that it is well
    ([[broken('Hpl', 'c1', reason=TIMEOUT), broken('Npb', 'c1', reason=TIMEOUT), fine('Stream', 'c2')]], ['c1: Hpl, Npb, 2 cases: reached its limit of time or memory']),
    ([[broken('Hpl', 'c1', reason='exit code 1'), broken('Npb', 'c1', reason='exit code 1'), fine('Osu', 'c1', 'c2')]],
     ['onebox:virtual: Hpl, Npb, 2 cases: failed']),
    # only what never began did not run
    ([[broken('Hpl', reason='cancelled while it waited in the queue'), broken('Npb', 'c1', reason='cancelled (job 3 on c1: CANCELLED)'), fine('Stream', 'c2')]],
     ['onebox:virtual: Hpl: did not run', 'onebox:virtual: Npb: was cancelled']),
    ([[broken('Hpl', reason='disk full', partition='fat'), broken('Npb', reason='no MPI', partition='fat')]], ['onebox:fat: Hpl, Npb, 2 cases: did not run']),
    # one launcher binds all ranks of a partition; the next night it still does
    ([[broken(case, node, reason='placement: rank 0 may run on CPUs 0-1: not bound to one core') for case, node in (('Hpl', 'c1'), ('Npb', 'c2'))]] * 2,
     ['onebox:virtual: Hpl, Npb, 2 cases: ranks placed otherwise than asked']),
    ([[broken('Hpl', reason='placement: 2 ranks are bound to core 0 of c1'), broken('Npb', reason='placement: 2 ranks are bound to core 0 of c1', partition='fat')]],
     ['onebox:virtual: Hpl: ranks placed otherwise than asked', 'onebox:fat: Npb: ranks placed otherwise than asked']),
    # of one kind in one night: a full disk, wrong answers, counts; another night's is another
    ([[broken(name, reason='disk full') for name in ('Hpl', 'Npb', 'Ior', 'Fio')]], ['onebox:virtual: Fio, Hpl, Ior, Npb, 4 cases: did not run']),
    *(([[cell(word, name, 'rate') for name in ('Hpl', 'Npb', 'Ior')]], [f'onebox:virtual: Hpl, Ior, Npb, 3 cases: {text}'])
      for word, text in (('wrong', 'a wrong answer'), ('impossible', 'beyond what the machine can do'))),
    ([[broken('Hpl', 'c1', reason=TIMEOUT)], [broken('Hpl', 'c1', reason=TIMEOUT), broken('Npb', 'c2', reason=TIMEOUT)]],
     ['onebox:virtual: Hpl: reached its limit of time or memory', 'onebox:virtual: Npb: reached its limit of time or memory']),
])
def test_one_cause_is_one_incident_and_two_are_two(turns, titles):
    assert [each.title for each in live(*turns)[0]] == titles


def test_an_entry_has_the_reason_of_each_kind_of_failure_once_with_its_cell():
    cells = [broken('Hpl', 'c7', reason='a node failed (job 1 on c7: NODE_FAIL)'), broken('Npb', 'c7', reason='exit code 9'),
             broken('Ior', 'c7', reason='exit code 8'), fine('Stream', 'c1')]
    entry, = answer.of(verdict_of(cells, incidents=[], pairs=[])).entries
    assert entry.title == 'c7: Hpl, Ior, Npb, 3 cases: failed'
    assert entry.lines == ['a node failed (job 1 on c7: NODE_FAIL)', 'Npb.rate@onebox:virtual: exit code 9']


SLOW = slower('Stream', 0, 'node', 'c3', 'memory')


@pytest.mark.parametrize('turns, events', [
    ([[SLOW], [fine('Stream', 'c1', state='slow')], [fine('Stream', 'c3')]], ['1 new', '', '1 over']),      # a good night ends no level
    ([[slower('Stream', 0, 'partition', 'virtual', 'memory')], [fine('Stream', 'c9')]], ['1 new', '1 over']),
    ([[slower('Stream', 0)], [cell('insufficient', 'Stream', 'rate', state='learning')]], ['1 new', '1 over']),
    ([[SLOW], [fine('Stream', 'c1')], [fine('Stream', 'c3', value=90.2)], [fine('Stream', 'c3', value=99.0)]], ['1 new', '', '', '1 over']),
    # any cell of the incident measures the node; what waits takes in nothing but what is slow there
    ([[SLOW, slower('Npb', 0, 'node', 'c3', 'memory')], [fine('Stream', 'c1'), fine('Npb', 'c2')], [fine('Npb', 'c3')]], ['1 new', '', '1 over']),
    ([[SLOW], [fine('Stream', 'c1')], [slower('Hpl', 1, 'partition', 'virtual', 'memory')]], ['1 new', '', '2 new']),
    ([[SLOW], [fine('Stream', 'c1')], [slower('Hpl', 2, 'node', 'c3', 'memory')]], ['1 new', '', '1 also']),
    ([[SLOW], [fine('Stream', 'c1')], [slower('Stream', 2, 'node', 'c3', 'memory')], [fine('Stream', 'c3')]], ['1 new', '', '', '1 over']),
    ([[SLOW], *[[fine('Stream', 'c1')]] * 30, [slower('Npb', 31, 'node', 'c3', 'memory', first_slow=start(31))]], ['1 new', *[''] * 30, '1 also']),
    # a further drop; also less than twice as deep, of a level that lasted; a deeper level without one, or one that is no lower, is none
    ([[SLOW], [slower('Stream', 0, 'node', 'c3', 'memory', level=75.0, detected=start(3))]], ['1 new', '1 worse']),
    ([[SLOW], [slower('Stream', 0, 'node', 'c3', 'memory', level=75.0, detected=start(1))]], ['1 new', '']),       # two nights, one an outlier
    ([[SLOW], [slower('Stream', 0, 'node', 'c3', 'memory', level=80.0)], [slower('Stream', 0, 'node', 'c3', 'memory', level=95.0, detected=start(2))]], ['1 new', '', '']),
    ([[SLOW], [slower('Stream', 0, 'node', 'c3', 'memory', level=88.0, detected=start(1))]], ['1 new', '']),       # the first night's level
    ([[SLOW], [slower('Stream', 0, 'node', 'c3', 'memory', detected=start(1))],
      [slower('Stream', 0, 'node', 'c3', 'memory', level=87.0, detected=start(2))]], ['1 new', '', '']),       # and of the first three
    ([[slower('Stream', 0, 'node', 'c3', 'memory', level=93.0, detected=start(5))],
      [slower('Stream', 0, 'node', 'c3', 'memory', level=89.0, detected=start(6))],
      [slower('Stream', 0, 'node', 'c3', 'memory', level=80.0, detected=start(9))]], ['1 new', '', '1 worse']),       # its begin was put too early
    ([[slower('Stream', 0, 'node', 'c3', 'memory', level=78.0)] for _ in range(9)] + [[slower('Stream', 0, 'node', 'c3', 'memory', level=60.0, detected=start(9))]],
     ['1 new', *[''] * 8, '1 worse']),
    # another place tonight of a level that lasts; a cell that comes back while others last
    ([[slower('Stream', 0, 'partition', 'virtual', 'memory')], [SLOW]], ['1 new', '']),
    ([[SLOW, slower('Npb', 0, 'node', 'c3', 'memory')], [fine('Stream', 'c1'), slower('Npb', 0, 'node', 'c3', 'memory')], [slower('Stream', 2, 'node', 'c3', 'memory')]],
     ['1 new', '', '']),
    # ... after a while it is told, as a part of its incident or as another
    *(([[slower('Stream', 0, 'partition', 'virtual', 'memory'), slower('Npb', 0, 'partition', 'virtual', 'memory')],
       *[[fine('Stream', 'c1'), slower('Npb', 0, 'partition', 'virtual', 'memory')]] * (night - 1),
       [slower('Stream', night, 'partition', 'virtual', 'memory')]], ['1 new', *[''] * (night - 1), event])
      for night, event in ((8, "1 also"), (25, "2 new"))),
    # what comes and goes stays in its incident, wherever its next spell seems to be; and so does what is slow elsewhere, too
    *(([[slower('Stream', 0, 'node', 'c3', 'memory', state='comes and goes')], [fine('Stream', 'c1', state='comes and goes')],
       [slower('Stream', 8, kind, name, 'memory', state='comes and goes')]], ['1 new', '', '']) for kind, name in (('partition', 'virtual'), ('node', 'c1'))),
    # ... and the level of its first nights is not sure, as it was not at first
    *(([[slower('Stream', 0, state='comes and goes', detected=start(4))], [fine('Stream', 'c1', state='comes and goes')],
        [slower('Stream', 8, state='comes and goes', level=level, detected=start(9))]], ['1 new', '', event]) for level, event in ((86.0, ''), (75.0, '1 worse'))),
    ([[SLOW], [slower('Stream', 8, 'partition', 'virtual', 'memory')]], ['1 new', '']),
    # a slowdown of tonight that ran on a known slow node alone is of that node; one that lasts, ran on others, is of another part or
    # slow elsewhere, is another
    *(([[SLOW], [slower('Npb', begin, kind, 'virtual' if kind else '', part, ran_on=nodes, subsystem=part)]], ['1 new', event])
      for begin, nodes, part, kind, event in (
          (1, ['c3'], 'memory', '', '1 also'), (0, ['c3'], 'memory', '', '2 new'), (1, ['c3', 'c4'], 'memory', '', '2 new'),
          (1, ['c4'], 'memory', '', '2 new'), (1, ['c3'], 'network', '', '2 new'), (1, ['c3'], 'memory', 'partition', '2 new'))),
    ([[SLOW], [slower('Npb', 1, 'partition', 'virtual', 'memory', ran_on=['c3']), slower('Hpl', 1, 'partition', 'virtual', 'memory', ran_on=['c4'])]], ['1 new', '2 new']),
    # a cell that an incident had comes back to it, whatever its begin seems to be
    ([[slower(name, 0, 'partition', 'virtual', 'memory', first_slow=start(0)) for name in ('Stream', 'Npb')],
      [fine('Stream'), slower('Npb', 0, 'partition', 'virtual', 'memory', first_slow=start(0))], [],
      [slower('Stream', 4, 'partition', 'virtual', 'memory', first_slow=start(5), last_good=start(3))]], ['1 new', '', '', '1 also']),
    ([[SLOW], [slower('Stream', 8, 'node', 'c1', 'memory')]], ['1 new', '2 new']),
    # back: most of its cells and no others, or its node in its part
    *(([[slower(name, 0, 'partition', 'virtual', 'memory') for name in was], [fine(name) for name in was],
       [slower(name, 2, 'partition', 'virtual', 'memory') for name in again]], ['1 new', '1 over', event])
      for was, again, event in ((['Stream', 'Npb'], ['Stream', 'Npb'], '1 back'), (['Stream', 'Npb'], ['Stream'], '2 new'), (['Stream'], ['Stream', 'Npb'], '2 new'))),
    ([[SLOW], [fine('Stream', 'c3')], [slower('Npb', 2, 'node', 'c3', 'memory')], [slower('Hpl', 3, 'node', 'c3', 'memory')]], ['1 new', '1 over', '1 back', '1 also']),
    ([[SLOW], [fine('Stream', 'c3')], [slower('Fio', 2, 'node', 'c3', 'storage', subsystem='storage')]], ['1 new', '1 over', '2 new']),
    ([[SLOW], [fine('Stream', 'c3')], [slower('Stream', 2, 'node', 'c4', 'memory')]], ['1 new', '1 over', '2 new']),
    ([[cell('failed', 'Stream', 'rate')], [fine('Stream')], [cell('failed', 'Stream', 'rate')]], ['1 new', '1 over', '1 back']),
    ([[cell('failed', 'Stream', 'rate')], [fine('Stream')], [slower('Stream', 2)]], ['1 new', '1 over', '2 new']),
    # an acknowledgement ends while it lasts; what joins is not known
    ([[SLOW], [SLOW.model_copy(update={'acknowledged': 'until'})], [SLOW], [fine('Stream', 'c3')]], ['1 new', '1 known', '1 due', '1 over']),
    ([[SLOW.model_copy(update={'acknowledged': 'until'})], [SLOW.model_copy(update={'acknowledged': 'until'}), slower('Npb', 1, 'node', 'c3', 'memory')]], ['1 new', '1 also']),
])
def test_the_turns_of_a_life(turns, events):
    known, found = live(*turns)
    assert [', '.join(each) for each in found] == events, [each.title for each in known]
    assert known[-1].state == ('over' if 'over' in events[-1] else 'open')


def test_a_further_drop_of_a_cell_that_an_acknowledgement_covers_is_noted_for_good():
    known = SLOW.model_copy(update={'acknowledged': 'until'})
    drop = slower('Stream', 0, 'node', 'c3', 'memory', level=75.0, detected=start(9))
    (incident,), events = live([SLOW], [known], [drop], [drop])
    assert events == [['1 new'], ['1 known'], ['1 worse'], []]
    fault, = incident.faults.values()
    assert fault.beyond_ack


@pytest.mark.parametrize('ended, over', [(3, True), (2, False)])
def test_one_good_night_ends_a_cell_where_most_of_its_incident_ended(ended, over):
    """Of four cells some are in order again; of the last one a good night is no end yet, as its history has it."""
    names = 'Stream', 'Npb', 'Hpcc', 'Ring'
    slow = {name: slower(name, 0, 'partition', 'virtual', 'memory') for name in names}
    well = [fine(name) for name in names[:ended]]
    left = [slow[name] for name in names[ended:]]
    good = [fine(name, state='slow') for name in names[ended:]]
    (one,), events = live([*slow.values()], [*well, *left], [*well, *good])
    assert (one.state == 'over') is over and events[2] == ['1 over'] * over
    # so does what came and went meanwhile, but for 14 nights where most cells do
    comes = [fine(name, state='comes and goes') for name in names[ended:]]
    assert (live([*slow.values()], [*well, *left], [*well, *comes])[0][0].state == 'over') is over
    # nor does it count what ended long before
    (other,), _ = live([*slow.values()], *[[*well, *left]] * 9, [*well, *good])
    assert other.state == 'open'


def test_a_slow_node_in_the_incident_of_a_partition_is_another_incident_later():
    """A listing names the node again, and its fault, which has no cell, stands in the partition's incident."""
    known, _ = live([slower('Stream', 0, 'partition', 'virtual', 'memory')])
    listed = tonight.of_node('c3', 'memory', 0.93, start(0))
    known = [known[0].model_copy(update={'faults': known[0].faults | {listed.name: listed.fault}})]
    again = tonight.of_node('c3', 'memory', 0.93, start(9))
    night = replace(incidents.of_verdict(verdict_of([fine('Other', 'c0')]), 'onebox', start(9)), bad={again.name: again})
    assert [each.number for each in incidents.after(known, night, incidents.Calendar.stored())] == [1, 0]


def test_title_place_and_part_follow_the_cells_each_night():
    first = slower('Stream', 0, 'partition', 'fat', 'memory')
    deeper = slower('Stream', 0, 'partition', 'fat, gpu', 'memory', level=70.0, detected=start(3))
    assert live([first], [deeper])[0][0].title == 'onebox:fat: memory 30 % slower'
    other = slower('Npb', 0, 'everything', 'gpu, fat', 'memory', partition='gpu')
    (both, left) = live([first, other])[0][0], live([first, other], [fine('Stream', partition='fat'), other])[0][0]
    assert (both.title, str(both.where), left.title, left.where.name, left.where.kind) == (
        'fat, gpu: memory 10 % slower', 'everything', 'onebox:gpu: memory 10 % slower', 'gpu', 'partition')
    known = slower('Stream', 0, 'partition', 'fat', 'compute and memory alike', subsystem='compute')
    (renamed,), _ = live([first], [known])
    assert (renamed.part, renamed.title) == ('compute and memory alike', 'onebox:fat: compute and memory alike 10 % slower')
    one, = live([first], [deeper, slower('Npb', 0, 'partition', 'gpu, fat', 'memory', partition='gpu')])[0]
    assert one.title == 'fat, gpu: memory 20 % slower' and [(each.what, each.text.partition('.')[0]) for each in one.events[1:]] == [('also', 'Npb'), ('worse', 'Stream')]
    told, *_ = notify.lines([(one, 'also')], [one], None)
    assert told == f'incident 1, also: {one.title} ({one.events[1].text})'


def test_a_wider_place_takes_the_cells_that_it_explains_in_one_notice_and_the_narrower_one_goes_on(tmp_path):
    """Two cells are slow on c3. Later all of the partition is slow in one of the parts: the cell that fits moves."""
    hpl, stream = slower('Hpl', 0, 'node', 'c3', 'compute clock', first_slow=start(0)), slower('Stream', 0, 'node', 'c3', 'memory')
    wide = [slower(name, 9, 'partition', 'virtual', 'memory', last_good=start(8), first_slow=start(9)) for name in ('Npb', 'Hpcc')]
    moved = slower('Stream', 9, 'partition', 'virtual', 'memory', last_good=start(8), first_slow=start(9))
    (narrow, wider), events = live([hpl, stream], *[[hpl, stream]] * 8, [hpl, moved, *wide], [hpl, moved, *wide], [fine('Hpl', 'c3'), moved, *wide])
    assert [each for each in events if each] == [['1 new'], ['2 new'], ['1 over']]
    assert wider.title == 'onebox:virtual: memory 10 % slower' and wider.events[0].text == '3 cells, 1 of incident 1'
    assert narrow.title == 'c3: compute clock 10 % slower' and len(narrow.faults) == 2 and len(wider.left) == 3
    assert 'another incident has it' in '\n'.join(words.about(narrow, 5))
    told, *_ = notify.lines([(wider, 'new')], [narrow, wider], None)
    assert told == f'incident 2, new: {wider.title} (3 cells, 1 of incident 1)'
    pages = page.render(answer.answered(verdict_of([moved], incidents=[narrow, wider], pairs=[])), tmp_path, tmp_path)
    assert 'another incident has it' in pages['incidents/1.html'], 'the page says what parity show does'


def test_a_fault_that_is_back_is_over_after_fourteen_good_nights():
    """A fault on every second night: one incident, told when it is new, over, back, and over again."""
    bad, good = [slower('Stream', 0, 'partition', 'virtual', 'memory')], [fine('Stream', 'c1')]
    nights = [bad if number % 2 == 0 else good for number in range(15)] + [good] * 14
    known, events = live(*nights)
    told = [(number, text) for number, each in enumerate(events) for text in each]
    assert told == [(0, '1 new'), (1, '1 over'), (2, '1 back'), (28, '1 over')], told
    assert len(known) == 1 and not known[0].left


def test_a_further_spell_of_what_is_back_is_no_news():
    """Three bad nights in eight: it is told when it is new, over and back, and no more."""
    def spell(begin: int) -> list:
        return [slower('Stream', begin, 'partition', 'virtual', 'memory')]
    good = [fine('Stream', 'c1')]
    nights = [night for begin in (0, 8, 16, 24) for night in [spell(begin)] * 3 + [good] * 5]
    _, events = live(*nights)
    assert [(night, text) for night, each in enumerate(events) for text in each] == [(0, '1 new'), (3, '1 over'), (8, '1 back')]


def of_an_older_version(system: str = 'onebox'):
    """The clock of c3, which is known; memory of two partitions; a timeout; a crash, which is over."""
    texts = (TOP / 'tests' / 'data' / 'incidents-d0b2485.jsonl').read_text().replace('onebox', system).splitlines()
    return [table._read(number, text) for number, text in enumerate(texts, 1)]


def test_incidents_that_an_older_version_stored_go_on():
    older = of_an_older_version()
    assert [(each.title, each.state) for each in older] == [
        ('c3: compute clock 10 % slower', 'known'), ('onebox:fat: memory 10 % slower', 'open'),
        ('onebox:virtual: Ior: reached its limit of time or memory', 'open'), ('onebox:virtual: Fio: failed after its whole output', 'over')]
    assert [change.fact for change in older[1].changes] == ['kernel'], 'accepting a value slows nothing'
    clock = slower('Hpl', 0, 'node', 'c3', 'compute clock', subsystem='compute', last_good=start(-1), first_slow=start(0), acknowledged='until 2999-01-01')
    memory = [slower('Npb', 0, 'partition', 'fat, virtual', 'memory'), slower('Stream', 0, 'partition', 'fat, virtual', 'memory', partition='fat')]
    more = slower('Ring', 1, 'partition', 'fat, virtual', 'memory', partition='fat')
    known, events = live([clock, *memory, broken('Ior', 'c1', reason=TIMEOUT)], [clock, *memory, more, broken('Ior', 'c1', reason=CRASH)],
                         [fine('Hpl', 'c3'), *memory, more, broken('Ior', 'c1', reason=CRASH)], known=older, first=2)
    assert events == [[], ['2 also'], ['1 over']] and len(known) == 4
    assert [each.title for each in known[1:3]] == ['onebox:fat: memory 10 % slower', 'onebox:virtual: Ior: failed after its whole output']


def test_an_acknowledgement_that_an_older_version_wrote_holds(site):
    entry = {'cell': 'Hpl.rate@local:virtual', 'incident': 1, 'until': '2999-01-01', 'why': 'a fan', 'by': 'ana', 'since': '2026-11-18', 'word': 'regressed'}
    site.with_name('acks.yaml').write_text(json.dumps({'acks': [entry]}))
    tonight = slower('Hpl', 0, 'node', 'c3', 'compute clock', system='local', incident=1, subsystem='compute')
    joins, elsewhere = tonight.model_copy(update={'case': 'Gemm'}), slower('Npb', 0, 'everything', ALL, 'memory', system='local', incident=1)
    found, _ = acks.applied([tonight, joins, elsewhere], 'local', Days.real(2026, 11, 28), {1: Days.real.min}, of_an_older_version('local'))
    assert [each.acknowledged for each in found] == ['until 2999-01-01 by ana: a fan'] * 2 + ['']


# ---- every reader says the same

def stored_night(stored, speeds: dict, again=()) -> str:
    """A night of cases with a bound, by name and node; ``again``: those that run again on c1 and c9, with their speeds."""
    def ran(name, node, speed):
        return case(speed, name=name, refs={'hpl': (100.0, -0.05, 0.05)}, job_nodelist=[node])
    uuid = stored.add(*(ran(name, node, speed) for (name, node), speed in speeds.items()))
    if again:
        stored.add(*(ran(name, *each) for name, *each in again for _ in range(3)), **{RERUN_OF: uuid})
    return uuid


@pytest.mark.usefixtures('red_at_once')
def test_every_reader_says_the_same_of_open_known_and_ended_incidents(site, stored, results, tmp_path, capsys):
    site.write_text(f'{site.read_text()}notify: {{command: [/bin/sh, -c, "cat >{tmp_path}/notice"]}}\n')
    monday = {('Aa', 'c1'): 84.0, ('Bb', 'c2'): 80.0, ('Cc', 'c3'): 70.0}
    tuesday = {('Aa', 'c9'): 100.0, ('Bb', 'c2'): 80.0, ('Cc', 'c3'): 100.0}
    for speeds, again in ((monday, [('Aa', 'c1', 84.0), ('Aa', 'c9', 100.0)]), (tuesday, ())):
        own = notify.prepared('local')
        found = own.recorded(judge.newest(stored_night(stored, speeds, again)))
        own.judged(found)
        if again:
            assert parity('ack', '2', '--until', '2999-01-01', '--why', 'a test', '--by', 'ana').returncode == 0
    titles = {1: 'local:default: compute 30 % slower', 2: 'local:default: compute 20 % slower', 3: 'c1: compute 16 % slower'}
    assert {each.number: (each.title, each.state) for each in table.of_system('local')} == {
        1: (titles[1], 'over'), 2: (titles[2], 'known'), 3: (titles[3], 'open')}
    printed = ' '.join(parity('verdict').stdout.split())
    waits = 'in order elsewhere, not measured again on c1 since 2026-11-18'
    for text in (f'over incident 1: {titles[1]}', '1 known incident: 2', f'open incident 3: {titles[3]}: {waits}'):
        assert text in printed
    report = json.loads(parity('verdict', '--json').stdout)
    assert {each['number']: (each['title'], each['state']) for each in report['incidents']} == {
        1: (titles[1], 'over'), 2: (titles[2], 'known'), 3: (titles[3], 'open')}
    assert {cell['case']: cell['incident'] for cell in report['cells'] if cell['incident']} == {'Bb': 2}
    listed = parity('notify', '--system', 'local').stdout.splitlines()
    assert re.match(fr'incident 2, since 2026-11-18.*, acknowledged until 2999-01-01 by ana: a test: {titles[2]} \(told', listed[0])
    assert listed[1].startswith(f'incident 3, since 2026-11-18, {waits}: {titles[3]} (told') and len(listed) == 2
    assert f'incident 1, over: {titles[1]}' in (tmp_path / 'notice').read_text() and '1 known incident: 2' in (tmp_path / 'notice').read_text()
    summed = ' '.join(parity('summary', '--since', '3650d').stdout.split())
    assert '3 new incidents, 1 over, 2 not over' in summed and all(summed.count(f'{number}: {title} (') == 1 for number, title in titles.items())
    assert parity('export', '--openmetrics', str(tmp_path / 'metrics')).returncode == 0
    metrics = (tmp_path / 'metrics').read_text()
    assert all(f'parity_incidents{{system="local",state="{state}"}} 1' in metrics for state in ('open', 'known'))
    for number, state in ((1, 'OVER'), (2, 'KNOWN   acknowledged'), (3, 'OPEN   since 2026-11-18, ' + waits)):
        assert parity('show', str(number)).stdout.startswith(f'incident {number}   {titles[number]}\n{state}')
    assert 'incident 3' in next(line for line in parity('nodes').stdout.splitlines() if line.startswith('c1 '))
    parity('report')
    assert {file.stem for file in (results / 'report' / 'incidents').glob('*.html')} == {'1', '2', '3'}
    assert waits in (results / 'report' / 'incidents' / '3.html').read_text() and waits in (results / 'report' / 'index.html').read_text()


@pytest.mark.usefixtures('red_at_once')
def test_a_cell_is_shown_with_the_place_and_the_part_of_its_incident(site, stored):
    """Nothing but its incident says where Bb is slow: it was not run again."""
    night = stored_night(stored, {('Aa', 'c1'): 84.0, ('Bb', 'c1'): 80.0}, [('Aa', 'c1', 84.0), ('Aa', 'c9', 100.0)])
    incidents.record(judge.newest(night), 'local')
    shown = parity('show', 'Bb.hpl').stdout
    assert '\nincident 1: c1: compute 18 % slower\nwhere    this node: c1 (' in shown, shown
    rows = parity('verdict', '--all').stdout
    assert 'where: cannot be told' not in rows and rows.count('where: this node: c1') > 1, rows
    for done in (parity('verdict', '--json'), parity('show', 'Bb.hpl', '--json')):
        found = json.loads(done.stdout)
        cells = found.get('cells') or [found['cell']]
        assert {cell['cause']['where']['name'] for cell in cells if cell['incident']} == {'c1'}


def test_a_slow_node_is_red_without_a_slower_cell_until_it_is_acknowledged_by_its_number(site, stored, results, tmp_path, monkeypatch):
    site.write_text(f'{site.read_text()}notify: {{command: [/bin/sh, -c, "cat >{tmp_path}/notice"]}}\n')
    listed, acks, title = {('c3', 'memory'): 0.93}, site.with_name('acks.yaml'), 'c3: memory 7.0 % slower'
    mended: list[str] = []
    begun: dict[str, float] = {}
    monkeypatch.setattr(listing, 'twice', lambda system, since, named: listed)
    monkeypatch.setattr(listing, 'mended', lambda system, slow, since: begun.update(since) or {node for node, _ in slow} & {*mended})

    def night(**clock):
        own = notify.prepared('local')
        found = own.recorded(judge.newest(stored.add(case(), **clock)))
        own.judged(found)
        report.of_session(found)
        again = parity('verdict')
        assert again.returncode == found.exit_code == judge.newest().exit_code, again.stdout
        return found.exit_code, again.stdout, answer.of(found)
    code, printed, told = night()
    assert code == 1 and printed.startswith(f'{title} (incident 1, new). ') and told.sentence == f'{title} (incident 1, new).'
    assert 'where: this node: c3 (slower than its peers night after night' in printed and 'parity show 1' in printed
    assert told.sentence in (tmp_path / 'notice').read_text() and f'{title} (incident 1, new)' in (results / 'report' / 'index.html').read_text()
    done = parity('ack', '1', '--until', '2999-01-01', '--why', 'it runs hot', '--by', 'ana')
    assert done.returncode == 0 and 'incident 1, node c3, acknowledged until 2999-01-01 by ana: it runs hot' in done.stdout, done.stderr
    assert '- cell' not in acks.read_text() and '    incident: 1\n' in acks.read_text()
    done = parity('verdict')
    for code, printed, *_ in ((done.returncode, done.stdout), night(), night()):
        assert code == 0 and '1 known incident: 1' in ' '.join(printed.split()) and 'open ' not in printed and 'careful' not in printed, printed
    assert parity('ack', '--list').stdout.startswith(f'incident 1   {title}   until 2999-01-01 by ana: it runs hot (since ')
    assert parity('unack', '1').returncode == 0 and parity('verdict').returncode == 1 and parity('ack', '--list').stdout == 'nothing is acknowledged\n'
    assert begun == {'c3': table.of_system('local')[0].begin - 1}, 'no night before the fault tells of its end'
    acks.write_text('acks:\n- {incident: 1, until: 2020-01-01, why: it runs hot, by: ana, since: 2019-01-01}\n')
    code, printed, _ = night()
    assert night(time_start_unix=start(0) - 86400, time_end_unix=start(0) - 86300)[0] == 1      # its clock is wrong
    assert code == 1 and 'the acknowledgement of incident 1 by ana expired on 2020-01-01 (it runs hot): it counts again' in ' '.join(printed.split())
    assert parity('ack', '1', '--until', '2999-01-01', '--why', 'it runs hot').returncode == 0
    mended += ['c3']
    code, printed, _ = night()
    assert code == 0 and printed.startswith(f'Incident 1 is over: {title}.'), 'the listing names it by older nights'
    listed.clear()
    code, printed, _ = night()
    assert code == 0 and 'incident 1 ended with it: parity unack 1 (until 2999-01-01' in ' '.join(printed.split()) and 'is over: it can go' in parity('ack', '--list').stdout


def test_an_outlier_on_the_night_that_finds_a_level_is_no_further_drop():
    first, second = ({'value': 95.0}, {'value': 75.0, 'detected': start(1)})
    _, events = live(*([slower('Stream', 0, level=95.0, **each)] for each in (first, second)))
    assert events == [['1 new'], []]


@pytest.mark.usefixtures('red_at_once')
def test_an_acknowledged_incident_that_waits_for_its_node_is_not_in_order_again(site, stored):
    for speeds, again in (({('Aa', 'c1'): 84.0}, [('Aa', 'c1', 84.0), ('Aa', 'c9', 100.0)]), ({('Aa', 'c9'): 100.0}, ())):
        incidents.record(judge.newest(stored_night(stored, speeds, again)), 'local')
        if again:
            assert parity('ack', '1', '--until', '2999-01-01', '--why', 'a test').returncode == 0
    printed = parity('verdict').stdout
    assert 'known     incident 1: c1: compute 16 % slower: in order elsewhere' in printed
    assert 'again: parity unack' not in ' '.join(printed.split()) and 'not measured again on c1' in ' '.join(printed.split()), printed
    assert 'ok, and incident 1 is open' in parity('ack', '--list').stdout


@pytest.mark.usefixtures('red_at_once')
def test_a_turn_measures_the_node_that_an_incident_waits_for(site, stored):
    for speeds, again in (({('Aa', 'c1'): 84.0}, [('Aa', 'c1', 84.0), ('Aa', 'c9', 100.0)]), ({('Aa', 'c9'): 100.0}, ())):
        incidents.record(judge.newest(stored_night(stored, speeds, again)), 'local')
    assert table.of_system('local')[0].waits == ['c1']
    assert parity('ack', '1', '--until', '2999-01-01', '--why', 'a test').returncode == 0 and table.of_system('local')[0].state == 'known'
    assert parity('unack', '1').returncode == 0
    for speed, state in ((85.0, 'open'), (99.0, 'over')):
        stored.add(case(speed, name='Aa %part=local %nid=c1', refs={'hpl': (100.0, -0.05, 0.05)}, job_nodelist=['c1']))
        incidents.record(judge.newest(stored_night(stored, {('Aa', 'c9'): 100.0})), 'local')
        assert table.of_system('local')[0].state == state


def test_a_dead_node_is_over_once_anything_ran_there():
    dead, elsewhere = 'a node failed (job 1 on c7: NODE_FAIL)', [fine('Hpl', 'c1'), fine('Npb', 'c1')]
    _, events = live([broken('Hpl', 'c7', reason=dead), broken('Npb', 'c7', reason=dead), fine('Stream', 'c1')],
                     [*elsewhere, fine('Stream', 'c2')], [*elsewhere, fine('Stream', 'c7')])
    assert events == [['1 new'], [], ['1 over']]


@pytest.mark.parametrize('over, mended', [(2, True), (9, False)])
def test_a_listing_has_measured_its_node_where_it_is_mended_or_not_named_for_eight_days(over, mended):
    known = []
    for number in range(over + 1):
        assert [each.state for each in known] == ['open'] * (number > 0)
        cells, slow = ([fine('Stream', 'c1')], {}) if number > mended else ([SLOW], {('c3', 'memory'): 0.93} if number == 0 else {})
        night = incidents.of_verdict(verdict_of(cells, exit_code=0), 'onebox', start(number), slow=slow,
                                     mended=['c3'] if mended and number == over else [])
        known = incidents.after([each.model_copy(update={'number': 1}) for each in known], night, incidents.Calendar.stored())
    assert [(each.state, each.waits, len(each.faults)) for each in known] == [('over', [], 2)]


def test_a_node_that_two_listings_name_is_an_incident_until_they_do_not():
    known, titles = [], []
    for number, slow in enumerate([{}, {('c3', 'memory'): 0.93}, {('c3', 'memory'): 0.93}, {}]):
        night = incidents.of_verdict(verdict_of([cell('ok', value=1.0, ran_on=['c3'])], exit_code=0), 'onebox', start(number), slow=slow,
                                     mended=['c3'] if number == 3 else [])
        known = incidents.after([each for each in known if not each.closed], night, incidents.Calendar.stored())
        known = [each.model_copy(update={'number': 1}) for each in known]
        titles += [(each.title, each.state, each.events[-1].what) for each in known]
    assert titles == [('c3: memory 7.0 % slower', 'open', 'new'), ('c3: memory 7.0 % slower', 'open', 'new'), ('c3: memory 7.0 % slower', 'over', 'over')]
    assert 'night after night' in '\n'.join(words.about(known[0], 5))
