"""Common parts of ci/cluster and ci/pbs: each takes this machine, one at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nodes
import process
from errors import Ended, say
from model import STATE, Node

#: Where each keeps its state while it is up.
PLACES = {'ci/cluster': Path('/run/parity-cluster'), 'ci/pbs': Path('/run/parity-pbs')}


def check(program: str, needed: Iterable[str], debian: str) -> None:
    """Refuse, before any change, a machine that is taken, lacks a program, or has no root."""
    for other, place in PLACES.items():
        if other != program and place.exists():
            raise Ended(2, f'{other} is up on this machine: {other} down first: both would measure on the same '
                          'cores and answer the same commands')
    missing = [name for name in needed if not shutil.which(name, path=process.ENVIRON['PATH'])]
    if missing:
        raise Ended(4, f'not here: {", ".join(missing)} (Debian: {debian})')
    if os.geteuid():
        raise Ended(4, 'needs root (namespaces, links, cgroups)')


def demand_same(program: str, there: object, args: Namespace, names: Iterable[str]) -> None:
    """Refuse options that contradict the running cluster."""
    for name in names:
        asked, known = getattr(args, name), getattr(there, name)
        if asked is not None and str(asked) != str(known):
            option = name.replace('_', '-')
            raise Ended(2, f'up already, with --{option} {known or "not given"}: {program} down first')


def demand_gone(left: list[str]) -> None:
    if left:
        raise Ended(4, f'could not be removed: {", ".join(left)}')


def down(program: str, clear: Callable[[], list[str]]) -> int:
    """Take everything back with `clear`, which returns the leftovers."""
    begun = time.monotonic()
    with locked(program):
        there = STATE.exists()
        demand_gone(clear())
    say(f'down in {time.monotonic() - begun:.1f} s' if there else 'not up')
    return 0


def not_up(program: str) -> int:
    print('not up' if not STATE.exists() else f'not up: cut off while it started; {program} up or down')
    return 3


def execute(program: str, node: Node, command: list[str], before: Iterable[str] = ()) -> int:
    """Run a command on a node, `before` in front, and return its exit code."""
    if not command:
        raise Ended(2, 'exec: no command')
    if not process.alive(node.name):
        raise Ended(4, f'{node.name} does not run; {program} up')
    return nodes.execute(node, [*before, *command], os.getcwd())


@contextmanager
def locked(program: str) -> Iterator[None]:
    """Let one process at a time change the machine; another waits. The lock is on the folder above, not a file."""
    folder = os.open(STATE.parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f'another {program} is at work: waiting for it')
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
