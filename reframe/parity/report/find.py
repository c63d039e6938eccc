"""The cell that a person means: its name, or any part that fits no other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain, islice

import polars as pl

from parity.base import paths
from parity.base.errors import NothingMeasured, UsageError
from parity.records import database, history
from parity.system import systems
from parity.verdict import judge
from parity.verdict.model import Cell, Verdict, names

#: The newest sessions that are judged to find a cell; before them only cells with a figure are found.
SESSIONS = 3
_APART = re.compile(r'[.@:%=+\s]+')


def cell(wanted: str, session: str = '') -> tuple[Verdict, str, Cell]:
    """Return the judged session, the cell's name and the cell: of ``session``, or the newest one that planned it.

    Raises UsageError where ``wanted`` fits several cells or none, NothingMeasured without any session."""
    seen: set[str] = set()
    for verdict in chain(_sessions(session), () if session else _older(wanted)):
        known = names(verdict.cells)
        seen |= known.keys()
        match fitting(wanted, known):
            case [name]:
                return verdict, name, known[name]
            case [_, *_] as found:
                shown = found[:20] + ([f'and {len(found) - 20} more'] if len(found) > 20 else [])
                raise UsageError(f'{wanted!r} fits {len(found)} cells; name one:\n  ' + '\n  '.join(shown))
    raise _unknown(wanted, seen)


def newest() -> dict[str, Cell]:
    """Return every cell of the newest sessions by name, as it was when it was planned last."""
    found: dict[str, Cell] = {}
    for verdict in _sessions('') if database.uuids() else ():
        found = names(verdict.cells) | found
    return found


def _sessions(session: str) -> Iterator[Verdict]:
    """Yield ``session``, or the newest ones that confirm no other, the newest first."""
    if not session and not database.uuids():
        raise NothingMeasured(f'{paths.database()}: no session is stored; run: reframe -c checks/ -r')
    nights = (uuid for uuid in reversed(database.uuids()) if not database.confirms(uuid))
    for uuid in (session,) if session else islice(nights, SESSIONS):
        yield judge.newest(uuid)


def _older(wanted: str) -> Iterator[Verdict]:
    """Yield the newest session with a figure of a cell that ``wanted`` may mean."""
    last: dict[str, tuple[float, str]] = {}
    for system in systems.names():
        frame = history.load(system).filter(pl.col('rerun_of') == '')
        for row in frame.unique(['system', *history.CELL], keep='last').iter_rows(named=True):
            for environ in (False, True):
                last[history.cell_id(row, environ)] = row['start'], row['session']
    if found := fitting(wanted, last):
        yield judge.newest(max(last[name] for name in found)[1])


def fitting(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the names that ``wanted`` may mean: that very one, else those with its words in that order, else
    those with its pieces in that order. Case and spaces do not count."""
    exact = wanted.replace(' ', '').lower()
    pieces = [p for p in _APART.split(wanted.lower()) if p]
    lower = {name: name.lower() for name in known} if pieces else {}
    pattern = re.compile('.*'.join(map(re.escape, pieces)))
    return ([n for n, low in lower.items() if low == exact]
            or [n for n, low in lower.items() if _in_order(pieces, _APART.split(low))]
            or [n for n, low in lower.items() if pattern.search(low)])


def _in_order(pieces: list[str], words: list[str]) -> bool:
    rest = iter(words)
    return all(piece in rest for piece in pieces)


def _unknown(wanted: str, known: Iterable[str]) -> UsageError:
    """Return the error that names the nearest cells, or those with a word nearly like one of ``wanted``."""
    lower = {name.lower(): name for name in sorted(known)}
    near = [lower[n] for n in get_close_matches(wanted.replace(' ', '').lower(), lower, n=3, cutoff=0.4)]
    if not near:
        words = {w for name in lower for w in _APART.split(name)}
        like = {word for piece in _APART.split(wanted.lower())
                for word in get_close_matches(piece, words, n=2, cutoff=0.7)}
        near = [name for low, name in lower.items() if like & set(_APART.split(low))][:3]
    return UsageError(f'no cell {wanted!r} in the newest sessions; '
                      + (f'the nearest: {", ".join(near)}' if near else 'parity verdict --all lists them'))
