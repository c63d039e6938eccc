"""How long the jobs of a session ran and waited, each second counted once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate

from parity.records.record import Run

Spans = list[tuple[float, float]]


def ran_and_waited(runs: Iterable[Run]) -> tuple[float, float]:
    """Seconds in which at least one job ran, and those in which jobs waited in a queue and none ran."""
    ran, whole = _spans(runs)
    return _seconds(ran), _seconds(whole) - _seconds(ran)


def ends(runs: list[Run], start: float) -> list[float]:
    """When each run ended, in seconds from ``start`` (Unix time) in which jobs did not merely wait in a queue.

    A run without a job (it was skipped) ended at once.
    """
    ran, whole = map(_before, _spans(runs))
    known = [run.times[2] if run.times else run.ended for run in runs]
    return sorted(end - start - (whole(end) - ran(end)) if end else 0.0 for end in known)


def _before(spans: Spans) -> Callable[[float], float]:
    """How many seconds of the spans, which do not overlap and are in order, lie before a time."""
    lengths = [0.0, *accumulate(end - start for start, end in spans)]

    def seconds(then: float) -> float:
        count = bisect_left(spans, (then, then))
        return lengths[count] - (max(0.0, spans[count - 1][1] - then) if count else 0.0)
    return seconds


def _spans(runs: Iterable[Run]) -> tuple[Spans, Spans]:
    """The spans in which jobs ran, and those in which they waited or ran."""
    times = [run.times for run in runs if run.times]
    return (_merged([(began, ended) for _, began, ended in times]),
            _merged([(submitted, ended) for submitted, _, ended in times]))


def _merged(spans: Spans) -> Spans:
    """Spans that overlap, as one."""
    found: Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _seconds(spans: Spans) -> float:
    return sum(end - start for start, end in spans)
