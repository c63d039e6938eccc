"""Lives of a made-up system (ci/operating-curve --life): what their score counts, and a short life."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace

import pytest

from dev.life import score
from dev.life.__main__ import tell
from dev.life.faults import Fault
from dev.life.run import Life, Night, apart
from nights import start
from parity.base import paths
from parity.judge.store.incidents import Event, Incident, Where
from parity.judge.store.incidents import Fault as Bad

CPU = 'Stream.triad@life:cpu', 'Stream.copy@life:cpu'
FAT = 'Fio.rate@life:fat'


def incident(number: int, first: int, *names: str, title: str, over: int = 0, more: tuple[tuple[int, str], ...] = ()) -> Incident:
    """Slower cells since a night; ``more``: further nights and words."""
    turns = [(first, 'new'), *more, *([(over, 'over')] if over else [])]
    return Incident(number=number, uuid=str(number), system='life', state='over' if over else 'open', key=['regressed'], title=title,
                    where=Where(kind='partition', name=title.partition(':')[0]),
                    faults={name: Bad(word='regressed', since=start(first), measured=start(first), cell=name) for name in names},
                    events=[Event(what=what, session=f'night-{night}', start=start(night)) for night, what in turns])


def fault(kind: str, first: int, end: int, place: str, part: str) -> Fault:
    return Fault(kind, first, end, None, ('partition', frozenset({place})), frozenset({part}))


def lived(known: list[Incident], faults: list[tuple[Fault, tuple[str, ...]]], nights: int = 20, red: range = range(0),
          shares: tuple[float, ...] = (0.08, 0.08)) -> score.Scored:
    """A life in which each fault takes its share of its cells' speed."""
    life = Life(1, [each for each, _ in faults], dict.fromkeys((*CPU, FAT), 0.01))
    for k in range(nights):
        hit = {name: {i: shares[i]} for i, (each, names) in enumerate(faults) for name in names if each.first <= k < each.end}
        life.nights.append(Night(start(k), int(k in red), hit, {}, set(), {}, {}, {
            each.number: each.model_copy(update={'state': 'over' if each.closed and each.closed.start <= start(k) else 'open'})
            for each in known if each.opened.start <= start(k)}, dict.fromkeys((*CPU, FAT), ['c1']), f'night-{k}', 0))
    return score.Scored(life)


def test_a_fault_is_told_placed_and_over():
    told = incident(1, 6, *CPU, title='cpu: memory 8.0 % slower', over=11)
    of = lived([told], [(fault('memory', 5, 10, 'cpu', 'memory'), CPU)])
    good = score.in_three, score.right_place, score.right_part, score.one_incident, score.over
    assert [(row(of).some, row(of).all) for row in good] == [(1, 1)] * 5
    assert score.false(of).some == score.two_causes(of).some == score.worse(of).some == 0


def test_what_is_late_wrong_or_lasts_too_long_is_counted():
    late = incident(1, 8, *CPU, title='fat: storage 8.0 % slower', over=14, more=((9, 'worse'),))
    of = lived([late], [(fault('memory', 5, 10, 'cpu', 'memory'), CPU)])
    bad = score.in_three, score.right_place, score.right_part, score.over
    assert [(row(of).some, row(of).all) for row in bad] == [(0, 1)] * 4
    assert score.worse(of).some == 1 and 'night 8' in score.in_three(of).examples[0]


@pytest.mark.parametrize('noisy, shares, counted', [
    ((), (0.08, 0.6), 1),
    (CPU[:1], (0.08, 0.6), 0),               # the larger fault of earlier nights makes no end clear
    ((FAT,), (0.08, 0.6), 1),                # a cell that the fault does not slow hides none
    (CPU[:1], (0.3, 0.6), 1),
])
def test_an_end_counts_where_three_nights_tell_it_of_each_cell_that_the_fault_slows(noisy, shares, counted):
    told = incident(1, 6, *CPU, FAT, title='cpu: memory 8.0 % slower', over=11)
    of = lived([told], [(fault('memory', 5, 10, 'cpu', 'memory'), CPU), (fault('network', 1, 3, 'cpu', 'network'), CPU)], shares=shares)
    of.life.sd.update(dict.fromkeys(noisy, 0.06))
    assert score.over(of).all == counted


def test_an_incident_of_nothing_is_false_and_one_of_two_causes_is_counted():
    of = lived([incident(1, 2, FAT, title='fat: storage 3.0 % slower'), incident(2, 5, *CPU, FAT, title='cpu: memory 8.0 % slower')],
               [(fault('memory', 5, 10, 'cpu', 'memory'), CPU), (fault('storage', 5, 10, 'fat', 'storage'), (FAT,))], nights=30, red=range(3))
    assert (score.false(of).some, score.false(of).all, score.two_causes(of).some, score.red(of).some) == (1, 1, 1, 3)


def test_other_work_in_a_slow_cell_is_no_second_fault():
    told = incident(1, 6, *CPU, title='cpu: memory 8.0 % slower', over=11)
    work = fault('a changed size', 4, 100, 'cpu', 'memory')
    of = lived([told], [(fault('memory', 5, 10, 'cpu', 'memory'), CPU), (replace(work, word='other work'), CPU[:1])])
    assert [(row(of).some, row(of).all) for row in (score.one_incident, score.right_place)] == [(1, 1)] * 2
    assert score.other_work(of).some == 0


@pytest.mark.full
def test_a_short_life_is_scored():
    done = subprocess.run(['ci/operating-curve', '--life', '--small', '--kind', 'planted'], cwd=paths.root(), capture_output=True, text=True,
                          env={k: v for k, v in os.environ.items() if not k.startswith(('PARITY_', 'RFM_'))})
    assert done.returncode in (0, 1), done.stderr
    rows = {row[0]: row[1:] for line in done.stdout.splitlines() if (row := [part.strip() for part in line.split('|')[1:-1]])}
    assert rows['failed, wrong, missing: told on their night'][0] == '3 of 3', done.stdout
    assert re.search(r'CPU: \d+ s', done.stdout)


@pytest.mark.full
def test_a_seed_gives_the_same_life_in_each_process():
    (_, lives), = apart((3, 3), 50, ['planted'], True)
    one, other = ([(night.words, night.states, {number: incident.title for number, incident in night.incidents.items()})
                   for night in life.nights] for life in lives)
    assert one == other and any(words for words, *_ in one)


def turns(life) -> dict[int, list[tuple[int, str]]]:
    """Return night and word of each event that a session made, by incident."""
    of = score.Scored(life)
    return {number: [*of.events(number)] for number in of.last}


@pytest.mark.full
def test_a_kernel_beside_a_known_slow_node_is_an_incident_of_its_own_and_red():
    life = tell('kernel', 1)
    node, memory = (life.nights[-1].incidents[number] for number in (1, 2))
    assert node.nodes == ['f12'] and node.state == 'known' and 'Stream' not in ''.join(node.cells)
    assert memory.where.kind in ('partition', 'everything') and 'memory' in memory.title and memory.state == 'open'
    assert all(night.exit_code == 1 for night in life.nights[17:]), 'the acknowledgement of the node is not given for it'
    assert score.two_causes(score.Scored(life)).some == 0


@pytest.mark.full
def test_a_fault_on_every_second_night_is_one_incident_with_one_acknowledgement():
    life = tell('every-second-night', 1)
    assert turns(life) == {1: [(18, 'new')]}, 'the first bad night is no incident, and no good one ends it'
    assert [k for k, night in enumerate(life.nights) if night.mail] == [18]
    assert not any(night.exit_code for night in life.nights[21:]), 'one acknowledgement holds'


@pytest.mark.full
def test_a_node_that_jobs_hit_once_a_week_is_one_incident_of_that_node():
    life = tell('rare-node', 1)
    assert [*turns(life)] == [1] and life.nights[-1].incidents[1].nodes == ['f12']


@pytest.mark.full
def test_single_bad_nights_that_reruns_confirm_are_no_incidents():
    life = tell('outliers', 1)
    assert not turns(life) and not any(night.mail or night.exit_code for night in life.nights)
    assert any(night.hit for night in life.nights), 'there were such nights'
