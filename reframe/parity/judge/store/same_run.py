"""Tell the runs of an import that are stored already, and those that continue one that is.

A run may stand in a results database and in perflogs. It may be read under another time zone, or from a log that
still grew: then a later reading has more of its figures."""

from __future__ import annotations

import contextlib
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from parity.judge.store import database

Case = dict[str, Any]
#: A perflog may lack the fraction of a second that a database has.
_SAME_SECONDS = 1.0
#: Times without a zone, read in another zone, are up to so far apart.
_ZONES_SECONDS = 26 * 3600.0
#: The key of a time that was printed without a zone, as it was printed.
PRINTED = 'printed_time'
_NO_JOB = ('', 'None', 'null', 'none')


@dataclass
class Taken:
    """A run that the import need not take again: it is stored, or it was read before."""

    case: Case
    session: str


class NightRuns:
    """The runs of a night: those of ``session`` that are stored, and the new ones that it takes."""

    def __init__(self, session: str, cases: list[Case]) -> None:
        """Read what is stored around the time of ``cases``."""
        self.session = session
        self.stored: list[Case] = []
        self.new: list[Case] = []
        self._by_test: dict[tuple, list[Taken]] = defaultdict(list)
        for number in _sessions_around(session, cases):
            for blob, in database.query('SELECT json_blob FROM sessions WHERE uuid = ?', number):
                with contextlib.suppress(*database.MALFORMED):      # every reader warns
                    self._remember(number, json.loads(blob))

    def _remember(self, number: str, report: dict[str, Any]) -> None:
        cases = []
        for run in report['runs']:
            cases += run['testcases']
        tests = [_test(case) for case in cases]
        for test, case in zip(tests, cases, strict=True):
            self._by_test[test].append(Taken(case, number))
        if number == self.session:
            self.stored += cases

    def take(self, case: Case) -> None:
        """Take a run, unless it is stored. One that has more figures than when it was read takes its place."""
        before = self._before(case)
        if before is None:
            self.new.append(case)
            self._by_test[_test(case)].append(Taken(case, self.session))
            return
        if before.session != self.session or _holds(before.case, case):
            return
        for cases in (self.stored, self.new):
            cases[:] = [other for other in cases if other is not before.case]
        self.new.append(case)
        before.case = case

    def _before(self, case: Case) -> Taken | None:
        """Return the same run as it was stored or read before; None where it was not."""
        never_began = _ended(case) is None
        for taken in self._by_test[_test(case)]:
            # nobody knows when a run that never began would have ended: its night tells
            if never_began and taken.session != self.session:
                continue
            if not _same_time(taken.case, case) or not _same_job(taken.case, case):
                continue
            if _holds(taken.case, case) or _holds(case, taken.case):
                return taken
        return None


def figures_of(case: Case) -> dict[str, float]:
    """Return the figures of a case that are numbers, by the name of the metric."""
    stored = case.get('perfvalues') or {}
    figures = {}
    for name, values in stored.items():
        value = values[0] if isinstance(values, list) and values else None
        if isinstance(value, (int, float)) and math.isfinite(value):
            metric = name.rpartition(':')[2]
            figures[metric] = float(value)
    return figures


def _sessions_around(session: str, cases: list[Case]) -> list[str]:
    """Return the stored sessions with a case that ended at these times, and the session itself."""
    ends = [_ended(case) for case in cases]
    times = [end for end in ends if end is not None]
    if not times:
        return [session]
    has_no_zone = any(case.get(PRINTED) for case in cases)
    margin = _ZONES_SECONDS if has_no_zone else _SAME_SECONDS
    around = database.query('SELECT DISTINCT session_uuid FROM testcases WHERE job_completion_time_unix '
                            'BETWEEN ? AND ?', min(times) - margin, max(times) + margin)
    sessions = {number for number, in around}
    return sorted(sessions | {session})


def _test(case: Case) -> tuple[str, ...]:
    name = case.get('display_name') or case['name']
    return case['system'], case['partition'], case['environ'], name


def _ended(case: Case) -> float | None:
    return case['job_completion_time_unix']


def _same_time(one: Case, other: Case) -> bool:
    printed = one.get(PRINTED)
    if printed and printed == other.get(PRINTED):
        return True
    first, second = _ended(one), _ended(other)
    if first is None or second is None:
        return first is second
    return abs(first - second) < _SAME_SECONDS


def _same_job(one: Case, other: Case) -> bool:
    """Return whether two runs of a test may be one: neither the job nor the result says otherwise."""
    job, other_job = _job(one), _job(other)
    if job and other_job and job != other_job:
        return False
    result = one.get('result') or ''
    other_result = other.get('result') or ''
    return '' in (result, other_result) or result == other_result


def _job(case: Case) -> str:
    """Return the id of the job of a case; '' where it has none."""
    job = str(case.get('jobid') or '')
    return '' if job in _NO_JOB else job


def _holds(one: Case, other: Case) -> bool:
    """Return whether a run has all figures of the other one."""
    return figures_of(other).items() <= figures_of(one).items()
