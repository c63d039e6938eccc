"""The verbs of ci/pbs."""

from __future__ import annotations

import os
import shutil
import time
from argparse import Namespace
from pathlib import Path

import daemons
import files
import machine
import options
import process
import record
from errors import Ended, say
from model import STATE
from record import HEAD, Pbs

NEEDED = ('ip', 'nsenter', 'unshare', 'taskset', 'findmnt', 'ps', 'su')
#: The program's name in messages.
ME = 'ci/pbs'


def up(args: Namespace) -> int:
    begun = time.monotonic()
    with machine.locked(ME):
        machine.check(ME, NEEDED, 'iproute2 util-linux procps')
        pbs = record.load()
        if pbs:
            machine.demand_same(ME, pbs, args, ('nodes', 'shared'))
        else:
            shared = options.folder(str(args.shared or args.results))
            pbs = _new(Pbs(nodes=args.nodes or 2, shared=str(shared), installed=args.pbs))
        daemons.ensure(pbs)
        process.wait(60, lambda: all(map(daemons.is_well, daemons.states(pbs).values())),
                     f'not ready: see ci/pbs status, and the logs in {STATE}/log and {STATE}/home', HEAD)
        daemons.demand_a_job(pbs)
    say(f'up in {time.monotonic() - begun:.1f} s: {HEAD} and {pbs.nodes} execution hosts; '
        f'shared folder {pbs.shared}')
    return 0


def down() -> int:
    return machine.down(ME, daemons.clear)


def status() -> int:
    pbs = record.load()
    if pbs is None:
        return machine.not_up(ME)
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
        raise Ended(3, 'not up: ci/pbs up')
    node = pbs.node(name)
    if node is None:
        raise Ended(2, f'{name!r}: unknown; valid: {", ".join(n.name for n in pbs.all())}')
    return machine.execute(ME, node, command, before=daemons.environment(pbs))


def _new(pbs: Pbs) -> Pbs:
    """Remove the leftovers of an interrupted or killed PBS, and make the new one's state folder."""
    machine.demand_gone(daemons.clear())
    os.makedirs(pbs.shared, exist_ok=True)
    for folder in ('bin', 'log', 'pids', 'run', 'etc', 'nodes', *(f'home/{node.name}' for node in pbs.all())):
        (STATE / folder).mkdir(mode=0o755, parents=True)
    here = Path(__file__).parent
    for file in (here / 'node', *(here.parent / 'cluster' / name for name in ('physical', 'checkout'))):
        shutil.copy(file, STATE / 'bin' / file.name)
    files.write(pbs)
    pbs.save()
    return pbs
