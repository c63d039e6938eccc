"""The ping-pong of mpi4py: the curves of real runs, and that no damaged output passes for a good one."""

import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, pingpong

RECORDED = Path(__file__).parent / 'recorded' / 'pingpong'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: pingpong.read(text) for name, text in TEXTS.items()}
SMALL = TEXTS['np2-1MiB']


@pytest.mark.parametrize('name, first, last', [('np2-1MiB', 1, 1 << 20), ('np2-4KiB-64MiB', 4096, 1 << 26), ('np4-64KiB', 1, 1 << 16)])
def test_every_recorded_run_is_the_one_its_name_says(name, first, last):
    metrics, facts = ACCEPTED[name]
    assert (facts['first_size'], facts['last_size']) == (first, last)
    sizes = [1 << log for log in range(31) if first <= 1 << log <= last]
    assert list(metrics) == [f'{figure}_{size}' for figure in ('latency', 'bandwidth') for size in sizes]
    assert all(value > 0 for value in metrics.values())


def test_figures():
    assert '         8              1.71 | 4.6682273e-06 ± 1.0193e-04     2000\n' in SMALL
    metrics = ACCEPTED['np2-1MiB'][0]
    assert metrics['latency_8'] == pytest.approx(4.6682273) and metrics['bandwidth_8'] == 1.71


def test_crlf_lines_of_the_job_and_a_job_without_utf8_do_not_matter():
    assert outcome(pingpong.read, 'module load x\n' + SMALL.replace('\n', '\r\n') + 'real 1.0 s\n') == ACCEPTED['np2-1MiB']
    for lost in ('\ufffd', '\ufffd\ufffd'):
        assert outcome(pingpong.read, SMALL.replace('±', lost)) == ACCEPTED['np2-1MiB']


@pytest.mark.parametrize('text', ['', 'mpirun noticed that\n', SMALL.partition('         1 ')[0], SMALL.partition('      4096')[0],
                                  ALL['no-header-np2-fail']])
def test_an_output_that_is_not_whole_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        pingpong.read(text)


def test_the_table_must_go_to_the_last_size():
    with pytest.raises(Incomplete, match='ends at 1048576 B, not at 2097152 B'):
        pingpong.read(SMALL, 1 << 21)
    with pytest.raises(Wrong, match='goes on to 1048576 B, beyond 524288 B'):
        pingpong.read(SMALL, 1 << 19)


@pytest.mark.parametrize('pattern, replacement, message', [
    (r'(?s)(.*)', r'\1\1', '2 lines "# MPI PingPong Test"'), (r'\n +8 .*', '', '16 B is not the size'), (r'(\n +8 .*)', r'\1\1', '8 B is not'),
    ('1.71', '1.81', 'MB/s of 8 B: 1.81 in 0.0000046682273 s is not the work of 8e-06'), ('4.6682273', '4.8682273', 'is not the work'),
    ('4.6682273e-06', '0.0000000e-06', 'above zero'), ('2000\n', '   0\n', 'no row'), ('1.71', ' nan', 'no row'), ('1.71', '1.7 ', 'no row'),
    (r'1.71 \|', '1.71  ', 'no row'), ('         8', '         9', '9 B is not'), ('  8  ', ' ٣8  ', 'no row')])
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, SMALL, count=1)
    assert count and text != SMALL
    with pytest.raises(Wrong, match=message):
        pingpong.read(text)


def test_a_table_without_statistics_is_not_read():
    with pytest.raises(Wrong, match='--no-stats is not read'):
        pingpong.read(ALL['no-stats-np2-fail'])
