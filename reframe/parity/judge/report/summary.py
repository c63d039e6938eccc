"""A summary of some days: incidents, nights, nodes, node-hours, coverage, drift, and alarms that proved false."""

from __future__ import annotations

import datetime
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl

from parity.base import figures, times
from parity.base.console import Line
from parity.base.figures import counted, several
from parity.base.text import visible
from parity.judge.nodes import listing, words
from parity.judge.nodes.figures import last_by_node
from parity.judge.refs import accepted
from parity.judge.refs.accepted import Accepted
from parity.judge.report.answer import noted, slight
from parity.judge.stats import counts, interval
from parity.judge.store import database, history
from parity.judge.store.incidents import Incident, of_system
from parity.judge.store.plan_file import CELL, NAME, cell_id
from parity.judge.store.record import Session
from parity.judge.verdict import budget, judge
from parity.site import systems
from parity.site.nodes import Scheduled
from parity.site.plan import COUNTED_LABELS

#: An alarm is false where it was over so many nights later or sooner by itself ...
BY_ITSELF = 7
#: ... or where the reason of its acknowledgement begins so.
_FALSE_ALARM = re.compile(r'.*: *false\b', re.I)
#: The intervals of all cells hold together with so much confidence.
_CONFIDENCE = 0.95
#: A smaller shift is no drift that a person acts on.
_LEAST = 0.01
_DAY = 86400.0


class AlarmCounts(NamedTuple):
    """Alarms of histories and bounds; ``young``: too young to tell; ``allowed``: false ones, by the budget.
    ``single``: of one bad night, which its reruns confirmed, so that chance did not make it."""

    all: int
    false: list[Incident]
    single: list[Incident]
    young: int
    allowed: float


def of(system: str, seconds: float, scheduled: Scheduled) -> tuple[str, list[tuple[str, str]]]:
    """Return the first sentence on a system's last ``seconds``, and (label, text) for each part of the rest.
    ``scheduled``: its nodes now."""
    now = time.time()
    since = now - seconds
    every = [night for night in database.sessions(system) if not night.rerun_of]
    nights = [night for night in every if night.start >= since]
    known = of_system(system)
    new = [each for each in known if each.opened.start >= since]
    over = [each for each in known if each.closed and each.closed.start >= since]
    left = [each for each in known if not each.closed]
    days = ' to '.join(times.day(at) for at in (since, now))
    title = (f'{system}, {days}: {counted(len(nights), "session")}, {counted(len(new), "new incident")}, '
             f'{len(over)} over, {len(left)} not over.')
    return title, list(_notes(system, since, every, nights, (new, over, left), scheduled))


def _notes(system: str, since: float, every: list[Session], nights: list[Session],
           found: tuple[list[Incident], ...], scheduled: Scheduled) -> Iterator[tuple[str, str]]:
    new, over, left = found
    for label, own in (('new', new), ('over', over), ('not over', left)):
        for each in own if label == 'new' else [each for each in own if each not in new]:
            end = each.closed and f'over {times.day(each.closed.start)}' or each.ack and f'acknowledged {each.ack}'
            yield label, (f'{each.number}: {each.title} ({counted(len(each.faults), "cell")}; '
                          f'{each.since_text}{", " * bool(end)}{end})')
    if not nights:
        last = f'the last one began {times.day(every[-1].start)}' if every else 'none is stored'
        yield 'nights', f'no session in these days: {last}; is the timer running? (parity doctor)'
        return
    verdict = judge.newest(nights[-1].uuid)
    yield 'nights', _gaps(max(since + _DAY, every[0].start), nights)
    yield from (('nodes', line) for line in _nodes(system, since, scheduled))
    yield 'node-hours', _node_hours(system, since)
    yield 'coverage', '; '.join(filter(None, _coverage(nights, verdict.coverage.line)))
    if small := slight(verdict.cells):
        yield 'slightly', small
    yield 'drift', _drift(system, since, {name for each in new + left for name in each.cells})
    yield 'alarms', _alarms(system, since, every, new)
    yield 'trust', budget.sentence(verdict.budget) or 'nothing is judged yet: no false alarm is possible'


def _gaps(first: float, nights: Sequence[Session]) -> str:
    """Say how many days had a session, and which had none from ``first`` to yesterday."""
    had = {datetime.date.fromtimestamp(night.start) for night in nights}
    begin, today = datetime.date.fromtimestamp(first).toordinal(), datetime.date.today().toordinal()
    lacking = [str(day) for day in map(datetime.date.fromordinal, range(begin, today)) if day not in had]
    killed = sum(night.interrupted for night in nights)
    return (f'{counted(len(had), "day")} with a session' + (f'; none on {several(lacking)}' if lacking else '')
            + (f'; {killed} killed before the end' if killed else ''))


def _nodes(system: str, since: float, scheduled: Scheduled) -> Iterator[str]:
    """Say how many of the nodes that were ever measured were measured in these days; then what is amiss with nodes
    now: slower than their peers, drained, down, unmeasured."""
    last = last_by_node(history.load(system, reruns=True, labelled=True, disturbed=True), 'start')
    stated = systems.read(system)
    for name in systems.gone(stated, time.time()):
        last.pop(name, None)
    oldest = sorted(last.items(), key=lambda each: each[1])
    away = [f'{name} (last {times.day(at)})' for name, at in oldest if at < since]
    yield f'{len(last) - len(away)} of {len(last)} measured' + (f'; not {several(away)}' if away else '')
    _, *amiss = words.coverage(system, listing.of_system(stated, scheduled))
    yield from amiss


def _node_hours(system: str, since: float) -> str:
    """Say how long the benchmarks had nodes, by weeks that begin on Monday; reruns and nodes by turns count."""
    began = {uuid: start for uuid, start in database.starts().items() if start >= since}
    of_run = ('session', 'partition', 'environ', 'case', 'run', 'node', 'seconds')
    rows = history.rows(began).filter(pl.col('system') == system, pl.col('seconds').is_not_null())
    runs = rows.select(of_run).unique().collect()
    hours: Counter[datetime.date] = Counter()
    for session, node, seconds in runs.select('session', 'node', 'seconds').iter_rows():
        day = datetime.date.fromtimestamp(began[session])
        nodes = len(node.split(',')) if node else 1
        hours[day - datetime.timedelta(days=day.weekday())] += nodes * seconds / 3600
    weeks = [f'{figures.number(hours[monday])} in the week of {monday}' for monday in sorted(hours)]
    return ', '.join(weeks) or 'not known: no run has a time'


def _coverage(nights: Sequence[Session], newest: str) -> Iterator[str]:
    """Say which codes the newest session has, and how many planned cells were never measured in these days.

    A cell that each of these nights left out, as a cached one, does not count."""
    yield newest
    rows = history.rows(night.uuid for night in nights).filter('planned', pl.col('environ') != '')
    left_out = (pl.col('status') == 'skipped') | ~pl.col('label').cast(pl.String).is_in(COUNTED_LABELS)
    cells = rows.with_columns(left_out=left_out).group_by(CELL).agg(
        check=pl.col('check').first(), left_out=pl.col('left_out').all(),
        calm=((pl.col('status') == '') & ~pl.col('left_out')).any(),
        disturbed=((pl.col('status') == 'disturbed') & ~pl.col('left_out')).any()).collect()
    wanted = cells.filter(~pl.col('left_out'))
    disturbed = wanted.filter(~pl.col('calm'), 'disturbed')
    never = wanted.filter(~pl.col('calm'), ~pl.col('disturbed'))
    yield f'{len(wanted) - len(never)} of {counted(len(wanted), "planned cell", "were")} measured' + (
        f', {len(disturbed)} only while others used the CPUs or the clock was wrong' if len(disturbed) else '') + (
        f'; never: {several(sorted({*never["check"]}))}' if len(never) else '')


def _drift(system: str, since: float, blamed: set[str]) -> str:
    """Compare each cell's nights of these days with as many days before; ``blamed``: cells of incidents."""
    frame = history.load(system).filter(
        pl.col('value') > 0, pl.col('better') != '', pl.col('start') >= 2 * since - time.time())
    both = history.nights(frame, *CELL, 'system').group_by(*CELL, 'better', 'system', maintain_order=True).agg(
        'session', now=pl.col('start') >= since, value='runs').collect()
    compared = [row for row in both.iter_rows(named=True) if 1 < sum(row['now']) < len(row['now']) - 1]
    if not compared:
        return 'not known: no cell has two sessions in these days and two in as many days before them'
    confidence = 1 - (1 - _CONFIDENCE) / len(compared)
    moved = [found for row in compared if (found := _shift(row, confidence))
             and not {found[0], found[0].partition('+')[0]} & blamed]
    told = []
    for sign, word in ((-1, 'slower'), (1, 'faster')):
        own = sorted((each for each in moved if sign * each[1] > 0), key=lambda each: -abs(each[1]))
        named = [f'{name} {figures.change(1 + share, 1)}' for name, share in own]
        told += [f'{len(own)} {word}: {several(named)}'] if own else []
    moves = '; '.join(told) or 'none moved beyond noise'
    return (f'{counted(len(compared), "cell")} beside as many days before: {moves} '
            f'(by {figures.percent(_LEAST)} or more; all intervals hold together with {100 * _CONFIDENCE:g} %)')


def _shift(row: dict[str, Any], confidence: float) -> tuple[str, float] | None:
    """Return a cell's name and the change of its speed, a share; None where that is within its noise."""
    sides: tuple[list, list] = ([], [])
    for now, session, values in zip(row['now'], row['session'], row['value'], strict=True):
        sides[now].extend((session, value) for value in values)
    found = interval.ratio(*map(interval.sample, sides), confidence)
    if found.low is None or found.low <= 1 <= found.high or abs(found.ratio - 1) < _LEAST:
        return None
    return cell_id(row, True), (found.ratio if row['better'] == 'higher' else 1 / found.ratio) - 1


def false_alarms(known: Sequence[Incident], nights: Sequence[float], days: float, a_month: float,
                 references: Sequence[Accepted] = ()) -> AlarmCounts:
    """Sort the alarms of ``days``; ``nights``: when each night began. ``references``: those of the system.

    Only slower figures count: chance makes no program fail. False is an incident that was over after BY_ITSELF
    nights at most by itself, and one that an acknowledgement calls false. By itself: nobody acknowledged it or
    accepted a value of its cells, and nothing that can slow a machine changed as it began. One of a single bad
    night is counted apart."""
    chance = [each for each in known if {fault.word for fault in each.faults.values()} == {'regressed'}]
    said = {each.number: [each.ack, *(event.text for event in each.events if event.what == 'known')]
            for each in chance}
    called = {number for number, acks in said.items() if any(map(_FALSE_ALARM.match, acks))}
    acked = {number for number, acks in said.items() if acks[1:] or acks[0]}
    values = [((each.partition, each.check, each.metric), each.provenance.date)
              for each in references if each.provenance]

    def explained(each: Incident) -> bool:
        parts = [NAME.fullmatch(cell) for cell in each.cells]
        own = {found.group('partition', 'check', 'metric') for found in parts if found}
        begin = datetime.date.fromtimestamp(each.opened.start)
        return each.number in acked or any(change.explains for change in each.changes) or \
            any(cell in own and begin <= day for cell, day in values)

    def lasted(each: Incident) -> int:
        end = each.closed.start if each.closed else math.inf
        return sum(each.opened.start < night <= end for night in nights)

    def by_itself(each: Incident) -> bool:
        return bool(each.closed) and not each.closed.text and not explained(each) and lasted(each) <= BY_ITSELF
    single = [each for each in chance if each.number not in called and by_itself(each) and _of_one_night(each)]
    false = [each for each in chance if each.number in called or by_itself(each) and each not in single]
    young = sum(not each.closed and each.number not in acked and lasted(each) < BY_ITSELF for each in chance)
    return AlarmCounts(len(chance), false, single, young, a_month * days / budget.NIGHTS)


def _of_one_night(incident: Incident) -> bool:
    """Return whether an incident was bad on the night that opened it, and on no other."""
    last = max(fault.measured for fault in incident.faults.values())
    return not incident.returned and last <= incident.opened.start


def _alarms(system: str, since: float, every: Sequence[Session], new: Sequence[Incident]) -> str:
    days = (time.time() - since) / _DAY
    found = false_alarms(new, [night.start for night in every], days, systems.read(system).alarms.a_month,
                         accepted.of_system(system))
    if not found.all:
        return f'none; the budget allows {_rounded(found.allowed)} false ones in these days'
    count, mean = len(found.false), _rounded(found.allowed)
    chance = counts.at_least(count, found.allowed)
    named = _numbers(found.false)
    if found.single:
        named += f', {counted(len(found.single), "single night")}{_numbers(found.single)}'
    young = f', {found.young} too young to tell' if found.young else ''
    often = f'; chance alone gives so many in one of {1 / max(chance, 1e-9):,.0f} such spans' \
        if count and chance < 0.05 else ''
    return f'{count} of {found.all} proved false{named}{young}; the budget allows {mean} in these days{often}'


def _numbers(found: Sequence[Incident]) -> str:
    """Return ' (3, 7)'; '' for none."""
    return f' ({", ".join(str(each.number) for each in found)})' if found else ''


def _rounded(count: float) -> str:
    return f'{float(f"{count:.2g}"):g}'


# ---- text

def lines(found: Sequence[tuple[str, list[tuple[str, str]]]]) -> Iterator[Line]:
    """Yield the lines, a part a system."""
    for number, (title, notes) in enumerate(found):
        yield from ([''] if number else [])
        yield from ((title, 'bold'), *noted(notes))


def markdown(found: Sequence[tuple[str, list[tuple[str, str]]]]) -> str:
    """Return the same as Markdown, a heading a system."""
    def plain(text: str) -> str:
        return re.sub(r'([\\`*_{}\[\]<>#|])', r'\\\1', visible(text)).replace('\n', ' ')
    return '\n'.join(f'## {plain(title)}\n\n' + ''.join(f'- **{label}**: {plain(text)}\n' for label, text in notes)
                     for title, notes in found)
