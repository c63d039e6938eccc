"""The declaration of one figure of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: No cluster reaches 1e18 in any unit used here (Gflop/s, MB/s, us, operations a second). A larger number comes
#: from a broken clock or a garbled output.
MOST = 1e18


@dataclass(frozen=True)
class Metric:
    """One number of a case.

    ``limit`` names the physical bound of the partition that the figure stands beside
    (a key of the partition's ``limits``, for instance ``peak_flops``).
    ``ceiling`` names another metric of the same run, or ('Check.metric') of another check of the session. It gives
    an efficiency and never makes a figure impossible. ``ceiling_times_ranks`` multiplies it by the ranks.
    ``zero`` allows 0, as for losses and errors. ``most`` is the largest possible figure, such as 100 %. A figure
    outside this range is `wrong`."""

    name: str
    unit: str
    better: Literal['higher', 'lower']
    limit: str | None = None
    ceiling: str | None = None
    ceiling_times_ranks: bool = False
    zero: bool = False
    most: float = MOST

    def refuses(self, value: float) -> str:
        """Return why ``value`` cannot be a figure of this metric; '' if it can."""
        if 0 < value <= self.most or self.zero and value == 0:      # false of what is not finite
            return ''
        least = 'at least 0' if self.zero else 'above 0'
        return f'{value:.6g}: must be {least} and at most {self.most:g}' + (f' {self.unit}' if self.unit else '')
