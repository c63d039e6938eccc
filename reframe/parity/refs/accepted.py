"""Accepted values: systems/<name>/references/<partition>.yaml, in ReFrame's own $ref form, errors and warnings.

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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field, StringConstraints, ValidationError

from parity import plan
from parity.base import paths, yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.figures import percent
from parity.base.strict import Strict
from parity.plan import LoadedCheck, Plan, PlannedMetric
from parity.plan.identity import suffix
from parity.records.outset import cell_id, parameters
from parity.system import systems
from parity.system.systems import System

if TYPE_CHECKING:                       # a verdict reads references without the history
    from parity.refs.propose import Cell

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


def problems(system: System, planned: Plan) -> list[str]:
    """Return a sentence with file and line for everything in the system's references that fits nothing."""
    partitions = [p.name for p in system.partitions]
    found: list[str] = []
    for file in sorted(systems.references(system.name).glob('*')):
        if file.suffix != '.yaml' or file.stem not in partitions:
            found.append(f'{file}:1: {unknown("partition", file.name, [f"{p}.yaml" for p in partitions])}')
        else:
            found += problems_of(system, planned, file)
    return found


def problems_of(system: System, planned: Plan, file: Path, text: str | None = None) -> list[str]:
    """Return the same for one file, or for the ``text`` that it will have."""
    try:
        data, node = yamlfile.load(file) if text is None else yamlfile.parse(file, text)
    except UsageError as err:
        return [str(err)]
    environs = ['distro', *systems.SPACK, *(e.name for e in system.environments)]
    found = _File(system.name, file, node, {c.check: c for c in planned.checks}, environs).read(data)
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


#: A reference that so many sessions in a row did not apply is of nothing that is measured.
UNUSED = 14
#: A bound so many times as wide as the noise needs lets a real change pass.
_TOO_WIDE = 2


class Warned(NamedTuple):
    """A warning for a person to look at; the reference is applied all the same."""

    reference: Accepted
    what: str

    def __str__(self) -> str:
        return f'{self.reference.where}: {self.what}'


class Linted(NamedTuple):
    """A system: how many references it has, the errors (a run refuses them) and the warnings."""

    system: str
    references: int = 0
    errors: list[str] = []
    warnings: list[Warned] = []


def lint(system: str = '') -> list[Linted]:
    """Lint one system, or all that have references. UsageError for an unknown one."""
    linted = []
    for name in [system] if system else [n for n in systems.names() if systems.references(n).is_dir()]:
        site = systems.read(name)
        planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', '--system', name])
        if wrong := problems(site, planned):
            linted.append(Linted(name, errors=wrong))
        else:
            found = of_system(name)
            linted.append(Linted(name, len(found), warnings=[*warnings(found), *_against_plan(found, planned)]))
    return linted


def warnings(found: list[Accepted]) -> list[Warned]:
    """Return what has expired, and what no longer fits the history of the system."""
    if not found:
        return []
    from parity.records import history  # a first verdict, which asks only what has expired, loads no polars
    from parity.refs import propose
    frame = history.load(found[0].system)
    cells = propose.cells(frame)
    began = sorted(frame['night'].unique())
    warned = _expired(found)
    for each in found:
        own = [cell for cell in cells if each.is_of(cell) and cell.nights]
        told = each.provenance
        if told and any(cell.nights[-1].software != told.software for cell in own):
            warned.append(Warned(each, f'its software changed since it was accepted on {told.date}'))
        warned += [Warned(each, what) for what in _width(each, own)]
        since = [night for night in began if not told or night[:10] > str(told.date)]
        used = max((n.night for cell in own for n in cell.nights if n.applied), default='')
        if len(since) >= UNUSED and used < since[-UNUSED]:
            warned.append(Warned(each, f'not applied by the last {UNUSED} sessions'
                                 + (f', not since {used[:10]}' if used else '')))
    return warned


def _width(each: Accepted, own: list[Cell]) -> Iterator[str]:
    """A word where the bound on the worse side is far wider than the nights need."""
    if not each.value or not own:
        return
    from parity.refs import propose
    bound = each.lower if own[0].nights[-1].better == 'higher' else each.upper
    try:
        needed = [propose.of_nights(propose.alike(cell, {})) for cell in own]
    except propose.Refused:
        return
    widest = max(found.reference[2] for found in needed)
    if bound is not None and widest and abs(bound) > _TOO_WIDE * widest:
        yield (f'a bound of {percent(abs(bound))} is wider than the noise needs: '
               f'{needed[0].observed.n} nights ask for {percent(widest)}')


def _against_plan(found: list[Accepted], planned: Plan) -> Iterator[Warned]:
    """A warning for a reference that no planned case has, and for one that two environments share."""
    variants = {check.check: check.variants for check in planned.checks}
    for each in found:
        wanted = {name: v for name, v in each.parameters.items() if name not in variants[each.check]}
        own = [case for case in planned.cases if each.partition == case.partition and each.check == case.check
               and wanted.items() <= parameters(case.case).items()]
        environs = {case.environ for case in own} - {''}
        if not environs:
            needs = ', '.join(sorted({need for case in own for need in case.needs}))
            yield Warned(each, f'never applied: no environment offers {needs}' if needs else
                         'never applied: no case of the plan is of it')
        elif '$environ' in each.index and each.index['$environ'] not in environs:
            yield Warned(each, f'never applied: the case runs in {", ".join(sorted(environs))}')
        elif '$environ' not in each.index and len(environs) > 1:
            yield Warned(each, f'one value for {" and ".join(sorted(environs))}: put $environ into the $index')


def _expired(references: Iterable[Accepted]) -> list[Warned]:
    return [Warned(each, f'expired on {each.provenance.expires}; it is applied all the same: '
                         f'parity refs propose --system {each.system}')
            for each in references if each.provenance and each.provenance.expires < datetime.date.today()]


def grouped(warned: Iterable[Warned]) -> list[str]:
    """Return one sentence for all references of a file that have the same warning."""
    groups: dict[tuple, list[Warned]] = {}
    for each in warned:
        groups.setdefault((each.reference.file, each.what), []).append(each)
    return [str(first) if not more else
            f'{first.reference.where}, and {len(more)} more reference{"s" if len(more) > 1 else ""}: {first.what}'
            for first, *more in groups.values()]


def expired(system: str) -> list[str]:
    """Return what a verdict says about the references; a file that cannot be read, the next run refuses."""
    try:
        return grouped(_expired(of_system(system)))
    except UsageError as err:
        return [str(err)]
