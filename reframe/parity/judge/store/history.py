"""The figures of stored sessions as rows of a frame: verdicts, references, comparisons and pages read these. A
session's rows are kept in results/cache/sessions (parity.judge.store.database)."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl

from parity.base import files, times
from parity.base.reasons import Kind
from parity.judge.store import database
from parity.judge.store.plan_file import CELL, PLANNED, cell_id
from parity.judge.store.record import Figure, Run, Session
from parity.site.plan import not_offered

__all__ = ['CELL', 'SCHEMA', 'cell_id', 'counted', 'load', 'nights', 'planned', 'rows']

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
Frame = TypeVar('Frame', pl.DataFrame, pl.LazyFrame)
#: So many files are read at once: one scan a file takes twice the time, and one sort of all twice the memory.
_FILES_AT_ONCE = 4


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


def load(system: str, **also: bool) -> pl.DataFrame:
    """Return the figures of the system that count, oldest first; ``also``: those that `counted` shall keep, too.

    The columns are SCHEMA's, with each text as TEXT. A session that cannot be read is left out, with a warning
    that names it. InfrastructureError where the database cannot be read."""
    return counted(_loaded(system, database.cache(), tuple(database.starts().items())), **also)


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
    own = pl.col('rerun_of') == ''
    calm = ~pl.col('disturbed')
    value = pl.col('value')
    settings = pl.col('start', 'night', 'unit', 'better', 'variant', 'reference', 'low', 'high')
    places = pl.col('software', 'node').cast(pl.String)
    of_night = figures.lazy().with_columns(session=NIGHT).group_by(*(by or CELL), 'session', maintain_order=True)
    summary = of_night.agg(
        settings.filter(own).first(),
        places.filter(own).unique().sort().str.join(' '),
        calm=value.filter(own & calm),
        runs=value.filter(own),
        labels=pl.col('label').filter(own).unique().sort(),
        reruns=pl.struct('value', 'node').filter(~own & calm),
        applied=pl.col('reference').filter(own).count() > 0)
    measured = summary.filter(pl.col('start').is_not_null())
    all_disturbed = pl.col('calm').list.len() == 0
    counted_runs = pl.when(all_disturbed).then('runs').otherwise('calm')
    chosen = measured.with_columns(disturbed=all_disturbed, runs=counted_runs)
    return chosen.with_columns(value=pl.col('runs').list.median())


def rows(uuids: Iterable[str]) -> pl.LazyFrame:
    """Return what these sessions planned and measured, in their order. Each metric of each first attempt is a row,
    and so is each metric of a planned case that never ran. Unreadable sessions are left out."""
    frames = [pl.scan_parquet(file) for file in _files(uuids)]
    return pl.concat(frames) if frames else pl.LazyFrame(schema=_TYPES)


def planned(uuid: str) -> pl.DataFrame:
    """Return the cells that a session planned and an environment can run, with the columns of PLANNED."""
    return rows([uuid]).filter('planned', pl.col('environ') != '').select(PLANNED).unique().collect()


@functools.lru_cache(maxsize=1)
def _loaded(system: str, folder: Path, starts: tuple[tuple[str, float], ...]) -> pl.DataFrame:
    """One verdict asks for the same figures several times; a session's file, in ``folder``, never changes."""
    start_of = dict(starts)
    files_of_nights = list(_of_nights([*start_of]))
    if not files_of_nights:
        return pl.DataFrame(schema=SCHEMA).cast({pl.String: TEXT})
    frames = []
    for first in range(0, len(files_of_nights), _FILES_AT_ONCE):
        scanned = pl.scan_parquet(files_of_nights[first:first + _FILES_AT_ONCE])
        figures = scanned.filter('declared', pl.col('system') == system, pl.col('value').is_not_null())
        texts = figures.select(SCHEMA.keys()).with_columns(pl.col(pl.String).cast(TEXT))
        in_order = pl.col('session').rle_id(), 'run'      # the files are in order
        frames.append(texts.sort(in_order, maintain_order=True))
    return _with_starts(pl.concat(frames).collect(), start_of)


def _with_starts(frame: pl.DataFrame, start_of: dict[str, float]) -> pl.DataFrame:
    """Return the figures with the starts that the database has: a wrong clock moved some."""
    moved = {}
    for uuid, start in frame.select('session', 'start').unique().iter_rows():
        if start != start_of[uuid]:
            moved[uuid] = start_of[uuid]
    if not moved:
        return frame
    return frame.with_columns(start=pl.col('session').replace_strict(moved, default=pl.col('start')))


def _of_nights(uuids: Sequence[str]) -> Iterator[Path]:
    """Yield the files of sessions, in order: one for a night with its reruns, as many small files are read slowly.

    Each session has its file, too: that of a night is made of these."""
    kept = database.cached()
    _files(uuid for uuid in uuids if uuid not in kept)
    for night in database.nights(uuids):
        if len(night) < 2:
            yield from _files(night)
            continue
        digest = f'{zlib.crc32(" ".join(night).encode()):08x}'
        file = database.file(night[0], f'{digest}.parquet')
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
        _write(file, pl.concat([pl.read_parquet(of_session) for of_session in of_sessions]))
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
    content = io.BytesIO()
    rows.write_parquet(content)
    files.write(_digest_of(file), f'{zlib.crc32(content.getvalue()):08x}')
    files.write(file, content.getvalue())


def _digest_of(file: Path) -> Path:
    return file.with_suffix('.crc32')


def _whole(file: Path) -> bool:
    """Return whether the file has its digest: one that was cut or damaged is made anew."""
    try:
        return int(_digest_of(file).read_text(), 16) == zlib.crc32(file.read_bytes())
    except (OSError, ValueError):
        return False


def of_session(session: Session) -> pl.DataFrame:
    """Return `rows` of one session. Raises Unreadable."""
    try:
        of_session = session.uuid, float(session.start), times.minute(session.start), session.rerun_of
        table = []
        for case, attempts in _cases(session):
            count: Counter[str] = Counter()
            for run in attempts:
                of_run = _about(case, run)
                for figure in _figures(case, run, count):
                    table.append((*of_session, *of_run, *figure))
        names = *_OF_SESSION, *_OF_RUN, *_Row._fields
        schema = {name: _TYPES[name] for name in names}
        columns = list(zip(*table, strict=True))
        return pl.DataFrame(columns, schema, orient='col').select(_TYPES.keys())
    except (pl.exceptions.PolarsError, *database.MALFORMED) as err:     # what should be a number or a text is none
        raise database.Unreadable(session.uuid, err) from None


def _cases(session: Session) -> Iterator[tuple[dict[str, Any], list[Run | None]]]:
    """Each planned case and its first attempts, [None] of one that never ran; then cases without a plan ({})."""
    planned_cases = {}
    for case in session.plan.get('cases', ()):
        planned_cases[case['case'], case['partition'], case['environ']] = case
    for key in dict.fromkeys((*planned_cases, *session.attempts)):
        runs = session.attempts.get(key)
        first_attempts = [run for run in runs if not run.retry] if runs else [None]
        yield planned_cases.get(key, {}), first_attempts


def _about(case: dict[str, Any], run: Run | None) -> list[Any]:
    """Return the facts of a case and its run, in _OF_RUN."""
    if run is None:
        facts = {name: '' for name in _OF_RUN if _TYPES[name] == pl.String}
        facts['disturbed'] = False
        facts.update(case)
        return [facts.get(name) for name in _OF_RUN]
    facts = {name: getattr(run, name, None) for name in _OF_RUN}
    facts['node'] = ','.join(run.nodes)
    facts['disturbed'] = bool(run.disturbed)
    facts['alike'] = json.dumps(run.alike)
    facts['context'] = '' if run.status or run.disturbed else json.dumps(run.context)
    facts['work_facts'] = json.dumps(run.work, sort_keys=True)
    digest = hashlib.sha256(facts['work_facts'].encode()).digest()
    facts['work'] = int.from_bytes(digest[:8], 'big')
    if case:
        facts.update((name, case[name]) for name in ('check', 'subsystem', 'size'))
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
        if name in planned_metrics:
            unit, better = planned_metrics[name]['unit'], planned_metrics[name]['better']
        value = figure.value if figure.finite and not run.status else None
        absence = _absent(case, run, name)
        yield _Row(
            metric=name, unit=unit, better=better, run=count[name], value=value, label=figure.label,
            why=figure.why, reference=figure.reference, low=figure.low, high=figure.high,
            status=absence.status, kind=absence.kind, reason=absence.reason,
            declared=bool(figure.better), planned=name in planned_metrics)
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
