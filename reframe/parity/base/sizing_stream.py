"""STREAM: how long its arrays, which are compiled into the program."""

from __future__ import annotations

import math
from dataclasses import dataclass

from parity.base.sizing import STREAM_CACHE_MULTIPLE

STREAM_ARRAYS = 3                       # a, b and c
STREAM_MEMORY_SHARE = 0.6               # of the memory, at most, for all three arrays
STREAM_FEWEST = 1_000_000               # elements; STREAM's run rules, stream.c, instruction 1 (b)
_BYTES = 8
_STEP = 1_000_000                       # so that the number is readable in a spec
_STATIC_LIMIT = 2 ** 31                 # bytes of static data without -mcmodel=medium (x86-64 psABI)


@dataclass(frozen=True)
class StreamArrays:
    """``elements`` of 8 bytes in each of the three arrays, and the sentence that explains the number."""

    elements: int
    why: str


def stream_elements(llc_bytes: float, memory_bytes: float) -> StreamArrays:
    """The shortest arrays that measure memory: each at least four times the last-level caches.

    ``llc_bytes`` is the sum of the last-level caches of the cores that will run (0: none),
    ``memory_bytes`` what the three arrays may be taken from. Rounded up to whole millions. Raises
    ValueError when such arrays need more than STREAM_MEMORY_SHARE of the memory, or for arguments that
    are negative or not finite.
    """
    if not (math.isfinite(llc_bytes) and llc_bytes >= 0):
        raise ValueError(f'llc_bytes is {llc_bytes}: it must be finite and not negative')
    if not (math.isfinite(memory_bytes) and memory_bytes > 0):
        raise ValueError(f'memory_bytes is {memory_bytes}: it must be positive and finite')
    by_cache = math.ceil(STREAM_CACHE_MULTIPLE * llc_bytes / _BYTES)
    elements = -(-max(by_cache, STREAM_FEWEST) // _STEP) * _STEP
    total = STREAM_ARRAYS * _BYTES * elements
    why = (f'{elements} elements: {_BYTES * elements / 1e6:.4g} MB an array, at least {STREAM_CACHE_MULTIPLE} x '
           f'{llc_bytes / 1e6:.4g} MB of last-level caches (STREAM run rules); {total / 1e9:.3g} GB in all')
    if total > STREAM_MEMORY_SHARE * memory_bytes:
        raise ValueError(f'{why}, more than {100 * STREAM_MEMORY_SHARE:g} % of {memory_bytes / 1e9:.4g} GB')
    if total >= _STATIC_LIMIT:
        why += ', static: compile with -mcmodel=medium'
    return StreamArrays(elements, why)
