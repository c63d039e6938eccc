"""The nights before a session, judged: one series a cell, all series together, as a large system has many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from parity.base.errors import UsageError
from parity.records import history
from parity.records.cells import parameters
from parity.refs import accepted
from parity.stats.judgement import Judgement, Reference, judged
from parity.stats.nights import Nights
from parity.stats.noise import DEFAULT
from parity.verdict.model import Cell

#: Of a session's uuid, what provenance keeps.
_DIGITS = 8


@dataclass(frozen=True)
class Tonight:
    """The judgement of a cell's history on its figures of this session."""

    told: Judgement
    runs: tuple[float, ...]
    reruns: tuple[float, ...]


def of_cells(cells: list[Cell], system: str, session: str) -> list[Tonight | None]:
    """What the history of each cell says, None of one without a figure tonight; tonight is its last night."""
    frame = _up_to(cells, system, session)
    tonight = frame.filter(pl.col('night') == frame['night'].max()) if len(frame) else frame
    here = tonight.filter(~pl.col('again'))['cell'].unique().sort()
    found: list[Tonight | None] = [None] * len(cells)
    if here.is_empty():
        return found
    by_cell = [tonight.filter(pl.col('again') == again).group_by('cell', maintain_order=True).agg('value')
               for again in (False, True)]
    runs, reruns = (dict(figures.iter_rows()) for figures in by_cell)
    told = _judged(_table(frame.filter(pl.col('cell').is_in(here.implode()))), [cells[i] for i in here])
    for i, each in zip(here, told, strict=True):
        found[i] = Tonight(each, tuple(runs[i]), tuple(reruns.get(i, ())))
    return found


def disturbed(cells: list[Cell], system: str, session: str) -> list[int]:
    """Nights in a row, up to the session, in which every run of each cell was disturbed. A night in which the cell
    did not run is none."""
    frame = history.load(system, disturbed=True).filter(pl.col('rerun_of') == '')
    tonight = frame.filter(pl.col('session') == session)['start']
    until = tonight[0] if len(tonight) else float('inf')
    nights = frame.filter(pl.col('start') <= until).join(_named(cells), on=history.CELL).group_by(
        'cell', 'session', 'start').agg(pl.col('disturbed').all())
    calm = nights.filter(~pl.col('disturbed')).group_by('cell').agg(calm=pl.col('start').max())
    since = nights.join(calm, on='cell', how='left').filter(
        pl.col('start') > pl.col('calm').fill_null(float('-inf')))
    counts = dict(since.group_by('cell').len().iter_rows())
    return [counts.get(i, 0) for i in range(len(cells))]


def _named(cells: list[Cell]) -> pl.DataFrame:
    """cell (its place among them), and what names it in a history."""
    return pl.DataFrame({name: [getattr(cell, name) for cell in cells] for name in history.CELL},
                        schema=dict.fromkeys(history.CELL, pl.String)).with_row_index('cell')


def _signs(cells: list[Cell]) -> list[int]:
    return [1 if cell.better == 'higher' else -1 for cell in cells]


def _table(frame: pl.DataFrame) -> tuple[Nights, np.ndarray]:
    """The nights of all cells of the frame, cell by cell, and the label of each."""
    if frame['again'].any():         # a night without a run of its own is none
        frame = frame.filter(~pl.col('again').all().over('cell', 'night'))
    another = (pl.col('cell') != pl.col('cell').shift(1)) | (pl.col('night') != pl.col('night').shift(1))
    new = frame.select(another.fill_null(True)).to_series()
    frame = frame.with_columns(at=new.cum_sum() - 1)
    at, again, value = (frame[column].to_numpy() for column in ('at', 'again', 'oriented'))
    total = int(at[-1]) + 1
    first = np.flatnonzero(new.to_numpy())
    elsewhere = np.zeros(total, dtype=bool)
    reruns = frame.filter('again').select('at', 'node')
    ran = frame.filter(~pl.col('again') & pl.col('at').is_in(reruns['at'].unique().implode())).select('at', 'node')
    elsewhere[reruns.join(ran, on=['at', 'node'], how='anti')['at'].to_numpy()] = True
    start = np.append(np.flatnonzero(np.diff(frame['cell'].to_numpy()[first].astype(int), prepend=-1)), total)
    return Nights.of(start, at, value, again, elsewhere), frame['label'].to_numpy()[first]


def _judged(table: tuple[Nights, np.ndarray], cells: list[Cell]) -> list[Judgement]:
    """The more cells, the stricter the rules."""
    nights, labels = table
    references = [None if c.reference is None else Reference(c.reference, c.low, c.high) for c in cells]
    return judged(nights, _signs(cells), labels.tolist(), DEFAULT.for_cells(len(cells)),
                  references)[0]


def _up_to(cells: list[Cell], system: str, session: str) -> pl.DataFrame:
    """cell, night, label, again, value, oriented, node: every figure that was known when the session was judged.

    ``cell`` is its place among the cells; in ``oriented`` higher is better. A night is a session, named by when it
    began. Reruns (again) belong to the night of the session that they confirm. What is labelled is another
    figure, and left out; so are nights before the accepted value (_since). Without rows where the session has
    no figure."""
    frame = history.load(system).filter(pl.col('label') == '')
    wanted = _wanted(cells, _begins(cells, system, frame.unique('session')))
    tonight = frame.filter((pl.col('session') == session) & (pl.col('rerun_of') == ''))['start']
    start = tonight[0] if len(tonight) else float('-inf')
    again = pl.col('rerun_of') != ''
    known = frame.filter((pl.col('start') <= start) | (pl.col('rerun_of') == session))
    known = known.with_columns(of=pl.when(again).then('rerun_of').otherwise('session'))
    nights = known.filter(~again).unique('session').select(of='session', label='night', night='start')
    known = known.select(*history.CELL, 'of', 'start', 'run', 'value', 'node', 'reference', again=again)
    known = known.join(wanted, on=history.CELL).join(nights, on='of').sort(
        'cell', 'night', 'start', 'run', maintain_order=True)
    return _since(known).select('cell', 'night', 'label', 'again', 'value', 'node',
                        oriented=pl.col('value') * pl.col('sign'))


def _wanted(cells: list[Cell], begins: list[float | None]) -> pl.DataFrame:
    """cell, what names it in a history, sign, accepted (its reference), begins (of what that stands on)."""
    return _named(cells).with_columns(
        pl.Series('sign', _signs(cells), dtype=pl.Int8),
        pl.Series('accepted', [cell.reference for cell in cells], dtype=pl.Float64),
        pl.Series('begins', begins, dtype=pl.Float64))


def _since(known: pl.DataFrame) -> pl.DataFrame:
    """Without the nights before the accepted value, which are another normal.

    Left are the nights that the value stands on, by its provenance, and those since it is applied: ReFrame keeps
    with each figure the reference that it applied. A cell without a reference keeps all nights."""
    before = ~pl.col('again') & (pl.col('night') < pl.col('night').max())
    another = before & pl.col('accepted').is_not_null() & pl.col('reference').ne_missing(pl.col('accepted'))
    last = pl.col('night').filter(another).max().over('cell')
    return known.filter((pl.col('night') > last.fill_null(float('-inf'))) | (pl.col('night') >= pl.col('begins'))
                        .fill_null(False))


def _begins(cells: list[Cell], system: str, sessions: pl.DataFrame) -> list[float | None]:
    """When the first session began that each cell's accepted value stands on, Unix time.

    None for a cell without a reference, for a value without provenance (written by hand), and where that session
    is not stored. A reference file that cannot be read gives None for all; the verdict warns."""
    known: dict[tuple, list[accepted.Accepted]] = {}
    try:
        for each in accepted.of_system(system) if any(cell.reference is not None for cell in cells) else ():
            if each.provenance:
                known.setdefault((each.partition, each.check, each.metric, each.value), []).append(each)
    except UsageError:
        known = {}
    started = {(session[:_DIGITS], night[:10]): start
               for session, night, start in sessions.select('session', 'night', 'start').iter_rows()}
    return [started.get(_first(cell, known.get((cell.partition, cell.check, cell.metric, cell.reference), ())))
            for cell in cells]


def _first(cell: Cell, candidates: Sequence[accepted.Accepted]) -> tuple[str, str] | None:
    """(digits of the uuid, day) of the first session that the cell's reference stands on. A verdict does not know
    a run's variant of its check: the value has told it."""
    has = {'size': cell.size, '$environ': cell.environ, **parameters(cell.case)}
    for each in candidates:
        if all(has.get(name, value) == value for name, value in each.index.items()):
            of = each.provenance
            return of.sessions.partition('..')[0][:_DIGITS], of.nights.partition('..')[0][:10]
    return None
