"""Figures as codes print them: rounded, so that two of them agree only within their last digits."""

from __future__ import annotations

from decimal import Decimal

from . import Wrong
from .hpcc_text import number

# Beyond rounding: old codes compute their rates with constants in single precision.
_SINGLE = 1e-5


def positive(token: str, what: str, places: int | None = None) -> Decimal:
    """A finite number above zero, with the digits that it has; raises Wrong for others.

    ``places``: how many decimals the code always prints; a figure with others was cut or altered.
    """
    value = duration(token, what, places)
    if not value > 0:
        raise Wrong(f'{what} is {token[:40]}: it must be above zero')
    return value


def duration(token: str, what: str, places: int | None = None) -> Decimal:
    """As ``positive``, but zero is allowed: a short time (s) prints as zero."""
    value = number(token, what)
    if value < 0:
        raise Wrong(f'{what} is {token[:40]}: it must not be negative')
    if places is not None and value.as_tuple().exponent != -places:
        raise Wrong(f'{what} is {token[:40]!r}, not a figure with {places} decimals')
    return value


def half_digit(value: Decimal) -> float:
    """Half a unit of the last digit printed: as far as the figure may be from what was measured."""
    return 0.5 * 10.0 ** value.as_tuple().exponent


def rate_agrees(rate: Decimal, seconds: Decimal, work: float) -> bool:
    """Whether figures that print as ``rate`` (work/s) and ``seconds`` can be those of this ``work``."""
    least = work / (float(seconds) + half_digit(seconds))
    shortest = float(seconds) - half_digit(seconds)
    most = work / shortest if shortest > 0 else float('inf')
    near = half_digit(rate)
    return least * (1 - _SINGLE) - near <= float(rate) <= most * (1 + _SINGLE) + near


def best_known_seconds(rate: Decimal, seconds: Decimal, work: float) -> float:
    """``seconds`` as printed; where that is zero, the work over the rate, which has more digits."""
    return float(seconds) if seconds else work / float(rate)
