"""The problems of partitions: what system.yaml states and the batch system does not give. Nothing is submitted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial

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
        try:
            cluster = cluster_of()
        except SchedulerError as err:
            yield lacking('scheduler', str(err), fix, INFRASTRUCTURE)
            cluster = None
        if cluster:
            yield ok('scheduler', f'{cluster.version} answers: {counted(len(cluster.nodes), "node")}, '
                                  f'{sum(n.up for n in cluster.nodes)} up')
            yield from (findings.note('scheduler', text) for text in cluster.notes)
            if any(part.scheduler == 'slurm' for part in parts):
                yield _accounting()
        for part in parts:
            for finding in of_partition(system.name, part, cluster):
                counts = part.name in used or finding.word != 'lacking'
                yield finding if counts else dataclasses.replace(finding, word='note', exit_code=OK, stops=False)


def of_partition(system: str, part: Partition, cluster: BatchSystem | None) -> Iterator[Diagnosis]:
    """Examine one partition; without its ``cluster`` only what the file alone shows."""
    found = [*problems(system, part, cluster)]
    yield from found
    if cluster and found == [*problems(system, part)]:      # the batch system gives what the file states
        queue = queue_of(part, cluster)
        nodes = [n for n in cluster.nodes if queue.name in n.queues]
        yield ok(f'partition {part.name}',
                 f'{queue.name} is up: {sum(n.up for n in nodes)} of {counted(len(nodes), "node")}')


def _accounting() -> Diagnosis:
    try:
        answer(['sacct', '-n', '-X', '-P', '-S', 'now', '-o', 'JobID'])
        return ok('scheduler', 'sacct answers')
    except SchedulerError as err:
        return lacking('scheduler', f"{err}: ReFrame's backend slurm reads a job's end from it",
                       'bring slurmdbd up; or scheduler: squeue', INFRASTRUCTURE)


def problems(system: str, part: Partition, cluster: BatchSystem | None = None) -> Iterator[Diagnosis]:
    """Yield the problems of a partition; without its ``cluster`` those that the file alone shows."""
    place = {'area': f'partition {part.name}', 'file': _line(system, part)}
    note, down, mistake = (partial(kind, **place) for kind in (
        findings.note, partial(lacking, exit_code=INFRASTRUCTURE), findings.mistake))
    if submission.places_nothing(part):
        yield note(what=submission.SHARED, fix=f"access: add '{submission.SCATTER}'")
    if cluster is None:
        return
    queue = queue_of(part, cluster)
    if queue is None:
        name = command.read(cluster.scheduler, part.access).where.get('queue')
        known = ', '.join(q.name for q in cluster.queues)
        yield mistake(what=f'{cluster.version} has no {f"queue {name!r}" if name else "default queue"}',
                      fix=f'access: name one of {known}')
        return
    nodes = [n for n in cluster.nodes if queue.name in n.queues]
    if wrong := [*_never(part, queue, nodes, cluster)]:
        yield from (mistake(what=what, fix=fix) for what, fix in wrong)
        return
    up, wanted = sum(n.up for n in nodes), part.extras.nodes or 0
    if queue.closed or not queue.up:
        closed = f'closed to you: {queue.closed}' if queue.closed else 'not up'
        yield down(what=f'{queue.name} is {closed}', fix='ask its operator')
    elif not up:
        yield down(what=f'none of the {counted(len(nodes), "node")} of {queue.name} is up', fix='ask its operator')
    elif wanted > up:
        yield note(what=f'{up} of {len(nodes)} nodes of {queue.name} are up: cases on {wanted} wait, at most '
                        f'{part.extras.max_pending_time or LONGEST_WAIT}',
                   fix=f'extras: nodes: {up}, for as long as that lasts')
    elif cluster.scheduler == 'slurm' and (why := _refusal(part)):
        # it may take one later: the night runs, and the jobs of the partition wait or fail
        yield mistake(what=f'sbatch refuses a job: {why}', fix='correct access, or ask its operator', stops=False)


def _line(system: str, part: Partition) -> str:
    stated = systems.read(system).partitions
    at = [each.name for each in stated].index(part.name)
    return systems.line(system, ('partitions', at))


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
