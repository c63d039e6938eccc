"""Names in study.yaml that mean nothing: axes, values, experiments, metrics, and names in formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from parity.base.errors import unknown
from parity.study.published import formula
from parity.study.published.model import NAMED, Study, filled
from parity.study.published.statements import Derived, Formula

#: Of published.csv, beside the axes; an axis `unit` is the column of this name.
COLUMNS = {'experiment', 'metric', 'better', 'run', 'value', 'flag', 'use', 'where', 'figure'}
#: How a series must end, by the number of its ends.
_ENDS = {0: 'be a series alone', 1: 'end in VALUE', 2: 'end in VALUE / VALUE', -1: 'end in VALUE < VALUE'}
#: Points of all experiments, and of all numbers, of a study: the largest one here has some thousand.
POINTS = 10_000
Problem = tuple[tuple, str]


def of_study(study: Study) -> Iterator[Problem]:
    """Yield (keys, sentence) for every name that means nothing."""
    if taken := sorted({*study.axes} & COLUMNS):
        yield ('axes', taken[0]), f'{taken[0]} is a column of published.csv: name the axis otherwise'
    if study.contrast not in study.axes:
        yield ('contrast',), unknown('axis', study.contrast, list(study.axes))
    yield from _of_axes(study)
    if too_many := list(_too_many(study)):
        yield from too_many
        return
    yield from _of_experiments(study)
    yield from _of_findings(study)
    for i, fit in enumerate(study.fits):
        yield from _of_series(study, ('fits', i, 'series'), fit.series)
        if fit.printed:
            yield from _of_series(study, ('fits', i, 'printed'), fit.printed)
    known: dict[str, str] = {}
    for head, text in study.functions.items():
        if why := formula.wrong(text, formula.NAME.findall(head)[1:], formula.functions(known)):
            yield ('functions', head), why
            return
        known[head] = text
    for i, number in enumerate(study.numbers):
        yield from _of_number(study, ('numbers', i), number)


def _of_axes(study: Study) -> Iterator[Problem]:
    """Yield each value that a session could not name among its extras, KEY=VALUE,KEY=VALUE."""
    for name, axis in study.axes.items():
        for value in axis.values if name == study.contrast or axis.kind in NAMED else ():
            if ',' in value or '=' in value:
                yield ('axes', name, 'values', value), f'{value!r}: must have no comma and no ='


def _too_many(study: Study) -> Iterator[Problem]:
    """Yield the first experiment and the first number that has, with those above, more points than POINTS."""
    entries: list[list[tuple[tuple, int]]] = [[], []]
    for name, experiment in study.experiments.items():
        sizes = [len(study.axes[axis].values) if values == 'all' else len(values)
                 for axis, values in experiment.axes.items() if axis in study.axes]
        entries[0].append((('experiments', name, 'axes'), math.prod(sizes)))
    for i, number in enumerate(study.numbers):
        entries[1].append((('numbers', i, 'over'), math.prod(len(values) for values in number.over.values())))
    for kind in entries:
        points = 0
        for keys, more in kind:
            points += more
            if points > POINTS:
                yield keys, f'{points} points with those above: must have at most {POINTS}'
                break


def _of_experiments(study: Study) -> Iterator[Problem]:
    for name, experiment in study.experiments.items():
        if study.contrast in experiment.axes and not study.candidate:
            yield ('experiments', name, 'axes'), f'{study.contrast} has one value: no experiment may name it'
        quick = experiment.quick.axes if experiment.quick else {}
        for where, axes in ((('axes',), experiment.axes), (('quick', 'axes'), quick),
                            (('printed_by',), experiment.printed_by)):
            for axis, values in axes.items():
                keys = ('experiments', name, *where, axis)
                if axis not in study.axes or axis not in experiment.axes and where != ('printed_by',):
                    yield keys, unknown('axis', axis, list(study.axes))
                    continue
                valid = list(study.axes[axis].values)
                for value in values if values != 'all' else ():
                    if value not in valid:
                        yield keys, unknown(f'value of {axis}', value, valid)
                yield from _dependent(study, name, axis) if where == ('axes',) else ()


def _dependent(study: Study, experiment: str, axis: str) -> Iterator[Problem]:
    """Yield each value of the axis that depends on one that the experiment lacks, or not on all of its values."""
    axes = [name for name in study.experiments[experiment].axes
            if name in study.axes and study.axes[name].kind not in ('print', 'metric')]
    for value, stated in study.axes[axis].values.items():
        for other, texts in stated.items() if isinstance(stated, dict) else ():
            keys = ('axes', axis, 'values', value)
            if other not in axes:
                yield keys, unknown(f'axis of {experiment}', other, axes)
            elif lost := [v for v in study.values(experiment, other) if v not in texts]:
                yield (*keys, other), f'must have {other} {lost[0]}, too'


def _of_findings(study: Study) -> Iterator[Problem]:
    ids = [finding.id for finding in study.findings]
    for i, finding in enumerate(study.findings):
        ends = {'ratio': 2, 'variation': 2, 'order': -1, 'best': 1}.get(finding.kind, 0)
        if finding.printed and not study.number(finding.printed):
            yield ('findings', i, 'printed'), unknown('number', finding.printed, [n.name for n in study.numbers])
        if not (finding.kind in ('ratio', 'value') and study.number(finding.text)):
            yield from _of_series(study, ('findings', i, finding.kind), finding.text, ends)
        if finding.id in ids[:i]:
            yield ('findings', i, 'id'), f'{finding.id!r} is given twice: each finding needs its own'
        if finding.along and finding.along not in study.axes:
            yield ('findings', i, 'along'), unknown('axis', finding.along, list(study.axes))


def _of_number(study: Study, keys: tuple, number: Derived) -> Iterator[Problem]:
    formulas: list[tuple[tuple, Formula]] = [(keys, number)] if number.formula or not number.here else []
    formulas += [((*keys, 'here'), number.here)] if number.here else []
    for at, of in formulas:
        if why := formula.wrong(of.formula, {*of.let, *number.over}, formula.functions(study.functions)):
            yield (*at, 'formula'), why
    for values in itertools.product(*number.over.values()):
        over = dict(zip(number.over, values, strict=True))
        for at, of in formulas:
            for name, text in of.let.items():
                yield from _of_series(study, (*at, 'let', name), filled(text, over))
        if number.printed:
            yield from _of_series(study, (*keys, 'printed'), filled(number.printed, over))


def _of_series(study: Study, keys: tuple, text: str, ends: int = 0) -> Iterator[Problem]:
    """Yield what is wrong with a series; ``ends``: how many it must have, -1 for two or more."""
    try:
        found = len(study.series(text).ends)
    except ValueError as err:
        yield keys, str(err)
        return
    if found != ends and not (ends < 0 and found > 1):
        yield keys, f'{text!r} must {_ENDS[ends]}'
