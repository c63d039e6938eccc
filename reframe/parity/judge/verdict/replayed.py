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
    parts = history.parts(system, labelled=True, disturbed=True)
    here = parts.of_session(session).gathered(_directed).filter(session=session)
    if here.is_empty():
        return []
    newest = _newest_nights(parts, here)
    of_metric = newest.group_by(*_CASE, 'metric')
    metrics = of_metric.agg(pl.col('value').first(), nights=pl.col('session').n_unique())
    is_whole = pl.col('nights') == NIGHTS
    cases = metrics.group_by(_CASE).agg('value', whole=is_whole.all())
    same_cases = cases.filter('whole').sort(_CASE)
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


def _newest_nights(parts: history.Parts, here: pl.DataFrame) -> pl.DataFrame:
    """Return the figures of the last NIGHTS nights of the cases whose figures repeat: hardly any has such figures.

    ``here``: the figures of the session."""
    nights = here.clear()
    cases = here.select(_CASE).unique()
    tonight = here['start'].max()
    for figures in parts.newest_first(_directed):
        past = figures.filter(pl.col('start') <= tonight)
        both = pl.concat([nights, past])
        nights = _last(both.join(cases, on=_CASE, how='semi'))
        cases = _unchanged(nights)
        if cases.filter(pl.col('nights') < NIGHTS).is_empty():
            break
    return nights.join(cases, on=_CASE, how='semi')


def _last(figures: pl.DataFrame) -> pl.DataFrame:
    """Return the figures of the last NIGHTS nights of each case."""
    nights = figures.select(*_CASE, 'session', 'start').unique()
    age = pl.col('start').rank('ordinal', descending=True).over(_CASE)
    last = nights.filter(age <= NIGHTS)
    return figures.join(last, on=[*_CASE, 'session'], how='semi')


def _unchanged(figures: pl.DataFrame) -> pl.DataFrame:
    """Return _CASE and nights of the cases each of whose metrics has one value."""
    nights = pl.col('session').n_unique()
    metrics = figures.group_by(*_CASE, 'metric').agg(nights=nights, values=pl.col('value').n_unique())
    is_same = pl.col('values') == 1
    cases = metrics.group_by(_CASE).agg(pl.col('nights').max(), same=is_same.all())
    return cases.filter('same')


def _digits(value: float) -> int:
    """Return the significant digits of a figure, without zeros at its end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
