"""`parity summary`: what became of some days, and how many alarms proved false beside the budget."""

from __future__ import annotations

import datetime
import time

import numpy as np
import pytest

from commands import parity, process
from parity.judge.report import hours as hours_of
from parity.judge.report import summary
from parity.judge.stats import counts
from parity.judge.store.incidents import Change, Event, Fault, Incident
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import incidents, judge
from stored import case

DAY = 86400.0
BAND = {'hpl': (100.0, -0.05, 0.05)}


def nights(stored, *values: float, ago: int = 0, recorded: bool = True, **other):
    """Store a night a day, the last one ``ago`` days before today, and record its incidents."""
    for i, value in enumerate(values):
        began = time.time() - (len(values) - 1 - i + ago) * DAY - 600
        stored.add(case(value, refs=BAND, **other), time_start_unix=began, time_end_unix=began + 60)
        if recorded:
            incidents.record(judge.newest(), 'local')


def incident(number: int, opened: int, over: int | None = None, word: str = 'regressed', ack: str = '', changed: str = '', last: int | None = None) -> Incident:
    """An incident of these nights, which are a day apart; ``last``: its last bad one."""
    last = (over or opened + 2) - 1 if last is None else last
    events = [Event(what='new', session='', start=opened * DAY), *([Event(what='known', session='', start=opened * DAY, text=ack)] if ack else []),
              *([Event(what='over', session='', start=over * DAY)] if over is not None else [])]
    return Incident(number=number, uuid=str(number), system='local', key=[word], state='open' if over is None else 'over', ack=ack,
                    faults={'x': Fault(word=word, since=0, measured=last * DAY)}, events=events,
                    changes=[Change(fact=changed, old='1', new='2', since=opened * DAY)] if changed else [])


@pytest.mark.parametrize('found, false, young', [
    (incident(1, 2, 9), [1], 0), (incident(1, 2, 10), [], 0), (incident(1, 2), [], 0), (incident(1, 8), [], 1),
    (incident(1, 2, 3, word='failed'), [], 0), (incident(1, 2, 3, ack='until 2030-01-01 by me: a fan'), [], 0),
    (incident(1, 2, ack='until 2030-01-01 by me: false alarm'), [1], 0),
    (incident(1, 2, 5, changed='kernel'), [], 0), (incident(1, 2, 5, changed='nodes'), [1], 0), (incident(1, 2, 4, last=2), [], 0),
    (incident(1, 2, 4, last=2, ack='until 2030-01-01 by me: false alarm'), [1], 0)],
    ids=['seven nights', 'eight nights', 'never over', 'yesterday', 'failed', 'a known fault', 'called false', 'another kernel', 'other nodes', 'a single night', 'a single night that is called false'])
def test_an_alarm_proves_false(found, false, young):
    told = summary.false_alarms([found], [night * DAY for night in range(11)], 30, 2.0)
    assert ([each.number for each in told.false], told.young, told.allowed) == (false, young, 2.0)


def test_single_nights_are_counted_apart():
    told = summary.false_alarms([incident(1, 2, 4, last=2), incident(2, 2, 5)], [night * DAY for night in range(11)], 30, 2.0)
    assert ([each.number for each in told.single], [each.number for each in told.false]) == ([1], [2])


@pytest.mark.parametrize('count, mean, chance', [(0, 0.5, 1.0), (1, 0.5, 0.393469), (3, 2.0, 0.323324), (400, 0.5, 0.0), (5000, 5000.0, 0.5019)])
def test_the_chance_of_many_alarms(count, mean, chance):
    assert counts.at_least(count, mean) == pytest.approx(chance, abs=1e-4)


@pytest.mark.usefixtures('red_at_once')
def test_a_week_with_an_incident_that_is_back(stored, site):
    nights(stored, *[100.0, 100.2, 99.8] * 3, ago=4, recorded=False)
    nights(stored, 80.0, 100.0, 100.1, 80.0)
    done = process('summary', '--since', '7d')
    assert done.returncode == 0, done.stderr
    said = ' '.join(done.stdout.split())
    for part in ('7 sessions, 1 new incident, 0 over, 1 not over.', 'new 1: local:default: compute 20 % slower (1 cell; back since',
                 'nights 7 days with a session', 'nodes 1 of 1 measured', '2 of 2 planned cells were measured',
                 'alarms 0 of 1 proved false, 1 too young to tell; the budget allows 0.23'):
        assert part in said, f'{part}\n{done.stdout}'
    until = datetime.date.today() + datetime.timedelta(days=3)
    parity('ack', '1', '--until', str(until), '--why', 'a fan', '--by', 'ana')
    marked = parity('summary', '--markdown', '--system', 'local')
    assert f', acknowledged until {until} by ana: a fan)' in marked.stdout
    assert f', acknowledged until {until} by ana: a fan: local:default: compute 20 % slower' in parity('notify').stdout
    assert parity('verdict').stdout.startswith('2 of 2 figures are judged: 1 known, the others are as they were.')
    assert marked.stdout.startswith('## local, ') and '\n- **new**: 1: local:default: compute 20 % slower' in marked.stdout


def test_drift_and_a_node_that_was_not_measured(stored):
    nights(stored, *[102.0, 102.1, 102.2, 101.9, 102.1, 102.0], ago=7, recorded=False, job_nodelist=['c1'])
    nights(stored, *[99.0, 99.1, 98.9, 99.2, 99.0, 98.9], recorded=False, job_nodelist=['c2'])
    said = ' '.join(parity('summary', '--since', '7d').stdout.split())
    assert 'nodes 1 of 2 measured; not c1 (last ' in said, said
    assert 'drift 2 cells beside as many days before: 1 slower: Toy.hpl@local:default+distro -3.0 % (by 1.0 % or more;' in said, said


def test_node_hours_are_summed_by_weeks(stored, site):
    """Of a job on two nodes both count; so do reruns. A week begins on Monday."""
    monday = datetime.date.today() - datetime.timedelta(days=datetime.date.today().weekday())
    for day, nodes, other in ((-2, ['c1'], {}), (-1, ['c1', 'c2'], {}), (0, ['c1'], {}), (0, ['c2'], {RERUN_OF: '00000002-0'})):
        began = datetime.datetime.combine(monday + datetime.timedelta(days=day), datetime.time(0, 0, 1)).timestamp()
        stored.add(case(100.0, job_nodelist=nodes, parity={'job': {'submitted': began, 'waited': 60, 'ran': 1800}}),
                   time_start_unix=began, time_end_unix=began + 1900, **other)
    said = ' '.join(parity('summary', '--since', '14d').stdout.split())
    assert f'node-hours 1.5 in the week of {monday - datetime.timedelta(days=7)}, 1 in the week of {monday} ' in said, said


def test_hours_say_what_a_night_shows_and_what_shows_nothing(stored, site):
    """Calm runs an hour on one node, and Loud two: its figure moves by 6 % from night to night."""
    rng = np.random.default_rng(1)
    for night in range(40):
        began = time.time() - (40 - night) * DAY
        cases = [case(100 * float(np.exp(rng.normal(0, spread))), name, latency='absent', unique_name=name, run_index=0,
                      parity={'job': {'submitted': began, 'waited': 0.0, 'ran': 3600 * hours}})
                 for name, hours, spread in (('Calm', 1, 0.002), ('Loud', 2, 0.06))]
        stored.add(*cases, time_start_unix=began, time_end_unix=began + 60)
    said = list(hours_of.lines('local', judge.newest().cells))
    assert said == ['3 a night; 1 of 2 figures show a slowdown of 5 % in 3 nights',
                    'most: Loud on default+distro 2, 0 of 1 figure; Calm on default+distro 1, 1 of 1 figure',
                    '2 a night for what shows no 5 %: Loud on default+distro']
    assert all(line in ' '.join(parity('summary').stdout.split()) for line in said)


def test_the_hours_of_a_case_are_of_all_its_nodes(stored, site):
    began = time.time() - DAY
    job = {'job': {'submitted': began, 'waited': 60.0, 'ran': 3600.0}}
    stored.add(case(100.0, 'Pair', job_nodelist=['c1', 'c2'], parity=job), time_start_unix=began, time_end_unix=began + 60)
    assert set(hours_of._hours('local').values()) == {2.0}


def test_days_before_the_first_one_are_no_gap(stored, site):
    nights(stored, *[100.0] * 9, recorded=False)
    said = ' '.join(parity('summary', '--since', '4d').stdout.split())
    assert 'nights 4 days with a session' in said and 'none on' not in said, said


def test_nothing_stored_and_a_time_that_is_none(stored):
    for words, code, part in (([], 3, 'no session is stored'), (['--since', 'week'], 2, "--since: 'week' must be a time"), (['--system', 'x'], 2, 'unknown system')):
        done = parity('summary', *words)
        assert done.returncode == code and part in done.stderr, words
    stored.add(case(100.0), time_start_unix=time.time() - 9 * DAY, time_end_unix=time.time() - 9 * DAY)
    assert 'no session in these days: the last one began' in ' '.join(parity('summary').stdout.split())
