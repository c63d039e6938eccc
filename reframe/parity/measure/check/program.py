r"""Find a program's own lines in what a job printed: its title first, without what launchers put before each line.

    PROGRAM = Program('Code', title=r'Code (?P<version>\S+): it begins', tried=('3.2', '4.1'), alone='ranks : 1')

    out = PROGRAM.output(text)              # the lines from the title on
    out.version                             # 4.0.1rc1
    facts |= PROGRAM.untried(out.version)   # {'note': 'version 4.2: not tried'}, or nothing

`output` refuses by name what is none: no title, two runs, ranks that know nothing of one another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from parity.base.figures import counted
from parity.measure.check.reader import Alone, Incomplete, Lines, Unread, without_colours

_MONTH_DAY = r'(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}\d{1,2}'
_CLOCK = r'\d\d:\d\d:\d\d(?:[.,]\d{1,9})?'
#: Times before a line: of `ts`, of `mpirun --timestamp-output`, of a pipeline's log.
_TIMES = (
    rf'{_MONTH_DAY} {_CLOCK}(?: \d{{4}})?',                         # Nov 28 22:16:16
    rf'\d{{4}}-\d\d-\d\d[ T]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?',         # 2026-11-28T22:16:16Z
    _CLOCK,                                                         # 22:16:16
    r'\d{10}\.\d{1,9}',                                             # 1795886240.123456
)
#: Labels before a line: which rank printed it.
_LABELS = (
    r' {0,9}\d{1,9}:',                              # srun -l
    r'\[[\w.@-]{0,200},?\d{1,9}\]<std(?:out|err)>:',        # mpirun --tag-output
    r'\[\d{1,9}\]',                                 # mpiexec -l
    r'<std(?:out|err)>:',                           # mpirun --timestamp-output
)
_TIME = rf'\[?(?:{"|".join(_TIMES)})\]?'
_LABEL = '|'.join(_LABELS)
_BEFORE = re.compile(rf'(?P<time>{_TIME})?(?P<gap> ?)(?P<label>{_LABEL})?[ \t]*', re.ASCII)
#: Open MPI frames what it says; what begins so is no complaint of the program.
_FRAME = '-' * 74
_FRAMED = ('WARNING: ', 'By default, for Open MPI', 'No OpenFabrics connection', 'A process has executed')
_LONGEST_FRAME = 40         # lines
_QUOTED = 80                # characters of a line in a message
_SHOWN = 4                  # titles in a message
_COUNTS = {2: 'two', 3: 'three'}


class Title(NamedTuple):
    """A title: the number of its line, the place of the line in the text, and what stands before it there."""

    line: int
    begin: int
    before: str
    match: re.Match[str]


class RunText(NamedTuple):
    """The text of a run in a file, and the number of its first line."""

    line: int
    text: str


class Output(Lines):
    """The lines of one run of a program, from its title on."""

    def __init__(self, text: str, title: Title, fold: bool):
        super().__init__(text, title.line, fold)
        self.title = title.match

    @property
    def version(self) -> str:
        """The version that the title names; '' where it names none."""
        return self.title.groupdict().get('version') or ''

    @property
    def text(self) -> str:
        """The lines as one text, in which each has the number that it has in the whole output."""
        return '\n' * (self.first - 1) + '\n'.join(self.lines)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the version: 4.0.1rc1 has 4, 0 and 1."""
        return _numbers(self.version)


@dataclass(frozen=True)
class Program:
    """A program: what its output begins with, and which of its versions were tried."""

    name: str                       # in messages
    title: str                      # the expression of its title; a blank in it fits several
    tried: tuple[str, str] = ('', '')   # the first and the last version whose output was tried
    alone: str = ''                 # the expression of a line that a rank prints that knows of no other

    def output(self, text: str, fold: bool = True) -> Output:
        """Return the program's lines from its title on. ``fold`` is that of Lines.

        Raise Incomplete where there is no title, Unread for several runs and for ranks that started alone."""
        text = without_colours(text)
        titles = list(self._titles(text))
        self.refuse_alone(text, len(titles))
        titles = _without_repeats(text, titles)
        if not titles:
            raise Incomplete(self._no_title(text))
        if len(titles) > 1:
            raise Unread(_several_runs(titles))
        title, = titles
        own = _own_lines(text[title.begin:], title.before)
        return Output('\n'.join(_without_frames(own)), title, fold)

    def runs(self, text: str) -> list[RunText]:
        """Return the text of each run in a file that has several, with the number of its first line."""
        text = without_colours(text)
        titles = _without_repeats(text, list(self._titles(text)))
        if not titles:
            return []
        begins = [title.begin for title in titles]
        ends = [*begins[1:], len(text)]
        texts = []
        for title, end in zip(titles, ends, strict=True):
            texts.append(RunText(title.line, text[title.begin:end]))
        return texts

    def untried(self, version: str) -> dict[str, str]:
        """Return the fact `note` for a version whose output was not tried."""
        return {} if self.was_tried(version) else {'note': f'version {version}: not tried'}

    def demand_tried(self, version: str, what: str) -> None:
        """Raise Unread for a version that was not tried: nothing in the output confirms ``what``."""
        if self.was_tried(version):
            return
        first, last = self.tried
        raise Unread(f'{self.name} {version[:40]}: {what} is read of {first} to {last}, because nothing in the '
                     'output confirms it')

    def was_tried(self, version: str) -> bool:
        """Return whether ``version`` is one of the first to the last that was tried."""
        first, last = map(_numbers, self.tried)
        numbers = _numbers(version)
        return first <= numbers and numbers[:len(last)] <= last

    @cached_property
    def _title(self) -> re.Pattern[str]:
        with_blanks = self.title.replace(' ', r'[ \t]+')
        return re.compile(rf'{with_blanks}(?=[ \t\r]*$)', re.ASCII | re.MULTILINE)

    def _titles(self, text: str) -> Iterator[Title]:
        """Yield each title that begins a line, but for a label or a time."""
        line, counted = 1, 0
        for match in self._title.finditer(text):
            begin = text.rfind('\n', 0, match.start()) + 1
            before = text[begin:match.start()]
            line += text.count('\n', counted, begin)
            counted = begin
            if len(before) < _QUOTED and _BEFORE.fullmatch(before):
                yield Title(line, begin, before, match)

    def refuse_alone(self, text: str, titles: int = 0) -> None:
        """Raise Alone where several ranks ran, of which each took itself for the only one."""
        if not self.alone:
            return
        with_blanks = self.alone.replace(' ', r'[ \t]+')
        alone = re.findall(rf'{with_blanks}[ \t\r]*$', text, re.ASCII | re.MULTILINE)
        ranks = titles or len(alone)
        if 1 < ranks <= len(alone):
            raise Alone(f"{ranks} ranks started alone: the launcher's MPI is not the program's; "
                        'try srun --mpi=pmix')

    def _no_title(self, text: str) -> str:
        """Return the sentence on an output without a title."""
        lines = text.count('\n') + (not text.endswith('\n'))
        first = re.search(r'\S.{0,100}', text)
        if not first:
            return f'no title of {self.name}: the output is empty'
        return f'no title of {self.name} in {counted(lines, "line")}; begins with {first[0].strip()[:_QUOTED]!r}'


def _without_repeats(text: str, titles: list[Title]) -> list[Title]:
    """Leave out a title that stands right below the same one: it belongs to one run."""
    kept: list[Title] = []
    for title in titles:
        between = text[kept[-1].match.end():title.begin] if kept else 'a line'
        if between.strip() or kept[-1].match[0] != title.match[0]:
            kept.append(title)
    return kept


def _several_runs(titles: list[Title]) -> str:
    """Return the sentence on a file with several runs."""
    many = len(titles)
    count = _COUNTS.get(many, many)
    lines = [str(title.line) for title in titles[:_SHOWN]]
    last = '...' if many > _SHOWN else lines.pop()
    before = ', '.join(lines)
    return f'{count} runs in one file, lines {before} and {last}'


def _own_lines(text: str, before: str) -> list[str]:
    """Return the lines of the text without what stands before each; a line without it is not the program's.

    Raise Unread where most lines are without it: it is not known then which are the program's."""
    lines = text.split('\n')
    parts = _BEFORE.fullmatch(before)
    if not parts['time'] and not parts['label']:
        return lines
    alike = _alike(parts, before)
    own = []
    others = 0
    for line in lines:
        match = alike.match(line)
        own.append(line[match.end():] if match else '')
        others += bool(line.strip()) and not match
    labelled = sum(map(bool, own))
    if others > labelled:
        raise Unread(f'the title begins with {before!r}, {others} lines below it do not')
    return own


def _alike(parts: re.Match[str], before: str) -> re.Pattern[str]:
    """Return the expression of what stands before a line as it stands ``before`` the title."""
    expression = ''
    if parts['time']:
        expression = rf'(?:{_TIME}){parts["gap"]}'
    if parts['label']:
        blank = ' ?' if before.endswith(' ') else ''
        expression += rf'(?:{_like(parts["label"])}){blank}'
    elif parts['gap']:
        expression += '?'       # of an empty line, blanks at the end may have gone
    return re.compile(expression, re.ASCII)


def _like(label: str) -> str:
    """Return the expression of the labels that have the form of this one."""
    return next(form for form in _LABELS if re.fullmatch(form, label, re.ASCII))


def _without_frames(lines: list[str]) -> list[str]:
    """Return the lines with what Open MPI warns of in frames made blank; a last frame may lack its end."""
    kept = list(lines)
    edges = [at for at, line in enumerate(lines) if line.rstrip() == _FRAME]
    for edge, close in pairwise([*edges, len(lines) - 1]):
        first = lines[edge + 1] if edge < close else ''
        length = close - edge
        if kept[edge] and first.startswith(_FRAMED) and length <= _LONGEST_FRAME:
            kept[edge:close + 1] = [''] * (length + 1)
    return kept


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: 4.0.1rc1 has 4, 0 and 1."""
    leading = re.match(r'\d{1,9}(?:\.\d{1,9})*', version, re.ASCII)
    return tuple(map(int, leading[0].split('.'))) if leading else ()
