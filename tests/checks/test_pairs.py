"""programs/pairs.py and its parser: every two nodes once, no node in two pairs at a time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import accumulate, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reframe.utility import import_module_from_file

from conftest import PATIENCE, TOP
from parity.measure.check import by_pair
from parity.measure.check.reader import Incomplete, Wrong
from replay import recorded, room

pairs = room('osu')

PROGRAM = TOP / 'jobs' / 'programs' / 'pairs.py'
REAL = (recorded('osu') / 'pairs' / 'latency-8B-4nodes.txt').read_text()
#: Answers as OSU does, and notes when it began and ended, and for which nodes.
MPIRUN = '''#!/bin/sh
if [ "$1" = --version ]; then echo "mpirun (Open MPI) 4.1.4"; exit; fi
echo "begin $4" >>"$LOG"
# of two in flight each waits until the other has begun, too
until=$(grep -c begin "$LOG"); until=$((until + until % FLIGHT))
while [ "$(grep -c begin "$LOG")" -lt $until ]; do sleep 0.01; done
echo "end $4" >>"$LOG"
for rank in 0 1; do echo "$rank $NODE$rank 0" >"$7/$rank"; done
printf '\\n# OSU MPI Latency Test v7.4\\n# Datatype: MPI_CHAR.\\n# Size       Avg Latency(us)\\n8                       1.25\\n'
'''


@given(st.integers(2, 40))
def test_rounds_pair_every_two_nodes_once_and_no_node_twice_in_a_round(count):
    rounds = list(import_module_from_file(str(PROGRAM)).rounds([f'n{i}' for i in range(count)]))
    assert sorted(tuple(sorted(pair)) for r in rounds for pair in r) == \
        sorted(tuple(sorted(pair)) for pair in combinations([f'n{i}' for i in range(count)], 2))
    assert all(len({node for pair in r for node in pair}) == 2 * len(r) for r in rounds)
    assert len(rounds) == count - 1 + count % 2


@pytest.fixture
def launched(tmp_path):
    """Run the program with an mpirun that answers as OSU does: (what it did, what was in flight)."""
    def run(nodes, in_flight=1, limit=PATIENCE, mpirun=MPIRUN, options=()):
        fake, log = tmp_path / 'mpirun', tmp_path / 'log'
        fake.write_text(mpirun)
        fake.chmod(0o755)
        log.touch()
        env = {**os.environ, 'FLIGHT': str(in_flight), 'PATH': f'{tmp_path}:{os.environ["PATH"]}', 'LOG': str(log), 'NODE': 'n'}
        env.pop('SLURM_JOB_NODELIST', None)
        done = subprocess.run([sys.executable, PROGRAM, '--launcher=mpirun', f'--in-flight={in_flight}', f'--limit={limit}', f'--nodes={nodes}', *options,
                               '--', 'osu_latency'], env=env, cwd=tmp_path, capture_output=True, text=True)
        return done, log.read_text().splitlines()
    return run


@pytest.mark.parametrize('flight', [1, 2])
def test_as_many_pairs_are_in_flight_as_asked_and_fewer_than_two_nodes_are_refused(launched, flight):
    done, log = launched('a,b,c,d', flight)
    assert done.returncode == 0, done.stderr
    now = list(accumulate(1 if line.startswith('begin') else -1 for line in log))
    assert max(now) == flight and len(log) == 12
    assert pairs.read_pairs(done.stdout, 8).metrics() == {'median': 1.25, 'worst': 1.25, 'worst_over_median': 1.0}
    for done, _ in map(launched, ('a', 'a,a', '')):
        assert done.returncode == 2 and 'needs two nodes' in done.stderr


def test_a_node_has_one_partner_in_the_other_half(launched):
    done, log = launched('a,b,c,d', 2, options=['--disjoint'])
    assert done.returncode == 0 and len(log) == 4 and re.findall('^parity-pair (.*)', done.stdout, re.M) == ['a c', 'b d']
    assert list(by_pair(done.stdout, disjoint=True)) == [('a', 'c'), ('b', 'd')]
    halves = [launched('a,b,c,d', options=['--disjoint', '--half', half])[0].stdout for half in ('first', 'second')]
    assert [re.findall('^parity-pair (.*)', text, re.M) for text in halves] == [['a b'], ['c d']]
    for text, disjoint in ((done.stdout, False), (done.stdout.replace('nodes 4', 'nodes 6'), True)):
        with pytest.raises(Incomplete, match='2 pairs of 4 nodes'):
            by_pair(text, disjoint)


@pytest.mark.parametrize('mpirun, why', [
    ('echo no route to b; exit 3', 'pair a b: exit code 3: no route to b'),
    ('exec sleep 7777', 'pair a b: exit code 124: ended after 1 s'),
    ('for r in 0 1; do echo "$r a 0" >"$7/$r"; done', 'exit code 125: the 2 ranks did not run on 2 nodes'),
])
def test_a_pair_that_fails_or_hangs_is_named(launched, mpirun, why):
    done, _ = launched('a,b', 1, 1 if 'sleep' in mpirun else PATIENCE, f'#!/bin/sh\n[ "$1" = --version ] && exec echo "Open MPI"\n{mpirun}\n')
    assert done.returncode == 1
    with pytest.raises(Incomplete, match=why):
        pairs.read_pairs(done.stdout, 8).metrics()


@pytest.mark.parametrize('change, error, why', [
    (('parity-pairs-end failed 0', ''), Incomplete, 'ends without "parity-pairs-end failed'),
    (('parity-pairs-end failed 0', 'parity-pairs-end failed 1'), Incomplete, '1 pair failed'),
    (('nodes 4', 'nodes 5'), Incomplete, 'there are 5 nodes'),
    (('parity-pair-end n2 n3 exit 0', 'parity-pair-end n2 n3 exit 1'), Incomplete, 'pair n2 n3: exit code 1'),
    (('pair n2 n3\n', 'pair n1 n4\n'), Wrong, 'has not begun'),
])
def test_a_real_run_has_its_figures_and_what_is_not_whole_is_refused(change, error, why):
    whole = pairs.read_pairs(REAL, 8)
    values = whole.metrics()
    assert whole.slowest()[1] == ('n1', 'n2') and values['worst'] == max(whole.figures.values()) > values['median']
    assert values['worst_over_median'] == values['worst'] / values['median']
    with pytest.raises(error, match=re.escape(why)):
        pairs.read_pairs(REAL.replace(*change), 8).metrics()
