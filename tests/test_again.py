"""Suspicious cases are measured again: the same cases, settings and nodes, and other nodes where there are."""

from __future__ import annotations

import re

import pytest

from parity.nightly import run
from parity.system import systems
from parity.verdict.model import Cell

ASKED = '-c /c -r --system example-slurm -n Fileset -S size=nightly --repeat=3 -J qos=low'.split()


def cell(case='Fileset %file=10KB %mode=read', partition='cpu', nodes=('c1',)):
    return Cell(check=case.split()[0], case=case, subsystem='storage', system='example-slurm', partition=partition, environ='spack', size='quick',
                metric='rate', unit='Mb/s', better='higher', value=1.0, verdict='ok', nodes=list(nodes), suspicious=True)


def runs(*cells, system='example-slurm', asked=ASKED) -> list[list[str]]:
    return run.runs(systems.read(system), 'abc', cells, asked)


def value(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def test_what_the_session_set_is_set_again_and_its_selection_is_not():
    same, other = runs(cell())
    for arguments in (same, other):
        assert arguments[:3] == ['-c', '/c', '-r'] and value(arguments, '-S') == 'size=nightly' and 'qos=low' in arguments
        assert value(arguments, '--system') == 'example-slurm:cpu' and value(arguments, '--session-extras') == 'parity_rerun_of=abc'
        assert [a for a in arguments if a.startswith('--repeat')] == ['--repeat=3']
    assert 'nodelist=c1' in same and 'exclude=c1' in other


@pytest.mark.parametrize('name, chosen', [
    ('Fileset %file=10KB %mode=read', True), ('Fileset %file=10KB %mode=read %.repeat_no=2', True),
    ('Fileset %file=10KB %mode=read-write', False), ('Fileset %file=10KB', False)])
def test_the_very_cases_are_chosen_as_reframe_matches_names(name, chosen):
    assert bool(re.match(value(runs(cell())[0], '-n'), name.replace(' ', ''))) == chosen


def test_one_run_for_each_partition_and_set_of_nodes():
    found = runs(cell(), cell('Hpl'), cell(partition='virtual', nodes=('v1',)))
    assert [(value(a, '--system'), next(w for w in a if w.startswith(('nodelist=', 'exclude=')))) for a in found] == [
        (f'example-slurm:{p}', f'{how}={node}') for p, node in (('cpu', 'c1'), ('virtual', 'v1')) for how in ('nodelist', 'exclude')]
    assert value(found[0], '-n').count('|') == 3        # two names, each with its own end
    assert runs() == []


@pytest.mark.parametrize('system, nodes', [('local', ('here',)), ('example-pbs', ('n1',)), ('example-slurm', ())])
def test_nodes_are_named_only_to_a_scheduler_that_takes_them(system, nodes):
    partition = systems.read(system).partitions[0].name
    arguments, = runs(cell(partition=partition, nodes=nodes), system=system)
    assert arguments.count('-J') == 1 and value(arguments, '-J') == 'qos=low'
