"""The systems that parity knows: one folder each below systems/, with a system.yaml.

Its keys are ReFrame's own, and the few that are parity's."""

import datetime
import math
import os
import re
import socket
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from parity.base import codes, paths, submission, yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.limits import UNITS
from parity.base.strict import Strict
from parity.base.text import node_name
from parity.base.times import Time
from parity.site import reframe_config

#: The environment that `parity software build` makes for a system that states none (`spack:`).
SPACK = 'spack'
#: Schedulers whose jobs wait in a queue.
QUEUED = ('slurm', 'squeue', 'pbs', 'pbspro')


def names() -> list[str]:
    """Return every system, in the order ReFrame should try them: the catch-all `local` last."""
    folders = [file.parent.name for file in (paths.site() / 'systems').glob('*/system.yaml')]
    return sorted(folders, key=lambda name: (name == 'local', name))


def asked(name: str) -> list[str]:
    """Return the name of one system, of all for ''. UsageError for one that is not described."""
    return [read(name).name] if name else names()


def read(name: str) -> 'System':
    """Return the system as its file states it. UsageError names file, line, key and what is valid."""
    system = yamlfile.read(existing(name), System)
    if system.name != name:
        raise UsageError(f'{file_of(name)}:1: name: {system.name!r} stands in folder {name!r}; they must agree')
    return _with_reframe_config(system) if system.reframe_config else system


def _with_reframe_config(system: 'System') -> 'System':
    """Return the system with the partitions that its configuration of ReFrame states, as parity sees them."""
    where = line(system.name, ('reframe_config',))
    stated = reframe_config.system(system.reframe_file, system.name, where)
    names = [part.name for part in stated.partitions]
    for name in system.extras:
        if name not in names:
            raise UsageError(f'{line(system.name, ("extras", name))}: extras: {unknown("partition", name, names)}')
    partitions = []
    for part in stated.partitions:
        extras = system.extras.get(part.name, Extras())
        partitions.append(Partition.model_construct(**dict(part), extras=extras))       # ReFrame checks the rest
    return system.model_copy(update={
        'descr': stated.descr, 'hostnames': stated.hostnames, 'partitions': partitions})


def is_name(text: str) -> bool:
    """Return whether ReFrame takes this as the name of a system or a partition."""
    return re.fullmatch(_NAME.strip('^$'), text) is not None


def existing(name: str) -> Path:
    """Return the file that states a system. UsageError for an unknown one."""
    if name not in names():
        raise UsageError(unknown('system', name, names()))
    return file_of(name)


def folder(name: str) -> Path:
    return paths.site() / 'systems' / name


def file_of(name: str) -> Path:
    return folder(name) / 'system.yaml'


def line(name: str, keys: tuple) -> str:
    """Return the place of an entry in that file: FILE:LINE."""
    file = file_of(name)
    _, node = yamlfile.load(file)
    return f'{file}:{yamlfile.line_of(node, keys)}'


def references(name: str) -> Path:
    return folder(name) / 'references'


def reference_files(name: str) -> list[Path]:
    return sorted(references(name).glob('*.yaml'))


def guard_references(name: str) -> None:
    """Raise UsageError for a file that ReFrame, which expands every alias, must not read."""
    for file in reference_files(name):
        yamlfile.guard(file, file.read_text(encoding='utf-8', errors='replace'))


def required(system: 'System') -> set[str]:
    """Return the features of the codes that must be measured: those that the system lists, those of prefixes."""
    codes_required = set(system.requires)
    for environ in system.environments:
        if environ.prefix:
            codes_required.update(environ.codes)
    return codes_required


def environs(system: 'System') -> list[str]:
    """Return the names of the environments that a system may have, in ReFrame and in references."""
    built = [name for entry in system.builds for name in entry.environs]
    return ['distro', *built, *(entry.name for entry in system.environments)]


def waived(system: 'System', today: datetime.date) -> tuple[dict[str, str], list[str]]:
    """Return the waivers that hold today, by code, and a sentence for each that has expired."""
    holding, expired = {}, []
    for waiver in system.waivers:
        if today <= waiver.until:
            holding[waiver.code] = f'waived until {waiver.until}: {waiver.reason}'
        else:
            expired.append(f'the waiver of {waiver.code} expired on {waiver.until} ({waiver.reason})')
    return holding, expired


def gone(system: 'System', start: float) -> 'dict[str, Retired]':
    """Return the nodes that are retired by then (Unix time), each with its entry."""
    day = datetime.date.fromtimestamp(start)
    retired = {}
    for entry in system.retired:
        if entry.since <= day:
            retired |= dict.fromkeys(entry.nodes, entry)
    return retired


def named(argv: list[str]) -> str:
    """Return the system of `reframe ARGV`: --system, else RFM_SYSTEM, else the first whose hostnames match.

    UsageError names the valid ones for a system that is not there."""
    name = stated(argv)
    if name is not None:
        return read(name).name
    host = socket.gethostname()
    for name in names():
        if any(re.match(pattern, host) for pattern in read(name).hostnames):
            return name
    raise UsageError(f'no system has {host!r} among its hostnames; name one: --system {"|".join(names())}')


def stated(argv: list[str]) -> str | None:
    """Return what --system of `reframe ARGV`, else RFM_SYSTEM, names, be it there or not; None: neither does."""
    for option, following in zip_longest(argv, argv[1:], fillvalue=''):
        if option == '--system':
            return following.partition(':')[0]
        if option.startswith('--system='):
            return option.removeprefix('--system=').partition(':')[0]
    return os.environ.get('RFM_SYSTEM', '').partition(':')[0] or None


#: ReFrame's rule for the names of systems, partitions and environments.
_NAME = r'^[A-Za-z0-9_-]+$'
Name = Annotated[str, StringConstraints(pattern=_NAME)]
#: What ends up in a job script as it stands: no quotes, no commands, no line breaks.
Module = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_][A-Za-z0-9_.+/@:=-]*$')]
Variable = Annotated[str, StringConstraints(pattern=r'^[A-Za-z_][A-Za-z0-9_]*$')]
#: Words, paths and $NAMES, which the shell expands.
Value = Annotated[str, StringConstraints(pattern=r'^([A-Za-z0-9_.+/@:=,%~{}-]|\$[A-Za-z_{])*$')]
#: An option of sbatch or qsub: it stands in a comment, which a line break would end.
Option = Annotated[str, StringConstraints(pattern=r'^[^\x00-\x1f\x7f;`$]+$')]
EnvVars = list[tuple[Variable, Value]]
#: Words of a spec of Spack.
Specs = Annotated[str, StringConstraints(pattern=r'^[\w@.:=,+~ "\'%^/-]*$')]


def _known_code(name: str) -> str:
    valid = codes.features()
    if name not in valid:
        raise ValueError(f'unknown code {name!r}; valid: {", ".join(valid)}')
    return name


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as err:
        raise ValueError(f'{text!r} is no regular expression: {err}') from None
    return text


#: What ReFrame 4.10 has of each.
SCHEDULERS = ('flux', 'local', 'lsf', 'oar', 'pbs', 'pbspro', 'sge', 'slurm', 'squeue', 'ssh', 'torque')
LAUNCHERS = ('alps', 'clush', 'ibrun', 'local', 'lrun', 'lrun-gpu', 'mpiexec', 'mpirun', 'mpirun-intelmpi',
             'mpirun-openmpi', 'pdsh', 'srun', 'srunalloc', 'ssh', 'upcrun', 'upcxx-run')
#: Those under which a job can be sent to a node by its name.
ROTATES = ('slurm', 'squeue', 'pbs')
CodeName = Annotated[str, AfterValidator(_known_code)]
LimitName = Literal[tuple(UNITS)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _absolute(path: str) -> str:
    if not path.startswith(('/', '$')):
        raise ValueError(f'{path!r} must be an absolute path, or start with a variable such as $SCRATCH')
    return path


def _prefix(path: str) -> str:
    if not re.fullmatch(r'/[\w.+/@=,%~-]*', path, re.ASCII):
        raise ValueError(f'{path!r} must be an absolute path, of letters, digits and . + / @ = , % ~ - _')
    return path.rstrip('/')


def _node(name: str) -> str:
    if not re.fullmatch(r'[A-Za-z0-9][\w.-]*', name, re.ASCII):
        raise ValueError(f'{name!r} is no name of a node; valid is one name, such as c1 '
                         '(`scontrol show hostnames` lists the names of a range)')
    return node_name(name)


NodeName = Annotated[str, AfterValidator(_node)]


class StatedLimit(Strict):
    """A bound that the operator vouches for; it is certain unless said otherwise."""

    value: Positive
    unit: str
    source: str = Field(min_length=3)
    certain: bool = True


class Network(Strict):
    """A network between the nodes of a partition, which `-S network=NAME` makes MPI programs take."""

    #: As the nodes name it: eth0, or mlx5_0:1 for a port of InfiniBand. A case reads its byte counters.
    interface: Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_.-]+(:[0-9]+)?$')]
    env_vars: EnvVars = Field(min_length=1)     # that make Open MPI, UCX or Intel MPI take it
    limits: dict[LimitName, StatedLimit] = {}   # those that are not the partition's


class Extras(BaseModel):
    """A partition's `extras`: free in ReFrame; these keys mean something to parity's checks."""

    model_config = ConfigDict(extra='allow', frozen=True, defer_build=True)

    filesystems: dict[Name, Annotated[str, AfterValidator(_absolute)]] = {}     # absolute, or from a $VARIABLE
    networks: dict[Name, Network] = {}          # several between the same nodes
    limits: dict[LimitName, StatedLimit] = {}   # what no figure can exceed
    nodes: PositiveInt | None = None            # that one job may have; None: not known
    memory_bytes: PositiveInt | None = None     # of a node; required where nothing is detected
    cores: PositiveInt | None = None            # of a node; required where nothing is detected
    llc_bytes: PositiveInt | None = None        # last-level caches of a node together
    gflops_a_core: Positive | None = None       # DGEMM, by which dense systems are sized; None: a guess
    max_pending_time: Time | None = None        # that a case may wait in the queue
    others_cpus: Positive | None = None         # CPUs that others may take; above: `disturbed` (docs/disturbed.md)
    nodes_share_cpus: bool = False              # the nodes are parts of one machine, on the same CPUs

    @model_validator(mode='after')
    def _units(self) -> 'Extras':
        for stated in (self, *self.networks.values()):
            for name, limit in stated.limits.items():
                if limit.unit not in UNITS[name]:
                    raise ValueError(f'limits: {name}: unit {limit.unit!r}; valid: {", ".join(UNITS[name])}')
        return self

    @model_validator(mode='after')
    def _spelling(self) -> 'Extras':
        known = list(type(self).model_fields)
        for key in self.model_extra or ():
            near = get_close_matches(key, known, n=1, cutoff=0.75)
            if near:
                raise ValueError(f'{key}: did you mean {near[0]!r}? parity knows {", ".join(known)}')
        return self


class Device(Strict):
    """The devices of one type that a node has, in ReFrame's words."""

    type: str                           # gpu
    arch: str | None = None             # sm_80
    model: str | None = None
    num_devices: PositiveInt = 1        # of a node


class Partition(Strict):
    """A partition in ReFrame's words; `environs` may be left out: then every environment found."""

    name: Name
    descr: str = ''
    scheduler: Literal[SCHEDULERS]
    launcher: Literal[LAUNCHERS]
    access: list[Option] = []           # queue, account, whole nodes: what every job asks for
    environs: list[Name] | None = None  # all that are found, where not stated
    max_jobs: PositiveInt = 1           # cases in the queue or running at once
    time_limit: Time | None = None      # of a case
    features: list[Name] = []           # cpu, gpu; physical or virtual
    modules: list[Module] = []
    env_vars: EnvVars = []
    prepare_cmds: list[str] = []
    resources: list[dict[str, Any]] = []
    devices: list[Device] = []
    processor: dict[str, Any] = {}
    sched_options: dict[str, Any] | None = None
    container_platforms: list[dict[str, Any]] = []
    extras: Extras = Extras()

    @field_validator('access')
    @classmethod
    def _pbs_takes(cls, access: list[str], info: ValidationInfo) -> list[str]:
        if str(info.data.get('scheduler')).startswith('pbs'):
            why = submission.of_options(access)
            if why:
                raise ValueError(why)
        return access


class StatedEnvironment(Strict):
    """Modules of the site, a prefix or compilers, and the codes they bring; each is offered only if it starts."""

    name: Name
    modules: list[Module] = []          # none: what lies on the PATH of the nodes themselves, from packages
    prefix: Annotated[str, AfterValidator(_prefix)] = ''    # its bin/ has the programs of the codes: /opt/NAME
    codes: list[CodeName] = []          # of parity's checks; none: for checks of your own
    features: list[Name] = []           # a check that asks for `+openmp` runs where this has openmp
    extras: dict[Variable, Any] = {}
    cc: str = ''
    cxx: str = ''
    ftn: str = ''
    nvcc: str = ''
    cppflags: list[str] = []
    cflags: list[str] = []
    cxxflags: list[str] = []
    fflags: list[str] = []
    ldflags: list[str] = []
    env_vars: EnvVars = []
    prepare_cmds: list[str] = []
    resources: dict[Variable, dict[str, Any]] = {}
    target_systems: list[str] = []      # SYSTEM:PARTITION, for these partitions alone; none: for all

    def is_for(self, system: str, partition: str) -> bool:
        targets = self.target_systems
        return not targets or any(target in targets for target in _targets(system, partition))


def _targets(system: str, partition: str) -> tuple[str, ...]:
    """Return the ways in which ReFrame names a partition of a system among target_systems."""
    return '*', system, f'{system}:{partition}', f'*:{partition}'


class SpackEnvironment(Strict):
    """An environment that `parity software build` makes of spack.yaml, for one target and with one toolchain."""

    name: Name                          # in ReFrame: `reframe -p NAME`
    partitions: list[Name] = []         # none: all
    target: Specs = ''                  # the processor, as Spack calls it: zen3, x86_64_v3
    compiler: Specs = ''                # of Spack's packages: gcc@13, oneapi
    mpi: Specs = ''                     # openmpi@5, mpich
    blas: Specs = ''                    # openblas, netlib-lapack
    codes: list[CodeName] = []          # none: all
    variants: dict[CodeName, Specs] = {}    # code -> words behind its line of spack.yaml: {CODE: 'cflags="-O2"'}
    env_vars: EnvVars = []              # of its jobs: [[SLURM_MPI_TYPE, pmi2]]

    @property
    def environs(self) -> tuple[str, str]:
        """The names of the environments that its views make: of the codes, of those for GPUs."""
        return self.name, f'{self.name}-gpu'

    def is_for(self, partition: str) -> bool:
        return not self.partitions or partition in self.partitions


class Waiver(Strict):
    """A required code that may be absent: by name, with a reason, until a day."""

    code: CodeName
    reason: str = Field(min_length=3)
    until: datetime.date                # the last day on which it holds


class Retired(Strict):
    """Retired checks, partitions, environments or nodes: the nights measured them, and need not any more."""

    check: str = ''                     # its class, or a case with its parameters, as `parity verdict` prints it
    partition: Name = ''                # of this partition only
    environ: Name = ''                  # of this environment only
    nodes: list[NodeName] = []          # these nodes; the entry has no check, partition or environ then
    reason: str = Field(min_length=3)
    since: datetime.date                # the first night without it

    @model_validator(mode='after')
    def _names_something(self) -> 'Retired':
        if bool(self.nodes) == bool(self.check or self.partition or self.environ):
            raise ValueError('must name a check, a partition or an environ, or nodes alone')
        return self

    def __str__(self) -> str:
        words = [self.check] if self.check else []
        if self.partition:
            words.append(f'on {self.partition}')
        if self.environ:
            words.append(f'with {self.environ}')
        return ' '.join(words)


class Command(Strict):
    """A command of the site, run without a shell."""

    command: list[Annotated[str, StringConstraints(pattern=r'^[^\x00]+$')]] = Field(min_length=1)
    #: A file of mode 600 with KEY=VALUE lines, or names of variables of the environment.
    secrets: Annotated[str, AfterValidator(_absolute)] | list[Variable] = []


class Notify(Command):
    """Whom to tell of incidents that are new, back, worse, over or due."""

    reminder: Time = '7d'                       # after this time a lasting fault is sent again


def _share(stated: Any) -> float:
    """Return a percentage as a share: '4 %' is 0.04."""
    number = str(stated).strip()
    try:
        share = float(number.removesuffix('%')) / 100
    except ValueError:
        share = math.nan
    if not number.endswith('%') or not 0 <= share <= _MOST_LEAST:
        most = f'{100 * _MOST_LEAST:g} %'
        raise ValueError(f'{stated!r} is no percentage of at most {most}; valid is, for example, 4 %')
    return share


#: A larger slowdown always alarms.
_MOST_LEAST = 0.5
Percentage = Annotated[float, BeforeValidator(_share)]


class Alarms(Strict):
    """Alarms: how often by chance, after how many bad nights, from which slowdown on (docs/regression.md)."""

    a_month: Positive = 1.0             # false alarms by chance, of the whole system
    nights: PositiveInt = 2             # bad nights until a slowdown is an incident; 1: the first night is red
    #: A smaller slowdown than the nights before is a line, unless it is beyond an accepted bound.
    least: Percentage = Field(default='4 %', validate_default=True)


_WINDOW = re.compile(r'([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)')


def _window(text: str) -> str:
    found = _WINDOW.fullmatch(text)
    if not found:
        raise ValueError(f'{text!r} is no window; valid is, for instance, "01:00-05:00" or "22:00-05:00"')
    if found.group(1, 2) == found.group(3, 4):
        raise ValueError(f'{text!r} never opens: it ends when it begins; valid is, for instance, "22:00-05:00"')
    return text


class Nightly(Strict):
    """The nodes that a night measures by turns, those first that were measured longest ago (docs/nightly.md)."""

    node_hours: Positive                # of all jobs of a night together
    window: Annotated[str, AfterValidator(_window)] = ''    # local time in which jobs may start; none: always

    def opens(self, now: float) -> tuple[float, float]:
        """Return when the window that is open, or opens next, begins and ends (Unix times)."""
        if not self.window:
            return now, float('inf')
        opening, closing = [datetime.time.fromisoformat(text) for text in self.window.split('-')]
        today = datetime.datetime.fromtimestamp(now).date()
        for days in (-1, 0, 1):
            day = today + datetime.timedelta(days=days)
            next_day = day + datetime.timedelta(days=1)
            begin = datetime.datetime.combine(day, opening)
            end = datetime.datetime.combine(next_day if closing < opening else day, closing)
            if end.timestamp() > now:
                return begin.timestamp(), end.timestamp()
        raise AssertionError(self.window)


class CauseBudget(Strict):
    """The budget of `parity cause` for one incident (docs/cause.md)."""

    node_hours: Positive = 4.0


class Kept(Strict):
    """Software that `parity software build` leaves where it is (docs/software.md)."""

    generations: PositiveInt = 5        # that of the last so many nights with different software


class IoBudget(Strict):
    """The bytes that storage checks may write: it shortens a case, or skips it with the reason."""

    case: PositiveInt | None = None     # by one run of a case; 2 x memory_bytes where not stated
    night: PositiveInt | None = None    # by all cases of a session; 10 % of the file system's free space


class HttpJson(Strict):
    """ReFrame's httpjson handler, which sends each case to a server as it ends (docs/export.md)."""

    url: Annotated[str, StringConstraints(pattern='^https?://')]
    extras: dict[str, Any] = {}         # sent beside
    ignore_keys: list[str] = []         # not sent: check_parity, check_env_vars ...
    extra_headers: dict[str, str] = {}  # $NAME stands for a secret
    #: A file of mode 600 with KEY=VALUE lines, or names of variables of the environment.
    secrets: Annotated[str, AfterValidator(_absolute)] | list[Variable] = []


class System(Strict):
    """systems/<name>/system.yaml."""

    name: Name
    #: The site's own configuration of ReFrame, in Python. It states descr, hostnames, partitions and environments.
    reframe_config: Annotated[str, AfterValidator(_absolute)] = ''
    descr: str = ''
    hostnames: list[Annotated[str, AfterValidator(_pattern)]] = Field([], min_length=1)  # of login nodes
    modules_system: Literal['nomod', 'lmod', 'envmod'] = 'nomod'
    #: True: the one machine that this is. `host`: nodes that are parts of this machine and run its own root:
    #: software and caches are found here, all else is stated.
    detect: bool | Literal['host'] = False
    requires: list[CodeName]            # codes that must be measured: `missing` where one cannot be
    waivers: list[Waiver] = []          # required codes that may be absent
    retired: list[Retired] = []         # what the nights measured and need not miss any more
    #: Files and folders with more checks: whatever loads checks/ loads these.
    checks: list[Annotated[str, AfterValidator(_absolute)]] = []
    environments: list[StatedEnvironment] = []     # beside what `parity software build` has built
    spack: list[SpackEnvironment] = []  # what it builds; none: one environment, `spack`
    notify: Notify | None = None
    httpjson: HttpJson | None = None
    on_incident: Command | None = None  # gets each incident that is new, back, worse, over or due, as JSON
    io_budget: IoBudget = IoBudget()
    alarms: Alarms = Alarms()
    nightly: Nightly | None = None
    cause: CauseBudget = CauseBudget()
    software: Kept = Kept()
    partitions: list[Partition] = Field([], min_length=1)
    #: Of partitions of reframe_config, by name: with cores and memory_bytes parity's own checks run there.
    extras: dict[Name, Extras] = {}

    @property
    def reframe_file(self) -> Path:
        """The file that reframe_config names."""
        return Path(os.path.expandvars(self.reframe_config))

    @property
    def builds(self) -> list[SpackEnvironment]:
        """The environments that `parity software build` makes."""
        return self.spack or [SpackEnvironment(name=SPACK)]

    @field_validator('spack')
    @classmethod
    def _own_names(cls, entries: list[SpackEnvironment]) -> list[SpackEnvironment]:
        names = [name for entry in entries for name in entry.environs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'{name!r} is the name of two environments; each needs its own')
        return entries

    @model_validator(mode='after')
    def _names_beside_spack(self) -> 'System':
        names = [name for entry in self.spack for name in entry.environs]
        for entry in self.environments:
            if entry.name in names:
                raise ValueError(f'environments: {entry.name}: `spack` makes an environment of this name; each '
                                 'needs its own')
        return self

    @property
    def module_commands(self) -> list[str]:
        """The module commands of its partitions that jobs run before they load modules: `module purge`."""
        commands = []
        for part in self.partitions:
            commands += [line for line in part.prepare_cmds if line.startswith(('module ', 'ml '))]
        return list(dict.fromkeys(commands))

    @model_validator(mode='after')
    def _one_source(self) -> 'System':
        if self.reframe_config:
            for key in ('descr', 'hostnames', 'modules_system', 'detect', 'partitions'):
                if key in self.model_fields_set:
                    raise ValueError(f'{key}: reframe_config states it; valid is one of the two')
            return self
        for key in ('hostnames', 'partitions'):
            if key not in self.model_fields_set:
                raise ValueError(f'{key}: must be stated where there is no reframe_config')
        if self.extras:
            raise ValueError('extras: only beside reframe_config; without it, each partition has its own extras')
        return self

    @model_validator(mode='after')
    def _consistent(self) -> 'System':
        if self.reframe_config:
            return self
        names = [part.name for part in self.partitions]
        if len(set(names)) < len(names):
            raise ValueError(f'partitions: each needs a name of its own: {", ".join(names)}')
        for entry in self.spack:
            for partition in entry.partitions:
                if partition not in names:
                    raise ValueError(f'spack: {entry.name}: {unknown("partition", partition, names)}')
        self._demand_targets(names)
        if self.detect is True and any(part.max_jobs != 1 for part in self.partitions):
            raise ValueError('max_jobs must be 1 where detect is true: one case at a time on this machine')
        if self.nightly and not any(part.scheduler in ROTATES for part in self.partitions):
            raise ValueError('nightly: node_hours needs a partition whose scheduler takes a node by its name: '
                             + ', '.join(ROTATES))
        return self

    def _demand_targets(self, partitions: list[str]) -> None:
        """Raise ValueError for an environment for a partition that is not here."""
        valid: list[str] = []
        for partition in partitions:
            valid += [target for target in _targets(self.name, partition) if target not in valid]
        for entry in self.environments:
            for target in entry.target_systems:
                if target not in valid:
                    raise ValueError(f'environments: {entry.name}: target_systems: {target!r}; '
                                     f'valid: {", ".join(valid)}')
