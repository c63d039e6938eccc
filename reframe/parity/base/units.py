"""Units by the rules of Prometheus: names in full, figures in base units. And sizes as people and programs write
them: 4k, 1M, 64KiB."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache

_SMALL = {'p': 1e-12, 'n': 1e-9, 'u': 1e-6, 'µ': 1e-6, 'μ': 1e-6, 'm': 1e-3}
_LARGE = {'k': 1e3, **{prefix: 1000.0 ** n for n, prefix in enumerate('KMGTPE', 1)},
          **{f'{prefix}i': 1024.0 ** n for n, prefix in enumerate('KMGTPE', 1)}}
_POWERS = {'': 1.0, **_SMALL, **_LARGE}
#: Our units without a prefix, and Prometheus' name of each. Only the first may be divided: mb is no millibit.
_DIVIDED = {'s': 'seconds', 'W': 'watts', 'J': 'joules', 'Hz': 'hertz'}
_COUNTED = {'B': 'bytes', 'b': 'bytes', 'bit': 'bytes', 'flop': 'flop', 'flops': 'flop_per_second',
            'op': 'operations', 'ops': 'operations', 'up': 'updates', 'UP': 'updates', 'atom-step': 'atom_steps',
            **dict.fromkeys(('FLOPS', 'HOPS'), 'flop_per_second'),      # HOPS: of half precision
            **dict.fromkeys(('IOPS', 'QOPS'), 'operations_per_second')}
_BITS = ('b', 'bit')
_UNIT = re.compile(rf'({"|".join(sorted(_POWERS, key=len, reverse=True))})({"|".join(_DIVIDED)})'
                   rf'|({"|".join(sorted(["", *_LARGE], key=len, reverse=True))})({"|".join(_COUNTED)})')
#: Things that are counted or measured one by one.
_THINGS = ('segments', 'packets', 'files', 'day', 'byte', 'm')
#: Units without a dimension, and endings that OpenMetrics keeps for itself.
_BARE = {**dict.fromkeys(('', '1', 'count', 'total', 'sum'), ('', 1.0)), '%': ('ratio', 0.01)}


def base_unit(unit: str) -> tuple[str, float]:
    """Return the unit's name by the rules of Prometheus, in base units, and the factor: GB/s is bytes_per_second,
    1e9. An unknown unit keeps its name and its figures."""
    above, slash, below = unit.partition('/')
    name, factor = _part(above)
    if not slash:
        return name, factor
    per, divisor = _part(below)
    singular = per[:-1] if per in ('seconds', 'bytes') else per
    name = name.removesuffix(f'_per_{singular}')        # Gflops/s
    words = [word for word in (name, 'per', singular) if word]
    return '_'.join(words), factor / divisor


@cache
def stem(unit: str) -> str:
    """Return a unit without its prefixes: GB/s is B/s, Gb/s b/s, us s. '' where it is no unit."""
    parts = [_stem_of_part(part) for part in unit.split('/')]
    return '/'.join(parts) if all(parts) else ''


def _stem_of_part(part: str) -> str:
    if part in _BARE or part in _THINGS:
        return part
    match = _UNIT.fullmatch(part)
    return (match[2] or match[4]) if match else ''


@cache
def factor(unit: str, other: str) -> float | None:
    """Return what brings figures in a unit to another one; None where they are not of one kind."""
    name, factor_of_unit = base_unit(unit)
    other_name, factor_of_other = base_unit(other)
    return factor_of_unit / factor_of_other if name == other_name else None


_SIZE = re.compile(r'(?P<number>\d{1,15}(?:\.\d{1,6})?) ?(?:(?P<prefix>[kmgtpe])(?P<binary>i?))?b?',
                   re.ASCII | re.IGNORECASE)


def size(text: str, kilo: int = 1024, kibi: int = 1024) -> int | None:
    """Return a size in bytes, or a count: 4k, 1M, 64KiB, 1 GiB, 512mb; None where the text is none.

    ``kilo`` is what k and KB stand for, ``kibi`` what KiB stands for: most programs count both in 1024."""
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    step = kibi if match['binary'] else kilo
    power = ' kmgtpe'.index((match['prefix'] or ' ').lower())
    value = Decimal(match['number']) * step ** power
    return int(value) if value == int(value) else None


def _part(unit: str) -> tuple[str, float]:
    """Return the base unit and the factor of what is on one side of the slash."""
    if unit in _BARE:
        return _BARE[unit]
    match = _UNIT.fullmatch(unit)
    if not match:
        return re.sub('[^a-z0-9]+', '_', unit.lower()).strip('_'), 1.0
    prefix, stem = [group for group in match.groups() if group is not None]
    power = _POWERS[prefix]
    if stem in _BITS:
        power /= 8
    return _DIVIDED.get(stem) or _COUNTED[stem], power
