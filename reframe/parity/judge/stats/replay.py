"""Live through the nights of a history with the rule of the nightly, as an operator who accepts what lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from parity.judge.stats import hindsight, levels, rule
from parity.judge.stats.bounds import WANTED
from parity.judge.stats.detect import History

#: A drop in hindsight counts as told where a slowdown was known from LATE nights before it to LONG nights after.
LATE, LONG = 2, 30
#: Slowdowns of like series that were found less than so many nights apart are one incident.
APART = 6
#: Nights before a slowdown that its size is measured from; the shortest series of which hindsight says anything.
BEFORE, SHORTEST = 40, 60
#: So many nights around a drop may have hid it, if the level moved there.
MOVES = 100
#: Series that are judged at once, groups of more aside.
AT_ONCE = 200


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
class SlowdownGroup:
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
    """A lasting drop in hindsight that was never told, and what may have hid it. ``loss`` is a share."""

    series: str
    night: int | str
    loss: float
    judged: bool                    # there were enough nights before it
    moves: int                      # of the level, in the MOVES nights around it
    noise: float                    # standard deviation of the nights before it, a share


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
    when: np.ndarray                # the order of each night
    values: np.ndarray              # figures, as measured
    slow: np.ndarray                # bool: a slowdown was known that night
    places: list[int]               # of the alarms
    cuts: list[int]                 # where the level moved, in hindsight
    lower: bool                     # lower is better

    @property
    def blind(self) -> bool:
        """Return whether a slowdown of 5 % would not show."""
        return self.visible is None or self.visible > WANTED

    @property
    def change(self) -> float:
        """Return how much faster the last nights are than the first ones, a share; 0 for a short series."""
        if self.nights < 4 * hindsight.SIDE:
            return 0.0
        logarithms = np.log(self.values)
        change = np.median(logarithms[-hindsight.SIDE:]) - np.median(logarithms[:hindsight.SIDE])
        return float(np.expm1(-change if self.lower else change))


@dataclass
class Life:
    """A whole history. ``rate``: false alarms a series and night."""

    series: list[Series]
    incidents: list[SlowdownGroup]
    missed: list[Missed]
    drops: int                      # lasting drops in hindsight
    nights: int                     # different nights
    first: int | str
    last: int | str
    rate: float


@dataclass
class _Record:
    """All that is gathered while series are judged."""

    series: list[Series] = field(default_factory=list)
    slowdowns: list[tuple[int | str, Slowdown]] = field(default_factory=list)     # by area, or group
    missed: list[Missed] = field(default_factory=list)
    drops: int = 0


def live(history: History, accept_after: int, rate: float, least: float = 0.0,
         done: Callable[[int], None] = lambda series: None) -> Life:
    """Judge every night with what was known on it. ``least``: the smallest slowdown to tell, a share.
    ``done`` takes how many series are ready."""
    record = _Record()
    for part in _parts(history):
        outcome = levels.follow(part.nights, part.groups, rate, part.events, part.places, accept_after)
        for k in range(len(part.names)):
            _one(record, part, k, outcome, accept_after, least)
        done(len(record.series))
    when = history.nights.when
    order = np.argsort(when, kind='stable')
    return Life(
        series=sorted(record.series, key=lambda series: series.name),
        incidents=_joined(record.slowdowns),
        missed=sorted(record.missed, key=lambda missed: -missed.loss),
        drops=record.drops,
        nights=len(np.unique(when)),
        first=history.labels[order[0]],
        last=history.labels[order[-1]],
        rate=rate)


def _parts(history: History) -> Iterator[History]:
    """Yield the history in parts of some groups: groups are judged each for itself."""
    groups, sizes = np.unique(history.groups, return_counts=True)
    series_before = np.cumsum(sizes) - sizes
    part = series_before // AT_ONCE
    for number in np.unique(part):
        yield history.part(groups[part == number])


def _one(record: _Record, part: History, k: int, outcome: rule.Outcome, accept_after: int, least: float) -> None:
    """Gather what series ``k`` would have been told."""
    name, nights, is_count = part.names[k], part.nights, bool(part.nights.counts[k])
    here = np.arange(nights.start[k], nights.start[k + 1])
    here = here[np.isfinite(nights.value[here])]
    x, state, when = nights.value[here], outcome.state[here], nights.when[here]
    labels = [part.labels[i] for i in here]
    slow = np.isin(state, rule.KNOWN)
    if not is_count:
        slow = hindsight.reaching(slow, outcome.deepest[here], least)
    alarms = hindsight.fresh(slow)
    is_long = len(here) >= SHORTEST and not is_count
    cuts = hindsight.boundaries(x) if is_long else []
    judged = state != rule.TOO_FEW
    sign = part.signs[k]
    record.series.append(Series(
        name=name,
        nights=len(here),
        judged=int(judged.sum()),
        first=int(judged.argmax()) if judged.any() else -1,
        visible=_shown(outcome.cells.visible[k]),
        noise=float(np.expm1(outcome.cells.scale[k])),
        alarms=[labels[i] for i in alarms],
        when=when,
        values=np.exp(sign * x),
        slow=slow,
        places=alarms,
        cuts=cuts,
        lower=sign < 0))
    area = part.areas[k] if part.areas else int(part.groups[k])
    for at in alarms:
        slowdown = _slowdown(name, labels, x, when, slow, at, accept_after)
        record.slowdowns.append((area, slowdown))
    if not is_long:
        return
    for at, change in hindsight.drops(x, cuts):
        record.drops += 1
        was_told = slow[max(0, at - LATE):at + LONG].any()
        if not was_told:
            before = x[max(0, at - BEFORE):at]
            noise = max(hindsight.robust_sd(before), hindsight.FLOOR)
            record.missed.append(Missed(
                series=name,
                night=labels[at],
                loss=float(-np.expm1(change)),
                judged=bool(judged[at]),
                moves=sum(abs(at - cut) < MOVES for cut in cuts),
                noise=float(np.expm1(noise))))


def _shown(visible: float) -> float | None:
    """Return the smallest slowdown that shows, a share; None for none. ``visible``: its logarithm."""
    share = float(-np.expm1(-visible))
    return share if np.isfinite(share) and share < 1 else None


def _slowdown(name: str, labels: list, x: np.ndarray, when: np.ndarray, slow: np.ndarray, at: int,
              accept_after: int) -> Slowdown:
    after = _next_good(slow, at)
    while slow[after:after + 3].any():         # a good night or two do not end it
        after = _next_good(slow, after + 1)
    before = x[max(0, at - BEFORE):at] if at else x[:1]
    change = np.median(x[at:after]) - np.median(before)
    return Slowdown(
        series=name,
        when=int(when[at]),
        begin=labels[at],
        end=labels[after - 1] if after < len(x) else None,
        loss=float(-np.expm1(change)),
        accepted=0 < accept_after <= after - at)


def _next_good(slow: np.ndarray, at: int) -> int:
    """Return the first night from ``at`` on that is not slow; the number of nights where there is none."""
    from_there = np.append(slow[at:], False)
    return at + int(np.argmin(from_there))


def _joined(slowdowns: list[tuple[int | str, Slowdown]]) -> list[SlowdownGroup]:
    """Join the slowdowns of an area that were found less than APART nights apart."""
    incidents: list[SlowdownGroup] = []
    newest: dict[int | str, SlowdownGroup] = {}
    for area, one in sorted(slowdowns, key=lambda pair: (pair[1].when, -pair[1].loss)):
        last = newest.get(area)
        if last and one.when - last.slowdowns[0].when < APART:
            last.slowdowns.append(one)
        else:
            newest[area] = SlowdownGroup([one])
            incidents.append(newest[area])
    for incident in incidents:
        incident.slowdowns.sort(key=lambda s: -s.loss)
    return incidents
