"""Cases of a study that one's own partitions can run, by the checks' own words, and how long they take."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
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
from parity.study.published.model import NAMED, Case, Study, filled

MODES = ('full', 'quick')
#: What --as takes.
AXIS_VALUE = re.compile(r'(\w+)\.([^=]+)=(.+)')


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


def _refuse(study: Study, name: str, cases: Sequence[Case], loaded: Plan, answers: Sequence[CaseAnswer]) -> None:
    checks = {check.check: check for check in loaded.checks}
    metrics: dict[str, set[str]] = {}
    for case, answer in zip(cases, answers, strict=True):
        metrics.setdefault(case.experiment, set()).update(answer.metrics)
    wrong = [(keys, why) for key, experiment in study.experiments.items() if experiment.check
             for keys, why in _unknown(study, key, checks, metrics[key],
                                       [case for case in cases if case.experiment == key])]
    wrong += dict.fromkeys((stated(study, case, answer.wrong), answer.reason)
                           for case, answer in zip(cases, answers, strict=True) if answer.wrong)
    wrong += dict.fromkeys(_divided(study, cases))
    refuse(name, wrong)
    _demand_units(study, name, checks)
    if faults := [str(problem) for problem in loaded.problems if problem.refuses]:
        raise UsageError('\n'.join(faults))


def _divided(study: Study, cases: Sequence[Case]) -> Iterator[tuple[tuple, str]]:
    """Yield each variable that holds an axis whose value has a comma: -P divides it into several cases."""
    for case in cases:
        for name in case.swept:
            text = case.variables[name]
            if ',' in text:
                yield stated(study, case, name), f'{text!r}: must have no comma where it holds an axis'


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
    lacking: Mapping[str, str]


def wanted(study: Study, name: str, system: str, partitions: Sequence[str] = (),
           names: Mapping[str, Mapping[str, str]] | None = None) -> Wanted:
    """Return a study's cases on a system. ``partitions``: baseline and candidate, by default by their features.

    UsageError for an unknown system or partition."""
    sides, lacking = _sides(study, systems.read(system), partitions) if system else ({'': ''}, {})
    cases = [case for mode in MODES for case in study.cases(names, mode == 'quick')]
    if not system:
        cases = list(_each_value(cases))
    directories = _directories(study, systems.read(system), sides.get('', ''), names or {}) if system else {}
    if why := _one_directory(directories):
        cases = [case.model_copy(update={'reason': case.reason or why})
                 if len(study.values(case.experiment, study.contrast)) > 1 else case for case in cases]
    return Wanted(name, study, system, [case.model_copy(update={
        'partition': sides.get(study.side(case), sides.get('', ''))}) for case in cases], lacking)


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
    asked = [case.model_copy(update={'partition': ''}) if case.reason else case
             for of in each for case in of.cases]
    loaded = planning.of_cases(asked, each[0].system)
    files, answers = {check.check: check.file for check in loaded.checks}, iter(loaded.answers)
    for of in each:
        here = list(itertools.islice(answers, len(of.cases)))
        try:
            _refuse(of.study, of.name, of.cases, loaded, here)
        except UsageError as err:
            yield err
            continue
        yield _of_modes(of, here, files) if of.system else {}


def _of_modes(of: Wanted, answers: Sequence[CaseAnswer], files: Mapping[str, str]) -> dict[str, list[Planned]]:
    with paths.of_study(of.name):
        times = costs.Costs()
    schedulers = {part.name: part.scheduler for part in systems.read(of.system).partitions}
    found: dict[str, list[Planned]] = {mode: [] for mode in MODES}
    for case, answer in zip(of.cases, answers, strict=True):
        place, guess = case.partition, of.study.experiments[case.experiment].taken(case.quick).seconds
        reason = case.reason or answer.reason if place else of.lacking.get(of.study.side(case), '')
        seconds, guessed = times.of_case(case.is_case, f'{of.system}:{place}', guess, schedulers[place]) \
            if place else (0.0, True)
        found['quick' if case.quick else 'full'].append(
            Planned(case, reason, seconds, guessed, answer.beyond, files[case.check], times.session))
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


def _directories(study: Study, site: System, partition: str,
                 names: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the directory of each side that is a file system, as system.yaml has it."""
    axis = study.axes[study.contrast]
    roles = {part.name: part.extras.filesystems for part in site.partitions}.get(partition, {})
    found = {}
    for value, role in axis.values.items() if axis.kind == 'filesystem' else ():
        path = roles.get(names.get(study.contrast, {}).get(value) or role)
        if path:
            found[value] = path
    return found


def _one_directory(directories: Mapping[str, str]) -> str:
    """Return why sides that are file systems cannot be compared: they are one directory; '' where they can."""
    sides: dict[str, str] = {}
    for side, path in directories.items():
        place = os.path.realpath(os.path.expandvars(path))
        if place in sides:
            return f'{sides[place]} and {side} are one directory, {path}: name two by --as'
        sides[place] = side
    return ''


def one_device(study: Study, site: System, partition: str, names: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether two sides that are file systems are on one disk, or of one server."""
    directories = _directories(study, site, partition, names)
    places = [devices.of_directory(path) for path in directories.values()]
    there = [place for place in places if place]
    return len(set(there)) < len(there)


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
    environs = systems.environs(site)
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
