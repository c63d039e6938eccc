"""Accepted values: systems/<name>/references/<partition>.yaml, in ReFrame's own $ref form.

    Hpcc:
      $index: [size]
      quick:
        hpl: [110.3, -0.05, 0.10, Gflop/s]
    provenance:
      Hpcc/quick/hpl: {date: 2026-11-20, by: ana, why: first values of the new rack, ...}

ReFrame passes a case whose entry is missing or misspelt without a word; here that is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.base import yamlfile
from parity.base.errors import UsageError, unknown
from parity.plan import Plan
from parity.plan.model import LoadedCheck, PlannedMetric
from parity.refs import provenance
from parity.system import systems
from parity.system.schema import System

#: A top-level key that is no check: ReFrame ignores it, people keep there who accepted what and why.
PROVENANCE = 'provenance'
#: What `size` may be (parity.check.workload).
SIZES = ('quick', 'nightly', 'acceptance')


def problems(system: System, plan: Plan) -> list[str]:
    """One sentence with file and line for everything in the system's references that fits nothing."""
    folder = systems.references(system.name)
    partitions = [p.name for p in system.partitions]
    found: list[str] = []
    for file in sorted(folder.glob('*')):
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
    return [f'{file}:{yamlfile.line_of(node, keys)}: {what}'
            for keys, what in _entries(data or {}, plan, environments(system))]


def environments(system: System) -> list[str]:
    """The names that an environment of the system can have: what `$environ` may be in an $index."""
    return ['distro', *systems.SPACK, *(e.name for e in system.environments)]


def _entries(data: Any, plan: Plan, environs: list[str]) -> Iterator[tuple[tuple, str]]:
    """(keys, what is wrong) for every bad entry of one file."""
    if not isinstance(data, dict) or not set(data) - {PROVENANCE}:
        yield (), 'must be a mapping of checks to references, and holds none'
        return
    checks = {c.check: c for c in plan.checks}
    for check, entry in data.items():
        if check == PROVENANCE:
            yield from (((PROVENANCE, *keys), what) for keys, what in provenance.wrong(entry))
        elif check not in checks:
            yield (check,), unknown('check', check, list(checks))
        elif not isinstance(entry, dict):
            yield (check,), f'{check} must be a mapping'
        else:
            yield from _check(checks[check], entry, environs)


def _check(check: LoadedCheck, entry: dict, environs: list[str]) -> Iterator[tuple[tuple, str]]:
    """One check's entry: $index names `size`, variants and parameters; every value on the way is one they have."""
    needed = ['size', *check.variants]
    valid = {'size': list(SIZES), **check.variants, '$environ': environs, **check.parameters}
    index = entry.get('$index')
    strange = [str(name) for name in index if str(name) not in valid] if isinstance(index, list) else []
    if strange:
        yield (check.check, '$index'), unknown('parameter', strange[0], list(valid))
    elif not isinstance(index, list) or set(needed) - set(map(str, index)):
        yield (check.check, '$index'), (f'{check.check} needs an $index with {" and ".join(needed)}, for instance '
                                        f'[{", ".join(needed)}]; valid: {", ".join(valid)}')
    elif len(entry) < 2:
        yield (check.check,), f'{check.check} has no reference'
    else:
        metrics = {m.name: m for m in check.metrics}
        body = {key: value for key, value in entry.items() if key != '$index'}
        yield from _level(body, (check.check,), [(str(name), valid[str(name)]) for name in index], metrics)


def _level(entry: Any, keys: tuple, index: list[tuple[str, list[str]]], metrics: dict[str, PlannedMetric]):
    """The entries below ``keys``: values of the next index variable, or metrics where none is left."""
    if not isinstance(entry, dict) or not entry:
        of = '' if index else ' of metrics to [value, lower, upper, unit]'
        yield keys, f'{keys[-1]} must be a mapping{of}'
        return
    name, valid = index[0] if index else ('metric', list(metrics))
    for key, value in entry.items():
        if str(key) not in valid:
            yield (*keys, key), unknown(name, str(key), valid)
        elif not isinstance(key, str):      # ReFrame looks for the text, and says nothing when it finds none
            yield (*keys, key), f"{name} {key!r} is no text to YAML, and never found: write '{key}'"
        elif index:
            yield from _level(value, (*keys, key), index[1:], metrics)
        elif what := _tuple(value, metrics[key].unit) or _side(value, metrics[key].better):
            yield (*keys, key), f'{key}: {what}'


def _side(value: list, better: str) -> str:
    """A bound is needed where worse lies."""
    _, low, up, _ = value
    side = 'lower' if better == 'higher' else 'upper'
    return f'{better} is better, and it has no {side} bound: it could never be judged regressed' \
        if (low if side == 'lower' else up) is None else ''


def _tuple(value: Any, unit: str) -> str:
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
