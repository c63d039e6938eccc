"""The nights before a session: they judge its cells, all at once as a large system has many, and find long cases.

The accepted bounds judge tonight; the history judges tonight against the nights before, at a stated rate of
false alarms. Worse by either is a bad night, unless the same case, run again the same night, says otherwise. So
many bad nights are a regression as the system says (`alarms: nights`); before that one is `once`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from parity.base import times
from parity.base.figures import counted, duration, percent, several
from parity.judge.stats import bad_nights, bounds, levels
from parity.judge.stats.bad_nights import BadNights
from parity.judge.stats.bounds import FIRST
from parity.judge.stats.judgement import Judgement, Reference, judged
from parity.judge.stats.nights import Nights
from parity.judge.stats.rule import BEGIN, TOO_FEW, Outcome
from parity.judge.store import database, history
from parity.judge.verdict import events
from parity.judge.verdict.cells import OPEN, sentence, too_fast
from parity.judge.verdict.learning import SECONDS, left_out
from parity.judge.verdict.model import COMES, AlarmBudget, Cell, Change, Word
from parity.site.systems import Alarms

#: A case is reported if it ran longer than so many times the usual, and so many seconds more.
TIMES = 2.0
#: The usual time is the median of the newest nights, of so many at most and at least.
MOST, LEAST = 30, 5
#: So many cases are named.
_NAMED = 10
_CASE = ('partition', 'environ', 'case', 'size')
#: A cell whose accepted value is of other work.
_NO_REFERENCE = dict.fromkeys(('reference', 'low', 'high', 'visible'))
_IF_IT_LASTS = 'a slowdown if it comes again'
#: Nights of a cell's life, by name.
_BEGINS = ('begin', 'detected', 'last_good', 'first_slow')
_OF_RUN = ('value', 'node', 'software', 'reference', 'unit', 'work')


class Tonight(NamedTuple):
    """The judgement of a cell's history on its figures of this session."""

    judgement: Judgement
    reruns: tuple[float, ...]
    life: dict[str, Any]             # state, begin, found and level of its segment
    starts: list[float]              # when its nights began, Unix times
    former: list[Change]             # what changed since the work that the accepted value is of
    bad: BadNights                   # on which no slowdown was found


def with_history(cells: list[Cell], system: str, session: str, alarms: Alarms,
                 budget: Callable[[int], AlarmBudget]) -> tuple[list[Cell], AlarmBudget]:
    """Return all cells of the session, each with its last word, and the budget of so many histories."""
    judged = [cell for cell in cells if cell.better and (cell.verdict in OPEN or cell.beyond_reference)]
    both_sides = [cell for cell in cells if not cell.better and cell.verdict == 'regressed']
    disturbed, skipped = [c for c in cells if c.verdict == 'disturbed'], left_out(cells)
    found, shared = of_cells(judged, system, session, budget, alarms.least)
    known = {id(cell): _joined(cell, tonight, alarms) for cell, tonight in zip(judged, found, strict=True)
             if tonight and (cell.verdict in OPEN or tonight.former)}
    for cell, tonight in zip(both_sides, _of_bounds_alone(both_sides, system, session), strict=True):
        word, update = _of_bad_nights(cell, cell.verdict, tonight, alarms)
        known[id(cell)] = {**update, 'verdict': word, 'reason': sentence(cell.reason, update['reason'])}
    for cell, count in zip(disturbed, _disturbed(disturbed, system, session), strict=True):
        known[id(cell)] = {'disturbed_nights': count}
    for cell, count in zip(skipped, _skipped(skipped, system, session), strict=True):
        known[id(cell)] = {'skipped_nights': count}
    return [c.model_copy(update=known[id(c)]) if id(c) in known else c for c in cells], shared


def _joined(cell: Cell, tonight: Tonight, alarms: Alarms) -> dict[str, Any]:
    """Return the changes that the history makes in the cell: it has the last word, but for a bound."""
    if tonight.former:
        facts = several([change.fact for change in tonight.former])
        reason = f'the accepted value is of the work before {tonight.former[0].when[:10]}: {facts} changed'
        cell = cell.model_copy(update={'verdict': 'unreferenced', 'reason': reason, **_NO_REFERENCE})
    told, word, reason = tonight.judgement, cell.verdict, cell.reason
    update: dict[str, Any] = {**(_NO_REFERENCE if tonight.former else {}), 'history': told.verdict, **tonight.life}
    update['suspicious'] = not tonight.reruns and (told.needs_rerun or word == 'regressed')
    if word == 'regressed' and tonight.reruns and not bounds.side(median(tonight.reruns), cell.low, cell.high):
        word, reason = 'ok', f'{reason} at first; run again it was within its bounds'
    if told.verdict != 'insufficient':
        shown = [share for share in (cell.visible, told.visible) if share is not None]
        update |= {'usual': told.baseline, 'usual_low': told.low, 'usual_high': told.high,
                   'visible': min(shown, default=None)}
        reason = sentence(reason, *told.warnings)
    word, more = _slower(cell, word, tonight, alarms)
    reason = sentence(reason, more.pop('reason', ''))
    update |= more
    if told.verdict == 'improved' and word in ('ok', 'unreferenced') \
            or word == 'unreferenced' and told.verdict in ('ok', 'blind'):
        word, reason = told.verdict, sentence(reason, told.why)
    accepted = cell.reference is not None and not cell.reference_source
    if not accepted and (why := too_fast(cell.better, cell.value, told.before, cell.unit, 'the nights before')):
        word, reason = 'impossible', why
    return {**update, 'verdict': word, 'reason': reason}


def _slower(cell: Cell, word: Word, tonight: Tonight, alarms: Alarms) -> tuple[Word, dict[str, Any]]:
    """Return the word of a cell that may be slower, and changes in the cell. ``word``: by its bounds.

    A slowdown that the history found alarms if it lasts enough nights and is large enough, or beyond a bound."""
    told = tonight.judgement
    if told.verdict != 'regressed':
        return _of_bad_nights(cell, word, tonight, alarms)
    if told.lasts < alarms.nights:
        return 'ok', {'reason': f'{told.why}; {_IF_IT_LASTS}', 'once': _off(cell, told)}
    small = told.lost is not None and told.lost < alarms.least
    if small and word != 'regressed':
        return 'ok', {'reason': f'{told.why}; it alarms from {percent(alarms.least)} on', 'slight': told.lost}
    return 'regressed', {'reason': told.why}


def _of_bad_nights(cell: Cell, word: Word, tonight: Tonight, alarms: Alarms) -> tuple[Word, dict[str, Any]]:
    """Return the word of a night on which the history finds no slowdown, and changes in the cell.

    Enough bad nights that belong together are a slowdown, or come and go. Fewer are `once`."""
    told, bad = tonight.judgement, tonight.bad
    many = bad.count >= alarms.nights
    update: dict[str, Any] = {}
    if many and (bad.tonight or bad.spells > 1):
        update['reason'] = _spells(bad, tonight.starts)
        if told.state in ('learning', 'normal'):
            update |= _life(bad, tonight.starts, alarms)
    if many and bad.tonight:
        return 'regressed', {**update, 'level': cell.value}
    if word == 'regressed':
        confirmed = 'run again it was as low' if tonight.reruns else 'not run again'
        reason = sentence(f'{confirmed}: {_IF_IT_LASTS}', update.get('reason', ''))
        return 'ok', {**update, 'reason': reason, 'once': _off(cell, told)}
    off = _off(cell, told)
    if told.alone and off and off >= alarms.least:
        update['once'] = off
    return word, update


def _life(bad: BadNights, starts: list[float], alarms: Alarms) -> dict[str, Any]:
    """Return the life of a cell with so many bad nights: they began on the first."""
    return {'state': COMES if bad.spells > 1 else 'slow', 'begin': starts[bad.places[0]],
            'detected': starts[bad.places[alarms.nights - 1]]}


def _spells(bad: BadNights, starts: list[float]) -> str:
    """Return 'comes and goes: 3 spells since 2026-11-20'; '' of neighbouring nights."""
    if bad.spells < 2:
        return ''
    return f'comes and goes: {bad.spells} spells since {times.day(starts[bad.places[0]])}'


def _off(cell: Cell, told: Judgement) -> float | None:
    """Return the share by which tonight is worse than expected; None where it is not, or where that is 0."""
    value, expected = told.value, told.baseline
    if bounds.side(cell.value, cell.low, cell.high):
        value, expected = cell.value, cell.reference or told.baseline
    if not expected:
        return None
    share = value / expected - 1
    return abs(share) if (share < 0) == (cell.better == 'higher') else None


def of_cells(cells: list[Cell], system: str, session: str, budget: Callable[[int], AlarmBudget],
             least: float = 0.0) -> tuple[list[Tonight | None], AlarmBudget]:
    """Return the judgement of each cell's history, None for one without a figure tonight, and the budget.

    Tonight is the last night. ``budget``: of so many histories that are long enough to judge. ``least``: the
    smallest slowdown that alarms, a share."""
    frame = _up_to(cells, session, history.load(system, reruns=True).lazy())
    tonight = frame.filter(pl.col('night') == frame['night'].max()) if len(frame) else frame
    here = tonight.filter(~pl.col('again'))['cell'].unique().sort()
    found: list[Tonight | None] = [None] * len(cells)
    if here.is_empty():
        return found, budget(0)
    tonight = _without_others(tonight)
    beyond = _beyond(_without_others(frame), cells)
    by_cell = (tonight.filter(again=again).group_by('cell', maintain_order=True) for again in (False, True))
    _, reruns = (dict(group.agg('value').iter_rows()) for group in by_cell)
    nights, rows, anew = _table(frame.filter(pl.col('cell').is_in(here.implode())), cells, system)
    own = [cells[i] for i in here]
    former = [work.changes if (work := anew.get(i)) and work.unaccepted and not cells[i].reference_source and
              cells[i].reference is not None else [] for i in here]
    references = [None if c.reference is None or of else Reference(c.reference, c.low, c.high)
                  for c, of in zip(own, former, strict=True)]
    shared = budget(int((np.diff(nights.start) > FIRST).sum()))
    signs = [_sign(cell) for cell in own]
    told, outcome = judged(nights, signs, rows['label'].to_list(), shared.rate, groups=_groups(own),
                     events=rows['event'].to_numpy(), nodes=rows['node'].to_list(), references=references)
    start = rows['night'].to_list()
    new_references = _new_references(cells, frame)
    for k, (i, each) in enumerate(zip(here, told, strict=True)):
        columns = {name: getattr(each, name) for name in _BEGINS}
        rows_of = range(*nights.start[k:k + 2]) if max(columns.values()) >= 0 else ()
        begins = {outcome.column[row]: start[row] for row in rows_of}
        restarts = anew[i].restarts if i in anew and each.state == 'learning' else 0
        life = {'state': each.state, 'level': each.level, 'restarts': restarts,
                'new_reference': new_references.get(i),
                'anew': anew[i].changes if i in anew and each.state == 'learning' else former[k],
                **{name: begins.get(column, 0.0) for name, column in columns.items()}}
        level = slice(_since_event(rows['event'], *nights.start[k:k + 2]), nights.start[k + 1])
        fell = {} if former[k] else beyond.get(i, {})
        bad = _bad_nights(nights, outcome, level, start[level], fell, least)
        found[i] = Tonight(each, tuple(reruns.get(i, ())), life, start[level], former[k], bad)
    return found, shared


def _since_event(event: pl.Series, first: int, until: int) -> int:
    """Return the place of the newest night, from ``first`` to ``until``, whose event begins a level; else of the
    first one."""
    begun = np.flatnonzero(event[first:until].is_in(BEGIN).to_numpy())
    return first + (int(begun[-1]) if len(begun) else 0)


def _bad_nights(nights: Nights, outcome: Outcome, here: slice, starts: list[float], fell: Mapping[float, bool],
                least: float) -> BadNights:
    """Return the newest bad nights of a cell, those of a slowdown aside. ``here``: the places of its nights, which
    began at ``starts``. ``fell``: of nights beyond its bound, whether a rerun confirmed that. ``least``: the share
    that a night within them must be low.

    Where a history judges a night, chance may explain what no rerun confirmed."""
    low = outcome.lone[here]
    confirmed_low = (low > 0) & np.isfinite(nights.again[here])
    bad = confirmed_low & (-np.expm1(-low) >= least) & ~outcome.usual[here]
    if not fell and not bad.any():
        return BadNights()
    judged = outcome.state[here] != TOO_FEW
    for night in np.flatnonzero(np.isin(starts, [*fell])).tolist() if fell else ():
        confirmed = fell[starts[night]]
        bad[night] = bad[night] or confirmed or low[night] > 0 or not judged[night]
    return bad_nights.newest(bad, outcome.deepest[here] > 0)


def _beyond(frame: pl.DataFrame, cells: list[Cell]) -> dict[int, dict[float, bool]]:
    """Return for each cell, by its place, the nights whose figure is beyond its bounds on the bad side: when each
    began, and whether its reruns are beyond them, too. A night whose reruns are within them is none.

    ``frame``: rows of _up_to."""
    bad_sides = []
    for i, cell in enumerate(cells):
        if cell.reference is not None:
            least = None if cell.better == 'lower' else cell.low
            most = None if cell.better == 'higher' else cell.high
            bad_sides.append((i, least, most))
    schema = {'cell': frame.schema['cell'], 'least': pl.Float64, 'most': pl.Float64}
    ends = pl.DataFrame(bad_sides, schema, orient='row')
    rows = frame.join(ends, on='cell', maintain_order='left')
    below = (pl.col('value') < pl.col('least')).fill_null(False)
    above = (pl.col('value') > pl.col('most')).fill_null(False)
    rows = rows.filter((below | above).any().over('cell', 'night'))
    rows = rows.group_by('cell', 'night', 'again', 'least', 'most').agg(pl.col('value').median())
    rows = rows.with_columns(low=below | above).pivot('again', index=['cell', 'night'], values='low')
    found: dict[int, dict[float, bool]] = {}
    for row in rows.iter_rows(named=True):
        runs, again = row.get('false'), row.get('true')
        if runs and again is not False:
            found.setdefault(row['cell'], {})[row['night']] = bool(again)
    return found


def _of_bounds_alone(cells: list[Cell], system: str, session: str) -> Iterator[Tonight]:
    """Yield tonight's judgement of cells that no history judges, as their better side is not known."""
    if not cells:
        return
    rows = history.rows(database.starts()).filter(
        ~pl.col('declared'), pl.col('system') == system, pl.col('value').is_not_null(), pl.col('status') == '')
    rows = rows.select(history.SCHEMA.keys()).with_columns(pl.col(pl.String).cast(history.TEXT))
    frame = _without_others(_up_to(cells, session, rows))
    beyond = _beyond(frame, cells)
    for i, cell in enumerate(cells):
        starts = frame.filter(pl.col('cell') == i)['night'].unique().sort().to_list()
        bad = np.isin(starts, [*beyond.get(i, {})])
        told = Judgement('insufficient', '', value=cell.value)
        yield Tonight(told, (), {}, starts, [], bad_nights.newest(bad, np.zeros_like(bad)))


def _new_references(cells: list[Cell], frame: pl.DataFrame) -> dict[int, Change]:
    """Return the newest change of the reference that a cell's check has itself, within its last MOST nights."""
    own = [i for i, cell in enumerate(cells) if cell.reference_source]
    if not own:
        return {}
    rows = frame.filter(~pl.col('again'), pl.col('reference').is_not_null(), pl.col('cell').is_in(own))
    found: dict[int, Change] = {}
    for (i,), nights in rows.unique(['cell', 'night']).sort('night').group_by('cell', maintain_order=True):
        newest, reference = nights.tail(MOST), cells[i].reference
        before = newest.filter(pl.col('reference') != reference)
        if len(before):
            since = newest.filter(pl.col('night') > before['night'][-1])['night'][0]
            found[i] = Change(fact='reference', old=f'{before["reference"][-1]:.6g}', new=f'{reference:.6g}',
                              since=since)
    return found


def _groups(cells: list[Cell]) -> np.ndarray:
    """Number the cells of one check and metric alike: they share their noise."""
    return np.unique([f'{cell.check}.{cell.metric}' for cell in cells], return_inverse=True)[1]


def followed(cells: list[Cell], system: str, session: str, rate: float, least: float
             ) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Return CELL and `start` (Unix time) of each night of each cell. Return its state by today's rule
    (parity.judge.stats.levels), and whether it is slow by less than ``least``."""
    nights, rows, _ = _table(_up_to(cells, session, history.load(system, reruns=True).lazy()), cells, system)
    own = [cells[i] for i in rows['cell'].unique(maintain_order=True)]
    outcome = levels.follow(nights, _groups(own), rate, rows['event'].to_numpy(),
                            np.unique(rows['node'].to_numpy(), return_inverse=True)[1])
    small = (outcome.deepest > 0) & (-np.expm1(-outcome.deepest) < least)
    return rows.join(_named(cells), on='cell').select(*history.CELL, start='night'), outcome.state, small


def _disturbed(cells: list[Cell], system: str, session: str) -> list[int]:
    """Return for each cell in how many nights in a row, up to the session, every run was disturbed.

    A night in which the cell did not run does not count; sessions of one day are one night."""
    if not cells:
        return []
    frame = history.load(system, labelled=True, disturbed=True)
    until = frame.filter(session=session)['start'].max()
    frame = frame.filter(pl.col('start') <= (float('inf') if until is None else until)).join(
        _named(cells), on=history.CELL)
    nights = history.nights(frame, 'cell').select('cell', 'start', 'disturbed').collect()
    calm = nights.filter(~pl.col('disturbed')).group_by('cell').agg(last=pl.col('start').max())
    since = nights.join(calm, on='cell', how='left')
    return _days(since.with_columns(pl.col('last').fill_null(float('-inf'))), cells)


def _skipped(cells: list[Cell], system: str, session: str) -> list[int]:
    """Return for each cell how many nights in a row, up to the session, left it out; 0 where none measured it.

    A night that did not plan the cell does not count. What a person measured by hand, no night has to measure."""
    if not cells:
        return []
    sessions = [each for each in database.sessions(system) if not each.rerun_of]
    here = next((each for each in sessions if each.uuid == session), None)
    if here is not None:
        sessions = [each for each in sessions if each.start <= here.start]
        if here.selection:
            sessions = [each for each in sessions if each.selection]
    wanted = _named(cells).cast(dict.fromkeys(history.CELL, pl.String))
    nights = history.rows([each.uuid for each in sessions]).filter(system=system)
    rows = nights.join(wanted.lazy(), on=history.CELL).select('cell', 'start', 'value', 'status').collect()
    measured = rows.filter(status='').group_by('cell').agg(last=pl.col('start').max())
    return _days(rows.filter(status='skipped').join(measured, on='cell'), cells)


def _days(nights: pl.DataFrame, cells: list[Cell]) -> list[int]:
    """Return on how many days each cell has nights after its ``last`` good one (cell, start, last)."""
    since = nights.filter(pl.col('start') > pl.col('last')).with_columns(
        day=pl.from_epoch(pl.col('start').cast(pl.Int64)).dt.date())
    counts = dict(since.group_by('cell').agg(pl.col('day').n_unique()).iter_rows())
    return [counts.get(i, 0) for i in range(len(cells))]


def longer(system: str, session: str) -> list[str]:
    """Return a sentence for each case of the session that ran far longer than usual, the worst first.

    A case's time in a night is the median of its runs, without what its jobs waited in a queue."""
    frame = history.load(system, labelled=True).lazy().filter(pl.col('seconds').is_not_null()).select(
        'session', 'start', *_CASE, 'run', 'seconds').collect()
    order = frame.unique('session').sort('start')['session']
    if session not in order:
        return []
    at = order.index_of(session)
    frame = frame.filter(pl.col('session').is_in(order[max(0, at - MOST):at + 1].implode()))
    runs = frame.group_by('session', *_CASE, 'run').agg(pl.col('seconds').first())
    nights = runs.group_by('session', *_CASE).agg(pl.col('seconds').median())
    tonight = pl.col('session') == session
    usual = nights.filter(~tonight).group_by(_CASE).agg(usual=pl.col('seconds').median(), nights=pl.len())
    slow = nights.filter(tonight).join(usual, on=_CASE).filter(
        pl.col('nights') >= LEAST, pl.col('seconds') > TIMES * pl.col('usual'),
        pl.col('seconds') > pl.col('usual') + SECONDS)
    slow = slow.sort(pl.col('seconds') / pl.col('usual'), 'case', descending=[True, False])
    said = [f'{row["case"]} on {row["partition"]}+{row["environ"]} ran {duration(row["seconds"])}, usual is '
            f'{duration(row["usual"])} (median of {counted(row["nights"], "night")})'
            for row in slow.head(_NAMED).iter_rows(named=True)]
    rest = len(slow) - _NAMED
    more = f'{counted(rest, "more case")} ran more than {TIMES:g} times as long as usual'
    return said + ([more] if rest > 0 else [])


def _named(cells: list[Cell]) -> pl.DataFrame:
    """cell (its place among them), and its name in a history."""
    return pl.DataFrame({name: [getattr(cell, name) for cell in cells] for name in history.CELL},
                        schema=dict.fromkeys(history.CELL, history.TEXT)).with_row_index('cell')


def _sign(cell: Cell) -> int:
    return 1 if cell.better == 'higher' else -1


def _table(frame: pl.DataFrame, of: list[Cell], system: str
           ) -> tuple[Nights, pl.DataFrame, dict[int, events.OtherWork]]:
    """The nights of all cells of the frame, cell by cell, and a row of each: cell, night, label, node, event.

    The last is the newest other work of a cell, by its place among the cells ``of``."""
    if frame['again'].any():         # a night without a run of its own is none
        frame = _without_others(frame.filter(~pl.col('again').all().over('cell', 'night')))
    frame = frame.with_columns(at=pl.struct('cell', 'night').rle_id())
    at, again, value = (frame[column].to_numpy() for column in ('at', 'again', 'value'))
    first = np.flatnonzero(np.diff(at.astype(int), prepend=-1))
    rows = frame[first]
    event, anew = events.of_nights(rows, of, system)
    rows = rows.with_columns(event=event)
    cells = rows['cell'].to_numpy().astype(int)
    begins = np.flatnonzero(np.diff(cells, prepend=-1))
    start, signs = np.append(begins, len(first)), rows['sign'].to_numpy()[begins]
    when = rows['night'].rank('dense').to_numpy().astype(int)
    rows = rows.select('cell', 'night', 'label', 'node', 'event')
    return Nights.of(start, at, value, again, signs, when), rows, anew


def _without_others(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out the reruns on other nodes of a night that was run again on its own: they tell only the place."""
    key = ['cell', 'night', 'node']
    again = frame.with_row_index('row').filter('again')
    here = again.join(frame.filter(~pl.col('again')), on=key, how='semi')
    others = again.join(here, on=key, how='anti').join(here, on=key[:2], how='semi')
    return frame.with_row_index('row').join(others, on='row', how='anti', maintain_order='left').drop('row')


def _up_to(cells: list[Cell], session: str, frame: pl.LazyFrame) -> pl.DataFrame:
    """cell, night, label, session, again, value, node, software, reference, unit, work, sign: every figure that
    was known when the session was judged.

    ``frame``: every figure, with reruns. ``cell`` is its place among the cells. A night is a session, named by
    when it began. Reruns (again) belong to the night of the session that they confirm. No rows where the session
    has no figure."""
    wanted = _named(cells).lazy().with_columns(pl.Series('sign', [_sign(cell) for cell in cells], dtype=pl.Int8))
    own = frame.select('session', 'rerun_of', 'night', 'start').filter(rerun_of='').unique('session').collect()
    start = own.filter(session=session)['start'].max()
    until = pl.col('start') <= (float('-inf') if start is None else start)
    known = frame.filter(until | (pl.col('rerun_of') == session)).select(
        *history.CELL, 'start', 'run', *_OF_RUN, again=pl.col('rerun_of') != '', of=history.NIGHT)
    nights = own.lazy().filter(until).select(of='session', label='night', night='start')
    joined = known.join(wanted, on=history.CELL, maintain_order='left').select(pl.exclude(history.CELL)).join(
        nights, on='of', maintain_order='left').rename({'of': 'session'})
    return joined.sort('cell', 'night', 'again', 'start', 'run', maintain_order=True).collect()
