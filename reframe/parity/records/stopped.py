"""Why ReFrame gave up a run: told on its screen and in its log, and nowhere in its results database."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: The log is that of the last run: older sessions have lost theirs.
_SECONDS_APART = 60


def why(info: dict[str, Any]) -> str:
    """The words of ReFrame's log for the session with this ``session_info``; '' where it is not there any more."""
    for name in reversed(info.get('log_files') or []):
        file = Path(name)
        try:
            if abs(file.stat().st_mtime - info['time_end_unix']) < _SECONDS_APART:
                return _told(file.read_text(errors='replace'))
        except OSError:
            continue
    return ''


def _told(log: str) -> str:
    found = re.findall(r'ERROR: run session stopped: (.*(?:\n(?!\[\d{4}-).*)*)', log)
    lines = [re.sub(r'\x1b\[[0-9;]*m', '', line).strip() for line in (found[-1].splitlines() if found else [])]
    words = [line for line in lines if line and not re.fullmatch(r'-+ std(out|err) -+', line)]
    return '; '.join(words[:2])[:300]
