"""The meaning of a word on the command line: a system, a partition, a session, or a file with results."""

from __future__ import annotations

import json
import re
from collections import namedtuple
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from operator import attrgetter
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
    if baseline == candidate or _runs(one) & _runs(other):
        raise UsageError(f'{baseline} and {candidate} are the same runs: name another partition, '
                         'session or file')
    if one.name == other.name:
        one.name, other.name = baseline, candidate
    compared = {*one.sessions, *other.sessions}
    for side in (one, other):
        with side.where():
            slow: list[NamedNode] = []
            if side.kind == 'partition':
                for system in side.systems:
                    slow += named.of_system(system)
            _settle(side, slow, compared)
    return one, other


def _runs(side: Side) -> set[tuple]:
    """Return the stored runs: a CSV's have no place, and could not be told from others."""
    runs = set()
    for cell in side.cells:
        if cell.place:
            runs |= {(*_key(cell), value.session, value.when) for value in cell.values}
    return runs


def settled(*sides: Side, slow: Sequence[NamedNode] = ()) -> tuple[Side, ...]:
    """Settle sides of one results folder, with the nodes that incidents name, ``slow``."""
    compared = {session for side in sides for session in side.sessions}
    for side in sides:
        _settle(side, slow, compared)
    return sides


def _settle(side: Side, slow: Sequence[NamedNode], compared: set[str]) -> None:
    """Keep of every cell the runs that are like its newest one: a window of nights may hold an upgrade. Leave out
    a partition's runs on the nodes that incidents name, ``slow``. Give each cell of one session its runs of
    earlier nights, which tell how far nights differ; ``compared``: the sessions of both sides."""
    _keep_alike(side)
    if side.kind == 'partition':
        starts = database.starts() if slow else {}
        for cell in side.cells:
            named.leave_out(cell, slow, starts)
    if side.kind not in ('partition', 'session'):
        return
    of_one_session = []
    for cell in side.cells:
        sessions = {run.session for run in cell.values}
        if len(sessions) == 1:
            of_one_session.append(cell)
    if of_one_session:
        _give_past(of_one_session, compared)


def _keep_alike(side: Side) -> None:
    left_out = 0
    for cell in side.cells:
        alike = [value for value in cell.values if not differing(value.facts, cell.facts)]
        left_out += len(cell.values) - len(alike)
        cell.values = alike
    if left_out:
        side.notes.append(f'{left_out} older runs left out: not like the newest (software, size, ranks ...)')


def _give_past(cells: list[Measured], compared: set[str]) -> None:
    """Give the cells their runs before the sessions that are ``compared``."""
    starts = database.starts()
    earlier: dict[tuple, Measured] = {}
    for place in {cell.place for cell in cells}:
        system, partition_name = place.split(':')
        first = min(compared & starts.keys(), key=starts.get)
        sessions = database.sessions_of(system, partition_name, _PAST, first)
        before = of_rows('', 'session', _without_reruns(sessions))
        for cell in before.cells:
            earlier[_key(cell)] = cell
    for cell in cells:
        past = earlier.get(_key(cell), cell)
        cell.past = []
        if past.label != cell.label:
            continue
        for value in past.values:
            if value.session not in compared and not differing(value.facts, cell.facts):
                cell.past.append(value)


def _without_reruns(uuids: Iterable[str]) -> pl.LazyFrame:
    """Return what was planned and measured in these sessions, but for reruns: they are of slow cases only."""
    return history.counted(history.rows(uuids), labelled=True, disturbed=True)


def _side(word: str) -> Side:
    """Return what a word means; FOLDER@WORD means it in another results folder."""
    before, _, stored = word.rpartition('@')
    if before and Path(before).is_dir():
        return _elsewhere(Path(before), stored)
    if (Path(word) / 'results.db').is_file():
        return _elsewhere(Path(word), '')
    return _here(word)


def _elsewhere(folder: Path, word: str) -> Side:
    """Return the side that a word means in a results folder; '' is its only system."""
    with paths.of_results(folder):
        if not paths.database().is_file():
            raise UsageError(f'{folder}: no results.db is here; name a results folder of parity')
        stored = _systems_stored()
        if not word and len(stored) != 1:
            valid = ', '.join(stored) or 'no system'
            raise UsageError(f'{folder}: must be {folder}@SYSTEM; it has {valid}')
        side = _here(word or stored[0])
    side.results = folder
    return side


def _systems_stored() -> list[str]:
    stored = {_system_of(place) for place in database.partitions()}
    return sorted(stored)


def _system_of(place: str) -> str:
    """Return the system of a place, SYSTEM:PARTITION."""
    system, _, _ = place.partition(':')
    return system


def partition_of(place: str) -> str:
    """Return the partition of a place, SYSTEM:PARTITION."""
    _, _, name = place.partition(':')
    return name


def _here(word: str) -> Side:
    is_file = word.endswith(('.json', '.csv')) or '/' in word or Path(word).is_file()
    if is_file:
        return of_file(word)
    if _PLACE.fullmatch(word):
        return partition(word)
    if word in _systems_stored() or word in systems.names():
        return of_system(word)
    if not re.fullmatch(r'[0-9a-fA-F-]+', word):
        raise UsageError(f'{word!r} is none of these: must be system:partition, a system, a session (parity '
                         'verdict names it), a results folder, or a file with results: a report of ReFrame '
                         '(.json) or a .csv')
    uuid = database.uuid(word)
    session = database.read(uuid)
    rows = history.of_session(session).lazy()
    return of_rows(f'session {session.uuid[:8]}', 'session', rows)


def of_system(system: str) -> Side:
    """Return the runs of a system's partitions, of each in the last ``DAYS`` days before its newest session."""
    places = [place for place in database.partitions() if _system_of(place) == system]
    if not places:
        raise NothingMeasured(f'{system}: nothing is stored for it; run: {paths.nightly(system)}')
    nights: set[str] = set()
    for place in places:
        sessions = database.sessions_of(system, partition_of(place), days=DAYS)
        nights.update(sessions)
    in_order = [uuid for uuid in database.starts() if uuid in nights]
    rows = _without_reruns(in_order).filter(system=system)
    return of_rows(system, 'partition', rows)


def partition(word: str, until: str = '', metrics: Collection[str] = ()) -> Side:
    """The runs of a partition in the sessions of the last ``DAYS`` days before its newest one, or before the
    session ``until``; of ``metrics`` only where they are given: Check.metric, Check.metric_gpu of all devices.
    SYSTEM:PARTITION+ENVIRONMENT has those of one environment. Without ``until`` there must be some: else
    UsageError or NothingMeasured is raised."""
    place, _, environ = word.partition('+')
    system, name = place.split(':')
    sessions = database.sessions_of(system, name, days=DAYS, until=until)
    if not sessions and not until:
        raise _nothing_stored(word, place)
    rows = _without_reruns(sessions).filter(system=system, partition=name)
    if environ:
        environs = rows.select(pl.col('environ').unique()).collect()
        measured = environs['environ'].sort().to_list()
        if environ not in measured:
            raise UsageError(unknown(f'environment of {place}', environ, measured))
        rows = rows.filter(environ=environ)
    if metrics:
        metric = pl.col('check') + '.' + pl.col('metric')
        of_all_devices = metric.str.replace(OF_DEVICE, '_gpu')
        rows = rows.filter(of_all_devices.is_in(metrics))
    return of_rows(word, 'partition', rows)


def _nothing_stored(word: str, place: str) -> Exception:
    """Return the error: a partition that exists was not measured, another is a mistake."""
    stored = database.partitions()
    valid = set(stored)
    for name in systems.names():
        system = systems.read(name)
        valid |= {f'{name}:{partition.name}' for partition in system.partitions}
    if place not in valid:
        return UsageError(unknown('partition', place, sorted(valid)))
    nightly = paths.nightly(_system_of(place))
    measured = ', '.join(stored) or 'none'
    return NothingMeasured(f'{word}: nothing is stored for it; run: {nightly}; measured: {measured}')


def _narrow(side: Side, against: Side) -> None:
    """Keep one partition of several, as the other side has; leave its runs out of a window of nights."""
    if len(against.places) == 1 < len(side.places):
        _keep_partition(side, against)
    shared = set(against.sessions) & set(side.sessions)
    if side.kind != 'partition' or against.kind == 'partition' or not shared:
        return
    for cell in side.cells:
        cell.values = [value for value in cell.values if value.session not in shared]
    if not any(cell.values for cell in side.cells):
        raise NothingMeasured(f'{side.name} holds no other runs than those of {against.name}: measure again')
    side.sessions = [session for session in side.sessions if session not in shared]
    side.notes.append(f'without the runs of {against.name}')


def _keep_partition(side: Side, against: Side) -> None:
    """Keep the cells on the partition that the other side has alone."""
    only, = against.places
    name = partition_of(only)
    kept = [place for place in side.places if partition_of(place) == name]
    if not kept:
        several = ', '.join(side.places)
        raise UsageError(f'{side.name} holds several partitions ({several}), {against.name} another one: {only}; '
                         'name a partition as system:partition')
    side.cells = [cell for cell in side.cells if cell.place in kept]
    places = ', '.join(kept)
    side.notes.append(f'its runs on {places} only')


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
        line = getattr(err, 'lineno', 1)
        raise UsageError(f'{file}:{line}: not JSON in UTF-8: {err}; a file with results is a report of ReFrame '
                         '(.json) or a .csv') from None
    folder = path.resolve().parent.parent / 'sessions'     # a report lies in reports/
    if not folder.is_dir():
        folder = plan_file.folder()
    try:
        session = record.of_report(plan_file.joined(report, folder))
        rows = history.of_session(session).lazy()
        side = of_rows(path.name, 'file', rows)
    except (*database.MALFORMED, database.Unreadable):
        raise UsageError(f'{path}: not a report of ReFrame: no session_info, or no runs with testcases; '
                         'reframe --report-file writes one') from None
    if session.lost:
        side.notes.append(f'{session.lost}: cases that never ran are not in it')
    return side


def _of_csv(file: str, raw: bytes) -> list[Measured]:
    cells: dict[tuple[str, str], Measured] = {}
    optional = (*_OPTIONAL, *_OF_HISTORY)
    for line, fields in CsvTable(raw, file, _NEEDED, optional).rows():
        row = {'session': '-', 'unit': '', **fields}
        where = f'{file}:{line}'
        for name in ('benchmark', 'metric', 'session'):
            if not row[name]:
                raise UsageError(f'{where}: {name} must not be empty')
        benchmark, metric, unit = row['benchmark'], row['metric'], row['unit']
        better = row.get('direction') or _DIRECTIONS[0]
        if better not in _DIRECTIONS:
            valid = ', '.join(_DIRECTIONS)
            raise UsageError(f'{where}: direction {better[:80]!r}; valid: {valid}')
        cell = cells.get((benchmark, metric))
        if cell is None:
            subsystem = row.get('subsystem', '')
            cell = Measured(subsystem, benchmark, benchmark, metric, unit, better)
            cells[benchmark, metric] = cell
        if unit != cell.unit or better != cell.better:
            raise UsageError(f'{where}: {benchmark}: {metric}: unit and direction {unit} {better}, above '
                             f'{cell.unit} {cell.better}: all rows of a metric must have the same')
        value = number(row['value'], f'{where}: value')
        cell.values.append(Value(value, session=row['session']))
    return list(cells.values())


_CELL = ('case', 'place', 'environ', 'metric')
_key = attrgetter(*_CELL)
_ABOUT = ('subsystem', 'check', 'unit', 'better', 'changed')
_RUN = ('session', 'value', 'ended', 'status', 'kind', 'reason', 'label', 'why', 'alike', 'disturbed', 'node')
_Run = namedtuple('_Run', _RUN)
_facts = cache(json.loads)


@cache
def _nodes(stored: str | None) -> tuple[str, ...]:
    names = (stored or '').replace(',', ' ').split()
    return tuple(map(node_name, names))


def of_rows(name: str, kind: str, rows: pl.LazyFrame) -> Side:
    """Make one side of rows of parity.judge.store.history, the oldest session first."""
    place = pl.col('system') + ':' + pl.col('partition')
    is_changed = pl.col('changed') != ''
    rows = rows.with_columns(place=place, changed=is_changed)
    figures = rows.filter(pl.col('label') != PASSED)
    of_cell = figures.group_by(_CELL, maintain_order=True)
    by_cell = of_cell.agg(pl.col(_ABOUT).last(), pl.col(_RUN))
    with_context = rows.filter(pl.col('context') != '')
    contexts = with_context.select('context').unique(maintain_order=True)
    sessions = rows.select('session').unique(maintain_order=True)
    cells, contexts, sessions = pl.collect_all([by_cell, contexts, sessions])
    measured = [_cell(row) for row in cells.iter_rows(named=True)]
    facts = _facts_of_nodes(contexts['context'])
    return Side(name, kind, measured, sessions['session'].to_list(), facts)


def _facts_of_nodes(contexts: Iterable[str]) -> dict[str, list[str]]:
    """Return what the nodes that measured said of themselves: every value of each fact."""
    facts: dict[str, list[str]] = {}
    for context in contexts:
        for fact, value in json.loads(context).items():
            values = facts.setdefault(fact, [])
            if value not in values:
                values.append(value)
    return facts


def with_disturbed(name: str, rows: pl.LazyFrame) -> Side:
    """Make one side of a session's rows. Figures of disturbed runs, labelled, stand where a cell has no others."""
    is_disturbed = (pl.col('status') == 'disturbed') & pl.col('value').is_not_null()
    no_text = pl.lit('')
    labelled = rows.filter(is_disturbed).with_columns(
        status=no_text, label=pl.lit('disturbed'), why=no_text)      # one label: all runs count together
    stand_ins = {}
    for cell in of_rows(name, 'session', labelled).cells:
        stand_ins[cell.case, cell.metric, cell.place] = cell
    side = of_rows(name, 'session', rows)
    for index, cell in enumerate(side.cells):
        stand_in = stand_ins.get((cell.case, cell.metric, cell.place))
        if stand_in and not cell.values:
            side.cells[index] = replace(stand_in, reason=cell.reason)
    return side


def _cell(row: dict[str, Any]) -> Measured:
    """Make a cell of several sessions. The newer one's word holds, and its runs join the older ones.

    Figures out of a cache and others are never put together: the newer ones stay."""
    about = {name: row[name] for name in _CELL + _ABOUT}
    cell = Measured(**about)
    columns = [row[name] for name in _RUN]
    runs = map(_Run, *columns)
    for session, night in groupby(runs, attrgetter('session')):
        values, label = [], ''
        for run in night:
            if not run.status:
                facts, nodes = _facts(run.alike), _nodes(run.node)
                values.append(Value(run.value, run.ended, session, facts, nodes))
                if run.label:
                    label = f'{run.label}: {run.why}'
            if not (run.disturbed and values):
                cell.status, cell.kind = run.status, Kind(run.kind)
                cell.reason = f'{run.status}: {run.reason}' if run.status else ''
        if not values:
            continue
        values.sort(key=lambda value: value.when or 0.0)
        if label == cell.label:
            values = cell.values + values
        cell.values, cell.label = values, label
    return cell
