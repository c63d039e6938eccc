"""References with a life: proposed from alike nights, accepted with a reason, applied, linted, expired."""

from __future__ import annotations

import datetime
import random
import shutil

import pytest
import yaml

import commands
import sessions as made
import stored
from conftest import TOP
from parity.base import paths
from parity.base.errors import NothingMeasured, UsageError
from parity.plan import LoadedCheck, Plan
from parity.refs import accept, propose, table
from parity.refs.accepted import expired, lint
from parity.verdict import judge
from stored import case


@pytest.fixture
def history(tmp_path, monkeypatch):
    """Sessions of `local`, in a checkout of the test's own, which has no reference."""
    root = tmp_path / 'top'
    shutil.copytree(TOP / 'systems' / 'local', root / 'systems' / 'local', ignore=lambda *_: ['references'])
    monkeypatch.setenv('PARITY_ROOT', str(root))
    (root / 'results').mkdir()
    monkeypatch.setenv('PARITY_RESULTS', str(root / 'results'))
    monkeypatch.setattr('parity.plan.of_command', lambda arguments: plan())
    return stored.Stored()


def plan(*cases: dict, **check) -> Plan:
    known = LoadedCheck(**{'check': 'Toy', 'file': 'toy.py', 'metrics': made.METRICS, 'parameters': {'mode': ['copy', 'write']}, **check})
    return Plan(system='local', cases=list(cases) or [made.planned(), made.planned('Toy %mode=copy')], checks=[known], problems=[])


def quiet(n: int = 12, at: float = 100.0, cv: float = 0.005) -> list[float]:
    rng = random.Random(n)
    return [round(at * (1 + cv * rng.gauss(0, 1)), 3) for _ in range(n)]


def nights(history, values, **other) -> None:
    for value in values:
        history.add(case(value, **other))


def proposed(**options) -> dict[str, object]:
    answer = propose.run('local', **options)
    return {p.metric: p for _, p in answer.found} | {cell.metric: why for cell, why in answer.refused}


def accepted(**options):
    propose.run('local')
    return accept.run('local', [], accept.reason(**{'why': 'first values', 'by': 'ana', **options}))


def references(text: str = ''):
    """The file of accepted references, with this text."""
    file = paths.root() / 'systems' / 'local' / 'references' / 'default.yaml'
    if text:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return file


def entry(*tuples: str, index: str = 'size') -> str:
    """A file with references of Toy, for metrics or for what leads to them."""
    return f'Toy:\n  $index: [{index}]\n  quick:\n' + ''.join(f'    {each}\n' for each in tuples)


BY_HAND = 'hpl: [1.0, -0.1, 0.1, Gflop/s]'
CACHED = {'parity': {'labels': {'hpl': {'word': 'cached'}}}}


def node(kind: str) -> dict:
    return {'parity': {'node': {'node': 'node01', 'processor': 'EPYC 7763', 'virtualisation': kind}}}


def test_a_quiet_history_gives_its_median_with_bounds_on_both_sides(history):
    nights(history, quiet(at=123.456), latency=1.5)
    hpl, latency = proposed()['hpl'], proposed()['latency']
    assert hpl.reference == (pytest.approx(123.456, rel=0.01), -0.03, 0.03, 'Gflop/s')
    assert len(f'{hpl.reference[0]:g}') == 5 and hpl.observed.n == 12
    assert latency.reference == (1.5, -0.1, 0.1, 'us'), 'a timer of 0.1 us may be off by one step of it'
    assert hpl.observed.nights == f'{stored.day(0)}..{stored.day(11)}'
    assert hpl.observed.sessions == '00000000..0000000b' and hpl.observed.nodes == 'node01'


@pytest.mark.parametrize('values, others, says', [
    (quiet(9), [{}] * 9, '9 nights; 10 are needed'),
    (quiet(23), [{}] * 20 + [{'parity': {'software': {'identity': 'y'}}}] * 3, '3 nights since the software changed'),
    (quiet(23), [{}] * 20 + [{'parity': {'variant': {'threading': 'one'}}}] * 3, '3 nights since the variant changed'),
    (quiet(23), [{}] * 20 + [CACHED] * 3, 'not alike: 3 of 23 nights are cached'),
    (quiet(), [CACHED] * 12, 'cached: such a figure is never judged'),
    (quiet(), [node('none')] * 9 + [node('kvm')] * 3, 'nodes of several kinds: EPYC 7763 (node01 on'),
    ([v * (0.95 if i % 4 == 1 else 1) for i, v in enumerate(quiet(20))],
     [{'job_nodelist': ['v3' if i % 4 == 1 else 'v1']} for i in range(20)], 'not alike: v3 is -4.9 %'),
    ([70.0, 71.0, *quiet(13)], [{}] * 15, '2 of 15 nights lie beyond'),
    ([60.0, 140.0, 100.0] * 10, [{}] * 30, 'measure longer'),
    ([0.0] * 12, [{}] * 12, 'nothing to fall from'),
])
def test_only_nights_that_are_alike_and_enough_give_a_reference(history, values, others, says):
    for value, other in zip(values, others, strict=True):
        history.add(case(value, **other))
    assert says in proposed()['hpl']


def test_noise_widens_the_bounds_and_one_bad_night_is_told(history):
    nights(history, [100.0, 70.0, *quiet(20, cv=0.02)])
    hpl = proposed()['hpl']
    assert 0.05 < hpl.reference[2] < 0.2
    assert hpl.remarks == [f'one night lies beyond, {stored.day(1)} -30 %: unless it was a fault, there will be more']


def test_what_is_always_zero_may_not_rise(history):
    nights(history, [0.0] * 12, latency=0.0)
    assert proposed()['latency'].reference == (0.0, None, 0.0, 'us')
    history.add(case(0.0, latency=3.0))
    assert 'its median is 0, and 1 of 13 runs are not' in proposed()['latency']


def test_changed_cases_and_reruns_are_left_out(history):
    nights(history, quiet())
    nights(history, [50.0] * 5, parity={'unusual': {'nodes': 4}})       # as older sessions noted it
    for _ in range(5):
        history.add(case(50.0, name='Toy %nodes=2', parity={'changed': {'nodes': '2'}}), case(50.0, name='Toy %threads=1'))
        history.add(case(50.0), parity_rerun_of='00000003-0')
    answer = propose.run('local')
    found, = (p for cell, p in answer.found if cell.metric == 'hpl')
    assert found.observed.n == 12 and found.reference[0] == pytest.approx(100, rel=0.01)
    refused = {cell.case: why for cell, why in answer.refused if cell.metric == 'hpl'}
    assert set(refused) == {'Toy %nodes=4', 'Toy %nodes=2', 'Toy %threads=1'}
    assert 'set on the command line: nodes=2;' in refused['Toy %nodes=2'] and '-P made threads a parameter' in refused['Toy %threads=1']


def test_a_change_within_the_nights_is_refused_and_since_leaves_out_what_was_before(history):
    nights(history, quiet(12) + quiet(10, at=94.0))
    why = proposed()['hpl']
    assert f'a change on {stored.day(12)}: -6' in why
    since = why.partition("--since '")[2].partition("'")[0]
    assert proposed(since=since)['hpl'].reference[0] == pytest.approx(94, rel=0.01)
    assert proposed(since=stored.day(15))['hpl'] == '7 nights; 10 are needed'


def test_sessions_of_one_day_say_that_days_are_not_in_it(history):
    for i, value in enumerate(quiet()):
        history.add(case(value), time_start_unix=1795190000.0 + 60 * i)
    assert proposed()['hpl'].remarks == ['on 1 day only: how days differ is not in it']


def test_names_that_fit_nothing(history):
    with pytest.raises(NothingMeasured, match='ci/nightly --system local'):
        propose.run('local')
    nights(history, quiet())
    for options, says in (({'system': 'locla'}, "unknown system 'locla'"), ({'partition': 'gpu'}, "unknown partition 'gpu'"),
                          ({'check': 'Toi'}, "did you mean 'Toy'"), ({'since': '20.11'}, '--since .20.11.: must be a date')):
        with pytest.raises(UsageError, match=says):
            propose.run(**{'system': 'local', **options})
    propose.run('local')
    with pytest.raises(UsageError, match='did you mean .Toy.hpl@local:default'):
        accept.run('local', ['Toy.hlp@local:default'], accept.reason('x', 'ana'))
    for options, says in (({'why': ' '}, '--why'), ({'why': 'x', 'expires': '2020-01-01'}, 'after today'),
                          ({'why': 'x', 'expires': 'soon'}, 'must be a date'), ({'why': 'red \x1b[31mvalues'}, '--why: has the character U.001B')):
        with pytest.raises(UsageError, match=says):
            accept.reason(**options)


@pytest.mark.parametrize('arguments, code, says', [
    (['propose'], 2, "Missing option '--system'"), (['propose', '--system', 'local'], 3, 'no figure of local is stored'),
    (['accept', '--all', '--system', 'local'], 2, "Missing option '--why'"),
    (['accept', '--system', 'local', '--why', 'x'], 2, 'name the cells, or --all'),
    (['accept', 'a', '--all', '--system', 'local', '--why', 'x'], 2, 'not both'),
    (['accept', '--all', '--system', 'local', '--why', 'x'], 3, 'nothing is proposed for local'),
    (['show', '--system', 'nosuch'], 2, "unknown system 'nosuch'"), (['lint', '--system', 'nosuch'], 2, 'nosuch'),
])
def test_what_is_wrong_on_the_command_line_is_one_line_with_its_exit_code(results, arguments, code, says):
    done = commands.parity('refs', *arguments)
    assert done.returncode == code and says in done.stdout + done.stderr and 'Traceback' not in done.stderr


def test_the_references_of_all_systems_here_pass_the_lint(results):
    done = commands.process('refs', 'lint')
    assert done.returncode == 0, done.stdout + done.stderr


def test_accepted_references_stand_in_the_file_with_their_provenance(history):
    nights(history, quiet(), name='Toy %mode=copy', latency=0.0)
    accepted(expires='2027-01-31')
    data = yaml.safe_load(references().read_text())
    assert data['Toy'] == {'$index': ['size', 'mode'], 'quick': {'copy': {
        'hpl': [data['Toy']['quick']['copy']['hpl'][0], -0.03, 0.03, 'Gflop/s'], 'latency': [0, None, 0, 'us']}}}
    told = data['provenance']['Toy/quick/copy/hpl']
    assert (told['by'], told['why'], told['expires'], told['n']) == ('ana', 'first values', datetime.date(2027, 1, 31), 12)
    with pytest.raises(NothingMeasured, match='nothing is proposed for local'):
        accept.run('local', [], accept.reason('x', 'ana'))


def test_one_cell_is_accepted_and_the_others_wait(history):
    nights(history, quiet())
    propose.run('local')
    for metrics in (['hpl'], ['hpl', 'latency']):
        accept.run('local', [f'Toy.{metrics[-1]}@local:default'], accept.reason('x', 'ana'))
        assert list(yaml.safe_load(references().read_text())['Toy']['quick']) == metrics


def test_what_was_accepted_is_kept_in_order_and_replaced_in_its_place(history):
    references('# ours\n' + entry('write:    # slow', f'  {BY_HAND}   # by hand', 'copy:', '  hpl: [90.0, -0.1, null, Gflop/s]', index='size, mode'))
    nights(history, quiet(), name='Toy %mode=copy')
    assert proposed()['hpl'].replaces == (90.0, -0.1, None, 'Gflop/s')
    assert 'was 90' in '\n'.join(table.lines(propose.run('local')))
    accepted()
    text = references().read_text()
    assert text.startswith('# ours\n') and f'write:    # slow\n      {BY_HAND}   # by hand\n' in text


def test_a_reference_is_of_its_partition_only_and_a_worse_value_is_told(history):
    nights(history, quiet())
    accepted()
    nights(history, quiet(at=50.0), partition='other')
    replaced = {cell.partition: p.replaces for cell, p in propose.run('local').found if cell.metric == 'hpl'}
    assert replaced['default'][0] == pytest.approx(100, rel=0.01) and replaced['other'] is None
    nights(history, quiet(30, at=95.0))
    assert proposed(partition='default')['hpl'].remarks[0].startswith('worse than the accepted value by 4.9 %')


@pytest.mark.parametrize('change, says', [
    (lambda file, h: file.write_text(file.read_text().replace('-0.03', '-0.3')), 'edited by hand'),
    (lambda file, h: h.add(case(100.0, parity={'software': {'identity': 'new'}})), 'its software changed since'),
    (lambda file, h: references(entry(BY_HAND)), 'its accepted value changed'),
    (lambda file, h: references('Toy:\n  $index: [mode, size]\n  copy:\n    quick:\n      hpl: [1.0, -0.1, 0.1, Gflop/s]\n'),
     r'default.yaml:2: \$index \[mode, size\] does not fit'),
    (lambda file, h: references('Toi:\n  $index: [size]\n'), "unknown check 'Toi'"),
])
def test_what_changed_since_it_was_proposed_is_not_accepted(history, change, says):
    nights(history, quiet())
    change(propose.run('local').files[0], history)
    before = references().read_text() if references().exists() else ''
    with pytest.raises(UsageError, match=says):
        accept.run('local', [], accept.reason('x', 'ana'))
    assert (references().read_text() if references().exists() else '') == before


def test_several_environments_each_have_their_own(history):
    for value in quiet():
        history.add(case(value), case(value * 2, environ='spack', latency=3.0))
    assert {p.cell: p.index['$environ'] for _, p in propose.run('local').found if p.metric == 'hpl'} == {
        'Toy.hpl@local:default+distro': 'distro', 'Toy.hpl@local:default+spack': 'spack'}
    accepted()
    assert set(yaml.safe_load(references().read_text())['Toy']['quick']) == {'distro', 'spack'}


def test_an_index_that_does_not_tell_all_is_refused_with_its_line(history):
    references(entry(BY_HAND))
    nights(history, quiet(), name='Toy %mode=copy')
    assert 'default.yaml:2: $index [size] must name size and mode' in proposed()['hpl']


def lint_of() -> list[str]:
    linted, = lint('local')
    return linted.errors + [warning.split(': ', 2)[2] for warning in linted.warnings]


def test_lint_is_content_until_the_software_or_the_environments_change(history, monkeypatch):
    nights(history, quiet())
    accepted()
    assert lint_of() == [] and table.linted(lint('local')) == ['local: 2 references, no error, 0 warnings']
    for planned, says in (([made.planned(), made.planned(environ='spack')], 'one value for distro and spack: put $environ into the $index'),
                          ([made.planned(environ='')], 'never applied: no environment offers hpcc')):
        with monkeypatch.context() as patch:
            patch.setattr('parity.plan.of_command', lambda arguments, cases=planned: plan(*cases))
            assert set(lint_of()) == {says}
    history.add(case(100.0, parity={'software': {'identity': 'new'}}))
    assert lint_of() == [f'its software changed since it was accepted on {datetime.date.today()}'] * 2


def test_lint_warns_of_what_no_planned_case_has(history):
    references(entry('copy:', '  hpl: [100.0, -0.2, 0.2, Gflop/s]', 'write:', '  hpl: [100.0, -0.2, 0.2, Gflop/s]', index='size, mode'))
    assert lint_of() == ['never applied: no case of the plan is of it']
    assert lint('local')[0].warnings[0].startswith(f'{references()}:7: Toy/quick/write/hpl: ')


@pytest.mark.parametrize('text, says', [
    (entry('hpl: [1.0, null, 0.1, Gflop/s]'), ':4: hpl: higher is better, and it has no lower bound'),
    (entry('latency: [1.0, -0.1, null, us]'), ':4: latency: lower is better, and it has no upper bound'),
    (entry('hpl: [1.0, -1.5, null, Gflop/s]'), ':4: hpl: lower -1.5 is beyond 0'),
    (entry('hpl: [1.0, -.1, 0.1, Gflop/s]'), ":4: hpl: '-.1' is no finite number (YAML reads -.1 as text: write -0.1)"),
    (entry('hpl: [1.0, -0.1, 0.1, MB/s]'), ":4: hpl: unit 'MB/s', but the check measures Gflop/s"),
    (entry(BY_HAND) + 'provenance:\n  Toy/quick/hpl: {by: ana}\n', ':6: provenance of Toy/quick/hpl: n: Field required'),
    (entry(BY_HAND) + 'provenance: [x]\n', 'provenance must be a mapping'),
    (entry('destro:', f'  {BY_HAND}', index='size, $environ'), "did you mean 'distro'?"),
    (entry('1:', f'  {BY_HAND}', index='size, mode'), "write '1'"),
    (entry('yes:', f'  {BY_HAND}', index='size, mode'), "unknown mode 'True'"),
])
def test_what_a_run_would_refuse(history, monkeypatch, text, says):
    monkeypatch.setattr('parity.plan.of_command', lambda arguments: plan(parameters={'mode': ['copy', '1']}))
    references(text)
    linted, = lint('local')
    assert any(says in each for each in linted.errors) and str(references()) in linted.errors[0]


def test_an_expired_reference_is_applied_and_said_loudly(history):
    nights(history, quiet())
    accepted()
    references(references().read_text().replace(str(accept.reason('x')['expires']), '2026-01-31'))
    said, = expired('local')
    assert said.startswith(f'{references()}:5: Toy/quick/hpl, and 1 more reference: expired on 2026-01-31')
    verdict = made.verdict_on(made.report([made.ran(hpl=80.0, refs={'hpl': (100.0, -0.05, 0.05)})], [made.planned()]))
    assert said in verdict.warnings and verdict.cells[0].verdict == 'regressed'
    assert 'expired on 2026-01-31' in '\n'.join(table.linted(lint('local')))
    assert 'expired 2026-01-31' in '\n'.join(table.shown('local'))


def test_every_reference_is_shown_with_its_provenance(history):
    assert table.shown() == ['no reference has been accepted', 'next: parity refs propose --system NAME']
    nights(history, quiet())
    assert judge.newest().next == 'parity refs propose --system local (after 10 nights)'
    accepted()
    history.add(case(100.0, refs={'hpl': (100.0, -0.03, 0.03)}))
    said = '\n'.join(table.shown('local'))
    assert 'by ana: first' in said and 'in 183 days' in said
    assert f'last applied {stored.day(12)}' in said and 'never applied' in said and 'sessions 00000000..0000000b' in said
    references(entry(BY_HAND))
    assert 'by hand' in '\n'.join(table.shown('local'))


def judged_hpl(session: str = ''):
    verdict = judge.newest(session)
    return next(cell for cell in verdict.cells if cell.metric == 'hpl'), verdict


@pytest.mark.parametrize('by_hand, until', [(False, 28), (True, 40)])
def test_an_accepted_slowdown_is_ok_at_once_and_its_nights_judge_those_after(history, by_hand, until):
    """Fifty nights at 100, twelve at 92, which are accepted: those before judge no longer."""
    nights(history, quiet(50) + quiet(12, at=92.0))
    cell, verdict = judged_hpl()
    assert (cell.verdict, verdict.exit_code) == ('regressed', 1)
    propose.run('local', since=stored.day(50))
    accept.run('local', [], accept.reason('the new kernel stays', 'ana'))
    value, low, high, _ = yaml.safe_load(references().read_text())['Toy']['quick']['hpl']
    if by_hand:
        references(entry(f'hpl: [{value}, {low}, {high}, Gflop/s]'))
    refs = {'hpl': (value, low, high)}
    if not by_hand:
        worse = history.add(case(86.0, refs=refs))
        assert judged_hpl()[0].verdict == 'regressed', 'the accepted bounds judge at once'
        history.database.execute('DELETE FROM sessions WHERE uuid = ?', (worse,))
        history.database.commit()
    nights(history, quiet(1, at=92.0), refs=refs)
    cell, verdict = judged_hpl()
    assert (cell.verdict, verdict.exit_code) == ('ok', 0) and 'worse since' not in cell.reason
    assert judged_hpl('0000003d')[0].verdict == 'regressed', 'the last night before the acceptance is judged as it was'
    nights(history, quiet(until - 2, at=92.0), refs=refs)
    assert judged_hpl()[0].history == 'insufficient'
    nights(history, quiet(1, at=92.0), refs=refs)
    assert judged_hpl()[0].history == 'ok'
    nights(history, quiet(3, at=90.2), refs=refs)      # within the bounds of 3 %
    cell, _ = judged_hpl()
    assert cell.verdict == 'regressed' and 'median of the 40 nights before' in cell.reason


def test_a_value_that_is_accepted_again_unchanged_cuts_nothing(history):
    refs = {'hpl': (100.0, -0.03, 0.03)}
    nights(history, quiet(40), refs=refs)
    references(entry('hpl: [100.0, -0.03, 0.03, Gflop/s]') + 'provenance:\n  Toy/quick/hpl: {date: 2027-01-20, by: ana, why: again, '
               f"expires: 2027-07-20, n: 10, median: 1, spread: 0, nights: '{stored.day(29)}..{stored.day(39)}', "
               'sessions: 0000001d..00000027, nodes: node01, software: x}\n')
    nights(history, quiet(1), refs=refs)
    assert judged_hpl()[0].history == 'ok'


def test_an_unreadable_file_of_references_is_a_warning_of_the_verdict(history):
    nights(history, quiet(3), refs={'hpl': (100.0, -0.03, 0.03)})
    references('Toy: [')
    cell, verdict = judged_hpl()
    assert cell.verdict == 'ok' and any('default.yaml:1' in said for said in verdict.warnings)
