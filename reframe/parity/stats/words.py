"""What a judgement says, in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from parity.stats.last import Last
from parity.stats.rules import Rules
from parity.stats.search import FAST

#: From these on a person should know of it.
_DEPENDENT, _SEEN = 0.3, 0.05


def too_few(last: Last, rules: Rules) -> str:
    return (f'{last.nights} nights of history before the last three: the stated error rate needs {rules.least}, '
            f'so judging begins on night {rules.least + rules.last}')


def quiet(last: Last, labels: Sequence[str]) -> str:
    said = (f'tonight is {_off(last.change)} the median of {last.nights} nights; '
            f'their spread is {_share(last.spread)}')
    if last.suspicious and not last.again and last.change < -last.least:
        said += '; it was not run again, and one night alone is not believed'
    if last.episode:
        begin = labels[last.episode.begin - (last.night + 1 - len(labels))]
        return f'{said}; what began on {begin} is not over: it ends with a second night like this one'
    return said


def episode(last: Last, labels: Sequence[str], rules: Rules) -> str:
    """Why the nights are an episode, and how long it has lasted."""
    found = last.episode
    first = last.night + 1 - len(labels)
    against = f'the median of the {last.nights} nights before'
    off = _off(found.change)
    said = (f'a drift: the last {rules.drift} nights were {off} the first {rules.least + rules.last}',
            f'one night was {off} {against}, and its rerun confirmed it',
            f'two nights were {off} {against}, and a rerun confirmed it',
            f'three nights were {off} {against}; {_share(last.least)} is clear of the noise, exact p {found.p:.2g}'
            )[found.rule]
    lasts = last.night - found.begin + 1
    kind = 'better' if found.state == FAST else 'worse'
    return f'{kind} since {labels[found.begin - first]} ({lasts} {"night" if lasts == 1 else "nights"}): {said}'


def reference(last: Last, sign: int, accepted) -> str:
    level = last.baseline + last.three * abs(last.baseline)
    off = (level - sign * accepted.value) / abs(accepted.value)
    return (f'the last three nights are {_off(off)} the accepted {accepted.value:.4g}, beyond its bound; '
            f'the recent nights alone show no step: a drift')


def warnings(last: Last, rules: Rules) -> Iterator[str]:
    """What limits the judgement."""
    if not math.isfinite(last.spread) or not last.baseline:
        return
    if math.isfinite(last.shared) and last.shared > rules.shared:
        yield f'nights scatter {last.shared:.1f} times more than their runs do: a rerun that night confirms little'
    if last.lag > _DEPENDENT and last.shared > rules.shared:
        yield f'nights depend on the night before ({last.lag:.2f}): a change must be larger to be believed'
    if last.slow:
        yield f'{last.slow} of {last.nights} nights are slow ones among good ones (a slow node?)'
    if last.resolution > rules.effect:
        yield f'the values come in steps of {_share(last.resolution)}'
    if last.least > _SEEN:
        yield f'three nights must change by {_share(last.least)} before it is clear of the noise'
    if last.suspicious and not last.again:
        yield 'tonight is low and was not run again: one or two nights alone are not believed without a rerun'


def _share(x: float) -> str:
    return f'{100 * x:.1f} %' if abs(x) < 0.0995 else f'{100 * x:.0f} %'


def _off(change: float) -> str:
    if abs(change) < 0.0005:
        return 'at'
    return f'{_share(abs(change))} {"better" if change > 0 else "worse"} than'
