"""What checks/storage/src/filecopy.py printed."""

import math
import re
import statistics
import zlib

from . import Incomplete, Wrong

START, END = 'filecopy: start of results, format 1', 'filecopy: end of results'
ITERATION = re.compile(r'iteration (\d{1,9}) client-max-seconds (\S{1,40}) aggregate-rate (\S{1,40}) MB/s '
                       r'hung (\d{1,9}) failed (\d{1,9})', re.ASCII)
HEADER = re.compile(r'(host|(?:source|destination)(?: device)?): (.*)')
FACT = re.compile(r'([a-z ]{1,40}): (.*)')
RESULT = re.compile(r'([a-z_0-9]{1,40}) = (\S{1,40})')


def parse(text: str) -> dict[str, float]:
    """Seconds and rates over the iterations that wrote everything; hangs and failed writes over all."""
    _, lines = _split(text)
    said, results = _pairs(FACT, lines), _pairs(RESULT, lines)
    files, clients = _whole(said, 'files'), _whole(said, 'clients')
    megabytes = files * clients * _whole(said, 'file bytes') / 1e6
    rows = [_iteration(line, megabytes) for line in lines if line.startswith('iteration ')]
    if [number for number, *_ in rows] != list(range(1, _whole(said, 'iterations') + 1)):
        raise Incomplete(f'{len(rows)} iterations of {said["iterations"]}, or out of order')
    hangs, failed = (sum(row[column] for row in rows) for column in (2, 3))
    counts = {'hangs': hangs, 'failed_writes': failed}
    for name, count in (*counts.items(), ('records', len(rows)), ('mismatches', 0)):
        if _whole(results, name) != count:
            raise Wrong(f'{name} = {results[name]}, not {count}')
    seconds = [row[1] for row in rows if row[1] is not None]
    if not seconds:
        raise Incomplete(f'no iteration wrote all: {hangs} hangs, {failed} failed writes')
    figures = {'seconds': statistics.median(seconds),
               'seconds_min': min(seconds), 'seconds_max': max(seconds),
               'rate': statistics.median(megabytes / each for each in seconds)}
    if said.get('mode') != 'large-copy':
        figures['file_rate'] = statistics.median(files * clients / each for each in seconds)
    return {**{name: _figure(name, results.get(name), expected) for name, expected in figures.items()},
            **{name: float(count) for name, count in counts.items()}}


def facts(text: str) -> dict[str, str]:
    """The parameters and what is known of caches: `source cached` is a word, `source cached why` the rest."""
    before, lines = _split(text)
    header = filter(None, map(HEADER.fullmatch, before))
    found = {**{match[1]: match[2] for match in header}, **_pairs(FACT, lines)}
    for name in ('source cached', 'destination cached'):
        word, comma, why = found.get(name, '').partition(', ')
        if comma:
            found.update({name: word, f'{name} why': why})
    return found


def _split(text: str) -> tuple[list[str], list[str]]:
    """The lines before the results, and those of the results, once these are whole and unaltered."""
    lines = [line.rstrip('\r') for line in text.split('\n')]
    if lines.count(START) != 1 or lines.count(END) != 1:
        raise Incomplete(f'{lines.count(START)} starts and {lines.count(END)} ends of results')
    start, end = lines.index(START), lines.index(END)
    block = lines[start:end]
    if len(block) < 2 or block[-1] != f'crc32 = {_crc32(block[:-1]):08x}':
        raise Incomplete(f'line {end}: the checksum does not fit the lines above')
    return lines[:start], block[1:-1]


def _crc32(lines: list[str]) -> int:
    return zlib.crc32('\n'.join(lines).encode('utf-8', 'surrogatepass'))


def _pairs(pattern: re.Pattern, lines: list[str]) -> dict[str, str]:
    found = {}
    for match in filter(None, map(pattern.fullmatch, lines)):
        if match[1] in found:
            raise Incomplete(f'{match[1]!r} twice')
        found[match[1]] = match[2]
    return found


def _whole(values: dict[str, str], name: str) -> int:
    if not re.fullmatch('[0-9]{1,19}', values.get(name, '')):
        raise Incomplete(f'{name}: no number in {values.get(name)!r}')
    return int(values[name])


def _number(name: str, token: str | None) -> float:
    try:
        value = float(token or '')
    except ValueError:
        raise Incomplete(f'{name}: no number in {token!r}') from None
    if not (math.isfinite(value) and value > 0):
        raise Wrong(f'{name} = {token}')
    return value


def _figure(name: str, token: str | None, expected: float) -> float:
    value = _number(name, token)
    if not abs(value - expected) <= 0.01 * expected:
        raise Wrong(f'{name} = {token}, but {expected:.6g} by bytes, files and seconds')
    return value


def _iteration(line: str, megabytes: float) -> tuple[int, float | None, int, int]:
    """Its number, seconds (None when a client hung or a write failed), hangs, failed writes."""
    match = ITERATION.fullmatch(line)
    if not match:
        raise Incomplete(f'unreadable: {line[:120]!r}')
    number, took, rate, hung, failed = match.groups()
    if int(hung) or int(failed):
        if (took, rate) != ('-', '-'):
            raise Wrong(f'a time although not all was written: {line}')
        return int(number), None, int(hung), int(failed)
    seconds = _number('seconds', took)
    _figure('rate', rate, megabytes / seconds)
    return int(number), seconds, 0, 0
