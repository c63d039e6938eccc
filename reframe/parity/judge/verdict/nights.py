"""The nights before a session: they judge its cells, all at once as a large system has many, and find long cases.

The accepted bounds judge tonight; the history judges tonight against the nights before, at a stated rate of
false alarms. Worse by either is a bad night, unless the same case, run again the same night, says otherwise. So
many bad nights are a regression as the system says (`alarms: nights`); before that one is `once`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from parity.judge.stats.nights import Nights, Texts
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
    starts: Sequence[float]          # when its nights began, Unix times
    former: list[Change]             # what changed since the work that the accepted value is of
    bad: BadNights                   # on which no slowdown was found


@dataclass(frozen=True)
class _Table:
    """The nights of all cells of a frame, cell by cell."""

    nights: Nights
    rows: pl.DataFrame               # cell, night, label, node and event of each night
    anew: dict[int, events.OtherWork]       # the newest other work of a cell, by its place among the cells


@dataclass(frozen=True)
class FollowedNights:
    """The nights of cells as today's rule follows them; a row each."""

    rows: pl.DataFrame               # CELL and `start` (Unix time)
    state: np.ndarray                # of parity.judge.stats.rule
    is_slight: np.ndarray            # slow, but by less than alarms


def with_history(cells: list[Cell], system: str, session: str, alarms: Alarms,
                 budget: Callable[[int], AlarmBudget]) -> AlarmBudget:
    """Give each of all cells of the session its last word, and return the budget of so many histories.

    The list is changed: the cells of a large system take 200 MB."""
    place_of = {id(cell): place for place, cell in enumerate(cells)}
    judged = [cell for cell in cells if cell.better and (cell.verdict in OPEN or cell.beyond_reference)]
    both_sides = [cell for cell in cells if not cell.better and cell.verdict == 'regressed']
    disturbed = [cell for cell in cells if cell.verdict == 'disturbed']
    skipped = left_out(cells)

    def change(cell: Cell, update: dict[str, Any]) -> None:
        place = place_of[id(cell)]
        cells[place] = cell.model_copy(update=update)

    judgements, shared = of_cells(judged, system, session, budget, alarms.least)
    while judged:               # each is let go once it is changed
        cell, tonight = judged.pop(), judgements.pop()
        if tonight and (cell.verdict in OPEN or tonight.former):
            change(cell, _joined(cell, tonight, alarms))
    bad_nights_of = _of_bounds_alone(both_sides, system, session)
    for cell, tonight in zip(both_sides, bad_nights_of, strict=True):
        word, update = _of_bad_nights(cell, cell.verdict, tonight, alarms)
        reason = sentence(cell.reason, update['reason'])
        change(cell, {**update, 'verdict': word, 'reason': reason})
    nights_disturbed = _nights_disturbed(disturbed, system, session)
    for cell, count in zip(disturbed, nights_disturbed, strict=True):
        change(cell, {'disturbed_nights': count})
    nights_skipped = _nights_skipped(skipped, system, session)
    for cell, count in zip(skipped, nights_skipped, strict=True):
        change(cell, {'skipped_nights': count})
    return shared


def _joined(cell: Cell, tonight: Tonight, alarms: Alarms) -> dict[str, Any]:
    """Return the changes that the history makes in the cell: it has the last word, but for a bound."""
    judgement = tonight.judgement
    update: dict[str, Any] = {'history': judgement.verdict, **tonight.life}
    if tonight.former:
        cell = _without_reference(cell, tonight.former)
        update |= _NO_REFERENCE
    word, reason = cell.verdict, cell.reason
    is_beyond = word == 'regressed'
    update['suspicious'] = not tonight.reruns and (judgement.needs_rerun or is_beyond)
    if is_beyond and tonight.reruns:
        rerun = median(tonight.reruns)
        if not bounds.side(rerun, cell.low, cell.high):
            word, reason = 'ok', f'{reason} at first; run again it was within its bounds'
    if judgement.verdict != 'insufficient':
        visible = [share for share in (cell.visible, judgement.visible) if share is not None]
        update['visible'] = min(visible, default=None)
        update['usual'] = judgement.baseline
        update['usual_low'] = judgement.low
        update['usual_high'] = judgement.high
        reason = sentence(reason, *reasons.warnings(judgement))
    word, changes = _slower(cell, word, tonight, alarms)
    reason = sentence(reason, changes.pop('reason', ''))
    update |= changes
    improved = judgement.verdict == 'improved' and word in ('ok', 'unreferenced')
    fine = judgement.verdict in ('ok', 'blind') and word == 'unreferenced'
    if improved or fine:
        word = judgement.verdict
        reason = sentence(reason, reasons.why(judgement))
    is_accepted = cell.reference is not None and not cell.reference_source
    if not (is_accepted and bounds.says_usual(cell.better, cell.low, cell.high)):
        why = too_fast(cell.better, cell.value, judgement.before, cell.unit, 'the nights before')
        if why:
            word, reason = 'impossible', why
    return {**update, 'verdict': word, 'reason': reason}


def _without_reference(cell: Cell, former: list[Change]) -> Cell:
    """Return the cell without its accepted value, which is of the work before the ``former`` changes."""
    day = former[0].when[:10]
    facts = several([change.fact for change in former])
    reason = f'the accepted value is of the work before {day}: {facts} changed'
    update = {'verdict': 'unreferenced', 'reason': reason}
    return cell.model_copy(update={**update, **_NO_REFERENCE})


def _slower(cell: Cell, word: Word, tonight: Tonight, alarms: Alarms) -> tuple[Word, dict[str, Any]]:
    """Return the word of a cell that may be slower, and changes in the cell. ``word``: by its bounds.

    A slowdown that the history found alarms if it lasts enough nights and is large enough, or beyond a bound."""
    judgement = tonight.judgement
    if judgement.verdict != 'regressed':
        return _of_bad_nights(cell, word, tonight, alarms)
    why = reasons.why(judgement)
    if judgement.lasts < alarms.nights:
        off = _off(cell, judgement)
        return 'ok', {'reason': f'{why}; {_IF_IT_LASTS}', 'once': off}
    lost = judgement.lost
    is_small = lost is not None and lost < alarms.least
    if is_small and word != 'regressed':
        reason = f'{why}; it alarms from {percent(alarms.least)} on'
        return 'ok', {'reason': reason, 'slight': lost}
    return 'regressed', {'reason': why}


def _of_bad_nights(cell: Cell, word: Word, tonight: Tonight, alarms: Alarms) -> tuple[Word, dict[str, Any]]:
    """Return the word of a night on which the history finds no slowdown, and changes in the cell.

    Enough bad nights that belong together are a slowdown, or come and go. Fewer are `once`."""
    judgement, bad = tonight.judgement, tonight.bad
    many = bad.count >= alarms.nights
    update: dict[str, Any] = {}
    if many and (bad.tonight or bad.spells > 1):
        update['reason'] = _spells(bad, tonight.starts)
        if judgement.state in ('learning', 'normal'):
            update |= _life(bad, tonight.starts, alarms)
    if many and bad.tonight:
        update['level'] = cell.value
        return 'regressed', update
    off = _off(cell, judgement)
    if word == 'regressed':
        rerun = 'run again it was as low' if tonight.reruns else 'not run again'
        reason = sentence(f'{rerun}: {_IF_IT_LASTS}', update.get('reason', ''))
        return 'ok', {**update, 'reason': reason, 'once': off}
    if judgement.alone and off and off >= alarms.least:
        update['once'] = off
    return word, update


def _life(bad: BadNights, starts: Sequence[float], alarms: Alarms) -> dict[str, Any]:
    """Return the life of a cell with so many bad nights: they began on the first."""
    state = COMES if bad.spells > 1 else 'slow'
    first = bad.places[0]
    enough = bad.places[alarms.nights - 1]
    return {'state': state, 'begin': float(starts[first]), 'detected': float(starts[enough])}


def _spells(bad: BadNights, starts: Sequence[float]) -> str:
    """Return 'comes and goes: 3 spells since 2026-11-20'; '' of neighbouring nights."""
    if bad.spells < 2:
        return ''
    first = times.day(starts[bad.places[0]])
    return f'comes and goes: {bad.spells} spells since {first}'


def _off(cell: Cell, judgement: Judgement) -> float | None:
    """Return the share by which tonight is worse than expected; None where it is not, or where that is 0."""
    value, expected = judgement.value, judgement.baseline
    if bounds.side(cell.value, cell.low, cell.high):
        value = cell.value
        expected = cell.reference or judgement.baseline
    if not expected:
        return None
    share = value / expected - 1
    is_lower = share < 0
    is_worse = is_lower == (cell.better == 'higher')
    return abs(share) if is_worse else None


def of_cells(cells: list[Cell], system: str, session: str, budget: Callable[[int], AlarmBudget],
             least: float = 0.0) -> tuple[list[Tonight | None], AlarmBudget]:
    """Return the judgement of each cell's history, None for one without a figure tonight, and the budget.

    Tonight is the last night. ``budget``: of so many histories that are long enough to judge. ``least``: the
    smallest slowdown that alarms, a share."""
    frame = _up_to(cells, session, history.parts(system, reruns=True))
    tonight = frame
    if len(frame):
        tonight = frame.filter(pl.col('night') == frame['night'].max())
    first_runs = tonight.filter(~pl.col('again'))
    measured = first_runs['cell'].unique().sort()       # places in ``cells``
    judged_tonight: list[Tonight | None] = [None] * len(cells)
    if measured.is_empty():
        return judged_tonight, budget(0)
    again = _without_others(tonight).filter('again').group_by('cell', maintain_order=True)
    reruns = dict(again.agg('value').iter_rows())
    beyond = _beyond(frame, cells)
    new_references = _new_references(cells, frame)
    if len(measured) < frame['cell'].n_unique():
        is_measured = pl.col('cell').is_in(measured.implode())
        frame = frame.filter(is_measured)
    table = _table(frame, cells, system)
    del frame, first_runs, tonight          # a year of a large system takes 500 MB
    nights, rows, anew = table.nights, table.rows, table.anew
    measured_cells = [cells[place] for place in measured]
    former = []
    references = []
    for place, cell in zip(measured, measured_cells, strict=True):
        changes = _former(cell, anew.get(place))
        applies = cell.reference is not None and not changes
        former.append(changes)
        references.append(Reference(cell.reference, cell.low, cell.high) if applies else None)
    lengths = np.diff(nights.start)
    shared = budget(int((lengths > FIRST).sum()))
    signs = [_sign(cell) for cell in measured_cells]
    labels = Texts.of(rows['label']).all()
    nodes = Texts.of(rows['node'])
    nodes_of = nodes.all()
    judgements, outcome = judged(
        nights, signs, labels, shared.rate, groups=_groups(measured_cells),
        events=rows['event'].to_numpy(), nodes=nodes, references=references)
    starts = rows['night'].to_numpy()
    level_starts = _level_starts(rows['event'], nights.start)
    for number, (place, judgement) in enumerate(zip(measured, judgements, strict=True)):
        first, until = nights.start[number:number + 2]
        restarts, other_work = 0, former[number]
        if place in anew and judgement.state == 'learning':
            restarts, other_work = anew[place].restarts, anew[place].changes
        begins = _begins(judgement, outcome, starts, range(first, until))
        new_reference = new_references.get(place)
        life = {'state': judgement.state, 'level': judgement.level, 'restarts': restarts,
                'new_reference': new_reference, 'anew': other_work, **begins}
        level = slice(level_starts[number], until)
        level_nights = starts[level]
        beyond_bounds = {} if former[number] else beyond.get(place, {})
        bad = _bad_nights(nights, outcome, level, level_nights, nodes_of[level], beyond_bounds, least)
        reruns_here = tuple(reruns.get(place, ()))
        judged_tonight[place] = Tonight(judgement, reruns_here, life, level_nights, former[number], bad)
    return judged_tonight, shared


def _former(cell: Cell, work: events.OtherWork | None) -> list[Change]:
    """Return what changed since the work that the accepted value is of; [] where it is of today's."""
    if cell.reference is None or cell.reference_source:
        return []
    return work.changes if work and work.unaccepted else []


def _begins(judgement: Judgement, outcome: Outcome, starts: np.ndarray, rows: range) -> dict[str, float]:
    """Return when the nights in _BEGINS began; 0 of none. ``rows``: those of the cell."""
    columns = {name: getattr(judgement, name) for name in _BEGINS}
    newest = max(columns.values())
    if newest < 0:
        return dict.fromkeys(columns, 0.0)
    columns_of_cell = outcome.column[rows.start:rows.stop]
    starts_of_cell = starts[rows.start:rows.stop]
    start_of = dict(zip(columns_of_cell.tolist(), starts_of_cell.tolist(), strict=True))
    begins = {}
    for name, column in columns.items():
        begins[name] = start_of.get(column, 0.0)
    return begins


def _level_starts(event: pl.Series, start: np.ndarray) -> list[int]:
    """Return for each cell the place of its newest night whose event begins a level; else of its first one.

    ``event``: of all nights. ``start``: where those of each cell begin, and the end of all."""
    begins = event.is_in(BEGIN).to_numpy()
    place = np.arange(len(begins))
    begin = np.where(begins, place, 0)
    newest_begin = np.maximum.accumulate(begin)
    first_night = start[:-1]
    last_night = start[1:] - 1
    level_start = np.fmax(first_night, newest_begin[last_night])
    return level_start.tolist()


def _bad_nights(nights: Nights, outcome: Outcome, here: slice, starts: np.ndarray, nodes: np.ndarray,
                fell: Mapping[float, bool], least: float) -> BadNights:
    """Return the newest bad nights of a cell, those of a slowdown aside. ``here``: the places of its nights, which
    began at ``starts`` and ran on ``nodes``. ``fell``: of nights beyond its bound, whether a rerun confirmed that.
    ``least``: the share that a night within them must be low.

    Where a history judges a night, chance may explain what no rerun confirmed."""
    low = outcome.lone[here]
    if not fell and not low.any():
        return BadNights()
    is_confirmed = np.isfinite(nights.again[here])
    share_lost = -np.expm1(-low)
    is_lone = (low > 0) & is_confirmed & (share_lost >= least)
    bad = is_lone & ~outcome.usual[here]
    is_judged = outcome.state[here] != TOO_FEW
    for night, began in enumerate(starts.tolist()):
        if began in fell:
            no_chance = fell[began] or low[night] > 0 or not is_judged[night]
            bad[night] = bad[night] or no_chance
    if not bad.any():
        return BadNights()
    of_slowdown = outcome.deepest[here] > 0
    return bad_nights.newest(bad, of_slowdown, outcome.below[here], nodes)


def _beyond(frame: pl.DataFrame, cells: list[Cell]) -> dict[int, dict[float, bool]]:
    """Return for each cell, by its place, the nights whose figure is beyond its bounds on the bad side: when each
    began, and whether its reruns are beyond them, too. A night whose reruns are within them is none.

    ``frame``: rows of _up_to."""
    bad_sides = []
    for place, cell in enumerate(cells):
        if cell.reference is not None:
            least = None if cell.better == 'lower' else cell.low
            most = None if cell.better == 'higher' else cell.high
            bad_sides.append((place, least, most))
    if not bad_sides:
        return {}
    value = pl.col('value')
    schema = {'cell': frame.schema['cell'], 'least': pl.Float64, 'most': pl.Float64}
    ends = pl.DataFrame(bad_sides, schema, orient='row')
    rows = _without_others(frame).join(ends, on='cell', maintain_order='left')
    below = (value < pl.col('least')).fill_null(False)
    above = (value > pl.col('most')).fill_null(False)
    is_bad = below | above
    suspect = rows.filter(is_bad.any().over('cell', 'night'))
    runs = suspect.group_by('cell', 'night', 'again', 'least', 'most')
    medians = runs.agg(value.median()).with_columns(is_bad=is_bad)
    nights = medians.pivot('again', index=['cell', 'night'], values='is_bad')
    beyond: dict[int, dict[float, bool]] = {}
    for row in nights.iter_rows(named=True):
        first_bad, rerun_bad = row.get('false'), row.get('true')
        if first_bad and rerun_bad is not False:
            nights_beyond = beyond.setdefault(row['cell'], {})
            nights_beyond[row['night']] = bool(rerun_bad)
    return beyond


def _of_bounds_alone(cells: list[Cell], system: str, session: str) -> Iterator[Tonight]:
    """Yield tonight's judgement of cells that no history judges, as their better side is not known."""
    if not cells:
        return
    of_system = pl.col('system') == system
    has_value = pl.col('value').is_not_null()
    is_done = pl.col('status') == ''
    stored = history.rows(database.starts())
    rows = stored.filter(~pl.col('declared'), of_system, has_value, is_done)
    rows = rows.select(history.SCHEMA.keys())
    figures = history.Parts([history.Part.from_scan(rows)])
    frame = _up_to(cells, session, figures)
    beyond = _beyond(frame, cells)
    frame = _without_others(frame)
    for place, cell in enumerate(cells):
        nights = frame.filter(pl.col('cell') == place)['night']
        starts = nights.unique().sort().to_list()
        nights_beyond = beyond.get(place, {})
        bad = np.isin(starts, [*nights_beyond])
        of_no_slowdown = np.zeros_like(bad)
        unknown_depth = np.zeros(len(starts))
        no_nodes = [''] * len(starts)
        newest = bad_nights.newest(bad, of_no_slowdown, unknown_depth, no_nodes)
        unjudged = Judgement('insufficient', cell.value)
        yield Tonight(unjudged, (), {}, starts, [], newest)


def _new_references(cells: list[Cell], frame: pl.DataFrame) -> dict[int, Change]:
    """Return the newest change of the reference that a cell's check has itself, within its last MOST nights."""
    places = [place for place, cell in enumerate(cells) if cell.reference_source]
    if not places:
        return {}
    again, night, reference = pl.col('again'), pl.col('night'), pl.col('reference')
    has_own = pl.col('cell').is_in(places)
    rows = frame.filter(~again, reference.is_not_null(), has_own)
    nights = rows.unique(['cell', 'night']).sort('night')
    new_references: dict[int, Change] = {}
    for (place,), of_cell in nights.group_by('cell', maintain_order=True):
        newest = of_cell.tail(MOST)
        new = cells[place].reference
        before = newest.filter(reference != new)
        if before.is_empty():
            continue
        old = before['reference'][-1]
        after = newest.filter(night > before['night'][-1])
        since = after['night'][0]
        new_references[place] = Change(fact='reference', old=f'{old:.6g}', new=f'{new:.6g}', since=since)
    return new_references


def _groups(cells: list[Cell]) -> np.ndarray:
    """Number the cells of one check and metric alike: they share their noise."""
    names = [f'{cell.check}.{cell.metric}' for cell in cells]
    _, numbers = np.unique(names, return_inverse=True)
    return numbers


def followed(cells: list[Cell], system: str, session: str, rate: float, least: float) -> FollowedNights:
    """Return the nights of the cells up to the session. ``least``: the smallest slowdown that alarms, a share."""
    frame = _up_to(cells, session, history.parts(system, reruns=True))
    table = _table(frame, cells, system)
    rows = table.rows
    places = rows['cell'].unique(maintain_order=True)
    groups = _groups([cells[place] for place in places])
    nodes = Texts.of(rows['node'])
    event = rows['event'].to_numpy()
    outcome = levels.follow(table.nights, groups, rate, event, nodes.number)
    is_slow = outcome.deepest > 0
    share_lost = -np.expm1(-outcome.deepest)
    is_slight = is_slow & (share_lost < least)
    named_rows = rows.join(_named(cells), on='cell')
    nights = named_rows.select(*history.CELL, start='night')
    return FollowedNights(nights, outcome.state, is_slight)


def _nights_disturbed(cells: list[Cell], system: str, session: str) -> list[int]:
    """Return for each cell in how many nights in a row, up to the session, every run was disturbed.

    A night in which the cell did not run does not count; sessions of one day are one night."""
    if not cells:
        return []
    start = pl.col('start')
    disturbed = pl.col('disturbed')         # of a night: every run was
    wanted = _named(cells).lazy()
    parts = history.parts(system, labelled=True, disturbed=True).of_cases({cell.case for cell in cells})
    frame = parts.gathered(lambda part: part.join(wanted, on=history.CELL, maintain_order='left'))
    tonight = frame.filter(session=session)['start'].max()
    if tonight is not None:
        frame = frame.filter(start <= tonight)
    nights = history.nights(frame, 'cell')
    nights = nights.select('cell', 'start', 'disturbed').collect()
    calm = nights.filter(~disturbed).group_by('cell')
    last_calm = calm.agg(last=start.max())
    with_last = nights.join(last_calm, on='cell', how='left')
    long_ago = float('-inf')                # of a cell that never had a calm night
    with_last = with_last.with_columns(pl.col('last').fill_null(long_ago))
    return _days_since_last(with_last, cells)


def _nights_skipped(cells: list[Cell], system: str, session: str) -> list[int]:
    """Return for each cell how many nights in a row, up to the session, left it out; 0 where none measured it.

    A night that did not plan the cell does not count. What a person measured by hand, no night has to measure."""
    if not cells:
        return []
    nights = [night for night in database.sessions(system) if not night.rerun_of]
    tonight = next((night for night in nights if night.uuid == session), None)
    if tonight is not None:
        nights = [night for night in nights if night.start <= tonight.start]
        if tonight.selection:
            nights = [night for night in nights if night.selection]
    uuids = [night.uuid for night in nights]
    stored = history.rows(uuids).filter(system=system)
    text = dict.fromkeys(history.CELL, pl.String)
    wanted = _named(cells).cast(text).lazy()
    of_cells = stored.join(wanted, on=history.CELL)
    rows = of_cells.select('cell', 'start', 'value', 'status').collect()
    measured = rows.filter(status='').group_by('cell')
    last_measured = measured.agg(last=pl.col('start').max())
    skipped = rows.filter(status='skipped')
    with_last = skipped.join(last_measured, on='cell')
    return _days_since_last(with_last, cells)


def _days_since_last(nights: pl.DataFrame, cells: list[Cell]) -> list[int]:
    """Return on how many days each cell has nights after its ``last`` good one (cell, start, last)."""
    start, last = pl.col('start'), pl.col('last')
    since = nights.filter(start > last)
    seconds = start.cast(pl.Int64)
    day = pl.from_epoch(seconds).dt.date()
    days = since.group_by('cell').agg(day.n_unique())
    count_of = dict(days.iter_rows())
    places = range(len(cells))
    return [count_of.get(place, 0) for place in places]


def longer(system: str, session: str) -> list[str]:
    """Return a sentence for each case of the session that ran far longer than usual, the worst first.

    A case's time in a night is the median of its runs, without what its jobs waited in a queue."""
    seconds = pl.col('seconds')
    parts = history.parts(system, labelled=True)
    tonight = parts.sessions.filter(session=session)['start'].max()
    if tonight is None:
        return []
    is_past = pl.col('start') <= tonight

    def run_times(part: pl.LazyFrame) -> pl.LazyFrame:
        timed = part.filter(seconds.is_not_null(), is_past)
        runs = timed.group_by('session', 'start', *_CASE, 'run', maintain_order=True)
        return runs.agg(seconds.first())        # each figure of a run has it

    if parts.of_session(session).gathered(run_times).filter(session=session).is_empty():
        return []
    runs = parts.newest(MOST + 1, run_times)
    order = runs.unique('session').sort('start')['session']
    newest = order.tail(MOST + 1)
    recent = runs.filter(pl.col('session').is_in(newest.implode()))
    nights = recent.group_by('session', *_CASE).agg(seconds.median())
    slow = _slow_cases(nights, session)
    sentences = []
    for row in slow.head(_NAMED).iter_rows(named=True):
        case = f'{row["case"]} on {row["partition"]}+{row["environ"]}'
        nights_before = counted(row['nights'], 'night')
        ran = duration(row['seconds'])
        usually = duration(row['usual'])
        sentences.append(f'{case} ran {ran}, usual is {usually} (median of {nights_before})')
    rest = len(slow) - _NAMED
    if rest > 0:
        more = counted(rest, 'more case')
        sentences.append(f'{more} ran more than {TIMES:g} times as long as usual')
    return sentences


def _slow_cases(nights: pl.DataFrame, session: str) -> pl.DataFrame:
    """_CASE, seconds, usual and nights before, of cases that ran far longer in ``session``, the worst first.

    ``nights``: session, _CASE and seconds."""
    seconds, usual = pl.col('seconds'), pl.col('usual')
    before = nights.filter(pl.col('session') != session)
    tonight = nights.filter(pl.col('session') == session)
    usual_times = before.group_by(_CASE).agg(usual=seconds.median(), nights=pl.len())
    compared = tonight.join(usual_times, on=_CASE)
    is_enough = pl.col('nights') >= LEAST
    is_slow = (seconds > TIMES * usual) & (seconds > usual + SECONDS)
    slow = compared.filter(is_enough, is_slow)
    ratio = seconds / usual
    return slow.sort(ratio, 'case', descending=[True, False])


def _named(cells: list[Cell]) -> pl.DataFrame:
    """cell (its place among them), and its name in a history."""
    columns = {}
    for name in history.CELL:
        columns[name] = [getattr(cell, name) for cell in cells]
    schema = dict.fromkeys(history.CELL, history.TEXT)
    frame = pl.DataFrame(columns, schema)
    return frame.with_row_index('cell')


def _sign(cell: Cell) -> int:
    return 1 if cell.better == 'higher' else -1


def _table(frame: pl.DataFrame, cells: list[Cell], system: str) -> _Table:
    """Return the nights of the frame (rows of _up_to), of whose cells it has the places in ``cells``."""
    if frame['again'].any():         # a night without a run of its own is none
        only_again = pl.col('again').all().over('cell', 'night')
        frame = _without_others(frame.filter(~only_again))
    cell_of_run = frame['cell'].to_numpy().astype(np.int32)
    night_of_run = frame['night'].to_numpy()
    is_first = np.diff(cell_of_run, prepend=-1) != 0
    is_first |= np.diff(night_of_run, prepend=np.nan) != 0
    night_number = np.cumsum(is_first, dtype=np.int32) - 1
    rows = frame if is_first.all() else frame.filter(is_first)
    event, anew = events.of_nights(rows, cells, system)
    rows = rows.with_columns(event=event)
    cell_of_night = rows['cell'].to_numpy().astype(np.int32)
    is_new_cell = np.diff(cell_of_night, prepend=-1)
    begins = np.flatnonzero(is_new_cell)
    start = np.append(begins, len(rows))
    sign_of_night = rows['sign'].to_numpy()
    signs = sign_of_night[begins]
    dates = rows['night'].unique().sort()
    when = np.searchsorted(dates, rows['night'])
    values, again = frame['value'].to_numpy(), frame['again'].to_numpy()
    nights = Nights.of(start, night_number, values, again, signs, when)
    rows = rows.select('cell', 'night', 'label', 'node', 'event')
    return _Table(nights, rows, anew)


def _without_others(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out the reruns on other nodes of a night that was run again on its own: they tell only the place."""
    again = pl.col('again')
    if not frame['again'].any():
        return frame
    numbered = frame.with_row_index('row')
    reruns = numbered.filter(again)
    first_runs = frame.filter(~again)
    same_node = reruns.join(first_runs, on=['cell', 'night', 'node'], how='semi')
    other_node = reruns.join(same_node, on='row', how='anti')
    others = other_node.join(same_node, on=['cell', 'night'], how='semi')
    without = numbered.join(others, on='row', how='anti', maintain_order='left')
    return without.drop('row')


def _up_to(cells: list[Cell], session: str, parts: history.Parts) -> pl.DataFrame:
    """cell, night, label, session, again, value, node, software, reference, unit, work, sign: every figure that
    was known when the session was judged.

    ``parts``: every figure, with reruns. ``cell`` is its place among the cells. A night is a session, named by
    when it began. Reruns (again) belong to the night of the session that they confirm. No rows where the session
    has no figure."""
    start, rerun_of = pl.col('start'), pl.col('rerun_of')
    here = parts.of_session(session).gathered(_sessions)
    tonight = here.filter(session=session)['start'].max()
    if tonight is None:
        tonight = float('-inf')
    is_past = start <= tonight
    first_sessions = parts.sessions.lazy().filter(rerun_of == '')
    past_sessions = first_sessions.filter(is_past)
    nights = past_sessions.select(of='session', label='night', night='start')
    is_rerun = rerun_of == session
    again = rerun_of != ''
    signs = [_sign(cell) for cell in cells]
    sign = pl.Series('sign', signs, dtype=pl.Int8)
    wanted = _named(cells).lazy().with_columns(sign)

    def of_cells(part: pl.LazyFrame) -> pl.LazyFrame:
        past = part.filter(is_past | is_rerun)
        figures = past.select(*history.CELL, *_OF_RUN, again=again, of=history.NIGHT)
        of_wanted = figures.join(wanted, on=history.CELL, maintain_order='left')
        without_names = of_wanted.select(pl.exclude(history.CELL))
        joined = without_names.join(nights, on='of', maintain_order='left')
        return joined.rename({'of': 'session'})

    joined = parts.gathered(of_cells)       # the runs of a night, and its reruns, are in order
    return joined.sort('cell', 'night', 'again', maintain_order=True)


def _sessions(figures: pl.LazyFrame) -> pl.LazyFrame:
    """Return the sessions of figures that are no reruns."""
    first_runs = figures.filter(rerun_of='')
    return first_runs.select('session', 'night', 'start').unique('session')
