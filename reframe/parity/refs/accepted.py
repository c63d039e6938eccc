"""Accepted values: systems/<name>/references/<partition>.yaml, in ReFrame's own $ref form.

    Hpcc:
      $index: [size]
      quick:
        hpl: [110.3, -0.05, 0.10, Gflop/s]
    provenance:
      Hpcc/quick/hpl: {date: 2026-11-20, by: ana, why: first values of the new rack, ...}

ReFrame passes a case whose entry is missing or misspelt without a word; here that is an error."""

from __future__ import annotations

import datetime
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from parity.base import yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.strict import Strict
from parity.plan import LoadedCheck, Plan, PlannedMetric
from parity.plan.identity import suffix
from parity.records.cells import cell_id
from parity.system import systems
from parity.system.schema import System

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
    """Who accepted a value, when, why, and until when to believe it."""

    date: datetime.date
    by: Text
    why: Text
    expires: datetime.date


@dataclass(frozen=True)
class Accepted:
    """A reference as a file has it; ``index`` are the values that lead to it, by name (size, ...)."""

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
        """Of the case, and variants."""
        return {name: value for name, value in self.index.items() if name not in ('size', '$environ')}

    @property
    def id(self) -> str:
        """The name of its cell, as far as the index says which one it is."""
        environ = self.index.get('$environ', '')
        case = self.check + suffix(self.parameters)
        return cell_id({**vars(self), 'case': case, 'environ': environ}, bool(environ))

    @property
    def where(self) -> str:
        return f'{self.file}:{self.line}: {self.path}'

    def is_of(self, cell: Cell) -> bool:
        """Whether ReFrame applies it to the runs of ``cell``."""
        has = cell.index
        return (self.partition, self.check, self.metric) == (cell.partition, cell.check, cell.metric) \
            and not cell.changed and all(has.get(name) == value for name, value in self.index.items())


@dataclass(frozen=True)
class Index:
    """The variables that lead to the references of a check in a file."""

    file: Path
    line: int
    names: tuple[str, ...]


def of_system(system: str) -> list[Accepted]:
    """Every well-formed reference; `problems` names the others. UsageError for a file that is no YAML."""
    return [each for file in systems.reference_files(system) for each in _of_file(system, file).accepted]


def indexes(system: str) -> dict[tuple[str, str], Index]:
    """The $index of each check that the system's files have, by partition and check."""
    return {(file.stem, check): index for file in systems.reference_files(system)
            for check, index in _of_file(system, file).indexes.items()}


def problems(system: System, plan: Plan) -> list[str]:
    """One sentence with file and line for everything in the system's references that fits nothing."""
    partitions = [p.name for p in system.partitions]
    found: list[str] = []
    for file in sorted(systems.references(system.name).glob('*')):
        if file.suffix != '.yaml' or file.stem not in partitions:
            found.append(f'{file}:1: {unknown("partition", file.name, [f"{p}.yaml" for p in partitions])}')
            continue
        try:
            found += problems_of(system, plan, file, file.read_text(encoding='utf-8'))
        except (OSError, UnicodeDecodeError) as err:
            found.append(f'{file}: cannot be read: {err}')
    return found


def problems_of(system: System, plan: Plan, file: Path, text: str) -> list[str]:
    """The same of one file, which has, or will have, this text."""
    try:
        data, node = yamlfile.parse(file, text)
    except UsageError as err:
        return [str(err)]
    environs = ['distro', *systems.SPACK, *(e.name for e in system.environments)]
    found = _File(system.name, file, data, node, {c.check: c for c in plan.checks}, environs)
    return [f'{file}:{yamlfile.line_of(node, keys)}: {what}' for keys, what in found.problems]


def _of_file(system: str, file: Path) -> _File:
    """A verdict asks twice, and a file of a thousand references takes a second to read."""
    try:
        stat = file.stat()
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}') from None
    return _kept(system, file, stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=16)
def _kept(system: str, file: Path, _written: int, _size: int) -> _File:
    return _File(system, file, *yamlfile.load(file))


class _File:
    """Everything in one file; ``problems``: (keys, what is wrong). Without the plan's ``checks`` every name and
    unit is taken for valid."""

    def __init__(self, system: str, file: Path, data: Any, node: Any, checks: dict[str, LoadedCheck] | None = None,
                 environs: list[str] | None = None) -> None:
        self.system, self.file, self.node, self.checks, self.environs = system, file, node, checks, environs
        self.accepted: list[Accepted] = []
        self.indexes: dict[str, Index] = {}
        self.problems: list[tuple[tuple, str]] = []
        data = data if isinstance(data, dict) else {}
        self.by, wrong = _provenance(data.get(PROVENANCE))
        if not set(data) - {PROVENANCE}:
            self._wrong((), 'must be a mapping of checks to references, and holds none')
        for check, entry in data.items():
            if check == PROVENANCE:
                self.problems += wrong
            elif checks is not None and check not in checks:
                self._wrong((check,), unknown('check', check, list(checks)))
            elif not isinstance(entry, dict):
                self._wrong((check,), f'{check} must be a mapping')
            else:
                self._check(check, entry)

    def _wrong(self, keys: tuple, what: str) -> None:
        self.problems.append((keys, what))

    def _check(self, check: Any, entry: dict) -> None:
        """One check's entry: $index names `size`, variants and parameters; every value on the way is theirs."""
        index = entry.get('$index')
        names = tuple(map(str, index)) if isinstance(index, list) else None
        if names is not None:
            line = yamlfile.line_of(self.node, (check, '$index'))
            self.indexes[str(check)] = Index(self.file, line, names)
        valid, metrics = dict.fromkeys(names or ()), None
        if self.checks is not None:
            loaded = self.checks[check]
            valid = {'size': list(SIZES), **loaded.variants, '$environ': self.environs, **loaded.parameters}
            metrics = {m.name: m for m in loaded.metrics}
            if what := _index_wrong(check, names, ['size', *loaded.variants], list(valid)):
                self._wrong((check, '$index'), what)
                return
        body = {key: value for key, value in entry.items() if key != '$index'}
        if not body:
            self._wrong((check,), f'{check} has no reference')
        elif names is not None:
            self._level(body, (check,), names, [valid[name] for name in names], metrics)

    def _level(self, entry: Any, keys: tuple, names: tuple[str, ...], valid: list[list[str] | None],
               metrics: dict[str, PlannedMetric] | None) -> None:
        """The entries below ``keys``: values of the next index variable, or metrics where none is left."""
        left = len(names) - len(keys) + 1
        if not isinstance(entry, dict) or not entry:
            self._wrong(keys, f'{keys[-1]} must be a mapping'
                        + ('' if left else ' of metrics to [value, lower, upper, unit]'))
            return
        name, known = (names[-left], valid[-left]) if left else ('metric', metrics and list(metrics))
        for key, value in entry.items():
            here = (*keys, key)
            if known is not None and str(key) not in known:
                self._wrong(here, unknown(name, str(key), known))
            elif known is not None and not isinstance(key, str):    # ReFrame never finds it, and says nothing
                self._wrong(here, f"{name} {key!r} is no text to YAML, and never found: write '{key}'")
            elif left:
                self._level(value, here, names, valid, metrics)
            elif metrics and (what := _tuple_wrong(value, metrics[key].unit) or _side(value, metrics[key].better)):
                self._wrong(here, f'{key}: {what}')
            elif isinstance(value, list) and len(value) == 4:
                check, *where, metric = map(str, here)
                self.accepted.append(Accepted(
                    self.system, self.file.stem, self.file, yamlfile.line_of(self.node, here), check,
                    dict(zip(names, where, strict=True)), metric, *value, self.by.get('/'.join(map(str, here)))))


def _index_wrong(check: str, names: tuple[str, ...] | None, needed: list[str], valid: list[str]) -> str:
    if strange := [name for name in names or () if name not in valid]:
        return unknown('parameter', strange[0], valid)
    if names is None or set(needed) - set(names):
        return (f'{check} needs an $index with {" and ".join(needed)}, for instance [{", ".join(needed)}]; '
                f'valid: {", ".join(valid)}')
    return ''


def _provenance(entries: Any) -> tuple[dict[str, Provenance], list[tuple[tuple, str]]]:
    """By reference, and (keys, what is wrong): what no date can be read from would never expire."""
    if not isinstance(entries, dict):
        return {}, [((PROVENANCE,), 'provenance must be a mapping of references to who accepted them')]
    found, wrong = {}, []
    for path, entry in entries.items():
        try:
            found[path] = Provenance.model_validate(entry)
        except ValidationError as err:
            first = err.errors()[0]
            key = '.'.join(map(str, first['loc'])) or PROVENANCE
            what = f'no such key; valid: {", ".join(Provenance.model_fields)}' \
                if first['type'] == 'extra_forbidden' else first['msg']
            wrong.append(((PROVENANCE, path), f'provenance of {path}: {key}: {what}'))
    return found, wrong


def _side(value: list, better: str) -> str:
    """A bound is needed where worse lies."""
    _, low, up, _ = value
    side = 'lower' if better == 'higher' else 'upper'
    return f'{better} is better, and it has no {side} bound: it could never be judged regressed' \
        if (low if side == 'lower' else up) is None else ''


def _tuple_wrong(value: Any, unit: str) -> str:
    """What is wrong with one reference tuple, '' if nothing."""
    valid = f'[value, lower, upper, {unit}], for instance [1.0, -0.05, 0.05, {unit}]'
    if not isinstance(value, list) or len(value) != 4:
        return f'must be {valid}'
    ref, low, up, given = value
    bad = [x for x in (ref, low, up) if not _number(x)]
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
    return ''


def _number(x: Any) -> bool:
    return x is None or (isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x))
