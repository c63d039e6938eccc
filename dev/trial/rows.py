"""The rows that a trial stores: nights.csv has the figures, incidents.csv the answers of parity.

A night is whole once incidents.csv has its row `night`; of one that was killed, `cut` removes the rest."""

from __future__ import annotations

import csv
import datetime
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from dev.trial.site import Night
from parity.judge.store.incidents import Incident
from parity.judge.store.record import Run, Session
from parity.site.plan import PlannedCase

NIGHTS, TURNS = 'nights.csv', 'incidents.csv'
#: Of each check, the figures that are kept: the others say the same.
FIGURES = {'Stream': ('copy', 'triad'), 'Npb': ('mops_total',), 'Hpl': ('gflops',),
           'Fio': ('rate_4KiB_1', 'rate_1MiB_1'), 'Pairs': ('latency_8B', 'latency_8KiB', 'bandwidth_1MiB')}
FIRST_DAY = datetime.date(2026, 1, 1)


@dataclass(frozen=True)
class Row:
    """A figure of a run, in the form of `parity detect`; ``disturbed`` where parity does not judge it."""

    series: str
    night: str
    kind: str
    run: int
    value: float
    direction: str
    group: str
    node: str
    unit: str
    disturbed: str


@dataclass(frozen=True)
class Turn:
    """A turn of an incident in a night, or the whole night (``event`` `night`): its exit code and its cost."""

    night: str
    event: str
    number: int = 0
    title: str = ''
    place: str = ''
    names: str = ''
    part: str = ''
    loss: float = 0.0
    cells: str = ''
    changes: str = ''
    exit_code: int = 0
    node_hours: float = 0.0


def day(night: int) -> str:
    return f'{FIRST_DAY + datetime.timedelta(night)}'


def number(day: str) -> int:
    return (datetime.date.fromisoformat(day) - FIRST_DAY).days


def of_session(night: int, session: Session) -> Iterator[Row]:
    """Yield the rows of a session's runs that have figures."""
    counts: dict[str, int] = {}
    for run in session.runs:
        if run.status:
            continue
        case = short_name(run)
        at = counts[case] = counts.get(case, -1) + 1
        yield from _of_run(night, run, case, at, bool(session.rerun_of))


def short_name(case: Run | PlannedCase) -> str:
    """Return the name of a case in nights.csv: without its partition, and without spaces."""
    return case.case.replace(' ', '').replace(f'part={case.system}:{case.partition}%', '')


def _of_run(night: int, run: Run, case: str, at: int, again: bool) -> Iterator[Row]:
    for metric in FIGURES.get(run.check, ()):
        figure = run.figures.get(metric)
        if figure is None or figure.value is None:
            continue
        yield Row(series=f'{case}.{metric}', night=day(night), kind='rerun' if again else 'run', run=at,
                  value=float(f'{figure.value:.6g}'), direction=figure.better, group=f'{run.check}.{metric}',
                  node=' '.join(run.nodes), unit=figure.unit, disturbed='yes' if run.disturbed else '')


def of_incidents(night: int, incidents: Iterable[Incident], begin: float, end: float) -> Iterator[Turn]:
    """Yield the turns of incidents in a night, which lasts from ``begin`` to ``end`` (Unix times)."""
    for incident in incidents:
        for event in incident.events:
            if begin <= event.start < end:
                losses = [fault.loss for fault in incident.left.values()]
                yield Turn(night=day(night), event=event.what, number=incident.number, title=incident.title,
                           place=incident.where.kind, names=incident.where.name, part=incident.part,
                           loss=round(max(losses, default=0.0), 4), cells=' '.join(incident.cells),
                           changes='; '.join(change.what for change in incident.changes))


def of_night(night: int, measured: Night) -> Turn:
    return Turn(night=day(night), event='night', title=measured.words, exit_code=measured.exit_code,
                node_hours=round(measured.node_hours, 4))


def append(file: Path, rows: Iterable[Row] | Iterable[Turn]) -> None:
    """Append rows to a file, and have the disk hold them."""
    rows = list(rows)
    if not rows:
        return
    names = [field.name for field in fields(rows[0])]
    begins = not file.exists()
    with file.open('a', newline='') as out:
        writer = csv.DictWriter(out, names, lineterminator='\n')
        if begins:
            writer.writeheader()
        writer.writerows(map(asdict, rows))
        out.flush()
        os.fsync(out.fileno())


def nights(folder: Path) -> list[Row]:
    return [Row(**{**line, 'run': int(line['run']), 'value': float(line['value'])})
            for line in _lines(folder / NIGHTS)]


def turns(folder: Path) -> list[Turn]:
    return [Turn(**{**line, 'number': int(line['number']), 'loss': float(line['loss']),
                    'exit_code': int(line['exit_code']), 'node_hours': float(line['node_hours'])})
            for line in _lines(folder / TURNS)]


def _lines(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(newline='') as lines:
        return list(csv.DictReader(lines))


def whole(folder: Path) -> int:
    """Return how many nights are whole; they come one after another."""
    return sum(line.get('event') == 'night' and line.get('node_hours') is not None
               for line in _lines(folder / TURNS))


def cut(folder: Path) -> int:
    """Remove what a killed night left; return how many nights are whole."""
    count = whole(folder)
    for name in (NIGHTS, TURNS):
        file = folder / name
        if file.exists():
            head, *lines = file.read_text().splitlines(keepends=True)
            kept = [line for line in lines if line.endswith('\n') and _night_of(name, line) < count]
            aside = file.with_suffix('.new')
            aside.write_text(''.join([head, *kept]))
            aside.replace(file)
    return count


def _night_of(name: str, line: str) -> int:
    """Return the night of a line; one that cannot be read belongs to none."""
    try:
        words = next(csv.reader([line]))
        return number(words[1 if name == NIGHTS else 0])
    except (IndexError, ValueError):
        return 10 ** 6
