"""`parity contract run | status | report`: rounds, kills, what fails a clause, what is measured again, the page."""

from __future__ import annotations

import re

import pytest

from commands import parity
from contracts import Machine, clause
from parity.base import paths
from parity.judge.store import database
from sessions import case

DISTURBED = {'parity': {'disturbed': 'make took 0.8 CPUs'}}
WRONG = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'bad residual'}
FAILED = {'result': 'fail', 'fail_phase': 'run', 'fail_reason': 'node down'}
METRICS = {'hpl': {'unit': 'Gflop/s', 'better': 'higher'}, 'latency': {'unit': 'us', 'better': 'lower'}}
BEYOND = {'hpl': 900.0, 'parity': {'metrics': {**METRICS, 'hpl': {**METRICS['hpl'], 'limit': {
    'value': 500, 'unit': 'Gflop/s', 'source': '2 cores x 32', 'certain': True}}}}}


@pytest.fixture
def machine(stored, site, monkeypatch):
    made = Machine(stored, site, monkeypatch)
    made.write(clause())
    return made


def run(*more: str, code: int | None = None):
    done = parity('contract', 'run', '--system', 'local', '--yes', '--by', 'ana', *more)
    assert 'Traceback' not in done.stderr and code in (None, done.returncode), done.stdout + done.stderr
    return done


def test_a_promise_that_each_node_keeps_is_met(machine):
    done = run(code=0)
    assert machine.ran == [('p1', 'p2', 'p3')] * 5, 'each run of a node has a session of its own'
    line = next(line for line in done.stdout.splitlines() if line.startswith('  met'))
    assert re.match(r'  met +speed +110.0 \[109.8, —\] Gflop/s +at least 100 Gflop/s of each node +3 nodes, 5 runs', line), line
    assert 'next: parity contract report --system local --page FILE.html' in done.stdout


def test_the_node_hours_are_said_before_anything_is_measured_and_somebody_is_asked(machine):
    done = parity('contract', 'run', '--system', 'local')
    assert done.returncode == 2 and 'no terminal to ask at: --yes measures without a question' in done.stderr
    assert '15 runs, about 7.5 node-hours; never measured, counted with the time limit of their partition: speed' in done.stdout
    assert not machine.ran
    machine.levels['p1'] = 100
    run(code=3)
    done = parity('contract', 'run', '--system', 'local')
    assert '5 runs, about 0.0833 node-hours' in done.stdout, done.stdout


def test_a_node_that_is_slow_fails_the_clause_and_the_worst_stands_first(machine):
    machine.levels |= {'p2': 80.0, 'p3': 60.0}
    done = run(code=3)
    assert re.search(r'open +speed +60.0 .* 5 more runs of p3, p2 would decide it', done.stdout), done.stdout
    done = run(code=1)
    assert machine.ran == [('p1', 'p2', 'p3')] * 5 + [('p2', 'p3')] * 5, 'one of 3 nodes is called bad after more runs than good'
    assert re.search(r'not met +speed +60.0 .*fails: p3 60 Gflop/s, p2 80 Gflop/s', done.stdout), done.stdout


def test_a_clause_is_open_while_its_interval_holds_the_bound_and_says_what_would_decide_it(machine):
    machine.levels = {'p1': 100.5, 'p2': 111.0}
    slow = {'hpl': 60.0}
    machine.broken = {('p1', number): slow for number in (2, 7)}
    done = run(code=3)
    assert re.search(r'open +speed +100.* 5 runs +15 more runs of p1 would decide it', done.stdout), done.stdout
    assert 'next: parity contract run --system local' in done.stdout
    for runs, code in ((10, 3), (20, 0)):
        done = run(code=code)
        assert len(machine.ran) == runs, 'up to the next look, which has twice the runs'
    assert machine.ran[5:] == [('p1',)] * 15, 'a node that is decided has no more runs'
    assert '2 nodes, 5 to 20 runs' in done.stdout, done.stdout


def test_slow_outliers_neither_hide_a_good_node_nor_make_it_met_early(machine):
    machine.levels = {'p1': 105.0}
    machine.broken = {('p1', 5): {'hpl': 20.0}}
    assert re.search(r'open +speed +105.0 \[20.0, ', run(code=3).stdout)
    assert re.search(r'met +speed +105.0 \[104.8, ', run(code=0).stdout), 'one of 10 runs may be slow'


def test_a_node_that_fails_leaves_its_look_before(machine):
    machine.levels = {'p1': 100.1, 'p2': 111.0}
    before = run(code=3).stdout.splitlines()[-2]
    machine.broken = {('p1', number): FAILED for number in range(6, 20)}
    after = run(code=4).stdout.splitlines()[-2]
    assert re.match('  open +speed +100.1 .*5 runs ', after) and after.split('5 runs')[0] == before.split('5 runs')[0], after


def test_a_figure_at_its_bound_is_not_decided_soon(machine):
    machine.levels = {'p1': 100.0}
    machine.broken = {('p1', 2): {'hpl': 99.5}}
    assert 'so near to the bound that no number of runs decides it soon' in run(code=3).stdout


@pytest.mark.parametrize('what, said', [(WRONG, 'p2: wrong: bad residual'), (BEYOND, 'p2: impossible: 900 Gflop/s is beyond 500 Gflop/s (2 cores x 32)')])
def test_a_wrong_answer_and_an_impossible_figure_fail_a_clause(machine, what, said):
    machine.broken['p2', 2] = what
    done = run(code=1)
    assert re.search(r'not met +speed', done.stdout) and said in done.stdout, done.stdout
    assert machine.ran == [('p1', 'p2', 'p3')] * 2 + [('p1', 'p3')] * 3, 'the node has no more turns'


def test_a_disturbed_run_is_measured_again_and_not_judged(machine):
    machine.levels['p1'] = 101
    machine.broken['p1', 2] = {**DISTURBED, 'hpl': 1.0}
    assert 'run 2 of 5 on p1, again: disturbed' in run(code=0).stdout
    assert machine.ran == [('p1', 'p2', 'p3'), ('p1', 'p2', 'p3'), ('p1',), *[('p1', 'p2', 'p3')] * 3]


def test_a_node_that_is_always_disturbed_leaves_the_clause_open(machine):
    machine.broken = {('p1', number): DISTURBED for number in range(1, 20)}
    done = run(code=3)
    assert re.search(r'open .*0 of 5 runs; p1: disturbed: make took 0.8 CPUs', done.stdout), done.stdout


def test_a_run_that_failed_is_infrastructure_and_the_next_command_measures_it(machine):
    machine.broken['p3', 2] = FAILED
    done = run(code=4)
    assert re.search(r'open .*1 of 5 runs; p3: failed: node down', done.stdout), done.stdout
    run(code=0)
    assert machine.ran[5:] == [('p3',)] * 4, 'what is stored is not measured again'


def test_a_kill_loses_nothing(machine):
    machine.ends = lambda number: 'killed' if number == 3 else ''
    done = parity('contract', 'run', '--system', 'local', '--yes')
    assert done.returncode == 4 and 'killed' in done.stderr and 'the same command goes on from here' in done.stderr
    assert 'open' in parity('contract', 'status', '--system', 'local').stdout
    machine.ends = lambda number: ''
    run(code=0)
    assert len(machine.ran) == 5


def test_a_node_that_takes_no_jobs_is_told_and_never_forgotten(machine):
    machine.away['p2'] = 'down'
    done = run(code=3)
    assert 'default: p2 (down): no jobs now; left out' in done.stdout and machine.ran == [('p1', 'p3')] * 5
    assert re.search(r'open .* 3 nodes, 0 to 5 runs   0 of 5 runs', done.stdout), done.stdout


def test_a_code_that_is_not_there_is_missing_and_all_else_is_measured(machine):
    machine.lacking['Other'] = 'no environment of default offers ior'
    machine.write(clause(), clause(id='files', check='Other', parameters=None))
    done = run(code=3)
    assert 'files: cannot be measured: no environment of default offers ior' in done.stdout
    assert re.search(r'missing +files .*no environment of default offers ior', done.stdout) and re.search(r'met +speed', done.stdout), done.stdout


def test_clauses_of_one_case_share_their_runs(machine):
    machine.write(clause(), clause(id='usual', holds='median of nodes', at_least=105), clause(id='small', metric='latency', at_least=None, at_most=2, unit='us'))
    done = run(code=0)
    assert len(machine.ran) == 8 and '3 met' in done.stdout, done.stdout
    assert re.search(r'met +usual +111.0 \[', done.stdout), 'the middle node'


def test_a_figure_that_does_not_count_costs_another_clause_of_the_case_no_run(machine):
    machine.write(clause(id='small', metric='latency', at_least=None, at_most=2, unit='us'), clause())
    for number in range(1, 9):
        for node in machine.levels:
            machine.broken[node, number] = {'parity': {'labels': {'latency': {'word': 'cached', 'reason': 'it was in memory'}}}}
    done = run(code=3)
    assert re.search(r'open +small .*0 of 6 runs; p1, p2, p3: skipped: cached: it was in memory', done.stdout), done.stdout
    assert re.search(r' met +speed .* 6 runs', done.stdout) and len(machine.ran) == 6, done.stdout


def test_a_changed_bound_needs_no_new_runs_and_another_size_does(machine):
    run(code=0)
    machine.write(clause(at_least=150))
    assert 'open' in parity('contract', 'status', '--system', 'local').stdout
    machine.write(clause(size='nightly'))
    assert '0 of 5 runs' in parity('contract', 'status', '--system', 'local').stdout


def test_runs_of_other_software_do_not_count(machine):
    run(code=0)
    machine.write(clause(at_least=109.9))
    for number in range(6, 30):
        for node in machine.levels:
            machine.broken[node, number] = {'hpl': 120.0, 'parity': {'software': {'provider': 'distro', 'identity': 'new'}}}
    said = run(code=3).stdout
    assert 'again: runs of other software do not count' in said and 'disturbed' not in said, said
    run(code=0)
    assert re.search(r'met +speed +120.0 ', parity('contract', 'status', '--system', 'local').stdout)


def test_a_promise_of_all_together_is_one_job(machine):
    machine.write(clause(holds='all together', set={'nodes': '3'}))
    done = run(code=0)
    assert re.search(r'met +speed +110.0 .* of all together +5 runs', done.stdout), done.stdout
    assert machine.ran ==  [('p1',)] * 5, 'no node is named: the scheduler gives them'


def test_no_night_counts_the_runs_of_a_contract(machine):
    run(code=0)
    assert database.last() == '' and parity('verdict').returncode != 0


def test_the_page_has_all_that_somebody_signs(machine, tmp_path):
    machine.levels['p3'] = 60.0
    machine.write(clause(promise='each node <fast>'), offer='Offer 4711')
    run()
    run(code=1)
    file = tmp_path / 'acceptance.html'
    done = parity('contract', 'report', '--system', 'local', '--page', str(file))
    assert done.returncode == 1 and done.stdout.strip() == str(file), done.stderr
    text = file.read_text()
    for said in ('Offer 4711: 1 clause: 1 not met', 'each node &lt;fast&gt;', 'page 12', 'at least 100 Gflop/s of each node', 'promised</text>', 'Xeon', 'identity x',
                 'ana: 10 sessions', 'Nodes that break the promise', '3 nodes from 60 Gflop/s to 111 Gflop/s; 2 on the right side of 100 Gflop/s', paths.version()):
        assert said in text, said
    assert '<script' not in text and '<fast>' not in text and text.count('<rect') == 2, 'p1 and p2 are in one bin'
    assert parity('contract', 'report', '--system', 'local').stdout.strip().endswith('report/contract-local.html')
    assert parity('contract', 'report', '--system', 'local', '--page', 'x.pdf').returncode == 2


def test_a_name_that_no_session_can_hold_is_refused(machine):
    done = parity('contract', 'run', '--system', 'local', '--yes', '--by', 'a,b')
    assert done.returncode == 2 and "--by 'a,b': must be letters" in done.stderr and not machine.ran


def test_prune_keeps_what_a_contract_is_judged_by_and_says_so(machine, stored):
    """The contract is of days 0 to 4; a later night is the newest of its system."""
    run(code=0)
    answer = parity('contract', 'status', '--system', 'local').stdout
    night = stored.add(case())
    for rehearsed in (['--dry-run'], []):
        done = parity('prune', '--keep-days', '30', '--sessions-days', '1', *rehearsed)
        assert 'older than 1 day: 0 sessions' in done.stdout and '5 older sessions of contracts stay' in done.stdout, done.stdout
    assert parity('contract', 'status', '--system', 'local').stdout == answer
    machine.write(clause(size='nightly'))
    assert '5 sessions' in parity('prune', '--keep-days', '30', '--sessions-days', '1').stdout, 'no contract needs them now'
    assert database.uuids() == [night]


def test_prune_keeps_the_evidence_of_a_contract_that_cannot_be_read(machine, stored):
    run(code=0)
    stored.add(case())
    machine.write(clause(unit=None))
    assert '5 older sessions of contracts stay' in parity('prune', '--keep-days', '30', '--sessions-days', '1').stdout
