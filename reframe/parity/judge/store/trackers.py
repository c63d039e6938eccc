"""Read the results of other trackers: asv, github-action-benchmark and Google Benchmark."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from parity.base.errors import NothingMeasured, UsageError
from parity.judge.store.reading import Reading
from parity.judge.store.tables import Rows

_COLUMNS = ('series', 'group', 'night', 'value', 'unit', 'stated')
#: Series, group, night, value, unit and stated direction.
_Row = tuple[str, str, str, float, str, str]
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)
#: What github-action-benchmark writes before the JSON of its data.js.
_SCRIPT = b'window.BENCHMARK_DATA = '
#: Tools of github-action-benchmark of whose figures more is better, and whose figures are of both kinds.
_MORE, _BOTH = ('customBiggerIsBetter', 'benchmarkjs', 'pytest'), ('jmh',)


def recognised(raw: bytes) -> str:
    """Return the format of a file by its first bytes; '' where it is none of a tracker's."""
    if raw.startswith(_SCRIPT):
        return 'benchmark-action'
    if raw.lstrip()[:1] in (b'{', b'['):
        if b'"context"' in raw and b'"library_' in raw:
            return 'google-benchmark'
        return 'benchmark-action' if b'"entries"' in raw else ''
    return ''


def asv(path: Path, reading: Reading) -> Rows:
    """Read a results folder of airspeed velocity (asv), version 2: a night is a commit, by its date."""
    file = path / 'benchmarks.json'
    about = _json(file, reading.unpacked(file))

    def rows(run: dict[str, Any]) -> Iterator[_Row]:
        for benchmark, result in run['results'].items():
            place = f'{run["params"]["machine"]}:{run["env_name"]}'
            columns = dict(zip(run['result_columns'], result, strict=False))
            parameters = itertools.product(*columns['params'])
            values = columns['result'] or ()
            for value, words in zip(values, parameters, strict=True):
                series = f'{benchmark}({", ".join(words)})@{place}'
                night = _night(run['date'])
                unit = about[benchmark]['unit']
                yield series, benchmark, night, value, unit, ''

    runs = path.glob('*/*-*.json')
    figures = _of_files(runs, reading, 'result of asv, version 2', rows)
    return Rows('results of asv, a night a commit', _frame(path, figures))


def benchmark_action(path: Path, reading: Reading) -> Rows:
    """Read data.js of github-action-benchmark, or its JSON: a night is an entry, by its date."""
    def rows(page: dict[str, Any]) -> Iterator[_Row]:
        suites = page['entries']
        for suite, nights in suites.items():
            for night in nights:
                stated = _stated(night['tool'])
                for bench in night['benches']:
                    name = bench['name']
                    if len(suites) > 1:
                        name = f'{suite}: {name}'
                    yield name, '', _night(night['date']), bench['value'], bench['unit'], stated

    raw = reading.unpacked(path)
    page = _json(path, raw.removeprefix(_SCRIPT))
    what = "data.js or JSON of github-action-benchmark, {'entries': {SUITE: [...]}}"
    figures = _made(path, what, rows, page)
    return Rows('results of github-action-benchmark, a night a run of it', _frame(path, figures))


def _stated(tool: str) -> str:
    """Return the direction of the figures of a tool of github-action-benchmark."""
    if tool in _BOTH:
        return ''
    return 'higher' if tool in _MORE else 'lower'


def google_benchmark(path: Path, reading: Reading) -> Rows:
    """Read the JSON of Google Benchmark (--benchmark_out), or a folder of files: a night is a file, by its date.

    Means and other aggregates are left out where the repetitions stand beside them."""
    def rows(run: dict[str, Any]) -> Iterator[_Row]:
        began = datetime.datetime.fromisoformat(run['context']['date'])
        night = _night(began.timestamp() * 1000)
        for result in run['benchmarks']:
            if result.get('run_type') == 'aggregate' or result.get('error_occurred'):
                continue
            name = result.get('run_name') or result['name']
            yield name, '', night, result['real_time'], result['time_unit'], 'lower'
            for rate in ('bytes_per_second', 'items_per_second'):
                if rate in result:
                    unit = rate.replace('_per_second', '/s')
                    yield f'{name}: {rate}', '', night, result[rate], unit, 'higher'

    what = "JSON of Google Benchmark, {'context': ..., 'benchmarks': [...]}"
    pages = path.glob('*.json*') if path.is_dir() else [path]
    figures = _of_files(pages, reading, what, rows)
    return Rows('results of Google Benchmark, a night a run of it', _frame(path, figures))


def _night(milliseconds: float) -> str:
    time = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc)
    return f'{time:%Y-%m-%dT%H:%M:%S}'


def _json(file: Path, raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError as err:
        raise UsageError(f'{file}: must be JSON: {err}') from None
    except RecursionError:
        raise UsageError(f'{file}: nested too deeply; must be JSON that a tracker wrote') from None


def _of_files(pages: Iterable[Path], reading: Reading, what: str, rows: Callable[[Any], Iterator[_Row]]
              ) -> list[_Row]:
    figures = []
    for file in reading.listed(pages):
        data = _json(file, reading.unpacked(file))
        figures += _made(file, what, rows, data)
    return figures


def _made(file: Path, what: str, rows: Callable[[Any], Iterator[_Row]], data: Any) -> list[_Row]:
    """Return the rows of what a file holds. UsageError where it is not ``what``."""
    try:
        return list(rows(data))
    except _MALFORMED as err:
        why = f'{type(err).__name__}: {err}'
        raise UsageError(f'{file}: this is no {what} ({why}): --format names another form') from None


def _frame(path: Path, rows: list[_Row]) -> pl.DataFrame:
    """Return the rows with a figure. NothingMeasured without any."""
    value = pl.col('value')
    try:
        frame = pl.DataFrame(rows, _COLUMNS, orient='row', infer_schema_length=None)
        numbers = frame.with_columns(value.cast(pl.Float64))
        figures = numbers.filter(value.is_finite())
    except pl.exceptions.PolarsError as err:
        raise UsageError(f'{path}: a value or a name has the wrong type ({err}); a name must be text, '
                         'a value a number') from None
    if not figures.height:
        raise NothingMeasured(f'{path}: no result of a benchmark is in it; name another')
    return figures
