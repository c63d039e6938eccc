"""Live through the nights of a history with the rule of the nightly, as an operator who accepts what lasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.stats import hindsight, levels
from parity.stats.bounds import WANTED
from parity.stats.detect import History

#: A drop in hindsight counts as told where a slowdown was known from LATE nights before it to LONG nights after.
LATE, LONG = 2, 30
#: Slowdowns of like series that were found less than so many nights apart are one incident.
APART = 6
#: Nights before a slowdown that its size is measured from; the shortest series of which hindsight says anything.
BEFORE, SHORTEST = 40, 60


@dataclass
class Slowdown:
    """A slowdown of one series. ``begin``: the night that found it; ``end``: its last, None where it lasts.
    ``loss`` is a share, above 0."""

    series: str
    when: int                       # the order of the night on which it was found
    begin: int | str
    end: int | str | None
    loss: float
    accepted: bool                  # it lasted: the operator accepted the new level


@dataclass
class Incident:
    """Slowdowns of like series that were found within a few nights, the largest first."""

    slowdowns: list[Slowdown]

    @property
    def begin(self) -> int | str:
        return min(self.slowdowns, key=lambda s: s.when).begin

    @property
    def end(self) -> int | str | None:
        ends = [s.end for s in self.slowdowns]
        return None if None in ends else max(ends)


@dataclass
class Missed:
    """A lasting drop in hindsight that was never told. ``loss`` is a share; ``why`` says what hid it."""

    series: str
    night: int | str
    loss: float
    why: str


@dataclass
class Series:
    """One series. ``visible``: the smallest slowdown that shows at the end, a share; None: none."""

    name: str
    nights: int
    judged: int
    first: int                      # nights before the first that was judged; -1: none was
    visible: float | None
    noise: float                    # standard deviation of a night, a share
    alarms: list[int | str]         # the nights on which a slowdown was found

    @property
    def blind(self) -> bool:
        """Return whether a slowdown of 5 % would not show."""
        return self.visible is None or self.visible > WANTED


@dataclass
class Life:
    """A whole history. ``rate``: false alarms a series and night."""

    series: list[Series]
    incidents: list[Incident]
    missed: list[Missed]
    drops: int                      # lasting drops in hindsight
    nights: int                     # different nights
    first: int | str
    last: int | str
    rate: float


def live(history: History, accept_after: int, rate: float) -> Life:
    """Judge every night with what was known on it."""
    outcome = levels.follow(history.nights, history.groups, rate, history.events, history.places, accept_after)
    every, slowdowns, missed, drops = [], [], [], 0
    for k, name in enumerate(history.names):
        here = np.arange(*history.nights.start[k:k + 2])
        here = here[np.isfinite(history.nights.value[here])]
        slow = np.isin(outcome.state[here], levels.KNOWN)
        labels, x = [history.labels[i] for i in here], history.nights.value[here]
        judged = np.flatnonzero(outcome.state[here] != levels.TOO_FEW)
        visible = -np.expm1(-outcome.cells.visible[k])
        fresh = hindsight.fresh(slow)
        every.append(Series(name, len(here), len(judged), int(judged[0]) if len(judged) else -1,
                            float(visible) if np.isfinite(visible) and visible < 1 else None,
                            float(np.expm1(outcome.cells.scale[k])), [labels[i] for i in fresh]))
        when = history.nights.when[here]
        slowdowns += [(int(history.groups[k]), _slowdown(name, labels, x, when, slow, at, accept_after))
                      for at in fresh]
        if len(here) < SHORTEST or history.nights.counts[k]:
            continue
        cuts = hindsight.boundaries(x)
        for at, change in hindsight.drops(x, cuts):
            drops += 1
            if not slow[max(0, at - LATE):at + LONG].any():
                why = _hidden(x, outcome.state[here[at]], at, cuts)
                missed.append(Missed(name, labels[at], float(-np.expm1(change)), why))
    order = np.argsort(history.nights.when, kind='stable')
    return Life(every, _joined(slowdowns), sorted(missed, key=lambda m: -m.loss), drops,
                len(np.unique(history.nights.when)), history.labels[order[0]], history.labels[order[-1]], rate)


def _slowdown(name: str, labels: list, x: np.ndarray, when: np.ndarray, slow: np.ndarray, at: int,
              accept_after: int) -> Slowdown:
    after = at + int(np.argmin(np.append(slow[at:], False)))
    while slow[after:after + 3].any():         # a good night or two do not end it
        after += 1 + int(np.argmin(np.append(slow[after + 1:], False)))
    level = np.median(x[max(0, at - BEFORE):at] if at else x[:1])
    loss = float(-np.expm1(np.median(x[at:after]) - level))
    end, accepted = labels[after - 1] if after < len(x) else None, 0 < accept_after <= after - at
    return Slowdown(name, int(when[at]), labels[at], end, loss, accepted)


def _hidden(x: np.ndarray, state: int, at: int, cuts: list[int]) -> str:
    """Return what hid a drop on the night ``at``."""
    if state == levels.TOO_FEW:
        return 'too few nights before it'
    if (moves := sum(abs(at - edge) < 100 for edge in cuts)) > 2:
        return f'the level moved {moves} times in the 100 nights around it'
    noise = max(hindsight.robust_sd(x[max(0, at - BEFORE):at]), hindsight.FLOOR)
    return f'nights before it scatter by {np.expm1(noise):.1%}'


def _joined(slowdowns: list[tuple[int, Slowdown]]) -> list[Incident]:
    """Join the slowdowns of like series that were found less than APART nights apart."""
    incidents: list[Incident] = []
    newest: dict[int, Incident] = {}
    for group, one in sorted(slowdowns, key=lambda pair: (pair[1].when, -pair[1].loss)):
        last = newest.get(group)
        if last and one.when - last.slowdowns[0].when < APART:
            last.slowdowns.append(one)
        else:
            newest[group] = Incident([one])
            incidents.append(newest[group])
    for incident in incidents:
        incident.slowdowns.sort(key=lambda s: -s.loss)
    return incidents
