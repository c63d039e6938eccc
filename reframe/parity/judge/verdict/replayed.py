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
    frame = history.load(system, labelled=True, disturbed=True).filter(pl.col('better') != '')
    here = frame.filter(session=session)
    start = here['start'].max()
    if start is None:
        return []
    until = frame.filter(pl.col('start') <= start).join(here.select(_CASE).unique(), on=_CASE, how='semi')
    nights = until.select(*_CASE, 'session', 'start').unique()
    age = pl.col('start').rank('ordinal', descending=True).over(_CASE)
    newest = until.join(nights.filter(age <= NIGHTS), on=[*_CASE, 'session'], how='semi')
    metrics = newest.group_by(*_CASE, 'metric').agg(
        pl.col('value').first(), values=pl.col('value').n_unique(), nights=pl.col('session').n_unique())
    same = (pl.col('values') == 1) & (pl.col('nights') == NIGHTS)
    cases = metrics.group_by(_CASE).agg('value', same=same.all())
    sentences = []
    for row in cases.filter('same').sort(_CASE).iter_rows(named=True):
        if sum(map(_digits, row['value'])) >= _DIGITS:
            figures = counted(len(row['value']), 'figure')
            sentences.append(f'{row["case"]} on {row["partition"]}+{row["environ"]} has the same {figures} to the '
                             f'last digit for {NIGHTS} nights: see whether its program still measures')
    return sentences


def _digits(value: float) -> int:
    """Return the significant digits of a figure, without zeros at its end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
