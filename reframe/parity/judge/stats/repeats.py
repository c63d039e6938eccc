"""The scatter of the runs of one night."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def scatter(nights: Iterable[Sequence[float]]) -> float | None:
    """Return the standard deviation of the runs of a night, a share; None where no night has two."""
    squares, freedom = 0.0, 0
    for runs in nights:
        if len(runs) < 2 or min(runs) <= 0:
            continue
        logs = [math.log(run) for run in runs]
        mean = sum(logs) / len(logs)
        squares += sum((log - mean) ** 2 for log in logs)
        freedom += len(logs) - 1
    if not freedom:
        return None
    return math.sqrt(squares / freedom)
