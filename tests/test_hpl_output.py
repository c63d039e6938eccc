"""HPL's output: the figures of real runs, and that no damaged or failed output passes for a good one."""

import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, hpl
from parity.outputs.hpl import HplResult

RECORDED = Path(__file__).parent / 'recorded' / 'hpl'
TEXTS = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
NP4, PROGRESS = TEXTS['hpl-N4000-np4'], TEXTS['hpl23-spack1x-N4000-np4']
BLOCK = re.compile(r'={80}\nT/V.*?PASSED\n', re.S)


def several(text):
    """The output as of an HPL.dat with two N, NB and grids: three results, of which the first is the best."""
    block = BLOCK.search(text)[0]
    other = block.replace('   4000   192     2     2               0.55             7.8214e+01',
                          '   2000    96     1     4               0.10             5.3393e+01')
    text = text.replace(block, block + other.replace('2.68609114e-03', '3.10000000e-03') + other)
    for name, one, two in (('N ', '4000', '2000'), ('NB', '192', '96'), ('P ', '2', '1'), ('Q ', '2', '4')):
        text = text.replace(f'{name}     :{one:>8} \n', f'{name}     :{one:>8} {two:>8} \n')
    return re.sub(r'1 tests( with| completed and passed)', r'3 tests\1', text)


TEXTS['several'] = several(NP4)
ACCEPTED = {name: hpl.read(text) for name, text in TEXTS.items()}


# ---- what real runs say

def test_the_result_of_the_original():
    assert hpl.results(NP4) == [HplResult('WR11C2R4', 4000, 192, 2, 2, 0.55, 78.214, 2.68609114e-3)]
    assert hpl.read(NP4)[0] == {'gflops': 78.214, 'seconds': 0.55, 'residual': 2.68609114e-3}


def test_the_result_with_progress_lines_and_detailed_times():
    assert hpl.read(PROGRESS)[0] == {'gflops': 26.269, 'seconds': 1.63, 'residual': 2.68609114e-3}


def test_facts():
    assert hpl.read(NP4)[1] == {'variant': 'WR11C2R4', 'n': 4000, 'nb': 192, 'p': 2, 'q': 2, 'processes': 4,
                              'tests': 1, 'version': '2.3'}


def test_of_several_lines_all_are_results_and_the_best_is_the_figure():
    found = hpl.results(TEXTS['several'])
    assert [(each.n, each.nb, each.p, each.q) for each in found] == [(4000, 192, 2, 2), (2000, 96, 1, 4), (2000, 96, 1, 4)]
    assert ACCEPTED['several'][0] == hpl.read(NP4)[0] and ACCEPTED['several'][1]['tests'] == 3


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(hpl.read, f'module load hpl\n{text}real 0m2.742s\n') == ACCEPTED[name]


def test_a_time_that_prints_as_zero_comes_from_operations_and_rate():
    text = NP4.replace('4000', '100 ').replace(' 0.55  ', ' 0.00  ')
    work = (2 / 3 * 100 ** 3 + 1.5 * 100 ** 2) / 1e9
    assert hpl.read(text)[0]['seconds'] == pytest.approx(work / 78.214)


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'srun: error: node01: task 0: Killed\n', NP4.split('WR11')[0],
                                  NP4.split('||Ax-b||_oo/(eps*(')[0], NP4.split('End of Tests')[0]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        hpl.read(text)


@pytest.mark.parametrize('line, message', [
    ('HPLinpack 2.3', 'HPLinpack'), ('WR11C2R4', '0 result lines and 1 residuals of 1 tests'),
    (r'\|\|Ax-b\|\|_oo/\(eps\*', '1 result lines and 0 residuals'),
    ('Finished ', 'Finished'), ('.*tests completed and passed', 'completed and passed'), ('.*tests skipped', 'skipped'),
    ('End of Tests', 'End of Tests')])
def test_a_lost_line_is_incomplete(line, message):
    text, count = re.subn(rf'^{line}.*\n', '', NP4, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=rf'^line \d+: .*{message}'):
        hpl.read(text)


def test_no_memory_is_incomplete_in_the_words_of_hpl():
    said = ('HPL ERROR from process # 0, on line 164 of function HPL_pdtest:\n'
            '>>> [1,0] Memory allocation failed for A, x and b. Skip. <<<\n\n')
    text = BLOCK.sub(said, NP4).replace('1 tests completed and passed', '0 tests completed and passed')
    text = text.replace('0 tests skipped', '1 tests skipped')
    with pytest.raises(Incomplete, match=r'Memory allocation failed for A, x and b\. Skip\.'):
        hpl.read(text)


# ---- wrong

def test_illegal_input_is_wrong_in_the_words_of_hpl():
    text = ('HPL ERROR from process # 0, on line 419 of function HPL_pdinfo:\n'
            '>>> Need at least 4 processes for these tests <<<\n\n'
            'HPL ERROR from process # 0, on line 621 of function HPL_pdinfo:\n'
            '>>> Illegal input in file HPL.dat. Exiting ... <<<\n\n')
    with pytest.raises(Wrong, match='^line 2: >>> Need at least 4 processes for these tests <<<'):
        hpl.read(text)


WRONG = [
    ('PASSED', 'FAILED', 'the residual of WR11C2R4 with N 4000 is 0.00268609: FAILED'),
    ('2.68609114e-03', '2.68609114e+01', 'the residual of WR11C2R4 with N 4000 is 26.8609'),
    ('2.68609114e-03', 'nan', 'the residual is .* not a finite'), ('2.68609114e-03', '-2.68609114e-03', 'negative'),
    ('1 tests completed and passed', '2 tests completed and passed', '2 passed'),
    ('0 tests completed and failed', '1 tests completed and failed', '1 failed'),
    ('0 tests skipped', '1 tests skipped', '1 skipped'),
    ('7.8214e[+]01', '8.8214e+01', 'Gflop/s of N = 4000: .* not the work of'), ('7.8214e[+]01', '-7.8214e+01', 'above zero'),
    ('7.8214e[+]01', '0.0000e+00', 'above zero'), ('7.8214e[+]01', 'inf', 'not a finite'),
    (' 0.55 ', ' 0.57 ', 'not the work'), (' 0.55 ', ' -0.55 ', 'negative'), (' 0.55 ', ' 0 ', '2 decimals'),
    ('End of Tests.', 'End of Tests.\nEnd of Tests.', '2 lines "End of Tests'),
    (r'(?s)(.*)', r'\1\1', '2 lines'),
    ('(Finished .*)', r'\1\n\1', '2 lines "Finished'),
    ('tests completed and passed residual checks,', 'tests completed without checking,', 'tests completed without checking'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, NP4, count=1)
    assert count and text != NP4, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        hpl.read(text)


def test_a_loose_threshold_does_not_excuse():
    text = NP4.replace('2.68609114e-03', '2.68609114e+01').replace('  16.0', '1000.0')
    with pytest.raises(Wrong, match='the residual .* is 26.8609: PASSED'):
        hpl.read(text)
