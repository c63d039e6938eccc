"""The verbs that change the cluster."""

from __future__ import annotations

import os
import time
from argparse import Namespace

import backend
import fileserver
import head
import host
import machine
import model
import network
import newer
import node_files
import nodes
import options
import process
import trial
from errors import Ended, say
from model import Cluster

#: The program's name in messages.
ME = 'ci/cluster'


def up(args: Namespace) -> int:
    begun = time.monotonic()
    with machine.locked(ME):
        host.check()
        cluster = model.load()
        if cluster:
            machine.demand_same(ME, cluster, args, ('nodes', 'cpus', 'physical_rate', 'virtual_rate', 'shared',
                                                    'second_network', 'slurm', 'site', 'uml'))
            if not process.alive('switch'):
                say('its network is gone: starting it anew')
                cluster = _new(cluster)
        else:
            cluster = _new(_stated(args))
        _ensure(cluster)
        nodes.resume()
        _demand_well(cluster, [node.name for node in cluster.computes()])
        trial.demand(cluster)
    say(f'up in {time.monotonic() - begun:.1f} s: {cluster.nodes} physical nodes, {cluster.virtual_nodes} virtual '
        f'({cluster.backend}); shared folder {cluster.shared}')
    if cluster.slurm:
        say(f'its commands: export PATH={cluster.slurm}/bin:$PATH')
    return 0


def down() -> int:
    return machine.down(ME, _clear)


def kill(name: str) -> int:
    _cluster_with(name)
    process.end(name)
    return 0


def start(name: str) -> int:
    with machine.locked(ME):
        cluster = _cluster_with(name)
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
    node = _cluster_with(name).node(name)
    if node is None:
        raise Ended(2, f'{name} is a daemon, not a node')
    return machine.execute(ME, node, command)


def _clear() -> list[str]:
    if process.alive('slurmctld'):
        nodes.cancel_jobs()
    return host.clear()


def _stated(args: Namespace) -> Cluster:
    """Return the cluster that the options ask for, as far as this machine can make it."""
    wanted = args.nodes or 4
    shared = options.folder(str(args.shared or args.results))
    virtual = backend.choose(wanted, args.uml, not args.no_install)
    if virtual.backend == 'uml' and (args.cpus or 1) > 1:
        say('virtual nodes: one CPU each: a User-mode Linux kernel has no more')
    return Cluster(nodes=wanted, virtual_nodes=virtual.count, cpus=args.cpus or 1,
                   physical_rate=args.physical_rate, virtual_rate=args.virtual_rate, shared=str(shared),
                   second_network=args.second_network, slurm=str(args.slurm or ''), site=bool(args.site),
                   backend=virtual.backend, network=network.free(), files=fileserver.how(virtual.backend),
                   why=virtual.why, uml=virtual.uml)


def _new(cluster: Cluster) -> Cluster:
    """Remove the leftovers of an interrupted or killed cluster, and make the new one's state folder."""
    machine.demand_gone(host.clear(keep=newer.FOLDER))
    os.makedirs(cluster.shared, exist_ok=True)
    host.make_state(cluster)
    node_files.write(cluster)
    cluster.save()
    return cluster


def _ensure(cluster: Cluster) -> None:
    """Start every part that does not run: guests first, as they boot while the database starts."""
    host.ensure(cluster)
    network.ensure(cluster)
    fileserver.ensure(cluster)
    for node in reversed(cluster.computes()):
        nodes.ensure(cluster, node)
    _ensure_head(cluster)


def _ensure_head(cluster: Cluster) -> None:
    head.ensure_node(cluster)
    head.ensure_database()
    head.ensure_daemons(cluster)


def _demand_well(cluster: Cluster, names: list[str]) -> None:
    names = [name for name in names if cluster.node(name).kind != 'cloud']      # they sleep
    bad = nodes.wait_until_well(names, cluster.patience)
    if bad:
        raise Ended(4, f'not ready: {", ".join(bad)}; see ci/cluster logs')


def _cluster_with(name: str) -> Cluster:
    """Return the cluster if it is up and has a node or daemon of that name."""
    cluster = model.load()
    if cluster is None:
        raise Ended(3, 'not up: ci/cluster up')
    names = [*(node.name for node in cluster.all()), *head.DAEMONS]
    if name not in names:
        raise Ended(2, f'{name!r}: unknown; valid: {", ".join(names)}')
    return cluster
