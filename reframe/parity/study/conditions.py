"""Cases of a study that one's own partitions can run, by the checks' own words, and how long they take."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from statistics import median

import polars as pl

from parity import plan
from parity.base import paths, units
from parity.base.errors import UsageError, unknown
from parity.base.groups import grouped
from parity.plan import Answer, Asked, LoadedCheck, Plan
from parity.plan.identity import shared
from parity.records import database, history, plan_file
from parity.study import campaign, figures, refuse
from parity.study.model import NAMED, Case, Study, filled
from parity.system import systems
from parity.system.systems import System

#: Seconds that a job costs beside its case, without a scheduler and with one: a guess, where none was measured.
JOB = {'local': 1.0, '': 4.0}
#: Seconds that a session of ReFrame costs beside its cases: a guess, where none was measured.
SESSION = 5.0
#: A longer time between two sessions of a campaign is a pause.
PAUSE = 120.0
MODES = ('full', 'quick')
#: What --as takes.
AXIS_VALUE = re.compile(r'(\w+)\.([^=]+)=(.+)')


@dataclass(frozen=True)
class Planned:
    """A case of a study on a partition; ``reason`` says why it is not testable, '' where it is."""

    case: Case
    partition: str
    reason: str
    seconds: float
    guessed: bool               # nothing like it was measured: the study's own figure, and a job's cost
    beyond: str = ''            # the variable that no memory of the partition holds, for the reason: a mistake
    file: str = ''              # of the check
    session: float = SESSION    # seconds that a session costs beside its cases


def asked(cases: Sequence[tuple[Case, str]], system: str = '') -> tuple[Plan, list[Answer]]:
    """Return the plan of all checks, and what they say of the cases, each on a partition ('': on none)."""
    each = [Asked(check=case.check, parameters=case.parameters, variables=case.variables, partition=partition,
                  environ=case.environ) for case, partition in cases]
    different = list(dict.fromkeys(one.model_dump_json() for one in each))
    loaded = plan.of_command([*_files({case.check for case, _ in cases}), '-r',
                              *(['--system', system] if system else [])],
                             [Asked.model_validate_json(one) for one in different])
    answers = dict(zip(different, loaded.answers, strict=True))
    return loaded, [answers[one.model_dump_json()] for one in each]


def _files(checks: Collection[str]) -> list[str]:
    """Return the options that load these checks: their own files, or all where one has none."""
    folder, found = paths.root() / 'checks', {}
    for file in folder.rglob('*.py'):
        found |= dict.fromkeys(re.findall(r'^class (\w+)\(', file.read_text(), re.M), str(file))
    return [word for file in ({found[name] for name in checks} if {*checks} <= {*found} else [str(folder)])
            for word in ('-c', file)]


def _refuse(study: Study, name: str, cases: Sequence[Case], loaded: Plan, answers: Sequence[Answer]) -> None:
    checks = {check.check: check for check in loaded.checks}
    metrics: dict[str, set[str]] = {}
    for case, answer in zip(cases, answers, strict=True):
        metrics.setdefault(case.experiment, set()).update(answer.metrics)
    wrong = [(keys, why) for key, experiment in study.experiments.items() if experiment.check
             for keys, why in _unknown(study, key, checks, metrics[key],
                                       [case for case in cases if case.experiment == key])]
    wrong += dict.fromkeys((stated(study, case, answer.wrong), answer.reason)
                           for case, answer in zip(cases, answers, strict=True) if answer.wrong)
    refuse(name, wrong)
    _demand_units(study, name, checks)
    if faults := [str(problem) for problem in loaded.problems if problem.refuses]:
        raise UsageError('\n'.join(faults))


def _demand_units(study: Study, name: str, checks: Mapping[str, LoadedCheck]) -> None:
    """Raise UsageError, with file and line, for a unit in print that is not of the kind of its check's metric."""
    units_of = {(check.check, shared(metric.name)): metric.unit for check in checks.values()
                for metric in check.metrics}
    for cell in figures.published(study, name)[0]:
        experiment = study.experiments[cell.experiment]
        for metric in experiment.metrics[cell.metric]:
            of_check = filled(metric, {axis: study.axes[axis].at(value, cell.point)
                                       for axis, value in cell.point.items()})
            unit = units_of.get((experiment.check, shared(of_check)), cell.unit)
            if units.factor(cell.unit, unit) is None:
                raise UsageError(f'{cell.line}: {cell.name} is in {cell.unit!r}; must be of the kind of {unit!r}, '
                                 f'the unit of {of_check} of {experiment.check}')


def stated(study: Study, case: Case, variable: str) -> tuple[str, ...]:
    """Return the keys of study.yaml that give a case's variable its value."""
    experiment = study.experiments[case.experiment]
    where = case.quick and experiment.quick and variable in experiment.quick.set
    return 'experiments', case.experiment, *(('quick',) if where else ()), 'set', variable


def _unknown(study: Study, key: str, checks: Mapping[str, LoadedCheck],
             metrics: set[str], cases: Sequence[Case]) -> Iterator[tuple[tuple, str]]:
    experiment, at = study.experiments[key], ('experiments', key)
    if experiment.check not in checks:
        yield (*at, 'check'), unknown('check', experiment.check, list(checks))
        return
    check = checks[experiment.check]
    if lost := sorted({*check.parameters} - {*experiment.parameters}):
        yield (*at, 'parameters'), f'must name {lost[0]}, one of {", ".join(check.parameters[lost[0]])}'
    for parameter in experiment.parameters:
        values = [case.parameters[parameter] for case in cases]
        if parameter not in check.parameters:
            yield (*at, 'parameters'), unknown('parameter', parameter, list(check.parameters))
        elif lost := [v for v in values if v not in (valid := check.parameters[parameter])]:
            yield (*at, 'parameters', parameter), unknown(f'value of {parameter}', lost[0], valid)
    for metric, names in experiment.metrics.items() if metrics else ():
        of_check = (name for _, of in named_metrics(study, key, names) for name in of)
        if lost := [name for name in of_check if shared(name) not in metrics]:
            yield (*at, 'metrics', metric), unknown('metric', lost[0], sorted(metrics))


def named_metrics(study: Study, key: str, names: Sequence[str],
                  quick: bool = False) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the points of an experiment's axes that one case measures, and the check's metrics of each."""
    axes = [axis for axis in study.experiments[key].axes if study.axes[axis].kind == 'metric']
    for values in itertools.product(*(study.values(key, axis, quick) for axis in axes)):
        point = dict(zip(axes, values, strict=True))
        here = {axis: study.axes[axis].at(value, point) for axis, value in point.items()}
        yield point, [filled(name, here) for name in names]


@dataclass(frozen=True)
class Wanted:
    """A study's cases, full and quick, each with the partition that measures it.

    Without a ``system`` only names are checked. ``lacking``: why a side has no partition."""

    name: str
    study: Study
    system: str
    cases: Sequence[Case]
    places: Sequence[str]
    lacking: Mapping[str, str]


def wanted(study: Study, name: str, system: str, partitions: Sequence[str] = (),
           names: Mapping[str, Mapping[str, str]] | None = None) -> Wanted:
    """Return a study's cases on a system. ``partitions``: baseline and candidate, by default by their features.

    UsageError for an unknown system or partition."""
    sides, lacking = _sides(study, systems.read(system), partitions) if system else ({'': ''}, {})
    cases = [case for mode in MODES for case in study.cases(names, mode == 'quick')]
    if not system:
        cases = list(_each_value(cases))
    if system and (why := _one_directory(study, systems.read(system), sides, names or {})):
        cases = [case.model_copy(update={'reason': case.reason or why})
                 if len(study.values(case.experiment, study.contrast)) > 1 else case for case in cases]
    return Wanted(name, study, system, cases, [sides.get(study.side(case), sides.get('', '')) for case in cases],
                  lacking)


def _each_value(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield cases that have each value of each axis of an experiment: enough to check names."""
    there: set[tuple] = set()
    for case in cases:
        values = {(case.experiment, case.quick, *pair) for pair in (('', ''), *case.point.items())}
        if values - there:
            there |= values
            yield case


def planned(*each: Wanted) -> Iterator[dict[str, list[Planned]] | UsageError]:
    """Yield the planned cases of each study on one system, by mode; or what is wrong with its files."""
    pairs = [[(case, '' if case.reason else place) for case, place in zip(of.cases, of.places, strict=True)]
             for of in each]
    loaded, answers = asked(sum(pairs, []), each[0].system)
    files = {check.check: check.file for check in loaded.checks}
    for of, mine in zip(each, pairs, strict=True):
        here, answers = answers[:len(mine)], answers[len(mine):]
        try:
            _refuse(of.study, of.name, of.cases, loaded, here)
        except UsageError as err:
            yield err
            continue
        yield _of_modes(of, here, files) if of.system else {}


def _of_modes(of: Wanted, answers: Sequence[Answer], files: Mapping[str, str]) -> dict[str, list[Planned]]:
    times = _Times(of.name)
    schedulers = {part.name: part.scheduler for part in systems.read(of.system).partitions}
    found: dict[str, list[Planned]] = {mode: [] for mode in MODES}
    for case, place, answer in zip(of.cases, of.places, answers, strict=True):
        reason = case.reason or answer.reason if place else of.lacking.get(of.study.side(case), '')
        job = JOB.get(schedulers.get(place, ''), JOB[''])
        seconds, guessed = times.cost(of.study, case, f'{of.system}:{place}', job) if place else (0.0, True)
        found['quick' if case.quick else 'full'].append(
            Planned(case, place, reason, seconds, guessed, answer.beyond, files[case.check], times.session))
    return found


def of_one(one: Wanted) -> dict[str, list[Planned]]:
    """Return the planned cases of one study by mode; UsageError where its files are wrong."""
    found, = planned(one)
    if isinstance(found, UsageError):
        raise found
    return found


def seconds(steps: Sequence[campaign.Step], planned: Sequence[Planned]) -> float:
    """Return how long these sessions take. A case of several experiments runs once."""
    by_case = {id(p.case): p.seconds for p in planned}
    return sum(planned[0].session + sum({case.runs: by_case[id(case)] for case in step.cases}.values())
               for step in steps)


def _one_directory(study: Study, site: System, sides: Mapping[str, str],
                   names: Mapping[str, Mapping[str, str]]) -> str:
    """Return why sides that are file systems cannot be compared: they are one directory; '' where they can."""
    axis, found = study.axes[study.contrast], {}
    roles = {part.name: part.extras.filesystems for part in site.partitions}.get(sides.get('', ''), {})
    for value, role in axis.values.items() if axis.kind == 'filesystem' else ():
        if path := roles.get(names.get(study.contrast, {}).get(value) or role):
            at = os.path.realpath(os.path.expandvars(path))
            if at in found:
                return f'{found[at]} and {value} are one directory, {path}: name two by --as'
            found[at] = value
    return ''


def _sides(study: Study, site: System, named: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the partition of each value of the contrasted axis, '' where it is not of partitions; and why not."""
    names, axis = [part.name for part in site.partitions], study.axes[study.contrast]
    if strange := [partition for partition in named if partition not in names]:
        raise UsageError(unknown('partition', strange[0], names))
    if twice := [partition for partition in named if named.count(partition) > 1]:
        raise UsageError(f'--partition {twice[0]}: given twice; each side needs its own partition')
    if axis.kind != 'partition':
        if named[1:]:
            raise UsageError(f'--partition {named[1]}: the sides of {study.contrast} run on one partition: '
                             'name one')
        return {'': (*named, *names)[0]}, {}
    if named and len(named) != len(axis.values):
        valid = 'two, baseline and candidate' if study.candidate else 'one, or two to compare'
        raise UsageError(f'--partition: {len(named)} given; must be {valid}')
    able = {value: [part.name for part in site.partitions if feature in ('', *part.features)]
            for value, feature in axis.values.items()}
    sides = dict(zip(axis.values, named, strict=True)) if named else {
        value: parts[0] for value, parts in able.items() if parts}
    return sides, {value: f'no partition of {site.name} has the feature {axis.values[value]}'
                   for value in axis.values if value not in sides}


def given_names(study: Study, system: str, given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what --as says, axis -> value in print -> name here. UsageError, with what is valid."""
    found: dict[str, dict[str, str]] = {}
    partitions = (site := systems.read(system)).partitions
    environs = {*systems.SPACK, 'distro', *(environ.name for environ in site.environments)}
    for text in given:
        axis, value, name = match.groups() if (match := AXIS_VALUE.fullmatch(text)) else ('', '', '')
        axes = [axis for axis, of in study.axes.items() if of.kind in NAMED]
        if not axis:
            raise UsageError(f'--as {text!r}: must be AXIS.VALUE=NAME; axes: {", ".join(axes) or "none"}')
        if axis not in axes:
            raise UsageError(f'--as {text}: ' + (
                'a job takes nodes of one partition; name one that has the nodes of both, by --partition '
                '(docs/studies.md)' if name in (part.name for part in partitions)
                else unknown('axis', axis, axes or ['none'])))
        if value not in study.axes[axis].values:
            raise UsageError(f'--as {text}: ' + unknown(f'value of {axis}', value, list(study.axes[axis].values)))
        kind = study.axes[axis].kind
        valid = sorted(environs if kind == 'environ' else {
            name for part in partitions for name in getattr(part.extras, f'{kind}s', None) or ()})
        if name not in valid:
            raise UsageError(f'--as {text}: ' + unknown(f'{kind} of {system}', name, valid or ['none']))
        found.setdefault(axis, {})[value] = name
    return found


class _Times:
    """Times of what the study's sessions ran."""

    def __init__(self, name: str):
        with paths.of_study(name):
            infos = database.infos()
            elapsed = {u: info.get('time_elapsed') for u, info in infos if not info.get('interrupted')}
            place = pl.concat_str('system', 'partition', separator=':').alias('place')
            rows = history.rows(elapsed).filter(pl.col('seconds').is_not_null()).select(
                'session', 'run', place, 'check', 'case', 'environ', 'seconds').unique().collect()
        self.cases = [(place, (check, plan_file.parameters(case), environ), taken)
                      for _, _, place, check, case, environ, taken in rows.iter_rows()]
        ran = rows.group_by('session', 'place').agg(pl.col('seconds').sum(), cases=pl.len())
        costs = grouped(((place, max(0.0, elapsed[session] - taken) / cases)
                         for session, place, taken, cases in ran.iter_rows() if elapsed[session]), itemgetter(0))
        #: By system:partition: the seconds that a job costs beside its case, the median of the sessions.
        self.costs = {place: median(cost for _, cost in of) for place, of in costs.items()}
        between = [after['time_start_unix'] - one['time_end_unix'] for (_, one), (_, after) in pairwise(infos)
                   if one.get('run', id(one)) == after.get('run') and 'time_end_unix' in one]
        self.session = median([taken for taken in between if 0 < taken < PAUSE] or [SESSION])

    def cost(self, study: Study, case: Case, place: str, job: float) -> tuple[float, bool]:
        """Return the seconds of a case with its job on system:partition, and whether they are a guess.

        ``job``: what a job costs where none was measured."""
        measured = [taken for at, ran, taken in self.cases if at == place and case.is_case(*ran)]
        taken = median(measured) if measured else study.experiments[case.experiment].taken(case.quick).seconds
        return self.costs.get(place, 0.0 if measured else job) + taken, not measured
