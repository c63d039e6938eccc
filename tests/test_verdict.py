"""Every planned cell gets exactly one word, and the exit code follows from the words."""

from __future__ import annotations

import pytest

import sessions
from parity.records import record
from parity.verdict import terminal
from sessions import METRICS, planned, ran, verdict_on

BAND = (100.0, -0.05, 0.05)
LOWER, ZERO = (1.0, -0.1, 0.1), (0.0, None, 0.0)
NAN, INF = float('nan'), float('inf')
LIMIT = {'value': 90.0, 'unit': 'Gflop/s', 'source': 'data sheet', 'certain': True}
DOWN = {'result': 'fail', 'fail_phase': 'run_wait', 'fail_reason': 'node down'}
BAD = {'result': 'fail', 'fail_phase': 'sanity', 'parity': {'status': 'wrong', 'reason': 'residual'}}
NO_FIGURES = {'hpl': 'absent', 'latency': 'absent'}


def verdict(*cases, plan=None, **other):
    """The verdict on a session of these cases, planned as they ran if not otherwise."""
    return verdict_on(sessions.report(list(cases), plan or [planned(case['name']) for case in cases], **other))


def words(verdict) -> list[str]:
    return [cell.verdict for cell in verdict.cells]


def lines(verdict, everything=False) -> list[str]:
    return [text for text, _ in terminal.lines(verdict, everything)]


@pytest.mark.parametrize('metric, value, ref, word, code', [
    ('hpl', 100.0, None, 'unreferenced', 0), ('hpl', 99.0, BAND, 'ok', 0), ('hpl', 94.9, BAND, 'regressed', 1),
    ('hpl', 105.1, BAND, 'improved', 0), ('hpl', NAN, BAND, 'wrong', 1), ('hpl', INF, None, 'wrong', 1),
    ('hpl', None, None, 'wrong', 1), ('hpl', 'absent', None, 'wrong', 1),
    ('latency', 1.0, LOWER, 'ok', 0), ('latency', 1.2, LOWER, 'regressed', 1), ('latency', 0.8, LOWER, 'improved', 0),
    ('latency', 0.0, ZERO, 'ok', 0), ('latency', 1.0, ZERO, 'regressed', 1),     # a reference of 0: absolute bounds
    ('latency', -1.2, (-1.0, -0.1, 0.1), 'improved', 0),
    ('hpl', 100.0, (NAN, -0.1, 0.1), 'unreferenced', 0), ('hpl', 100.0, (100.0, NAN, 0.1), 'unreferenced', 0),
    ('hpl', 100.0, (INF, -0.1, None), 'unreferenced', 0),
])
def test_a_figure_is_judged_by_its_reference_and_its_direction(metric, value, ref, word, code):
    found = verdict(ran(**{metric: value}, refs={metric: ref} if ref else None))
    assert {c.metric: c.verdict for c in found.cells} == {'hpl': 'unreferenced', 'latency': 'unreferenced', metric: word}
    assert found.exit_code == code


@pytest.mark.parametrize('value, certain, word, code', [(100.0, True, 'impossible', 1), (94.0, True, 'unreferenced', 0),
                                                        (100.0, False, 'unreferenced', 0)])
def test_beyond_a_certain_limit_is_impossible_and_a_measured_ceiling_is_not(value, certain, word, code):
    found = verdict(ran(hpl=value, parity={'metrics': {'hpl': {'limit': {**LIMIT, 'certain': certain}}}}))
    assert words(found) == [word, 'unreferenced'] and found.exit_code == code
    assert found.cells[0].efficiency == pytest.approx(value / 90)


@pytest.mark.parametrize('dgemm, efficiency', [(50.0, 0.8), (NAN, None), (-1.0, None), (None, None)])
def test_a_ceiling_may_come_from_another_check_of_the_session(dgemm, efficiency):
    hpl = ran('Hpl', hpl=80.0, parity={'metrics': {'hpl': {'ceiling': {'of': 'Hpcc.dgemm', 'times': 2}}}})
    hpcc = {**ran('Hpcc'), 'perfvalues': {'local:default:dgemm': [dgemm, 0, None, None, 'Gflop/s', None]}}
    metrics = [{'name': 'dgemm', 'unit': 'Gflop/s', 'better': 'higher'}]
    cell = verdict(hpl, hpcc, plan=[planned('Hpl'), planned('Hpcc', metrics=metrics)]).cells[0]
    assert cell.efficiency == efficiency and not cell.limit_certain
    assert cell.limit_source == ('Hpcc.dgemm of the same session x 2 ranks, measured' if efficiency else '')


def test_a_figure_out_of_a_cache_is_shown_but_not_judged():
    labels = {'hpl': {'word': 'cached', 'reason': 'fits in L3'}}
    cell, other = verdict(ran(hpl=1.0, refs={'hpl': BAND}, parity={'labels': labels})).cells
    assert (cell.verdict, cell.value, cell.label, cell.reason) == ('skipped', 1.0, 'cached', 'cached: fits in L3')
    assert other.verdict == 'unreferenced'


def test_what_never_ran_is_missing_if_it_is_required():
    plan = [planned(), planned('Never'), planned('NoMpi', environ='', needs=['hpcc']), planned('Later', environ='', needs=['osu'])]
    found = verdict(ran(), plan=plan)
    assert words(found)[::2] == words(found)[1::2] == ['unreferenced', 'missing', 'missing', 'skipped']
    assert found.exit_code == 3 and found.counts['missing'] == 4
    assert 'no environment offers hpcc, which the system requires' in found.cells[4].reason
    nothing = verdict(plan=plan[3:])
    assert set(words(nothing)) == {'skipped'} and nothing.exit_code == 3


def test_a_newer_build_that_failed_is_a_warning_and_said_once():
    report = sessions.report([ran()], [planned()])
    said = 'the build of 2026-11-22 11:30 failed: make; in use: that of 2026-11-20 09:00'
    report['parity_session']['facts'] = {'software': {'spack': {'newer_build': said}, 'spack-gpu': {'newer_build': said}, 'distro': {}}}
    assert verdict_on(report).warnings.count(f'spack: {said}') == 1


@pytest.mark.parametrize('raw, word, code', [
    ({'result': 'fail', 'fail_phase': 'run_wait', 'fail_reason': 'job timed out'}, 'failed', 4),
    ({'result': 'abort', 'fail_phase': 'run', 'fail_reason': 'aborted'}, 'failed', 4),
    ({'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'bad'}, 'wrong', 1),
    ({'result': 'skip', 'parity': {'status': 'skipped', 'reason': 'memory'}}, 'skipped', 3),
    ({'result': 'fail', 'fail_phase': 'sanity', 'parity': {'status': 'failed', 'reason': 'cut'}}, 'failed', 4),
])
def test_what_did_not_give_figures_says_why(raw, word, code):
    found = verdict(ran(**NO_FIGURES, **raw))
    assert words(found) == [word, word] and found.exit_code == code and found.cells[0].reason


def test_a_ctrl_c_while_reframe_cleans_up_loses_no_figure():
    found = verdict(ran(result='abort', fail_phase='cleanup', fail_reason='aborted due to KeyboardInterrupt'))
    assert words(found) == ['unreferenced', 'unreferenced'] and found.exit_code == 0


SLOW = {'hpl': 80.0, 'refs': {'hpl': BAND}, 'result': 'fail', 'fail_phase': 'performance'}


@pytest.mark.parametrize('first, retry, word, value, attempt, said', [
    ({**NO_FIGURES, **DOWN}, {'hpl': 99.0}, 'unreferenced', 99.0, 2, 'attempt 2; the first failed: node down'),
    (SLOW, {'hpl': 100.0, 'refs': {'hpl': BAND}}, 'regressed', 80.0, 1, '-20.0 % of the reference'),
    ({**NO_FIGURES, **BAD}, {}, 'wrong', None, 2, 'residual'),
    ({}, {'hpl': 'absent', **BAD}, 'wrong', None, 1, 'residual (1 of 2 runs)'),
    ({'hpl': 90.0}, {'hpl': 110.0}, 'unreferenced', 100.0, 1, 'median of 2'),        # run again without a failure: a repeat
])
def test_a_retry_counts_only_where_the_first_attempt_failed(first, retry, word, value, attempt, said):
    cell = verdict(ran(**first), retries=[ran(**retry)]).cells[0]
    assert (cell.verdict, cell.value, cell.attempt) == (word, value, attempt) and said in cell.reason


def test_repeats_are_one_cell_with_their_median_and_what_minus_p_sets_is_part_of_the_case():
    """ReFrame's names: `name` forgets what -P and --repeat add, `display_name` shows them."""
    cases = [ran('Toy', hpl=value, display_name=f'Toy %.ranks_a_node={each} %.repeat_no={turn}', unique_name=f'{each}{turn}')
             for each, turn, value in ((1, 0, 10.0), (1, 1, 20.0), (2, 0, 50.0), (2, 1, 70.0), (2, 2, 60.0))]
    plan = [planned(f'Toy %ranks_a_node={each}', unique_name=f'{each}{turn}') for each in (1, 2) for turn in range(each + 1)]
    assert {c.case: (c.value, c.reason) for c in verdict(*cases, plan=plan).cells if c.metric == 'hpl'} == {
        'Toy %ranks_a_node=1': (15.0, 'median of 2'), 'Toy %ranks_a_node=2': (60.0, 'median of 3')}
    both = verdict(ran(**NO_FIGURES, **DOWN), ran(**NO_FIGURES, **BAD, unique_name='Toy_1'), plan=[planned(), planned(unique_name='Toy_1')])
    assert (both.cells[0].verdict, both.cells[0].reason) == ('wrong', 'residual (2 of 2 runs)')


def test_precedence_of_exit_codes_and_the_next_command_shows_the_worst_cell(results):
    slow, wrong, failed = ran('Slow', hpl=90.0, refs={'hpl': BAND}), ran('Wrong', hpl='absent'), ran('Failed', **NO_FIGURES, **DOWN)
    plan = [planned('Slow'), planned('Wrong'), planned('Failed'), planned('Never')]
    found = [verdict(slow, wrong, failed, plan=plan), verdict(slow, failed, plan=[plan[0], *plan[2:]]), verdict(failed, plan=plan[2:])]
    assert [each.exit_code for each in found] == [1, 1, 4]
    assert [each.next for each in found] == [f'parity show {name}.hpl@local:default' for name in ('Wrong', 'Slow', 'Failed')]


def test_the_head_line_names_stand_ins_and_what_is_not_covered():
    stream = {'name': 'stream_star_triad', 'unit': 'GB/s', 'better': 'higher'}
    case = ran(parity={'labels': {'stream_star_triad': {'word': 'cached', 'reason': 'small'}}})
    case['perfvalues']['local:default:stream_star_triad'] = [20.0, 0, None, None, 'GB/s', None]
    coverage = verdict(case, plan=[planned(metrics=[*METRICS, stream])]).coverage
    assert coverage.line.startswith(f'2 of {len(coverage.codes)} codes (') and 'no Spack: ' in coverage.line
    assert 'hpcc stands in for HPL' in coverage.line and 'hpcc only cached: STREAM' in coverage.line
    report = sessions.report([ran()], [planned(needs=['filecopy'])])
    report['parity_session']['plan']['checks'] = [{'check': 'Hpcc', 'file': 'x', 'needs': ['hpcc'], 'metrics': []}]
    coverage = verdict_on(report).coverage
    assert 'not selected: ' in coverage.line and 'no Spack: ' in coverage.line
    assert {code.code for code in coverage.codes if code.reason == 'not selected'} == {'HPL', 'STREAM', 'hpcc'}


def test_the_terminal_lists_only_what_is_not_in_order_unless_asked():
    found = verdict(ran(refs={'hpl': BAND}), plan=[planned(), planned('Never')])
    short, full = '\n'.join(lines(found)), '\n'.join(lines(found, everything=True))
    assert 'MISSING  compute' in short and 'Never: 2 metrics' in short and 'OK  compute' not in short
    assert 'OK  compute' in full and 'Toy: hpl' in full
    assert short.splitlines()[1] == '1 ok · 1 unreferenced · 2 missing'


def test_of_many_improved_cells_the_first_are_listed():
    found = verdict(*(ran(f'Toy{n:02}', hpl=120.0, refs={'hpl': BAND}) for n in range(12)))
    short, full = '\n'.join(lines(found)), '\n'.join(lines(found, everything=True))
    assert 'IMPROVED  compute' in short and 'Toy09: hpl' in short and '+20.0 % of the reference' in short and 'Toy10: hpl' not in short
    assert 'and 2 more improved: parity verdict --all' in short and 'Toy11: hpl' in full and 'more improved' not in full


def queued(submitted: float, waited: float, ran_for: float) -> dict:
    """A case of a queue, which ReFrame says began when it was submitted, and ended when it was asked for again."""
    return {'scheduler': 'slurm', 'job_submit_time': submitted, 'job_completion_time_unix': submitted + waited + ran_for + 3.0,
            'parity': {'job': {'submitted': submitted, 'waited': waited, 'ran': ran_for}}}


def job(start: float | None, end: float | None, **other) -> dict:
    return {'job_submit_time': start, 'job_completion_time_unix': end, **other}


@pytest.mark.parametrize('raws, sums, each', [
    # an overlap counts once; no more is known of a queue's job than what its workload noted
    ([job(10.0, 20.0), job(15.0, 25.0), job(16.0, 17.0), job(30.0, 31.5, scheduler='local', parity={}), job(None, None)],
     (16.5, 0.0), [10.0, 10.0, 1.0, 1.5, None]),
    ([queued(100.0, 50.0, 7.0), queued(100.0, 57.0, 10.0)], (17.0, 50.0), [7.0, 10.0]), ([queued(100.0, 50.0, 0.0)], (0.0, 50.0), [None]),
    ([{'parity': queued(100.0, 50.0, 7.0)['parity']}], (7.0, 50.0), [7.0]),       # a perflog has no time of submission
    ([job(3.0, 5.0, scheduler='slurm', parity={})], (2.0, 0.0), [None])])
def test_time_in_a_queue_is_no_time_of_a_benchmark(raws, sums, each):
    runs = record.of_report(sessions.report([{**ran(), **raw} for raw in raws], [])).runs
    assert record.ran_and_waited(runs) == sums and [run.seconds for run in runs] == each


@pytest.mark.parametrize('known', ['plan', 'record'])
@pytest.mark.parametrize('raw, word', [(DOWN, 'failed'), (BAD, 'wrong'), (None, 'missing')])
def test_a_case_without_figures_does_not_miss_what_its_size_never_runs(raw, word, known):
    why = 'size=quick runs 1 and 4 streams'
    noted = {'left_out': {'latency': why}} if known == 'record' else {}
    metrics = [{**m, 'left_out': why if m['name'] == 'latency' and (known == 'plan' or raw is None) else ''} for m in METRICS]
    cases = [ran(**{**NO_FIGURES, **raw, 'parity': {**raw.get('parity', {}), **noted}})] if raw else []
    found = verdict(*cases, plan=[planned(metrics=metrics)])
    assert [(c.verdict, c.reason == why) for c in found.cells] == [(word, False), ('skipped', True)]
