"""The shape of IOR's output (4.0): options, a table with one row a phase and repetition, a summary.

Printed for people or as JSON, both become one Output whose figures are still words, so that their digits
count. With -v other lines stand between; the JSON of -v is none (4.0.0 closes an array twice).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from . import Incomplete, Wrong

ROW = ('bw', 'iops', 'latency', 'block', 'xfer', 'open', 'wrrd', 'close', 'total')
SUMMARY = ('bw_max', 'bw_min', 'bw_mean', 'bw_sd', 'ops_max', 'ops_min', 'ops_mean', 'ops_sd', 'seconds',
           'stonewall_seconds', 'stonewall_mib', 'test', 'tasks', 'tpn', 'reps', 'fpp', 'reorder', 'offset',
           'random', 'seed', 'segments', 'block', 'xfer', 'aggregate', 'api', 'reference')
_LABELS = ('api', 'test filename', 'access', 'type', 'segments', 'ordering in a file', 'ordering inter file',
           'nodes', 'tasks', 'clients per node', 'repetitions', 'xfersize', 'blocksize', 'aggregate filesize')
_EXTRA = ('apiVersion', 'task offset', 'reorder random seed', 'memoryPerTask', 'memoryPerNode', 'dryRun',
          'verbose', 'stonewallingTime', 'stoneWallingWearOut')
_TABLE = ('access bw(MiB/s) IOPS Latency(s) block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter')
_COLUMNS = ('Operation Max(MiB) Min(MiB) Mean(MiB) StdDev Max(OPs) Min(OPs) Mean(OPs) StdDev Mean(s) Stonewall(s) '
            'Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt blksiz xsize aggs(MiB) '
            'API RefNum')
_BANNER = re.compile(r'IOR-(\S+): MPI Coordinated Test of Parallel I/O')
_LINE = re.compile(r'([A-Za-z][A-Za-z ]*?) *:(?: (.*))?')
_SIZE = re.compile(r'(\d+\.\d [GT]iB) Used FS: (-?\d+\.\d)% Inodes: \d+\.\d Mi Used Inodes: -?(?:\d+\.\d|nan)%',
                   re.ASCII)
_DATE = r'\w{3} \w{3} \d\d? \d\d:\d\d:\d\d \d{4}'
_FINISHED = re.compile(rf'Finished : {_DATE}', re.ASCII)
_CLOSED = re.compile(rf'"Finished": "{_DATE}" }}', re.ASCII)
_PIECE = re.compile(r'\[?[{}\]"]')       # how a line of JSON begins; Open MPI's begin with [host:pid]
_MAXIMUM = re.compile(r'Max (Write|Read): (\S+) MiB/sec \((\S+) MB/sec\)')

# Every warning of IOR means that something else ran than was asked for, or that it went wrong; but this one.
_OVERWRITES = re.compile(r'WARNING: The file ".*" exists already and will be overwritten')
_SAID = re.compile(r'.*(?:(?:WARNING|ERROR): |: Process \d+: FAILED in |mca_\w+: error in ).*')
_REFUSED = re.compile(r'Error invalid argument: .*|Invalid options|Unrecognized parameter .*'
                      r'|Syntax error in configuration options: .*|Could not load backend API .*')

_JSON_ROW = dict(zip(ROW, ('bwMiB', 'iops', 'latency', 'blockKiB', 'xferKiB', 'openTime', 'wrRdTime', 'closeTime',
                           'totalTime'), strict=True))
_JSON_SUMMARY = {
    'bw_max': 'bwMaxMIB', 'bw_min': 'bwMinMIB', 'bw_mean': 'bwMeanMIB', 'bw_sd': 'bwStdMIB', 'ops_max': 'OPsMax',
    'ops_min': 'OPsMin', 'ops_mean': 'OPsMean', 'ops_sd': 'OPsSD', 'seconds': 'MeanTime', 'tasks': 'numTasks',
    'tpn': 'tasksPerNode', 'reps': 'repetitions', 'fpp': 'filePerProc', 'reorder': 'reorderTasks',
    'offset': 'taskPerNodeOffset', 'random': 'reorderTasksRandom', 'segments': 'segmentCount',
    'block': 'blockSize', 'xfer': 'transferSize', 'aggregate': 'xsizeMiB', 'api': 'API'}


@dataclass(frozen=True)
class Output:
    """One complete run; ``parameters`` only in JSON, ``maxima`` (access -> MiB/s) only with -v."""

    version: str
    command: str
    path: str
    filesystem: str
    used_percent: str
    options: dict[str, str]
    rows: tuple[tuple[str, dict[str, str]], ...]
    summary: dict[str, dict[str, str]]
    parameters: dict[str, str]
    maxima: dict[str, str]
    overwritten: bool
    is_json: bool
    lines: int


def read(text: str) -> Output:
    """Raise Incomplete or Wrong unless the text is one complete run that does not say it went wrong."""
    lines = [' '.join(line.split()) for line in text.split('\n')]
    _own_words(lines[:-1])
    overwritten = any(map(_OVERWRITES.fullmatch, lines))
    if '{' in lines and not any(map(_BANNER.fullmatch, lines)):
        output = _from_json(lines, overwritten)
    else:
        output = _from_table(text.split('\n'), lines, overwritten)
    _own_words(lines[-1:])                # without a line end: where the output is cut, a harmless warning may be
    return output


def _own_words(lines: list[str]) -> None:
    """What IOR itself says went wrong, wherever it stands: its exit code is no proof, it wraps at 256."""
    for line in lines:
        if _REFUSED.fullmatch(line):
            raise Wrong(f'IOR refused to run: {line[:160]}')
        if _SAID.fullmatch(line) and not _OVERWRITES.fullmatch(line):
            raise Wrong(f'IOR says: {line[:160]}')


def _only(found: list[int], lines: list[str], what: str) -> int:
    """The index of the one line that was found."""
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without "{what}"')
    if len(found) > 1:
        raise Wrong(f'"{what}" in lines {found[0] + 1} and {found[1] + 1}: one run an output')
    return found[0]


def _from_table(raw: list[str], lines: list[str], overwritten: bool) -> Output:
    at = {what: _only([i for i, line in enumerate(lines) if is_it(line)], lines, what) for what, is_it in (
        ('Finished', _FINISHED.fullmatch), ('IOR-', _BANNER.fullmatch), ('Options:', 'Options:'.__eq__),
        ('Results:', 'Results:'.__eq__), ('access bw(MiB/s)', _TABLE.__eq__),
        ('Summary of all tests:', 'Summary of all tests:'.__eq__), ('Operation', _COLUMNS.__eq__))}
    _no_json(lines)
    order = [at[what] for what in ('IOR-', 'Options:', 'Results:', 'access bw(MiB/s)', 'Summary of all tests:',
                                   'Operation', 'Finished')]
    if order != sorted(order):
        raise Wrong('the parts of the output are out of order')
    head = _labelled(raw, order[0], order[1], ('Command line', 'Path', 'FS'))
    filesystem = _SIZE.fullmatch(' '.join(head['FS'].split()))
    if not filesystem:
        raise Wrong(f'line {order[1]}: FS is {head["FS"][:60]!r}, not a size')
    table = lines[order[3] + 1:order[4]]
    return Output(_BANNER.fullmatch(lines[order[0]])[1], head['Command line'], head['Path'], *filesystem.groups(),
                  _labelled(raw, order[1], order[2], _LABELS, _EXTRA), tuple(_rows(table)),
                  _summary(lines[order[5] + 1:order[6]], order[6]), {}, _maxima(table), overwritten,
                  is_json=False, lines=len(lines))


def _labelled(raw: list[str], first: int, end: int, labels: tuple, extra: tuple = ()) -> dict[str, str]:
    values: dict[str, str] = {}
    for match in filter(None, (_LINE.fullmatch(line.strip(' \t\r')) for line in raw[first + 1:end])):
        if match[1] in labels or match[1] in extra:
            if match[1] in values:
                raise Wrong(f'"{match[1]}" a second time before line {end + 1}')
            values[match[1]] = match[2] or ''
    for label in labels:
        if label not in values:
            raise Incomplete(f'line {end + 1}: "{label}" is absent above')
    return values


def _rows(table: list[str]):
    """(access, figures) of each row; the repetition counts from 0 in its last column."""
    for line in table:
        access, *words = line.split(' ')
        if access in ('write', 'read'):
            if len(words) != len(ROW) + 1:
                raise Wrong(f'not a row of the results: {line[:120]!r}')
            yield access, dict(zip((*ROW, 'iter'), words, strict=True))


def _maxima(table: list[str]) -> dict[str, str]:
    return {match[1].lower(): match[2] for match in filter(None, map(_MAXIMUM.fullmatch, table))}


def _summary(lines: list[str], end: int) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        access, *words = line.split(' ')
        if access not in ('write', 'read'):
            continue
        if access in found:
            raise Wrong(f'line {end}: {access} a second time in the summary: one test a run')
        if len(words) != len(SUMMARY):
            raise Wrong(f'not a row of the summary: {line[:120]!r}')
        found[access] = dict(zip(SUMMARY, words, strict=True))
    return found


def _from_json(lines: list[str], overwritten: bool) -> Output:
    start = lines.index('{')
    body = [line for line in lines[start:] if not _OVERWRITES.fullmatch(line)]
    if not _CLOSED.search(' '.join(filter(None, body))):
        raise Incomplete(f'line {len(lines)}: the output ends without "Finished" and the closing brace')
    text = '\n'.join(body)
    try:
        found, end = _DECODER.raw_decode(text)
        _no_json(lines[:start] + text[end:].split('\n'))
        return _output(found, overwritten, len(lines))
    except (json.JSONDecodeError, RecursionError) as error:
        raise Wrong(f'the JSON cannot be read ({error}); IOR prints it broken with -v: run without') from None
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise Incomplete(f'line {len(lines)}: the JSON lacks {error}') from None


def _no_json(lines: list[str]) -> None:
    """Outside of the one document no line may be a piece of another."""
    if more := next(filter(_PIECE.match, lines), ''):
        raise Wrong(f'{more[:60]!r} is JSON of another run: one run an output')


def _output(found: dict, overwritten: bool, lines: int) -> Output:
    if len(found['tests']) != 1:
        raise Wrong(f'{len(found["tests"])} tests in one output: one test a run')
    test = found['tests'][0]
    rows = tuple((row['access'], {name: row[key] for name, key in _JSON_ROW.items()}) for row in test['Results'])
    summary: dict[str, dict[str, str]] = {}
    for each in found['summary']:
        if each['operation'] in summary:
            raise Wrong(f'{each["operation"]} a second time in the summary: one test a run')
        summary[each['operation']] = {name: each[key] for name, key in _JSON_SUMMARY.items()}
    options = {label: test['Options'][label] for label in _LABELS}
    options |= {label: test['Options'][label] for label in _EXTRA if label in test['Options']}
    filesystem = _SIZE.fullmatch(f'{test["Capacity"]} Used FS: {test["Used Capacity"]} Inodes: {test["Inodes"]} '
                                 f'Used Inodes: {test["Used Inodes"]}')
    if not filesystem:
        raise Wrong(f'Capacity {str(test["Capacity"])[:30]!r}, Used Capacity {str(test["Used Capacity"])[:40]!r}')
    output = Output(found['Version'], found['Command line'], test['Path'], *filesystem.groups(), options, rows,
                    summary, dict(test['Parameters']), {}, overwritten, is_json=True, lines=lines)
    _words_only(output)
    return output


def _words_only(output: Output) -> None:
    """Nothing nested or empty where a word should be."""
    words = [output.version, output.command, output.path, output.filesystem, *output.options.values(),
             *output.parameters.values()]
    for figures in (*(row for _, row in output.rows), *output.summary.values()):
        words += figures.values()
    if not all(isinstance(word, str) for word in words):
        raise Wrong('the JSON has a list, an object or nothing where a figure should be')


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Wrong('the JSON has a key twice in one object')
    return found


def _no_number(word: str):
    raise Wrong(f'the JSON has {word}, not a finite number')


# Figures stay words: how many digits they have tells how far they can be trusted.
_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=str, parse_int=str, parse_constant=_no_number)
