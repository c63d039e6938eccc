"""Accepted values: systems/<name>/references/<partition>.yaml, in ReFrame's own $ref form.

    Hpcc:
      $index: [size]
      quick:
        hpl: [110.3, -0.05, 0.10, Gflop/s]

ReFrame passes a case whose entry is missing or misspelt without a word; here that is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from parity import paths, yamlfile
from parity.errors import UsageError
from parity.plan import Plan
from parity.site.schema import System

#: A top-level key that is no check: ReFrame ignores it, people keep there who accepted what and why.
PROVENANCE = 'provenance'


def problems(system: System, plan: Plan) -> list[str]:
    """One sentence with file and line for everything in the system's references that fits nothing."""
    folder = paths.root() / 'systems' / system.name / 'references'
    partitions = [p.name for p in system.partitions]
    found: list[str] = []
    for file in sorted(folder.glob('*')):
        if file.suffix != '.yaml' or file.stem not in partitions:
            found.append(f'{file}:1: {_unknown("partition", file.name, [f"{p}.yaml" for p in partitions])}')
            continue
        try:
            data, node = yamlfile.load(file)
        except UsageError as err:
            found.append(str(err))
            continue
        found += [f'{file}:{yamlfile.line_of(node, keys)}: {what}' for keys, what in _entries(data or {}, plan)]
    return found


def _entries(data: Any, plan: Plan) -> Iterator[tuple[tuple, str]]:
    """(keys, what is wrong) for every bad entry of one file."""
    if not isinstance(data, dict):
        yield (), 'must be a mapping of checks to references'
        return
    metrics = {c.check: {m.name: m.unit for m in c.metrics} for c in plan.checks}
    for check, entry in data.items():
        if check == PROVENANCE:
            continue
        if check not in metrics:
            yield (check,), _unknown('check', check, list(metrics))
        elif not isinstance(entry, dict):
            yield (check,), f'{check} must be a mapping'
        else:
            yield from _check(check, entry, metrics[check])


def _check(check: str, entry: dict, metrics: dict[str, str]) -> Iterator[tuple[tuple, str]]:
    index = entry.get('$index')
    if not isinstance(index, list) or not index:
        yield (check,), f'{check} has no $index: the references of {check} belong to one size: $index: [size]'
        return
    for keys, leaf in _leaves(entry, (check,), len(index)):
        if keys[-1] == '$index':
            continue
        if not isinstance(leaf, dict):
            yield keys, f'{".".join(map(str, keys))} must be a mapping of metrics to [value, lower, upper, unit]'
            continue
        for metric, value in leaf.items():
            if metric not in metrics:
                yield (*keys, metric), _unknown('metric', metric, list(metrics))
            elif what := _tuple(value, metrics[metric]):
                yield (*keys, metric), f'{metric}: {what}'


def _leaves(entry: dict, keys: tuple, depth: int) -> Iterator[tuple[tuple, Any]]:
    for key, value in entry.items():
        if depth > 1 and isinstance(value, dict):
            yield from _leaves(value, (*keys, key), depth - 1)
        else:
            yield (*keys, key), value


def _tuple(value: Any, unit: str) -> str:
    """What is wrong with one reference tuple, '' if nothing."""
    valid = f'[value, lower, upper, {unit}], for instance [1.0, -0.05, 0.05, {unit}]'
    if not isinstance(value, list) or len(value) != 4:
        return f'must be {valid}'
    ref, low, up, given = value
    bad = [x for x in (ref, low, up) if isinstance(x, bool) or not isinstance(x, (int, float, type(None)))]
    if bad or ref is None:
        return f'{bad[0] if bad else ref!r} is no number (YAML reads -.1 as text: write -0.1); must be {valid}'
    if given != unit:
        return f'unit {given!r}, but the check measures {unit}'
    if low is None and up is None:
        return 'has no bound: it could never be judged'
    if (low or 0) > 0 or (up or 0) < 0:
        return f'lower {low} must be at most 0 and upper {up} at least 0'
    return ''


def _unknown(kind: str, name: str, valid: list[str]) -> str:
    near = get_close_matches(name, valid, n=1)
    return f'unknown {kind} {name!r}' + (f'; did you mean {near[0]!r}?' if near else '') \
        + f' valid: {", ".join(sorted(valid))}'
