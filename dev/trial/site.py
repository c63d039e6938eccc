"""The trial's site below its folder, and all that a night asks of the product."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev import clock
from dev.trial import cluster
from parity.base.errors import INFRASTRUCTURE, REGRESSED, InfrastructureError
from parity.judge.compare import join
from parity.judge.store import database, plan_file
from parity.judge.store.incidents import Incident, of_system
from parity.judge.store.record import Session
from parity.judge.verdict import judge, nights, states
from parity.judge.verdict.model import Verdict
from parity.measure.session import current, runner
from parity.nightly import notify
from parity.nightly.run import runs
from parity.site import systems

#: A verdict imports some of these late; they must be loaded before a clock of the trial's own stands.
__all__ = ['Incident', 'Site', 'join', 'nights', 'states']

SYSTEM, DAY = 'trial', 86400.0
#: When night 0 began: 1 January 2026, 01:00 UTC. All made dates lie before the real ones.
FIRST = 1767229200.0
_SITE = """\
name: trial
descr: three nodes of ci/cluster, for the field trial (python -m dev.trial)
hostnames: ['head$']
detect: false
requires: []
# an experiment on a cause takes a few minutes at most
cause: {{node_hours: 0.04}}
environments:
  - {{name: bench, prefix: {folder}/prefix, codes: [stream, npb, hpl]}}
  - {{name: distro, codes: [fio, pingpong]}}
partitions:
  - name: physical
    scheduler: slurm
    sched_options: {{use_nodes_option: true, job_submit_timeout: 60}}
    launcher: srun
    access: [--partition=physical, --exclude=p4, --licenses=machine:1]
    time_limit: 3m
    # all jobs wait at once for the licence, and the next one starts when one ends
    max_jobs: 32
    features: [cpu, physical]
    env_vars: [[OMPI_MCA_btl_tcp_if_include, eth0]]
    extras:
      nodes: 3
      cores: 1
      memory_bytes: 1_258_291_200
      # the processor has 480 MB of L3 in common with other machines: a figure of STREAM may be of that, too
      llc_bytes: 4_194_304
      # all jobs of a session take half a minute; one of a dead node waits for ever
      max_pending_time: 2m
      nodes_share_cpus: true
      others_cpus: 0.25
      filesystems: {{scratch: $PARITY_RESULTS/scratch, local: /tmp}}
"""
_TRIAL, _CHECKS = Path(__file__).parent / 'checks', cluster.TOP / 'checks'
#: The two sessions of a night: messages between pairs; cases on one node, on each node.
PAIRS = ('-c', f'{_TRIAL}/pairs.py', '-r', '-n', '^Pairs%', '-p', '^distro$')
SINGLE = ('-c', f'{_TRIAL}/linpack.py', '-c', f'{_CHECKS}/memory/stream', '-c', f'{_CHECKS}/compute/npb',
          '-c', f'{_CHECKS}/storage/fio', '-r', '-n', '^Stream%threads=one', '-n', '^Npb%benchmark=cg',
          '-n', '^Hpl', '-n', '^Fio%access=sequential%operation=write', '--distribute=all')
#: The first words of an answer of `parity cause`.
_ANSWER = re.compile('the software: |the node: |both: |neither: |not decided: ')
#: Seconds that a session of ReFrame may take.
_LIMIT = 1800.0
#: Keys of a stored session that hold a Unix time, and those of the same times as texts.
_UNIX = frozenset({'time_start_unix', 'time_end_unix', 'job_completion_time_unix', 'job_submit_time',
                   'submitted_unix'})
_TEXTS = {'time_start': '%Y%m%dT%H%M%S%z', 'time_end': '%Y%m%dT%H%M%S%z',
          'job_completion_time': '%Y-%m-%dT%H:%M:%S%z'}


def on_system(selected: Sequence[str]) -> list[str]:
    """Return ReFrame's arguments of a session."""
    return [*selected, '--system', f'{SYSTEM}:physical']


def start(night: int) -> float:
    """Return when a night began, by the made calendar."""
    return FIRST + night * DAY


@dataclass(frozen=True)
class Night:
    """The sessions of a night, and its verdicts; None of a session that could not be stored."""

    sessions: list[Session]
    verdicts: list[Verdict | None]
    measuring: float                # seconds that ReFrame took
    judging: float                  # seconds of all else

    @property
    def exit_code(self) -> int:
        codes = [verdict.exit_code if verdict else INFRASTRUCTURE for verdict in self.verdicts]
        return REGRESSED if REGRESSED in codes else max(codes)

    @property
    def words(self) -> str:
        """Return how many cells have each word."""
        counts = Counter[str]()
        for verdict in self.verdicts:
            counts.update(verdict.counts if verdict else {'no session': 1})
        return ', '.join(f'{count} {word}' for word, count in counts.items() if count)

    @property
    def node_hours(self) -> float:
        """Return the node-hours of all jobs."""
        seconds = 0.0
        for session in self.sessions:
            for run in session.runs:
                seconds += (run.seconds or 0.0) * len(run.nodes)
        return seconds / 3600


class Site:
    """A checkout with one system, below ``folder``, and its results. One a process."""

    def __init__(self, folder: Path):
        self.folder = folder
        root = folder / 'root'
        os.environ |= {'PARITY_ROOT': str(root), 'PARITY_RESULTS': str(folder / 'results'),
                       'RFM_CONFIG_FILES': str(root / 'reframe' / 'settings.py')}
        self._kept = folder / 'results.db.kept'
        self._moved, self._measuring = 0.0, 0.0
        if not root.exists():
            self._make(root)

    def _make(self, root: Path) -> None:
        (self.folder / 'results').mkdir(parents=True, exist_ok=True)
        good = self.folder / 'programs' / 'good' / 'bin'
        if not good.is_dir():
            raise InfrastructureError(f'{good}: not there; run: dev/trial/build SOURCES {self.folder}/programs')
        shutil.copytree(good, self.folder / 'prefix' / 'bin', dirs_exist_ok=True)
        stated = root / 'systems' / SYSTEM / 'system.yaml'
        stated.parent.mkdir(parents=True)
        stated.write_text(_SITE.format(folder=self.folder))
        for name in ('checks', 'jobs', 'reframe', 'spack.yaml'):
            (root / name).symlink_to(cluster.TOP / name)

    def live(self, night: int) -> Night:
        """Measure, judge, run again and record a night."""
        began = time.monotonic()
        self._moved, self._measuring = start(night) - time.time(), 0.0
        notifier = notify.prepared(SYSTEM)
        sessions, verdicts = [], []
        for selected in (PAIRS, SINGLE):
            arguments = on_system(selected)
            session = self._measured([*arguments, *plan_file.NIGHT])
            verdict = self._judged(session)
            again = self._again(verdict, arguments)
            if again:
                verdict = self._judged(session)
            with self._tonight():
                verdict = notifier.recorded(verdict)
                notifier.judged(verdict)
            sessions += [session, *again]
            verdicts.append(verdict)
        stored = [database.read(session) for session in sessions if session]
        return Night(stored, verdicts, self._measuring, time.monotonic() - began - self._measuring)

    def _judged(self, session: str) -> Verdict | None:
        """Judge a session; None where no session was stored."""
        if not session:
            return None
        with self._tonight():
            return judge.newest(session)

    def _again(self, verdict: Verdict | None, arguments: list[str]) -> list[str]:
        """Run what is suspicious again, as ci/nightly does; return the sessions."""
        if not verdict:
            return []
        suspicious = [cell for cell in verdict.cells if cell.suspicious]
        again = runs(systems.read(SYSTEM), verdict.session.uuid, suspicious, arguments)
        return [self._measured(words) for words in again]

    def _tonight(self) -> AbstractContextManager[None]:
        """Let the clock stand at now, by the made calendar."""
        return clock.at(time.time() + self._moved)

    def cause(self, number: int) -> str:
        """Measure the cause of an incident of the night that was lived last; return the answer, or why there is
        none."""
        before = set(database.uuids())
        command = [sys.executable, '-m', 'parity.cli', 'cause', f'{number}', '--run']
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        for session in database.uuids():
            if session not in before:
                redate(session, self._moved)
        lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
        answers = [line for line in lines if _ANSWER.match(line)]
        return (answers or lines or [f'exit code {done.returncode}'])[-1]

    def _measured(self, arguments: list[str]) -> str:
        """Run ReFrame, and give what it stored the night's date. Return the session's uuid; '' where no case can
        run, and nothing was stored."""
        before = set(database.uuids())
        began = time.monotonic()
        stopped = runner.reframe(arguments, _LIMIT, shown=False)
        self._measuring += time.monotonic() - began
        new = [uuid for uuid in database.uuids() if uuid not in before]
        if stopped or len(new) > 1:
            raise InfrastructureError(f'ReFrame: {stopped or f"{len(new)} sessions at once"}; '
                                      f'see {self.folder}/results/reframe.log')
        for session in new:
            redate(session, self._moved)
        return ''.join(new)

    def incidents(self) -> list[Incident]:
        return of_system(SYSTEM)

    def save(self) -> None:
        """Keep the results of all nights so far: a night that is killed begins anew from them."""
        aside = self._kept.with_suffix('.new')
        shutil.copy2(self.folder / 'results' / 'results.db', aside)
        aside.replace(self._kept)

    def begin(self, count: int) -> bool:
        """Take the results back to the end of the last of ``count`` whole nights. Return whether they are lost.

        A session of a trial that was killed ends first."""
        in_use = current.lock_of(['--system', SYSTEM])
        while in_use.held_elsewhere():
            time.sleep(1)
        stored = self.folder / 'results' / 'results.db'
        if count and self._kept.exists():
            shutil.copy2(self._kept, stored)
            return False
        stored.unlink(missing_ok=True)
        return count > 0


def redate(session: str, moved: float) -> None:
    """Move all times of a stored session by so many seconds."""
    (text,), = database.query('SELECT json_blob FROM sessions WHERE uuid = ?', session)
    report = shifted(json.loads(text), moved)
    with database.writing() as conn:
        conn.execute('UPDATE sessions SET session_start_unix = session_start_unix + ?, session_end_unix = '
                     'session_end_unix + ?, json_blob = ? WHERE uuid = ?',
                     (moved, moved, json.dumps(report), session))
        conn.execute('UPDATE testcases SET job_completion_time_unix = job_completion_time_unix + ? '
                     'WHERE session_uuid = ?', (moved, session))


def shifted(stored: Any, moved: float) -> Any:
    """Return a part of a report whose times are moved by so many seconds."""
    if isinstance(stored, list):
        return [shifted(each, moved) for each in stored]
    if not isinstance(stored, dict):
        return stored
    parts = {}
    for key, value in stored.items():
        if key in _UNIX and isinstance(value, (int, float)):
            parts[key] = value + moved
        else:
            parts[key] = shifted(value, moved)
    for key, form in _TEXTS.items():
        unix = parts.get(f'{key}_unix')
        if parts.get(key) and isinstance(unix, (int, float)):
            parts[key] = time.strftime(form, time.localtime(unix))
    return parts
