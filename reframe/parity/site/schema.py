"""The schema of systems/<name>/system.yaml: ReFrame's own keys, and the few that are parity's."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, StringConstraints

from parity.codes import FEATURES

#: ReFrame's rule for the names of systems, partitions and environments.
Name = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_-]+$')]
EnvVars = list[tuple[str, str]]


def _known_code(name: str) -> str:
    if name not in FEATURES:
        raise ValueError(f'unknown code {name!r}; valid: {", ".join(FEATURES)}')
    return name


def _requirement(value: Any) -> Any:
    if value == 'offered':
        return value
    if not isinstance(value, list):
        raise ValueError(f"{value!r}: must be 'offered' or a list of codes ({', '.join(FEATURES)})")
    return [_known_code(name) for name in value]


CodeName = Annotated[str, AfterValidator(_known_code)]


class Strict(BaseModel):
    model_config = ConfigDict(extra='forbid', frozen=True)


class StatedLimit(Strict):
    """A bound that the operator vouches for; it is certain unless said otherwise."""

    value: PositiveFloat
    unit: str
    source: str = Field(min_length=3)
    certain: bool = True


class Extras(BaseModel):
    """A partition's `extras`: free in ReFrame; these keys mean something to parity's checks."""

    model_config = ConfigDict(extra='allow', frozen=True)

    filesystems: dict[Name, str] = {}
    limits: dict[str, StatedLimit] = {}
    memory_bytes: PositiveInt | None = None
    cores: PositiveInt | None = None
    llc_bytes: PositiveInt | None = None


class Partition(Strict):
    """A partition in ReFrame's words; `environs` may be left out: then every environment found."""

    name: Name
    descr: str = ''
    scheduler: str
    launcher: str
    access: list[str] = []
    environs: list[Name] | None = None
    max_jobs: PositiveInt = 1
    time_limit: str | None = None
    features: list[Name] = []
    modules: list[Any] = []
    env_vars: EnvVars = []
    prepare_cmds: list[str] = []
    resources: list[dict[str, Any]] = []
    devices: list[dict[str, Any]] = []
    processor: dict[str, Any] = {}
    sched_options: dict[str, Any] | None = None
    container_platforms: list[dict[str, Any]] = []
    extras: Extras = Extras()


class ModulesEnvironment(Strict):
    """Modules of the site and the codes they bring; each is offered only if it starts."""

    name: Name
    modules: list[str] = Field(min_length=1)
    codes: list[CodeName] = Field(min_length=1)


class Waiver(Strict):
    """A required code that may be absent: by name, with a reason, until a day."""

    code: CodeName
    reason: str = Field(min_length=3)
    until: datetime.date

    def holds(self, day: datetime.date) -> bool:
        return day <= self.until


class System(Strict):
    """systems/<name>/system.yaml."""

    name: Name
    descr: str = ''
    hostnames: list[str] = Field(min_length=1)
    modules_system: str = 'nomod'
    detect: bool = False
    requires: Annotated[Any, AfterValidator(_requirement)]  # 'offered' or a list of codes
    waivers: list[Waiver] = []
    environments: list[ModulesEnvironment] = []
    partitions: list[Partition] = Field(min_length=1)
