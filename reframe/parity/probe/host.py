"""The answers of the login node itself. Nothing is changed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from parity.machine.procfs import Tree
from parity.probe.batch import maybe
from parity.probe.model import Filesystem, Link


def modules() -> tuple[str, list[str]]:
    """Return ReFrame's word for the module system of this node, and its modules that bring an MPI."""
    lmod, tcl = os.environ.get('LMOD_CMD'), os.environ.get('MODULES_CMD')
    if not (command := lmod or tcl):
        return 'nomod', []
    # Lmod lists on standard output when it is asked for a shell's code, Environment Modules on standard error
    listed = maybe('bash', '-c', '"$0" bash --terse avail 2>&1', command)
    return ('lmod' if lmod else 'envmod'), mpis(listed)


def mpis(listed: str) -> list[str]:
    """Return the modules with an MPI from the output of `module --terse avail`."""
    names = re.findall(r'^([\w.+-]*(?:openmpi|mpich|mvapich|impi|intel-?mpi|hpcx|cray-mpich)[\w.+-]*/[\w./+-]+)',
                       listed, re.MULTILINE | re.IGNORECASE)
    return list(dict.fromkeys(name.rstrip('/') for name in names))


#: File systems that every node of a cluster may see (the third field of /proc/mounts).
_SHARED = re.compile(r'lustre|gpfs|beegfs|nfs[34]?|ceph|wekafs|panfs|pvfs2|orangefs|glusterfs|quobyte|vast'
                     r'|fuse\.(glusterfs|dfuse|ceph|juicefs)')
#: Variables with a folder of the user's own, and our name for it.
_VARIABLES = {'SCRATCH': 'scratch', 'WORK': 'work', 'HOME': 'home'}
#: Compute capability by the name of the GPU (NVIDIA, "CUDA GPU Compute Capability"), and AMD's gfx names
#: (ROCm documentation, "Accelerator and GPU hardware specifications").
_ARCHES = {'v100': 'sm_70', 't4': 'sm_75', 'a100': 'sm_80', 'a30': 'sm_80', 'a40': 'sm_86', 'a10': 'sm_86',
           'l4': 'sm_89', 'l40': 'sm_89', 'l40s': 'sm_89', 'h100': 'sm_90', 'h200': 'sm_90', 'gh200': 'sm_90',
           'b200': 'sm_100', 'gb200': 'sm_100', 'mi50': 'gfx906', 'mi100': 'gfx908', 'mi210': 'gfx90a',
           'mi250': 'gfx90a', 'mi250x': 'gfx90a', 'mi300a': 'gfx942', 'mi300x': 'gfx942'}


def filesystems(mounts: str, env: Mapping[str, str],
                writable: Callable[[str], bool]) -> tuple[list[Filesystem], list[str]]:
    """Return this user's folders on the shared file systems of /proc/mounts, and the mount points without one."""
    lines = ([*line.split(' '), '', '', '', ''] for line in mounts.splitlines())
    shared = {re.sub(r'\\(\d{3})', lambda octal: chr(int(octal[1], 8)), point): kind
              for _, point, kind, options, *_ in lines
              if _SHARED.fullmatch(kind) and 'ro' not in options.split(',')}     # read-only ones are software

    def point_of(path: str) -> str:
        above = [p for p in shared if path == p or path.startswith(p.rstrip('/') + '/')]
        return max(above, key=len, default='')

    found, unknown = [], []
    for variable, name in _VARIABLES.items():
        path = os.path.normpath(env[variable]) if env.get(variable, '').startswith('/') else ''
        if (point := point_of(path)) and writable(path):
            found.append(Filesystem(name, path, f'${variable}, {shared[point]} at {point}'))
    user = env.get('USER') or env.get('LOGNAME') or ''
    taken = {point_of(f.path) for f in found}
    for point in (p for p in shared if p not in taken):
        own = next((p for p in (f'{point}/{user}', f'{point}/users/{user}') if user and writable(p)), '')
        if own:
            name = re.sub(r'[^A-Za-z0-9_-]', '-', point.strip('/'))
            found.append(Filesystem(name, own, f'{shared[point]} at {point}'))
        else:
            unknown.append(f'{shared[point]} at {point}')
    return found, unknown


def link(root: Tree) -> tuple[Link | None, str]:
    """Return the fastest active port for MPI traffic on this node; else None and the reason."""
    ports = []
    for device in root.listing('sys/class/infiniband'):
        for port in root.names(f'sys/class/infiniband/{device}/ports'):
            rate, state, layer = (root.text(f'sys/class/infiniband/{device}/ports/{port}/{name}') or ''
                                  for name in ('rate', 'state', 'link_layer'))
            if 'ACTIVE' in state and (found := re.match(r'([\d.]+) Gb/sec', rate)):
                told = ', '.join(filter(None, (rate, layer)))
                ports.append(Link(float(found[1]) * 125, f'{device} port {port}: {told}'))
    for name in root.names('sys/class/net', 'hsn'):         # HPE Slingshot
        if (speed := root.number(f'sys/class/net/{name}/speed') or 0) > 0:
            ports.append(Link(speed / 8, f'{name}: {speed} Mb/s'))
    if not ports:
        return None, 'no active port below /sys/class/infiniband, no hsn interface'
    best = max(ports, key=lambda port: port.rate)
    return best._replace(source=best.source + (f'; {len(ports)} such ports here' if len(ports) > 1 else '')), ''


def arch(kind: str, seen: str) -> tuple[str, str]:
    """Return the architecture to build for a GPU, and its source; ``seen`` is the output of nvidia-smi."""
    words = _words(kind)
    for name, _, capability in (line.partition(', ') for line in seen.splitlines()):
        if re.fullmatch(r'\d+\.\d', capability) and (not kind or set(words) & set(_words(name))):
            return 'sm_' + capability.replace('.', ''), f'nvidia-smi of this node: {name}'
    known = next((_ARCHES[word] for word in words if word in _ARCHES), '')
    return known, 'by its name' if known else ''


def _words(text: str) -> list[str]:
    return re.split(r'[^a-z0-9]+', text.lower())
