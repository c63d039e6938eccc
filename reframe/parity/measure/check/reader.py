r"""Read what a program printed: needed lines once, finite numbers, figures that agree with each other.

    out = Lines(text)
    out.refuse('Failed Validation')                          # Wrong, with the line
    out.one(r'Solution Validates!')                          # Incomplete without it, Wrong if it stands twice
    threads = out.count(r'Number of Threads counted = (\S+)')
    rate, seconds = out.figure(r'Rate = (\S+)'), out.figure(r'Time = (\S+)', places=6)
    agree(rate, seconds, work, 'copy')

Patterns are regular expressions of whole lines, blanks folded to one. Numbers keep the digits printed."""

from __future__ import annotations

import getopt
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from parity.base.codes import Code

if TYPE_CHECKING:
    from pydantic import BaseModel

#: What a parser returns: the figures by metric, and what was run.
Read = tuple[dict[str, float], dict[str, Any]]
Model = TypeVar('Model', bound='BaseModel')

_NUMBER = re.compile(r'[-+]?\d{1,40}(\.\d{0,40})?([eE][-+]?\d{1,3})?', re.ASCII)
_WHOLE = re.compile(r'\d{1,18}', re.ASCII)
_SIZE = re.compile(r'(\d{1,15})([kmgtp]?)', re.ASCII | re.IGNORECASE)
_TERMINAL = re.compile(r'\x1b\[[0-?]*[ -/]*[@-~]')       # commands to a terminal, such as colours
_LEAST = 4096           # some programs print no end: a table that stops below this many bytes was cut
_SINGLE = 1e-5          # beyond rounding: old codes compute their rates with constants in single precision


class Incomplete(ValueError):
    """The output ends before its result, or lacks a part: infrastructure."""


class Wrong(ValueError):
    """The program ran to its end and its answer is bad: failed verification, bad residual."""


class Lines:
    """The lines of a text, or of a part that begins at line number ``first``. Colours are left out.
    ``fold`` makes one blank of several and drops those at the ends of a line; without it only those at the right
    end go, and tabs become blanks, for tables whose columns have a fixed width."""

    def __init__(self, text: str | list[str], first: int = 1, fold: bool = True):
        self.first, self.lines = first, text
        if isinstance(text, str):
            self.lines = [' '.join(line.split()) if fold else line.rstrip(' \r').expandtabs()
                          for line in _TERMINAL.sub('', text).split('\n')]

    @property
    def end(self) -> int:
        """The number of the last line."""
        return self.first + len(self.lines) - 1

    def matches(self, pattern: str) -> list[tuple[int, re.Match[str]]]:
        """Number and match of every line that is ``pattern``."""
        matches = map(re.compile(pattern, re.ASCII).fullmatch, self.lines)
        return [(at, match) for at, match in enumerate(matches, self.first) if match]

    def every(self, pattern: str) -> list[re.Match[str]]:
        return [match for _, match in self.matches(pattern)]

    def maybe(self, pattern: str, what: str = '') -> re.Match[str] | None:
        """The line that is ``pattern``, None without one; raises Wrong for several."""
        found = self.matches(pattern)
        if len(found) > 1:
            where = f'in lines {found[0][0]} and {found[1][0]}'
            raise Wrong(f'{len(found)} lines "{what or _plain(pattern)}", {where}')
        return found[0][1] if found else None

    def one(self, pattern: str, what: str = '') -> re.Match[str]:
        """The one line that is ``pattern``, which a message calls ``what``."""
        match = self.maybe(pattern, what)
        if not match:
            raise Incomplete(f'line {self.end}: the output ends without "{what or _plain(pattern)}"')
        return match

    def count(self, pattern: str, zero: bool = False) -> int:
        """The count in the one line that is ``pattern``: its group 1."""
        return whole(self.one(pattern)[1], _plain(pattern), zero)

    def figure(self, pattern: str, zero: bool = False, places: int | None = None) -> Decimal:
        """The number in the one line that is ``pattern``: its group 1."""
        return number(self.one(pattern)[1], _plain(pattern), zero, places)

    def refuse(self, pattern: str, error: type[Incomplete | Wrong] = Wrong) -> None:
        """Raise ``error`` with the first line that has ``pattern`` anywhere."""
        search = re.compile(pattern, re.ASCII).search
        for at, line in enumerate(self.lines, self.first):
            if search(line):
                raise error(f'line {at}: {line.strip()[:160]}')

    def part(self, begin: str, end: str) -> Lines:
        """The lines between the one line that is ``begin`` and the one line that is ``end``."""
        self.one(begin), self.one(end)
        start, stop = self.matches(begin)[0][0], self.matches(end)[0][0]
        if stop < start:
            raise Incomplete(f'line {stop}: "{_plain(end)}" stands before "{_plain(begin)}"')
        return Lines(self.lines[start + 1 - self.first:stop - self.first], start + 1)


def number(token: str, what: str, zero: bool = False, places: int | None = None) -> Decimal:
    """A finite number above zero, or zero where ``zero`` allows it, with the digits printed. ``places``: how many
    decimals the program always prints; a figure with others was cut or altered."""
    value = _finite(token, what)
    if value < 0 or not (value or zero):
        raise Wrong(f'{what} is {token[:40]}: it must {"not be negative" if zero else "be above zero"}')
    if places is not None and value.as_tuple().exponent != -places:
        raise Wrong(f'{what} is {token[:40]!r}, not a figure with {places} decimals')
    return value


def whole(token: str, what: str, zero: bool = False) -> int:
    """A whole number above zero, or zero where ``zero`` allows it."""
    if not _WHOLE.fullmatch(token):
        raise Wrong(f'{what} is {token[:40]!r}, not a count')
    if not (int(token) or zero):
        raise Wrong(f'{what} is 0')
    return int(token)


def half(value: Decimal) -> float:
    """Half a unit of the last digit printed: as far as a rounded figure may be from the true one."""
    return 0.5 * 10.0 ** value.as_tuple().exponent


def agree(rate: Decimal, seconds: Decimal, work: float, what: str, unsure: float = 0.0) -> None:
    """Raise Wrong unless ``work`` over ``seconds`` is ``rate``, within the last digits of both. ``unsure``: by how
    much the true work may differ from ``work``."""
    shortest = float(seconds) - half(seconds)
    least = (work - unsure) / (float(seconds) + half(seconds))
    most = (work + unsure) / shortest if shortest > 0 else math.inf
    if not least * (1 - _SINGLE) - half(rate) <= float(rate) <= most * (1 + _SINGLE) + half(rate):
        raise Wrong(f'{what}: {rate} in {seconds} s is not the work of {work:.6g}')


def same(what: str, one: Any, other: Any) -> None:
    """Raise Wrong unless an output tells the same in two places."""
    if one != other:
        raise Wrong(f'{what}: {str(one)[:60]} and {str(other)[:60]} in one output')


def ordered(what: str, *figures: Decimal) -> None:
    """Raise Wrong unless the figures rise, as a minimum, a mean and a maximum do."""
    if list(figures) != sorted(figures):
        raise Wrong(f'{what}: {", ".join(map(str, figures))} are not minimum, average, maximum')


def sealed(text: str, begin: str, seal: str, last: str = '') -> tuple[Lines, re.Match[str], Lines]:
    """The lines above the one that is ``begin``, that line, and those below it to the one that is ``seal``. Group
    1 of ``seal`` is the CRC-32 of the lines from ``begin`` on, of which the last ends in ``last``; raises
    Incomplete where it does not fit."""
    out = Lines([line.rstrip('\r') for line in text.split('\n')])
    first, told = out.one(begin), out.one(seal)[1]
    (start, _), (end, _) = out.matches(begin)[0], out.matches(seal)[0]
    own = out.lines[start - 1:end - 1]
    raw = ('\n'.join(own) + last).encode('utf-8', 'surrogatepass')
    if end < start or told != f'{zlib.crc32(raw):08x}':
        raise Incomplete(f'line {end}: the checksum does not fit the lines above')
    return Lines(out.lines[:start - 1]), first, Lines(own[1:], start + 1)


#: The end of a line of our kernels: seconds and rate, of which ``rate`` makes one of the other's.
KERNEL_FIGURES = r'seconds (?P<seconds>\S+) rate (?P<rate>\S+)'


class Printed(NamedTuple):
    """``head`` is the number in the first line; ``rows`` are the words of each line between first and last."""

    head: int
    rows: list[dict[str, str]]
    compiled: dict[str, str]


def kernel(text: str, name: str, head: str, row: str) -> Printed:
    """Read the output of the kernel ``name``: its first line gives ``head``, every other line is a ``row``. Raises
    Incomplete if its beginning, its end or a result is absent, or its checksum does not fit. Raises Wrong for a
    wrong result and for a foreign line."""
    above, first, out = sealed(text, rf'{name} 1 {head} (\d+)', rf'{name} end \d+ crc32 (\S+)', last='\n')
    for at, match in out.matches(r'(.*) wrong ([1-9]\d*)'):
        raise Wrong(f'line {at}: {match[2]} threads computed a wrong result: {match[1][:80]!r}')
    rows = [match.groupdict() for match in out.every(row)]
    if len(rows) < len(out.lines):
        raise Wrong(f'{len(out.lines) - len(rows)} lines of {name} are no results')
    compiled = {word: above.one(f'{word}: (.+)')[1] for word in ('compiler', 'flags')}
    return Printed(int(first[1]), rows, compiled)


def kernel_rate(row: dict[str, str], work: float) -> float:
    """The rate of a row (10^9/s), which its ``work`` and its seconds make; raises Wrong where they do not."""
    told, seconds = number(row['rate'], 'a rate'), number(row['seconds'], 'seconds', places=6)
    agree(told, seconds, work / 1e9, '10^9/s')
    return float(told)


def sections(out: Lines, begin: str, end: str) -> Iterator[tuple[re.Match[str], str]]:
    """Every line ``begin``, with the text below it to its line ``end``, which has the same groups and ``exit``.
    Raises Incomplete where an end is absent or the exit code is not 0, Wrong for an end of another block."""
    opened, own = None, []
    for at, line in enumerate(out.lines, out.first):
        if match := re.fullmatch(begin, line):
            if opened:
                raise Incomplete(f'line {at}: {opened[0]} has no end')
            opened, own = match, []
        elif match := re.fullmatch(end, line):
            if not opened or match.groups()[:-1] != opened.groups():
                raise Wrong(f'line {at}: the end of what has not begun: {line[:80]!r}')
            if match['exit'] != '0':
                words = [each.strip()[:160] for each in own if each.strip()]
                said = next((each for each in reversed(words) if not each.startswith('srun: ')),
                            words[-1] if words else 'it printed nothing')
                raise Incomplete(f'line {at}: {opened[0]}: exit code {match["exit"]}: {said}')
            yield opened, '\n'.join(own)
            opened = None
        elif opened:
            own.append(line)
    if opened:
        raise Incomplete(f'line {out.end}: {opened[0]} has no end')


def table(out: Lines, heading: str, row: str, width: int, last: int | None = None, first: int = 1
          ) -> dict[int, re.Match[str]]:
    """Return each ``row`` below the line with the words ``heading``, by its message size (bytes), group 1. Each
    has ``width`` characters, and its figures, the other groups, end where those of the first row do: a row that
    lost digits or exchanged them differs. ``first`` and ``last`` are the sizes that were asked for. Raises
    Incomplete for a table that begins late, or ends early, Wrong for a row or a size that does not fit."""
    words = ' *' + ' +'.join(map(re.escape, heading.split()))
    out.one(words, heading)
    found: dict[int, re.Match[str]] = {}
    before, columns = None, []
    for at in range(out.matches(words)[0][0], len(out.lines)):
        line = out.lines[at]
        if not re.match(r' *[-+.\d]| {3}', line):
            continue                                # a line of the job
        match = re.fullmatch(row, line, re.ASCII)
        ends = [end for _, end in match.regs[2:]] if match else []
        if not match or len(line) != width or ends != (columns := columns or ends):
            if not any(out.lines[at + 1:]):
                raise Incomplete(f'line {at + 1}: the output ends within a row: {line[:80]!r}')
            raise Wrong(f'line {at + 1}: {line[:80]!r} is no row of the table')
        size = int(match[1])
        if size != (2 * before or 1) if before is not None else size & (size - 1):
            raise Wrong(f'line {at + 1}: {size} B is not the size that follows: powers of two without a gap')
        found[size], before = match, size
    _table_ended(out, before, last)
    if (begins := min(found)) > first:
        raise Incomplete(f'line {out.end}: the table begins at {begins} B, not at {first} B')
    if 0 < begins < first:
        raise Wrong(f'the table begins at {begins} B, before {first} B')
    return found


def _table_ended(out: Lines, ends: int | None, last: int | None) -> None:
    if ends is None:
        raise Incomplete(f'line {out.end}: the output ends without a row in its table')
    if ends < (_LEAST if last is None else last):
        wanted = f', not at {last} B' if last else ' already'
        raise Incomplete(f'line {out.end}: the table ends at {ends} B{wanted}')
    if last is not None and ends > last:
        raise Wrong(f'the table goes on to {ends} B, beyond {last} B')


def options(words: Sequence[str], letters: str, long: Sequence[str]) -> dict[str, str]:
    """Option -> value, '' for a flag, of the words after the program; ``letters`` as getopt has them. Raises Wrong
    for any other option: with it, figures may mean something else."""
    try:
        found, others = getopt.getopt(words, letters, long)
    except getopt.GetoptError as err:
        valid = [*(f'-{letter}' for letter in letters.replace(':', '')), *(f'--{name}' for name in long)]
        raise Wrong(f'the command line: {err}; parity reads runs with {", ".join(valid)}') from None
    if others:
        raise Wrong(f'the command line has {others[0][:60]!r} where an option should be')
    return {name.lstrip('-'): value for name, value in found}


def size(token: str, what: str) -> int:
    """Bytes (or a count) of a figure such as 8, 4k, 2m, 1g: powers of two."""
    match = _SIZE.fullmatch(token)
    if not match:
        raise Wrong(f'the command line has {token[:40]!r} as {what}: a size such as 4k, 2m or 1g was expected')
    return int(match[1]) << 10 * ' kmgtp'.index(match[2].lower() or ' ')


def document(text: str) -> dict[str, Any]:
    """Return the one JSON object that begins with a line ``{``. Raises Incomplete if there is none, or it is not
    whole. Raises Wrong for several objects, a key with two values, and a number that is not finite."""
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found and found[name] != value:
                raise Wrong(f'{name[:40]!r} stands twice in one object')
            found[name] = value
        return found

    lines = text.replace('\r\n', '\n').split('\n')
    if '{' not in lines:
        raise Incomplete(f'line {len(lines)}: the output ends without a line "{{", where its JSON begins')
    start = lines.index('{')
    body = '\n'.join(lines[start:])
    decoder = json.JSONDecoder(
        object_pairs_hook=unique, parse_constant=lambda token: _finite(token, 'a value'),
        parse_float=lambda token: float(_finite(token, 'a value')),
        parse_int=lambda token: int(_finite(token, 'a value')))
    try:
        values, end = decoder.raw_decode(body)
    except json.JSONDecodeError as err:
        raise Incomplete(f'line {start + err.lineno}: the JSON is not whole: {err.msg}') from None
    except RecursionError:
        raise Wrong('the JSON is nested too deeply') from None
    if '{' in body[end:].split('\n'):
        raise Wrong('several JSON documents in one output')
    return values


def model(kind: type[Model], values: dict[str, Any]) -> Model:
    """``values`` of a JSON document as the pydantic model ``kind``. Raises Incomplete where a value is absent,
    Wrong where it is another than the model allows, with its place."""
    from pydantic import ValidationError
    try:
        return kind.model_validate(values)
    except ValidationError as err:
        first = err.errors()[0]
        where = ''.join(f'[{at}]' if isinstance(at, int) else f'.{at}' for at in first['loc']).lstrip('.')
        if first['type'] == 'missing':
            raise Incomplete(f'{where} is absent') from None
        why = first['msg'].removeprefix('Value error, ')
        raise Wrong(f'{where} is {str(first["input"])[:40]!r}: {why}') from None


def room(code: Code) -> ModuleType:
    """Import the file of a code, as ReFrame's loader does: its ``read`` is the parser."""
    from reframe.utility import import_module_from_file
    return import_module_from_file(str(code.file), load_parents=True)


def _finite(token: str, what: str) -> Decimal:
    if not _NUMBER.fullmatch(token) or not math.isfinite(float(token)):
        raise Wrong(f'{what} is {token[:40]!r}, not a finite number')
    return Decimal(token)


def _plain(pattern: str) -> str:
    """A pattern as a person reads it: "Array size = ..."."""
    return re.sub(r'\((?!\?)[^()]*\)[*+?]?|\.[*+]|\\[Sdw][*+]?', '...', pattern).replace('\\', '')
