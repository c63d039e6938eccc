"""BabelStream 3.4 to 5.0, of any implementation: four kernels and a dot product.

The bytes of a kernel over its least time are its rate. Rows with as much work are alike."""

from __future__ import annotations

from decimal import Decimal

from parity.check import Incomplete, Lines, Output, Program, Read, Unread, agree, number, ordered

PROGRAM = Program('BabelStream', title='BabelStream', tried=('3.4', '5.0'))

ARRAYS = {'Copy': 2, 'Mul': 2, 'Add': 3, 'Triad': 3, 'Dot': 2}      # arrays read or written by each kernel
HEADING = r'Function (?:MBytes/sec|MB/s) Min \(sec\) Max Average'
ROW = r'(\S+\.\d{3}) (\S+\.\d{5}) (\S+\.\d{5}) (\S+\.\d{5})'
CSV = r'function,num_times,n_elements,.*'
ROUNDED = 0.05                      # MB, of the size of an array


def read(text: str) -> Read:
    """copy, mul, add, triad, dot: best rates in MB/s (10^6 bytes), which the least times make.

    Facts: version, implementation, times, array_bytes (to 0.1 MB)."""
    out = _output(text)
    out.refuse('terminate called', Incomplete)
    out.refuse('Validation failed')
    _refuse_other_modes(out)
    out.ends_with(f'Dot {ROW}', 'Dot ...')
    version = out.one(r'Version: (\d\S*)', 'Version: ...')[1]
    implementation = out.one('Implementation: (.+)')[1]
    times = out.count(r'Running (?:Classic )?kernels (\S+) times.*')
    out.one('Precision: double')
    megabytes = out.figure(r'Array size: (\S+) MB(?: .*)?', places=1)
    out.one(HEADING, 'Function MBytes/sec Min (sec) Max Average')
    _demand_rows(out)
    figures = {name.lower(): _rate(out, name, megabytes) for name in ARRAYS}
    return figures, {'version': version, 'implementation': implementation, 'times': times,
                     'array_bytes': int(megabytes * 10**6), **PROGRAM.untried(version)}


def _output(text: str) -> Output:
    """Return the program's lines. Raise Unread for a table of --csv, which has no title."""
    try:
        return PROGRAM.output(text)
    except Incomplete:
        if Lines(text).every(CSV):
            raise Unread('BabelStream with --csv is not read; run it without') from None
        raise


def _refuse_other_modes(out: Output) -> None:
    """Raise Unread for single precision, other units, and runs of some or of more kernels."""
    mode = out.maybe(r'Running (\S+(?: \S+)?) \d+ times.*', 'Running ... times')
    if mode and mode[1] not in ('kernels', 'Classic kernels'):
        raise Unread(f'BabelStream that runs "{mode[1][:40]}" is not read; read are runs of the five kernels')
    if out.every('Precision: float'):
        raise Unread('BabelStream with --float is not read; read is double precision')
    if out.every(r'Array size: \S+ MiB(?: .*)?'):
        raise Unread('BabelStream with --mibibytes is not read; read are MB')


def _demand_rows(out: Output) -> None:
    """Raise Unread unless the rows are those of BabelStream, in its order."""
    names = [row[1] for row in out.every(rf'([A-Z][a-z]+) {ROW}')]
    if names == list(ARRAYS):
        return
    rows = ', '.join(names)[:80]
    kernels = ', '.join(ARRAYS)
    raise Unread(f'an edited table: its rows are {rows}; those of BabelStream are {kernels}')


def _rate(out: Output, name: str, megabytes: Decimal) -> float:
    """Return the best rate (MB/s) of a kernel over arrays of so many MB."""
    row = out.one(f'{name} {ROW}', name)
    rate = number(row[1], name)
    shortest = number(row[2], name)
    longest = number(row[3], name)
    mean = number(row[4], name)
    ordered(f'times of {name}', shortest, mean, longest)
    arrays = ARRAYS[name]
    moved = arrays * float(megabytes)
    agree(rate, shortest, moved, f'MB/s of {name}', unsure=arrays * ROUNDED)
    return float(rate)
