"""Whether files are still the ones that were looked at."""

from __future__ import annotations

import os
from collections.abc import Iterable

#: Path, what it resolves to, size in bytes, time of change in ns.
Stamp = list


def stamps(files: Iterable[str]) -> list[Stamp]:
    """One stamp a file; a file that is not there has a stamp too, which its arrival changes."""
    return [_stamp(path) for path in sorted(set(files))]


def unchanged(kept: Iterable[Stamp]) -> bool:
    return all(_stamp(stamp[0]) == stamp for stamp in kept)


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return [path, '', -1, -1]
    # the real path too: update-alternatives moves a link between files that do not change
    return [path, os.path.realpath(path), status.st_size, status.st_mtime_ns]
