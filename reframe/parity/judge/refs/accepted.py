"""Accepted values: systems/<name>/references/<partition>.yaml, in ReFrame's own $ref form, errors and warnings.

    Check:
      $index: [size]
      quick:
        gflops: [110.3, -0.05, 0.10, Gflop/s]
    provenance:
      Check/quick/gflops: {date: 2026-11-20, by: ana, why: first values of the new rack, ...}

ReFrame passes a case whose entry is missing or misspelt without a word; here that is an error."""

import datetime
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from parity.base import yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.figures import counted
from parity.base.strict import Strict
from parity.site import systems
from parity.site.plan import PASSED, LoadedCheck, Plan, PlannedMetric
from parity.site.systems import System

#: A top-level key that is no check: ReFrame ignores it, people keep there who accepted what and why.
PROVENANCE = 'provenance'
#: What `size` may be (parity.measure.check.workload).
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
    index_line: int                     # of the check's $index
    check: str
    index: dict[str, str]
    metric: str
    reference: Reference
    provenance: Provenance | None       # None: written by hand

    @property
    def path(self) -> str:
        """Its name in the file: FileCopy/quick/small-write/seconds."""
        return '/'.join((self.check, *self.index.values(), self.metric))

    @property
    def value(self) -> float:
        return self.reference[0]

    @property
    def where(self) -> str:
        return f'{self.file}:{self.line}: {self.path}'


def of_system(system: str) -> list[Accepted]:
    """Return every well-formed reference; `problems` names the others. UsageError for a file that is no YAML."""
    references = []
    for file in systems.reference_files(system):
        state = None
        if file.exists():
            stat = file.stat()
            state = stat.st_mtime_ns, stat.st_size
        references += _of_file(system, file, state)
    return references


def of_case(place: str, check: str, has: Mapping[str, str]) -> dict[str, Reference]:
    """Return the values of a case on system:partition, by metric. ``has``: the values that it has of an $index."""
    system, _, partition = place.partition(':')
    by_metric = {}
    for accepted in of_system(system):
        is_of_check = (accepted.partition, accepted.check) == (partition, check)
        if is_of_check and accepted.index.items() <= has.items():
            by_metric[accepted.metric] = accepted.reference
    return by_metric


def indexes(system: str) -> dict[tuple[str, str], Accepted]:
    """Return a reference of each partition and check that have some: all of a check have the same $index."""
    return {(accepted.partition, accepted.check): accepted for accepted in of_system(system)}


@functools.lru_cache(maxsize=16)
def _of_file(system: str, file: Path, _state: tuple[int, int] | None) -> list[Accepted]:
    """A verdict asks twice, and a file of a thousand references takes a second to read."""
    data, node = yamlfile.load(file)
    data = dict(data) if isinstance(data, dict) else {}
    provenance = data.pop(PROVENANCE, None)
    references = []
    for check, entry in data.items():
        names = _index(entry)
        if not names:
            continue
        index_line = yamlfile.line_of(node, (check, '$index'))
        for keys, value in _leaves(entry):
            if len(keys) != len(names) + 1 or not _is_reference(value):
                continue
            *values, metric = map(str, keys)
            path = '/'.join((check, *values, metric))
            accepted = Accepted(
                system=system,
                partition=file.stem,
                file=file,
                line=yamlfile.line_of(node, (check, *keys)),
                index_line=index_line,
                check=check,
                index=dict(zip(names, values, strict=True)),
                metric=metric,
                reference=tuple(value),
                provenance=_provenance(provenance, path))
            references.append(accepted)
    return references


def _is_reference(value: Any) -> bool:
    """Return whether a value has the form of ReFrame's references: [value, lower, upper, unit]."""
    return isinstance(value, list) and len(value) == 4


def _index(entry: Any) -> list[str]:
    """The variables that lead to the references of a check; [] where its entry names none."""
    if not isinstance(entry, dict):
        return []
    names = entry.get('$index')
    if not isinstance(names, list):
        return []
    return [str(name) for name in names]


def _leaves(entry: Any, keys: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Each value below nested mappings, behind the keys that lead to it; an empty mapping is a value, too."""
    if not isinstance(entry, dict) or not entry:
        yield keys, entry
        return
    for key, value in entry.items():
        yield from _leaves(value, (*keys, key))


def _provenance(listed: Any, path: str) -> Provenance | None:
    """Return the provenance of a value as the file lists it; None where it has none, or no valid one."""
    try:
        return Provenance.model_validate(listed[path])
    except (LookupError, TypeError, ValidationError):
        return None


def problems(system: System, planned: Plan) -> list[str]:
    """Return a sentence with file and line for everything in the system's references that fits nothing."""
    valid_names = [f'{partition.name}.yaml' for partition in system.partitions]
    sentences: list[str] = []
    for file in sorted(systems.references(system.name).glob('*')):
        if file.name in valid_names:
            sentences += problems_of(system, planned, file)
        else:
            sentences.append(f'{file}:1: {unknown("partition", file.name, valid_names)}')
    return sentences


def problems_of(system: System, planned: Plan, file: Path, text: str | None = None) -> list[str]:
    """Return the same for one file, or for the ``text`` that it will have."""
    try:
        if text is None:
            data, node = yamlfile.load(file)
        else:
            data, node = yamlfile.parse(file, text)
    except UsageError as err:
        return [str(err)]
    data = dict(data) if isinstance(data, dict) else {}
    checks = {check.check: check for check in planned.checks}
    environs = systems.environs(system)
    sentences = []
    for keys, what in _wrong(data, checks, environs):
        line = yamlfile.line_of(node, keys)
        sentences.append(f'{file}:{line}: {what}')
    return list(dict.fromkeys(sentences))


def _wrong(data: dict, checks: dict[str, LoadedCheck], environs: list[str]) -> Iterator[tuple[tuple, str]]:
    """Yield a sentence for each thing that is wrong, behind the keys that lead there."""
    provenance = data.pop(PROVENANCE, {})
    if not data:
        yield (), 'must be a mapping of checks to references, and holds none'
    if not isinstance(provenance, dict):
        yield (PROVENANCE,), 'provenance must be a mapping of references to who accepted them'
        provenance = {}
    for path, entry in provenance.items():
        try:
            Provenance.model_validate(entry)
        except ValidationError as err:      # a value without a valid date would never expire
            sentences = yamlfile.sentences(entry, Provenance, err.errors())
            keys, what = sentences[0]
            parts = map(str, (path, *keys, what))
            yield (PROVENANCE, path), f'provenance of {": ".join(parts)}'
    for check, entry in data.items():
        if check in checks:
            yield from _wrong_of_check(checks[check], entry, environs)
        else:
            yield (check,), unknown('check', check, list(checks))


def _wrong_of_check(check: LoadedCheck, entry: Any, environs: list[str]) -> Iterator[tuple[tuple, str]]:
    """The same of one check: $index names `size`, variants and parameters; the keys below it are their values."""
    valid = {'size': check.sizes or list(SIZES), **check.variants, '$environ': environs, **check.parameters}
    needed = ['size', *check.variants]
    names = _index(entry)
    strange = [name for name in names if name not in valid]
    if strange:
        yield (check.check, '$index'), unknown('parameter', strange[0], list(valid))
        return
    if not set(needed) <= set(names):
        what = (f'{check.check} needs an $index with {" and ".join(needed)}, for instance '
                f'[{", ".join(needed)}]; valid: {", ".join(valid)}')
        yield (check.check, '$index'), what
        return
    without_index = {key: value for key, value in entry.items() if key != '$index'}
    leaves = list(_leaves(without_index))
    check = _open(check, leaves)
    levels = [(name, valid[name]) for name in names]
    levels.append(('metric', [metric.name for metric in check.metrics]))
    for keys, value in leaves:
        depth, what = _wrong_of_value(check, keys, value, levels)
        if what:
            yield (check.check, *keys[:depth]), what


def _open(check: LoadedCheck, values: list[tuple[tuple, Any]]) -> LoadedCheck:
    """A foreign test that declares its metrics in its hooks has those that a reference names."""
    names = [metric.name for metric in check.metrics]
    if names != [PASSED]:
        return check
    metrics = list(check.metrics)
    for keys, value in values:
        if _is_reference(value):
            unit = str(value[3])
            metric = PlannedMetric(name=str(keys[-1]), unit=unit, better='')
            metrics.append(metric)
    return check.model_copy(update={'metrics': metrics})


def _wrong_of_value(check: LoadedCheck, keys: tuple, value: Any, levels: list[tuple[str, list[str]]]):
    """Return how many of the keys lead to what is wrong with ``value``, and a sentence; '' if nothing is."""
    for depth, (key, level) in enumerate(zip(keys, levels, strict=False), 1):
        name, valid = level
        if str(key) not in valid:
            return depth, unknown(name, key, valid)
        if not isinstance(key, str):    # ReFrame never finds it, and says nothing
            return depth, f"{name} {key!r} is no text to YAML, and never found: write '{key}'"
    if len(keys) < len(levels):
        name, valid = levels[len(keys)]
        parent = keys[-1] if keys else check.check
        return len(keys), f'{parent} must be a mapping, with keys of {name}: {", ".join(valid)}'
    name = keys[len(levels) - 1]
    metric = next(metric for metric in check.metrics if metric.name == name)
    is_deeper = len(keys) > len(levels)
    what = _tuple_wrong({} if is_deeper else value, metric)
    return len(levels), f'{name}: {what}' if what else ''


def _tuple_wrong(value: Any, metric: PlannedMetric) -> str:
    """Say what is wrong with a reference tuple; '' if nothing."""
    unit, better = metric.unit, metric.better
    valid = f'[value, lower, upper, {unit}], for instance [1.0, -0.05, 0.05, {unit}]'
    if not _is_reference(value):
        return f'must be {valid}'
    ref, low, up, given = value
    for number in (ref, low, up):
        if number is not None and not _is_finite(number):
            return f'{number!r} is no finite number (YAML reads -.1 as text: write -0.1); must be {valid}'
    if ref is None:
        return f'the value is null; must be {valid}'
    if given != unit:
        return f'unit {given!r}, but the check measures {unit}'
    lower, upper = low or 0, up or 0
    if lower > 0 or upper < 0:
        return f'lower {low} must be at most 0 and upper {up} at least 0'
    if ref > 0 and lower < -1:
        return f'lower {low} is beyond 0: bounds are shares of the value'
    if ref < 0 and upper > 1:
        return f'upper {up} is beyond 0: bounds are shares of the value'
    if not better:
        return 'its direction is not known: it needs both bounds' if None in (low, up) else ''
    side, bound = ('lower', low) if better == 'higher' else ('upper', up)       # where worse lies
    if bound is None:
        return f'{better} is better, and it has no {side} bound: it could never be judged regressed'
    return ''


def _is_finite(number: Any) -> bool:
    return type(number) in (int, float) and math.isfinite(number)


#: A warning for a person to look at; the reference is applied all the same.
Warned = tuple[Accepted, str]


def expired_of(references: list[Accepted]) -> list[Warned]:
    """Return a warning for each reference that has expired."""
    today = datetime.date.today()
    warned = []
    for reference in references:
        provenance = reference.provenance
        if provenance and provenance.expires < today:
            what = (f'expired on {provenance.expires}; it is applied all the same: '
                    f'parity refs propose --system {reference.system}')
            warned.append((reference, what))
    return warned


def grouped(warned: list[Warned]) -> list[str]:
    """Return one sentence for all references of a file that have the same warning."""
    alike: dict[tuple[Path, str], list[Accepted]] = {}
    for reference, what in warned:
        alike.setdefault((reference.file, what), []).append(reference)
    sentences = []
    for (_, what), (first, *more) in alike.items():
        others = f', and {counted(len(more), "more reference")}' if more else ''
        sentences.append(f'{first.where}{others}: {what}')
    return sentences


def expired(system: str) -> list[str]:
    """Return what a verdict says about the references; a file that cannot be read, the next run refuses."""
    try:
        return grouped(expired_of(of_system(system)))
    except UsageError as err:
        return [str(err)]
