"""The pairs of ci/bench: their order, their interval, and the job that is measured with and without watch.py."""

import itertools
import sys

from dev.bench import pairs, watched


def test_the_second_side_runs_first_in_every_second_pair():
    clock = itertools.count()
    assert pairs.in_turn(lambda: next(clock), lambda: next(clock), 3) == [(0, 1), (3, 2), (4, 5)]


def test_a_ratio_has_the_interval_of_its_pairs():
    ratio = pairs.Ratio('HPL', ((1.0, 2.0), (2.2, 4.0), (0.9, 2.0)), 'Gflop/s', 0.85)
    assert 0.49 < ratio.value < 0.51 and not ratio.good
    assert ' (0.277 to 0.897) ' in str(ratio) and ' unclear ' in str(ratio), str(ratio)
    below = pairs.Ratio('HPL', ratio.pairs, 'Gflop/s', 0.9)
    assert not below.good and ' BELOW ' in str(below), str(below)
    one = pairs.run('HPL', lambda: 2.0, lambda: 1.0, 'Gflop/s', 0.85, 1)
    assert one.good and ' to ' not in str(one) and '1 pair' in str(one)


def test_the_time_that_a_program_prints_is_measured_with_and_without_watch_py():
    program, job, cpu = watched.measure([sys.executable, '-IS', '-c', 'print("Time in seconds = 0.5")'], 2)
    assert program.value == 1.0 and program.pairs == ((0.5, 0.5), (0.5, 0.5))
    assert 0 < job.value < 1.5 and 0 < cpu.value < 1.0, 'watch.py takes CPU time'
