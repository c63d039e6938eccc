"""Cases that took far longer than in the nights before: their figures may be in order, and the night is not."""

from __future__ import annotations

import polars as pl

from parity.base.figures import duration
from parity.records import history

#: More than so many times the usual is told, and only beyond so many seconds more: a short case varies.
TIMES, SECONDS = 2.0, 10.0
#: What is usual: the median of the newest nights, of so many at most and at least.
MOST, LEAST = 30, 5
#: So many cases are named.
_NAMED = 10
_CASE = ('partition', 'environ', 'case', 'size')


def warnings(system: str, session: str) -> list[str]:
    """A sentence for each case of the session that ran far longer than usual, with both times; the worst first. A
    case's time in a night is the median of its runs, without what its jobs waited in a queue."""
    frame = history.load(system).filter((pl.col('rerun_of') == '') & pl.col('seconds').is_not_null())
    order = frame.unique('session').sort('start')['session']
    if session not in order:
        return []
    at = order.index_of(session)
    frame = frame.filter(pl.col('session').is_in(order[max(0, at - MOST):at + 1].implode()))
    runs = frame.group_by('session', *_CASE, 'run').agg(pl.col('seconds').first())
    nights = runs.group_by('session', *_CASE).agg(pl.col('seconds').median())
    tonight = pl.col('session') == session
    usual = nights.filter(~tonight).group_by(_CASE).agg(usual=pl.col('seconds').median(), nights=pl.len())
    slow = nights.filter(tonight).join(usual, on=_CASE).filter(
        (pl.col('nights') >= LEAST) & (pl.col('seconds') > TIMES * pl.col('usual'))
        & (pl.col('seconds') > pl.col('usual') + SECONDS))
    slow = slow.sort(pl.col('seconds') / pl.col('usual'), 'case', descending=[True, False])
    said = [f'{row["case"]} on {row["partition"]}+{row["environ"]} ran {duration(row["seconds"])}, usual is '
            f'{duration(row["usual"])} (median of {row["nights"]} nights)'
            for row in slow.head(_NAMED).iter_rows(named=True)]
    return said + ([f'{len(slow) - _NAMED} more cases ran more than {TIMES:g} times as long as usual']
                   if len(slow) > _NAMED else [])
