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
#: The options of a job that has its node to itself, and of one that has not, where the site says nothing.
_EXCLUSIVE = {'slurm': '--exclusive', 'pbs': '-l place=scatter:excl'}
_SHARED = {'pbs': '-l place=free'}
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
    for settings in (ours.all, getattr(ours, job), site.all, getattr(site, job)):
        stated |= settings.model_dump(exclude_unset=True)
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
        minutes, seconds = divmod(self.seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f'{hours}:{minutes:02}:{seconds:02}'


def scheduler_of(part: Partition) -> str:
    """Return slurm, pbs or plain. UsageError for a backend that has no directives here."""
    if part.scheduler not in SCHEDULERS:
        raise errors.UsageError(f'partition {part.name}: parity writes no job for the scheduler '
                                f'{part.scheduler!r}; valid: {", ".join(SCHEDULERS)}')
    return SCHEDULERS[part.scheduler]


def partition(system: System, name: str) -> Partition:
    """Return the named partition, the first one for ''. UsageError names the valid ones."""
    if not name:
        return system.partitions[0]
    by_name = {part.name: part for part in system.partitions}
    if name not in by_name:
        raise errors.UsageError(f'{system.name} has no partition {name!r}; valid: {", ".join(by_name)}')
    return by_name[name]


def of(job: str, system: System, part: Partition, **given: Any) -> Request:
    """Return the request of ``job`` on ``part``; ``given`` wins over the settings where it is not None.

    UsageError for what the partition can never give."""
    scheduler = scheduler_of(part)
    access = command.read(scheduler, part.access)
    is_driver = job in DRIVERS
    values = access.where | settings_of(job, system.name).model_dump(exclude_none=True)
    values |= {name: value for name, value in given.items() if value is not None}
    if values.get('cores') == 'all':
        values['cores'] = part.extras.cores or 1
    if values.get('exclusive') and not is_driver:
        values['exclusive'] = access.exclusive or _EXCLUSIVE.get(scheduler, '')
    else:
        values['exclusive'] = _SHARED.get(scheduler, '')
    options = list(values.get('options', ()))
    if not is_driver:
        options = access.node + options
    values['select'] = [option for option in options if scheduler == 'pbs' and not option.startswith('-')]
    values['options'] = [option for option in options if option not in values['select']]
    values['name'] = f'parity-{job}'
    values['scheduler'] = scheduler
    request = Request(**values)
    _demand_possible(system, part, request)
    return request


def _demand_possible(system: System, part: Partition, request: Request) -> None:
    """Refuse what the partition can never give, or its scheduler would misread."""
    where = f'{systems.folder(system.name)}: {request.name}: partition {part.name}'
    problems = [*_never(part, request), *_misread(request)]
    if problems:
        lines = [f'{where}: {why}' for why in problems]
        raise errors.UsageError('\n'.join(lines))


def _never(part: Partition, request: Request) -> Iterator[str]:
    """Tell what would stay in the queue for ever."""
    have = part.extras
    if have.cores and request.cores > have.cores:
        yield f'{counted(request.cores, "core")} can never be had: a node has {have.cores}; ask for fewer'
    memory = units.size(request.memory) if request.memory else 0
    if have.memory_bytes and memory > have.memory_bytes:
        gibibytes = have.memory_bytes / (1 << 30)
        yield f'memory {request.memory} can never be had: a node has {gibibytes:.4g} GiB; ask for less'
    gpus = sum(device.num_devices for device in part.devices if device.type == 'gpu')
    if request.gpus and request.gpus > gpus:
        yield f'{counted(request.gpus, "GPU")} can never be had: a node has {gpus}; ask for fewer'


def _misread(request: Request) -> Iterator[str]:
    """Tell what would mean something else than it says."""
    if request.scheduler != 'pbs':
        if request.project:
            yield f'project {request.project!r}: only PBS has one; name an account, or options: [--wckey=NAME]'
        return
    if request.qos:
        yield f'qos {request.qos!r}: PBS has no QOS; name a queue'
    why = submission.of_options(request.options)
    if why:
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
    names = [part.name for part in partitions]
    most_nodes = {part.name: 1 if detected else part.extras.nodes for part in partitions}
    counts = asked.nodes or _usual_nodes(most_nodes)
    _demand_nodes(counts, most_nodes)
    campaign = []
    for repeat in range(1, (asked.repeats or 1) + 1):
        in_turn = names if repeat % 2 else names[::-1]
        for nodes in counts:
            campaign += [CampaignStep(name, nodes, repeat) for name in in_turn]
    return campaign


def _usual_nodes(most_nodes: dict[str, int | None]) -> list[int]:
    fewest = min(most or 1 for most in most_nodes.values())
    return [count for count in _USUAL_NODES if count <= fewest]


def _demand_nodes(counts: list[int], most_nodes: dict[str, int | None]) -> None:
    """Refuse a number of nodes that a partition does not have."""
    for name, most in most_nodes.items():
        for count in counts:
            if most and count > most:
                raise errors.UsageError(f'{counted(count, "node")} can never be had: partition {name} has {most}; '
                                        'ask for fewer (--nodes, or nodes in jobs.yaml)')
