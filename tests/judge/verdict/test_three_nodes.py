"""Repeats of one case on three nodes: the median hides a slow node, its incident does not."""

from __future__ import annotations

import random

import pytest

from parity.judge.verdict import incidents, judge
from stored import case


def test_a_node_of_three_at_half_speed_that_the_median_hides_is_an_incident_and_ends(stored, site):
    noise, turns = random.Random(1), []
    for night in range(10):
        speeds = [1.0, 1.0, 0.5 if 2 <= night < 7 else 1.0]
        stored.add(*[case(100 * speed * noise.gauss(1, 0.003), job_nodelist=[f'n{at}'], unique_name=f'Toy_{at}',
                          parity={'metrics': {'hpl': {'unit': 'Gflop/s', 'better': 'higher'}}}) for at, speed in enumerate(speeds)])
        verdict = judge.newest()
        assert all(cell.verdict != 'regressed' for cell in verdict.cells), 'the median of three'
        known = incidents.record(verdict, 'local')
        turns.append((incidents.joined(verdict, known).exit_code, [(each.nodes, each.state) for each in known]))
    open_, over = (1, [(['n2'], 'open')]), (0, [(['n2'], 'over')])
    assert turns[:4] == [(0, [])] * 4 and turns[4:7] == [open_] * 3
    assert turns[7] == (0, [(['n2'], 'open')]) and turns[8] == over


def swept(stored, noise: random.Random, *speeds: float) -> list[incidents.Incident]:
    """Store a night in which `--distribute` runs a case on each node, and return the incidents after it."""
    noted = {'metrics': {'hpl': {'unit': 'Gflop/s', 'better': 'higher'}}}
    stored.add(*[case(100 * speed * (1 + at / 10) * noise.gauss(1, 0.003), name=f'Toy %part=local:default %nid=n{at}', job_nodelist=[f'n{at}'],
                      parity=noted) for at, speed in enumerate(speeds)])
    return incidents.record(judge.newest(), 'local')


@pytest.mark.parametrize('slow, nodes, place', [([2], ['n2'], 'n2'), ([0, 1, 2], [], 'local:default')])
def test_a_case_that_distribute_made_names_its_node_unless_the_others_are_slow_too(stored, site, slow, nodes, place):
    noise = random.Random(1)
    for _ in range(14):
        assert not swept(stored, noise, 1, 1, 1)
    speeds = [0.8 if at in slow else 1.0 for at in range(3)]
    swept(stored, noise, *speeds)
    for _ in range(3):
        known, = swept(stored, noise, *speeds)
        assert (known.nodes, known.title.partition(': ')[0], len(known.cells)) == (nodes, place, len(slow))
    for _ in range(3):
        known, = swept(stored, noise, 1, 1, 1)
    assert known.state == 'over'
