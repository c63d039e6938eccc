"""The problems of partitions: what system.yaml states and the batch system does not give. Nothing is submitted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import NamedTuple

from parity.base import findings, submission, times
from parity.base.errors import INFRASTRUCTURE, OK
from parity.base.figures import counted
from parity.base.findings import Diagnosis, lacking, ok
from parity.measure.probe import login
from parity.measure.probe.login import BatchSystem, Node, Queue
from parity.measure.scheduler import command
from parity.measure.scheduler.command import SchedulerError, answer
from parity.measure.scheduler.scheduled import LONGEST_WAIT
from parity.site import systems
from parity.site.systems import Partition, System

#: How each batch system is asked, and what to try where it does not answer.
ASK: dict[str, tuple[Callable[[], BatchSystem], str]] = {
    'slurm': (login.slurm_cluster, 'run scontrol ping; check SLURM_CONF, and that this is a login node'),
    'pbs': (login.pbs_cluster, 'run qstat -B; check PBS_CONF_FILE, and that this is a login node')}


def examined(system: System, used: Collection[str]) -> Iterator[Diagnosis]:
    """Examine each batch system once, then every partition behind it. A partition that is not
    ``used`` stops no night: whatever it lacks is a note."""
    for kind, (cluster_of, fix) in ASK.items():
        parts = [part for part in system.partitions if command.KINDS.get(part.scheduler) == kind]
        if not parts:
            continue
        cluster = None
        try:
            cluster = cluster_of()
        except SchedulerError as err:
            yield lacking('scheduler', str(err), fix, INFRASTRUCTURE)
        if cluster:
            yield from _answers(cluster, parts)
        for part in parts:
            for finding in of_partition(system.name, part, cluster):
                if part.name not in used and finding.word == 'lacking':
                    finding = dataclasses.replace(finding, word='note', exit_code=OK, stops=False)
                yield finding


def _answers(cluster: BatchSystem, parts: list[Partition]) -> Iterator[Diagnosis]:
    """Yield that a batch system answers, and what it lacks as a whole."""
    up = sum(node.up for node in cluster.nodes)
    yield ok('scheduler', f'{cluster.version} answers: {counted(len(cluster.nodes), "node")}, {up} up')
    for text in cluster.notes:
        yield findings.note('scheduler', text)
    if any(part.scheduler == 'slurm' for part in parts):
        yield _accounting()


def of_partition(system: str, part: Partition, cluster: BatchSystem | None) -> Iterator[Diagnosis]:
    """Examine one partition; without its ``cluster`` only what the file alone shows."""
    by_file = [*_by_file(system, part)]
    yield from by_file
    if cluster is None:
        return
    by_cluster = [*_by_cluster(system, part, cluster)]
    yield from by_cluster
    if not by_cluster:      # the batch system gives what the file states
        queue = queue_of(part, cluster)
        nodes = cluster.nodes_of(queue)
        up = sum(node.up for node in nodes)
        yield ok(f'partition {part.name}', f'{queue.name} is up: {up} of {counted(len(nodes), "node")}')


def _accounting() -> Diagnosis:
    try:
        answer(['sacct', '-n', '-X', '-P', '-S', 'now', '-o', 'JobID'])
        return ok('scheduler', 'sacct answers')
    except SchedulerError as err:
        return lacking('scheduler', f"{err}: ReFrame's backend slurm reads a job's end from it",
                       'bring slurmdbd up; or scheduler: squeue', INFRASTRUCTURE)


def problems(system: str, part: Partition, cluster: BatchSystem | None = None) -> Iterator[Diagnosis]:
    """Yield the problems of a partition; without its ``cluster`` those that the file alone shows."""
    yield from _by_file(system, part)
    if cluster:
        yield from _by_cluster(system, part, cluster)


def _by_file(system: str, part: Partition) -> Iterator[Diagnosis]:
    if submission.places_nothing(part):
        yield findings.note(f'partition {part.name}', submission.SHARED, f"access: add '{submission.SCATTER}'",
                            file=_line(system, part))


def _by_cluster(system: str, part: Partition, cluster: BatchSystem) -> Iterator[Diagnosis]:
    """Yield what the batch system does not give a partition: ever, or else today."""
    mistake = partial(findings.mistake, f'partition {part.name}', file=_line(system, part))
    queue = queue_of(part, cluster)
    if queue is None:
        name = command.read(cluster.scheduler, part.access).where.get('queue')
        absent = f'queue {name!r}' if name else 'default queue'
        names = ', '.join(queue.name for queue in cluster.queues)
        yield mistake(f'{cluster.version} has no {absent}', f'access: name one of {names}')
        return
    never = [*_never(part, queue, cluster)]
    for problem in never:
        yield mistake(problem.what, problem.fix)
    if not never:
        yield from _today(system, part, queue, cluster)


def _today(system: str, part: Partition, queue: Queue, cluster: BatchSystem) -> Iterator[Diagnosis]:
    """Yield why a partition's jobs do not start today."""
    area = f'partition {part.name}'
    file = _line(system, part)
    nodes = cluster.nodes_of(queue)
    up = sum(node.up for node in nodes)
    wanted = part.extras.nodes or 0
    down = ''
    if queue.closed:
        down = f'{queue.name} is closed to you: {queue.closed}'
    elif not queue.up:
        down = f'{queue.name} is not up'
    elif not up:
        down = f'none of the {counted(len(nodes), "node")} of {queue.name} is up'
    if down:
        yield lacking(area, down, 'ask its operator', INFRASTRUCTURE, file=file)
        return
    if wanted > up:
        longest = part.extras.max_pending_time or LONGEST_WAIT
        yield findings.note(
            area, f'{up} of {len(nodes)} nodes of {queue.name} are up: cases on {wanted} wait, at most {longest}',
            f'extras: nodes: {up}, for as long as that lasts', file=file)
        return
    why = _refusal(part) if cluster.scheduler == 'slurm' else ''
    if why:     # it may take one later: the night runs, and the jobs of the partition wait or fail
        yield findings.mistake(area, f'sbatch refuses a job: {why}', 'correct access, or ask its operator',
                               stops=False, file=file)


def _line(system: str, part: Partition) -> str:
    names = [stated.name for stated in systems.read(system).partitions]
    return systems.line(system, ('partitions', names.index(part.name)))


def queue_of(part: Partition, cluster: BatchSystem) -> Queue | None:
    """Return the queue of a partition's jobs, the default where `access` names none."""
    names = command.read(cluster.scheduler, part.access).where.get('queue')
    for queue in cluster.queues:
        if queue.name in names.split(',') if names else queue.default:
            return queue
    return None


def _refusal(part: Partition) -> str:
    """Return why Slurm refuses a job of the partition."""
    try:
        answer(['sbatch', '--test-only', *part.access, '--wrap', 'true'])
    except SchedulerError as err:
        return '' if 'not on PATH' in str(err) else str(err).removeprefix('sbatch: ')
    return ''


class Problem(NamedTuple):
    """A statement of a partition that its jobs can never have, and what mends it."""

    what: str
    fix: str


def _never(part: Partition, queue: Queue, cluster: BatchSystem) -> Iterator[Problem]:
    """Yield what no job of the partition can ever have."""
    if queue.longest and part.time_limit and times.seconds(part.time_limit) > queue.longest:
        yield Problem(f'time_limit {part.time_limit}: {queue.name} gives {queue.longest} s at most',
                      'state a shorter one')
    yield from _too_large(part, queue, cluster.nodes_of(queue))
    yield from _not_allowed(part, queue, cluster)
    licences = [licence.partition(':')[0] for licence in cluster.licences]
    for option in part.access:
        licence = re.fullmatch(r'(?:--licenses=|-L\s*)(\w[^:@,]*).*', option)
        if licence and licence[1] not in licences:
            yield Problem(f'{option}: there is no such licence',
                          f'access: name one of {", ".join(licences) or "none"}')


def _too_large(part: Partition, queue: Queue, nodes: list[Node]) -> Iterator[Problem]:
    cores = [node.cores * node.threads for node in nodes]
    memory = [node.memory_bytes for node in nodes]
    most = {
        'nodes': min(len(nodes), queue.most_nodes or len(nodes)),
        'cores': max(cores, default=0),
        'memory_bytes': max(memory, default=0),
    }
    for key, limit in most.items():
        stated = getattr(part.extras, key) or 0
        if limit and stated > limit:
            yield Problem(f'extras: {key} {stated}: of {queue.name} a job gets at most {limit}', f'{key}: {limit}')


def _not_allowed(part: Partition, queue: Queue, cluster: BatchSystem) -> Iterator[Problem]:
    """Yield an account or a QOS that is none of this user's, or that the queue refuses."""
    where = command.read(cluster.scheduler, part.access).where
    account = where.get('account')
    if account and cluster.accounts and account not in cluster.accounts:
        yield Problem(f'account {account!r} is none of yours',
                      f'access: name one of {", ".join(cluster.accounts)}')
    account = account or cluster.account
    own_qos = cluster.qos.get(account, [])
    qos = [where['qos']] if 'qos' in where else own_qos[:1]
    if own_qos and not set(qos) <= set(own_qos):
        yield Problem(f'QOS {qos[0]!r} is none of yours with account {account!r}',
                      f'access: name one of {", ".join(own_qos)}')
        return
    if queue.closed:
        return
    rule = login.refused(queue.rules, [account] if account else [], qos)
    if rule:
        yield Problem(f'{queue.name} starts no job of account {account or "?"} with QOS {", ".join(qos) or "?"}: '
                      f'{rule}', 'access: name another --account or --qos, or another queue')
