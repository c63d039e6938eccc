"""HPCC's output: the figures of real runs, and that no failed output passes for a good one."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutations import mutated, outcome
from parity.outputs import Incomplete, Wrong, hpcc
from parity.outputs.hpcc_text import SECTIONS

RECORDED = Path(__file__).parent / 'recorded' / 'hpcc'
TEXTS = {name: (RECORDED / f'{name}.txt').read_text() for name in ('np1', 'np2', 'np3', 'np4_1x4', 'np4_2x2')}
ACCEPTED = {name: (hpcc.parse(text), hpcc.facts(text)) for name, text in TEXTS.items()}
NP2 = TEXTS['np2']
NETWORK = {'beff_' + name for name in (
    'pingpong_latency_min', 'pingpong_latency_avg', 'pingpong_latency_max', 'pingpong_bandwidth_min',
    'pingpong_bandwidth_avg', 'pingpong_bandwidth_max', 'ring_natural_latency', 'ring_random_latency',
    'ring_natural_bandwidth', 'ring_random_bandwidth')}

recorded = st.sampled_from(sorted(TEXTS))


# ---- what real runs say

def test_figures_of_two_ranks():
    metrics = hpcc.parse(NP2)
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
    assert set(hpcc.parse(TEXTS['np1'])) == set(hpcc.parse(NP2)) - NETWORK


@pytest.mark.parametrize('name, facts', [
    ('np1', (1, 1024, 64, 1, 1, 349525, 1)), ('np2', (2, 1536, 128, 1, 2, 393216, 2)),
    ('np3', (3, 1152, 96, 1, 3, 147456, 2)), ('np4_1x4', (4, 1024, 64, 1, 4, 87381, 4)),
    ('np4_2x2', (4, 1280, 80, 2, 2, 136533, 4))])
def test_facts(name, facts):
    keys = ('processes', 'n', 'nb', 'p', 'q', 'stream_vector_length', 'fft_processes')
    assert hpcc.facts(TEXTS[name]) == {**dict(zip(keys, facts, strict=True)), 'threads': 1}


def test_lines_of_the_job_around_the_output_do_not_matter():
    assert hpcc.parse(f'module load hpcc\nHPL_Tflops=99\n{NP2}\nreal 0m2.742s\n') == ACCEPTED['np2'][0]


def test_crlf_does_not_matter():
    assert outcome(hpcc, NP2.replace('\n', '\r\n')) == ACCEPTED['np2']


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'srun: error: node01: task 0: Killed\n', NP2.split('Begin of')[0]])
def test_no_output_to_speak_of_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        hpcc.parse(text)


@pytest.mark.parametrize('section', SECTIONS)
def test_section_without_its_end_is_incomplete(section):
    with pytest.raises(Incomplete, match=rf'^line \d+: .*{section}\b'):
        hpcc.parse(NP2.replace(f'End of {section} section.\n', ''))


@pytest.mark.parametrize('pattern, replacement, message', [
    (r'This is the DARPA/DOE HPC[^\n]*', '', 'line 1: the banner'),
    (r'End of HPC Challenge tests\.', '', 'line 5.*"End of HPC Challenge tests." is absent'),
    (r'Begin of StarFFT.*End of StarFFT section\.', '', 'line 5.*ends without section StarFFT'),
    (r'End of StarFFT section\.', '', 'line 25.*SingleFFT begins before section StarFFT has ended'),
    (r'Begin of StarFFT section\.', '', 'line 25.*StarFFT ends without having begun'),
    (r'End of StarFFT section\..*', '', 'line 25.*ends inside section StarFFT'),
    (r'WALL [^\n]*\n', '', 'line 15.*PTRANS ends with 4 of 5 WALL rows'),
    (r'Average Gflop/s [^\n]*', '', 'line 16.*StarDGEMM ends without "Average Gflop/s #"'),
    (r'Node\(s\) with error 0\n', '', 'line 8.*StarRandomAccess ends without "Node'),
    (r'Solution Validates[^\n]*', '', 'StarSTREAM ends without "Solution'),
    (r'Detailed benchmark results:', '', 'LatencyBandwidth ends without "Detailed'),
])
def test_incomplete(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, NP2, count=1, flags=re.S)
    assert count, f'{pattern} is not in the recorded output'
    with pytest.raises(Incomplete, match=message):
        hpcc.parse(text)


@pytest.mark.parametrize('key', ['Success', 'CommWorldProcs', 'HPL_Tflops', 'StarSTREAM_Add', 'PTRANS_GBs',
                                 'RandomlyOrderedRingLatency_usec', 'MPIRandomAccess_LCG_GUPs'])
def test_summary_without_a_key_is_incomplete(key):
    with pytest.raises(Incomplete, match=f'line 57.*{key}='):
        hpcc.parse(re.sub(rf'^{key}=.*\n', '', NP2, flags=re.M))


# ---- wrong

def test_a_real_failed_run_is_wrong_in_the_words_of_hpcc():
    with pytest.raises(Wrong, match=r'Success=0.*HPL: \|\|Ax-b.*FAILED'):
        hpcc.parse((RECORDED / 'np2_failed.txt').read_text())


@pytest.mark.parametrize('first', [NP2, NP2[:9000], NP2.split('Begin of')[0]])
def test_a_run_appended_to_another_is_wrong(first):
    with pytest.raises(Wrong, match='2 runs in one output'):
        hpcc.parse(first + TEXTS['np4_2x2'])


WRONG = [
    (r'\n(Begin of StarFFT.*?End of StarFFT section\.)', r'\n\1\n\1', 'StarFFT begins a second time'),
    (r'End of HPC Challenge tests\.', r'\g<0>\n\g<0>', 'stands in lines'),
    (r'HPL_N=1536', r'\g<0>\n\g<0>', 'HPL_N= twice'),
    (r'Average Gflop/s [^\n]*', r'\g<0>\n\g<0>', 'StarDGEMM has 2 lines "Average Gflop/s #"'),
    (r'Success=1', 'Success=0', 'Success=0.*no line says why'),
    (r'\A', 'HPL ERROR from process # 0, on line 440 of function HPL_pdinfo:\n', 'HPL ERROR'),
    (r'Node\(s\) with error 0', 'Node(s) with error 1', 'StarRandomAccess: Node.*error 1'),
    (r'less than +16\.0(?=\n\n=)', 'less than 0.0', 'nothing was verified'),
    # HPL
    (r'\.\.\.\.\.\. PASSED', '...... FAILED', 'HPL: .*FAILED'),
    (r'\.\.\.\.\.\. PASSED', '...... PASS', 'not PASSED'),
    (r'0\.0040169 \.', '16.0000000 .', 'residual of HPL is 16'),
    (r'0\.0040169 \.', '0.0140169 .', 'norms in the summary say otherwise'),
    (r'HPL_RnormI=\S+', 'HPL_RnormI=1e-3', 'norms in the summary say otherwise'),
    (r'HPL_eps=\S+', 'HPL_eps=1e-9', 'HPL_eps'),
    (r'1 tests completed and passed', '0 tests completed and passed', 'HPL: 1 tests, 0 passed'),
    (r'0 tests skipped because of illegal input values\.\n-', '1 tests skipped because of illegal', '1 skip'),
    (r'HPL_time=\S+', 'HPL_time=0.0431', 'is not the work'),
    (r'HPL_Tflops=\S+', 'HPL_Tflops=0.0566', 'HPL_Tflops'),
    (r'HPL_N=1536', 'HPL_N=1537', 'HPL_N is 1537 in the summary, 1536 in section HPL'),
    # PTRANS
    (r'0 tests completed and failed residual checks(?=\.)', '2 tests completed and failed residual checks',
     'PTRANS: .*2 failed'),
    (r'(WALL [^\n]*)PASSED', r'\1FAILED', 'PTRANS: WALL.*FAILED'),
    (r'(WALL [^\n]*)PASSED', r'\1PASS', 'PTRANS: .*not PASSED'),
    (r'(WALL [^\n]*PASSED +\S+ +)0\.00', r'\g<1>16.50', 'residual of PTRANS is 16.5'),
    (r'PTRANS_residual=0', 'PTRANS_residual=1', 'residual of PTRANS'),
    (r'WALL [^\n]*\n', r'\g<0>\g<0>', 'PTRANS has 6 rows'),
    (r'2\.728(?=  0\.00\nCPU [^\n]*\n\nFin)', '9.728', 'last is not the lowest'),
    # DGEMM, FFT
    (r'Scaled residual: \S+', 'Scaled residual: 17.1', 'residual of DGEMM is 17.1'),
    (r'Scaled residual: \S+', 'Scaled residual: nan', 'DGEMM residual is .nan., not a finite number'),
    (r'max\(\|x-x0\|\): \S+(?=\nGflop)', 'max(|x-x0|): 1.5e-13', 'MPIFFT_maxErr'),
    (r'max\(\|x-x0\|\): \S+(?=\nNode)', 'max(|x-x0|): 1.5e-13', 'residual of StarFFT'),
    # RandomAccess
    (r'0 errors in 2097152 locations \(passed\)', '30000 errors in 2097152 locations (failed)', '30000'),
    (r'Found 0 errors in 1048576', 'Found 10486 errors in 1048576', '10486 errors in 1048576 locations'),
    (r'Found 0 errors in 1048576', 'Found 0 errors in 1048577', '0 errors in 1048577 locations'),
    (r'Found 0 errors in 2097152', 'Found 3 errors in 2097152', '3 errors in its section, 0 in the summary'),
    (r'MPIRandomAccess_time=\S+', 'MPIRandomAccess_time=9', 'MPIRandomAccess_GUPs=.*not the work'),
    # STREAM
    (r'Solution Validates[^\n]*', 'Failed Validation on array a[]', 'StarSTREAM: Failed Validation'),
    (r'STREAM_Threads=1', 'STREAM_Threads=2', 'STREAM_Threads=2'),
    # ranks and network
    (r'CommWorldProcs=2', 'CommWorldProcs=1', 'CommWorldProcs is 1'),
    (r'MinPingPongLatency_usec=\S+', 'MinPingPongLatency_usec=-1', 'MinPingPongLatency'),
    (r'HPL_nprow=1\nHPL_npcol=2', 'HPL_nprow=2\nHPL_npcol=1', 'HPL_nprow is 2 in the summary, 1 in'),
    (r'\bFFT_N=\d+', 'FFT_N=4096', 'FFT_N is 4096'),
    (r'MPIFFT_N=\d+', 'MPIFFT_N=4096', 'MPIFFT_N is 4096'),
    (r'Minimum Gflop/s \S+', 'Minimum Gflop/s 0.000000', 'StarDGEMM.*minimum 0'),
    (r'Maximum Gflop/s \S+', 'Maximum Gflop/s 0.100000', 'StarDGEMM.*maximum 0.1'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, NP2, count=1, flags=re.S)
    assert count, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        hpcc.parse(text)


def test_a_rate_of_zero_in_both_places_is_wrong():
    text = re.sub('SingleFFT_Gflops=.*', 'SingleFFT_Gflops=0', NP2)
    with pytest.raises(Wrong, match='above zero'):
        hpcc.parse(re.sub('Single FFT Gflop/s .*', 'Single FFT Gflop/s 0.000000', text))


def test_hpl_figures_that_agree_with_each_other_but_not_with_the_section_are_wrong():
    """Twice the rate in half the time is the same work."""
    faster = {'HPL_Tflops': 0.0566637 * 2, 'HPL_time': 0.0426986 / 2}
    text = re.sub(r'(HPL_Tflops|HPL_time)=\S+', lambda key: f'{key[1]}={faster[key[1]]:.6g}', NP2)
    with pytest.raises(Wrong, match='in the summary, .* in section HPL'):
        hpcc.parse(text)


def test_network_figures_of_one_process_are_wrong():
    with pytest.raises(Wrong, match='network figures of one process'):
        hpcc.parse(re.sub('MaxPingPongLatency_usec=-1', 'MaxPingPongLatency_usec=0', TEXTS['np1']))


def test_a_grid_smaller_than_the_ranks_is_wrong():
    text = NP2.replace('Running on 2 ', 'Running on 3 ').replace('CommWorldProcs=2', 'CommWorldProcs=3')
    with pytest.raises(Wrong, match='grid of 1 x 2, hpcc on 3 processes'):
        hpcc.parse(text)


def test_one_percent_of_errors_in_the_table_is_allowed():
    few = re.sub('Found 0 errors in 1048576', 'Found 10485 errors in 1048576', NP2)
    assert outcome(hpcc, few) == ACCEPTED['np2']


@pytest.mark.parametrize('change', ['0', '-1', 'nan', '1e999', '1_000', '', '٣', '\ufffd', 'more'])
def test_every_figure_of_the_summary_is_guarded(change):
    """Each key in turn; a key whose change is accepted is decoration: no metric and no fact came from it."""
    decoration = set()
    for key, value in re.findall(r'^(\w+)=([-+.\de]+)$', NP2, flags=re.M):
        more = str(int(value) + 1) if value.isdigit() else f'{float(value) * 1.01:.6g}'
        new = more if change == 'more' else change
        result = outcome(hpcc, re.sub(rf'^{key}=.*', f'{key}={new}', NP2, flags=re.M))
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
    assert outcome(hpcc, text) in (None, ACCEPTED[name])


@pytest.mark.parametrize('complaint', ['Memory allocation failed for A, x and b. Skip.',
                                       'Failed to allocate 12345 doubles'])
def test_a_node_with_too_little_memory_is_infrastructure(complaint):
    short = TEXTS['np2'].replace('End of HPL section.', f'{complaint}\nEnd of HPL section.')
    with pytest.raises(Incomplete, match=f'too little memory: {complaint}'):
        hpcc.parse(short)
