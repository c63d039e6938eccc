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
ACCEPTED = {name: (mpip.parse(text), mpip.facts(text)) for name, text in TEXTS.items()}
IS, CG, IOR = TEXTS['is.A.4'], TEXTS['cg.A.4'], TEXTS['ior.2']
END = '@--- End of Report'


def calls(name):
    return {call['call']: call for call in ACCEPTED[name][1]['calls']}


# ---- what real runs say

def test_metrics():
    assert mpip.parse(IS) == pytest.approx({
        'app_seconds_max': 1.598, 'app_seconds_mean': 1.59725, 'mpi_seconds_max': 0.275, 'mpi_seconds_mean': 0.25375,
        'computation_seconds_max': 1.361, 'computation_seconds_mean': 1.3435, 'mpi_share': 15.89,
        'imbalance': 1.361 / 1.3435}, rel=1e-12)


def test_facts():
    facts = mpip.facts(IS)
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


def test_callsites_become_calls():
    assert 'Callsites: ' in TEXTS['is.A.2-callsites']
    assert calls('is.A.2-callsites').keys() == calls('is.A.2').keys()
    assert calls('is.A.2-callsites')['Alltoallv']['count'] == calls('is.A.2')['Alltoallv']['count'] == 22


def test_a_run_without_a_measurable_time_in_mpi():
    assert ACCEPTED['ep.A.1'][0] == {
        'app_seconds_max': 6.818, 'app_seconds_mean': 6.818, 'mpi_seconds_max': 0, 'mpi_seconds_mean': 0,
        'computation_seconds_max': 6.818, 'computation_seconds_mean': 6.818, 'mpi_share': 0, 'imbalance': 1}
    assert calls('ep.A.1')['Allreduce']['seconds'] == 12e-6


def test_nodes_are_named_once_and_each_rank_has_its_own():
    facts = mpip.facts(IS.replace('2 node01', '2 node02').replace('3 node01', '3 node02.cluster'))
    assert facts['nodes'] == ['node01', 'node02', 'node02.cluster']
    assert [rank['node'] for rank in facts['ranks']] == ['node01', 'node01', 'node02', 'node02.cluster']


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_does_not_matter(name):
    assert outcome(mpip, TEXTS[name].replace('\n', '\r\n')) == ACCEPTED[name]


# ---- incomplete

@pytest.mark.parametrize('name, message', [
    ('is.A.4-concise-fail', 'concise report .* MPIP="-k 0 -e", without -c'),
    ('is.A.4-nodetail-fail', 'without "Callsite Time .* MPIP="-k 0 -e", without -d'),
    ('is.A.4-threshold-fail', '8 of 33 rows are printed; set MPIP="-k 0 -e", without the threshold -t'),
    ('is.A.4-collective-fail', 'collected with -l .* set MPIP="-k 0 -e -r"'),
    ('cg.A.4-three-digits-fail', '3 digits only; set MPIP="-k 0 -e"')])
def test_a_report_limited_by_an_option_says_which_option_gives_the_whole(name, message):
    with pytest.raises(Incomplete, match=rf'^line \d+: .*{message}'):
        mpip.parse(ALL[name])


@pytest.mark.parametrize('text', ['', 'Segmentation fault\n', IS.split(END)[0], IS.split('Callsite')[0]])
def test_a_report_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .*End of Report'):
        mpip.parse(text)


def without_section(text, title):
    rest, count = re.subn(rf'-+\n@--- {re.escape(title)}.*\n-+\n(?:(?!--).*\n)*', '', text)
    assert count == 1
    return rest


@pytest.mark.parametrize('title', [
    'MPI Time', 'Aggregate Time', 'Aggregate Sent', 'Aggregate I/O', 'Callsite Time', 'Callsite Message', 'Callsite I/O'])
def test_a_lost_section_is_incomplete(title):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        mpip.parse(without_section(IOR, title))


@pytest.mark.parametrize('line', ['@ mpiP', '@ Command', '@ Version', '@ Collector Rank', '@ Report generation', 'Task ', 'Call ', 'Name '])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', IS, count=1, flags=re.M)
    assert count
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        mpip.parse(text)


# ---- wrong

ALLREDUCE_3 = 'Allreduce            4    3     11   10.259    3.166    0.106   2.18  13.90\n'
WRONG = [
    ('(?s)(.*)', r'\1\1', '2 reports in one'),
    ('^@ mpiP', 'mpiP: WARNING: Failed to allocate memory to collect callsite info\n@ mpiP', 'mpiP: WARNING: Failed'),
    ('^@ mpiP', 'NAS Parallel Benchmarks\n@ mpiP', "line 1: 'NAS Parallel .* outside of the report"),
    ('3.5.0', '2.8.5', 'reports of mpiP 3 are read'),
    ('Collector Rank           : 0', 'Collector Rank           : 4', 'rank 4 of 4 collected'),
    ('@ MPI Task Assignment      : 3 node01\n', '', 'times of ranks 0 1 2 3 .*: 3 ranks'),
    ('(@ MPI Task Assignment      : 3 node01)', r'\1\n\1', 'the node of task 4 was expected'),
    (r'   3      1.595.*\n', '', r'times of ranks 0 1 2 \*: 4 ranks'),
    (r'   \*      6.389.*\n', '', r'times of ranks 0 1 2 3: 4 ranks'),
    ('6.389', '6.392', 'app times of 4 ranks sum up to 6.389 s, not 6.392 s'),
    ('1.015', '1.025', 'all ranks: 1.025 s in MPI of 6.389 s, MPI% 15.89 contradict'),
    ('17.23', '18.23', 'rank 0: 0.275 s in MPI of 1.598 s, MPI% 18.23 contradict'),
    ('0.275', '0.285', 'rank 0: 0.285 s .* contradict'),
    ('1.598      0.275', '0.198      0.275', '0.275 s in MPI of 0.198 s'),
    ('1.598      0.275', '0.000      0.000', 'above zero'), ('0.275', '-0.275', 'negative'), ('0.275', 'nan', 'not a finite'),
    ('0.275', '0.27', '3 decimals'), ('777.097', '787.097', 'Alltoallv, site 6: 787.097 ms'),
    (r'(Allreduce.*)129.790', r'\1********', 'not a finite'),
    ('(Allreduce               4    129.790.*)44', r'\g<1>43', 'Allreduce, site 4: 43 calls, 44 by'),
    (r'Comm_dup               27     33.866.*\n', '', 'lacks Comm_dup, site 27'),
    (r'(Alltoallv               6 .*\n)(Allreduce .*\n)', r'\2\1', 'descending'),
    (r'(Alltoallv               6 .*\n)', r'\1\1', 'Alltoallv, site 6, twice'),
    ('Comm_dup               27', 'Comm_dup               26', 'Comm_dup, site 26, of no rank'),
    ('milliseconds\\): 33', 'milliseconds): 32', 'announces 32 rows and has 33'),
    (ALLREDUCE_3, ALLREDUCE_3 * 2, 'rank 3 of Allreduce, site 4, is not where it belongs'),
    ('(Allreduce            4)    3', r'\1    4', "rank '4' in a run of 4"),
    (ALLREDUCE_3, ALLREDUCE_3.replace('3.166', '3.266'), 'Allreduce of rank 3: mean 3.266 ms of 11 calls, App% 2.18, .* contradict'),
    (ALLREDUCE_3, ALLREDUCE_3.replace('13.90', '14.90'), 'MPI% 14.90 contradict'),
    (ALLREDUCE_3, ALLREDUCE_3.replace(' 11 ', ' 12 '), 'Allreduce of rank 3: mean 3.166 ms of 12 calls'),
    (ALLREDUCE_3, ALLREDUCE_3.replace('10.259', '3.066'), 'minimum 0.106, mean 3.166, maximum 3.066'),
    (ALLREDUCE_3, ALLREDUCE_3.replace('10.259', '20.259'), 'most 15.514 of all ranks, 20.259 by'),
    (ALLREDUCE_3, ALLREDUCE_3.replace('0.106', '0.086'), 'least 0.088 of all ranks, 0.086 by'),
    ('(Allreduce            4    [*]     )44', r'\g<1>45', 'mean 2.950 ms of 45 calls'),
    ('(Wait               179    1      1    0.00)7', r'\g<1>8', 'minimum 0.007, mean 0.007, maximum 0.008 of 1 calls'),
    (r'181104\.000 ', '181104.500 ', 'no whole number of bytes'),
    (r'181104\.000 ', '181204.000 ', '181204.000 bytes, 44 and 181104 by its ranks'),
    ('99.86', '98.86', '% of bytes: 98.86, by other figures 99.86'),
    (r'4116\.000  99', '4126.000  99', 'bytes a call: 4126.000'),
    (r'(Allreduce            4    0      11 .*)45276', r'\g<1>45275', 'the mean: 4116.0000'),
    (r'(Allreduce            4    \*      44 .*)181104', r'\g<1>181103', 'the mean|is not that of its ranks'),
    (r'(Send               148    2 )      1(    4)', r'\1      2\2', 'the mean'),
    ('End of Report', 'Begin of Report', 'End of Report'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, IS, count=1)
    assert count and text != IS, f'{pattern} is not in the recorded report'
    with pytest.raises((Wrong, Incomplete) if 'End of Report' in message else Wrong, match=message):
        mpip.parse(text)


def test_the_times_of_the_calls_are_the_mpi_time_of_the_rank():
    text = CG
    rank, row = re.search(r'   (\d)( +[\d.]+ +)([\d.]+) +[\d.]+\n', text).group(1, 0)
    app, mpi = (float(word) for word in row.split()[1:3])
    new = f'   {rank} {app:10.3f} {mpi - 0.02:10.3f}    {100 * (mpi - 0.02) / app:5.2f}\n'
    total = re.search(r'   \* +([\d.]+) +([\d.]+) +([\d.]+)\n', text)
    app_all, mpi_all = float(total[1]), float(total[2]) - 0.02
    text = text.replace(row, new).replace(total[0], f'   * {app_all:10.3f} {mpi_all:10.3f}    {100 * mpi_all / app_all:5.2f}\n')
    with pytest.raises(Wrong, match='contradict'):
        mpip.parse(text)


def test_sites_below_the_twenty_longest_are_not_lost():
    """Their times are in the rows of their ranks only: that sums are whole is tested above."""
    text = TEXTS['is.A.2-callsites']
    listed = re.search(r'(?s)Aggregate Time.*?\n-+\n(.*?)\n-', text)[1].splitlines()[1:]
    assert len(listed) == 20 < int(re.search(r'Callsites: (\d+)', text)[1])
