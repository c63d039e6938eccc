"""Physical bounds and measured ceilings of a figure."""

from pydantic import PositiveFloat

from parity.base.strict import Strict

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
