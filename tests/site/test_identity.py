"""What the command line sets away from a check's default makes another case, with a history of its own."""

from __future__ import annotations

import functools
import re

import pytest

from conftest import TOP
from nights import cell
from parity.measure.rfm import planning
from parity.nightly import run
from parity.site import identity, plan, systems


@functools.cache
def names(checks: str, *arguments: str) -> set[str]:
    """The cases in the files of these checks that `reframe ARGUMENTS` would run or lack a program for."""
    of = [str(file) for file in (TOP / 'checks').rglob('*.py') if re.search(rf'^class ({checks.replace(" ", "|")})\(', file.read_text(), re.M)]
    made = planning.of_command([*(word for file in of for word in ('-c', file)), '-r', *arguments])
    assert not [problem for problem in made.problems if 'the selection is empty' not in problem.what]
    return {c.case for c in made.cases}


#: TEST.VARIABLE -> what is set, and the end of the names of that check's cases.
SET = {
    'FileCopy.destination': ('other', ' %destination=other %pause=0.25 %source=a%20b%7Cc%25d'), 'FileCopy.overwrite': ('no', ''), 'FileCopy.pause': ('.25', ''),
    'FileCopy.source': ('a b|c%d', ' %destination=other %pause=0.25 %source=a%20b%7Cc%25d'),    # one word, in names and perflogs
    'Fileset.destination': ('scratch', ''),                         # the default, in words
    'Fileset.ranks_a_node': ('1', ''),                              # the default of Fileset, not of its base
    'Imb.ranks_a_node': ('1', ' %ranks_a_node=1'),
    'OsuBandwidth.binding': ('none', ' %binding=none'),             # OsuAtOnce is made of it: nothing is set there
    'Hpl.dat': ('/x/HPL.dat', ' %dat=/x/HPL.dat'),
    'Npb.npb_class': ('W', ' %npb_class=W %profile=yes'), 'Npb.profile': ('true', ' %npb_class=W %profile=yes'),
    'Ior.on': ('home', ' %on=home'), 'Mdtest.on': ('home', ' %on=home'), 'Fio.on': ('home', ' %on=home'),
    'Stream.env_vars': ('A:1', ' %env_vars=A:1 %exclusive_access=yes'), 'Stream.exclusive_access': ('yes', ' %env_vars=A:1 %exclusive_access=yes'),
    'Hpcc.time_limit': ('10m', ''), 'Hpcc.tags': ('a,b', ''), 'Hpcc.maintainers': ('me', ''), 'Hpcc.size': ('nightly', ''),
}


def test_what_is_set_away_from_the_default_is_in_the_name_and_nothing_else_is():
    made = planning.of_command(['-c', str(TOP / 'checks'), '-r', *(word for name, (value, _) in SET.items() for word in ('-S', f'{name}={value}'))])
    found = {c.case for c in made.cases}
    ends = {name.partition('.')[0]: end for name, (_, end) in SET.items()}
    assert not made.problems and ends.keys() <= {name.split()[0] for name in found}
    parameters = {c.check: c.parameters for c in made.checks}
    for name in found:
        check, *parts = name.split(' %')
        own = ''.join(f' %{part}' for part in parts if part.partition('=')[0] in parameters[check])
        assert name == check + own + ends.get(check, '')


def test_a_sweep_and_a_setting_make_the_same_case():
    swept = names('Hpcc', '-P', 'nodes=1,2', '-S', 'nodes=4', '--repeat=2')
    assert swept == {'Hpcc %nodes=1', 'Hpcc %nodes=2'}
    assert names('Hpcc', '-S', 'nodes=2') < swept


CHECK = '''
import os
import reframe as rfm
from reframe.core.builtins import run_after, variable
from parity.measure.check.workload import Metric, Workload

@rfm.simple_test
class Probe(rfm.RunOnlyRegressionTest, Workload):
    executable, where, later = 'echo 100', variable(str, value='a'), variable(str, value='a')
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def place(self):
        self.where, self.later = self.where.upper(), 'hook'

    def parse(self, text):
        return {'rate': float(text)}
'''


@pytest.mark.parametrize('name, session, given', [
    ('FileCopy %mode=large-copy %clients=one %sync=durable %destination=other', ['-S', 'destination=other'],
     ['-S', 'destination=other']),
    ('Hpcc %nodes=2', ['-P', 'nodes=1,2'], ['-P', 'nodes=2']),
    ('Hpl %dat=/a@b/HPL.dat', ['-SHpl.dat=/a@b/HPL.dat'], ['-SHpl.dat=/a@b/HPL.dat'])])
def test_a_rerun_measures_the_very_case_again(name, session, given):
    slow = cell(case=name, system='local', partition='default', nodes=['here'], suspicious=True)
    arguments, = run.runs(systems.read('local'), 'abc', [slow], ['-r', *session, '-n', name.split()[0]])
    assert all(word in arguments for word in given)
    selection = [arguments[i:i + 2] for i, word in enumerate(arguments) if word in ('-n', '-S', '-P')]
    settings = [word for word in arguments if word.startswith('-SHpl')]
    assert names(name.split()[0], *(w for pair in selection for w in pair), *settings) == {name}


def test_a_swept_variable_declares_its_metrics_as_a_set_one_does():
    for option in '-P', '-S':
        made = planning.of_command(['-c', str(TOP / 'checks/storage/filecopy/filecopy.py'), '-r', option, 'client_nodes=2', '-S', 'overwrite=yes'])
        assert {'client_seconds', 'first_seconds', 'first_client_seconds'} < {m.name for m in made.cases[0].metrics}


TAGGED = [
    ('Comms', (), '1_node$', '%where=within '), ('Comms', (), '2_nodes', '%where=between '), ('FileCopy', (), 'ci', 'FileCopy'),
    ('FileCopy', ('-S', 'client_nodes=2'), '2_nodes', 'FileCopy'), ('Fileset', ('-S', 'nodes=2'), '2_nodes', '%nodes=2'),
    ('Fileset', ('-S', 'nodes=2'), 'ci', ''), ('Fileset', ('-S', 'size=nightly'), 'ci', ''), ('Fileset', ('-S', 'size=nightly'), '1_node', 'Fileset'),
    ('FileTransfer', (), '.*nodes?$', ''), ('GpuTransfer', (), 'gpu', ''),
    ('OsuBarrier', ('-S', 'nodes=4'), '4_nodes', '%where=between '), ('Pingpong', ('-S', 'nodes=4'), '4_nodes', ''), ('Ior', (), '2_nodes', '%span=2 '),
    ('Ior', ('-S', 'nodes=4'), '4_nodes', '%span=2 '), ('Npb', ('-S', 'nodes=4'), '4_nodes', '%nodes=4 '),
    ('GpuOsuLatency', ('-S', 'nodes=4', '--system', 'example-slurm'), '4_nodes', '%where=between %benchmark=allreduce %nodes=4 ')]


@pytest.mark.parametrize('check, arguments, tag, found', TAGGED)
def test_tags_tell_the_subsystem_the_nodes_and_what_is_quick(check, arguments, tag, found):
    together = ' '.join(sorted({each for each, of, *_ in TAGGED if of == arguments}))        # those are loaded at once
    every, tagged = ({name for name in names(together, *arguments, *more) if name.split()[0] == check} for more in ((), ('-t', tag)))
    assert tagged == {name for name in every if found and found in f'{name} '}


def test_every_mpi_check_takes_the_nodes_that_are_asked_for_or_is_skipped_with_the_reason():
    cases = [plan.Asked(check=check, parameters=parameters, variables={'nodes': '4'}, partition='cpu') for check, parameters in (
        ('Pingpong', {'where': 'between'}), ('OsuBarrier', {'where': 'within'}), ('OsuBarrier', {'where': 'between'}), ('Mdtest', {'span': '1', 'clients': 'one'}), ('Hpl', {}))]
    answers = planning.of_command(['-c', str(TOP / 'checks'), '-r', '--system', 'example-slurm'], cases).answers
    assert [answer.reason for answer in answers] == ['nodes=4: this case takes 2 nodes', 'nodes=4: this case takes 1 node', '', 'nodes=4: this case takes 1 node', '']


def test_a_comment_is_no_other_work(tmp_path):
    texts = ('x = 1\n', '"""A check."""\n# why\nx  =  1\n', 'x = 2\n')
    hashes = []
    for i, text in enumerate(texts):
        (tmp_path / f'{i}.py').write_text(text)
        hashes.append(identity.code(str(tmp_path / f'{i}.py')))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_check_is_its_sources_whatever_lies_beside_them(tmp_path, monkeypatch):
    """Outputs, pages, what Python compiled and folders that are called as a source do not count, nor do docstrings."""
    folder = tmp_path / 'checks' / 'memory' / 'toy'
    (folder / 'src').mkdir(parents=True)
    check = folder / 'toy.py'
    check.write_text('"""A toy."""\nfrom parity.measure.check.workload import Workload\n')
    (folder / 'src' / 'toy.c').write_text('int main;')
    before = identity.code(str(check))
    for name in ('outputs/one.txt', '__pycache__/toy.py', 'README.md', 'toy.bin', 'folder.txt/inside.bin'):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text('other')
    check.write_text('"""Another word."""\nfrom parity.measure.check.workload import Workload\n')
    identity.code.cache_clear()
    assert identity.code(str(check)) == before
    (folder / 'src' / 'toy.c').write_text('int main; int more;')
    identity.code.cache_clear()
    assert identity.code(str(check)) != before
