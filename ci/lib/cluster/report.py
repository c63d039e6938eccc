"""The verbs `status` and `logs`. They need no root and change nothing."""

from __future__ import annotations

import subprocess

import head
import machine
import model
import nodes
import process
from errors import Ended


def status() -> int:
    cluster = model.load()
    if cluster is None:
        return machine.not_up('ci/cluster')
    print(f'virtual backend  {cluster.backend}{f" ({cluster.why})" if cluster.why else ""}')
    if cluster.uml:
        print(f'linux.uml        {cluster.uml}')
    versions = nodes.versions()
    print(f'slurm            {" and ".join(sorted(versions)) or "unknown"} {cluster.slurm}')
    print(f'shared folder    {cluster.shared}')
    print(f'link rates       physical {cluster.physical_rate or "unlimited"}, '
          f'virtual {cluster.virtual_rate or "unlimited"}' + (
              f", second network {cluster.second_network}" if cluster.second_network else ""))
    daemons = [_daemon(name) for name in ('munged', 'switch', *(['files'] if cluster.files == '9p' else []),
                                            'head', *head.DAEMONS)]
    states = nodes.slurm_states()
    computes = [_compute(node, states.get(node.name, 'unknown')) for node in cluster.computes()]
    states = nodes.partition_states()
    partitions = [_partition(name, states.get(name, 'unknown')) for name in cluster.partitions()]
    return 0 if len(versions) == 1 and all(daemons) and all(computes) and all(partitions) else 4


def logs(name: str | None) -> int:
    folder = model.STATE / 'log'
    known = sorted(file.stem for file in folder.glob('*.log')) if folder.is_dir() else []
    if not known:
        raise Ended(3, 'not up: no logs')
    if name is None:
        print(*(folder / f'{each}.log' for each in known), sep='\n')
        return 0
    if name not in known:
        raise Ended(2, f'{name!r}: no such log; valid: {", ".join(known)}')
    return subprocess.run(['tail', '-n', '60', str(folder / f'{name}.log')]).returncode


def _daemon(name: str) -> bool:
    pid = process.alive(name)
    print(f'{name:<10} {f"pid {pid}" if pid else "DOES NOT RUN"}')
    return pid is not None


def _partition(name: str, state: str) -> bool:
    print(f'partition  {name:<12} {state}')
    return state == 'up'


def _compute(node: model.Node, state: str) -> bool:
    pid = process.alive(node.name)
    cores = ','.join(map(str, node.cores))
    print(f'{node.name:<10} {f"pid {pid}" if pid else "DOES NOT RUN":<12} {state:<10} {node.kind:<8} '
          f'{node.address} core {cores}')
    return pid is not None and (node.kind == 'cloud' or nodes.is_well(state))
