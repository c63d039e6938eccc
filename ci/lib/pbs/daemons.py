"""What runs: the head with PBS's server, the execution hosts, and what the server says of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import files
import network
import process
from model import STATE, Node
from record import HEAD, Pbs


def ensure(pbs: Pbs) -> None:
    """Start whatever does not run; with the network gone, everything is started again."""
    if not process.alive('switch'):
        for node in pbs.all():
            process.end(node.name)
        network.new_switch()
    for node in pbs.all():
        if not process.alive(node.name):
            _start(node)


def _start(node: Node) -> None:
    words = ['taskset', '-c', ','.join(map(str, node.cores)), *process.new_node('physical', node.name)]
    pid = process.spawn(node.name, words, inner=True)
    network.plug_namespace(node, pid)
    process.wait(120, lambda: Path(f'/proc/{pid}/root{STATE}/ready').exists(),
                 f'{node.name} did not start', node.name)


def clear() -> list[str]:
    """Take everything back; what is still there afterwards."""
    left = [f'process {pid}' for pid in process.end_all()]
    shutil.rmtree(STATE, ignore_errors=True)
    return left + ([str(STATE)] if STATE.exists() else [])


def environment(pbs: Pbs) -> list[str]:
    """PBS's commands, and where they find their server."""
    return ['env', f'PBS_CONF_FILE={files.CONF}', f'PATH={os.environ["PATH"]}:{pbs.installed}/bin']


def states(pbs: Pbs) -> dict[str, str]:
    """What the server says of itself and of each execution host; `unknown` where it does not answer."""
    said = dict(line.split()[:2] for line in _ask(pbs, 'pbsnodes', '-aS').splitlines()[2:])
    server = _ask(pbs, 'qstat', '-B').split()
    return {HEAD: server[-1] if server else 'unknown',
            **{node.name: said.get(node.name, 'unknown') for node in pbs.computes()}}


def is_well(state: str) -> bool:
    return state in ('Active', 'free', 'job-busy', 'job-exclusive')


def _ask(pbs: Pbs, *command: str) -> str:
    head = process.alive(HEAD)
    if not head:
        return ''
    words = [*process.inside(head, *process.NODE), *environment(pbs), *command]
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=10).stdout
    except subprocess.TimeoutExpired:
        return ''
