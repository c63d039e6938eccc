"""What a job asks of a scheduler: one description, whichever scheduler it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints

from parity.base import errors, paths, yamlfile
from parity.base.strict import Strict, Time, seconds
from parity.base.traps import JOINS, SELECTS
from parity.scheduler import access
from parity.system.schema import Name, Option, Partition, System

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
    """What ``job`` asks for on ``part``. UsageError for what the partition can never give."""
    asked, stated = settings_of(job, system.name)
    scheduler = scheduler_of(part)
    site = access.read(scheduler, part.access)
    driver = job in DRIVERS
    cores = asked.cores or 1
    request = Request(
        name=f'parity-{job}', scheduler=scheduler, time=seconds(asked.time or '1h'),
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


#: The jobs that there are. `workload` asks for what its check asks for: it has no settings of its own.
JOBS = ('build', 'nightly', 'campaign', 'workload')

#: A word in a scheduler's directive: an account, a queue, a QOS, a reservation.
Word = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$', max_length=64)]
Address = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_.+-]+(@[A-Za-z0-9.-]+)?$', max_length=120)]


class Mail(Strict):
    """Who is told what by the scheduler."""

    to: Address
    when: list[Literal['begin', 'end', 'fail']] = Field(default=['fail'], min_length=1)


class Settings(Strict):
    """What a job asks for; what is not said is left to the partition, or not asked."""

    queue: Word | None = None           # the scheduler's partition or queue, where it is not the measured one's
    account: Word | None = None
    project: Word | None = None         # of PBS (-P)
    qos: Word | None = None
    reservation: Word | None = None
    time: Time | None = None
    cores: PositiveInt | Literal['all'] | None = None
    memory: Annotated[str, StringConstraints(pattern=r'^[1-9][0-9]*[MG]$')] | None = None   # MiB, GiB
    gpus: PositiveInt | None = None     # of the one node
    exclusive: bool | None = None
    requeue: bool | None = None
    mail: Mail | None = None
    options: list[Option] | None = None     # the scheduler's own, as they are
    repeats: PositiveInt | None = None      # campaign: how often each case
    nodes: list[PositiveInt] | None = None  # campaign: the node counts


class JobsFile(Strict):
    """jobs.yaml: for all jobs, then for one."""

    all: Settings = Settings()
    build: Settings = Settings()
    nightly: Settings = Settings()
    campaign: Settings = Settings()


def settings_of(job: str, system: Name) -> tuple[Settings, Settings]:
    """The settings of ``job`` on ``system``: all, and those that the site states itself."""
    ours = yamlfile.read(paths.root() / 'jobs' / 'jobs.yaml', JobsFile)
    file = paths.root() / 'systems' / system / 'jobs.yaml'
    site = yamlfile.read(file, JobsFile) if file.is_file() else JobsFile()
    stated = _over(site.all, getattr(site, job))
    return _over(ours.all, getattr(ours, job), stated), stated


def _over(*settings: Settings) -> Settings:
    """Later ones win, key by key."""
    return Settings(**{k: v for one in settings for k, v in one.model_dump(exclude_unset=True).items()})


#: The node counts of a campaign where nobody asks for others, as far as the partition has them.
_USUAL_NODES = (1, 2, 4)


@dataclass(frozen=True)
class Step:
    """What one run of ci/nightly measures; ``repeat`` counts from 1."""

    partition: str
    nodes: int
    repeat: int


#: The end of a pattern that names a whole case; its name goes on where a step sets the number of nodes.
WHOLE = '(%|$)'


class Covered(Strict):
    """What a campaign measures. ``check`` is a pattern as `reframe -n` takes it, '' for all checks."""

    name: str
    partitions: list[str]
    nodes: list[int]
    check: str

    def overlaps(self, other: Covered) -> bool:
        """True where some case would be measured twice; a campaign of another name is meant to."""
        return (self.name == other.name and bool(set(self.partitions) & set(other.partitions))
                and bool(set(self.nodes) & set(other.nodes))
                and (_selects(self.check, other.check) or _selects(other.check, self.check)))


def _selects(pattern: str, other: str) -> bool:
    """Whether a case that ``other`` names is one of ``pattern``'s."""
    return bool(re.match(pattern, re.sub(r'\\(.)', r'\1', other.removesuffix(WHOLE))))


def steps(partitions: list[Partition], asked: Settings, detected: bool) -> list[Step]:
    """Every repeat on every node count; each second repeat turns the partitions round, so a drift weighs on all
    alike."""
    have = {part.name: 1 if detected else part.extras.nodes for part in partitions}
    for name, most in have.items():
        never = [n for n in asked.nodes or () if most and n > most]
        if never:
            raise errors.UsageError(f'{never[0]} nodes can never be had: partition {name} has {most}')
    counts = asked.nodes or [n for n in _USUAL_NODES if all(n <= (most or 1) for most in have.values())]
    return [Step(name, nodes, repeat) for repeat in range(1, (asked.repeats or 1) + 1) for nodes in counts
            for name in (have if repeat % 2 else reversed(have))]
