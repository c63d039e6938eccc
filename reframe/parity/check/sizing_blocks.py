"""How much memory our block kernel walks over. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from parity.base.sizing import STREAM_CACHE_MULTIPLE

LEAST = 64 << 20            # bytes of a thread: several blocks of the largest size, 10 MB
SHARE = 0.25                # of the memory, at most, for all threads
_PAGE = 4096


@dataclass(frozen=True)
class Walk:
    """``bytes`` of each thread, and the sentence that explains the number."""

    bytes: int
    why: str


def walk(threads: int, cache_bytes: int | None, memory_bytes: int | None) -> Walk:
    """So much that all ``threads`` together have four times the caches they can use, as STREAM's rules ask.

    A power of two, in which blocks of powers of two come in random order without a search for the next.
    At most a quarter of the memory: where that is less than four times the caches, the figures are no
    figures of memory, and the check labels them. None: not known.
    """
    cache = cache_bytes or 0
    size = 1 << (max(LEAST, -(-STREAM_CACHE_MULTIPLE * cache // threads)) - 1).bit_length()
    why = f'at least {STREAM_CACHE_MULTIPLE} x {cache / 1e6:.4g} MB of last-level caches, 64 MiB a thread'
    if memory_bytes and threads * size > SHARE * memory_bytes:
        size = int(SHARE * memory_bytes / threads) // _PAGE * _PAGE
        why = f'{100 * SHARE:g} % of {memory_bytes / 1e9:.4g} GB of memory'
    return Walk(size, f'{threads} x {size / 1e6:.4g} MB: {why}')
