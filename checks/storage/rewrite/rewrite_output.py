"""The reports of IOZone and of fio: rates of the first and of the second write of files, by records.

IOZone prints its rates twice with -R: in a table by file and record, and below it as reports. Without, nothing in
its output confirms them."""

import re
from dataclasses import dataclass

from parity.base import codes
from parity.check import Incomplete, Lines, Output, Program, Read, Unread, Wrong, room, same, whole

TITLE = 'Iozone: Performance Test of File I/O'
REPORT = Program('IOzone', title=TITLE, tried=('3.489', '3.510'))
#: A run of several reports begins with the first: the next ones write 2-of-N and so on.
_LATER = r'(?!(?:(?!Command line used: )[\s\S])*Command line used: .*/(?:[2-9]|[1-9]\d+)-of-\d)'
PROGRAM = Program('IOzone', title=TITLE + _LATER, tried=('3.489', '3.510'))

#: The programs that write: figures of one are never compared with those of the other.
TOOLS = ('iozone', 'fio')
#: IOZone's words where it gives up; what the kernel said is on its standard error.
COMPLAINTS = r'Error:? |Can not (open|create) |Sanity check failed|iozone: interrupted|exiting iozone'
#: With other options the figures mean something else. A job's reports write files called 1-of-N to N-of-N.
COMMAND = re.compile(r'''.*iozone\ -a\ -R
                     (?P<fsync>\ -e)?
                     \ -i\ 0
                     (?P<files>(?:\ -s\ \d+k)+)
                     (?P<records>(?:\ -r\ \d+k)+)
                     \ -f\ (?:.*?(?P<number>\d+)-of-(?P<of>\d+)|.+)''', re.VERBOSE | re.ASCII)
FORM = 'iozone -a -R [-e] -i 0 -s FILEk ... -r RECORDk ... -f PATH'
THROUGHPUT = r'(.* )?-t ?\d+( .*)?'


@dataclass(frozen=True)
class Command:
    """The command line of IOZone: sizes in KiB, as it prints them."""

    files: list[str]
    records: list[str]
    fsync: bool
    number: int         # of the report, of how many
    of: int


@dataclass(frozen=True)
class Row:
    """A row of IOZone's table: sizes in KiB, rates in KiB/s, as printed."""

    file: str
    record: str
    write: str
    rewrite: str


@dataclass(frozen=True)
class Report:
    """The figures of IOZone: rates in MiB/s."""

    rates: dict[str, float]
    facts: dict[str, str]
    command: Command
    line: int           # of its title


def read(text: str) -> Read:
    """Return IOZone's write_FILE_RECORD_rate and rewrite_FILE_RECORD_rate (MiB/s), both sizes in KiB, or fio's
    groups. Facts: `tool` names the program; version; of IOZone, whether fsync is in the times (yes or no)."""
    runs = REPORT.runs(text)
    if not runs and 'fio' in text:
        figures, facts = room(codes.named('fio')).read(text)
        return figures, {**facts, 'tool': 'fio'}
    if not runs:
        REPORT.output(text)                     # refuses it by name
    outputs = []
    for run in runs:
        above = '\n' * (run.line - 1)           # messages have the lines of the whole output
        outputs.append(REPORT.output(above + run.text))
    for out in outputs:
        out.refuse(COMPLAINTS, Incomplete)
    reports = [_report(out) for out in outputs]
    return _joined(reports, text.count('\n') + 1), {**reports[0].facts, 'tool': 'iozone'}


def name_of(what: str, file: int, record: int) -> str:
    """Return the name of a rate of IOZone's; sizes in bytes."""
    return f'{what}_{file >> 10}KiB_{record >> 10}KiB_rate'


def _joined(reports: list[Report], last_line: int) -> dict[str, float]:
    """Return the rates of all reports, which are as many as their command lines say, and alike."""
    rates: dict[str, float] = {}
    if len(reports) > 1 and all(report.command.of == 1 for report in reports):
        raise Unread(f'{len(reports)} runs in one file, lines {reports[0].line} and {reports[1].line}')
    for number, report in enumerate(reports, 1):
        same('the number of a report', report.command.number, number)
        same('two reports', report.facts, reports[0].facts)
        twice = sorted(report.rates.keys() & rates.keys())
        if twice:
            raise Wrong(f'{twice[0]} stands in two reports')
        rates |= report.rates
    of = reports[-1].command.of
    if len(reports) != of:
        raise Incomplete(f'line {last_line}: the output ends after report {len(reports)} of {of}')
    return rates


def _report(out: Output) -> Report:
    """Return the rates and the facts of a report."""
    version = out.one(r'Version \$Revision: (\d+\.\d+) \$')[1]
    command = _command(out)
    out.one('Output is in kBytes/sec')
    same('-e and fsync in the times', command.fsync, bool(out.maybe('Include fsync in write timing')))
    same('sizes', command.files, [match[1] for match in out.every(r'File size set to (\S+) kB')])
    same('sizes', command.records, [match[1] for match in out.every(r'Record Size (\S+) kB')])
    rows = _rows(out, command)
    rates = {}
    for row in rows:
        file, record = int(row.file) << 10, int(row.record) << 10
        for what, rate in (('write', row.write), ('rewrite', row.rewrite)):
            kibibytes = whole(rate, f'{what} of {row.file} kB by {row.record} kB')
            rates[name_of(what, file, record)] = kibibytes / 1024
    _demand_repeated(out, rows, command)
    facts = {'version': version, **REPORT.untried(version), 'fsync': 'yes' if command.fsync else 'no'}
    return Report(rates, facts, command, out.first)


def _command(out: Output) -> Command:
    """Return what the command line asked for. Raise Unread for another one, with its line."""
    used = out.one('Command line used: (.*)')[1]
    line = out.matches('Command line used: .*')[0][0]
    if re.fullmatch(THROUGHPUT, used):
        raise Unread(f'line {line}: IOzone in throughput mode (-t); read is {FORM}')
    match = COMMAND.fullmatch(used)
    if not match and line == out.end:
        raise Incomplete(f'line {line}: the output ends within its command line')
    if not match:
        raise Unread(f'line {line}: the command line is "{used[:160]}"; read is {FORM}')
    files = re.findall(r'\d+', match['files'])
    records = re.findall(r'\d+', match['records'])
    return Command(files, records, bool(match['fsync']), int(match['number'] or 1), int(match['of'] or 1))


def _rows(out: Output, command: Command) -> list[Row]:
    """Return the rows of the table: each file by each record that it holds."""
    table = out.part('kB reclen write rewrite .*', 'iozone test complete.')
    lines = [line for line in table.lines if line]
    asked = []
    for file in command.files:
        asked += [(file, record) for record in command.records if int(record) <= int(file)]
    rows = []
    for at, ((file, record), line) in enumerate(zip(asked, lines, strict=False), table.first):
        words = line.split()
        if words[:2] != [file, record] or len(words) != 4:
            raise Wrong(f'line {at}: {line[:60]!r} is no row of {file} kB by {record} kB')
        rows.append(Row(*words))
    if len(lines) != len(asked):
        raise Wrong(f'line {table.end}: rows: {len(lines)}, asked for: {len(asked)}')
    return rows


def _demand_repeated(out: Lines, rows: list[Row], command: Command) -> None:
    """Raise Wrong unless the rates stand again below the table, as -R has it: by kind of write."""
    heading = ' '.join(f'"{record}"' for record in command.records)
    wanted = ['"Writer report"', heading]
    wanted += [_repeated(file, [row.write for row in rows if row.file == file]) for file in command.files]
    wanted += ['"Re-writer report"', heading]
    wanted += [_repeated(file, [row.rewrite for row in rows if row.file == file]) for file in command.files]
    out.one('Excel output is below:')
    begin = out.matches('Excel output is below:')[0][0]
    below = [(number, line) for number, line in enumerate(out.lines, out.first) if number > begin and line]
    for (number, line), asked in zip(below, wanted, strict=False):
        if line != asked:
            error = Incomplete if number == below[-1][0] else Wrong
            raise error(f'line {number}: {line[:60]!r}, {asked[:60]!r} by the table above')
    if len(below) < len(wanted):
        raise Incomplete(f'line {out.end}: the output ends without {wanted[len(below)]}')


def _repeated(file: str, rates: list[str]) -> str:
    """Return a line of a report below the table: a file's rates."""
    return ' '.join([f'"{file}"', *rates])
