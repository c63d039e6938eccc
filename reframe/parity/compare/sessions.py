"""What a session measured, cell by cell: runs with their facts, or the reason why there are none."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from parity.compare import facts
from parity.compare.sides import Measured, Side, Value
from parity.plan.identity import case_name
from parity.records import outset, runs
from parity.records.runs import Run

if TYPE_CHECKING:
    from parity.compare.kept import Night, Spoken

#: case, partition's full name, environment, metric
Key = tuple[str, str, str, str]


def measured(report: dict[str, Any]) -> tuple[dict[Key, Measured], dict[str, dict[str, list[str]]]]:
    """The cells of a report as ReFrame stores it, and what is known of each partition's nodes.

    First attempts only: a retry never feeds the statistics. Raises KeyError, TypeError or AttributeError
    for what is no such report.
    """
    kept = outset.of_report(report)
    cells = _planned(kept.get('plan') or {})
    metrics: dict[tuple[str, str, str], list[str]] = {}
    for *where, metric in cells:
        metrics.setdefault(tuple(where), []).append(metric)
    context: dict[str, dict[str, list[str]]] = {}
    for attempts in runs.of_report(report).values():
        for run in attempts:
            if not run.retry:
                _add(run, report['session_info']['uuid'], kept.get('facts') or {}, cells, metrics, context)
    return cells, context


def _planned(plan: dict[str, Any]) -> dict[Key, Measured]:
    """Every planned cell, as one that never ran."""
    cells = {}
    for case in plan.get('cases', ()):
        place = f'{case["system"]}:{case["partition"]}'
        why = 'missing: planned, and never ran' if case['environ'] else \
            f'skipped: no environment offers {", ".join(case["needs"])}'
        for m in case['metrics']:
            cells[case['case'], place, case['environ'], m['name']] = Measured(
                case['subsystem'], case['check'], case['case'], m['name'], m['unit'], m['better'],
                place, case['environ'], reason=why)
    return cells


def _add(run: Run, session: str, known: dict[str, Any], cells: dict[Key, Measured],
         metrics: dict[tuple[str, str, str], list[str]], context: dict) -> None:
    """Add one run; ``metrics``: those of each planned case."""
    raw, record = run.raw, run.record
    place = f'{raw["system"]}:{raw["partition"]}'
    case = case_name(raw.get('display_name') or raw['name'])
    where = case, place, raw['environ']
    planned = metrics.setdefault(where, [])
    for name in planned:
        cells[(*where, name)].changed = bool(record.get('changed'))
    if run.status:
        for name in planned:
            cells[(*where, name)].reason = f'{run.status}: {run.reason}'
        return
    if run.disturbed:
        for name in planned:
            if not cells[(*where, name)].values:
                cells[(*where, name)].reason = f'disturbed: {run.disturbed}'
        return
    _note(context.setdefault(place, {}), facts.context(record, known.get('machine') or {}))
    must = facts.of_run(raw, record, (known.get('software') or {}).get(raw['environ']) or {})
    figures, units = run.values(), _units(raw)
    for name in dict.fromkeys((*figures, *planned)):
        if (cell := cells.get((*where, name))) is None:
            cell = cells[(*where, name)] = _cell(raw, record, case, place, name, units.get(name, ''))
            planned.append(name)
        if name in (record.get('left_out') or {}):
            cell.reason = f'skipped: {record["left_out"][name]}'
        elif math.isfinite(figures.get(name, math.nan)):
            cell.values.append(Value(figures[name], raw.get('job_completion_time_unix'), session, must))
            label = (record.get('labels') or {}).get(name)
            cell.reason, cell.label = '', f'{label["word"]}: {label["reason"]}' if label else cell.label
        else:
            cell.reason = f'wrong: {name} is {figures.get(name, "absent from the results")}'


def _cell(raw: dict, record: dict, case: str, place: str, metric: str, unit: str) -> Measured:
    """A cell that no plan names (a report of ReFrame's alone): its direction may not be known."""
    declared = (record.get('metrics') or {}).get(metric, {})
    return Measured(record.get('subsystem', ''), case.split()[0], case, metric, declared.get('unit', unit),
                    declared.get('better', ''), place, raw['environ'], changed=bool(record.get('changed')))


def _units(raw: dict[str, Any]) -> dict[str, str]:
    return {key.rpartition(':')[2]: str(stored[4] or '') for key, stored in (raw.get('perfvalues') or {}).items()}


def _note(context: dict[str, list[str]], said: dict[str, str]) -> None:
    for fact, value in said.items():
        if value not in (known := context.setdefault(fact, [])):
            known.append(value)


def merged(name: str, kind: str, nights: Iterable[Night], place: str = '',
           metrics: frozenset[Spoken] | None = None) -> Side:
    """One side from what sessions measured, the oldest first; ``place`` keeps that partition only, ``metrics``
    those checks' metrics only."""
    cells: dict[Key, Measured] = {}
    context: dict[str, list[str]] = {}
    uuids = []
    for night in nights:
        uuids.append(night.uuid)
        for key, cell in night.cells(place, metrics).items():
            _join(cells, key, cell)
        for partition, said in night.context.items():
            for fact, values in said.items() if place in ('', partition) else ():
                for value in values:
                    _note(context, {fact: value})
    at = {uuid: place for place, uuid in enumerate(uuids)}
    for cell in cells.values():
        cell.values = sorted(cell.values, key=lambda v: (at[v.session], v.when or 0.0))
    return Side(name, kind, list(cells.values()), uuids, context)


def _join(cells: dict[Key, Measured], key: Key, newer: Measured) -> None:
    """The newer session's word on a cell is the one that holds; its runs join the older ones.

    A figure out of a cache and one that is not are never put together: the newer ones stay.
    """
    older = cells.get(key)
    if older and older.values and not newer.values:
        newer.values, newer.label = older.values, older.label
    elif older and older.label == newer.label:
        newer.values = [*older.values, *newer.values]
    newer.changed = newer.changed or bool(older and older.changed)
    cells[key] = newer
