"""References with a life: proposed from alike nights, accepted with a reason, applied, linted, expired."""

from __future__ import annotations

import datetime
import random
import shlex
import shutil

import numpy as np
import pytest
import yaml
from scipy.stats import norm

import commands
import sessions as made
import stored
from conftest import TOP
from parity.base import paths
from parity.base.errors import UsageError
from parity.judge.refs import accept, propose, table
from parity.judge.refs.accepted import expired
from parity.judge.refs.lint import lint
from parity.judge.stats import bounds
from parity.judge.verdict import judge
from parity.measure.rfm import planning
from parity.site.plan import LoadedCheck, Plan
from stored import case

DEFAULT = 'systems/local/references/default.yaml'
ACCEPT = 'accept --all --system local --why '
BY_HAND = 'hpl: [1.0, -0.1, 0.1, Gflop/s]'
CACHED = {'parity': {'labels': {'hpl': {'word': 'cached'}}}}
REAL, VIRTUAL = ({'parity': {'node': {'node': 'node01', 'processor': 'EPYC 7763', 'virtualisation': kind}}} for kind in ('none', 'kvm'))


@pytest.fixture
def history(results, tmp_path, monkeypatch):
    """Sessions of `local`, in a checkout of the test's own, which has no reference."""
    shutil.copytree(TOP / 'systems' / 'local', tmp_path / 'systems' / 'local', ignore=lambda *_: ['references'])
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    monkeypatch.setattr('parity.measure.rfm.planning.of_command', lambda arguments: plan())
    return stored.Stored()


def plan(*cases: dict, modes=('copy', 'write')) -> Plan:
    known = LoadedCheck(check='Toy', file='toy.py', metrics=made.METRICS, parameters={'mode': list(modes)})
    return Plan(system='local', cases=list(cases) or [made.planned(), made.planned('Toy %mode=copy')], checks=[known], problems=[])


def quiet(n: int = 12, at: float = 100.0, cv: float = 0.005) -> list[float]:
    rng = random.Random(n)
    return [round(at * (1 + cv * rng.gauss(0, 1)), 3) for _ in range(n)]


def nights(history, values, **other) -> None:
    def fill() -> None:
        for value in values:
            history.add(case(value, **other))
    history.once(f'{values} {other}', fill)


def proposed(**options) -> dict[str, object]:
    answer = propose.run('local', **options)
    return {p.metric: p for _, p in answer.proposals} | {cell.metric: why for cell, why in answer.refused}


def accepted(*cells: str, **options):
    """Accept these cells, all if none is named; returns the file as ReFrame reads it."""
    if not cells:
        propose.run('local')
    accept.run('local', list(cells), accept.reason(**{'why': 'first values', 'by': 'ana', **options}), planning.of_system('local'))
    return yaml.safe_load(references().read_text())


def references(text: str = ''):
    """The file of accepted references, with this text."""
    file = paths.root() / DEFAULT
    if text:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return file


def entry(*tuples: str, index: str = 'size') -> str:
    """A file with references of Toy, for metrics or for what leads to them."""
    return f'Toy:\n  $index: [{index}]\n  quick:\n' + ''.join(f'    {each}\n' for each in tuples)


def test_a_quiet_history_gives_its_median_with_bounds_on_both_sides(history):
    for i, value in enumerate(quiet(at=123.456)):
        history.add(case(value, latency=1.5, job_nodelist=[f'v{i % 2}']))
    hpl, latency = proposed()['hpl'], proposed()['latency']
    assert hpl.reference == (pytest.approx(123.456, rel=0.01), -0.03, 0.03, 'Gflop/s') and len(f'{hpl.reference[0]:g}') == 5
    assert latency.reference == (1.5, -0.1, 0.1, 'us'), 'a timer of 0.1 us may be off by one step of it'
    assert (hpl.observed.n, hpl.observed.nights) == (12, f'{stored.day(0)}..{stored.day(11)}')
    assert hpl.observed.sessions == '00000000..0000000b' and hpl.observed.nodes == 'v0, v1'


@pytest.mark.parametrize('values, others, says', [
    (quiet(9), [{}] * 9, '9 nights; 10 are needed'),
    (quiet(23), [{}] * 20 + [{'parity': {'software': {'identity': 'y'}}}] * 3, '3 nights since the software changed'),
    (quiet(23), [{}] * 20 + [{'parity': {'variant': {'threading': 'one'}}}] * 3, '3 nights since the variant changed'),
    (quiet(23), [{}] * 20 + [CACHED] * 3, 'not alike: 3 of 23 nights are cached'),
    (quiet(), [CACHED] * 12, 'cached: such a figure is never judged'),
    (quiet(), [REAL] * 9 + [VIRTUAL] * 3, 'nodes of several kinds: EPYC 7763 (node01 on'),
    ([v * (0.95 if i % 4 == 1 else 1) for i, v in enumerate(quiet(20))],
     [{'job_nodelist': ['v3' if i % 4 == 1 else 'v1']} for i in range(20)], 'not alike: v3 is -4.9 %'),
    ([70.0, 71.0, *quiet(13)], [{}] * 15, '2 of 15 nights lie beyond'),
    ([60.0, 140.0, 100.0] * 10, [{}] * 30, 'measure longer'),
    ([0.0] * 12, [{}] * 12, 'nothing to fall from'), ([0.0] * 12 + [3.0], [{}] * 13, 'its median is 0, and 1 of 13 runs are not'),
])
def test_only_nights_that_are_alike_and_enough_give_a_reference(history, values, others, says):
    for value, other in zip(values, others, strict=True):
        history.add(case(value, **other))
    assert says in proposed()['hpl']


def test_noise_widens_the_bounds_and_a_reviewer_is_told_of_one_bad_night_and_of_few_days(history):
    for i, value in enumerate([100.0, 70.0, *quiet(20, cv=0.02)]):
        history.add(case(value), time_start_unix=1795190000.0 + 60 * i)
    hpl = proposed()['hpl']
    assert 0.05 < hpl.reference[2] < 0.2
    assert hpl.remarks == ['one night lies beyond, 2026-11-20 -30 %: unless it was a fault, there will be more',
                           'on 1 day only: how days differ is not in it']


@pytest.mark.parametrize('nodes, others, said', [
    (['p1'], ['p2', 'p3', 'p4.site'], ['on 1 of 4 nodes: whether the others (p2, p3, p4) are as fast is not known; 3 nights on a node would tell']),
    (['p1.site', 'p2'], ['p3'], ['on 2 of 3 nodes: whether the others (p3) are as fast is not known; 3 nights on a node would tell']),
    (['p1', 'p2'], [], []), (['p1,p2'], ['p2'], [])])
def test_a_value_from_some_nodes_of_a_partition_says_so_and_what_would_tell_of_the_others(history, nodes, others, said):
    for i, value in enumerate(quiet()):
        elsewhere = [case(value, name='Toy %mode=copy', job_nodelist=[node]) for node in others]
        history.add(case(value, job_nodelist=nodes[i % len(nodes)].split(',')), *elsewhere)
    answer = propose.run('local')
    remarks, = (p.remarks for cell, p in answer.proposals if (cell.case, cell.metric) == ('Toy', 'hpl'))
    assert remarks == said and all(each in '\n'.join(map(str, table.lines(answer))) for each in said)


def test_a_partition_whose_other_nodes_never_measured_is_counted_as_the_system_states_it(history):
    file = paths.root() / 'systems' / 'local' / 'system.yaml'
    file.write_text(file.read_text().replace('extras:', 'extras:\n      nodes: 4', 1))
    nights(history, quiet(), job_nodelist=['p1'])
    assert proposed()['hpl'].remarks == ['on 1 of 4 nodes: whether the others are as fast is not known; 3 nights on a node would tell']


def test_a_case_that_names_its_node_says_nothing_of_other_nodes(history):
    for value in quiet():
        history.add(*(case(value, name=f'Toy %part=local:default %nid={node}', job_nodelist=[node]) for node in ('p1', 'p2')))
    remarks = [p.remarks for cell, p in propose.run('local').proposals if cell.metric == 'hpl']
    assert remarks == [[], []]


def test_changed_cases_and_reruns_are_left_out(history):
    nights(history, quiet())
    nights(history, [50.0] * 5, parity={'unusual': {'nodes': 4}})       # as older sessions noted it
    for _ in range(5):
        history.add(case(50.0, name='Toy %nodes=2', parity={'changed': {'nodes': '2'}}), case(50.0, name='Toy %threads=1'))
        history.add(case(50.0), parity_rerun_of='00000003-0')
    answer = propose.run('local')
    found, = (p for cell, p in answer.proposals if cell.metric == 'hpl')
    assert found.observed.n == 12 and found.reference[0] == pytest.approx(100, rel=0.01)
    refused = {cell.case: why for cell, why in answer.refused if cell.metric == 'hpl'}
    assert set(refused) == {'Toy %nodes=4', 'Toy %nodes=2', 'Toy %threads=1'}
    assert 'set on the command line: nodes=2;' in refused['Toy %nodes=2'] and '-P made threads a parameter' in refused['Toy %threads=1']


def test_a_change_within_the_nights_is_refused_and_since_leaves_out_what_was_before(history):
    nights(history, quiet(12) + quiet(10, at=94.0))
    why = proposed()['hpl']
    assert f'a change on {stored.day(12)}: -6' in why
    assert proposed(since=why.partition("--since '")[2].partition("'")[0])['hpl'].reference[0] == pytest.approx(94, rel=0.01)
    assert proposed(since=stored.day(15))['hpl'] == '7 nights; 10 are needed'


@pytest.mark.parametrize('arguments, code, says', [
    ('propose --system local', 3, 'no figure of local that nobody disturbed is stored'), (f'{ACCEPT} x', 3, 'nothing is proposed for local'),
    ('propose --system locla', 2, "unknown system 'locla'"), ('propose --system local --check Toi', 2, "did you mean 'Toy'"),
    ('propose --system local --partition gpu', 2, "unknown partition 'gpu'"), ('lint --system nosuch', 2, "unknown system 'nosuch'"),
    ('propose --system local --since 20.11', 2, "--since '20.11': must be a date"), ('accept --all --system local', 2, "Missing option '--why'"),
    ('accept --system local --why x', 2, 'name the cells, or --all'), (f'{ACCEPT} x a', 2, 'not both'),
    ('accept Toy.hlp@local:default --system local --why x', 2, "did you mean 'Toy.hpl@local:default'"),
    (f'{ACCEPT} " "', 2, '--why'), (f'{ACCEPT} "red \x1b[31mvalues"', 2, '--why: has the character U+001B'),
    (f'{ACCEPT} x --expires 2020-01-01', 2, 'after today'), (f'{ACCEPT} x --expires soon', 2, 'must be a date'),
])
def test_what_is_wrong_on_the_command_line_is_one_line_with_its_exit_code(history, arguments, code, says):
    if code == 2:
        nights(history, quiet())
        propose.run('local')
    done = commands.parity('refs', *shlex.split(arguments))
    assert done.returncode == code and says in done.stdout + done.stderr and 'Traceback' not in done.stderr


def test_the_references_of_all_systems_here_pass_the_lint(results):
    done = commands.process('refs', 'lint')
    assert done.returncode == 0, done.stdout + done.stderr


def test_proposals_are_written_alike_without_libyaml_and_no_line_is_folded(history, monkeypatch):
    nights(history, quiet())
    file, = propose.run('local').files
    text = file.read_text()
    monkeypatch.setattr(propose, '_Dumper', yaml.SafeDumper)
    propose.run('local')
    assert file.read_text() == text and ', sessions: 00000000..0000000b, nodes: node01, software: x}\n' in text


def test_accepted_references_stand_in_the_file_with_their_provenance(history):
    nights(history, quiet(), name='Toy %mode=copy', latency=0.0)
    propose.run('local')
    assert list(accepted('Toy%mode=copy.latency@local:default')['Toy']['quick']['copy']) == ['latency']
    data = accepted('Toy%mode=copy.hpl@local:default', expires='2027-01-31')
    assert data['Toy'] == {'$index': ['size', 'mode'], 'quick': {'copy': {
        'hpl': [pytest.approx(100, rel=0.01), -0.03, 0.03, 'Gflop/s'], 'latency': [0, None, 0, 'us']}}}
    told = data['provenance']['Toy/quick/copy/hpl']
    assert (told['by'], told['why'], told['expires'], told['n']) == ('ana', 'first values', datetime.date(2027, 1, 31), 12)
    assert propose.read('local') == []


def test_what_was_accepted_is_replaced_in_its_place_and_told_where_it_gets_worse(history):
    references('# ours\n' + entry('write:    # slow', f'  {BY_HAND}   # by hand', 'copy:', '  hpl: [120.0, -0.1, null, Gflop/s]', index='size, mode'))
    nights(history, quiet(), name='Toy %mode=copy')
    nights(history, quiet(at=50.0), name='Toy %mode=copy', partition='other')
    found = {cell.partition: p for cell, p in propose.run('local').proposals if cell.metric == 'hpl'}
    assert (found['default'].replaces, found['other'].replaces) == ((120.0, -0.1, None, 'Gflop/s'), None), 'a reference is of its partition'
    assert found['default'].remarks[0].startswith('worse than the accepted value by 1')
    assert 'was 120 Gflop/s (-10 % .. none)' in '\n'.join(table.lines(propose.run('local')))
    propose.run('local', partition='default')
    accept.run('local', [], accept.reason('x', 'ana'), planning.of_system('local'))
    assert references().read_text().startswith('# ours\n') and f'write:    # slow\n      {BY_HAND}   # by hand\n' in references().read_text()


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
    before = references().exists() and references().read_text()
    with pytest.raises(UsageError, match=says):
        accept.run('local', [], accept.reason('x', 'ana'), planning.of_system('local'))
    assert (references().exists() and references().read_text()) == before


def test_several_environments_each_have_their_own(history):
    for value in quiet():
        history.add(case(value), case(value * 2, environ='spack', latency=3.0))
    references(entry(BY_HAND))
    assert 'default.yaml:2: $index [size] must name size and $environ' in proposed()['hpl']
    references().unlink()
    assert {p.cell: p.index['$environ'] for _, p in propose.run('local').proposals if p.metric == 'hpl'} == {
        'Toy.hpl@local:default+distro': 'distro', 'Toy.hpl@local:default+spack': 'spack'}
    assert set(accepted()['Toy']['quick']) == {'distro', 'spack'}
    assert {said.rpartition(': ')[2] for said in lint('local', planning.of_system)[0].warnings} == {'no case of the plan is of it'}, 'none in spack'


def test_lint_is_content_until_the_software_or_the_plan_changes(history, monkeypatch):
    nights(history, quiet())
    accepted()
    history.add(case(1.0, partition='other', parity={'software': {'identity': 'new'}}))
    assert list(table.linted(lint('local', planning.of_system))) == ['local: 2 references, no error, 0 warnings']
    for planned, says in (([made.planned(), made.planned(environ='spack')], 'one value for distro and spack: put $environ into the $index'),
                          ([made.planned(environ='')], 'never applied: no environment offers hpcc'),
                          ([made.planned('Other')], 'never applied: no case of the plan is of it')):
        with monkeypatch.context() as patch:
            patch.setattr('parity.measure.rfm.planning.of_command', lambda arguments, cases=planned: plan(*cases))
            assert lint('local', planning.of_system)[0].warnings == [f'{references()}:5: Toy/quick/hpl: {says}', f'{references()}:6: Toy/quick/latency: {says}']
    history.add(case(100.0, parity={'software': {'identity': 'new'}}))
    said, _, count = table.linted(lint('local', planning.of_system))
    assert said.endswith(f'its software changed since it was accepted on {datetime.date.today()}') and count.endswith('no error, 2 warnings')


@pytest.mark.parametrize('text, says', [
    (entry('hpl: [1.0, null, 0.1, Gflop/s]'), ':4: hpl: higher is better, and it has no lower bound'),
    (entry('latency: [1.0, -0.1, null, us]'), ':4: latency: lower is better, and it has no upper bound'),
    (entry('hpl: [1.0, -1.5, null, Gflop/s]'), ':4: hpl: lower -1.5 is beyond 0'),
    (entry('hpl: [null, -0.1, 0.1, Gflop/s]'), ':4: hpl: the value is null; must be [value, '),
    (entry('hpl: [1.0, -.1, 0.1, Gflop/s]'), ":4: hpl: '-.1' is no finite number (YAML reads -.1 as text: write -0.1); must be [value, "),
    (entry('hpl: [1.0, -0.1, 0.1, MB/s]'), ":4: hpl: unit 'MB/s', but the check measures Gflop/s"),
    (entry('hpl: {low: [1.0, -0.1, 0.1, Gflop/s]}'), ':4: hpl: must be [value, lower, upper, Gflop/s]'),
    (entry(BY_HAND, index='size, mode'), ":4: unknown mode 'hpl'; valid: 1, copy"), (entry('copy: 7', index='size, mode'), ':4: copy must be a mapping'),
    (entry(BY_HAND) + 'provenance:\n  Toy/quick/hpl: {by: ana}\n', ':6: provenance of Toy/quick/hpl: n: Field required'),
    (entry(BY_HAND) + 'provenance: [x]\n', 'provenance must be a mapping'),
    (entry('destro:', f'  {BY_HAND}', index='size, $environ'), ":4: unknown $environ 'destro'; did you mean 'distro'?"),
    (entry('1:', f'  {BY_HAND}', index='size, mode'), ":4: mode 1 is no text to YAML, and never found: write '1'"),
    (entry('yes:', f'  {BY_HAND}', index='size, mode'), "unknown mode 'True'"),
    (entry(BY_HAND, index='mode'), ':2: Toy needs an $index with size, for instance [size]; valid: size, $environ, mode'),
    (entry(BY_HAND, index='size, nodes'), ":2: unknown parameter 'nodes'"), ('Toy:\n  $index: [size]\n', ':1: Toy must be a mapping, with keys of size'),
])
def test_what_a_run_would_refuse(history, monkeypatch, text, says):
    monkeypatch.setattr('parity.measure.rfm.planning.of_command', lambda arguments: plan(modes=('copy', '1')))
    references(text)
    linted, = lint('local', planning.of_system)
    assert says in linted.errors[0] and str(references()) in linted.errors[0] and len(linted.errors) == 1


def test_a_reference_is_shown_with_its_provenance_and_an_expired_one_is_applied_and_told(history):
    assert list(table.shown()) == ['no reference has been accepted', 'next: parity refs propose --system NAME']
    nights(history, quiet())
    accepted()
    history.add(case(100.0, refs={'hpl': (100.0, -0.03, 0.03)}))
    said = '\n'.join(table.shown('local'))
    for words in ('by ana: first', 'in 183 days', f'last applied {stored.day(12)}', 'never applied', 'sessions 00000000..0000000b'):
        assert words in said
    references(references().read_text().replace(str(accept.reason('x')['expires']), '2026-01-31'))
    said, = expired('local')
    assert said.startswith(f'{references()}:5: Toy/quick/hpl, and 1 more reference: expired on 2026-01-31')
    verdict = made.verdict_on(made.report([case(80.0, refs={'hpl': (100.0, -0.05, 0.05)})], [made.planned()]))
    assert said in verdict.warnings and verdict.cells[0].verdict == 'regressed'
    assert 'expired on 2026-01-31' in lint('local', planning.of_system)[0].warnings[0] and 'expired 2026-01-31' in '\n'.join(table.shown('local'))
    references(entry(BY_HAND))
    assert 'by hand' in '\n'.join(table.shown('local'))


def judged_hpl(session: str = ''):
    return next(cell for cell in judge.newest(session).cells if cell.metric == 'hpl')


@pytest.mark.parametrize('by_hand, until', [(False, 28), (True, 40)])
def test_an_accepted_slowdown_is_ok_at_once_and_its_nights_judge_those_after(history, by_hand, until):
    """Fifty nights at 100, twelve at 92, which are accepted: the slowdown's nights are the level now."""
    nights(history, quiet(50) + quiet(12, at=92.0))
    assert judged_hpl().verdict == 'regressed'
    propose.run('local', since=stored.day(50))
    value, low, high, _ = accepted('Toy.hpl@local:default')['Toy']['quick']['hpl']
    if by_hand:
        references(entry(f'hpl: [{value}, {low}, {high}, Gflop/s]'))
    for count, at, history_says in ((1, 92.0, 'ok'), (until - 2, 92.0, 'ok'), (3, 89.6, 'regressed')):
        nights(history, quiet(count, at=at), refs={'hpl': (value, low, high)})
        cell = judged_hpl()
        assert (cell.verdict, cell.history) == ('ok', history_says), 'within the bounds of 3 %'
    assert 'worse since' in cell.reason and cell.slight == pytest.approx(0.026, abs=0.003)
    assert judged_hpl('0000003d').verdict == 'regressed', 'the last night before the acceptance is judged as it was'


def test_a_value_that_is_accepted_again_unchanged_cuts_nothing_and_an_unreadable_file_is_a_warning(history):
    refs = {'hpl': (100.0, -0.03, 0.03)}
    nights(history, quiet(41), refs=refs)
    references(entry('hpl: [100.0, -0.03, 0.03, Gflop/s]') + 'provenance:\n  Toy/quick/hpl: {date: 2027-01-20, by: ana, why: again, '
               f"expires: 2027-07-20, n: 10, median: 1, spread: 0, nights: '{stored.day(29)}..{stored.day(39)}', "
               'sessions: 0000001d..00000027, nodes: node01, software: x}\n')
    assert judged_hpl().history == 'ok'
    references('Toy: [')
    assert judged_hpl().verdict == 'ok' and any('default.yaml:1' in said for said in judge.newest().warnings)


@pytest.mark.parametrize('n', [10, 17, 30])
def test_in_95_of_100_histories_at_most_1_of_1000_nights_lies_beyond(n):
    histories = np.random.default_rng(7).standard_normal((4000, n))
    k = bounds.FACTORS[n - bounds.FEWEST]
    beyond = norm.sf([k * bounds.spread(h) - np.median(h) for h in histories])
    assert np.mean(beyond <= 0.001) == pytest.approx(0.95, abs=0.012)
    assert len(bounds.FACTORS) == bounds.MOST - bounds.FEWEST + 1


@pytest.mark.parametrize('runs, step', [    # two decimals; the rate of a clock of seconds; none
    ([3.25, 3.5, 3.75], 0.01), ([6.7108, 6.7108, 3.3554, 3.3554], 3.3554), ([1 / 3, 2 / 7, 1 / 9], 0.0)])
def test_the_step_of_a_timer_is_seen(runs, step):
    assert bounds.resolution(runs) == pytest.approx(step)


@pytest.mark.parametrize('one, most', [     # ties; too small to matter
    (lambda rng: rng.gauss(100, 2), 0.09), (lambda rng: float(rng.randint(9, 11)), 0.09), (lambda rng: rng.gauss(100, 0.4), 0.0)])
def test_a_quiet_history_seldom_looks_changed_whatever_its_noise(one, most):
    rng = random.Random(5)
    assert sum(bounds.most_likely_change([one(rng) for _ in range(20)]) is not None for _ in range(400)) <= most * 400
