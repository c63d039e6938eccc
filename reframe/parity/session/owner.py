"""The process that runs a session, and whether it still runs. Hosts and containers may share a results folder. The
number of a process means something only in its own pid namespace, and until its machine is started again. A host
name is no proof: containers share names, cloned machines share machine-ids, and every kernel gives its first pid
namespace the same number."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path('/proc')
#: The pid namespace of a machine itself, not of a container on it (PROC_PID_INIT_INO of the kernel).
MACHINES_OWN = 0xEFFFFFFC


@dataclass(frozen=True)
class Owner:
    """``started`` is the boot's id and, behind a colon, the process's start in clock ticks since that boot."""

    pid: int
    started: str
    host: str
    machine_id: str
    pid_namespace: int

    @classmethod
    def of(cls, journal: dict[str, Any]) -> Owner:
        """Return the owner that a journal names. Older journals name no host: that owner cannot be asked."""
        return cls(journal['pid'], journal['started'], str(journal.get('host', '')),
                   str(journal.get('machine_id', '')), journal.get('pid_namespace', 0))

    def runs(self, began: float) -> bool | None:
        """Return True while it runs, False once it has ended, None where that cannot be known here. ``began`` is
        when its session began (Unix time, s)."""
        me = current()
        boot, ours = (owner.started.partition(':')[0] for owner in (self, me))
        if not boot or not ours:
            return None
        if boot == ours:
            return _runs(self.pid, self.started) if self.pid_namespace == me.pid_namespace else None
        # a process of this very machine, before it was started again; a session that began since is another's
        machines = {(o.host, o.machine_id, o.pid_namespace) for o in (self, me)}
        here = machines == {(me.host, me.machine_id, MACHINES_OWN)}
        return False if here and began < _booted() else None

    def __str__(self) -> str:
        namespace = f' (pid namespace {self.pid_namespace})' if self.pid_namespace not in (0, MACHINES_OWN) else ''
        return f'process {self.pid} on {self.host or "a host that its journal does not name"}{namespace}'


def current() -> Owner:
    """Return the owner that this very process is."""
    try:
        namespace = (PROC / 'self/ns/pid').stat().st_ino
    except OSError:
        namespace = 0
    return Owner(os.getpid(), start_time('self') or '', socket.gethostname(), _text('/etc/machine-id'), namespace)


def sees_processes() -> bool:
    """Return False where /proc is that of another pid namespace: its numbers are those of other processes."""
    try:
        return os.readlink(PROC / 'self') == str(os.getpid())
    except OSError:
        return False


def start_time(pid: int | str) -> str | None:
    """Return when the process started; '' for one that has ended, None for one that /proc does not show."""
    if not (stat := _text(PROC / str(pid) / 'stat')):
        return None
    fields = stat.rpartition(')')[2].split()
    boot = _text(PROC / 'sys/kernel/random/boot_id')
    return f'{boot}:{fields[19]}' if boot and fields[0] != 'Z' else ''


def _runs(pid: int, started: str) -> bool | None:
    if not sees_processes():
        return None
    if (found := start_time(pid)) is not None:
        return found == started
    try:
        os.kill(pid, 0)     # /proc may hide the processes of other users
    except PermissionError:
        return None
    except (ProcessLookupError, OverflowError):
        return False
    return None


def _booted() -> float:
    """Return the start of this machine (Unix time, s); 0 if the kernel does not say."""
    found = re.search(r'^btime (\d+)$', _text(PROC / 'stat'), re.MULTILINE)
    return float(found[1]) if found else 0.0


def _text(file: str | Path) -> str:
    try:
        return Path(file).read_text(errors='replace').strip()
    except OSError:
        return ''


def processes_of(session_id: str) -> list[int]:
    """Return the processes whose environment says that they belong to the session."""
    mark = f'PARITY_SESSION={session_id}'
    pids = [int(each.name) for each in PROC.iterdir() if each.name.isdigit()] if sees_processes() else []
    return [pid for pid in pids if pid != os.getpid() and mark in _text(PROC / str(pid) / 'environ').split('\0')]


def end_processes(session_id: str, grace_seconds: float = 3.0) -> int:
    """End every process of the session: SIGTERM, and SIGKILL after the grace. Returns their number."""
    seen: set[int] = set()
    deadline = time.monotonic() + grace_seconds
    while (pids := processes_of(session_id)) and (now := time.monotonic()) <= deadline + grace_seconds:
        for pid in pids:
            if pid not in seen or now > deadline:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if now > deadline else signal.SIGTERM)
        seen.update(pids)
        time.sleep(0.1)
    return len(seen)
