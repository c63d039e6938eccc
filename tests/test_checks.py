"""Recorded outputs, through the checks' own parse(): every declared metric comes out of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conftest import TOP, shell
from parity import plan
from parity.check.metric import Metric
from parity.check.reader import Wrong
from parity.check.sizing import Dense
from parity.verdict import judge
from replay import Replay, check, recorded, room

hpcc = room('hpcc')
hpl = room('hpl')
npb = room('npb')
stream = room('stream')


def hpcc_case(text: str, llc_bytes=1 << 20, **problem) -> Replay:
    cls = check('hpcc', 'Hpcc')
    facts = hpcc.read(text)[1]
    asked = {k: int(facts[k]) for k in ('n', 'nb', 'p', 'q')} | problem
    made = Replay(cls, {'llc_bytes': llc_bytes}, num_tasks=int(facts['processes']), problem=Dense(**asked, why=''),
                  place_ranks=lambda: None)
    cls.place(made)
    return made


@pytest.mark.parametrize('file', [f for f in sorted((recorded('hpcc')).glob('np*.txt')) if 'failed' not in f.name],
                         ids=lambda f: f.stem)
def test_hpcc_gives_every_metric_it_declares(file):
    text = file.read_text()
    case = hpcc_case(text)
    values = case.replay(text)
    assert values['hpl'] > 0 and case.facts['n'] == case.problem.n
    assert bool(case.left_out) == (case.num_tasks == 1)


def test_hpcc_with_another_problem_than_asked_is_wrong():
    text = (recorded('hpcc') / 'np2.txt').read_text()
    with pytest.raises(Wrong, match='ran N .* asked for 12345'):
        hpcc_case(text, n=12345).replay(text)
    case = hpcc_case(text)
    case.num_tasks = 4
    with pytest.raises(Wrong, match='ran 2 processes, asked for 4'):
        case.replay(text)


def test_stream_arrays_that_a_cache_may_hold_are_labelled():
    text = (recorded('hpcc') / 'np2.txt').read_text()
    array = 8 * hpcc.read(text)[1]['stream_vector_length']
    roomy, tight = hpcc_case(text, llc_bytes=array / 4.1), hpcc_case(text, llc_bytes=array / 3.9)
    unknown = hpcc_case(text, llc_bytes=None)
    for case in (roomy, tight, unknown):
        case.replay(text)
    assert not roomy.labels
    assert {n for n in tight.labels} == {f'stream_single_{k}' for k in ('copy', 'scale', 'add', 'triad')}
    assert len(unknown.labels) == 8 and 'not known' in unknown.labels['stream_star_add'][1]


@pytest.mark.parametrize('file', sorted((recorded('filecopy')).glob('*.txt')), ids=lambda f: f.stem)
def test_filecopy_gives_every_metric_it_declares(file):
    cls = check('filecopy', 'FileCopy')
    case = Replay(cls, {})
    case.replay(file.read_text())
    assert set(case.labels) == ({'seconds', 'rate'} if 'as-is' in file.name else set())


@pytest.mark.parametrize('file', [f for f in sorted((recorded('npb')).glob('npb*.txt')) if 'fail' not in f.name],
                         ids=lambda f: f.stem)
def test_npb_gives_every_metric_it_declares(file):
    cls = check('npb', 'Npb')
    text = file.read_text()
    facts = npb.read(text)[1]
    name, letter, ranks = file.stem.split('-')[1].split('.')[:3]
    case = Replay(cls, {}, benchmark=name, letter=letter, num_tasks=int(ranks))
    values = case.replay(text)
    assert values['mops_total'] > 0 and case.facts == facts
    for wrong in ({'benchmark': 'xx'}, {'letter': 'Z'}, {'num_tasks': 3}):
        vars(case).update(wrong)
        with pytest.raises(Wrong):
            case.replay(text)
        vars(case).update(benchmark=name, letter=letter, num_tasks=int(ranks))


@pytest.mark.parametrize('file', sorted((recorded('hpl')).glob('hpl*.txt')), ids=lambda f: f.stem)
def test_hpl_gives_every_metric_it_declares_and_notices_another_problem(file):
    cls = check('hpl', 'Hpl')
    text = file.read_text()
    line, = hpl.results(text)
    asked = Dense(line.n, line.nb, line.p, line.q, '')
    assert Replay(cls, {}, dat='', problem=asked).replay(text)['gflops'] == line.gflops
    with pytest.raises(Wrong, match='asked for'):
        Replay(cls, {}, dat='', problem=Dense(line.n + 1, line.nb, line.p, line.q, '')).replay(text)


@pytest.mark.parametrize('file', sorted((recorded('stream')).glob('stream_c*.txt')), ids=lambda f: f.stem)
def test_stream_gives_every_metric_it_declares(file):
    cls = check('stream', 'Stream')
    text = file.read_text()
    facts = stream.read(text)[1]
    array = 8 * facts['array_elements']
    case = Replay(cls, {'llc_bytes': array / 5}, count=int(facts['threads']))
    assert case.replay(text)['triad'] > 0 and not case.labels
    tight = Replay(cls, {'llc_bytes': array / 3}, count=int(facts['threads']))
    tight.replay(text)
    assert set(tight.labels) == {'copy', 'scale', 'add', 'triad'}
    with pytest.raises(Wrong, match='asked for 7'):
        Replay(cls, {}, count=7).replay(text)


def test_the_plan_knows_what_a_size_never_runs():
    asked = ['-n', '^(Tcp%|Fio|Blocks|Hpcc)', '-P', 'size=quick,acceptance']
    cases = plan.of_command(['-c', str(TOP / 'checks'), '-r', *asked]).cases
    left_out = {(c.check, c.case.endswith('=quick')): {m.name: m.left_out for m in c.metrics if m.left_out} for c in cases}
    assert left_out['Tcp', True]['rate_2'] == 'size=quick runs 1 and 4 streams' and 'rate_4' not in left_out['Tcp', True]
    assert 'rate_10MiB_8' in left_out['Fio', True] and 'rate_4KiB_1' not in left_out['Fio', True]
    assert 'read_1MB' not in left_out['Blocks', True] and 'read_10MB' in left_out['Blocks', True]
    assert not left_out['Hpcc', True] and not any(names for (_, quick), names in left_out.items() if not quick)


@pytest.mark.parametrize('metric, value, said', [
    ({}, 0.5, ''), ({}, 1e18, ''), ({}, 0.0, '0: must be above 0 and at most 1e+18 MB/s'), ({}, -1.0, '-1: must be above 0'),
    ({}, 1e300, '1e+300: must be above 0 and at most 1e+18'), ({}, float('nan'), 'nan: must be'), ({}, float('inf'), 'inf: must be'),
    ({'zero': True}, 0.0, ''), ({'zero': True}, -0.5, '-0.5: must be at least 0'), ({'most': 100}, 100.5, 'at most 100 MB/s')])
def test_a_metric_states_its_range(metric, value, said):
    told = Metric('rate', 'MB/s', 'higher', **metric).refuses(value)
    assert said in told and bool(said) == bool(told)


def test_losses_and_errors_may_be_zero_and_speeds_may_not():
    tcp = check('iperf3', 'Tcp')
    shares = tcp.of(SimpleNamespace(where='within', protocol='udp'), (1,))
    assert {m.name: (m.refuses(0), bool(m.refuses(101))) for m in shares} == {
        'rate_1': ('0: must be above 0 and at most 1e+18 MB/s', False), 'loss_1': ('', True)}
    may = {m.name for m in check('filecopy', 'FileCopy').metrics if not m.refuses(0)}
    assert may == {'hangs', 'failed_writes'}


@pytest.mark.parametrize('printed', ['0', '1e300'])
def test_a_figure_outside_of_its_range_is_wrong(tmp_path, results, printed):
    folder = tmp_path / 'compute'
    folder.mkdir()
    (folder / 'probe.py').write_text(PROBE.replace('@PRINTED@', printed))
    shell(f'. ci/activate; reframe -c {folder} -r', TOP, PARITY_RESULTS=str(results))
    cell, = judge.newest().cells
    assert cell.verdict == 'wrong' and 'metric rate is ' in cell.reason and 'must be above 0' in cell.reason


PROBE = '''
import reframe as rfm
from parity.check.metric import Metric
from parity.check.workload import Workload

@rfm.simple_test
class Probe(rfm.RunOnlyRegressionTest, Workload):
    executable = 'echo @PRINTED@'
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    def parse(self, text):
        return {'rate': float(text)}
'''
