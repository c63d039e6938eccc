"""Output of jobs/programs/filecopy.py: files copied or written by several clients, of which some may hang.

Under the checksum stand the options, the seconds of every iteration, and the medians, which follow from them. If
the first iteration makes files that the others overwrite, they are of the others."""

from __future__ import annotations

from statistics import mean, median

from parity.check import Incomplete, Lines, Read, Wrong, number, sealed

START, SEAL = 'filecopy: start of results, format 1', 'crc32 = ([0-9a-f]{8})'
_ABOVE = ('host', 'source', 'source device', 'destination', 'destination device')
_ROW = r'iteration (\d+) client-max-seconds (\S+) aggregate-rate (\S+) MB/s hung (\d+) failed (\d+)'
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
    above, _, out = sealed(text, START, SEAL)
    nodes = out.count('nodes: (.+)') if out.maybe('nodes: .*') else 0
    clients = out.count('clients: (.+)') * (nodes or 1)
    files = out.count('files: (.+)') * clients
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
    every = [float(number(row[2], 'seconds')) if row[2] != '-' else 0 for row in rows]
    each_client = _clients(out, every, clients) if nodes else []
    means = [mean(of) if len(of) == clients else 0 for of in each_client]
    first = 1 if out.maybe('overwrite: yes') else 0
    seconds = [each for each in every[first:] if each]
    if not seconds:
        hangs, failed = counts.values()
        raise Incomplete(f'no iteration wrote all: {hangs} hangs, {failed} failed writes')
    figures = {'seconds': median(seconds), 'seconds_min': min(seconds), 'seconds_max': max(seconds),
               'rate': median(megabytes / each for each in seconds)}
    if out.one('mode: (.+)')[1] != 'large-copy':
        figures['file_rate'] = median(files / each for each in seconds)
    return {**{name: _figure(out, name, expected) for name, expected in figures.items()},
            **({'client_seconds': median(filter(None, means[first:])),
                'client_seconds_min': min(sum(each_client, [])),
                'client_seconds_max': max(sum(each_client, []))} if means else {}),
            **{f'first_{name}': of[0] for name, of in (('seconds', every), ('client_seconds', means))
               if first and of and of[0]},
            **{f'{when}_client_seconds': median(wrote) for when, part in PASSES.items()
               if first and (wrote := [each for each in means[part] if each])},
            **{name: float(count) for name, count in counts.items()}}, _facts(above, out)


def _clients(out: Lines, every: list[float], clients: int) -> list[list[float]]:
    """The seconds of the clients that wrote all, by iteration. The longest is that of the iteration."""
    rows = out.every(_CLIENTS)
    if [row[1] for row in rows] != [str(at) for at in range(1, len(every) + 1)]:
        raise Incomplete(f'line {out.end}: the clients of {len(rows)} iterations of {len(every)}, or out of order')
    found = []
    for row, longest in zip(rows, every, strict=True):
        told = row[2].split()
        of = [float(number(word, 'seconds of a client')) for word in told if word != '-']
        if len(told) != clients or (max(of) if len(of) == clients else 0) != longest:
            raise Wrong(f'{len(told)} clients, the longest {max(of, default=0):g} s: {row[0][:120]}')
        found.append(of)
    return found


def _figure(out: Lines, name: str, expected: float) -> float:
    value = float(out.figure(f'{name} = (.+)'))
    if abs(value - expected) > _NEAR * expected:
        raise Wrong(f'{name} = {value:g}, but {expected:.6g} by bytes, files and seconds')
    return value


def _facts(above: Lines, out: Lines) -> dict[str, str]:
    found = {name: line[1] for name in _ABOVE if (line := above.maybe(f'{name}: (.+)'))}
    found |= {row[1]: row[2] for row in out.every('([a-z ]+): (.+)')}
    found |= {'client seconds': [row[2] for row in out.every(_CLIENTS)]} if 'nodes' in found else {}
    for name in ('source cached', 'destination cached'):
        word, comma, why = found.get(name, '').partition(', ')
        if comma:
            found |= {name: word, f'{name} why': why}
    return found
