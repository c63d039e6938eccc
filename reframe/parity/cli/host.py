"""`parity facts`, `doctor` and `probe`: this machine, its readiness, and the system file of its cluster."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import socket
from pathlib import Path

import yaml
from rich.text import Text

from parity.base import codes, files, findings, paths, yamlfile
from parity.base.colours import Console
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import counted
from parity.base.text import visible
from parity.measure import machine
from parity.measure.machine.procfs import Tree
from parity.measure.probe import login, partitions, write
from parity.measure.probe.login import TODO, Host
from parity.measure.software import discover
from parity.measure.software.programs import features
from parity.site import systems
from parity.site.systems import System

_STYLES = {'ok': 'green', 'note': 'yellow', 'lacking': 'bold red'}


def facts(brief: bool) -> None:
    """Print the software found here and, unless ``brief``, the machine and its limits with their source."""
    system = systems.read('local')
    cache = paths.results() / 'cache'
    found = discover.discover(paths.root(), system.environments, cache / 'software.json', system.name)
    print(found.announcement)
    for note in found.notes:
        print(f'note: {note}')
    if brief:
        return
    here = machine.load(cache / 'machine.json')
    limits, unlimited = machine.bounds(here, system.partitions[0].extras.model_dump()['limits'])
    told = {'machine': here.model_dump(mode='json'),
            'limits': {k: v.model_dump() for k, v in limits.items()}, 'no_limit': unlimited,
            'environments': {e.name: {'features': list(e.features), **e.software} for e in found.environs}}
    print(yaml.safe_dump(told, sort_keys=False, allow_unicode=True), end='')


def doctor(name: str, as_json: bool) -> int:
    """Print each finding of `parity doctor` as it is found out; return the exit code."""
    from parity.nightly import doctor
    name = name or systems.named([])
    systems.existing(name)
    found, console = [], Console(soft_wrap=True, highlight=False, emoji=False)
    for finding in doctor.findings(name):
        found.append(finding)
        if not as_json:
            line = Text(f'{finding.word:8}', style=_STYLES[finding.word])
            console.print(line.append(visible(f'{finding.area:20} {finding.what}'), style='none'))
            for more in filter(None, (finding.file, finding.fix)):
                console.print(Text(visible(f'{"":29}{more}'), style='dim'))
    code = findings.exit_code(found)
    if as_json:
        print(json.dumps({'system': name, 'exit_code': code, 'findings': [vars(f) for f in found]}, indent=1))
    else:
        print(findings.answer(name, found))
    return code


def probe(name: str) -> None:
    """Write systems/NAME/system.yaml. Raises UsageError for a name that is not valid, or taken."""
    file = systems.file_of(name)
    if not re.fullmatch(r'[A-Za-z0-9_-]+', name):
        raise UsageError(f"{name!r}: a system's name must have letters, digits, _ and - only")
    if file.exists():
        raise UsageError(f'{file} is there already and is not overwritten: take another name, or move it away')
    cluster = login.cluster()
    if not cluster.nodes:
        raise InfrastructureError(f'{cluster.version} has no node in any queue: nothing can be measured; '
                                  'ask the operator which queues have nodes')
    found, unknown = login.filesystems(Path('/proc/mounts').read_text(), os.environ, lambda path: (
        os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)))
    host = Host(socket.gethostname(), found, unknown, login.link(Tree('/')), _codes())
    text = write.system(name, cluster, host, datetime.date.today())
    files.write(file, text)
    try:
        system = yamlfile.read(file, System)
    except UsageError:                  # the other systems must stay usable
        file.unlink()
        raise
    names = ', '.join(p.name for p in system.partitions)
    print(f'{file}: partitions {names}; {counted(text.count(TODO) - 1, "line")} with {TODO}')
    for part in system.partitions:
        for problem in partitions.problems(name, part, cluster):
            print(f'note: {problem}')
    print(f'next: parity doctor --system {name}')


def _codes() -> tuple[str, ...]:
    """Return the codes of this node's own packages; file copies need only python3, which every node has."""
    offered = {feature for feature, programs in features().items()
               if programs == ('python3',) or all(map(shutil.which, programs))}
    return tuple(dict.fromkeys(code.feature for code in codes.every() if code.feature in offered))
