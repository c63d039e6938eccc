"""Cases whose figures repeat to the last digit, night after night: perhaps nothing is measured."""

from __future__ import annotations

from decimal import Decimal

import polars as pl

from parity.base.figures import counted
from parity.judge.store import history

#: So many nights in a row must have the same figures.
NIGHTS = 10
#: Digits that must repeat, of all metrics of a case together: one short figure of a calm machine may.
_DIGITS = 8
_CASE = ('partition', 'environ', 'case', 'size')


def warnings(system: str, session: str) -> list[str]:
    """Return a sentence for each case of the session whose figures are the same in this and the last nights."""
    start = pl.col('start')
    figures = history.load(system, labelled=True, disturbed=True).lazy()
    directed = figures.filter(pl.col('better') != '')
    frame = directed.select(*_CASE, 'metric', 'session', 'start', 'value')
    here = frame.filter(session=session).collect()
    tonight = here['start'].max()
    if tonight is None:
        return []
    suspects = _may_repeat(frame, here.lazy())
    until = frame.filter(start <= tonight).join(suspects, on=_CASE, how='semi')
    nights = until.select(*_CASE, 'session', 'start').unique()
    age = start.rank('ordinal', descending=True).over(_CASE)
    newest_nights = nights.filter(age <= NIGHTS)
    newest = until.join(newest_nights, on=[*_CASE, 'session'], how='semi')
    of_metric = newest.group_by(*_CASE, 'metric')
    metrics = of_metric.agg(
        pl.col('value').first(), values=pl.col('value').n_unique(), nights=pl.col('session').n_unique())
    is_same = (pl.col('values') == 1) & (pl.col('nights') == NIGHTS)
    cases = metrics.group_by(_CASE).agg('value', same=is_same.all())
    same_cases = cases.filter('same').sort(_CASE).collect()
    sentences = []
    for row in same_cases.iter_rows(named=True):
        values = row['value']
        if sum(map(_digits, values)) < _DIGITS:
            continue
        count = counted(len(values), 'figure')
        sentences.append(f'{row["case"]} on {row["partition"]}+{row["environ"]} has the same {count} to the '
                         f'last digit for {NIGHTS} nights: see whether its program still measures')
    return sentences


def _may_repeat(frame: pl.LazyFrame, here: pl.LazyFrame) -> pl.LazyFrame:
    """Return the cases of the session that have figures of its own on enough nights: hardly any has."""
    values = here.select('value').unique()
    alike = frame.join(values, on='value', how='semi')
    count = pl.col('session').n_unique()
    nights = alike.group_by(_CASE).agg(nights=count)
    often = nights.filter(pl.col('nights') >= NIGHTS)
    cases = here.select(_CASE).unique()
    return cases.join(often, on=_CASE, how='semi')


def _digits(value: float) -> int:
    """Return the significant digits of a figure, without zeros at its end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
