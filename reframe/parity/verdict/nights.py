"""The nights before a session, as the judgement of histories reads them: one series a cell."""

from __future__ import annotations

import polars as pl

from parity import history, regression
from parity.verdict.model import Cell

#: A series' name: what tells one cell of a system from another.
_KEY = [pl.col(name) for name in history.CELL]
_APART = '\x1f'


def name(cell: Cell) -> str:
    """The series of a cell."""
    return _APART.join(getattr(cell, part) for part in history.CELL)


def of_cells(cells: list[Cell], system: str, session: str) -> dict[str, regression.Cell]:
    """The history of each cell that has a figure tonight, by name; tonight is its last night."""
    wanted = {name(cell): cell for cell in cells}
    frame = _up_to(system, session).filter(pl.col('series').is_in(list(wanted)))
    if frame.is_empty():
        return {}
    found: dict[str, list[regression.Night]] = {}
    runs = [pl.col(column).filter(pl.col('kind') == kind).alias(f'{column} {kind}')
            for kind in ('run', 'rerun') for column in ('value', 'node')]
    last = frame['night'].max()
    for series, _, label, *lists in frame.group_by('series', 'night', 'label').agg(runs).sort('night').iter_rows():
        values, where, again, where_again = map(tuple, lists)
        if values:
            found.setdefault(series, []).append(regression.Night(values, again, where, where_again, label))
    tonight = set(frame.filter((pl.col('night') == last) & (pl.col('kind') == 'run'))['series'])
    return {series: _cell(wanted[series], past) for series, past in found.items() if series in tonight}


def _cell(cell: Cell, past: list[regression.Night]) -> regression.Cell:
    accepted = None if cell.reference is None else regression.Reference(cell.reference, cell.low, cell.high)
    return regression.Cell(tuple(past), cell.better, accepted)


def _up_to(system: str, session: str) -> pl.DataFrame:
    """series, night, label, kind, value, node: every figure that was known when the session was judged.

    A night is a session, named by when it began. Reruns belong to the night of the session that they confirm.
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
                    kind=pl.when(rerun).then(pl.lit('rerun')).otherwise(pl.lit('run'))))
