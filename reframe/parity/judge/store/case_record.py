"""The record that a check writes of its case. ReFrame's database and its perflogs keep it as JSON, under `parity`.

`parity.measure` writes it, and `parity.judge.store.record` reads it. Earlier records have no version, and are read
all the same. The name of a number has its unit. `watched` is the report of programs/watch.py, with its names."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field, fields
from typing import Any

from parity.base.reasons import Kind

#: Of the records that are written now. A change of what a field means needs the next one.
VERSION = 1
#: The times of a job in a record without a version, and their names today.
_TIMES_OF_BEFORE = {'submitted': 'submitted_unix', 'waited': 'waited_s', 'ran': 'ran_s'}


@dataclass
class MetricRecord:
    """One metric of a case; its value is with ReFrame's figures."""

    unit: str = ''
    better: str = ''                        # higher, lower; '': not known
    source: str = ''                        # of the reference, where it is not accepted: "the check's own"
    limit: dict[str, Any] | None = None     # a bound (parity.base.limits.Limit)
    ceiling: dict[str, Any] | None = None   # a bound that another check measures: `of`, `times`
    absent: str = ''                        # why it has no value


@dataclass
class Label:
    """The word for a figure that is not what it seems."""

    word: str = ''                          # such as cached
    reason: str = ''


@dataclass
class JobTimes:
    """The times of a job in its queue, by the scheduler's word. It began ``waited_s`` after it was submitted."""

    submitted_unix: float
    waited_s: float
    ran_s: float


@dataclass
class CaseRecord:
    """The facts that a check notes of its case, beside the figures. None: the check did not note it."""

    version: int = VERSION
    journal: str = ''                       # the id of the session
    subsystem: str = ''
    size: str = ''                          # quick, nightly, acceptance; own: a foreign test's
    needs: list[str] = field(default_factory=list)              # the features that it used of the environment
    metrics: dict[str, MetricRecord] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)      # of metrics
    left_out: dict[str, str] = field(default_factory=dict)      # metric -> why the case cannot have it
    variant: dict[str, str] = field(default_factory=dict)       # which of the check's variants it was
    changed: dict[str, str] = field(default_factory=dict)       # variables that the command line set
    software: dict[str, str] = field(default_factory=dict)      # provider, identity
    sizing: dict[str, dict[str, Any]] = field(default_factory=dict)     # sizes that were derived, with `why`
    inputs: dict[str, str] | None = None    # file -> digest
    image: str | None = None                # of a container; '': of none
    check: str | None = None                # a hash of its sources
    code: str | None = None                 # the same without comments
    profile: dict[str, Any] | None = None   # of MPI calls
    placement: dict[str, Any] | None = None  # where ranks were to run, and ran
    traffic: dict[str, Any] | None = None   # of each network
    facts: dict[str, Any] = field(default_factory=dict)         # what the output says beside its figures
    gpus: dict[str, Any] = field(default_factory=dict)          # what their driver says
    devices: dict[str, str] = field(default_factory=dict)       # gpu0 -> UUID, bus
    node: dict[str, str] = field(default_factory=dict)          # what the node says of itself (programs/node.sh)
    nodes: list[str] = field(default_factory=list)              # of the job, for a session that is killed
    watched: dict[str, Any] = field(default_factory=dict)       # what programs/watch.py saw
    disturbed: str = ''                     # who took CPUs of the job
    before: dict[str, Any] | None = None    # of the machine (parity.measure.machine.reading)
    after: dict[str, Any] | None = None
    job: JobTimes | None = None
    until_unix: float | None = None         # when the night's window ended, where the job would have waited longer
    exitcode: int = 0                       # of a program whose figures count all the same
    status: str = ''                        # skipped, wrong, failed; '': there are figures
    kind: str | None = None                 # of the reason
    reason: str = ''                        # of the status, for people

    def __getitem__(self, name: str) -> Any:
        """Return a field by its name: checks use the record as a dict, as it was before it had a version."""
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in _FIELDS:
            raise KeyError(name)
        setattr(self, name, value)

    def refuse(self, status: str, reason: str, kind: Kind = Kind.NONE) -> None:
        """Note why the case has no figures."""
        self.status, self.reason, self.kind = status, reason, kind.value

    def as_json(self) -> dict[str, Any]:
        """Return what is stored: the fields that say something."""
        stored: dict[str, Any] = {}
        for name, default in _FIELDS.items():
            value = getattr(self, name)
            if name == 'version' or value != default:
                stored[name] = value
        for name in ('metrics', 'labels'):
            if name in stored:
                stored[name] = {metric: _fields_set(noted) for metric, noted in stored[name].items()}
        if self.job:
            stored['job'] = dataclasses.asdict(self.job)
        return stored

    __rfm_json_encode__ = as_json           # as ReFrame asks it

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> CaseRecord:
        """Return the record that was stored. ValueError for one of a newer parity."""
        version = stored.get('version', 0)
        if version > VERSION:
            raise ValueError(f'a newer parity wrote its record: version {version}, and up to {VERSION} are read')
        if not version:
            stored = _of_before(stored)
        record = cls()
        for name, default in _FIELDS.items():
            value = stored.get(name)
            if value or (value is not None and default is None):
                setattr(record, name, value)
        record.metrics = {name: _part(MetricRecord, noted) for name, noted in record.metrics.items()}
        record.labels = {name: _part(Label, noted) for name, noted in record.labels.items()}
        if record.job:
            record.job = JobTimes(**record.job)
        return record


#: The value of each field that a case did not note.
_FIELDS = vars(CaseRecord())


def _of_before(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a record without a version as one of version 1: its times had no units."""
    times = {_TIMES_OF_BEFORE[name]: seconds for name, seconds in (stored.get('job') or {}).items()}
    return {**stored, 'version': VERSION, 'until_unix': stored.get('until'), 'job': times or None}


def _fields_set(noted: MetricRecord | Label) -> dict[str, Any]:
    return {name: value for name, value in vars(noted).items() if value not in (None, '')}


def _part(kind: type, noted: dict[str, Any]) -> Any:
    """Return a part of the record, without what this version does not know."""
    return kind(**{name: noted[name] for name in _names(kind) if noted.get(name) is not None})


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
