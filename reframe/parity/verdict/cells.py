"""From a planned case and its runs to one verdict a cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parity.base.strict import Limit, measured
from parity.plan import PlannedCase, PlannedMetric
from parity.records.record import Figure, Run, middle
from parity.stats import bounds
from parity.verdict.model import Cell


@dataclass(frozen=True)
class Demands:
    """What the system requires: features of codes, waivers that hold, and why a code is absent."""

    required: frozenset[str]
    waived: dict[str, str]
    absent: str = ''
    #: figures of the session by (partition, check, metric): ceilings that another check measured
    figures: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def without_environment(self, case: PlannedCase) -> tuple[str, str]:
        """Verdict and reason of a case that no environment can run."""
        needs = ', '.join(case.needs)
        waivers = [self.waived[n] for n in case.needs if n in self.waived]
        if waivers:
            return 'skipped', waivers[0]
        why = f'no environment offers {needs}' + (f' ({self.absent})' if self.absent else '')
        return ('missing', f'{why}, which the system requires') if self.required & set(case.needs) \
            else ('skipped', why)


def of_case(case: PlannedCase, runs: list[Run], demands: Demands) -> list[Cell]:
    """Exactly one cell for each metric that the case declares."""
    return [_cell(case, metric, runs, demands) for metric in case.metrics]


def _cell(case: PlannedCase, metric: PlannedMetric, runs: list[Run], demands: Demands) -> Cell:
    fields: dict[str, Any] = {
        'check': case.check, 'case': case.case, 'subsystem': case.subsystem, 'size': case.size,
        'system': case.system, 'partition': case.partition, 'environ': case.environ,
        'metric': metric.name, 'unit': metric.unit, 'better': metric.better,
    }
    if not runs:
        verdict, reason = demands.without_environment(case) if not case.environ else \
            ('missing', 'planned, but the session ended before it ran')
        if verdict == 'missing' and metric.left_out:
            verdict, reason = 'skipped', metric.left_out
        return Cell(**fields, verdict=verdict, reason=reason)
    return Cell(**{**fields, **_judged(metric, runs, demands.figures)}, ran_on=_ran_on(runs))


def _ran_on(runs: list[Run]) -> list[str]:
    return sorted({node for run in runs for node in run.nodes})


def _place(run: Run) -> dict[str, Any]:
    """Where a run ran, and what it left."""
    return {'nodes': list(run.nodes), 'jobid': run.jobid, 'outputdir': run.output,
            'virtualisation': str(run.node.get('virtualisation', ''))}


def _judged(metric: PlannedMetric, runs: list[Run], figures: dict) -> dict[str, Any]:
    """The verdict over all first attempts; a retry counts only where a first attempt has no figure."""
    first = [r for r in runs if not r.retry]
    # of repeats that a stopped run did not come to nothing is known: those that ended are judged
    first = [r for r in first if not r.unfinished] or first
    retries = [r for r in runs if r.retry]
    bad = [r for r in first if r.status]
    if not bad:
        return _figure(metric, first, figures)
    passed = [r for r in retries if not r.status]
    if passed and all(r.status == 'failed' for r in bad):
        attempt, judged = passed[0].attempt, _figure(metric, passed[:1], figures)
        note = f'attempt {attempt}; the first failed: {bad[0].reason}'
        return {**judged, 'attempt': attempt, 'reason': '; '.join(filter(None, (judged['reason'], note)))}
    left_out = metric.left_out or next(filter(None, (r.figure(metric.name).left_out for r in first)), '')
    if left_out and any(r.status != 'skipped' for r in bad):     # no fault of a run made it absent
        return {**_place(bad[0]), 'verdict': 'skipped', 'reason': left_out}
    worst = min(bad, key=lambda r: ('wrong', 'failed', 'skipped').index(r.status))
    among = f' ({len(bad)} of {len(first)} runs)' if len(first) > 1 else ''
    again = f' ({1 + len(retries)} attempts)' if retries else ''
    return {**_place(worst), 'verdict': worst.status, 'reason': worst.reason + among + again,
            'attempt': 1 + len(retries)}


def _figure(metric: PlannedMetric, runs: list[Run], figures: dict) -> dict[str, Any]:
    """The verdict on a figure: finite, possible, not out of a cache, undisturbed, within its band."""
    calm = [r for r in runs if not r.disturbed]
    others, runs = len(runs) - len(calm), calm or runs
    figure = middle([r.figure(metric.name) for r in runs])
    limit = _bound(figure, metric.unit, runs[0].partition, figures)
    if figure.left_out:
        return {**_place(runs[0]), 'verdict': 'skipped', 'reason': figure.left_out}
    if not figure.finite:
        said = 'absent from the results' if figure.value is None else f'{figure.value}'
        return {**_place(runs[0]), 'verdict': 'wrong', 'reason': f'{metric.name} is {said}'}
    fields = {**_place(runs[0]), 'value': figure.value, 'reference': figure.reference, 'low': figure.low,
              'high': figure.high, 'label': figure.label, **_limit(figure.value, limit)}
    verdict, reason = _word(metric, figure, limit, '' if calm else runs[0].disturbed)
    repeats = f'median of {len(runs)}' if len(runs) > 1 else ''
    left_out = f'{others} more disturbed' if calm and others else ''
    return {**fields, 'verdict': verdict, 'reason': '; '.join(filter(None, (reason, repeats, left_out)))}


def _bound(figure: Figure, unit: str, partition: str, figures: dict) -> Limit | None:
    """The bound the case noted, or a ceiling that another check of the session measured."""
    if figure.limit:
        return Limit(**figure.limit)
    ceiling = figure.ceiling or {'of': '.'}
    found = figures.get((partition, *ceiling['of'].split('.')))
    return measured(ceiling['of'], found, ceiling['times'], unit, 'session') if found else None


def _limit(value: float, limit: Limit | None) -> dict[str, Any]:
    if limit is None:
        return {}
    return {'limit': limit.value, 'limit_source': limit.source, 'limit_certain': limit.certain,
            'efficiency': value / limit.value}


def _word(metric: PlannedMetric, figure: Figure, limit: Limit | None, disturbed: str) -> tuple[str, str]:
    value = figure.value
    if limit is not None and limit.exceeded_by(value):
        return 'impossible', f'{value:.4g} {metric.unit} is beyond {limit.value:.4g} ({limit.source})'
    if figure.label:
        return 'skipped', f'{figure.label}: {figure.why}'
    if disturbed:
        return 'disturbed', disturbed
    if figure.reference is None:
        return 'unreferenced', ''
    if not (beyond := bounds.side(value, figure.low, figure.high)):
        return 'ok', ''
    word = 'improved' if (beyond > 0) == (metric.better == 'higher') else 'regressed'
    return word, _change(value, figure)


def _change(value: float, figure: Figure) -> str:
    if not figure.reference:
        return f'reference {figure.reference:.4g}'
    return f'{100 * (value - figure.reference) / abs(figure.reference):+.1f} % of the reference'
