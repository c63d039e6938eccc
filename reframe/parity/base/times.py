"""Times in files that people edit: 30m, 8h, 1d12h; and times as people read them."""

from __future__ import annotations

import datetime
import re
from typing import Annotated

from pydantic import AfterValidator

_TIME = re.compile(r'(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?')
_SECONDS = (86400, 3600, 60, 1)


def seconds(time: str) -> int:
    """Return the time in seconds. ValueError for text that is no time, and for 0."""
    match = _TIME.fullmatch(time)
    total = 0
    if match:
        for amount, unit in zip(match.groups(), _SECONDS, strict=True):
            total += int(amount or 0) * unit
    if not total:
        raise ValueError(f'{time!r} must be a time, such as 30m, 8h or 1d12h')
    return total


#: A time in a file that people edit.
Time = Annotated[str, AfterValidator(lambda time: seconds(time) and time)]


def minute(unix: float) -> str:
    """Return the local date and time, to the minute."""
    return f'{datetime.datetime.fromtimestamp(unix):%Y-%m-%d %H:%M}'


def day(unix: float) -> str:
    return minute(unix)[:10]
