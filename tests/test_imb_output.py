"""IMB's output: the curves of real runs, and that no damaged or failed output passes for a good one."""

import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, imb

RECORDED = Path(__file__).parent / 'recorded' / 'imb'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}


def one(benchmark):
    """The table of one benchmark, as IMB prints it that was asked for no other."""
    head, *tables = re.split(r'\n(?=#-+\n# Benchmarking)', ALL['three-benchmarks-np2-fail'])
    table = next(table for table in tables if f'# Benchmarking {benchmark}' in table)
    return f'{head}{table.split("# All")[0]}# All processes entering MPI_Finalize\n\n'


TEXTS |= {benchmark: one(benchmark) for benchmark in imb.MESSAGES}
ACCEPTED = {name: imb.read(text) for name, text in TEXTS.items()}
RANGES, PAIR = TEXTS['sendrecv-npmin4-np4'], TEXTS['pingpong-16MiB-np2']


# ---- what real runs say

@pytest.mark.parametrize('name, benchmark, processes, last', [
    ('sendrecv-npmin4-np4', 'Sendrecv', 4, 10), ('pingpong-16MiB-np2', 'PingPong', 2, 24), ('Exchange', 'Exchange', 2, 22)])
def test_every_run_is_the_one_its_name_says(name, benchmark, processes, last):
    metrics, facts = ACCEPTED[name]
    assert facts == {'version': '2021.7', 'benchmark': benchmark, 'processes': processes, 'first_size': 0, 'last_size': 1 << last}
    sizes = [0, *(1 << log for log in range(last + 1))]
    assert list(metrics) == [f'{benchmark.lower()}_{figure}_{size}' for figure in ('time', 'bandwidth') for size in sizes]
    assert all(isinstance(value, float) and (value > 0 or name.endswith('bandwidth_0')) for name, value in metrics.items())


def test_the_longest_time_is_the_one_that_makes_the_bandwidth():
    assert '          256           20         5.13         6.14         5.64        83.40' in RANGES
    metrics = ACCEPTED['sendrecv-npmin4-np4'][0]
    assert (metrics['sendrecv_time_256'], metrics['sendrecv_bandwidth_256'], metrics['sendrecv_bandwidth_0']) == (6.14, 83.40, 0)
    for benchmark, messages in imb.MESSAGES.items():
        time, rate = (ACCEPTED[benchmark][0][f'{benchmark.lower()}_{figure}_4194304'] for figure in ('time', 'bandwidth'))
        assert rate == pytest.approx(messages * 4194304 / time, rel=1e-4)      # 10^6 bytes are a MB


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(imb.read, f'module load imb\n{text}real 2.74\n') == ACCEPTED[name]


def test_the_banner_of_2018():
    text = PAIR.replace('Intel(R) MPI Benchmarks 2021.7', 'Intel (R) MPI Benchmarks 2018 Update 1')
    assert imb.read(text)[1]['version'] == '2018 Update 1'


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'mpirun noticed that process rank 1 exited\n', PAIR.split('# All')[0], PAIR.split('Finalize')[0],
                                  PAIR.split('# Benchmarking')[0]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .* without "# All processes entering MPI_Finalize"'):
        imb.read(text)


@pytest.mark.parametrize('line', ['# *Intel', '# Minimum', '# Maximum', '# Benchmarking', '# #processes', ' *#bytes', '# All', ' *0 ', ' *1024 '])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', RANGES, count=1, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        imb.read(text)


@pytest.mark.parametrize('name, message', [
    ('exchange-time-out-np4-fail', 'line 36: 0 time-out.; Time limit'),
    ('pingpong-out-of-memory-np2-fail', 'line 56: 1048576 out-of-mem.; needed X=   0.003 GB')])
def test_sizes_that_imb_left_out_are_incomplete_in_its_words(name, message):
    with pytest.raises(Incomplete, match=message):
        imb.read(ALL[name])


def test_the_table_must_go_to_the_last_size():
    assert imb.read(PAIR, 1 << 24)[0] == ACCEPTED['pingpong-16MiB-np2'][0]
    with pytest.raises(Incomplete, match='ends at 1024 B, not at 16777216 B'):
        imb.read(RANGES, 1 << 24)
    with pytest.raises(Wrong, match='goes on to 16777216 B, beyond 4194304 B'):
        imb.read(PAIR, 1 << 22)


# ---- wrong

def test_one_process_is_refused_in_the_words_of_imb():
    with pytest.raises(Wrong, match='Benchmark PingPong invalid for 1 processes'):
        imb.read(ALL['np1-fail'])


def test_several_benchmarks_in_one_output_are_not_read():
    with pytest.raises(Wrong, match='3 lines "# Benchmarking ..."'):
        imb.read(ALL['three-benchmarks-np2-fail'])


WRONG = [
    (r'(?s)(.*)', r'\1\1', '2 lines "# All processes'), ('2021.7, MPI-1', '2021.7, MPI-1 part\n#    Intel(R) MPI Benchmarks 2021.7, MPI-1', '2 lines'),
    ('\n# Benchmarking', '\nInvalid benchmark name pingpongg\n# Benchmarking', 'Invalid benchmark name'),
    ('bytes:   1024', 'bytes:   512', 'goes on to 1024 B'), ('bytes:   0', 'bytes:   nan', 'not a count'),
    ('# Benchmarking Sendrecv', '# Benchmarking PingPing', "'PingPing' is not read; valid are PingPong"),
    ('(# #processes = 4 \n)', r'\1\1', '2 lines'), ('processes = 4', 'processes = nan', 'not a count'),
    (r'\n +8 .*', '', '16 B is not the size that follows'), (r'(\n +8 .*)', r'\1\1', '8 B is not'), (r'\n {12}8', '\n           88', '88 B is not'),
    ('8           20', '8            0', 'no row'), (' 0.00\n', ' 0.01\n', 'MB/s of 0 B'),
    ('2.94         2.94', '4.33         2.94', 'MB/s of 8 B: 5.43 in 4.33 s is not the work of 16'), ('5.43', '5.48', 'MB/s of 8 B: 5.48 in 2.94 s is not the work of 16'),
    ('2.93         2.94', '2.99         2.94', 'times of 8 B: 2.99, 2.94, 2.94 are not minimum'),
    ('2.93         2.94         2.94', '0.00         0.00         0.00', 'above zero'), ('5.43', ' nan', 'no row'), ('5.43', '-5.4', 'no row'),
    ('         5.43', '', 'no row'), ('5.43', '5.43         0.00', 'no row'), ('5.43', '5.4', 'no row'), ('5.43', '1_43', 'no row'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, RANGES, count=1)
    assert count and text != RANGES, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        imb.read(text)
