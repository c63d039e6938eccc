"""Live through the nights of a history with the rule of the nightly, as an operator who accepts what lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

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
        return min(self.slowdowns, key=attrgetter('when')).begin

    @property
    def end(self) -> int | str | None:
        ends = [slowdown.end for slowdown in self.slowdowns]
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
        first, last = logarithms[:hindsight.SIDE], logarithms[-hindsight.SIDE:]
        change = np.median(last) - np.median(first)
        return _share(-change if self.lower else change)


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
    first, last = order[0], order[-1]
    return Life(
        series=sorted(record.series, key=attrgetter('name')),
        incidents=_joined(record.slowdowns),
        missed=sorted(record.missed, key=lambda missed: -missed.loss),
        drops=record.drops,
        nights=len(np.unique(when)),
        first=history.labels[first],
        last=history.labels[last],
        rate=rate)


def _parts(history: History) -> Iterator[History]:
    """Yield the history in parts of some groups: groups are judged each for itself."""
    groups, sizes = np.unique(history.groups, return_counts=True)
    series_before = np.cumsum(sizes) - sizes
    part = series_before // AT_ONCE
    for number in np.unique(part):
        groups_of_part = groups[part == number]
        yield history.part(groups_of_part)


def _one(record: _Record, part: History, k: int, outcome: rule.Outcome, accept_after: int, least: float) -> None:
    """Gather what series ``k`` would have been told."""
    name, sign = part.names[k], part.signs[k]
    nights = part.nights
    first, end = nights.start[k:k + 2]
    has_value = np.isfinite(nights.value[first:end])
    here = first + np.flatnonzero(has_value)
    x, when = nights.value[here], nights.when[here]
    labels = [part.labels[night] for night in here]
    state = outcome.state[here]
    judged = state != rule.TOO_FEW
    slow = np.isin(state, rule.KNOWN)
    is_count = bool(nights.counts[k])
    if not is_count:
        slow = hindsight.reaching(slow, outcome.deepest[here], least)
    alarms = hindsight.fresh(slow)
    is_long = len(here) >= SHORTEST and not is_count
    cuts = hindsight.boundaries(x) if is_long else []
    series = Series(
        name=name,
        nights=len(here),
        judged=int(judged.sum()),
        first=int(judged.argmax()) if judged.any() else -1,
        visible=_shown(outcome.cells.visible[k]),
        noise=_share(outcome.cells.scale[k]),
        alarms=[labels[night] for night in alarms],
        when=when,
        values=np.exp(sign * x),
        slow=slow,
        places=alarms,
        cuts=cuts,
        lower=sign < 0)
    record.series.append(series)
    area = part.areas[k] if part.areas else int(part.groups[k])
    for night in alarms:
        slowdown = _slowdown(name, labels, x, when, slow, night, accept_after)
        record.slowdowns.append((area, slowdown))
    if not is_long:
        return
    for night, change in hindsight.drops(x, cuts):
        record.drops += 1
        first = max(0, night - LATE)
        was_told = slow[first:night + LONG].any()
        if not was_told:
            missed = _missed(series, labels, x, judged, night, change)
            record.missed.append(missed)


def _missed(series: Series, labels: list, x: np.ndarray, judged: np.ndarray, night: int, change: float) -> Missed:
    """Return a drop that was never told. ``x``, ``judged`` [nights]: of the series; ``change``: its logarithm."""
    first = max(0, night - BEFORE)
    scatter = hindsight.robust_sd(x[first:night])
    noise = max(scatter, hindsight.FLOOR)
    near_cuts = [cut for cut in series.cuts if abs(night - cut) < MOVES]
    return Missed(
        series=series.name,
        night=labels[night],
        loss=-_share(change),
        judged=bool(judged[night]),
        moves=len(near_cuts),
        noise=_share(noise))


def _share(log: float) -> float:
    """Return a change of the logarithm as a share."""
    return float(np.expm1(log))


def _shown(visible: float) -> float | None:
    """Return the smallest slowdown that shows, a share; None for none. ``visible``: its logarithm."""
    share = -_share(-visible)
    is_one = np.isfinite(share) and share < 1
    return share if is_one else None


def _slowdown(name: str, labels: list, x: np.ndarray, when: np.ndarray, slow: np.ndarray, at: int,
              accept_after: int) -> Slowdown:
    after = _next_good(slow, at)
    while slow[after:after + 3].any():         # a good night or two do not end it
        after = _next_good(slow, after + 1)
    first = max(0, at - BEFORE)
    before = x[first:at] if at else x[:1]
    change = np.median(x[at:after]) - np.median(before)
    is_over = after < len(x)
    nights = after - at
    return Slowdown(
        series=name,
        when=int(when[at]),
        begin=labels[at],
        end=labels[after - 1] if is_over else None,
        loss=-_share(change),
        accepted=0 < accept_after <= nights)


def _next_good(slow: np.ndarray, at: int) -> int:
    """Return the first night from ``at`` on that is not slow; the number of nights where there is none."""
    from_there = np.append(slow[at:], False)
    return at + int(np.argmin(from_there))


def _joined(slowdowns: list[tuple[int | str, Slowdown]]) -> list[SlowdownGroup]:
    """Join the slowdowns of an area that were found less than APART nights apart."""
    def first_then_largest(of_area: tuple[int | str, Slowdown]) -> tuple[int, float]:
        _, slowdown = of_area
        return slowdown.when, -slowdown.loss

    incidents: list[SlowdownGroup] = []
    newest: dict[int | str, SlowdownGroup] = {}
    for area, slowdown in sorted(slowdowns, key=first_then_largest):
        last = newest.get(area)
        if last and slowdown.when - last.slowdowns[0].when < APART:
            last.slowdowns.append(slowdown)
            continue
        incident = SlowdownGroup([slowdown])
        incidents.append(incident)
        newest[area] = incident
    for incident in incidents:
        incident.slowdowns.sort(key=lambda slowdown: -slowdown.loss)
    return incidents
