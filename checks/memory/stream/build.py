"""The spec of STREAM for a system: arrays as long as its caches ask for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from parity.base.codes import CACHE_MULTIPLE

ARRAYS = 3
_ELEMENT = 8                # bytes
_MILLION = 1_000_000        # so that the number is readable in a spec
_MEMORY_SHARE = 0.6         # the part of the memory that all arrays may have together
#: Static arrays beyond this need the medium code model on x86-64 (2 GiB less the rest of .data).
_SMALL_MODEL_BYTES = 2 * 10**9


def sized(spec: str, facts: Mapping[str, float]) -> str:
    """Return the spec with arrays for these ``facts`` of a node (llc_bytes, memory_bytes). Where no cache is
    known, or the memory cannot hold them, keep the pinned ones, or take the longest that it holds: the check
    labels the figures `cached`."""
    elements = 0
    if facts.get('llc_bytes'):
        elements = array_elements(facts['llc_bytes'], facts['memory_bytes'])
    if not elements:
        elements = max(held_elements(facts['memory_bytes']), _MILLION)
        pinned = re.search(r' stream_array_size=(\d+)', spec)
        if not pinned or int(pinned[1]) <= elements:
            return spec
    words = [f'stream_array_size={elements}' if w.startswith('stream_array_size=') else w for w in spec.split()]
    if ARRAYS * _ELEMENT * elements > _SMALL_MODEL_BYTES:
        words.append('cflags="-mcmodel=medium"')
    return ' '.join(words)


def array_elements(llc_bytes: float, memory_bytes: float) -> int:
    """Return the elements of each array: CACHE_MULTIPLE times the last-level caches, in whole millions. Return 0
    where all arrays need more than _MEMORY_SHARE of the memory."""
    by_cache = math.ceil(CACHE_MULTIPLE * llc_bytes / _ELEMENT)
    millions = math.ceil(max(by_cache, _MILLION) / _MILLION)
    elements = millions * _MILLION
    if elements > held_elements(memory_bytes):
        return 0
    return elements


def held_elements(memory_bytes: float) -> int:
    """Return the elements of the longest arrays, in whole millions, that _MEMORY_SHARE of the memory holds
    together."""
    return int(_MEMORY_SHARE * memory_bytes / (ARRAYS * _ELEMENT * _MILLION)) * _MILLION
