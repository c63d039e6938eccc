"""A trial job of two ranks in each partition: nodes may be idle in Slurm and still kill every job."""

from __future__ import annotations

import re
import subprocess

import process
from errors import Ended, say
from model import Cluster
from nodes import jobs_run

NAME = 'parity-trial'
#: Start ranks as a case does: without --mpi, by the cluster's default. Each rank prints its PMIx number.
RANKS = ['--ntasks=2', '--overcommit', '--kill-on-bad-exit', f'--job-name={NAME}', '--time=1',
         'printenv', 'PMIX_RANK']


def demand(cluster: Cluster) -> None:
    """End with the scheduler's reason if a partition does not run the job."""
    cancel()  # a killed controller takes a former trial job for running
    if jobs_run():
        say('jobs run here: no trial job was started')
        return
    begun = {name: _begin(name, min(2, count)) for name, count in cluster.partitions().items()}
    wrong = {name: why for name, srun in begun.items() if (why := why_not(name, srun, cluster.patience))}
    if wrong:
        raise Ended(4, '; '.join(f'partition {name} runs no job of two ranks: {wrong[name]}' for name in wrong))


def cancel() -> None:
    process.run('scancel', '--quiet', f'--name={NAME}')


def _begin(partition: str, nodes: int) -> subprocess.Popen:
    return subprocess.Popen(['srun', f'--partition={partition}', f'--nodes={nodes}', *RANKS], text=True, cwd='/',
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=process.ENVIRON)


def why_not(partition: str, srun: subprocess.Popen, seconds: float) -> str | None:
    """Return None if both ranks ran, else the reason."""
    try:
        printed, said = srun.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        why = _waits_for(partition)
        srun.kill()
        cancel()
        return f'not ended after {seconds:.0f} s: {why}'
    if srun.returncode == 0 and sorted(printed.split()) == ['0', '1']:
        return None
    errors = [' '.join(line.split()) for line in said.splitlines() if re.search(': (error|fatal): ', line)]
    return errors[0] if errors else f'srun ended {srun.returncode}, its ranks printed {printed.split()}'


def _waits_for(partition: str) -> str:
    """Return the job's state and the scheduler's reason."""
    told = process.run('squeue', '--noheader', f'--partition={partition}', f'--name={NAME}', '--format=%T (%r)')
    return told.strip() or 'the controller does not know the job'
