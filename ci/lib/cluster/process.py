"""The cluster's processes. They outlive this one; their id and start time identify them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from errors import Ended
from model import STATE

#: A mark in the environment of every process that the cluster starts here: `down` finds them without a record.
MARK = f'PARITY_CLUSTER={STATE}'
#: The daemons' environment, without the caller's. `prefer` puts another Slurm first.
ENVIRON = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LANG': 'C.UTF-8', 'PARITY_CLUSTER': str(STATE)}


#: The namespaces that a node has of its own.
NODE = ('net', 'uts', 'ipc', 'mount', 'pid')


def prefer(prefix: str) -> None:
    """Take Slurm's programs from the bin and sbin of this prefix."""
    if prefix:
        ENVIRON['PATH'] = f'{prefix}/sbin:{prefix}/bin:{ENVIRON["PATH"]}'


def log(name: str) -> Path:
    return STATE / 'log' / f'{name}.log'


def spawn(name: str, argv: list[str], inner: bool = False, **more) -> int:
    """Start a daemon that outlives us. With `inner`, record its child, process 1 of a new namespace."""
    env = ENVIRON | more.pop('env', {})
    more.setdefault('stdin', subprocess.DEVNULL)
    with log(name).open('ab') as out:
        started = subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True, cwd='/', env=env, **more)
    pid = started.pid
    if inner:
        pid = wait(5, lambda: _child(started.pid) or started.poll() is not None and -1,
                   f'{name} did not start: {log(name)}')
        if pid < 0:         # it ended before it was seen
            raise Ended(4, f'{name} did not start: {_last_line(name)}')
    record = STATE / 'pids' / name
    record.write_text(f'{pid} {_started(pid)}\n')
    return pid


def alive(name: str) -> int | None:
    """Return the id of the running process of this name, or None."""
    try:
        pid, started = (STATE / 'pids' / name).read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if _started(int(pid)) == started else None


def since(name: str) -> float:
    """Return the start time of the process of this name; 0 if it was ended."""
    record = STATE / 'pids' / name
    return record.stat().st_mtime if record.exists() else 0


def end(name: str) -> None:
    """Kill a process with -9 and wait until it is gone; a namespace ends with its process 1."""
    while pid := alive(name):
        _kill([pid])
        time.sleep(0.01)
    (STATE / 'pids' / name).unlink(missing_ok=True)


def end_all() -> list[int]:
    """End every process with the mark; return those that would not end."""
    deadline = time.monotonic() + 10
    ended: set[int] = set()
    while (found := marked()) and time.monotonic() < deadline:
        ended.update(found)
        _kill(found)
        time.sleep(0.02)
    # ps lists an ended process until this machine's process 1 has read its exit code
    while any(map(_stat, ended)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def marked() -> list[int]:
    ours = os.getpid()
    return [int(entry.name) for entry in Path('/proc').iterdir()
            if entry.name.isdigit() and int(entry.name) != ours and _is_marked(entry)]


def wait(seconds: float, ready: Callable, otherwise: str, needs: str | None = None):
    """Return the answer of `ready` once it is true; fail after that time, or when the process `needs` ends."""
    deadline = time.monotonic() + seconds
    while not (answer := ready()):
        if time.monotonic() > deadline or needs and not alive(needs):
            raise Ended(4, f'{otherwise}: {_last_line(needs)}' if needs else otherwise)
        time.sleep(0.03)
    return answer


def run(*argv: str, text: str | None = None) -> str:
    """Run a command that must succeed; return its output."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, env=ENVIRON)
    if done.returncode:
        raise Ended(4, f'{" ".join(argv)}: {done.stderr.strip() or f"exit code {done.returncode}"}')
    return done.stdout


def inside(pid: int, *kinds: str) -> list[str]:
    """Return the words that run a command in the namespaces of a process."""
    return ['nsenter', '-t', str(pid), *(f'--{kind}' for kind in kinds), '--']


def new_node(kind: str, name: str) -> list[str]:
    """Return the words that start process 1 of a node of namespaces."""
    return ['unshare', *(f'--{own}' for own in NODE), '--fork', '--kill-child', '--mount-proc', '--',
            'bash', f'{STATE}/bin/node', kind, name]


def _last_line(name: str) -> str:
    lines = log(name).read_text(errors='replace').split('\n')
    return next((line for line in reversed(lines) if line.strip()), 'its log is empty')


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _stat(pid: int) -> list[str]:
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    except OSError:
        return []


def _started(pid: int) -> str | None:
    """Return a process's start in clock ticks, which with the id identifies it; None for a zombie."""
    stat = _stat(pid)
    return stat[19] if stat and stat[0] not in 'ZX' else None


def _child(pid: int) -> int | None:
    try:
        children = Path(f'/proc/{pid}/task/{pid}/children').read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def _is_marked(entry: Path) -> bool:
    try:
        return MARK.encode() in (entry / 'environ').read_bytes().split(b'\0')
    except OSError:
        return False
