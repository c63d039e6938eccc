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
    parts = history.parts(system, labelled=True, disturbed=True)
    here = parts.gathered(lambda part: _directed(part).filter(session=session))
    tonight = here['start'].max()
    if tonight is None:
        return []
    suspects = _may_repeat(parts, here)
    if suspects.is_empty():
        return []

    def of_suspects(part: pl.LazyFrame) -> pl.LazyFrame:
        until = _directed(part).filter(start <= tonight)
        return until.join(suspects.lazy(), on=_CASE, how='semi')

    until = parts.gathered(of_suspects)
    nights = until.select(*_CASE, 'session', 'start').unique()
    age = start.rank('ordinal', descending=True).over(_CASE)
    newest_nights = nights.filter(age <= NIGHTS)
    newest = until.join(newest_nights, on=[*_CASE, 'session'], how='semi')
    of_metric = newest.group_by(*_CASE, 'metric')
    metrics = of_metric.agg(
        pl.col('value').first(), values=pl.col('value').n_unique(), nights=pl.col('session').n_unique())
    is_same = (pl.col('values') == 1) & (pl.col('nights') == NIGHTS)
    cases = metrics.group_by(_CASE).agg('value', same=is_same.all())
    same_cases = cases.filter('same').sort(_CASE)
    sentences = []
    for row in same_cases.iter_rows(named=True):
        values = row['value']
        if sum(map(_digits, values)) < _DIGITS:
            continue
        count = counted(len(values), 'figure')
        sentences.append(f'{row["case"]} on {row["partition"]}+{row["environ"]} has the same {count} to the '
                         f'last digit for {NIGHTS} nights: see whether its program still measures')
    return sentences


def _directed(figures: pl.LazyFrame) -> pl.LazyFrame:
    """Return the figures of metrics of which one side is better."""
    directed = figures.filter(pl.col('better') != '')
    return directed.select(*_CASE, 'metric', 'session', 'start', 'value')


def _may_repeat(parts: history.Parts, here: pl.DataFrame) -> pl.DataFrame:
    """Return the cases of the session that have figures of its own on enough nights: hardly any has.

    ``here``: its figures."""
    values = here.lazy().select('value').unique()
    alike = parts.gathered(lambda part: _directed(part).join(values, on='value', how='semi'))
    count = pl.col('session').n_unique()
    nights = alike.group_by(_CASE).agg(nights=count)
    often = nights.filter(pl.col('nights') >= NIGHTS)
    cases = here.select(_CASE).unique()
    return cases.join(often, on=_CASE, how='semi')


def _digits(value: float) -> int:
    """Return the significant digits of a figure, without zeros at its end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
