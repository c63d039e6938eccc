"""Read histories: files of ReFrame, of other trackers of performance, CSV; and a system's own nights."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from parity.base import codes, files, paths, text
from parity.base.errors import NothingMeasured, UsageError
from parity.base.figures import counted
from parity.base.units import stem
from parity.judge.stats import detect
from parity.judge.store import history, imported, tables, trackers
from parity.judge.store.reading import Reading
from parity.judge.store.tables import Rows
from parity.site import systems
from parity.site.identity import case_name
from parity.site.plan import PASSED

#: The formats that can be stated.
FORMATS = ('csv', 'perflog', 'reframe', 'asv', 'benchmark-action', 'google-benchmark')
#: Ends of the names of files that are looked for in a folder.
_FILES = ('*.csv', '*.csv.gz', '*.js', '*.js.gz', '*.json', '*.json.gz')
#: Units, without a prefix, of which less is better, and of which more is; words for the first.
_LESS, _MORE = ('s', 'J', 'W', 'B'), ('Hz', 'flops', 'FLOPS', 'ops', 'IOPS', 'HOPS', 'QOPS')
_WORDS = {'seconds': 's', 'second': 's', 'sec': 's', 'bytes': 'B', 'joules': 'J', 'watts': 'W'}


class Source(NamedTuple):
    """A history and the form in which it was found. ``unknown``: series whose direction nothing tells."""

    name: str
    form: str
    history: detect.History
    unknown: int
    notes: list[str]                 # what was left out, and why


class Directions(NamedTuple):
    """Patterns of the names of series of which more is better, and of which less is."""

    higher: str = ''
    lower: str = ''

    def sign(self, series: str, unit: str, stated: str = '') -> int:
        """Return 1 where more is better, -1 where less is, 0 where nothing tells."""
        if self.lower and re.search(self.lower, series):
            return -1
        if self.higher and re.search(self.higher, series):
            return 1
        if stated:
            return 1 if stated == 'higher' else -1
        parts = [_WORDS.get(part.lower(), part) for part in unit.split('/')]
        above, *below = map(stem, parts)
        is_rate = below == ['s']
        if above in _MORE or is_rate:
            return 1
        return -1 if above in _LESS else 0


def of_paths(paths: Iterable[Path], columns: Mapping[str, str], directions: Directions, form: str = '',
             reading: Reading | None = None) -> Iterator[Source]:
    """Yield the history of each file; of a folder each file that is one. ``form``: of FORMATS; '' to look.

    ``reading`` counts what is read, within its limits. UsageError names file and line."""
    reading = reading or Reading()
    for path in paths:
        if not os.path.lexists(path):
            raise UsageError(f'{path}: no such file or folder; name a history, or a folder of some')
        files_of_path = [path]
        has_form_of_file = form in ('', 'csv', 'benchmark-action')
        if has_form_of_file and path.is_dir() and _format(path) == '':
            files_of_path = _in_folder(path, reading)
        for file in files_of_path:
            file_form = form or _format(file)
            yield _of_file(file, file_form, columns, directions, reading)


def _in_folder(folder: Path, reading: Reading) -> list[Path]:
    """Return the files of a folder that may be histories. UsageError where there is none."""
    histories: list[Path] = []
    for end in _FILES:
        histories += folder.glob(end)
    listed = reading.listed(histories)
    if not listed:
        raise UsageError(f'{folder}: no history is in this folder. Looked for: {", ".join(_FILES)}, *.log, '
                         'benchmarks.json of asv')
    return listed


def _format(path: Path) -> str:
    """Return the format of a file or folder; '' of a folder whose files have one each."""
    if path.is_dir():
        return _format_of_folder(path)
    files.demand_file(path)
    if imported.is_database(path):
        return 'reframe'
    if path.suffix == '.log':
        return 'perflog'
    return trackers.recognised(_head(path)) or 'csv'


def _format_of_folder(folder: Path) -> str:
    if (folder / 'benchmarks.json').is_file():
        return 'asv'
    pages = [*folder.glob('*.json'), *folder.glob('*.json.gz')]
    if pages and trackers.recognised(_head(pages[0])) == 'google-benchmark':
        return 'google-benchmark'
    has_log = any(folder.rglob('*.log'))
    has_csv = any(folder.glob('*.csv*'))
    return 'perflog' if has_log and not has_csv else ''


def _head(path: Path) -> bytes:
    """Return the first bytes of a file; b'' of one that is no whole gzip file."""
    files.demand_file(path)
    try:
        with gzip.open(path) if path.suffix == '.gz' else path.open('rb') as opened:
            return opened.read(1 << 16)
    except (OSError, EOFError, zlib.error):
        return b''


#: By format, the reader of another tracker's results.
_TRACKERS = {'asv': trackers.asv, 'benchmark-action': trackers.benchmark_action,
             'google-benchmark': trackers.google_benchmark}


def _of_file(path: Path, form: str, columns: Mapping[str, str], directions: Directions,
             reading: Reading) -> Source:
    if columns and form != 'csv':
        raise UsageError(f'{path}: --columns is for a CSV; this is read as {form}')
    if form in ('perflog', 'reframe'):
        return _of_reframe(path, directions, reading)
    if form == 'csv':
        return _of_csv(path, columns, directions, reading)
    if form == 'asv' and not (path / 'benchmarks.json').is_file():
        raise UsageError(f'{path}: no benchmarks.json is in it; name the results folder of asv')
    if form == 'benchmark-action' and path.is_dir():
        raise UsageError(f'{path}: this is a folder; name the file')
    read = _TRACKERS[form]
    rows = read(path, reading)
    return _source(str(path), rows, directions)


def of_system(name: str, since: str, directions: Directions) -> Source:
    """Return the stored nights of a system, from the date ``since`` on. NothingMeasured without any."""
    system = systems.read(name)
    frame = history.load(system.name)
    if since:
        night = pl.col('night').cast(pl.String)
        frame = frame.filter(night >= since)
    if not frame.height:
        when = f' since {since}' if since else ''
        raise NothingMeasured(f'{name}: no night is stored{when}; run: {paths.nightly()}')
    words = pl.col('case', 'metric', 'system', 'partition', 'environ', 'unit', 'better', 'check', 'night',
                   'subsystem')
    figures = frame.select(words.cast(pl.String), 'value')
    rows = Rows(f'stored nights of {name}', _cells(figures))
    return _source(name, rows, directions)


def _of_reframe(path: Path, directions: Directions, reading: Reading) -> Source:
    """Read perflogs or a results.db of ReFrame; `parity import` reads the same."""
    logs = path.rglob('*.log') if path.is_dir() else [path]
    reading.count(file for file in reading.listed(logs) if file.is_file())
    cases, left = imported.cases(path)
    rows = []
    for day, case in cases:
        name = case_name(case['display_name'])
        check = case['name'].partition(' ')[0]
        ended = case['job_completion_time_unix']
        of_case = name, check, case['system'], case['partition'], case['environ'], day, ended
        for figure in imported.figures(case):
            rows.append((*of_case, *figure))
    if not rows:
        why = f'{path}: no figure of ReFrame is in it; name one of tests with performance variables'
        raise NothingMeasured('\n'.join([why, *left()]))
    names = ('case', 'check', 'system', 'partition', 'environ', 'night', 'ended',
             'metric', 'value', 'unit', 'better')
    frame = pl.DataFrame(rows, names, orient='row', infer_schema_length=None)
    figures = frame.unique(maintain_order=True).with_columns(subsystem=pl.lit('other'))
    return _source(str(path), Rows("ReFrame's results", _cells(figures)), directions, left())


def _cells(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the figures of cells as rows for `_source`.

    The area of a cell is what the nightly joins incidents by: its partition, and the part of the machine."""
    is_figure = pl.col('metric') != PASSED
    figures = frame.filter(is_figure, pl.col('value').is_finite())
    key = ['case', 'metric', 'subsystem']
    names = figures.select(key).unique()
    parts = []
    for case, metric, subsystem in names.iter_rows():
        case_without_spaces = case.replace(' ', '')
        part = codes.part_of(f'{case_without_spaces}.{metric}', subsystem)
        parts.append(part)
    column = pl.Series(parts, dtype=pl.String)
    with_part = names.with_columns(part=column)
    cells = figures.join(with_part, on=key, maintain_order='left')
    date = pl.col('night').str.slice(0, 10)
    value = pl.col('value').cast(pl.Float64)
    return cells.select(
        series=pl.format('{}.{}@{}:{}+{}', 'case', 'metric', 'system', 'partition', 'environ'),
        group=pl.format('{}.{}@{}:{}', 'check', 'metric', 'system', 'partition'),
        night=date,
        value=value,
        unit='unit',
        stated='better',
        area=pl.format('{}:{} {}', 'system', 'partition', 'part'))


def _of_csv(path: Path, columns: Mapping[str, str], directions: Directions, reading: Reading) -> Source:
    raw = reading.unpacked(path)
    names = tables.header(raw, path)
    if not columns and set(detect.COLUMNS) <= set(names):
        read = detect.read(raw, str(path))
        return Source(str(path), 'CSV of parity detect', read, 0, _left_out(read))
    has_night = any(name.lower() in tables.NIGHTS for name in names)
    if not has_night and not columns.get('night'):
        begins = text.brief(','.join(names), 40)
        of_detect = ','.join(detect.COLUMNS)
        nights = ', '.join(tables.NIGHTS)
        raise UsageError(f'{path}:1: the form of this file is not known. It begins {begins!r}. Looked for: '
                         f'{of_detect} (parity detect); a column {nights} '
                         'or --columns night=NAME; SQLite or a *.log of ReFrame; asv; data.js or JSON of '
                         'github-action-benchmark; JSON of Google Benchmark')
    rows = tables.read(raw, path, columns)
    return _source(str(path), rows, directions)


def _source(name: str, rows: Rows, directions: Directions, notes: Iterable[str] = ()) -> Source:
    """Return the history of rows. A series of unknown direction is judged both ways, under two names."""
    frame = _with_dates(rows.frame)
    figures = _with_signs(frame, directions)
    has_sign = pl.col('sign') != 0
    known = figures.filter(has_sign)
    unknown = figures.filter(~has_sign)
    if_more = _under_sign(unknown, 'more', 1)
    if_less = _under_sign(unknown, 'less', -1)
    made = detect.of_rows(pl.concat([known, if_more, if_less]))
    unknown_series = unknown['series'].n_unique()
    return Source(name, rows.form, made, unknown_series, [*notes, *_left_out(made)])


def _with_signs(frame: pl.DataFrame, directions: Directions) -> pl.DataFrame:
    """Return the rows with the columns of a history: without events, nodes and reruns, but with numbered runs.

    Their ``sign`` is 1 where more is better, -1 where less is, and 0 where the direction is not known."""
    of_series = frame.group_by('series').agg(pl.col('unit', 'stated').first())
    signs = {}
    for series, unit, stated in of_series.iter_rows():
        signs[series] = directions.sign(series, unit or '', stated or '')
    columns = ['series', 'group', 'night', 'value']
    if 'area' in frame.columns:
        columns.append('area')
    empty = pl.lit('')
    run = pl.int_range(pl.len()).over('series', 'night')
    sign = pl.col('series').replace_strict(signs, return_dtype=pl.Int8)
    return frame.select(*columns, event=empty, node=empty, again=False, run=run, sign=sign)


def _with_dates(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a date as the night, unless a series has several nights of one date."""
    if frame.schema['night'] != pl.String:
        return frame
    date = pl.col('night').str.slice(0, 10)
    nights = pl.col('night').n_unique()
    of_dates = frame.group_by('series', date=date).agg(nights)
    most = of_dates['night'].max()
    return frame.with_columns(night=date) if most == 1 else frame


def _under_sign(frame: pl.DataFrame, word: str, sign: int) -> pl.DataFrame:
    name = pl.format('{} (if {} is better)', 'series', pl.lit(word))
    return frame.with_columns(series=name, sign=pl.lit(sign, pl.Int8))


def _left_out(made: detect.History) -> list[str]:
    """Say how many nights have no logarithm: only counts of faults may be 0."""
    nights = made.nights
    is_count = np.repeat(nights.counts, np.diff(nights.start))
    is_lacking = np.isnan(nights.value)
    without = np.count_nonzero(is_lacking & ~is_count)
    if not without:
        return []
    not_judged = counted(without, 'night', 'are')
    return [f'{not_judged} not judged: a figure there is not above 0']

