"""mdtest 4.0 (it comes with IOR): rates of creating, reading and removing directories and files.

Each rate is that of the slowest task times the tasks, over the iterations: maximum, minimum, mean and the
sample's standard deviation. The set of rows and the number of items follow from the command line. A rate
has no time beside it: with three iterations or more, what these four figures leave open is not noticed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal

from . import Incomplete, Wrong
from .hpcc_text import whole
from .ior_checks import agree
from .ior_command import read as read_command
from .ior_command import size
from .printed import duration

FLAGS, VALUED = 'CTErDFkLPRSctuvXyYZg', 'abdBefGiIlnNpsVwWxz'
# Row -> metric, the letter that asks for it alone, where it belongs; mdtest prints them in this order.
_ROWS = {
    'Directory creation': ('dir_create', 'C', 'D'), 'Directory stat': ('dir_stat', 'T', 'D'),
    'Directory rename': ('dir_rename', '', 'D'), 'Directory removal': ('dir_remove', 'r', 'D'),
    'File creation': ('file_create', 'C', 'F'), 'File stat': ('file_stat', 'T', 'F'),
    'File read': ('file_read', 'E', 'F'), 'File removal': ('file_remove', 'r', 'F'),
    'Tree creation': ('tree_create', 'C', ''), 'Tree removal': ('tree_remove', 'r', '')}
_DATE = r'\d\d/\d\d/\d{4} \d\d:\d\d:\d\d'
_STARTED = re.compile(rf'-- started at {_DATE} --', re.ASCII)
_FINISHED = re.compile(rf'-- finished at {_DATE} --', re.ASCII)
_LAUNCHED = re.compile(r'mdtest-(\S+) was launched with (\S+) total task\(s\) on (\S+) node\(s\)')
_COMMAND = re.compile(r'Command line used: (.*)')
_PATH = re.compile(r'Path : (.*)')
_FS = re.compile(r'FS : (\d+\.\d [GT]iB) Used FS: (-?\d+\.\d)% Inodes: \d+\.\d Mi Used Inodes: -?(?:\d+\.\d|nan)%',
                 re.ASCII)
_NODEMAP = re.compile(r'Nodemap: ([01]+)', re.ASCII)
_ITEMS = re.compile(r'(\S+) tasks, (\S+) (files/directories|files|file|directories)')
_SUMMARY = re.compile(r'SUMMARY rate: \(of (\S+) iterations\)')
_COLUMNS = 'Operation Max Min Mean Std Dev'
_ROW = re.compile('(' + '|'.join(_ROWS) + r')\b(.*)')
_WORDS = re.compile(r"([^']+?)((?: '[^']*')*)")
_VERSION = re.compile(r'4\.0\.\d{1,3}[\w+]*', re.ASCII)
_ONLY_OPENS = 'WARNING: Read bytes is 0, thus, a read test will actually just open/close'
_SAID = re.compile(r'.*(?:(?:WARNING|ERROR): |: Process \d+: FAILED in |verification error in file).*')
_REFUSED = re.compile(r'Error invalid argument: .*|Invalid options')
# Long or rare options that change what the table holds.
_UNREAD = {'P': 'also prints times', 'Z': 'prints times', 'W': 'stops after a time', 'f': 'runs several tests',
           'l': 'runs several tests', 's': 'runs several tests', 'x': 'stops after a time',
           'showRankStatistics': 'adds columns'}


@dataclass(frozen=True)
class _Asked:
    """What the command line asks for: options, rows, iterations, items of one task, bytes of a file."""

    options: dict[str, str]
    done: dict[str, bool]
    iterations: int
    items: int
    write_bytes: int
    read_bytes: int
    path: str


@dataclass(frozen=True)
class _Run:
    asked: _Asked
    figures: dict[str, tuple[Decimal, ...]]
    tasks: int
    nodes: int
    words: dict[str, str]


def parse(text: str) -> dict[str, float]:
    """Mean rates (operations/s) of what was done: dir_create, file_stat, tree_remove and so on.

    With more than one iteration also _max and _min of each. A phase not asked for, which prints as zero,
    is no metric; neither is the renaming of a single directory, which mdtest leaves out. Raises Incomplete
    with the line where something is missing, Wrong when mdtest warned or its figures contradict each other.
    """
    run = _run(text)
    found: dict[str, float] = {}
    for row, done in run.asked.done.items():
        if done:
            most, least, mean, _ = map(float, run.figures[row])
            name = _ROWS[row][0]
            found[name] = mean
            if run.asked.iterations > 1:
                found |= {f'{name}_max': most, f'{name}_min': least}
    return found


def facts(text: str) -> dict[str, float | str]:
    """What was run: tasks, nodes, items (of one task), total_items, iterations, bytes, yes or no of options.

    ``read_bytes`` 0: a file read only opens and closes. ``verified_read`` (-X) says that a wrong byte
    would have been noticed. Raises as ``parse`` does.
    """
    run = _run(text)
    asked = run.asked
    letters = {'unique': 'u', 'leaf_only': 'L', 'sync_file': 'y', 'shared_file': 'S', 'verified_read': 'X'}
    given = {name: letter in asked.options for name, letter in letters.items()}
    given['verified_read'] |= 'verify-read' in asked.options
    given['verified_write'] = 'verify-write' in asked.options
    words = {name: 'yes' if is_set else 'no' for name, is_set in given.items()}
    return {'tasks': float(run.tasks), 'nodes': float(run.nodes), 'items': float(asked.items),
            'total_items': float(run.words['items']), 'iterations': float(asked.iterations),
            'stride': float(_count(asked.options, 'N', 0)), 'depth': float(_count(asked.options, 'z', 0)),
            'branch_factor': float(_count(asked.options, 'b', 1)), 'write_bytes': float(asked.write_bytes),
            'read_bytes': float(asked.read_bytes), **words,
            'api': asked.options.get('a', 'POSIX'), 'command': run.words['command'], 'path': run.words['path'],
            'filesystem': run.words['filesystem'], 'filesystem_used_percent': float(run.words['used']),
            'version': run.words['version']}


def _run(text: str) -> _Run:
    lines = [line.strip(' \t\r') for line in text.split('\n')]
    words = [' '.join(line.split()) for line in lines]
    _own_words(words[:-1])
    last = _one(words, _FINISHED, '-- finished at')
    _own_words(words[-1:])                # only now: of an output that is cut, a harmless warning may be the end
    at = _one(lines, _COMMAND, 'Command line used:')
    command = _COMMAND.fullmatch(lines[at])[1]
    asked = _asked(command)
    order = [_one(words, _STARTED, '-- started at'), _one(words, _LAUNCHED, 'mdtest- was launched with'),
             at, _one(words, _PATH, 'Path'), _one(words, _FS, 'FS'),
             _one(words, _NODEMAP, 'Nodemap:'), _one(words, _ITEMS, 'tasks, ... files'),
             _one(words, _SUMMARY, 'SUMMARY rate:'), _one(words, re.compile(_COLUMNS), _COLUMNS), last]
    if order != sorted(order):
        raise Wrong('the parts of the output are out of order')
    version, tasks, nodes = _LAUNCHED.fullmatch(words[order[1]]).groups()
    if not _VERSION.fullmatch(version):
        raise Wrong(f'mdtest {version[:40]}: only 4.0 is read here')
    number = _tasks(tasks, nodes, _NODEMAP.fullmatch(words[order[5]])[1])
    items = _items(asked, number, *_ITEMS.fullmatch(words[order[6]]).groups())
    agree('iterations and -i', *(whole(token, 'iterations') for token in (
        _SUMMARY.fullmatch(words[order[7]])[1], str(asked.iterations))))
    path, file_system = _PATH.fullmatch(words[order[3]])[1], _FS.fullmatch(words[order[4]])
    agree('Path and -d', path, asked.path)
    _opens(asked, words.count(_ONLY_OPENS), number)
    figures = _table(words[order[8] + 1:last], last, asked)
    return _Run(asked, figures, number, int(nodes), {
        'command': command, 'path': path, 'filesystem': file_system[1], 'used': file_system[2], 'version': version,
        'items': str(items)})


def _own_words(lines: list[str]) -> None:
    """What mdtest itself says went wrong: its exit code is 0 even when data was not what it wrote."""
    for line in lines:
        if _REFUSED.fullmatch(line):
            raise Wrong(f'mdtest refused to run: {line[:160]}')
        if _SAID.fullmatch(line) and line != _ONLY_OPENS:
            raise Wrong(f'mdtest says: {line[:160]}')


def _one(lines: list[str], pattern: re.Pattern, what: str) -> int:
    """The index of the one line that is ``pattern``."""
    found = [at for at, line in enumerate(lines) if pattern.fullmatch(line)]
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without "{what}"')
    if len(found) > 1:
        raise Wrong(f'"{what}" in lines {found[0] + 1} and {found[1] + 1}: one run an output')
    return found[0]


def _asked(command: str) -> _Asked:
    match = _WORDS.fullmatch(command)
    if not match or not command.isprintable():
        raise Wrong(f'the command line {command[-60:]!r} is not a program and quoted words; mdtest cuts it at '
                    'about 1000 characters: use shorter paths')
    options = read_command(re.findall("'([^']*)'", match[2]), FLAGS, VALUED)
    for name, why in _UNREAD.items():
        if name in options:
            raise Wrong(f'mdtest with -{name} {why}: run it without')
    if _count(options, 'i', 1) < 1:
        raise Wrong('the command line asks for 0 iterations')
    items = _items_each(options)
    if not items:
        raise Wrong('0 items: the command line lacks -n or -I, or has fewer items than directories')
    return _Asked(options, _phases(options, items), _count(options, 'i', 1), items, _count(options, 'w', 0),
                  _count(options, 'e', 0), options.get('d', './out').split('@')[0])


def _count(options: dict[str, str], letter: str, default: int) -> int:
    return size(options[letter], f'-{letter}') if letter in options else default


def _phases(options: dict[str, str], items: int) -> dict[str, bool]:
    """The rows that mdtest prints -> whether they are done: -C, -T, -E and -r ask for one phase each."""
    everything = not any(letter in options for letter in 'CTEr')
    both = ('D' in options) == ('F' in options)
    wanted = {'D': (both or 'D' in options) and 'S' not in options, 'F': both or 'F' in options, '': True}
    return {row: (everything and items > 1) if not letter else everything or letter in options
            for row, (_, letter, kind) in _ROWS.items() if wanted[kind]}


def _items_each(options: dict[str, str]) -> int:
    """Items of one task: as many in every directory of the tree, the rest is left out."""
    number, each = _count(options, 'n', 0), _count(options, 'I', 0)
    depth, branch = _count(options, 'z', 0), _count(options, 'b', 1)
    if depth > 64 or branch > 10 ** 6 or (branch > 1 and depth * math.log(branch) > 60):
        raise Wrong(f'a tree of depth {depth} and branch factor {branch} is not credible')
    leaves = branch ** depth
    folders = sum(branch ** level for level in range(depth + 1)) if branch else 1
    if each:
        return number * folders if number else each * (leaves if 'L' in options else folders)
    parts = (leaves if branch > 1 else 1) if 'L' in options else folders
    return number // parts * parts


def _tasks(tasks: str, nodes: str, nodemap: str) -> int:
    number, hosts = whole(tasks, 'tasks'), whole(nodes, 'nodes')
    if len(nodemap) != number or nodemap[0] != '1':
        raise Wrong(f'{number} tasks, but the node map {nodemap[:60]} has {len(nodemap)}')
    if not 1 <= hosts <= number or (hosts == 1) != ('0' not in nodemap):
        raise Wrong(f'{hosts} nodes do not fit the node map {nodemap[:60]} (1: on the node of the first task)')
    return number


def _items(asked: _Asked, tasks: int, told: str, total: str, kind: str) -> int:
    """All tasks' items; one shared file (-S) is one."""
    has = {row[:4] for row in asked.done} - {'Tree'}
    expected = 1 if 'S' in asked.options else tasks * asked.items
    words = 'files/directories' if len(has) == 2 else 'directories' if has == {'Dire'} else 'files'
    words = 'file' if 'S' in asked.options else words
    agree('tasks', tasks, whole(told, 'tasks'))
    agree('items', f'{expected} {words}', f'{whole(total, "items")} {kind}')
    return expected


def _opens(asked: _Asked, warned: int, tasks: int) -> None:
    reads = not any(letter in asked.options for letter in 'CTEr') or 'E' in asked.options
    writes = not any(letter in asked.options for letter in 'CTEr') or 'C' in asked.options
    if reads and writes and asked.read_bytes > asked.write_bytes:
        raise Wrong(f'{asked.read_bytes} bytes read of files of {asked.write_bytes}')
    if bool(warned) != (reads and not asked.read_bytes) or warned > tasks:
        raise Wrong(f'-e {asked.read_bytes}, but mdtest warned {warned} times that it reads nothing')


def _table(lines: list[str], end: int, asked: _Asked) -> dict[str, tuple[Decimal, ...]]:
    found: dict[str, tuple[Decimal, ...]] = {}
    for match in filter(None, map(_ROW.fullmatch, lines)):
        if match[1] in found:
            raise Wrong(f'"{match[1]}" a second time before line {end + 1}')
        tokens = match[2].split()
        if len(tokens) != 4:
            raise Wrong(f'{match[1]}: {len(tokens)} figures, not maximum, minimum, mean and standard deviation')
        found[match[1]] = tuple(duration(token, f'rate of {match[1]}', places=3) for token in tokens)
    for row in asked.done:
        if row not in found:
            raise Incomplete(f'line {end + 1}: the table ends without "{row}"')
    agree('rows of the table', list(asked.done), list(found))
    for row, figures in found.items():
        _row(row, figures, asked.done[row], asked.iterations)
    return found


def _row(row: str, figures: tuple[Decimal, ...], done: bool, iterations: int) -> None:
    most, least, mean, deviation = map(float, figures)
    if not done:
        if any(figures):
            raise Wrong(f'{row}: a rate, although the command line does not ask for it')
        return
    if not least > 0:
        raise Wrong(f'{row}: minimum {figures[1]}: it must be above zero')
    if not most >= mean >= least:
        raise Wrong(f'{row}: maximum {figures[0]}, mean {figures[2]}, minimum {figures[1]}')
    lowest, highest = _deviations(most, least, mean, iterations)
    near = 0.003 + 1e-9 * most
    if not lowest - near <= deviation <= highest + near:
        raise Wrong(f'{row}: a standard deviation of {figures[3]} does not fit maximum {figures[0]}, minimum '
                    f'{figures[1]} and mean {figures[2]} of {iterations} iterations')


def _deviations(most: float, least: float, mean: float, iterations: int) -> tuple[float, float]:
    """The least and the greatest sample deviation of so many values with these extremes and this mean.

    One or two values leave no freedom, and of three the third is known; then both are the same.
    """
    near = 0.0005 * (iterations + 2)
    contradiction = Wrong(f'maximum {most}, minimum {least} and mean {mean} cannot be of {iterations} iterations')
    rest = iterations * mean - most - least
    others = iterations - 2
    if others <= 0:
        if abs(mean - (most + least) / 2) > near or (iterations == 1 and most != least):
            raise contradiction
        return (0.0, 0.0) if iterations == 1 else ((most - least) / math.sqrt(2),) * 2
    if not others * least - near <= rest <= others * most + near:
        raise contradiction
    ends = (most - mean) ** 2 + (least - mean) ** 2
    even = others * (rest / others - mean) ** 2
    # at most: all others but one at the ends
    high = min(others, max(0, math.floor((rest - others * least) / (most - least)))) if most > least else 0
    between = rest - high * most - (others - high - 1) * least if high < others else most
    uneven = high * (most - mean) ** 2 + max(0, others - high - 1) * (least - mean) ** 2 + (
        (between - mean) ** 2 if high < others else 0)
    return tuple(math.sqrt((ends + spread) / (iterations - 1)) for spread in (even, max(even, uneven)))
