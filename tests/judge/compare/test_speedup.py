"""The devices of a node beside all cores of another: a pair that names the baseline's metric."""

from __future__ import annotations

import json
import re
import uuid

import pytest

from commands import parity
from parity.base.errors import UsageError
from parity.judge.compare import pairs
from parity.judge.report import answer, table
from parity.judge.verdict import judge
from parity.site import systems
from parity.site.plan import Plan
from sessions import planned, ran
from stored import Stored

BEGAN = 1795190000.0
PAIR = 'pairs:\n  - baseline: cpu\n    candidate: gpu\n    expect:\n'
SPEEDUP = f'{PAIR}      - {{metric: GpuToy.triad_gpu, against: CpuToy.triad, against_parameters: {{threads: all}}, at_least: 15}}\n'
CORES = [{'triad': value} for value in (300.0, 303.0, 299.0, 301.0, 302.0, 300.5)]
DEVICES = [{f'triad_gpu{device}': 1400.0 + run + device for device in range(4)} for run in range(6)]


def session(place, case, runs, start=BEGAN, unit='GB/s', nodes=1, **other):
    """A stored session of a case on a partition, its metrics by run; returns its uuid."""
    system, partition = place.split(':')
    declared = {name: {'name': name, 'unit': unit, 'better': 'higher'} for run in runs for name in run}
    cases = []
    for i, run in enumerate(runs):
        check = case.split()[0]
        record = {'needs': [check.lower()], 'size': 'quick', 'placement': {'nodes': nodes, 'ranks': nodes}, 'subsystem': 'memory',
                  'metrics': declared, 'software': {'provider': 'modules', 'identity': f'{check} 1'}, 'facts': {}}
        values = {f'{place}:{name}': [value, 0, None, None, unit, None] for name, value in run.items()}
        cases.append(ran(case, parity=record, display_name=f'{case} %.repeat_no={i}', system=system, partition=partition,
                         job_completion_time_unix=start + i, **other) | {'perfvalues': values})
    plan = [planned(case, system=system, partition=partition, subsystem='memory', metrics=list(declared.values()))]
    return Stored().add(*cases, plan=plan, uuid=str(uuid.uuid4()), system=system, time_start_unix=start, time_end_unix=start + 10)


def measured(devices=DEVICES, **other):
    """Sessions of both partitions: one thread and all of them beside four devices. Returns that of the devices."""
    session('example-slurm:cpu', 'CpuToy %threads=one', [{'triad': 20.0}] * 6, BEGAN - 100)
    for night in range(4):
        session('example-slurm:cpu', 'CpuToy %threads=all', CORES[night:] + CORES[:night + 3], BEGAN - 200 - night * 86400)
    return [session('example-slurm:gpu', 'GpuToy', devices, BEGAN - night * 86400, **other) for night in (2, 1, 0)][-1]


@pytest.fixture
def declared(monkeypatch, tmp_path):
    """Declare these pairs for example-slurm; returns the system."""
    def declare(text):
        file = tmp_path / 'pairs.yaml'
        file.write_text(text)
        monkeypatch.setattr(pairs, 'file_of', lambda _: file)
        return systems.read('example-slurm')
    return declare


def compared(*options):
    done = parity('compare', 'example-slurm:cpu', 'example-slurm:gpu', *options)
    return done, [row for row in json.loads(done.stdout)['rows'] if row['against']] if '--json' in options else []


def test_the_sum_of_the_devices_stands_beside_all_cores(results, declared):
    declared(SPEEDUP)
    measured()
    done, (row,) = compared('--json')
    assert done.returncode == 0, done.stderr
    assert (row['benchmark'], row['metric'], row['against'], row['unit']) == ('GpuToy', 'triad_gpu', 'CpuToy.triad threads=all', 'GB/s')
    assert row['candidate'] == pytest.approx(4 * 1404, rel=1e-5) and row['baseline'] == pytest.approx(300.9, rel=1e-5) and (row['sessions_candidate'], row['n']) == (3, 18)
    assert row['ratio'] == pytest.approx(5616 / 300.75, rel=1e-3) and row['low'] < row['ratio'] < row['high']
    assert (row['verdict'], row['expected'], row['state'], row['refused']) == ('faster', 'at least 15', 'ok', False)
    assert [d['fact'] for d in row['differs']] == ['program', 'software']
    assert any('CpuToy %threads=all | GpuToy' in note for note in row['notes']) and any('per joule is left out' in note for note in row['notes'])
    text = compared()[0].stdout
    assert 'different processors: a speed-up' in text and 'GpuToy: triad_gpu / CpuToy.triad threads=all' in text and 'at least 15: ok' in text
    assert 'geometric means' not in text, 'a speed-up is in no mean'


def test_the_example_site_expects_a_speed_up(results):
    for night in range(3):
        session('example-slurm:cpu', 'BabelStream %threads=all', CORES[night:], BEGAN + night * 86400)
        session('example-slurm:gpu', 'GpuStream', DEVICES[night:], BEGAN + 100 + night * 86400)
    done, (row,) = compared('--json')
    assert done.returncode == 0 and (row['metric'], row['against'], row['state']) == ('triad_gpu', 'BabelStream.triad threads=all', 'ok')


def test_a_run_that_lacks_a_device_is_no_sum(results, declared):
    declared(SPEEDUP)
    measured([*DEVICES[:4], {name: value for name, value in DEVICES[4].items() if name != 'triad_gpu2'}])
    (row,) = compared('--json')[1]
    assert row['n_candidate'] == 12 and row['candidate'] == pytest.approx(4 * 1403)


def test_devices_that_never_ran_together_have_no_sum(results, declared):
    declared(SPEEDUP)
    measured([{f'triad_gpu{run % 2}': 1400.0} for run in range(6)])
    (row,) = compared('--json')[1]
    assert row['reason'].startswith('not measured on example-slurm:gpu: ') and row['candidate'] is None and row['ratio'] is None


@pytest.mark.parametrize('other, fact', [({'unit': 'MB/s'}, 'unit'), ({'nodes': 2}, 'nodes')])
def test_what_is_not_node_to_node_or_in_another_unit_is_refused(results, declared, other, fact):
    declared(SPEEDUP)
    measured(**other)
    done, (row,) = compared('--json')
    assert done.returncode == 2 and row['refused'] and row['ratio'] is None and f'{fact} ' in row['reason']
    assert row['state'] == 'insufficient'


def test_a_side_without_the_figure_has_its_reason(results, declared):
    declared(SPEEDUP.replace('threads: all', 'threads: half'))
    measured()
    (row,) = compared('--json')[1]
    assert row['reason'] == 'not measured on example-slurm:cpu: not among its cases' and row['baseline'] is None
    declared(SPEEDUP.replace('GpuToy', 'GpuOther'))
    (row,) = compared('--json')[1]
    assert row['reason'] == 'not measured on example-slurm:gpu: not among its cases' and row['benchmark'] == 'GpuOther'


def test_the_verdict_names_a_speed_up_that_is_too_small(results, declared):
    declared(SPEEDUP.replace('15', '25'))
    verdict = judge.newest(measured())
    outcome, = verdict.pairs
    assert (outcome.state, outcome.against, verdict.exit_code) == ('regressed', 'CpuToy.triad threads=all', 1)
    title = 'GpuToy triad_gpu against CpuToy.triad threads=all (different processors: a speed-up)'
    assert answer.of(verdict).entries[-1].title == f'example-slurm:gpu / example-slurm:cpu: {title}'
    assert any('(different processors: a speed-up) at least 25   regressed' in line for line, _ in table.table(verdict))


def test_an_expectation_of_devices_holds_for_each(results, declared):
    system = declared(f'{PAIR}      - {{metric: GpuToy.triad_gpu, at_least: 0.9}}\n')
    session('example-slurm:cpu', 'GpuToy', DEVICES, BEGAN - 100)
    measured()
    outcomes = judge.newest(session('example-slurm:gpu', 'GpuToy', DEVICES, BEGAN + 100)).pairs
    assert [o.metric for o in outcomes] == [f'triad_gpu{device}' for device in range(4)] and pairs.read(system)[0].expect[0].suffix == ''


@pytest.mark.parametrize('expect, said', [
    ('{metric: GpuToy.triad_gpu, against: triad, at_least: 1}', 'pattern'),
    ('{metric: GpuToy.triad_gpu, against_parameters: {threads: all}, at_least: 1}', 'against_parameters needs against')])
def test_a_bad_expectation_is_named_with_its_line(declared, expect, said):
    system = declared(f'{PAIR}      - {expect}\n')
    with pytest.raises(UsageError, match=rf'pairs.yaml:5: .*{said}'):
        pairs.read(system)


@pytest.mark.parametrize('metric, against, parameters, said', [
    ('GpuToy.triad_gpu', 'CpuToy.triad', '{threads: all}', ''),
    ('GpuToy.triad_gpus', 'CpuToy.triad', '{}', "unknown metric 'triad_gpus'.*triad_gpu"),
    ('GpuToy.triad_gpu', 'CpuToi.triad', '{}', "against: unknown check 'CpuToi'.*CpuToy"),
    ('GpuToy.triad_gpu', 'CpuToy.tried', '{}', "against: unknown metric 'tried'.*triad"),
    ('GpuToy.triad_gpu', 'CpuToy.triad', '{threads: most}', "against: unknown threads 'most'.*one"),
    ('GpuToy.triad_lowest_over_median', 'CpuToy.triad', '{}', 'is no rate of several devices; valid: GpuToy.triad_gpu$'),
    ('GpuToy.latency_gpu', 'CpuToy.triad', '{}', 'is no rate of several devices; valid: GpuToy.triad_gpu$'),
    ('GpuToy.triad_gpu', 'CpuToy.gflops', '{}', 'against: CpuToy.gflops is in Gflop/s, .* in GB/s, higher is better; valid: CpuToy.triad$')])
def test_an_expectation_that_nothing_can_meet_is_refused_before_a_run(declared, metric, against, parameters, said):
    system = declared(f'{PAIR}      - {{metric: {metric}, against: {against}, against_parameters: {parameters}, at_least: 1}}\n')
    checks = [{'check': check, 'file': f'{check}.py', 'parameters': of, 'metrics': [
        {'name': name, 'unit': unit, 'better': better} for name, unit, better in metrics]} for check, of, metrics in (
        ('CpuToy', {'threads': ['one', 'all']}, [('triad', 'GB/s', 'higher'), ('gflops', 'Gflop/s', 'higher')]),
        ('GpuToy', {}, [('triad_gpu', 'GB/s', 'higher'), ('triad_lowest_over_median', '', 'higher'), ('latency_gpu', 'us', 'lower')]))]
    found = pairs.problems(system, Plan(system='example-slurm', cases=[], checks=checks, problems=[]))
    assert len(found) == bool(said)
    assert all('pairs.yaml:5: ' in each and re.search(said, each) for each in found), found
