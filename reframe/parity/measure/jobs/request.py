"""A job's request to its scheduler: one description for Slurm, PBS and plain bash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, PositiveInt, StringConstraints

from parity.base import errors, paths, submission, units, yamlfile
from parity.base.figures import counted
from parity.base.strict import Strict
from parity.base.times import Time, seconds
from parity.measure.scheduler import command
from parity.site import systems
from parity.site.systems import Name, Option, Partition, System

#: Our word for each of ReFrame's backends. Others have no directives here.
SCHEDULERS = {**command.KINDS, 'local': 'plain'}
#: Jobs that start the measurements and wait for them: one core beside other work, not a measured node.
DRIVERS = ('nightly', 'campaign')
#: All jobs. `workload` has no settings of its own: it asks for what its check asks for.
JOBS = ('build', 'nightly', 'campaign', 'workload')
#: A word in a scheduler's directive: an account, a queue, a QOS, a reservation.
Word = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$', max_length=64)]
Address = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_.+-]+(@[A-Za-z0-9.-]+)?$', max_length=120)]


class Mail(Strict):
    """The address that the scheduler writes to, and its occasions."""

    to: Address
    when: list[Literal['begin', 'end', 'fail']] = Field(default=['fail'], min_length=1)


class Settings(Strict):
    """The request of a job. A key that is left out is the partition's, or not asked for."""

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
    """jobs.yaml: settings for all jobs, then for one."""

    all: Settings = Settings()
    build: Settings = Settings()
    nightly: Settings = Settings()
    campaign: Settings = Settings()


def settings_of(job: str, system: Name) -> Settings:
    """Return the settings of ``job`` on ``system``: those of its site, then those of all sites."""
    ours = yamlfile.read(paths.root() / 'jobs' / 'jobs.yaml', JobsFile)
    file = systems.folder(system) / 'jobs.yaml'
    site = yamlfile.read(file, JobsFile) if file.is_file() else JobsFile()
    stated: dict[str, Any] = {}
    for one in (ours.all, getattr(ours, job), site.all, getattr(site, job)):
        stated |= one.model_dump(exclude_unset=True)
    return Settings(**stated)


class Request(Settings):
    """A job's settings, completed from its partition; cores and GPUs are of its one node."""

    name: str
    scheduler: str                      # slurm, pbs, plain
    time: Time = '1h'
    cores: int = 1
    exclusive: str = ''                 # the scheduler's own words
    after: str = ''                     # the job that must have ended well before
    steps: int = 1                      # more than one: an array, one element after another
    select: list[str] = []              # PBS: resources of the chunk
    options: list[str] = []
    campaign: str = ''                  # the --name of a campaign

    @property
    def seconds(self) -> int:
        return seconds(self.time)

    @property
    def walltime(self) -> str:
        """The time as hours:minutes:seconds, which both schedulers take."""
        return f'{self.seconds // 3600}:{self.seconds // 60 % 60:02}:{self.seconds % 60:02}'


def scheduler_of(part: Partition) -> str:
    """Return slurm, pbs or plain. UsageError for a backend that has no directives here."""
    if part.scheduler not in SCHEDULERS:
        raise errors.UsageError(f'partition {part.name}: parity writes no job for the scheduler '
                                f'{part.scheduler!r}; valid: {", ".join(SCHEDULERS)}')
    return SCHEDULERS[part.scheduler]


def partition(system: System, name: str) -> Partition:
    """Return the named partition, the first one for ''. UsageError names the valid ones."""
    named = {p.name: p for p in system.partitions}
    if name and name not in named:
        raise errors.UsageError(f'{system.name} has no partition {name!r}; valid: {", ".join(named)}')
    return named[name] if name else system.partitions[0]


def of(job: str, system: System, part: Partition, **given: Any) -> Request:
    """Return the request of ``job`` on ``part``; ``given`` wins over the settings where it is not None.

    UsageError for what the partition can never give."""
    scheduler = scheduler_of(part)
    pbs = scheduler == 'pbs'
    site = command.read(scheduler, part.access)
    driver = job in DRIVERS
    asked = site.where | settings_of(job, system.name).model_dump(exclude_none=True)
    asked |= {name: value for name, value in given.items() if value is not None}
    exclusive = '-l place=free' if pbs else ''
    if asked.get('exclusive') and not driver:
        exclusive = site.exclusive or {'slurm': '--exclusive', 'pbs': '-l place=scatter:excl'}.get(scheduler, '')
    if asked.get('cores') == 'all':
        asked['cores'] = part.extras.cores or 1
    options = [*(() if driver else site.node), *asked.get('options', ())]
    request = Request(**asked | {
        'name': f'parity-{job}', 'scheduler': scheduler, 'exclusive': exclusive,
        'select': [o for o in options if pbs and not o.startswith('-')],
        'options': [o for o in options if o.startswith('-') or not pbs]})
    if found := [f'partition {part.name}: {why}' for why in (*_never(part, request), *_misread(request))]:
        where = systems.folder(system.name)
        raise errors.UsageError('\n'.join(f'{where}: {request.name}: {why}' for why in found))
    return request


def _never(part: Partition, request: Request) -> Iterator[str]:
    """Tell what would stay in the queue for ever."""
    have = part.extras
    if have.cores and request.cores > have.cores:
        yield f'{counted(request.cores, "core")} can never be had: a node has {have.cores}; ask for fewer'
    wanted = units.size(request.memory) if request.memory else 0
    if have.memory_bytes and wanted > have.memory_bytes:
        yield (f'memory {request.memory} can never be had: a node has {have.memory_bytes / (1 << 30):.4g} GiB; '
               'ask for less')
    gpus = sum(d.num_devices for d in part.devices if d.type == 'gpu')
    if (request.gpus or 0) > gpus:
        yield f'{counted(request.gpus, "GPU")} can never be had: a node has {gpus}; ask for fewer'


def _misread(request: Request) -> Iterator[str]:
    """Tell what would mean something else than it says."""
    if request.scheduler != 'pbs':
        if request.project:
            yield f'project {request.project!r}: only PBS has one; name an account, or options: [--wckey=NAME]'
        return
    if request.qos:
        yield f'qos {request.qos!r}: PBS has no QOS; name a queue'
    if why := submission.of_options(request.options):
        yield f'options: {why}'
    if request.name == 'parity-campaign' and not request.requeue:
        yield 'requeue: false: PBS takes an array of jobs only if they may be requeued'


#: The usual node counts of a campaign, as far as the partition has them.
_USUAL_NODES = (1, 2, 4)


class CampaignStep(NamedTuple):
    """The part of a campaign that one run of ci/nightly measures; ``repeat`` counts from 1."""

    partition: str
    nodes: int
    repeat: int


def steps(partitions: list[Partition], asked: Settings, detected: bool) -> list[CampaignStep]:
    """Return each repeat on each node count. Each second repeat turns the partitions round: a drift weighs on
    all alike."""
    have = {part.name: 1 if detected else part.extras.nodes for part in partitions}
    for name, most in have.items():
        never = [n for n in asked.nodes or () if most and n > most]
        if never:
            raise errors.UsageError(f'{counted(never[0], "node")} can never be had: partition {name} has {most}; '
                                    'ask for fewer (--nodes, or nodes in jobs.yaml)')
    counts = asked.nodes or [n for n in _USUAL_NODES if all(n <= (most or 1) for most in have.values())]
    return [CampaignStep(name, nodes, repeat) for repeat in range(1, (asked.repeats or 1) + 1) for nodes in counts
            for name in (have if repeat % 2 else reversed(have))]
