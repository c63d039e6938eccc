"""What is bad on a system, and what was last said of it: results/state/<system>.json."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from parity import acks, paths
from parity.verdict.model import Cell
from parity.verdict.names import names

#: Words that somebody must hear of.
BAD = (*acks.BAD, 'missing')
#: What stands for a cell that was told as bad and is acknowledged since.
ACKNOWLEDGED = 'acknowledged'
DAY = 86400.0
#: A cell that was not measured for so long is no longer called bad: its check may be gone.
FORGOTTEN_DAYS = 30
#: A night ends earlier or later than the one a week ago: the reminder must not slip by a day.
_EARLY_SECONDS = 6 * 3600.0


class Fault(BaseModel):
    model_config = ConfigDict(extra='forbid')

    word: str
    since: float                     # Unix times: when it became so, when it was last measured so
    seen: float


class State(BaseModel):
    """By cell, with its size: ``bad``, and ``acknowledged`` apart; ``told``: the words that were last sent."""

    model_config = ConfigDict(extra='forbid')

    bad: dict[str, Fault] = {}
    acknowledged: dict[str, Fault] = {}
    told: dict[str, str] = {}
    told_at: float = 0.0

    def after(self, cells: Iterable[Cell], now: float, more: dict[str, str] | None = None) -> State:
        """The state once ``cells`` were judged; ``more``: faults that are of no cell, with their word.

        What was bad and was not measured this time stays bad.
        """
        measured = {f'{name} ({c.size})': c for name, c in names(cells).items() if c.verdict != 'skipped'}
        words = {name: c.verdict for name, c in measured.items() if c.verdict in BAD}
        known = {name: word for name, word in words.items() if measured[name].acknowledged}
        bad = {name: word for name, word in words.items() if name not in known} | (more or {})
        bad_now = _faults(bad, self.bad, measured, now)
        known_now = _faults(known, self.acknowledged, measured, now)
        # what is forgotten is not well: of that nothing is known
        told = {n: w for n, w in self.told.items() if '@' not in n or n in (measured | bad_now | known_now)}
        return State(bad=bad_now, acknowledged=known_now, told=told, told_at=self.told_at)

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


def _faults(words: dict[str, str], before: dict[str, Fault], measured: dict[str, Cell],
            now: float) -> dict[str, Fault]:
    kept = {name: fault for name, fault in before.items()
            if name not in measured and '@' in name and now - fault.seen < FORGOTTEN_DAYS * DAY}
    for name, word in words.items():
        old = before.get(name)
        kept[name] = Fault(word=word, since=old.since if old and old.word == word else now, seen=now)
    return kept


def path(system: str) -> Path:
    return paths.results() / 'state' / f'{system}.json'


def load(system: str) -> State:
    """The stored state; an empty one where there is none, or none that can be read: then all is told again."""
    try:
        return State.model_validate_json(path(system).read_bytes())
    except (FileNotFoundError, ValidationError):
        return State()


def store(system: str, state: State) -> None:
    file = path(system)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f'.{file.name}.{os.getpid()}')
    new.write_text(state.model_dump_json(indent=1) + '\n')
    os.replace(new, file)
