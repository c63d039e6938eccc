"""The scatter of the runs of one night."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def scatter(nights: Iterable[Sequence[float]]) -> float | None:
    """Return the standard deviation of the runs of a night, a share; None where no night has two."""
    logs = [[math.log(value) for value in runs] for runs in nights if len(runs) > 1 and min(runs) > 0]
    if not logs:
        return None
    return math.sqrt(sum(sum((x - sum(each) / len(each)) ** 2 for x in each) for each in logs)
                     / sum(len(each) - 1 for each in logs))
