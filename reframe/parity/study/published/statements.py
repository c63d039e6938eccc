"""Statements of study.yaml on a study's figures: findings, fits, numbers, and what else a reader should know."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints, model_validator

from parity.base.errors import unknown
from parity.base.strict import Strict
from parity.base.yamlfile import Text

Name = Annotated[str, StringConstraints(pattern=r'^[A-Za-z]\w*$')]

#: Of a function of formulas, `rtt_us(mtu, switch, rate)`.
Head = Annotated[str, StringConstraints(pattern=r'^[A-Za-z]\w*\(([A-Za-z]\w*(, [A-Za-z]\w*)*)?\)$')]


Texts = dict[Text, Text]


def points(values: Mapping[str, Iterable[str]]) -> Iterator[dict[str, str]]:
    """Yield each combination of the values of axes."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def demand(kind: str, name: str, valid: Iterable[str]) -> None:
    """Raise ValueError for a name that is not among the valid ones."""
    if name not in valid:
        raise ValueError(unknown(kind, name, [word or 'nothing' for word in valid]))


class Confounder(Strict):
    """A difference between the sides that the study did not set out to compare; of a repair or a part that is
    dropped, the reason."""

    what: str
    why: str

    @property
    def row(self) -> list[str]:
        return [self.what, self.why]


Number = Annotated[float, Field(allow_inf_nan=False)]
#: The functions of cells that a finding may name, and what each needs beside its series.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    'ratio': ('bound',), 'variation': ('bound',), 'slope': ('along', 'bound'), 'knee': ('along', 'bound'),
    'count': ('bound',), 'value': ('bound',), 'order': ()}
BOUNDS = {'above': operator.gt, 'below': operator.lt, 'at_least': operator.ge, 'at_most': operator.le}
#: Stands in a ratio for each other value of its axes.
OTHERS = 'others'
#: What a point gains, at least, where a rate still rises.
GAIN = 0.10


class Finding(Strict):
    """A statement that a program judges: a ``quote`` of the document, or a ``claim``: a sentence of ours. A claim
    whose bound is print's repeats the document in our words.

    It names a function of cells. A series is `experiment.metric %axis=value ...`. Of an axis that it does not
    name, all values count as ``rule`` says: each (always), more than half (most), their geometric mean (general).

        ratio: SERIES VALUE / VALUE     quotient; VALUE is of the contrasted axis, or VALUE,VALUE of several axes,
                                        or `others`
        variation: SERIES VALUE / VALUE quotient of the spreads: the mean deviation from the median, by the mean
        order: SERIES VALUE < VALUE ... each below the next; without values, those of the axis `along`
        slope: SERIES                   exponent of a power law `along` an axis
        knee: SERIES                    `along` an axis: at_most, no point above the bound gains 10 % on it; above,
                                        the last point does
        count: SERIES                   of all its runs, the sum
        value: SERIES                   the figure itself, of the machine in print

    A ratio and a value may also be one of ``numbers``: a formula. ``bound`` says whose the bounds are. ``printed``
    names a number: what print has in place of a ratio's figures."""

    id: Annotated[str, StringConstraints(pattern=r'^[a-z0-9][a-z0-9-]*$')]
    quote: str = ''
    claim: str = Field(default='', validation_alias=AliasChoices('claim', 'says'))      # before: says
    where: str
    ratio: str = ''
    variation: str = ''
    order: str = ''
    slope: str = ''
    knee: str = ''
    count: str = ''
    value: str = ''
    rule: Literal['always', 'most', 'general'] = 'always'
    printed: str = ''
    along: str = ''
    above: Number | None = None
    below: Number | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    bound: str = 'ours'
    not_testable: str = ''              # why the figures in print do not judge it

    @property
    def functions(self) -> list[str]:
        return [name for name in FUNCTIONS if getattr(self, name)]

    @property
    def kind(self) -> str:
        return self.functions[0]

    @property
    def text(self) -> str:
        return getattr(self, self.kind)

    @property
    def sentence(self) -> str:
        """Return the sentence, and whose it is."""
        if self.quote:
            return f'"{self.quote}"'
        whose = 'the document, in our words' if self.bound.startswith('print') else 'claim of ours'
        return f'{whose}: {self.claim}'

    @property
    def bounds(self) -> dict[str, float]:
        stated = {name: getattr(self, name) for name in BOUNDS}
        return {name: value for name, value in stated.items() if value is not None}

    @property
    def flat(self) -> bool:
        """Return whether a knee says that nothing is gained beyond the bound, and not that something is."""
        return self.at_most is not None

    @property
    def tested(self) -> dict[str, float]:
        """Return the bounds of what is estimated: of a knee, those of a gain."""
        if self.kind == 'order':
            return {'above': 1.0}
        if self.kind == 'knee':
            return {'below' if self.flat else 'at_least': 1 + GAIN}
        return self.bounds

    def within(self, value: float) -> list[bool]:
        """Return whether a value is within each of the bounds that are tested."""
        return [BOUNDS[name](value, bound) for name, bound in self.tested.items()]

    @property
    def needs(self) -> str:
        """Return what the figures must be, and who says so: `at least 1.8 (ours: 'nearly doubles')`."""
        if self.kind == 'order':
            return f'each below the next ({"print" if self.quote else "ours"})'
        stated = [f'{name.replace("_", " ")} {value:g}' for name, value in self.bounds.items()]
        needed = ' and '.join(stated)
        if self.kind == 'knee':
            size = f'{max(self.bounds.values()):g}'
            gain = f'each point above {size} gains less' if self.flat else \
                f'the last point above {size} gains as much or more'
            needed = f'a factor of {1 + GAIN:g}: {gain}'
        return f'{needed} ({self.bound})'

    @model_validator(mode='after')
    def _one_sentence(self) -> Finding:
        if bool(self.quote) == bool(self.claim):
            raise ValueError('must have a quote of the document, or a claim of ours: one, not both')
        return self

    @model_validator(mode='after')
    def _one_function(self) -> Finding:
        if len(self.functions) != 1:
            raise ValueError(f'has {len(self.functions)} functions; must have one of {", ".join(FUNCTIONS)}')
        needed = FUNCTIONS[self.kind]
        given = ['along'] if self.along else []
        if self.bounds:
            given.append('bound')
        if given != list(needed) and not (self.kind == 'order' and given == ['along']):
            raise ValueError(f'{self.kind} needs {", ".join(needed) or "nothing"} beside its series, and has '
                             f'{", ".join(given) or "nothing"}')
        if self.kind == 'knee' and list(self.bounds) not in (['above'], ['at_most']):
            raise ValueError('the bound of a knee must be one of above, at_most')
        if self.rule == 'general' and self.kind not in ('ratio', 'variation'):
            raise ValueError(f'rule general: {self.kind} has no mean; valid: always, most')
        return self

    @model_validator(mode='after')
    def _possible(self) -> Finding:
        lower = [bound for bound in (self.above, self.at_least) if bound is not None]
        upper = [bound for bound in (self.below, self.at_most) if bound is not None]
        if not lower or not upper:
            return self
        middle = (max(lower) + min(upper)) / 2
        if not all(self.within(middle)):
            raise ValueError(f'no figure can be {self.needs.rpartition(" (")[0]}')
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

    def points(self) -> Iterator[dict[str, str]]:
        """Yield the values of `over`, by axis, for which it is worked out."""
        return points(self.over)

    def worked(self, here: bool) -> Formula:
        """Return what gives its value: of what is measured, `here` where it has that."""
        return self.here if here and self.here else self
