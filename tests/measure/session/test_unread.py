"""A night in which a program prints what parity does not read: failed, exit code 4, with the reason by name."""

from __future__ import annotations

import json

import pytest

from conftest import shell

CHECK = '''
"""Toy: a program that prints what a test says."""

import reframe as rfm
from reframe.core.builtins import run_after

from parity.measure.check import Metric, Program, Workload

PROGRAM = Program('Toy', title=r'Toy (?P<version>\\S+)', tried=('1.0', '1.0'), alone='ranks : 1')


@rfm.simple_test
class Toy(rfm.RunOnlyRegressionTest, Workload):
    executable = './toy.sh'
    programs = ('toy.sh',)
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def place(self):
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


@pytest.mark.parametrize('script, kind, reason', [
    (f"printf '{TWO.format(n=1)}'", 'launch', ALONE), ("printf 'ranks : 1\\nranks : 1\\n' >&2; exit 1", 'launch', ALONE),
    (f"printf '{TWO.format(n=2)}'", 'unread', 'two runs in one file, lines 1 and 4'),
    ("echo a job; exit 3", '', "exit code 3; output incomplete: no title of Toy in 1 line; begins with 'a job'"),
    ("echo Toy 1.0", '', 'output incomplete: line 2: the output ends without "rate ..."')])
def test_what_is_not_read_is_failed_with_its_reason(checkout, script, kind, reason):
    folder = checkout / 'checks' / 'compute' / 'toy'
    (folder / 'programs').mkdir(parents=True)
    (folder / 'toy.py').write_text(CHECK)
    (folder / 'code.yaml').write_text('name: Toy\nrequires: [cc]\nfeature: cc\n')
    (folder / 'programs' / 'toy.sh').write_text(f'#!/bin/bash\n{script}\n')
    shell('. ci/activate; reframe -c checks/compute/toy -n Toy -r', checkout)
    done = shell('. ci/activate; parity verdict --json', checkout)
    cell, = json.loads(done.stdout)['cells']
    assert done.returncode == 4 and (cell['verdict'], cell['kind'], cell['reason']) == ('failed', kind, reason), done.stdout + done.stderr
