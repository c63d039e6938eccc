"""The runs of a session's cases, read from ReFrame's report."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median
from typing import Any

from parity.base import reasons
from parity.plan.identity import case_name
from parity.records import stopped
from parity.scheduler import scheduled

#: What ReFrame calls the result of a case that it did not come to the end of.
_NEVER_ENDED = '<unknown>'

Key = tuple[str, str, str]  # case, partition, environ


@dataclass(frozen=True)
class Reading:
    """One value of a metric and the reference that ReFrame applied to it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reference: float | None = None


@dataclass
class Run:
    """One attempt at one case, with what its workload noted (``record``)."""

    raw: dict[str, Any]
    record: dict[str, Any] = field(default_factory=dict)
    stopped: str = ''        # why ReFrame gave up the session, where it did
    retry: bool = False      # run again because the attempt before it failed (ReFrame's --max-retries)

    @property
    def status(self) -> str:
        """'' where there are figures, else skipped, wrong or failed; `reason` says why."""
        result = self.raw.get('result')
        if result in ('skip', 'fail_deps'):
            return 'skipped' if result == 'skip' else 'failed'
        if self.record.get('status'):
            return self.record['status']
        # after its figures were taken a case can still fail: against a reference (which is judged
        # here), or because a Ctrl-C came while ReFrame cleaned up after it
        if result == 'pass' or self.raw.get('fail_phase') in ('performance', 'finalize', 'cleanup'):
            return ''
        return 'wrong' if self.raw.get('fail_phase') == 'sanity' else 'failed'

    @property
    def disturbed(self) -> str:
        """Who took CPUs of the job, where it was more than is allowed (parity.check.watched)."""
        return str(self.record.get('disturbed') or '')

    @property
    def unfinished(self) -> bool:
        """Was the whole run stopped before this attempt ended?"""
        return self.raw.get('result') in ('abort', _NEVER_ENDED) and bool(self.status)

    @property
    def reason(self) -> str:
        # a session of before may have lines of megabytes
        said = reasons.cut(' '.join(str(self.record.get('reason') or self.raw.get('fail_reason') or '').split()))
        if self.raw.get('result') == 'abort' and not self.record.get('reason'):
            return 'the run was stopped before this case ended' + (f' ({said})' if said else '')
        if said:
            return said
        if self.raw.get('result') == _NEVER_ENDED:
            return 'ReFrame stopped before it ended' + (f': {self.stopped}' if self.stopped else '')
        return f'{self.raw.get("result")} in {self.raw.get("fail_phase")}'

    def values(self) -> dict[str, float]:
        """The figures by metric, those that are there."""
        stored = (self.raw.get('perfvalues') or {}).items()
        return {key.rpartition(':')[2]: v[0] for key, v in stored if v[0] is not None}

    def reading(self, metric: str) -> Reading:
        """The metric's value with its band as absolute numbers; value None if it is not there."""
        for key, stored in (self.raw.get('perfvalues') or {}).items():
            if key.rpartition(':')[2] == metric:
                value, ref, low, up = stored[:4]
                return Reading(value, *band(ref, low, up))
        return Reading(None)


def band(ref: float | None, low: float | None, up: float | None):
    """(low, high, reference) as absolute numbers, from ReFrame's relative thresholds.

    ReFrame says (0, None, None) where there is no reference; with a reference of 0 the
    thresholds are absolute (ReFrame's documentation of `reference`).
    """
    if ref is None or (low is None and up is None) or not all(map(math.isfinite, filter(None, (ref, low, up)))):
        return None, None, None
    scale = abs(ref) if ref else 1.0
    return (None if low is None else ref + low * scale,
            None if up is None else ref + up * scale, ref)


def of_report(report: dict[str, Any]) -> dict[Key, list[Run]]:
    """Every attempt at every case, first attempts first."""
    found: dict[Key, list[Run]] = {}
    before: dict[tuple, str] = {}
    for session_run in report['runs']:
        for raw in session_run['testcases']:
            if not raw.get('fixture'):
                key = (case_name(raw.get('display_name') or raw['name']), raw['partition'], raw['environ'])
                attempt = (raw['unique_name'], *key)
                retry = before.get(attempt, 'pass') != 'pass'
                why = stopped.why(report['session_info']) if raw['result'] == _NEVER_ENDED else ''
                found.setdefault(key, []).append(Run(raw, raw.get('parity') or {}, why, retry))
                before[attempt] = raw['result']
    return found


def seconds_run(raw: dict[str, Any]) -> float | None:
    """Seconds that a case's job ran, by the scheduler's word; a queue counts for nothing.

    None where the job never ran, or where nobody knows: older sessions kept no word of the queue.
    """
    noted = (raw.get('parity') or {}).get('job') or {}
    if not noted and raw.get('scheduler') in scheduled.QUEUED:
        return None
    times = _times(raw)
    return (times[2] - times[1]) or None if times else None


def ran_and_waited(raws: list[dict[str, Any]]) -> tuple[float, float]:
    """Seconds in which at least one job ran, and those in which jobs waited in a queue and none ran."""
    ran, whole = _spans(raws)
    return _seconds(ran), _seconds(whole) - _seconds(ran)


def ends(raws: list[dict[str, Any]], start: float) -> list[float]:
    """When each case ended, in seconds from ``start`` (Unix time) in which jobs did not merely wait in a queue.

    A case without a job (it was skipped) ended at once.
    """
    ran, whole = map(_before, _spans(raws))
    found = []
    for raw in raws:
        times = _times(raw)
        end = times[2] if times else raw.get('job_completion_time_unix')
        found.append(end - start - (whole(end) - ran(end)) if end else 0.0)
    return sorted(found)


def _before(spans: list[tuple[float, float]]) -> Callable[[float], float]:
    """How many seconds of the spans, which do not overlap and are in order, lie before a time."""
    lengths = [0.0, *accumulate(end - start for start, end in spans)]

    def seconds(then: float) -> float:
        count = bisect_left(spans, (then, then))
        return lengths[count] - (max(0.0, spans[count - 1][1] - then) if count else 0.0)
    return seconds


def _spans(raws: list[dict[str, Any]]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The spans in which jobs ran, and those in which they waited or ran."""
    times = [known for known in map(_times, raws) if known]
    return (_merged([(began, ended) for _, began, ended in times]),
            _merged([(submitted, ended) for submitted, _, ended in times]))


def _times(raw: dict[str, Any]) -> tuple[float, float, float] | None:
    """When a case's job was submitted, began and ended (Unix time); None if it was not submitted."""
    noted = (raw.get('parity') or {}).get('job') or {}
    if noted:
        began = noted['submitted'] + noted['waited']
        return noted['submitted'], began, began + noted['ran']
    submitted, ended = raw.get('job_submit_time'), raw.get('job_completion_time_unix')
    return (submitted, submitted, ended) if submitted and ended else None


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans that overlap, as one."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _seconds(spans: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def middle(readings: list[Reading]) -> Reading:
    """The median of repeats, with the reference they share; a value that is not finite stays so."""
    values = [r.value for r in readings if r.value is not None]
    bad = [v for v in values if not math.isfinite(v)]
    first = readings[0]
    if not values or bad:
        return Reading(bad[0] if bad else None, first.low, first.high, first.reference)
    return Reading(median(values), first.low, first.high, first.reference)
