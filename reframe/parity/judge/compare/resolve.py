"""The meaning of a word on the command line: a partition, a session, or a file with results."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import polars as pl

from parity.base import files, paths
from parity.base.csvfile import CsvTable, number
from parity.base.errors import NothingMeasured, UsageError, unknown
from parity.base.reasons import Kind
from parity.base.text import node_name
from parity.judge.compare import named
from parity.judge.compare.model import Measured, Side, Value, differing
from parity.judge.compare.named import NamedNode
from parity.judge.store import database, history, plan_file, record
from parity.site import systems
from parity.site.identity import OF_DEVICE
from parity.site.plan import PASSED

#: How far the runs of a partition go back from its newest session.
DAYS = 14
#: How far a variance between nights is looked for before the older side.
_PAST = 30
_PLACE = re.compile(r'[A-Za-z0-9_-]+:[A-Za-z0-9_-]+(\+[A-Za-z0-9_-]+)?')


def sides(baseline: str, candidate: str) -> tuple[Side, Side]:
    """Return both sides of a comparison.

    UsageError: a word means nothing, or both are the same runs. NothingMeasured: nothing is stored of one."""
    one, other = _side(baseline), _side(candidate)
    _narrow(one, other)
    _narrow(other, one)
    runs = [{(*_key(c), v.session, v.when) for c in side.cells for v in c.values if c.place}
            for side in (one, other)]       # stored ones: a CSV's have no place, and could not be told from others
    if baseline == candidate or runs[0] & runs[1]:
        raise UsageError(f'{baseline} and {candidate} are the same runs: name another partition, '
                         'session or file')
    if one.name == other.name:
        one.name, other.name = baseline, candidate
    partitions = {side.name.partition(':')[0] for side in (one, other) if side.kind == 'partition'}
    return settled(one, other, slow=[node for system in sorted(partitions) for node in named.of_system(system)])


def settled(*sides: Side, slow: Sequence[NamedNode] = ()) -> tuple[Side, ...]:
    """Keep of every cell the runs that are like its newest one: a window of nights may hold an upgrade. Leave out
    a partition's runs on the nodes that incidents name, ``slow``. Give each cell of one session its runs of
    earlier nights, which tell how far nights differ."""
    for side in sides:
        before = sum(len(cell.values) for cell in side.cells)
        for cell in side.cells:
            cell.values = [v for v in cell.values if not differing(v.facts, cell.facts)]
        if left_out := before - sum(len(cell.values) for cell in side.cells):
            side.notes.append(f'{left_out} older runs left out: not like the newest (software, size, ranks ...)')
    starts = database.starts() if slow else {}
    for side in sides:
        for cell in side.cells if side.kind == 'partition' else ():
            named.leave_out(cell, slow, starts)
    cells = [c for side in sides if side.kind in ('partition', 'session') for c in side.cells
             if len({v.session for v in c.values}) == 1]
    starts, known = database.starts() if cells else {}, {s for side in sides for s in side.sessions}
    found: dict[tuple, Measured] = {}
    for system, name in {tuple(c.place.split(':')) for c in cells}:
        until = min(known & starts.keys(), key=starts.get)
        nights = _without_reruns(database.sessions_of(system, name, _PAST, until))
        found |= {_key(c): c for c in of_rows('', 'session', nights).cells}
    for cell in cells:
        of = found.get(_key(cell), cell)
        cell.past = [v for v in of.values if v.session not in known and of.label == cell.label
                     and not differing(v.facts, cell.facts)]
    return sides


def _without_reruns(uuids: Iterable[str]) -> pl.LazyFrame:
    """Return what was planned and measured in these sessions, but for reruns: they are of slow cases only."""
    return history.counted(history.rows(uuids), labelled=True, disturbed=True)


def _side(word: str) -> Side:
    if word.endswith(('.json', '.csv')) or '/' in word or Path(word).is_file():
        return of_file(word)
    if _PLACE.fullmatch(word):
        return partition(word)
    if not re.fullmatch(r'[0-9a-fA-F-]+', word):
        raise UsageError(f'{word!r} is none of these: must be system:partition, a session (parity verdict names '
                         'it), or a file with results: a report of ReFrame (.json) or a .csv')
    session = database.read(database.uuid(word))
    return of_rows(f'session {session.uuid[:8]}', 'session', history.of_session(session).lazy())


def partition(word: str, until: str = '', metrics: Collection[str] = ()) -> Side:
    """The runs of a partition in the sessions of the last ``DAYS`` days before its newest one, or before the
    session ``until``; of ``metrics`` only where they are given: Check.metric, Check.metric_gpu of all devices.
    SYSTEM:PARTITION+ENVIRONMENT has those of one environment. Without ``until`` there must be some: else
    UsageError or NothingMeasured is raised."""
    place, _, environ = word.partition('+')
    system, name = place.split(':')
    found = database.sessions_of(system, name, days=DAYS, until=until)
    if not found and not until:         # one that exists was not measured, another is a mistake
        stored = database.partitions()
        valid = {*stored, *(f'{s}:{p.name}' for s in systems.names() for p in systems.read(s).partitions)}
        raise NothingMeasured(f'{word}: nothing is stored for it; run: {paths.nightly(system)}; measured: '
                              f'{", ".join(stored) or "none"}') \
            if place in valid else UsageError(unknown('partition', place, sorted(valid)))
    rows = _without_reruns(found).filter(system=system, partition=name)
    if environ:
        measured = rows.select(pl.col('environ').unique()).collect()['environ'].sort().to_list()
        if environ not in measured:
            raise UsageError(unknown(f'environment of {place}', environ, measured))
        rows = rows.filter(environ=environ)
    named = (pl.col('check') + '.' + pl.col('metric')).str.replace(OF_DEVICE, '_gpu')
    return of_rows(word, 'partition', rows.filter(named.is_in(metrics)) if metrics else rows)


def _narrow(side: Side, against: Side) -> None:
    """Keep one partition of several, as the other side has; leave its runs out of a window of nights."""
    if len(against.places) == 1 < len(side.places):
        wanted, = against.places
        if wanted not in side.places:
            raise UsageError(f'{side.name} holds several partitions ({", ".join(side.places)}), {against.name} '
                             f'another one: {wanted}; name a partition as system:partition')
        side.cells = [c for c in side.cells if c.place == wanted]
        side.notes.append(f'its runs on {wanted} only')
    if side.kind == 'partition' != against.kind and set(against.sessions) & set(side.sessions):
        for cell in side.cells:
            cell.values = [v for v in cell.values if v.session not in against.sessions]
        if not any(c.values for c in side.cells):
            raise NothingMeasured(f'{side.name} holds no other runs than those of {against.name}: measure again')
        side.sessions = [s for s in side.sessions if s not in against.sessions]
        side.notes.append(f'without the runs of {against.name}')


_NEEDED = ('benchmark', 'metric', 'value')
_OPTIONAL = ('unit', 'direction', 'subsystem', 'session')
#: Columns of a history, which a table of `parity parse --csv` has, too.
_OF_HISTORY = ('series', 'night', 'kind', 'run')
_DIRECTIONS = ('higher', 'lower')


def of_file(file: str) -> Side:
    """Return the side in a file. UsageError gives file, line and what would be valid."""
    path = Path(file)
    raw = files.read(path)
    if path.suffix == '.csv':
        return Side(path.name, 'file', _of_csv(file, raw))
    try:
        report = json.loads(raw.decode('utf-8'))
    except (ValueError, RecursionError) as err:
        raise UsageError(f'{file}:{getattr(err, "lineno", 1)}: not JSON in UTF-8: {err}; a file with results is a '
                         'report of ReFrame (.json) or a .csv') from None
    here = path.resolve().parent.parent / 'sessions'     # a report lies in reports/, beside it
    try:
        session = record.of_report(plan_file.joined(report, here if here.is_dir() else plan_file.folder()))
        side = of_rows(path.name, 'file', history.of_session(session).lazy())
    except (*database.MALFORMED, database.Unreadable):
        raise UsageError(f'{path}: not a report of ReFrame: no session_info, or no runs with testcases; '
                         'reframe --report-file writes one') from None
    side.notes += [f'{session.lost}: cases that never ran are not in it'] if session.lost else []
    return side


def _of_csv(file: str, raw: bytes) -> list[Measured]:
    cells: dict[tuple[str, str], Measured] = {}
    for line, fields in CsvTable(raw, file, _NEEDED, (*_OPTIONAL, *_OF_HISTORY)).rows():
        row = {'session': '-', 'unit': '', **fields}
        if empty := [name for name in ('benchmark', 'metric', 'session') if not row[name]]:
            raise UsageError(f'{file}:{line}: {empty[0]} must not be empty')
        key, unit = (row['benchmark'], row['metric']), row['unit']
        direction = row.get('direction') or _DIRECTIONS[0]
        if direction not in _DIRECTIONS:
            raise UsageError(f'{file}:{line}: direction {direction[:80]!r}; valid: {", ".join(_DIRECTIONS)}')
        cell = cells.setdefault(key, Measured(row.get('subsystem', ''), key[0], *key, unit, direction))
        if (said := (unit, direction)) != (before := (cell.unit, cell.better)):
            raise UsageError(f'{file}:{line}: {": ".join(key)}: unit and direction {" ".join(said)}, above '
                             f'{" ".join(before)}: all rows of a metric must have the same')
        cell.values.append(Value(number(row['value'], f'{file}:{line}: value'), session=row['session']))
    return list(cells.values())


_CELL = ('case', 'place', 'environ', 'metric')
_key = attrgetter(*_CELL)
_ABOUT = ('subsystem', 'check', 'unit', 'better', 'changed')
_RUN = ('session', 'value', 'ended', 'status', 'kind', 'reason', 'label', 'why', 'alike', 'disturbed', 'node')
_facts = cache(json.loads)


@cache
def _nodes(stored: str | None) -> tuple[str, ...]:
    return tuple(node_name(name) for name in (stored or '').replace(',', ' ').split())


def of_rows(name: str, kind: str, rows: pl.LazyFrame) -> Side:
    """Make one side of rows of parity.judge.store.history, the oldest session first."""
    rows = rows.with_columns(place=pl.col('system') + ':' + pl.col('partition'), changed=pl.col('changed') != '')
    figures = rows.filter(pl.col('label') != PASSED)
    cells, measured, sessions = pl.collect_all([
        figures.group_by(_CELL, maintain_order=True).agg(pl.col(_ABOUT).last(), pl.col(_RUN)),
        rows.filter(pl.col('context') != '').select('context').unique(maintain_order=True),
        rows.select('session').unique(maintain_order=True)])
    facts: dict[str, dict[str, None]] = defaultdict(dict)       # what the nodes that measured said of themselves
    for context in measured['context']:
        for fact, value in json.loads(context).items():
            facts[fact][value] = None
    return Side(name, kind, [_cell(row) for row in cells.iter_rows(named=True)], sessions['session'].to_list(),
                {fact: [*values] for fact, values in facts.items()})


def with_disturbed(name: str, rows: pl.LazyFrame) -> Side:
    """Make one side of a session's rows. Figures of disturbed runs, labelled, stand where a cell has no others."""
    disturbed = (pl.col('status') == 'disturbed') & pl.col('value').is_not_null()
    shown = of_rows(name, 'session', rows.filter(disturbed).with_columns(
        status=pl.lit(''), label=pl.lit('disturbed'), why=pl.lit('')))      # one label: all runs count together
    also = {(cell.case, cell.metric, cell.place): cell for cell in shown.cells}
    of = of_rows(name, 'session', rows)
    return replace(of, cells=[
        cell if cell.values else replace(also.get((cell.case, cell.metric, cell.place), cell), reason=cell.reason)
        for cell in of.cells])


def _cell(row: dict[str, Any]) -> Measured:
    """Make a cell of several sessions. The newer one's word holds, and its runs join the older ones.

    Figures out of a cache and others are never put together: the newer ones stay."""
    cell = Measured(**{name: row[name] for name in _CELL + _ABOUT})
    for session, night in groupby(zip(*(row[name] for name in _RUN), strict=True), key=itemgetter(0)):
        values, label = [], ''
        for _, value, ended, status, kind, reason, word, why, alike, disturbed, nodes in night:
            if not status:
                values.append(Value(value, ended, session, _facts(alike), _nodes(nodes)))
                label = f'{word}: {why}' if word else label
            if not (disturbed and values):
                cell.status, cell.kind, cell.reason = status, Kind(kind), f'{status}: {reason}' if status else ''
        if values:
            values.sort(key=lambda each: each.when or 0.0)
            cell.values = [*cell.values, *values] if label == cell.label else values
            cell.label = label
    return cell
