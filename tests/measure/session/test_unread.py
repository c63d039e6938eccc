"""A night in which a program prints what parity does not read: failed, exit code 4, with the reason by name."""

from __future__ import annotations

import pytest

from conftest import belong_to, copied
from parity.judge.verdict import judge
from parity.judge.verdict.model import Verdict
from warm import reframe

CHECK = '''
"""Toy: a program that prints what a test says."""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.measure.check import Metric, Program, Workload

PROGRAM = Program('Toy', title=r'Toy (?P<version>\\S+)', tried=('1.0', '1.0'), alone='ranks : 1')


@rfm.simple_test
class Toy(rfm.RunOnlyRegressionTest, Workload):
    printed = parameter(PRINTED)
    programs = tuple(f'{name}.sh' for name in PRINTED)
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def place(self):
        self.executable = f'./{self.printed}.sh'
        self.without_launcher()

    def parse(self, text):
        values, facts = read(text)
        self.note(facts)
        return values


def read(text):
    out = PROGRAM.output(text)
    rate = out.figure(r'rate (\\d+\\.\\d)')
    return {'rate': float(rate)}, {'version': out.version, **PROGRAM.untried(out.version)}
'''
TWO = 'Toy 1.0\\nranks : {n}\\nrate 1.5\\nToy 1.0\\nranks : {n}\\nrate 1.5\\n'
ALONE = "2 ranks started alone: the launcher's MPI is not the program's; try srun --mpi=pmix"


#: What the program does, by the word for it; what the verdict says: the kind and the reason.
PRINTED = {
    'alone': (f"printf '{TWO.format(n=1)}'", 'launch', ALONE),
    'ended': ("printf 'ranks : 1\\nranks : 1\\n' >&2; exit 1", 'launch', ALONE),
    'twice': (f"printf '{TWO.format(n=2)}'", 'unread', 'two runs in one file, lines 1 and 4'),
    'other': ('echo a job; exit 3', '', "exit code 3; output incomplete: no title of Toy in 1 line; begins with 'a job'"),
    'cut': ('echo Toy 1.0', '', 'output incomplete: line 2: the output ends without "rate ..."')}


@pytest.fixture(scope='module')
def judged(tmp_path_factory, surveyed) -> Verdict:
    """The verdict on a run in which the program did each of PRINTED."""
    copy = copied(tmp_path_factory.mktemp('unread'))
    folder = copy / 'checks' / 'compute' / 'toy'
    (folder / 'programs').mkdir(parents=True)
    (folder / 'toy.py').write_text(CHECK.replace('PRINTED', repr([*PRINTED])))
    (folder / 'code.yaml').write_text('name: Toy\nrequires: [cc]\nfeature: cc\n')
    for name, (script, *_) in PRINTED.items():
        (folder / 'programs' / f'{name}.sh').write_text(f'#!/bin/bash\n{script}\n')
    with pytest.MonkeyPatch.context() as patch:
        belong_to(copy, patch)
        surveyed(copy, copy / 'results')
        reframe(copy, '-c checks/compute/toy -n Toy -r')
        patch.setenv('PARITY_ROOT', str(copy))
        return judge.newest()


@pytest.mark.parametrize('name', PRINTED)
def test_what_is_not_read_is_failed_with_its_reason(judged, name):
    _, kind, reason = PRINTED[name]
    cell, = (cell for cell in judged.cells if cell.case == f'Toy %printed={name}')
    assert (cell.verdict, cell.kind, cell.reason) == ('failed', kind, reason)
    assert judge.exit_code([cell]) == judged.exit_code == 4
