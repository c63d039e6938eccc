"""The batch system: whether it answers, and whether it has what the partitions of system.yaml say."""

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
from parity.scheduler import access
from parity.scheduler.command import SchedulerError, answer
from parity.scheduler.scheduled import LONGEST_WAIT
from parity.system.schema import Partition, System

_ASK: dict[str, Callable[[], Cluster]] = {'slurm': ask.slurm_cluster, 'pbs': ask.pbs_cluster}
_UP = {'slurm': 'scontrol ping; is this a login node, and SLURM_CONF right?',
       'pbs': 'qstat -B; is this a login node, and PBS_CONF_FILE right?'}


def findings(system: System) -> Iterator[Finding]:
    """One batch system answers once; then a line or more for each partition behind it."""
    for kind in ('slurm', 'pbs'):
        parts = [p for p in system.partitions if SCHEDULERS.get(p.scheduler) == kind]
        if parts:
            try:
                cluster = _ASK[kind]()
            except SchedulerError as err:
                yield lacking('scheduler', str(err), _UP[kind], INFRASTRUCTURE)
                continue
            yield ok('scheduler', f'{cluster.version} answers: {len(cluster.nodes)} nodes, '
                                  f'{sum(n.up for n in cluster.nodes)} up')
            yield from (note('scheduler', text) for text in cluster.notes)
            yield from _accounting(kind, parts)
            for part in parts:
                yield from _partition(part, cluster, kind)
    yield from _launchers(system)


def _accounting(kind: str, parts: list[Partition]) -> Iterator[Finding]:
    if kind == 'slurm' and any(p.scheduler == 'slurm' for p in parts):
        try:
            answer(['sacct', '-n', '-X', '-P', '-S', 'now', '-o', 'JobID'])
            yield ok('scheduler', 'sacct answers')
        except SchedulerError as err:
            yield lacking('scheduler', f"{err}: ReFrame's backend slurm reads a job's end from it",
                          'bring slurmdbd up; or, without exit codes, scheduler: squeue', INFRASTRUCTURE)


def _partition(part: Partition, cluster: Cluster, kind: str) -> Iterator[Finding]:
    area = f'partition {part.name}'
    asked = access.read(kind, part.access).where
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
    wrong = [*_never(part, queue, nodes), *_refused(part, asked, cluster)]
    yield from (lacking(area, what, mend, USAGE) for what, mend in wrong)
    if not wrong:
        yield _today(part, queue, nodes)


def _today(part: Partition, queue: Queue, nodes: list[Node]) -> Finding:
    area, up = f'partition {part.name}', sum(n.up for n in nodes)
    closed = f'closed to you: {queue.closed}' if queue.closed else '' if queue.up else 'not up'
    if closed or not up:
        what = f'{queue.name} is {closed}' if closed else f'none of the {len(nodes)} nodes of {queue.name} is up'
        return lacking(area, what, 'ask its operator', INFRASTRUCTURE)
    if (part.extras.nodes or 0) > up:
        wait = part.extras.max_pending_time or LONGEST_WAIT
        return note(area, f'{up} of {len(nodes)} nodes of {queue.name} are up: cases on {part.extras.nodes} wait, '
                          f'at most {wait}', f'extras: nodes: {up}, for as long as that lasts')
    return ok(area, f'{queue.name} is up: {up} of {len(nodes)} nodes')


def _never(part: Partition, queue: Queue, nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """What no job of the partition could ever have: (what, mend)."""
    stated = part.extras
    limit = strict.seconds(part.time_limit) if part.time_limit else 0
    if queue.longest and limit > queue.longest:
        yield f'time_limit {part.time_limit}: {queue.name} gives {queue.longest} s at most', 'state a shorter one'
    has = {'nodes': min(len(nodes), queue.most_nodes or len(nodes)),
           'cores': max((n.cores * n.threads for n in nodes), default=0),
           'memory_bytes': max((n.memory_bytes for n in nodes), default=0)}
    for key, most in has.items():
        value = getattr(stated, key)
        if most and (value or 0) > most:
            yield f'extras: {key} {value}: of {queue.name} a job gets at most {most}', f'{key}: {most}'


def _refused(part: Partition, asked: dict[str, str], cluster: Cluster) -> Iterator[tuple[str, str]]:
    """What the batch system knows nothing of: an account, a licence."""
    account = asked.get('account')
    if account and cluster.accounts and account not in cluster.accounts:
        yield f'account {account!r} is none of yours', f'access: name one of {", ".join(cluster.accounts)}'
    known = [licence.partition(':')[0] for licence in cluster.licences]
    for option in part.access:
        wanted = re.fullmatch(r'(?:--licenses=|-L\s*)(\w[^:@,]*).*', option)
        if wanted and wanted[1] not in known:
            yield f'{option}: there is no such licence', f'access: name one of {", ".join(known) or "none"}'


def _launchers(system: System) -> Iterator[Finding]:
    for launcher in sorted({p.launcher for p in system.partitions} - {'local', 'ssh'}):
        program = launcher.partition('-')[0]
        path = shutil.which(program)
        if path:
            yield ok('launcher', f'{launcher}: {path}')
        elif system.detect:
            yield lacking('launcher', f'{launcher} is not on PATH', 'ci/quickstart installs an MPI', MISSING)
        else:
            yield note('launcher', f'{launcher} is not on PATH here: modules of an environment must bring it')
