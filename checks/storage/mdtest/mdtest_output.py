"""mdtest (it comes with IOR): rates of creating, reading and removing directories and files.

A row has maximum, minimum, mean and standard deviation of several rates. Of up to three rates, each of the four
follows from the others. mdtest 4 has a rate of each iteration: the slowest task's times the tasks. mdtest 3.3 has
one of each task and iteration. That of IOR 3.2, which calls itself 1.9, has one of each iteration, too."""

from __future__ import annotations

import math
import shlex
import statistics
from typing import NamedTuple

from parity.check import Output, Program, Read, Wrong, number, options, same, size, whole

PROGRAM = Program(
    'mdtest',
    title=r'mdtest-(?P<version>\S+) was launched with (?P<tasks>\S+) total task\(s\) on (?P<nodes>\S+) node\(s\)',
    tried=('1.9', '4.1'), alone=r'mdtest-\S+ was launched with 1 total task\(s\) on 1 node\(s\)')

#: The exit code is 0 even when data was not what was written. Only one warning is harmless; it may be cut.
COMPLAINTS = (r'^(ior )?WARNING: (?!Read bytes is 0).{15}|^(ior )?ERROR: |: Process \d+: FAILED in '
              r'|verification error in file|^Error invalid argument: |^Invalid options')
#: With other options rows are absent or mean something else.
LETTERS, LONG = 'uvyXRn:i:w:e:d:N:a:G:', ('verify-read', 'verify-write')
REFUSED = {
    'W:': 'a run with a time limit',
    **dict.fromkeys(('f:', 'l:', 's:'), 'a run of several numbers of tasks'),
    **dict.fromkeys(('P', 'Z'), 'a table of times'),
    **dict.fromkeys(('C', 'T', 'E', 'r'), 'a run of some phases'),
    'F': 'a run on files alone', 'D': 'a run on directories alone'}
ROWS = {'Directory creation': 'dir_create', 'Directory stat': 'dir_stat', 'Directory rename': 'dir_rename',
        'Directory removal': 'dir_remove', 'File creation': 'file_create', 'File stat': 'file_stat',
        'File read': 'file_read', 'File removal': 'file_remove', 'Tree creation': 'tree_create',
        'Tree removal': 'tree_remove'}


class Asked(NamedTuple):
    """The command line: its options, and their sizes."""

    options: dict[str, str]
    items: int
    iterations: int
    write_bytes: int
    read_bytes: int
    stride: int


class Rates(NamedTuple):
    """The figures of a row."""

    most: float
    least: float
    mean: float
    deviation: float


def read(text: str) -> Read:
    """Mean rates (operations/s): dir_create, file_stat and so on; of several iterations also _max and _min. mdtest
    leaves out the renaming of a single directory, and 3 has none.
    Facts: tasks, nodes, items (of one task), iterations, bytes; unique and verified_read: yes or no;
    ``read_bytes`` 0: a file read only opens and closes."""
    out = PROGRAM.output(text)
    out.refuse(COMPLAINTS)
    out.ends_with(r'-- finished at [\d/]{10} [\d:]{8} --', '-- finished at')
    tasks, nodes = whole(out.title['tasks'], 'tasks'), whole(out.title['nodes'], 'nodes')
    asked = _asked(out)
    _demand_as_asked(out, asked, tasks, nodes)
    metrics: dict[str, float] = {}
    for row, name in ROWS.items():
        if name == 'dir_rename' and out.numbers < (4,):
            continue
        if name == 'dir_rename' and asked.items == 1:
            out.one(rf'{row} 0.000 0.000 0.000 0.000', f'{row} 0.000')
            continue
        rates = _rates(out, row, name, _counted(out, name, asked, tasks))
        metrics[name] = rates.mean
        if asked.iterations > 1:
            metrics[f'{name}_max'] = rates.most
            metrics[f'{name}_min'] = rates.least
    facts: dict[str, int | str] = {'tasks': tasks, 'nodes': nodes}
    facts['items'] = asked.items
    facts['total_items'] = tasks * asked.items
    facts['iterations'] = asked.iterations
    facts['stride'] = asked.stride
    facts['write_bytes'] = asked.write_bytes
    facts['read_bytes'] = asked.read_bytes
    return metrics, facts | _settings(out, asked)


def _settings(out: Output, asked: Asked) -> dict[str, str]:
    """Return what was set."""
    verified = asked.options.keys() & {'X', 'verify-read'}
    facts = {'unique': 'yes' if 'u' in asked.options else 'no'}
    facts['verified_read'] = 'yes' if verified else 'no'
    facts['api'] = asked.options['a']
    facts['path'] = asked.options['d']
    facts['command'] = out.value('Command line used', ': ')
    facts['version'] = out.version
    return facts | PROGRAM.untried(out.version)


def _asked(out: Output) -> Asked:
    """Return what the command line asked for."""
    command = out.value('Command line used', ': ')
    try:
        words = shlex.split(command)
    except ValueError:
        raise Wrong('mdtest cuts its command line at about 1000 characters: use shorter paths') from None
    given = options(words[1:], LETTERS, LONG, REFUSED)
    sizes = [size(given.get(letter, '0'), f'-{letter}') for letter in 'nweN']
    items, write_bytes, read_bytes, stride = sizes
    iterations = size(given.get('i', '1'), '-i')
    return Asked({'a': 'POSIX', 'd': './out', **given}, items, iterations, write_bytes, read_bytes, stride)


def _demand_as_asked(out: Output, asked: Asked, tasks: int, nodes: int) -> None:
    """Raise Wrong unless command line, title and summary tell of one run."""
    nodemap = out.one if out.numbers >= (4,) else out.maybe
    map_of_tasks = nodemap('Nodemap: ([01]+)', 'Nodemap:')
    if map_of_tasks:
        several = '0' in map_of_tasks[1]
        same('Nodemap of nodes and tasks', (several, len(map_of_tasks[1])), (nodes > 1, tasks))
    same('nodes', min(nodes, tasks), nodes)
    total = out.one(r'(\d+) tasks, (\d+) files/directories', 'tasks, ... files/directories')
    same('tasks, files/directories', total.groups(), (str(tasks), str(tasks * asked.items)))
    iterations = out.count(r'SUMMARY rate(?: \(in ops/sec\))?: \(of (\S+) iterations\)')
    same('iterations and -i', iterations, asked.iterations)
    path = out.one('Path ?: (.*)', 'Path')[1]
    if out.numbers >= (4,):         # before, it is the real path of the folder above
        same('Path and -d', path, asked.options['d'].split('@')[0])


def _counted(out: Output, name: str, asked: Asked, tasks: int) -> int:
    """Return how many rates a row sums up."""
    of_each_task = (3,) <= out.numbers < (4,) and not name.startswith('tree_')
    return asked.iterations * tasks if of_each_task else asked.iterations


def _rates(out: Output, row: str, name: str, count: int) -> Rates:
    """Return the figures of a row, which ``count`` rates can have."""
    colon = ' ?:' if out.numbers < (4,) else ''
    tokens = out.one(rf'{row}{colon} (\S+) (\S+) (\S+) (\S+)', row).groups()
    figures = []
    for at, token in enumerate(tokens):
        figures.append(float(number(token, f'rate of {name}', zero=at == 3, places=3)))
    rates = Rates(*figures)
    if possible(rates, count, of_all=out.numbers < (4,)):
        return rates
    most, least, mean, deviation = rates
    raise Wrong(f'{name}: maximum {most}, minimum {least}, mean {mean} and deviation {deviation} cannot be of '
                f'{count} rates')


def possible(rates: Rates, count: int, of_all: bool = False) -> bool:
    """Return whether this number of rates can have these figures, each rounded to three decimals.

    The deviation is a sample's, or with ``of_all`` that of all rates there are."""
    most, least, mean, deviation = rates
    others = count - 2
    middle = (count * mean - most - least) / max(others, 1)
    alike = [most, least, *[middle] * others][:count]
    near = 1e-9 * most + 0.001 * (count - 1)
    if others > 0:
        near = 1e-9 * most + 0.0005 * (count + 2) / others
    gaps = (max(alike) - most, min(alike) - least, statistics.fmean(alike) - mean)
    if max(map(abs, gaps)) > near:
        return False
    lowest = statistics.pstdev(alike)
    highest = math.sqrt(max(0.0, (most - mean) * (mean - least))) if count > 3 else lowest
    if not of_all and count > 1:
        of_a_sample = math.sqrt(count / (count - 1))
        lowest, highest = lowest * of_a_sample, highest * of_a_sample
    unsure = 0.003 + 1e-9 * most
    return lowest - unsure <= deviation <= highest + unsure
