"""Asks the batch system of this login node what it has. Nothing is submitted, nothing is changed."""

from __future__ import annotations

import contextlib
import getpass
import grp
import os
import re
import shutil

from parity.base.errors import InfrastructureError, UsageError
from parity.probe import pbs, slurm
from parity.probe.model import Cluster
from parity.scheduler.command import SchedulerError, answer

#: How the batch systems are asked for nodes of a kind.
ASKS = {'slurm': {'label': '--constraint={}', 'gpu': '--gres=gpu:{}:{}', 'any gpu': '--gres=gpu:{1}'},
        'pbs': {'label': '{}', 'gpu': 'ngpus={1}', 'any gpu': 'ngpus={1}'}}


def cluster() -> Cluster:
    """What Slurm tells here, or PBS where no Slurm answers: commands of both may be installed. UsageError where
    neither is here, InfrastructureError where none answers."""
    refused = []
    for commands, asked in ((('scontrol',), slurm_cluster), (('pbsnodes', 'qstat'), pbs_cluster)):
        if all(map(shutil.which, commands)):
            try:
                return asked()
            except SchedulerError as err:       # its exit code is the command's own
                refused.append(str(err))
    if refused:
        raise InfrastructureError('; '.join(refused))
    raise UsageError('neither Slurm (scontrol) nor PBS (pbsnodes, qstat) is on PATH: run this on a login node; '
                     'a machine without a batch system is the system `local`')


def slurm_cluster() -> Cluster:
    """What Slurm tells. SchedulerError where it does not answer."""
    told = slurm.nodes(answer(['scontrol', '--oneliner', 'show', 'node']))
    shown = slurm.configured(answer(['scontrol', 'show', 'config']))
    who = getpass.getuser()
    default, accounts = slurm.accounts(maybe('sacctmgr', '-nP', 'show', 'user', who, 'withassoc',
                                              'format=defaultaccount,account'))
    queues = slurm.queues(answer(['scontrol', '--oneliner', 'show', 'partition']), _groups(), accounts)
    licences = slurm.licences(maybe('scontrol', '--oneliner', 'show', 'licenses'))
    plugins, mpi = maybe('srun', '--mpi=list'), shown.get('MpiDefault', '')
    return Cluster(
        scheduler='slurm', version=f'Slurm {shown.get("SLURM_VERSION", "")}'.strip(),
        name=shown.get('ClusterName', ''), nodes=tuple(told), queues=tuple(queues), source='scontrol show node',
        account=default,
        accounts=tuple(sorted(accounts)), licences=tuple(licences), launcher='srun',
        launcher_source=f'scontrol show config: MpiDefault={mpi or "none"}', mpi_type=slurm.mpi_type(plugins, mpi),
        notes=_slurm_notes(shown, default, plugins))


def _slurm_notes(shown: dict[str, str], account: str, plugins: str) -> list[str]:
    found = []
    if 'slurmdbd' not in shown.get('AccountingStorageType', ''):
        found.append("Slurm keeps no accounting here (AccountingStorageType), and ReFrame's backend slurm needs "
                     'sacct; scheduler: squeue does not, and reads no exit code')
    if 'associations' in shown.get('AccountingStorageEnforce', '') and not account:
        found.append('Slurm wants an account (AccountingStorageEnforce) and sacctmgr shows none of yours: '
                     'add --account=NAME to each access')
    if not plugins:
        found.append('srun --mpi=list does not answer: launcher and env_vars are a guess')
    return found


def pbs_cluster() -> Cluster:
    """What PBS tells. SchedulerError where it does not answer."""
    shown = answer(['qstat', '-Q', '-f'])
    server = pbs.server(answer(['qstat', '-B', '-f']))
    told = pbs.nodes(answer(['pbsnodes', '-a']), shown)
    queues = pbs.queues(shown, server.get('default_queue', ''), _groups(), getpass.getuser())
    notes = []
    if server.get('job_history_enable') != 'True':
        notes.append('PBS keeps no history of jobs (qmgr -c "set server job_history_enable = True"): '
                     'how a job ended is then not known')
    return Cluster('pbs', f'PBS {server.get("pbs_version", "")}'.strip(), server.get('name', ''), tuple(told),
                   tuple(queues), 'pbsnodes -a', launcher='mpirun',
                   launcher_source='PBS has no launcher of its own', notes=notes)


def modules() -> tuple[str, list[str]]:
    """The module system of this node, in ReFrame's word, and its modules that bring an MPI."""
    lmod, tcl = os.environ.get('LMOD_CMD'), os.environ.get('MODULES_CMD')
    command = lmod or tcl
    if not command:
        return 'nomod', []
    listed = ''
    with contextlib.suppress(SchedulerError):
        # Lmod lists on standard output when it is asked for a shell's code, Environment Modules on standard error
        listed = answer(['bash', '-c', '"$0" bash --terse avail 2>&1', command])
    return ('lmod' if lmod else 'envmod'), mpis(listed)


def mpis(listed: str) -> list[str]:
    """The modules with an MPI among those that `module --terse avail` lists."""
    names = re.findall(r'^([\w.+-]*(?:openmpi|mpich|mvapich|impi|intel-?mpi|hpcx|cray-mpich)[\w.+-]*/[\w./+-]+)',
                       listed, re.MULTILINE | re.IGNORECASE)
    return list(dict.fromkeys(name.rstrip('/') for name in names))


def maybe(*command: str) -> str:
    """What a command prints, '' where it fails: a site may do without it."""
    try:
        return answer(list(command))
    except SchedulerError:
        return ''


def _groups() -> set[str]:
    found = set()
    for number in {*os.getgroups(), os.getegid()}:
        with contextlib.suppress(KeyError):
            found.add(grp.getgrgid(number).gr_name)
    return found
