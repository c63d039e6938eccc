"""The reports of IOZone and of fio: rates of the first and of the second write of files, by records."""

import re

from parity.base import codes
from parity.check import Incomplete, Lines, Read, Wrong, room, same, whole

#: The programs that write: figures of one are never compared with those of the other.
TOOLS = ('iozone', 'fio')
_BEGIN = 'Iozone: Performance Test of File I/O'
#: IOZone's words where it gives up; what the kernel said is on its standard error.
_COMPLAINTS = r'Error:? |Can not (open|create) |Sanity check failed|iozone: interrupted|exiting iozone'
#: With other options the figures mean something else. A job's reports write files called 1-of-N to N-of-N.
_COMMAND = (r'Command line used: .*iozone -a -R(?P<fsync> -e)? -i 0(?P<files>( -s \d+k)+)(?P<records>( -r \d+k)+)'
            r' -f (.*?(?P<of>\d+-of-\d+)|.+)')
_FORM = 'Command line used: iozone -a -R [-e] -i 0 -s FILEk ... -r RECORDk ... -f PATH'


def read(text: str) -> Read:
    """Return IOZone's write_FILE_RECORD_rate and rewrite_FILE_RECORD_rate (MiB/s), both sizes in KiB, or fio's
    groups. Facts: `tool` names the program; version; of IOZone, whether fsync is in the times (yes or no)."""
    if _BEGIN not in text:
        figures, facts = room(codes.named('fio')).read(text)
        return figures, {**facts, 'tool': 'fio'}
    out = Lines(text)
    out.refuse(_COMPLAINTS, Incomplete)
    begins = [at for at, _ in out.matches(_BEGIN)]
    if not begins:
        raise Incomplete(f'line {out.end}: the output ends without "{_BEGIN}"')
    values: dict[str, float] = {}
    known: dict[str, str] = {}
    for at, (begin, end) in enumerate(zip(begins, [*begins[1:], out.end + 1], strict=True), 1):
        rates, facts, number, of = _report(Lines(out.lines[begin - 1:end - 1], begin))
        same('the number of a report', number, at)
        same('two reports', facts, known or facts)
        if twice := rates.keys() & values.keys():
            raise Wrong(f'{min(twice)} stands in two reports')
        values, known = values | rates, facts
    if len(begins) != of:
        raise Incomplete(f'line {out.end}: the output ends after report {len(begins)} of {of}')
    return values, {**known, 'tool': 'iozone'}


def name_of(what: str, file: int, record: int) -> str:
    """Return the name of a rate of IOZone's; sizes in bytes."""
    return f'{what}_{file >> 10}KiB_{record >> 10}KiB_rate'


def _report(out: Lines) -> tuple[dict[str, float], dict[str, str], int, int]:
    """Return the rates and the facts of a report, and that it is number n of how many."""
    version = out.one(r'Version \$Revision: (\d+\.\d+) \$')[1]
    command = out.one(_COMMAND, _FORM)
    out.one('Output is in kBytes/sec')
    same('-e and fsync in the times', bool(command['fsync']), bool(out.maybe('Include fsync in write timing')))
    sizes = [re.findall(r'\d+', command[which]) for which in ('files', 'records')]
    for asked, line in zip(sizes, (r'File size set to (\S+) kB', r'Record Size (\S+) kB'), strict=True):
        same('sizes', asked, [match[1] for match in out.every(line)])
    table = out.part('kB reclen write rewrite .*', 'iozone test complete.')
    rows = [line.split() for line in table.lines if line]
    wanted = [[file, record] for file in sizes[0] for record in sizes[1] if int(record) <= int(file)]
    for at, (asked, row) in enumerate(zip(wanted, rows, strict=False), table.first):
        if row[:2] != asked or len(row) != 4:
            raise Wrong(f'line {at}: {" ".join(row)[:60]!r} is no row of {asked[0]} kB by {asked[1]} kB')
    if len(rows) != len(wanted):
        raise Wrong(f'line {table.end}: rows: {len(rows)}, asked for: {len(wanted)}')
    rates = {name_of(what, int(file) << 10, int(record) << 10): whole(rate, f'{what} of {file} kB by {record} kB')
             for file, record, *both in rows for what, rate in zip(('write', 'rewrite'), both, strict=True)}
    _repeated(out, rows, sizes)
    number, _, of = (command['of'] or '1-of-1').partition('-of-')
    rates = {name: rate / 1024 for name, rate in rates.items()}
    return rates, {'version': version, 'fsync': 'yes' if command['fsync'] else 'no'}, int(number), int(of)


def _repeated(out: Lines, rows: list[list[str]], sizes: list[list[str]]) -> None:
    """Raise Wrong unless the rates stand again below the table, as -R has it: by kind of write."""
    files, records = sizes
    wanted = []
    for kind, column in (('Writer', 2), ('Re-writer', 3)):
        wanted += [f'"{kind} report"', ' '.join(f'"{record}"' for record in records)]
        wanted += [' '.join([f'"{file}"', *(row[column] for row in rows if row[0] == file)]) for file in files]
    out.one('Excel output is below:')
    at = out.matches('Excel output is below:')[0][0]
    lines = [(number, line) for number, line in enumerate(out.lines, out.first) if number > at and line]
    for (number, line), asked in zip(lines, wanted, strict=False):
        if line != asked:
            error = Incomplete if number == lines[-1][0] else Wrong
            raise error(f'line {number}: {line[:60]!r}, {asked[:60]!r} by the table above')
    if len(lines) < len(wanted):
        raise Incomplete(f'line {out.end}: the output ends without {wanted[len(lines)]}')
