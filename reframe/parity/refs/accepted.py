"""Accepted values: systems/<name>/references/<partition>.yaml, in ReFrame's own $ref form.

    Check:
      $index: [size]
      quick:
        gflops: [110.3, -0.05, 0.10, Gflop/s]
    provenance:
      Check/quick/gflops: {date: 2026-11-20, by: ana, why: first values of the new rack, ...}

ReFrame passes a case whose entry is missing or misspelt without a word; here that is an error."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field, StringConstraints, ValidationError

from parity.base import yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.strict import Strict
from parity.plan import LoadedCheck, Plan, PlannedMetric
from parity.plan.identity import suffix
from parity.records.cells import cell_id
from parity.system import systems
from parity.system.systems import System

if TYPE_CHECKING:                       # a verdict reads references without the history
    from parity.refs.nights import Cell

#: A top-level key that is no check: ReFrame ignores it, people keep there who accepted what and why.
PROVENANCE = 'provenance'
#: What `size` may be (parity.check.workload).
SIZES = ('quick', 'nightly', 'acceptance')
Number = float | None
Reference = tuple[float, Number, Number, str]      # value, lower, upper, unit: as ReFrame has it
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Observed(Strict):
    """The nights that a value stands on."""

    n: int = Field(ge=1)                        # nights
    median: float                               # in the metric's unit
    spread: float = Field(ge=0)                 # of the nights, robust, in the metric's unit
    nights: Text                                # the first and the last one
    sessions: Text                              # theirs, 8 digits each
    nodes: str                                  # where the cases ran
    software: str                               # identity of what they ran


class Provenance(Observed):
    """The provenance of a value: who accepted it, when, why, and until when to believe it."""

    date: datetime.date
    by: Text
    why: Text
    expires: datetime.date


@dataclass(frozen=True)
class Accepted:
    """A reference as a file has it; ``index``: the values that lead to it, by name (size, ...)."""

    system: str
    partition: str
    file: Path
    line: int
    check: str
    index: dict[str, str]
    metric: str
    value: float
    lower: float | None
    upper: float | None
    unit: str
    provenance: Provenance | None       # None: written by hand

    @property
    def path(self) -> str:
        """Its name in the file: FileCopy/quick/small-write/seconds."""
        return '/'.join((self.check, *self.index.values(), self.metric))

    @property
    def reference(self) -> Reference:
        return self.value, self.lower, self.upper, self.unit

    @property
    def parameters(self) -> dict[str, str]:
        """The case's parameters and variants."""
        return {name: value for name, value in self.index.items() if name not in ('size', '$environ')}

    @property
    def id(self) -> str:
        """The name of its cell, as far as the index tells it."""
        environ = self.index.get('$environ', '')
        case = self.check + suffix(self.parameters)
        return cell_id({**vars(self), 'case': case, 'environ': environ}, bool(environ))

    @property
    def where(self) -> str:
        return f'{self.file}:{self.line}: {self.path}'

    def is_of(self, cell: Cell) -> bool:
        """Return whether ReFrame applies it to the runs of ``cell``."""
        return (self.partition, self.check, self.metric) == (cell.partition, cell.check, cell.metric) \
            and not cell.changed and self.index.items() <= cell.index.items()


class Index(NamedTuple):
    """The variables that lead to the references of a check in a file."""

    file: Path
    line: int
    check: str
    names: tuple[str, ...]


def of_system(system: str) -> list[Accepted]:
    """Return every well-formed reference; `problems` names the others. UsageError for a file that is no YAML."""
    return [each for each in _of_system(system) if isinstance(each, Accepted)]


def indexes(system: str) -> dict[tuple[str, str], Index]:
    """Return the $index of each check that the system's files have, by partition and check."""
    return {(each.file.stem, each.check): each for each in _of_system(system) if isinstance(each, Index)}


def problems(system: System, plan: Plan) -> list[str]:
    """Return a sentence with file and line for everything in the system's references that fits nothing."""
    partitions = [p.name for p in system.partitions]
    found: list[str] = []
    for file in sorted(systems.references(system.name).glob('*')):
        if file.suffix != '.yaml' or file.stem not in partitions:
            found.append(f'{file}:1: {unknown("partition", file.name, [f"{p}.yaml" for p in partitions])}')
        else:
            found += problems_of(system, plan, file)
    return found


def problems_of(system: System, plan: Plan, file: Path, text: str | None = None) -> list[str]:
    """Return the same for one file, or for the ``text`` that it will have."""
    try:
        data, node = yamlfile.load(file) if text is None else yamlfile.parse(file, text)
    except UsageError as err:
        return [str(err)]
    environs = ['distro', *systems.SPACK, *(e.name for e in system.environments)]
    found = _File(system.name, file, node, {c.check: c for c in plan.checks}, environs).read(data)
    return [each for each in found if isinstance(each, str)]


def _of_system(system: str) -> Iterator[Accepted | Index | str]:
    for file in systems.reference_files(system):
        try:
            stat = file.stat()
        except OSError as err:
            raise UsageError(f'{file}: {err.strerror}') from None
        yield from _of_file(system, file, stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=16)
def _of_file(system: str, file: Path, _written: int, _size: int) -> list[Accepted | Index | str]:
    """A verdict asks twice, and a file of a thousand references takes a second to read."""
    data, node = yamlfile.load(file)
    return list(_File(system, file, node).read(data))


@dataclass
class _File:
    """A file of references. Without the plan's ``checks`` every name and unit is taken for valid."""

    system: str
    file: Path
    node: Any
    checks: dict[str, LoadedCheck] | None = None
    environs: list[str] = field(default_factory=list)
    by: dict[str, Provenance] = field(default_factory=dict)

    def read(self, data: Any) -> Iterator[Accepted | Index | str]:
        """Yield each reference, each $index, and a sentence with file and line for each thing that is wrong."""
        data = dict(data) if isinstance(data, dict) else {}
        entries = data.pop(PROVENANCE, {})
        if not data:
            yield self._wrong((), 'must be a mapping of checks to references, and holds none')
        if not isinstance(entries, dict):
            yield self._wrong((PROVENANCE,), 'provenance must be a mapping of references to who accepted them')
            entries = {}
        for path, entry in entries.items():
            try:
                self.by[path] = Provenance.model_validate(entry)
            except ValidationError as err:      # a value without a valid date would never expire
                keys, what = yamlfile.told(entry, Provenance, err.errors())[0]
                yield self._wrong((PROVENANCE, path), f'provenance of {": ".join(map(str, (path, *keys, what)))}')
        for check, entry in data.items():
            if self.checks is not None and check not in self.checks:
                yield self._wrong((check,), unknown('check', check, list(self.checks)))
            elif not isinstance(entry, dict):
                yield self._wrong((check,), f'{check} must be a mapping')
            else:
                yield from self._check(str(check), entry)

    def _wrong(self, keys: tuple, what: str) -> str:
        return f'{self.file}:{yamlfile.line_of(self.node, keys)}: {what}'

    def _check(self, check: str, entry: dict) -> Iterator[Accepted | Index | str]:
        """One check's entry: $index names `size`, variants and parameters; every value on the way is theirs."""
        index = entry.get('$index')
        names = tuple(map(str, index)) if isinstance(index, list) else None
        if names is not None:
            yield Index(self.file, yamlfile.line_of(self.node, (check, '$index')), check, names)
        valid, metrics = dict.fromkeys(names or ()), None
        if self.checks is not None:
            loaded = self.checks[check]
            valid = {'size': list(SIZES), **loaded.variants, '$environ': self.environs, **loaded.parameters}
            metrics = {m.name: m for m in loaded.metrics}
            needed, strange = ['size', *loaded.variants], [name for name in names or () if name not in valid]
            if strange:
                yield self._wrong((check, '$index'), unknown('parameter', strange[0], list(valid)))
                return
            if names is None or set(needed) - set(names):
                yield self._wrong((check, '$index'), f'{check} needs an $index with {" and ".join(needed)}, for '
                                  f'instance [{", ".join(needed)}]; valid: {", ".join(valid)}')
                return
        body = {key: value for key, value in entry.items() if key != '$index'}
        if not body:
            yield self._wrong((check,), f'{check} has no reference')
        elif names is not None:
            yield from self._level(body, check, {}, [(name, valid[name]) for name in names], metrics)

    def _level(self, entry: Any, check: str, index: dict[str, str], left: list[tuple[str, list[str] | None]],
               metrics: dict[str, PlannedMetric] | None) -> Iterator[Accepted | str]:
        """The entries below ``check`` and ``index``: values of the variables that are ``left``, then metrics."""
        keys = check, *index.values()
        if not isinstance(entry, dict) or not entry:
            yield self._wrong(keys, f'{keys[-1]} must be a mapping'
                              + ('' if left else ' of metrics to [value, lower, upper, unit]'))
            return
        (name, known), *deeper = left or [('metric', metrics and list(metrics))]
        for key, value in entry.items():
            here = *keys, str(key)
            if known is not None and str(key) not in known:
                yield self._wrong(here, unknown(name, str(key), known))
            elif known is not None and not isinstance(key, str):    # ReFrame never finds it, and says nothing
                yield self._wrong(here, f"{name} {key!r} is no text to YAML, and never found: write '{key}'")
            elif left:
                yield from self._level(value, check, {**index, name: str(key)}, deeper, metrics)
            elif metrics and (what := _tuple_wrong(value, metrics[key])):
                yield self._wrong(here, f'{key}: {what}')
            elif isinstance(value, list) and len(value) == 4:
                line = yamlfile.line_of(self.node, here)
                yield Accepted(self.system, self.file.stem, self.file, line, check, index, str(key), *value,
                               self.by.get('/'.join(here)))


def _tuple_wrong(value: Any, metric: PlannedMetric) -> str:
    """Say what is wrong with a reference tuple; '' if nothing."""
    unit, better = metric.unit, metric.better
    valid = f'[value, lower, upper, {unit}], for instance [1.0, -0.05, 0.05, {unit}]'
    if not isinstance(value, list) or len(value) != 4:
        return f'must be {valid}'
    ref, low, up, given = value
    bad = [x for x in (ref, low, up) if x is not None and (type(x) not in (int, float) or not math.isfinite(x))]
    if bad or ref is None:
        shown = bad[0] if bad else ref
        return f'{shown!r} is no finite number (YAML reads -.1 as text: write -0.1); must be {valid}'
    if given != unit:
        return f'unit {given!r}, but the check measures {unit}'
    if low is None and up is None:
        return 'has no bound: it could never be judged'
    if (low or 0) > 0 or (up or 0) < 0:
        return f'lower {low} must be at most 0 and upper {up} at least 0'
    if (ref > 0 and (low or 0) < -1) or (ref < 0 and (up or 0) > 1):
        side, bound = ('lower', low) if ref > 0 else ('upper', up)
        return f'{side} {bound} is beyond 0: bounds are shares of the value'
    side, bound = ('lower', low) if better == 'higher' else ('upper', up)       # where worse lies
    return '' if bound is not None else \
        f'{better} is better, and it has no {side} bound: it could never be judged regressed'
