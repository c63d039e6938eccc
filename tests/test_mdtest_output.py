"""mdtest's output: real runs, and that no damaged output passes for a good one."""

import re
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutations import outcome
from parity.outputs import Incomplete, Wrong, mdtest

RECORDED = Path(__file__).parent / 'recorded' / 'mdtest'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: mdtest.read(text) for name, text in TEXTS.items()}
BOTH = TEXTS['mdtest-np2-u-we']
ROWS = ['dir_create', 'dir_stat', 'dir_rename', 'dir_remove', 'file_create', 'file_stat', 'file_read', 'file_remove', 'tree_create',
        'tree_remove']


# ---- what real runs say

def test_figures():
    metrics = mdtest.read(BOTH)[0]
    assert list(metrics) == [f'{name}{end}' for name in ROWS for end in ('', '_max', '_min')]
    assert [metrics[f'file_stat{end}'] for end in ('', '_max', '_min')] == [833744.363, 2474515.634, 10009.078]
    assert [metrics[f'dir_remove{end}'] for end in ('', '_max', '_min')] == [409.679, 424.316, 383.162]


def test_facts():
    assert mdtest.read(BOTH)[1] == {
        'tasks': 2, 'nodes': 1, 'items': 100, 'total_items': 200, 'iterations': 3, 'stride': 0, 'write_bytes': 1024, 'read_bytes': 1024,
        'unique': 'yes', 'verified_read': 'no', 'api': 'POSIX', 'path': '/scratch/m', 'version': '4.0.1rc1+dev',
        'command': "/opt/bench/bin/mdtest '-n' '100' '-d' '/scratch/m' '-i' '3' '-u' '-w' '1024' '-e' '1024'"}


@pytest.mark.parametrize('name, expected', [
    ('np4-u', {'stride': 1, 'tasks': 4, 'read_bytes': 0}), ('np2-y', {'items': 20, 'unique': 'no'}), ('np2-v', {'iterations': 2}),
    ('np2-u-400', {'version': '4.0.0', 'items': 500})])
def test_facts_of_others(name, expected):
    assert ACCEPTED[f'mdtest-{name}'][1] == ACCEPTED[f'mdtest-{name}'][1] | expected


def test_a_single_directory_is_not_renamed():
    assert {name for name in ACCEPTED['mdtest-np2-n1'][0] if '_m' not in name} == {*ROWS} - {'dir_rename'}


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(mdtest.read, f'module load ior\n{text}real 0m2.742s\n') == ACCEPTED[name]


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=9))
def test_figures_of_any_rates_are_possible_and_another_deviation_is_not(rates):
    deviation = statistics.stdev(rates) if len(rates) > 1 else 0
    figures = [round(figure, 3) for figure in (max(rates), min(rates), statistics.fmean(rates), deviation)]
    assert mdtest.possible(*figures, len(rates))
    if len(rates) <= 3:
        assert not mdtest.possible(*figures[:3], 1.01 * deviation + 0.01, len(rates))
        assert not mdtest.possible(*figures[:3], 0.99 * deviation - 0.01, len(rates))


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'srun: error: node01: task 0: Killed\n', BOTH.split('-- finished')[0], BOTH.split('SUMMARY')[0],
                                  BOTH.split('   Tree removal')[0], BOTH.rstrip()[:-1]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .*finished at'):
        mdtest.read(text)


@pytest.mark.parametrize('line', ['mdtest-', 'Command', 'Path', 'Nodemap', '2 tasks', 'SUMMARY', '   Directory creation', '   Directory rename',
                                  '   File stat', '   File removal', '   Tree creation', '   Tree removal', '-- finished'])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', BOTH, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        mdtest.read(text)


# ---- wrong

@pytest.mark.parametrize('name, message', [
    ('verify', r'verifying the data on read \(40 errors\)'), ('disk-full', 'partial write'), ('bytes', 'read bytes must be smaller'),
    ('P', 'option -P not'), ('Z', 'option -Z not'), ('rank-statistics', 'option --showRankStatistics not'), ('stonewall', 'option -W not'),
    ('several-tests', 'option -f not recognized; parity reads runs with -u, -v')])
def test_a_run_that_went_wrong_is_wrong_in_the_words_of_mdtest(name, message):
    with pytest.raises(Wrong, match=message):
        mdtest.read(ALL[f'fail-{name}'])


@pytest.mark.parametrize('said', [
    'WARNING: unable to create directory /scratch/m/test-dir.0-0/mdtest_tree.1.0/dir.mdtest.1.97', 'WARNING: unable to stat file file.mdtest.0.1',
    'WARNING: unable to read file file.mdtest.0.1', 'WARNING: Unable to remove directory /scratch/m', 'ERROR: mknod failed, (aiori-POSIX.c:612)',
    'V-1: Rank   0 Line   755 verification error in file: file.mdtest.0.1', 'WARNING: fsync(17) failed'])
def test_what_mdtest_says_went_wrong_is_never_lost(said):
    with pytest.raises(Wrong, match=re.escape(' '.join(said.split()))):
        mdtest.read(f'{BOTH}{said}')


WRONG = [
    ('8403.651', '84036.510', 'dir_create: maximum 72805.138, minimum 84036.51, mean 30406.632'), ('30406.632', '80406.632', 'mean 80406.632'),
    ('36726.978', '36727.978', 'deviation 36727.978 cannot be of 3'), ('8403.651', '0.000', 'above zero'), ('8403.651', '-8403.651', 'above zero'),
    ('30406.632', 'nan', 'not a finite'), ('30406.632', '30406.63', '3 decimals'), ('30406.632', '31406.632', 'cannot be'),
    ('mdtest-4.0.1', 'mdtest-3.3.0', 'only 4.0'), ('2 tasks, 200', '2 tasks, 100', 'tasks, files/directories'),
    ('2 tasks, 200', '4 tasks, 200', 'tasks, files/directories'), ('with 2 total', 'with 4 total', 'Nodemap of nodes and tasks'),
    ('on 1 node', 'on 2 node', 'Nodemap'), ('Nodemap: 11', 'Nodemap: 10', 'Nodemap'), ('of 3 iterations', 'of 2 iterations', 'iterations and -i'),
    ("'-n' '100'", "'-n' '10'", 'tasks, files'), (" '-u'", " '-u' '-F'", 'option -F'), (" '-u'", " '-u' '-C'", 'option -C'),
    ("'-d' '/scratch/m'", "'-d' '/scratch/n'", 'Path and -d'), (" '-u'", " '-q'", 'option -q not recognized'), ("'1024'\n", "'10\n", 'use shorter paths'),
    (r'(?s)(.*)', r'\1\1', '2 lines "-- finished at"'), (r'(   File stat .*\n)', r'\1\1', '2 lines "File stat"'), ("'-i' '3'", "'-i' '0'", 'iterations'),
    ("'-u'", "'-z' '9'", 'option -z'), ('File creation .*', 'File creation 0.000 0.000 0.000 0.000', 'file_create is 0.000')]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, BOTH, count=1)
    assert count and text != BOTH, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        mdtest.read(text)


def test_one_iteration_has_one_rate():
    with pytest.raises(Wrong, match='cannot be of 1 iterations'):
        mdtest.read(re.sub('of 3 iter', 'of 1 iter', BOTH).replace("'-i' '3'", "'-i' '1'"))
