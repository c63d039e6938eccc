"""Recorded outputs through the checks' own parse(): all declared metrics come out, another run than asked for is refused, and
what a cache may have made says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conftest import TOP, shell
from parity import plan
from parity.check.reader import Incomplete, Wrong
from parity.check.sizing import Dense
from parity.check.workload import Metric
from parity.verdict import judge
from replay import Replay, check, recorded, room

GIB = 1 << 30


def text(code: str, name: str) -> str:
    return (recorded(code) / f'{name}.txt').read_text()


def facts(code: str, name: str) -> dict:
    return room(code).read(text(code, name))[1]


def hpcc(name: str, llc_bytes=1 << 20, **problem) -> Replay:
    ran = facts('hpcc', name)
    made = Replay(check('hpcc', 'Hpcc'), {'llc_bytes': llc_bytes}, num_tasks=ran['processes'], place_ranks=lambda: None,
                  problem=Dense(**{k: ran[k] for k in ('n', 'nb', 'p', 'q')} | problem, why=''))
    made.cls.place(made)
    return made


def npb(name: str, **attributes) -> Replay:
    benchmark, letter, ranks = name.split('-')[1].split('.')[:3]
    return Replay(check('npb', 'Npb'), {}, **{'benchmark': benchmark, 'letter': letter, 'num_tasks': int(ranks), **attributes})


def hpl(name: str, **problem) -> Replay:
    ran = facts('hpl', name)
    return Replay(check('hpl', 'Hpl'), {}, dat='', problem=Dense(**{k: ran[k] for k in ('n', 'nb', 'p', 'q')} | problem, why=''))


def hpcg(name: str, **attributes) -> Replay:
    ran = facts('hpcg', name)
    return Replay(check('hpcg', 'Hpcg'), {'llc_bytes': 1}, **{'edge': ran['nx'], 'num_tasks': ran['ranks'], **attributes})


def stream(name: str, caches=5, **attributes) -> Replay:
    ran = facts('stream', name)
    return Replay(check('stream', 'Stream'), {'llc_bytes': 8 * ran['array_elements'] / caches}, **{'count': ran['threads'], **attributes})


def babelstream(name: str, **attributes) -> Replay:
    ran = facts('babelstream', name)
    return Replay(check('babelstream', 'BabelStream'), {'llc_bytes': 1}, **{'elements': ran['array_bytes'] // 8, 'size': 'quick', **attributes})


def osu(name: str, cls='', **attributes) -> Replay:
    benchmark = name.partition('-')[0]
    cls = check('osu', cls or {'barrier': 'OsuBarrier'}.get(benchmark, 'OsuBandwidth' if 'b' in benchmark and benchmark != 'bcast' else 'OsuLatency'))
    made = Replay(cls, {}, largest=cls.largest, **{'benchmark': benchmark, **attributes})
    made.judged = lambda curve: cls.judged(made, curve)
    return made


def imb(name: str, **attributes) -> Replay:
    return Replay(check('imb', 'Imb'), {}, **{'benchmark': 'PingPong', 'num_tasks': 2, **attributes})


def ior(name: str, memory=GIB, local=True, **attributes) -> Replay:
    ran = facts('ior', name)
    asked = {'api': ran['api'], 'access': ran['access'], 'span': ran['nodes'], 'num_tasks': ran['tasks'], 'direct_asked': True,
             'took_direct': lambda: ran['direct'] == 'yes'}
    return Replay(check('ior', 'Ior'), {'memory_bytes': memory}, caches_known=dict, is_local=lambda: local, **{**asked, **attributes})


def mdtest(name: str, local=True, **attributes) -> Replay:
    ran = facts('mdtest', name)
    asked = {'num_tasks': ran['tasks'], 'span': ran['nodes'], 'items': ran['items'], 'iterations': ran['iterations']}
    return Replay(check('mdtest', 'Mdtest'), {}, caches_known=dict, is_local=lambda: local, **{**asked, **attributes})


def fileset(name: str, **attributes) -> Replay:
    ran, cls = facts('fileset', name), check('fileset', 'Fileset')
    cls.parse.__globals__['BYTES'].update(recorded=ran['bytes'])
    return Replay(cls, {}, **{'mode': ran['mode'], 'file': 'recorded', 'files': ran['files'], 'num_tasks': ran['ranks'], **attributes})


def fio(name: str, memory=GIB, direct=True, kind='ext4', **attributes) -> Replay:
    cls, operation = check('fio', 'Fio'), 'mixed' if '-rw-' in name else 'read'
    made = Replay(cls, {'memory_bytes': memory}, **{
        'operation': operation, 'blocks': ('4KiB', '1MiB'), 'jobs': (1,), 'took_direct': lambda: direct, 'caches_known': dict,
        'is_memory': lambda: kind == 'tmpfs', 'filesystem_type': lambda: kind, 'label_memory': lambda *told: cls.label_memory(made, *told),
        'rw': lambda: {'read': 'randread', 'mixed': 'rw'}[operation], **attributes})
    made.metrics = cls.of(made, ('4KiB', '1MiB'), (1,))
    return made


def plain(cls: str):
    return lambda name: Replay(check(cls.lower(), cls), {})


#: The case of an output as it was asked for, the outputs, and what another case than the one that ran would have been asked.
CASES = {
    'hpcc': (hpcc, 'np1 np2 np3 np4_1x4 np4_2x2', [{'n': 12345}]),
    'npb': (npb, ' '.join(sorted(f.stem for f in recorded('npb').glob('npb*.txt') if 'fail' not in f.name)), [{'benchmark': 'xx'}, {'letter': 'Z'}, {'num_tasks': 3}]),
    'hpl': (hpl, 'hpl-N4000-np1 hpl-N4000-np4 hpl23-spack1x-N4000-np4', [{'n': 4001}]),
    'hpcg': (hpcg, 'nx32-np2 nx16-np1 nx104-np2', [{'edge': 8}, {'num_tasks': 3}]),
    'stream': (stream, 'stream_c-omp1 stream_c-omp2', [{'count': 7}]),
    'babelstream': (babelstream, 'omp2', [{'elements': 1}, {'size': 'nightly'}]),
    'osu': (osu, ' '.join(f'{b}-np2' for b in 'latency allreduce alltoall bcast bw bibw mbw_mr barrier'.split()), [{'benchmark': 'other'}]),
    'imb': (imb, 'pingpong-16MiB-np2', [{'benchmark': 'Sendrecv'}, {'num_tasks': 4}]),
    'pingpong': (plain('Pingpong'), 'np2-1MiB', []),
    'ior': (ior, 'ior-posix-np4-fpp ior-posix-np2-odirect ior-posix-np4-shared-cq', [{'api': 'X'}, {'access': 'X'}, {'span': 7}, {'num_tasks': 7}]),
    'mdtest': (mdtest, 'mdtest-np2-u-we mdtest-np4-u mdtest-np1', [{'num_tasks': 99}]),
    'filecopy': (lambda name: Replay(check('filecopy', 'FileCopy'), {}), ' '.join(f.stem for f in sorted(recorded('filecopy').glob('*.txt'))), []),
    'fileset': (fileset, 'read-1rank read-2nodes read-2ranks-memory read-write-2nodes-4ranks', [{'files': 1}]),
    'fio': (fio, '3.33-randread-quick 3.33-rw-quick', [{'jobs': (2,)}, {'took_direct': lambda: False}, {'rw': lambda: 'write'}, {'blocks': ('4KiB',)}]),
}


@pytest.mark.parametrize('code, name', [(code, name) for code, (_, names, _) in CASES.items() for name in names.split()])
def test_a_check_gives_every_metric_it_declares_and_refuses_another_run_than_asked_for(code, name):
    case, _, others = CASES[code]
    made = case(name)
    values = made.replay(text(code, name))
    assert all(value >= 0 for value in values.values() if value is not None) and made.facts
    for other in others:
        with pytest.raises(Wrong, match='asked for|no -C'):
            case(name, **other).replay(text(code, name))


def test_every_code_with_a_check_is_replayed():
    from parity.base import codes
    assert {code.room for code in codes.every() if not code.profile} - CASES.keys() == {'ops', 'blocks', 'iperf3'}, 'test_kernels, test_tcp'


def test_hpcc_of_other_ranks_is_wrong_and_of_one_rank_leaves_the_network_out():
    case = hpcc('np2')
    case.num_tasks = 4
    with pytest.raises(Wrong, match='ran 2 processes, asked for 4'):
        case.replay(text('hpcc', 'np2'))
    assert hpcc('np1').left_out and not hpcc('np2').left_out


def test_the_curve_is_kept_and_must_end_where_it_was_asked_to():
    for code, case, name, first in (('osu', osu, 'latency-np2', 'latency_1'), ('imb', imb, 'pingpong-16MiB-np2', 'pingpong_time_0'),
                                    ('pingpong', CASES['pingpong'][0], 'np2-1MiB', 'latency_1')):
        made = case(name)
        made.replay(text(code, name))
        assert first in made.facts['curve']
        with pytest.raises(Incomplete):
            case(name).replay(text(code, name).rstrip()[:-60])


def test_pairs_name_the_slowest():
    cls = check('osu', 'PairsLatency')
    case = Replay(cls, {}, bytes=cls.bytes)
    values = case.replay((recorded('osu') / 'pairs' / 'latency-8B-4nodes.txt').read_text())
    assert case.facts['slowest'] == 'n1 n2' and case.facts['pairs']['n1 n2'] == values['worst'] and len(case.facts['pairs']) == 6


# ---- labels

def labels(case, code, name, change=('', '')):
    case.replay(text(code, name).replace(*change))
    return case.labels


def test_arrays_that_a_cache_may_hold_are_labelled():
    array = 8 * facts('hpcc', 'np2')['stream_vector_length']
    single = {f'stream_single_{k}' for k in ('copy', 'scale', 'add', 'triad')}
    assert not labels(hpcc('np2', array / 4.1), 'hpcc', 'np2') and labels(hpcc('np2', array / 3.9), 'hpcc', 'np2').keys() == single
    unknown = labels(hpcc('np2', None), 'hpcc', 'np2')
    assert len(unknown) == 8 and 'not known' in unknown['stream_star_add'][1]
    assert not labels(stream('stream_c-omp2'), 'stream', 'stream_c-omp2')
    assert labels(stream('stream_c-omp2', 3), 'stream', 'stream_c-omp2').keys() == {'copy', 'scale', 'add', 'triad'}


def test_copies_as_is_and_filesets_in_memory_are_labelled():
    for name in CASES['filecopy'][1].split():
        assert labels(CASES['filecopy'][0](name), 'filecopy', name).keys() == ({'seconds', 'rate'} if 'as-is' in name else set())
    for name in CASES['fileset'][1].split():
        ran = facts('fileset', name)
        assert bool(labels(fileset(name), 'fileset', name)) == (ran['source cached'] != 'no' and ran['read_from'] == 'own')


def test_reads_of_ior_that_may_come_out_of_memory_are_labelled():
    size = facts('ior', 'ior-posix-np4-fpp')['aggregate_bytes']
    for memory, labelled in ((size, True), (None, True), (size // 2, False)):
        assert labels(ior('ior-posix-np4-fpp', memory), 'ior', 'ior-posix-np4-fpp').keys() == ({'read'} if labelled else set())
    for local in (True, False):         # two nodes that one kernel has
        assert bool(labels(ior('ior-posix-2nodes-shared', local=local), 'ior', 'ior-posix-2nodes-shared')) == local


@pytest.mark.parametrize('name, changes, said', [
    ('ior-posix-2nodes-shared', [(' -C -Q 1', ''), ('constant task offset', 'no tasks offsets')], 'every rank reads what it wrote itself'),
    ('ior-mpiio-np4-collective', [], "fsync, direct .*'no'")])
def test_ior_that_reads_its_own_or_does_not_sync_is_wrong(name, changes, said):
    own = text('ior', name)
    for change in changes:
        own = own.replace(*change)
    with pytest.raises(Wrong, match=said):
        ior(name).replay(own)


def test_what_mdtest_finds_in_memory_is_labelled(monkeypatch):
    name = 'mdtest-np4-u'
    assert labels(mdtest(name), 'mdtest', name).keys() == {'file_stat', 'file_read', 'dir_stat'}
    two, (values, ran) = mdtest(name, local=False, span=2), room('mdtest').read(text('mdtest', name))
    monkeypatch.setitem(two.cls.parse.__globals__, 'read', lambda text: (values, {**ran, 'nodes': 2}))
    assert labels(two, 'mdtest', name).keys() == {'file_read'}         # on two nodes, what a rank reads is its own


@pytest.mark.parametrize('direct, kind, memory, why', [
    (False, 'ext4', GIB, 'no direct I/O on ext4'), (False, 'ext4', 1 << 20, ''), (False, 'ext4', None, 'no direct I/O'),
    (True, 'tmpfs', GIB, 'tmpfs is memory'), (True, 'ext4', GIB, '')])
def test_fio_figures_that_memory_may_have_made_are_labelled(direct, kind, memory, why):
    found = labels(fio('3.33-randread-quick', memory, direct, kind), 'fio', '3.33-randread-quick', ('"direct" : "1"', f'"direct" : "{int(direct)}"'))
    assert bool(found) == bool(why) and all(why in reason for _, reason in found.values())


def test_a_mixed_rate_of_fio_is_read_and_written():
    values, own = fio('3.33-rw-quick').replay(text('fio', '3.33-rw-quick')), room('fio').read(text('fio', '3.33-rw-quick'))[0]
    assert values['rate_1MiB_1'] == sum(own[f'1MiB_1_{way}_rate'] for way in ('read', 'write')) and 'write_p99_1MiB' in values


# ---- metrics

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
from parity.check.workload import Metric
from parity.check.workload import Workload

@rfm.simple_test
class Probe(rfm.RunOnlyRegressionTest, Workload):
    executable = 'echo @PRINTED@'
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    def parse(self, text):
        return {'rate': float(text)}
'''
