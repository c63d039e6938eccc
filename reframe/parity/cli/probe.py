"""`parity probe`: the system file of a cluster, from its login node."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import socket
from pathlib import Path

import typer

from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import counted

NAME = typer.Argument(metavar='NAME', help='The new system: systems/NAME/system.yaml.')


def run(name: str = NAME) -> None:
    """Write systems/NAME/system.yaml from what Slurm or PBS prints on this login node; it overwrites nothing."""
    from parity.base import files, yamlfile
    from parity.measure.machine.procfs import Tree
    from parity.measure.probe import login, modules, partitions, write
    from parity.site import systems
    file = systems.file_of(name)
    if not re.fullmatch(r'[A-Za-z0-9_-]+', name):
        raise UsageError(f"{name!r}: a system's name must have letters, digits, _ and - only")
    if file.exists():
        raise UsageError(f'{file} is there already and is not overwritten: take another name, or move it away')
    cluster = login.cluster()
    if not cluster.nodes:
        raise InfrastructureError(f'{cluster.version} has no node in any queue: nothing can be measured; '
                                  'ask the operator which queues have nodes')
    mounts = Path('/proc/mounts').read_text()
    filesystems, unknown = login.filesystems(mounts, os.environ, _is_writable)
    link = login.link(Tree('/'))
    host = login.Host(socket.gethostname(), filesystems, unknown, link, _codes(), tuple(modules.listed()))
    text = write.system(name, cluster, host, datetime.date.today())
    files.write(file, text)
    try:
        system = yamlfile.read(file, systems.System)
    except UsageError:                  # the other systems must stay usable
        file.unlink()
        raise
    names = ', '.join(part.name for part in system.partitions)
    to_fill_in = counted(text.count(login.TODO) - 1, 'line')
    print(f'{file}: partitions {names}; {to_fill_in} with {login.TODO}')
    for part in system.partitions:
        for problem in partitions.problems(name, part, cluster):
            print(f'note: {problem}')
    print(f'next: parity doctor --system {name}')


def _is_writable(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def _codes() -> tuple[str, ...]:
    """Return the codes of this node's own packages; file copies need only python3, which every node has."""
    from parity.base import codes
    from parity.measure.software.programs import features
    offered = set()
    for feature, programs in features().items():
        if programs == ('python3',) or all(map(shutil.which, programs)):
            offered.add(feature)
    return tuple(dict.fromkeys(code.feature for code in codes.every() if code.feature in offered))
