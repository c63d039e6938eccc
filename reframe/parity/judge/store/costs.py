"""Times of stored cases, and what jobs and sessions cost beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import polars as pl

from parity.judge.store import database, history, plan_file

#: Seconds that a job costs beside its case, without a scheduler and with one: a guess, where none was measured.
JOB = {'local': 1.0, '': 4.0}
#: Seconds that a session of ReFrame costs beside its cases: a guess, where none was measured.
SESSION = 5.0
#: A longer time between two sessions of a campaign is a pause.
PAUSE = 120.0


class Costs:
    """Times that a database has of cases, jobs and sessions. A place is system:partition."""

    def __init__(self) -> None:
        infos = database.infos()
        elapsed = {uuid: info.get('time_elapsed') for uuid, info in infos if not info.get('interrupted')}
        place = pl.concat_str('system', 'partition', separator=':').alias('place')
        is_timed = pl.col('seconds').is_not_null()
        timed = history.rows(elapsed).filter(is_timed)
        rows = timed.select('session', 'run', place, 'check', 'case', 'environ', 'seconds').unique().collect()
        self.cases = []
        for _, _, name, check, case, environ, seconds in rows.iter_rows():
            parameters = plan_file.parameters(case)
            self.cases.append(_TimedCase(name, check, parameters, environ, seconds))
        self.jobs = _of_jobs(rows, elapsed)
        self.session = _of_sessions(infos)

    def of_case(self, fits: Callable[..., bool], place: str, guess: float, scheduler: str) -> tuple[float, bool]:
        """Return the seconds of a case with its job, and whether they are a guess. ``fits`` tells the case by
        check, parameters and environment; ``guess``: the seconds of one that was never measured."""
        measured = []
        for case in self.cases:
            if case.place == place and fits(case.check, case.parameters, case.environ):
                measured.append(case.seconds)
        if measured:
            job = self.jobs.get(place, 0.0)
            return job + median(measured), False
        guessed_job = JOB.get(scheduler, JOB[''])
        job = self.jobs.get(place, guessed_job)
        return job + guess, True


class _TimedCase(NamedTuple):
    place: str
    check: str
    parameters: dict[str, str]
    environ: str
    seconds: float


def _of_jobs(rows: pl.DataFrame, elapsed: dict[str, float | None]) -> dict[str, float]:
    """Return the seconds of a job at each place: what its sessions took longer than their cases, by case."""
    seconds = pl.col('seconds').sum()
    ran = rows.group_by('session', 'place').agg(seconds, cases=pl.len())
    costs = defaultdict(list)
    for session, place, seconds_of_cases, cases in ran.iter_rows():
        elapsed_seconds = elapsed[session]
        if elapsed_seconds:
            beside = max(0.0, elapsed_seconds - seconds_of_cases)
            costs[place].append(beside / cases)
    return {place: median(of_place) for place, of_place in costs.items()}


def _of_sessions(infos: list[tuple[str, dict[str, Any]]]) -> float:
    """Return the seconds between two sessions of a campaign."""
    between = []
    for (_, earlier), (_, later) in pairwise(infos):
        if 'run' not in earlier or earlier['run'] != later.get('run'):
            continue
        if 'time_end_unix' not in earlier:
            continue
        seconds = later['time_start_unix'] - earlier['time_end_unix']
        if 0 < seconds < PAUSE:
            between.append(seconds)
    return median(between or [SESSION])
