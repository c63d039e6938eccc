"""The score of the trial: what parity said, and what three plain rules would have said, beside the sealed list."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dev import plain_rules
from dev.trial import noise
from dev.trial.rows import Row, Turn, number
from dev.trial.sealed import Entry
from parity.judge.stats.hindsight import fresh

#: Nights within which a fault is to be told; nights after its end in which an alarm is still its own.
WITHIN, LATE = (1, 3, 7), 3
#: An incident of a fault that ended is to be over within so many nights; of one that came and went, later.
OVER, OVER_SPELLS = 3, 17
MONTH = 30
#: Nights before a fault by which its loss is measured.
BEFORE = 10
#: The loss in an incident is right within this factor of what the figures lost.
RIGHT = 1.5
_REPORTS = ('new', 'also', 'joined', 'worse', 'back')
_EVERYTHING = ('partition', 'everything')


@dataclass
class Outcome:
    """The outcome of a fault. ``after``: nights from its first to the one that told it, from 1; 0: never.

    ``place``, ``part``, ``change``, ``size``, ``one``, ``over``: right or not; None where it does not count.
    ``lines``: the turns of its incidents, night by night."""

    entry: Entry
    after: int = 0
    place: bool | None = None
    part: bool | None = None
    change: bool | None = None
    size: bool | None = None
    one: bool | None = None
    over: bool | None = None
    cause: str = ''
    lines: list[str] = field(default_factory=list)


@dataclass
class Score:
    """A rule's faults, its false alarms and the nights that it had."""

    rule: str
    faults: list[Outcome]
    false: list[str]
    nights: int

    @property
    def false_a_month(self) -> float:
        return len(self.false) / max(self.nights / MONTH, 1e-9)

    def within(self, nights: int) -> int:
        return sum(0 < outcome.after <= nights for outcome in self.faults)


# ---- parity

def of_parity(entries: list[Entry], stored: list[Turn], rows: list[Row], folder: Path) -> Score:
    """Score what parity said."""
    nights = sum(turn.event == 'night' for turn in stored)
    turns = [turn for turn in stored if turn.event != 'night']
    explained = _explained(entries, turns, folder)
    faults = []
    for place, entry in enumerate(entries):
        if entry.first < nights:
            incidents = {number for number, at in explained.items() if at == place}
            quiet = _quiet_before(entry, entries)
            faults.append(_of_fault(entry, turns, incidents, rows, quiet, nights, folder))
    false = [f'{turn.night}: {turn.title}' for turn in turns
             if turn.event == 'new' and explained.get(turn.number) is None]
    return Score('parity', faults, false, nights)


def _explained(entries: list[Entry], turns: list[Turn], folder: Path) -> dict[int, int | None]:
    """Return for each incident the place of the fault that explains it; None of a false one.

    A fault explains an incident that began while it was in, or up to LATE nights later, if it moves most of the
    incident's cells. Of several it is the one that moves more, then the newer one."""
    explained: dict[int, int | None] = {}
    for turn in turns:
        if turn.event != 'new':
            continue
        at, cells = number(turn.night), turn.cells.split()
        best, most = None, 0.0
        for place, entry in enumerate(entries):
            if not entry.first <= at < entry.end + LATE:
                continue
            slows = re.compile(entry.fault(folder).slows)
            share = sum(bool(slows.search(cell)) for cell in cells) / len(cells) if cells else 0.5 * (
                not entry.node or entry.node in turn.names.split(', '))
            if share >= 0.5 and share >= most:
                best, most = place, share
        explained[turn.number] = best
    return explained


def _quiet_before(entry: Entry, entries: Iterable[Entry]) -> set[int]:
    """Return the nights without any fault among the BEFORE ones before a fault."""
    quiet = set(range(entry.first - BEFORE, entry.first))
    for other in entries:
        quiet -= set(other.nights)
    return quiet


def _of_fault(entry: Entry, turns: list[Turn], incidents: set[int], rows: list[Row], quiet: set[int], nights: int,
              folder: Path) -> Outcome:
    outcome, fault = Outcome(entry), entry.fault(folder)
    slows = re.compile(fault.slows)
    own = [turn for turn in turns if turn.number in incidents]
    inside = [turn for turn in turns if turn.event in _REPORTS and entry.first <= number(turn.night) < entry.end
              and any(slows.search(cell) for cell in turn.cells.split())]
    reports = [turn for turn in own if turn.event in _REPORTS] or inside
    outcome.lines = [f'{turn.night}: {turn.event}: {turn.title}' for turn in own or inside]
    outcome.cause = next((turn.title for turn in own if turn.event == 'cause'), '')
    if not reports:
        return outcome
    first = reports[0]
    outcome.after = number(first.night) - entry.first + 1
    outcome.place = any(_right_place(entry, turn, fault.slows) for turn in reports if turn.night == first.night)
    if fault.parts and not fault.fails:
        outcome.part = first.part in fault.parts or any(part in first.title for part in fault.parts)
    if fault.changed:
        outcome.change = any(fault.changed in turn.changes.lower() for turn in reports)
    if not fault.fails:
        true = _lost(entry, rows, quiet, slows)
        outcome.size = bool(true > 0 and true / RIGHT <= first.loss <= true * RIGHT)
    outcome.one = len(incidents) == 1
    limit = OVER_SPELLS if entry.spells > 1 else OVER
    if entry.end + limit <= nights:
        ends = {turn.number: number(turn.night) for turn in own if turn.event == 'over'}
        outcome.over = all(ends.get(incident, nights) < entry.end + limit for incident in incidents)
    return outcome


def _right_place(entry: Entry, turn: Turn, slows: str) -> bool:
    """Return whether the place that was named is the fault's: its node, alone or with those that it slows, too.

    Cells that are all of that node do not name it. A fault of no node is everywhere: an incident of cells on
    several nodes that names no place says so."""
    names = {name.strip() for name in turn.names.split(',')}
    if not entry.node:
        nodes = set(re.findall(r'%nid=(\w+)', turn.cells))
        return turn.place in _EVERYTHING or not turn.place and len(nodes) > 1
    return turn.place == 'node' and entry.node in names and all(name in slows for name in names)


def _lost(entry: Entry, rows: Iterable[Row], quiet: set[int], slows: re.Pattern) -> float:
    """Return the largest share of its speed that a figure lost, by the medians of the fault's nights and of the
    ``quiet`` ones before."""
    before, during = defaultdict(list), defaultdict(list)
    for row in rows:
        night = number(row.night)
        if slows.search(row.series):
            speed = row.value if row.direction == 'higher' else 1 / row.value
            if night in entry.nights:
                during[row.series].append(speed)
            elif night in quiet:
                before[row.series].append(speed)
    lost = [1 - float(np.median(during[name]) / np.median(before[name])) for name in during if before[name]]
    return max(lost, default=0.0)


# ---- plain rules

def of_rules(entries: list[Entry], rows: list[Row], folder: Path) -> Iterator[Score]:
    """Score a fixed bound of -5 %, ReFrame's own references at -5 %, and the median of three nights.

    They see the nights' own runs. They report at once a figure that a night lacks and
    the night before had."""
    own = [row for row in rows if row.kind == 'run']
    history = noise.history([Row(**{**vars(row), 'disturbed': ''}) for row in own])
    nights = 1 + max(number(row.night) for row in own)
    series = {}
    for at, name in enumerate(history.names):
        span = slice(history.nights.start[at], history.nights.start[at + 1])
        series[name] = ([number(f'{label}') for label in history.labels[span]], history.nights.value[span])
    for rule, alarms in (('fixed -5 %', {name: plain_rules.fixed(x, 0) for name, (_, x) in series.items()}),
                         ("ReFrame's references at -5 %", dict(_references(series, own))),
                         ('median of three', {name: plain_rules.three(x, 0) for name, (_, x) in series.items()})):
        found = {name: [series[name][0][at] for at in fresh(slow)] for name, slow in alarms.items()}
        days = {name: set(at) for name, (at, _) in series.items()}
        yield _scored(rule, entries, found, days, nights, folder)


def _references(series: dict[str, tuple[list[int], np.ndarray]], rows: Iterable[Row]
                ) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the nights on which a figure is 5 % below a reference that all nodes share: the median of the first
    nights of the case on all nodes."""
    group_of = {row.series: row.group + re.sub('%(nid|pair)=[^.%]*', '', row.series) for row in rows}
    first: dict[str, list[float]] = defaultdict(list)
    for name, (_, x) in series.items():
        first[group_of[name]] += x[:plain_rules.FEW].tolist()
    for name, (_, x) in series.items():
        slow = x - np.median(first[group_of[name]]) < plain_rules.DROP
        slow[:plain_rules.FEW] = False
        yield name, slow


def _scored(rule: str, entries: list[Entry], alarms: dict[str, list[int]], days: dict[str, set[int]],
            nights: int, folder: Path) -> Score:
    faults, own = [], set()
    for entry in entries:
        if entry.first >= nights:
            continue
        slows = re.compile(entry.fault(folder).slows)
        outcome = Outcome(entry)
        reports = []
        for name, at in alarms.items():
            if slows.search(name):
                own |= {(name, night) for night in range(entry.first, entry.end + LATE)}
                reports += [night for night in at if entry.first <= night < entry.end]
                absent = set(entry.nights) - days[name]
                reports += [night for night in absent if night - 1 in days[name] and night < nights]
        if reports:
            outcome.after = min(reports) - entry.first + 1
        faults.append(outcome)
    false = sorted({night for name, at in alarms.items() for night in at if (name, night) not in own})
    return Score(rule, faults, [f'night {night}' for night in false], nights)


# ---- the tables

def lines(scores: list[Score], node_hours: float) -> Iterator[str]:
    """Yield the tables: all rules, parity's first, then each fault, misses first."""
    first = scores[0]
    count = len(first.faults)
    yield f'| rule | {" | ".join(f"told within {n}" for n in WITHIN)} | false alarms a month |'
    yield '|---' * (len(WITHIN) + 2) + '|'
    for score in scores:
        counts = [f'{score.within(nights)} of {count}' for nights in WITHIN]
        yield f'| {score.rule} | {" | ".join(counts)} | {score.false_a_month:.2f} |'
    yield ''
    for name in ('place', 'part', 'change', 'size', 'one', 'over'):
        values = [getattr(outcome, name) for outcome in first.faults if getattr(outcome, name) is not None]
        yield f'{_NAMES[name]}: {sum(values)} of {len(values)}'
    yield f'{first.nights} nights, {node_hours:.1f} node-hours'
    yield ''
    yield '| fault | nights | told after | place | part | change | size | one incident | over | cause |'
    yield '|---|---|---:|---|---|---|---|---|---|---|'
    for outcome in sorted(first.faults, key=lambda outcome: (0 < outcome.after <= WITHIN[-1], -outcome.after)):
        entry = outcome.entry
        words = [_WORD[getattr(outcome, name)] for name in ('place', 'part', 'change', 'size', 'one', 'over')]
        nights = f'{entry.first} to {entry.end - 1}'
        cells = [f'{entry}', nights, f'{outcome.after or "never"}', *words, outcome.cause]
        yield f'| {" | ".join(cells)} |'
    for outcome in first.faults:
        yield from ['', f'{outcome.entry}, nights {outcome.entry.first} to {outcome.entry.end - 1}:']
        yield from [f'  {line}' for line in outcome.lines or ['nothing was said']]
    yield from ['', f'false alarms of parity: {len(first.false)}', *(f'  {line}' for line in first.false)]


_WORD = {True: 'right', False: 'wrong', None: ''}
_NAMES = {'place': 'right place', 'part': 'right part', 'change': 'what changed was named',
          'size': f'the loss within a factor of {RIGHT:g}', 'one': 'one incident', 'over': 'over in time'}
