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
from parity.judge.report import hours
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


class _Span(NamedTuple):
    """Everything of a system's last days that the parts of a summary read."""

    system: str
    since: float
    sessions: list[Session]          # all that are stored
    nights: list[Session]            # those of these days
    new: list[Incident]
    over: list[Incident]
    left: list[Incident]             # not over


def of(system: str, seconds: float, scheduled: Scheduled) -> tuple[str, list[tuple[str, str]]]:
    """Return the first sentence on a system's last ``seconds``, and (label, text) for each part of the rest.
    ``scheduled``: its nodes now."""
    now = time.time()
    since = now - seconds
    sessions = [session for session in database.sessions(system) if not session.rerun_of]
    nights = [session for session in sessions if session.start >= since]
    new, over, left = [], [], []
    for incident in of_system(system):
        if incident.opened.start >= since:
            new.append(incident)
        if not incident.closed:
            left.append(incident)
        elif incident.closed.start >= since:
            over.append(incident)
    days = f'{times.day(since)} to {times.day(now)}'
    counts = f'{counted(len(nights), "session")}, {counted(len(new), "new incident")}'
    title = f'{system}, {days}: {counts}, {len(over)} over, {len(left)} not over.'
    span = _Span(system, since, sessions, nights, new, over, left)
    return title, list(_notes(span, scheduled))


def _notes(span: _Span, scheduled: Scheduled) -> Iterator[tuple[str, str]]:
    earlier_over = [incident for incident in span.over if incident not in span.new]
    earlier_left = [incident for incident in span.left if incident not in span.new]
    for label, incidents in (('new', span.new), ('over', earlier_over), ('not over', earlier_left)):
        for incident in incidents:
            yield label, _incident(incident)
    if not span.nights:
        yield 'nights', _no_session(span)
        return
    verdict = judge.newest(span.nights[-1].uuid)
    first = max(span.since + _DAY, span.sessions[0].start)
    yield 'nights', _gaps(first, span.nights)
    for line in _nodes(span.system, span.since, scheduled):
        yield 'nodes', line
    yield 'node-hours', _node_hours(span.system, span.since)
    for line in hours.lines(span.system, verdict.cells):
        yield 'node-hours', line
    coverage = _coverage(span.nights, verdict.coverage.line)
    yield 'coverage', '; '.join(filter(None, coverage))
    small = slight(verdict.cells)
    if small:
        yield 'slightly', small
    blamed = {name for incident in span.new + span.left for name in incident.cells}
    yield 'drift', _drift(span.system, span.since, blamed)
    yield 'alarms', _alarms(span)
    yield 'trust', budget.sentence(verdict.budget) or 'nothing is judged yet: no false alarm is possible'


def _no_session(span: _Span) -> str:
    last = 'none is stored'
    if span.sessions:
        last = f'the last one began {times.day(span.sessions[-1].start)}'
    return f'no session in these days: {last}; is the timer running? (parity doctor)'


def _incident(incident: Incident) -> str:
    cells = counted(len(incident.faults), 'cell')
    facts = f'{cells}; {incident.since_text}'
    if incident.closed:
        facts += f', over {times.day(incident.closed.start)}'
    elif incident.ack:
        facts += f', acknowledged {incident.ack}'
    return f'{incident.number}: {incident.title} ({facts})'


def _gaps(first: float, nights: Sequence[Session]) -> str:
    """Say how many days had a session, and which had none from ``first`` to yesterday."""
    had = {datetime.date.fromtimestamp(night.start) for night in nights}
    text = f'{counted(len(had), "day")} with a session'
    day = datetime.date.fromtimestamp(first)
    today = datetime.date.today()
    lacking = []
    while day < today:
        if day not in had:
            lacking.append(str(day))
        day += datetime.timedelta(days=1)
    if lacking:
        text += f'; none on {several(lacking)}'
    killed = sum(night.interrupted for night in nights)
    if killed:
        text += f'; {killed} killed before the end'
    return text


def _nodes(system: str, since: float, scheduled: Scheduled) -> Iterator[str]:
    """Say how many of the nodes that were ever measured were measured in these days; then what is amiss with nodes
    now: slower than their peers, drained, down, unmeasured."""
    rows = history.load(system, reruns=True, labelled=True, disturbed=True)
    last = last_by_node(rows, 'start')
    stated = systems.read(system)
    for name in systems.gone(stated, time.time()):
        last.pop(name, None)
    away = []
    for name in sorted(last, key=last.get):
        if last[name] < since:
            away.append(f'{name} (last {times.day(last[name])})')
    text = f'{len(last) - len(away)} of {len(last)} measured'
    if away:
        text += f'; not {several(away)}'
    yield text
    nodes = listing.of_system(stated, scheduled)
    _, *amiss = words.coverage(system, nodes)
    yield from amiss


def _node_hours(system: str, since: float) -> str:
    """Say how long the benchmarks had nodes, by weeks that begin on Monday; reruns and nodes by turns count."""
    began = {uuid: start for uuid, start in database.starts().items() if start >= since}
    timed = history.rows(began).filter(pl.col('system') == system, pl.col('seconds').is_not_null())
    of_run = ('session', 'partition', 'environ', 'case', 'run', 'node', 'seconds')
    runs = timed.select(of_run).unique().collect()
    weekly: Counter[datetime.date] = Counter()
    for session, node, seconds in runs.select('session', 'node', 'seconds').iter_rows():
        day = datetime.date.fromtimestamp(began[session])
        monday = day - datetime.timedelta(days=day.weekday())
        nodes = len(node.split(',')) if node else 1
        weekly[monday] += nodes * seconds / 3600
    weeks = []
    for monday in sorted(weekly):
        hours_of_week = figures.number(weekly[monday])
        weeks.append(f'{hours_of_week} in the week of {monday}')
    return ', '.join(weeks) or 'not known: no run has a time'


def _coverage(nights: Sequence[Session], newest: str) -> Iterator[str]:
    """Say which codes the newest session has, and how many planned cells were never measured in these days.

    A cell that each of these nights left out, as a cached one, does not count."""
    yield newest
    rows = history.rows(night.uuid for night in nights).filter('planned', pl.col('environ') != '')
    status = pl.col('status')
    counts = pl.col('label').cast(pl.String).is_in(COUNTED_LABELS)
    is_left_out = (status == 'skipped') | ~counts
    left_out = pl.col('left_out')
    calm = (status == '') & ~left_out
    disturbed = (status == 'disturbed') & ~left_out
    check = pl.col('check').first()
    by_cell = rows.with_columns(left_out=is_left_out).group_by(CELL)
    summed = by_cell.agg(check=check, left_out=left_out.all(), calm=calm.any(), disturbed=disturbed.any())
    wanted = summed.collect().filter(~left_out)
    without_calm = wanted.filter(~pl.col('calm'))
    disturbed_only = without_calm.filter('disturbed')
    never = without_calm.filter(~pl.col('disturbed'))
    planned = counted(len(wanted), 'planned cell', 'were')
    text = f'{len(wanted) - len(never)} of {planned} measured'
    if len(disturbed_only):
        text += f', {len(disturbed_only)} only while others used the CPUs or the clock was wrong'
    if len(never):
        checks = sorted({*never['check']})
        text += f'; never: {several(checks)}'
    yield text


class _Shift(NamedTuple):
    cell: str
    share: float                     # the change of its speed


def _drift(system: str, since: float, blamed: set[str]) -> str:
    """Compare each cell's nights of these days with as many days before; ``blamed``: cells of incidents."""
    compared = _both_spans(system, since)
    if not compared:
        return 'not known: no cell has two sessions in these days and two in as many days before them'
    confidence = 1 - (1 - _CONFIDENCE) / len(compared)
    moved = []
    for row in compared:
        shift = _shift(row, confidence)
        if shift is None:
            continue
        without_environ, _, _ = shift.cell.partition('+')
        if shift.cell not in blamed and without_environ not in blamed:
            moved.append(shift)
    moved.sort(key=lambda shift: -abs(shift.share))
    slower = [shift for shift in moved if shift.share < 0]
    faster = [shift for shift in moved if shift.share > 0]
    parts = []
    for word, shifts in (('slower', slower), ('faster', faster)):
        if shifts:
            changes = [f'{shift.cell} {figures.change(1 + shift.share, 1)}' for shift in shifts]
            parts.append(f'{len(shifts)} {word}: {several(changes)}')
    moves = '; '.join(parts) or 'none moved beyond noise'
    count = counted(len(compared), 'cell')
    return (f'{count} beside as many days before: {moves} '
            f'(by {figures.percent(_LEAST)} or more; all intervals hold together with {100 * _CONFIDENCE:g} %)')


def _both_spans(system: str, since: float) -> list[dict[str, Any]]:
    """Return the cells with two nights and more since then, and in as many days before, each with its nights."""
    earliest = 2 * since - time.time()
    start = pl.col('start')
    is_figure = (pl.col('value') > 0) & (pl.col('better') != '')
    rows = history.load(system).filter(is_figure, start >= earliest)
    nights = history.nights(rows, *CELL, 'system')
    by_cell = nights.group_by(*CELL, 'better', 'system', maintain_order=True)
    cells = by_cell.agg('session', now=start >= since, value='runs').collect()
    compared = []
    for row in cells.iter_rows(named=True):
        now = sum(row['now'])
        before = len(row['now']) - now
        if now >= 2 and before >= 2:
            compared.append(row)
    return compared


def _shift(row: dict[str, Any], confidence: float) -> _Shift | None:
    """Return the shift of a cell's speed; None where that is within its noise."""
    before: list[tuple[str, float]] = []
    now: list[tuple[str, float]] = []
    for is_now, session, values in zip(row['now'], row['session'], row['value'], strict=True):
        side = now if is_now else before
        side.extend((session, value) for value in values)
    result = interval.ratio(interval.sample(before), interval.sample(now), confidence)
    if result.low is None or result.low <= 1 <= result.high:
        return None
    if abs(result.ratio - 1) < _LEAST:
        return None
    speed = result.ratio if row['better'] == 'higher' else 1 / result.ratio
    return _Shift(cell_id(row, True), speed - 1)


def false_alarms(incidents: Sequence[Incident], nights: Sequence[float], days: float, a_month: float,
                 references: Sequence[Accepted] = ()) -> AlarmCounts:
    """Sort the alarms of ``days``; ``nights``: when each night began. ``references``: those of the system.

    Only slower figures count: chance makes no program fail. False is an incident that was over after BY_ITSELF
    nights at most by itself, and one that an acknowledgement calls false. By itself: nobody acknowledged it or
    accepted a value of its cells, and nothing that can slow a machine changed as it began. One of a single bad
    night is counted apart."""
    false, single = [], []
    every = young = 0
    for incident in incidents:
        kinds = {fault.word for fault in incident.faults.values()}
        if kinds != {'regressed'}:
            continue
        every += 1
        life = _Life(incident, nights, references)
        if life.called_false:
            false.append(incident)
        elif life.over_by_itself and _of_one_night(incident):
            single.append(incident)
        elif life.over_by_itself:
            false.append(incident)
        if not incident.closed and not life.acknowledged and life.nights < BY_ITSELF:
            young += 1
    allowed = a_month * days / budget.NIGHTS
    return AlarmCounts(every, false, single, young, allowed)


class _Life:
    """An incident's end, and whether somebody or something explains it."""

    def __init__(self, incident: Incident, nights: Sequence[float], references: Sequence[Accepted]):
        acks = [event.text for event in incident.events if event.what == 'known']
        self.called_false = any(map(_FALSE_ALARM.match, [incident.ack, *acks]))
        self.acknowledged = bool(acks or incident.ack)
        begin = incident.opened.start
        end = incident.closed.start if incident.closed else math.inf
        self.nights = sum(begin < night <= end for night in nights)
        self.over_by_itself = False
        if incident.closed and not incident.closed.text and self.nights <= BY_ITSELF:
            changed = any(change.explains for change in incident.changes)
            explained = self.acknowledged or changed or _accepted(incident, references)
            self.over_by_itself = not explained


def _accepted(incident: Incident, references: Sequence[Accepted]) -> bool:
    """Return whether somebody accepted a value of its cells since the incident began."""
    cells = set()
    for name in incident.cells:
        if match := NAME.fullmatch(name):
            cells.add(match.group('partition', 'check', 'metric'))
    begin = datetime.date.fromtimestamp(incident.opened.start)
    for reference in references:
        cell = reference.partition, reference.check, reference.metric
        if cell in cells and reference.provenance and begin <= reference.provenance.date:
            return True
    return False


def _of_one_night(incident: Incident) -> bool:
    """Return whether an incident was bad on the night that opened it, and on no other."""
    last = max(fault.measured for fault in incident.faults.values())
    return not incident.returned and last <= incident.opened.start


def _alarms(span: _Span) -> str:
    days = (time.time() - span.since) / _DAY
    starts = [session.start for session in span.sessions]
    a_month = systems.read(span.system).alarms.a_month
    references = accepted.of_system(span.system)
    alarms = false_alarms(span.new, starts, days, a_month, references)
    allowed = _rounded(alarms.allowed)
    if not alarms.all:
        return f'none; the budget allows {allowed} false ones in these days'
    count = len(alarms.false)
    text = f'{count} of {alarms.all} proved false{_numbers(alarms.false)}'
    if alarms.single:
        single = counted(len(alarms.single), 'single night')
        text += f', {single}{_numbers(alarms.single)}'
    if alarms.young:
        text += f', {alarms.young} too young to tell'
    text += f'; the budget allows {allowed} in these days'
    chance = counts.at_least(count, alarms.allowed)
    if count and chance < 0.05:
        spans = 1 / max(chance, 1e-9)
        text += f'; chance alone gives so many in one of {spans:,.0f} such spans'
    return text


def _numbers(incidents: Sequence[Incident]) -> str:
    """Return ' (3, 7)'; '' for none."""
    numbers = ', '.join(str(incident.number) for incident in incidents)
    return f' ({numbers})' if numbers else ''


def _rounded(count: float) -> str:
    two_digits = float(f'{count:.2g}')
    return f'{two_digits:g}'


# ---- text

def lines(summaries: Sequence[tuple[str, list[tuple[str, str]]]]) -> Iterator[Line]:
    """Yield the lines, a part a system."""
    for number, (title, notes) in enumerate(summaries):
        if number:
            yield ''
        yield title, 'bold'
        yield from noted(notes)


def markdown(summaries: Sequence[tuple[str, list[tuple[str, str]]]]) -> str:
    """Return the same as Markdown, a heading a system."""
    parts = []
    for title, notes in summaries:
        part = f'## {_plain(title)}\n\n'
        for label, text in notes:
            part += f'- **{label}**: {_plain(text)}\n'
        parts.append(part)
    return '\n'.join(parts)


def _plain(text: str) -> str:
    """Return a text in which Markdown sees no mark."""
    escaped = re.sub(r'([\\`*_{}\[\]<>#|])', r'\\\1', visible(text))
    return escaped.replace('\n', ' ')
