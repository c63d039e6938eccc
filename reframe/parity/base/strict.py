"""Models that take no unknown key and never change; times; physical bounds."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, PositiveFloat

Model = TypeVar('Model', bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra='forbid')


_TIME = re.compile(r'(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?')
_SECONDS = (86400, 3600, 60, 1)


def seconds(time: str) -> int:
    """Return the time in seconds. ValueError for text that is no time, and for 0."""
    found = _TIME.fullmatch(time)
    total = sum(int(n or 0) * unit for n, unit in zip(found.groups(), _SECONDS, strict=True)) if found else 0
    if not total:
        raise ValueError(f'{time!r} is no time; valid is, for instance, 30m, 8h or 1d12h')
    return total


#: A time in a file that people edit.
Time = Annotated[str, AfterValidator(lambda time: seconds(time) and time)]
#: The bounds that checks stand their figures beside, and what a peak is derived from, with their units.
UNITS = {'peak_flops': ('Gflop/s',), 'peak_flops_core': ('Gflop/s',), 'memory_bandwidth': ('GB/s',),
         'link_bandwidth': ('MB/s',), 'clock': ('Hz', 'MHz', 'GHz'), 'flops_per_cycle': ('flop/cycle',)}
#: A figure is impossible only when it exceeds a certain bound by more than this.
MARGIN = 0.05


class Limit(Strict):
    """A bound; ``certain`` where nothing can exceed it. A measured ceiling gives an efficiency, never
    `impossible`."""

    value: PositiveFloat
    unit: str
    source: str
    certain: bool = False

    def exceeded_by(self, figure: float) -> bool:
        """Return True when ``figure`` (same unit) cannot be: beyond a certain bound and its margin."""
        return self.certain and figure > self.value * (1 + MARGIN)


def measured(what: str, value: float, times: int, unit: str, where: str) -> Limit:
    """Return a ceiling that was measured in the same ``where`` (run or session), for ``times`` ranks."""
    ranks = f' x {times} ranks' if times > 1 else ''
    return Limit(value=value * times, unit=unit, source=f'{what} of the same {where}{ranks}, measured')
