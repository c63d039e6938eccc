"""What each verb does, in order."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import daemons
import files
import nodes
import options
import process
import record
from model import STATE
from record import HEAD, Pbs
from told import Told, say

NEEDED = ('ip', 'nsenter', 'unshare', 'taskset', 'findmnt', 'ps', 'su')
SLURM = Path('/run/parity-cluster')


def up(args: Namespace) -> int:
    begun = time.monotonic()
    with _locked():
        _check()
        pbs = record.load()
        if pbs:
            _same(pbs, args)
        else:
            shared = options.folder(str(args.shared or args.results))
            pbs = _new(Pbs(nodes=args.nodes or 2, shared=str(shared), installed=args.pbs))
        daemons.ensure(pbs)
        process.wait(60, lambda: all(map(daemons.is_well, daemons.states(pbs).values())),
                     f'not ready: see ci/pbs status, and the logs in {STATE}/log and {STATE}/home', HEAD)
    say(f'up in {time.monotonic() - begun:.1f} s: {HEAD} and {pbs.nodes} execution hosts; '
        f'shared folder {pbs.shared}')
    return 0


def down() -> int:
    begun = time.monotonic()
    with _locked():
        there = STATE.exists()
        left = daemons.clear()
    if left:
        raise Told(4, f'could not be removed: {", ".join(left)}')
    say(f'down in {time.monotonic() - begun:.1f} s' if there else 'not up')
    return 0


def status() -> int:
    pbs = record.load()
    if pbs is None:
        print('not up' if not STATE.exists() else 'not up: cut off while it started; ci/pbs up or down')
        return 3
    print(f'OpenPBS          {pbs.installed}')
    print(f'shared folder    {pbs.shared}')
    states = daemons.states(pbs)
    for node in pbs.all():
        pid = process.alive(node.name)
        print(f'{node.name:<10} {f"pid {pid}" if pid else "DOES NOT RUN":<12} {states[node.name]:<14} '
              f'{node.address} core {",".join(map(str, node.cores))}')
    return 0 if all(map(daemons.is_well, states.values())) else 4


def execute(name: str, command: list[str]) -> int:
    pbs = record.load()
    if pbs is None:
        raise Told(3, 'not up: ci/pbs up')
    node = pbs.node(name)
    if node is None:
        raise Told(2, f'{name!r}: unknown; valid: {", ".join(n.name for n in pbs.all())}')
    if not command:
        raise Told(2, 'exec: no command')
    if not process.alive(name):
        raise Told(4, f'{name} does not run; ci/pbs up')
    return nodes.execute(node, [*daemons.environment(pbs), *command], os.getcwd())


def _check() -> None:
    missing = [name for name in NEEDED if not shutil.which(name, path=process.ENVIRON['PATH'])]
    if missing:
        raise Told(4, f'not here: {", ".join(missing)} (Debian: iproute2 util-linux procps)')
    if os.geteuid():
        raise Told(4, 'needs root (namespaces, links)')
    if SLURM.exists():
        raise Told(4, 'ci/cluster is up: ci/cluster down first: both would measure on the same cores')


def _same(pbs: Pbs, args: Namespace) -> None:
    """What is up is as the options say."""
    for name in ('nodes', 'shared'):
        asked, there = getattr(args, name), getattr(pbs, name)
        if asked is not None and str(asked) != str(there):
            raise Told(2, f'up already, with --{name} {there}: ci/pbs down first')


def _new(pbs: Pbs) -> Pbs:
    """The state folder of what is about to start; what an interrupted or killed one left goes first."""
    if left := daemons.clear():
        raise Told(4, f'of a former PBS, could not be removed: {", ".join(left)}')
    os.makedirs(pbs.shared, exist_ok=True)
    for folder in ('bin', 'log', 'pids', 'run', 'etc', 'nodes', *(f'home/{node.name}' for node in pbs.all())):
        (STATE / folder).mkdir(mode=0o755, parents=True)
    here = Path(__file__).parent
    for file in (here / 'node', here.parent / 'cluster/physical'):
        shutil.copy(file, STATE / 'bin' / file.name)
    files.write(pbs)
    pbs.save()
    return pbs


@contextmanager
def _locked() -> Iterator[None]:
    """One at a time changes it, another waits. The folder itself is locked: no file stays."""
    folder = os.open(STATE.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
