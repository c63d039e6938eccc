"""Output of jobs/programs/filecopy.py: files copied or written by several clients, of which some may hang.

Under the checksum stand the options, the seconds of every iteration, and the medians, which follow from them. If
the first iteration makes files that the others overwrite, they are of the others."""

from __future__ import annotations

import re
from statistics import mean, median

from parity.check import Incomplete, Lines, Program, Read, Wrong, number, sealed

#: The host and the folders stand above the start of the results.
PROGRAM = Program('filecopy', title=r'host: .+(?=(?:\n.*){0,5}\n.*filecopy: start of results, format 1)',
                  alone=r'filecopy: the launcher started \d+ tasks, but each is a run of its own: .*')
START, SEAL = 'filecopy: start of results, format 1', 'crc32 = ([0-9a-f]{8})'
_ABOVE = ('host', 'source', 'source device', 'destination', 'destination device')
_ROW = (r'iteration (?P<number>\d+) client-max-seconds (?P<seconds>\S+) aggregate-rate (?P<rate>\S+) MB/s '
        r'hung (?P<hung>\d+) failed (?P<failed>\d+)')
_CLIENTS = r'iteration (\d+) clients (.+)'
#: Of passes that overwrite: which are early, and which are late.
PASSES = {'early': slice(1, 7), 'late': slice(7, None)}
_NEAR = 1e-5        # rates have six digits


def read(text: str) -> Read:
    """Seconds and rates over the iterations that wrote everything; hangs and failed writes over all.
    client_seconds, of clients on nodes: the median of their means; client_seconds_min and _max: of one client, of
    all iterations. first_...: of the iteration before overwriting; early_ and late_client_seconds: of iterations
    2 to 7, and of those from the eighth on.
    Facts: the parameters and what is known of caches: `source cached` is a word, `source cached why` the rest."""
    above, _, out = sealed(PROGRAM.output(text, fold=False).text, START, SEAL)
    nodes = out.count('nodes: (.+)') if out.maybe('nodes: .*') else 0
    clients = out.count('clients: (.+)') * (nodes or 1)
    files = out.count('files: (.+)') * clients
    megabytes = files * out.count('file bytes: (.+)') / 1e6
    rows = _iterations(out)
    counts = _counts(out, rows)
    every = [_seconds(row) for row in rows]
    by_client = _clients(out, every, clients) if nodes else []
    first = 1 if out.maybe('overwrite: yes') else 0
    seconds = [taken for taken in every[first:] if taken]
    if not seconds:
        hangs, failed = counts['hangs'], counts['failed_writes']
        raise Incomplete(f'no iteration wrote all: {hangs} hangs, {failed} failed writes')
    figures = {'seconds': median(seconds), 'seconds_min': min(seconds), 'seconds_max': max(seconds),
               'rate': median(megabytes / taken for taken in seconds)}
    if out.one('mode: (.+)')[1] != 'large-copy':
        figures['file_rate'] = median(files / taken for taken in seconds)
    values = {name: _figure(out, name, expected) for name, expected in figures.items()}
    if nodes:
        values |= _of_clients(by_client, clients, first)
    if first and every[0]:
        values['first_seconds'] = every[0]
    return values | {name: float(count) for name, count in counts.items()}, _facts(above, out)


def _iterations(out: Lines) -> list[re.Match[str]]:
    """Return the rows of all iterations, in order."""
    rows = out.every(_ROW)
    asked = out.count('iterations: (.+)')
    if [row['number'] for row in rows] != [str(at) for at in range(1, asked + 1)]:
        raise Incomplete(f'line {out.end}: {len(rows)} iterations of {asked}, or out of order')
    return rows


def _counts(out: Lines, rows: list[re.Match[str]]) -> dict[str, int]:
    """Return how many clients hung and how many writes failed, as they are printed below."""
    counts = {'hangs': sum(int(row['hung']) for row in rows),
              'failed_writes': sum(int(row['failed']) for row in rows)}
    for name, count in {**counts, 'records': len(rows), 'mismatches': 0}.items():
        printed = out.count(f'{name} = (.+)', zero=True)
        if printed != count:
            raise Wrong(f'{name} = {printed}, not {count}')
    return counts


def _seconds(row: re.Match[str]) -> float:
    """Return the seconds of an iteration; 0 of one that did not write all."""
    wrote_all = row['hung'] == row['failed'] == '0'
    marks = [row['seconds'], row['rate']].count('-')
    if marks != (0 if wrote_all else 2):
        raise Wrong(f'a time although not all was written, or none although it was: {row[0][:120]}')
    return float(number(row['seconds'], 'seconds')) if row['seconds'] != '-' else 0.0


def _of_clients(by_iteration: list[list[float]], clients: int, first: int) -> dict[str, float]:
    """Return the figures of clients on nodes: seconds of the iterations in which all wrote all."""
    means = [mean(seconds) if len(seconds) == clients else 0 for seconds in by_iteration]
    every = []
    for seconds in by_iteration:
        every += seconds
    values = {'client_seconds': median(taken for taken in means[first:] if taken),
              'client_seconds_min': min(every), 'client_seconds_max': max(every)}
    if not first:
        return values
    if means[0]:
        values['first_client_seconds'] = means[0]
    for when, part in PASSES.items():
        wrote = [taken for taken in means[part] if taken]
        if wrote:
            values[f'{when}_client_seconds'] = median(wrote)
    return values


def _clients(out: Lines, every: list[float], clients: int) -> list[list[float]]:
    """The seconds of the clients that wrote all, by iteration. The longest is that of the iteration."""
    rows = out.every(_CLIENTS)
    if [row[1] for row in rows] != [str(at) for at in range(1, len(every) + 1)]:
        raise Incomplete(f'line {out.end}: the clients of {len(rows)} iterations of {len(every)}, or out of order')
    found = []
    for row, longest in zip(rows, every, strict=True):
        words = row[2].split()
        seconds = [float(number(word, 'seconds of a client')) for word in words if word != '-']
        expected = max(seconds) if len(seconds) == clients else 0
        if len(words) != clients or expected != longest:
            raise Wrong(f'{len(words)} clients, the longest {max(seconds, default=0):g} s: {row[0][:120]}')
        found.append(seconds)
    return found


def _figure(out: Lines, name: str, expected: float) -> float:
    """Return a printed figure, which bytes, files and seconds make."""
    value = float(out.figure(f'{name} = (.+)'))
    if abs(value - expected) > _NEAR * expected:
        raise Wrong(f'{name} = {value:g}, but {expected:.6g} by bytes, files and seconds')
    return value


def _facts(above: Lines, out: Lines) -> dict[str, str]:
    """Return the parameters, and what is known of caches."""
    facts = {}
    for name in _ABOVE:
        line = above.maybe(f'{name}: (.+)')
        if line:
            facts[name] = line[1]
    facts |= {row[1]: row[2] for row in out.every('([a-z ]+): (.+)')}
    if 'nodes' in facts:
        facts['client seconds'] = [row[2] for row in out.every(_CLIENTS)]
    for name in ('source cached', 'destination cached'):
        word, comma, why = facts.get(name, '').partition(', ')
        if comma:
            facts |= {name: word, f'{name} why': why}
    return facts
