"""`parity scaling CHECK`: efficiency over nodes, ranks or threads, strong or weak, with intervals; the same on the page."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest

from commands import parity, process
from parity.judge.report import previous, scaling
from parity.judge.store import database
from parity.judge.verdict import judge
from stored import case


def hpcc(nodes: int, rate: float, seconds: float = 30.0, **placed):
    """A run on so many nodes of two cores; its matrix grows with the memory."""
    return case(rate, name=f'Hpcc %nodes={nodes}', job_submit_time=1000.0, job_completion_time_unix=1000.0 + seconds, parity={
        'placement': {'nodes': nodes, 'ranks': 2 * nodes, 'binding': 'core', **placed},
        'sizing': {'hpl': {'n': 6000 * math.isqrt(nodes), 'nb': 192, 'p': nodes, 'q': 2, 'why': 'x'}}})


def sweep(stored, sessions: int = 3, **sizes: tuple[float, ...]):
    for night in range(sessions):
        stored.add(*[hpcc(int(nodes[1:]), rate * (1 + .002 * (night + i))) for nodes, rate in sizes.items() for i in range(2)])


def test_a_weak_sweep_as_table_csv_and_drawing(stored, tmp_path):
    sweep(stored, n1=80.0, n2=152.0, n4=280.0)
    done = process('scaling', 'Hpcc', '--by', 'nodes')
    assert done.returncode == 0, done.stderr
    assert 'Hpcc by nodes on local:default+distro: weak scaling (hpl n=6000 nb=192 .. hpl n=12000 nb=192)' in done.stdout
    assert re.search(r' 4 +hpl +281 Gflop/s +30 s ± 0 % +3\.50 +\[3\.50, 3\.50\] +87\.5 % +\[8\d\.\d %, 8\d\.\d %\] +3: 6\n', done.stdout), done.stdout
    assert 'latency' not in done.stdout, 'a figure that is no rate of the whole has no efficiency'
    file = tmp_path / 'hpcc.csv'
    assert parity('scaling', 'Hpcc', '--csv', str(file)).stdout == f'{file}\n'
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row['size'] for row in rows] == ['1', '2', '4'] and rows[0]['kind'] == 'weak'
    assert float(rows[2]['efficiency_low']) < round(float(rows[2]['efficiency']), 6) == .875 < float(rows[2]['efficiency_high'])
    drawn, = previous.of_session(judge.judged(database.read(database.uuid()))).scaling
    assert drawn.plot.what == 'nodes' and drawn.marks[0].intervals and drawn.paths, 'points with intervals, and the line without loss'


@pytest.mark.parametrize('name, better, kind, efficiency', [
    ('Npb.seconds', 'lower', 'strong', .8), ('Npb.mops_total', 'higher', 'strong', .8), ('Hpl.gflops', 'higher', 'weak', .8),
    ('Toy.figure', 'higher', '', None)])
def test_the_efficiency_of_times_and_rates(name, better, kind, efficiency):
    def run(at, value, arguments='bt.A.x'):
        check, _, metric = name.partition('.')
        return {'place': 'a:b', 'environ': 'e', 'subsystem': 's', 'check': check, 'case': check, 'metric': metric, 'unit': '', 'better': better,
                'at': at, 'value': value, 'seconds': 1.0, 'session': 's', 'label': '', 'facts': {'nodes': str(at), 'arguments': arguments}}
    speed = (10.0, 10.0 / 3.2) if better == 'lower' else (10.0, 32.0)
    found = scaling._sweep(name.partition('.')[0], 'nodes', [run(1, speed[0]), run(4, speed[1])])
    assert (found.kind, found.points[1].efficiency[0]) == (kind, efficiency and pytest.approx(efficiency))
    other = scaling._sweep(name.partition('.')[0], 'nodes', [run(1, speed[0]), run(4, speed[1], 'bt.B.x')])
    assert (other.kind, 'not the same problem' in other.problem) == (('', True) if kind == 'strong' else (kind, False))


def test_sizes_unlike_the_newest_are_left_out_and_one_session_has_no_interval(stored):
    stored.add(hpcc(1, 80.0, binding='none'), hpcc(2, 150.0), hpcc(4, 280.0))
    said = parity('scaling', 'Hpcc').stdout
    assert 'nodes 1 left out, unlike the newest: binding none | core' in said and 'one session a side: no interval' in said
    assert re.search(r'4 +hpl .* 1\.867 +— +93\.3 % +—', said), said


def test_nothing_to_scale_and_what_is_asked_wrongly(stored):
    assert parity('scaling', 'Hpcc').returncode == 3
    stored.add(hpcc(1, 80.0))
    for words, code, said in ((['Hpcc'], 3, 'no place has figures on two sizes (nodes 1; ranks 2); measure some: reframe -c checks/ -n Hpcc -P nodes=1,2,4 -r'),
                              (['Hpc'], 2, "unknown check 'Hpc'; did you mean 'Hpcc'?"), (['Hpcc', '--by', 'cores'], 2, 'valid: nodes, ranks, threads')):
        done = parity('scaling', *words)
        assert done.returncode == code and said in done.stderr and not done.stdout, done.stderr
