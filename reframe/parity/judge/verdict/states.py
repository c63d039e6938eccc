"""The words of the nights that are over: stored with each night, made once for those that were stored before."""

from __future__ import annotations

import contextlib

import polars as pl

from parity.base.errors import InfrastructureError
from parity.judge.stats import bad_nights, bounds
from parity.judge.stats.rule import COMES, FAST, GOING, LOW_NIGHTS, SLOW, TOO_FEW
from parity.judge.store import database, history, states
from parity.judge.verdict import budget, nights
from parity.judge.verdict.model import Cell, Verdict
from parity.site import systems
from parity.site.systems import Alarms

#: The word of a night by its state, and the state's name; else ok, and normal.
_WORDS = {**dict.fromkeys(LOW_NIGHTS, 'regressed'), FAST: 'improved', TOO_FEW: 'insufficient'}
_NAMES = {TOO_FEW: 'learning', SLOW: 'slow', FAST: 'fast', COMES: 'comes and goes', GOING: 'comes and goes'}
#: What tells the word of a night by its bounds.
_BOUNDED = ('better', 'value', 'reference', 'low', 'high')


def store(verdict: Verdict) -> None:
    """Store the states of a night with its session. Raises InfrastructureError where they cannot be written."""
    columns = {}
    for name in states.SCHEMA:
        field = 'verdict' if name == 'word' else name
        columns[name] = [getattr(cell, field) for cell in verdict.cells]
    frame = pl.DataFrame(columns, states.SCHEMA)
    session = verdict.session
    states.write(session.system, {session.uuid: frame}, database.starts())


def words(system: str) -> pl.DataFrame:
    """Return CELL, session and word of each cell and night that has a figure."""
    frame = history.load(system, labelled=True)
    columns = (*history.CELL, 'session', 'word')
    if frame.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    made = _lacking(system, frame)
    with contextlib.suppress(InfrastructureError):      # who may only read reads them all the same
        _write(system, made)
    sessions = frame['session'].unique()
    frames = [states.read(system, sessions)]
    for uuid, night in made.items():
        session = pl.lit(uuid).alias('session')
        frames.append(night.select(session, *states.SCHEMA))
    nights = pl.concat(frames).unique(['session', *history.CELL], keep='last')
    return nights.select(columns)


def complete(system: str) -> int:
    """Make and store the states of the nights that have none. Return how many these are."""
    made = _lacking(system, history.load(system, labelled=True))
    _write(system, made)
    return len(made)


def _write(system: str, made: dict[str, pl.DataFrame]) -> None:
    if made:
        states.write(system, made, database.starts())


def _lacking(system: str, frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the states of the sessions that have none, as today's rule and the bounds of then have them."""
    sessions = frame['session'].unique()
    lacking = set(sessions) - states.stored(system)
    if not lacking:
        return {}
    alarms = systems.read(system).alarms
    by_history = _by_history(system, frame, alarms)
    of_lacking = frame.filter(pl.col('session').is_in(list(lacking)))
    judged = _bounded(of_lacking, by_history, alarms.nights)
    columns = []
    for name, kind in states.SCHEMA.items():
        column = pl.lit(None, kind)
        if name in judged.columns:
            column = pl.col(name).cast(kind)
        columns.append(column.alias(name))
    return {uuid: night.select(columns) for (uuid,), night in judged.group_by('session')}


def _by_history(system: str, frame: pl.DataFrame, alarms: Alarms) -> pl.DataFrame:
    """Return CELL, start, word and state of all nights of the cells that have a better side, by today's rule."""
    directed = frame.filter(pl.col('better') != '')
    directed = directed.unique(history.CELL, keep='last', maintain_order=True)
    facts = directed.select('check', 'system', *history.CELL, 'unit', 'better')
    cells = []
    for row in facts.iter_rows(named=True):
        cells.append(Cell(**row, subsystem='', verdict='ok'))
    shared = budget.of(alarms.a_month, len(cells), 0, 0)
    newest = frame.sort('start')['session'][-1]
    followed = nights.followed(cells, system, newest, shared.rate, alarms.least)
    state = pl.Series(followed.state)
    words = state.replace_strict(_WORDS, default='ok', return_dtype=pl.String)
    names = state.replace_strict(_NAMES, default='normal', return_dtype=pl.String)
    rows = followed.rows.with_columns(word=words, state=names)
    is_slight = pl.when(pl.Series(followed.is_slight))
    word = is_slight.then(pl.lit('ok')).otherwise('word')
    return rows.with_columns(word=word)


def _bounded(frame: pl.DataFrame, rows: pl.DataFrame, least: int) -> pl.DataFrame:
    """Return CELL, session, state and word: the bounds of a night go before the word of its history, where so many
    nights are beyond them."""
    nights = history.nights(frame).select(*history.CELL, 'session', 'start', *_BOUNDED).collect()
    judged = nights.join(rows, on=[*history.CELL, 'start'], how='left')
    judged = judged.sort(*history.CELL, 'start')
    by_bounds = []
    for better, value, _, low, high in judged.select(_BOUNDED).iter_rows():
        by_bounds.append(bounds.word(better, value, low, high))
    beyond = pl.Series(by_bounds) == 'regressed'
    judged = judged.with_columns(beyond=beyond)
    many = []
    for cell in judged.partition_by(history.CELL, maintain_order=True):
        counts = bad_nights.counts(cell['beyond'].to_numpy())
        many += (counts >= least).tolist()
    figures = judged.select(*_BOUNDED, 'word').iter_rows()
    words = []
    for figure, enough in zip(figures, many, strict=True):
        words.append(_word(*figure, enough))
    word = pl.Series(words, dtype=pl.String)
    return judged.with_columns(word=word)


def _word(better: str, value: float, reference: float | None, low: float | None, high: float | None,
          past: str | None, many: bool) -> str:
    """Return the word of a night by its bounds and, ``past``, by the history; ``many``: so many nights are beyond
    its bounds that it is slower."""
    word = bounds.word(better, value, low, high)
    if word == 'regressed' and many:
        return word
    if word == 'improved' and past != 'regressed':
        return word
    no_history = past in (None, 'insufficient')
    if reference is None or not no_history:
        return past or 'insufficient'
    visible = bounds.visible(better, reference, low, high)
    is_blind = visible is None or visible > bounds.WANTED
    return 'blind' if is_blind else 'ok'
