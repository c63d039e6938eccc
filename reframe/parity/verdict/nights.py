"""The nights before a session, as the judgement of histories reads them: one series a cell."""

from __future__ import annotations

import polars as pl

from parity import history
from parity.verdict.model import Cell

#: A series' name: what tells one cell of a system from another.
_KEY = [pl.col(name) for name in history.CELL]
_APART = '\x1f'


def name(cell: Cell) -> str:
    """The series of a cell."""
    return _APART.join(getattr(cell, part) for part in history.CELL)


def up_to(system: str, session: str) -> pl.DataFrame:
    """series, night, kind, run, value, direction: every figure that was known when the session was judged.

    Nights are counted from 0, a session each; the last one is the session itself. Reruns belong to the night of
    the session that they confirm, and are counted on from its runs. What is labelled, or placed otherwise than
    usual, is another figure, and left out. Empty where the session has no figure.
    """
    frame = history.load(system).filter((pl.col('label') == '') & ~pl.col('unusual'))
    own = frame.filter((pl.col('session') == session) & (pl.col('rerun_of') == ''))
    if own.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(('series', 'night', 'kind', 'run', 'value', 'direction', 'node')))
    start = own['start'][0]
    rerun = pl.col('rerun_of') != ''
    belongs = pl.when(rerun).then('rerun_of').otherwise('session')
    known = frame.filter((pl.col('start') <= start) | (pl.col('rerun_of') == session)).with_columns(of=belongs)
    known = known.filter(pl.col('of').is_in(known.filter(~rerun)['session'].unique().implode())).drop('night')
    nights = known.filter(~rerun).unique('session').sort('start').select('session').with_row_index('night')
    return (known.join(nights, left_on='of', right_on='session').sort('night', 'start', 'run', maintain_order=True)
            .select(series=pl.concat_str(_KEY, separator=_APART), night='night',
                    kind=pl.when(rerun).then(pl.lit('rerun')).otherwise(pl.lit('run')), run='run', value='value',
                    direction='better', node='node')
            .with_columns(run=pl.int_range(pl.len()).over('series', 'night', 'kind')))
