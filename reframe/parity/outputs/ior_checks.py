"""Whether the figures of one IOR run agree with one another and with its command line.

IOR moves tasks x blocksize x segments bytes in a phase. bw is that over total(s), from the first open to
the last close; IOPS of a row is the transfers over wr/rd(s). The summary repeats the rows' bw, and its OPs
are that same bw in transfers. Its standard deviation is the population's.
"""

from __future__ import annotations

import statistics
from decimal import Decimal

from . import Incomplete, Wrong
from .hpcc_text import whole
from .ior_text import ROW, Output
from .printed import duration, half_digit, positive, rate_agrees

MIB = 1 << 20
_NUMBERS = 1e-6                           # of doubles and of aggs(MiB), which is a float, beyond rounding
_FLAGS = {'access': ('single-shared-file', 'file-per-process'), 'type': ('independent', 'collective'),
          'ordering in a file': ('sequential', 'random')}


def human_readable(size: int) -> str:
    """A size (bytes) as IOR prints it."""
    for unit, name in ((MIB << 20, 'TiB'), (MIB << 10, 'GiB'), (MIB, 'MiB')):
        if size >= unit:
            return f'{size / unit:.2f} {name}' if size % unit else f'{size // unit} {name}'
    return f'{size} bytes'


def flag(output: Output, option: str) -> int:
    """1 or 0 of an option that has two words, such as access."""
    word = output.options[option]
    if word not in _FLAGS[option]:
        raise Wrong(f'{option} is {word[:40]!r}: it must be {" or ".join(_FLAGS[option])}')
    return _FLAGS[option].index(word)


def agree(what: str, *found) -> None:
    """Raise Wrong unless all are the same."""
    if any(each != found[0] for each in found):
        raise Wrong(f'{what}: {" and ".join(str(each)[:60] for each in found)} in one output')


def options(output: Output, access: str) -> None:
    """What the summary of one access repeats of the options."""
    row, said = output.summary[access], output.options
    block, xfer, tasks, segments = (count(row[name], f'{name} of {access}')
                                    for name in ('block', 'xfer', 'tasks', 'segments'))
    for name, label in (('tasks', 'tasks'), ('tpn', 'clients per node'), ('reps', 'repetitions'),
                        ('segments', 'segments')):
        agree(label, whole(said[label], label), count(row[name], name))
    agree('api', said['api'], row['api'])
    agree('access', flag(output, 'access'), int(bool(whole(row['fpp'], 'fPP'))))
    agree('ordering inter file', said['ordering inter file'], _ordering(row))
    if 'task offset' in said:
        agree('task offset', said['task offset'], row['offset'])
    agree('xfersize', said['xfersize'], human_readable(xfer))
    agree('blocksize', said['blocksize'], human_readable(block))
    total = tasks * block * segments
    agree('aggregate filesize', said['aggregate filesize'], human_readable(total))
    moved = positive(row['aggregate'], f'aggregate of {access}')
    if abs(float(moved) * MIB - total) > half_digit(moved) * MIB + _NUMBERS * total:
        raise Wrong(f'{access}: {moved} MiB moved, {total / MIB:.1f} MiB by tasks, blocksize and segments')


def count(token: str, what: str) -> int:
    value = whole(token, what)
    if not value:
        raise Wrong(f'{what} is 0')
    return value


def _ordering(row: dict[str, str]) -> str:
    if whole(row['random'], 'reordrand'):
        return 'random task offset'
    return 'constant task offset' if whole(row['reorder'], 'reord') else 'no tasks offsets'


def sequence(output: Output, accesses: list[str]) -> None:
    """Every repetition is there, in order, with all its accesses."""
    repetitions = count(output.options['repetitions'], 'repetitions')
    expected = [(access, str(i)) for i in range(repetitions) for access in accesses]
    # in JSON a repetition has no number
    found = [(access, row.get('iter', expected[i][1] if i < len(expected) else ''))
             for i, (access, row) in enumerate(output.rows)]
    if len(found) < len(expected):
        raise Incomplete(f'line {output.lines}: {len(found)} rows of results, {len(expected)} by '
                         f'{repetitions} repetitions of {" and ".join(accesses)}: a repetition is missing')
    if found != expected:
        raise Wrong(f'the rows of results are not {repetitions} repetitions of {" and ".join(accesses)} in order')


def table(output: Output, access: str) -> None:
    """Each row by itself, and the summary against all rows."""
    summary = output.summary[access]
    block, xfer = int(summary['block']), int(summary['xfer'])
    size = block * int(summary['segments']) * int(summary['tasks'])
    rows = [_figures(row, access, output.is_json) for name, row in output.rows if name == access]
    for row in rows:
        _row(row, access, size, block, xfer)
    _statistics(summary, rows, access, output.is_json)
    _mean_time(_summed(summary, 'seconds', access, output.is_json), rows, size / MIB, access)
    for name in ('max', 'min', 'mean', 'sd'):
        bw, ops = (_summed(summary, f'{kind}_{name}', access, output.is_json) for kind in ('bw', 'ops'))
        if xfer == MIB:
            agree(f'{name} of {access} in MiB and in OPs of 1 MiB', bw, ops)
        elif abs(float(bw) * MIB / xfer - float(ops)) > half_digit(bw) * MIB / xfer * 1.001 + half_digit(ops):
            raise Wrong(f'{name} of {access}: {bw} MiB/s are not {ops} transfers/s of {xfer} bytes')
    if access in output.maxima:
        agree(f'highest {access}', summary['bw_max'], output.maxima[access])


def _places(token: str) -> int:
    """How many decimals the table gives a figure: 6 below 1, 2 below 3600, none above; before it rounds."""
    value = duration(token, 'a figure of the results')
    if value < 1 or token == '1.000000':
        return 6
    return 2 if value < 3600 or token == '3600.00' else 0


def _figures(row: dict[str, str], access: str, is_json: bool) -> dict[str, Decimal]:
    found = {}
    for name in ROW:
        what = f'{name} of {access}'
        places = 4 if is_json else _places(row[name])
        found[name] = (positive if name in ('bw', 'iops', 'block', 'xfer') else duration)(row[name], what, places)
    return found


def _row(row: dict[str, Decimal], access: str, size: int, block: int, xfer: int) -> None:
    for name, expected in (('block', block), ('xfer', xfer)):
        if abs(float(row[name]) - expected / 1024) > half_digit(row[name]) * 1.001:
            raise Wrong(f'{name} of {access}: {row[name]} KiB in the results, {expected} bytes in the summary')
    if not rate_agrees(row['bw'], row['total'], size / MIB):
        raise Wrong(f'{access}: {row["bw"]} MiB/s in {row["total"]} s is not the work of {size / MIB:.6g} MiB')
    if not rate_agrees(row['iops'], row['wrrd'], size // xfer):
        raise Wrong(f'{access}: {row["iops"]} transfers/s in {row["wrrd"]} s are not {size // xfer} transfers')
    for name in ('open', 'wrrd', 'close'):
        if float(row[name]) - half_digit(row[name]) > float(row['total']) + half_digit(row['total']):
            raise Wrong(f'{access}: {name} {row[name]} s is longer than the total, {row["total"]} s')
    mean = (float(row['latency']) - half_digit(row['latency'])) * (block // xfer)
    if mean > float(row['wrrd']) + half_digit(row['wrrd']):
        raise Wrong(f'{access}: {block // xfer} transfers of {row["latency"]} s are longer than {row["wrrd"]} s')


def _summed(summary: dict[str, str], name: str, access: str, is_json: bool) -> Decimal:
    places = 4 if is_json else 5 if name == 'seconds' else 2
    what = f'{name} of {access} in the summary'
    return (duration if name.endswith('sd') or name == 'seconds' else positive)(summary[name], what, places)


def _statistics(summary: dict[str, str], rows: list[dict[str, Decimal]], access: str, is_json: bool) -> None:
    """max, min, mean, deviation and mean time by the rows; a row of 3600 MiB/s or more has no decimals."""
    bw = [float(row['bw']) for row in rows]
    near = max(half_digit(row['bw']) for row in rows)
    seconds = [float(row['total']) for row in rows]
    for name, expected, slack in (
            ('bw_max', max(bw), near), ('bw_min', min(bw), near), ('bw_mean', statistics.fmean(bw), near),
            ('bw_sd', statistics.pstdev(bw), near),
            ('seconds', statistics.fmean(seconds), max(half_digit(row['total']) for row in rows))):
        value = _summed(summary, name, access, is_json)
        if abs(float(value) - expected) > slack + half_digit(value) + 1e-9 * expected:
            raise Wrong(f'{name} of {access} is {value} in the summary, {expected:.6g} by the rows')
    most, least, mean = (_summed(summary, f'bw_{name}', access, is_json) for name in ('max', 'min', 'mean'))
    if not most >= mean >= least:
        raise Wrong(f'{access}: maximum {most}, mean {mean}, minimum {least}')
    deviation = _summed(summary, 'bw_sd', access, is_json)
    _by_few(len(rows), tuple(map(float, (most, least, mean, deviation))), 2.01 * half_digit(mean), access)


def _mean_time(printed: Decimal, rows: list[dict[str, Decimal]], mib: float, access: str) -> None:
    """Data over bandwidth has more digits than the times, of which JSON keeps four decimals."""
    shortest, longest = (statistics.fmean(mib / (float(row['bw']) + sign * half_digit(row['bw'])) for row in rows)
                         for sign in (1, -1))
    if not shortest - half_digit(printed) - 1e-12 <= float(printed) <= longest + half_digit(printed) + 1e-12:
        raise Wrong(f"seconds of {access} is {printed} in the summary, {shortest:.6g} by the rows' bandwidth")


def _by_few(number: int, figures: tuple[float, ...], near: float, access: str) -> None:
    """One or two repetitions leave no freedom, whatever the rows round away."""
    most, least, mean, deviation = figures
    if number <= 2 and (abs(mean - (most + least) / 2) > near or abs(deviation - (most - least) / 2) > near
                        or (number == 1 and most != least)):
        raise Wrong(f'{access}: {number} repetitions cannot have maximum {most}, minimum {least}, mean {mean} and '
                    f'deviation {deviation}')
