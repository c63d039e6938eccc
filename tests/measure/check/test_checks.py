"""Metrics: what a size never runs, the range of a figure; a curve that ends early."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conftest import TOP
from parity.judge.verdict import judge
from parity.measure.check.threaded import Threaded
from parity.measure.check.workload import Metric, Workload
from parity.measure.rfm import planning
from replay import Replay, check
from warm import reframe


def test_the_plan_knows_what_a_size_never_runs():
    asked = ['-n', '^(Tcp%|Fio|Blocks|Hpcc)', '-P', 'size=quick,acceptance']
    cases = planning.of_command(['-c', str(TOP / 'checks'), '-r', *asked]).cases
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
    shares = tcp.of(SimpleNamespace(where='within', protocol='udp', length='', offered=''), (1,))
    assert {m.name: (m.refuses(0), bool(m.refuses(101))) for m in shares} == {
        'rate_1': ('0: must be above 0 and at most 1e+18 MB/s', False), 'loss_1': ('', True)}
    may = {m.name for m in check('filecopy', 'FileCopy').metrics if not m.refuses(0)}
    assert may == {'hangs', 'failed_writes'}


@pytest.mark.parametrize('threads, changed, said', [
    ('one', {}, ''), ('all', {}, '1 core: the same as threads=one'), ('half', {'samples': '600'}, '1 core: the same as threads=one'), ('all', {'thread_count': '1'}, ''),
    ('all', {'thread_count': '2'}, '2 threads: a node has 1 core'), ('all', {'samples': '600'}, '')])
def test_on_one_core_all_threads_run_where_a_study_asks_for_them(threads, changed, said):
    case = SimpleNamespace(threads=threads, thread_count=changed.get('thread_count', ''), extra={'cores': 1}.get, parity_changed=lambda: changed,
                           without_launcher=lambda: None, env_vars={})
    assert skipped(Threaded.spread_threads, case) == said and (said or case.count == 1)


def asked(code: str, cls: str, **stated: dict[str, str]) -> str | None:
    """Return the GLIBC_TUNABLES of a case where its partition, its environment or the case itself states variables."""
    own = {name: getattr(Workload, name) for name in ('_parity_file', '_parity_code')}
    case = type(cls, (), {'__module__': check(code, cls).__module__, **own})()
    case.current_partition = SimpleNamespace(local_env=SimpleNamespace(env_vars=stated.get('partition', {})))
    case.current_environ = SimpleNamespace(env_vars=stated.get('environ', {}))
    case.env_vars = dict(stated.get('own', {}))
    Workload.parity_ask_for_huge_pages(case)
    return case.env_vars.get('GLIBC_TUNABLES')


def test_a_code_that_gains_asks_for_huge_pages_unless_the_site_states_tunables():
    stated = {'GLIBC_TUNABLES': 'glibc.malloc.check=1'}
    assert asked('hpl', 'Hpl') == asked('npb', 'Npb', partition={'A': '1'}) == 'glibc.malloc.hugetlb=1'
    assert asked('stream', 'Stream') is None
    assert asked('hpl', 'Hpl', partition=stated) is None and asked('hpl', 'Hpl', environ=stated) is None
    assert asked('hpl', 'Hpl', own=stated) == 'glibc.malloc.check=1'


@pytest.mark.parametrize('protocol, where, offered, said', [
    ('udp', 'within', '', 'offered: UDP at full rate within a node loses 70 to 92 % of its datagrams; offered=1G paces each stream'),
    ('udp', 'within', '1G', ''), ('udp', 'between', '', ''), ('tcp', 'within', '', ''), ('tcp', 'within', '1G', 'offered: only UDP is offered at a rate')])
def test_udp_at_full_rate_runs_between_nodes_alone(protocol, where, offered, said):
    case = SimpleNamespace(protocol=protocol, where=where, offered=offered, length='', numbers=(1,), seconds='1', size='quick', extra={'cores': 2}.get,
                           without_launcher=lambda: None, command=lambda *asked: [], at_both_ends=lambda *asked: None)
    assert skipped(check('iperf3', 'Tcp').place, case) == said


def skipped(place, case):
    """Place a case; return the reason for which it is left out, '' if it runs."""
    class Skipped(Exception):
        pass

    def skip_case(reason, kind=None):
        raise Skipped(reason)

    case.skip_case = skip_case
    try:
        place(case)
    except Skipped as left_out:
        return str(left_out)
    return ''


def test_a_figure_out_of_its_range_a_program_that_ran_longer_than_its_job_and_an_exit_code_are_refused(tmp_path, results_here):
    folder = tmp_path / 'compute'
    folder.mkdir()
    (folder / 'probe.py').write_text(PROBE)
    reframe(TOP, f'-c {folder} -r')
    cells = {cell.case: cell for cell in judge.newest().cells if cell.metric == 'rate'}
    words = {case.rpartition('=')[2]: (cell.verdict, cell.reason) for case, cell in cells.items()}
    for case in ('zero', 'huge'):
        assert words[case][0] == 'wrong' and 'metric rate is ' in words[case][1] and 'must be above 0' in words[case][1]
    assert words['right'][0] == 'unreferenced'
    assert words['failing'] == ('failed', 'exit code 3; although the output is complete')
    assert words['replayed'][0] == 'wrong' and 'seconds is 3600 s, but the job ran ' in words['replayed'][1]
    assert words['noted'][0] == 'wrong' and 'a run of the program is 3600 s, but' in words['noted'][1]


PROBE = '''
import reframe as rfm
from reframe.core.builtins import parameter, run_after
from parity.measure.check.workload import Metric, Workload
from parity.measure.check.workload import Workload

PRINTED = {'zero': '0 .001', 'huge': '1e300 .001', 'right': '1 .001', 'failing': '1 .001; (exit 3)', 'replayed': '1 3600', 'noted': '1 .001 3600'}

@rfm.simple_test
class Probe(rfm.RunOnlyRegressionTest, Workload):
    executable = 'echo'
    printed = parameter([*PRINTED])
    metrics = (Metric('rate', 'MB/s', 'higher'), Metric('seconds', 's', 'lower'))

    @run_after('setup')
    def place(self):
        self.without_launcher()
        self.executable_opts = [PRINTED[self.printed]]

    def parse(self, text):
        rate, seconds, *noted = map(float, text.split())
        self.note({'seconds': noted[0]} if noted else {})
        return {'rate': rate, 'seconds': seconds}
'''


@pytest.mark.parametrize('features, used', [
    (['fio'], {'fio'}), (['fio', 'iozone'], {'iozone'}), (['iozone'], {'iozone'}), (['mpi'], {'fio'}), ([], {'fio'})])
def test_a_feature_takes_the_place_of_another_where_the_environment_has_it(features, used):
    made = Replay(check('rewrite', 'Rewrite'), {}, asked={'sync': 'fsync', 'files': '8MiB,64KiB,1KiB', 'records': '4KiB,100B,1MiB'},
                  calls=['parity_claim', 'declare'])
    assert set(made.valid_prog_environs) == {'+fio', '+iozone'} and made.needs_of(SimpleNamespace(features=features)) == used


@pytest.mark.parametrize('sync, files, records, started', [
    ('fsync', '8MiB,64KiB,1KiB', '4KiB,100B,1MiB', [
        '-a -R -e -i 0 -s 64k -r 4k -f "$folder/1-of-2"', '-a -R -e -i 0 -s 8192k -r 4k -r 1024k -f "$folder/2-of-2"']),
    ('buffered', '512MiB', '64KiB,4KiB,32MiB', ['-a -R -i 0 -s 524288k -r 64k -f "$folder/1-of-1"'])])
def test_iozone_is_started_once_for_each_file_with_the_records_that_it_can_hold(sync, files, records, started):
    made = Replay(check('rewrite', 'Rewrite'), {}, asked={'needs': ['iozone'], 'sync': sync, 'files': files, 'records': records,
                                                          'program': 'iozone'}, calls=['declare'])
    assert made.iozone_options().split(' && iozone ') == started
