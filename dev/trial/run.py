"""The nights of the trial, one after another. Killed at any time, the same command goes on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from dev.trial import cluster, faults, restored, rows
from dev.trial.rows import Turn
from dev.trial.sealed import Entry
from dev.trial.site import Site, start


def nights(folder: Path, count: int, entries: list[Entry], cause: bool) -> None:
    """Live through the nights that are left of ``count``. ``cause``: experiment on each new slowdown."""
    site = Site(folder)
    first = rows.cut(folder)
    are_lost = site.begin(first)
    with huge_pages(folder):
        _well(folder, entries)
        if are_lost:
            restored.rebuild(site, first)
        _nights(site, entries, range(first, count), cause)


def _nights(site: Site, entries: list[Entry], numbers: range, cause: bool) -> None:
    folder = site.folder
    for night in numbers:
        began = time.monotonic()
        tonight = [entry.fault(folder) for entry in entries if night in entry.nights]
        with _put_in(tonight):
            measured = site.live(night)
            turns = list(rows.of_incidents(night, site.incidents(), start(night), start(night + 1)))
            for turn in list(turns) if cause else ():
                if turn.event == 'new' and turn.title.endswith('slower'):
                    answer = site.cause(turn.number)
                    turns.append(Turn(night=rows.day(night), event='cause', number=turn.number, title=answer))
        for session in measured.sessions:
            rows.append(folder / rows.NIGHTS, rows.of_session(night, session))
        rows.append(folder / rows.TURNS, turns)
        site.save()
        rows.append(folder / rows.TURNS, [rows.of_night(night, measured)])
        print(f'night {night} of {numbers.stop}, {rows.day(night)}: exit code {measured.exit_code}, '
              f'{len(measured.sessions)} sessions, {time.monotonic() - began:.1f} s: ReFrame '
              f'{measured.measuring:.1f}, judging {measured.judging:.1f}', flush=True)


@contextlib.contextmanager
def _put_in(tonight: Iterable[faults.Fault]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for fault in tonight:
            stack.callback(fault.take_out)
            fault.put_in()
        yield


@contextlib.contextmanager
def huge_pages(folder: Path) -> Iterator[None]:
    """Let this machine have huge pages as the trial wants them, and then as before."""
    before = faults.huge_pages()
    faults.HugePages(folder).take_out()
    try:
        yield
    finally:
        faults.set_huge_pages(before)


def _well(folder: Path, entries: Iterable[Entry]) -> None:
    """Mend the cluster, and take out what a killed night left in."""
    cluster.demand_up()
    for entry in entries:
        entry.fault(folder).take_out()
    cluster.demand_up()
