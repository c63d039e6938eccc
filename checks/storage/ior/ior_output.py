"""IOR 3.2 to 4.1: bandwidth of writing and reading files by several tasks, from the tables that it prints.

A phase moves tasks x blocksize x segments bytes from its first open to its last close. With -e the fsync of a
write is in that time. The summary repeats the rows' bandwidth, and gives it a second time in transfers/s."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean

from parity.check import (
    Incomplete,
    Output,
    Program,
    Read,
    Unread,
    Wrong,
    agree,
    by_heading,
    half,
    near,
    number,
    options,
    same,
    size,
    whole,
)

PROGRAM = Program('IOR', title=r'IOR-(?P<version>\S+): MPI Coordinated Test of Parallel I/O',
                  tried=('3.2', '4.1'), alone='tasks : 1')

MIB = 1 << 20
#: The exit code is no proof, it wraps at 256. Only one warning is harmless; it may be cut after some words.
COMPLAINTS = (r'^(ior )?WARNING: (?!The file ").{10}|^(ior )?ERROR: |: Process \d+: FAILED in |mca_\w+: error in '
              r'|^Error invalid argument: |^Invalid options|^Unrecognized parameter |^Could not load backend API ')
#: With other options (a script, JSON) figures stand elsewhere or mean something else.
LETTERS = 'cCeFkrRvwWza:b:G:i:N:o:Q:s:t:'
REFUSED = {'D:': 'a run with a time limit', 'T:': 'a run with a time limit', 'f:': 'a run of a script',
           'O:': 'a run with options of another form'}
DEFAULTS = {'a': 'POSIX', 'b': '1m', 't': '256k', 's': '1', 'i': '1', 'Q': '1'}
#: The sizes and counts of a run: the name of its column in the summary, and its option.
SIZES = {'blksiz': 'b', 'xsize': 't', 'segcnt': 's', 'reps': 'i', 'reordoff': 'Q'}


#: The columns that are read, of the rows and of the summary. Others differ by version.
ROW = ('bw(MiB/s)', 'total(s)', 'iter')
SUMMARY = ('Max(MiB)', 'Min(MiB)', 'Mean(MiB)', 'Max(OPs)', 'Min(OPs)', 'Mean(OPs)', 'Mean(s)',
           '#Tasks', 'tPN', 'fPP', 'reord', 'API', *SIZES)


@dataclass(frozen=True)
class Flag:
    """A line under Options that follows from a flag of the command line."""

    line: str
    letter: str
    without: str
    with_flag: str


FLAGS = (Flag('access', 'F', 'single-shared-file', 'file-per-process'),
         Flag('type', 'c', 'independent', 'collective'),
         Flag('ordering in a file', 'z', 'sequential', 'random'),
         Flag('ordering inter file', 'C', 'no tasks offsets', 'constant task offset'))

Row = dict[str, str]


def read(text: str) -> Read:
    """write and read (MiB/s, mean of the repetitions), each with _max, _min, _iops (1/s) and _seconds (s).
    Facts: sizes in bytes, counts, and whether fsync and direct I/O were asked for (yes or no)."""
    out = PROGRAM.output(text)
    _refuse_time_limit(out)
    out.refuse(COMPLAINTS)
    out.ends_with(r'Finished : \w{3} \w{3} \d\d? [\d:]{8} \d{4}', 'Finished')
    asked = _asked(out)
    metrics: dict[str, float] = {}
    facts: dict[str, int | str] = {}
    for access in _accesses(out, asked):
        summary = _summary(out, access)
        counts = _counts(access, summary)
        _demand_as_asked(out, asked, summary, counts)
        rows = _rows(out, access, counts['reps'])
        metrics |= _figures(access, summary, rows, counts)
        facts |= _sizes(out, counts)
    return metrics, facts | _settings(out, asked)


def _settings(out: Output, asked: dict[str, str]) -> dict[str, str]:
    """Return what was set."""
    direct = 'posix.odirect' in asked and asked['a'] == 'POSIX'
    facts = {'api': out.value('api')}
    facts['access'] = out.value('access')
    facts['type'] = out.value('type')
    facts['ordering'] = out.value('ordering in a file')
    facts['reorder'] = out.value('ordering inter file')
    facts['fsync'] = _yes('e' in asked)
    facts['direct'] = _yes(direct)
    facts['command'] = out.value('Command line')
    facts['path'] = out.value('test filename')
    facts['version'] = out.version
    return facts | PROGRAM.untried(out.version)


def _sizes(out: Output, counts: dict[str, int]) -> dict[str, int]:
    """Return how much was moved, and by how many."""
    facts = {'task_offset': counts['reordoff']}
    facts['tasks'] = counts['#Tasks']
    facts['nodes'] = _nodes(out, counts)
    facts['clients_per_node'] = counts['tPN']
    facts['transfer_bytes'] = counts['xsize']
    facts['block_bytes'] = counts['blksiz']
    facts['segments'] = counts['segcnt']
    facts['repetitions'] = counts['reps']
    facts['aggregate_bytes'] = _moved_bytes(counts)
    return facts


def _yes(holds: bool) -> str:
    return 'yes' if holds else 'no'


def _refuse_time_limit(out: Output) -> None:
    """Raise Unread for a run with a time limit: it warns of its size, and its figures mean something else."""
    command = out.maybe('Command line : (.*)', 'Command line')
    words = command[1].split() if command else []
    for word in words:
        if re.fullmatch('-D.*', word):
            raise Unread('a run with a time limit (-D) is not read')


def _asked(out: Output) -> dict[str, str]:
    """Return the options of the command line, which quotes nothing: a path may have blanks."""
    path = out.value('test filename')
    before, found, after = out.value('Command line').partition(f' -o {path}')
    if not found:
        raise Wrong(f'test filename is {path[:60]!r}, the command line has another -o')
    words = [*re.sub('^.*?(?= -|$)', '', before).split(), *after.split()]
    asked = options(words, LETTERS, ['posix.odirect'], REFUSED)
    if 'R' in asked and 'r' not in asked:
        raise Wrong('-R without -r: IOR times the read but leaves it out of its summary; run with -r -R')
    return DEFAULTS | asked


def _accesses(out: Output, asked: dict[str, str]) -> list[str]:
    """Return the accesses that were asked for: write, read or both. Raise Wrong for rows of another."""
    accesses = [access for access in ('write', 'read') if access[0] in asked]
    if not accesses:
        return ['write', 'read']
    for access in ('write', 'read'):
        if access not in accesses and out.every(rf'{access}( \S+)+'):
            raise Wrong(f'rows of {access}, which the command line does not ask for')
    return accesses


def _summary(out: Output, access: str) -> Row:
    """Return the row of an access in the summary, by the headings of its columns."""
    heading = out.one(r'Operation Max\(MiB\)( \S+)+ RefNum', 'Operation Max(MiB) ...')[0]
    headings = heading.split()
    row = out.one(_row(access, headings), f'{access} in the summary')[0]
    return by_heading(headings, row.split(), SUMMARY)


def _row(access: str, headings: list[str]) -> str:
    """Return the expression of a row of an access below these headings."""
    figures = len(headings) - 1
    return rf'{access}( \S+){{{figures}}}'


def _rows(out: Output, access: str, repetitions: int) -> list[Row]:
    """Return the rows of an access, one of each repetition, by the headings of their columns."""
    heading = out.one(r'access bw\(MiB/s\)( \S+)+ iter', 'access bw(MiB/s) ...')[0]
    headings = heading.split()
    rows = []
    for line in out.every(_row(access, headings)):
        rows.append(by_heading(headings, line[0].split(), ROW))
    numbers = [row['iter'] for row in rows]
    if numbers != list(map(str, range(repetitions))):
        error = Incomplete if len(rows) < repetitions else Wrong
        raise error(f'line {out.end}: {len(rows)} rows of {access}, not {repetitions} repetitions in order')
    return rows


def _counts(access: str, summary: Row) -> dict[str, int]:
    """Return the sizes and counts of the summary."""
    return {name: whole(summary[name], f'{name} of {access}') for name in ('#Tasks', 'tPN', *SIZES)}


def _nodes(out: Output, counts: dict[str, int]) -> int:
    """Return the nodes of a run; IOR 3.2 tells only the tasks of a node."""
    nodes = out.maybe(r'nodes : (\S+)', 'nodes')
    if nodes:
        return whole(nodes[1], 'nodes')
    return math.ceil(counts['#Tasks'] / counts['tPN'])


def _moved_bytes(counts: dict[str, int]) -> int:
    """Return the bytes that all tasks move in a repetition."""
    return counts['#Tasks'] * counts['blksiz'] * counts['segcnt']


def _demand_as_asked(out: Output, asked: dict[str, str], summary: Row, counts: dict[str, int]) -> None:
    """Raise Wrong unless command line, options and summary tell of one run."""
    same('api and -a', out.value('api'), asked['a'])
    same('api of the summary and -a', summary['API'], asked['a'])
    tasks, on_a_node = counts['#Tasks'], counts['tPN']
    same('tasks', out.value('tasks'), str(tasks))
    if 'N' in asked:
        same('tasks and -N', tasks, size(asked['N'], 'tasks'))
    same('clients per node', out.value('clients per node'), str(on_a_node))
    nodes = _nodes(out, counts)
    same('several nodes', nodes > 1, tasks > on_a_node)
    same('nodes', min(nodes, tasks), nodes)
    for column, letter in SIZES.items():
        same(f'{column} and -{letter}', counts[column], size(asked[letter], column))
    for flag in FLAGS:
        expected = flag.with_flag if flag.letter in asked else flag.without
        same(f'{flag.line} and -{flag.letter}', out.value(flag.line), expected)
    same('fPP and -F', summary['fPP'], str(int('F' in asked)))
    same('reord and -C', summary['reord'], str(int('C' in asked)))


def _figures(access: str, summary: Row, rows: list[Row], counts: dict[str, int]) -> dict[str, float]:
    """Return the metrics of an access: its rows are the work that was asked for, its summary is of its rows."""
    mib = _moved_bytes(counts) / MIB
    rates, times = [], []
    for row in rows:
        rate = number(row['bw(MiB/s)'], f'bw of {access}')
        seconds = number(row['total(s)'], f'total of {access}', zero=True)
        agree(rate, seconds, mib, access)
        rates.append(rate)
        times.append(seconds)
    digits = max(map(half, rates))
    mean, transfers = _rates(access, summary, 'Mean', counts['xsize'])
    most, _ = _rates(access, summary, 'Max', counts['xsize'])
    least, _ = _rates(access, summary, 'Min', counts['xsize'])
    near(f'Mean(MiB) of {access}', mean, float(fmean(rates)), digits)
    near(f'Max(MiB) of {access}', most, float(max(rates)), digits)
    near(f'Min(MiB) of {access}', least, float(min(rates)), digits)
    mean_time = number(summary['Mean(s)'], f'Mean(s) of {access}', zero=True, places=5)
    near(f'Mean(s) of {access}', mean_time, float(fmean(times)), max(map(half, times)))
    seconds = float(mean_time) or fmean(mib / float(rate) for rate in rates)
    figures = {access: float(mean), f'{access}_max': float(most), f'{access}_min': float(least)}
    figures[f'{access}_iops'] = float(transfers)
    figures[f'{access}_seconds'] = seconds
    return figures


def _rates(access: str, summary: Row, name: str, transfer_bytes: int) -> tuple[Decimal, Decimal]:
    """Return a bandwidth of the summary (MiB/s) and the transfers a second, which say the same."""
    bandwidth, operations = f'{name}(MiB)', f'{name}(OPs)'
    megabytes = number(summary[bandwidth], f'{bandwidth} of {access}', places=2)
    transfers = number(summary[operations], f'{operations} of {access}', places=2)
    of_a_mib = MIB / transfer_bytes
    slack = half(megabytes) * abs(of_a_mib - 1)
    near(f'{operations} of {access}', transfers, float(megabytes) * of_a_mib, slack)
    return megabytes, transfers
