"""STREAM 5.10 in C (McCalpin) with OpenMP: copy, scale, add and triad in double precision. The best rate is the
bytes of a kernel over its least time; both are printed, so an altered rate is noticed."""

from __future__ import annotations

from decimal import Decimal

from . import Read, Wrong
from .reader import Lines, agree, number, ordered

ARRAYS = {'Copy': 2, 'Scale': 2, 'Add': 3, 'Triad': 3}       # arrays read or written by each kernel
EPSILON = Decimal('1e-13')                                   # STREAM's own bound in double precision


def read(text: str) -> Read:
    """copy, scale, add, triad: best rates in MB/s (10^6 bytes).
    Facts: array_elements, threads, repetitions, version."""
    out = Lines(text)
    out.refuse('Failed Validation')
    error = out.figure(r'Solution Validates: avg error less than (\S+) on all three arrays')
    if error > EPSILON:
        raise Wrong(f'STREAM validated to an average error of {error:e} only')
    version = out.one(r'STREAM version \$Revision: (\d+\.\d+) \$')[1]
    out.one(r'This system uses 8 bytes per array element\.')
    elements = out.count(r'Array size = (\S+) \(elements\), Offset = \S+ \(elements\)')
    asked, ran = (out.count(rf'Number of Threads {word} = (\S+)') for word in ('requested', 'counted'))
    if asked != ran:
        raise Wrong(f'{asked} threads were asked for, {ran} ran')
    values = {name.lower(): _rate(out, name, 8e-6 * elements * arrays) for name, arrays in ARRAYS.items()}
    return values, {'array_elements': elements, 'threads': ran, 'version': version,
                    'repetitions': out.count(r'Each kernel will be executed (\S+) times\.')}


def _rate(out: Lines, name: str, megabytes: float) -> float:
    tokens = out.one(rf'{name}: (\S+) (\S+) (\S+) (\S+)', f'{name}:').groups()
    rate, average, least, most = (number(token, name, places=places)
                                  for token, places in zip(tokens, (1, 6, 6, 6), strict=True))
    ordered(f'times of {name}', least, average, most)
    agree(rate, least, megabytes, f'MB/s of {name}')
    return float(rate)
