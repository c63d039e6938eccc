"""Ranks that run elsewhere than asked: the case is `failed`, and all of a partition are one incident."""

from __future__ import annotations

import os

import pytest

import hydra
from conftest import TOP
from parity.judge.verdict import incidents, judge
from warm import reframe

PROBES = '''
import reframe as rfm
from reframe.core.builtins import run_after
from parity.measure.check import Metric, Mpi


class Ranks(rfm.RunOnlyRegressionTest, Mpi):
    needs = frozenset({'mpi'})
    executable = 'echo'
    executable_opts = ['1']
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def place(self):
        self.place_ranks(2)

    def parse(self, text):
        return {'rate': 1.0}


@rfm.simple_test
class One(Ranks):
    pass


@rfm.simple_test
class Other(Ranks):
    pass


@rfm.simple_test
class Unbound(Ranks):
    binding = 'none'
'''


@pytest.mark.skipif(not hydra.has_two_cores(), reason='a machine of one core binds every rank')
@pytest.mark.parametrize('loose', [False, True])
def test_ranks_that_mpich_does_not_bind_are_failed_and_one_incident(tmp_path, results_here, monkeypatch, loose):
    folder = tmp_path / 'compute'
    folder.mkdir()
    (folder / 'probes.py').write_text(PROBES)
    monkeypatch.setenv('PATH', f'{hydra.put(tmp_path / "mpich", loose).parent}:{os.environ["PATH"]}')
    said = reframe(TOP, f'-c {folder} -r')
    verdict = judge.newest()
    failed = {cell.check: cell.kind.value for cell in verdict.cells if cell.verdict == 'failed'}
    assert failed == ({'One': 'placement', 'Other': 'placement'} if loose else {}), said.stdout
    # others may use the CPUs while the tests run
    assert {cell.verdict for cell in verdict.cells} <= {'failed', 'unreferenced', 'disturbed'}
    assert verdict.exit_code == (4 if loose else 0)
    titles = [each.title for each in incidents.record(verdict, 'local')]
    assert titles == ['local:default: One, Other, 2 cases: ranks placed otherwise than asked'] * loose
