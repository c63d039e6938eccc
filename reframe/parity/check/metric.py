"""What a workload measures, declared beside the code that measures it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: No metric here is in a unit of which a whole cluster could reach so many: 1e18 flop/s are an exaflop/s, and
#: figures are in Gflop/s, MB/s, us, operations a second. What is larger is a broken clock or a garbled number.
MOST = 1e18


@dataclass(frozen=True)
class Metric:
    """One number of a case.

    ``limit`` names the physical bound of the partition that the figure stands beside
    (a key of the partition's ``limits``, for instance ``peak_flops``).
    ``ceiling`` names another metric, measured in the same run or ('Check.metric') by another check of
    the same session, that gives an efficiency but can never make a figure impossible;
    ``ceiling_times_ranks`` multiplies it by the number of ranks.
    ``zero`` says that 0 is a figure, too, as of losses and errors; ``most`` is the largest possible one, for
    instance 100 of a share in %. A figure outside of this range is `wrong`."""

    name: str
    unit: str
    better: Literal['higher', 'lower']
    limit: str | None = None
    ceiling: str | None = None
    ceiling_times_ranks: bool = False
    zero: bool = False
    most: float = MOST

    def refuses(self, value: float) -> str:
        """Why ``value`` cannot be a figure of this metric; '' where it can."""
        if 0 < value <= self.most or self.zero and value == 0:      # false of what is not finite
            return ''
        least = 'at least 0' if self.zero else 'above 0'
        return f'{value:.6g}: must be {least} and at most {self.most:g}' + (f' {self.unit}' if self.unit else '')
