"""The constants of the rules, each with its reason; docs/regression.md holds what they were measured to do.

They were chosen so that no family of noise that was tried gives more than one false alarm per 1000
test-nights; ci/operating-curve measures that on other families and seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

#: The stated rate: false alarms per test-night of one cell.
RATE = 0.001
#: False alarms that a whole night may give on average: with more cells than this allows, the rules tighten.
WHOLE_NIGHT = 0.25


@dataclass(frozen=True)
class Rules:
    """Lengths are in nights, effects and spreads relative to the median of the history."""

    window: int = 120         # the recent window: four months
    least: int = 37           # nights before the last three: with fewer, the error rate is not held
    last: int = 3             # the slow rule's nights
    effect: float = 0.01      # the least drop of interest
    floor: float = 0.005      # no spread is believed to be smaller (57 of 186 studied series have MAD 0)
    suspicious: float = 0.12  # a rerun is wanted where tonight is in this lowest share of the window
    apart: float = 3.5        # a night so many spreads below the median is a slow one, not noise
    shared: float = 1.3       # nights scatter so many times more than their runs do: the night shares noise
    # the bar: standard errors that a drop must be clear of, by lag-1 dependence between nights; a history of
    # fewer nights than `settled` tells the dependence less well, so it is taken to be larger
    lags: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    bars: tuple[float, ...] = (3.1, 3.45, 3.95, 4.5, 5.1, 5.2)
    settled: int = 90
    unsettled: float = 1.2
    runs_lag: float = 0.15    # where runs scatter as much as nights, dependence up to here is chance
    runs: float = 1.1         # and the bar so many times higher: there is power to spare
    skew: float = 2.0         # how much a longer lower tail (L-skewness) raises the bar
    two: float = 1.45         # the bar of two nights, and of one, relative to that of three
    one: float = 2.0
    exact: float = 0.006      # exact p of the last three nights
    exact_slow: float = 0.003  # the same where the history holds slow nights
    exact_two: float = 0.002
    seen: float = 0.0004      # slow nights in the history: chance that they come three in a row
    at_once: float = 0.10     # one night alone is believed from such a drop on,
    long: int = 115           # or after so many nights without a single slow one
    least_one: float = 0.03   # and never for less than this
    worst: float = 2.5        # and only so many times below the worst night seen
    worst_two: float = 1.3
    drift: int = 10           # the last nights that are held against the accepted value
    drift_effect: float = 0.03
    drift_share: float = 0.55  # of the bar, in spreads
    tighter: float = 1.0      # what all bars are multiplied by; `for_cells` sets it

    def for_cells(self, cells: int) -> Rules:
        """The rules for so many cells judged in one night: WHOLE_NIGHT false alarms together, at most.

        Bars grow like the quantile of a normal tail, exact p shrink in proportion.
        """
        rate = min(RATE, WHOLE_NIGHT / max(1, cells))
        normal, share = NormalDist(), rate / RATE
        return replace(self, tighter=normal.inv_cdf(1 - rate) / normal.inv_cdf(1 - RATE),
                       exact=self.exact * share, exact_slow=self.exact_slow * share,
                       exact_two=self.exact_two * share, seen=self.seen * share)


DEFAULT = Rules()
