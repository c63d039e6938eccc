"""OSU's collectives on many ranks: how often, and how much memory. Pure arithmetic."""

from __future__ import annotations

#: Ranks up to which a collective is repeated as often as a message between two.
_FEW = 8
_LEAST = 20


def collective_iterations(iterations: int, ranks: int) -> int:
    """Fewer on many ranks: the work of one operation grows with them. Never below 20, nor above ``iterations``."""
    return min(iterations, max(_LEAST, iterations * _FEW // max(ranks, _FEW)))


def alltoall_bytes(ranks: int, largest: int) -> int:
    """What one rank holds of osu_alltoall's buffers: it sends and receives ``largest`` bytes from every rank."""
    return 2 * ranks * largest
