"""Every planned cell gets exactly one word, from its runs and the nights before, and the exit code follows from the words."""

from __future__ import annotations

import json
import random

import pytest

import judging
import nights as made
import sessions
from commands import parity
from parity.base.errors import UsageError
from parity.judge import report
from parity.judge.compare.pairs import Pair
from parity.judge.report import answer, table
from parity.judge.store import database, history, record
from parity.judge.verdict import budget, judge, reasons
from parity.judge.verdict import nights as by_series
from parity.judge.verdict.model import AlarmBudget
from parity.nightly import run as again_tonight
from parity.site import systems
from parity.site.plan import PlannedCase
from sessions import METRICS, case, planned, ran, verdict_on

BAND = (100.0, -0.05, 0.05)
LOWER, ZERO = (1.0, -0.1, 0.1), (0.0, None, 0.0)
LIMITED, CEILED = ({'metrics': {'hpl': {'limit': {'value': 90.0, 'unit': 'Gflop/s', 'source': 'data sheet', 'certain': certain}}}} for certain in (True, False))
NAN, INF = float('nan'), float('inf')
DOWN = {'result': 'fail', 'fail_phase': 'run_wait', 'fail_reason': 'node down'}
BAD = {'result': 'fail', 'fail_phase': 'sanity', 'parity': {'status': 'wrong', 'reason': 'residual'}}
NO_FIGURES = {'hpl': 'absent', 'latency': 'absent'}


def verdict(*cases, plan=None, **other):
    """The verdict on a session of these cases, planned as they ran if not otherwise."""
    return verdict_on(sessions.report(list(cases), plan or [planned(case['name']) for case in cases], **other))


@pytest.mark.parametrize('metric, value, ref, word, code', [
    ('hpl', 100.0, None, 'unreferenced', 0), ('hpl', 99.0, BAND, 'ok', 0), ('hpl', 94.9, BAND, 'regressed', 1),
    ('hpl', 105.1, BAND, 'improved', 0), ('hpl', NAN, BAND, 'wrong', 1), ('hpl', INF, None, 'wrong', 1),
    ('hpl', None, None, 'wrong', 1), ('hpl', 'absent', None, 'wrong', 1), ('latency', -1.2, (-1.0, -0.1, 0.1), 'improved', 0),
    ('latency', 1.0, LOWER, 'blind', 0), ('latency', 1.2, LOWER, 'regressed', 1), ('latency', 0.8, LOWER, 'improved', 0),
    ('hpl', 99.0, (100.0, -0.05, None), 'ok', 0), ('hpl', 99.0, (100.0, None, 0.05), 'blind', 0), ('hpl', 99.0, (100.0, -0.051, 0.05), 'blind', 0),
    ('latency', 0.0, ZERO, 'ok', 0), ('latency', 1.0, ZERO, 'regressed', 1),     # a reference of 0: absolute bounds
    ('hpl', 100.0, (NAN, -0.1, 0.1), 'unreferenced', 0), ('hpl', 100.0, (100.0, NAN, 0.1), 'unreferenced', 0)])
def test_a_figure_is_judged_by_its_reference_and_its_direction(metric, value, ref, word, code):
    found = verdict(ran(**{metric: value}, refs={metric: ref} if ref else None))
    assert {c.metric: c.verdict for c in found.cells} == {'hpl': 'unreferenced', 'latency': 'unreferenced', metric: word}
    assert found.exit_code == code


@pytest.mark.parametrize('raw, word, code, said', [
    ({**NO_FIGURES, **DOWN}, 'failed', 4, 'node down'), ({**NO_FIGURES, **BAD}, 'wrong', 1, 'residual'),
    ({**NO_FIGURES, 'result': 'abort', 'fail_phase': 'run', 'fail_reason': 'aborted'}, 'failed', 4, 'aborted'),
    ({**NO_FIGURES, 'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'bad'}, 'wrong', 1, 'bad'),
    ({**NO_FIGURES, 'result': 'skip', 'parity': {'status': 'skipped', 'reason': 'memory'}}, 'skipped', 3, 'memory'),
    ({**NO_FIGURES, 'result': 'fail', 'fail_phase': 'sanity', 'parity': {'status': 'failed', 'reason': 'cut'}}, 'failed', 4, 'cut'),
    ({'result': 'abort', 'fail_phase': 'cleanup', 'fail_reason': 'aborted due to KeyboardInterrupt'}, 'unreferenced', 0, ''),
    ({'hpl': 1.0, 'refs': {'hpl': BAND}, 'parity': {'labels': {'hpl': {'word': 'cached', 'reason': 'fits in L3'}}}}, 'skipped', 0, 'cached: fits in L3'),
    ({'hpl': 100.0, 'parity': LIMITED}, 'impossible', 1, '(data sheet)'), ({'hpl': 94.0, 'parity': LIMITED}, 'unreferenced', 0, ''),
    ({'hpl': 100.0, 'parity': CEILED}, 'unreferenced', 0, ''),
])
def test_each_cell_has_the_word_of_what_befell_its_run(raw, word, code, said):
    found = verdict(ran(**raw))
    cell, other = found.cells
    assert (cell.verdict, other.verdict, found.exit_code) == (word, word if raw.get('hpl') == 'absent' else 'unreferenced', code)
    assert said in cell.reason and cell.value == (None if raw.get('hpl') == 'absent' else raw.get('hpl', 100.0))
    assert cell.efficiency == (pytest.approx(cell.value / 90) if cell.limit else None) and cell.label == ('cached' if 'labels' in str(raw) else '')


@pytest.mark.parametrize('dgemm, efficiency', [(50.0, 0.8), (NAN, None), (-1.0, None), (None, None)])
def test_a_ceiling_may_come_from_another_check_of_the_session(dgemm, efficiency):
    hpl = ran('Hpl', hpl=80.0, parity={'metrics': {'hpl': {'ceiling': {'of': 'Hpcc.dgemm', 'times': 2}}}})
    hpcc = {**ran('Hpcc'), 'perfvalues': {'local:default:dgemm': [dgemm, 0, None, None, 'Gflop/s', None]}}
    metrics = [{'name': 'dgemm', 'unit': 'Gflop/s', 'better': 'higher'}]
    cell = verdict(hpl, hpcc, plan=[planned('Hpl'), planned('Hpcc', metrics=metrics)]).cells[0]
    assert cell.efficiency == efficiency and not cell.limit_certain
    assert cell.limit_source == ('Hpcc.dgemm of the same session x 2 ranks, measured' if efficiency else '')


@pytest.mark.parametrize('hpl, dgemm, efficiency', [('', '', 0.8), ('steal 20 %', '', None), ('', 'steal 20 %', None), ('steal 20 %', 'steal 20 %', None)])
@pytest.mark.parametrize('own', [True, False])
def test_a_share_of_a_ceiling_is_of_two_undisturbed_figures(hpl, dgemm, efficiency, own):
    """``own``: the ceiling is of the same run."""
    ceiling = {'limit': {'value': 100.0, 'unit': 'Gflop/s', 'source': 'dgemm', 'certain': False}} if own else {'ceiling': {'of': 'Hpcc.dgemm', 'times': 2}}
    case = ran('Hpl', hpl=80.0, parity={'metrics': {'hpl': ceiling}, 'disturbed': hpl or own and dgemm})
    hpcc = {**ran('Hpcc', parity={'disturbed': dgemm}), 'perfvalues': {'local:default:dgemm': [50.0, 0, None, None, 'Gflop/s', None]}}
    metrics = [{'name': 'dgemm', 'unit': 'Gflop/s', 'better': 'higher'}]
    found = verdict(case, hpcc, plan=[planned('Hpl'), planned('Hpcc', metrics=metrics)])
    assert found.cells[0].efficiency == efficiency
    line, = [each for each in answer.of(found).headlines if each.figure == '80 Gflop/s']
    assert line.share == efficiency


def test_what_never_ran_is_missing_if_it_is_required(site):
    site.write_text(site.read_text().replace('requires: []', 'requires: [hpcc]'))
    plan = [planned(), planned('Never'), planned('NoMpi', environ='', needs=['hpcc']), planned('Later', environ='', needs=['osu'])]
    found, nothing = verdict(ran(), plan=plan), verdict(plan=plan[3:])
    assert [cell.verdict for cell in found.cells] == ['unreferenced'] * 2 + ['missing'] * 4 + ['skipped'] * 2
    assert found.exit_code == 3 and found.counts['missing'] == 4
    assert 'no environment offers hpcc, which the system requires' in found.cells[4].reason
    assert [cell.verdict for cell in nothing.cells] == ['skipped'] * 2 and nothing.exit_code == 3


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


@pytest.mark.parametrize('pages, tunables, said', [
    ('never', 'glibc.malloc.hugetlb=1', True), ('madvise', 'glibc.malloc.hugetlb=1', False), ('never', 'glibc.malloc.check=1', False), ('never', '', False)])
def test_a_kernel_without_huge_pages_is_named_where_a_check_asked_for_them(pages, tunables, said):
    case = ran(parity={'node': {'transparent_huge_pages': pages}}, env_vars={'GLIBC_TUNABLES': tunables} if tunables else {})
    warnings = [line for line in verdict(case).warnings if 'huge' in line]
    assert warnings == ['node01: transparent_hugepage is never, and Toy asked for huge pages: madvise gains up to a third (docs/software.md)'] * said


def test_the_head_line_names_stand_ins_and_what_is_not_covered_and_a_failed_build_is_told_once():
    stream = {'name': 'stream_star_triad', 'unit': 'GB/s', 'better': 'higher'}
    case = ran(parity={'labels': {'stream_star_triad': {'word': 'cached', 'reason': 'small'}}})
    case['perfvalues']['local:default:stream_star_triad'] = [20.0, 0, None, None, 'GB/s', None]
    npb = planned('Npb', environ='', needs=['npb'])
    coverage = verdict(case, plan=[planned(metrics=[*METRICS, stream]), npb]).coverage
    assert coverage.line.startswith('2 of 4 codes (') and 'no Spack: NPB;' in coverage.line and coverage.lacking == ['NPB']
    assert 'hpcc stands in for HPL' in coverage.line and 'hpcc only cached: STREAM' in coverage.line
    made = sessions.report([ran()], [planned(needs=['filecopy']), npb])
    made['parity_session']['plan']['checks'] = [{'check': 'Hpcc', 'file': 'x', 'needs': ['hpcc'], 'metrics': []}]
    broken = {'file': 'checks/storage/fio/fio.py', 'what': 'does not load', 'refuses': False}
    made['parity_session']['plan']['problems'] = [broken]
    build = {'newer_build': 'the build of 2026-11-22 11:30 failed: make; in use: that of 2026-11-20 09:00'}
    made['parity_session']['facts'] = {'software': {'v3': build, 'v3-gpu': build, 'distro': {}}}
    found = verdict_on(made)
    coverage = found.coverage
    assert found.warnings.count(f'v3: {build["newer_build"]}') == 1
    assert 'not selected: ' in coverage.line and 'no Spack: NPB;' in coverage.line and 'no check: fio' in coverage.line
    assert {code.code for code in coverage.codes if code.reason == 'not selected'} == {'HPL', 'STREAM', 'hpcc'}
    assert {code.code for code in coverage.codes} == {'HPL', 'STREAM', 'hpcc', 'NPB', 'fio'}, 'nobody asked for the others'
    assert coverage.line.startswith('0 of 2 codes (')
    assert 'parity doctor' not in coverage.line


def test_a_session_of_other_checks_covers_no_code_and_says_nothing_of_codes(tmp_path):
    found = verdict(ran(), plan=[planned(needs=[], file='/site/toy.py')])
    assert (found.coverage.line, found.coverage.codes, found.coverage.total) == ('', [], 0)
    assert 'covers' not in dict(answer.of(found).notes) and answer.of(found).sentence.startswith('This machine is measured: 2 figures')
    page = report.write(found, tmp_path, tmp_path)[0].read_text()
    assert 'id="coverage"' not in page


def test_what_a_code_needs_is_doctors_where_a_program_is_absent():
    made = sessions.report([ran()], [planned(), planned('Fio', environ='', needs=['fio'])])
    for feature, named in (('fio', True), ('iperf3', False)):      # iperf3: nobody asked for it
        made['parity_session']['facts'] = {'software': {'distro': {'absent': {feature: 'no mpirun'}}}}
        coverage = verdict_on(made).coverage
        assert ('no mpirun: fio' in coverage.line) is ('parity doctor --system local' in coverage.line) is named


def test_the_answer_counts_what_is_in_order_and_the_table_lists_the_words_asked_for():
    improved = [ran(f'Toy{n:02}', hpl=120.0, latency='absent', refs={'hpl': BAND}) for n in range(12)]
    plan = [planned(f'Toy{n:02}', metrics=METRICS[:1]) for n in range(12)]
    found = verdict(ran(refs={'hpl': BAND}), *improved, plan=[planned(), planned('Never'), *plan])
    said, (missing,) = dict(answer.of(found).notes), answer.of(found).entries
    assert missing.title == 'local:default: Never: never ran' and len(missing.cells) == 2
    assert said['improved'].endswith('Toy03: hpl and 8 more') and said['in order'] == '1 figure; 1 too new to judge'
    full, few = ('\n'.join(text for text, _ in table.table(found, *words)) for words in ((), (['missing'],)))
    assert 'OK  compute' in full and 'Toy: hpl' in full and 'Toy11: hpl' in full and '+20.0 % of the reference' in full
    assert 'MISSING  compute' in few and 'Never: 2 metrics' in few and 'OK' not in few and 'Toy11' not in few


def test_a_blind_cell_says_from_which_slowdown_on_it_shows_and_the_first_lines_count_it():
    found = verdict(ran('Narrow', refs={'hpl': BAND}), ran('Wide', hpl=96.0, refs={'hpl': (100.0, -0.074, 0.01), 'latency': (1.5, 0, 0.05)}),
                    ran('Open', refs={'hpl': (100.0, None, 0.1)}), plan=[planned(name) for name in ('Narrow', 'Wide', 'Open')])
    assert [(c.verdict, c.visible) for c in found.cells] == [
        ('ok', 0.05), ('unreferenced', None), ('blind', 0.074), ('ok', 0.05), ('blind', None), ('unreferenced', None)]
    assert [c.reason for c in found.cells if c.verdict == 'blind'] == ['a slowdown shows from 7.4 % on', 'no bound shows a slowdown']
    told = answer.of(found)
    assert told.sentence == '4 of 6 figures are judged: 2 blind, the others are as they were.' and told.counts == '2 ok · 2 blind'
    assert '2 ok · 2 blind' in [text for text, _ in answer.lines(found)][:4] and found.exit_code == 0
    assert dict(told.notes)['blind'] == '2 figures would not show a slowdown of 5.0 %; the best shows one of 7.4 % (parity verdict --all)'
    assert 'BLIND  compute' in [text for text, _ in table.table(found)]


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


@pytest.fixture
def nights(stored):
    """Stores nights of three runs each, at a share of 100 Gflop/s; the n-th night is `night-<n>`."""
    noise, count = random.Random(1), iter(range(1000))

    def store(number: int, level: float = 1.0, **info):
        for _ in range(number):
            runs = [case(level * noise.gauss(100, 1)) for _ in range(3)]
            stored(f'night-{next(count):04d}', *runs, **info)
    return store


def hpl(session: str = ''):
    verdict = judge.newest(session)
    return next(c for c in verdict.cells if c.metric == 'hpl'), verdict


def test_accepted_bounds_are_counted_and_a_low_night_is_worth_another_run_that_is_no_night_of_its_own(stored, nights):
    nights(45)
    stored('bounded', *[case(100.0 + i, latency=1.5, refs={'hpl': (100.0, -0.1, 0.1)}) for i in (-1, 0, 1)])
    cell, verdict = hpl()
    assert cell.verdict == 'ok' and cell.visible < 0.05, 'its history shows what its bounds do not'
    assert verdict.trust == ('2 of 2 judged: 1 against accepted bounds; 2 against their last nights; false alarms: at most 1 a month by 2 histories, '
                             '1 bound, one in 90 nights each (docs/regression.md)')
    assert verdict.budget == AlarmBudget(histories=2, bounds=1, rate=1 / 90)
    assert verdict.next.startswith('parity refs propose')
    nights(1, 0.93)
    cell, verdict = hpl()
    assert cell.suspicious and again_tonight.runs(systems.read('local'), verdict.session.uuid, [cell], ['-r'])
    nights(1, 0.93, parity_rerun_of=verdict.session.uuid)
    assert judge.newest(database.uuids()[-1]).session.uuid == verdict.session.uuid, 'a rerun is judged with its night'
    cell, verdict = hpl()
    assert verdict.session.uuid == 'night-0045' and not cell.suspicious


@pytest.mark.parametrize('stated, said', [('0', '0 must be greater than 0'), ('.inf', ''), ('-1', '-1 must be greater than 0'), ('many', 'number'), ('1, a_week: 2', 'a_week: no such key')])
def test_a_budget_of_false_alarms_is_a_number_above_0(site, stated, said):
    assert systems.read('local').alarms.a_month == 1
    text = site.read_text()
    site.write_text(text.replace('partitions:', f'alarms: {{a_month: {stated}}}\npartitions:', 1))
    with pytest.raises(UsageError, match=rf'system.yaml:{text.partition("partitions:")[0].count(chr(10)) + 1}: .*{said}'):
        systems.read('local')


def test_all_that_can_turn_a_night_red_by_chance_shares_the_budget(site, stored, nights):
    site.write_text(site.read_text().replace('partitions:', 'alarms: {a_month: 0.5}\npartitions:', 1))
    nights(45)
    assert judge.newest().budget == AlarmBudget(a_month=0.5, histories=2, rate=0.5 / 60)
    assert 'at most 0.5 a month by 2 histories, one in 120 nights each' in judge.newest().trust
    pair = Pair(baseline='a', candidate='b', expect=[{'metric': 'Toy.hpl', 'at_least': 1}, {'metric': 'Toy.t_gpu', 'parameters': {'x': '1'}, 'at_least': 1}])
    cases = [PlannedCase(**{**planned(name, partition=place, metrics=[{'name': m, 'unit': 's', 'better': 'lower'} for m in ('hpl', 't_gpu0', 't_gpu1')]),
                            'check': 'Toy'}) for name in ('Toy %x=1', 'Toy %x=2') for place in 'abc']
    assert budget.expectations([pair], cases) == 2 + 2
    assert budget.sentence(budget.of(1, 0, 0, 0)) == '' and budget.of(1e9, 1, 1, 1).rate == 0.1
    alone = budget.of(1, 0, 12, 0).model_copy(update={'bounds_alone': 12})
    assert budget.sentence(alone) == '12 bounds without a history: one in 71,429 nights each, up to 0.005 a month in all'
    first_red = alone.model_copy(update={'nights': 1})
    assert budget.sentence(first_red) == '12 bounds without a history: one in 1,000 nights each, up to 0.36 a month in all'


@pytest.mark.parametrize('a_month, histories, said', [
    (1, 24, ''), (2, 60, ''), (1, 30, 'real histories of 25 to 35 series gave 0.1 to 0.7 a month for nothing'),
    (1, 70, 'real histories of 60 to 70 series gave 0.2 to 0.8 a month for nothing'),
    (1, 300, 'real histories of 190 series gave 1.2 a month for nothing')])
def test_the_budget_says_what_real_histories_gave(a_month, histories, said):
    told = budget.sentence(budget.of(a_month, histories, 0, 0))
    assert told.endswith(f'; {said}' if said else '(docs/regression.md)')


@pytest.mark.parametrize('a_month, word', [(300, 'regressed'), (0.000_01, 'ok')])
def test_the_budget_decides_how_slow_a_night_must_be(site, nights, a_month, word):
    """Two nights that are 3 % slower, of runs that scatter by 1 %."""
    site.write_text(site.read_text().replace('partitions:', f'alarms: {{a_month: {a_month}, least: 2 %}}\npartitions:', 1))
    nights(45)
    nights(2, 0.97)
    cell, _ = json.loads(parity('verdict', '--json').stdout)['cells']
    assert (cell['metric'], cell['verdict']) == ('hpl', word), cell['reason']


@pytest.mark.parametrize('again_at, word, code', [(100.0, 'ok', 0), (80.0, 'regressed', 1), (None, 'regressed', 1)])
@pytest.mark.usefixtures('red_at_once')
def test_a_value_beyond_its_bounds_is_a_regression_unless_another_run_is_within_them(stored, again_at, word, code):
    bounds = {'hpl': (100.0, -0.05, 0.05)}
    stored('a', case(80.0, refs=bounds))
    if again_at:
        stored('b', *[case(again_at, refs=bounds)] * 3, parity_rerun_of='a')
    cell, verdict = hpl()
    assert verdict.session.uuid == 'a' and (cell.verdict, verdict.exit_code) == (word, code)
    assert cell.suspicious == (again_at is None) and cell.value == 80.0
    assert word != 'ok' or 'run again it was within its bounds' in cell.reason


def test_all_series_together_are_judged_as_one_by_one(monkeypatch):
    """The verdict makes its table from the frame at once, judging.judge_all night by night."""
    rng = random.Random(3)
    rows, cells, singly = [], [], []
    for metric, better, last in (('triad', 'higher', 0.93), ('copy', 'lower', 1.08), ('add', 'higher', 1.0)):
        past, of = [], {'metric': metric, 'better': better}
        for night in range(50):
            runs, again = (tuple(100 * (last if night > 46 else 1.0) * rng.gauss(1, 0.01) for _ in range(number))
                           for number in (3, 2 * (night % 7 == 0 or night == 49)))
            node, other = f'v{night % 2}', f'v{night % 2 + night % 3}'
            rows += [made.rerun(night, value, other, **of) for value in again]
            if (metric, night) == ('add', 7):       # reruns of a night without runs of its own
                continue
            rows += [made.figure(night, value, node, run=i, **of) for i, value in enumerate(runs)]
            past.append(judging.Night(runs, again, f'n{night}', '', node))
        cells.append(made.cell('unreferenced', **of))
        singly.append(judging.Cell(tuple(past), better))
    monkeypatch.setattr(history, 'parts', lambda *_, **__: history.Parts([history.Part.from_scan(made.frame(*rows).lazy())]))
    expected = judging.judge_all(singly, 103, alike=False)
    assert [each.verdict for each in expected] == ['regressed', 'regressed', 'ok']
    found, shared = by_series.of_cells(cells, 'onebox', 'night-49', lambda histories: budget.of(1, histories, 100, 0))
    assert shared.histories == 3 and shared.rate == 1 / 3090
    for (told, reruns, life, *_), each, past in zip(found, expected, singly, strict=True):
        assert (told.verdict, reasons.why(told), told.needs_rerun, told.value) == (each.verdict, reasons.why(each), each.needs_rerun, pytest.approx(each.value))
        assert reruns == past.nights[-1].reruns and (life['state'] == 'slow') == (each.verdict == 'regressed')
