"""The running parts: the head with PBS's server, the execution hosts, and their states."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import files
import network
import process
from errors import Ended, say
from model import STATE, Node
from record import HEAD, Pbs

#: Time for an empty job.
JOB_SECONDS = 60


def ensure(pbs: Pbs) -> None:
    """Start every node and PBS daemon that does not run. Without the network, start all nodes anew."""
    if not process.alive('switch'):
        for node in pbs.all():
            process.end(node.name)
        network.new_switch()
    for node in pbs.all():
        if not process.alive(node.name):
            _start(node)
        elif dead := _dead(pbs, node):
            say(f'{node.name}: {", ".join(dead)} did not run: started again')
            with process.log(node.name).open('ab') as out:
                subprocess.run(_service(pbs, node, 'start'), env=process.ENVIRON, stdin=subprocess.DEVNULL,
                               stdout=out, stderr=out)


def _start(node: Node) -> None:
    words = ['taskset', '-c', ','.join(map(str, node.cores)), *process.new_node('physical', node.name)]
    pid = process.spawn(node.name, words, inner=True)
    network.plug_namespace(node, pid)
    process.wait(120, lambda: Path(f'/proc/{pid}/root{STATE}/ready').exists(),
                 f'{node.name} did not start', node.name)


def _service(pbs: Pbs, node: Node, verb: str) -> list[str]:
    """Return the words that run PBS's own service script on a node."""
    inside = process.inside(process.alive(node.name), *process.NODE)
    return ['taskset', '-c', ','.join(map(str, node.cores)), *inside,
            'env', f'PBS_CONF_FILE={files.CONF}', 'TMPDIR=/var/tmp', f'{pbs.installed}/libexec/pbs_init.d', verb]


def _dead(pbs: Pbs, node: Node) -> list[str]:
    """Return the node's daemons that should run and do not, by the names of PBS's service script."""
    if not process.alive(node.name):
        return []
    done = subprocess.run(_service(pbs, node, 'status'), env=process.ENVIRON, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    return re.findall(r'^(\w+) is not running', done.stdout, re.MULTILINE)


def demand_a_job(pbs: Pbs) -> None:
    """Demand that a job runs on all hosts: an idle scheduler looks well. Busy hosts prove it already."""
    if any(state != 'free' for name, state in states(pbs).items() if name != HEAD):
        return
    job = _ask(pbs, 'qsub', '-N', 'parity-up', '-R', 'oe', '-l', f'select={pbs.nodes}:ncpus=1',
               '-l', 'place=scatter', '-l', 'walltime=60', '--', '/bin/true').strip()
    deadline = time.monotonic() + JOB_SECONDS
    while not (said := _job(pbs, job)).get('job_state') == 'F':
        if time.monotonic() > deadline:
            _ask(pbs, 'qdel', '-x', '-W', 'force', job)
            raise Ended(4, f'no job runs: a job on all hosts did not end within {JOB_SECONDS} s: {_why(said)}')
        time.sleep(0.2)
    if said.get('Exit_status') != '0':
        raise Ended(4, f'a job on all hosts failed: {_why(said)}')


def _job(pbs: Pbs, job: str) -> dict[str, str]:
    told = _ask(pbs, 'qstat', '-x', '-f', '-w', job) if job else ''
    return dict(re.findall(r'^    (\S+) = (.*)$', told, re.MULTILINE))


def _why(said: dict[str, str]) -> str:
    configuration = STATE / 'home' / HEAD / 'sched_priv/sched_config'
    if not configuration.exists():
        return f'the scheduler has no configuration, {configuration} is not there'
    return said.get('comment') or f'see the logs in {STATE}/home; ci/pbs down and up make it anew'


def clear() -> list[str]:
    """Take everything back; return the names of leftovers."""
    left = [f'process {pid}' for pid in process.end_all()]
    shutil.rmtree(STATE, ignore_errors=True)
    return left + ([str(STATE)] if STATE.exists() else [])


def environment(pbs: Pbs) -> list[str]:
    """Return the words that let PBS's commands find their server."""
    return ['env', f'PBS_CONF_FILE={files.CONF}', f'PATH={os.environ["PATH"]}:{pbs.installed}/bin']


def states(pbs: Pbs) -> dict[str, str]:
    """Return the states of the server and of each execution host; `unknown` if the server does not answer."""
    said = dict(line.split()[:2] for line in _ask(pbs, 'pbsnodes', '-aS').splitlines()[2:])
    server = _ask(pbs, 'qstat', '-B').split()
    dead = _dead(pbs, pbs.head())
    return {HEAD: f'no {",".join(dead)}' if dead else server[-1] if server else 'unknown',
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
