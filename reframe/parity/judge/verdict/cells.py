"""The verdict on each cell of a session by its runs alone: what happened, and the accepted bounds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from parity.base.figures import change, counted, percent
from parity.base.limits import Limit, measured
from parity.base.reasons import Kind
from parity.judge.stats import bounds
from parity.judge.store.record import Figure, Run, middle
from parity.judge.verdict.model import Cell
from parity.site.plan import COUNTED_LABELS, PASSED, PlannedCase, PlannedMetric, not_offered

#: Words that a history can change: a figure that was judged, or that nothing was accepted for.
OPEN = ('ok', 'improved', 'regressed', 'unreferenced')


class Demands(NamedTuple):
    """The features that the system requires, the waivers that hold, and the session's figures.

    ``absent``: by feature, why no environment offers it. ``figures``: by (partition, check, metric), for ceilings
    that another check measured."""

    required: set[str]
    waived: dict[str, str]
    absent: dict[str, str]
    figures: dict[tuple[str, str, str], float]


def of_case(case: PlannedCase, runs: list[Run], demands: Demands) -> list[Cell]:
    """Return one cell for each metric that the case declares."""
    ran_on = sorted({node for run in runs for node in run.nodes})
    return [Cell(check=case.check, case=case.case, subsystem=case.subsystem, size=case.size, system=case.system,
                 partition=case.partition, environ=case.environ, metric=metric.name, unit=metric.unit,
                 better=metric.better, ran_on=ran_on,
                 **_judged(metric, runs, demands.figures) if runs else _never_ran(case, metric, demands))
            for metric in case.metrics]


def _never_ran(case: PlannedCase, metric: PlannedMetric, demands: Demands) -> dict[str, Any]:
    waiver = next((demands.waived[code] for code in case.needs if code in demands.waived), '')
    absent = ', '.join(dict.fromkeys(demands.absent[code] for code in case.needs if code in demands.absent))
    why = not_offered(case.needs) + (f' ({absent})' if absent else '')
    if not case.environ and (waiver or not demands.required & set(case.needs)):
        return {'verdict': 'skipped', 'kind': Kind.WAIVED if waiver else Kind.NO_PROGRAM, 'reason': waiver or why}
    if metric.left_out:
        return {'verdict': 'skipped', 'kind': metric.kind, 'reason': metric.left_out}
    if case.environ:
        return {'verdict': 'missing', 'stopped': True, 'reason': 'planned, but the session ended before it ran'}
    return {'verdict': 'missing', 'kind': Kind.NO_PROGRAM, 'reason': f'{why}, which the system requires'}


def _judged(metric: PlannedMetric, runs: list[Run], figures: dict) -> dict[str, Any]:
    """The verdict over all first attempts; a retry counts only where a first attempt has no figure."""
    first = [r for r in runs if not r.retry]
    first = [r for r in first if not r.unfinished] or first     # of a stopped run, what ended is judged
    retries = [r for r in runs if r.retry]
    bad = [r for r in first if r.status]
    if not bad:
        return _figure(metric, first, figures)
    passed = next((r for r in retries if not r.status), None)
    if passed and all(r.status == 'failed' for r in bad):
        judged = _figure(metric, [passed], figures)
        note = f'attempt {passed.attempt}; the first failed: {bad[0].reason}'
        return {**judged, 'attempt': passed.attempt, 'reason': sentence(judged['reason'], note)}
    left_out = next((of for of in (metric, *(r.figure(metric.name) for r in first)) if of.left_out), None)
    if left_out and any(r.status != 'skipped' for r in bad):     # no fault of a run made it absent
        return {**_place(bad[0]), 'verdict': 'skipped', 'kind': left_out.kind, 'reason': left_out.left_out}
    worst = min(bad, key=lambda r: ('wrong', 'failed', 'skipped').index(r.status))
    among = f' ({len(bad)} of {counted(len(first), "run")})' if len(first) > 1 else ''
    again = f' ({1 + len(retries)} attempts)' if retries else ''
    return {**_place(worst), 'verdict': worst.status, 'kind': worst.kind, 'reason': worst.reason + among + again,
            'attempt': 1 + len(retries), 'stopped': worst.unfinished}


def _figure(metric: PlannedMetric, runs: list[Run], figures: dict) -> dict[str, Any]:
    """The verdict on a figure: finite, possible, not out of a cache, undisturbed, within its band."""
    calm = [r for r in runs if not r.disturbed]
    others, runs = len(runs) - len(calm), calm or runs
    figure = middle([r.figure(metric.name) for r in runs])
    if figure.left_out:
        return {**_place(runs[0]), 'verdict': 'skipped', 'kind': figure.kind, 'reason': figure.left_out}
    if not figure.finite:
        said = 'absent from the results' if figure.value is None else f'{figure.value}'
        return {**_place(runs[0]), 'verdict': 'wrong', 'reason': figure.why or f'{metric.name} is {said}'}
    limit = _limit(figure, metric.unit, runs[0].partition, figures)
    if not calm and limit is not None and not limit.exceeded_by(figure.value):
        limit = None        # the share that a disturbed figure reached says nothing
    bound = {} if limit is None else {'limit': limit.value, 'limit_source': limit.source,
                                      'limit_certain': limit.certain, 'efficiency': figure.value / limit.value}
    verdict, reason = _word(metric, figure, limit, '' if calm else runs[0].disturbed)
    code = next((run.exitcode for run in runs if run.exitcode), 0)
    reason = sentence(reason, reason and _device(metric.name, runs[0]), f'exit code {code}' if code else '',
                      f'median of {len(runs)}' if len(runs) > 1 else '',
                      f'{others} more disturbed' if calm and others else '')
    return {**_place(runs[0]), **bound, 'value': figure.value, 'reference': figure.reference,
            'reference_source': figure.source, 'low': figure.low, 'high': figure.high,
            'visible': _visible(metric, figure), 'label': figure.label, 'verdict': verdict,
            'kind': Kind.CACHED if figure.label == 'cached' else Kind.NONE, 'reason': reason,
            # as long as no history is known (parity.judge.verdict.nights)
            'history': 'insufficient' if verdict in OPEN and not figure.label and metric.better else '',
            'suspicious': verdict == 'regressed', 'disturbed_nights': int(verdict == 'disturbed')}


def _device(metric: str, run: Run) -> str:
    """Name the device that a figure is of; '' where it has no name."""
    return next((f'device {said}' for name, said in run.devices.items()
                 if metric.endswith(f'_{name}') and not said.isdigit()), '')


def _place(run: Run) -> dict[str, Any]:
    """Return the nodes, the job and the output folder of a run."""
    return {'nodes': list(run.nodes), 'jobid': run.jobid, 'outputdir': run.output,
            'virtualisation': str(run.node.get('virtualisation', ''))}


def _limit(figure: Figure, unit: str, partition: str, figures: dict) -> Limit | None:
    """The bound that the case noted, or a ceiling that another check of the session measured."""
    if figure.limit:
        return Limit(**figure.limit)
    ceiling = figure.ceiling or {'of': '.'}
    found = figures.get((partition, *ceiling['of'].split('.')))
    positive = found is not None and 0 < found < math.inf
    return measured(ceiling['of'], found, ceiling['times'], unit, 'session') if positive else None


def _word(metric: PlannedMetric, figure: Figure, limit: Limit | None, disturbed: str) -> tuple[str, str]:
    value, usual = figure.value, figure.reference
    if limit is not None and limit.exceeded_by(value):
        return 'impossible', f'{value:.4g} {metric.unit} is beyond {limit.value:.4g} ({limit.source})'
    if figure.label == PASSED:
        return 'ok', PASSED
    if figure.label:
        return 'unreferenced' if figure.label in COUNTED_LABELS else 'skipped', f'{figure.label}: {figure.why}'
    if disturbed:
        return 'disturbed', disturbed
    if usual is None:
        return 'unreferenced', '' if metric.better else f'direction unknown: {metric.unknown}'
    if why := too_fast(metric.better, value, usual, metric.unit, figure.source or 'the accepted value'):
        return 'impossible', why
    which = f'{figure.source} reference'.strip()
    both = '' if metric.better else 'direction unknown: judged on both sides'
    if (word := bounds.word(metric.better, value, figure.low, figure.high)) == 'ok':
        return 'ok', sentence(figure.source and which, both)
    share = change(value, usual)
    said = f'{share} of {which if figure.source else "the reference"}' if share else f'{which} {usual:.4g}'
    return word, sentence(said, both)


def too_fast(better: str, value: float, usual: float | None, unit: str, which: str) -> str:
    """Return why a figure cannot be: it is so many times better than what is usual; '' where it may be."""
    times = bounds.absurd(better, value, usual, unit)
    if times is None:
        return ''
    return (f'{value:.4g} {unit} is {times:.2g} times as fast as {which}, {usual:.4g}: no machine is; look at '
            'what the program printed, and at its unit')


def _visible(metric: PlannedMetric, figure: Figure) -> float | None:
    if figure.reference is None or figure.label:
        return None
    return bounds.visible(metric.better, figure.reference, figure.low, figure.high)


def with_power(cell: Cell) -> Cell:
    """Return the cell; it is `blind`, and says why, where it is `ok` and a slowdown of WANTED would not show."""
    if cell.verdict != 'ok' or cell.label == PASSED:
        return cell
    if cell.visible is not None and cell.visible <= bounds.WANTED:
        return cell
    why = 'no bound shows a slowdown' if cell.visible is None \
        else f'a slowdown shows from {percent(cell.visible)} on'
    return cell.model_copy(update={'verdict': 'blind', 'reason': sentence(cell.reason, why)})


def sentence(*parts: str) -> str:
    return '; '.join(filter(None, parts))
