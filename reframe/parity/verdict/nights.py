"""The nights before a session, judged: one series a cell, all series together, as a large system has many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from parity import history
from parity.regression import history as followed
from parity.regression import judgement, last
from parity.regression.judgement import Judgement, Reference
from parity.regression.nights import Nights, grouped, of_nights
from parity.regression.rules import DEFAULT
from parity.verdict.model import Cell

#: A series' name: what tells one cell of a system from another.
_KEY = [pl.col(name) for name in history.CELL]
_APART = '\x1f'


@dataclass(frozen=True)
class Tonight:
    """What a cell's history says of its figures of this session."""

    told: Judgement
    runs: tuple[float, ...]
    reruns: tuple[float, ...]


def name(cell: Cell) -> str:
    """The series of a cell."""
    return _APART.join(getattr(cell, part) for part in history.CELL)


def of_cells(cells: list[Cell], system: str, session: str) -> dict[str, Tonight]:
    """What the history of each cell that has a figure tonight says, by name; tonight is its last night."""
    wanted = {name(cell): cell for cell in cells}
    frame = _up_to(system, session).filter(pl.col('series').is_in(list(wanted)))
    if frame.is_empty():
        return {}
    tonight = frame.filter(pl.col('night') == frame['night'].max())
    here = tonight.filter(~pl.col('again'))['series'].unique().sort()
    if here.is_empty():
        return {}
    runs, reruns = (dict(tonight.filter(pl.col('again') == again).group_by('series').agg('value').iter_rows())
                    for again in (False, True))
    asked = [wanted[series] for series in here]
    told = _judged(_table(frame, here, asked), asked)
    return {series: Tonight(each, tuple(runs[series]), tuple(reruns.get(series, ())))
            for series, each in zip(here, told, strict=True)}


def _table(frame: pl.DataFrame, here: pl.Series, asked: list[Cell]) -> tuple[Nights, np.ndarray]:
    """The nights of the series ``here``, oriented so that higher is better, and the label of each night."""
    series = pl.DataFrame({'series': here, 'sign': [1 if c.better == 'higher' else -1 for c in asked]})
    frame = frame.join(series.with_row_index('k'), on='series')
    frame = frame.join(frame.filter(~pl.col('again')).select('k', 'night').unique(), on=['k', 'night'], how='semi')
    frame = frame.sort('k', 'night', maintain_order=True)
    another = (pl.col('k') != pl.col('k').shift(1)) | (pl.col('night') != pl.col('night').shift(1))
    new = frame.select(another.fill_null(True)).to_series()
    frame = frame.with_columns(at=new.cum_sum() - 1)
    at, again = frame['at'].to_numpy(), frame['again'].to_numpy()
    value = (frame['value'] * frame['sign']).to_numpy()
    total = int(at[-1]) + 1
    first = np.flatnonzero(new.to_numpy())
    of_series = frame['k'].to_numpy()[first]
    run, rerun = (grouped(at[chosen], value[chosen], total) for chosen in (~again, again))
    elsewhere = np.zeros(total, dtype=bool)
    ran = frame.filter(~pl.col('again')).select('at', 'node').unique()
    elsewhere[frame.filter('again').join(ran, on=['at', 'node'], how='anti')['at'].to_numpy()] = True
    start = np.append(np.flatnonzero(np.diff(of_series, prepend=-1)), total)
    return Nights(start, run, rerun, grouped(at, value, total), elsewhere), frame['label'].to_numpy()[first]


def _judged(table: tuple[Nights, np.ndarray], cells: list[Cell]) -> list[Judgement]:
    """As parity.regression.judge_all does from nights one by one: the more cells, the stricter the rules."""
    nights, labels = table
    rules = DEFAULT.for_cells(len(cells))
    values = of_nights(nights, rules)
    lasts = last.of_series(nights, values, followed.follow(nights, values, rules), rules)
    return [judgement.of_last(each, 1 if cell.better == 'higher' else -1, labels[begin:end].tolist(), rules,
                              _accepted(cell))
            for each, cell, begin, end in zip(lasts, cells, nights.start[:-1], nights.start[1:], strict=True)]


def _accepted(cell: Cell) -> Reference | None:
    return None if cell.reference is None else Reference(cell.reference, cell.low, cell.high)


def _up_to(system: str, session: str) -> pl.DataFrame:
    """series, night, label, again, value, node: every figure that was known when the session was judged.

    A night is a session, named by when it began. Reruns (again) belong to the night of the session that they
    confirm.
    What is labelled, or placed otherwise than usual, is another figure, and left out. Without rows where the
    session has no figure.
    """
    frame = history.load(system).filter((pl.col('label') == '') & ~pl.col('unusual'))
    tonight = frame.filter((pl.col('session') == session) & (pl.col('rerun_of') == ''))['start']
    start = tonight[0] if len(tonight) else float('-inf')
    rerun = pl.col('rerun_of') != ''
    known = frame.filter((pl.col('start') <= start) | (pl.col('rerun_of') == session))
    known = known.with_columns(of=pl.when(rerun).then('rerun_of').otherwise('session')).drop('label')
    nights = known.filter(~rerun).unique('session').select('session', label='night', night='start')
    known = known.drop('night')
    return (known.join(nights, left_on='of', right_on='session').sort('night', 'start', 'run', maintain_order=True)
            .select('night', 'label', 'value', 'node', series=pl.concat_str(_KEY, separator=_APART),
                    again=rerun))
