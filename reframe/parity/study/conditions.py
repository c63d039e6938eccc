"""Cases of a study that one's own partitions can run, by the checks' own words, and how long they take."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from parity.base import paths, units
from parity.base.errors import UsageError, unknown
from parity.judge.store import costs
from parity.measure.rfm import planning
from parity.site import systems
from parity.site.identity import shared
from parity.site.plan import CaseAnswer, LoadedCheck, Plan
from parity.site.systems import System
from parity.study import campaign, devices
from parity.study.published import figures, refuse
from parity.study.published.model import NAMED, Case, Cases, Names, Study, filled
from parity.study.published.problems import Problem, Problems
from parity.study.published.statements import demand, points

MODES = ('full', 'quick')
#: What --as takes.
AXIS_VALUE = re.compile(r'(\w+)\.([^=]+)=(.+)')
Checks = Mapping[str, LoadedCheck]


@dataclass(frozen=True)
class Planned:
    """A case of a study on a partition; ``reason`` says why it is not testable, '' where it is."""

    case: Case
    reason: str
    seconds: float
    guessed: bool               # nothing like it was measured: the study's own figure, and a job's cost
    beyond: str = ''            # the variable that no memory of the partition holds, for the reason: a mistake
    file: str = ''              # of the check
    session: float = costs.SESSION      # seconds that a session costs beside its cases


Plans = Sequence[Planned]
Modes = dict[str, list[Planned]]


@dataclass(frozen=True)
class Wanted:
    """A study's cases, full and quick, each with the partition that measures it.

    Without a ``system`` only names are checked. ``lacking``: why a side has no partition."""

    name: str
    study: Study
    system: str
    cases: Cases
    lacking: Mapping[str, str]


def wanted(study: Study, name: str, system: str, partitions: Sequence[str] = (),
           names: Names | None = None) -> Wanted:
    """Return a study's cases on a system. ``partitions``: baseline and candidate, by default by their features.

    UsageError for an unknown system or partition."""
    cases = [*study.cases(names), *study.cases(names, quick=True)]
    if not system:
        return Wanted(name, study, '', list(_each_value(cases)), {})
    site = systems.read(system)
    sides = _sides(study, site, partitions)
    one_directory = _one_directory(_directories(study, site, sides.partition(''), names or {}))
    placed = []
    for case in cases:
        reason = case.reason
        if study.contrast in case.point and len(study.values(case.experiment, study.contrast)) > 1:
            reason = reason or one_directory
        placed.append(case.model_copy(update={'partition': sides.partition(study.side(case)), 'reason': reason}))
    return Wanted(name, study, system, placed, sides.lacking)


def _each_value(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield cases that have each value of each axis of an experiment: enough to check names."""
    there: set[tuple] = set()
    for case in cases:
        values = {(case.experiment, case.quick, axis, value) for axis, value in case.point.items()}
        values.add((case.experiment, case.quick))
        if not values <= there:
            there |= values
            yield case


def planned(*requests: Wanted) -> Iterator[Modes | UsageError]:
    """Yield the planned cases of each study on one system, by mode; or what is wrong with its files."""
    asked = []
    for case in itertools.chain.from_iterable(request.cases for request in requests):
        asked.append(case.model_copy(update={'partition': ''}) if case.reason else case)
    loaded = planning.of_cases(asked, requests[0].system)
    answers = iter(loaded.answers)
    for request in requests:
        here = list(itertools.islice(answers, len(request.cases)))
        try:
            _demand_sound(request, loaded, here)
        except UsageError as err:
            yield err
            continue
        yield _by_mode(request, loaded, here) if request.system else {}


def of_one(one: Wanted) -> Modes:
    """Return the planned cases of one study by mode; UsageError where its files are wrong."""
    modes, = planned(one)
    if isinstance(modes, UsageError):
        raise modes
    return modes


def _by_mode(request: Wanted, loaded: Plan, answers: Sequence[CaseAnswer]) -> Modes:
    files = {check.check: check.file for check in loaded.checks}
    schedulers = {part.name: part.scheduler for part in systems.read(request.system).partitions}
    with paths.of_study(request.name):
        times = costs.Costs()
    modes: Modes = {mode: [] for mode in MODES}
    for case, answer in zip(request.cases, answers, strict=True):
        place = case.partition
        reason, seconds, guessed = request.lacking.get(request.study.side(case), ''), 0.0, True
        if place:
            guess = request.study.experiments[case.experiment].taken(case.quick).seconds
            reason = case.reason or answer.reason
            seconds, guessed = times.of_case(case.is_case, f'{request.system}:{place}', guess, schedulers[place])
        modes['quick' if case.quick else 'full'].append(
            Planned(case, reason, seconds, guessed, answer.beyond, files[case.check], times.session))
    return modes


def testable(planned: Iterable[Planned]) -> list[Planned]:
    return [plan for plan in planned if not plan.reason]


def seconds(steps: Sequence[campaign.Step], planned: Plans) -> float:
    """Return how long these sessions take. A case of several experiments runs once."""
    by_case = {id(plan.case): plan.seconds for plan in planned}
    total = 0.0
    for step in steps:
        of_runs = {case.runs: by_case[id(case)] for case in step.cases}
        total += planned[0].session + sum(of_runs.values())
    return total


# ---- names that the checks do not know

def _demand_sound(request: Wanted, loaded: Plan, answers: Sequence[CaseAnswer]) -> None:
    """Raise UsageError, with file and line, for names that the checks do not know."""
    checks = {check.check: check for check in loaded.checks}
    answered = list(zip(request.cases, answers, strict=True))
    problems: list[Problem] = []
    for key, experiment in request.study.experiments.items():
        if experiment.check:
            mine = [(case, answer) for case, answer in answered if case.experiment == key]
            problems += _of_parameters(request.study, key, checks, [case for case, _ in mine])
            metrics = set(itertools.chain.from_iterable(answer.metrics for _, answer in mine))
            problems += _of_metrics(request.study, key, metrics) if experiment.check in checks else ()
    for case, answer in answered:
        if answer.wrong:
            problems.append((stated(request.study, case, answer.wrong), answer.reason))
    problems += _divided(request.study, request.cases)
    refuse(request.name, list(dict.fromkeys(problems)))
    _demand_units(request, checks)
    faults = [str(problem) for problem in loaded.problems if problem.refuses]
    if faults:
        raise UsageError('\n'.join(faults))


def _of_parameters(study: Study, key: str, checks: Checks, cases: Cases) -> Problems:
    experiment, keys = study.experiments[key], ('experiments', key)
    if experiment.check not in checks:
        yield (*keys, 'check'), unknown('check', experiment.check, list(checks))
        return
    parameters = checks[experiment.check].parameters
    for unnamed in sorted(parameters.keys() - experiment.parameters.keys())[:1]:
        yield (*keys, 'parameters'), f'must name {unnamed}, one of {", ".join(parameters[unnamed])}'
    for parameter in experiment.parameters:
        if parameter not in parameters:
            yield (*keys, 'parameters'), unknown('parameter', parameter, list(parameters))
            continue
        valid = parameters[parameter]
        values = [case.parameters[parameter] for case in cases]
        for value in [value for value in values if value not in valid][:1]:
            yield (*keys, 'parameters', parameter), unknown(f'value of {parameter}', value, valid)


def _of_metrics(study: Study, key: str, metrics: set[str]) -> Problems:
    """Yield the metrics of an experiment that none of its cases has. A case that cannot be set up has none."""
    if not metrics:
        return
    for metric, names in study.experiments[key].metrics.items():
        of_check = itertools.chain.from_iterable(named for _, named in named_metrics(study, key, names))
        lost = [name for name in of_check if shared(name) not in metrics]
        if lost:
            yield ('experiments', key, 'metrics', metric), unknown('metric', lost[0], sorted(metrics))


def named_metrics(study: Study, key: str, names: Sequence[str],
                  quick: bool = False) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the points of an experiment's axes that one case measures, and the check's metrics of each."""
    values = {}
    for axis in study.experiments[key].axes:
        if study.axes[axis].kind == 'metric':
            values[axis] = study.values(key, axis, quick)
    for point in points(values):
        here = study.here(point)
        yield point, [filled(name, here) for name in names]


def _divided(study: Study, cases: Iterable[Case]) -> Problems:
    """Yield each variable that holds an axis whose value has a comma: -P divides it into several cases."""
    for case in cases:
        for name in case.swept:
            text = case.variables[name]
            if ',' in text:
                yield stated(study, case, name), f'{text!r}: must have no comma where it holds an axis'


def stated(study: Study, case: Case, variable: str) -> tuple[str, ...]:
    """Return the keys of study.yaml that give a case's variable its value."""
    keys = 'experiments', case.experiment
    quick = study.experiments[case.experiment].quick
    if case.quick and quick and variable in quick.set:
        return *keys, 'quick', 'set', variable
    return *keys, 'set', variable


def _demand_units(request: Wanted, checks: Checks) -> None:
    """Raise UsageError, with file and line, for a unit in print that is not of the kind of its check's metric."""
    units_of = {}
    for check in checks.values():
        units_of |= {(check.check, shared(metric.name)): metric.unit for metric in check.metrics}
    for cell in figures.published(request.study, request.name)[0]:
        experiment, here = request.study.experiments[cell.experiment], request.study.here(cell.point)
        for name in experiment.metrics[cell.metric]:
            metric = filled(name, here)
            unit = units_of.get((experiment.check, shared(metric)), cell.unit)
            if units.factor(cell.unit, unit) is None:
                raise UsageError(f'{cell.line}: {cell.name} is in {cell.unit!r}; must be of the kind of {unit!r}, '
                                 f'the unit of {metric} of {experiment.check}')


# ---- the sides, and where they are

@dataclass(frozen=True)
class _Sides:
    """The partition of each value of the contrasted axis, of '' where it is not of partitions; and why not."""

    partitions: Mapping[str, str]
    lacking: Mapping[str, str]

    def partition(self, side: str) -> str:
        return self.partitions.get(side) or self.partitions.get('', '')


def _sides(study: Study, site: System, named: Sequence[str]) -> _Sides:
    names, axis = [part.name for part in site.partitions], study.axes[study.contrast]
    for partition in named:
        if partition not in names:
            raise UsageError(unknown('partition', partition, names))
        if named.count(partition) > 1:
            raise UsageError(f'--partition {partition}: given twice; each side needs its own partition')
    if axis.kind != 'partition':
        if named[1:]:
            raise UsageError(f'--partition {named[1]}: the sides of {study.contrast} run on one partition: '
                             'name one')
        return _Sides({'': [*named, *names][0]}, {})
    if named:
        if len(named) != len(axis.values):
            valid = 'two, baseline and candidate' if study.candidate else 'one, or two to compare'
            raise UsageError(f'--partition: {len(named)} given; must be {valid}')
        partitions = dict(zip(axis.values, named, strict=True))
        return _Sides(partitions, {})
    partitions, lacking = {}, {}
    for value, feature in axis.values.items():
        able = [part.name for part in site.partitions if feature in ('', *part.features)]
        if able:
            partitions[value] = able[0]
        else:
            lacking[value] = f'no partition of {site.name} has the feature {feature}'
    return _Sides(partitions, lacking)


def _directories(study: Study, site: System, partition: str, names: Names) -> dict[str, str]:
    """Return the directory of each side that is a file system, as system.yaml has it."""
    axis = study.axes[study.contrast]
    if axis.kind != 'filesystem':
        return {}
    given = names.get(study.contrast, {})
    by_partition = {part.name: part.extras.filesystems for part in site.partitions}
    roles = by_partition.get(partition, {})
    directories = {}
    for value, role in axis.values.items():
        role = given.get(value) or role
        if role in roles:
            directories[value] = roles[role]
    return directories


def _one_directory(directories: Mapping[str, str]) -> str:
    """Return why sides that are file systems cannot be compared: they are one directory; '' where they can."""
    sides: dict[str, str] = {}
    for side, path in directories.items():
        place = os.path.realpath(os.path.expandvars(path))
        if place in sides:
            return f'{sides[place]} and {side} are one directory, {path}: name two by --as'
        sides[place] = side
    return ''


def one_device(study: Study, site: System, partition: str, names: Names) -> bool:
    """Return whether two sides that are file systems are on one disk, or of one server."""
    directories = _directories(study, site, partition, names)
    places = list(map(devices.of_directory, directories.values()))
    there = [place for place in places if place]
    return len(set(there)) < len(there)


def given_names(study: Study, system: str, given: Sequence[str]) -> Names:
    """Return what --as says. UsageError, with what is valid."""
    site = systems.read(system)
    names: dict[str, dict[str, str]] = {}
    for text in given:
        match = AXIS_VALUE.fullmatch(text)
        if not match:
            axes = ', '.join(_axes_with_names(study))
            raise UsageError(f'--as {text!r}: must be AXIS.VALUE=NAME; axes: {axes}')
        axis, value, name = match.groups()
        try:
            _demand_name(study, site, axis, value, name)
        except ValueError as err:
            raise UsageError(f'--as {text}: {err}') from None
        names.setdefault(axis, {})[value] = name
    return names


def _axes_with_names(study: Study) -> list[str]:
    return [name for name, axis in study.axes.items() if axis.kind in NAMED] or ['none']


def _demand_name(study: Study, site: System, axis: str, value: str, name: str) -> None:
    """Raise ValueError, with what is valid, for an axis or a value without names here, and for an unknown name."""
    axes = _axes_with_names(study)
    if axis not in axes and name in [part.name for part in site.partitions]:
        raise ValueError('a job takes nodes of one partition; name one that has the nodes of both, by --partition '
                         '(docs/studies.md)')
    demand('axis', axis, axes)
    demand(f'value of {axis}', value, study.axes[axis].values)
    kind = study.axes[axis].kind
    demand(f'{kind} of {site.name}', name, _names_here(site, kind) or ['none'])


def _names_here(site: System, kind: str) -> list[str]:
    """Return the networks, file systems or environments that a system has."""
    if kind == 'environ':
        return sorted(systems.environs(site))
    names: set[str] = set()
    for part in site.partitions:
        names.update(getattr(part.extras, f'{kind}s', None) or ())
    return sorted(names)
