"""Times of stored cases, and what jobs and sessions cost beside them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from statistics import median

import polars as pl

from parity.base.groups import grouped
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
        elapsed = {u: info.get('time_elapsed') for u, info in infos if not info.get('interrupted')}
        place = pl.concat_str('system', 'partition', separator=':').alias('place')
        rows = history.rows(elapsed).filter(pl.col('seconds').is_not_null()).select(
            'session', 'run', place, 'check', 'case', 'environ', 'seconds').unique().collect()
        self.cases = [(place, (check, plan_file.parameters(case), environ), taken)
                      for _, _, place, check, case, environ, taken in rows.iter_rows()]
        ran = rows.group_by('session', 'place').agg(pl.col('seconds').sum(), cases=pl.len())
        costs = grouped(((place, max(0.0, elapsed[session] - taken) / cases)
                         for session, place, taken, cases in ran.iter_rows() if elapsed[session]), itemgetter(0))
        self.jobs = {place: median(cost for _, cost in of) for place, of in costs.items()}
        between = [after['time_start_unix'] - one['time_end_unix'] for (_, one), (_, after) in pairwise(infos)
                   if one.get('run', id(one)) == after.get('run') and 'time_end_unix' in one]
        self.session = median([taken for taken in between if 0 < taken < PAUSE] or [SESSION])

    def of_case(self, fits: Callable[..., bool], place: str, guess: float, scheduler: str) -> tuple[float, bool]:
        """Return the seconds of a case with its job, and whether they are a guess. ``fits`` tells the case by
        check, parameters and environment; ``guess``: the seconds of one that was never measured."""
        measured = [taken for at, ran, taken in self.cases if at == place and fits(*ran)]
        job = self.jobs.get(place, 0.0 if measured else JOB.get(scheduler, JOB['']))
        return job + (median(measured) if measured else guess), not measured
