"""A clock of one's own for the product's judging: time.time and datetime.date.today."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Days(type):
    """The class datetime.date with a today of its own."""

    real, now = datetime.date, 0.0

    def __instancecheck__(cls, what):
        return isinstance(what, Days.real)

    def __call__(cls, *args):
        return Days.real(*args)

    def __getattr__(cls, name):
        return getattr(Days.real, name)

    def today(cls):
        return Days.real.fromtimestamp(Days.now)


def stand() -> None:
    """Replace the clock. Whatever a verdict imports late must be loaded before."""
    time.time = lambda: Days.now
    datetime.date = Days('date', (), {})


def set_to(unix: float) -> None:
    """Set the clock that stands."""
    Days.now = unix


def now() -> float:
    """Return the time of the clock that stands."""
    return Days.now


def day(unix: float) -> datetime.date:
    """Return the local day of a time."""
    return Days.real.fromtimestamp(unix)


@contextmanager
def at(unix: float) -> Iterator[None]:
    """Let the clock stand at a time meanwhile."""
    real = time.time, datetime.date
    stand()
    set_to(unix)
    try:
        yield
    finally:
        time.time, datetime.date = real
