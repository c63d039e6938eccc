"""What was read of stored sessions: files in results/cache, one a session, that can be removed at any time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from parity.base import paths


def file(kind: str, version: int, uuid: str, ending: str) -> Path:
    """Where ``kind`` of a session is kept; another ``version`` of it is another file."""
    return paths.results() / 'cache' / kind / f'v{version}' / f'{uuid}.{ending}'


def keep(place: Path, write: Callable[[Path], object]) -> None:
    """``write`` the file aside, then rename it: another parity may read at the same time."""
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f'.{place.name}.{os.getpid()}')
    write(aside)
    aside.replace(place)
