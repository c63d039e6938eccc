"""All systems of one or of several results folders: a row each, with the answer of its last night."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from parity.base import errors, files, paths, times
from parity.base.console import Line
from parity.base.errors import NothingMeasured, ParityError, UsageError
from parity.base.figures import counted, duration, several
from parity.base.text import columns, visible
from parity.judge import report
from parity.judge.nodes import listing
from parity.judge.report import answer, curves
from parity.judge.report.answer import Answered
from parity.judge.report.curves import Curve, Scale
from parity.judge.report.export import measured
from parity.judge.report.templates import template
from parity.judge.store import database, history
from parity.judge.store.plan_file import CELL
from parity.judge.verdict import judge
from parity.judge.verdict.model import WORDS, Verdict
from parity.site import systems
from parity.site.nodes import Scheduled

#: Lines on what is slower on one system only.
_ALONE = 3
#: Nights of a curve, and nights that a cell needs for a part in it.
NIGHTS, FEWEST = 60, 3
#: The scale of the curves goes this far up and down at least: noise must not look like a slowdown.
LEAST = 0.05
#: Steps up of a curve's drawing.
_HEIGHT = 100
#: A check's word in the table of coverage is the worst of its cells: the first of these that one has.
_WORST = [word for word in WORDS if word != 'skipped'] + ['skipped']


class PartSpeed(NamedTuple):
    """The speed of a part of the machine by nights, as a share of its usual one. ``change``: of the last night."""

    name: str
    change: float
    curve: Curve


class SystemRow(NamedTuple):
    """The answer of a system's last night. ``results``: the folder that has it.

    ``age``: seconds, None where nothing is stored. ``stale``: it is too old. ``words``: verdicts by case, metric
    and software. ``alone``: what is slower here, and as before on others with the same software.
    ``page``: the address of its own page."""

    system: str
    results: str
    sentence: str
    code: int
    began: str = ''
    age: float | None = None
    stale: bool = False
    incidents: Sequence[str] = ()
    nodes: str = ''
    parts: Sequence[PartSpeed] = ()
    checks: dict[str, str] = {}
    words: dict[tuple[str, str, str], str] = {}
    alone: Sequence[str] = ()
    page: str = ''

    @property
    def age_text(self) -> str:
        return '' if self.age is None else duration(self.age)


class _Night(NamedTuple):
    """A system's last night: its verdict, and the same with its answer."""

    verdict: Verdict
    answered: Answered


#: Tells the nodes of a system now.
Scheduler = Callable[[systems.System], Scheduled]


def rows(folders: Sequence[Path], oldest: float, scheduled: Scheduler, pages: Path | None = None
         ) -> list[SystemRow]:
    """Return a row for each system of these results folders, of this site's for none; the worst first.

    ``oldest``: seconds from which on a night is stale. ``pages``: the folder to write each system's own page to.
    UsageError for a folder without results, NothingMeasured where no system has a session."""
    found: list[SystemRow] = []
    for folder in folders or [paths.results()]:
        with paths.of_results(folder):
            if folders and not paths.database().is_file():
                raise UsageError(f'{folder}: no results.db is here; name a results folder of parity')
            for row, night in _of_folder(folder, oldest, scheduled):
                if pages and night:
                    number = sum(other.system == row.system for other in found)
                    row = row._replace(page=f'systems/{row.system}{f"-{number + 1}" if number else ""}/index.html')
                    report.of_session(night.verdict, (pages / row.page).parent, night.answered)
                found.append(row)
    if all(row.age is None and not row.code for row in found):
        names = ', '.join(map(str, folders)) or paths.database()
        raise NothingMeasured(f'{names}: no session of any system is stored; run: {paths.nightly()}')
    found = [row._replace(alone=list(_alone(row, found))) for row in found]
    return sorted(found, key=lambda row: (errors.PRECEDENCE.index(row.code), row.age is None, row.system))


def _of_folder(folder: Path, oldest: float, scheduled: Scheduler) -> Iterator[tuple[SystemRow, _Night | None]]:
    """Yield a row for each system that the site of a results folder describes, and its last night.

    A system that cannot be judged has the reason in its row: the others are judged all the same."""
    try:
        stored = measured()
    except ParityError as err:
        for name in _expected(folder):
            yield SystemRow(name, str(folder), str(err).splitlines()[0], err.exit_code), None
        return
    for name in systems.names():
        try:
            if name in stored:
                verdict = judge.newest(system=name)
                night = _Night(verdict, answer.answered(verdict))
                yield _row(name, folder, night, oldest, scheduled), night
            elif not systems.read(name).detect:
                yield SystemRow(name, str(folder), 'no session is stored', errors.OK), None
        except ParityError as err:
            yield SystemRow(name, str(folder), str(err).splitlines()[0], err.exit_code), None


def _expected(folder: Path) -> list[str]:
    """Return the systems that a results folder is of, by its site; the folder's name where it lies in none."""
    if folder != paths.results() and not (folder.absolute().parent / 'systems').is_dir():
        return [folder.name]
    expected = []
    for name in systems.names():
        try:
            is_any_machine = systems.read(name).detect
        except ParityError:
            is_any_machine = False
        if not is_any_machine:
            expected.append(name)
    return expected or [folder.name]


def _row(name: str, folder: Path, night: _Night, oldest: float, scheduled: Scheduler) -> SystemRow:
    verdict = night.verdict
    last = database.newest(name)
    aged = judge.not_older(verdict, oldest, duration(oldest))
    is_stale = aged is not verdict
    still_open = [incident for incident in verdict.incidents if not incident.closed]
    return SystemRow(
        system=name,
        results=str(folder),
        sentence=night.answered.answer.sentence,
        code=aged.exit_code,
        began=times.minute(last.start),
        age=time.time() - last.end,
        stale=is_stale,
        incidents=[f'{incident.number}: {incident.title}' for incident in still_open],
        nodes=_nodes(name, scheduled),
        parts=list(_parts(name)),
        checks=_checks(verdict),
        words=_words(name, verdict))


def _nodes(name: str, scheduled: Scheduler) -> str:
    """Say how many nodes there are, and how many are slow, out of service or never measured."""
    system = systems.read(name)
    now = scheduled(system)
    nodes = listing.of_system(system, now)
    words = []
    for count, word in ((sum(bool(node.slower) for node in nodes), 'slow'),
                        (sum(bool(node.out) for node in nodes), 'out of service'),
                        (sum(node.measured is None for node in nodes), 'never measured')):
        if count:
            words.append(f'{count} {word}')
    if now.unknown:
        words.append('their states unknown')
    return ', '.join([counted(len(nodes), 'node'), *words])


def _checks(verdict: Verdict) -> dict[str, str]:
    """Return the worst word of each check's cells."""
    words: dict[str, set[str]] = {}
    for cell in verdict.cells:
        words.setdefault(cell.check, set()).add(cell.verdict)
    return {check: next(word for word in _WORST if word in words[check]) for check in sorted(words)}


def _words(name: str, verdict: Verdict) -> dict[tuple[str, str, str], str]:
    """Return the verdicts of the cells by case, metric and the identity of the software that ran."""
    frame = history.load(name).filter(pl.col('session') == verdict.session.uuid)
    ran = frame.select(*CELL, 'software').cast(pl.String).unique()
    software = {tuple(cell): identity for *cell, identity in ran.iter_rows()}
    words = {}
    for cell in verdict.cells:
        identity = software.get(tuple(getattr(cell, key) for key in CELL))
        if identity:
            words[cell.case, cell.metric, identity] = cell.verdict
    return words


def _alone(row: SystemRow, found: Sequence[SystemRow]) -> Iterator[str]:
    """Yield what is slower on this system, and as it was on others with the same software."""
    for key, word in row.words.items():
        sound = [other.system for other in found if other is not row and other.words.get(key) == 'ok']
        if word == 'regressed' and sound:
            case, metric, _ = key
            yield f'{case}: {metric}: slower here only; with the same software as before on {several(sound)}'


# ---- the speed of the parts

def _parts(name: str) -> Iterator[PartSpeed]:
    """Yield the speed of each part of a system in its last nights, each cell beside its own median."""
    every_night = history.nights(history.load(name), *CELL, 'subsystem')
    nights = every_night.filter(pl.col('better') != '', pl.col('value') > 0).collect()
    order = nights.unique('session').sort('start')['session'].tail(NIGHTS).to_list()
    newest = nights.filter(pl.col('session').is_in(order))
    place = {session: number for number, session in enumerate(order)}
    speeds: dict[str, list[tuple[int, float]]] = {}         # by part: place and speed of each night
    for part, session, mean in _means(newest).iter_rows():
        speeds.setdefault(str(part), []).append((place[session], math.exp(mean)))
    every = []
    for of_part in speeds.values():
        of_part.sort()
        every += [speed for _, speed in of_part]
    scale = Scale(min([1 - LEAST, *every]), max([1 + LEAST, *every]))
    for part, of_part in sorted(speeds.items()):
        places, shares = zip(*of_part, strict=True)
        unbounded = [None] * len(places)
        curve = curves.history(places, shares, unbounded, unbounded, len(order), _HEIGHT, scale)
        yield PartSpeed(part, shares[-1] - 1, curve)


def _means(nights: pl.DataFrame) -> pl.DataFrame:
    """Return subsystem, session and log: how far the cells of a part were above their own medians, in the mean."""
    sign = pl.when(pl.col('better') == 'higher').then(1).otherwise(-1)
    logs = nights.with_columns(log=sign * pl.col('value').log())
    log = pl.col('log')
    beside_usual = logs.with_columns(log=log - log.median().over(CELL), nights=pl.len().over(CELL))
    judged = beside_usual.filter(pl.col('nights') >= FEWEST)
    return judged.group_by('subsystem', 'session').agg(log.mean())


# ---- what is printed

def exit_code(found: Iterable[SystemRow]) -> int:
    """Return the code of the worst system, in the precedence of a verdict."""
    return errors.first(row.code for row in found)


def unread(found: Iterable[SystemRow]) -> int:
    """Return the code of the worst system that could not be read."""
    return errors.first(row.code for row in found if row.age is None)


def lines(found: Sequence[SystemRow]) -> Iterator[Line]:
    """Yield a line for each system: its name, the age of its last night, and the sentence."""
    table = columns([[row.system, row.age_text or '-', visible(row.sentence)] for row in found])
    several_folders = len({row.results for row in found}) > 1
    for row, text in zip(found, table, strict=True):
        yield text, 'red' if row.code else ''
        details = [f'last night {row.began}: too old'] if row.stale else []
        details += [f'incident {incident}' for incident in row.incidents]
        details += row.alone[:_ALONE]
        if several_folders:
            details.append(row.results)
        for detail in details:
            yield f'    {visible(detail)}', 'dim'


def document(found: Sequence[SystemRow]) -> list[dict[str, object]]:
    """Return the same for --json, without the curves."""
    rows = []
    for row in found:
        fields = {**row._asdict(), 'parts': {part.name: part.change for part in row.parts}}
        del fields['words']
        rows.append(fields)
    return rows


def write(found: Sequence[SystemRow], directory: Path) -> Path:
    """Write the page of all systems, and return its file."""
    checks = sorted({check for row in found for check in row.checks})
    named = several(sorted({row.results for row in found}))
    systems_text = counted(len(found), 'system')
    bad = sum(bool(row.code) for row in found)
    title = f'{bad} of {systems_text} need a look' if bad else f'{systems_text}: nothing needs a look'
    content = template('overview.html.j2').render(
        rows=found, checks=checks, title=title, named=named, version=paths.version(),
        today=f'{datetime.datetime.now():%Y-%m-%d %H:%M}')
    file = directory / 'all.html'
    files.write_all({file: content.encode()})
    return file
