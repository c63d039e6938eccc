"""What was read of stored sessions: files in results/cache, one a session, that can be removed at any time."""

from __future__ import annotations

from pathlib import Path

from parity.base import paths


def file(kind: str, version: int, uuid: str, ending: str) -> Path:
    """Where ``kind`` of a session is kept; another ``version`` of it is another file."""
    return paths.results() / 'cache' / kind / f'v{version}' / f'{uuid}.{ending}'
