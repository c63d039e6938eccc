"""What the batch system and the login node itself tell. Nothing is submitted, nothing is changed."""

from __future__ import annotations

import contextlib
import getpass
import grp
import os
import re
import shutil
from collections.abc import Callable, Mapping

from parity.base.errors import InfrastructureError, UsageError
from parity.machine.cpuinfo import Tree
from parity.probe import pbs, slurm
from parity.probe.model import Cluster, Filesystem, Link
from parity.scheduler.command import SchedulerError, answer

#: How the batch systems are asked for nodes of a kind.
ASKS = {'slurm': {'label': '--constraint={}', 'gpu': '--gres=gpu:{}:{}', 'any gpu': '--gres=gpu:{1}'},
        'pbs': {'label': '{}', 'gpu': 'ngpus={1}', 'any gpu': 'ngpus={1}'}}


def cluster() -> Cluster:
    """What Slurm, or else PBS, tells here. UsageError for neither, InfrastructureError for no answer."""
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


#: File systems that every node of a cluster may see (the third field of /proc/mounts).
_SHARED = re.compile(r'lustre|gpfs|beegfs|nfs[34]?|ceph|wekafs|panfs|pvfs2|orangefs|glusterfs|quobyte|vast'
                     r'|fuse\.(glusterfs|dfuse|ceph|juicefs)')
#: Variables by which sites tell users of a folder of their own, and what we call it.
_VARIABLES = {'SCRATCH': 'scratch', 'WORK': 'work', 'HOME': 'home'}
#: Compute capability by the name of the GPU (NVIDIA, "CUDA GPU Compute Capability"), and AMD's gfx names
#: (ROCm documentation, "Accelerator and GPU hardware specifications").
_ARCHES = {'v100': 'sm_70', 't4': 'sm_75', 'a100': 'sm_80', 'a30': 'sm_80', 'a40': 'sm_86', 'a10': 'sm_86',
           'l4': 'sm_89', 'l40': 'sm_89', 'l40s': 'sm_89', 'h100': 'sm_90', 'h200': 'sm_90', 'gh200': 'sm_90',
           'b200': 'sm_100', 'gb200': 'sm_100', 'mi50': 'gfx906', 'mi100': 'gfx908', 'mi210': 'gfx90a',
           'mi250': 'gfx90a', 'mi250x': 'gfx90a', 'mi300a': 'gfx942', 'mi300x': 'gfx942'}


def filesystems(mounts: str, env: Mapping[str, str], writable: Callable[[str], bool]) -> tuple[list[Filesystem],
                                                                                         list[str]]:
    """Folders of this user's on shared file systems of /proc/mounts, and the mount points without one."""
    shared = _shared(mounts)
    found = []
    for variable, name in _VARIABLES.items():
        path = os.path.normpath(env[variable]) if env.get(variable, '').startswith('/') else ''
        point = _point(path, shared) if path else ''
        if point and writable(path):
            found.append(Filesystem(name, path, f'${variable}, {shared[point]} at {point}'))
    user = env.get('USER') or env.get('LOGNAME') or ''
    taken, unknown = {_point(f.path, shared) for f in found}, []
    for point, kind in shared.items():
        own = next((p for p in (f'{point}/{user}', f'{point}/users/{user}') if user and writable(p)), '')
        if point not in taken and own:
            found.append(Filesystem(re.sub(r'[^A-Za-z0-9_-]', '-', point.strip('/')), own, f'{kind} at {point}'))
        elif point not in taken:
            unknown.append(f'{kind} at {point}')
    return found, unknown


def _shared(mounts: str) -> dict[str, str]:
    """Mount point -> type; read-only ones are software, not storage."""
    found = {}
    for line in mounts.splitlines():
        _, point, kind, options, *_ = [*line.split(' '), '', '', '', '']
        if _SHARED.fullmatch(kind) and 'ro' not in options.split(','):
            found[re.sub(r'\\(\d{3})', lambda octal: chr(int(octal[1], 8)), point)] = kind
    return found


def _point(path: str, shared: Mapping[str, str]) -> str:
    """The mount point that ``path`` lies below, '' where it is on none of the shared ones."""
    above = [p for p in shared if path == p or path.startswith(p.rstrip('/') + '/')]
    return max(above, key=len, default='')


def link(root: Tree) -> tuple[Link | None, str]:
    """The port that carries MPI traffic, as far as this node tells; else None and what is known."""
    ports = []
    for device in root.listing('sys/class/infiniband'):
        for port in root.names(f'sys/class/infiniband/{device}/ports'):
            folder = f'sys/class/infiniband/{device}/ports/{port}'
            rate = re.match(r'([\d.]+) Gb/sec', root.text(f'{folder}/rate') or '')
            if rate and 'ACTIVE' in (root.text(f'{folder}/state') or ''):
                told = ', '.join(filter(None, (root.text(f'{folder}/rate'), root.text(f'{folder}/link_layer'))))
                ports.append(Link(float(rate[1]) * 125, f'{device} port {port}: {told}'))
    for name in root.names('sys/class/net', 'hsn'):         # HPE Slingshot
        speed = root.number(f'sys/class/net/{name}/speed')
        if speed and speed > 0:
            ports.append(Link(speed / 8, f'{name}: {speed} Mb/s'))
    if not ports:
        return None, 'no active port below /sys/class/infiniband, no hsn interface'
    more = f'; {len(ports)} such ports here' if len(ports) > 1 else ''
    best = max(ports, key=lambda p: p.rate)
    return Link(best.rate, best.source + more), ''


def arch(kind: str, seen: str) -> tuple[str, str]:
    """The architecture to build for a GPU, and what says so ('' for none); ``seen`` is what nvidia-smi prints."""
    words = _words(kind)
    for line in seen.splitlines():
        name, _, capability = line.partition(', ')
        if re.fullmatch(r'\d+\.\d', capability) and (not kind or set(words) & set(_words(name))):
            return 'sm_' + capability.replace('.', ''), f'nvidia-smi of this node: {name}'
    known = next((_ARCHES[word] for word in words if word in _ARCHES), '')
    return known, 'by its name' if known else ''


def _words(text: str) -> list[str]:
    return re.split(r'[^a-z0-9]+', text.lower())
