"""The end of what a job printed, harmless to a terminal."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from parity.base.text import visible

#: What is read of a file's end, the lines shown of it, and how wide one may be.
_BYTES, _LINES, _WIDTH = 1 << 16, {'rfm_job.out': 12, 'rfm_job.err': 6}, 160
#: Clocks of file servers differ.
_CLOCKS_SECONDS = 60

#: When a session began and when it ended, Unix time.
Span = tuple[float, float]


@dataclass(frozen=True)
class Output:
    """``lines`` by file; ``why``: what is to be known of it, or why there is none."""

    folder: str = ''
    lines: dict[str, list[str]] = field(default_factory=dict)
    why: str = ''


def of(folder: str, night: Span, reruns: Iterable[Span] = ()) -> Output:
    """The output in ``folder`` of a session that ran in ``night``, or of one of its ``reruns``, which says so.

    A case has one folder, which every session uses again: an output of another time is not shown.
    """
    if not folder:
        return Output()
    files = [file for name in _LINES if (file := Path(folder, name)).is_file()]
    if not files:
        return Output(folder, why='the output is not there any more')
    written = max(file.stat().st_mtime for file in files)
    at = f'{datetime.datetime.fromtimestamp(written):%Y-%m-%d %H:%M}'
    why = ''
    if not _within(written, night):
        if not any(_within(written, span) for span in reruns):
            return Output(folder, why=f'the output there is of another run ({at}): it is not shown')
        why = f'the output is of the run that confirms this one ({at})'
    return Output(folder, {file.name: shown for file in files if (shown := tail(file, _LINES[file.name]))}, why)


def _within(moment: float, span: Span) -> bool:
    return span[0] - _CLOCKS_SECONDS <= moment <= span[1] + _CLOCKS_SECONDS


def tail(file: Path, count: int) -> list[str]:
    """The last ``count`` lines that are not empty, made visible, cut to the width of a page."""
    try:
        with open(file, 'rb') as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _BYTES))
            text = opened.read(_BYTES).decode('utf-8', errors='replace')
    except OSError as err:
        return [f'{file.name}: {err.strerror}']
    lines = [line.expandtabs() for raw in visible(text).split('\n') if (line := raw.rstrip())]
    return [line if len(line) <= _WIDTH else line[:_WIDTH - 1] + '…' for line in lines[-count:]]
