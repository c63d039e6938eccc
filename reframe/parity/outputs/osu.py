"""OSU Micro-Benchmarks (Panda et al., Ohio State): latency, bw, bibw, mbw_mr, allreduce, alltoall, bcast, barrier.

The output has no end. Without ``max_size`` nothing but a table that stops below 4 KiB tells that it was cut;
without ``min_size`` nothing tells that its first rows were lost. Latencies and bandwidths stand alone; message
rates, and the columns of -f, are checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from . import Incomplete, Wrong, curve
from .hpcc_text import whole
from .printed import duration, half_digit, positive

# Title of a benchmark -> its name, the heading of its figures.
_LATENCY, _BANDWIDTH, _RATES = 'Avg Latency(us)', 'Bandwidth (MB/s)', 'MB/s Messages/s'
_BENCHMARKS = {
    'Latency Test': ('latency', _LATENCY),
    'Bandwidth Test': ('bw', _BANDWIDTH),
    'Bi-Directional Bandwidth Test': ('bibw', _BANDWIDTH),
    'Multiple Bandwidth / Message Rate Test': ('mbw_mr', _RATES),
    'Allreduce Latency Test': ('allreduce', _LATENCY),
    'All-to-All Personalized Exchange Latency Test': ('alltoall', _LATENCY),
    'Broadcast Latency Test': ('bcast', _LATENCY),
    'Barrier Latency Test': ('barrier', _LATENCY),
}
_TITLE = re.compile(r'# OSU MPI(\S*) (.+ Test) v(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)', re.ASCII)
_PAIRS = re.compile(r'# \[ pairs: (\S+) \] \[ window size: (\S+) \]')
_DATATYPE = re.compile(r'# Datatype: (\S+)\.')
_HEADING = re.compile(r'# (?:Size )?(Avg Latency\(us\)|Bandwidth \(MB/s\)|MB/s Messages/s)'
                      r'( Min Latency\(us\) Max Latency\(us\) Iterations)?( Validation)?')
# The first is told on standard output, the others, where no title follows, on standard error.
_REFUSALS = ('DATA VALIDATION ERROR', 'This test requires', 'Invalid option')
_TYPES = {'MPI_CHAR': 1, 'MPI_INT': 4, 'MPI_FLOAT': 4}
_SMALL = 8                                                   # bytes; of fewer, 0.00 MB/s is a slow network
_LEAST = 4096                                                # a table that ends below this was cut


@dataclass(frozen=True)
class _Heading:
    """What the columns of a table are; ``line`` is the number of the line with their names."""

    line: int
    figures: int
    bandwidth: bool
    full: bool
    validated: bool


@dataclass(frozen=True)
class _Output:
    benchmark: str
    version: str
    words: dict[str, float | str]
    rows: dict[int, tuple[Decimal, ...]]
    validated: bool


def parse(text: str, max_size: int | None = None, min_size: int | None = None) -> dict[str, float]:
    """<benchmark>_<size> of every message size (bytes): mean latency in us, or MB/s (10^6 bytes).

    mbw_mr has message_rate_<size> (1/s), too; barrier has ``barrier`` (us) and no sizes. A bandwidth of messages
    below 8 B may be 0: OSU prints two decimals. ``max_size`` and ``min_size`` are the last and the first size that
    were asked for, of no meaning for barrier. Raises Incomplete with the line where something is missing, Wrong
    when the validation failed or figures contradict each other.
    """
    output = _read(text, max_size, min_size)
    if output.benchmark == 'barrier':
        return {'barrier': float(output.rows[0][0])}
    values = {f'{output.benchmark}_{size}': float(figures[0]) for size, figures in output.rows.items()}
    if output.benchmark == 'mbw_mr':
        values |= {f'message_rate_{size}': float(rate) for size, (_, rate) in output.rows.items()}
    return values


def facts(text: str, max_size: int | None = None, min_size: int | None = None) -> dict[str, float | str]:
    """benchmark, version, validated ('yes' if with -c); first_size and last_size (bytes) but for barrier.

    datatype where it is printed (by 7.4 always), pairs and window (messages) of mbw_mr. Raises as
    ``parse`` does.
    """
    output = _read(text, max_size, min_size)
    sizes = {} if output.benchmark == 'barrier' else {
        'first_size': float(min(output.rows)), 'last_size': float(max(output.rows))}
    return {'benchmark': output.benchmark, 'version': output.version, **output.words, **sizes,
            'validated': 'yes' if output.validated else 'no'}


def _read(text: str, max_size: int | None, min_size: int | None) -> _Output:
    lines = curve.split(text)
    for line in lines:
        if line.startswith(_REFUSALS):
            raise Wrong(f'OSU: {line[:160]}')
        if line.endswith('[ window size: varied ]'):
            raise Wrong('osu_mbw_mr -V, which varies the window, is not read; valid is one window size')
    start, name, version, wanted = _title(lines)
    heading = _heading(lines, start, wanted)
    sized = name != 'barrier'
    rows = _rows(lines, heading, sized)
    if name == 'mbw_mr':
        _rates_agree(rows)
    words = _words(lines, start, name, version, min(rows))
    if sized:
        _begun(heading, min(rows), max(min_size, _TYPES.get(words.get('datatype'), 1)) if min_size else None)
        _ended(lines, max(rows), max_size)
    return _Output(name, version, words, rows, heading.validated)


def _begun(heading: _Heading, first: int, least: int | None) -> None:
    if least is not None and first > least:
        raise Incomplete(f'line {heading.line + 1}: the table begins at {first} B, not at {least} B')


def _ended(lines: list[str], last: int, max_size: int | None) -> None:
    if max_size is not None:
        curve.ended(lines, last, max_size)
    elif last < _LEAST:
        raise Incomplete(f'line {len(lines)}: the table ends at {last} B already')


def _title(lines: list[str]) -> tuple[int, str, str, str]:
    """Index of the line with the title, the benchmark's name, its version, the heading of its figures."""
    found = [(at, match) for at, match in enumerate(map(_TITLE.fullmatch, lines)) if match]
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without "# OSU MPI ... Test v..."')
    (at, (accelerator, title, version)) = found[-1][0], found[-1][1].groups()
    # osu_mbw_mr of 7.0 to 7.3 prints its title twice, one below the other.
    if len(found) > 1 and not (_release(version) < (7, 4) and len(found) == 2 and lines[at - 1] == lines[at]):
        raise Wrong(f'{len(found)} runs in one output')
    if accelerator or title not in _BENCHMARKS:
        raise Wrong(f'line {at + 1}: "{title[:80]}" of OSU MPI{accelerator[:20]} is not read; read are, '
                    f'with buffers in the memory of the host: {", ".join(n for n, _ in _BENCHMARKS.values())}')
    return (at, _BENCHMARKS[title][0], version, _BENCHMARKS[title][1])


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split('.')[:2])


def _heading(lines: list[str], start: int, wanted: str) -> _Heading:
    """The one line with the names of the columns; in old versions "Latency (us)" for latency."""
    found = [(at, ' '.join(line.split()).replace(' Latency (us)', ' Avg Latency(us)'))
             for at, line in enumerate(lines) if line.startswith(('# Size', '# Avg Latency'))]
    if not found or not any(lines[found[0][0] + 1:]):
        raise Incomplete(f'line {len(lines)}: the output ends without a table')
    if len(found) > 1:
        raise Wrong(f'{len(found)} tables in one output, in lines {found[0][0] + 1} and {found[1][0] + 1}')
    at, words = found[0]
    if at < start:
        raise Incomplete(f'line {at + 1}: the table begins before the title')
    match = _HEADING.fullmatch(words)
    if not match or match[1] != wanted:
        raise Wrong(f'line {at + 1}: columns {words[2:120]!r} are not read; valid are "{wanted}", '
                    f'those of -f and Validation')
    return _Heading(at + 1, 2 if wanted == _RATES else 1, wanted != _LATENCY, bool(match[2]), bool(match[3]))


def _rows(lines: list[str], heading: _Heading, sized: bool) -> dict[int, tuple[Decimal, ...]]:
    """The figures by message size (bytes); those of barrier are at 0."""
    widths = (*((-10, 18) if sized else (17,)), *(18,) * (heading.figures - 1),
              *((18, 18, 12) if heading.full else ()), *((18,) if heading.validated else ()))
    found: dict[int, tuple[Decimal, ...]] = {}
    before = None
    for line, words in curve.rows(lines, heading.line, len(lines), widths):
        if found and not sized:
            raise Wrong(f'line {line}: a second figure of barrier')
        size = whole(words.pop(0), f'line {line}: the message size') if sized else 0
        if not curve.follows(size, before):
            raise Wrong(f'line {line}: {size} B is not the size that follows; sizes are powers of two')
        small = heading.bandwidth and size < _SMALL
        found[size] = _figures(words, f'line {line}: ' + (f'{size} B' if sized else 'barrier'), heading, small)
        before = size
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without a row in its table')
    return found


def _figures(words: list[str], what: str, heading: _Heading, small: bool) -> tuple[Decimal, ...]:
    """The figures of one row; ``small``: a bandwidth of messages so small that two decimals may not hold it."""
    if heading.validated and (word := words.pop()) != 'Pass':
        raise Wrong(f'{what}: validation {word[:20]!r}, not Pass')
    figures = ((duration if small else positive)(words[0], what, 2),
               *(positive(word, what, 2) for word in words[1:heading.figures]))
    if heading.full:
        least, most = (duration(word, what, 2) for word in words[1:3])
        if not least <= figures[0] <= most:
            raise Wrong(f'{what}: minimum {least}, average {figures[0]}, maximum {most}')
        if not whole(words[3], f'{what}: iterations'):
            raise Wrong(f'{what}: 0 iterations')
    return figures


def _rates_agree(rows: dict[int, tuple[Decimal, ...]]) -> None:
    """OSU divides the bandwidth by the size: both figures are the same within their last digits."""
    for size, (bandwidth, rate) in rows.items():
        apart = abs(float(bandwidth) - float(rate) * size / 1e6)
        if apart > (half_digit(bandwidth) + half_digit(rate) * size / 1e6) * (1 + 1e-6):
            raise Wrong(f'{size} B: {bandwidth} MB/s are not {rate} messages/s')


def _words(lines: list[str], start: int, name: str, version: str, first: int) -> dict[str, float | str]:
    """pairs and window of mbw_mr, and the datatype, which is above or (7.1 to 7.3) below the heading."""
    words: dict[str, float | str] = {}
    if name == 'mbw_mr':
        pairs, window = _one(lines[start:], _PAIRS, '# [ pairs:')
        words |= {'pairs': float(_count(pairs, 'pairs')), 'window': float(_count(window, 'window size'))}
    if name == 'barrier':
        return words
    if _release(version) >= (7, 4) or any(line.startswith('# Datatype') for line in lines):
        datatype, = _one(lines[start:], _DATATYPE, '# Datatype:')
        if first < _TYPES.get(datatype, first + 1):
            raise Wrong(f'datatype {datatype[:40]!r} from {first} B on; valid are {", ".join(_TYPES)}')
        words['datatype'] = datatype
    return words


def _one(lines: list[str], pattern: re.Pattern, what: str) -> tuple[str, ...]:
    """The words in the one line that begins with ``what``."""
    found = [line for line in lines if line.startswith(what)]
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without "{what}"')
    if len(found) > 1:
        raise Wrong(f'{len(found)} lines "{what}"')
    if not (match := pattern.fullmatch(found[0])):
        raise Wrong(f'{found[0][:80]!r} is not "{pattern.pattern}"')
    return match.groups()


def _count(token: str, what: str) -> int:
    value = whole(token, what)
    if not value:
        raise Wrong(f'{what} is 0')
    return value
