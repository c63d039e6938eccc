"""Figures for other programs: metrics of the newest sessions, and a table of all figures."""

from __future__ import annotations

import datetime
import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from parity.base import paths, units
from parity.base.errors import NothingMeasured
from parity.base.text import in_csv, visible
from parity.judge.store import database
from parity.judge.store.incidents import of_system
from parity.judge.verdict import judge
from parity.judge.verdict.model import WORDS, Verdict
from parity.site import systems
from parity.site.plan import COUNTED_LABELS, PASSED

if TYPE_CHECKING:
    import polars as pl


# ---- metrics

#: Of a family of metrics: its unit ('' where it has none), what it says, and its figures by their labels.
Family = tuple[str, str, dict[tuple[tuple[str, str], ...], float]]


def openmetrics() -> str:
    """Return the newest session of each system, and the heartbeats, as OpenMetrics.

    It is Prometheus' older text format, too, which node_exporter reads. Raises NothingMeasured where nothing is
    stored."""
    families: dict[str, Family] = {}

    def add(name: str, what: str, value: float, unit: str = '', **labels: str) -> None:
        full = f'parity_{name}' + (f'_{unit}' if unit else '')
        families.setdefault(full, (unit, what, {}))[2].setdefault(tuple(labels.items()), value)

    for system in measured():
        _of_verdict(add, judge.newest(system=system))
    for system, began, code in _heartbeats():
        add('heartbeat_age', 'How long ago the last ci/nightly began, when this was written.',
            max(0.0, time.time() - began), 'seconds', system=system)
        add('heartbeat_start_timestamp', 'When the last ci/nightly began.', began, 'seconds', system=system)
        if code is not None:
            add('heartbeat_exit_code', 'How the last ci/nightly ended; absent while it runs, or where it died.',
                code, system=system)
    if not families:
        raise database.nothing_stored()
    lines = [line for name in sorted(families) for line in _lines(name, *families[name])]
    return '\n'.join([*lines, '# EOF', ''])


def measured() -> list[str]:
    """Return the systems that have a session."""
    known = {place.partition(':')[0] for place in database.partitions()}
    return [name for name in systems.names() if name in known]


def _of_verdict(add, verdict: Verdict) -> None:
    system = verdict.session.system
    for cell in verdict.cells:
        of = {'system': system, 'partition': cell.partition, 'environ': cell.environ, 'check': cell.check,
              'case': cell.case, 'metric': cell.metric}
        word = 'known' if cell.acknowledged else cell.verdict
        add('cell_verdict', 'The verdict on each cell of the newest session: 1 at it.', 1, **of, verdict=word)
        add('cell_word', 'parity_cell_verdict by its former name.', 1, **of, word=word)
        if cell.value is not None:
            unit, factor = units.base_unit(cell.unit)
            add('figure', 'The figure of each cell in the newest session, the median of its runs.',
                cell.value * factor, unit, **of)
    words = Counter('known' if cell.acknowledged else cell.verdict for cell in verdict.cells)
    for word in (*WORDS, 'known'):
        add('cells', 'How many cells of the newest session have this verdict; `word` is its former name.',
            words[word], system=system, verdict=word, word=word)
    ended = datetime.datetime.fromisoformat(verdict.session.end).timestamp()
    add('session_end_timestamp', 'When the newest session ended.', ended, 'seconds', system=system)
    add('exit_code', 'The exit code of the newest verdict.', verdict.exit_code, system=system)
    states = Counter(incident.state for incident in of_system(system))
    for state in ('open', 'known'):
        add('incidents', 'Incidents that are not over.', states[state], system=system, state=state)


def _heartbeats() -> Iterator[tuple[str, float, int | None]]:
    """Yield system, begin and exit code of each system's last ci/nightly; a file that is none is left out."""
    for file in sorted((paths.results() / 'heartbeat').glob('[!.]*.json')):
        try:
            said = json.loads(file.read_bytes())
            began = datetime.datetime.fromisoformat(said['start'].replace('Z', '+00:00'))
            if isinstance(said['system'], str) and type(said['exit_code']) in (int, type(None)):
                yield said['system'], began.timestamp(), said['exit_code']
        except (OSError, *database.MALFORMED):
            continue


def _lines(name: str, unit: str, what: str, values: dict) -> Iterator[str]:
    yield f'# TYPE {name} gauge'
    if unit:
        yield f'# UNIT {name} {unit}'
    yield f'# HELP {name} {what}'
    for labels, value in values.items():
        # JSON escapes a backslash, a quote and a line's end as OpenMetrics does
        texts = ((key, visible(text).expandtabs()) for key, text in labels)
        quoted = ','.join(f'{key}={json.dumps(text, ensure_ascii=False)}' for key, text in texts)
        yield f'{name}{{{quoted}}} {value:.12g}'


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
    found = [_of_system(system, since) for system in measured()]
    frame = pl.concat(found) if found else None
    if frame is None or frame.is_empty():
        raise NothingMeasured(f'{paths.database()}: no session is stored'
                              + (' since then: name an earlier time' if since else f'; run: {paths.nightly()}'))
    out = io.StringIO()
    safe = {name: {text: shown for text in frame[name].unique().drop_nulls() if (shown := in_csv(text)) != text}
            for name, kind in frame.schema.items() if kind == pl.String}
    frame.with_columns(pl.col(name).replace(texts) for name, texts in safe.items() if texts).write_csv(out)
    return out.getvalue()


def _of_system(system: str, since: float) -> pl.DataFrame:
    import polars as pl

    from parity.judge.store import history
    from parity.judge.verdict import states
    starts, words = database.starts(), states.words(system)
    rows = history.rows(uuid for uuid, start in starts.items() if start >= since).filter(
        pl.col('system') == system, pl.col('metric').ne(PASSED) | pl.concat_str('unit', 'better').ne(''),
        pl.col('status') != 'skipped')
    began = pl.from_epoch((1000 * pl.col('start')).cast(pl.Int64), 'ms').dt.strftime('%Y-%m-%dT%H:%M:%SZ')
    left_out = ~pl.col('label').cast(pl.String).is_in(COUNTED_LABELS)
    absent = pl.when(left_out).then(pl.lit('skipped')).when(pl.col('status') != '').then(pl.col('status'))
    word = pl.when(pl.col('rerun_of') != '').then(pl.lit('')).otherwise(absent.fill_null(pl.col('word')))
    return rows.collect().join(words, [*history.CELL, 'session'], 'left').with_columns(
        start=began, word=word, verdict=word).select(COLUMNS)
