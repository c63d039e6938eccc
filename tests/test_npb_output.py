"""NPB's output: the figures of real runs, and that no damaged or failed output passes for a good one."""

import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, npb

RECORDED = Path(__file__).parent / 'recorded' / 'npb'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: npb.read(text) for name, text in TEXTS.items()}
BT = TEXTS['npb-bt.A.4']


def as_331(text):
    """The text as 3.3.1 prints it (NPB3.3-MPI, common/print_results.f and the programs' beginnings)."""
    told = 'processes' if re.search('(FT|IS|LU|MG) Benchmark', text) else 'active processes'
    for old, new in ((r'Benchmarks 3\.4 --', 'Benchmarks 3.3 --'), (r'3\.4\.\d\n', '3.3.1\n'), (r'MPIFC ', 'MPIF77'),
                     ('Active processes=', 'Compiled procs  ='), ('Total number of processes', f'Number of {told}'),
                     (r' *\(class .\)', '')):
        text = re.sub(old, new, text)
    return text


# ---- what real runs say

def test_figures_of_bt():
    assert npb.read(BT)[0] == {'mops_total': 7375.57, 'mops_per_process': 1843.89, 'seconds': 22.82}


def test_facts_of_bt():
    assert npb.read(BT)[1] == {
        'benchmark': 'bt', 'class': 'A', 'total_processes': 4, 'active_processes': 4, 'version': '3.4.1'}


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_every_recorded_run_is_the_one_its_name_says(name):
    benchmark, npb_class, ranks = re.match(r'npb(?:343)?-(\w\w)\.(\w)\.(\d)', name).groups()
    metrics, facts = ACCEPTED[name]
    npb.check(facts, benchmark, npb_class, int(ranks))
    assert facts['version'] == ('3.4.3' if '343' in name else '3.4.1')
    assert min(metrics.values()) > 0 and all(isinstance(value, float) for value in metrics.values())


def test_the_other_format_of_is():
    assert ACCEPTED['npb-is.A.4'][0] == {'mops_total': 571.02, 'mops_per_process': 142.75, 'seconds': 0.15}


def test_a_time_that_prints_as_zero_comes_from_operations_and_rate():
    assert ' Time in seconds =                     0.00' in TEXTS['npb-is.S.4']
    assert ACCEPTED['npb-is.S.4'][0]['seconds'] == pytest.approx(10 * 65536 / 379.60e6)
    assert ACCEPTED['npb-mg.S.4'][0]['seconds'] == pytest.approx(58 * 4 * 32 ** 3 / 2519.82e6)


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_the_format_of_331(name):
    metrics, facts = outcome(npb.read, as_331(TEXTS[name]))
    assert metrics == ACCEPTED[name][0]
    assert facts == {**ACCEPTED[name][1], 'version': '3.3.1'}


def test_lines_of_tools_and_other_ranks_do_not_matter():
    text = BT.replace(' Mop/s total ', '[node01:4711] 1 more process has sent help message\n Mop/s total ')
    assert outcome(npb.read, f'module load npb\nWARNING: failure: no huge pages\n{text}real 0m23.1s\n') == ACCEPTED['npb-bt.A.4']


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_does_not_matter(name):
    assert outcome(npb.read, TEXTS[name].replace('\n', '\r\n')) == ACCEPTED[name]


# ---- incomplete

@pytest.mark.parametrize('text', ['', 'srun: error: node01: task 0: Killed\n', BT.split(' BT Benchmark Comp')[0],
                                  BT.split(' Mop/s total')[0], BT.split(' Verification    =')[0],
                                  BT.split(' Compile options')[0], BT.split('gov')[0]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        npb.read(text)


@pytest.mark.parametrize('label', ['Class', 'Time in seconds', 'Total processes', 'Active processes', 'Mop/s total',
                                   'Mop/s/process', 'Verification', 'Version'])
def test_results_without_a_line_are_incomplete(label):
    with pytest.raises(Incomplete, match=rf'^line 6\d: .*"{label}'):
        npb.read(re.sub(rf'^ {label} *=.*\n', '', BT, flags=re.M))


@pytest.mark.parametrize('text', [as_331(BT), as_331(TEXTS['npb-mg.A.4'])])
def test_in_331_a_beginning_without_the_number_of_processes_is_incomplete(text):
    with pytest.raises(Incomplete, match='without "Number of processes: ..."'):
        npb.read(re.sub('.*umber of (active )?processes.*\n', '', text))


def test_in_331_idle_processes_fail_the_check():
    facts = npb.read(as_331(BT).replace('active processes:      4', 'active processes:      1'))[1]
    with pytest.raises(Wrong, match='active processes: ran 1, asked for 4'):
        npb.check(facts, 'bt', 'A', 4)
    with pytest.raises(Wrong, match='5 processes began, 4 ended'):
        npb.read(as_331(TEXTS['npb-mg.A.4']).replace('processes:      4', 'processes:      5'))


@pytest.mark.parametrize('said', ['Error encountered in allocating space', 'ERROR: memoy allocation failed'])
def test_no_memory_is_incomplete_in_the_words_of_npb(said):
    with pytest.raises(Incomplete, match=f'^line 7: {said}'):
        npb.read(f'{BT[:120]}\n {said}\n')


# ---- wrong

@pytest.mark.parametrize('name, sentence', [
    ('npb-bt.S.2-strict-fail', r'Expecting a square number of processes \(such as 1\)'),
    ('npb-cg.S.3-strict-fail', r'Expecting a power-of-two number of processes \(such as 2\)')])
def test_a_refused_number_of_processes_is_wrong_in_the_words_of_npb(name, sentence):
    with pytest.raises(Wrong, match=sentence):
        npb.read(ALL[name])


@pytest.mark.parametrize('said', [
    ' ERROR: Number of processes (3) is not a power of two (2?)', ' ERROR: could not determine proper proc_grid for nprocs=     7',
    " Error: couldn't determine proper proc_grid for nprocs=     7", ' Error: Cell size too small. Min size is 3',
    '     SUBDOMAIN SIZE IS TOO SMALL - ', ' ERROR: number of processes 2048 not within range 1-1024'])
def test_other_refusals(said):
    with pytest.raises(Wrong, match='^line 1: ' + re.escape(' '.join(said.split()))):
        npb.read(f'{said}\nMPI_ABORT was invoked on rank 0\n')


WRONG = [
    ('  SUCCESSFUL', 'UNSUCCESSFUL', 'Verification = UNSUCCESSFUL'),
    (r'(Verification    = ).*', r'\1 NOT PERFORMED', 'NOT PERFORMED'),
    (r'(Verification    = ).*', r'\1 SUCCESS', "'SUCCESS'"),
    ('Verification Successful', 'Verification failed', 'Verification failed'),
    (r'\n {11}(2 0\.113)', r'\n FAILURE:  \1', 'FAILURE: 2 0.113'),
    (r'(?s)( BT Benchmark Completed\..*)', r'\1\1', '2 lines "npb@nas.nasa.gov'),
    (r'(?s)(.*)', r'\1\1', '2 lines "npb@nas.nasa.gov'),
    (r'( Mop/s total.*\n)', r'\1\1', '2 lines "Mop/s total'),
    (r'(Class .*)A', r'\1B', 'Mop/s of BT class B: .* not the work'),
    (r'(Class .*)A', r'\1U', "class 'U' is none"),
    (r'(Mop/s total .*)7375', r'\g<1>7475', 'Mop/s a process of 4 are not 7475.57'),
    (r'(Mop/s/process .*)1843', r'\g<1>1844', '1844.89 Mop/s a process of 4'),
    (r'(?s)(Mop/s total .*)7375\.57(.*)1843\.89', r'\g<1>9375.56\2 2343.89', 'is not the work of'),
    ('22.82', '22.84', 'not the work'),
    ('22.82', '0.00', 'not the work'),
    ('22.82', '-22.82', 'must not be negative'),
    ('22.82', '22.8', '2 decimals'),
    (r'7375\.57', '0.00', 'above zero'), (r'7375\.57', '-7375.57', 'above zero'), (r'7375\.57', 'NaN', 'NaN'),
    (r'7375\.57', 'Infinity', 'Infinity'), (r'7375\.57', '*' * 12, 'not a finite'),
    ('0.5654702453013E-14', 'NaN', 'NaN'),
    (r'(Total processes .*)4', r'\g<1>5', 'Mop/s a process of 5 are not'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, BT, count=1)
    assert count and text != BT, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        npb.read(text)


@pytest.mark.parametrize('old, new, message', [
    ('BT Benchmark Completed', 'SP Benchmark Completed', 'without "BT Benchmark Completed'),
    ('-- BT Benchmark', '-- DT Benchmark', 'without "DT Benchmark Completed'), ('3.4.1', '3.5.1', 'without "Version')])
def test_another_end_than_the_beginning_is_none(old, new, message):
    with pytest.raises(Incomplete, match=message):
        npb.read(BT.replace(old, new))


def test_idle_processes_are_a_fact_and_fail_the_check():
    """NPB_NPROCS_STRICT=off: the excess idles, the rate of one process is over all of them."""
    text = BT.replace('processes:      4\n', 'processes:      5\n WARNING: Number of processes is not a square number (4 active)\n')
    text = re.sub('(Total processes .*)4', r'\g<1>5', text).replace('1843.89', '1475.11')
    facts = npb.read(text)[1]
    assert (facts['total_processes'], facts['active_processes']) == (5, 4)
    with pytest.raises(Wrong, match='active processes: ran 4, asked for 5'):
        npb.check(facts, 'bt', 'A', 5)


@pytest.mark.parametrize('asked, message', [
    (('sp', 'A', 4), 'benchmark: ran bt, asked for sp'), (('bt', 'B', 4), 'class: ran A, asked for B'),
    (('bt', 'A', 9), 'total processes: ran 4, asked for 9')])
def test_another_run_than_asked_for_is_wrong(asked, message):
    with pytest.raises(Wrong, match=message):
        npb.check(npb.read(BT)[1], *asked)
