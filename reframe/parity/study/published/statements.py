"""Statements of study.yaml on a study's figures: findings, fits, numbers, and what else a reader should know."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints, model_validator

from parity.base.strict import Strict
from parity.base.yamlfile import Text

Name = Annotated[str, StringConstraints(pattern=r'^[A-Za-z]\w*$')]

#: Of a function of formulas, `rtt_us(mtu, switch, rate)`.
Head = Annotated[str, StringConstraints(pattern=r'^[A-Za-z]\w*\(([A-Za-z]\w*(, [A-Za-z]\w*)*)?\)$')]


Texts = dict[Text, Text]


class Confounder(Strict):
    """A difference between the sides that the study did not set out to compare; of a repair or a part that is
    dropped, the reason."""

    what: str
    why: str


#: What a finding of each kind needs beside its series. A bound is one of above, below, at_least, at_most.
KINDS: dict[str, tuple[str, ...]] = {
    'ratio': ('bound',), 'order': (), 'best': (), 'trend': ('along', 'goes'), 'fit': ('along', 'law', 'bound'),
    'knee': ('along', 'bound'), 'value': ('bound',), 'count': ('bound',), 'variation': ('bound',)}
#: What a point gains, at least, where a rate still rises.
GAIN = 0.10
Number = Annotated[float, Field(allow_inf_nan=False)]


class Finding(Strict):
    """A statement that a program judges: a ``quote`` of the document, or a ``claim``: a sentence of ours. A claim
    whose bound is print's repeats the document in our words.

    A series is `experiment.metric %axis=value ...`: of an axis that it does not name, all values count as ``rule``
    says: each (always), more than half (most), or their geometric mean (general).

        ratio: SERIES VALUE / VALUE     quotient, `above` or `below` a bound; VALUE is of the contrasted axis,
                                        or VALUE,VALUE of several axes
        order: SERIES VALUE < VALUE < VALUE
        best: SERIES VALUE              better than each other value of its axis
        trend: SERIES                   `along` an axis it `goes` rising or falling
        fit: SERIES                     `law` power: the bound is on b, inverse: on a
        knee: SERIES                    `along` an axis: at_most, no point above the bound gains 10 % on it; above,
                                        the last point does
        value: SERIES                   the figure itself, of the machine in print
        count: SERIES                   of all its runs, the sum
        variation: SERIES VALUE / VALUE quotient of the spreads: the mean deviation from the median, by the mean

    ``bound`` says whose the bounds are. ``printed`` names a number: what
    print has in place of a ratio's figures."""

    id: Annotated[str, StringConstraints(pattern=r'^[a-z0-9][a-z0-9-]*$')]
    quote: str = ''
    claim: str = Field(default='', validation_alias=AliasChoices('claim', 'says'))      # before: says
    where: str
    ratio: str = ''
    order: str = ''
    best: str = ''
    trend: str = ''
    fit: str = ''
    knee: str = ''
    value: str = ''
    count: str = ''
    variation: str = ''
    rule: Literal['always', 'most', 'general'] = 'always'
    printed: str = ''
    along: str = ''
    goes: Literal['rising', 'falling', ''] = ''
    law: Literal['power', 'inverse', ''] = ''
    above: Number | None = None
    below: Number | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    bound: str = 'ours'
    not_testable: str = ''              # why the figures in print do not judge it

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind))

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
        return {name: value for name in ('above', 'below', 'at_least', 'at_most')
                if (value := getattr(self, name)) is not None}

    @property
    def flat(self) -> bool:
        """Return whether a knee says that nothing is gained beyond the bound, and not that something is."""
        return self.at_most is not None or self.below is not None

    @property
    def tested(self) -> dict[str, float]:
        """Return the bounds of what is estimated: a quotient, but for a fit, a value and a count."""
        if self.kind == 'knee':
            return {'below': 1 + GAIN} if self.flat else {'at_least': 1 + GAIN}
        if self.bounds:
            return self.bounds
        return {'above' if self.kind == 'best' or self.goes == 'rising' else 'below': 1.0}

    @property
    def needs(self) -> str:
        """Return what the figures must be, and who says so: `at least 1.8 (ours: 'nearly doubles')`."""
        if self.kind in ('order', 'best') or self.kind == 'trend' and not self.bounds:
            needed = {'order': 'each below the next', 'best': 'better than each other'}.get(self.kind, self.goes)
            return f'{needed} ({"print" if self.quote else "ours"})'
        if self.kind == 'knee':
            gain = f'each point above {max(self.bounds.values()):g} gains less' if self.flat else \
                f'the last point above {max(self.bounds.values()):g} gains as much or more'
            return f'a factor of {1 + GAIN:g}: {gain} ({self.bound})'
        return ' and '.join(f'{name.replace("_", " ")} {value:g}' for name, value in self.bounds.items()) \
            + f' ({self.bound})'

    @model_validator(mode='after')
    def _one_kind(self) -> Finding:
        if bool(self.quote) == bool(self.claim):
            raise ValueError('must have a quote of the document, or a claim of ours: one, not both')
        if len(kinds := [kind for kind in KINDS if getattr(self, kind)]) != 1:
            raise ValueError(f'has {len(kinds)} kinds; must have one of {", ".join(KINDS)}')
        given = {name for name in ('along', 'goes', 'law') if getattr(self, name)}
        given |= {'bound'} if self.bounds else set()
        if given != {*(needed := KINDS[kinds[0]])}:
            raise ValueError(f'{kinds[0]} needs {", ".join(needed) or "nothing"} beside its series, and has '
                             f'{", ".join(sorted(given)) or "nothing"}')
        if self.rule == 'general' and kinds[0] not in ('ratio', 'variation'):
            raise ValueError(f'rule general: {kinds[0]} has no mean; valid: always, most')
        lower, upper = ([v for name, v in self.bounds.items() if name in names]
                        for names in (('above', 'at_least'), ('below', 'at_most')))
        if lower and upper and (max(lower) > min(upper) or max(lower) == min(upper) in (self.above, self.below)):
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
