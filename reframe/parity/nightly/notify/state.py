"""What a night says is bad on a system, and what was last told of that: results/state/<system>.json."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from parity.base import files, paths
from parity.base.text import visible
from parity.verdict import acks, judge, terminal
from parity.verdict.model import Cell, Verdict, names

#: Words that somebody must hear of.
BAD = (*acks.BAD, 'missing')
#: Follows the word of what is plainly worse than when it was acknowledged: it is told again.
OUTGROWN = ' (worse than acknowledged)'
#: Stands for the whole night, which stored no session, or measured nothing.
WHOLE = 'ci/nightly'


@dataclass(frozen=True)
class Night:
    """``bad``: words by name, of what counts; ``known``: of what is acknowledged; ``measured``: all names of
    which this night says how they are; ``ran_on``: on which nodes; ``places``: which of them a bad one is of."""

    bad: dict[str, str]
    known: dict[str, str] = field(default_factory=dict)
    measured: frozenset[str] = frozenset({WHOLE})
    ran_on: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)


def night_of(verdict: Verdict) -> Night:
    """Cells, with their size, and declared pairs. What was skipped, or cannot be told yet, was not measured."""
    gone, often = {id(c) for c in verdict.retired}, {id(c) for c in judge.too_often(verdict.cells)}
    every = {f'{name} ({c.size})': c for name, c in names([*verdict.cells, *verdict.retired]).items()}
    cells = {name: c for name, c in every.items()
             if id(c) not in gone and (c.verdict not in ('skipped', 'disturbed') or id(c) in often)}
    retired = [name for name, c in every.items() if id(c) in gone]      # nobody waits for them
    words = {name: c.verdict + (OUTGROWN if c.outgrown else '') for name, c in cells.items()
             if c.verdict in BAD or id(c) in often}
    known = {name: word for name, word in words.items() if cells[name].acknowledged}
    pairs = {f'{p.candidate} / {p.baseline} {p.benchmark}: {p.metric}': p.state for p in verdict.pairs
             if p.state in ('ok', 'regressed')}
    bad = {name: word for name, word in words.items() if name not in known}
    bad |= {name: word for name, word in pairs.items() if word == 'regressed'}
    if verdict.exit_code and not bad and not known:     # nothing at all was measured, or a check is broken
        bad = {WHOLE: 'missing'}
    return Night(bad, known, frozenset({WHOLE, *cells, *retired, *pairs}),
                 {name: c.ran_on for name, c in cells.items()}, {name: _place(cells[name]) for name in words})


def _place(cell: Cell) -> list[str]:
    """The node that is slower, where it is known; else all that the cell ran on."""
    where = cell.cause.where if cell.cause else None
    return [where.name] if where and where.kind == 'node' else cell.ran_on


#: A night that stored no session.
FAILED = Night({WHOLE: 'failed'})
#: What stands for a cell that was told as bad and is acknowledged since.
ACKNOWLEDGED = 'acknowledged'
DAY = 86400.0
#: A cell that was not measured for so long is no longer called bad: its check may be gone.
FORGOTTEN_DAYS = 30
#: A night ends earlier or later than the one a week ago: the reminder must not slip by a day.
_EARLY_SECONDS = 6 * 3600.0


class Fault(BaseModel, extra='forbid'):
    word: str
    since: float                     # Unix times: when it became so, when it was last measured so
    seen: float
    nodes: list[str] = []            # where; it is over when all of them were measured again, and are in order
    elsewhere: bool = False          # since then the cell was in order, but on other nodes


class State(BaseModel, extra='forbid'):
    """By name of cell or pair: ``bad``, and ``acknowledged`` apart; ``told``: the words that were last sent."""

    bad: dict[str, Fault] = {}
    acknowledged: dict[str, Fault] = {}
    told: dict[str, str] = {}
    told_at: float = 0.0

    def after(self, night: Night, now: float) -> State:
        """The state once ``night`` was judged, at ``now``. What was bad and was not measured stays bad."""
        bad = _faults(night.bad, self.bad, night, now)
        known = _faults(night.known, self.acknowledged, night, now)
        # what is forgotten is not well: of that nothing is known
        kept, over = bad.keys() | known.keys(), night.measured - self._not_again(night)
        told = {name: word for name, word in self.told.items() if name in kept | over}
        return State(bad=bad, acknowledged=known, told=told, told_at=self.told_at)

    def _not_again(self, night: Night) -> set[str]:
        """What is in order in ``night``, but was bad on nodes that were not measured in it."""
        return {name for faults in (self.bad, self.acknowledged) for name, fault in faults.items()
                if _left(fault, name, night)}

    def news(self, now: float, reminder_seconds: float) -> Literal['', 'changed', 'well', 'reminder']:
        """What is to be sent, if anything: a cell is bad, or bad in another way; all is well; a reminder."""
        if any(self.told.get(name) != fault.word for name, fault in self.bad.items()):
            return 'changed'
        if not self.bad:
            return 'well' if self.told and not self.acknowledged else ''
        return 'reminder' if now - self.told_at >= reminder_seconds - _EARLY_SECONDS else ''

    def heard(self, now: float | None = None) -> State:
        """The state when all of it has been told; ``now`` only when something was sent."""
        told = {name: fault.word for name, fault in self.bad.items()}
        told |= {name: ACKNOWLEDGED for name in self.acknowledged if name in self.told}
        return self.model_copy(update={'told': told, 'told_at': self.told_at if now is None else now})


def _faults(words: dict[str, str], before: dict[str, Fault], night: Night, now: float) -> dict[str, Fault]:
    """The faults after ``night``: what was not measured again, in the same place, stays as it was for a while."""
    kept = {}
    for name, fault in before.items():
        left = _left(fault, name, night)
        if (left or name not in night.measured) and now - fault.seen < FORGOTTEN_DAYS * DAY:
            kept[name] = fault.model_copy(update={'nodes': left, 'elsewhere': True}) if left else fault
    for name, word in words.items():
        old = before.get(name)
        nodes = {*night.places.get(name, ()), *(set(old.nodes) - set(night.ran_on.get(name, ())) if old else ())}
        kept[name] = Fault(word=word, since=old.since if old and old.word == word else now, seen=now,
                           nodes=sorted(nodes))
    return kept


def _left(fault: Fault, name: str, night: Night) -> list[str]:
    """The nodes of a fault that ``night`` did not measure, although the cell was in order in it."""
    ran_on = night.ran_on.get(name)
    if not ran_on or name in night.bad or name in night.known:
        return []
    return [node for node in fault.nodes if node not in ran_on]


def path(system: str) -> Path:
    return paths.results() / 'state' / f'{system}.json'


def load(system: str) -> State:
    """The stored state; an empty one where there is none, or none that can be read: then all is told again."""
    try:
        return State.model_validate_json(path(system).read_bytes())
    except (FileNotFoundError, ValidationError):
        return State()


def store(system: str, state: State) -> None:
    files.write(path(system), state.model_dump_json(indent=1) + '\n')


#: Cells that are named one by one; the verdict below names the others.
_NAMED = 20
#: Nodes that are named one by one.
_NODES = 4


def text(subject: str, lines: Iterable[str], verdict: Verdict | None) -> str:
    """Subject, an empty line, ``lines``, the verdict as the terminal shows it."""
    said = [f'Subject: {subject}', '', *(visible(line) for line in lines)]
    if verdict:
        said += ['', *(line for line, _ in terminal.lines(verdict))]
    return '\n'.join(said) + '\n'


def subject(system: str, state: State, news: str) -> str:
    """One line, of words and numbers only: nothing that a job printed is in it."""
    if news == 'well':
        return f'parity: {system}: all is well again'
    words = ', '.join(f'{n} {word}' for word, n in Counter(map(_word, state.bad.values())).items())
    return f'parity: {system}: ' + ('still ' if news == 'reminder' else '') + words


def changes(state: State) -> list[str]:
    """What is new since the last notice, what is over, what stays; a line a cell."""
    told = state.told
    new = [f'now {fault.word}: {name}' + (f' (was {told[name]})' if name in told else '')
           for name, fault in state.bad.items() if told.get(name) != fault.word]
    over = [f'over: {name} (was {word})' for name, word in told.items()
            if name not in state.bad and name not in state.acknowledged]
    known = [f'acknowledged: {name} ({fault.word})' for name, fault in state.acknowledged.items()]
    still = [f'{_still(fault)}: {name}' + _unseen(fault)
             for name, fault in state.bad.items() if told.get(name) == fault.word]
    return [line for group in (new, over, still, known) for line in _first(group)]


def _word(fault: Fault) -> str:
    return 'not measured again' if fault.elsewhere else fault.word


def _still(fault: Fault) -> str:
    since = f'{fault.word} since {_day(fault.since)}'
    if not fault.elsewhere:
        return f'still {since}'
    return f'not measured again on {", ".join(fault.nodes[:_NODES])} ({since}; in order on other nodes)'


def _first(lines: list[str]) -> list[str]:
    rest = len(lines) - _NAMED
    return lines[:_NAMED] + ([f'and {rest} more'] if rest > 0 else [])


def _unseen(fault: Fault) -> str:
    day = _day(fault.seen)
    return '' if day == datetime.date.today() else f', last measured {day}'


def _day(unix: float) -> datetime.date:
    return datetime.datetime.fromtimestamp(unix).date()
