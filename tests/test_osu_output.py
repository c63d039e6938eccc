"""OSU's outputs: the curves of real runs, and that no damaged or failed output passes for a good one."""

import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutations import mutated, outcome
from parity.outputs import Incomplete, Wrong, osu

RECORDED = Path(__file__).parent / 'recorded' / 'osu'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: osu.read(text) for name, text in TEXTS.items()}
LATENCY, RATES, BARRIER = (TEXTS[name] for name in ('latency-np2', 'mbw_mr-np4', 'barrier-np4'))
SIZED = sorted(name for name in TEXTS if 'barrier' not in name)
# What stands once in the output, so that an altered digit cannot be noticed.
ALONE = ('version', 'pairs', 'window')


def to_the_end(name):
    """The parser as a check calls it, which knows the first and the last size that it asked for."""
    facts = ACCEPTED[name][1]
    asked = {'max_size': facts.get('last_size'), 'min_size': facts.get('first_size')}
    return partial(osu.read, **asked)


def without_what_stands_alone(result):
    return result[0], {name: value for name, value in result[1].items() if name not in ALONE}


# ---- what real runs say

@pytest.mark.parametrize('name', sorted(TEXTS))
def test_every_recorded_run_is_the_one_its_name_says(name):
    metrics, facts = ACCEPTED[name]
    benchmark = name.partition('-')[0]
    assert facts['benchmark'] == benchmark and facts['version'] == '7.4'
    if benchmark == 'barrier':
        assert list(metrics) == ['barrier'] and 'last_size' not in facts
        return
    sizes = [1 << log for log in range(21) if facts['first_size'] <= 1 << log <= facts['last_size']]
    rates = [f'message_rate_{size}' for size in sizes] if benchmark == 'mbw_mr' else []
    assert list(metrics) == [f'{benchmark}_{size}' for size in sizes] + rates
    assert all(isinstance(value, float) and value > 0 for value in metrics.values())


def test_figures_of_latency():
    metrics, facts = ACCEPTED['latency-np2']
    assert (metrics['latency_1'], metrics['latency_8'], len(metrics)) == (0.36, 0.35, 21)
    assert facts == {'benchmark': 'latency', 'version': '7.4', 'first_size': 1, 'last_size': 1 << 20}


def test_figures_of_several_pairs():
    metrics, facts = ACCEPTED['mbw_mr-np4']
    assert (metrics['mbw_mr_1048576'], metrics['message_rate_1048576'], len(metrics)) == (9724.90, 9274.39, 42)
    assert facts == facts | {'pairs': 2, 'window': 64}
    assert ACCEPTED['mbw_mr-np2'][1]['pairs'] == 1


def test_figure_of_barrier():
    assert ACCEPTED['barrier-np4'][0] == {'barrier': 2.86}


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(to_the_end(name), f'module load osu\n{text}[node01:4711] 1 more process\nreal 2.74\n') == ACCEPTED[name]


def as_73(text):
    """As 7.0 to 7.3 print it: the datatype below the heading, and the title of mbw_mr twice."""
    text = re.sub('(# Datatype.*\n)(# Size.*\n)', r'\2\1', text.replace('v7.4', 'v7.3'))
    return re.sub('(# OSU MPI Multiple.*\n)', r'\1\1\n', text)


@pytest.mark.parametrize('name', SIZED)
def test_the_formats_of_70_to_73(name):
    metrics, facts = ACCEPTED[name]
    assert outcome(to_the_end(name), as_73(TEXTS[name])) == (metrics, facts | {'version': '7.3'})


# ---- incomplete

@pytest.mark.parametrize('text', [
    '', 'mpirun noticed that process rank 1 exited on signal 9\n', LATENCY.split('v7.4')[0], LATENCY.split('# Datatype')[0],
    LATENCY.split('# Size')[0], LATENCY.split('(us)')[0], LATENCY.split('0.36')[0], LATENCY.split('4096 ')[0],
    RATES.split('# [')[0], RATES.split('8192 ')[0] + '8192  ', BARRIER.split('2.86')[0], BARRIER.split('6\n')[0],
    ALL['mbw_mr-np3-hangs-fail']])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        osu.read(text, max_size=1 << 20)


def test_a_table_must_go_to_the_last_size():
    with pytest.raises(Incomplete, match='^line 26: the table ends at 1048576 B, not at 4194304 B'):
        osu.read(LATENCY, 4194304)
    with pytest.raises(Wrong, match='goes on to 1048576 B, beyond 524288 B'):
        osu.read(LATENCY, 524288)
    assert osu.read(LATENCY, 1048576)[0] == ACCEPTED['latency-np2'][0]
    assert osu.read(BARRIER, 8)[0] == ACCEPTED['barrier-np4'][0]


@pytest.mark.parametrize('name', SIZED)
@pytest.mark.parametrize('lost', [1, 2, 5])
def test_a_table_must_begin_at_the_first_size(name, lost):
    lines = TEXTS[name].split('\n')
    first = next(at for at, line in enumerate(lines) if line[:1].isdigit())
    del lines[first:first + lost]
    begins = int(ACCEPTED[name][1]['first_size']) << lost
    with pytest.raises(Incomplete, match=rf'^line {len(lines)}: the table begins at {begins} B, not at '):
        to_the_end(name)('\n'.join(lines))
    assert osu.read('\n'.join(lines), min_size=begins)[1]['first_size'] == begins


def test_without_the_last_size_a_table_below_4_KiB_is_incomplete():
    head, tail = LATENCY.split('4096 ')
    with pytest.raises(Incomplete, match='the table ends at 2048 B already'):
        osu.read(head)
    assert osu.read(head + '4096 ' + tail.partition('\n')[0])[1]['last_size'] == 4096


@pytest.mark.parametrize('line, message', [('# Size', '# Size MB/s Messages/s'), ('# OSU', '# OSU MPI'),
                                           (r'# \[ pairs', r'# \[ pairs')])
def test_a_lost_line_is_incomplete(line, message):
    text, count = re.subn(rf'^{line}.*\n', '', RATES, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=rf'^line \d+: .*{message}'):
        osu.read(text)


# ---- wrong

def test_a_failed_validation():
    """osu_allreduce -c of 7.4 fails with its default datatype at 16 B, ends there, and exits with 1."""
    with pytest.raises(Wrong, match='DATA VALIDATION ERROR'):
        osu.read(ALL['allreduce-char-validated-np2-fail'])


@pytest.mark.parametrize('said', ['This test requires exactly two processes', 'This test requires at least two processes',
                                  'Invalid option [-f]'])
def test_a_refusal_in_the_words_of_osu(said):
    with pytest.raises(Wrong, match=re.escape(said)):
        osu.read(f'{said}\n-----\nPrimary job  terminated normally\n')


WRONG = [
    (r'(?s)(.*)', r'\1\1', '2 lines "# Size MB/s Messages/s"'), (r'(?s)(.*)', r'\1# OSU MPI Latency Test v7.4\n', '2 benchmarks in one output'),
    (r'(# \[ pairs.*\n)', r'\1\1', '2 lines'), ('pairs: 2', 'pairs: 0', 'is 0'),
    ('window size: 64', 'window size: varied', 'not a count'), ('window size: 64', 'window size: nan', 'not a count'),
    ('MPI Multiple', 'MPI-CUDA Multiple', 'buffers in the memory of the host'), ('Multiple Bandwidth / Message Rate', 'Hello World', 'not read'),
    (r'\n8   .*', '', '16 B is not the size that follows'), (r'(\n8   .*)', r'\1\1', '8 B is not the size that follows'),
    (r'\n8 ', r'\n9 ', '9 B is not'), (r'(?s)\n1  .*?\n', '\n3                       6.55        6554338.28\n', 'powers of two'),
    ('6480722.26', '6480722.2 ', 'no row'), ('12.96', '22.96', '2 B: 22.96 MB/s are not 6480722.26 messages/s'),
    ('9274.39', '9274.41', 'are not'), ('12.96', '-2.96', 'no row'), ('12.96', ' 0.00', '0.00 MB/s are not'), ('12.96', '  nan', 'no row'),
    ('12.96', '12960', 'no row'), ('12.96', '*****', 'no row'), (r'\n2  ', '\nnan', '4 B is not'), ('6480722.26', '', 'no row'),
    ('12.96', '1_2.9', 'no row'), ('12.96', '1٣.96', 'no row'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, RATES, count=1)
    assert count and text != RATES, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        osu.read(text)


@pytest.mark.parametrize('name, old, new, error, message', [
    ('bw-np2', 'MPI Bandwidth', 'MPI Broadcast Latency', Incomplete, r'without "# Size Avg Latency\(us\)"'),
    ('latency-np2', 'Latency(us)', 'Latency(us)        Validation', Incomplete, r'without "# Size Avg Latency\(us\)"'),
    ('bw-np2', ' 11.15', ' 1.15', Wrong, 'no row of the table'), ('barrier-np4', ' 2.86', ' .86', Incomplete, 'ends without'),
    ('barrier-np4', '2.86\n', '2.86\n             2.86\n', Wrong, '2 lines'),
    ('barrier-np4', ' 2.86', ' 0.00', Wrong, 'above zero'), ('barrier-np4', ' 2.86', '  nan', Incomplete, 'ends without')])
def test_other_tables(name, old, new, error, message):
    assert old in TEXTS[name]
    with pytest.raises(error, match=message):
        osu.read(TEXTS[name].replace(old, new, 1))


def test_a_bandwidth_of_a_few_bytes_may_be_too_slow_for_two_decimals():
    """As two guests of one core gave it."""
    text = re.sub(r'(\n2 +)\S+', lambda row: f'\n2{"0.00":>{len(row[0]) - 2}}', TEXTS['bw-np2'])
    assert osu.read(text)[0]['bw_2'] == 0 and osu.read(text)[0]['bw_1'] == osu.read(TEXTS['bw-np2'])[0]['bw_1']
    text = re.sub(r'(\n8 +)\S+', lambda row: f'\n8{"0.00":>{len(row[0]) - 2}}', TEXTS['bw-np2'])
    with pytest.raises(Wrong, match='8 B is 0.00: it must be above zero'):
        osu.read(text)
    slow = re.sub(r'\n1 .*', f'\n1{"0.00":>27}{"4727.64":>18}', TEXTS['mbw_mr-np2'])
    assert osu.read(slow)[0] == {**osu.read(TEXTS['mbw_mr-np2'])[0], 'mbw_mr_1': 0, 'message_rate_1': 4727.64}
    with pytest.raises(Wrong, match='1 B is 0.00: it must be above zero'):
        osu.read(slow.replace('4727.64', '   0.00'))
    with pytest.raises(Wrong, match='are not 9727.64'):
        osu.read(slow.replace('4727.64', '9727.64'))


# ---- mutations


@mutated
@given(name=st.sampled_from(SIZED), data=st.data())
def test_a_truncated_output_without_the_last_size_ends_between_rows_above_4_KiB(name, data):
    """OSU has no end: without max_size such a table is a whole one of a smaller -m."""
    text = TEXTS[name].rstrip()
    end = data.draw(st.integers(0, len(text) - 1))
    result = outcome(osu.read, text[:end])
    if result:
        metrics, facts = ACCEPTED[name]
        assert text[end] == '\n' or text[end - 1] == '\n'
        assert facts['last_size'] >= result[1]['last_size'] >= 4096
        assert result[0] == {metric: metrics[metric] for metric in result[0]}
