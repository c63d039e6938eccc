"""The figures of stored sessions as rows of a frame: verdicts, references, comparisons and pages read these. A
session's rows are kept in results/cache/sessions (parity.judge.store.database)."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl

from parity.base import files, times
from parity.base.errors import InfrastructureError
from parity.base.reasons import Kind
from parity.judge.store import database
from parity.judge.store.plan_file import CELL, PLANNED, cell_id
from parity.judge.store.record import Figure, Run, Session
from parity.site.plan import not_offered

__all__ = ['CELL', 'SCHEMA', 'Part', 'Parts', 'cell_id', 'counted', 'load', 'nights', 'parts', 'planned', 'rows']

#: Columns and types of every history. `night` is when the session began, to the minute, local time.
SCHEMA = {
    'session': pl.String, 'start': pl.Float64, 'night': pl.String, 'rerun_of': pl.String, 'system': pl.String,
    'partition': pl.String, 'environ': pl.String, 'check': pl.String, 'case': pl.String, 'size': pl.String,
    'metric': pl.String, 'unit': pl.String, 'better': pl.String, 'run': pl.Int32, 'value': pl.Float64,
    'node': pl.String, 'jobid': pl.String, 'software': pl.String, 'label': pl.String,
    'reference': pl.Float64, 'low': pl.Float64, 'high': pl.Float64,
    'seconds': pl.Float64,      # that the run took, without what its job waited in a queue; null: not known
    'changed': pl.String,       # what the command line changed in the case: 'destination=other', '' where nothing
    'disturbed': pl.Boolean,    # others took the CPUs of the run: it is judged by nobody
    'subsystem': pl.String,
    'work': pl.UInt64,          # a digest of what the program was given (work_facts)
    'variant': pl.String,       # which of the check's variants the run was: 'threading=one', '' where it has none
}
#: Further columns of `rows`.
_MORE = {
    'ended': pl.Float64, 'why': pl.String,
    'status': pl.String,        # '' of a figure; missing, skipped, failed, wrong, disturbed: a comparison has none
    'kind': pl.String,          # of the reason (parity.base.reasons)
    'reason': pl.String,        # of that status, for people
    'alike': pl.String, 'context': pl.String,       # of a run (parity.judge.store.record), as JSON
    'work_facts': pl.String,    # what the program was given (Run.work), as JSON
    'declared': pl.Boolean,     # by the workload's record of the run
    'planned': pl.Boolean,
}
_TYPES = {**SCHEMA, **_MORE}
_OF_SESSION = ('session', 'start', 'night', 'rerun_of')
#: The type of a text in a history: most are the same in many rows.
TEXT = pl.Categorical
#: The session whose night a figure belongs to: a rerun belongs to that of the session that it confirms.
NIGHT = pl.when(pl.col('rerun_of') == '').then('session').otherwise('rerun_of')
#: A history without a figure.
_NONE = pl.LazyFrame(schema=SCHEMA).cast({pl.String: TEXT})
Frame = TypeVar('Frame', pl.DataFrame, pl.LazyFrame)
#: A part of the history has so many files: one scan a file takes twice the time, and one sort of all twice the
#: memory. It has more while they are small together, as a scan takes as long as hundreds of rows.
_FILES_AT_ONCE = 4
_BYTES_AT_ONCE = 4000000


class _Row(NamedTuple):
    """The columns of one figure of a run."""

    metric: str
    unit: str
    better: str
    run: int
    value: float | None
    label: str
    why: str
    reference: float | None
    low: float | None
    high: float | None
    status: str
    kind: str
    reason: str
    declared: bool
    planned: bool


class _Absence(NamedTuple):
    """The reason why a comparison has no figure; all is '' where it has one."""

    status: str = ''
    kind: str = ''
    reason: str = ''


_OF_RUN = [name for name in _TYPES if name not in (*_Row._fields, *_OF_SESSION)]
#: The columns in the order in which `of_session` fills them.
_COLUMNS = {name: _TYPES[name] for name in (*_OF_SESSION, *_OF_RUN, *_Row._fields)}
#: What a case that never ran has in _OF_RUN, where its plan does not say it.
_NEVER_RAN = {name: '' for name in _OF_RUN if _TYPES[name] == pl.String} | {'disturbed': False}


def load(system: str, **also: bool) -> pl.DataFrame:
    """Return the figures of the system that count, oldest first; ``also``: those that `counted` shall keep, too.

    The columns are SCHEMA's, with each text as TEXT. A session that cannot be read is left out, with a warning
    that names it. InfrastructureError where the database cannot be read."""
    return counted(_loaded(*_place(system)), **also)


def parts(system: str, **also: bool) -> Parts:
    """Return the figures of `load` before they are read."""
    stored = Parts(_scanned(*_place(system)))
    return stored.filtered(lambda figures: counted(figures, **also))


@dataclass(frozen=True)
class Part:
    """Figures of some nights on disk, with the columns of SCHEMA.

    ``sessions``: session, start, night and rerun_of of those that have any."""

    stored: pl.LazyFrame
    sessions: pl.DataFrame

    @classmethod
    def from_scan(cls, stored: pl.LazyFrame) -> Part:
        sessions = _texts(stored.select(_OF_SESSION).unique())
        return cls(stored, _collected(sessions))

    @property
    def figures(self) -> pl.LazyFrame:
        """Return the figures in order, each text as TEXT."""
        texts = _texts(self.stored)
        in_order = pl.col('session').rle_id(), 'run'      # the files are in order
        return texts.sort(in_order, maintain_order=True)


@dataclass(frozen=True)
class Parts:
    """Figures that lie on disk in parts, oldest first. A year of a large system takes gigabytes of memory."""

    parts: Sequence[Part]

    @property
    def sessions(self) -> pl.DataFrame:
        """Return the sessions of all parts."""
        return pl.concat([part.sessions for part in self.parts])

    def of_session(self, session: str) -> Parts:
        """Return the parts that have figures of a session, or of its reruns."""
        is_of_session = (pl.col('session') == session) | (pl.col('rerun_of') == session)
        return Parts([part for part in self.parts if len(part.sessions.filter(is_of_session))])

    def filtered(self, choose: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Parts:
        """Return the parts with some of their figures. Filters are fast here: the files give only these."""
        return Parts([replace(part, stored=choose(part.stored)) for part in self.parts])

    def of_cases(self, cases: Iterable[str]) -> Parts:
        """Return the parts with the figures of some cases."""
        is_one = pl.col('case').is_in([*cases])
        return self.filtered(lambda figures: figures.filter(is_one))

    def gathered(self, reduce: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
        """Return what ``reduce`` makes of each part, one after the other. One part is in memory at a time.

        Raises InfrastructureError where a file was removed meanwhile."""
        frames = [*self.newest_first(reduce)]
        if not frames:
            return _collected(reduce(_NONE))
        frames.reverse()
        return pl.concat(frames)

    def newest_first(self, reduce: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Iterator[pl.DataFrame]:
        """Yield what ``reduce`` makes of each part, the newest first. InfrastructureError as in `gathered`."""
        for part in reversed(self.parts):
            yield _collected(reduce(part.figures))

    def newest(self, sessions: int, reduce: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
        """Return what ``reduce`` makes of the newest parts, of as few as hold so many sessions then, or of all.

        Raises InfrastructureError as `gathered`."""
        newest = _collected(reduce(_NONE))
        for older in self.newest_first(reduce):
            newest = pl.concat([older, newest])
            if newest['session'].n_unique() >= sessions:
                break
        return newest


def _texts(figures: pl.LazyFrame) -> pl.LazyFrame:
    return figures.with_columns(pl.col(pl.String).cast(TEXT))


def _collected(figures: pl.LazyFrame) -> pl.DataFrame:
    try:
        return figures.collect()
    except FileNotFoundError:
        why = 'another command removed a file while this one read it; run this one again'
        raise InfrastructureError(f'{database.cache()}: {why}') from None


def counted(figures: Frame, reruns: bool = False, labelled: bool = False, disturbed: bool = False) -> Frame:
    """Return the figures that count: of runs that nobody disturbed, without a label. Reruns, which confirm the
    figures of another session, do not count.

    ``reruns``, ``labelled``, ``disturbed``: return these, too. A history has no retry, only first attempts."""
    if not reruns:
        figures = figures.filter(pl.col('rerun_of') == '')
    if not labelled:
        figures = figures.filter(pl.col('label') == '')
    if not disturbed:
        figures = figures.filter(~pl.col('disturbed'))
    return figures


def nights(figures: pl.DataFrame, *by: str) -> pl.LazyFrame:
    """Return a row for each night of each cell of ``figures`` (of `load`), in their order.

    ``value`` is the median of the ``runs``; disturbed runs are among them only where each run was. ``reruns`` are
    those that confirm the night; a night without a run of its own is none. ``by``: columns that name a cell."""
    is_own = pl.col('rerun_of') == ''
    is_calm = ~pl.col('disturbed')
    value = pl.col('value')
    label = pl.col('label')
    reference = pl.col('reference')
    rerun = pl.struct('value', 'node')
    settings = pl.col('start', 'night', 'unit', 'better', 'variant', 'reference', 'low', 'high')
    places = pl.col('software', 'node').cast(pl.String)
    different_places = places.filter(is_own).unique().sort()
    in_nights = figures.lazy().with_columns(session=NIGHT)
    of_night = in_nights.group_by(*(by or CELL), 'session', maintain_order=True)
    summary = of_night.agg(
        settings.filter(is_own).first(),
        different_places.str.join(' '),
        calm=value.filter(is_own & is_calm),
        runs=value.filter(is_own),
        labels=label.filter(is_own).unique().sort(),
        reruns=rerun.filter(~is_own & is_calm),
        applied=reference.filter(is_own).count() > 0)
    measured = summary.filter(pl.col('start').is_not_null())
    all_disturbed = pl.col('calm').list.len() == 0
    counted_runs = pl.when(all_disturbed).then('runs').otherwise('calm')
    chosen = measured.with_columns(disturbed=all_disturbed, runs=counted_runs)
    median = pl.col('runs').list.median()
    return chosen.with_columns(value=median)


def rows(uuids: Iterable[str]) -> pl.LazyFrame:
    """Return what these sessions planned and measured, in their order. Each metric of each first attempt is a row,
    and so is each metric of a planned case that never ran. Unreadable sessions are left out."""
    frames = [pl.scan_parquet(file) for file in _files(uuids)]
    return pl.concat(frames) if frames else pl.LazyFrame(schema=_TYPES)


def planned(*uuids: str) -> dict[str, list[dict[str, Any]]]:
    """Return, by session, the cells that it planned and an environment can run, with the columns of PLANNED.

    Has [] for a session without such cells."""
    has_environment = pl.col('environ') != ''
    of_plans = rows(uuids).filter('planned', has_environment)
    cells = of_plans.select('session', *PLANNED).unique().collect()
    return cells.rows_by_key('session', named=True)


def _place(system: str) -> tuple[str, Path, tuple[tuple[str, float], ...]]:
    """Return the system, the folder of its files, and when each session began: what its figures are kept for."""
    starts = database.starts()
    return system, database.cache(), tuple(starts.items())


@functools.lru_cache(maxsize=1)
def _loaded(system: str, folder: Path, starts: tuple[tuple[str, float], ...]) -> pl.DataFrame:
    """A page asks for the same figures several times; a session's file, in ``folder``, never changes."""
    stored = Parts(_scanned(system, folder, starts))
    return stored.gathered(lambda figures: figures)


@functools.lru_cache(maxsize=1)
def _scanned(system: str, folder: Path, starts: tuple[tuple[str, float], ...]) -> list[Part]:
    """Return the parts of the system's figures. The arguments are those of `_loaded`."""
    start_of = dict(starts)
    files_of_nights = list(_of_nights([*start_of]))
    if not files_of_nights:
        return [Part.from_scan(pl.LazyFrame(schema=SCHEMA))]
    is_of_system = pl.col('system') == system
    has_value = pl.col('value').is_not_null()
    groups = [*_grouped(files_of_nights)]
    stored = []
    for files_at_once in groups:
        scanned = pl.scan_parquet(files_at_once)
        figures = scanned.filter('declared', is_of_system, has_value).select(SCHEMA.keys())
        if len(groups) == 1:        # a verdict asks for it several times
            figures = _collected(_texts(figures)).lazy()
        part = Part.from_scan(figures)
        stored.append(_with_starts(part, start_of))
    return stored


def _grouped(files_of_nights: Iterable[Path]) -> Iterator[list[Path]]:
    """Yield the files of each part of a history, in order."""
    group: list[Path] = []
    size = 0
    for file in files_of_nights:
        size += file.stat().st_size
        if len(group) >= _FILES_AT_ONCE and size > _BYTES_AT_ONCE:
            yield group
            group, size = [], file.stat().st_size
        group.append(file)
    if group:
        yield group


def _with_starts(part: Part, start_of: dict[str, float]) -> Part:
    """Return the figures with the starts that the database has: a wrong clock moved some."""
    moved = {}
    for uuid, start in part.sessions.select('session', 'start').iter_rows():
        if start != start_of[uuid]:
            moved[uuid] = start_of[uuid]
    if not moved:
        return part
    start = pl.col('session').replace_strict(moved, default=pl.col('start'))
    return Part(part.stored.with_columns(start=start), part.sessions.with_columns(start=start))


def _of_nights(uuids: Sequence[str]) -> Iterator[Path]:
    """Yield the files of sessions, in order: one for a night with its reruns, as many small files are read slowly.

    Each session has its file, too: that of a night is made of these."""
    kept = database.cached()
    _files(uuid for uuid in uuids if uuid not in kept)
    for night in database.nights(uuids):
        if len(night) < 2:
            yield from _files(night)
            continue
        words = ' '.join(night)
        digest = zlib.crc32(words.encode())
        file = database.file(night[0], f'{digest:08x}.parquet')
        if _whole(file):
            yield file
            continue
        of_sessions = _files(night)
        if not database.cached().issuperset(night):        # a plan may come back
            yield from of_sessions
            continue
        for old in file.parent.glob(f'{night[0]}.*.parquet'):       # with fewer reruns
            old.unlink(missing_ok=True)
            _digest_of(old).unlink(missing_ok=True)
        frames = [pl.read_parquet(of_session) for of_session in of_sessions]
        _write(file, pl.concat(frames))
        yield file


def _files(uuids: Iterable[str]) -> list[Path]:
    """The cached rows of the sessions that can be read; those that are not in the cache yet are put there."""
    readable = []
    for uuid in uuids:
        try:
            file = database.file(uuid, 'parquet')
            if not _whole(file) or not database.file(uuid, 'json').exists():
                session = database.read(uuid)
                _write(file, of_session(session))
                database.cache_brief(session)
            readable.append(file)
        except database.Unreadable as err:
            database.warn(uuid, err)
    return readable


def _write(file: Path, rows: pl.DataFrame) -> None:
    """Write the rows, and their digest beside them."""
    buffer = io.BytesIO()
    rows.write_parquet(buffer)
    content = buffer.getvalue()
    digest = zlib.crc32(content)
    files.write(_digest_of(file), f'{digest:08x}')
    files.write(file, content)


def _digest_of(file: Path) -> Path:
    return file.with_suffix('.crc32')


def _whole(file: Path) -> bool:
    """Return whether the file has its digest: one that was cut or damaged is made anew."""
    try:
        digest = int(_digest_of(file).read_text(), 16)
        return digest == zlib.crc32(file.read_bytes())
    except (OSError, ValueError):
        return False


def of_session(session: Session) -> pl.DataFrame:
    """Return `rows` of one session. Raises Unreadable."""
    try:
        start = float(session.start)
        night = times.minute(session.start)
        table = []
        for case, attempts in _cases(session):
            count: Counter[str] = Counter()
            for run in attempts:
                of_run = session.uuid, start, night, session.rerun_of, *_about(case, run)
                for figure in _figures(case, run, count):
                    table.append((*of_run, *figure))
        columns = list(zip(*table, strict=True))
        frame = pl.DataFrame(columns, _COLUMNS, orient='col')
        return frame.select(_TYPES.keys())
    except (pl.exceptions.PolarsError, *database.MALFORMED) as err:     # what should be a number or a text is none
        raise database.Unreadable(session.uuid, err) from None


def _cases(session: Session) -> Iterator[tuple[dict[str, Any], list[Run | None]]]:
    """Each planned case and its first attempts, [None] of one that never ran; then cases without a plan ({})."""
    planned_cases = {}
    for case in session.plan.get('cases', ()):
        key = case['case'], case['partition'], case['environ']
        planned_cases[key] = case
    for key in dict.fromkeys((*planned_cases, *session.attempts)):
        first_attempts: list[Run | None] = [None]
        attempts = session.attempts.get(key)
        if attempts:
            first_attempts = [run for run in attempts if not run.retry]
        yield planned_cases.get(key, {}), first_attempts


def _about(case: dict[str, Any], run: Run | None) -> list[Any]:
    """Return the facts of a case and its run, in _OF_RUN."""
    if run is None:
        facts = {**_NEVER_RAN, **case}
        return [facts.get(name) for name in _OF_RUN]
    facts = {name: getattr(run, name, None) for name in _OF_RUN}
    facts['node'] = ','.join(run.nodes)
    facts['disturbed'] = bool(run.disturbed)
    facts['alike'] = json.dumps(run.alike)
    facts['context'] = '' if run.status or run.disturbed else json.dumps(run.context)
    work = json.dumps(run.work, sort_keys=True)
    digest = hashlib.sha256(work.encode()).digest()
    facts['work_facts'] = work
    facts['work'] = int.from_bytes(digest[:8], 'big')
    if case:
        for name in ('check', 'subsystem', 'size'):
            facts[name] = case[name]
    return [facts[name] for name in _OF_RUN]


def _figures(case: dict[str, Any], run: Run | None, count: Counter[str]) -> Iterator[_Row]:
    """The metrics of a run; ``count``: runs of each metric so far that have a figure."""
    planned_metrics = {metric['name']: metric for metric in case.get('metrics', ())}
    names = dict.fromkeys(planned_metrics)
    if run and not run.status:
        names.update(dict.fromkeys(run.values()))
    for name in names:
        figure = run.figure(name) if run else Figure()
        unit, better = figure.unit, figure.better
        is_planned = name in planned_metrics
        if is_planned:
            metric = planned_metrics[name]
            unit, better = metric['unit'], metric['better']
        value = None
        if figure.finite and not run.status:
            value = figure.value
        absence = _absent(case, run, name)
        yield _Row(
            metric=name,
            unit=unit,
            better=better,
            run=count[name],
            value=value,
            label=figure.label,
            why=figure.why,
            reference=figure.reference,
            low=figure.low,
            high=figure.high,
            status=absence.status,
            kind=absence.kind,
            reason=absence.reason,
            declared=bool(figure.better),
            planned=is_planned)
        if value is not None:
            count[name] += 1


def _absent(case: dict[str, Any], run: Run | None, metric: str) -> _Absence:
    """Return why a comparison has no such figure of the run."""
    if run is None:
        if case['environ']:
            return _Absence('missing', reason='planned, and never ran')
        return _Absence('skipped', Kind.NO_PROGRAM.value, not_offered(case['needs']))
    if run.status:
        return _Absence(run.status, run.kind.value, run.reason)
    figure = run.figure(metric)
    if figure.left_out:
        return _Absence('skipped', figure.kind.value, figure.left_out)
    if run.disturbed:
        return _Absence('disturbed', reason=run.disturbed)
    if figure.finite:
        return _Absence()
    value = 'absent from the results' if figure.value is None else figure.value
    return _Absence('wrong', reason=f'{metric} is {value}')
