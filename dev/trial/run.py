"""The nights of the trial, one after another. Killed at any time, the same command goes on."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from dev.trial import cluster, faults, rows
from dev.trial.rows import Said
from dev.trial.sealed import Entry
from dev.trial.site import Site, node_hours

_CAUSE_LIMIT = 3600.0


def nights(folder: Path, count: int, entries: list[Entry], cause: bool) -> None:
    """Live through the nights that are left of ``count``. ``cause``: experiment on each new slowdown."""
    site = Site(folder)
    first = rows.cut(folder)
    site.begin(first == 0)
    _well(folder, entries)
    for night in range(first, count):
        began = time.monotonic()
        tonight = [entry.fault(folder) for entry in entries if night in entry.nights]
        with _put_in(tonight):
            verdict, sessions = site.lives(night)
            turns = list(rows.of_incidents(night, site.incidents(), sessions))
            for turn in turns if cause else ():
                if turn.event == 'new' and turn.title.endswith('slower'):
                    rows.append(folder / rows.SAID, [_cause(night, turn.number)])
        stored = [site.read(session) for session in sessions]
        for session in stored:
            again = bool(session.rerun_of)
            rows.append(folder / rows.NIGHTS, rows.of_session(night, session, again))
        rows.append(folder / rows.SAID, turns)
        site.keep()
        rows.append(folder / rows.SAID, [rows.of_night(night, verdict, node_hours(stored))])
        words = f'{len(stored) - 2} reruns, ' if len(stored) > 2 else ''
        print(f'night {night} of {count}, {rows.day(night)}: exit code {verdict.exit_code}, {words}'
              f'{time.monotonic() - began:.0f} s', flush=True)


@contextlib.contextmanager
def _put_in(tonight: Iterable[faults.Fault]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for fault in tonight:
            stack.callback(fault.take_out)
            fault.put_in()
        yield


def _well(folder: Path, entries: Iterable[Entry]) -> None:
    """Mend the cluster, and take out what a killed night left in."""
    cluster.demand_up()
    faults.HugePages(folder).take_out()
    for entry in entries:
        entry.fault(folder).take_out()
    cluster.demand_up()


def _cause(night: int, number: int) -> Said:
    """Ask `parity cause` for the cause of an incident, while its fault is in."""
    command = [sys.executable, '-m', 'parity.cli', 'cause', f'{number}', '--run']
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CAUSE_LIMIT,
                              stdin=subprocess.DEVNULL)
        text = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    except subprocess.TimeoutExpired:
        text = [f'no answer in {_CAUSE_LIMIT:g} s']
    answer = next((line for line in text if re.match('the (software|node)|both|neither|not decided', line)), '')
    return Said(night=rows.day(night), event='cause', number=number, title=answer or ' '.join(text[-1:]))
