"""Real runs in a copy of the checkout: starting them, waiting for them, reading what they stored."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
from pathlib import Path

from commands import parity
from conftest import TOP, shell

HPCC = shutil.which('hpcc') and shutil.which('mpirun')
QUICK = "--repeat=1 -n 'FileCopy.*(large-copy|small-write).*clients=one'"


def sessions_of(checkout) -> list[dict]:
    with sqlite3.connect(checkout / 'results' / 'results.db') as conn:
        rows = conn.execute('SELECT json_blob FROM sessions ORDER BY session_start_unix, rowid').fetchall()
    return [json.loads(blob) for blob, in rows]


def own_venv(checkout: Path) -> None:
    """Give the copy a .venv that ci/venv would leave as it is: a stamp has the place of its checkout."""
    (checkout / '.venv').unlink()
    (checkout / '.venv' / 'bin').mkdir(parents=True)
    for part in [*(TOP / '.venv').iterdir(), *(TOP / '.venv' / 'bin').iterdir()]:
        if part.name not in ('bin', 'parity-stamp'):
            (checkout / part.relative_to(TOP)).symlink_to(part)
    assert shell('. ci/lib/python; find_python && venv_stamp >.venv/parity-stamp', checkout).returncode == 0


def verdict_of(checkout) -> tuple[int, dict]:
    done = parity('verdict', '--json', PARITY_ROOT=str(checkout), PARITY_RESULTS=str(checkout / 'results'))
    return done.returncode, json.loads(done.stdout)


def one_at_a_time(ran: list[dict]) -> None:
    """No case starts before the one before it has ended."""
    times = sorted((r['job_submit_time'], r['job_completion_time_unix']) for r in ran)
    for (_, end), (start, _) in zip(times, times[1:], strict=False):
        assert start >= end


def start(line: str, checkout) -> subprocess.Popen:
    return subprocess.Popen(['bash', '-c', line], cwd=checkout, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                            # a test run from a script in the background would hand down SIGINT ignored
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


def finished(checkout) -> int:
    log = checkout / 'results' / 'perflogs' / 'local' / 'default' / 'FileCopy.log'
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def journal_of(results: Path, system: str, host: str = '') -> str:
    """Write the journal of a session of ``system``, of this host unless said otherwise; returns the session's id."""
    number = f'{os.getpid():012x}'
    plan = {'system': system, 'providers': [], 'cases': [], 'checks': [], 'problems': []}
    (results / 'running').mkdir(parents=True, exist_ok=True)
    (results / 'running' / f'{number}.json').write_text(json.dumps({
        'id': number, 'host': host or socket.gethostname(), 'pid': os.getpid(), 'time_start_unix': 1795190000.0, 'argv': ['reframe', '-r'],
        'system': system, 'session': {'id': number, 'facts': {}, 'announcement': '', 'plan': plan}}))
    return number
