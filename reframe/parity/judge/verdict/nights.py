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
from parity.judge.verdict import events, reasons
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
    updates: dict[int, dict[str, Any]] = {}
    judged = [cell for cell in cells if cell.better and (cell.verdict in OPEN or cell.beyond_reference)]
    judgements, shared = of_cells(judged, system, session, budget, alarms.least)
    for cell, tonight in zip(judged, judgements, strict=True):
        if tonight and (cell.verdict in OPEN or tonight.former):
            updates[id(cell)] = _joined(cell, tonight, alarms)
    both_sides = [cell for cell in cells if not cell.better and cell.verdict == 'regressed']
    for cell, tonight in zip(both_sides, _of_bounds_alone(both_sides, system, session), strict=True):
        word, update = _of_bad_nights(cell, cell.verdict, tonight, alarms)
        reason = sentence(cell.reason, update['reason'])
        updates[id(cell)] = {**update, 'verdict': word, 'reason': reason}
    disturbed = [cell for cell in cells if cell.verdict == 'disturbed']
    for cell, count in zip(disturbed, _disturbed(disturbed, system, session), strict=True):
        updates[id(cell)] = {'disturbed_nights': count}
    skipped = left_out(cells)
    for cell, count in zip(skipped, _skipped(skipped, system, session), strict=True):
        updates[id(cell)] = {'skipped_nights': count}
    return [cell.model_copy(update=updates[id(cell)]) if id(cell) in updates else cell for cell in cells], shared


def _joined(cell: Cell, tonight: Tonight, alarms: Alarms) -> dict[str, Any]:
    """Return the changes that the history makes in the cell: it has the last word, but for a bound."""
    judgement = tonight.judgement
    update: dict[str, Any] = {'history': judgement.verdict, **tonight.life}
    if tonight.former:
        facts = several([change.fact for change in tonight.former])
        reason = f'the accepted value is of the work before {tonight.former[0].when[:10]}: {facts} changed'
        cell = cell.model_copy(update={'verdict': 'unreferenced', 'reason': reason, **_NO_REFERENCE})
        update |= _NO_REFERENCE
    word, reason = cell.verdict, cell.reason
    update['suspicious'] = not tonight.reruns and (judgement.needs_rerun or word == 'regressed')
    if word == 'regressed' and tonight.reruns and not bounds.side(median(tonight.reruns), cell.low, cell.high):
        word, reason = 'ok', f'{reason} at first; run again it was within its bounds'
    if judgement.verdict != 'insufficient':
        visible = [share for share in (cell.visible, judgement.visible) if share is not None]
        update['visible'] = min(visible, default=None)
        update['usual'] = judgement.baseline
        update['usual_low'] = judgement.low
        update['usual_high'] = judgement.high
        reason = sentence(reason, *reasons.warnings(judgement))
    word, more = _slower(cell, word, tonight, alarms)
    reason = sentence(reason, more.pop('reason', ''))
    update |= more
    improved = judgement.verdict == 'improved' and word in ('ok', 'unreferenced')
    fine = judgement.verdict in ('ok', 'blind') and word == 'unreferenced'
    if improved or fine:
        word, reason = judgement.verdict, sentence(reason, reasons.why(judgement))
    accepted = cell.reference is not None and not cell.reference_source
    if not (accepted and bounds.says_usual(cell.better, cell.low, cell.high)):
        why = too_fast(cell.better, cell.value, judgement.before, cell.unit, 'the nights before')
        if why:
            word, reason = 'impossible', why
    return {**update, 'verdict': word, 'reason': reason}


def _slower(cell: Cell, word: Word, tonight: Tonight, alarms: Alarms) -> tuple[Word, dict[str, Any]]:
    """Return the word of a cell that may be slower, and changes in the cell. ``word``: by its bounds.

    A slowdown that the history found alarms if it lasts enough nights and is large enough, or beyond a bound."""
    told = tonight.judgement
    if told.verdict != 'regressed':
        return _of_bad_nights(cell, word, tonight, alarms)
    why = reasons.why(told)
    if told.lasts < alarms.nights:
        return 'ok', {'reason': f'{why}; {_IF_IT_LASTS}', 'once': _off(cell, told)}
    small = told.lost is not None and told.lost < alarms.least
    if small and word != 'regressed':
        return 'ok', {'reason': f'{why}; it alarms from {percent(alarms.least)} on', 'slight': told.lost}
    return 'regressed', {'reason': why}


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
    measured = tonight.filter(~pl.col('again'))['cell'].unique().sort()      # places in ``cells``
    judged_tonight: list[Tonight | None] = [None] * len(cells)
    if measured.is_empty():
        return judged_tonight, budget(0)
    again = _without_others(tonight).filter('again').group_by('cell', maintain_order=True)
    reruns = dict(again.agg('value').iter_rows())
    beyond = _beyond(frame, cells)
    nights, rows, anew = _table(frame.filter(pl.col('cell').is_in(measured.implode())), cells, system)
    former = [_former(cells[place], anew.get(place)) for place in measured]
    measured_cells = [cells[place] for place in measured]
    references = []
    for cell, changes in zip(measured_cells, former, strict=True):
        applies = cell.reference is not None and not changes
        references.append(Reference(cell.reference, cell.low, cell.high) if applies else None)
    shared = budget(int((np.diff(nights.start) > FIRST).sum()))
    signs = [_sign(cell) for cell in measured_cells]
    nodes_of = rows['node'].to_list()
    judgements, outcome = judged(
        nights, signs, rows['label'].to_list(), shared.rate, groups=_groups(measured_cells),
        events=rows['event'].to_numpy(), nodes=nodes_of, references=references)
    starts = rows['night'].to_list()
    level_starts = _level_starts(rows['event'], nights.start)
    new_references = _new_references(cells, frame)
    for number, (place, judgement) in enumerate(zip(measured, judgements, strict=True)):
        first, until = nights.start[number:number + 2]
        life = {'state': judgement.state, 'level': judgement.level, 'restarts': 0,
                'new_reference': new_references.get(place), 'anew': former[number],
                **_begins(judgement, outcome, starts, range(first, until))}
        if place in anew and judgement.state == 'learning':
            life |= {'restarts': anew[place].restarts, 'anew': anew[place].changes}
        level = slice(level_starts[number], until)
        beyond_bounds = {} if former[number] else beyond.get(place, {})
        bad = _bad_nights(nights, outcome, level, starts[level], nodes_of[level], beyond_bounds, least)
        judged_tonight[place] = Tonight(
            judgement, tuple(reruns.get(place, ())), life, starts[level], former[number], bad)
    return judged_tonight, shared


def _former(cell: Cell, work: events.OtherWork | None) -> list[Change]:
    """Return what changed since the work that the accepted value is of; [] where it is of today's."""
    if cell.reference is None or cell.reference_source:
        return []
    return work.changes if work and work.unaccepted else []


def _begins(judgement: Judgement, outcome: Outcome, starts: list[float], rows: range) -> dict[str, float]:
    """Return when the nights in _BEGINS began; 0 of none. ``rows``: those of the cell."""
    columns = {name: getattr(judgement, name) for name in _BEGINS}
    if max(columns.values()) < 0:
        return dict.fromkeys(columns, 0.0)
    start_of = {outcome.column[row]: starts[row] for row in rows}
    return {name: start_of.get(column, 0.0) for name, column in columns.items()}


def _level_starts(event: pl.Series, start: np.ndarray) -> list[int]:
    """Return for each cell the place of its newest night whose event begins a level; else of its first one.

    ``event``: of all nights. ``start``: where those of each cell begin, and the end of all."""
    begins = event.is_in(BEGIN).to_numpy()
    newest = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    return np.fmax(start[:-1], newest[start[1:] - 1]).tolist()


def _bad_nights(nights: Nights, outcome: Outcome, here: slice, starts: list[float], nodes: list[str],
                fell: Mapping[float, bool], least: float) -> BadNights:
    """Return the newest bad nights of a cell, those of a slowdown aside. ``here``: the places of its nights, which
    began at ``starts`` and ran on ``nodes``. ``fell``: of nights beyond its bound, whether a rerun confirmed that.
    ``least``: the share that a night within them must be low.

    Where a history judges a night, chance may explain what no rerun confirmed."""
    low = outcome.lone[here]
    if not fell and not low.any():
        return BadNights()
    is_confirmed = np.isfinite(nights.again[here])
    is_large = -np.expm1(-low) >= least
    bad = (low > 0) & is_confirmed & is_large & ~outcome.usual[here]
    judged = outcome.state[here] != TOO_FEW
    for night, began in enumerate(starts):
        if began in fell:
            bad[night] = bad[night] or fell[began] or low[night] > 0 or not judged[night]
    if not bad.any():
        return BadNights()
    return bad_nights.newest(bad, outcome.deepest[here] > 0, outcome.below[here], nodes)


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
    if not bad_sides:
        return {}
    schema = {'cell': frame.schema['cell'], 'least': pl.Float64, 'most': pl.Float64}
    ends = pl.DataFrame(bad_sides, schema, orient='row')
    rows = _without_others(frame).join(ends, on='cell', maintain_order='left')
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
    frame = _up_to(cells, session, rows)
    beyond = _beyond(frame, cells)
    frame = _without_others(frame)
    for i, cell in enumerate(cells):
        starts = frame.filter(pl.col('cell') == i)['night'].unique().sort().to_list()
        bad = np.isin(starts, [*beyond.get(i, {})])
        of_no_slowdown, unknown = np.zeros_like(bad), np.zeros(len(starts))
        newest = bad_nights.newest(bad, of_no_slowdown, unknown, [''] * len(starts))
        yield Tonight(Judgement('insufficient', cell.value), (), {}, starts, [], newest)


def _new_references(cells: list[Cell], frame: pl.DataFrame) -> dict[int, Change]:
    """Return the newest change of the reference that a cell's check has itself, within its last MOST nights."""
    places = [place for place, cell in enumerate(cells) if cell.reference_source]
    if not places:
        return {}
    rows = frame.filter(~pl.col('again'), pl.col('reference').is_not_null(), pl.col('cell').is_in(places))
    nights = rows.unique(['cell', 'night']).sort('night')
    found: dict[int, Change] = {}
    for (place,), of_cell in nights.group_by('cell', maintain_order=True):
        newest = of_cell.tail(MOST)
        reference = cells[place].reference
        before = newest.filter(pl.col('reference') != reference)
        if len(before):
            since = newest.filter(pl.col('night') > before['night'][-1])['night'][0]
            old = f'{before["reference"][-1]:.6g}'
            found[place] = Change(fact='reference', old=old, new=f'{reference:.6g}', since=since)
    return found


def _groups(cells: list[Cell]) -> np.ndarray:
    """Number the cells of one check and metric alike: they share their noise."""
    return np.unique([f'{cell.check}.{cell.metric}' for cell in cells], return_inverse=True)[1]


def followed(cells: list[Cell], system: str, session: str, rate: float, least: float
             ) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Return CELL and `start` (Unix time) of each night of each cell. Return its state by today's rule
    (parity.judge.stats.levels), and whether it is slow by less than ``least``."""
    frame = _up_to(cells, session, history.load(system, reruns=True).lazy())
    nights, rows, _ = _table(frame, cells, system)
    followed_cells = [cells[place] for place in rows['cell'].unique(maintain_order=True)]
    _, nodes = np.unique(rows['node'].to_numpy(), return_inverse=True)
    outcome = levels.follow(nights, _groups(followed_cells), rate, rows['event'].to_numpy(), nodes)
    loss = -np.expm1(-outcome.deepest)
    small = (outcome.deepest > 0) & (loss < least)
    named = rows.join(_named(cells), on='cell').select(*history.CELL, start='night')
    return named, outcome.state, small


def _disturbed(cells: list[Cell], system: str, session: str) -> list[int]:
    """Return for each cell in how many nights in a row, up to the session, every run was disturbed.

    A night in which the cell did not run does not count; sessions of one day are one night."""
    if not cells:
        return []
    frame = history.load(system, labelled=True, disturbed=True)
    until = frame.filter(session=session)['start'].max()
    if until is not None:
        frame = frame.filter(pl.col('start') <= until)
    nights = history.nights(frame.join(_named(cells), on=history.CELL), 'cell')
    nights = nights.select('cell', 'start', 'disturbed').collect()
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
    since = nights.filter(pl.col('start') > pl.col('last'))
    day = pl.from_epoch(pl.col('start').cast(pl.Int64)).dt.date()
    counts = dict(since.group_by('cell').agg(day.n_unique()).iter_rows())
    return [counts.get(place, 0) for place in range(len(cells))]


def longer(system: str, session: str) -> list[str]:
    """Return a sentence for each case of the session that ran far longer than usual, the worst first.

    A case's time in a night is the median of its runs, without what its jobs waited in a queue."""
    stored = history.load(system, labelled=True).lazy().filter(pl.col('seconds').is_not_null())
    frame = stored.select('session', 'start', *_CASE, 'run', 'seconds').collect()
    order = frame.unique('session').sort('start')['session']
    if session not in order:
        return []
    place = order.index_of(session)
    newest = order[max(0, place - MOST):place + 1]
    frame = frame.filter(pl.col('session').is_in(newest.implode()))
    runs = frame.group_by('session', *_CASE, 'run').agg(pl.col('seconds').first())
    nights = runs.group_by('session', *_CASE).agg(pl.col('seconds').median())
    before = nights.filter(pl.col('session') != session)
    tonight = nights.filter(pl.col('session') == session)
    seconds, usual = pl.col('seconds'), pl.col('usual')
    compared = tonight.join(before.group_by(_CASE).agg(usual=seconds.median(), nights=pl.len()), on=_CASE)
    slow = compared.filter(pl.col('nights') >= LEAST, seconds > TIMES * usual, seconds > usual + SECONDS)
    slow = slow.sort(seconds / usual, 'case', descending=[True, False])
    sentences = []
    for row in slow.head(_NAMED).iter_rows(named=True):
        usual_time = f'{duration(row["usual"])} (median of {counted(row["nights"], "night")})'
        sentences.append(f'{row["case"]} on {row["partition"]}+{row["environ"]} ran {duration(row["seconds"])}, '
                         f'usual is {usual_time}')
    rest = len(slow) - _NAMED
    if rest > 0:
        sentences.append(f'{counted(rest, "more case")} ran more than {TIMES:g} times as long as usual')
    return sentences


def _named(cells: list[Cell]) -> pl.DataFrame:
    """cell (its place among them), and its name in a history."""
    columns = {name: [getattr(cell, name) for cell in cells] for name in history.CELL}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(history.CELL, history.TEXT))
    return frame.with_row_index('cell')


def _sign(cell: Cell) -> int:
    return 1 if cell.better == 'higher' else -1


def _table(frame: pl.DataFrame, of: list[Cell], system: str
           ) -> tuple[Nights, pl.DataFrame, dict[int, events.OtherWork]]:
    """The nights of all cells of the frame, cell by cell, and a row of each: cell, night, label, node, event.

    The last is the newest other work of a cell, by its place among the cells ``of``."""
    if frame['again'].any():         # a night without a run of its own is none
        frame = _without_others(frame.filter(~pl.col('again').all().over('cell', 'night')))
    of_cell, of_night = frame['cell'].to_numpy().astype(int), frame['night'].to_numpy()
    is_first = np.diff(of_cell, prepend=-1) != 0
    is_first |= np.diff(of_night, prepend=np.nan) != 0
    night_of = np.cumsum(is_first) - 1
    first = np.flatnonzero(is_first)
    rows = frame[first]
    event, anew = events.of_nights(rows, of, system)
    rows = rows.with_columns(event=event)
    cells = rows['cell'].to_numpy().astype(int)
    begins = np.flatnonzero(np.diff(cells, prepend=-1))
    start = np.append(begins, len(first))
    signs = rows['sign'].to_numpy()[begins]
    when = np.searchsorted(rows['night'].unique().sort(), rows['night'])
    nights = Nights.of(start, night_of, frame['value'].to_numpy(), frame['again'].to_numpy(), signs, when)
    return nights, rows.select('cell', 'night', 'label', 'node', 'event'), anew


def _without_others(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out the reruns on other nodes of a night that was run again on its own: they tell only the place."""
    if not frame['again'].any():
        return frame
    numbered = frame.with_row_index('row')
    again = numbered.filter('again')
    first_runs = frame.filter(~pl.col('again'))
    same_node = again.join(first_runs, on=['cell', 'night', 'node'], how='semi')
    other_node = again.join(same_node, on='row', how='anti')
    others = other_node.join(same_node, on=['cell', 'night'], how='semi')
    return numbered.join(others, on='row', how='anti', maintain_order='left').drop('row')


def _up_to(cells: list[Cell], session: str, frame: pl.LazyFrame) -> pl.DataFrame:
    """cell, night, label, session, again, value, node, software, reference, unit, work, sign: every figure that
    was known when the session was judged.

    ``frame``: every figure, with reruns. ``cell`` is its place among the cells. A night is a session, named by
    when it began. Reruns (again) belong to the night of the session that they confirm. No rows where the session
    has no figure."""
    signs = pl.Series('sign', [_sign(cell) for cell in cells], dtype=pl.Int8)
    wanted = _named(cells).lazy().with_columns(signs)
    stored = frame.select('session', 'rerun_of', 'night', 'start').filter(rerun_of='')
    sessions = stored.unique('session').collect()
    start = sessions.filter(session=session)['start'].max()
    until = pl.col('start') <= (float('-inf') if start is None else start)
    nights = sessions.lazy().filter(until).select(of='session', label='night', night='start')
    known = frame.filter(until | (pl.col('rerun_of') == session))
    again = pl.col('rerun_of') != ''
    figures = known.select(*history.CELL, 'start', 'run', *_OF_RUN, again=again, of=history.NIGHT)
    of_cells = figures.join(wanted, on=history.CELL, maintain_order='left').select(pl.exclude(history.CELL))
    joined = of_cells.join(nights, on='of', maintain_order='left').rename({'of': 'session'})
    return joined.sort('cell', 'night', 'again', 'start', 'run', maintain_order=True).collect()
