"""studies/NAME/study.yaml: what a published study asked, measured and found, and what stands for it here.

What a campaign needs of it: for a value of the contrasted axis, `Experiment.cases` lists the cases of one session.
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
check whose plain variables differ need ReFrame sessions of their own. ``quick`` replaces values, and names fewer
of an axis. A campaign's sessions carry study=NAME, mode=full or quick, side=VALUE of the contrasted axis and
repeat=N among their session extras."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from parity.base.errors import unknown
from parity.base.strict import Strict

#: The name of an axis in braces.
AXIS = re.compile(r'\{([a-z]\w*)\}')
Name = Annotated[str, StringConstraints(pattern=r'^[a-z]\w*$')]


def _text(given: Any) -> Any:
    """Return a number as its text; YAML's yes and no must be quoted."""
    if isinstance(given, bool) or given is None:
        raise ValueError(f'{given!r} is no text; put it in quotes')
    return str(given) if isinstance(given, (int, float)) else given


Text = Annotated[str, BeforeValidator(_text)]
Texts = dict[Text, Text]
#: Values of an axis, by its name: a point of an experiment.
Point = Mapping[str, str]


class Axis(Strict):
    """What was varied. ``values``: in print -> here, in the order of print; the first is the baseline."""

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
    """What --quick replaces: variables, repeats, and the values of axes that it measures."""

    set: Texts = {}
    axes: dict[Name, list[Text]] = {}
    repeats: Annotated[int, Field(ge=1, le=1000)] = 3


class Case(Strict):
    """A case to measure: a check, its parameters and variables, and the point of the experiment that it is."""

    experiment: str
    check: str
    parameters: dict[str, str]
    variables: dict[str, str]
    swept: list[str]                # variables that hold an axis
    point: dict[str, str]
    reason: str = ''                # why it cannot be measured here

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
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None      # what the timer in print resolves
    differs: list[str] = []
    row: str = ''

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
    'knee': ('along', 'bound'), 'equal': ('within',), 'count': ('bound',)}
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
        count: SERIES                   of all its runs, the sum"""

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
    """A law fitted to every series of this form, along an axis."""

    series: str
    along: Name
    law: Literal['power', 'inverse']


class Derived(Strict):
    """A figure that follows from others. ``let`` names series, whose free axes make lists; ``formula`` is
    arithmetic on these names and those of ``over``, the values of axes for which it is worked out."""

    name: str
    formula: str
    unit: str = ''
    over: dict[Name, list[Text]] = {}
    let: dict[Name, str] = {}
    published: dict[Text, Number] = {}      # what print says, by the values of `over` joined by blanks
    note: str = ''


class Clusters(Strict):
    """Observations of an experiment, divided by k-means, for every value of the contrasted axis. In print they are
    centroids already: ``sizes`` is the metric that counts their members, ``each`` the axis that numbers them."""

    experiment: str
    k: Annotated[int, Field(ge=1, le=20)]
    of: list[Name] = Field(min_length=1)
    sizes: Name
    each: Name


class Study(Strict):
    """A study. ``contrast`` names the axis whose first value is the baseline, and whose others stand beside it."""

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
        return list(self.axes[self.contrast].values)[1]

    def values(self, experiment: str, axis: str, quick: bool = False) -> list[str]:
        """Return the values of an axis that an experiment has, in the order of print."""
        asked = self.experiments[experiment]
        if quick and asked.quick and axis in asked.quick.axes:
            return asked.quick.axes[axis]
        stated = asked.axes[axis]
        return list(self.axes[axis].values) if stated == 'all' else stated

    def problems(self) -> Iterator[tuple[tuple, str]]:
        """Yield (keys, sentence) for every name that means nothing."""
        if self.contrast not in self.axes:
            yield ('contrast',), unknown('axis', self.contrast, list(self.axes))
        elif len(self.axes[self.contrast].values) < 2:
            yield ('axes', self.contrast, 'values'), 'the contrasted axis needs at least two values'
        for name, experiment in self.experiments.items():
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

    def cases(self, names: Mapping[str, Mapping[str, str]] | None = None, quick: bool = False,
              only: Callable[[str, str], str] | None = None) -> Iterator[Case]:
        """Yield the cases that stand for the study's points, of all values of the contrasted axis.

        ``names``: of --as, axis -> value in print -> name here. ``only(kind, name)`` says why a network or a file
        system of this name is not there, '' where it is."""
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
                    if kind in ('network', 'filesystem'):
                        reason = reason or (only(kind, here[axis]) if here[axis] and only else '')
                        reason = reason or ('' if here[axis] else f'{value}: no {kind} here stands for it '
                                            f'(--as {axis}.{value}=NAME)')
                yield Case(experiment=name, check=experiment.check, point=point, reason=reason,
                           swept=[k for k, v in texts.items() if AXIS.search(v)],
                           parameters={k: filled(v, here) for k, v in experiment.parameters.items()},
                           variables={k: filled(v, here) for k, v in texts.items()})


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with the values of the axes that it names in braces."""
    return AXIS.sub(lambda found: values.get(found[1], found[0]), text)
