"""The design of an experiment on the cause of a slowdown: from an incident, or from two environments.

It is made of what is stored: the worst cells, the last good night and its software, a sound node."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median, stdev
from typing import Any, NamedTuple

import polars as pl

from parity.base import paths, times
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError, unknown
from parity.base.figures import several
from parity.base.text import node_name
from parity.cause.experiment import Measure, Trial, TurnSoftware, queued, weighted
from parity.cause.factorial import as_log
from parity.judge.nodes import listing
from parity.judge.nodes.listing import ListedNode
from parity.judge.stats import repeats
from parity.judge.store import database, history, plan_file
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Fault, Incident
from parity.judge.store.plan_file import CELL, cell_id
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.software import earlier
from parity.site import systems
from parity.site.systems import System

#: Cells of an incident that are measured, nights that tell their noise, and the noise where these tell none.
_CELLS, _NIGHTS, _NOISE = 6, 14, 0.02
#: Seconds of a case without a time.
_CASE_SECONDS = 60.0
#: Cells that are measured together have these in common.
_PLACE = ('partition', 'environ', 'size')
#: A difference of two environments by this share shows.
_TELLS = 0.04


def of_incident(incident: Incident) -> Trial:
    """Return the experiment on an incident. UsageError for one that cannot be measured, NothingMeasured where what
    it needs is not here."""
    system = systems.read(incident.system)
    rows = _rows(system.name)
    stored = _stored(incident, rows)
    worst = stored[0]
    environ = worst.columns['environ']
    nights_of_worst = _of_cell(rows, worst.columns)
    nights = _slow_and_good(incident, worst.fault, nights_of_worst)
    now = _side(environ, nights.slow)
    before = _side(environ, nights.good)
    has_other_software = before.identity != now.identity
    alike = [cell for cell in stored if cell.place == worst.place]
    together = alike[:_CELLS]
    measures = [_measure(cell, rows) for cell in together]
    columns = [cell.columns for cell in together]
    cases = [of_cell['case'] for of_cell in columns]
    trial = Trial(
        key=str(incident.number),
        system=system,
        partition=worst.columns['partition'],
        now=now,
        before=_available(before, incident.number) if has_other_software else None,
        cells=weighted(measures),
        arguments=_arguments(nights.slow['session'], cases),
        seconds=_seconds(rows, columns))
    ran_on = nights.slow['node'].split(',')
    return _placed(trial, ran_on, incident)


class SlowCell(NamedTuple):
    """A slower cell of an incident, and its columns in the history."""

    fault: Fault
    columns: dict[str, Any]

    @property
    def place(self) -> list[str]:
        """Return what cells that are measured together have in common."""
        return [self.columns[name] for name in _PLACE]


class SlowAndGood(NamedTuple):
    """Rows of the history: a cell's newest night in an incident, and its last one before."""

    slow: dict[str, Any]
    good: dict[str, Any]


def _stored(incident: Incident, rows: pl.DataFrame) -> list[SlowCell]:
    """Return the slower cells of an incident that have figures, the worst first. NothingMeasured without any."""
    cells = rows.select('system', *CELL, 'better').unique()
    by_name = {}
    for columns in cells.iter_rows(named=True):
        name = cell_id(columns, True)
        size = columns['size']
        by_name[f'{name} ({size})'] = columns
    stored = []
    for name, fault in _slower(incident):
        if name in by_name:
            stored.append(SlowCell(fault, by_name[name]))
    if not stored:
        raise NothingMeasured(f'incident {incident.number}: no figure of its cells is stored any more: the next '
                              'night measures them')
    return stored


def _slow_and_good(incident: Incident, worst: Fault, nights: pl.DataFrame) -> SlowAndGood:
    """Return the newest night of an incident, and the last one before it. NothingMeasured where one is not
    stored."""
    began = pl.col('start') >= worst.since
    good = nights.filter(~began)
    slow = nights.filter(began)
    for word, some in (('good', good), ('slow', slow)):
        if some.is_empty():
            raise NothingMeasured(f'incident {incident.number}: no {word} night of {worst.cell} is stored: there '
                                  'is nothing to compare')
    newest_slow = slow.row(-1, named=True)
    last_good = good.row(-1, named=True)
    return SlowAndGood(newest_slow, last_good)


def _slower(incident: Incident) -> list[tuple[str, Fault]]:
    """Return the slower cells of an incident, the worst first. UsageError where it has none to measure."""
    number = incident.number
    if incident.closed:
        raise UsageError(f'incident {number} is over: {incident.title}; its cells are in order, and two '
                         'environments can be compared: parity cause CASE --environ A --environ B')
    left = incident.left.items()
    slower = [(name, fault) for name, fault in left if _is_slower_figure(fault)]
    if slower:
        return sorted(slower, key=lambda item: -item[1].loss)
    of_nodes = [fault for _, fault in left if fault.listed]
    if of_nodes:
        node = of_nodes[0].nodes[0]
        raise UsageError(f'incident {number} is of a node without a slower cell: parity node {node} --gate '
                         'measures it beside its peers')
    faults = incident.left or incident.faults
    different_words = {fault.word for fault in faults.values()}
    words = several(sorted(different_words))
    raise UsageError(f'incident {number} has no slower figure ({words}): only a slowdown can be measured; '
                     f'parity show {number} has the reason')


def _is_slower_figure(fault: Fault) -> bool:
    """Return whether a fault is a slower figure of which both speeds are known."""
    if not fault.cell or fault.word != 'regressed':
        return False
    return bool(fault.value and fault.expected)


def _rows(system: str) -> pl.DataFrame:
    """Return the figures of a system, the oldest first, with text as text."""
    rows = history.load(system).cast({history.TEXT: pl.String})
    return rows.filter(pl.col('value') > 0)


def _of_cell(rows: pl.DataFrame, cell: dict[str, Any]) -> pl.DataFrame:
    """Return the rows of a cell, by its columns."""
    is_of_cell = [pl.col(name) == cell[name] for name in CELL]
    return rows.filter(*is_of_cell)


def _side(environ: str, row: dict[str, Any]) -> TurnSoftware:
    """Return the software of a session, by a row of its."""
    session = database.brief(row['session'])
    facts = {}
    if session:
        by_environ = session.facts.get('software') or {}
        facts = by_environ.get(environ) or {}
    return TurnSoftware(
        environ=environ,
        label=earlier.label(facts),
        identity=row['software'],
        facts=facts,
        night=times.day(row['start']))


def _available(side: TurnSoftware, number: int) -> TurnSoftware:
    """Return the side. NothingMeasured where its software is not there any more."""
    why = earlier.gone(side.facts) if side.facts else 'the session has no record of it'
    if why:
        raise NothingMeasured(f'incident {number}: the software of the last good night ({side.night}, '
                              f'{side.label}) cannot be measured: {why}')
    return replace(side, restored=True)


def _measure(cell: SlowCell, rows: pl.DataFrame) -> Measure:
    """Return a slower cell as the experiment measures it."""
    fault, columns = cell
    nights = _of_cell(rows, columns)
    measure = Measure(
        name=fault.cell,
        case=columns['case'],
        metric=columns['metric'],
        better=columns['better'],
        slower=0.0,
        noise=_noise(nights))
    expected = measure.log(fault.expected)
    slower = abs(expected - measure.log(fault.value))
    return replace(measure, slower=slower, expected=expected)


def _noise(rows: pl.DataFrame) -> float:
    """Return the noise of a run of a cell: within its nights; else between them."""
    nights = rows.partition_by('session', maintain_order=True)
    newest = nights[-_NIGHTS:]
    values = [night['value'].to_list() for night in newest]
    within = repeats.scatter(values)
    if within is not None:
        return within
    if len(newest) < 3:
        return _NOISE
    logs = [math.log(median(night)) for night in values]
    steps = [after - before for before, after in pairwise(logs)]
    return stdev(steps) / math.sqrt(2)


def _seconds(rows: pl.DataFrame, cells: Sequence[dict[str, Any]]) -> float:
    """Return the seconds that the cases take, each once."""
    of_case = {}
    for cell in cells:
        seconds = _of_cell(rows, cell)['seconds'].drop_nulls()
        of_case[cell['case']] = _CASE_SECONDS if seconds.is_empty() else seconds.median()
    return sum(of_case.values())


#: Options that say how often and where a night measured, not what.
_ELSEWHERE = ('--repeat', '--session-extras', '--distribute')


def _arguments(session: str, cases: Collection[str]) -> list[str]:
    """Return the arguments of a session that measure these cases, without those that say how often and where.

    Only the files of the cases are loaded, where the session's plan names them: a turn starts sooner."""
    stored = database.read(session)
    files = _files(stored.plan, cases)
    kept = []
    for file in files:
        kept += ['-c', file]
    words = iter(plan_file.words_again(stored.cmdline))
    for word in words:
        option, _, value = word.partition('=')
        if option in _ELSEWHERE:
            if not value and option != '--distribute':
                next(words, None)
        elif option in ('-c', '--checkpath') and files:
            value = value or next(words, '')
        elif option in ('-J', '--job-option'):
            value = value or next(words, '')
            if not value.startswith(('nodelist', 'exclude')):
                kept += ['-J', value]
        else:
            kept.append(word)
    return kept


def _files(plan: Mapping[str, Any], cases: Collection[str]) -> list[str]:
    """Return the files of the cases by a session's plan; [] where it does not name them all."""
    file_of = {case['case']: case.get('file', '') for case in plan.get('cases', ())}
    files = set()
    for case in cases:
        file = paths.root() / file_of.get(case, '')
        if not file.is_file():
            return []
        files.add(str(file))
    return sorted(files)


# ---- its nodes

def _placed(experiment: Trial, ran_on: Sequence[str], incident: Incident) -> Trial:
    """Return the experiment with the slow node and a sound one. NothingMeasured where nothing is left to vary."""
    number, system = incident.number, experiment.system
    if not queued(system, experiment.partition):
        if experiment.before:
            return experiment
        raise NothingMeasured(f'incident {number}: the software is that of the last good night, and {system.name} '
                              f'has no other node to measure; parity show {number} lists what changed')
    slow = incident.nodes[0] if incident.nodes else ran_on[0]
    others_of_job = [name for name in ran_on if name != slow]
    place = [slow, *others_of_job][:len(ran_on)]
    nodes = _takes(experiment)
    for name in place:
        if name not in nodes:
            raise NothingMeasured(f'incident {number}: {_why_not(system, name)}')
    experiment = replace(experiment, node=[nodes[name].asked for name in place])
    sound = _sound(nodes, place, system.name)
    if sound:
        peers = [sound, *experiment.node[1:]]
        return replace(experiment, peer=peers)
    if len(place) >= len(nodes) > 1:
        raise NothingMeasured(f'incident {number}: {incident.cells[0]} runs on all nodes at once: no other one is '
                              'left; two environments can be compared: parity cause CASE --environ A --environ B')
    if experiment.before is None:
        raise NothingMeasured(f'incident {number}: the software is that of the last good night, and no sound node '
                              f'of {system.name}:{experiment.partition} takes jobs (parity nodes); resume one')
    return experiment


def _sound(nodes: Mapping[str, ListedNode], place: Collection[str], system: str) -> str:
    """Return a node, as a job asks for it, that is not in ``place``, not slower, and not in an open incident; ''
    for none."""
    blamed: set[str] = set()
    for incident in table.of_system(system):
        if not incident.closed:
            blamed.update(incident.nodes)
    for name, node in nodes.items():
        is_other = name not in place
        if is_other and name not in blamed and not node.slower:
            return node.asked
    return ''


def _takes(experiment: Trial) -> dict[str, ListedNode]:
    """Return the nodes of the partition that take jobs. InfrastructureError where nobody knows them."""
    scheduled = of_scheduler.of_system(experiment.system)
    if scheduled.unknown:
        raise InfrastructureError(scheduled.unknown)
    nodes = listing.of_system(experiment.system, scheduled)
    part = next(part for part in experiment.system.partitions if part.name == experiment.partition)
    queue = of_scheduler.queue_of(part)
    takes = {}
    for node in nodes:
        if not node.state or not node.state.takes:
            continue
        queues = node.state.queues
        if not queue or not queues or queue in queues:
            takes[node.name] = node
    return takes


def _why_not(system: System, name: str) -> str:
    """Return why a node takes no jobs."""
    scheduled = of_scheduler.of_system(system)
    for state in scheduled.nodes:
        if node_name(state.name) == name:
            reason = f' ({state.reason})' if state.reason else ''
            return f'{name} takes no jobs: {state.state}{reason}; resume it, then the same command measures it'
    return f'{name} is not listed by the scheduler any more: there is nothing to measure on it'


# ---- two environments

def between(cells: Sequence[Any], environs: Sequence[str], offered: Collection[str]) -> Trial:
    """Return the experiment that measures cells of one case with two environments. UsageError where one does not
    offer the case. ``cells``: as they were judged; ``offered``: environments that can run their case."""
    one = cells[0]
    for name in environs:
        if name not in offered:
            raise UsageError(unknown(f'environment of {one.case}', name, sorted(offered)))
    if len({*environs}) != 2:
        raise UsageError('--environ: name two environments: --environ A --environ B')
    system = systems.read(one.system)
    rows = _rows(one.system)
    by_metric = {}
    for cell in cells:
        columns = {name: getattr(cell, name) for name in CELL}
        nights = _of_cell(rows, columns)
        if cell.better and not nights.is_empty():
            by_metric[cell.metric] = nights
    if not by_metric:
        raise NothingMeasured(f'{one.case}: no figure is stored: measure it once')
    smallest = as_log(_TELLS)
    weight = 1 / len(by_metric)
    measures = []
    newest = []
    for metric, nights in by_metric.items():
        row = nights.row(-1, named=True)
        newest.append(row)
        measure = Measure(
            name=cell_id(row),
            case=one.case,
            metric=metric,
            better=row['better'],
            slower=smallest,
            noise=_noise(nights),
            weight=weight)
        measures.append(measure)
    last = newest[0]
    before, now = [TurnSoftware(environ=name, label=name) for name in environs]
    trial = Trial(
        key='-'.join([one.check, *environs]),
        system=system,
        partition=one.partition,
        cells=measures,
        arguments=_arguments(last['session'], [one.case]),
        now=now,
        before=before,
        seconds=_seconds(rows, [last]),
        of_environs=True)
    if not queued(system, one.partition):
        return trial
    names = [node.asked for node in _takes(trial).values()]
    ran_on = last['node'].split(',')
    count = len(ran_on)
    if len(names) < count:
        raise NothingMeasured(f'{one.case}: {count} nodes are needed, and {len(names)} take jobs (parity nodes)')
    return replace(trial, node=names[:count])
