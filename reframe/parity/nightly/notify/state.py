"""The bad words of a night on a system, and the last notice about them: results/state/<system>.json."""

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
from parity.verdict.model import Cell, Verdict, rows

#: Words that somebody must hear of.
BAD = (*acks.BAD, 'missing')
#: Follows the word of a cell that is plainly worse than when it was acknowledged: it is sent again.
OUTGROWN = ' (worse than acknowledged)'
#: Stands for a whole night that stored no session, or measured nothing.
WHOLE = 'ci/nightly'
#: Stands for a cell that was told as bad and is acknowledged since.
ACKNOWLEDGED = 'acknowledged'
DAY = 86400.0
#: A cell that was not measured for so long is no longer called bad: its check may be gone.
FORGOTTEN_DAYS = 30
#: A night ends earlier or later than the one a week ago: the reminder must not slip by a day.
_EARLY_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class Night:
    """Words by name: ``bad`` ones count, ``known`` ones are acknowledged."""

    bad: dict[str, str]
    known: dict[str, str] = field(default_factory=dict)
    measured: frozenset[str] = frozenset({WHOLE})                   # names
    ran_on: dict[str, list[str]] = field(default_factory=dict)      # nodes by name
    places: dict[str, list[str]] = field(default_factory=dict)      # nodes that a bad word is about


#: A night that stored no session.
FAILED = Night({WHOLE: 'failed'})


def night_of(verdict: Verdict) -> Night:
    """Return the words of cells, named with their size, and of declared pairs.

    A cell that was skipped, or that is disturbed tonight, was not measured."""
    gone, often = {id(c) for c in verdict.retired}, {id(c) for c in judge.too_often(verdict.cells)}
    every = {f'{row.name} ({row.cell.size})': row.cell for row in rows([*verdict.cells, *verdict.retired])}
    retired = [name for name, c in every.items() if id(c) in gone]      # nobody waits for them
    cells = {name: c for name, c in every.items()
             if id(c) not in gone and (c.verdict not in ('skipped', 'disturbed') or id(c) in often)}
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
    """Return the node that is slower, where it is known; else all that the cell ran on."""
    where = cell.cause.where if cell.cause else None
    return [where.name] if where and where.kind == 'node' else cell.ran_on


class Fault(BaseModel, extra='forbid'):
    word: str
    since: float                     # Unix times: when it became so, when it was last measured so
    seen: float
    nodes: list[str] = []            # where; it is over when all were measured again, and are in order
    elsewhere: bool = False          # since then the cell was in order, but on other nodes


class State(BaseModel, extra='forbid'):
    """The words by name of cell or pair: ``bad``, and ``acknowledged`` apart; ``told``: the words last sent."""

    bad: dict[str, Fault] = {}
    acknowledged: dict[str, Fault] = {}
    told: dict[str, str] = {}
    told_at: float = 0.0

    def after(self, night: Night, now: float) -> State:
        """Return the state once ``night`` was judged, at ``now``. A fault that was not measured stays."""
        bad = _faults(night.bad, self.bad, night, now)
        known = _faults(night.known, self.acknowledged, night, now)
        # a forgotten fault is not well: nothing is known about it
        unseen = {name for faults in (self.bad, self.acknowledged) for name, fault in faults.items()
                  if _left(fault, name, night)}
        kept = bad.keys() | known.keys() | (night.measured - unseen)
        return State(bad=bad, acknowledged=known, told_at=self.told_at,
                     told={name: word for name, word in self.told.items() if name in kept})

    def news(self, now: float, reminder_seconds: float) -> Literal['', 'changed', 'well', 'reminder']:
        """Return what is to be sent: a cell is bad, or bad in another way; all is well; a reminder."""
        if any(self.told.get(name) != fault.word for name, fault in self.bad.items()):
            return 'changed'
        if not self.bad:
            return 'well' if self.told and not self.acknowledged else ''
        return 'reminder' if now - self.told_at >= reminder_seconds - _EARLY_SECONDS else ''

    def heard(self, now: float | None = None) -> State:
        """Return the state after everything was sent; ``now`` only if something was sent."""
        told = {name: fault.word for name, fault in self.bad.items()}
        told |= {name: ACKNOWLEDGED for name in self.acknowledged if name in self.told}
        return self.model_copy(update={'told': told, 'told_at': self.told_at if now is None else now})


def _faults(words: dict[str, str], before: dict[str, Fault], night: Night, now: float) -> dict[str, Fault]:
    """Return the faults after ``night``; one that was not measured again, in the same place, stays for a while."""
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
    """Return the nodes of a fault that ``night`` did not measure, although the cell was in order in it."""
    ran_on = night.ran_on.get(name)
    if not ran_on or name in night.bad or name in night.known:
        return []
    return [node for node in fault.nodes if node not in ran_on]


def path(system: str) -> Path:
    return paths.results() / 'state' / f'{system}.json'


def load(system: str) -> State:
    """Return the stored state; without a readable one an empty state, so that everything is sent again."""
    try:
        return State.model_validate_json(path(system).read_bytes())
    except (FileNotFoundError, ValidationError):
        return State()


def store(system: str, state: State) -> None:
    files.write(path(system), state.model_dump_json(indent=1) + '\n')


# ---- the text of a notice

#: Cells that are named one by one; the verdict below names the others.
_NAMED = 20
#: Nodes that are named one by one.
_NODES = 4


def text(subject: str, lines: Iterable[str], verdict: Verdict | None) -> str:
    """Return subject, an empty line, ``lines``, and the verdict as the terminal shows it."""
    shown = ['', *(line for line, _ in terminal.lines(verdict))] if verdict else []
    return '\n'.join([f'Subject: {subject}', '', *map(visible, lines), *shown, ''])


def subject(system: str, state: State, news: str) -> str:
    """Return one line of words and numbers only: nothing that a job printed is in it."""
    if news == 'well':
        return f'parity: {system}: all is well again'
    words = Counter('not measured again' if fault.elsewhere else fault.word for fault in state.bad.values())
    return (f'parity: {system}: ' + ('still ' if news == 'reminder' else '')
            + ', '.join(f'{n} {word}' for word, n in words.items()))


def changes(state: State) -> list[str]:
    """Return a line for each cell: new since the last notice, over, unchanged, acknowledged."""
    told = state.told
    new = [f'now {fault.word}: {name}' + (f' (was {told[name]})' if name in told else '')
           for name, fault in state.bad.items() if told.get(name) != fault.word]
    over = [f'over: {name} (was {word})' for name, word in told.items()
            if name not in state.bad and name not in state.acknowledged]
    still = [_still(name, fault) for name, fault in state.bad.items() if told.get(name) == fault.word]
    known = [f'acknowledged: {name} ({fault.word})' for name, fault in state.acknowledged.items()]
    return [line for group in (new, over, still, known)
            for line in group[:_NAMED] + ([f'and {len(group) - _NAMED} more'] if len(group) > _NAMED else [])]


def _still(name: str, fault: Fault) -> str:
    since, seen = (datetime.date.fromtimestamp(unix) for unix in (fault.since, fault.seen))
    if fault.elsewhere:
        said = (f'not measured again on {", ".join(fault.nodes[:_NODES])} ({fault.word} since {since}; '
                'in order on other nodes)')
    else:
        said = f'still {fault.word} since {since}'
    return f'{said}: {name}' + ('' if seen == datetime.date.today() else f', last measured {seen}')
