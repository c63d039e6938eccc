"""Intel MPI Benchmarks (IMB-MPI1), 2018 and later: PingPong, Sendrecv and Exchange.

IMB says at its beginning which benchmarks and sizes will come, and at its end that it has ended. The
bandwidth is that of the longest time: bytes that a rank sends and receives over t_max, both printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from . import Incomplete, Wrong, curve
from .hpcc_text import whole
from .printed import duration, half_digit, positive

# Messages that a rank sends and receives in the time printed, as IMB counts them in its bandwidth.
MESSAGES = {'PingPong': 1, 'Sendrecv': 2, 'Exchange': 4}
_BANNER = re.compile(r'# +Intel ?\(R\) MPI Benchmarks (20\d\d(?:\.\d+)*(?: [Uu]pdate \d+)?), MPI-1 part', re.ASCII)
_CALLED = '# Calling sequence was:'
_LEAST = re.compile(r'# Minimum message length in bytes: +(\S+)')
_MOST = re.compile(r'# Maximum message length in bytes: +(\S+)')
_LIST = '# List of Benchmarks to run:'
_BEGIN = re.compile(r'# Benchmarking (.+)')
_INSIDE = re.compile(r'# #processes.*| {3,}(?:#bytes|\d).*', re.ASCII)
_PROCESSES = re.compile(r'# #processes = (\S+)')
_WAITING = re.compile(r'# \( (\S+) additional process(?:es)? waiting in MPI_Barrier\)')
_END = '# All processes entering MPI_Finalize'
_REFUSAL = re.compile(r'# !! Benchmark .+|Invalid benchmark name .+')
_FAILURE = re.compile(r' *\d+ +((?:out-of-mem|int-overflow|time-out)\.?;.*)', re.ASCII)
_USUAL_LOG = (0, 22)                                         # sizes without -msglog: 1 B to 4 MiB


@dataclass(frozen=True)
class _Table:
    """One benchmark with so many processes: longest time (us) and MB/s by message size (bytes)."""

    benchmark: str
    processes: int
    total: int
    rows: dict[int, tuple[Decimal, Decimal]]


def parse(text: str, max_size: int | None = None) -> dict[str, float]:
    """<benchmark>_time_<size> in us and <benchmark>_bandwidth_<size> in MB/s (10^6 bytes), sizes in bytes.

    Of Sendrecv and Exchange, the group of all processes and t_max, of which IMB makes the bandwidth.
    ``max_size``: the last size that was asked for. Raises Incomplete with the line where something is
    missing, Wrong when IMB refused to run or figures contradict each other.
    """
    return {name: value for table in _read(text, max_size)[1] if table.processes in (table.total, _most(table))
            for name, value in _values(table).items()}


def facts(text: str, max_size: int | None = None) -> dict[str, float | str]:
    """version, benchmarks, processes (all), first_size, last_size (bytes), <benchmark>_processes.

    The smaller groups have <benchmark>_np<processes>_time_<size> and _bandwidth_<size>, as in ``parse``.
    Raises as ``parse`` does.
    """
    version, tables = _read(text, max_size)
    told: dict[str, float | str] = {
        'version': version, 'benchmarks': ' '.join(dict.fromkeys(table.benchmark for table in tables)),
        'processes': float(tables[0].total),
        'first_size': float(min(tables[0].rows)), 'last_size': float(max(tables[0].rows))}
    for table in tables:
        name = table.benchmark.lower()
        if table.processes in (table.total, _most(table)):
            told[f'{name}_processes'] = float(table.processes)
        else:
            told |= _values(table, f'{name}_np{table.processes}')
    return told


def _most(table: _Table) -> int | None:
    """As many processes as the benchmark can have."""
    return 2 if table.benchmark == 'PingPong' else None


def _values(table: _Table, name: str = '') -> dict[str, float]:
    name = name or table.benchmark.lower()
    return {**{f'{name}_time_{size}': float(time) for size, (time, _) in table.rows.items()},
            **{f'{name}_bandwidth_{size}': float(rate) for size, (_, rate) in table.rows.items()}}


def _read(text: str, max_size: int | None) -> tuple[str, list[_Table]]:
    """The version and all tables, once the whole output can be believed."""
    lines = curve.split(text)
    end = _only(lines, re.compile(f'({re.escape(_END)})'), _END)[0]
    version = _only(lines, _BANNER, 'Intel(R) MPI Benchmarks ..., MPI-1 part')[1]
    for line in lines:
        if _REFUSAL.fullmatch(line):
            raise Wrong(f'IMB: {line.strip("# !")[:120]}')
    sizes = _sizes(lines)
    begins = [at for at, line in enumerate(lines) if _BEGIN.fullmatch(line)]
    if not begins or begins[-1] > end:
        raise Incomplete(f'line {end + 1}: the output ends without "# Benchmarking"')
    for at in range(begins[0]):
        if _INSIDE.fullmatch(lines[at]):
            raise Incomplete(f'line {at + 1}: {lines[at][:40]!r} stands before "# Benchmarking"')
    tables = [_table(lines, at, stop, sizes) for at, stop in pairwise([*begins, end])]
    fewest = whole(_option(lines, '-npmin') or '2', '-npmin')
    _complete(_listed(lines, begins[0]), tables, fewest, end)
    curve.ended(lines, sizes[-1], sizes[-1] if max_size is None else max_size)
    return version, tables


def _only(lines: list[str], pattern: re.Pattern, what: str,
          start: int = 0, stop: int | None = None) -> tuple[int, str]:
    """Index of the one line in ``lines[start:stop]`` that is ``pattern``, and the word in it."""
    found = [(at, match[1]) for at, match in enumerate(map(pattern.fullmatch, lines[start:stop]), start) if match]
    if not found:
        raise Incomplete(f'line {len(lines) if stop is None else stop}: "{what}" is absent')
    if len(found) > 1:
        raise Wrong(f'{len(found)} lines "{what}", in lines {found[0][0] + 1} and {found[1][0] + 1}')
    return found[0]


def _sizes(lines: list[str]) -> list[int]:
    """The message sizes (bytes) that every table must have: from the command, and as IMB announces them."""
    if '# Message lengths were user defined' in lines:
        raise Wrong('IMB with -msglen is not read: it does not say which sizes come; valid is -msglog')
    least, most = (whole(_only(lines, pattern, what)[1], what) for pattern, what in (
        (_LEAST, '# Minimum message length'), (_MOST, '# Maximum message length')))
    first, last = _asked(lines)
    if most != 1 << last or least not in (0, 1 << first):
        raise Wrong(f'IMB announces {least} to {most} B and was asked for 2^{first} to 2^{last} B')
    return [*([0] if not least else []), *(1 << log for log in range(first, last + 1))]


def _asked(lines: list[str]) -> tuple[int, int]:
    """Logarithms of the first size but zero and of the last one."""
    asked = _option(lines, '-msglog')
    if not asked:
        return _USUAL_LOG
    first, _, last = asked.rpartition(':')
    logs = whole(first or '0', '-msglog'), whole(last, '-msglog')
    if not logs[0] <= logs[1] < 32:
        raise Wrong(f'-msglog {asked[:20]}: not MIN:MAX with MIN <= MAX < 32')
    return logs


def _option(lines: list[str], name: str) -> str:
    """The value of an option in the command as IMB repeats it, perhaps in several lines; '' without it."""
    if _CALLED not in lines:
        raise Incomplete(f'line {len(lines)}: the output ends without "{_CALLED}"')
    called = lines[lines.index(_CALLED) + 1:]
    command = ' '.join(line.strip('# ') for line in called[:called.index(_LIST) if _LIST in called else None])
    found = re.findall(rf' {name} +(\S+)', command)
    return found[-1] if found else ''


def _listed(lines: list[str], stop: int) -> list[str]:
    """The benchmarks that IMB announces."""
    if _LIST not in lines[:stop]:
        raise Incomplete(f'line {stop}: "{_LIST}" is absent before the tables')
    names = [line[2:] for line in lines[lines.index(_LIST) + 1:stop] if re.fullmatch(r'# \w+', line)]
    if len(set(names)) < len(names):
        raise Wrong(f'IMB announces a benchmark twice: {" ".join(names)[:120]}')
    return names


def _table(lines: list[str], start: int, stop: int, sizes: list[int]) -> _Table:
    name = _BEGIN.fullmatch(lines[start])[1]
    if name not in MESSAGES:
        raise Wrong(f'line {start + 1}: {name[:40]!r} is not read; valid are {", ".join(MESSAGES)}')
    processes = whole(_only(lines, _PROCESSES, f'# #processes of {name}', start, stop)[1], 'processes')
    idle = _idle(lines[start:stop], f'line {start + 1}: {name}')
    times = 't[usec]' if name == 'PingPong' else 't_min[usec] t_max[usec] t_avg[usec]'
    columns = ['#bytes', '#repetitions', *times.split(), 'Mbytes/sec']
    pattern = re.compile(' *(' + ' +'.join(map(re.escape, columns)) + ')')
    at = _only(lines, pattern, ' '.join(columns), start, stop)[0]
    return _Table(name, processes, processes + idle, _rows(lines, (at + 1, stop), name, sizes))


def _idle(lines: list[str], what: str) -> int:
    """How many processes wait while this table's run."""
    waiting = [line for line in lines if line.startswith('# (')]
    if not waiting:
        return 0
    match = _WAITING.fullmatch(waiting[0])
    if len(waiting) > 1 or not match:
        raise Wrong(f'{what}: {waiting[-1][:80]!r} is not read; valid is one line "additional processes waiting"')
    return whole(match[1], f'{what}: processes waiting')


def _rows(lines: list[str], span: tuple[int, int], name: str,
          sizes: list[int]) -> dict[int, tuple[Decimal, Decimal]]:
    """The longest time and the bandwidth of every size that was announced."""
    for at in range(*span):
        if failure := _FAILURE.fullmatch(lines[at]):
            raise Incomplete(f'line {at + 1}: {name}: {failure[1][:120]}')
    found: dict[int, tuple[Decimal, Decimal]] = {}
    for line, words in curve.rows(lines, *span, (13,) * (4 if name == 'PingPong' else 6)):
        size = whole(words[0], f'line {line}: the message size')
        if len(found) == len(sizes) or size != sizes[len(found)]:
            raise Wrong(f'line {line}: {name}: {size} B is not the size that follows')
        if not whole(words[1], f'line {line}: repetitions'):
            raise Wrong(f'line {line}: {name}: 0 repetitions')
        found[size] = _figures(words[2:], size, f'line {line}: {name}: {size} B', MESSAGES[name])
    if len(found) < len(sizes):
        raise Incomplete(f'line {span[1]}: {name} ends without {sizes[len(found)]} B')
    return found


def _figures(words: list[str], size: int, what: str, messages: int) -> tuple[Decimal, Decimal]:
    """The longest time and the bandwidth, which IMB makes of it."""
    times, rate = [positive(word, what, 2) for word in words[:-1]], duration(words[-1], what, 2)
    least, most, average = times if len(times) == 3 else times * 3
    if not least <= average <= most:
        raise Wrong(f'{what}: minimum {least}, average {average}, maximum {most}')
    if not _agree(rate, most, messages * size):
        raise Wrong(f'{what}: {rate} MB/s in {most} us are not {messages} x {size} B')
    return most, rate


def _agree(rate: Decimal, time: Decimal, work: int) -> bool:
    """Whether MB/s and us can be those of ``work`` bytes: IMB divides in double precision, then rounds."""
    least, most = (work / (float(time) + sign * half_digit(time)) for sign in (1, -1))
    near = half_digit(rate) + 1e-9 * most
    return least - near <= float(rate) <= most + near


def _complete(listed: list[str], tables: list[_Table], fewest: int, end: int) -> None:
    """Whether all that was announced ran, with every number of processes up to all of them."""
    ran = list(dict.fromkeys(table.benchmark for table in tables))
    if missing := [name for name in listed if name not in ran]:
        raise Incomplete(f'line {end + 1}: the output ends without {missing[0]}, which was announced')
    if sorted(listed) != sorted(ran):
        raise Wrong(f'ran {" ".join(ran)}, announced {" ".join(listed)[:120]}')
    if len({table.total for table in tables}) > 1:
        raise Wrong(f'different numbers of processes in all: {sorted({table.total for table in tables})}')
    for name in ran:
        groups = [table.processes for table in tables if table.benchmark == name]
        _groups(name, groups, (fewest, tables[0].total), end)


def _groups(name: str, groups: list[int], span: tuple[int, int], end: int) -> None:
    """From -npmin (2) on, IMB doubles the processes of a group until it has all; PingPong has two."""
    fewest, total = span
    if name == 'PingPong' and groups != [2]:
        raise Wrong(f'PingPong of {groups} processes: it must have one group of 2')
    if name != 'PingPong' and groups[0] > min(fewest, total):
        raise Incomplete(f'line {end + 1}: {name} begins with {groups[0]} processes, not {min(fewest, total)}')
    if groups[0] < 2:
        raise Wrong(f'{name} of {groups[0]} processes: it needs 2')
    for group, following in pairwise(groups):
        if following != min(2 * group, total):
            raise Wrong(f'{name}: {following} processes after {group} of {total}')
    if name != 'PingPong' and groups[-1] != total:
        raise Incomplete(f'line {end + 1}: {name} ends with {groups[-1]} of {total} processes')
