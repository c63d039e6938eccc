"""The meaning of a word on the command line: a partition, a session, or a file with results."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import polars as pl

from parity.base import files
from parity.base.errors import NothingMeasured, UsageError, unknown
from parity.compare.model import Measured, Side, Value, differing
from parity.plan import PASSED
from parity.plan.identity import OF_DEVICE
from parity.records import database, history, outset, record
from parity.system import systems

#: How far the runs of a partition go back from its newest session.
DAYS = 14
#: How far a variance between nights is looked for before the older side.
_PAST = 30
_PLACE = re.compile(r'[A-Za-z0-9_-]+:[A-Za-z0-9_-]+')
_VALID = ('must be system:partition, a session (parity verdict names it), or a file with results: '
          'a report of ReFrame (.json) or a .csv')


def sides(baseline: str, candidate: str) -> tuple[Side, Side]:
    """Return both sides of a comparison.

    UsageError: a word means nothing, or both are the same runs. NothingMeasured: nothing is stored of one."""
    one, other = _side(baseline), _side(candidate)
    one, other = _one_place(one, other), _one_place(other, one)
    for side, against in ((one, other), (other, one)):
        if side.kind == 'partition':
            _without(side, against)
    if baseline == candidate or _runs(one) & _runs(other):
        raise UsageError(f'{baseline} and {candidate} are the same runs: nothing to compare')
    if one.name == other.name:
        one.name, other.name = baseline, candidate
    return settled(one, other)


def settled(*sides: Side) -> tuple[Side, ...]:
    """Keep of every cell the runs that are like its newest one: a window of nights may hold an upgrade."""
    for side in sides:
        before = sum(len(cell.values) for cell in side.cells)
        for cell in side.cells:
            cell.values = [v for v in cell.values if not differing(v.facts, cell.facts)]
        if left_out := before - sum(len(cell.values) for cell in side.cells):
            side.notes.append(f'{left_out} older runs left out: not like the newest (software, size, ranks ...)')
    _remember(sides)
    return sides


def _side(word: str) -> Side:
    if word.endswith(('.json', '.csv')) or '/' in word or Path(word).is_file():
        return of_file(word)
    if ':' in word:
        return partition(word)
    if not re.fullmatch(r'[0-9a-fA-F-]+', word):
        raise UsageError(f'{word!r} is none of these: {_VALID}')
    session = database.read(database.uuid(word))
    return of_rows(f'session {session.uuid[:8]}', 'session', history.of_session(session).lazy())


def partition(word: str, until: str = '', metrics: Collection[str] | None = None) -> Side:
    """The runs of a partition in the sessions of the last ``DAYS`` days before its newest one, or before
    the session ``until``; of ``metrics`` (Check.metric) only where they are given. Without ``until`` there must
    be some: else UsageError or NothingMeasured is raised.

    Sessions that confirm another's figures are left out, because only slow cases are measured again."""
    if not _PLACE.fullmatch(word):
        raise UsageError(f'{word!r}: a partition is written system:partition')
    system, name = word.split(':')
    found = database.sessions_of(system, name, days=DAYS, until=until)
    if not found and not until:
        raise _no_such(word)
    rows = history.rows(found).filter(pl.col('rerun_of') == '', pl.col('system') == system,
                                      pl.col('partition') == name)
    return of_rows(word, 'partition', rows, metrics)


def _no_such(word: str) -> Exception:
    """Return the error for a partition without runs: one that exists was not measured, another is a mistake."""
    valid = sorted({*database.partitions(), *(f'{s}:{p.name}' for s in systems.names()
                                              for p in systems.read(s).partitions)})
    if word in valid:
        return NothingMeasured(f'{word}: nothing is stored for it; measured are: '
                               f'{", ".join(database.partitions()) or "none"}')
    return UsageError(unknown('partition', word, valid))


def _one_place(side: Side, against: Side) -> Side:
    """Keep one partition of a side with several: the one that the other, single-partition side has."""
    if len(against.places) != 1 or len(side.places) < 2:
        return side
    wanted = against.places[0]
    if wanted not in side.places:
        raise UsageError(f'{side.name} holds several partitions ({", ".join(side.places)}), {against.name} '
                         f'another one: {wanted}; name a partition as system:partition')
    side.cells = [c for c in side.cells if c.place == wanted]
    side.notes.append(f'its runs on {wanted} only')
    return side


def _without(window: Side, against: Side) -> None:
    """Take the other side's runs out of a window of nights."""
    if against.kind == 'partition' or not set(against.sessions) & set(window.sessions):
        return
    before = sum(len(c.values) for c in window.cells)
    for cell in window.cells:
        cell.values = [v for v in cell.values if v.session not in against.sessions]
    if before and not any(c.values for c in window.cells):
        raise NothingMeasured(f'{window.name} holds no other runs than those of {against.name}')
    window.sessions = [s for s in window.sessions if s not in against.sessions]
    window.notes.append(f'without the runs of {against.name}')


def _runs(side: Side) -> set[tuple]:
    """Return the stored runs of a side; a CSV has none that could be told from others."""
    return {(c.case, c.metric, c.place, c.environ, v.session, v.when)
            for c in side.cells for v in c.values if c.place}


def _remember(sides: Iterable[Side]) -> None:
    """Give each cell of one session its runs of earlier nights, which tell how far nights differ."""
    cells = [c for side in sides if side.kind in ('partition', 'session') for c in side.cells
             if len({v.session for v in c.values}) == 1]
    starts, known = database.starts() if cells else {}, {s for side in sides for s in side.sessions}
    found: dict[tuple, Measured] = {}
    for system, name in {tuple(c.place.split(':')) for c in cells}:
        until = min(known & starts.keys(), key=starts.get)
        nights = history.rows(database.sessions_of(system, name, _PAST, until)).filter(pl.col('rerun_of') == '')
        found |= {_key(c): c for c in of_rows('', 'session', nights).cells}
    for cell in cells:
        of = found.get(_key(cell), cell)
        cell.past = [v for v in of.values if v.session not in known and of.label == cell.label
                     and not differing(v.facts, cell.facts)]


_NEEDED = ('benchmark', 'metric', 'value')
_OPTIONAL = ('unit', 'direction', 'subsystem', 'session')
_NAMED = ('benchmark', 'metric', 'session')
_DIRECTIONS = ('higher', 'lower')


def of_file(file: str) -> Side:
    """Return the side in a file. UsageError gives file, line and what would be valid."""
    path = Path(file)
    raw = files.read(path)
    if path.suffix == '.csv':
        return Side(path.name, 'file', _of_csv(file, raw))
    try:
        return _report(path, json.loads(raw.decode('utf-8')))
    except json.JSONDecodeError as err:
        raise UsageError(f'{file}:{err.lineno}: not JSON: {err.msg}; a file with results is a report of ReFrame '
                         '(.json) or a .csv') from None
    except (ValueError, RecursionError) as err:      # ValueError: bytes that are no UTF-8
        raise UsageError(f'{file}: not a {path.suffix or "report"} in UTF-8: {err}') from None


def _report(path: Path, report: Any) -> Side:
    try:
        here = path.resolve().parent.parent / 'sessions'     # a report lies in reports/, beside it
        session = record.of_report(outset.joined(report, here if here.is_dir() else outset.folder()))
        of_file = of_rows(path.name, 'file', history.of_session(session).lazy())
        of_file.notes += [f'{session.lost}: what never ran is not told'] if session.lost else []
        return of_file
    except (*database.MALFORMED, database.Unreadable):
        raise UsageError(f'{path}: not a report of ReFrame: no session_info, or no runs with testcases') from None


def _of_csv(file: str, raw: bytes) -> list[Measured]:
    cells: dict[tuple[str, str], Measured] = {}
    for line, fields in files.rows(raw, file, _bad_header):
        row = {name.strip(): value.strip() for name, value in fields.items()}
        key, unit = (row['benchmark'], row['metric']), row.get('unit', '')
        direction = row.get('direction') or _DIRECTIONS[0]
        if not all(named := (*key, session := row.get('session', '-'))):
            raise UsageError(f'{file}:{line}: {_NAMED[named.index("")]} must not be empty')
        if direction not in _DIRECTIONS:
            raise UsageError(f'{file}:{line}: direction {direction[:80]!r}; valid: {", ".join(_DIRECTIONS)}')
        cell = cells.setdefault(key, Measured(row.get('subsystem', ''), key[0], *key, unit, direction))
        if (said := (unit, direction)) != (before := (cell.unit, cell.better)):
            raise UsageError(f'{file}:{line}: {key}: unit and direction {said}, before {before}')
        cell.values.append(Value(files.number(row['value'], f'{file}:{line}: value'), session=session))
    if not cells:
        raise UsageError(f'{file}: holds no row below its header')
    return list(cells.values())


def _bad_header(header: Sequence[str]) -> str:
    columns = [c.strip() for c in header]
    valid = f'valid: {", ".join(_NEEDED)}, and perhaps {", ".join(_OPTIONAL)}'
    if wrong := [c for c in columns if c not in _NEEDED + _OPTIONAL]:
        return f'unknown column {wrong[0][:80]!r}; {valid}'
    if lacking := [c for c in _NEEDED if c not in columns]:
        return f'no column {", ".join(lacking)}; {valid}'
    return f'a column is there twice; {valid}' if len(set(columns)) < len(columns) else ''


_CELL = ('case', 'place', 'environ', 'metric')
_key = attrgetter(*_CELL)
_OF_CELL = (*_CELL, 'subsystem', 'check', 'unit', 'better', 'changed')
_RUN = ('session', 'value', 'ended', 'reason', 'label', 'why', 'alike', 'disturbed')
_facts = cache(json.loads)


def of_rows(name: str, kind: str, rows: pl.LazyFrame, metrics: Collection[str] | None = None) -> Side:
    """Make one side of rows of parity.records.history, the oldest session first; of these ``metrics`` only.
    Check.metric_gpu is the metric of every device."""
    rows = rows.with_columns(place=pl.col('system') + ':' + pl.col('partition'))
    named = pl.col('check') + '.' + pl.col('metric')
    wanted = rows if metrics is None else rows.filter(
        named.is_in(metrics) | named.str.replace(OF_DEVICE, '_gpu').is_in(metrics))
    cells = wanted.filter(pl.col('label') != PASSED).group_by(_CELL, maintain_order=True).agg(
        pl.col('subsystem', 'check', 'unit', 'better').last(), pl.col(_RUN),
        changed=(pl.col('changed') != '').any())
    measured = rows.filter(pl.col('context') != '').select('context').unique(maintain_order=True)
    sessions = rows.select('session').unique(maintain_order=True)
    cells, measured, sessions = pl.collect_all([cells, measured, sessions])
    return Side(name, kind, [_cell(row) for row in cells.iter_rows(named=True)], sessions['session'].to_list(),
                _context(measured))


def _cell(row: dict[str, Any]) -> Measured:
    """Make a cell of several sessions. The newer one's word holds, and its runs join the older ones.

    Figures out of a cache and others are never put together: the newer ones stay."""
    cell = Measured(**{name: row[name] for name in _OF_CELL})
    runs = zip(*(row[name] for name in _RUN), strict=True)
    for session, night in groupby(runs, key=lambda run: run[0]):
        values, label = [], ''
        for _, value, ended, reason, word, why, alike, disturbed in night:
            if not reason:
                values.append(Value(value, ended, session, _facts(alike)))
                label = f'{word}: {why}' if word else label
            if not (disturbed and values):
                cell.reason = reason
        if values:
            values.sort(key=lambda each: each.when or 0.0)
            cell.values = [*cell.values, *values] if label == cell.label else values
            cell.label = label
    return cell


def _context(measured: pl.DataFrame) -> dict[str, list[str]]:
    """Return what the nodes that measured said of themselves."""
    found: dict[str, dict[str, None]] = {}
    for said in measured['context']:
        for fact, value in json.loads(said).items():
            found.setdefault(fact, {})[value] = None
    return {fact: [*values] for fact, values in found.items()}
