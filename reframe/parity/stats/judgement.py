"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from parity.stats import bounds, search
from parity.stats.noise import Nights, Rules, Values, of_history, of_nights
from parity.stats.search import FAST, SLOW, TOO_FEW, Episode, Outcome

#: From these on a person should know.
_DEPENDENT, _SEEN = 0.3, 0.05
#: A history of fewer nights than this has no spread to speak of.
_SOME = 5
Word = Literal['ok', 'improved', 'regressed', 'insufficient']


@dataclass(frozen=True)
class Reference:
    """An accepted value and its bounds, absolute, in the metric's unit; None where there is no bound."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Judgement:
    """The judgement of a cell tonight; values are in the metric's unit."""

    verdict: Word
    why: str
    warnings: tuple[str, ...]
    value: float                  # tonight's: the runs (and reruns) together
    baseline: float | None        # median of the history
    low: float | None             # band of a single night: three spreads around the baseline
    high: float | None
    needs_rerun: bool             # the runs are suspicious, and nothing was run again

    @property
    def alarm(self) -> bool:
        return self.verdict == 'regressed'


@dataclass
class _Last:
    """One series on its last night; relative figures are fractions of ``baseline``, below 0 for worse."""

    state: int
    night: int               # its place among all nights
    nights: int              # length of the history it is held against
    value: float             # of tonight, oriented: higher is better
    suspicious: bool         # tonight is low, and was not run again
    episode: Episode | None
    baseline: float = math.nan
    spread: float = math.nan
    three: float = math.nan  # mean of the last three nights, oriented
    bar: float = math.nan
    lag: float = 0.0
    shared: float = 1.0
    slow: int = 0
    resolution: float = 0.0

    @property
    def change(self) -> float:
        return (self.value - self.baseline) / abs(self.baseline) if self.baseline else math.nan

    @property
    def least(self) -> float:
        """The change that three nights must be clear of, relative."""
        return self.bar * self.spread * math.sqrt(1 / 3 + 1 / max(1, self.nights))


def judged(nights: Nights, signs: Sequence[int], labels: Sequence[str], rules: Rules,
           references: Sequence[Reference | None] | None = None) -> tuple[list[Judgement], Outcome]:
    """Return the judgement of each series on its last night, and the state of all nights. ``signs`` [series]: 1
    where higher is better, else -1; ``labels`` [nights]; ``references`` [series]."""
    values = of_nights(nights, rules)
    outcome = search.follow(nights, values, rules)
    lasts = _lasts(nights, values, outcome, rules)
    return [_judgement(*each, labels, rules)
            for each in zip(lasts, signs, references or [None] * len(lasts), strict=True)], outcome


def _lasts(nights: Nights, values: Values, outcome: Outcome, rules: Rules) -> list[_Last]:
    """Return the last night of every series; histories of one length are measured together."""
    found, by_length = [], {}
    for k, (base, end) in enumerate(zip(outcome.base, nights.start[1:], strict=True)):
        night, episode = int(end) - 1, outcome.lasting.get(k)
        rows = base + np.flatnonzero(outcome.kept[base:episode.begin if episode else end])
        rows = (rows if episode else rows[:-rules.last])[-rules.window:]
        low = values.suspicious[night] and not nights.reruns.count[night]
        found.append(_Last(int(outcome.state[night]), night, len(rows), float(values.value[night]), bool(low),
                           episode))
        by_length.setdefault(len(rows), []).append((k, rows))
    for n, histories in by_length.items():
        if n < _SOME:
            continue
        rows = np.array([rows for _, rows in histories])
        noise = of_history(values.value[rows], values.within[rows], rules)
        needed = search.bar(noise, rules)
        for i, (k, _) in enumerate(histories):
            last = found[k]
            last.baseline, last.bar = float(noise.median[i]), float(needed[i])
            last.three = float(values.value[max(int(nights.start[k]), last.night - 2):last.night + 1].mean())
            for name in ('spread', 'lag', 'shared', 'slow', 'resolution'):
                setattr(last, name, getattr(noise, name)[i].item())
    return found


def _judgement(last: _Last, sign: int, reference: Reference | None, labels: Sequence[str],
               rules: Rules) -> Judgement:
    word, why = _word(last, sign, reference, labels, rules)
    known = math.isfinite(last.spread) and last.baseline != 0
    width = 3 * last.spread * math.sqrt(1 + 1 / last.nights) * abs(last.baseline) if known else 0.0
    middle = sign * last.baseline if known else None
    new = last.episode is None or last.episode.found == last.night      # not a slowdown that is known already
    return Judgement(
        verdict=word, why=why, warnings=tuple(_warnings(last, rules)) if known else (), value=sign * last.value,
        baseline=middle, low=middle - width if known else None, high=middle + width if known else None,
        needs_rerun=last.suspicious and new and not last.change > -rules.effect)


def _word(last: _Last, sign: int, reference: Reference | None, labels: Sequence[str],
          rules: Rules) -> tuple[Word, str]:
    if last.state == TOO_FEW:
        return 'insufficient', (
            f'{last.nights} nights of history before the last three: the stated error rate needs {rules.least}, '
            f'so judging begins on night {rules.least + rules.last}')
    if not last.baseline:
        return 'insufficient', 'the median of the history is 0: a change has no measure'
    if last.state in (SLOW, FAST):
        return ('regressed' if last.state == SLOW else 'improved'), _episode(last, labels, rules)
    if reference and reference.value:
        off = (last.three - sign * reference.value) / abs(reference.value)
        beyond = bounds.side(sign * last.three, reference.low, reference.high)
        if beyond and abs(off) >= last.bar * last.spread / math.sqrt(3):        # clear of the noise
            return ('regressed' if beyond == -sign else 'improved'), (
                f'the last three nights are {_off(off)} the accepted {reference.value:.4g}, beyond its bound; '
                f'the recent nights alone show no step: a drift')
    said = (f'tonight is {_off(last.change)} the median of {last.nights} nights; '
            f'their spread is {_share(last.spread)}')
    if last.suspicious and last.change < -last.least:
        said += '; it was not run again, and one night alone is not believed'
    if last.episode:
        said += (f'; what began on {labels[last.episode.begin]} is not over: '
                 'it ends with a second night like this one')
    return 'ok', said


def _episode(last: _Last, labels: Sequence[str], rules: Rules) -> str:
    """Say why the nights are an episode, and how long it has lasted."""
    found, against = last.episode, f'the median of the {last.nights} nights before'
    off = _off(found.change)
    said = (f'a drift: the last {rules.drift} nights were {off} the first {rules.least + rules.last}',
            f'one night was {off} {against}, and its rerun confirmed it',
            f'two nights were {off} {against}, and a rerun confirmed it',
            f'three nights were {off} {against}; {_share(last.least)} is clear of the noise, exact p {found.p:.2g}'
            )[found.rule]
    lasts = last.night - found.begin + 1
    kind = 'better' if found.state == FAST else 'worse'
    return f'{kind} since {labels[found.begin]} ({lasts} {"night" if lasts == 1 else "nights"}): {said}'


def _warnings(last: _Last, rules: Rules) -> Iterator[str]:
    """Name what limits the judgement."""
    shared = last.shared > rules.shared
    if math.isfinite(last.shared) and shared:
        yield f'nights scatter {last.shared:.1f} times more than their runs do: a rerun that night confirms little'
    if last.lag > _DEPENDENT and shared:
        yield f'nights depend on the night before ({last.lag:.2f}): a change must be larger to be believed'
    if last.slow:
        yield f'{last.slow} of {last.nights} nights are slow ones among good ones (a slow node?)'
    if last.resolution > rules.effect:
        yield f'the values come in steps of {_share(last.resolution)}'
    if last.least > _SEEN:
        yield f'three nights must change by {_share(last.least)} before it is clear of the noise'
    if last.suspicious:
        yield 'tonight is low and was not run again: one or two nights alone are not believed without a rerun'


def _share(x: float) -> str:
    return f'{100 * x:.1f} %' if abs(x) < 0.0995 else f'{100 * x:.0f} %'


def _off(change: float) -> str:
    if abs(change) < 0.0005:
        return 'at'
    return f'{_share(abs(change))} {"better" if change > 0 else "worse"} than'
