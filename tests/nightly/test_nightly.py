"""A night: what a monitor sees of it, and what is measured again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest

from commands import module
from conftest import TOP
from parity.base.files import Lock
from parity.judge.verdict.model import Cell
from parity.nightly import run as nightly_run
from parity.nightly.heartbeat import Heartbeat
from parity.site import systems


def told(folder, system: str = 'local') -> dict:
    return json.loads((folder / 'heartbeat' / f'{system}.json').read_text())


def nightly(*arguments: str) -> tuple[int, str]:
    """Exit code and errors."""
    done = subprocess.run([sys.executable, '-m', 'parity.nightly', *arguments], cwd=TOP, capture_output=True, text=True,
                          env={**os.environ, 'RFM_CONFIG_FILES': str(TOP / 'reframe/settings.py')})
    return done.returncode, done.stderr


@pytest.mark.parametrize('arguments, system', [
    ('--time-limit 0 --system onebox', 'onebox'), ('--system=onebox --nonsense', 'onebox'), ('--system nosuch:part', 'nosuch'), ('--system ../../etc/x', 'unknown')])
def test_a_run_that_refuses_to_start_says_so(results, arguments, system):
    for rehearsed in ['--dry-run'], []:
        assert not (results / 'heartbeat').exists(), 'a rehearsal has none'
        assert module('parity.nightly', *arguments.split(), *rehearsed).returncode == 2
    said = told(results, system)
    assert said['exit_code'] == 2 and said['start'] <= said['end'] and said['session'] is None and said['system'] == system
    assert time.strptime(said['start'], '%Y-%m-%dT%H:%M:%SZ') and said['host'] == os.uname().nodename and said['pid']


@pytest.mark.parametrize('arguments, variable, system', [
    ('--system site:cpu', '', 'site'), ('-n Hpl', 'other:cpu', 'other'), ('-n Hpl', '', 'unknown')])
def test_files_that_cannot_be_read_leave_the_name_that_is_given(monkeypatch, site, results, arguments, variable, system):
    site.write_text('name: [')
    monkeypatch.setenv('RFM_SYSTEM', variable)
    Heartbeat(arguments.split()).end(2)
    assert told(results, system)['exit_code'] == 2


def test_a_second_run_leaves_the_file_of_the_one_that_measures_alone(results):
    first = Heartbeat(['--system', 'local'])
    with Lock(results / 'heartbeat' / '.local.lock', 'a run that is being refused').held():
        first.write()
        assert not (results / 'heartbeat' / 'local.json').exists()
    first.write()
    with Lock(results / '.nightly.lock', 'ci/nightly').held():
        before = told(results)
        assert (before['end'], before['exit_code'], before['session'], before['pid']) == (None, None, None, os.getpid())
        for system in 'local', 'onebox':
            code, said = nightly('--system', system)
            assert code == 4 and 'held by ci/nightly (pid' in said and len(said.splitlines()) == 1
        assert told(results) == before and told(results, 'onebox')['exit_code'] == 4
        first.write(session='3f2a91bb-0')
        first.end(1)
    assert told(results) | {'end': None} == before | {'exit_code': 1, 'session': '3f2a91bb-0'}


def test_a_file_that_cannot_be_written_ends_no_run(results, capsys):
    (results / 'heartbeat' / 'local.json').mkdir(parents=True)
    Heartbeat(['--system', 'local']).end(0)
    assert 'heartbeat/local.json: Is a directory' in capsys.readouterr().err


ASKED = '-c /c -r --system example-slurm -n Fileset -S size=nightly --repeat=3 -J qos=low'.split()


def cell(case='Fileset %file=10KB %mode=read', partition='cpu', nodes=('c1',)):
    return Cell(check=case.split()[0], case=case, subsystem='storage', system='example-slurm', partition=partition, environ='spack', size='quick',
                metric='rate', unit='Mb/s', better='higher', value=1.0, verdict='ok', nodes=list(nodes), suspicious=True)


def runs(*cells, system='example-slurm', asked=ASKED) -> list[list[str]]:
    return nightly_run.runs(systems.read(system), 'abc', cells, asked)


def value(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def test_a_case_of_one_node_runs_again_on_that_node_alone():
    """ReFrame selects by -n before --distribute makes the case of the node."""
    slow = cell('Stream %threads=all %part=example-slurm:cpu %nid=c1', nodes=('c1',))
    arguments, = runs(slow, asked=[*ASKED, '--distribute=all'])
    assert 'nodelist=c1' in arguments and '--distribute=all' in arguments
    assert re.match(value(arguments, '-n'), 'Stream%threads=all')


def test_one_run_for_each_partition_and_set_of_nodes_sets_again_what_the_session_set_but_its_selection():
    found = runs(cell(), cell('Hpl'), cell(partition='virtual', nodes=('v1',)))
    for arguments, (partition, node, how) in zip(found, [(p, node, how) for p, node in (('cpu', 'c1'), ('virtual', 'v1'))
                                                         for how in ('nodelist', 'exclude')], strict=True):
        assert value(arguments, '--system') == f'example-slurm:{partition}' and f'{how}={node}' in arguments
        assert arguments[:3] == ['-c', '/c', '-r'] and value(arguments, '-S') == 'size=nightly' and 'qos=low' in arguments
        assert value(arguments, '--session-extras') == 'parity_rerun_of=abc' and [a for a in arguments if a.startswith('--repeat')] == ['--repeat=3']
    first = re.compile(value(found[0], '-n'))
    for name, chosen in ('Fileset %file=10KB %mode=read', True), ('Fileset %file=10KB %mode=read %.repeat_no=2', True), ('Hpl', True), \
            ('Fileset %file=10KB %mode=read-write', False), ('Fileset %file=10KB', False), ('Hpl2', False):
        assert bool(first.match(name.replace(' ', ''))) == chosen
    assert runs() == []
    for system, nodes in ('local', ('here',)), ('example-pbs', ('n1',)), ('example-slurm', ()):     # nodes are named to a scheduler that takes them
        arguments, = runs(cell(partition=systems.read(system).partitions[0].name, nodes=nodes), system=system)
        assert arguments.count('-J') == 1 and value(arguments, '-J') == 'qos=low'
