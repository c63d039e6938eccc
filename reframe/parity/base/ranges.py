"""Lists of CPUs as the kernel writes them: 0-3,8."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Far above Linux's largest NR_CPUS (8192): a list beyond is no list of CPUs.
_MOST = 1 << 16


def cpus(text: str) -> frozenset[int]:
    """Read ``0-3,8`` as {0, 1, 2, 3, 8}; empty where the text is no such list."""
    from ClusterShell.RangeSet import RangeSet, RangeSetException
    try:
        if all(int(number) < _MOST for number in re.findall(r'\d+', text)):
            return frozenset(map(int, RangeSet(text.strip(','))))
    except RangeSetException:
        pass
    return frozenset()


def text(cpus: Iterable[int]) -> str:
    """Write {0, 1, 2, 3, 8} as ``0-3,8``."""
    from ClusterShell.RangeSet import RangeSet
    return str(RangeSet(cpus))
