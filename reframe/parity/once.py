"""What ReFrame 4.10 does again at every case, done once: on a large site it takes longer than the measurements.

It starts `scontrol show hostname` at each look at the nodes of a job that has ended, at every line of its log too:
ten times a job. And it reads the file of accepted values for each case: seconds, where a thousand are accepted.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from reframe.core import pipeline
from reframe.core.schedulers import slurm


def install() -> None:
    _nodes_of_a_job()
    _file_of_references()


def _nodes_of_a_job() -> None:
    """Jobs of Slurm keep what they were told, as long as Slurm names the same nodes."""
    ask = slurm._SlurmJob.nodelist.fget

    def nodelist(job):
        spec, nodes = getattr(job, 'parity_nodes', (None, None))
        if not nodes or spec != job._nodespec:
            nodes = ask(job)
            if slurm.slurm_state_completed(job.state):
                job.parity_nodes = (job._nodespec, nodes)
        return nodes

    slurm._SlurmJob.nodelist = property(nodelist)


def _file_of_references() -> None:
    """A file is read again when it has changed; ReFrame makes values of its own of what it holds."""
    read, known = pipeline.yaml.safe_load, {}

    def safe_load(file):
        state = os.fstat(file.fileno())
        key = (file.name, state.st_ino, state.st_mtime_ns, state.st_size)
        if key not in known:
            known[key] = read(file)
        return known[key]

    pipeline.yaml = SimpleNamespace(safe_load=safe_load)
