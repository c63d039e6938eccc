"""Incidents: what belongs together has one number, from the night that finds it until all of it is well."""

from __future__ import annotations

import datetime
import json
import random
import re
import sys
import threading
from collections import Counter

import pytest

from commands import parity
from nights import cell, start
from parity import report
from parity.nightly import notify
from parity.records import database
from parity.records import incidents as table
from parity.records.incidents import Fault, Where
from parity.records.outset import RERUN_OF
from parity.report import answer, summary
from parity.report import incidents as words
from parity.session import retain
from parity.verdict import acks, incidents, judge
from parity.verdict.model import Attribution, Row, Subsystem
from sessions import case
from stored import day

NODES = 'c1', 'c2', 'c3', 'c4'
NAMES = 'Stream', 'Npb', 'Hpl', 'Osu', 'Fio', 'Zstd', 'Sort', 'Fft', 'Gemm', 'Copy', 'Scan', 'Ring', 'Lu', 'Mg', 'Ft', 'Is'


class Days(type):
    """The class datetime.date in a simulation: it has a today of its own."""

    real, day = datetime.date, None

    def __instancecheck__(cls, what):
        return isinstance(what, Days.real)

    def __call__(cls, *args):
        return Days.real(*args)

    def __getattr__(cls, name):
        return getattr(Days.real, name)

    def today(cls):
        return Days.day


class Cluster:
    """A system whose cases run each on a node of its own; faults are planted, and suspicious cells run again elsewhere."""

    def __init__(self, stored):
        self.stored, self.noise, self.night, self.told = stored, random.Random(7), 0, []
        self.home = {name: NODES[i % 4] for i, name in enumerate(NAMES)}

    def run(self, slow=lambda name, node: 1.0, away=(), raw=()):
        """One night. ``slow``: the share of the speed by case and node; ``away``: node by case, '' leaves it out; ``raw``: by case."""
        where, raw, info = {**self.home, **dict(away)}, dict(raw), {'time_start_unix': start(self.night), 'time_end_unix': start(self.night) + 100}

        def ran(name, node):
            speed = slow(name, node) * (1 + self.noise.gauss(0, 0.004))
            return case(100 * speed, name=name, latency=1.5 / speed, job_nodelist=[node], **raw.get(name, {}))
        Days.day = Days.real.fromtimestamp(start(self.night))
        uuid = self.stored.add(*(ran(name, node) for name, node in where.items() if node for _ in range(3)), **info)
        found = judge.newest(uuid)
        if again := sorted({cell.case for cell in found.cells if cell.suspicious}):
            others = [ran(name, node) for name in again for node in [where[name]] * 3 + [next(n for n in NODES if n != where[name])] * 3]
            self.stored.add(*others, **{RERUN_OF: uuid}, **info)
            found = judge.newest(uuid)
        self.night += 1
        known = incidents.record(found, 'local')
        assert incidents.record(judge.newest(uuid), 'local') == known, 'a session is recorded once'
        news = {each.number: what for each in known if (what := incidents.news(each, each.told))}
        table.change({each.number: lambda now: {'told': len(now.events)} for each in known if each.number in news})
        self.told += news.values()
        return incidents.joined(found, known), news


@pytest.fixture
def cluster(site, stored, monkeypatch):
    monkeypatch.setattr(datetime, 'date', Days('date', (), {}))
    return Cluster(stored)


#: Nights, cases, the node that is slow, and the speed on it.
FAULTS = [(range(0, 6), ['Stream'], 'c1', 0.9), (range(2, 9), ['Npb', 'Zstd'], 'c2', 0.88),
          (range(4, 15), ['Hpl'], 'c3', 0.9), (range(9, 15), ['Sort'], 'c3', 0.9),       # it began later
          (range(6, 13), ['Osu'], 'c4', 0.92), (range(13, 19), ['Osu'], 'c4', 0.7),      # worse
          (range(12, 25), ['Fio'], 'c1', 0.9),          # known until it is mended
          (range(16, 29), ['Copy'], 'c2', 0.9), (range(29, 36), ['Copy'], 'c2', 0.6),    # known, and plainly worse
          (range(26, 27), ['Gemm'], 'c1', float('nan')), (range(20, 37), ['Scan'], 'c3', 0.9),         # known until night 30
          (range(30, 37), ['Ring'], 'c4', 0.9),         # then not measured
          (range(40, 45), ['Stream'], 'c1', 0.9),       # then measured elsewhere
          *((range(50, 56), ['Lu', 'Mg', 'Ft', 'Is'], node, 0.9) for node in NODES)]
FAILED = {'Fft': {'result': 'fail', 'fail_phase': 'run', 'perfvalues': {}, 'parity': {'status': 'failed', 'reason': 'disk full'}}}


def test_sixty_nights_with_thirteen_faults(cluster, capsys):
    """Each fault opens one incident, which is told once for each turn of its life, and closed once."""
    for _ in range(41):
        assert not cluster.run()[1]
    numbers = {}
    for night in range(60):
        away = {'Ring': ''} if night in range(37, 40) else {'Stream': 'c3'} if night in range(45, 48) else {}
        raw = FAILED if night in range(24, 28) else {}

        def slow(name, node, night=night):
            return next((share for nights, names, of, share in FAULTS if night in nights and name in names and node == of), 1.0)
        found, news = cluster.run(slow, away, raw)
        numbers |= {each.cells[0].partition('.')[0]: each.number for each in found.incidents if news.get(each.number) == 'new'}
        for at, name, days in ((16, 'Fio', 90), (20, 'Copy', 90), (24, 'Scan', 6)):
            if night == at:
                day = Days.day + datetime.timedelta(days)
                done = parity('ack', str(numbers[name]), '--until', str(day), '--why', 'it is being mended')
                assert done.returncode == 0, done.stderr
    known = table.of_system('local')
    events, told = (dict(Counter(what)) for what in ((event.what for each in known for event in each.events), cluster.told))
    with capsys.disabled():
        print(f'\n60 nights, 13 faults: {events}; told: {told}')
    stood = [(each.number, each.title, [(event.what, event.said) for event in each.events]) for each in known]
    assert told == {'new': 13, 'worse': 2, 'due': 1, 'over': 13}, stood
    assert events == {**told, 'known': 3}
    assert all([event.what for event in each.events].count('over') == 1 for each in known)
    by_case = {tuple(sorted({cell.partition('.')[0] for cell in each.cells})): each for each in known}
    assert {('Npb', 'Zstd'), ('Hpl',), ('Sort',), ('Ft', 'Is', 'Lu', 'Mg')} < by_case.keys() and by_case['Npb', 'Zstd'].nodes == ['c2']


@pytest.fixture
def slow(stored, site):
    """Returns a night with accepted bounds, in which HPL has a speed, and which is recorded."""
    def night(hpl=84.0, **other):
        found = judge.newest(stored.add(case(hpl, refs={'hpl': (100.0, -0.05, 0.05)}, **other)))
        return incidents.joined(found, incidents.record(found, 'local'))
    return night


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
    for arguments in (['show', '2'], ['ack', '2', '--until', '2999-01-01', '--why', 'a test'], ['unack', '2']):
        assert (done := parity(*arguments)).returncode == 2 and done.stderr == 'parity: no incident 2; valid: 1\n'
    assert parity('unack', '1').returncode == parity('unack', 'Toy.hpl').returncode == 2
    parity('ack', 'Toy.hpl', '--until', '2999-01-01', '--why', 'a test')
    assert parity('unack', 'toy.hpl').returncode == 0 and not acks.read('local')
    slow(100.0)
    assert 'is over' in parity('ack', '1', '--until', '2999-01-01', '--why', 'a test').stderr


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


def test_page_and_junit_speak_of_incidents(slow, results):
    slow()
    assert parity('report').returncode == 0
    page, own = ((results / 'report' / name).read_text() for name in ('index.html', 'incidents/1.html'))
    assert page.count('href="incidents/1.html"') == 1 and 'href="../figures/Toy.html#c1"' in own and 'parity show 1' in own
    xml = (results / 'report' / 'junit.xml').read_text()
    assert '<property name="incident" value="1"' in xml and '<property name="incidents" value="1 new"' in xml
    slow()
    parity('report')
    assert (results / 'report' / 'index.html').read_text().count('href="incidents/1.html"') == 2         # a card and the map
    slow(100.0)
    slow(100.0)
    parity('report')
    assert not (results / 'report' / 'incidents' / '1.html').exists()


def test_incidents_survive_prune_merge_and_a_second_writer(slow, stored, results, tmp_path, monkeypatch):
    slow()
    before = table.of_system('local')
    stored.database.execute('PRAGMA user_version')
    assert retain.prune(float('inf'), dry_run=False) == 0 and slow().incidents and retain.prune(float('inf'), dry_run=False) == 1
    assert [each.number for each in table.of_system('local')] == [1] and table.of_system('local')[0].events == before[0].events
    threads = [threading.Thread(target=table.change, args=({1: lambda now: {'told': now.told + 1}},)) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert table.of_system('local')[0].told == 8


def test_merge_takes_incidents_under_new_numbers_once(slow, results, tmp_path, monkeypatch):
    slow()
    other = tmp_path / 'other'
    monkeypatch.setenv('PARITY_RESULTS', str(other))
    other.mkdir()
    with database.sqlite3.connect(other / 'results.db') as conn:
        conn.execute('ATTACH DATABASE ? AS other', (str(results / 'results.db'),))
        for _ in range(2):
            retain._merge_incidents(conn)
    first, = table.of_system('local')
    assert first.number == 1 and first.uuid == '00000000-0:Toy.hpl@local:default+distro (quick)'


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
        assert news == ['new', 'over'] and one.closed.said == 'c1 retired' and found.exit_code == 0
        assert ('Incident 1 is over (c1 retired)' in answer.of(found).sentence) == (not night_after)
    assert not summary.false_alarms([one], [start(number) for number in (0, 2, 3, 4)], 4.0, 1.0).false
    listed, of_node = parity('nodes').stdout, parity('node', 'c1').stdout
    assert '\nc1 ' not in listed and '\nretired: c1\n' in listed and '1 of 1 node ' in listed
    assert f'retired   since {day(stored.count - 2)}: sent back' in of_node and '00000000' in of_node
    shown = parity('show', '1').stdout
    assert 'over: c1 retired' in shown and '-16.0 %   in order again' in shown
    index, *_ = report.of_session(judge.newest())
    assert 'not measured tonight' not in index.read_text()
    assert any(re.search(r'system.yaml:\d+: c1 ran again: take it out', said) for said in night(('c1',))[0].warnings)


@pytest.mark.parametrize('entry, said', [
    ('nodes: ["c[1-4]"]', r"yaml:\d+: retired.0.nodes.0: 'c\[1-4\]' is no name of a node; valid is one name, such as c1"),
    ('nodes: c1', "nodes: 'c1' is no list"), ('nodes: [3]', '3 is no valid string'), ('nodes: []', 'must name a check, a partition or an environ, or nodes alone'),
    ('nodes: [c1], partition: default', 'must name a check, a partition or an environ, or nodes alone')])
def test_a_retired_node_that_is_none_is_refused_with_its_line(site, entry, said):
    site.write_text(f'{site.read_text()}retired: [{{{entry}, reason: sent back, since: 2026-11-22}}]\n')
    done = parity('nodes', '--system', 'local')
    assert done.returncode == 2 and re.search(said, done.stderr), done.stderr


def test_an_unknown_retired_node_is_a_warning_with_the_known_ones(site, stored):
    site.write_text(f'{site.read_text()}retired:\n- {{nodes: [c1, node33], reason: sent back, since: 2026-11-22}}\n')
    stored.add(case(job_nodelist=['node3']), case(name='Failed', result='fail', fail_phase='run', perfvalues={}, job_nodelist=['c1']))
    said = r'system.yaml:\d+: unknown node node33; did you mean .node3.\? valid: c1, node3$'
    assert any(re.search(said, warning) for warning in judge.newest().warnings), judge.newest().warnings
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
                             Fault(word='regressed', since=0.0, seen=0.0), cause, Row(cell(case=f'{name} %n={number}')))
    night = incidents.Night('local', 's', 1.0, {each.name: each for each in (bad('now', n) for n in range(nodes))}, {}, frozenset())
    before, together = night._replace(bad={each.name: each for each in (bad('then', n) for n in range(nodes))}), incidents.near()
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
