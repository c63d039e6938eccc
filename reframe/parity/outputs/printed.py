"""Figures as codes print them: other names of the reader's functions."""

from __future__ import annotations

from decimal import Decimal

from . import reader
from .reader import half as half_digit

__all__ = ['duration', 'half_digit', 'positive', 'whole']


def positive(token: str, what: str, places: int | None = None) -> Decimal:
    reader.number(token, what, zero=True)
    return reader.number(token, what, places=places)


def duration(token: str, what: str, places: int | None = None) -> Decimal:
    return reader.number(token, what, zero=True, places=places)


def whole(token: str, what: str) -> int:
    return reader.whole(token, what, zero=True)
