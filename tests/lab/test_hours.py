"""`parity plan`: what runs, nights and node-hours buy."""

from __future__ import annotations

import json

import numpy as np
import pytest

from commands import parity
from nights import start
from parity.judge.stats import bounds, repeats
from parity.judge.store import history
from parity.lab import hours
from stored import Stored, case

#: Cases: node-hours of a run, the scatter of a night and of a run.
CASES = {'Calm': (0.1, 0.002, 0.004), 'Loud': (1.0, 0.06, 0.004), 'Runs': (0.2, 0.002, 0.028), 'Dear': (5.0, 0.002, 0.004)}


def store(runs: int, nights: int = 40) -> None:
    """Store nights of all cases."""
    rng, stored = np.random.default_rng(1), Stored()
    for night in range(nights):
        cases = []
        for name, (cost, other, within) in CASES.items():
            level = rng.normal(0, other)
            for index in range(runs):
                cases.append(case(100 * float(np.exp(level + rng.normal(0, within))), name, latency='absent', run_index=0,
                                  unique_name=f'{name} {index}', parity={
                    'job': {'submitted': start(night), 'waited': 0.0, 'ran': 3600 * cost}}))
        stored.add(*cases)


def test_more_runs_help_only_what_moves_within_a_night():
    assert repeats.visible(0.06, 0.02, 0.02 * 3 ** .5, 3, 4) == pytest.approx(0.06 * (3 / 4) ** .5, rel=0.01)
    assert repeats.visible(0.06, 0.02, 0.001, 3, 4) == pytest.approx(0.06, rel=0.01)
    assert repeats.visible(0.06, 0.02, None, 1, 3) == 0.06, 'of one run nobody knows'
    assert repeats.visible(0.021, 0.01, 0.01, 1, 99) == 0.02, 'no number of runs shows less than is news'
    assert repeats.visible(0.06, 0.02, 0.02, 3, 3, nights=2) == pytest.approx(0.06 * 1.5 ** .5)
    assert repeats.scatter([[1, 1.02], [2, 2.04], [5.0]]) == pytest.approx(np.log(1.02) / 2 ** .5) and repeats.scatter([[1.0]]) is None


def test_a_prediction_is_near_what_more_runs_show(results):
    store(2, 160)
    plan = hours.worth('', 20)
    runs, = (c for c in plan.cases if c.name.startswith('Runs'))
    assert runs.runs == 2 and runs.figures[0].run == pytest.approx(0.028, rel=0.2)
    predicted = runs.figures[0].with_runs(2, 4)
    results.rename(results.with_name('two'))
    history._loaded.cache_clear()
    store(4, 160)
    assert next(c for c in hours.worth('', 20).cases if c.name.startswith('Runs')).best == pytest.approx(predicted, rel=0.3)


def test_the_plan_says_what_fits_and_what_to_leave_out(results):
    store(3)
    done = parity('plan', '--node-hours', '20')
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert done.stdout.startswith('local: 20 node-hours a night are enough: 4 cases of 19;')
    assert '1 case of 3 node-hours that show no 5 %, with 2 repeats more either: Loud on default+distro' in done.stdout
    few = json.loads(parity('plan', '--node-hours', '1', '--json').stdout)
    assert few['plan']['node_hours'] <= 1 and [name.split()[0] for name in few['plan']['left_out']] == ['Dear', 'Loud']
    assert few['ways'][0]['name'] == 'as now' and few['cases']['Calm on default+distro']['figures']['hpl']['visible'] < bounds.WANTED


@pytest.mark.parametrize('words, code, why', [
    (['--node-hours', '20'], 3, 'no session'), (['--node-hours', '0'], 2, '--node-hours'), ([], 2, '--node-hours'),
    (['--node-hours', 'x'], 2, 'valid number'), (['--node-hours', '2', '--system', 'nowhere'], 2, "unknown system 'nowhere'")])
def test_bad_input_is_told(results, words, code, why):
    done = parity('plan', *words)
    assert done.returncode == code and why in done.stderr and 'Traceback' not in done.stderr


def test_a_history_that_is_too_young_has_no_plan(results):
    store(1, nights=4)
    done = parity('plan', '--node-hours', '20')
    assert done.returncode == 3 and 'no judged figure has a run with a time' in done.stderr
