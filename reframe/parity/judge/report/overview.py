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
_REACH = 0.05
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
    listed: list[SystemRow] = []
    for folder in folders or [paths.results()]:
        with paths.of_results(folder):
            if folders and not paths.database().is_file():
                raise UsageError(f'{folder}: no results.db is here; name a results folder of parity')
            for row, night in _of_folder(folder, oldest, scheduled):
                if pages and night:
                    row = row._replace(page=_address(row.system, listed))
                    file = pages / row.page
                    report.of_session(night.verdict, file.parent, night.answered)
                listed.append(row)
    if all(row.age is None and not row.code for row in listed):
        names = ', '.join(map(str, folders)) or paths.database()
        raise NothingMeasured(f'{names}: no session of any system is stored; run: {paths.nightly()}')
    compared = [row._replace(alone=list(_slower_here_only(row, listed))) for row in listed]

    def order(row: SystemRow) -> tuple[int, bool, str]:
        severity = errors.PRECEDENCE.index(row.code)
        return severity, row.age is None, row.system

    return sorted(compared, key=order)


def _address(system: str, listed: Sequence[SystemRow]) -> str:
    """Return the address of a system's own page, with a number where another folder has the system, too."""
    before = sum(row.system == system for row in listed)
    number = f'-{before + 1}' if before else ''
    return f'systems/{system}{number}/index.html'


def _of_folder(folder: Path, oldest: float, scheduled: Scheduler) -> Iterator[tuple[SystemRow, _Night | None]]:
    """Yield a row for each system that the site of a results folder describes, and its last night.

    A system that cannot be judged has the reason in its row: the others are judged all the same."""
    try:
        stored = measured()
    except ParityError as err:
        for name in _expected(folder):
            yield _failed(name, folder, err), None
        return
    for name in systems.names():
        try:
            if name in stored:
                verdict = judge.newest(system=name)
                night = _Night(verdict, answer.answered(verdict))
                yield _row(name, folder, night, oldest, scheduled), night
                continue
            system = systems.read(name)
            if not system.detect:
                yield SystemRow(name, str(folder), 'no session is stored', errors.OK), None
        except ParityError as err:
            yield _failed(name, folder, err), None


def _failed(name: str, folder: Path, err: ParityError) -> SystemRow:
    """Return the row of a system that cannot be judged."""
    first, *_ = str(err).splitlines()
    return SystemRow(name, str(folder), first, err.exit_code)


def _expected(folder: Path) -> list[str]:
    """Return the systems that a results folder is of, by its site; the folder's name where it lies in none."""
    site = folder.absolute().parent / 'systems'
    if folder != paths.results() and not site.is_dir():
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
    aged = judge.not_older(verdict, oldest, duration(oldest))
    is_stale = aged is not verdict
    last = database.newest(name)
    age = time.time() - last.end
    still_open = []
    for incident in verdict.incidents:
        if not incident.closed:
            still_open.append(f'{incident.number}: {incident.title}')
    return SystemRow(
        system=name,
        results=str(folder),
        sentence=night.answered.answer.sentence,
        code=aged.exit_code,
        began=times.minute(last.start),
        age=age,
        stale=is_stale,
        incidents=still_open,
        nodes=_nodes(name, scheduled),
        parts=list(_parts(name)),
        checks=_checks(verdict),
        words=_words(name, verdict))


def _nodes(name: str, scheduled: Scheduler) -> str:
    """Say how many nodes there are, and how many are slow, out of service or never measured."""
    system = systems.read(name)
    now = scheduled(system)
    nodes = listing.of_system(system, now)
    counts = {
        'slow': sum(bool(node.slower) for node in nodes),
        'out of service': sum(bool(node.out) for node in nodes),
        'never measured': sum(node.measured is None for node in nodes)}
    words = [counted(len(nodes), 'node')]
    for word, count in counts.items():
        if count:
            words.append(f'{count} {word}')
    if now.unknown:
        words.append('their states unknown')
    return ', '.join(words)


def _checks(verdict: Verdict) -> dict[str, str]:
    """Return the worst word of each check's cells."""
    words_of: dict[str, set[str]] = {}
    for cell in verdict.cells:
        words = words_of.setdefault(cell.check, set())
        words.add(cell.verdict)
    worst = {}
    for check in sorted(words_of):
        worst[check] = min(words_of[check], key=_WORST.index)
    return worst


def _words(name: str, verdict: Verdict) -> dict[tuple[str, str, str], str]:
    """Return the verdicts of the cells by case, metric and the identity of the software that ran."""
    stored = history.load(name)
    tonight = stored.filter(pl.col('session') == verdict.session.uuid)
    ran = tonight.select(*CELL, 'software').cast(pl.String).unique()
    software = {tuple(cell): identity for *cell, identity in ran.iter_rows()}
    words = {}
    for cell in verdict.cells:
        key = tuple(getattr(cell, field) for field in CELL)
        identity = software.get(key)
        if identity:
            words[cell.case, cell.metric, identity] = cell.verdict
    return words


def _slower_here_only(row: SystemRow, listed: Sequence[SystemRow]) -> Iterator[str]:
    """Yield what is slower on this system, and as it was on others with the same software."""
    others = [other for other in listed if other is not row]
    for key, word in row.words.items():
        if word != 'regressed':
            continue
        sound = [other.system for other in others if other.words.get(key) == 'ok']
        if sound:
            case, metric, _ = key
            yield f'{case}: {metric}: slower here only; with the same software as before on {several(sound)}'


# ---- the speed of the parts

def _parts(name: str) -> Iterator[PartSpeed]:
    """Yield the speed of each part of a system in its last nights, all on one scale; `_means` measures them."""
    stored = history.nights(history.load(name), *CELL, 'subsystem')
    nights = stored.filter(pl.col('better') != '', pl.col('value') > 0).collect()
    sessions = nights.unique('session').sort('start')['session']
    newest_sessions = sessions.tail(NIGHTS).to_list()
    newest = nights.filter(pl.col('session').is_in(newest_sessions))
    place_of = {session: place for place, session in enumerate(newest_sessions)}
    speeds_by_part: dict[str, dict[int, float]] = {}        # of a part: by the place of the night
    for part, session, mean in _means(newest).iter_rows():
        of_part = speeds_by_part.setdefault(str(part), {})
        of_part[place_of[session]] = math.exp(mean)
    scale = _scale(speeds_by_part)
    count = len(newest_sessions)
    for part in sorted(speeds_by_part):
        of_part = speeds_by_part[part]
        places = sorted(of_part)
        speeds = [of_part[place] for place in places]
        unbounded = [None] * len(places)
        curve = curves.history(places, speeds, unbounded, unbounded, count, _HEIGHT, scale)
        yield PartSpeed(part, speeds[-1] - 1, curve)


def _scale(speeds_by_part: dict[str, dict[int, float]]) -> Scale:
    """Return the scale that holds the speeds of all parts, and _REACH to either side of the usual one."""
    least, most = 1 - _REACH, 1 + _REACH
    for of_part in speeds_by_part.values():
        least = min(least, *of_part.values())
        most = max(most, *of_part.values())
    return Scale(least, most)


def _means(nights: pl.DataFrame) -> pl.DataFrame:
    """Return subsystem, session and log: how far the cells of a part were above their own medians, in the mean."""
    higher_is_better = pl.col('better') == 'higher'
    sign = pl.when(higher_is_better).then(1).otherwise(-1)
    log = pl.col('log')
    usual = log.median().over(CELL)
    count = pl.len().over(CELL)
    logs = nights.with_columns(log=sign * pl.col('value').log())
    beside_usual = logs.with_columns(log=log - usual, nights=count)
    judged = beside_usual.filter(pl.col('nights') >= FEWEST)
    return judged.group_by('subsystem', 'session').agg(log.mean())


# ---- what is printed

def exit_code(listed: Iterable[SystemRow]) -> int:
    """Return the code of the worst system, in the precedence of a verdict."""
    return errors.first(row.code for row in listed)


def unread(listed: Iterable[SystemRow]) -> int:
    """Return the code of the worst system that could not be read."""
    return errors.first(row.code for row in listed if row.age is None)


def lines(listed: Sequence[SystemRow]) -> Iterator[Line]:
    """Yield a line for each system: its name, the age of its last night, and the sentence."""
    table = columns([[row.system, row.age_text or '-', visible(row.sentence)] for row in listed])
    folders = {row.results for row in listed}
    for row, text in zip(listed, table, strict=True):
        yield text, 'red' if row.code else ''
        details = []
        if row.stale:
            details.append(f'last night {row.began}: too old')
        for incident in row.incidents:
            details.append(f'incident {incident}')
        details += row.alone[:_ALONE]
        if len(folders) > 1:
            details.append(row.results)
        for detail in details:
            yield f'    {visible(detail)}', 'dim'


def document(listed: Sequence[SystemRow]) -> list[dict[str, object]]:
    """Return the same for --json, without the curves."""
    rows = []
    for row in listed:
        fields = row._asdict()
        fields['parts'] = {part.name: part.change for part in row.parts}
        del fields['words']
        rows.append(fields)
    return rows


def write(listed: Sequence[SystemRow], directory: Path) -> Path:
    """Write the page of all systems, and return its file."""
    checks = {check for row in listed for check in row.checks}
    folders = {row.results for row in listed}
    bad = sum(bool(row.code) for row in listed)
    text = counted(len(listed), 'system')
    title = f'{bad} of {text} need a look' if bad else f'{text}: nothing needs a look'
    now = datetime.datetime.now()
    page = template('overview.html.j2')
    content = page.render(
        rows=listed,
        checks=sorted(checks),
        title=title,
        named=several(sorted(folders)),
        version=paths.version(),
        today=f'{now:%Y-%m-%d %H:%M}')
    file = directory / 'all.html'
    files.write_all({file: content.encode()})
    return file
