"""mpiP's report: real runs, and that no damaged or limited report passes for a whole one."""

import json
import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, mpip

RECORDED = Path(__file__).parent / 'recorded' / 'mpip'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: mpip.read(text) for name, text in TEXTS.items()}
IS, CG, IOR = TEXTS['is.A.4'], TEXTS['cg.A.4'], TEXTS['ior.2']
END = '@--- End of Report'


def calls(name):
    return {call['call']: call for call in ACCEPTED[name][1]['calls']}


# ---- what real runs say

def test_metrics():
    assert mpip.read(IS)[0] == pytest.approx({
        'app_seconds_max': 1.598, 'app_seconds_mean': 1.59725, 'mpi_seconds_max': 0.275, 'mpi_seconds_mean': 0.25375,
        'computation_seconds_max': 1.361, 'computation_seconds_mean': 1.3435, 'mpi_share': 15.89,
        'imbalance': 1.361 / 1.3435}, rel=1e-12)


def test_facts():
    facts = mpip.read(IS)[1]
    assert {name: facts[name] for name in ('version', 'command', 'tasks', 'nodes')} == {
        'version': '3.5.0', 'command': '/opt/bench/bin/is.A.x', 'tasks': 4, 'nodes': ['node01']}
    assert facts['ranks'][3] == pytest.approx({'rank': 3, 'node': 'node01', 'app_seconds': 1.595, 'mpi_seconds': 0.251,
                                               'computation_seconds': 1.344})
    assert [call['call'] for call in facts['calls']] == [
        'Alltoallv', 'Allreduce', 'Alltoall', 'Comm_dup', 'Reduce', 'Wait', 'Bcast', 'Irecv', 'Send']
    assert facts['calls'][1] == {
        'call': 'Allreduce', 'seconds': 0.12979, 'count': 44, 'bytes': 181104, 'io_bytes': None, 'rma_bytes': None,
        'max_seconds': pytest.approx(11 * 0.00399, abs=6e-6), 'mean_seconds': pytest.approx(0.12979 / 4, abs=1e-6),
        'imbalance': pytest.approx(11 * 0.00399 / (0.12979 / 4), abs=2e-4)}


def test_bytes_of_files_and_of_one_sided_calls():
    assert {name: call['io_bytes'] for name, call in calls('ior.2').items() if call['io_bytes']} == {
        'File_write_at': 8 << 20, 'File_read_at': 8 << 20}
    assert calls('osu_put_latency.2')['Put']['rma_bytes'] == 20674700


def test_bytes_that_mpip_does_not_count_are_none_and_not_zero():
    assert calls('is.A.4')['Alltoallv']['bytes'] is None


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_every_report_is_of_the_run_its_name_says_and_sums_up(name):
    metrics, facts = ACCEPTED[name]
    ranks = int(re.search(r'\.(\d)(-|$)', name)[1])
    assert facts['tasks'] == ranks == len(facts['ranks'])
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert metrics['imbalance'] >= 1 and all(isinstance(value, float) for value in metrics.values())
    assert sum(call['seconds'] for call in facts['calls']) == pytest.approx(
        sum(rank['mpi_seconds'] for rank in facts['ranks']), abs=0.0006 * ranks)
    for call in facts['calls']:
        assert call['imbalance'] >= 1 and call['max_seconds'] <= call['seconds'] + 1e-6


def test_a_run_without_a_measurable_time_in_mpi():
    assert ACCEPTED['ep.A.1'][0] == {
        'app_seconds_max': 6.818, 'app_seconds_mean': 6.818, 'mpi_seconds_max': 0, 'mpi_seconds_mean': 0,
        'computation_seconds_max': 6.818, 'computation_seconds_mean': 6.818, 'mpi_share': 0, 'imbalance': 1}
    assert calls('ep.A.1')['Allreduce']['seconds'] == 12e-6


def test_nodes_are_named_once_and_each_rank_has_its_own():
    facts = mpip.read(IS.replace('2 node01', '2 node02').replace('3 node01', '3 node02.cluster'))[1]
    assert facts['nodes'] == ['node01', 'node02', 'node02.cluster']
    assert [rank['node'] for rank in facts['ranks']] == ['node01', 'node01', 'node02', 'node02.cluster']


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_does_not_matter(name):
    assert outcome(mpip.read, TEXTS[name].replace('\n', '\r\n')) == ACCEPTED[name]


# ---- incomplete

@pytest.mark.parametrize('name, options', [
    ('is.A.4-concise-fail', '-k 0 -e -v'), ('is.A.4-nodetail-fail', '-k 0 -e -d'), ('is.A.4-threshold-fail', '-k 0 -e -t 10'),
    ('is.A.4-collective-fail', '-k 0 -e -l'), ('cg.A.4-three-digits-fail', '-k 0')])
def test_a_report_of_other_options_says_which_give_the_whole(name, options):
    with pytest.raises(Incomplete, match=rf'^line \d+: a report of MPIP="{options}" is not read; set MPIP="-k 0 -e"'):
        mpip.read(ALL[name])
    with pytest.raises((Incomplete, Wrong)):                    # nor do its figures pass for whole ones
        mpip.read(ALL[name].replace(f': {options}', ': -k 0 -e'))


def test_the_options_as_rank_sh_sets_them():
    assert mpip.read(IS.replace(': -k 0 -e', ': -k0,-e'))[0] == ACCEPTED['is.A.4'][0]


@pytest.mark.parametrize('text', ['', 'Segmentation fault\n', IS.split(END)[0], IS.split('Callsite')[0]])
def test_a_report_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .*End of Report'):
        mpip.read(text)


def test_other_bytes_of_the_largest_than_of_the_ranks():
    with pytest.raises(Incomplete, match='have other calls or bytes'):
        mpip.read(IS.replace('181104.000 ', '181204.000 '))


def without_section(text, title):
    rest, count = re.subn(rf'-+\n@--- {re.escape(title)}.*\n-+\n(?:(?!--).*\n)*', '', text)
    assert count == 1
    return rest


@pytest.mark.parametrize('title', [
    'MPI Time', 'Aggregate Time', 'Aggregate Sent', 'Aggregate I/O', 'Callsite Time', 'Callsite Message', 'Callsite I/O'])
def test_a_lost_section_is_incomplete(title):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        mpip.read(without_section(IOR, title))


@pytest.mark.parametrize('line', ['@ mpiP', '@ Command', '@ Version', '@ Report generation', 'Task ', 'Call ', 'Name '])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', IS, count=1, flags=re.M)
    assert count
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        mpip.read(text)


# ---- wrong

ALLREDUCE_3 = 'Allreduce            4    3     11   10.259    3.166    0.106   2.18  13.90\n'
WRONG = [
    ('(?s)(.*)', r'\1\1', '2 lines "@--- End of Report"'),
    ('^@ mpiP', 'mpiP: WARNING: Failed to allocate memory to collect callsite info\n@ mpiP', 'mpiP: WARNING: Failed'),
    ('@ MPI Task Assignment      : 3 node01\n', '', 'times of ranks 0 1 2 3 .*: 3 ranks'),
    ('(@ MPI Task Assignment      : 3 node01)', r'\1\n\1', 'times of ranks 0 1 2 3 .*: 5 ranks'),
    (r'   3      1.595.*\n', '', r'times of ranks 0 1 2 \*: 4 ranks'),
    (r'   \*      6.389.*\n', '', r'times of ranks 0 1 2 3: 4 ranks'),
    ('6.389', '6.392', r'app times \(s\): 6.392, but its parts sum up to 6.389'),
    ('1.015', '1.025', 'rank [*]: 1.025 s in MPI of 6.389 s are not 15.89 %'),
    ('17.23', '18.23', 'rank 0: 0.275 s in MPI of 1.598 s are not 18.23 %'),
    ('0.275', '0.285', 'rank 0: 0.285 s in MPI'),
    ('1.598      0.275', '0.198      0.275', '0.275 s in MPI of 0.198 s'),
    ('1.598      0.275', '0.000      0.000', 'above zero'), ('0.275', '-0.275', 'negative'), ('0.275', 'nan', 'not a finite'),
    ('0.275', '0.27', '3 decimals'), ('777.097', '787.097', 'ms in Alltoallv: 787.097, but its parts sum up to 777.084'),
    (r'(Allreduce.*)129.790', r'\1********', 'not a finite'),
    ('Comm_dup               27', 'Comm_xyz               27', 'have other calls'), (r'Comm_dup               27     33.866.*\n', '', 'have other calls'),
    (ALLREDUCE_3, ALLREDUCE_3 + ALLREDUCE_3.replace(' 3 ', ' 4 ', 1), '34 of 33 rows'),
    (ALLREDUCE_3, ALLREDUCE_3.replace('3.166', '3.266'), 'ms in MPI of rank 3: 251.000, but its parts sum up to 251.738'),
    (ALLREDUCE_3, ALLREDUCE_3.replace(' 11 ', ' 12 '), 'ms in MPI of rank 3'), (ALLREDUCE_3, ALLREDUCE_3.replace('  3.166', ''), 'is no row of it'),
    (ALLREDUCE_3, ALLREDUCE_3.replace('10.259', '3.066'), 'times of Allreduce of rank 3: 0.106, 3.166, 3.066 are not'),
    ('(Allreduce            4    [*]     )44', r'\g<1>45', r'ms in MPI of rank \*'),
    (r'(Allreduce            4    0      11 .*)45276', r'\g<1>45275', 'the rows [*] are not the sums'),
    (r'(Allreduce            4    \*      44 .*)181104', r'\g<1>181103', 'the rows [*] are not the sums'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, IS, count=1)
    assert count and text != IS, f'{pattern} is not in the recorded report'
    with pytest.raises((Wrong, Incomplete) if pattern == ALLREDUCE_3 else Wrong, match=message):
        mpip.read(text)


def test_the_times_of_the_calls_are_the_mpi_time_of_the_rank():
    text = CG
    rank, row = re.search(r'   (\d)( +[\d.]+ +)([\d.]+) +[\d.]+\n', text).group(1, 0)
    app, mpi = (float(word) for word in row.split()[1:3])
    new = f'   {rank} {app:10.3f} {mpi - 0.02:10.3f}    {100 * (mpi - 0.02) / app:5.2f}\n'
    total = re.search(r'   \* +([\d.]+) +([\d.]+) +([\d.]+)\n', text)
    app_all, mpi_all = float(total[1]), float(total[2]) - 0.02
    text = text.replace(row, new).replace(total[0], f'   * {app_all:10.3f} {mpi_all:10.3f}    {100 * mpi_all / app_all:5.2f}\n')
    with pytest.raises(Wrong, match='ms in MPI of rank .*, but its parts sum up to'):
        mpip.read(text)
