"""What parity's own jobs ask for: jobs/jobs.yaml, and what a site says instead in systems/<name>/jobs.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints

from parity.base import paths, yamlfile
from parity.base.strict import Strict
from parity.base.times import Time
from parity.system.schema import Name, Option

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


def of(job: str, system: Name) -> tuple[Settings, Settings]:
    """The settings of ``job`` on ``system``, all of them and those that the site states itself."""
    ours = yamlfile.read(paths.root() / 'jobs' / 'jobs.yaml', JobsFile)
    file = paths.root() / 'systems' / system / 'jobs.yaml'
    site = yamlfile.read(file, JobsFile) if file.is_file() else JobsFile()
    stated = _over(site.all, getattr(site, job))
    return _over(ours.all, getattr(ours, job), stated), stated


def _over(*settings: Settings) -> Settings:
    """Later ones win, key by key."""
    return Settings(**{k: v for one in settings for k, v in one.model_dump(exclude_unset=True).items()})
