r"""Read what a program printed: needed lines once, finite numbers, figures that agree with each other.

    out = PROGRAM.output(text)                               # the lines from its title on: program.py
    out.ends_with("Finished : .*", "Finished")               # Incomplete without it: the output was cut
    out.refuse('Failed Validation')                          # Wrong, with the line
    out.one(r'Solution Validates!')                          # Wrong if it stands twice
    threads = out.count(r'Number of Threads counted = (\S+)')
    rate, seconds = out.figure(r'Rate = (\S+)'), out.figure(r'Time = (\S+)', places=6)
    agree(rate, seconds, work, 'copy')

Patterns are regular expressions of whole lines, blanks folded to one. Numbers keep the digits printed."""

from __future__ import annotations

import functools
import getopt
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from parity.base import units
from parity.base.codes import Code

if TYPE_CHECKING:
    from pydantic import BaseModel

#: What a parser returns: the figures by metric, and what was run.
Read = tuple[dict[str, float], dict[str, Any]]
Model = TypeVar('Model', bound='BaseModel')

_NUMBER = re.compile(r'[-+]?\d{1,40}(\.\d{0,40})?([eE][-+]?\d{1,3})?', re.ASCII)
_WHOLE = re.compile(r'\d{1,18}', re.ASCII)
_TERMINAL = re.compile(r'\x1b\[[0-?]*[ -/]*[@-~]')       # commands to a terminal, such as colours
_SINGLE = 1e-5          # beyond rounding: old codes compute their rates with constants in single precision


class Refused(ValueError):
    """The output has no figures that parity takes. ``word`` is the kind, in `parity parse` and expected.yaml."""

    word = ''


class Incomplete(Refused):
    """The output ends before its result, or lacks a part: infrastructure."""

    word = 'incomplete'


class Wrong(Refused):
    """The program ran to its end and its answer is bad: failed verification, bad residual."""

    word = 'wrong'


class Unread(Refused):
    """The output tells of no fault, but it is none that parity reads. The message names what it is."""

    word = 'unread'


class Alone(Unread):
    """The ranks of a run started alone: each took itself for the only one."""


def without_colours(text: str) -> str:
    """Return ``text`` without commands to a terminal."""
    return _TERMINAL.sub('', text) if '\x1b' in text else text


class Lines:
    """The lines of a text, or of a part that begins at line number ``first``. Colours are left out.
    ``fold`` makes one blank of several and drops those at the ends of a line; without it only those at the right
    end go, and tabs become blanks, for tables whose columns have a fixed width."""

    def __init__(self, text: str | list[str], first: int = 1, fold: bool = True):
        self.first = first
        self.lines = text if isinstance(text, list) else _split(text, fold)
        #: The program said that it was done: a line that lacks was never there.
        self.ended = False

    @property
    def end(self) -> int:
        """The number of the last line."""
        return self.first + len(self.lines) - 1

    def matches(self, pattern: str) -> list[tuple[int, re.Match[str]]]:
        """Number and match of every line that is ``pattern``."""
        fits = re.compile(pattern, re.ASCII).fullmatch
        letter = _first_letter(pattern)
        lines = self._by_letter.get(letter, []) if letter else enumerate(self.lines, self.first)
        found = []
        for at, line in lines:
            match = fits(line)
            if match:
                found.append((at, match))
        return found

    @functools.cached_property
    def _by_letter(self) -> dict[str, list[tuple[int, str]]]:
        """Number and text of the lines by their first letter: a parser asks for dozens of lines among hundreds."""
        by_letter: dict[str, list[tuple[int, str]]] = {}
        for at, line in enumerate(self.lines, self.first):
            by_letter.setdefault(line[:1], []).append((at, line))
        return by_letter

    def every(self, pattern: str) -> list[re.Match[str]]:
        """Every line that is ``pattern``."""
        return [match for _, match in self.matches(pattern)]

    def maybe(self, pattern: str, what: str = '') -> re.Match[str] | None:
        """The line that is ``pattern``, None without one; raises Wrong for several."""
        found = self.matches(pattern)
        if not found:
            return None
        (first, match), *more = found
        if more:
            second = more[0][0]
            raise Wrong(f'{len(found)} lines "{what or _plain(pattern)}", in lines {first} and {second}')
        return match

    def one(self, pattern: str, what: str = '') -> re.Match[str]:
        """The one line that is ``pattern``, which a message calls ``what``."""
        match = self.maybe(pattern, what)
        if match:
            return match
        what = what or _plain(pattern)
        if self.ended:
            raise Unread(f'no line "{what}" in lines {self.first} to {self.end}')
        raise Incomplete(f'line {self.end}: the output ends without "{what}"')

    def ends_with(self, pattern: str, what: str = '') -> re.Match[str]:
        """The one line with which the program ends its output: without it, the output was cut."""
        match = self.one(pattern, what)
        self.ended = True
        return match

    def value(self, name: str, mark: str = ' : ') -> str:
        """The text behind ``name`` and the mark in the one line that begins so."""
        return self.one(f'{re.escape(name)}{mark}(.*)', name)[1]

    def count(self, pattern: str, zero: bool = False) -> int:
        """The count in the one line that is ``pattern``: its group 1."""
        return whole(self.one(pattern)[1], _plain(pattern), zero)

    def figure(self, pattern: str, zero: bool = False, places: int | None = None) -> Decimal:
        """The number in the one line that is ``pattern``: its group 1."""
        return number(self.one(pattern)[1], _plain(pattern), zero, places)

    def refuse(self, pattern: str, error: type[Refused] = Wrong) -> None:
        """Raise ``error`` with the first line that has ``pattern`` anywhere."""
        search = re.compile(pattern, re.ASCII).search
        for at, line in enumerate(self.lines, self.first):
            if search(line):
                raise error(f'line {at}: {line.strip()[:160]}')

    def part(self, begin: str, end: str) -> Lines:
        """The lines between the one line that is ``begin`` and the one line that is ``end``."""
        self.one(begin)
        self.one(end)
        start = self.matches(begin)[0][0]
        stop = self.matches(end)[0][0]
        if stop < start:
            raise Incomplete(f'line {stop}: "{_plain(end)}" stands before "{_plain(begin)}"')
        inner = self.lines[start + 1 - self.first:stop - self.first]
        part = Lines(inner, start + 1)
        part.ended = self.ended
        return part


def _first_letter(pattern: str) -> str:
    """Return the letter with which every line begins that is ``pattern``; '' where it may be one of several."""
    letter, after = pattern[:1], pattern[1:2]
    is_plain = letter.isalnum() or letter in {' ', '#', '@', '=', '-'}
    if not is_plain or after in {'?', '*', '{'} or '|' in pattern:
        return ''
    return letter


def _split(text: str, fold: bool) -> list[str]:
    lines = without_colours(text).split('\n')
    if fold:
        return [' '.join(line.split()) for line in lines]
    return [line.rstrip(' \r').expandtabs() for line in lines]


def number(token: str, what: str, zero: bool = False, places: int | None = None) -> Decimal:
    """A finite number above zero, or zero where ``zero`` allows it, with the digits printed. ``places``: how many
    decimals the program always prints; a figure with others was cut or altered."""
    value = _finite(token, what)
    if value < 0 or (value == 0 and not zero):
        least = 'not be negative' if zero else 'be above zero'
        raise Wrong(f'{what} is {token[:40]}: it must {least}')
    if places is not None and value.as_tuple().exponent != -places:
        raise Wrong(f'{what} is {token[:40]!r}, not a figure with {places} decimals')
    return value


def whole(token: str, what: str, zero: bool = False) -> int:
    """A whole number above zero, or zero where ``zero`` allows it."""
    if not _WHOLE.fullmatch(token):
        raise Wrong(f'{what} is {token[:40]!r}, not a count')
    count = int(token)
    if count == 0 and not zero:
        raise Wrong(f'{what} is 0')
    return count


def size(token: str, what: str) -> int:
    """Bytes (or a count) of a figure of the command line, such as 8, 4k, 2m, 1g: powers of two."""
    count = units.size(token)
    if count is None:
        raise Wrong(f'the command line has {token[:40]!r} as {what}: a size such as 4k, 2m or 1g was expected')
    return count


def by_heading(headings: Sequence[str], row: Sequence[str], needed: Collection[str]) -> dict[str, str]:
    """Return the words of a row by their headings. Raise Unread where a column that is needed has none."""
    words = dict(zip(headings, row, strict=True))
    for name in needed:
        if name not in words:
            raise Unread(f'a table without the column {name}: it has {" ".join(headings)[:160]}')
    return words


def half(value: Decimal) -> float:
    """Half a unit of the last digit printed: as far as a rounded figure may be from the true one."""
    return 0.5 * 10.0 ** value.as_tuple().exponent


def agree(rate: Decimal, seconds: Decimal, work: float, what: str, unsure: float = 0.0) -> None:
    """Raise Wrong unless ``work`` over ``seconds`` is ``rate``, within the last digits of both. ``unsure``: by how
    much the true work may differ from ``work``."""
    longest = float(seconds) + half(seconds)
    shortest = float(seconds) - half(seconds)
    least = (work - unsure) / longest * (1 - _SINGLE) - half(rate)
    most = math.inf
    if shortest > 0:
        most = (work + unsure) / shortest * (1 + _SINGLE) + half(rate)
    if not least <= float(rate) <= most:
        raise Wrong(f'{what}: {rate} in {seconds} s is not the work of {work:.6g}')


def near(what: str, value: Decimal, expected: float, slack: float = 0.0) -> None:
    """Raise Wrong unless a printed figure is what the other figures make, within its last digit and ``slack``."""
    if abs(float(value) - expected) > slack + half(value) + 1e-9 * abs(expected):
        raise Wrong(f'{what} is {value}, {expected:.6g} by the other figures')


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
    first = out.one(begin)
    told = out.one(seal)[1]
    start = out.matches(begin)[0][0]
    end = out.matches(seal)[0][0]
    own = out.lines[start - 1:end - 1]
    raw = '\n'.join(own) + last
    checksum = f'{zlib.crc32(raw.encode("utf-8", "surrogatepass")):08x}'
    if end < start or told != checksum:
        raise Incomplete(f'line {end}: the checksum does not fit the lines above')
    above = Lines(out.lines[:start - 1])
    return above, first, Lines(own[1:], start + 1)


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
    begin, seal = rf'{name} 1 {head} (\d+)', rf'{name} end \d+ crc32 (\S+)'
    above, first, out = sealed(text, begin, seal, last='\n')
    for at, match in out.matches(r'(.*) wrong ([1-9]\d*)'):
        result, threads = match.groups()
        raise Wrong(f'line {at}: {threads} threads computed a wrong result: {result[:80]!r}')
    rows = [match.groupdict() for match in out.every(row)]
    if len(rows) < len(out.lines):
        raise Wrong(f'{len(out.lines) - len(rows)} lines of {name} are no results')
    compiled = {word: above.one(f'{word}: (.+)')[1] for word in ('compiler', 'flags')}
    return Printed(int(first[1]), rows, compiled)


def kernel_rate(row: dict[str, str], work: float) -> float:
    """The rate of a row (10^9/s), which its ``work`` and its seconds make; raises Wrong where they do not."""
    told = number(row['rate'], 'a rate')
    seconds = number(row['seconds'], 'seconds', places=6)
    agree(told, seconds, work / 1e9, '10^9/s')
    return float(told)


def sections(out: Lines, begin: str, end: str) -> Iterator[tuple[re.Match[str], str]]:
    """Every line ``begin``, with the text below it to its line ``end``, which has the same groups and ``exit``.
    Raises Incomplete where an end is absent or the exit code is not 0, Wrong for an end of another block."""
    opened: re.Match[str] | None = None
    own: list[str] = []
    for at, line in enumerate(out.lines, out.first):
        begins, ends = re.fullmatch(begin, line), re.fullmatch(end, line)
        if begins:
            if opened:
                raise Incomplete(f'line {at}: {opened[0]} has no end')
            opened, own = begins, []
        elif ends:
            if not opened or ends.groups()[:-1] != opened.groups():
                raise Wrong(f'line {at}: the end of what has not begun: {line[:80]!r}')
            if ends['exit'] != '0':
                raise Incomplete(f'line {at}: {opened[0]}: exit code {ends["exit"]}: {_last_words(own)}')
            yield opened, '\n'.join(own)
            opened = None
        elif opened:
            own.append(line)
    if opened:
        raise Incomplete(f'line {out.end}: {opened[0]} has no end')


def _last_words(lines: list[str]) -> str:
    """Return the last line with words, of the program rather than of srun."""
    spoken = [line.strip()[:160] for line in lines if line.strip()]
    if not spoken:
        return 'it printed nothing'
    own = [words for words in spoken if not words.startswith('srun: ')]
    return (own or spoken)[-1]


def options(words: Sequence[str], letters: str, long: Sequence[str],
            refused: Mapping[str, str] | None = None) -> dict[str, str]:
    """Option -> value, '' for a flag, of the words after the program; ``letters`` as getopt has them.

    Raise Unread for any other option: with it, figures may mean something else. ``refused`` has the names of
    known ones: 'D:' -> 'a run with a time limit'."""
    refused = refused or {}
    known_letters = letters + ''.join(refused)
    try:
        found, others = getopt.getopt(words, known_letters, long)
    except getopt.GetoptError as err:
        flags = [f'-{letter}' for letter in letters.replace(':', '')]
        names = [f'--{name}' for name in long]
        raise Unread(f'the command line: {err}; parity reads runs with {", ".join([*flags, *names])}') from None
    for name, _ in found:
        why = refused.get(name[1:]) or refused.get(f'{name[1:]}:')
        if why:
            raise Unread(f'{why} ({name}) is not read')
    if others:
        raise Wrong(f'the command line has {others[0][:60]!r} where an option should be')
    return {name.lstrip('-'): value for name, value in found}


#: Where a JSON object may begin: at a line's begin, before a key or its end.
_OBJECT = re.compile(r'^\{(?=\s*(["}]|\Z))', re.MULTILINE)


def document(text: str) -> dict[str, Any]:
    """Return the one JSON object that begins a line, whatever its blanks and line breaks.

    Raises Incomplete if there is none, or it is not whole. Raises Wrong for several objects, a key with two
    values, and a number that is not finite."""
    text = text.replace('\r\n', '\n')
    begin = _OBJECT.search(text)
    if begin is None:
        last = text.count('\n') + 1
        raise Incomplete(f'line {last}: the output ends without a line "{{", where its JSON begins')
    start = text.count('\n', 0, begin.start())
    body = text[begin.start():]
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique, parse_constant=_value, parse_int=_whole_value,
        parse_float=lambda token: float(_value(token)))
    try:
        values, end = decoder.raw_decode(body)
    except json.JSONDecodeError as err:
        raise Incomplete(f'line {start + err.lineno}: the JSON is not whole: {err.msg}') from None
    except RecursionError:
        raise Wrong('the JSON is nested too deeply') from None
    if _OBJECT.search(body[end:]):
        raise Wrong('several JSON documents in one output')
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, of which each key has one value."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            raise Wrong(f'{name[:40]!r} stands twice in one object')
        found[name] = value
    return found


def _value(token: str) -> Decimal:
    return _finite(token, 'a value')


def _whole_value(token: str) -> int:
    return int(_value(token))


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
        raise Incomplete(f'{where} is absent')
    why = first['msg'].removeprefix('Value error, ')
    raise Wrong(f'{where} is {str(first["input"])[:40]!r}: {why}')


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
