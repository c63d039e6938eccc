"""The file that a person would have written, each value with its source beside it."""

from __future__ import annotations

import datetime
import re

from parity.probe import partition
from parity.probe.ask import ASKS
from parity.probe.likes import of as like_nodes
from parity.probe.model import TODO, Cluster, Host

#: A comment begins here, or two blanks behind what is longer.
_COLUMN = 58


def system(name: str, cluster: Cluster, host: Host, today: datetime.date) -> str:
    """systems/<name>/system.yaml."""
    likes, left = like_nodes(cluster.nodes, cluster.queues, ASKS[cluster.scheduler])
    lines = _head(name, cluster, host, today)
    for index, like in enumerate(likes):
        lines += partition.lines(like, cluster, host, first=index == 0)
    lines += [('', f'left out: {queue} ({partition.short(why)})') for queue, why in left.items()]
    return ''.join(_line(*line) for line in lines)


def _line(text: str, comment: str = '') -> str:
    if not comment:
        return f'{text}\n'
    return f'{text:<{_COLUMN}}# {comment}\n' if text and len(text) < _COLUMN else \
        f'{text}{"  " if text else ""}# {comment}\n'


def _head(name: str, cluster: Cluster, host: Host, today: datetime.date) -> list[tuple]:
    lines = [('', f'Written by `parity probe {name}` on {host.name}, {today}, from what {cluster.version}'),
             ('', f'and this node tell. Lines with {TODO} want a person; `parity doctor --system {name}`'),
             ('', 'says what is left.')]
    lines += [('', f'{TODO} {note}') for note in cluster.notes]
    if cluster.licences:
        lines.append(('', f'{TODO} licences, which `access` may have to take (--licenses=NAME:1): '
                      + partition.short(', '.join(cluster.licences))))
    mpi = ', '.join(host.mpi_modules[:1]) or 'gcc/13, openmpi/5'
    here = f'{TODO} start on this node without a module: on the others, too?'
    hosts = partition.single(f'^{re.escape(host.name)}$')
    return [*lines, (f'name: {name}',), (f'descr: {partition.quoted(cluster.name or name)}',),
            (f'hostnames: [{hosts}]', f'{TODO} the other login nodes'),
            (f'modules_system: {host.modules_system}', _of_modules(host)),
            ('detect: false', 'a login node says nothing about compute nodes'),
            ('requires: offered', 'what must be measured, or a list of codes'),
            ('environments:', 'modules that bring codes; `parity software build` adds its own'),
            (f'  - {{name: distro, codes: [{", ".join(host.codes)}]}}', here),
            (f'# - {{name: site, modules: [{mpi}], codes: [hpl, osu]}}',), ('partitions:',)]


def _of_modules(host: Host) -> str:
    if host.modules_system == 'nomod':
        return 'neither LMOD_CMD nor MODULES_CMD is set here'
    return 'with an MPI: ' + (partition.short(', '.join(host.mpi_modules)) or 'none found')
