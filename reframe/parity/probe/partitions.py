"""The problems of partitions: what system.yaml states and the batch system does not give. Nothing is submitted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from parity.base import submission, times
from parity.base.errors import INFRASTRUCTURE, OK, USAGE
from parity.base.figures import counted
from parity.probe import login
from parity.probe.login import BatchSystem, Node, Queue
from parity.scheduler import command
from parity.scheduler.command import SchedulerError, answer
from parity.scheduler.scheduled import LONGEST_WAIT
from parity.system.systems import Partition, System

#: How each batch system is asked, and what to try where it does not answer.
ASK: dict[str, tuple[Callable[[], BatchSystem], str]] = {
    'slurm': (login.slurm_cluster, 'run scontrol ping; check SLURM_CONF, and that this is a login node'),
    'pbs': (login.pbs_cluster, 'run qstat -B; check PBS_CONF_FILE, and that this is a login node')}


class Flaw(NamedTuple):
    """A thing to mend. ``exit_code``: OK where jobs run all the same, 2 configuration, 4 infrastructure."""

    what: str
    fix: str
    exit_code: int = OK

    def __str__(self) -> str:
        return f'{self.what}; {self.fix}'


def of_system(system: System, names: Collection[str] = ()) -> Iterator[tuple[str, Flaw]]:
    """Yield the problems of a system's partitions, or of those named. A batch system that does not answer adds
    none."""
    clusters: dict[str | None, BatchSystem | None] = {None: None}
    for part in system.partitions:
        if names and part.name not in names:
            continue
        if (kind := command.KINDS.get(part.scheduler)) not in clusters:
            clusters[kind] = None
            with contextlib.suppress(SchedulerError):
                clusters[kind] = ASK[kind][0]()
        yield from ((part.name, problem) for problem in problems(part, clusters[kind]))


def problems(part: Partition, cluster: BatchSystem | None = None) -> Iterator[Flaw]:
    """Yield the problems of a partition; without its ``cluster`` those that the file alone shows."""
    if submission.places_nothing(part):
        yield Flaw(submission.SHARED, f"access: add '{submission.SCATTER}'")
    if cluster is None:
        return
    queue = queue_of(part, cluster)
    if queue is None:
        name = command.read(cluster.scheduler, part.access).where.get('queue')
        known = ', '.join(q.name for q in cluster.queues)
        yield Flaw(f'{cluster.version} has no {f"queue {name!r}" if name else "default queue"}',
                   f'access: name one of {known}', USAGE)
        return
    nodes = [n for n in cluster.nodes if queue.name in n.queues]
    if wrong := [*_never(part, queue, nodes, cluster)]:
        yield from (Flaw(what, fix, USAGE) for what, fix in wrong)
        return
    up, wanted = sum(n.up for n in nodes), part.extras.nodes or 0
    if queue.closed or not queue.up:
        closed = f'closed to you: {queue.closed}' if queue.closed else 'not up'
        yield Flaw(f'{queue.name} is {closed}', 'ask its operator', INFRASTRUCTURE)
    elif not up:
        yield Flaw(f'none of the {counted(len(nodes), "node")} of {queue.name} is up', 'ask its operator',
                   INFRASTRUCTURE)
    elif wanted > up:
        yield Flaw(f'{up} of {len(nodes)} nodes of {queue.name} are up: cases on {wanted} wait, at most '
                   f'{part.extras.max_pending_time or LONGEST_WAIT}',
                   f'extras: nodes: {up}, for as long as that lasts')
    elif cluster.scheduler == 'slurm' and (why := _refusal(part)):
        yield Flaw(f'sbatch refuses a job: {why}', 'correct access, or ask its operator', USAGE)


def queue_of(part: Partition, cluster: BatchSystem) -> Queue | None:
    """Return the queue of a partition's jobs, the default where `access` names none."""
    names = command.read(cluster.scheduler, part.access).where.get('queue')
    return next((q for q in cluster.queues if (q.name in names.split(',') if names else q.default)), None)


def _refusal(part: Partition) -> str:
    """Return why Slurm refuses a job of the partition."""
    try:
        answer(['sbatch', '--test-only', *part.access, '--wrap', 'true'])
    except SchedulerError as err:
        return '' if 'not on PATH' in str(err) else str(err).removeprefix('sbatch: ')
    return ''


def _never(part: Partition, queue: Queue, nodes: list[Node], cluster: BatchSystem) -> Iterator[tuple[str, str]]:
    """Yield what no job of the partition can ever have, and what mends that."""
    if queue.longest and part.time_limit and times.seconds(part.time_limit) > queue.longest:
        yield f'time_limit {part.time_limit}: {queue.name} gives {queue.longest} s at most', 'state a shorter one'
    has = {'nodes': min(len(nodes), queue.most_nodes or len(nodes)),
           'cores': max((n.cores * n.threads for n in nodes), default=0),
           'memory_bytes': max((n.memory_bytes for n in nodes), default=0)}
    for key, most in has.items():
        value = getattr(part.extras, key) or 0
        if most and value > most:
            yield f'extras: {key} {value}: of {queue.name} a job gets at most {most}', f'{key}: {most}'
    asked = command.read(cluster.scheduler, part.access).where
    account = asked.get('account')
    if account and cluster.accounts and account not in cluster.accounts:
        yield f'account {account!r} is none of yours', f'access: name one of {", ".join(cluster.accounts)}'
    account = account or cluster.account
    own = cluster.qos.get(account, [])
    qos = [asked['qos']] if 'qos' in asked else own[:1]
    if own and not {*qos} <= {*own}:
        yield f'QOS {qos[0]!r} is none of yours with account {account!r}', f'access: name one of {", ".join(own)}'
    elif not queue.closed and (rule := login.refused(queue.rules, [account] if account else [], qos)):
        yield (f'{queue.name} starts no job of account {account or "?"} with QOS {", ".join(qos) or "?"}: {rule}',
               'access: name another --account or --qos, or another queue')
    known = [licence.partition(':')[0] for licence in cluster.licences]
    for option in part.access:
        licence = re.fullmatch(r'(?:--licenses=|-L\s*)(\w[^:@,]*).*', option)
        if licence and licence[1] not in known:
            yield f'{option}: there is no such licence', f'access: name one of {", ".join(known) or "none"}'
