"""mdtest 4.0 (it comes with IOR): rates of creating, reading and removing directories and files. A rate is that of
the slowest task times the tasks, over the iterations: maximum, minimum, mean and the sample's standard deviation.
Up to three iterations, each of the four follows from the others."""

from __future__ import annotations

import math
import statistics

from parity.check import Lines, Read, Wrong, number, options, same, size, whole

#: The exit code is 0 even when data was not what was written. Only one warning is harmless; it may be cut.
_COMPLAINTS = (r'WARNING: (?!Read bytes is 0).{15}|ERROR: |: Process \d+: FAILED in |verification error in file'
               r'|Error invalid argument: |Invalid options')
#: Phases, trees, time limits and shared files are not read: with them rows are absent or mean something else.
_LETTERS, _LONG = 'uvyXRn:i:w:e:d:N:a:G:', ('verify-read', 'verify-write')
_ROWS = {'Directory creation': 'dir_create', 'Directory stat': 'dir_stat', 'Directory rename': 'dir_rename',
         'Directory removal': 'dir_remove', 'File creation': 'file_create', 'File stat': 'file_stat',
         'File read': 'file_read', 'File removal': 'file_remove', 'Tree creation': 'tree_create',
         'Tree removal': 'tree_remove'}


def read(text: str) -> Read:
    """Mean rates (operations/s): dir_create, file_stat and so on; of several iterations also _max and _min. mdtest
    leaves out the renaming of a single directory.
    Facts: tasks, nodes, items (of one task), iterations, bytes; unique and verified_read: yes or no;
    ``read_bytes`` 0: a file read only opens and closes."""
    out = Lines(text)
    out.refuse(_COMPLAINTS)
    out.one(r'-- finished at [\d/]{10} [\d:]{8} --', '-- finished at')
    launched = out.one(r'mdtest-(\S+) was launched with (\S+) total task\(s\) on (\S+) node\(s\)', 'mdtest-')
    version, tasks, nodes = launched[1], whole(launched[2], 'tasks'), whole(launched[3], 'nodes')
    if not version.startswith('4.0.'):
        raise Wrong(f'mdtest {version[:40]}: only 4.0 is read here')
    command = out.one('Command line used: (.*)', 'Command line used:')[1]
    if command.count("'") % 2:
        raise Wrong('mdtest cuts its command line at about 1000 characters: use shorter paths')
    asked = {'a': 'POSIX', 'd': './out', **options(command.split("'")[1::2], _LETTERS, _LONG)}
    items, iterations, written, read, stride = (
        size(asked.get(letter, default), f'-{letter}') for letter, default in zip('niweN', '01000', strict=True))
    nodemap = out.one('Nodemap: ([01]+)', 'Nodemap:')[1]
    total = out.one(r'(\d+) tasks, (\d+) files/directories', 'tasks, ... files/directories')
    for what, one, other in (
            ('Nodemap of nodes and tasks', ('0' in nodemap, len(nodemap)), (nodes > 1, tasks)),
            ('tasks, files/directories', total.groups(), (str(tasks), str(tasks * items))),
            ('iterations and -i', out.count(r'SUMMARY rate: \(of (\S+) iterations\)'), iterations),
            ('Path and -d', out.one('Path : (.*)', 'Path')[1], asked['d'].split('@')[0])):
        same(what, one, other)
    metrics: dict[str, float] = {}
    for row, name in _ROWS.items():
        if items == 1 and name == 'dir_rename':
            out.one(rf'{row} 0.000 0.000 0.000 0.000', f'{row} 0.000')
        else:
            metrics |= _rates(name, out.one(rf'{row} (\S+) (\S+) (\S+) (\S+)', row).groups(), iterations)
    return metrics, {
        'tasks': tasks, 'nodes': nodes, 'items': items, 'total_items': tasks * items, 'iterations': iterations,
        'stride': stride, 'write_bytes': written, 'read_bytes': read, 'unique': 'yes' if 'u' in asked else 'no',
        'verified_read': 'yes' if {'X', 'verify-read'} & {*asked} else 'no',
        'api': asked['a'], 'path': asked['d'], 'command': command, 'version': version}


def _rates(name: str, tokens: tuple[str, ...], iterations: int) -> dict[str, float]:
    most, least, mean, deviation = (float(number(token, f'rate of {name}', zero=at == 3, places=3))
                                    for at, token in enumerate(tokens))
    if not possible(most, least, mean, deviation, iterations):
        raise Wrong(f'{name}: maximum {most}, minimum {least}, mean {mean} and deviation {deviation} cannot be of '
                    f'{iterations} iterations')
    return {name: mean} | ({f'{name}_max': most, f'{name}_min': least} if iterations > 1 else {})


def possible(most: float, least: float, mean: float, deviation: float, count: int) -> bool:
    """Return whether this number of rates can have these figures, each rounded to three decimals."""
    others = count - 2
    rates = [most, least, *[(count * mean - most - least) / max(others, 1)] * others][:count]     # others alike
    near = 1e-9 * most + (0.0005 * (count + 2) / others if others > 0 else 0.001 * (count - 1))
    if any(abs(one - other) > near for one, other in (
            (max(rates), most), (min(rates), least), (statistics.fmean(rates), mean))):
        return False
    lowest = statistics.stdev(rates * 2 if count == 1 else rates)
    highest = math.sqrt((most - mean) * (mean - least) * count / (count - 1)) if count > 3 else lowest
    return lowest - 0.003 - 1e-9 * most <= deviation <= highest + 0.003 + 1e-9 * most
