"""The smallest slowdown that other numbers of runs and nights would show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from parity.judge.stats.bounds import WANTED
from parity.judge.stats.rule import EFFECT, WITHIN


def scatter(nights: Iterable[Sequence[float]]) -> float | None:
    """Return the standard deviation of the runs of a night, a share; None where no night has two."""
    logs = [[math.log(value) for value in runs] for runs in nights if len(runs) > 1 and min(runs) > 0]
    if not logs:
        return None
    return math.sqrt(sum(sum((x - sum(each) / len(each)) ** 2 for x in each) for each in logs)
                     / sum(len(each) - 1 for each in logs))


def visible(shows: float, night: float, run: float | None, runs: float, repeats: int, nights: int = WITHIN
            ) -> float:
    """Return the slowdown that ``repeats`` runs a night show in ``nights`` nights, a share.

    ``shows``: that which ``runs`` runs a night show in WITHIN. ``night`` and ``run``: the standard deviations of a
    night and of a run within it, shares. Runs and nights count as independent. More runs do nothing for what moves
    from night to night. No more than EFFECT is shown by any number."""
    within = min(run, night * math.sqrt(runs)) if run is not None else 0.0
    other = max(night ** 2 - within ** 2 / runs, 0.0) + within ** 2 / repeats
    change = math.sqrt(other) / night if night else 1.0
    return max(shows * change * math.sqrt(WITHIN / nights), min(EFFECT, shows))


def enough(shows: float | None) -> bool:
    """Return whether a slowdown of WANTED shows."""
    return shows is not None and shows <= WANTED
