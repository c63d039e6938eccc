"""What happens to outputs: cut, lost, doubled or moved lines, altered figures, foreign bytes, colours, two runs in one.

Each kind takes ``draw`` of Hypothesis and a recorded text, or two of them, and returns a damaged one. A parser must
refuse it, or mean exactly what it meant before. How many are tried: PARITY_MUTATIONS, 50 by default.
"""

import os
import re

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

MUTATIONS = int(os.environ.get('PARITY_MUTATIONS', '50'))


def examples(full: int) -> settings:
    """As many examples of ``full`` as PARITY_MUTATIONS is of 200."""
    return settings(max_examples=max(1, full * MUTATIONS // 200), deadline=None)


mutated = settings(max_examples=MUTATIONS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUMBER = re.compile(r'(?<![\w.])-?\d+(\.\d+)?([eED][-+]\d+)?(?![\w.])')
NONSENSE = ('nan', 'NaN', '-nan', 'inf', '-inf', 'Infinity', '0', '0.00', '0.000000', '-1', '-', '1e999', '1_000',
            '٣', '\ufffd', '', '************', '9' * 400)


def cut(draw, text):
    """The first part, the last part, or all but the middle."""
    at, to = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    return draw(st.sampled_from([text[:at], text[at:], text[:at] + text[to:]]))


def dropped_lines(draw, text):
    return _some_lines(draw, text, 0)


def doubled_lines(draw, text):
    return _some_lines(draw, text, 2)


def moved_lines(draw, text):
    lines = text.split('\n')
    first, last, to = sorted(draw(st.integers(0, len(lines))) for _ in range(3))
    if draw(st.booleans()):
        return '\n'.join(lines[:to] + lines[first:last] + lines[to:])
    return '\n'.join(lines[:first] + lines[last:to] + lines[first:last] + lines[to:])


def nonsense_for_a_number(draw, text):
    found = draw(st.sampled_from(list(NUMBER.finditer(text))))
    bad = draw(st.sampled_from(NONSENSE))
    return text[:found.start()] + ('-' + found[0] if bad == '-' else bad) + text[found.end():]


def scaled_number(draw, text, pattern=NUMBER):
    """A figure 10 % to tenfold larger or smaller, with as many digits: it contradicts the others."""
    found = draw(st.sampled_from([each for each in pattern.finditer(text) if '.' in each[0]]))
    factor = draw(st.sampled_from([0.1, 0.5, 0.9, 1.1, 2, 10]))
    mantissa, mark, exponent = found[0].partition('e')
    places = len(mantissa.partition('.')[2])
    value = float(found[0].replace('D', 'e')) * factor
    new = f'{value:.{places}e}' if mark else f'{value:.{places}f}'
    return text[:found.start()] + new + text[found.end():]


def foreign_bytes(draw, text):
    raw = text.encode()
    at = draw(st.integers(0, len(raw)))
    junk = draw(st.binary(max_size=4)) + b'\xff\xc3'             # never valid UTF-8
    over = draw(st.sampled_from([0, len(junk)]))
    errors = draw(st.sampled_from(['replace', 'surrogateescape', 'backslashreplace']))
    return (raw[:at] + junk + raw[at + over:]).decode('utf-8', errors)


def other_line_ends(draw, text):
    """CRLF in all lines or some, or line ends of other worlds, which are none here."""
    end = draw(st.sampled_from(['\r\n', '\r', '\x0b', '\u2028', '\n\n']))
    lines = text.split('\n')
    first, last = sorted(draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    return '\n'.join(lines[:first] + [end.join(lines[first:last + 1])] + lines[last + 1:])


def digit_doubled(draw, text):
    """A digit that stands twice, as a line does that is longer than its columns."""
    at = draw(st.sampled_from([found.start() for found in re.finditer('[0-9]', text)]))
    return text[:at] + text[at] + text[at:]


def swap_numbers_of_like_rows(draw, text):
    """Two rows exchange all their numbers, or one row exchanges two that follow each other."""
    lines = text.split('\n')
    rows = {}
    for at, line in enumerate(lines):
        if count := len(list(NUMBER.finditer(line))):
            rows.setdefault(count, []).append(at)
    count = draw(st.sampled_from(sorted(rows)))
    one, other = (draw(st.sampled_from(rows[count])) for _ in range(2))
    numbers = [found[0] for found in NUMBER.finditer(lines[one])]
    if one == other or draw(st.booleans()):
        at = draw(st.integers(0, max(0, count - 2)))
        numbers[at:at + 2] = reversed(numbers[at:at + 2])
        lines[one] = _numbered(lines[one], numbers)
    else:
        others = [found[0] for found in NUMBER.finditer(lines[other])]
        lines[one], lines[other] = _numbered(lines[one], others), _numbered(lines[other], numbers)
    return '\n'.join(lines)


def ansi(draw, text):
    """A word, a line or everything from a place on is coloured, as a launcher or a console does."""
    at = draw(st.sampled_from([found.start() for found in re.finditer(r'^|(?<= )\S', text, re.M)]))
    end = draw(st.sampled_from([r'(?=\s|$)', r'(?m:$)', r'\Z']))
    to = re.compile(end).search(text, at).start()
    code = draw(st.sampled_from(['\x1b[31m', '\x1b[1;32m', '\x1b[38;5;9m', '\x1b[K', '\x1b[?25l']))
    return f'{text[:at]}{code}{text[at:to]}\x1b[0m{text[to:]}'


def tabs(draw, text):
    """A tab in the place of blanks, in one place, or wherever a row of blanks reaches a tab stop."""
    if draw(st.booleans()):
        return re.sub('^.*$', lambda line: re.sub('.{8}', lambda stop: re.sub(' {2,}$', '\t', stop[0]), line[0]), text, flags=re.M)
    found = draw(st.sampled_from(list(re.finditer(r' +|(?m:^)', text))))
    return f'{text[:found.start()]}\t{text[found.end():]}'


def spliced(draw, text, other):
    """The beginning of one run and the end of another, cut at a line."""
    lines, others = text.split('\n'), other.split('\n')
    at = draw(st.integers(0, len(lines)))
    to = at if draw(st.booleans()) else draw(st.integers(0, len(others)))
    return '\n'.join(lines[:at] + others[to:])


def mixed_with_other(draw, text, other):
    """Up to three lines of another run in the place of some of these, or between them."""
    lines, others = text.split('\n'), other.split('\n')
    count = draw(st.integers(1, 3))
    at = draw(st.integers(0, len(lines) - 1))
    of = at if draw(st.booleans()) else draw(st.integers(0, len(others) - 1))
    over = draw(st.sampled_from([0, count]))
    return '\n'.join(lines[:at] + others[of:of + count] + lines[at + over:])


def any_text(draw, text):
    return draw(st.text() | st.lists(st.sampled_from(text.split('\n'))).map('\n'.join))


def several(draw, text):
    kinds = sorted(set(KINDS) - {'several', 'scaled_number', 'swap_numbers_of_like_rows'})
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=3)):
        try:
            text = KINDS[kind](draw, text)
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


def changed_digit(draw, text):
    """One digit replaced by another or itself. Not of KINDS: below the digits printed nothing can be noticed."""
    at = draw(st.sampled_from([found.start() for found in re.finditer('[0-9]', text)]))
    return text[:at] + draw(st.sampled_from('0123456789')) + text[at + 1:]


def _numbered(line, numbers):
    """The line with these numbers in the place of its own."""
    given = iter(numbers)
    return NUMBER.sub(lambda _: next(given), line)


def _some_lines(draw, text, times):
    lines = text.split('\n')
    count = draw(st.integers(1, min(3, len(lines))))
    at = draw(st.integers(0, len(lines) - count))
    return '\n'.join(lines[:at] + lines[at:at + count] * times + lines[at + count:])
