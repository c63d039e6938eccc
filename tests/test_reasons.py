"""Why a case failed: the first line that tells an error, never so long that it costs the session."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

import sessions as made
from conftest import TOP, shell
from jobs import sessions_of, verdict_of
from parity.base import reasons
from parity.records import record

RECORDED = TOP / 'tests' / 'recorded' / 'stderr'

#: What Slurm 22.05, Open MPI 4.1.4, Python 3.11 and bash printed, and what of it is told.
TOLD = {
    'mpi-abort': 'MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD with errorcode 9.',
    'mpi-exit': 'Primary job  terminated normally, but 1 process returned a non-zero exit code. Per user-direction, '
                'the job has been aborted.',
    'mpi-missing': 'mpirun was unable to launch the specified application as it could not access or execute an '
                   'executable: Executable: ./nosuch.exe Node: n1',
    'mpi-python': 'RuntimeError: input deck cannot be read',
    'mpi-rank': '[n1:28549] *** An error occurred in MPI_Send: MPI_ERR_RANK: invalid rank',
    'mpi-root': 'mpirun has detected an attempt to run as root.',
    'mpi-segv': '[n1:28594] Signal: Segmentation fault (11)',
    'mpi-slots': 'There are not enough slots available in the system to satisfy the 64 slots that were requested by '
                 'the application: ./abort.exe',
    'python-memory': 'MemoryError',
    'shell': 'job.sh: line 2: nosuch_program: command not found',
    'shell-cd': 'ok.sh: line 2: cd: /nowhere: No such file or directory',
    'srun-abort': 'MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 9.',
    'srun-exit': 'srun: error: p2: task 0: Exited with exit code 1',
    'srun-missing': 'slurmstepd-p2: error: execve(): /home/ops/run/./nosuch.exe: No such file or directory',
    'srun-mpi': "srun: error: Couldn't find the specified plugin name for mpi/nosuch looking at all files",
    'srun-oom': 'srun: error: p1: task 0: Out Of Memory',
    'srun-part': 'srun: error: invalid partition specified: nosuch',
    'srun-python': 'RuntimeError: input deck cannot be read',
    'srun-rank': '[p2:00196] *** An error occurred in MPI_Send: MPI_ERR_RANK: invalid rank',
    'srun-segv': '[p2:175  :0:175] Caught signal 11 (Segmentation fault: address not mapped to object at address '
                 '(nil))',
    'srun-time': 'slurmstepd-p1: error: *** STEP 8.0 ON p1 CANCELLED AT 2026-11-22T11:27:10 DUE TO TIME LIMIT ***',
}


@pytest.mark.parametrize('name', sorted(file.stem for file in RECORDED.glob('*.txt')))
def test_the_first_error_is_told(name):
    assert reasons.complaint((RECORDED / f'{name}.txt').read_text()) == TOLD[name]


@pytest.mark.parametrize('text, told', [
    ('', ''), ('\n \n', ''),
    ('reading input\nstep 1\nstep 2\n', 'step 2'),                   # no line tells an error: the last one
    ('srun: job 4 queued and waiting for resources\nsrun: job 4 has been allocated resources\n'
     'srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library\n'
     'srun: error: cannot create mpi context for mpi/pmix\n',
     'srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library'),
    ('WARNING: no error file is set\nmax error: 0\nno errors\nopen: permission denied\nfailed\n',
     'open: permission denied'),
    # what Open MPI prints of every job on a machine without InfiniBand
    ('-' * 74 + '\nA high-performance Open MPI point-to-point messaging module\nwas unable to find any relevant network '
     'interfaces:\n\nModule: OpenFabrics (openib)\n  Host: n1\n\nAnother transport will be used instead, although this '
     'may result in\nlower performance.\n' + '-' * 74 + '\nhpl: cannot open HPL.dat\n', 'hpl: cannot open HPL.dat'),
    ('Traceback (most recent call last):\n  File "x", line 1\n', 'File "x", line 1'),
    ('----------\nrates\n----------\n', 'rates'),
])
def test_what_tells_no_error_is_passed_over(text, told):
    assert reasons.complaint(text) == told


def test_a_long_complaint_is_cut_and_says_how_long_it_was():
    told = reasons.complaint('error: ' + 'x' * 5_000_000)
    assert len(told) <= reasons.COMPLAINT and told.startswith('error: xxx') and '(cut: ' in told
    chained = 'Traceback (most recent call last):\n  a\nE: x\n\nDuring handling of the above exception, x\n\n' * 20_000
    assert reasons.complaint(chained) == 'E: x'


def test_a_stored_reason_of_megabytes_is_cut_where_it_is_read():
    for raw, noted in (({'result': 'fail', 'fail_reason': 'x' * 10 ** 6}, {}), ({'result': 'fail'}, {'reason': 'x' * 10 ** 6}),
                        ({'result': 'abort', 'fail_reason': 'x' * 10 ** 6}, {})):
        told = made.report([{**made.ran(), **raw, 'parity': noted}], [])
        reason = record.of_report(told).runs[0].reason
        assert len(reason) < 500 and 'cut: 1000000 characters' in reason


LOUD = '''
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, sanity_function
from parity.check.metric import Metric
from parity.check.workload import Workload

LINE = '"import sys; sys.stderr.buffer.write(5_000_000 * bytes([255])); sys.exit(3)"'


@rfm.simple_test
class Loud(rfm.RunOnlyRegressionTest, Workload):
    executable = 'python3'
    executable_opts = ['-c', LINE]
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def place(self):
        self.without_launcher()

    def parse(self, text):
        return {'rate': 1.0}


@rfm.simple_test
class Foreign(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'true'

    @sanity_function
    def always(self):
        return sn.assert_true(False, msg=5_000_000 * 'y')


@rfm.simple_test
class Skipped(rfm.RunOnlyRegressionTest, Workload):
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def place(self):
        self.skip_case(5_000_000 * 'z')
'''


def test_a_line_of_megabytes_does_not_cost_the_session(checkout):
    shutil.rmtree(checkout / 'checks')
    (checkout / 'checks' / 'compute').mkdir(parents=True)
    (checkout / 'checks' / 'compute' / 'loud.py').write_text(LOUD)
    done = shell('. ci/activate && reframe -c checks/ -r --system local', checkout)
    assert 'Ran 2/3' in done.stdout and 'failed to store' not in done.stdout, done.stdout[-2000:]
    stored, = sessions_of(checkout)
    with sqlite3.connect(checkout / 'results' / 'results.db') as conn:
        size, = conn.execute('SELECT length(json_blob) FROM sessions').fetchone()
    assert size < 100_000 and len(stored['runs'][0]['testcases']) == 3
    assert all(log.stat().st_size < 10_000 for log in (checkout / 'results' / 'perflogs').rglob('*.log'))
    told = {c['check']: c['reason'] for c in verdict_of(checkout)[1]['cells']}
    assert told['Loud'].startswith('exit code 3; \ufffd\ufffd') and '(cut: 5000000 characters); although' in told['Loud']
    assert told['Skipped'].startswith('zzz') and 'cut: 5000000 characters' in told['Skipped']
