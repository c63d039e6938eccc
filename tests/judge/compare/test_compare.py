"""Ratios with intervals that hold what they state; like for like; exit codes; pairs."""

from __future__ import annotations

import copy
import json
import math
import uuid

import numpy as np
import pytest

import sessions
from commands import parity, process
from dev import coverage
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.judge.compare import join, pairs, resolve
from parity.judge.compare.model import Measured, Side, Value
from parity.judge.compare.terminal import Paper, rendered
from parity.judge.report import answer, table
from parity.judge.stats.interval import FLOOR, half_width, part, ratio, sample
from parity.judge.store import database, history, plan_file, record
from parity.judge.verdict import judge
from parity.site import identity, systems
from parity.site.plan import Plan
from sessions import planned, ran
from stored import Stored


def side(*sessions, past=(), step=None, name='s'):
    """A side of these sessions, each a list of runs; those of one name are the same sessions."""
    return sample(*([(f'{named}{i}', value) for i, runs in enumerate(of) for value in runs] for named, of in ((name, sessions), ('past ', past))), step)


def test_intervals_hold_what_they_state():
    rows = coverage.table(2000, seed=2)
    assert coverage.missed(rows) == [] and len({row.name for row in rows}) > 20
    assert [row.name for row in coverage.missed([rows[0]._replace(coverage=0.9), rows[6]._replace(coverage=0.99)])] == [rows[0].name]


def test_the_ratio_has_the_interval_whose_coverage_is_measured():
    runs = np.random.default_rng(3).normal(0, 0.01, (2, 4, 3))
    one, other = (side(*np.exp(each), name=name) for each, name in zip(runs, 'ab', strict=True))
    found, means = ratio(one, other), runs.mean(-1)
    half = float(half_width([part(means[0]), part(means[1])], 0.95))
    assert math.log(found.ratio) == pytest.approx(means[1].mean() - means[0].mean())
    assert (math.log(found.high) - math.log(found.low)) / 2 == pytest.approx(half) and not found.paired and not found.note
    assert ratio(one, other, 0.9993).high > found.high
    both = ratio(one, side(*np.exp(runs[1]), name='a'))
    assert both.paired and math.log(both.high / both.ratio) == pytest.approx(float(half_width([part(means[1] - means[0])], 0.95)))


def test_what_both_sides_share_in_a_session_cancels_out():
    nights = [[v, 1.01 * v, 0.99 * v] for v in (100, 130, 90, 110)]
    slower = [[0.951 * v for v in runs] for runs in nights]
    slower[0] = [95.5, 96.0, 94.0]
    assert ratio(side(*nights), side(*slower)).high < 0.97 < 1.2 < ratio(side(*nights), side(*slower, name='other')).high
    one, other = (side([99.0], [101.0], *[[100.0]] * (k - 2)) for k in (8, 5))
    assert not ratio(one, other).paired, 'too many sessions measured one side only'


def test_one_session_a_side_needs_nights_before_it():
    fast, slow = [100.0, 101.0, 99.0], [90.0, 91.0, 89.0]
    none = ratio(side(fast), side(slow, name='b'))
    assert none.ratio == pytest.approx(0.9, rel=1e-3) and none.low is None and 'one session a side' in none.why
    past = [[100.0 + i % 3, 101.0 - i % 3, 100.0 + 4 * i % 9 / 7] for i in range(9)]
    told = ratio(side(fast, past=past), side(slow, past=past, name='b'))
    assert told.high < 1 and told.note == 'variance between nights from 9 nights of history'
    single = ratio(side(fast, past=past), side(slow[:1], past=past, name='b'))
    assert single.high / single.low > told.high / told.low, 'fewer runs than each of those nights'
    assert ratio(side(fast, past=past[:3]), side(slow, past=past[:3], name='b')).low is None, 'too few nights'
    mixed = ratio(side(*past, name='a'), side(slow))
    assert mixed.high < 1 and mixed.note == 'variance between nights from 9 sessions of the other side'


def test_equal_coarse_and_odd_values_make_no_interval_or_a_wider_one():
    seconds = ratio(side([45.0] * 3, [45.0] * 3), side([45.0] * 3, [45.0] * 3, name='b'))
    assert (seconds.low, seconds.high) == pytest.approx((44.5 / 45.5, 45.5 / 44.5), rel=2e-3), 'half a step off on both sides'
    equal = ratio(side([math.pi], [math.pi]), side([math.pi], [math.pi], name='b'))
    assert (equal.low, equal.high) == pytest.approx((1 - FLOOR, 1 + FLOOR), rel=1e-5)
    coarse = ratio(side([1.0], [1.0]), side([1.0], [1.0], name='b'))
    assert coarse.low < 0.3 and coarse.high > 3, 'a step as large as the figure'
    assert side([1.8, 1.78]).step == pytest.approx(0.005 / 1.79, rel=0.01) and side([100.0, 45.0]).step == pytest.approx(0.5 / 72.5, rel=0.01)
    for values in ([0.0, 1.0], [-1.0, 2.0]):
        with pytest.raises(ValueError, match='at or below 0'):
            side(values)
    for values in ([1e-320, 1e308], [1e308, 1e308]):
        found = ratio(side([1e-9], [1.0]), side(*([v] for v in values), name='b'))
        assert found.why or math.isfinite(found.high)


def test_the_mean_of_two_checks_over_several_nights_weighs_each_by_half():
    def sides(toy, other):
        return [cell([toy, toy * 1.01, toy] * 3), cell([other, other, other * 1.01] * 3, case='Other', metric='rate')]

    mean, = compared(sides(100.0, 10.0), sides(110.0, 14.4)).means
    assert mean.low is not None and mean.speed == pytest.approx((1.1 * 1.44) ** 0.5)
    assert mean.checks == pytest.approx({'Toy': 1.1, 'Other': 1.44})


@pytest.mark.parametrize('low, high, better, word', [
    (1.03, 1.05, 'higher', 'faster'), (1.03, 1.05, 'lower', 'slower'), (0.9, 0.95, 'higher', 'slower'),
    (0.9, 0.95, 'lower', 'faster'), (0.981, 1.019, 'lower', 'equivalent'), (0.99, 1.03, 'higher', 'undecided'),
    (1.001, 1.01, 'higher', 'equivalent'), (None, None, 'higher', 'undecided'), (1.03, 1.05, '', 'undecided'),
])
def test_the_word_follows_the_interval_and_the_direction(low, high, better, word):
    assert join.word(low, high, better, 0.02) == word


def cell(values=(), metric='hpl', better='higher', case='Toy', facts=None, nights=None, **other) -> Measured:
    """A cell of sessions of three runs."""
    return Measured('compute', case.split()[0], case, metric, other.pop('unit', 'Gflop/s'), better,
                    values=[Value(v, None, f's{i // 3}' if nights is None else nights[i], facts or {}) for i, v in enumerate(values)], **other)


def compared(baseline, candidate, label=False):
    return join.compare(Side('A', 'session', baseline), Side('B', 'session', candidate), 0.02, label)


def test_what_has_no_ratio_or_no_word_says_why():
    found = compared([cell((1.0, 2.0)), cell((1.0,), 'dgemm'), cell((1.0,), 'fft', environ='gnu')],
                     [cell((), reason='failed: node down'), cell((1.0,), 'ptrans'), cell((), 'neither'), cell((1.0,), 'fft', environ='gnu'),
                      cell((), 'fft', environ='intel', reason='wrong: x')])
    rows = {r.metric: r for r in found.rows}
    assert {name: row.reason for name, row in rows.items() if not row.n} == {
        'hpl': 'not measured on B: failed: node down', 'dgemm': 'not measured on B: not among its cases',
        'ptrans': 'not measured on A: not among its cases'}
    assert (rows['hpl'].baseline, rows['hpl'].candidate, rows['hpl'].verdict) == (1.5, None, 'undecided') and rows['fft'].ratio == 1
    cached = compared([cell((1.0,) * 9)], [cell((2.0,) * 9, label='cached: fits in L3')])
    assert cached.rows[0].ratio == 2 and cached.rows[0].verdict == 'undecided' and not cached.means
    both, one = (compared([cell((0.0,) * 4, better='lower')], [cell((v,) * 4, better='lower')]).rows[0] for v in (0.0, 5.0))
    assert (both.verdict, both.ratio) == ('equivalent', None) and 'always 0' in both.reason
    assert one.verdict == 'undecided' and 'no ratio' in one.reason and one.candidate == 5
    assert compared([cell((0.0,) * 3)], [cell((0.0,) * 3)]).rows[0].verdict == 'undecided', 'one session a side'


def test_a_geometric_mean_counts_a_check_once_and_turns_times_over():
    sides = ([cell((hpl,) * 3), cell((seconds,) * 3, 'seconds', 'lower'), *(cell((other,) * 3, case=f'Other %a={a}') for a in (1, 2))]
             for hpl, seconds, other in ((100.0, 1.0, 1.0), (50.0, 2.0, 2.0)))
    mean, = compared(*sides).means
    assert mean.checks == pytest.approx({'Toy': 0.5, 'Other': 2.0}) and mean.speed == pytest.approx(1.0) and mean.metrics == 4


def test_the_interval_of_a_mean_is_of_the_sessions_that_have_all_metrics():
    def measured(factor, metrics=('hpl', 'dgemm')):
        return [cell([factor * v * (1 + i / 100) for v in (100, 101, 99, 104, 105, 103, 98, 97, 99)], metric) for i, metric in enumerate(metrics)]
    other = measured(0.8)
    for each in other:
        each.values = [Value(v.value, session=f'other {v.session}') for v in each.values]
    mean, = compared(measured(1), other).means
    assert mean.speed == pytest.approx(0.8) and mean.low < mean.speed < mean.high < 1 and (mean.sessions_baseline, mean.sessions_candidate) == (3, 3)
    lacking = measured(0.8)
    lacking[1].values = [v for v in lacking[1].values if v.session != 's0']
    assert [m.sessions_candidate for m in compared(measured(1), lacking).means] == [2]
    lacking[0].values = [v for v in lacking[0].values if v.session == 's0']
    mean, = compared(measured(1), lacking).means
    assert mean.low is None and mean.reason == 'no session of a side has all of these metrics' and mean.speed == pytest.approx(0.8, rel=0.05)


def test_what_is_not_like_for_like_is_refused_or_labelled():
    alike = {'software': 'hpl@2.3 /abc', 'ranks': '4', 'size': 'quick'}
    sides = [cell((1.0,) * 5, facts=alike)], [cell((2.0,) * 5, facts={**alike, 'ranks': '8'})]
    refused, = compared(*sides).rows
    assert refused.refused and refused.ratio is None and 'ranks 4 | 8' in refused.reason
    found = compared(*sides, label=True)
    assert found.rows[0].ratio == 2 and found.differs[0].fact == 'ranks' and found.labelled and found.alike.keys() == {'software', 'size'}
    assert compared([cell((1.0,) * 5)], [cell((2.0,) * 5, unit='Mflop/s')], label=True).rows[0].refused, 'labelled or not'
    found = compared(sides[0], [cell((1.0,) * 5, facts={'size': 'quick'})])
    assert not found.rows[0].refused and found.notes == [f'not known to be like for like: {fact} of 1 metric' for fact in ('ranks', 'software')]
    window = cell((1.0, 1.0, 2.0))
    window.values = [Value(v, facts=facts) for v, facts in ((1.0, {'software': 'hpl@2.2'}), (1.0, {}), (2.0, {'software': 'hpl@2.3'}))]
    side, = resolve.settled(Side('A', 'file', [window]))
    assert '1 older runs left out' in side.notes[0] and [v.value for v in window.values] == [1.0, 2.0], 'those like the newest are kept'


# --- sessions, as ReFrame stores them

SOFTWARE = {'distro': {'programs': {'hpcc': {'version': '1.5.0', 'package_version': '1.5.0-3', 'sha256': 'a' * 64},
                                    'mpirun': {'package_version': '4.1.4-3'}},
                       'mpi': {'name': 'Open MPI', 'version': '4.1.4'},
                       'blas': {'name': 'OpenBLAS', 'version': '0.3.21', 'core': 'Zen'}}}
BEGAN = 1795190000.0


def session(values, start=BEGAN, place='local:default', software=SOFTWARE, info=None, changed=None, **other):
    """A stored session of so many runs of one case on a partition; returns its uuid."""
    system, partition = place.split(':')
    noted = {'needs': ['hpcc'], 'size': 'quick', 'placement': {'nodes': 1, 'ranks': 2, 'binding': 'core'}, 'subsystem': 'compute',
             'metrics': {m['name']: m for m in sessions.METRICS}, 'changed': changed or {}}
    cases = [ran(hpl=value, parity=noted, display_name=f'Toy %.repeat_no={i}{identity.suffix(changed or {})}', num_tasks=2, num_tasks_per_node=2,
                 env_vars={'OMP_NUM_THREADS': 1}, executable_opts=['-n', '4', '--out=/a/b'], scheduler='local',
                 job_completion_time_unix=start + i, **other) for i, value in enumerate(values)]
    for case in cases:
        figures = {name.replace('local:default', place): value for name, value in case['perfvalues'].items()}
        case |= {'system': system, 'partition': partition, 'perfvalues': figures}
    return Stored().add(*cases, plan=[planned(case, partition=partition, system=system) for case in ('Toy', 'Never')], uuid=str(uuid.uuid4()),
                        system=system, facts={'software': software, 'machine': {'backend': 'kvm', 'kernel': '6.1'}},
                        time_start_unix=start, time_end_unix=start + 10, **(info or {}))


FAST, SLOW = [100.0, 101.2, 99.1, 100.3, 100.9, 99.7], [90.1, 91.3, 89.2, 90.7, 90.9, 89.9]


def nights(values, start=BEGAN, count=5, **other):
    """Stored sessions of a partition, a day apart, that differ a little; returns the uuid of the newest, at ``start``."""
    return [session([v * (1 + (i % 3) / 1000) for v in values], start - i * 86400, **other) for i in reversed(range(count))][-1]


def test_two_sessions_are_compared(results):
    session([v * 1.5 for v in FAST], BEGAN - 40 * 86400)      # too long ago
    one, other = nights(FAST), session(SLOW, BEGAN + 100)
    done = process('compare', one[:13], other, '--json')
    told = json.loads(done.stdout)
    rows = {r['metric']: r for r in told['rows']}
    hpl = rows['hpl']
    assert done.returncode == 0 and set(rows) == {'hpl', 'latency'}
    assert hpl['ratio'] == pytest.approx(0.9016, abs=1e-4) and hpl['low'] < hpl['ratio'] < hpl['high'] < 1
    assert (hpl['sessions_baseline'], hpl['sessions_candidate'], hpl['notes']) == (1, 1, ['variance between nights from 4 nights of history'])
    mean, = told['means']
    assert mean['low'] < mean['speed'] < mean['high'] and mean['sessions_candidate'] == 1
    assert (hpl['verdict'], hpl['n'], hpl['better'], hpl['paired'], told['margin']) == ('slower', 6, 'higher', False, 0.02)
    assert told['alike'].items() >= {'software': 'hpcc 1.5.0-3 sha256 aaaaaaaaaaaa', 'ranks': '2', 'MPI': 'Open MPI 4.1.4 (4.1.4-3)',
                                     'arguments': '-n 4'}.items()
    assert told['baseline']['facts']['virtualisation'] == ['kvm'] and told['notes'] == ['2 metrics were measured on neither side']
    text = parity('compare', one, other)
    assert text.returncode == 0 and all(said in text.stdout for said in (
        '(KVM)', 'slower', '1: 6', 'each interval holds with 95 % by itself', 'measured at other times', 'from 4 nights of history'))
    without = session([v * 0.8 for v in SLOW], BEGAN + 200, place='local:other')
    rows = json.loads(parity('compare', without, session(SLOW, BEGAN + 300, place='local:other'), '--json').stdout)['rows']
    assert {(r['verdict'], r['low']) for r in rows if r['n']} == {('undecided', None)} and all('one session a side' in r['reason'] for r in rows if r['n'])


def test_other_software_is_exit_code_2_and_nothing_in_common_3(results):
    other = copy.deepcopy(SOFTWARE)
    other['distro']['programs']['hpcc']['sha256'] = 'b' * 64
    one, two = session(FAST), session(SLOW, BEGAN + 100, software=other)
    done = parity('compare', one, two, '--json')
    assert done.returncode == 2 and 'not like for like (software), refused' in done.stderr
    assert all(r['refused'] for r in json.loads(done.stdout)['rows'])
    labelled = parity('compare', one, two, '--label')
    assert labelled.returncode == 0 and 'compared all the same: software hpcc 1.5.0-3 sha256 aaaaaaaaaaaa | ' in labelled.stdout
    done = parity('compare', one, session([math.nan], BEGAN + 200, result='fail', fail_phase='run', fail_reason='node down'))
    assert done.returncode == 3 and 'nothing in common' in done.stderr and 'failed: node down' in done.stdout


def test_two_environments_of_a_partition_are_compared(results):
    session(FAST, environ='gcc')
    session(SLOW, BEGAN + 100, environ='oneapi')
    one, other = resolve.sides('local:default+gcc', 'local:default+oneapi')
    assert (values_of(one), values_of(other)) == (FAST, SLOW)
    row, = (row for row in join.compare(one, other, 0.02, True).rows if row.n and row.metric == 'hpl')
    assert row.ratio == pytest.approx(0.9, abs=0.01)
    assert values_of(resolve.partition('local:default')) == FAST + SLOW
    with pytest.raises(UsageError, match="unknown environment of local:default 'gc'; did you mean 'gcc'"):
        resolve.sides('local:default+gc', 'local:default+oneapi')


def values_of(side, case='Toy'):
    return [v.value for c in side.cells if c.metric == 'hpl' and c.case == case for v in c.values]


def test_a_partition_is_its_last_days_without_the_session_beside_it_confirmations_and_changed_cases(results):
    session([50.0] * 3, BEGAN - 20 * 86400)
    first = session(FAST)
    with pytest.raises(NothingMeasured, match='no other runs'):
        resolve.sides('local:default', first)
    one, other = resolve.sides('local:default', session(SLOW, BEGAN + 100))
    assert len(one.sessions) == 1 and 'without the runs of session' in one.notes[0] and values_of(one) == FAST
    assert other.facts['kernel'] == ['6.1']
    session([55.0] * 3, BEGAN + 200, info={plan_file.RERUN_OF: 'x'})
    session([60.0] * 3, BEGAN + 300, changed={'ranks_a_node': '1'})
    side = resolve.partition('local:default')
    assert len(side.sessions) == 3 and values_of(side) == FAST + SLOW and values_of(side, 'Toy %ranks_a_node=1') == [60.0] * 3
    assert {c.case: c.changed for c in side.cells if c.values} == {'Toy': False, 'Toy %ranks_a_node=1': True}


def test_a_session_of_several_partitions_beside_one():
    both, more = ([cell((value,) * 3, place=place) for value, place in places] for places in (((1.0, 's:a'), (2.0, 's:b')), ((1.0, 's:b'), (2.0, 's:a'))))
    assert [r.ratio for r in compared(both, more).rows] == [2.0, 0.5], 'like ones are joined'
    one = Side('X', 'session', more)
    resolve._narrow(one, Side('Y', 'session', both[1:]))
    assert one.places == ['s:b'] and one.notes == ['its runs on s:b only']
    with pytest.raises(UsageError, match='several partitions .s:a, s:b.'):
        resolve._narrow(Side('X', 'session', both), Side('Y', 'session', [cell((1.0,), place='s:c')]))


HEAD = 'benchmark,metric,value'


@pytest.mark.parametrize('word, text, error, said', [
    *((word, '', error, said) for word, error, said in [
        ('', UsageError, 'must be system:partition'), ('a\0b', UsageError, 'none of these'), ('nope!', UsageError, 'none of these'),
        ('local:defalt', UsageError, "did you mean 'local:default'"), ('a:b:c', UsageError, 'system:partition'), ('beef', UsageError, 'no session'),
        ('onebox:virtual', NothingMeasured, 'nothing is stored for it'), ('no.csv', UsageError, 'No such file'),
        ('bb', InfrastructureError, 'session bb cannot be read')]),
    *(('bad.csv', text, UsageError, f'bad.csv{said}') for text, said in [
        ('\n', ':1: no column benchmark'), (f'{HEAD}\n', ':1: no rows below the header'), (f'{HEAD}\nA,m,inf\n', ":2: value 'inf' must be a finite number"),
        (f'{HEAD}\nA,m,1_0\n', ':2: .* must be a finite number'), (f'{HEAD}\nA,m,1\n\nA,m,x\n', ":4: value 'x'"),
        (f'{HEAD},session\nA,m,1,\n', ':2: session must not be empty'), (f'{HEAD},node\nA,m,1,n\n', ":1: unknown column 'node'"), (f'{HEAD},value\nA,m,1,2\n', ':1: .*twice'), (f'{HEAD}\n,m,1\n', ':2: .*not be empty'),
        (f'{HEAD},direction\nA,m,1,up\n', ':2: .*valid: higher, lower'), (f'{HEAD},unit\nA,m,1,s\nA,m,1,ms\n', ':3: .*unit and direction')]),
    *(('bad.json', text, UsageError, 'bad.json:') for text in ('{"a":', '[1,2]', '{}', '[' * 100000, '{"runs":[],"session_info":{}}'))])
def test_a_word_that_means_nothing_and_a_bad_file_say_what_is_valid(stored, tmp_path, monkeypatch, word, text, error, said):
    session(FAST)
    stored('bb', {**sessions.case(1.0), 'perfvalues': ['none']})
    monkeypatch.chdir(tmp_path)
    if text:
        (tmp_path / word).write_text(text)
    with pytest.raises(error, match=said):
        resolve.sides(word, 'x')


def test_a_cell_of_a_retry_has_no_figure_and_one_left_out_has_its_reason():
    failed, again = ran(result='fail', fail_phase='run', fail_reason='OOM'), ran()
    left = ran('Other', parity={'left_out': {'latency': 'one rank'}, 'labels': {'hpl': {'word': 'cached', 'reason': 'why'}}}, latency='absent')
    made = sessions.report([failed, left], [planned(), planned('Other'), planned('No', environ='')], [again])
    cells = resolve.of_rows('', 'file', history.of_session(record.of_report(made)).lazy()).cells
    reasons = {(c.case, c.metric): c.reason for c in cells if not c.values}
    assert reasons[('Toy', 'hpl')] == 'failed: OOM' and reasons[('Other', 'latency')] == 'skipped: one rank'
    assert reasons[('No', 'hpl')] == 'skipped: no environment offers hpcc'
    assert [(c.values[0].value, c.label) for c in cells if c.case == 'Other' and c.values] == [(100.0, 'cached: why')]


def test_files_are_compared_and_nothing_in_them_commands_the_terminal(tmp_path):
    evil = '[red]x\x1b[31m\u202e<script>'
    one, two = tmp_path / 'a.csv', tmp_path / 'b.csv'
    for file, values in ((one, FAST), (two, SLOW)):
        file.write_text(f'{HEAD},unit,direction,session\n' + ''.join(f'OSU,latency,{v},us,lower,{i % 3}\n' for i, v in enumerate(values)) + f'{evil},m,1,,,a\n' * 6)
    done = parity('compare', str(one), str(two))
    assert done.returncode == 0 and 'faster (lower is better)' in done.stdout and 'not known to be like for like' in done.stdout
    assert '\x1b' not in done.stdout and '\u202e' not in done.stdout and '[red]x\\x1b' in done.stdout
    row = json.loads(parity('compare', str(one), str(two), '--json').stdout)['rows'][0]
    assert (row['verdict'], row['paired'], row['sessions_candidate'], row['n']) == ('faster', True, 3, 6)


def test_what_differs_between_partitions_by_nature_is_named():
    one, other = (Side(name, 'partition', [cell(FAST)], [], {'kernel': [kernel], 'clocksource': ['tsc'], **more})
                  for name, kernel, more in (('A', '6.1', {'governor': ['x'], 'transparent_huge_pages': ['never']}),
                                             ('B', '6.9', {'virtualisation': ['kvm'], 'transparent_huge_pages': ['madvise']})))
    printed = list(map(str, rendered(join.compare(one, other, 0.02, label=False), Paper(120)).renderables))
    assert printed[1] == 'A against B (KVM)' and 'other nodes: kernel 6.1 | 6.9; transparent_huge_pages never | madvise' in printed


def declared(monkeypatch, tmp_path, text):
    file = tmp_path / 'pairs.yaml'
    file.write_text(text)
    monkeypatch.setattr(pairs, 'file_of', lambda _: file)
    return systems.read('onebox')


PAIR = 'pairs:\n  - baseline: physical\n    candidate: virtual\n    expect:\n'


@pytest.mark.parametrize('expect, said', [
    ('{metric: Stream.triad}', '5: .*needs at_least or at_most'), ('{metric: Stream.triad, at_least: 2, at_most: 1}', '5: .*is above'),
    ('{metric: triad, at_least: 1}', '5: .*pattern'), ('{metric: A.b, at_least: -1}', '5: .*greater than 0'),
    ('{metric: A.b, at_least: 1, parameters: {a: yes}}', '5: .*put it in quotes'),
    ('{metric: A.b, at_least: 1}\n  - {baseline: physical, candidate: vitual, expect: [{metric: A.b, at_least: 1}]}', "6: unknown partition 'vitual'"),
    ('{metric: A.b, at_least: 1}\n  - {baseline: physical, candidate: physical, expect: [{metric: A.b, at_least: 1}]}', '6: .*its own baseline'),
    ('{metric: A.b, at_least: 1}\n  - {baseline: physical, candidate: virtual, expect: [{metric: A.b, at_least: 1}]}', '6: .*declared twice'),
])
def test_a_bad_pair_is_named_with_file_and_line(monkeypatch, tmp_path, expect, said):
    with pytest.raises(UsageError, match=rf'pairs.yaml:{said}'):
        pairs.read(declared(monkeypatch, tmp_path, f'{PAIR}      - {expect}\n'))


def test_a_pair_of_unknown_checks_metrics_and_parameters_is_refused(monkeypatch, tmp_path):
    system = declared(monkeypatch, tmp_path, PAIR + ''.join(f'      - {{metric: {each}, at_least: 1}}\n' for each in (
        'Toy.hpl', 'Toy.hpx', 'Tod.hpl', 'Toy.hpl, parameters: {mode: x}')))
    check = {'check': 'Toy', 'file': 'toy.py', 'needs': [], 'parameters': {'mode': ['a']}, 'metrics': sessions.METRICS}
    said = pairs.problems(system, Plan(system='onebox', cases=[], checks=[check], problems=[]))
    assert [s.partition('pairs.yaml:')[2][:2] for s in said] == ['6:', '7:', '8:'] and "unknown mode 'x'" in said[2]
    monkeypatch.undo()
    assert sum(len(pairs.read(systems.read(name))) for name in systems.names()) >= 3, "this checkout's own fit"


@pytest.mark.parametrize('candidate, metric, bound, state', [
    ([97.5, 98.0, 97.9, 98.2, 97.7, 98.1], 'hpl', {'at_least': 0.97}, 'ok'), (SLOW, 'hpl', {'at_least': 0.97}, 'regressed'),
    ([96.0, 97.2, 96.8, 93.0, 99.0, 96.5], 'hpl', {'at_least': 0.97}, 'insufficient'), ([90.0], 'hpl', {'at_least': 0.97}, 'insufficient'),
    ([1.5 * v for v in FAST], 'latency', {'at_most': 1.2}, 'regressed'), ([116.0, 122.5, 122, 117, 125, 121.6], 'latency', {'at_most': 1.2}, 'insufficient'),
])
def test_an_expectation_is_broken_only_where_the_whole_interval_is_beyond(candidate, metric, bound, state):
    pair = pairs.Pair(baseline='a', candidate='b', expect=[{'metric': f'Toy.{metric}', 'parameters': {'where': 'between'}, **bound}])
    runs = [f'night {i // 2}' for i in range(6)]
    sides = [[cell(values, metric, case=f'Toy %where={where}', nights=runs) for where in ('between', 'within')] for values in (FAST, candidate)]
    outcome, = pairs.judged(pair, compared(*sides))
    assert (outcome.state, outcome.benchmark) == (state, 'Toy %where=between') and outcome.why
    assert outcome.expected == ' '.join(f'{word.replace("_", " ")} {value}' for word, value in bound.items())
    sides[0][0].changed = sides[1][0].changed = True        # nothing is expected of a case that the command line changed
    none, = pairs.judged(pair, compared(*sides))
    assert none.state == 'insufficient' and 'neither' in none.why


def test_a_broken_pair_ends_the_comparison_and_the_verdict_with_1(results, monkeypatch, tmp_path):
    nights(FAST, place='onebox:physical')
    newest = nights(SLOW, BEGAN + 100, place='onebox:virtual')
    declared(monkeypatch, tmp_path, f'{PAIR}      - {{metric: Toy.hpl, at_least: 0.97}}\n')
    assert parity('compare', 'onebox:physical', 'onebox:virtual').returncode == 1
    verdict = judge.newest(newest)
    assert [p.state for p in verdict.pairs] == ['regressed'] and verdict.exit_code == 1 and '5 and 5 sessions' in verdict.pairs[0].why
    assert any('onebox:virtual / onebox:physical   Toy: hpl at least 0.97   regressed' in line for line, _ in table.table(verdict))
    entry, *_ = answer.of(verdict).entries
    assert entry.title == 'onebox:virtual / onebox:physical: Toy hpl'
    assert entry.lines[0].startswith('expected at least 0.97: 0.902 [') and entry.lines[0].count('expected') == entry.lines[0].count('at least') == 1
    declared(monkeypatch, tmp_path, f'{PAIR}      - {{metric: Toy.hpl, at_least: 0.906}}\n')
    cases = Plan(**database.read(newest).plan).cases
    usual, sure = (join.of_session(systems.read('onebox'), newest, cases, confidence=c)[0] for c in (0.95, 1 - 1e-9))
    assert usual.state == 'regressed' and sure.state == 'insufficient' and sure.low < usual.low < usual.high < sure.high
    assert sure.why.endswith('(100 %, 5 and 5 sessions): the ratio is beyond the bound, its interval is not: more nights will tell')


def test_a_pair_has_its_share_of_the_budget_of_false_alarms(results, monkeypatch, tmp_path):
    """Two figures share one false alarm a month: each is slower by chance in one of 60 nights, on one side of its interval."""
    nights(FAST, place='onebox:physical')
    nights(SLOW, BEGAN + 100, place='onebox:virtual')
    declared(monkeypatch, tmp_path, f'{PAIR}      - {{metric: Toy.hpl, at_least: 0.97}}\n      - {{metric: Toy.latency, at_most: 99}}\n')
    found = json.loads(parity('verdict', '--system', 'onebox', '--json').stdout)
    assert found['budget']['pairs'] == 2 and found['budget']['rate'] == pytest.approx(1 / 60)
    assert all(f'({100 * (1 - 2 / 60):.4g} %, 5 and 5 sessions)' in pair['why'] for pair in found['pairs']), found['pairs']
