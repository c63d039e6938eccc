"""IOR 4.0: bandwidth of writing and reading files by several tasks, from the tables that it prints. A phase moves
tasks x blocksize x segments bytes from its first open to its last close; with -e the fsync of a write is in that
time. The summary repeats the rows' bandwidth, and gives it a second time in transfers/s."""

from __future__ import annotations

import re
from statistics import fmean

from parity.check import Incomplete, Lines, Read, Wrong, agree, half, number, options, same, size, whole

MIB = 1 << 20
#: The exit code is no proof, it wraps at 256. Only one warning is harmless; it may be cut after some words.
_COMPLAINTS = (r'WARNING: (?!The file ").{10}|ERROR: |: Process \d+: FAILED in |mca_\w+: error in '
               r'|Error invalid argument: |Invalid options|Unrecognized parameter |Could not load backend API ')
#: With other options (a time limit, a script, JSON) figures stand elsewhere or mean something else.
_LETTERS = 'cCeFkrRvwWza:b:G:i:N:o:Q:s:t:'
_DEFAULTS = {'a': 'POSIX', 'b': '1m', 't': '256k', 's': '1', 'i': '1', 'Q': '1'}
_SIZES = {'block': 'b', 'xfer': 't', 'segments': 's', 'reps': 'i', 'offset': 'Q'}
#: What stands under Options without a flag of the command line, and with it.
_FLAGS = {'access': ('F', 'single-shared-file', 'file-per-process'), 'type': ('c', 'independent', 'collective'),
          'ordering in a file': ('z', 'sequential', 'random'),
          'ordering inter file': ('C', 'no tasks offsets', 'constant task offset')}
_RATES = ('mean', 'max', 'min', 'ops_mean', 'ops_max', 'ops_min')
_ECHOED = ('api', 'test filename', 'tasks', 'nodes', 'clients per node', *_FLAGS)
#: The columns of the two tables after the access; those called _ are not read.
_ROW = 'bw _ _ _ _ _ _ _ total iter'.split()
_SUMMARY = ('max min mean _ ops_max ops_min ops_mean _ seconds _ _ _ tasks tpn reps fpp reorder offset _ _ '
            'segments block xfer _ api _').split()


def read(text: str) -> Read:
    """write and read (MiB/s, mean of the repetitions), each with _max, _min, _iops (1/s) and _seconds (s).
    Facts: sizes in bytes, counts, and whether fsync and direct I/O were asked for (yes or no)."""
    out = Lines(text)
    out.refuse(_COMPLAINTS)
    out.one(r'Finished : \w{3} \w{3} \d\d? [\d:]{8} \d{4}', 'Finished')
    version = out.one(r'IOR-(\S+): MPI Coordinated Test of Parallel I/O', 'IOR-')[1]
    if not version.startswith('4.0.'):
        raise Wrong(f'IOR {version[:40]}: only 4.0 is read here')
    command = out.one('Command line : (.*)', 'Command line')[1]
    said = {name: out.one(f'{name} : (.*)', name)[1] for name in _ECHOED}
    asked = _asked(command, said['test filename'])
    metrics: dict[str, float] = {}
    for access in {'write', 'read'} if {'w', 'r'} & asked.keys() else ():
        if access[0] not in asked and out.every(rf'{access}( \S+)+'):
            raise Wrong(f'rows of {access}, which the command line does not ask for')
    for access in [name for name in ('write', 'read') if name[0] in asked] or ['write', 'read']:
        words = out.one(rf'{access}( \S+){{26}}', f'{access} in the summary')[0].split()
        row = dict(zip(_SUMMARY, words[1:], strict=True))
        counts = {name: whole(row[name], f'{name} of {access}') for name in ('tasks', 'tpn', *_SIZES)}
        _as_asked(asked, said, counts)
        flags = {'fpp': str(int('F' in asked)), 'reorder': str(int('C' in asked)), 'api': asked['a']}
        for name, flag in flags.items():
            same(f'{name} of {access}', row[name], flag)
        rows = [dict(zip(_ROW, each[0].split()[1:], strict=True)) for each in out.every(rf'{access}( \S+){{10}}')]
        if [each['iter'] for each in rows] != [str(i) for i in range(counts['reps'])]:
            error = Incomplete if len(rows) < counts['reps'] else Wrong
            raise error(f'line {out.end}: {len(rows)} rows of {access}, not {counts["reps"]} repetitions in order')
        metrics |= _figures(access, row, rows, counts)
    return metrics, {
        'api': said['api'], 'access': said['access'], 'type': said['type'], 'ordering': said['ordering in a file'],
        'reorder': said['ordering inter file'], 'task_offset': counts['offset'], 'tasks': counts['tasks'],
        'nodes': int(said['nodes']), 'clients_per_node': counts['tpn'], 'transfer_bytes': counts['xfer'],
        'block_bytes': counts['block'], 'segments': counts['segments'], 'repetitions': counts['reps'],
        'aggregate_bytes': counts['tasks'] * counts['block'] * counts['segments'],
        'fsync': 'yes' if 'e' in asked else 'no',
        'direct': 'yes' if 'posix.odirect' in asked and said['api'] == 'POSIX' else 'no',
        'command': command, 'path': said['test filename'], 'version': version}


def _asked(command: str, path: str) -> dict[str, str]:
    """The options of the command line, which quotes nothing: a path may have blanks."""
    before, found, after = command.partition(f' -o {path}')
    if not found:
        raise Wrong(f'test filename is {path[:60]!r}, the command line has another -o')
    words = [*re.sub('^.*?(?= -|$)', '', before).split(), *after.split()]
    asked = options(words, _LETTERS, ['posix.odirect'])
    if 'R' in asked and 'r' not in asked:
        raise Wrong('-R without -r: IOR times the read but leaves it out of its summary; run with -r -R')
    return _DEFAULTS | asked


def _as_asked(asked: dict[str, str], said: dict[str, str], counts: dict[str, int]) -> None:
    """Raise Wrong unless command line, options and summary tell of one run."""
    for what, one, other in (
            ('api and -a', said['api'], asked['a']), ('tasks', said['tasks'], str(counts['tasks'])),
            ('clients per node', said['clients per node'], str(counts['tpn'])),
            ('several nodes', whole(said['nodes'], 'nodes') > 1, counts['tasks'] > counts['tpn']),
            ('nodes', min(int(said['nodes']), counts['tasks']), int(said['nodes'])),
            *((f'{name} and -{letter}', counts[name], size(asked[letter], name))
              for name, letter in _SIZES.items()),
            *((f'{name} and -{letter}', said[name], words[letter in asked])
              for name, (letter, *words) in _FLAGS.items())):
        same(what, one, other)


def _figures(access: str, row: dict[str, str], rows: list[dict[str, str]], counts: dict[str, int]
             ) -> dict[str, float]:
    """The metrics of an access: its rows are the work that was asked for, its summary is of its rows."""
    mib, transfers = counts['tasks'] * counts['block'] * counts['segments'] / MIB, MIB / counts['xfer']
    rates = [number(each['bw'], f'bw of {access}') for each in rows]
    times = [number(each['total'], f'total of {access}', zero=True) for each in rows]
    for rate, seconds in zip(rates, times, strict=True):
        agree(rate, seconds, mib, access)
    found = {name: number(row[name], f'{name} of {access}', places=2) for name in _RATES}
    found['seconds'] = number(row['seconds'], f'seconds of {access}', zero=True, places=5)
    near = max(map(half, rates))
    for name, expected, slack in (
            ('mean', fmean(rates), near), ('max', max(rates), near), ('min', min(rates), near),
            *((f'ops_{name}', float(found[name]) * transfers, half(found[name]) * abs(transfers - 1))
              for name in ('mean', 'max', 'min')),
            ('seconds', fmean(times), max(map(half, times)))):
        if abs(float(found[name]) - float(expected)) > slack + half(found[name]) + 1e-9 * float(expected):
            raise Wrong(f'{name} of {access} is {found[name]}, {expected:.6g} by the other figures')
    seconds = float(found['seconds']) or fmean(mib / float(rate) for rate in rates)
    names = {'': 'mean', '_max': 'max', '_min': 'min', '_iops': 'ops_mean'}
    return {f'{access}{end}': float(found[name]) for end, name in names.items()} | {f'{access}_seconds': seconds}
