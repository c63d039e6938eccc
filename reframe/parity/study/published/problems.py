"""Names in study.yaml that mean nothing: axes, values, experiments, metrics, and names in formulas."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from parity.base.errors import unknown
from parity.study.published import formula
from parity.study.published.model import NAMED, Study, filled
from parity.study.published.statements import Derived, Finding, Formula

#: Of published.csv, beside the axes; an axis `unit` is the column of this name.
COLUMNS = {'experiment', 'metric', 'better', 'run', 'value', 'flag', 'use', 'where', 'figure'}
#: How many ends a series must have in each function of cells, at least and at most; elsewhere none.
_ENDS = {'ratio': (2, 2), 'variation': (2, 2), 'order': (2, math.inf)}
_FORMS = {'ratio': 'end in VALUE / VALUE', 'variation': 'end in VALUE / VALUE', 'order': 'end in VALUE < VALUE'}
#: Points of all experiments, and of all numbers, of a study: the largest one here has some thousand.
POINTS = 10_000
#: Keys of study.yaml, and a sentence.
Problem = tuple[tuple, str]
Problems = Iterator[Problem]


def of_study(study: Study) -> Problems:
    """Yield (keys, sentence) for every name that means nothing."""
    for axis in sorted(study.axes.keys() & COLUMNS):
        yield ('axes', axis), f'{axis} is a column of published.csv: name the axis otherwise'
    if study.contrast not in study.axes:
        yield ('contrast',), unknown('axis', study.contrast, list(study.axes))
    yield from _of_axes(study)
    too_many = [*_points_of_experiments(study), *_points_of_numbers(study)]
    if too_many:
        yield from too_many
        return
    for name in study.experiments:
        yield from _of_experiment(study, name)
    for place, finding in enumerate(study.findings):
        yield from _of_finding(study, ('findings', place), finding)
    yield from _of_ids(study)
    for place, fit in enumerate(study.fits):
        yield from _of_series(study, ('fits', place, 'series'), fit.series)
        if fit.printed:
            yield from _of_series(study, ('fits', place, 'printed'), fit.printed)
    wrong_functions = list(_of_functions(study))
    if wrong_functions:
        yield from wrong_functions
        return
    for place, number in enumerate(study.numbers):
        yield from _of_number(study, ('numbers', place), number)


def _of_axes(study: Study) -> Problems:
    """Yield each value that a session could not name among its extras, KEY=VALUE,KEY=VALUE."""
    for name, axis in study.axes.items():
        if name != study.contrast and axis.kind not in NAMED:
            continue
        for value in axis.values:
            if ',' in value or '=' in value:
                yield ('axes', name, 'values', value), f'{value!r}: must have no comma and no ='


def _points_of_experiments(study: Study) -> Problems:
    points = {}
    for name, experiment in study.experiments.items():
        axes = [axis for axis in experiment.axes if axis in study.axes]
        sizes = [len(study.values(name, axis)) for axis in axes]
        points['experiments', name, 'axes'] = math.prod(sizes)
    yield from _too_many(points)


def _points_of_numbers(study: Study) -> Problems:
    points = {}
    for place, number in enumerate(study.numbers):
        sizes = map(len, number.over.values())
        points['numbers', place, 'over'] = math.prod(sizes)
    yield from _too_many(points)


def _too_many(points: Mapping[tuple, int]) -> Problems:
    """Yield the first keys that have, with those above, more points than POINTS."""
    total = 0
    for keys, more in points.items():
        total += more
        if total > POINTS:
            yield keys, f'{total} points with those above: must have at most {POINTS}'
            return


def _of_experiment(study: Study, name: str) -> Problems:
    experiment, keys = study.experiments[name], ('experiments', name)
    if study.contrast in experiment.axes and not study.candidate:
        yield (*keys, 'axes'), f'{study.contrast} has one value: no experiment may name it'
    yield from _unknown_values(study, (*keys, 'axes'), experiment.axes, study.axes)
    if experiment.quick:
        yield from _unknown_values(study, (*keys, 'quick', 'axes'), experiment.quick.axes, experiment.axes)
    yield from _unknown_values(study, (*keys, 'printed_by'), experiment.printed_by, study.axes)
    for axis in experiment.axes:
        if axis in study.axes:
            yield from _dependent(study, name, axis)


def _unknown_values(study: Study, keys: tuple, axes: Mapping[str, list[str] | Literal['all']],
                    valid_axes: Collection[str]) -> Problems:
    """Yield the axes, and the values of axes, that are none."""
    for axis, values in axes.items():
        if axis not in valid_axes or axis not in study.axes:
            yield (*keys, axis), unknown('axis', axis, list(study.axes))
            continue
        valid = list(study.axes[axis].values)
        lost = [value for value in study.stated(axis, values) if value not in valid]
        for value in lost:
            yield (*keys, axis), unknown(f'value of {axis}', value, valid)


def _dependent(study: Study, experiment: str, axis: str) -> Problems:
    """Yield each value of the axis that depends on one that the experiment lacks, or not on all of its values."""
    axes = [name for name in study.experiments[experiment].axes
            if name in study.axes and study.axes[name].kind not in ('print', 'metric')]
    for value in study.axes[axis].values:
        keys = ('axes', axis, 'values', value)
        for other, texts in study.axes[axis].dependent(value).items():
            if other not in axes:
                yield keys, unknown(f'axis of {experiment}', other, axes)
                continue
            lost = [stated for stated in study.values(experiment, other) if stated not in texts]
            if lost:
                yield (*keys, other), f'must have {other} {lost[0]}, too'


def _of_finding(study: Study, keys: tuple, finding: Finding) -> Problems:
    if finding.printed and not study.number(finding.printed):
        numbers = [number.name for number in study.numbers]
        yield (*keys, 'printed'), unknown('number', finding.printed, numbers)
    is_number = finding.kind in ('ratio', 'value') and study.number(finding.text)
    if not is_number:
        takes = '' if finding.along else finding.kind
        yield from _of_series(study, (*keys, finding.kind), finding.text, takes)
    if finding.along and finding.along not in study.axes:
        yield (*keys, 'along'), unknown('axis', finding.along, list(study.axes))


def _of_ids(study: Study) -> Problems:
    ids: set[str] = set()
    for place, finding in enumerate(study.findings):
        if finding.id in ids:
            yield ('findings', place, 'id'), f'{finding.id!r} is given twice: each finding needs its own'
        ids.add(finding.id)


def _of_functions(study: Study) -> Problems:
    """Yield the first function that has no value: it may use those above."""
    above: dict[str, str] = {}
    for head, text in study.functions.items():
        why = formula.wrong(text, formula.NAME.findall(head)[1:], formula.functions(above))
        if why:
            yield ('functions', head), why
            return
        above[head] = text


def _of_number(study: Study, keys: tuple, number: Derived) -> Problems:
    formulas: dict[tuple, Formula] = {}
    if number.formula or not number.here:
        formulas[keys] = number
    if number.here:
        formulas[(*keys, 'here')] = number.here
    functions = formula.functions(study.functions)
    for place, worked in formulas.items():
        names = {*worked.let, *number.over}
        why = formula.wrong(worked.formula, names, functions)
        if why:
            yield (*place, 'formula'), why
    for over in number.points():
        for place, worked in formulas.items():
            for name, text in worked.let.items():
                yield from _of_series(study, (*place, 'let', name), filled(text, over))
        if number.printed:
            yield from _of_series(study, (*keys, 'printed'), filled(number.printed, over))


def _of_series(study: Study, keys: tuple, text: str, function: str = '') -> Problems:
    """Yield what is wrong with a series; ``function``: that takes it."""
    try:
        ends = len(study.series(text).ends)
    except ValueError as err:
        yield keys, str(err)
        return
    least, most = _ENDS.get(function, (0, 0))
    if not least <= ends <= most:
        yield keys, f'{text!r} must {_FORMS.get(function, "be a series alone")}'
