"""STREAM's output: real runs, and that no damaged output passes for a good one."""

import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, stream

RECORDED = Path(__file__).parent / 'recorded' / 'stream'
TEXTS = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
C2 = TEXTS['stream_c-omp2']
ACCEPTED = {name: stream.read(text) for name, text in TEXTS.items()}


# ---- what real runs say

def test_figures():
    assert stream.read(C2)[0] == {'copy': 40947.5, 'scale': 41682.5, 'add': 43823.8, 'triad': 42826.3}


@pytest.mark.parametrize('name, threads, repetitions, version', [('stream_c-omp1', 1, 20, '5.10'), ('stream_c-omp2', 2, 20, '5.10')])
def test_facts(name, threads, repetitions, version):
    assert ACCEPTED[name][1] == {'array_elements': 20_000_000, 'threads': threads, 'repetitions': repetitions, 'version': version}


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(stream.read, f'module load stream\n{text}real 0m2.742s\n') == ACCEPTED[name]


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'Segmentation fault\n', C2.split('Triad')[0], C2.split('Solution')[0],
                                  C2.split('on all three')[0]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .*Solution Validates'):
        stream.read(text)


@pytest.mark.parametrize('line', ['STREAM version', 'This system uses 8 bytes', 'Array size', 'Each kernel', 'Number of Threads counted',
                                  'Copy:', 'Scale:', 'Add:', 'Triad:', 'Solution'])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', C2, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        stream.read(text)


# ---- wrong

WRONG = [
    ('Solution Validates.*', 'Failed Validation on array a[], AvgRelAbsErr > epsilon (1.000000e-13)', r'Failed Validation on array a\[\]'),
    ('(Solution Validates.*)', r'Failed Validation on array c[]\n\1', 'Failed Validation on array c'),
    ('1.000000e-13', '1.000000e-03', 'average error of 1.000000e-3 only'), ('1.000000e-13', 'nan', 'not a finite'),
    ('(?s)(.*)', r'\1\1', '2 lines "Solution Validates'), ('1.000000e-13', '1.000000e-06', 'error of 1.000000e-6 only'),
    ('(Triad:.*)', r'\1\n\1', '2 lines "Triad:"'),
    ('counted = 2', 'counted = 1', '2 threads were asked for, 1 ran'),
    ('counted = 2', 'counted = 0', 'is 0'),
    ('42826.3', '43826.3', 'MB/s of Triad: 43826.3 in 0.011208 s is not the work'), ('42826.3', '0.0', 'above zero'),
    ('42826.3', '-42826.3', 'above zero'), ('42826.3', 'inf', 'not a finite'), ('42826.3', '*' * 10, 'not a finite'),
    ('42826.3', '42826', '1 decimals'), ('0.011208', '0.000000', 'above zero'), ('0.011208', '0.011308', 'not the work'),
    ('0.012750', '0.010750', 'times of Triad: 0.011208, 0.010750, 0.016253 are not'), ('0.016253', '0.012253', '0.012253 are not'),
    ('Array size = 20000000', 'Array size = 10000000', 'not the work'), ('Array size = 20000000', 'Array size = 0', 'is 0'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, C2, count=1)
    assert count and text != C2, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        stream.read(text)


def test_single_precision_is_not_what_is_measured():
    with pytest.raises(Incomplete, match='"This system uses 8 bytes per array element."'):
        stream.read(C2.replace('uses 8 bytes', 'uses 4 bytes'))
