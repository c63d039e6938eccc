"""Clocks that were wrong: what was stored later is the later session, whatever its clock said."""

from __future__ import annotations

import datetime
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity.records.record import Session

#: Seconds by which the clocks of two machines may differ before anybody is told.
TOLERANCE = 600.0
#: Seconds between a session whose clock was wrong and the one that was stored before it.
_STEP = 1e-3


def in_order(began: Sequence[float]) -> list[float]:
    """When each session began, oldest first, from what the clocks said in the order in which they were stored. As
    many clocks as possible are believed; a session whose clock was wrong stands right after the one before it."""
    right = _ascending(began)
    first = min(right, default=0)
    found: list[float] = []
    for i, said in enumerate(began):
        found.append(said if i in right else found[-1] + _STEP if found else began[first] - (first - i) * _STEP)
    return found


def _ascending(values: Sequence[float]) -> set[int]:
    """The places of a longest sequence of values that never falls."""
    last: list[float] = []           # of the sequences of each length, the smallest last value
    place: list[int] = []
    before: list[int] = []
    for i, value in enumerate(values):
        length = bisect_right(last, value)
        before.append(place[length - 1] if length else -1)
        last[length:length + 1], place[length:length + 1] = [value], [i]
    found, i = set(), place[-1] if place else -1
    while i >= 0:
        found.add(i)
        i = before[i]
    return found


def warnings(session: Session, stored: Sequence[tuple[str, float]], written: float) -> list[str]:
    """What the session, and those ``stored`` before it, show of wrong clocks. ``stored``: uuid and start (Unix
    time) as the clock said, in the order of storing. ``written``: when the database was written last."""
    said = []
    if session.start > min(time.time(), written) + TOLERANCE:
        said.append(f'this session began on {_day(session.start)} by its clock, which lies in the future: '
                    'correct the clock of the machine that stored it')
    uuids = [uuid for uuid, _ in stored]
    # a session that was killed is stored later, when it is recovered
    until = uuids.index(session.uuid) if session.uuid in uuids and not session.interrupted else 0
    ahead = [(uuid, began) for uuid, began in stored[:until] if began > session.end + TOLERANCE]
    if ahead:
        uuid, began = ahead[-1]
        said.append(f'session {uuid[:8]} began on {_day(began)} by its clock, later than this one, and was stored '
                    f'before it: sessions stand in the order in which they were stored'
                    + (f' ({len(ahead)} such sessions)' if len(ahead) > 1 else ''))
    return said


def _day(unix: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(unix).strftime('%Y-%m-%d %H:%M')
    except (OverflowError, ValueError, OSError):
        return f'{unix:g}'
