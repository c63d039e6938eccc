"""IMB's output: the curves of real runs, and that no damaged or failed output passes for a good one."""

import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, imb

RECORDED = Path(__file__).parent / 'recorded' / 'imb'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: (imb.parse(text), imb.facts(text)) for name, text in TEXTS.items()}
TWO, FOUR, PAIR = TEXTS['np2'], TEXTS['np4'], TEXTS['pingpong-16MiB-np2']
BENCHMARKS = ('pingpong', 'sendrecv', 'exchange')


# ---- what real runs say

@pytest.mark.parametrize('name, benchmarks, processes, last', [
    ('np2', 'PingPong Sendrecv Exchange', 2, 22), ('np4', 'PingPong Sendrecv Exchange', 4, 22), ('sendrecv-np3', 'Sendrecv', 3, 16),
    ('sendrecv-npmin4-np4', 'Sendrecv', 4, 10), ('pingpong-16MiB-np2', 'PingPong', 2, 24)])
def test_every_recorded_run_is_the_one_its_name_says(name, benchmarks, processes, last):
    metrics, facts = ACCEPTED[name]
    told = {fact: value for fact, value in facts.items() if '_np' not in fact and not fact.endswith('_processes')}
    assert told == {'version': '2021.7', 'benchmarks': benchmarks, 'processes': processes, 'first_size': 0, 'last_size': 1 << last}
    sizes = [0, *(1 << log for log in range(last + 1))]
    assert list(metrics) == [f'{benchmark.lower()}_{figure}_{size}' for benchmark in benchmarks.split()
                             for figure in ('time', 'bandwidth') for size in sizes]
    assert all(isinstance(value, float) and (value > 0 or name.endswith('bandwidth_0')) for name, value in metrics.items())


def test_figures_of_pingpong():
    metrics = ACCEPTED['np2'][0]
    assert (metrics['pingpong_time_1'], metrics['pingpong_bandwidth_1'], metrics['pingpong_bandwidth_0']) == (0.36, 2.79, 0)


def test_the_longest_time_is_the_one_that_makes_the_bandwidth():
    metrics = ACCEPTED['sendrecv-np3'][0]
    assert '        65536           20        12.23        12.48        12.37     10499.91' in TEXTS['sendrecv-np3']
    assert (metrics['sendrecv_time_65536'], metrics['sendrecv_bandwidth_65536']) == (12.48, 10499.91)
    for benchmark, messages in zip(BENCHMARKS, (1, 2, 4), strict=True):
        time, rate = (ACCEPTED['np4'][0][f'{benchmark}_{figure}_4194304'] for figure in ('time', 'bandwidth'))
        assert rate == pytest.approx(messages * 4194304 / time, rel=1e-4)      # 10^6 bytes are a MB


def test_the_largest_group_counts_and_the_others_are_facts():
    metrics, facts = ACCEPTED['np4']
    assert [facts[f'{benchmark}_processes'] for benchmark in BENCHMARKS] == [2, 4, 4]
    rows = re.findall(r'^ +8 +20 +\S+ +(\S+) +\S+ +(\S+)$', FOUR, re.M)         # Sendrecv of 2 and 4, Exchange of 2 and 4
    assert len(rows) == 4
    for benchmark, few, all_ in zip(BENCHMARKS[1:], rows[::2], rows[1::2], strict=True):
        assert (facts[f'{benchmark}_np2_time_8'], facts[f'{benchmark}_np2_bandwidth_8']) == tuple(map(float, few))
        assert (metrics[f'{benchmark}_time_8'], metrics[f'{benchmark}_bandwidth_8']) == tuple(map(float, all_))
    assert not any('pingpong_np' in fact for fact in facts)


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(imb, f'module load imb\n{text}real 2.74\n') == ACCEPTED[name]


def test_the_banner_of_2018():
    text = PAIR.replace('Intel(R) MPI Benchmarks 2021.7', 'Intel (R) MPI Benchmarks 2018 Update 1')
    assert imb.facts(text)['version'] == '2018 Update 1'


def test_sizes_that_begin_elsewhere():
    """-msglog 3:24 leaves 0 as the first size; with -zero_size off the minimum is announced, too."""
    text = re.sub(r'\n {12}[124] .*', '', PAIR).replace('0:24', '3:24')
    assert [size for size in (0, 1, 4, 8) if f'pingpong_time_{size}' in imb.parse(text)] == [0, 8]
    text = re.sub(r'\n {12}0 .*', '', text).replace('bytes:   0', 'bytes:   8')
    assert imb.facts(text)['first_size'] == 8


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'mpirun noticed that process rank 1 exited\n', TWO.split('# All')[0], TWO.split('Finalize')[0],
                                  TWO.split('# Benchmarking Exchange')[0], TWO.split('# Benchmarking')[0]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: "# All processes entering MPI_Finalize" is absent'):
        imb.parse(text)


@pytest.mark.parametrize('line', ['# *Intel', '# Calling', '# Minimum', '# Maximum', '# List', '# #processes', ' *#bytes', '# All', ' *4194304'])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', TWO, count=1, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        imb.parse(text)


@pytest.mark.parametrize('name', ['sendrecv-np3', 'np4'])
@pytest.mark.parametrize('lost', ['# Benchmarking.*\n', '# Benchmarking.*\n# #processes.*\n', '(?s)# Benchmarking.*?Mbytes/sec\n'])
def test_a_first_table_without_its_beginning_is_not_left_out(name, lost):
    text, count = re.subn(lost, '', TEXTS[name], count=1)
    assert count == 1
    with pytest.raises(Incomplete, match='stands before "# Benchmarking"'):
        imb.parse(text)


@pytest.mark.parametrize('first, last, message', [
    ('# Benchmarking Exchange', '# All', 'without Exchange, which was announced'),
    (r'# Benchmarking Sendrecv \n# #processes = 2', r'# Benchmarking Sendrecv \n# #processes = 4', 'Sendrecv begins with 4 processes, not 2'),
    (r'# Benchmarking Sendrecv \n# #processes = 4', '# Benchmarking Exchange', 'Sendrecv ends with 2 of 4 processes')])
def test_a_lost_table_is_incomplete(first, last, message):
    text, count = re.subn(f'(?s){first}.*?({last})', r'\1', FOUR)
    assert count == 1
    with pytest.raises(Incomplete, match=message):
        imb.parse(text)


@pytest.mark.parametrize('name, message', [
    ('exchange-time-out-np4-fail', 'line 36: Exchange: time-out.; Time limit'),
    ('pingpong-out-of-memory-np2-fail', 'line 56: PingPong: out-of-mem.; needed X=   0.003 GB')])
def test_sizes_that_imb_left_out_are_incomplete_in_its_words(name, message):
    with pytest.raises(Incomplete, match=message):
        imb.parse(ALL[name])


def test_the_table_must_go_to_the_last_size():
    assert imb.parse(PAIR, 1 << 24) == ACCEPTED['pingpong-16MiB-np2'][0]
    with pytest.raises(Incomplete, match='ends at 4194304 B, not at 16777216 B'):
        imb.parse(TWO, 1 << 24)
    with pytest.raises(Wrong, match='goes on to 16777216 B, beyond 4194304 B'):
        imb.facts(PAIR, 1 << 22)


# ---- wrong

def test_one_process_is_refused_in_the_words_of_imb():
    with pytest.raises(Wrong, match='Benchmark PingPong invalid for 1 processes'):
        imb.parse(ALL['np1-fail'])


WRONG = [
    (r'(?s)(.*)', r'\1\1', '2 lines "# All processes'), ('2021.7, MPI-1', '2021.7, MPI-1 part\n#    Intel(R) MPI Benchmarks 2021.7, MPI-1', '2 lines'),
    ('\n# Benchmarking PingPong', '\nInvalid benchmark name pingpongg\n# Benchmarking PingPong', 'Invalid benchmark name'),
    ('# Minimum.*\n# Maximum.*\n', '# Message lengths were user defined\n', 'IMB with -msglen is not read'),
    ('bytes:   4194304', 'bytes:   8388608', 'announces 0 to 8388608 B and was asked for 2.0 to 2.22'),
    ('bytes:   0', 'bytes:   2', 'announces 2 to'), ('bytes:   0', 'bytes:   nan', 'not a count'),
    ('-time 1', '-time 1 -msglog 0:20', 'asked for 2.0 to 2.20'), ('-time 1', '-time 1 -msglog 9:3', 'MIN <= MAX'),
    ('-time 1', '-time 1 -msglog 0:99999', 'MAX < 32'), ('-time 1', '-msglog 0:x', 'not a count'),
    ('# Benchmarking PingPong', '# Benchmarking PingPing', "'PingPing' is not read; valid are PingPong"),
    ('# Sendrecv', '# Sendrecv\n# Sendrecv', 'twice'), ('# Sendrecv\n', '', 'ran PingPong Sendrecv Exchange, announced PingPong Exchange'),
    (r'(?s)(# Benchmarking Sendrecv \n# #processes = 2.*?)(# Benchmarking)', r'\1\1\2', '4 after 2|2 processes after 2 of 4'),
    ('(# #processes = 2 \n)', r'\1\1', '2 lines'), (r'\( 2 additional processes', '( 3 additional processes', 'different numbers'),
    (r'# \( 2 additional processes', '# ( x additional processes', 'not a count'), (r'# \( 2 additional.*', '# ( 2 groups of 2 )', 'is not read'),
    ('processes = 2 \n# . 2', 'processes = 3 \n# ( 1', 'PingPong of .3. processes'), ('processes = 2', 'processes = nan', 'not a count'),
    (r'\n +8 .*', '', '16 B is not the size that follows'), (r'(\n +8 .*)', r'\1\1', '8 B is not'), (r'\n {12}8', '\n           88', '88 B is not'),
    (r'(\n {6}4194304 .*)', r'\1\1', '4194304 B is not'), ('8           20', '8            0', '0 repetitions'), (' 0.00', ' 0.01', '0 x|1 x 0 B'),
    ('8           20         2.33', '8           20         4.33', '8 B: 3.43 MB/s in 4.33 us are not 1 x 8 B'), ('3.43', '3.45', 'are not 1 x 8 B'),
    ('2.33', '0.00', 'above zero'), ('2.33', ' nan', 'not a finite'), ('2.33', '-2.3', 'negative'), ('2.33', '233.', '2 decimals'),
    ('         3.43', '', 'no row of 4 columns'), ('3.43', '3.43         0.00', 'no row'), ('3.43', '3.4', 'no row'), ('3.43', '1_43', 'not a finite'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, FOUR, count=1)
    assert count and text != FOUR, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        imb.parse(text)


@pytest.mark.parametrize('old, new, message', [
    ('12.23        12.48', '12.63        12.48', 'minimum 12.63'), ('12.37     10499', '12.57     10499', 'average 12.57, maximum 12.48'),
    ('12.48        12.37', '13.48        12.37', '2 x 65536 B'), ('processes = 3', 'processes = 4', 'different numbers|4 processes after'),
    ('processes = 2', 'processes = 1', 'different numbers')])
def test_wrong_in_a_table_of_ranges(old, new, message):
    assert old in TEXTS['sendrecv-np3']
    with pytest.raises(Wrong, match=message):
        imb.parse(TEXTS['sendrecv-np3'].replace(old, new, 1))


def test_one_process_that_sends_to_itself_is_wrong():
    text = re.sub(r'(?s)# Benchmarking Sendrecv \n# #processes = 2.*?(# Benchmarking)', r'\1', TEXTS['sendrecv-np3'])
    with pytest.raises(Wrong, match='Sendrecv of 1 processes: it needs 2'):
        imb.parse(text.replace('processes = 3', 'processes = 1'))
