"""The nodes of a job of Slurm: by the job's own word, and asked for once.

For a job on several nodes that ends within seconds sacct names fewer at first (COMPLETED on p1 of p[1-2], seconds
long: tried on Slurm 22.05), and ReFrame looks no more once a job has ended: a figure of two nodes would be that of
one. The job itself knows from its start. And ReFrame 4.10 starts `scontrol show hostname` at each look at the
nodes of a job that has ended, at every line of its log too: ten times a job.
"""

from __future__ import annotations

import re

from reframe.core.schedulers import slurm

from parity.scheduler import scheduled

#: A host list of Slurm's: n[1-4,7],gpu01. It becomes an argument of scontrol.
_HOSTLIST = re.compile(r'\w[\w.,\[\]-]*', re.ASCII)


def install() -> None:
    """Jobs of Slurm keep what they were told, as long as the same nodes are named."""
    ask = slurm._SlurmJob.nodelist.fget

    def nodelist(job):
        spec, nodes = getattr(job, 'parity_nodes', (None, None))
        if nodes and spec == job._nodespec:
            return nodes
        ended = slurm.slurm_state_completed(job.state)
        if ended:
            job._nodespec = _told_by_the_job(job) or job._nodespec
        nodes = ask(job)
        if ended:
            job.parity_nodes = (job._nodespec, nodes)
        return nodes

    slurm._SlurmJob.nodelist = property(nodelist)


def _told_by_the_job(job) -> str:
    said = scheduled.hostlist(job.workdir)
    return said if _HOSTLIST.fullmatch(said) else ''
