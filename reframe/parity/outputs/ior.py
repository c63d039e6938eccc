"""IOR 4.0: bandwidth of reading and writing files by several tasks, plain, with -v, or as JSON.

bw counts from the first open to the last close, so it has both in it; with -e the fsync, too, which IOR
does at the end of wr/rd(s) of a write. The IOPS of a row leave out open and close, those of the summary
(the metrics here) are bw in transfers. With -R a read compares what it reads within its time.
"""

from __future__ import annotations

import re
import statistics

from . import Incomplete, Wrong, ior_checks, ior_command, ior_text
from .hpcc_text import whole
from .ior_checks import MIB, agree
from .ior_text import Output

FLAGS, VALUED = 'cCeEFgkKmrRuvwWxyYzZ', 'aAbdDfGijlMNoOQstTX'
_DEFAULTS = {'a': 'POSIX', 'b': '1m', 't': '256k', 's': '1', 'i': '1', 'Q': '1', 'o': 'testFile'}
_DIRECTIVES = {'api': 'a', 'blocksize': 'b', 'transfersize': 't', 'segmentcount': 's', 'repetitions': 'i',
               'taskpernodeoffset': 'Q', 'fileperproc': 'F', 'collective': 'c', 'reordertasks': 'C',
               'reordertasksconstant': 'C', 'randomoffset': 'z', 'writefile': 'w', 'readfile': 'r',
               'checkwrite': 'W', 'checkread': 'R', 'fsync': 'e', 'fsyncperwrite': 'Y',
               'useo_direct': 'posix.odirect', 'reordertasksrandom': 'Z', 'testfile': 'o', 'numtasks': 'N',
               'deadlineforstonewalling': 'D', 'maxtimeduration': 'T', 'keepfile': 'k'}
_PARAMETERS = {'fsync': 'e', 'fsyncperwrite': 'Y', 'readFile': 'r', 'writeFile': 'w', 'filePerProc': 'F',
               'reorderTasks': 'C', 'reorderTasksRandom': 'Z', 'randomOffset': 'z', 'checkWrite': 'W',
               'checkRead': 'R', 'collective': 'c'}
_VERSION = re.compile(r'4\.0\.\d{1,3}[\w+]*', re.ASCII)


def parse(text: str) -> dict[str, float]:
    """write and read (MiB/s, mean of the repetitions), each with _max, _min, _iops (1/s) and _seconds (s).

    Only what was run: with -w alone there is no read. ``_seconds`` is the mean time of a repetition; where
    it prints as zero, data over bandwidth. Raises Incomplete with the line where something is missing,
    Wrong when IOR warned of anything or its figures contradict each other.
    """
    output, _, accesses = _checked(text)
    found: dict[str, float] = {}
    for access in accesses:
        row = output.summary[access]
        found |= {access: float(row['bw_mean']), f'{access}_max': float(row['bw_max']),
                  f'{access}_min': float(row['bw_min']), f'{access}_iops': float(row['ops_mean']),
                  f'{access}_seconds': float(row['seconds']) or _seconds(output, access)}
    return found


def facts(text: str) -> dict[str, float | str]:
    """What was run: sizes in bytes, counts, and yes or no of what the command line asked for.

    ``fsync``, ``direct`` and the checks stand nowhere but in the command line (and, direct aside, in JSON).
    ``direct`` is what was asked for: a file system may take the flag and cache nevertheless (tmpfs does).
    Raises as ``parse`` does.
    """
    output, asked, accesses = _checked(text)
    row, said = output.summary[accesses[0]], output.options
    figures = {'tasks': row['tasks'], 'nodes': said['nodes'], 'clients_per_node': row['tpn'],
               'transfer_bytes': row['xfer'], 'block_bytes': row['block'], 'segments': row['segments'],
               'repetitions': row['reps']}
    found: dict[str, float | str] = {name: float(token) for name, token in figures.items()}
    found['aggregate_bytes'] = found['tasks'] * found['block_bytes'] * found['segments']
    words = {'fsync': 'e', 'fsync_per_write': 'Y', 'verified_write': 'W', 'verified_read': 'R', 'keep': 'k'}
    return {'api': said['api'], 'access': said['access'], 'type': said['type'],
            'ordering': said['ordering in a file'], **found,
            'reorder': said['ordering inter file'], 'task_offset': float(row['offset']),
            **{name: _yes(_is_set(asked, letter)) for name, letter in words.items()},
            'direct': _yes(_is_set(asked, 'posix.odirect') and said['api'].upper() == 'POSIX'),
            'overwritten': _yes(output.overwritten), 'command': output.command, 'path': said['test filename'],
            'filesystem': output.filesystem, 'filesystem_used_percent': float(output.used_percent),
            'version': output.version}


def _yes(truth: bool) -> str:
    return 'yes' if truth else 'no'


def _checked(text: str) -> tuple[Output, dict[str, str], list[str]]:
    """The output, what its command line asked for, and the accesses, once all of it can be believed."""
    output = ior_text.read(text)
    if not _VERSION.fullmatch(output.version):
        raise Wrong(f'IOR {output.version[:40]}: only 4.0 is read here')
    if not output.command.isprintable():
        raise Wrong('the command line has characters that cannot be printed')
    asked = _asked(_words(output.command, output.options['test filename']))
    accesses = _accesses(asked)
    for access in accesses:
        if access not in output.summary:
            raise Incomplete(f'line {output.lines}: the summary ends without {access}')
    agree('accesses in the summary and the command line', sorted(output.summary), sorted(accesses))
    for access in accesses:
        ior_checks.options(output, access)
    ior_checks.sequence(output, accesses)
    for access in accesses:
        ior_checks.table(output, access)
    _as_asked(output, asked)
    _layout(output, asked)
    return output, asked, accesses


def _words(command: str, path: str) -> list[str]:
    """The words after the program; IOR quotes nothing, so that blanks in paths must be told from others."""
    words = command.replace(path, path.replace(' ', '\0')).split()
    first = next((at for at, word in enumerate(words) if word.startswith('-')), len(words))
    return [word.replace('\0', ' ') for word in words[first:]]


def _asked(words: list[str]) -> dict[str, str]:
    """Letters of options -> values; directives of -O under the letter that they stand for."""
    found = ior_command.read(words, FLAGS, VALUED)
    if 'f' in found:
        raise Wrong('a script of tests (-f): its settings are not in the output; give them in the command line')
    if 'D' in found or 'deadlineforstonewalling' in found:
        raise Wrong('stopped after a time (-D): the bytes moved are not those asked for; run without -D')
    if 'T' in found or 'maxtimeduration' in found:
        raise Wrong('limited to a time (-T): repetitions may be missing; run without -T')
    found |= {letter: found[name] for name, letter in _DIRECTIVES.items() if name in found}
    return {**_DEFAULTS, **found}


def _is_set(asked: dict[str, str], letter: str) -> bool:
    return ior_command.size(asked.get(letter, '0'), f'-{letter}') > 0


def _accesses(asked: dict[str, str]) -> list[str]:
    """What was timed: without any of -w, -r, -W and -R, IOR writes and reads."""
    if not any(_is_set(asked, letter) for letter in 'wrWR'):
        asked.update(w='1', r='1')
    if _is_set(asked, 'R') and not _is_set(asked, 'r'):
        raise Wrong('-R without -r: IOR times the read but leaves it out of its summary; run with -r -R')
    found = [access for access, letter in (('write', 'w'), ('read', 'r')) if _is_set(asked, letter)]
    if not found:
        raise Wrong('-W alone times nothing; run with -w or -r')
    return found


def _as_asked(output: Output, asked: dict[str, str]) -> None:
    """The options that IOR printed are those of its command line."""
    said, row = output.options, next(iter(output.summary.values()))
    agree('api', said['api'], asked['a'])
    for letter, name in (('b', 'block'), ('t', 'xfer'), ('s', 'segments'), ('i', 'reps'), ('Q', 'offset')):
        agree(f'{name} and -{letter}', whole(row[name], name), ior_command.size(asked[letter], f'-{letter}'))
    for letter, option in (('F', 'access'), ('c', 'type'), ('z', 'ordering in a file')):
        agree(f'{option} and -{letter}', ior_checks.flag(output, option), int(_is_set(asked, letter)))
    for letter, name in (('C', 'reorder'), ('Z', 'random')):
        agree(f'{name} and -{letter}', whole(row[name], name) > 0, _is_set(asked, letter))
    agree('test filename and -o', said['test filename'], asked['o'])
    for name, letter in _PARAMETERS.items() if output.is_json else ():
        agree(f'{name} and -{letter}', whole(_parameter(output, name), name) > 0, _is_set(asked, letter))
    for name, label in (('nodes', 'nodes'), ('tasksPerNode', 'clients per node')) if output.is_json else ():
        agree(label, _parameter(output, name), said[label])


def _parameter(output: Output, name: str) -> str:
    if name not in output.parameters:
        raise Incomplete(f'line {output.lines}: the JSON lacks {name!r} in its parameters')
    return output.parameters[name]


def _layout(output: Output, asked: dict[str, str]) -> None:
    """Where it ran: tasks on nodes, and the file of the first task."""
    said = output.options
    nodes, tasks, each = (ior_checks.count(said[label], label) for label in ('nodes', 'tasks', 'clients per node'))
    if nodes == 1 and tasks > each:
        raise Wrong(f'{tasks} tasks on one node that has {each}')
    elsewhere = '@' in said['test filename'] or any(_is_set(asked, letter) for letter in 'uy')
    if not elsewhere and not output.path.startswith(said['test filename']):
        raise Wrong(f'Path is {output.path[:60]}, the test file {said["test filename"][:60]}')


def _seconds(output: Output, access: str) -> float:
    row = output.summary[access]
    mib = int(row['tasks']) * int(row['block']) * int(row['segments']) / MIB
    return statistics.fmean(mib / float(each['bw']) for name, each in output.rows if name == access)
