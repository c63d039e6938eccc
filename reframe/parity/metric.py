"""What a workload measures, declared beside the code that measures it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One number of a case.

    ``limit`` names the physical bound of the partition that the figure stands beside
    (a key of the partition's ``limits``, for instance ``peak_flops``).
    ``ceiling`` names another metric, measured in the same run or ('Check.metric') by another check of
    the same session, that gives an efficiency but can never make a figure impossible;
    ``ceiling_times_ranks`` multiplies it by the number of ranks.
    """

    name: str
    unit: str
    better: Literal['higher', 'lower']
    limit: str | None = None
    ceiling: str | None = None
    ceiling_times_ranks: bool = False
