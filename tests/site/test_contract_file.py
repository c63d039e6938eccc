"""contract.yaml: what is refused, with file, line and what is valid."""

from __future__ import annotations

import pytest

from commands import parity
from contracts import Machine, clause

WRONG = [
    ([clause(), clause()], 'contract.yaml:14: id: speed is clause 1, too; each clause needs an id of its own'),
    ([clause(unit='GB/s')], "contract.yaml:12: speed: unit: 'GB/s' is not of the kind of 'Gflop/s', the unit of hpl; valid: Gflop/s"),
    ([clause(at_least=None, at_most=100)], 'speed: at_most: higher is better of hpl: a promise is at_least. What no figure can exceed belongs to '
                                           'limits: of the partition in system.yaml'),
    ([clause(metric='latency', unit='us')], 'contract.yaml:11: speed: at_least: lower is better of latency: a promise is at_most'),
    ([clause(check='Toys')], "contract.yaml:6: speed: check: unknown check 'Toys'; did you mean 'Toy'?; valid: Other, Toy"),
    ([clause(parameters={'mod': 'all'})], "speed: parameters: unknown parameter 'mod'; did you mean 'mode'?; valid: mode"),
    ([clause(parameters={'mode': 'al'})], "speed: parameters: unknown mode 'al'; did you mean 'all'?; valid: all, one"),
    ([clause(parameters=None)], 'speed: parameters: must name mode, one of one, all'),
    ([clause(metric='gflops')], "speed: metric: unknown metric 'gflops'"),
    ([clause(nodes=['p1', 'p9'])], "speed: nodes: unknown node 'p9'; default has p1, p2, p3"),
    ([clause(nodes=['p1', 'p1'])], 'nodes: p1 is given twice'),
    ([clause(partition='defualt')], "contract.yaml:5: partition: unknown partition 'defualt'; did you mean 'default'?; valid: default"),
    ([clause(environ='gcc')], "speed: environ: unknown environment 'gcc'; valid: distro"),
    ([clause(at_least=None)], 'contract.yaml:2: clauses.0: must have one bound: at_least or at_most'),
    ([clause(at_most=3)], 'must have one bound: at_least or at_most'),
    ([clause(at_least='.inf')], 'must be a number'),
    ([clause(holds='most nodes')], "'most nodes'; valid: each node, median of nodes, 95 % of nodes, all together"),
    ([clause(holds='0 % of nodes')], "'0 % of nodes'; valid: each node"),
    ([clause(holds='101 % of nodes')], "'101 % of nodes'; valid: each node"),
    ([clause(holds='all together', nodes=['p1'])], 'nodes: not where it holds all together'),
    ([clause(runs=1)], 'greater than or equal to 2'),
    ([clause(bound=3)], 'clauses.0.bound: no such key'),
    ([], 'clauses: must have at least 1 item'),
]


@pytest.fixture
def machine(stored, site, monkeypatch):
    return Machine(stored, site, monkeypatch)


@pytest.mark.parametrize('clauses, said', WRONG, ids=[said[-50:] for _, said in WRONG])
def test_a_wrong_clause_is_refused_with_its_place_and_what_is_valid(machine, clauses, said):
    machine.write(*clauses)
    done = parity('contract', 'status', '--system', 'local')
    assert done.returncode == 2 and said in done.stderr and not done.stdout, done.stderr
    assert 'contract.yaml:' in done.stderr


def test_all_mistakes_are_told_at_once(machine):
    machine.write(clause(unit='GB/s', parameters={'mode': 'al'}), clause(id='other', metric='gflops'))
    assert parity('contract', 'run', '--system', 'local').stderr.count('contract.yaml:') == 3


def test_a_system_without_a_contract_says_where_it_belongs(machine):
    done = parity('contract', 'status', '--system', 'local')
    assert done.returncode == 2 and 'contract.yaml: no such file; write the promises there' in done.stderr


def test_of_several_environments_one_must_be_named(machine):
    machine.environs = ['distro', 'gcc13']
    machine.write(clause())
    assert 'environ: must name one of distro, gcc13: each can run Toy' in parity('contract', 'status', '--system', 'local').stderr
    machine.write(clause(environ='gcc13'))
    assert parity('contract', 'status', '--system', 'local').returncode == 3


def test_a_unit_of_the_same_kind_is_taken(machine):
    machine.write(clause(at_least=0.1, unit='Tflop/s'))
    done = parity('contract', 'run', '--system', 'local', '--yes')
    assert done.returncode == 0 and ' met ' in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize('holds', ['0.5 % of nodes', '1 % of nodes', '100 % of nodes', 'each node', 'median of nodes'])
def test_a_share_of_the_nodes_may_be_any_above_none(machine, holds):
    machine.write(clause(holds=holds))
    assert parity('contract', 'status', '--system', 'local').returncode == 3
