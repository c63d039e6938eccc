"""The examination of the batch system: it must answer, and have what the partitions of system.yaml say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator

from parity.base import strict, traps
from parity.base.errors import INFRASTRUCTURE, MISSING, USAGE
from parity.jobs.request import SCHEDULERS
from parity.nightly.doctor import Finding, lacking, note, ok
from parity.probe import ask
from parity.probe.model import Cluster, Node, Queue
from parity.scheduler import command
from parity.scheduler.command import SchedulerError, answer
from parity.scheduler.scheduled import LONGEST_WAIT
from parity.system.schema import Partition, System

#: How each batch system is asked, and what to try where it does not answer.
_ASK: dict[str, tuple[Callable[[], Cluster], str]] = {
    'slurm': (ask.slurm_cluster, 'scontrol ping; is this a login node, and SLURM_CONF right?'),
    'pbs': (ask.pbs_cluster, 'qstat -B; is this a login node, and PBS_CONF_FILE right?')}


def findings(system: System) -> Iterator[Finding]:
    """Examine each batch system once, then every partition behind it, then the launchers."""
    for kind, (cluster_of, mend) in _ASK.items():
        parts = [p for p in system.partitions if SCHEDULERS.get(p.scheduler) == kind]
        if not parts:
            continue
        try:
            cluster = cluster_of()
        except SchedulerError as err:
            yield lacking('scheduler', str(err), mend, INFRASTRUCTURE)
            continue
        yield ok('scheduler', f'{cluster.version} answers: {len(cluster.nodes)} nodes, '
                              f'{sum(n.up for n in cluster.nodes)} up')
        yield from (note('scheduler', text) for text in cluster.notes)
        if any(p.scheduler == 'slurm' for p in parts):
            yield _accounting()
        for part in parts:
            yield from _partition(part, cluster, kind)
    yield from _launchers(system)


def _accounting() -> Finding:
    try:
        answer(['sacct', '-n', '-X', '-P', '-S', 'now', '-o', 'JobID'])
        return ok('scheduler', 'sacct answers')
    except SchedulerError as err:
        return lacking('scheduler', f"{err}: ReFrame's backend slurm reads a job's end from it",
                       'bring slurmdbd up; or, without exit codes, scheduler: squeue', INFRASTRUCTURE)


def _partition(part: Partition, cluster: Cluster, kind: str) -> Iterator[Finding]:
    area = f'partition {part.name}'
    asked = command.read(kind, part.access).where
    name = asked.get('queue') or next((q.name for q in cluster.queues if q.default), '')
    queue = next((q for q in cluster.queues if q.name in name.split(',')), None)
    if queue is None:
        known = ', '.join(q.name for q in cluster.queues)
        yield lacking(area, f'{cluster.version} has no queue {name!r}', f'access: name one of {known}', USAGE)
        return
    nodes = [n for n in cluster.nodes if queue.name in n.queues]
    if said := traps.one_host(part):
        what, _, mend = said.partition('; ')
        yield note(area, what.partition(': ')[2], f'access: {mend}')
    if wrong := [*_wrong(part, queue, nodes, asked, cluster)]:
        yield from (lacking(area, what, mend, USAGE) for what, mend in wrong)
        return
    up, wanted = sum(n.up for n in nodes), part.extras.nodes or 0
    if queue.closed or not queue.up:
        closed = f'closed to you: {queue.closed}' if queue.closed else 'not up'
        yield lacking(area, f'{queue.name} is {closed}', 'ask its operator', INFRASTRUCTURE)
    elif not up:
        yield lacking(area, f'none of the {len(nodes)} nodes of {queue.name} is up', 'ask its operator',
                      INFRASTRUCTURE)
    elif wanted > up:
        yield note(area, f'{up} of {len(nodes)} nodes of {queue.name} are up: cases on {wanted} wait, at most '
                         f'{part.extras.max_pending_time or LONGEST_WAIT}',
                   f'extras: nodes: {up}, for as long as that lasts')
    else:
        yield ok(area, f'{queue.name} is up: {up} of {len(nodes)} nodes')


def _wrong(part: Partition, queue: Queue, nodes: list[Node], asked: dict[str, str],
           cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Tell what no job of the partition could ever have, and what mends that."""
    if queue.longest and part.time_limit and strict.seconds(part.time_limit) > queue.longest:
        yield f'time_limit {part.time_limit}: {queue.name} gives {queue.longest} s at most', 'state a shorter one'
    has = {'nodes': min(len(nodes), queue.most_nodes or len(nodes)),
           'cores': max((n.cores * n.threads for n in nodes), default=0),
           'memory_bytes': max((n.memory_bytes for n in nodes), default=0)}
    for key, most in has.items():
        value = getattr(part.extras, key) or 0
        if most and value > most:
            yield f'extras: {key} {value}: of {queue.name} a job gets at most {most}', f'{key}: {most}'
    account = asked.get('account')
    if account and cluster.accounts and account not in cluster.accounts:
        yield f'account {account!r} is none of yours', f'access: name one of {", ".join(cluster.accounts)}'
    known = [licence.partition(':')[0] for licence in cluster.licences]
    for option in part.access:
        licence = re.fullmatch(r'(?:--licenses=|-L\s*)(\w[^:@,]*).*', option)
        if licence and licence[1] not in known:
            yield f'{option}: there is no such licence', f'access: name one of {", ".join(known) or "none"}'


def _launchers(system: System) -> Iterator[Finding]:
    for launcher in sorted({p.launcher for p in system.partitions} - {'local', 'ssh'}):
        if path := shutil.which(launcher.partition('-')[0]):
            yield ok('launcher', f'{launcher}: {path}')
        elif system.detect:
            yield lacking('launcher', f'{launcher} is not on PATH', 'ci/quickstart installs an MPI', MISSING)
        else:
            yield note('launcher', f'{launcher} is not on PATH here: modules of an environment must bring it')
