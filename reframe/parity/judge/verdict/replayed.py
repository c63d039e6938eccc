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
    figures = history.load(system, labelled=True, disturbed=True).lazy().filter(pl.col('better') != '')
    frame = figures.select(*_CASE, 'metric', 'session', 'start', 'value')
    here = frame.filter(session=session).collect()
    start = here['start'].max()
    if start is None:
        return []
    until = frame.filter(pl.col('start') <= start).join(_may_repeat(frame, here.lazy()), on=_CASE, how='semi')
    nights = until.select(*_CASE, 'session', 'start').unique()
    age = pl.col('start').rank('ordinal', descending=True).over(_CASE)
    newest = until.join(nights.filter(age <= NIGHTS), on=[*_CASE, 'session'], how='semi')
    metrics = newest.group_by(*_CASE, 'metric').agg(
        pl.col('value').first(), values=pl.col('value').n_unique(), nights=pl.col('session').n_unique())
    same = (pl.col('values') == 1) & (pl.col('nights') == NIGHTS)
    cases = metrics.group_by(_CASE).agg('value', same=same.all())
    sentences = []
    for row in cases.filter('same').sort(_CASE).collect().iter_rows(named=True):
        if sum(map(_digits, row['value'])) >= _DIGITS:
            figures = counted(len(row['value']), 'figure')
            sentences.append(f'{row["case"]} on {row["partition"]}+{row["environ"]} has the same {figures} to the '
                             f'last digit for {NIGHTS} nights: see whether its program still measures')
    return sentences


def _may_repeat(frame: pl.LazyFrame, here: pl.LazyFrame) -> pl.LazyFrame:
    """Return the cases of the session that have figures of its own on enough nights: hardly any has."""
    alike = frame.join(here.select('value').unique(), on='value', how='semi')
    nights = alike.group_by(_CASE).agg(nights=pl.col('session').n_unique())
    many = nights.filter(pl.col('nights') >= NIGHTS)
    return here.select(_CASE).unique().join(many, on=_CASE, how='semi')


def _digits(value: float) -> int:
    """Return the significant digits of a figure, without zeros at its end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
