"""Numbers as a person reads them: the terminal and the page write them alike.

A figure has three significant digits, and four where the first is a 1 or nothing stands behind
the point: a step of the last digit is then never more than half a percent. A number that is
exact with fewer digits is not padded. Rates and times move along their prefixes (12400 MB/s is
12.4 GB/s), sizes in bytes along the binary ones (32768 B is 32 KiB); every other unit stays."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from parity.base import units

#: The sign for an absent number.
NOTHING = '—'

#: Groups digits by three from five digits on: a narrow space that does not break.
GROUP = '\u202f'

_DECIMAL = ('p', 'n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E')
_BINARY = ('', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei')
_RATE = re.compile(r'([kKMGTPE]?)([Bb]/s|bit/s|(?i:flop/s|flops|ops?/s|up/s)|Hz)')
_TIME = re.compile(r'([pnuµμm]?)(s)')
_SIZE = re.compile(r'((?:[KMGTPE]i)?)(B|B/s)')

_PLAIN = re.compile(r'\d+(\.\d+)?', re.ASCII)

# A figure leaves its unit at five digits or below a tenth; it then stops between 1 and 1000.
_LARGE = 10_000
_SMALL = 0.1

#: No machine has a figure outside these, but 0; the squares of larger ones are no numbers.
SMALLEST, LARGEST = 1e-100, 1e100

#: Names that stand one by one in a sentence.
_NAMED = 4


def measurable(value: float | None) -> bool:
    """Return whether a figure may be measured: it is a number that no machine is too small or too large for."""
    return value is not None and (value == 0 or SMALLEST <= abs(value) < LARGEST)


#: The verb with one thing.
_SINGULAR = {'are': 'is', 'were': 'was'}

def counted(n: int, noun: str, verb: str = '') -> str:
    """Write a count with its noun, and with its verb (are, were): '1 history', '2 figures are'."""
    if n != 1:
        noun = re.sub('(?<![aeo])y$', 'ie', noun)
        noun = re.sub('s$', 'se', noun) + 's'
    elif verb:
        verb = _SINGULAR[verb]
    return f'{n} {noun} {verb}'.rstrip()


def several(names: list[str]) -> str:
    """Return 'v1, v2, v3, v4 and 12 more'."""
    first = ', '.join(names[:_NAMED])
    rest = len(names) - _NAMED
    return f'{first} and {rest} more' if rest > 0 else first


def number(value: float | None, pad: bool = False) -> str:
    """Write ``value`` with three or four significant digits, without a unit; ``pad`` keeps all digits."""
    if value is None or not math.isfinite(value):
        return _no_number(value)
    if value == 0:
        return '0'
    if not 1e-3 <= abs(value) < 1e9:
        mantissa, exponent = f'{value:.2e}'.split('e')
        return f'{mantissa}e{int(exponent)}'
    leading, exponent = f'{abs(value):.3e}'.split('e')
    significant = 4 if leading[0] == '1' else 3
    decimals = max(0, significant - 1 - int(exponent))
    text = _grouped(value, decimals)
    exact = decimals and float(f'{value:.{decimals}f}') == value
    return text.rstrip('0').rstrip('.') if exact and not pad else text


def figure(value: float | None, unit: str = '') -> str:
    """Write ``value`` with its unit, moved to the prefix that reads best: '71.2 GB/s'."""
    (text,), unit = alike(unit, value)
    return f'{text} {unit}'.strip() if text != NOTHING else text


def alike(unit: str, *values: float | None) -> tuple[list[str], str]:
    """Write all ``values`` in the unit of the first that is known; several keep all their digits."""
    numbers = [value for value in values if value is not None]
    leading = next((value for value in numbers if math.isfinite(value) and value), 0.0)
    move = _moved(leading, unit)
    pad = len(numbers) > 1
    texts = []
    for value in values:
        shifted = None if value is None else move.shift(value)
        texts.append(number(shifted, pad))
    return texts, move.unit


def amount(text: str) -> tuple[float, str] | None:
    """Return a parameter as a number and its unit: '64KiB' is (65536.0, 'B'), '4' is (4.0, ''); else None."""
    if _PLAIN.fullmatch(text):
        return float(text), ''
    bytes_ = units.size(text, kilo=1000) if text.endswith('B') else None
    return None if bytes_ is None else (float(bytes_), 'B')


def moved(value: float, unit: str) -> tuple[float, str]:
    """Return the factor that brings figures in ``unit`` beside ``figure(value, unit)``, and their unit then."""
    move = _moved(value, unit)
    return move.shift(1.0), move.unit


def band(low: float | None, high: float | None, unit: str = '') -> str:
    """Write an accepted band, open where a bound is missing; empty when both are."""
    if low is None and high is None:
        return ''
    (first, last), unit = alike(unit, low, high)
    if low is None:
        bounds = f'at most {last}'
    elif high is None:
        bounds = f'at least {first}'
    else:
        bounds = f'{first} .. {last}'
    return f'{bounds} {unit}'.strip()


def percent(ratio: float | None) -> str:
    """Write a ratio as a percentage of two digits or more: 0.414 is '41 %'."""
    if ratio is None or not math.isfinite(ratio):
        return _no_number(ratio)
    share = 100 * ratio
    size = abs(share)
    if 0 < size < 0.01:
        return '< 0.01 %' if share > 0 else '> -0.01 %'
    if size >= 9.95 or share == 0:
        decimals = 0
    elif size >= 0.995:
        decimals = 1
    else:
        decimals = 2
    return f'{_grouped(share, decimals)} %'


def change(value: float | None, reference: float | None) -> str:
    """Write how far ``value`` is from ``reference``: '-8.4 %'; empty when that cannot be said."""
    if value is None or not reference or not math.isfinite(value) or not math.isfinite(reference):
        return ''
    share = 100 * (value - reference) / abs(reference)
    if abs(share) < 0.05:
        return '0.0 %'
    sign = '+' if share > 0 else ''
    decimals = 1 if abs(share) < 1000 else 0
    return f'{sign}{_grouped(share, decimals)} %'


def duration(seconds: float | None) -> str:
    """Write a time as a person says it: '9.5 s', '58 s', '12 min', '1 h 12 min', '3 d 4 h'."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return NOTHING
    if seconds < 99.5:
        return f'{seconds:.{0 if seconds >= 10 else 1}f} s'
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours >= 48:
        days, hours = divmod(round(seconds / 3600), 24)
        return f'{days} d {hours} h'
    return f'{hours} h {minutes:02d} min' if hours else f'{minutes} min'


def _no_number(value: float | None) -> str:
    return NOTHING if value is None else str(float(value))


def _grouped(value: float, decimals: int) -> str:
    """Write a number with its digits in groups of three, from five digits on."""
    text = f'{value:,.{decimals}f}'
    shown = abs(float(text.replace(',', '')))
    return text.replace(',', GROUP if shown >= _LARGE else '')


class _Move(NamedTuple):
    """The move of a figure to the prefix that reads best."""

    step: int           # 1000 or 1024
    moves: int          # so many steps up; down where below 0
    unit: str           # the unit then

    def shift(self, value: float) -> float:
        """Move ``value``; dividing keeps 71200 MB/s exactly 71.2 GB/s, multiplying by 0.001 would not."""
        if self.moves > 0:
            return value / self.step ** self.moves
        return value * self.step ** -self.moves


#: Units that move: their pattern, the step between two prefixes, and the prefixes.
_SCALES = ((_TIME, 1000, _DECIMAL[:5]), (_RATE, 1000, _DECIMAL[4:]), (_SIZE, 1024, _BINARY))


def _moved(value: float, unit: str) -> _Move:
    """Return how ``value`` should move."""
    for pattern, step, prefixes in _SCALES:
        match = pattern.fullmatch(unit)
        if not match:
            continue
        prefix = match[1].replace('µ', 'u').replace('μ', 'u')
        start = prefixes.index(prefix if prefix in prefixes else prefix.lower())
        moves = _moves(abs(value), step, start, len(prefixes) - 1)
        # a unit that stays is written as it was declared ('KB/s', 'µs')
        return _Move(step, moves, prefixes[start + moves] + match[2] if moves else unit)
    return _Move(1, 0, unit)


def _moves(size: float, step: int, start: int, last: int) -> int:
    """Return how many prefixes up or down, from number ``start`` of 0 to ``last``, a figure of this size goes."""
    at = start
    if size >= _LARGE:
        while size >= step and at < last:
            size, at = size / step, at + 1
    elif 0 < size < _SMALL:
        while size < 1 and at > 0:
            size, at = size * step, at - 1
    return at - start
