"""What happens to outputs: cut, lost, doubled or moved lines, altered figures, foreign bytes, colours, two runs in one.

Each kind takes random numbers and a recorded text, or two of them, and returns a damaged one. A parser must refuse
it, or mean exactly what it meant before. How many are tried: PARITY_MUTATIONS, 15 by default. Hypothesis would take
three times as long for them, and has little to shrink.
"""

import functools
import os
import random
import re
from collections.abc import Iterator

from hypothesis import settings

MUTATIONS = int(os.environ.get('PARITY_MUTATIONS', '15'))


def examples(full: int) -> settings:
    """As many examples of ``full`` as PARITY_MUTATIONS is of 200, but a quarter at least."""
    return settings(max_examples=full * max(50, MUTATIONS) // 200, deadline=None)


def seeds(*what: str) -> Iterator[random.Random]:
    """Random numbers for each mutation of ``what``; a push has the same ones every time, as Hypothesis has."""
    when = os.getpid() if 'PARITY_MUTATIONS' in os.environ else ''
    for count in range(MUTATIONS):
        yield random.Random(f'{what} {count} {when}')


NUMBER = re.compile(r'(?<![\w.])-?\d+(\.\d+)?([eED][-+]\d+)?(?![\w.])')
DIGIT = re.compile('[0-9]')
ANY = [*range(128), 0xa0, 0xe9, 0x0663, 0x2028, 0xfffd, 0x1f600]      # characters of any_text
NONSENSE = ('nan', 'NaN', '-nan', 'inf', '-inf', 'Infinity', '0', '0.00', '0.000000', '-1', '-', '1e999', '1_000',
            '٣', '\ufffd', '', '************', '9' * 400)


def cut(rng, text):
    """The first part, the last part, or all but the middle."""
    at, to = _span(rng, len(text))
    return rng.choice([text[:at], text[at:], text[:at] + text[to:]])


def dropped_lines(rng, text):
    return _some_lines(rng, text, 0)


def doubled_lines(rng, text):
    return _some_lines(rng, text, 2)


def moved_lines(rng, text):
    lines = text.split('\n')
    first, last, to = _span(rng, len(lines), 3)
    if rng.random() < 0.5:
        return '\n'.join(lines[:to] + lines[first:last] + lines[to:])
    return '\n'.join(lines[:first] + lines[last:to] + lines[first:last] + lines[to:])


def nonsense_for_a_number(rng, text):
    found, bad = rng.choice(_found(NUMBER, text)), rng.choice(NONSENSE)
    return text[:found.start()] + ('-' + found[0] if bad == '-' else bad) + text[found.end():]


def scaled_number(rng, text):
    """A figure 10 % to tenfold larger or smaller, with as many digits: it contradicts the others."""
    found = rng.choice([each for each in _found(NUMBER, text) if '.' in each[0]])
    factor = rng.choice([0.1, 0.5, 0.9, 1.1, 2, 10])
    mantissa, mark, exponent = found[0].partition('e')
    places = len(mantissa.partition('.')[2])
    value = float(found[0].replace('D', 'e')) * factor
    new = f'{value:.{places}e}' if mark else f'{value:.{places}f}'
    return text[:found.start()] + new + text[found.end():]


def foreign_bytes(rng, text):
    raw = text.encode()
    at = rng.randint(0, len(raw))
    junk = rng.randbytes(rng.randint(0, 4)) + b'\xff\xc3'             # never valid UTF-8
    over = rng.choice([0, len(junk)])
    errors = rng.choice(['replace', 'surrogateescape', 'backslashreplace'])
    return (raw[:at] + junk + raw[at + over:]).decode('utf-8', errors)


def other_line_ends(rng, text):
    """CRLF in all lines or some, or line ends of other worlds, which are none here."""
    end = rng.choice(['\r\n', '\r', '\x0b', '\u2028', '\n\n'])
    lines = text.split('\n')
    first, last = _span(rng, len(lines) - 1)
    return '\n'.join(lines[:first] + [end.join(lines[first:last + 1])] + lines[last + 1:])


def digit_doubled(rng, text):
    """A digit that stands twice, as a line does that is longer than its columns."""
    at = rng.choice(_found(DIGIT, text)).start()
    return text[:at] + text[at] + text[at:]


def swap_numbers_of_like_rows(rng, text):
    """Two rows exchange all their numbers, or one row exchanges two that follow each other."""
    lines = text.split('\n')
    rows = {}
    for at, line in enumerate(lines):
        if count := len(_found(NUMBER, line)):
            rows.setdefault(count, []).append(at)
    count = rng.choice(sorted(rows))
    one, other = rng.choices(rows[count], k=2)
    numbers = [found[0] for found in _found(NUMBER, lines[one])]
    if one == other or rng.random() < 0.5:
        at = rng.randint(0, max(0, count - 2))
        numbers[at:at + 2] = reversed(numbers[at:at + 2])
        lines[one] = _numbered(lines[one], numbers)
    else:
        others = [found[0] for found in _found(NUMBER, lines[other])]
        lines[one], lines[other] = _numbered(lines[one], others), _numbered(lines[other], numbers)
    return '\n'.join(lines)


def ansi(rng, text):
    """A word, a line or everything from a place on is coloured, as a launcher or a console does."""
    at = rng.choice(_found(re.compile(r'^|(?<= )\S', re.M), text)).start()
    end = rng.choice([r'(?=\s|$)', r'(?m:$)', r'\Z'])
    to = re.compile(end).search(text, at).start()
    code = rng.choice(['\x1b[31m', '\x1b[1;32m', '\x1b[38;5;9m', '\x1b[K', '\x1b[?25l'])
    return f'{text[:at]}{code}{text[at:to]}\x1b[0m{text[to:]}'


def tabs(rng, text):
    """A tab in the place of blanks, in one place, or wherever a row of blanks reaches a tab stop."""
    if rng.random() < 0.5:
        return re.sub('^.*$', lambda line: re.sub('.{8}', lambda stop: re.sub(' {2,}$', '\t', stop[0]), line[0]), text, flags=re.M)
    found = rng.choice(_found(re.compile(r' +|(?m:^)'), text))
    return f'{text[:found.start()]}\t{text[found.end():]}'


def spliced(rng, text, other):
    """The beginning of one run and the end of another, cut at a line."""
    lines, others = text.split('\n'), other.split('\n')
    at = rng.randint(0, len(lines))
    to = at if rng.random() < 0.5 else rng.randint(0, len(others))
    return '\n'.join(lines[:at] + others[to:])


def mixed_with_other(rng, text, other):
    """Up to three lines of another run in the place of some of these, or between them."""
    lines, others = text.split('\n'), other.split('\n')
    count, at = rng.randint(1, 3), rng.randrange(len(lines))
    of = at if rng.random() < 0.5 else rng.randrange(len(others))
    over = rng.choice([0, count])
    return '\n'.join(lines[:at] + others[of:of + count] + lines[at + over:])


def any_text(rng, text):
    lines, count = text.split('\n'), rng.randint(0, 12)
    return rng.choice(['\n'.join(rng.choices(lines, k=count)), ''.join(map(chr, rng.choices(ANY, k=count)))])


def several(rng, text):
    kinds = sorted(set(KINDS) - {'several', 'scaled_number', 'swap_numbers_of_like_rows'})
    for kind in rng.choices(kinds, k=rng.randint(2, 3)):
        try:
            text = KINDS[kind](rng, text)
        except UnicodeEncodeError:                               # foreign bytes upon foreign bytes
            continue
        if not NUMBER.search(text):
            break
    return text


KINDS = {kind.__name__: kind for kind in (
    cut, dropped_lines, doubled_lines, moved_lines, nonsense_for_a_number, scaled_number, foreign_bytes,
    other_line_ends, swap_numbers_of_like_rows, ansi, tabs, any_text, several)}
#: Kinds that make one output of two recorded ones.
TWO = {kind.__name__: kind for kind in (spliced, mixed_with_other)}


def changed_digit(rng, text):
    """One digit replaced by another or itself. Not of KINDS: below the digits printed nothing can be noticed."""
    at = rng.choice(_found(DIGIT, text)).start()
    return text[:at] + rng.choice('0123456789') + text[at + 1:]


@functools.lru_cache(200)
def _found(pattern, text):
    return list(pattern.finditer(text))


def _span(rng, most, count=2):
    return sorted(rng.randint(0, most) for _ in range(count))


def _numbered(line, numbers):
    """The line with these numbers in the place of its own."""
    given = iter(numbers)
    return NUMBER.sub(lambda _: next(given), line)


def _some_lines(rng, text, times):
    lines = text.split('\n')
    count = rng.randint(1, min(3, len(lines)))
    at = rng.randint(0, len(lines) - count)
    return '\n'.join(lines[:at] + lines[at:at + count] * times + lines[at + count:])
