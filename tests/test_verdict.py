"""Every planned cell gets exactly one word, and the exit code follows from the words."""

from __future__ import annotations

import pytest

import sessions
from parity.records import record
from parity.verdict import terminal
from sessions import planned, ran, verdict_on


def words(report) -> dict[str, str]:
    return {f'{c.case}.{c.metric}': c.verdict for c in verdict_on(report).cells}


def judged(case, **metric_words):
    verdict = verdict_on(sessions.report([case], [planned()]))
    assert {c.metric: c.verdict for c in verdict.cells} == metric_words
    return verdict


BAND = (100.0, -0.05, 0.05)


@pytest.mark.parametrize('value, refs, word, code', [
    (100.0, None, 'unreferenced', 0),
    (99.0, BAND, 'ok', 0),
    (94.9, BAND, 'regressed', 1),
    (105.1, BAND, 'improved', 0),
    (float('nan'), BAND, 'wrong', 1),
    (float('inf'), None, 'wrong', 1),
    (None, None, 'wrong', 1),
    ('absent', None, 'wrong', 1),
])
def test_higher_is_better(value, refs, word, code):
    verdict = judged(ran(hpl=value, refs={'hpl': refs} if refs else None), hpl=word, latency='unreferenced')
    assert verdict.exit_code == code


@pytest.mark.parametrize('value, ref, word', [
    (1.0, (1.0, -0.1, 0.1), 'ok'), (1.2, (1.0, -0.1, 0.1), 'regressed'), (0.8, (1.0, -0.1, 0.1), 'improved'),
    (0.0, (0.0, None, 0.0), 'ok'), (1.0, (0.0, None, 0.0), 'regressed'),  # a reference of 0: absolute bounds
    (-1.2, (-1.0, -0.1, 0.1), 'improved'),
])
def test_lower_is_better(value, ref, word):
    judged(ran(latency=value, refs={'latency': ref}), hpl='unreferenced', latency=word)


def test_beyond_a_certain_limit_is_impossible_and_a_measured_ceiling_is_not():
    limit = {'value': 90.0, 'unit': 'Gflop/s', 'source': 'data sheet', 'certain': True}
    case = ran(parity={'metrics': {'hpl': {'limit': limit}}})
    verdict = judged(case, hpl='impossible', latency='unreferenced')
    assert verdict.exit_code == 1 and verdict.cells[0].efficiency == pytest.approx(100 / 90)
    within = ran(hpl=94.0, parity={'metrics': {'hpl': {'limit': limit}}})   # +5 % is tolerated
    judged(within, hpl='unreferenced', latency='unreferenced')
    measured = ran(parity={'metrics': {'hpl': {'limit': {**limit, 'certain': False}}}})
    judged(measured, hpl='unreferenced', latency='unreferenced')


def test_a_ceiling_may_come_from_another_check_of_the_session():
    hpl = ran('Hpl', hpl=80.0, parity={'metrics': {'hpl': {'ceiling': {'of': 'Hpcc.dgemm', 'times': 2}}}})
    hpcc = ran('Hpcc')
    hpcc['perfvalues'] = {'local:default:dgemm': [50.0, 0, None, None, 'Gflop/s', None]}
    dgemm = [{'name': 'dgemm', 'unit': 'Gflop/s', 'better': 'higher'}]
    verdict = verdict_on(sessions.report([hpl, hpcc], [planned('Hpl'), planned('Hpcc', metrics=dgemm)]))
    cell = verdict.cells[0]
    assert cell.efficiency == 0.8 and not cell.limit_certain
    assert cell.limit_source == 'Hpcc.dgemm of the same session x 2 ranks, measured'
    alone = verdict_on(sessions.report([hpl], [planned('Hpl')]))
    assert alone.cells[0].limit is None


def test_a_figure_out_of_a_cache_is_shown_but_not_judged():
    case = ran(hpl=1.0, refs={'hpl': BAND}, parity={'labels': {'hpl': {'word': 'cached', 'reason': 'fits in L3'}}})
    cell = judged(case, hpl='skipped', latency='unreferenced').cells[0]
    assert cell.value == 1.0 and cell.label == 'cached' and cell.reason == 'cached: fits in L3'


def test_what_never_ran_is_missing():
    verdict = verdict_on(sessions.report([ran()], [planned(), planned('Other')]))
    assert [c.verdict for c in verdict.cells] == ['unreferenced'] * 2 + ['missing'] * 2
    assert verdict.exit_code == 3 and verdict.counts['missing'] == 2


def test_a_newer_build_that_failed_is_a_warning_and_said_once():
    report = sessions.report([ran()], [planned()])
    said = 'the build of 2026-11-22 11:30 failed: make; in use: that of 2026-11-20 09:00'
    report['parity_session']['facts'] = {'software': {'spack': {'newer_build': said}, 'spack-gpu': {'newer_build': said},
                                                      'distro': {}}}
    assert verdict_on(report).warnings.count(f'spack: {said}') == 1


def test_a_required_code_without_environment_is_missing_and_another_is_skipped():
    plan = [planned(), planned('NoMpi', environ='', needs=['hpcc']), planned('Later', environ='', needs=['osu'])]
    verdict = verdict_on(sessions.report([ran()], plan))
    assert [c.verdict for c in verdict.cells[2:]] == ['missing', 'missing', 'skipped', 'skipped']
    assert 'no environment offers hpcc' in verdict.cells[2].reason


def test_nothing_measured_at_all_is_exit_code_3():
    verdict = verdict_on(sessions.report([], [planned(environ='', needs=['osu'])]))
    assert {c.verdict for c in verdict.cells} == {'skipped'} and verdict.exit_code == 3


@pytest.mark.parametrize('raw, word, code', [
    ({'result': 'fail', 'fail_phase': 'run_wait', 'fail_reason': 'job timed out'}, 'failed', 4),
    ({'result': 'fail', 'fail_phase': 'setup', 'fail_reason': 'No space left'}, 'failed', 4),
    ({'result': 'abort', 'fail_phase': 'run', 'fail_reason': 'aborted'}, 'failed', 4),
    ({'result': 'fail', 'fail_phase': 'compile', 'fail_reason': 'no compiler'}, 'failed', 4),
    ({'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'bad'}, 'wrong', 1),
    ({'result': 'skip', 'parity': {'status': 'skipped', 'reason': 'memory'}}, 'skipped', 3),
    ({'result': 'fail', 'fail_phase': 'sanity', 'parity': {'status': 'failed', 'reason': 'cut'}}, 'failed', 4),
])
def test_what_did_not_give_figures_says_why(raw, word, code):
    verdict = judged(ran(hpl='absent', latency='absent', **raw), hpl=word, latency=word)
    assert verdict.exit_code == code and verdict.cells[0].reason


def test_a_ctrl_c_while_reframe_cleans_up_loses_no_figure():
    case = ran(result='abort', fail_phase='cleanup', fail_reason='aborted due to KeyboardInterrupt')
    assert judged(case, hpl='unreferenced', latency='unreferenced').exit_code == 0


def test_a_retry_is_told_and_a_first_attempt_with_figures_counts():
    crashed = ran(hpl='absent', latency='absent', result='fail', fail_phase='run_wait', fail_reason='node down')
    verdict = verdict_on(sessions.report([crashed], [planned()], retries=[ran(hpl=99.0)]))
    assert verdict.cells[0].attempt == 2 and 'node down' in verdict.cells[0].reason
    slow = ran(hpl=80.0, refs={'hpl': BAND}, result='fail', fail_phase='performance')
    verdict = verdict_on(sessions.report([slow], [planned()], retries=[ran(hpl=100.0, refs={'hpl': BAND})]))
    assert verdict.cells[0].verdict == 'regressed' and verdict.cells[0].value == 80.0


def test_a_wrong_answer_is_not_mended_by_a_retry():
    bad = ran(hpl='absent', latency='absent', result='fail', fail_phase='sanity',
              parity={'status': 'wrong', 'reason': 'residual'})
    verdict = verdict_on(sessions.report([bad], [planned()], retries=[ran()]))
    assert verdict.cells[0].verdict == 'wrong' and verdict.exit_code == 1


def test_reruns_are_repeats_and_a_wrong_one_is_not_a_retry():
    bad = ran(hpl='absent', result='fail', fail_phase='sanity', parity={'status': 'wrong', 'reason': 'residual'})
    verdict = verdict_on(sessions.report([ran()], [planned()], retries=[bad]))
    assert verdict.cells[0].verdict == 'wrong' and '1 of 2 runs' in verdict.cells[0].reason
    both = verdict_on(sessions.report([ran(hpl=90.0)], [planned()], retries=[ran(hpl=110.0)]))
    assert both.cells[0].value == 100.0 and both.cells[0].reason == 'median of 2'


def test_a_reference_that_is_not_finite_is_none():
    for bad in ((float('nan'), -0.1, 0.1), (100.0, float('nan'), 0.1), (float('inf'), -0.1, None)):
        judged(ran(refs={'hpl': bad}), hpl='unreferenced', latency='unreferenced')


def test_what_was_not_selected_is_said_so():
    report = sessions.report([ran()], [planned(needs=['filecopy'])])
    checks = [{'check': 'Hpcc', 'file': 'x', 'needs': ['hpcc'], 'metrics': []}]
    report['parity_session']['plan']['checks'] = checks
    line = verdict_on(report).coverage.line
    assert 'not selected: HPL STREAM hpcc' in line and 'no Spack: NPB' in line


def test_repeats_are_one_cell_with_their_median():
    plan = [planned(unique_name=f'Toy_{i}') for i in range(3)]
    verdict = verdict_on(sessions.report([ran(hpl=v) for v in (90.0, 110.0, 100.0)], plan))
    assert len(verdict.cells) == 2 and verdict.cells[0].value == 100.0
    assert verdict.cells[0].reason == 'median of 3'


def test_precedence_of_exit_codes():
    wrong = ran('Wrong', hpl='absent')
    failed = ran('Failed', hpl='absent', latency='absent', result='fail', fail_phase='run_wait')
    plan = [planned('Wrong'), planned('Failed'), planned('Never')]
    assert verdict_on(sessions.report([wrong, failed], plan)).exit_code == 1
    assert verdict_on(sessions.report([failed], plan[1:])).exit_code == 4


def test_the_head_line_names_stand_ins_and_what_is_not_covered():
    stream = {'name': 'stream_star_triad', 'unit': 'GB/s', 'better': 'higher'}
    plan = [planned(metrics=[*sessions.METRICS, stream])]
    case = ran(parity={'labels': {'stream_star_triad': {'word': 'cached', 'reason': 'small'}}})
    case['perfvalues']['local:default:stream_star_triad'] = [20.0, 0, None, None, 'GB/s', None]
    coverage = verdict_on(sessions.report([case], plan)).coverage
    assert coverage.line.startswith(f'2 of {len(coverage.codes)} codes (hpcc stands in for HPL; hpcc only cached: STREAM; no Spack: NPB')


def test_the_terminal_lists_only_what_is_not_in_order_unless_asked():
    plan = [planned(), planned('Never')]
    verdict = verdict_on(sessions.report([ran(refs={'hpl': BAND})], plan))
    short = '\n'.join(text for text, _ in terminal.lines(verdict))
    full = '\n'.join(text for text, _ in terminal.lines(verdict, everything=True))
    assert 'MISSING  compute' in short and 'Never: 2 metrics' in short and 'OK  compute' not in short
    assert 'OK  compute' in full and 'Toy: hpl' in full
    assert short.splitlines()[1] == '1 ok · 1 unreferenced · 2 missing'


def test_improved_cells_are_listed_the_first_of_them_where_there_are_many():
    def told(number: int, everything: bool = False) -> str:
        names = [f'Toy{n:02}' for n in range(number)]
        cases = [ran(name, hpl=120.0, refs={'hpl': BAND}) for name in names]
        verdict = verdict_on(sessions.report(cases, [planned(name) for name in names]))
        return '\n'.join(text for text, _ in terminal.lines(verdict, everything))
    assert 'IMPROVED  compute' in told(1) and 'Toy00: hpl' in told(1) and '+20.0 % of the reference' in told(1)
    assert 'more improved' not in told(10)
    assert 'Toy09: hpl' in told(12) and 'Toy10: hpl' not in told(12)
    assert 'and 2 more improved: parity verdict --all' in told(12)
    assert 'Toy11: hpl' in told(12, everything=True) and 'more improved' not in told(12, everything=True)


def test_what_minus_p_makes_a_parameter_of_is_part_of_the_case_and_a_repeat_is_not():
    """ReFrame's names: `name` forgets what -P and --repeat add, `display_name` shows them."""
    cases = [ran('Toy', hpl=value, display_name=f'Toy %.ranks_a_node={each} %.repeat_no={turn}',
                 unique_name=f'{each}{turn}')
             for each, turn, value in ((1, 0, 10.0), (1, 1, 20.0), (2, 0, 50.0), (2, 1, 70.0))]
    plan = [planned(f'Toy %ranks_a_node={each}', unique_name=f'{each}{turn}') for each in (1, 2) for turn in (0, 1)]
    verdict = verdict_on(sessions.report(cases, plan))
    assert {c.case: c.value for c in verdict.cells if c.metric == 'hpl'} == {
        'Toy %ranks_a_node=1': 15.0, 'Toy %ranks_a_node=2': 60.0}


def test_jobs_that_overlap_are_counted_once():
    times = [(10.0, 20.0), (15.0, 25.0), (16.0, 17.0), (30.0, 31.5), (None, None)]
    raws = [{'job_submit_time': start, 'job_completion_time_unix': end} for start, end in times]
    assert ran_and_waited(*raws) == (16.5, 0.0)


def runs_of(*raws: dict) -> tuple[record.Run, ...]:
    return record.of_report(sessions.report([{**ran(), **raw} for raw in raws], [])).runs


def ran_and_waited(*raws: dict) -> tuple[float, float]:
    return record.ran_and_waited(runs_of(*raws))


def queued(submitted: float, waited: float, ran_for: float) -> dict:
    """A case of a queue, which ReFrame says began when it was submitted, and ended when it was asked for again."""
    return {'scheduler': 'slurm', 'job_submit_time': submitted, 'job_completion_time_unix': submitted + waited + ran_for + 3.0,
            'parity': {'job': {'submitted': submitted, 'waited': waited, 'ran': ran_for}}}


def test_time_in_a_queue_is_no_time_of_a_benchmark():
    assert runs_of(queued(100.0, 50.0, 7.0))[0].seconds == 7.0
    assert ran_and_waited(queued(100.0, 50.0, 7.0)) == (7.0, 50.0)
    assert ran_and_waited(queued(100.0, 50.0, 7.0), queued(100.0, 57.0, 10.0)) == (17.0, 50.0)
    recovered = {'parity': queued(100.0, 50.0, 7.0)['parity']}      # a perflog has no time of submission
    assert ran_and_waited(recovered) == (7.0, 50.0)


@pytest.mark.parametrize('raw, seconds', [
    (queued(100.0, 50.0, 0.0), None), ({'job_submit_time': 3.0, 'job_completion_time_unix': 5.0}, 2.0),
    ({'scheduler': 'local', 'parity': {}, 'job_submit_time': 3.0, 'job_completion_time_unix': 5.0}, 2.0),
    ({'scheduler': 'slurm', 'parity': {}, 'job_submit_time': 3.0, 'job_completion_time_unix': 5.0}, None), ({'parity': None}, None)])
def test_the_seconds_of_a_case_are_known_or_none(raw, seconds):
    assert runs_of(raw)[0].seconds == seconds


def test_the_next_command_shows_the_worst_cell(results):
    slow, wrong = ran('Slow', hpl=90.0, refs={'hpl': BAND}), ran('Wrong', hpl=float('nan'))
    verdict = verdict_on(sessions.report([slow, wrong], [planned('Slow'), planned('Wrong')]))
    assert verdict.next == 'parity show Wrong.hpl@local:default'


@pytest.mark.parametrize('known', ['plan', 'record'])
@pytest.mark.parametrize('raw', [{'result': 'fail', 'fail_phase': 'run_wait', 'fail_reason': 'node down'},
                                 {'result': 'fail', 'fail_phase': 'sanity', 'parity': {'status': 'wrong', 'reason': 'bad'}}])
def test_a_case_that_failed_fails_nothing_that_its_size_never_runs(raw, known):
    why = 'size=quick runs 1 and 4 streams'
    metrics = [{**m, 'left_out': why if (known, m['name']) == ('plan', 'latency') else ''} for m in sessions.METRICS]
    noted = {'left_out': {'latency': why}} if known == 'record' else {}
    raw = {**raw, 'parity': {**raw.get('parity', {}), **noted}}
    verdict = verdict_on(sessions.report([ran(hpl='absent', latency='absent', **raw)], [planned(metrics=metrics)]))
    assert [(c.verdict, c.reason == why) for c in verdict.cells] == [
        ('wrong' if 'status' in raw['parity'] else 'failed', False), ('skipped', True)]


def test_what_its_size_never_runs_is_not_missing_where_the_case_never_ran():
    metrics = [{**m, 'left_out': 'size=quick' if m['name'] == 'latency' else ''} for m in sessions.METRICS]
    verdict = verdict_on(sessions.report([ran()], [planned(), planned('Other', metrics=metrics)]))
    assert [(c.case, c.verdict) for c in verdict.cells[2:]] == [('Other', 'missing'), ('Other', 'skipped')]
    assert verdict.cells[3].reason == 'size=quick'
