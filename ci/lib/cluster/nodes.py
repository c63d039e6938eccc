"""Compute nodes: start and stop them, and reach them from outside Slurm."""

from __future__ import annotations

import datetime
import mailbox
import os
import re
import subprocess
import time
from pathlib import Path

import network
import process
import qemu
import uml
from errors import say
from model import Cluster, Node


def ensure(cluster: Cluster, node: Node) -> None:
    if process.alive(node.name):
        return
    if node.kind == 'virtual':
        _start_guest(cluster, node)
    else:
        pid = process.spawn(node.name, [*_pinned(node), *process.new_node('physical', node.name)], inner=True)
        network.plug_namespace(node, pid)


def execute(node: Node, command: list[str], folder: str) -> int:
    if node.kind == 'virtual':
        return mailbox.execute(node.name, command, folder)
    pid = process.alive(node.name)
    there = folder if Path(f'/proc/{pid}/root{folder}').is_dir() else '/'
    words = process.inside(pid, *process.NODE)[:-1]
    return subprocess.run([*words, f'--wdns={there}', '--', *command]).returncode


def _start_guest(cluster: Cluster, node: Node) -> None:
    network.plug_guest(node)
    console = mailbox.console(node.name)
    if cluster.backend == 'uml':
        words = uml.guest(node, uml.Linux(Path(cluster.uml)))
    else:
        words = qemu.guest(cluster.backend, node, cluster.shared)
    words = [*process.inside(process.alive('switch'), 'net'), *_pinned(node),
             'unshare', '--pid', '--fork', '--kill-child', '--', *words]
    with os.fdopen(os.open(console, os.O_RDWR), 'r+b', buffering=0) as stdin:
        process.spawn(node.name, words, inner=True, stdin=stdin)


def _pinned(node: Node) -> list[str]:
    return ['taskset', '-c', ','.join(map(str, node.cores))]


def wait_until_well(names: list[str], seconds: float) -> list[str]:
    """Wait until all nodes are well or the time is over; return the others, with the controller's words."""
    deadline = time.monotonic() + seconds
    while True:
        states = slurm_states()
        bad = [f'{name} is {states.get(name, "unknown")}' for name in names if not is_well(states.get(name, ''))]
        if not bad or time.monotonic() > deadline:
            return bad
        time.sleep(0.1)


def resume() -> None:
    """Return partitions and running nodes to service."""
    for name, state in partition_states().items():
        if state != 'up':
            say(f'partition {name} was {state}: resumed')
            ask('scontrol', 'update', f'partitionname={name}', 'state=up')
    for name, state in slurm_states().items():
        if process.alive(name) and {'drain', 'down'} & set(re.split(r'[+*]', state)):
            say(f'{name} was {state}: resumed')
            ask('scontrol', 'update', f'nodename={name}', 'state=resume')


def cancel_jobs() -> None:
    """Cancel all jobs, so that no srun waits for ever for its job."""
    if jobs := ask('squeue', '-h', '-o', '%A').split():
        ask('scancel', '--quiet', *jobs)
        deadline = time.monotonic() + 5
        while ask('squeue', '-h', '-o', '%A') and time.monotonic() < deadline:
            time.sleep(0.1)


def slurm_states() -> dict[str, str]:
    """Return the controller's state of each node; nothing if it does not answer."""
    wanted = r'(NodeName|State|SlurmdStartTime)=(\S+)'
    lines = ask('scontrol', '-o', 'show', 'node').splitlines()
    facts = [dict(reversed(re.findall(wanted, line))) for line in lines]
    return {node['NodeName']: _state(**node) for node in facts if 'NodeName' in node}


def versions() -> set[str]:
    """Return the versions of the controller and of the nodes that have registered."""
    shown = ask('scontrol', 'show', 'config') + ask('scontrol', '-o', 'show', 'node')
    return set(re.findall(r'\b(?:SLURM_VERSION *= *|Version=)(\S+)', shown))


def partition_states() -> dict[str, str]:
    """Return the controller's state of each partition; nothing if it does not answer."""
    told = ask('scontrol', '-o', 'show', 'partition')
    return {name: state.lower() for name, state in re.findall(r'PartitionName=(\S+) .* State=(\S+)', told)}


def jobs_run() -> bool:
    return bool(ask('squeue', '--noheader', '--states=running'))


def ask(*words: str) -> str:
    """Return Slurm's answer; nothing if there is none."""
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=5, env=process.ENVIRON).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ''


def _state(NodeName: str, State: str = '', SlurmdStartTime: str = '') -> str:  # noqa: N803  # Slurm's words
    """Return a node's state; `unregistered` until the slurmd of a restarted node has registered."""
    started = process.since(NodeName)
    try:
        registered = datetime.datetime.fromisoformat(SlurmdStartTime).timestamp()
    except ValueError:
        registered = 0
    return State.lower() if registered >= int(started) else 'unregistered'


def is_well(state: str) -> bool:
    base, *flags = state.split('+')
    return base in ('idle', 'allocated', 'mixed') and set(flags) <= {'completing', 'planned'}
