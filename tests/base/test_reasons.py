"""Why a case failed: the first line that tells an error, never so long that it costs the session."""

import sqlite3

import pytest
import yaml

from conftest import TOP
from jobs import sessions_of, verdict_of
from parity.base import reasons
from warm import reframe

RECORDED = TOP / 'tests' / 'recorded' / 'stderr'

TOLD = yaml.safe_load((RECORDED / 'expected.yaml').read_text())


@pytest.mark.parametrize('file', sorted(RECORDED.glob('*.txt')), ids=lambda file: file.stem)
def test_the_first_error_is_told(file):
    assert reasons.complaint(file.read_text()) == TOLD[file.stem]


@pytest.mark.parametrize('text, told', [
    ('', ''), ('reading input\nstep 1\n', 'step 1'),                    # no line tells an error: the last one
    ('WARNING: no error file is set\nmax error: 0\nno errors\nopen: permission denied\nfailed\n', 'open: permission denied'),
    # what Open MPI prints of every job on a machine without InfiniBand
    (f'{"-" * 74}\nA high-performance Open MPI point-to-point messaging module\nwas unable to find any relevant network interfaces:\n\n'
     'Module: OpenFabrics (openib)\n  Host: n1\n\nAnother transport will be used instead, although this may result in\n'
     f'lower performance.\n{"-" * 74}\nhpl: cannot open HPL.dat\n', 'hpl: cannot open HPL.dat'),
    # the frame has ended: its neighbours below are lines of their own
    (f'{"-" * 74}\nno error yet\n{"-" * 74}\nstep 1\nhpl: cannot open HPL.dat\nstep 2\n', 'hpl: cannot open HPL.dat'),
    ('Traceback (most recent call last):\n  a\nE: x\n\nDuring handling of the above exception, x\n\n' * 20_000, 'E: x')])
def test_what_tells_no_error_is_passed_over(text, told):
    assert reasons.complaint(text) == told
    assert len(reasons.complaint(f'error: {"x" * 10 ** 6}')) <= reasons.COMPLAINT


LOUD = '''
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, sanity_function
from parity.measure.check.workload import Metric, Workload


@rfm.simple_test
class Loud(rfm.RunOnlyRegressionTest, Workload):
    executable = 'python3'
    executable_opts = ['-c', '"import sys; sys.stderr.buffer.write(5_000_000 * bytes([255])); sys.exit(3)"']
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def place(self):
        self.without_launcher()

    def parse(self, text):
        return {'rate': 1.0}


@rfm.simple_test
class Foreign(rfm.RunOnlyRegressionTest):
    valid_systems = valid_prog_environs = ['*']
    executable = 'true'

    @sanity_function
    def always(self):
        return sn.assert_true(False, msg=5_000_000 * 'y')
'''


def test_a_line_of_megabytes_does_not_cost_the_session(checkout):
    (checkout / 'checks' / 'compute' / 'loud.py').write_text(LOUD)
    done = reframe(checkout, '-c checks/compute/loud.py -r --system local')
    assert 'Ran 2/2' in done.stdout and 'failed to store' not in done.stdout, done.stdout[-2000:]
    stored, = sessions_of(checkout)
    with sqlite3.connect(checkout / 'results' / 'results.db') as conn:
        size, = conn.execute('SELECT length(json_blob) FROM sessions').fetchone()
    assert size < 100_000 and len(stored['runs'][0]['testcases']) == 2
    assert all(log.stat().st_size < 10_000 for log in (checkout / 'results' / 'perflogs').rglob('*.log'))
    told = {c['check']: c['reason'] for c in verdict_of(checkout)[1]['cells']}
    assert told['Loud'].startswith('exit code 3; \ufffd\ufffd') and '(cut: 5000000 characters); although' in told['Loud']
