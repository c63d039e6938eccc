"""What each verb does, in order."""

from __future__ import annotations

import fcntl
import os
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

import backend
import fileserver
import head
import host
import model
import network
import node_files
import nodes
import options
import process
from model import Cluster
from told import Told, say


def up(args: Namespace) -> int:
    begun = time.monotonic()
    with _locked():
        host.check()
        cluster = model.load()
        if cluster:
            _same(cluster, args)
            if not process.alive('switch'):
                say('its network is gone: starting it anew')
                cluster = _new(cluster)
        else:
            cluster = _new(_stated(args))
        _ensure(cluster)
        nodes.resume()
        _demand_well(cluster, [node.name for node in cluster.computes()])
    say(f'up in {time.monotonic() - begun:.1f} s: {cluster.nodes} physical nodes, {cluster.virtual_nodes} virtual '
        f'({cluster.backend}); shared folder {cluster.shared}')
    return 0


def down() -> int:
    begun = time.monotonic()
    with _locked():
        there = model.STATE.exists()
        if process.alive('slurmctld'):
            nodes.cancel_jobs()
        left = host.clear()
    if left:
        raise Told(4, f'could not be removed: {", ".join(left)}')
    say(f'down in {time.monotonic() - begun:.1f} s' if there else 'not up')
    return 0


def kill(name: str) -> int:
    _known(name)
    process.end(name)
    return 0


def start(name: str) -> int:
    with _locked():
        cluster = _known(name)
        if name in head.DAEMONS:
            head.ensure_node(cluster)
            head.ensure_daemon(name)
            _demand_well(cluster, [node.name for node in cluster.computes() if process.alive(node.name)])
        elif name == 'head':
            _ensure_head(cluster)
        else:
            nodes.ensure(cluster, cluster.node(name))
            _demand_well(cluster, [name])
    return 0


def execute(name: str, command: list[str]) -> int:
    node = _known(name).node(name)
    if node is None:
        raise Told(2, f'{name} is a daemon, not a node')
    if not command:
        raise Told(2, 'exec: no command')
    if not process.alive(name):
        raise Told(4, f'{name} does not run; ci/cluster start {name}')
    return nodes.execute(node, command, os.getcwd())


def _stated(args: Namespace) -> Cluster:
    """A cluster as asked for, on what this machine has."""
    wanted = args.nodes or 4
    shared = options.folder(str(args.shared or args.results))
    virtual = backend.choose(wanted)
    if virtual.backend == 'uml' and (args.cpus or 1) > 1:
        say('virtual nodes: one CPU each: a User-mode Linux kernel has no more')
    return Cluster(nodes=wanted, virtual_nodes=virtual.count, cpus=args.cpus or 1,
                   physical_rate=args.physical_rate, virtual_rate=args.virtual_rate, shared=str(shared), backend=virtual.backend,
                   network=network.free(), files=fileserver.how(virtual.backend), why=virtual.why)


def _same(cluster: Cluster, args: Namespace) -> None:
    """What is up is as the options say."""
    for name in ('nodes', 'cpus', 'physical_rate', 'virtual_rate', 'shared'):
        asked, there = getattr(args, name), getattr(cluster, name)
        if asked is not None and str(asked) != str(there):
            option = name.replace('_', '-')
            raise Told(2, f'up already, with --{option} {there or "not given"}: ci/cluster down first')


def _new(cluster: Cluster) -> Cluster:
    """The state folder of a cluster about to start; what an interrupted or killed one left goes first."""
    left = host.clear()
    if left:
        raise Told(4, f'of a former cluster, could not be removed: {", ".join(left)}')
    os.makedirs(cluster.shared, exist_ok=True)
    host.make_state(cluster)
    node_files.write(cluster)
    cluster.save()
    return cluster


def _ensure(cluster: Cluster) -> None:
    """Start whatever does not run: guests first, as they boot while the database starts."""
    host.ensure(cluster)
    network.ensure(cluster)
    fileserver.ensure(cluster)
    for node in reversed(cluster.computes()):
        nodes.ensure(cluster, node)
    _ensure_head(cluster)


def _ensure_head(cluster: Cluster) -> None:
    head.ensure_node(cluster)
    head.ensure_database()
    head.ensure_daemons()


def _demand_well(cluster: Cluster, names: list[str]) -> None:
    bad = nodes.wait_until_well(names, cluster.patience)
    if bad:
        raise Told(4, f'not ready: {", ".join(bad)}; see ci/cluster logs')


def _known(name: str) -> Cluster:
    """The cluster, if it is up and has something of that name."""
    cluster = model.load()
    if cluster is None:
        raise Told(3, 'not up: ci/cluster up')
    names = [*(node.name for node in cluster.all()), *head.DAEMONS]
    if name not in names:
        raise Told(2, f'{name!r}: unknown; valid: {", ".join(names)}')
    return cluster


@contextmanager
def _locked() -> Iterator[None]:
    """One at a time changes the cluster, another waits. The folder itself is locked: no file stays."""
    folder = os.open(model.STATE.parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say('another ci/cluster is at work: waiting for it')
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
