"""mdtest's output: real runs, and that no damaged output passes for a good one."""

import math
import re
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutations
from mutations import mutated, outcome
from parity.outputs import Incomplete, Wrong, mdtest

RECORDED = Path(__file__).parent / 'recorded' / 'mdtest'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: (mdtest.parse(text), mdtest.facts(text)) for name, text in TEXTS.items()}
BOTH, FILES, TWO = (TEXTS[f'mdtest-{name}'] for name in ('np2-u-we', 'np4-shared-F-we', 'np4-u'))
PHASES = [f'{kind}_{what}' for kind, whats in (('dir', ('create', 'stat', 'rename', 'remove')), ('tree', ('create', 'remove')),
                                               ('file', ('create', 'stat', 'read', 'remove'))) for what in whats]


def phases(name):
    return {metric for metric in ACCEPTED[name][0] if not metric.endswith(('_max', '_min'))}


# ---- what real runs say

def test_figures_of_files():
    assert mdtest.parse(FILES) == {
        'file_create': 18124.149, 'file_create_max': 24894.228, 'file_create_min': 13541.807,
        'file_stat': 302887.005, 'file_stat_max': 682555.574, 'file_stat_min': 54734.490,
        'file_read': 259601.664, 'file_read_max': 359717.324, 'file_read_min': 96944.505,
        'file_remove': 169005.617, 'file_remove_max': 240982.706, 'file_remove_min': 26222.595,
        'tree_create': 32815.637, 'tree_create_max': 45590.261, 'tree_create_min': 18477.110,
        'tree_remove': 2469.150, 'tree_remove_max': 4100.004, 'tree_remove_min': 442.484}


def test_facts():
    facts = mdtest.facts(BOTH)
    assert facts == {
        'tasks': 2, 'nodes': 1, 'items': 100, 'total_items': 200, 'iterations': 3, 'stride': 0, 'depth': 0, 'branch_factor': 1,
        'write_bytes': 1024, 'read_bytes': 1024, 'unique': 'yes', 'leaf_only': 'no', 'sync_file': 'no', 'shared_file': 'no',
        'verified_read': 'no', 'verified_write': 'no', 'api': 'POSIX', 'path': '/scratch/m', 'filesystem': '252.0 GiB',
        'filesystem_used_percent': 7.7, 'version': '4.0.1rc1+dev',
        'command': "/opt/bench/bin/mdtest '-n' '100' '-d' '/scratch/m' '-i' '3' '-u' '-w' '1024' '-e' '1024'"}


@pytest.mark.parametrize('name, expected', [
    ('np2-verify', {'verified_read': 'yes', 'verified_write': 'yes'}), ('np4-u', {'stride': 1, 'tasks': 4, 'read_bytes': 0}),
    ('np2-tree', {'depth': 2, 'branch_factor': 3, 'leaf_only': 'yes', 'items': 90, 'total_items': 180}),
    ('np2-tree-n', {'items': 91, 'total_items': 182}), ('np2-S', {'shared_file': 'yes', 'total_items': 1}),
    ('np2-nI', {'items': 40, 'total_items': 80}), ('np2-y', {'sync_file': 'yes'}), ('np2-u-400', {'version': '4.0.0', 'items': 500})])
def test_facts_of_others(name, expected):
    assert ACCEPTED[f'mdtest-{name}'][1] == ACCEPTED[f'mdtest-{name}'][1] | expected


@pytest.mark.parametrize('name, expected', [
    ('np1', PHASES), ('np2-D', [p for p in PHASES if 'file' not in p]), ('np2-verify', [p for p in PHASES if 'dir' not in p]),
    ('np2-C', ['file_create', 'tree_create']), ('np2-TE', ['file_stat', 'file_read']), ('np2-r', ['file_remove', 'tree_remove']),
    ('np2-S', [p for p in PHASES if 'dir' not in p]), ('np2-n1', [p for p in PHASES if p != 'dir_rename'])])
def test_only_what_was_done_is_a_metric(name, expected):
    assert phases(f'mdtest-{name}') == set(expected)


def test_one_iteration_has_no_maximum():
    assert phases('mdtest-np2-i1') == set(ACCEPTED['mdtest-np2-i1'][0])


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(mdtest, f'module load ior\n{text}real 0m2.742s\n') == ACCEPTED[name]


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=9))
def test_the_deviation_of_any_rates_is_within_its_bounds(rates):
    low, high = mdtest._deviations(max(rates), min(rates), statistics.fmean(rates), len(rates))
    assert low - 1e-3 <= statistics.stdev(rates) <= high + 1e-3


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'srun: error: node01: task 0: Killed\n', BOTH.split('-- finished')[0], BOTH.split('SUMMARY')[0],
                                  BOTH.split('   Tree removal')[0], BOTH.rstrip()[:-1]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .*finished at'):
        mdtest.parse(text)


@pytest.mark.parametrize('line', ['-- started', 'mdtest-', 'Command', 'Path', 'FS', 'Nodemap', '2 tasks', 'SUMMARY', '   Operation',
                                  '   Directory creation', '   Directory rename', '   File stat', '   File removal', '   Tree creation',
                                  '   Tree removal'])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', BOTH, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        mdtest.parse(text)


# ---- wrong

@pytest.mark.parametrize('name, message', [
    ('verify', r'verifying the data on read \(40 errors\)'), ('disk-full', 'partial write'), ('bytes', 'read bytes must be smaller'),
    ('P', '-P also prints times'), ('Z', '-Z prints times'), ('rank-statistics', 'adds columns'), ('stonewall', '-W stops'),
    ('several-tests', 'runs several tests')])
def test_a_run_that_went_wrong_is_wrong_in_the_words_of_mdtest(name, message):
    with pytest.raises(Wrong, match=message):
        mdtest.parse(ALL[f'fail-{name}'])


@pytest.mark.parametrize('said', [
    'WARNING: unable to create directory /scratch/m/test-dir.0-0/mdtest_tree.1.0/dir.mdtest.1.97', 'WARNING: unable to stat file file.mdtest.0.1',
    'WARNING: unable to read file file.mdtest.0.1', 'WARNING: Unable to remove directory /scratch/m', 'ERROR: mknod failed, (aiori-POSIX.c:612)',
    'V-1: Rank   0 Line   755 verification error in file: file.mdtest.0.1', 'WARNING: fsync(17) failed'])
def test_what_mdtest_says_went_wrong_is_never_lost(said):
    with pytest.raises(Wrong, match='mdtest says'):
        mdtest.parse(f'{BOTH}{said}')


WRONG = [
    ('8403.651', '84036.510', 'maximum 72805.138, mean 30406.632, minimum 84036.510'), ('30406.632', '80406.632', 'mean 80406.632'),
    ('36726.978', '36727.978', 'standard deviation of 36727.978'), ('8403.651', '0.000', 'above zero'), ('8403.651', '-8403.651', 'negative'),
    ('30406.632', 'nan', 'not a finite'), ('30406.632', '30406.63', '3 decimals'), ('30406.632', '31406.632', 'does not fit'),
    ('mdtest-4.0.1', 'mdtest-3.3.0', 'only 4.0'), ('2 tasks, 200', '2 tasks, 100', 'items: 200 files/directories and 100'),
    ('2 tasks, 200', '4 tasks, 200', 'tasks: 2 and 4'), ('with 2 total', 'with 4 total', 'the node map 11 has 2'),
    ('on 1 node', 'on 2 node', '2 nodes do not fit'), ('Nodemap: 11', 'Nodemap: 10', '1 nodes do not fit'),
    ('of 3 iterations', 'of 2 iterations', 'iterations and -i'), ("'-n' '100'", "'-n' '10'", 'items'), (" '-u'", " '-u' '-F'", 'items'),
    (" '-u'", " '-u' '-C'", 'does not ask'), ("'-d' '/scratch/m'", "'-d' '/scratch/n'", 'Path and -d'),
    ("'-e' '1024'", "'-e' '2048'", '2048 bytes read of files of 1024'), (" '-e' '1024'", '', 'mdtest warned 0 times'),
    (" '-u'", " '-q'", 'unknown option'), ("'1024'\n", "'10\n", 'use shorter paths'), (r'(?s)(.*)', r'\1\1', 'one run an output'),
    (r'(   File stat .*\n)', r'\1\1', '"File stat" a second time'), ("'-i' '3'", "'-i' '0'", '0 iterations'), ("'-u'", "'-z' '999999'", 'not credible'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, BOTH, count=1)
    assert count and text != BOTH, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        mdtest.parse(text)


def test_a_rate_of_what_was_not_done_is_wrong():
    with pytest.raises(Wrong, match='File stat: a rate, although'):
        mdtest.parse(re.sub('File stat  .*', 'File stat                       5.000          5.000          5.000          0.000',
                            TEXTS['mdtest-np2-C']))


def test_one_iteration_has_one_rate():
    with pytest.raises(Wrong, match='cannot be of 1 iterations'):
        mdtest.parse(TEXTS['mdtest-np2-i1'].replace('12866.753', '12867.753', 1))


# ---- mutations

# Printed once, so that nothing contradicts them; most stand in the command line alone.
ALONE = ('command', 'filesystem', 'filesystem_used_percent', 'version', 'write_bytes', 'read_bytes', 'stride')
# As these, when a part of the command line is cut out.
IN_COMMAND = ('unique', 'leaf_only', 'sync_file', 'verified_read', 'verified_write', 'depth', 'branch_factor', 'api')


def told(result, *but):
    return result and (result[0], {k: v for k, v in result[1].items() if k not in (*ALONE, *but)})


@pytest.mark.parametrize('kind', sorted(mutations.KINDS))
@mutated
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_mutated_output_is_refused_or_means_the_same(kind, name, data):
    result = outcome(mdtest, mutations.KINDS[kind](data.draw, TEXTS[name]))
    but = IN_COMMAND if kind in ('cut', 'several') else ('depth', 'branch_factor')
    assert told(result, *but) in (None, told(ACCEPTED[name], *but))


@mutated
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_changed_digit_is_noticed_or_below_the_digits_printed(name, data):
    """Three rates by four figures: where two rates are close, they may move apart before the deviation does.

    The items of a shared file (-S) stand in the command line alone.
    """
    result = outcome(mdtest, mutations.changed_digit(data.draw, TEXTS[name]))
    if result:
        metrics, facts = ACCEPTED[name]
        for metric, value in metrics.items():
            phase = re.sub('_(max|min)$', '', metric)
            spread = metrics.get(f'{phase}_max', value) - metrics.get(f'{phase}_min', value)
            near = 0.0061 + (math.sqrt(0.02 * spread) if facts['iterations'] > 2 else 0)
            assert result[0][metric] == pytest.approx(value, abs=near, rel=0)
        but = ('depth', 'branch_factor', *(['items'] if facts['shared_file'] == 'yes' else []))
        assert told(result, *but)[1] == told(ACCEPTED[name], *but)[1]


@mutated
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_truncated_output_is_incomplete(name, data):
    text = TEXTS[name]
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        mdtest.parse(text[:data.draw(st.integers(0, text.rindex(' --')))])


def test_a_damaged_label_of_the_command_line_is_incomplete():
    with pytest.raises(Incomplete, match='Command line used'):
        mdtest.parse(BOTH.replace('Command line', 'Command\tline'))
