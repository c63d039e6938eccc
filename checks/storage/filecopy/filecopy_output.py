"""Output of programs/filecopy.py: files copied or written by several clients, of which some may hang. Under the
checksum stand the options, the seconds of every iteration, and the medians, which follow from them."""

from __future__ import annotations

from statistics import median

from parity.check import Incomplete, Lines, Read, Wrong, number, sealed

START, SEAL = 'filecopy: start of results, format 1', 'crc32 = ([0-9a-f]{8})'
_ABOVE = ('host', 'source', 'source device', 'destination', 'destination device')
_ROW = r'iteration (\d+) client-max-seconds (\S+) aggregate-rate (\S+) MB/s hung (\d+) failed (\d+)'
_NEAR = 1e-5        # rates have six digits


def read(text: str) -> Read:
    """Seconds and rates over the iterations that wrote everything; hangs and failed writes over all.
    Facts: the parameters and what is known of caches: `source cached` is a word, `source cached why` the rest."""
    above, _, out = sealed(text, START, SEAL)
    files = out.count('files: (.+)') * out.count('clients: (.+)')
    megabytes = files * out.count('file bytes: (.+)') / 1e6
    rows, asked = out.every(_ROW), out.count('iterations: (.+)')
    if [row[1] for row in rows] != [str(at) for at in range(1, asked + 1)]:
        raise Incomplete(f'line {out.end}: {len(rows)} iterations of {asked}, or out of order')
    counts = {'hangs': sum(int(row[4]) for row in rows), 'failed_writes': sum(int(row[5]) for row in rows)}
    for name, count in {**counts, 'records': asked, 'mismatches': 0}.items():
        if (printed := out.count(f'{name} = (.+)', zero=True)) != count:
            raise Wrong(f'{name} = {printed}, not {count}')
    for row in rows:
        if (row[2], row[3]) == ('-', '-') if row[4] == row[5] == '0' else (row[2], row[3]) != ('-', '-'):
            raise Wrong(f'a time although not all was written, or none although it was: {row[0][:120]}')
    seconds = [float(number(row[2], 'seconds')) for row in rows if row[2] != '-']
    if not seconds:
        hangs, failed = counts.values()
        raise Incomplete(f'no iteration wrote all: {hangs} hangs, {failed} failed writes')
    figures = {'seconds': median(seconds), 'seconds_min': min(seconds), 'seconds_max': max(seconds),
               'rate': median(megabytes / each for each in seconds)}
    if out.one('mode: (.+)')[1] != 'large-copy':
        figures['file_rate'] = median(files / each for each in seconds)
    return {**{name: _figure(out, name, expected) for name, expected in figures.items()},
            **{name: float(count) for name, count in counts.items()}}, _facts(above, out)


def _figure(out: Lines, name: str, expected: float) -> float:
    value = float(out.figure(f'{name} = (.+)'))
    if abs(value - expected) > _NEAR * expected:
        raise Wrong(f'{name} = {value:g}, but {expected:.6g} by bytes, files and seconds')
    return value


def _facts(above: Lines, out: Lines) -> dict[str, str]:
    found = {name: line[1] for name in _ABOVE if (line := above.maybe(f'{name}: (.+)'))}
    found |= {row[1]: row[2] for row in out.every('([a-z ]+): (.+)')}
    for name in ('source cached', 'destination cached'):
        word, comma, why = found.get(name, '').partition(', ')
        if comma:
            found |= {name: word, f'{name} why': why}
    return found
