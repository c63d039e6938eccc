"""One line a figure: what it is, what it may be, and whether it is."""

from __future__ import annotations


def at_most(what: str, value: float, limit: float, unit: str) -> bool:
    """Print the line; True where ``value`` is not above ``limit``."""
    good = value <= limit
    print(f'{what:60} {value:5.2f} {unit}   at most {limit:.2f} {unit}   {"ok" if good else "ABOVE"}', flush=True)
    return good
