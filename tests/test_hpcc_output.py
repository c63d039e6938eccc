"""HPCC's output: the figures of real runs, and that no failed output passes for a good one."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutations import mutated, outcome
from parity.outputs import Incomplete, Wrong, hpcc

RECORDED = Path(__file__).parent / 'recorded' / 'hpcc'
TEXTS = {name: (RECORDED / f'{name}.txt').read_text() for name in ('np1', 'np2', 'np3', 'np4_1x4', 'np4_2x2')}
ACCEPTED = {name: hpcc.read(text) for name, text in TEXTS.items()}
NP2 = TEXTS['np2']
SECTIONS = re.findall(r'Begin of (\w+) section', NP2)
NETWORK = {'beff_' + name for name in (
    'pingpong_latency_min', 'pingpong_latency_avg', 'pingpong_latency_max', 'pingpong_bandwidth_min',
    'pingpong_bandwidth_avg', 'pingpong_bandwidth_max', 'ring_natural_latency', 'ring_random_latency',
    'ring_natural_bandwidth', 'ring_random_bandwidth')}

recorded = st.sampled_from(sorted(TEXTS))


# ---- what real runs say

def test_figures_of_two_ranks():
    metrics = hpcc.read(NP2)[0]
    assert len(metrics) == 33 and all(isinstance(value, float) for value in metrics.values())
    assert metrics == metrics | {
        'hpl': 56.6637, 'hpl_time': 0.0426986, 'hpl_residual': 0.0040169, 'ptrans': 2.72845,
        'dgemm_single': 49.7458, 'dgemm_star': 52.7254,
        'randomaccess_single': 0.270306, 'randomaccess_star': 0.313587, 'randomaccess_mpi': 0.0298361,
        'randomaccess_lcg_single': 0.314293, 'randomaccess_lcg_star': 0.366376,
        'randomaccess_lcg_mpi': 0.0304543,
        'fft_single': 5.45237, 'fft_star': 4.33021, 'fft_mpi': 4.74463,
        'stream_single_copy': 28.1686, 'stream_star_triad': 26.6415,
        'beff_pingpong_latency_max': 0.343611, 'beff_pingpong_bandwidth_max': 11.3561,
        'beff_ring_random_bandwidth': 10.8377}


def test_one_process_has_every_figure_but_the_network():
    assert set(hpcc.read(TEXTS['np1'])[0]) == set(hpcc.read(NP2)[0]) - NETWORK


@pytest.mark.parametrize('name, facts', [
    ('np1', (1, 1024, 64, 1, 1, 349525)), ('np2', (2, 1536, 128, 1, 2, 393216)),
    ('np3', (3, 1152, 96, 1, 3, 147456)), ('np4_1x4', (4, 1024, 64, 1, 4, 87381)),
    ('np4_2x2', (4, 1280, 80, 2, 2, 136533))])
def test_facts(name, facts):
    keys = ('processes', 'n', 'nb', 'p', 'q', 'stream_vector_length')
    assert hpcc.read(TEXTS[name])[1] == dict(zip(keys, facts, strict=True))


def test_lines_of_the_job_around_the_output_do_not_matter():
    assert hpcc.read(f'module load hpcc\nHPL_Tflops=99\nFailed to bind\n{NP2}\nreal 0m2.742s\n')[0] == ACCEPTED['np2'][0]


def test_crlf_does_not_matter():
    assert outcome(hpcc.read, NP2.replace('\n', '\r\n')) == ACCEPTED['np2']


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'srun: error: node01: task 0: Killed\n', NP2.split('Begin of')[0]])
def test_no_output_to_speak_of_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        hpcc.read(text)


@pytest.mark.parametrize('section', SECTIONS)
def test_section_without_its_end_is_incomplete(section):
    with pytest.raises(Incomplete, match=rf'^line \d+: .*{section}\b'):
        hpcc.read(NP2.replace(f'End of {section} section.\n', ''))


@pytest.mark.parametrize('pattern, replacement, message', [
    (r'This is the DARPA/DOE HPC[^\n]*', '', 'without "This is the DARPA/DOE HPC Challenge'),
    (r'End of HPC Challenge tests\.', '', 'line 5.*without "End of HPC Challenge tests."'),
    (r'Begin of StarFFT.*End of StarFFT section\.', '', 'without "Begin of StarFFT section."'),
    (r'WALL [^\n]*\n', '', 'line 15.*PTRANS ends with 4 of 5 WALL rows'), (r'(WALL [^\n]*)PASSED', r'\1PASS', 'PTRANS ends with 4'),
    (r'Average Gflop/s [^\n]*', '', 'line 16.*without "Average Gflop/s ..."'),
    (r'Solution Validates[^\n]*', '', 'without "Solution'), (r'\.\.\.\.\.\. PASSED', '...... PASS', r'without ".*PASSED"'),
    (r'Detailed benchmark results:', '', 'without "Detailed'),
    (r'1 tests completed and passed', '0 tests completed and passed', '1 tests completed and passed'),
    (r'5 tests completed and passed', '4 tests completed and passed', '5 tests completed and passed'),
])
def test_incomplete(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, NP2, count=1, flags=re.S)
    assert count, f'{pattern} is not in the recorded output'
    with pytest.raises(Incomplete, match=message):
        hpcc.read(text)


@pytest.mark.parametrize('key', ['Success', 'CommWorldProcs', 'HPL_Tflops', 'StarSTREAM_Add', 'PTRANS_GBs',
                                 'RandomlyOrderedRingLatency_usec', 'MPIRandomAccess_LCG_GUPs'])
def test_summary_without_a_key_is_incomplete(key):
    with pytest.raises(Incomplete, match=f'line 57.*without "{key}='):
        hpcc.read(re.sub(rf'^{key}=.*\n', '', NP2, flags=re.M))


# ---- wrong

def test_a_real_failed_run_is_wrong_in_the_words_of_hpcc():
    with pytest.raises(Wrong, match=r'^line 416: \|\|Ax-b.*FAILED'):
        hpcc.read((RECORDED / 'np2_failed.txt').read_text())


@pytest.mark.parametrize('first', [NP2, NP2[:9000], NP2.split('Begin of')[0]])
def test_a_run_appended_to_another_is_wrong(first):
    with pytest.raises(Wrong, match='2 lines "(This is the DARPA|End of HPC)'):
        hpcc.read(first + TEXTS['np4_2x2'])


WRONG = [
    (r'\n(Begin of StarFFT.*?End of StarFFT section\.)', r'\n\1\n\1', '2 lines "Begin of StarFFT'),
    (r'End of HPC Challenge tests\.', r'\g<0>\n\g<0>', '2 lines'),
    (r'HPL_N=1536', r'\g<0>\n\g<0>', '2 lines "HPL_N='),
    (r'Average Gflop/s [^\n]*', r'\g<0>\n\g<0>', '2 lines "Average Gflop/s'),
    (r'Success=1', 'Success=0', 'hpcc reports failure: Success=0'),
    (r'\A', 'HPL ERROR from process # 0, on line 440 of function HPL_pdinfo:\n', 'HPL ERROR'),
    (r'Node\(s\) with error 0', 'Node(s) with error 1', 'Node.*error 1'),
    (r'\.\.\.\.\.\. PASSED', '...... FAILED', r'line \d+: .*FAILED'),
    (r'0\.0040169 \.', '16.0000000 .', 'residual of HPL is 16'), (r'0\.0040169 \.', 'nan .', 'not a finite'),
    (r'HPL_time=\S+', 'HPL_time=0.0431', 'Tflop/s of HPL: 0.0566637 in 0.0431 s is not the work'),
    (r'HPL_Tflops=\S+', 'HPL_Tflops=0.0566', 'HPL_Tflops'),
    (r'HPL_N=1536', 'HPL_N=1537', 'HPL_N is 1537 in the summary, 1536 in section HPL'),
    (r'(WALL [^\n]*)PASSED', r'\1FAILED', 'WALL.*FAILED'), (r'PTRANS_GBs=\S+', 'PTRANS_GBs=2.82', 'PTRANS_GBs is 2.82'),
    (r'0 errors in 2097152 locations \(passed\)', '30000 errors in 2097152 locations (failed)', '30000'),
    (r'MPIRandomAccess_time=\S+', 'MPIRandomAccess_time=9', 'GUP/s of MPIRandomAccess: .*not the work'),
    (r'Solution Validates[^\n]*', 'Failed Validation on array a[]', 'Failed Validation'),
    (r'CommWorldProcs=2', 'CommWorldProcs=1', 'CommWorldProcs is 1'),
    (r'MinPingPongLatency_usec=\S+', 'MinPingPongLatency_usec=-1', 'MinPingPongLatency'),
    (r'HPL_nprow=1\nHPL_npcol=2', 'HPL_nprow=2\nHPL_npcol=1', 'HPL_nprow is 2 in the summary, 1 in'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, NP2, count=1, flags=re.S)
    assert count, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        hpcc.read(text)


def test_a_rate_of_zero_in_both_places_is_wrong():
    text = re.sub('SingleFFT_Gflops=.*', 'SingleFFT_Gflops=0', NP2)
    with pytest.raises(Wrong, match='above zero'):
        hpcc.read(re.sub('Single FFT Gflop/s .*', 'Single FFT Gflop/s 0.000000', text))


def test_hpl_figures_that_agree_with_each_other_but_not_with_the_section_are_wrong():
    """Twice the rate in half the time is the same work."""
    faster = {'HPL_Tflops': 0.0566637 * 2, 'HPL_time': 0.0426986 / 2}
    text = re.sub(r'(HPL_Tflops|HPL_time)=\S+', lambda key: f'{key[1]}={faster[key[1]]:.6g}', NP2)
    with pytest.raises(Wrong, match='in the summary, .* in section HPL'):
        hpcc.read(text)


def test_a_grid_smaller_than_the_ranks_is_wrong():
    text = NP2.replace('Running on 2 ', 'Running on 3 ').replace('CommWorldProcs=2', 'CommWorldProcs=3')
    with pytest.raises(Wrong, match='grid of 1 x 2, hpcc on 3 processes'):
        hpcc.read(text)


@pytest.mark.parametrize('change', ['0', '-1', 'nan', '1e999', '1_000', '', '٣', '\ufffd', 'more'])
def test_every_figure_of_the_summary_is_guarded(change):
    """Each key in turn; a key whose change is accepted is decoration: no metric and no fact came from it."""
    decoration = set()
    for key, value in re.findall(r'^(\w+)=([-+.\de]+)$', NP2, flags=re.M):
        more = str(int(value) + 1) if value.isdigit() else f'{float(value) * 1.01:.6g}'
        new = more if change == 'more' else change
        result = outcome(hpcc.read, re.sub(rf'^{key}=.*', f'{key}={new}', NP2, flags=re.M))
        assert result in (None, ACCEPTED['np2']), key
        decoration |= {key} if result and new != value else set()
    assert not decoration & {'HPL_Tflops', 'MPIFFT_Gflops', 'PTRANS_GBs', 'StarSTREAM_Add', 'CommWorldProcs'}


# ---- mutations


@mutated
@given(name=recorded, data=st.data())
def test_shuffled_lines_of_a_section_never_change_a_metric(name, data):
    section = data.draw(st.sampled_from(SECTIONS))
    begin, rest = TEXTS[name].split(f'Begin of {section} section.\n')
    body, end = rest.split(f'End of {section} section.\n')
    body = '\n'.join(data.draw(st.permutations(body.split('\n'))))
    text = f'{begin}Begin of {section} section.\n{body}\nEnd of {section} section.\n{end}'
    assert outcome(hpcc.read, text) in (None, ACCEPTED[name])


@pytest.mark.parametrize('complaint', ['Memory allocation failed for A, x and b. Skip.',
                                       'Failed to allocate 12345 doubles'])
def test_a_node_with_too_little_memory_is_infrastructure(complaint):
    short = TEXTS['np2'].replace('End of HPL section.', f'{complaint}\nEnd of HPL section.')
    with pytest.raises(Incomplete, match=f'^line 4\\d\\d: {complaint}'):
        hpcc.read(short)
