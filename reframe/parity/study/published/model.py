"""The schema of studies/NAME/study.yaml: a published study, and its checks here.

For a value of the contrasted axis, `Study.cases` lists the cases of one session.
An axis says by ``kind`` what its values are here:

    partition   a partition that has this feature; the command line may name another
    network     a network of the partition, by its name; filesystem: a role of `filesystems`, by its name
                '' has none here: only --as AXIS.VALUE=NAME gives one, else its cases are not testable
    environ     an environment of the system, by its name; '' as before
    value       the text itself: of a parameter, a variable, a number of nodes; {AXIS: {value: text}} where it
                depends on a second axis
    print       only the document has it: nothing is set. With ``simultaneous``, its series ran at the same time,
                and a run is their mean
    metric      one case measures all of its values, each as a metric of its own

An experiment's ``parameters`` select cases (`-n`), ``set`` gives variables: a plain value by `-S Check.name=`, one
that holds {axis} by `-P Check.name=`, so that it stands in the name of every case (`Case.swept`). Cases of one
check whose plain variables differ need ReFrame sessions of their own (parity.study.campaign). ``quick`` replaces
values, and names fewer of an axis."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from parity.base.strict import Strict
from parity.site.plan import Asked
from parity.study.published.statements import (
    OTHERS,
    Confounder,
    Derived,
    Finding,
    Fit,
    Head,
    Name,
    Text,
    Texts,
    demand,
    points,
)

#: `experiment.metric %axis=value,value ...` and, behind it, values that stand against each other.
SERIES = re.compile(r'(\w+)\.(\w+)((?: %\w+=\S+)*)(?: (?!%)(.+))?')
#: The name of an axis in braces.
AXIS = re.compile(r'\{([A-Za-z]\w*)\}')
#: Kinds of axes whose values --as names.
NAMED = ('network', 'filesystem', 'environ')
#: Values of an axis, by its name: a point of an experiment.
Point = Mapping[str, str]
#: What --as gives: axis -> value in print -> name here.
Names = Mapping[str, Mapping[str, str]]


class Axis(Strict):
    """Something that was varied. ``values``: in print -> here, in the order of print; the baseline is first."""

    what: str
    here: str
    kind: Literal['partition', 'network', 'filesystem', 'environ', 'value', 'print', 'metric']
    values: dict[Text, Text | dict[Name, Texts]] = Field(min_length=1)
    #: Of kind print: its series ran at the same time. Before: together.
    simultaneous: bool = Field(default=False, validation_alias=AliasChoices('simultaneous', 'together'))

    @field_validator('values', mode='before')
    @classmethod
    def _same_here(cls, given: Any) -> Any:
        """Take a list for values that are the same here."""
        return {str(value): value for value in given} if isinstance(given, list) else given

    def at(self, value: str, point: Point) -> str:
        """Return what a value is here, at a point of the axes that it depends on."""
        for axis, texts in self.dependent(value).items():
            there = point[axis]
            return texts[there]
        return self.values[value]

    def dependent(self, value: str) -> Mapping[str, Texts]:
        """Return the axis that a value depends on, with the text at each value of that."""
        stated = self.values[value]
        return stated if isinstance(stated, dict) else {}

    @model_validator(mode='after')
    def _depends_where_it_may(self) -> Axis:
        for value, stated in self.values.items():
            if isinstance(stated, str):
                continue
            if self.kind != 'value' or len(stated) != 1:
                raise ValueError(f'{value}: only a value of kind value may depend on an axis, and on one')
        return self


class Quick(Strict):
    """The variables, repeats and values of axes that --quick takes instead."""

    set: Texts = {}
    axes: dict[Name, list[Text]] = {}
    repeats: Annotated[int, Field(ge=1, le=1000)] = 3
    seconds: Annotated[float, Field(gt=0, le=1e6)] = 10

    @property
    def changes(self) -> list[str]:
        values = [f'{name}={value}' for name, value in self.set.items()]
        return values + [f'{axis} {" ".join(values)}' for axis, values in self.axes.items()]


class Case(Asked):
    """A case to measure: a check, its parameters and variables, and the point of the experiment that it is.

    ``swept``: variables that hold an axis; ``reason``: why it cannot be measured here."""

    experiment: str
    swept: list[str]
    point: dict[str, str]
    reason: str = ''
    quick: bool = False

    @property
    def runs(self) -> tuple:
        """Return what ReFrame runs: one case may be a point of several experiments."""
        return self.check, self.environ, *sorted(self.parameters.items()), *sorted(self.variables.items())

    def is_case(self, check: str, having: Mapping[str, str], environ: str = '') -> bool:
        """Return whether a stored case, with what stands in its name, is this one. A plain variable that is set
        to its default does not stand there."""
        if check != self.check or self.environ not in ('', environ):
            return False
        wanted = self.parameters | self.variables
        named = {*self.parameters, *self.swept}
        if not named <= having.keys():
            return False
        return having.items() <= wanted.items()


Cases = Sequence[Case]


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
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None      # what the timer in print resolves
    differs: list[str] = []
    here: str = ''                      # what stands for it here, where no check of its own does
    lacks: list[str] = []               # what nothing here stands for, and why
    printed_by: dict[Name, list[Text] | Literal['all']] = {}   # each value is one in print
    row: str = ''
    compared: bool = True               # False: its sides are not alike, or are compared elsewhere: it has no row

    @property
    def lacking(self) -> list[str]:
        """Return what nothing here stands for, and why."""
        unnamed = self._unnamed
        if self.lacks or self.here or not unnamed:
            return self.lacks
        return [f'{", ".join(unnamed)}: nothing here measures it']

    @property
    def extent(self) -> Literal['whole', 'in part', 'missing']:
        if not self.lacking:
            return 'whole'
        stands = self.here or len(self._unnamed) < len(self.metrics)
        return 'in part' if stands else 'missing'

    @property
    def _unnamed(self) -> list[str]:
        """Return the metrics that no check has."""
        return [metric for metric, names in self.metrics.items() if not (names and self.check)]

    @property
    def cut(self) -> str:
        """Return what --quick cuts; '' for nothing."""
        return ', '.join(self.quick.changes) if self.quick else ''

    def taken(self, quick: bool) -> Experiment | Quick:
        """Return what has the repeats and seconds that are taken."""
        return self.quick if quick and self.quick else self

    def set_of(self, quick: bool) -> Texts:
        """Return the variables that are set."""
        return {**self.set, **self.quick.set} if quick and self.quick else self.set

    @model_validator(mode='after')
    def _whole(self) -> Experiment:
        for text in self._texts():
            for axis in AXIS.findall(text):
                demand('axis', axis, self.axes)
        if self.row and ': ' not in self.row:
            raise ValueError(f'row {self.row!r}: must be NAME: METRIC')
        if not self.check and (self.quick or self.set or self.parameters):
            raise ValueError('parameters, set and quick need a check: name it, or remove them')
        return self

    def _texts(self) -> list[str]:
        """Return all texts that may hold an axis."""
        names = itertools.chain.from_iterable(self.metrics.values())
        return [self.row, *names, *self.parameters.values(), *self.set.values(), *self.set_of(True).values()]


@dataclass(frozen=True)
class FigureSeries:
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
    link: Annotated[str, Field(pattern=r'^(https?://\S+)?$')] = ''      # its address or DOI, where one is printed
    machine: Texts = {}                 # in print: its processor, memory, network, ...
    what: str                           # its question
    data: str = ''                      # how published.csv is made, where the repository lacks it
    contrast: Name
    axes: dict[Name, Axis] = Field(min_length=1)
    experiments: dict[Name, Experiment] = Field(min_length=1)
    findings: list[Finding] = []
    fits: list[Fit] = []
    functions: dict[Head, Text] = {}      # `rtt_us(mtu, rate)`: a formula of these and of the functions above it
    numbers: list[Derived] = []
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

    @property
    def sides(self) -> list[str]:
        """Return the baseline and, where there is one, the candidate."""
        return [self.baseline, self.candidate] if self.candidate else [self.baseline]

    def side_of(self, point: Point) -> str:
        """Return the side of a figure; '' where it has none."""
        return point.get(self.contrast, '') if self.candidate else self.baseline

    def against(self, candidate: str) -> Study:
        """Return this study of one side with a second one, which is this partition."""
        contrasted = self.axes[self.contrast]
        both = contrasted.model_copy(update={'values': {**contrasted.values, candidate: ''}})
        experiments = {}
        for name, experiment in self.experiments.items():
            axes = {self.contrast: 'all', **experiment.axes}
            experiments[name] = experiment.model_copy(update={'axes': axes})
        numbers = []
        for number in self.numbers:
            let = {name: f'{text} %{self.contrast}={self.baseline}' for name, text in number.let.items()}
            numbers.append(number.model_copy(update={'let': let}))
        return self.model_copy(update={
            'axes': {**self.axes, self.contrast: both}, 'experiments': experiments, 'numbers': numbers})

    def here(self, point: Point) -> dict[str, str]:
        """Return what the values of a point are here."""
        return {axis: self.axes[axis].at(value, point) for axis, value in point.items()}

    def side(self, case: Case) -> str:
        """Return the side that measures a case: one without the contrasted axis is the baseline's."""
        return case.point.get(self.contrast, self.baseline)

    def values(self, experiment: str, axis: str, quick: bool = False) -> list[str]:
        """Return the values of an axis that an experiment has, in the order of print."""
        asked = self.experiments[experiment]
        values = asked.axes[axis]
        if quick and asked.quick:
            values = asked.quick.axes.get(axis, values)
        return self.stated(axis, values)

    def stated(self, axis: str, values: list[str] | Literal['all']) -> list[str]:
        """Return these values of an axis, where `all` stands for each."""
        return list(self.axes[axis].values) if values == 'all' else values

    def series(self, text: str) -> FigureSeries:
        """Read `experiment.metric %axis=value ... VALUE / VALUE`. ValueError says what is wrong."""
        match = SERIES.fullmatch(text)
        if not match:
            raise ValueError(f'{text!r}: must be EXPERIMENT.METRIC, then perhaps %AXIS=VALUE')
        name, metric, fixed, ends = match.groups()
        demand('experiment', name, self.experiments)
        experiment = self.experiments[name]
        demand(f'metric of {name}', metric, experiment.metrics)
        chosen = {}
        for words in fixed.split(' %')[1:]:
            axis, values = words.split('=', 1)
            chosen[axis] = values.split(',')
            self._demand_values(name, axis, chosen[axis])
        stated = []
        for end in re.split(' [/<] ', ends) if ends else []:
            stated.append({} if end == OTHERS else self._point(name, end, chosen))
        axes = {frozenset(point) for point in stated if point}
        if len(axes) > 1 or stated.count({}) > 1:
            raise ValueError(f'{ends!r}: all must be values of the same axes')
        return FigureSeries(name, metric, chosen, stated)

    def _demand_values(self, experiment: str, axis: str, values: list[str]) -> None:
        demand(f'axis of {experiment}', axis, self.experiments[experiment].axes)
        full, quick = (self.values(experiment, axis, mode) for mode in (False, True))
        valid = dict.fromkeys(full + quick)
        for value in values:
            demand(f'value of {axis}', value, valid)

    def _point(self, experiment: str, text: str, fixed: Mapping[str, list[str]]) -> dict[str, str]:
        """Read VALUE, AXIS=VALUE, or several joined by commas, of axes that are not fixed."""
        free = {axis: self.values(experiment, axis) for axis in self.experiments[experiment].axes
                if axis not in fixed and not self.axes[axis].simultaneous}
        point: dict[str, str] = {}
        for word in text.split(','):
            stated, _, value = word.rpartition('=')
            having = [axis for axis, values in free.items() if value in values and stated in ('', axis)]
            if len(having) != 1:
                valid = '; '.join(f'{axis}={",".join(values)}' for axis, values in free.items())
                raise ValueError(f'{word!r} is a value of {len(having)} axes: must be of one; valid: {valid}')
            point[having[0]] = value
            del free[having[0]]
        return point

    def number(self, text: str) -> Derived | None:
        """Return the number that a finding names: by its name, or with values of `over`."""
        name = text.partition(' %')[0]
        return next((number for number in self.numbers if number.name == name), None)

    def cases(self, names: Names | None = None, quick: bool = False) -> Iterator[Case]:
        """Yield the cases that stand for the study's points, of all values of the contrasted axis.

        ``names``: of --as."""
        for name, experiment in self.experiments.items():
            if not experiment.check or (quick and not experiment.quick):
                continue
            values = {}
            for axis in experiment.axes:
                if self.axes[axis].kind not in ('print', 'metric'):
                    values[axis] = self.values(name, axis, quick)
            for point in points(values):
                yield self._case(name, point, names or {}, quick)

    def _case(self, name: str, point: dict[str, str], names: Names, quick: bool) -> Case:
        """Return the case of a point. Without a name here for one of its values, it has the reason."""
        experiment = self.experiments[name]
        here, environ, reasons = {}, '', []
        for axis, value in point.items():
            kind = self.axes[axis].kind
            here[axis] = names.get(axis, {}).get(value) or self.axes[axis].at(value, point)
            if kind == 'environ':
                environ = here[axis]
            if kind in NAMED and not here[axis]:
                reasons.append(f'{value}: no {kind} here stands for it (--as {axis}.{value}=NAME)')
        variables = experiment.set_of(quick)
        return Case(
            experiment=name, check=experiment.check, point=point, reason=reasons[0] if reasons else '',
            quick=quick, environ=environ, swept=[name for name, text in variables.items() if AXIS.search(text)],
            parameters=_all_filled(experiment.parameters, here), variables=_all_filled(variables, here))


def _all_filled(texts: Texts, values: Mapping[str, str]) -> Texts:
    return {name: filled(text, values) for name, text in texts.items()}


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with the values of the axes that it names in braces."""
    return AXIS.sub(lambda match: values.get(match[1], match[0]), text)
