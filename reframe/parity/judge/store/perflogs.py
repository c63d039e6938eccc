"""Perflogs of ReFrame, as sites write them: each line becomes a case of ReFrame's report, or a reason to leave it.

ReFrame writes a header from the logging format of the site, with whatever delimiter that has. A cell of the header
is the text of the format around the names of attributes: ``jobid=jobid``, ``ref=perf_ref (l=perf_lower_thres)``.
Figures stand in columns (``copy_value``, ``copy_unit``), or one a line (``perf_var``, ``perf_value``)."""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from parity.base import codes, csvfile
from parity.base.errors import UsageError
from parity.judge.store.same_run import PRINTED

Case = dict[str, Any]
DELIMITERS = '|,;\t'
#: Characters of a perflog's line.
_LONGEST = 1 << 20
#: Columns that ReFrame writes for each performance variable, behind its name.
_OF_FIGURE = ('value', 'ref', 'lower_thres', 'upper_thres', 'unit')
_ABSENT = ('', 'None', 'null')
_NO_HEADER = ('line without a header (job_completion_time, system, ...); for a file that has none, --format gives '
              'the `format` of your logging configuration')
_CUT = 'line without an end: it is cut, or still being written'
#: Columns whose values are lists: ReFrame joins them with commas, whatever the delimiter is.
_LISTS = ('tags', 'modules', 'job_nodelist', 'nodelist')
_TIMES = ('job_completion_time_unix', 'job_completion_time')
#: A test as ReFrame announces it (RegressionTest.info): name, hash, @system:partition+environment.
_INFO = re.compile(r'(?P<name>.+?)(?: /[0-9a-f]{8})?'
                   r'(?: @(?P<system>[\w-]+):(?P<partition>[\w-]+)\+(?P<environ>[\w-]+))?')
_ATTRIBUTES_OF_FIGURE = re.compile(r'\bperf_(?:var|value|ref|lower_thres|upper_thres|unit|result)\b')
#: A cell such as `system:partition`, of ReFrame's tutorial.
_PLACE = re.compile(r'(?:system|partition|environ)(?:[:+@](?:system|partition|environ))+')
_NAMES = ('name', 'display_name', 'info')
_ATTRIBUTE = re.compile(r'%\((.*?)\)s(.*?(?=%|$))')


@dataclass(frozen=True)
class Line:
    """A line of a perflog: its case, or why it is left."""

    where: str
    case: Case | None = None
    left: str = ''
    #: It has one figure of its run: other lines have the others.
    is_part: bool = False
    #: No column names the test: the file does.
    is_named_by_file: bool = False


class NotRead(ValueError):
    """A line that is left, and why."""


def lines(log: Path, header: Header | None = None) -> Iterator[Line]:
    """Yield every line below a header; a file may have several. ``header``: of a file that has none."""
    if not _is_text(log):
        yield Line(f'{log}:1', left='file that is no text: one that is packed must be unpacked first')
        return
    with log.open(encoding='utf-8-sig', errors='replace') as opened:
        for number, text in enumerate(iter(lambda: opened.readline(_LONGEST), ''), 1):
            where = f'{log}:{number}'
            if not text.endswith('\n'):
                yield Line(where, left=_CUT)
                continue
            text = text.rstrip('\r\n')
            stated = Header.read(text)
            if stated:
                header = stated
            elif not header:
                yield Line(where, left=_NO_HEADER)
            else:
                try:
                    values = header.values(text)
                    ended = _time(values)
                    nameless = not set(_NAMES) & set(header.names)
                    if nameless:
                        values['name'] = log.name.partition('.log')[0]
                    case = _case(values, ended)
                    yield Line(where, case, is_part='perf_var' in values, is_named_by_file=nameless)
                except NotRead as err:
                    yield Line(where, left=str(err))


def _is_text(log: Path) -> bool:
    with log.open('rb') as opened:
        begin = opened.read(1 << 12)
    is_packed = begin.startswith(b'\x1f\x8b')       # of gzip
    return not is_packed and b'\0' not in begin


def of_format(text: str) -> Header:
    """Return the header that ReFrame writes for a logging `format`. UsageError for one that names no time."""
    cells = ''
    for name, literal in _ATTRIBUTE.findall(text):
        if name == 'check_perfvalues':
            raise UsageError('--format: %(check_perfvalues)s does not tell the performance variables of a line: '
                             'only a header does')
        cells += name.removeprefix('check_') + literal
    if 'check_perf_value' in text and 'check_perf_var' not in text:
        raise UsageError('--format: %(check_perf_value)s needs %(check_perf_var)s, the name of the figure')
    header = Header.read(cells)
    if not header:
        raise UsageError(f'--format {text!r}: names no time; must have %(check_job_completion_time)s')
    return header


@dataclass(frozen=True)
class Column:
    """A column: the attributes that its text has, and the pattern that finds them."""

    names: tuple[str, ...]
    pattern: re.Pattern[str]

    @property
    def is_list(self) -> bool:
        """Return whether its values are lists."""
        return bool(self.names) and self.names[0] in _LISTS

    @classmethod
    def of_cell(cls, cell: str) -> Column:
        """Read a cell of a header: texts around the attributes of a figure, or before one other attribute."""
        names = tuple(_ATTRIBUTES_OF_FIGURE.findall(cell))
        if _PLACE.fullmatch(cell):
            names = tuple(re.split('[:+@]', cell))
        if not names:
            names = (_behind_a_text(cell),)
        pattern = ''
        rest = cell
        for name in names:
            begin = rest.rindex(name) if len(names) == 1 else rest.index(name)
            literal = re.escape(rest[:begin])
            pattern += f'{literal}(.*?)'
            rest = rest[begin + len(name):]
        return cls(names, re.compile(pattern + re.escape(rest)))

    def values(self, text: str) -> Iterator[tuple[str, str]]:
        match = self.pattern.fullmatch(text)
        if not match:
            names = ' '.join(self.names)
            raise NotRead(f'line whose column {names} is of another format')
        return zip(self.names, match.groups(), strict=True)


def _behind_a_text(cell: str) -> str:
    """Return the attribute of a cell such as ``jobid=jobid`` or ``reframe version``."""
    of_figure = tuple(f'_{column}' for column in _OF_FIGURE)
    if cell.endswith(of_figure):
        return cell         # of a performance variable, whatever its name has
    return re.split('=|^reframe ', cell)[-1]


@dataclass(frozen=True)
class Header:
    """The columns of a perflog, and what parts them."""

    delimiter: str
    columns: tuple[Column, ...]

    @classmethod
    def read(cls, text: str) -> Header | None:
        """Return the header that a line is; None where it is none."""
        for delimiter in DELIMITERS:
            cells = [cell.strip() for cell in text.split(delimiter)]
            if len(cells) > 1 and set(_TIMES) & set(cells):
                return cls(delimiter, tuple(map(Column.of_cell, cells)))
        return None

    @property
    def names(self) -> list[str]:
        return [name for column in self.columns for name in column.names]

    def values(self, text: str) -> dict[str, str]:
        """Return the attributes of a line by name. Raises NotRead with the reason to leave it."""
        if 'parity' in self.names:
            raise NotRead("line of parity's own: parity merge takes its results.db")
        values: dict[str, str] = {}
        for column, field in zip(self.columns, self._fields(text), strict=True):
            values.update(column.values(field))
        return values

    def _fields(self, text: str) -> list[str]:
        """Split a line. What is too much belongs to the one list among the columns, if its commas part columns."""
        fields = text.split(self.delimiter)
        surplus = len(fields) - len(self.columns)
        if surplus > 0 and self.delimiter == ',':
            lists = [place for place, column in enumerate(self.columns) if column.is_list]
            if len(lists) == 1:
                begin = lists[0]
                end = begin + surplus + 1
                fields[begin:end] = [','.join(fields[begin:end])]
        if len(fields) != len(self.columns):
            raise NotRead('line whose number of fields is not that of its header')
        return fields


#: ReFrame's mark in the name of a fixture: `build_stream ~daint:gpu+gnu`.
_FIXTURE = ' ~'


def _case(values: dict[str, str], ended: EndTime) -> Case:
    """Return a case of ReFrame's report. Raises NotRead for a line that does not say which."""
    info = _INFO.fullmatch(values.get('info', ''))
    facts = info.groupdict() if info else {}
    facts.update((key, value) for key, value in values.items() if value)
    name = facts.get('display_name') or facts.get('name')
    has_place = all(facts.get(key) for key in ('system', 'partition', 'environ'))
    if not name or ended.unix is None or not has_place:
        raise NotRead('line without time, name, system, partition or environ')
    place = f'{facts["system"]}:{facts["partition"]}'
    figures = dict(_figures(values, place))
    result = values.get('result')
    has_failed_later = figures and result not in (None, 'pass')
    nodes = values.get('job_nodelist', '')
    tags = values.get('tags', '').strip('[]{}"')
    case = {
        'name': name,
        'display_name': name,
        'unique_name': values.get('unique_name') or name,
        'system': facts['system'],
        'partition': facts['partition'],
        'environ': facts['environ'],
        'result': result or '',
        'fail_phase': 'performance' if has_failed_later else None,
        'fail_reason': None,
        'fixture': _FIXTURE in name,
        'perfvalues': figures,
        'job_nodelist': [] if nodes in _ABSENT else nodes.split(','),
        'jobid': values.get('jobid', ''),
        'job_completion_time_unix': ended.unix,
        'filename': '',
        'tags': re.findall(r'[^,\s]+', tags)}
    if ended.printed:
        case[PRINTED] = ended.printed
    return case


def _figures(values: dict[str, str], place: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield each figure as ReFrame has it: value, reference, both thresholds, unit, result."""
    name = values.get('perf_var')
    if name and values.get('perf_value', '') not in _ABSENT:
        yield f'{place}:{name}', _figure(values, 'perf')
    for key, value in values.items():
        name = key.removesuffix('_value')
        is_column_of_figure = name not in (key, 'perf')
        if is_column_of_figure and value not in _ABSENT:
            yield f'{place}:{name}', _figure(values, name)


def _figure(values: dict[str, str], name: str) -> list[Any]:
    *numbers, unit = [values.get(f'{name}_{column}', '') for column in _OF_FIGURE]
    return [*map(number, numbers), unit, None]


def number(text: str) -> float | None:
    """Return a number of a perflog; None where it has none, NaN for what is no number."""
    try:
        return None if text in _ABSENT else csvfile.number(text, '')
    except UsageError:
        return math.nan


class EndTime(NamedTuple):
    """The end of a case (Unix time). ``printed``: it had no zone, and is taken as this machine's."""

    unix: float | None
    printed: str = ''


def _time(values: dict[str, str]) -> EndTime:
    unix = values.get('job_completion_time_unix', '')
    if unix not in _ABSENT:
        return EndTime(number(unix))
    printed = values.get('job_completion_time', '').strip()
    text = re.sub(r'Z$', '+00:00', printed)
    try:
        ended = datetime.datetime.fromisoformat(text)
        without_zone = '' if ended.tzinfo else ended.isoformat()
        return EndTime(ended.timestamp(), without_zone)
    except (ValueError, OverflowError):
        return EndTime(None)


def joined(read: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines, one for all in a row that tell of one run: each may have one of its figures.

    The run that stands before a line without an end is left: that line may be one more of its figures."""
    before: Line | None = None
    for line in read:
        if _is_of_run(line, before):
            before.case['perfvalues'].update(line.case['perfvalues'])
            continue
        if before and before.is_part and line.left == _CUT:
            before = Line(before.where, left='run before a line without an end: it may have more figures')
        if before:
            yield before
        before = line
    if before:
        yield before


def _is_of_run(line: Line, before: Line | None) -> bool:
    """Return whether a line has other figures of the run of the line before."""
    if line.case is None or before is None or before.case is None:
        return False
    if _run(line.case) != _run(before.case):
        return False
    metrics = line.case['perfvalues'].keys()
    return metrics.isdisjoint(before.case['perfvalues'])


def _run(case: Case) -> Sequence[Any]:
    keys = ('name', 'system', 'partition', 'environ', 'jobid', 'job_completion_time_unix', 'result')
    return [case[key] for key in keys]


def files(place: Path, leave: Callable[[str, str], None] = lambda why, where: None) -> list[Path]:
    """Return the perflogs of a folder; of a header that changed, ReFrame keeps the older file as NAME.log.h0.

    ``leave`` gets a reason and the place of each folder and file that cannot be read."""
    if not place.is_dir():
        return [place]
    if not os.access(place, os.R_OK | os.X_OK):
        raise UsageError(f'{place}: Permission denied; name a folder that you may read')
    logs = []
    for folder, _, names in os.walk(place, onerror=lambda err: leave(f'folder: {err.strerror}', err.filename)):
        for name in names:
            if re.search(r'\.log(\.h\d+)?$', name):
                logs.append(Path(folder, name))
    readable = []
    for log in sorted(logs):
        if not log.is_file():
            leave('file that is no regular file', str(log))
        elif not os.access(log, os.R_OK):
            leave('file: Permission denied', str(log))
        else:
            readable.append(log)
    return readable


def subsystem(case: Case) -> str:
    """Return the part of the machine that a tag of the case names, else `other`."""
    tags = case.get('tags')
    if isinstance(tags, list):
        for tag in tags:
            if tag in codes.SUBSYSTEMS:
                return tag
    return 'other'
