"""Old files of cases: stage and output folders, run reports, lines of perflogs. ReFrame writes the output of a
case over that of its last run, so these folders grow with the number of cases, not of nights; with `ci/nightly
--timestamp=%F` each night has folders of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from parity.base import files, paths

#: What ReFrame puts into the folder of every case.
_OF_A_CASE = 'rfm_*.sh'


@dataclass
class Removed:
    """How many, and the bytes that they held."""

    folders: int = 0
    reports: int = 0
    lines: int = 0
    size: int = 0


def prune(before: float, dry_run: bool, recover: Callable[[], object] = lambda: None) -> Removed:
    """Remove what was last written before ``before`` (Unix time, s); with ``dry_run`` only count it.
    ``recover`` is called before lines of perflogs go: killed sessions are recovered from them. What goes before
    that makes room on a full disk."""
    done = Removed()
    for top in (paths.results() / 'stage', paths.results() / 'output'):
        for folder in list(_cases(top)):
            newest, size = _state(folder)
            if newest < before:
                done.folders, done.size = done.folders + 1, done.size + size
                if not dry_run:
                    shutil.rmtree(folder)
                    _without_empty(folder.parent, top)
    for report in (paths.results() / 'reports').glob('*.json'):
        if report.stat().st_mtime < before:
            done.reports, done.size = done.reports + 1, done.size + report.stat().st_size
            if not dry_run:
                report.unlink()
    if not dry_run:
        recover()
    for log in (paths.results() / 'perflogs').rglob('*.log*'):
        lines, size = _shorten(log, before, dry_run)
        done.lines, done.size = done.lines + lines, done.size + size
    return done


def _cases(top: Path) -> Iterator[Path]:
    """The folders of cases below ``top``; links are not followed."""
    for folder in sorted(top.iterdir()) if top.is_dir() else ():
        if folder.is_dir() and not folder.is_symlink():
            if any(folder.glob(_OF_A_CASE)):
                yield folder
            else:
                yield from _cases(folder)


def _state(folder: Path) -> tuple[float, int]:
    """When something in the folder was last written, and the bytes that it holds. Copied sources keep the time of
    the original, so the newest file decides, not the oldest."""
    found = [path.lstat() for path in (folder, *folder.rglob('*'))]
    return max(f.st_mtime for f in found), sum(f.st_size for f in found)


def _without_empty(folder: Path, top: Path) -> None:
    while folder != top and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _shorten(log: Path, before: float, dry_run: bool) -> tuple[int, int]:
    """Take out the lines of cases that ended before (their first field, parity.rfm.store.PERFLOG_COLUMNS)."""
    lines = log.read_text(errors='surrogateescape').splitlines(keepends=True)
    old = [line for line in lines if _ended(line) < before]
    if old and not dry_run:
        left = [line for line in lines if _ended(line) >= before]
        if any(_ended(line) != float('inf') for line in left):
            files.write(log, ''.join(left).encode(errors='surrogateescape'))
        else:
            log.unlink()
    return len(old), sum(len(line) for line in old)


def _ended(line: str) -> float:
    """When the case of a line ended; the header, and what is no line of ours, never did."""
    try:
        return float(line.partition('|')[0])
    except ValueError:
        return float('inf')
