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

#: The word of a night by its state, and the state's name; else ok, and normal.
_WORDS = {**dict.fromkeys(LOW_NIGHTS, 'regressed'), FAST: 'improved', TOO_FEW: 'insufficient'}
_NAMES = {TOO_FEW: 'learning', SLOW: 'slow', FAST: 'fast', COMES: 'comes and goes', GOING: 'comes and goes'}
#: What tells the word of a night by its bounds.
_BOUNDED = ('better', 'value', 'reference', 'low', 'high')


def store(verdict: Verdict) -> None:
    """Store the states of a night with its session. Raises InfrastructureError where they cannot be written."""
    columns = {name: [getattr(cell, 'verdict' if name == 'word' else name) for cell in verdict.cells]
               for name in states.SCHEMA}
    frame = pl.DataFrame(columns, states.SCHEMA)
    states.write(verdict.session.system, {verdict.session.uuid: frame}, database.starts())


def words(system: str) -> pl.DataFrame:
    """Return CELL, session and word of each cell and night that has a figure."""
    frame = history.load(system, labelled=True)
    if frame.is_empty():
        return pl.DataFrame(schema=dict.fromkeys((*history.CELL, 'session', 'word'), pl.String))
    made = _lacking(system, frame)
    with contextlib.suppress(InfrastructureError):      # who may only read reads them all the same
        _write(system, made)
    frames = [states.read(system, frame['session'].unique())]
    for uuid, night in made.items():
        frames.append(night.select(pl.lit(uuid).alias('session'), *states.SCHEMA))
    known = pl.concat(frames).unique(['session', *history.CELL], keep='last')
    return known.select(*history.CELL, 'session', 'word')


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
    lacking = set(frame['session'].unique()) - states.stored(system)
    if not lacking:
        return {}
    directed = frame.filter(pl.col('better') != '').unique(history.CELL, keep='last', maintain_order=True)
    facts = directed.select('check', 'system', *history.CELL, 'unit', 'better')
    cells = [Cell(**row, subsystem='', verdict='ok') for row in facts.iter_rows(named=True)]
    alarms = systems.read(system).alarms
    rate = budget.of(alarms.a_month, len(cells), 0, 0).rate
    newest = frame.sort('start')['session'][-1]
    rows, state, small = nights.followed(cells, system, newest, rate, alarms.least)
    states_of_rows = pl.Series(state)
    words = states_of_rows.replace_strict(_WORDS, default='ok', return_dtype=pl.String)
    names = states_of_rows.replace_strict(_NAMES, default='normal', return_dtype=pl.String)
    rows = rows.with_columns(word=words, state=names)
    rows = rows.with_columns(word=pl.when(pl.Series(small)).then(pl.lit('ok')).otherwise('word'))
    judged = _bounded(frame.filter(pl.col('session').is_in(list(lacking))), rows, alarms.nights)
    columns = []
    for name, kind in states.SCHEMA.items():
        column = pl.col(name).cast(kind) if name in judged.columns else pl.lit(None, kind)
        columns.append(column.alias(name))
    return {uuid: night.select(columns) for (uuid,), night in judged.group_by('session')}


def _bounded(frame: pl.DataFrame, rows: pl.DataFrame, least: int) -> pl.DataFrame:
    """Return CELL, session, state and word: the bounds of a night go before the word of its history, where so many
    nights are beyond them."""
    nights = history.nights(frame).select(*history.CELL, 'session', 'start', *_BOUNDED).collect()
    judged = nights.join(rows, on=[*history.CELL, 'start'], how='left').sort(*history.CELL, 'start')
    by_bounds = [bounds.word(better, value, low, high)
                 for better, value, _, low, high in judged.select(_BOUNDED).iter_rows()]
    judged = judged.with_columns(beyond=pl.Series(by_bounds) == 'regressed')
    many = []
    for cell in judged.partition_by(history.CELL, maintain_order=True):
        counts = bad_nights.counts(cell['beyond'].to_numpy())
        many += (counts >= least).tolist()
    figures = judged.select(*_BOUNDED, 'word').iter_rows()
    words = [_word(*figure, enough) for figure, enough in zip(figures, many, strict=True)]
    return judged.with_columns(word=pl.Series(words, dtype=pl.String))


def _word(better: str, value: float, reference: float | None, low: float | None, high: float | None,
          past: str | None, many: bool) -> str:
    """Return the word of a night by its bounds and, ``past``, by the history; ``many``: so many nights are beyond
    its bounds that it is slower."""
    word = bounds.word(better, value, low, high)
    if word == 'regressed' and not many:
        word = 'ok'
    if word == 'regressed' or word == 'improved' and past != 'regressed':
        return word
    if reference is None or past not in (None, 'insufficient'):
        return past or 'insufficient'
    visible = bounds.visible(better, reference, low, high)
    return 'blind' if visible is None or visible > bounds.WANTED else 'ok'
