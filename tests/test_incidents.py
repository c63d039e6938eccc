"""Incidents: what belongs together has one number, from the night that finds it until all of it is well."""

from __future__ import annotations

import datetime
import random
from collections import Counter

import pytest

from commands import parity
from nights import start
from parity.records.outset import RERUN_OF
from parity.verdict import incidents, judge
from sessions import case

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
            others = [ran(name, node) for name in again for node in [where[name]] * 3 + [next(n for n in NODES if n != where[name])] * 2]
            self.stored.add(*others, **{RERUN_OF: uuid}, **info)
            found = judge.newest(uuid)
        self.night += 1
        known = incidents.record(found, 'local')
        assert incidents.record(judge.newest(uuid), 'local') == known, 'a session is recorded once'
        news = {each.number: what for each in known if (what := incidents.untold(each, each.told))}
        incidents.change({each.number: lambda now: {'told': len(now.events)} for each in known if each.number in news})
        self.told += news.values()
        return incidents.joined(found, known), news


@pytest.fixture
def cluster(site, stored, monkeypatch):
    monkeypatch.setattr(datetime, 'date', Days('date', (), {}))
    return Cluster(stored)


#: Nights, cases, the node that is slow, and the speed on it.
FAULTS = [(range(0, 6), ['Stream'], 'c1', 0.9), (range(2, 9), ['Npb', 'Zstd'], 'c2', 0.88),
          (range(4, 15), ['Hpl'], 'c3', 0.9), (range(9, 15), ['Sort'], 'c3', 0.9),       # it joins the one before
          (range(6, 13), ['Osu'], 'c4', 0.92), (range(13, 19), ['Osu'], 'c4', 0.7),      # worse
          (range(12, 25), ['Fio'], 'c1', 0.9),          # known until it is mended
          (range(16, 29), ['Copy'], 'c2', 0.9), (range(29, 36), ['Copy'], 'c2', 0.6),    # known, and plainly worse
          (range(26, 27), ['Gemm'], 'c1', float('nan')), (range(20, 37), ['Scan'], 'c3', 0.9),         # known until night 30
          (range(30, 37), ['Ring'], 'c4', 0.9),         # then not measured
          (range(40, 45), ['Stream'], 'c1', 0.9),       # then measured elsewhere
          *((range(50, 56), ['Lu', 'Mg', 'Ft', 'Is'], node, 0.9) for node in NODES)]
FAILED = {'Fft': {'result': 'fail', 'fail_phase': 'run', 'perfvalues': {}, 'parity': {'status': 'failed', 'reason': 'disk full'}}}


def test_sixty_nights_with_twelve_faults(cluster, capsys):
    """Each fault opens one incident, which is told once for each turn of its life, and closed once."""
    for _ in range(41):
        assert not cluster.run()[1]
    numbers, last = {}, []
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
        last.append((night, news, found.exit_code))
    known = incidents.of_system('local')
    events, told = (dict(Counter(what)) for what in ((event.what for each in known for event in each.events), cluster.told))
    with capsys.disabled():
        print(f'\n60 nights, 12 faults: {events}; told: {told}')
    assert told == {'new': 12, 'worse': 2, 'due': 1, 'over': 12}, last
    assert events == {**told, 'joined': events['joined'], 'known': 3}
    assert all([event.what for event in each.events].count('over') == 1 for each in known)
    by_case = {tuple(sorted({cell.partition('.')[0] for cell in each.cells})): each for each in known}
    assert {('Npb', 'Zstd'), ('Hpl', 'Sort'), ('Ft', 'Is', 'Lu', 'Mg')} < by_case.keys() and by_case['Npb', 'Zstd'].nodes == ['c2']
