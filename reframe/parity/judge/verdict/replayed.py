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
    start = frame.filter(session=session)['start'].max()
    if start is None:
        return []
    tonight = frame.filter(session=session).select(_CASE).unique()
    known = frame.filter(pl.col('start') <= start).join(tonight, on=_CASE, how='semi')
    nights = known.select(*_CASE, 'session', 'start').unique().with_columns(
        age=pl.col('start').rank('ordinal', descending=True).over(_CASE)).filter(pl.col('age') <= NIGHTS)
    own = known.join(nights, on=[*_CASE, 'session'], how='semi')
    metrics = own.group_by(*_CASE, 'metric').agg(
        pl.col('value').first(), values=pl.col('value').n_unique(), nights=pl.col('session').n_unique())
    repeated = metrics.group_by(_CASE).agg(
        'value', same=((pl.col('values') == 1) & (pl.col('nights') == NIGHTS)).all()).filter('same').sort(_CASE)
    said = []
    for row in repeated.iter_rows(named=True):
        if sum(map(_digits, row['value'])) >= _DIGITS:
            figures = counted(len(row['value']), 'figure')
            said.append(f'{row["case"]} on {row["partition"]}+{row["environ"]} has the same {figures} to the last '
                        f'digit for {NIGHTS} nights: see whether its program still measures')
    return said


def _digits(value: float) -> int:
    """Return the significant digits of a figure, without zeros at its end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
