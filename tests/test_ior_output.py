"""IOR's tables: real runs, and that no damaged output passes for a good one."""

import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, ior

RECORDED = Path(__file__).parent / 'recorded' / 'ior'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: ior.read(text) for name, text in TEXTS.items()}
TABLE = TEXTS['ior-posix-np4-shared-cq']
FINISHED = {name: re.search('Finished .*', text).end() - 1 for name, text in TEXTS.items()}


# ---- what real runs say

def test_figures_of_three_repetitions():
    assert ior.read(TABLE)[0] == {
        'write': 1045.00, 'write_max': 1817.01, 'write_min': 262.64, 'write_iops': 1045.00, 'write_seconds': 0.11318,
        'read': 8386.86, 'read_max': 10998.30, 'read_min': 5613.10, 'read_iops': 8386.86, 'read_seconds': 0.00824}


def test_facts():
    facts = ior.read(TABLE)[1]
    assert facts == facts | {
        'api': 'POSIX', 'access': 'single-shared-file', 'type': 'independent', 'ordering': 'sequential', 'tasks': 4,
        'nodes': 1, 'clients_per_node': 4, 'transfer_bytes': 2 ** 20, 'block_bytes': 8 * 2 ** 20, 'segments': 2,
        'repetitions': 3, 'aggregate_bytes': 64 * 2 ** 20, 'fsync': 'yes', 'reorder': 'constant task offset',
        'task_offset': 2, 'direct': 'no', 'path': '/scratch/b', 'version': '4.0.1rc1+dev',
        'command': '/opt/bench/bin/ior -a POSIX -b 8m -t 1m -s 2 -i 3 -e -C -Q 2 -w -r -o /scratch/b'}


@pytest.mark.parametrize('name, expected', [
    ('ior-mpiio-np4-collective', {'api': 'MPIIO', 'type': 'collective', 'tasks': 4, 'segments': 4, 'fsync': 'no'}),
    ('ior-posix-np2-verify', {'access': 'file-per-process', 'reorder': 'constant task offset'}),
    ('ior-posix-np2-odirect', {'direct': 'yes'}),
    ('ior-posix-np2-tmpfs-odirect', {'direct': 'yes', 'path': '/dev/shm/i'}),
    ('ior-posix-np2-random-shared', {'ordering': 'random', 'transfer_bytes': 65536}),
    ('ior-posix-np2-defaults', {'block_bytes': 2 ** 20, 'transfer_bytes': 2 ** 18, 'reorder': 'no tasks offsets'}),
    ('ior-posix-2nodes-shared', {'nodes': 2, 'clients_per_node': 1, 'task_offset': 1}), ('ior-posix-np2-400', {'version': '4.0.0'})])
def test_facts_of_others(name, expected):
    assert ACCEPTED[name][1] == ACCEPTED[name][1] | expected


def test_what_was_not_run_is_no_metric():
    assert {name.partition('_')[0] for name in ACCEPTED['ior-posix-np2-write'][0]} == {'write'}
    assert {name.partition('_')[0] for name in ACCEPTED['ior-posix-np2-read'][0]} == {'read'}


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(ior.read, f'module load ior\n{text}real 0m2.742s\n') == ACCEPTED[name]


def test_a_useless_option_is_no_direct_io():
    """Only the backend POSIX opens with O_DIRECT."""
    text = TEXTS['ior-mpiio-np2-400'].replace('-a MPIIO', '-a MPIIO --posix.odirect')
    assert ior.read(text)[1]['direct'] == 'no'


# ---- the command line

@pytest.mark.parametrize('words, expected', [
    ('-wr -b 4m', {'w': '', 'r': '', 'b': '4m'}), ('-wrb 4m', {'w': '', 'r': '', 'b': '4m'}), ('-t1m -F', {'t': '1m', 'F': ''}),
    ('--posix.odirect -w', {'posix.odirect': '', 'w': ''})])
def test_options_stand_joined_or_alone(words, expected):
    assert ior.options(words.split(), 'Fwrb:t:', ['posix.odirect']) == expected


@pytest.mark.parametrize('words, message', [('-B', 'option -B not'), ('-w 4m', "'4m' where an option"), ('-b', 'option -b requires'),
                                            ('--posix.odirect 4', "'4' where an option"), ('-w -', "'-' where an option")])
def test_what_ior_would_refuse_is_wrong(words, message):
    with pytest.raises(Wrong, match=message):
        ior.options(words.split(), 'Fwrb:t:', ['posix.odirect'])


@pytest.mark.parametrize('token, size', [('8', 8), ('4k', 4096), ('2M', 2 ** 21), ('1g', 2 ** 30), ('3t', 3 * 2 ** 40)])
def test_sizes_are_powers_of_two(token, size):
    assert ior.size(token, '-b') == size


def test_blanks_in_paths():
    text = TABLE.replace('/scratch/b', '/my scratch/b').replace('/opt/bench', '/opt/my bench')
    assert ior.read(text)[1]['path'] == '/my scratch/b'


# ---- incomplete

@pytest.mark.parametrize('text', [
    '', 'srun: error: node01: task 0: Killed\n', TABLE.split('Finished')[0], TABLE.split('Summary')[0],
    TABLE.split('Results:')[0]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .*Finished'):
        ior.read(text)


@pytest.mark.parametrize('line', ['IOR-', 'Command line', 'api  ', 'test filename', 'access +:', 'type', 'ordering in a', 'ordering inter',
                                  'nodes', 'tasks', r'read .*POSIX', r'write .*POSIX', 'Finished'])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', TABLE, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        ior.read(text)


@pytest.mark.parametrize('row', ['write .* 0   ', 'write .* 2   ', 'read .* 1   ', 'read .* 2   '])
def test_a_missing_repetition_is_refused(row):
    text, count = re.subn(rf'^{row}\n', '', TABLE, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match='2 rows of (write|read), not 3 repetitions in order'):
        ior.read(text)


# ---- wrong

@pytest.mark.parametrize('name, message', [
    ('corrupted', r'Incorrect data on read \(1 errors found\)'), ('corrupted-128', r'Incorrect data on read \(128 errors'),
    ('disk-full', 'partial write'), ('mpiio-disk-full', 'Expected aggregate file size'), ('short-file', 'EOF prematurely'),
    ('long-file', 'Expected aggregate file size'), ('odirect-refused', r'open64\(.* Invalid argument'),
    ('odirect-unaligned', 'failed Invalid argument'), ('stonewall', 'Expected aggregate'),
    ('R-only', 'run with -r -R'), ('bad-sizes', 'multiple of transfer size'), ('no-folder', 'error during statfs'),
    ('too-few-ranks', r'More tasks requested \(4\)')])
def test_a_run_that_went_wrong_is_wrong_in_the_words_of_ior(name, message):
    with pytest.raises(Wrong, match=message):
        ior.read(ALL[f'fail-{name}'])


@pytest.mark.parametrize('said', [
    'WARNING: inconsistent file size by different tasks', 'WARNING: overflow in errors counted', 'WARNING: The files differ in size',
    'WARNING: Incorrect data on write (3 errors found).', 'WARNING: fsync(17) failed', 'ERROR: cannot write to file, (ior.c:1656)',
    'WARNING: fsync() not supported in selected backend. Using value of 0.', 'WARNING: Stat() of aggregate file size      = 5',
    '11/20/2026 19:30:03: Process 1: FAILED in TestIoSys, Cannot create file', 'Invalid options',
    'mca_fbtl_posix_pwritev: error in (p)write(v):No space left on device'])
@pytest.mark.parametrize('at', [0, 40, 99])
def test_what_ior_says_went_wrong_is_never_lost(said, at):
    lines = TABLE.split('\n')
    with pytest.raises(Wrong, match=re.escape(' '.join(said.split()))):
        ior.read('\n'.join([*lines[:at], said, *lines[at:]]))


@pytest.mark.parametrize('line', ['Began ', 'FS  ', 'Results:', 'Operation '])
def test_a_line_that_no_figure_needs_may_be_lost(line):
    assert ior.read(re.sub(f'(?m)^{line}.*\n', '', TABLE))[0] == ior.read(TABLE)[0]


WRONG = [
    (r'(write     )262\.64', r'\g<1>264.64', 'is not the work of 64'), ('10998 ', '11998 ', 'not the work'),
    (r'(write .*POSIX      0\n)', r'\1\1', '2 lines "write in the summary"'), (r'(write .*   1   \n)', r'\1\1', '4 rows of write, not 3'),
    ('1817.01     262.64    1045.00', '1817.01     262.64    1055.00', 'mean of write is 1055.00, 1045 by'),
    ('1817.01     262.64', '1818.01     262.64', 'max of write'), ('262.64    1045.00', '263.64    1045.00', 'min of write'),
    ('5613.10    8386.86', '5613.10    8386.36', 'ops_mean of read is 8386.86, 8386.36'), ('0.11318', '0.12318', 'seconds of write'),
    (r' 8388608  ', ' 8388609  ', 'block and -b'), (r'  1048576      64', '  1048577      64', 'xfer and -t'),
    ('tasks               : 4', 'tasks               : 2', 'tasks: 2 and 4'), ('nodes               : 1', 'nodes               : 2', 'several nodes'),
    ('-s 2', '-s 4', 'segments and -s'), ('-i 3', '-i 2', 'reps and -i'), ('-b 8m', '-b 4m', 'block and -b'), ('-Q 2', '-Q 3', 'offset and -Q'),
    (' -C', '', 'ordering inter file and -C'), (' -w', ' -F -w', 'access and -F'), (' -w', ' -c -w', 'type and -c'), (' -w', ' -z -w', 'ordering in a file and -z'),
    ('-o /scratch/b', '-o /scratch/c', 'test filename'), ('-a POSIX', '-a MPIIO', 'api'), (' -w', ' -D 5 -w', 'option -D not recognized'),
    (' -w', ' -T 5 -w', 'option -T not recognized'), (' -w', ' -f script -w', 'option -f not recognized'), (' -w', ' -O fsync=1 -w', 'option -O not recognized'), (' -t 1m', ' -t 1x', '1x'),
    ('single-shared-file', 'single-file', 'single-file'), ('IOR-4.0.1', 'IOR-3.3.0', 'only 4.0'), ('262.64 ', 'nan ', 'not a finite'),
    ('262.64 ', '-262.64 ', 'above zero'), ('262.64 ', '0.000000 ', 'above zero'), ('1045.00', '1045.0', '2 decimals'),
    ('0.11318', '0.113', '5 decimals'), (r'(?s)(.*)', r'\1\1', '2 lines "Finished"'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, TABLE, count=1)
    assert count and text != TABLE, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        ior.read(text)


# ---- mutations


def test_a_last_line_without_end_counts():
    with pytest.raises(Wrong, match='Incorrect data'):
        ior.read(f'{TABLE}WARNING: Incorrect data on read (1 errors found).')
