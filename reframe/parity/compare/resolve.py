"""What a word on the command line means: a partition, a session, or a file with results."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from parity.base.errors import NothingMeasured, UsageError, unknown
from parity.compare import files, sessions
from parity.compare.sides import Side, newest_alike
from parity.records import database, history, kept
from parity.system import systems

#: How far the runs of a partition go back from its newest session.
DAYS = 14
_PLACE = re.compile(r'[A-Za-z0-9_-]+:[A-Za-z0-9_-]+')
_VALID = ('must be system:partition, a session (parity verdict names it), or a file with results: '
          'a report of ReFrame (.json) or a .csv')


def sides(baseline: str, candidate: str) -> tuple[Side, Side]:
    """Both sides of a comparison. Raises UsageError where a word means nothing or both are the same runs,
    NothingMeasured where there is nothing stored of one."""
    one, other = _side(baseline), _side(candidate)
    one, other = _one_place(one, other), _one_place(other, one)
    for side, against in ((one, other), (other, one)):
        if side.kind == 'partition':
            _without(side, against)
    if baseline == candidate or _runs(one) & _runs(other):
        raise UsageError(f'{baseline} and {candidate} are the same runs: nothing to compare')
    if one.name == other.name:
        one.name, other.name = baseline, candidate
    for side in (one, other):
        if left_out := newest_alike(side.cells):
            side.notes.append(f'{left_out} older runs left out: not like the newest (software, size, ranks ...)')
    return one, other


def _side(word: str) -> Side:
    if not word or '\0' in word:
        raise UsageError(f'{word!r}: {_VALID}')
    if word.endswith(('.json', '.csv')) or '/' in word or Path(word).is_file():
        return files.side(word)
    if ':' in word:
        return partition(word)
    if not re.fullmatch(r'[0-9a-fA-F-]+', word):
        raise UsageError(f'{word!r} is none of these: {_VALID}')
    session = kept.read(database.uuid(word))
    return sessions.side(f'session {session.uuid[:8]}', 'session', history.of_session(session).lazy())


def partition(word: str, until: str = '', empty: bool = False,
              metrics: frozenset[sessions.Spoken] | None = None) -> Side:
    """The runs of a partition in the sessions of the last ``DAYS`` days before its newest one, or before
    the session ``until``; of ``metrics`` only where they are given. Raises UsageError or NothingMeasured where
    there are none, unless ``empty``.

    Sessions that confirm another's figures are left out, because only slow cases are measured again.
    """
    if not _PLACE.fullmatch(word):
        raise UsageError(f'{word!r}: a partition is written system:partition')
    system, name = word.split(':')
    found = database.sessions_of(system, name, days=DAYS, until=until)
    if not found and not empty:
        raise _no_such(word)
    rows = history.rows(found).filter(pl.col('rerun_of') == '', pl.col('system') == system,
                                      pl.col('partition') == name)
    return sessions.side(word, 'partition', rows, metrics)


def _no_such(word: str) -> Exception:
    """A partition of which there is nothing: one that exists was not measured, another is a mistake."""
    valid = sorted({*database.partitions(), *(f'{s}:{p.name}' for s in systems.names()
                                              for p in systems.read(s).partitions)})
    if word in valid:
        return NothingMeasured(f'{word}: nothing of it is stored; measured are: '
                               f'{", ".join(database.partitions()) or "none"}')
    return UsageError(unknown('partition', word, valid))


def _one_place(side: Side, against: Side) -> Side:
    """A side of several partitions beside one of a single: that partition of it, where it has it."""
    if len(against.places) != 1 or len(side.places) < 2:
        return side
    wanted = against.places[0]
    if wanted not in side.places:
        raise UsageError(f'{side.name} holds several partitions ({", ".join(side.places)}), {against.name} '
                         f'another one: {wanted}; name a partition as system:partition')
    side.cells = [c for c in side.cells if c.place == wanted]
    side.notes.append(f'its runs on {wanted} only')
    return side


def _without(window: Side, against: Side) -> None:
    """A window of nights that holds the other side's runs: without them."""
    if against.kind == 'partition' or not set(against.sessions) & set(window.sessions):
        return
    before = sum(len(c.values) for c in window.cells)
    for cell in window.cells:
        cell.values = [v for v in cell.values if v.session not in against.sessions]
    if before and not any(c.values for c in window.cells):
        raise NothingMeasured(f'{window.name} holds no other runs than those of {against.name}')
    window.sessions = [s for s in window.sessions if s not in against.sessions]
    window.notes.append(f'without the runs of {against.name}')


def _runs(side: Side) -> set[tuple]:
    """The stored runs of a side; a CSV has none that could be told from others."""
    return {(c.case, c.metric, c.place, c.environ, v.session, v.when)
            for c in side.cells for v in c.values if v.session}
