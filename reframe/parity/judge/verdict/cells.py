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
    about = {'check': case.check, 'case': case.case, 'subsystem': case.subsystem, 'size': case.size,
             'system': case.system, 'partition': case.partition, 'environ': case.environ, 'ran_on': ran_on}
    cells = []
    for metric in case.metrics:
        if runs:
            judged = _judged(metric, runs, demands.figures)
        else:
            judged = _never_ran(case, metric, demands)
        cell = Cell(**about, metric=metric.name, unit=metric.unit, better=metric.better, **judged)
        cells.append(cell)
    return cells


def _never_ran(case: PlannedCase, metric: PlannedMetric, demands: Demands) -> dict[str, Any]:
    waivers = [demands.waived[feature] for feature in case.needs if feature in demands.waived]
    waiver = waivers[0] if waivers else ''
    lacking = [demands.absent[feature] for feature in case.needs if feature in demands.absent]
    why = not_offered(case.needs)
    if lacking:
        programs = ', '.join(dict.fromkeys(lacking))
        why += f' ({programs})'
    is_required = not demands.required.isdisjoint(case.needs)
    if not case.environ and waiver:
        return {'verdict': 'skipped', 'kind': Kind.WAIVED, 'reason': waiver}
    if not case.environ and not is_required:
        return {'verdict': 'skipped', 'kind': Kind.NO_PROGRAM, 'reason': why}
    if metric.left_out:
        return {'verdict': 'skipped', 'kind': metric.kind, 'reason': metric.left_out}
    if case.environ:
        return {'verdict': 'missing', 'stopped': True, 'reason': 'planned, but the session ended before it ran'}
    return {'verdict': 'missing', 'kind': Kind.NO_PROGRAM, 'reason': f'{why}, which the system requires'}


def _judged(metric: PlannedMetric, runs: list[Run], figures: dict) -> dict[str, Any]:
    """The verdict over all first attempts; a retry counts only where a first attempt has no figure."""
    first = [run for run in runs if not run.retry]
    ended = [run for run in first if not run.unfinished]
    first = ended or first          # of a stopped run, what ended is judged
    bad = [run for run in first if run.status]
    if not bad:
        return _figure(metric, first, figures)
    retries = [run for run in runs if run.retry]
    passed = next((run for run in retries if not run.status), None)
    if passed and all(run.status == 'failed' for run in bad):
        judged = _figure(metric, [passed], figures)
        note = f'attempt {passed.attempt}; the first failed: {bad[0].reason}'
        reason = sentence(judged['reason'], note)
        return {**judged, 'attempt': passed.attempt, 'reason': reason}
    if any(run.status != 'skipped' for run in bad):
        figures_of_runs = [run.figure(metric.name) for run in first]
        for source in (metric, *figures_of_runs):
            if source.left_out:     # no fault of a run made it absent
                return _skipped(bad[0], source)
    return _failed(bad, len(first), len(retries))


def _failed(bad: list[Run], first: int, retries: int) -> dict[str, Any]:
    """The verdict on a case without a figure: the worst of its bad runs, of so many first attempts and retries."""
    worst = min(bad, key=lambda run: ('wrong', 'failed', 'skipped').index(run.status))
    attempts = 1 + retries
    reason = worst.reason
    if first > 1:
        runs = counted(first, 'run')
        reason += f' ({len(bad)} of {runs})'
    if retries:
        reason += f' ({attempts} attempts)'
    return {**_place(worst), 'verdict': worst.status, 'kind': worst.kind, 'reason': reason,
            'attempt': attempts, 'stopped': worst.unfinished}


def _skipped(run: Run, source: PlannedMetric | Figure) -> dict[str, Any]:
    return {**_place(run), 'verdict': 'skipped', 'kind': source.kind, 'reason': source.left_out}


def _figure(metric: PlannedMetric, runs: list[Run], figures: dict) -> dict[str, Any]:
    """The verdict on a figure: finite, possible, not out of a cache, undisturbed, within its band."""
    calm = [run for run in runs if not run.disturbed]
    counting = calm or runs
    first = counting[0]
    figure = middle([run.figure(metric.name) for run in counting])
    if figure.left_out:
        return _skipped(first, figure)
    if not figure.finite:
        value = 'absent from the results' if figure.value is None else figure.value
        reason = figure.why or f'{metric.name} is {value}'
        return {**_place(first), 'verdict': 'wrong', 'reason': reason}
    limit = _limit(figure, metric.unit, first.partition, figures)
    if not calm and limit is not None and not limit.exceeded_by(figure.value):
        limit = None        # the share that a disturbed figure reached says nothing
    disturbed = '' if calm else first.disturbed
    word, why = _word(metric, figure, limit, disturbed)
    reasons = [why]
    if why:
        reasons.append(_device(metric.name, first))
    exit_codes = [run.exitcode for run in counting if run.exitcode]
    if exit_codes:
        reasons.append(f'exit code {exit_codes[0]}')
    if len(counting) > 1:
        reasons.append(f'median of {len(counting)}')
    left_out = len(runs) - len(counting)
    if left_out:
        reasons.append(f'{left_out} more disturbed')
    # as long as no history is known (parity.judge.verdict.nights)
    has_history = word in OPEN and not figure.label and metric.better
    history = 'insufficient' if has_history else ''
    kind = Kind.CACHED if figure.label == 'cached' else Kind.NONE
    visible = _visible(metric, figure)
    judged = {
        **_place(first), 'value': figure.value, 'reference': figure.reference, 'reference_source': figure.source,
        'low': figure.low, 'high': figure.high, 'visible': visible, 'label': figure.label, 'verdict': word,
        'kind': kind, 'reason': sentence(*reasons), 'history': history, 'suspicious': word == 'regressed',
        'disturbed_nights': int(word == 'disturbed')}
    if limit is not None:
        efficiency = figure.value / limit.value
        judged.update(limit=limit.value, limit_source=limit.source, limit_certain=limit.certain,
                      efficiency=efficiency)
    return judged


def _device(metric: str, run: Run) -> str:
    """Name the device that a figure is of; '' where it has no name."""
    for name, device in run.devices.items():
        if metric.endswith(f'_{name}') and not device.isdigit():
            return f'device {device}'
    return ''


def _place(run: Run) -> dict[str, Any]:
    """Return the nodes, the job and the output folder of a run."""
    virtualisation = str(run.node.get('virtualisation', ''))
    return {'nodes': list(run.nodes), 'jobid': run.jobid, 'outputdir': run.output,
            'virtualisation': virtualisation}


def _limit(figure: Figure, unit: str, partition: str, figures: dict) -> Limit | None:
    """The bound that the case noted, or a ceiling that another check of the session measured."""
    if figure.limit:
        return Limit(**figure.limit)
    if not figure.ceiling:
        return None
    source = figure.ceiling['of']
    check_and_metric = source.split('.')
    ceiling = figures.get((partition, *check_and_metric))
    if ceiling is None or not 0 < ceiling < math.inf:
        return None
    return measured(source, ceiling, figure.ceiling['times'], unit, 'session')


def _word(metric: PlannedMetric, figure: Figure, limit: Limit | None, disturbed: str) -> tuple[str, str]:
    value, usual = figure.value, figure.reference
    if limit is not None and limit.exceeded_by(value):
        return 'impossible', f'{value:.4g} {metric.unit} is beyond {limit.value:.4g} ({limit.source})'
    if figure.label == PASSED:
        return 'ok', PASSED
    if figure.label:
        word = 'unreferenced' if figure.label in COUNTED_LABELS else 'skipped'
        return word, f'{figure.label}: {figure.why}'
    if disturbed:
        return 'disturbed', disturbed
    if usual is None:
        why = '' if metric.better else f'direction unknown: {metric.unknown}'
        return 'unreferenced', why
    if bounds.says_usual(metric.better, figure.low, figure.high):
        accepted = figure.source or 'the accepted value'
        why = too_fast(metric.better, value, usual, metric.unit, accepted)
        if why:
            return 'impossible', why
    word = bounds.word(metric.better, value, figure.low, figure.high)
    which = f'{figure.source} reference' if figure.source else ''
    both_sides = '' if metric.better else 'direction unknown: judged on both sides'
    if word == 'ok':
        return 'ok', sentence(which, both_sides)
    share = change(value, usual)
    if share:
        reference = which or 'the reference'
        against = f'{share} of {reference}'
    else:
        reference = which or 'reference'
        against = f'{reference} {usual:.4g}'
    return word, sentence(against, both_sides)


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
    visible = cell.visible
    if cell.verdict != 'ok' or cell.label == PASSED:
        return cell
    if visible is not None and visible <= bounds.WANTED:
        return cell
    why = 'no bound shows a slowdown'
    if visible is not None:
        why = f'a slowdown shows from {percent(visible)} on'
    reason = sentence(cell.reason, why)
    return cell.model_copy(update={'verdict': 'blind', 'reason': reason})


def sentence(*parts: str) -> str:
    return '; '.join(filter(None, parts))
