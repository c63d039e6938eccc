"""The schema of studies/NAME/study.yaml: a published study, and its checks here.

For a value of the contrasted axis, `Study.cases` lists the cases of one session.
An axis says by ``kind`` what its values are here:

    partition   a partition that has this feature; the command line may name another
    network     a network of the partition, by its name; filesystem: a role of `filesystems`, by its name
                '' has none here: only --as AXIS.VALUE=NAME gives one, else its cases are not testable
    value       the text itself: of a parameter, a variable, a number of nodes
    print       only the document has it: nothing is set. With ``together``, its series ran at the same time, and a
                run is their mean
    metric      one case measures all of its values, each as a metric of its own

An experiment's ``parameters`` select cases (`-n`), ``set`` gives variables: a plain value by `-S Check.name=`, one
that holds {axis} by `-P Check.name=`, so that it stands in the name of every case (`Case.swept`). Cases of one
check whose plain variables differ need ReFrame sessions of their own (parity.study.campaign). ``quick`` replaces
values, and names fewer of an axis."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from parity.base.errors import unknown
from parity.base.strict import Strict
from parity.study import formula

#: `experiment.metric %axis=value,value ...` and, behind it, values that stand against each other.
SERIES = re.compile(r'(\w+)\.(\w+)((?: %\w+=\S+)*)(?: (?!%)(.+))?')
#: The name of an axis in braces.
AXIS = re.compile(r'\{([A-Za-z]\w*)\}')
Name = Annotated[str, StringConstraints(pattern=r'^[A-Za-z]\w*$')]


def _text(given: Any) -> Any:
    """Return a number as its text; YAML's yes and no must be quoted."""
    if isinstance(given, bool) or given is None:
        raise ValueError(f'{given!r} is no text; put it in quotes')
    return str(given) if isinstance(given, (int, float)) else given


Text = Annotated[str, BeforeValidator(_text)]
Texts = dict[Text, Text]
#: Of published.csv, beside the axes; an axis `unit` is the column of this name.
_COLUMNS = {'experiment', 'metric', 'better', 'run', 'value', 'flag', 'use', 'where', 'figure'}
#: Values of an axis, by its name: a point of an experiment.
Point = Mapping[str, str]


class Axis(Strict):
    """Something that was varied. ``values``: in print -> here, in the order of print; the baseline is first."""

    what: str
    here: str
    kind: Literal['partition', 'network', 'filesystem', 'value', 'print', 'metric']
    values: Texts = Field(min_length=1)
    together: bool = False

    @field_validator('values', mode='before')
    @classmethod
    def _same_here(cls, given: Any) -> Any:
        """Take a list for values that are the same here."""
        return {str(value): value for value in given} if isinstance(given, list) else given


class Quick(Strict):
    """The variables, repeats and values of axes that --quick takes instead."""

    set: Texts = {}
    axes: dict[Name, list[Text]] = {}
    repeats: Annotated[int, Field(ge=1, le=1000)] = 3
    seconds: Annotated[float, Field(gt=0, le=1e6)] = 10


class Case(Strict):
    """A case to measure: a check, its parameters and variables, and the point of the experiment that it is."""

    experiment: str
    check: str
    parameters: dict[str, str]
    variables: dict[str, str]
    swept: list[str]                # variables that hold an axis
    point: dict[str, str]
    reason: str = ''                # why it cannot be measured here
    quick: bool = False

    @property
    def runs(self) -> tuple:
        """Return what ReFrame runs: one case may be a point of several experiments."""
        return self.check, *sorted(self.parameters.items()), *sorted(self.variables.items())

    def is_case(self, check: str, having: Mapping[str, str]) -> bool:
        """Return whether a stored case, with what stands in its name, is this one. A plain variable that is set
        to its default does not stand there."""
        wanted = {**self.parameters, **self.variables}
        return check == self.check and {**wanted, **having} == wanted \
            and {*self.parameters, *self.swept} <= {*having}


class Experiment(Strict):
    """Figures that a document prints, and the check that stands for them: ``check`` is '' where none does.

    ``axes``: the axes of its figures, with their values or `all`. ``metrics``: in print -> of the check, which may
    hold {axis}; several names where print does not say which one it is; none where nothing here measures it.
    ``row``: its name and metric in the table, `{axis} ...: metric`, where they are not its own."""

    what: str
    where: str                          # pages, figures, tables
    subsystem: Literal['compute', 'memory', 'network', 'storage', 'gpu']
    axes: dict[Name, list[Text] | Literal['all']]
    metrics: dict[Name, list[str]] = Field(min_length=1)
    check: str = ''
    parameters: Texts = {}
    set: Texts = {}
    quick: Quick | None = None          # None: --quick leaves it out
    repeats: Annotated[int, Field(ge=1, le=1000)] = 3
    seconds: Annotated[float, Field(gt=0, le=1e6)] = 60     # that a case takes, where none was measured
    nodes: Annotated[int, Field(ge=1)] = 1      # not used any longer: the check knows how many nodes it needs
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None      # what the timer in print resolves
    differs: list[str] = []
    row: str = ''
    compared: bool = True               # False: its sides are not alike, or are compared elsewhere: it has no row

    @model_validator(mode='after')
    def _whole(self) -> Experiment:
        texts = [*self.parameters.values(), *self.set.values(), self.row,
                 *(name for names in self.metrics.values() for name in names),
                 *(self.quick.set.values() if self.quick else ())]
        if lost := sorted({name for text in texts for name in AXIS.findall(text)} - {*self.axes}):
            raise ValueError(unknown('axis', lost[0], list(self.axes)))
        if self.row and ': ' not in self.row:
            raise ValueError(f'row {self.row!r}: must be NAME: METRIC')
        if not self.check and (self.quick or self.set or self.parameters):
            raise ValueError('parameters, set and quick need a check')
        return self


class Confounder(Strict):
    """A difference between the sides that the study did not set out to compare; of a repair or a part that is
    dropped, the reason."""

    what: str
    why: str


#: What a finding of each kind needs beside its series. A bound is one of above, below, at_least, at_most.
KINDS: dict[str, tuple[str, ...]] = {
    'ratio': ('bound',), 'order': (), 'trend': ('along', 'goes'), 'fit': ('along', 'law', 'bound'),
    'knee': ('along', 'bound'), 'equal': ('within',), 'count': ('bound',), 'variation': ('bound',)}
Number = Annotated[float, Field(allow_inf_nan=False)]


class Finding(Strict):
    """A statement of a document that a program judges (parity.study.findings).

    A series is `experiment.metric %axis=value ...`: of an axis that it does not name, all values must agree.

        ratio: SERIES VALUE / VALUE     quotient, `above` or `below` a bound; VALUE is of the contrasted axis,
        equal: SERIES VALUE / VALUE     or VALUE,VALUE of several axes; equal: `within` a share of 1
        order: SERIES VALUE < VALUE < VALUE
        trend: SERIES                   `along` an axis it `goes` rising or falling
        fit: SERIES                     `law` power: the bound is on b, inverse: on a
        knee: SERIES                    `along` an axis, from where no doubling gains 10 %
        count: SERIES                   of all its runs, the sum
        variation: SERIES VALUE / VALUE quotient of the coefficients of variation"""

    id: Annotated[str, StringConstraints(pattern=r'^[a-z0-9][a-z0-9-]*$')]
    says: str
    where: str
    ratio: str = ''
    order: str = ''
    trend: str = ''
    fit: str = ''
    knee: str = ''
    equal: str = ''
    count: str = ''
    variation: str = ''
    along: str = ''
    goes: Literal['rising', 'falling', ''] = ''
    law: Literal['power', 'inverse', ''] = ''
    above: Number | None = None
    below: Number | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    within: Annotated[float, Field(gt=0, lt=1)] | None = None

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind))

    @property
    def text(self) -> str:
        return getattr(self, self.kind)

    @property
    def bounds(self) -> dict[str, float]:
        found = {name: getattr(self, name) for name in ('above', 'below', 'at_least', 'at_most')}
        return {name: value for name, value in found.items() if value is not None}

    @model_validator(mode='after')
    def _one_kind(self) -> Finding:
        if len(kinds := [kind for kind in KINDS if getattr(self, kind)]) != 1:
            raise ValueError(f'{len(kinds)} kinds; must have one of {", ".join(KINDS)}')
        given = {name for name in ('along', 'goes', 'law') if getattr(self, name)}
        given |= {'within'} if self.within else set()
        given |= {'bound'} if self.bounds else set()
        if given != {*(needed := KINDS[kinds[0]])}:
            raise ValueError(f'{kinds[0]} needs {", ".join(needed) or "nothing"} beside its series, and has '
                             f'{", ".join(sorted(given)) or "nothing"}')
        return self


class Fit(Strict):
    """A law fitted to every series of this form, along an axis. ``printed``: the series of a law whose a, and not
    its points, is in print."""

    series: str
    along: Name
    law: Literal['power', 'inverse']
    printed: str = ''


class Formula(Strict):
    """``let`` names series, whose free axes make lists; ``formula`` is arithmetic on these names and those of
    `over`, where yes is 1 and no is 0."""

    formula: str = ''
    let: dict[Name, str] = {}


class Derived(Formula):
    """A figure that follows from others. ``over`` has the values of axes for which it is worked out. ``here`` has
    the formula of what is measured, where print has other figures; without ``formula`` print has none. ``printed``
    names the series that has it in print."""

    name: str
    unit: str = ''
    over: dict[Name, list[Text]] = {}
    here: Formula | None = None
    published: dict[Text, Number] = {}      # what print says, by the values of `over` joined by blanks
    printed: str = ''
    note: str = ''


class Clusters(Strict):
    """Observations of an experiment, divided by k-means, for every value of the contrasted axis. In print they are
    centroids already: ``sizes`` is the metric that counts their members, ``each`` the axis that numbers them. Here
    they are of the metrics ``of_here`` of the experiment ``here``: each of its points is an observation."""

    experiment: str
    k: Annotated[int, Field(ge=1, le=20)]
    of: list[Name] = Field(min_length=1)
    sizes: Name
    each: Name
    here: Name
    of_here: list[Name] = Field(min_length=1)


@dataclass(frozen=True)
class Series:
    """Figures that a finding, a fit or a number names. ``fixed``: axis -> values; ``ends``: points that stand
    against each other, such as those of `virtual / physical`."""

    experiment: str
    metric: str
    fixed: dict[str, list[str]]
    ends: list[dict[str, str]]


class Study(Strict):
    """A study. ``contrast`` names the axis whose first value is the baseline, and whose others stand beside it. Of
    one value it is the only side, which no experiment names among its axes."""

    title: str
    source: str
    what: str                           # its question
    contrast: Name
    axes: dict[Name, Axis] = Field(min_length=1)
    experiments: dict[Name, Experiment] = Field(min_length=1)
    findings: list[Finding] = []
    fits: list[Fit] = []
    numbers: list[Derived] = []
    clusters: list[Clusters] = []
    confounders: list[Confounder] = []
    repairs: list[str] = []
    dropped: list[Confounder] = []

    @property
    def baseline(self) -> str:
        return next(iter(self.axes[self.contrast].values))

    @property
    def candidate(self) -> str:
        """Return the second value of the contrasted axis; '' where it has one: the study has one side."""
        return (*self.axes[self.contrast].values, '')[1]

    def against(self, candidate: str) -> Study:
        """Return this study of one side with a second one, which is this partition."""
        axis, own = self.axes[self.contrast], f' %{self.contrast}={self.baseline}'
        both = axis.model_copy(update={'values': {**axis.values, candidate: ''}})
        return self.model_copy(update={
            'axes': {**self.axes, self.contrast: both},
            'experiments': {name: of.model_copy(update={'axes': {self.contrast: 'all', **of.axes}})
                            for name, of in self.experiments.items()},
            'numbers': [of.model_copy(update={'let': {name: text + own for name, text in of.let.items()}})
                        for of in self.numbers]})

    def side(self, case: Case) -> str:
        """Return the side that measures a case: one without the contrasted axis is the baseline's."""
        return case.point.get(self.contrast, self.baseline)

    def values(self, experiment: str, axis: str, quick: bool = False) -> list[str]:
        """Return the values of an axis that an experiment has, in the order of print."""
        asked = self.experiments[experiment]
        if quick and asked.quick and axis in asked.quick.axes:
            return asked.quick.axes[axis]
        stated = asked.axes[axis]
        return list(self.axes[axis].values) if stated == 'all' else stated

    def series(self, text: str) -> Series:
        """Read `experiment.metric %axis=value ... VALUE / VALUE`. ValueError says what is wrong."""
        if not (found := SERIES.fullmatch(text)):
            raise ValueError(f'{text!r}: must be EXPERIMENT.METRIC, and perhaps %AXIS=VALUE')
        name, metric, fixed, ends = found.groups()
        if name not in self.experiments:
            raise ValueError(unknown('experiment', name, list(self.experiments)))
        experiment = self.experiments[name]
        if metric not in experiment.metrics:
            raise ValueError(unknown(f'metric of {name}', metric, list(experiment.metrics)))
        chosen: dict[str, list[str]] = {}
        for axis, values in (each.split('=', 1) for each in fixed.split(' %')[1:]):
            if axis not in experiment.axes:
                raise ValueError(unknown(f'axis of {name}', axis, list(experiment.axes)))
            chosen[axis] = values.split(',')
            valid = list(dict.fromkeys([*self.values(name, axis), *self.values(name, axis, quick=True)]))
            for value in chosen[axis]:
                if value not in valid:
                    raise ValueError(unknown(f'value of {axis}', value, valid))
        points = [self._point(name, end, chosen) for end in re.split(' [/<] ', ends)] if ends else []
        if len({tuple(sorted(point)) for point in points}) > 1:
            raise ValueError(f'{ends!r}: all must be values of the same axes')
        return Series(name, metric, chosen, points)

    def _point(self, experiment: str, text: str, fixed: dict[str, list[str]]) -> dict[str, str]:
        point = {}
        for word in text.split(','):
            free = {axis: self.values(experiment, axis) for axis in self.experiments[experiment].axes
                    if axis not in fixed and axis not in point and not self.axes[axis].together}
            stated, _, value = word.rpartition('=')
            having = [axis for axis, values in free.items() if value in values and stated in ('', axis)]
            if len(having) != 1:
                valid = '; '.join(f'{axis}={",".join(values)}' for axis, values in free.items())
                raise ValueError(f'{word!r} is a value of {len(having)} axes that are left; valid: {valid}')
            point[having[0]] = value
        return point

    def number(self, text: str) -> Derived | None:
        """Return the number that a finding names: by its name, or with values of `over`."""
        return next((n for n in self.numbers if n.name == text.partition(' %')[0]), None)

    def _named(self) -> Iterator[tuple[tuple, str, int]]:
        """Yield the series that findings, fits and numbers name: where, text, and how many ends it must have."""
        for i, finding in enumerate(self.findings):
            ends = {'ratio': 2, 'equal': 2, 'variation': 2, 'order': -1}.get(finding.kind, 0)
            if not (ends == 2 and self.number(finding.text)):
                yield ('findings', i, finding.kind), finding.text, ends
        for i, fit in enumerate(self.fits):
            yield ('fits', i, 'series'), fit.series, 0
            if fit.printed:
                yield ('fits', i, 'printed'), fit.printed, 0
        for i, number in enumerate(self.numbers):
            for values in itertools.product(*number.over.values()):
                over = dict(zip(number.over, values, strict=True))
                for keys, of in self._formulas(i):
                    for name, text in of.let.items():
                        yield (*keys, 'let', name), filled(text, over), 0
                if number.printed:
                    yield ('numbers', i, 'printed'), filled(number.printed, over), 0

    def _formulas(self, i: int) -> Iterator[tuple[tuple, Formula]]:
        """Yield the formulas of a number, each with its keys in study.yaml."""
        number = self.numbers[i]
        if number.formula or not number.here:
            yield ('numbers', i), number
        if number.here:
            yield ('numbers', i, 'here'), number.here

    def _references(self) -> Iterator[tuple[tuple, str]]:
        for keys, text, ends in self._named():
            try:
                found = len(self.series(text).ends)
            except ValueError as err:
                yield keys, str(err)
                continue
            if found != ends and not (ends < 0 and found > 1):
                valid = {0: 'be a series alone', 2: 'end in VALUE / VALUE', -1: 'end in VALUE < VALUE'}
                yield keys, f'{text!r} must {valid[ends]}'
        for i, number in enumerate(self.numbers):
            for keys, of in self._formulas(i):
                if why := formula.wrong(of.formula, {*of.let, *number.over}):
                    yield (*keys, 'formula'), why
        for i, groups in enumerate(self.clusters):
            for name in (*(f'{groups.experiment}.{name}' for name in (*groups.of, groups.sizes)),
                         *(f'{groups.here}.{name}' for name in groups.of_here)):
                with contextlib.suppress(ValueError):
                    self.series(name)
                    continue
                yield ('clusters', i), f'no figures {name}'
        seen = set()
        for i, finding in enumerate(self.findings):
            if finding.id in seen:
                yield ('findings', i, 'id'), f'{finding.id!r} is there twice'
            seen.add(finding.id)
            if finding.along and finding.along not in self.axes:
                yield ('findings', i, 'along'), unknown('axis', finding.along, list(self.axes))

    def problems(self) -> Iterator[tuple[tuple, str]]:
        """Yield (keys, sentence) for every name that means nothing."""
        if taken := sorted({*self.axes} & _COLUMNS):
            yield ('axes', taken[0]), f'{taken[0]} is a column of published.csv: name the axis otherwise'
        if self.contrast not in self.axes:
            yield ('contrast',), unknown('axis', self.contrast, list(self.axes))
        for name, experiment in self.experiments.items():
            if self.contrast in experiment.axes and not self.candidate:
                yield ('experiments', name, 'axes'), f'{self.contrast} has one value: no experiment names it'
            quick = experiment.quick.axes if experiment.quick else {}
            for where, axes in ((('axes',), experiment.axes), (('quick', 'axes'), quick)):
                for axis, values in axes.items():
                    keys = ('experiments', name, *where, axis)
                    if axis not in self.axes or axis not in experiment.axes:
                        yield keys, unknown('axis', axis, list(self.axes))
                        continue
                    valid = list(self.axes[axis].values)
                    for value in values if values != 'all' else ():
                        if value not in valid:
                            yield keys, unknown(f'value of {axis}', value, valid)
        yield from self._references()

    def cases(self, names: Mapping[str, Mapping[str, str]] | None = None, quick: bool = False) -> Iterator[Case]:
        """Yield the cases that stand for the study's points, of all values of the contrasted axis.

        ``names``: of --as, axis -> value in print -> name here."""
        for name, experiment in self.experiments.items():
            if not experiment.check or quick and not experiment.quick:
                continue
            axes = [axis for axis in experiment.axes if self.axes[axis].kind not in ('print', 'metric')]
            texts = {**experiment.set, **(experiment.quick.set if quick and experiment.quick else {})}
            for values in itertools.product(*(self.values(name, axis, quick) for axis in axes)):
                point = dict(zip(axes, values, strict=True))
                here, reason = {}, ''
                for axis, value in point.items():
                    kind = self.axes[axis].kind
                    here[axis] = (names or {}).get(axis, {}).get(value) or self.axes[axis].values[value]
                    if kind in ('network', 'filesystem') and not here[axis]:
                        reason = reason or f'{value}: no {kind} here stands for it (--as {axis}.{value}=NAME)'
                yield Case(experiment=name, check=experiment.check, point=point, reason=reason, quick=quick,
                           swept=[k for k, v in texts.items() if AXIS.search(v)],
                           parameters={k: filled(v, here) for k, v in experiment.parameters.items()},
                           variables={k: filled(v, here) for k, v in texts.items()})


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with the values of the axes that it names in braces."""
    return AXIS.sub(lambda found: values.get(found[1], found[0]), text)
