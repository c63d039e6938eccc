"""What a job asks of a scheduler: one description, whichever scheduler it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parity.base import errors, paths, times
from parity.base.traps import JOINS, SELECTS
from parity.jobs import settings
from parity.jobs.campaign import Covered
from parity.jobs.settings import Mail, Settings
from parity.scheduler import access
from parity.system.schema import Partition, System

#: Ours for ReFrame's backends; what is not here cannot be asked.
SCHEDULERS = {'slurm': 'slurm', 'squeue': 'slurm', 'pbs': 'pbs', 'pbspro': 'pbs', 'local': 'plain'}
#: Jobs that start the measurements and wait for them: one core beside other work, not a measured node.
DRIVERS = ('nightly', 'campaign')
_BYTES = {'M': 1 << 20, 'G': 1 << 30}


@dataclass(frozen=True)
class Request:
    """Times in seconds, memory as 4G or 512M, cores and GPUs of the one node."""

    name: str
    scheduler: str                      # slurm, pbs, plain
    time: int
    queue: str = ''
    account: str = ''
    project: str = ''
    qos: str = ''
    reservation: str = ''
    cores: int = 1
    memory: str = ''
    gpus: int = 0
    exclusive: str = ''                 # the scheduler's own words
    requeue: bool = False
    mail: Mail | None = None
    after: str = ''                     # the job that must have ended well before
    steps: int = 1                      # more than one: an array, one element after another
    options: tuple[str, ...] = ()
    select: tuple[str, ...] = ()        # PBS: resources of the chunk
    covered: Covered | None = None      # what a campaign measures

    @property
    def walltime(self) -> str:
        """As both schedulers write it: hours:minutes:seconds."""
        return f'{self.time // 3600}:{self.time // 60 % 60:02}:{self.time % 60:02}'


def scheduler_of(part: Partition) -> str:
    """slurm, pbs or plain; UsageError for a backend that we have no directives for."""
    if part.scheduler not in SCHEDULERS:
        raise errors.UsageError(f'partition {part.name}: jobs are written for the schedulers '
                                f'{", ".join(SCHEDULERS)}, not for {part.scheduler!r}')
    return SCHEDULERS[part.scheduler]


def partition(system: System, name: str) -> Partition:
    """The partition of that name, the first one for ''; UsageError naming the valid ones."""
    names = [p.name for p in system.partitions]
    if name and name not in names:
        raise errors.UsageError(f'{system.name} has no partition {name!r}; valid: {", ".join(names)}')
    return system.partitions[names.index(name) if name else 0]


def of(job: str, system: System, part: Partition) -> Request:
    """What ``job`` asks for on ``part``: jobs/jobs.yaml, the site's jobs.yaml, the partition's `access`.

    Raises UsageError for what the partition can never give.
    """
    asked, stated = settings.of(job, system.name)
    scheduler = scheduler_of(part)
    site = access.read(scheduler, part.access)
    driver = job in DRIVERS
    cores = asked.cores or 1
    request = Request(
        name=f'parity-{job}', scheduler=scheduler, time=times.seconds(asked.time or '1h'),
        **site.where,
        cores=(part.extras.cores or 1) if cores == 'all' else cores,
        memory=asked.memory or '', gpus=asked.gpus or 0,
        exclusive=_exclusive(scheduler, asked, site, driver), requeue=bool(asked.requeue), mail=asked.mail,
    )
    own = {k: v for k in ('queue', 'account', 'project', 'qos', 'reservation') if (v := getattr(stated, k))}
    options = (*(() if driver else site.node), *(asked.options or ()))
    request = replace(request, **own,
                      select=tuple(o for o in options if scheduler == 'pbs' and not o.startswith('-')),
                      options=tuple(o for o in options if scheduler != 'pbs' or o.startswith('-')))
    _refuse(system, part, request)
    return request


def _exclusive(scheduler: str, asked: Settings, site: access.Access, driver: bool) -> str:
    """The node for itself, in the site's own words where it has some."""
    if driver or not asked.exclusive:
        return '' if scheduler != 'pbs' else '-l place=free'
    return site.exclusive or {'slurm': '--exclusive', 'pbs': '-l place=scatter:excl'}.get(scheduler, '')


def _refuse(system: System, part: Partition, request: Request) -> None:
    """What would stay in the queue for ever, or means something else than it says."""
    found = [f'partition {part.name}: {why}' for why in (*_never(part, request), *_misread(request))]
    if found:
        where = paths.root() / 'systems' / system.name
        raise errors.UsageError('\n'.join(f'{where}: {request.name}: {why}' for why in found))


def _never(part: Partition, request: Request):
    have = part.extras
    if have.cores and request.cores > have.cores:
        yield f'{request.cores} cores can never be had: a node has {have.cores}'
    if request.memory and have.memory_bytes:
        wanted = int(request.memory[:-1]) * _BYTES[request.memory[-1]]
        if wanted > have.memory_bytes:
            yield f'memory {request.memory} can never be had: a node has {have.memory_bytes / (1 << 30):.4g} GiB'
    gpus = sum(d.num_devices for d in part.devices if d.type == 'gpu')
    if request.gpus > gpus:
        yield f'{request.gpus} GPUs can never be had: a node has {gpus}'


def _misread(request: Request):
    if request.scheduler == 'pbs' and request.qos:
        yield f'qos {request.qos!r}: PBS has no QOS; name a queue'
    if request.scheduler != 'pbs' and request.project:
        yield f'project {request.project!r}: only PBS has one; name an account, or options: [--wckey=NAME]'
    if request.scheduler == 'pbs':
        yield from (f'options: {o!r}: PBS ignores a second select; write its resources without -l select='
                    for o in request.options if SELECTS.match(o))
        yield from (f'options: {o!r}: one file of two makes ReFrame wait for ever where it follows the job; '
                    'our scripts join what they print by themselves'
                    for o in request.options if JOINS.match(o))
    if request.scheduler == 'pbs' and request.name == 'parity-campaign' and not request.requeue:
        yield 'requeue: false: PBS takes an array of jobs only if they may be requeued'
