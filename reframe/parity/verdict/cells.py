"""From a planned case and its runs to one verdict a cell."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from parity.base.limits import Limit, measured
from parity.plan import PlannedCase, PlannedMetric
from parity.records.runs import Reading, Run, middle
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


def _nodes(run: Run) -> list[str]:
    nodes = run.raw.get('job_nodelist') or []
    return [nodes] if isinstance(nodes, str) else list(nodes)


def _ran_on(runs: list[Run]) -> list[str]:
    return sorted({node for run in runs for node in _nodes(run)})


def _place(run: Run) -> dict[str, Any]:
    """Where a run ran; what it left is in the stage directory unless it passed."""
    kept = run.raw.get('outputdir') if run.raw.get('result') == 'pass' else run.raw.get('stagedir')
    return {'nodes': _nodes(run), 'jobid': str(run.raw.get('jobid') or ''),
            'outputdir': str(kept or ''),
            'virtualisation': str(run.record.get('node', {}).get('virtualisation', ''))}


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
        attempt = passed[0].raw['run_index'] + 1
        judged = _figure(metric, passed[:1], figures)
        note = f'attempt {attempt}; the first failed: {bad[0].reason}'
        return {**judged, 'attempt': attempt, 'reason': '; '.join(filter(None, (judged['reason'], note)))}
    left_out = metric.left_out or next(filter(None, (_left_out(metric, r) for r in first)), '')
    if left_out and any(r.status != 'skipped' for r in bad):     # no fault of a run made it absent
        return {**_place(bad[0]), 'verdict': 'skipped', 'reason': left_out}
    worst = min(bad, key=lambda r: ('wrong', 'failed', 'skipped').index(r.status))
    among = f' ({len(bad)} of {len(first)} runs)' if len(first) > 1 else ''
    again = f' ({1 + len(retries)} attempts)' if retries else ''
    return {**_place(worst), 'verdict': worst.status, 'reason': worst.reason + among + again,
            'attempt': 1 + len(retries)}


def _left_out(metric: PlannedMetric, run: Run) -> str:
    """Why the run cannot have the metric, as its workload noted it."""
    return run.record.get('left_out', {}).get(metric.name, '')


def _figure(metric: PlannedMetric, runs: list[Run], figures: dict) -> dict[str, Any]:
    """The verdict on a figure: finite, possible, not out of a cache, undisturbed, within its band."""
    calm = [r for r in runs if not r.disturbed]
    others, runs = len(runs) - len(calm), calm or runs
    reading = middle([r.reading(metric.name) for r in runs])
    noted = runs[0].record.get('metrics', {}).get(metric.name, {})
    limit = _bound(noted, metric.unit, runs[0].raw['partition'], figures)
    label = runs[0].record.get('labels', {}).get(metric.name, {})
    if left_out := _left_out(metric, runs[0]):
        return {**_place(runs[0]), 'verdict': 'skipped', 'reason': left_out}
    if reading.value is None or not math.isfinite(reading.value):
        said = 'absent from the results' if reading.value is None else f'{reading.value}'
        return {**_place(runs[0]), 'verdict': 'wrong', 'reason': f'{metric.name} is {said}'}
    fields = {**_place(runs[0]), 'value': reading.value, 'reference': reading.reference, 'low': reading.low,
              'high': reading.high, 'label': label.get('word', ''), **_limit(reading.value, limit)}
    verdict, reason = _word(metric, reading, limit, label, '' if calm else runs[0].disturbed)
    repeats = f'median of {len(runs)}' if len(runs) > 1 else ''
    left_out = f'{others} more disturbed' if calm and others else ''
    return {**fields, 'verdict': verdict, 'reason': '; '.join(filter(None, (reason, repeats, left_out)))}


def _bound(noted: dict[str, Any], unit: str, partition: str, figures: dict) -> Limit | None:
    """The bound the case noted, or a ceiling that another check of the session measured."""
    if noted.get('limit'):
        return Limit(**noted['limit'])
    ceiling = noted.get('ceiling') or {'of': '.'}
    found = figures.get((partition, *ceiling['of'].split('.')))
    return measured(ceiling['of'], found, ceiling['times'], unit, 'session') if found else None


def _limit(value: float, limit: Limit | None) -> dict[str, Any]:
    if limit is None:
        return {}
    return {'limit': limit.value, 'limit_source': limit.source, 'limit_certain': limit.certain,
            'efficiency': value / limit.value}


def _word(metric: PlannedMetric, reading: Reading, limit: Limit | None, label: dict,
          disturbed: str) -> tuple[str, str]:
    value = reading.value
    if limit is not None and limit.exceeded_by(value):
        return 'impossible', f'{value:.4g} {metric.unit} is beyond {limit.value:.4g} ({limit.source})'
    if label:
        return 'skipped', f'{label["word"]}: {label["reason"]}'
    if disturbed:
        return 'disturbed', disturbed
    if reading.reference is None:
        return 'unreferenced', ''
    if not (beyond := bounds.side(value, reading.low, reading.high)):
        return 'ok', ''
    word = 'improved' if (beyond > 0) == (metric.better == 'higher') else 'regressed'
    return word, _change(value, reading)


def _change(value: float, reading: Reading) -> str:
    if not reading.reference:
        return f'reference {reading.reference:.4g}'
    return f'{100 * (value - reading.reference) / abs(reading.reference):+.1f} % of the reference'
