"""The processes that a killed session left running."""

from __future__ import annotations

import os
import signal
import time

from parity.session.owner import PROC, sees_processes


def of_session(session_id: str) -> list[int]:
    """Processes whose environment says that they belong to the session."""
    mark = f'PARITY_SESSION={session_id}'.encode()
    found = []
    for entry in PROC.iterdir() if sees_processes() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / 'environ').read_bytes().split(b'\0'):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def end(session_id: str, grace_seconds: float = 3.0) -> int:
    """End every process of the session: SIGTERM, and SIGKILL after the grace. Returns their number."""
    seen: set[int] = set()
    deadline = time.monotonic() + grace_seconds
    while pids := of_session(session_id):
        for pid in pids:
            last = time.monotonic() > deadline
            if pid not in seen or last:
                _signal(pid, signal.SIGKILL if last else signal.SIGTERM)
        seen.update(pids)
        if time.monotonic() > deadline + grace_seconds:
            break
        time.sleep(0.1)
    return len(seen)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
