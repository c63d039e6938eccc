"""Figures for other programs: metrics of the newest sessions, and a table of all figures."""

from __future__ import annotations

import datetime
import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from parity.base import paths, units
from parity.base.errors import NothingMeasured
from parity.base.text import in_csv, visible
from parity.judge.store import database
from parity.judge.store.incidents import of_system
from parity.judge.verdict import judge
from parity.judge.verdict.model import WORDS, Cell, Verdict
from parity.site import systems
from parity.site.plan import COUNTED_LABELS, PASSED

if TYPE_CHECKING:
    import polars as pl


# ---- metrics

@dataclass
class Family:
    """A family of metrics: its unit ('' where it has none), its help, and its figures by their labels."""

    unit: str
    help: str
    values: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)


class _Metrics:
    """Families of metrics by their full names."""

    def __init__(self):
        self.families: dict[str, Family] = {}

    def add(self, name: str, what: str, value: float, unit: str = '', **labels: str) -> None:
        full = f'parity_{name}'
        if unit:
            full += f'_{unit}'
        family = self.families.setdefault(full, Family(unit, what))
        family.values.setdefault(tuple(labels.items()), value)


def openmetrics() -> str:
    """Return the newest session of each system, and the heartbeats, as OpenMetrics.

    It is Prometheus' older text format, too, which node_exporter reads. Raises NothingMeasured where nothing is
    stored."""
    metrics = _Metrics()
    for system in measured():
        _of_verdict(metrics, judge.newest(system=system))
    for beat in _heartbeats():
        _of_heartbeat(metrics, beat)
    if not metrics.families:
        raise database.nothing_stored()
    lines: list[str] = []
    for name, family in sorted(metrics.families.items(), key=itemgetter(0)):
        lines += _lines(name, family)
    return '\n'.join([*lines, '# EOF', ''])


def _of_heartbeat(metrics: _Metrics, beat: _Heartbeat) -> None:
    system, began, code = beat
    age = max(0.0, time.time() - began)
    metrics.add('heartbeat_age', 'How long ago the last ci/nightly began, when this was written.',
                age, 'seconds', system=system)
    metrics.add('heartbeat_start_timestamp', 'When the last ci/nightly began.',
                began, 'seconds', system=system)
    if code is not None:
        metrics.add('heartbeat_exit_code',
                    'How the last ci/nightly ended; absent while it runs, or where it died.',
                    code, system=system)


def measured() -> list[str]:
    """Return the systems that have a session."""
    stored = {place.partition(':')[0] for place in database.partitions()}
    return [name for name in systems.names() if name in stored]


def _of_verdict(metrics: _Metrics, verdict: Verdict) -> None:
    system = verdict.session.system
    counts: Counter[str] = Counter()
    for cell in verdict.cells:
        word = 'known' if cell.acknowledged else cell.verdict
        counts[word] += 1
        _of_cell(metrics, cell, word, system)
    for word in (*WORDS, 'known'):
        metrics.add('cells', 'How many cells of the newest session have this verdict; `word` is its former name.',
                    counts[word], system=system, verdict=word, word=word)
    end = datetime.datetime.fromisoformat(verdict.session.end)
    metrics.add('session_end_timestamp', 'When the newest session ended.', end.timestamp(), 'seconds',
                system=system)
    metrics.add('exit_code', 'The exit code of the newest verdict.', verdict.exit_code, system=system)
    states = Counter(incident.state for incident in of_system(system))
    for state in ('open', 'known'):
        metrics.add('incidents', 'Incidents that are not over.', states[state], system=system, state=state)


def _of_cell(metrics: _Metrics, cell: Cell, word: str, system: str) -> None:
    labels = {'system': system, 'partition': cell.partition, 'environ': cell.environ, 'check': cell.check,
              'case': cell.case, 'metric': cell.metric}
    metrics.add('cell_verdict', 'The verdict on each cell of the newest session: 1 at it.', 1, **labels,
                verdict=word)
    metrics.add('cell_word', 'parity_cell_verdict by its former name.', 1, **labels, word=word)
    if cell.value is not None:
        unit, factor = units.base_unit(cell.unit)
        metrics.add('figure', 'The figure of each cell in the newest session, the median of its runs.',
                    cell.value * factor, unit, **labels)


class _Heartbeat(NamedTuple):
    """A system's last ci/nightly."""

    system: str
    began: float
    code: int | None                 # its exit code; None while it runs


def _heartbeats() -> Iterator[_Heartbeat]:
    """Yield the heartbeats of this site; a file that is none is left out."""
    folder = paths.results() / 'heartbeat'
    for file in sorted(folder.glob('[!.]*.json')):
        try:
            beat = json.loads(file.read_bytes())
            system, code = beat['system'], beat['exit_code']
            start = beat['start'].replace('Z', '+00:00')
            began = datetime.datetime.fromisoformat(start)
            if isinstance(system, str) and type(code) in (int, type(None)):
                yield _Heartbeat(system, began.timestamp(), code)
        except (OSError, *database.MALFORMED):
            continue


def _lines(name: str, family: Family) -> Iterator[str]:
    yield f'# TYPE {name} gauge'
    if family.unit:
        yield f'# UNIT {name} {family.unit}'
    yield f'# HELP {name} {family.help}'
    for labels, value in family.values.items():
        quoted = [f'{key}={_quoted(text)}' for key, text in labels]
        yield f'{name}{{{",".join(quoted)}}} {value:.12g}'


def _quoted(text: str) -> str:
    """Return a label's text: JSON escapes a backslash, a quote and a line's end as OpenMetrics does."""
    shown = visible(text).expandtabs()
    return json.dumps(shown, ensure_ascii=False)


# ---- the table

#: Of `judge.store.history`, and the verdict that the figure's cell has that night; `word` is its former name.
COLUMNS = ('session', 'start', 'rerun_of', 'system', 'partition', 'environ', 'subsystem', 'check', 'case', 'size',
           'metric', 'unit', 'better', 'run', 'value', 'verdict', 'reason', 'reference', 'low', 'high', 'node',
           'jobid', 'software', 'label', 'seconds', 'word')


def table(since: float = 0.0) -> str:
    """Return all figures of all sessions that began at ``since`` (Unix time) or later, as CSV.

    Words are those of today's rule. A planned figure that is absent has a row, too, unless its cell was skipped.
    Raises NothingMeasured for none."""
    import polars as pl
    frames = [_of_system(system, since) for system in measured()]
    frame = pl.concat(frames) if frames else None
    if frame is None or frame.is_empty():
        hint = ' since then: name an earlier time' if since else f'; run: {paths.nightly()}'
        raise NothingMeasured(f'{paths.database()}: no session is stored{hint}')
    for name, kind in frame.schema.items():
        if kind == pl.String:
            frame = _safe(frame, name)
    out = io.StringIO()
    frame.write_csv(out)
    return out.getvalue()


def _safe(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the table with the texts of a column as a spreadsheet may read them."""
    column = frame[name]
    changed = {}
    for text in column.unique().drop_nulls():
        shown = in_csv(text)
        if shown != text:
            changed[text] = shown
    if not changed:
        return frame
    return frame.with_columns(column.replace(changed))


def _of_system(system: str, since: float) -> pl.DataFrame:
    import polars as pl

    from parity.judge.store import history
    from parity.judge.verdict import states
    sessions = [uuid for uuid, start in database.starts().items() if start >= since]
    status = pl.col('status')
    is_figure = pl.col('metric').ne(PASSED) | pl.concat_str('unit', 'better').ne('')
    is_of_system = pl.col('system') == system
    rows = history.rows(sessions).filter(is_of_system, is_figure, status != 'skipped')
    judged = rows.collect().join(states.words(system), [*history.CELL, 'session'], 'left')
    is_left_out = ~pl.col('label').cast(pl.String).is_in(COUNTED_LABELS)
    is_rerun = pl.col('rerun_of') != ''
    absent = pl.when(is_left_out).then(pl.lit('skipped')).when(status != '').then(status)
    of_night = absent.fill_null(pl.col('word'))
    word = pl.when(is_rerun).then(pl.lit('')).otherwise(of_night)
    milliseconds = (1000 * pl.col('start')).cast(pl.Int64)
    start = pl.from_epoch(milliseconds, 'ms').dt.strftime('%Y-%m-%dT%H:%M:%SZ')
    return judged.with_columns(start=start, word=word, verdict=word).select(COLUMNS)
