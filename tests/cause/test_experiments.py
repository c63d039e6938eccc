"""`parity cause`: the design of an experiment, its turns, its answer, and what it refuses. ReFrame is made up."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import TOP
from nights import cell, start
from parity.base import files, paths
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.cause import answer, design, experiment
from parity.cli import cause as command
from parity.judge.nodes import figures
from parity.judge.report import incidents as words
from parity.judge.store import database
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Event, Fault, Incident, Where
from parity.judge.store.plan_file import extras
from parity.measure.jobs import sent
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.session import retain, runner
from parity.measure.software import earlier
from parity.site.nodes import NodeState, Scheduled
from sessions import case, planned

SYSTEM = '''name: local
hostnames: ['.*']
requires: []
{more}
partitions:
  - name: default
    scheduler: slurm
    launcher: srun
    extras: {{cores: 1, memory_bytes: 8000000000}}
'''
NAME = 'Toy.hpl@local:default+distro (quick)'


class Cluster:
    """A made-up cluster of p1, p2 and p3: factors of the speed by node and by software, and the turns that it ran."""

    def __init__(self, stored, folder: Path):
        self.stored, self.folder, self.draw = stored, folder, np.random.default_rng(1)
        self.slow: dict[str, float] = {}
        self.ran: list[tuple[str, str]] = []
        self.broken: dict[int, dict] = {}
        self.in_use, self.noise, self.has_identity, self.distributed = 'new', 0.01, True, ''

    def facts(self, which: str) -> dict:
        return {'software': {'distro': {'prefix': str(self.folder / which), 'view': str(self.folder / which / 'bin')}}}

    def night(self, value: float, which: str, node: str = 'p1', **other) -> str:
        name = f'Toy{self.distributed}'
        runs = [self.case(value * factor, which, node, name=name, **other) for factor in (0.99, 1.0, 1.01)]
        return self.stored.add(*runs, plan=[planned(name)], facts=self.facts(which), cmdline='reframe -c checks/ -r --session-extras parity_night=yes -S size=quick')

    def case(self, value: float, which: str, node: str, **other) -> dict:
        software = {'provider': 'prefix', 'identity': which if self.has_identity else ''}
        return case(value, job_nodelist=node.split(','), time_run=2.0, parity={'software': software, **other.pop('parity', {})}, **other)

    def reframe(self, arguments: list[str], limit=None, step: str = '', **variables: str) -> str:
        which = self.in_use
        if earlier.VARIABLE in variables:
            which = json.loads(Path(variables[earlier.VARIABLE]).read_text())['distro']['prefix'].rpartition('/')[2]
        node = next((word.partition('=')[2] for word in arguments if word.startswith('nodelist=')), 'p1')
        value = 100 * (1 - self.slow.get(node.partition(',')[0], 0)) * (1 - self.slow.get(which, 0)) * np.exp(self.draw.normal(0, self.noise))
        self.ran.append((node, which))
        self.stored.add(self.case(value, which, node, **self.broken.pop(len(self.ran), {})), plan=[planned()], facts=self.facts(which), **extras(arguments))
        return ''


@pytest.fixture
def cluster(stored, site, tmp_path, monkeypatch):
    site.write_text(SYSTEM.format(more=''))
    for which in ('old', 'new'):
        (tmp_path / which / 'bin').mkdir(parents=True)
    made = Cluster(stored, tmp_path)
    monkeypatch.setattr(runner, 'reframe', made.reframe)
    states = tuple(NodeState(name, 'idle', takes=True) for name in ('p1', 'p2', 'p3'))
    monkeypatch.setattr(of_scheduler, 'of_system', lambda _: Scheduled(tuple(states), ''))
    return made


def incident(cluster, slower: float = 0.10, new: str = 'new', **other) -> Incident:
    """An incident of p1 after three good nights with the old software and two slow ones."""
    for _ in range(3):
        cluster.night(100, 'old')
    for _ in range(2):
        cluster.night(100 * (1 - slower), new)
    fault = Fault(**{'word': 'regressed', 'since': start(3), 'measured': start(4), 'cell': 'Toy.hpl@local:default', 'value': 100 * (1 - slower),
                     'expected': 100.0, 'unit': 'Gflop/s', 'loss': slower, 'nodes': ['p1'], **other.pop('fault', {})})
    made = Incident(**{'number': 0, 'uuid': 'u', 'system': 'local', 'key': ['regressed'], 'title': 'p1: slower', 'where': Where(kind='node', name='p1'),
                       'faults': {NAME.replace('Toy', 'Toy' + cluster.distributed.replace(' ', '')): fault}, 'events': [Event(what='new', session='4-0', start=start(4))], **other})
    with table._writing() as conn:
        table._write(conn, [made])
    return table.read('1')


def found(cluster, **given):
    one = design.of_incident(incident(cluster, **given))
    return one, experiment.run(one)


@pytest.mark.parametrize(('slow', 'said'), [
    ({'new': 0.10}, r'the software: new is \d+\.\d % \[.*\] slower than old on p1 and on p2; the nodes are alike'),
    ({'p1': 0.10}, r'the node: p1 is \d+\.\d % \[.*\] slower than p2 with either software'),
    ({'p1': 0.05, 'new': 0.05}, r'both: new is .* slower than old, and p1 is .* slower than p2'),
    ({}, 'neither: it does not show any more'),
    ({'p1': 0.07, 'p2': 0.07}, 'neither: p1 and p2, .* are alike, and all are .* slower than before'),
    ({'p1': 0.1, 'p2': 0.1, 'new': 0, 'old': 0}, 'neither: p1 and p2, .* are alike, and all are .* slower than before: what they share changed')])
def test_the_answer_is_measured_and_the_incident_keeps_it(cluster, slow, said):
    cluster.slow = slow
    one, measured = found(cluster)
    assert {*cluster.ran} == {('p1', 'new'), ('p2', 'new'), ('p2', 'old'), ('p1', 'old')} and len(cluster.ran) % 4 == 0
    kept = answer.answer(one, measured)
    table.change({1: lambda _: {'cause': kept}})
    line, = [line for line in words.about(table.read('1'), 0) if line.startswith('cause')]
    assert re.search(said, line), line
    assert f'({len(cluster.ran)} turns, ' in line


def test_a_cell_that_distribute_made_is_measured_in_turns(cluster):
    cluster.slow, cluster.distributed = {'p1': 0.1}, ' %part=local:default %nid=p1'
    _, measured = found(cluster)
    assert measured.decision.word == 'node'


@pytest.mark.parametrize(('slow', 'said'), [
    ({'p2': 0.5}, r'neither: it does not show any more \(p1 is \d+\.\d % \[.*\] faster than p2\)$'),
    ({'p1': 0.1, 'p2': 0.5}, r'neither: p1 is \d+\.\d % \[.*\] faster than p2, and \d+\.\d % slower than before: what they share changed$')])
@pytest.mark.parametrize('has_identity', [True, False])
def test_a_peer_that_is_slower_blames_no_node(cluster, slow, said, has_identity):
    cluster.slow, cluster.has_identity = slow, has_identity
    one, measured = found(cluster)
    kept = answer.answer(one, measured)
    assert kept.word == 'neither' and re.search(said, kept.text), kept.text


def test_a_slowdown_below_the_noise_is_not_decided_and_the_budget_ends_it(cluster, site):
    site.write_text(SYSTEM.format(more='cause: {node_hours: 0.3}'))
    cluster.noise, cluster.slow = 0.05, {'new': 0.02}
    one, measured = found(cluster, slower=0.02)
    assert measured.decision.word == 'not decided' and measured.turns == 4 * one.most == len(cluster.ran) < 4 * one.wanted
    assert answer.sentence(one, measured).startswith('not decided: ') and 'more would be needed' in answer.sentence(one, measured)
    assert any(line.startswith('careful') for line, *_ in (each if isinstance(each, tuple) else (each,) for each in answer.planned(one, 't')))


def test_the_same_command_goes_on_after_a_kill_and_measures_anew_after_its_end(cluster, monkeypatch):
    one = design.of_incident(incident(cluster))
    monkeypatch.setattr(runner, 'reframe', lambda *a, **b: cluster.reframe(*a, **b) if len(cluster.ran) < 3 else 'killed')
    with pytest.raises(InfrastructureError, match='killed: the same command goes on'):
        experiment.run(one)
    monkeypatch.setattr(runner, 'reframe', cluster.reframe)
    measured = experiment.run(one)
    assert len(cluster.ran) == measured.turns and cluster.ran[:4] == [('p1', 'new'), ('p2', 'new'), ('p2', 'old'), ('p1', 'old')]
    again = experiment.run(one)
    assert len(cluster.ran) == measured.turns + again.turns and again.id != measured.id


def test_a_kill_before_the_answer_is_kept_loses_none_and_measures_nothing_anew(cluster, monkeypatch):
    cluster.slow = {'p1': 0.10}
    incident(cluster)

    def killed(*_):
        raise KeyboardInterrupt
    with monkeypatch.context() as until, pytest.raises(KeyboardInterrupt):
        until.setattr(table, 'change', killed)
        command.run('1', True, [], False, False, '')
    turns = len(cluster.ran)
    command.run('1', True, [], False, False, '')
    assert len(cluster.ran) == turns and table.read('1').cause.word == 'node'


def test_a_second_cause_beside_one_is_refused_before_it_measures_or_notes(cluster, results):
    incident(cluster)
    other = files.Lock(results / '.nightly.lock', 'parity cause 1')
    other.acquire()
    with pytest.raises(InfrastructureError, match=r'held by parity cause 1 \(pid \d+ on .*\): it is measuring now'):
        command.run('1', True, [], False, False, '')
    assert not cluster.ran and not experiment.folder().exists()
    other.release()
    command.run('1', True, [], False, False, '')
    assert table.read('1').cause


def test_a_turn_reads_its_own_session_alone(cluster, monkeypatch):
    one, real, read = design.of_incident(incident(cluster)), database.read, []
    monkeypatch.setattr(database, 'read', lambda session: read.append(session) or real(session))
    turns = experiment.run(one).turns
    assert len(read) == 2 * turns, 'each session once for its figures, and once for what its node said'


def test_a_disturbed_turn_is_measured_again_and_a_failed_one_ends_it(cluster):
    cluster.broken = {2: {'parity': {'disturbed': 'stress 0.9'}}, 7: {'result': 'fail', 'fail_phase': 'run', 'fail_reason': 'no memory'}}
    one = design.of_incident(incident(cluster))
    with pytest.raises(InfrastructureError, match='no memory.*the same command goes on'):
        experiment.run(one)
    assert cluster.ran[1] == cluster.ran[2] and len(cluster.ran) == 7
    assert experiment.run(one).turns == len(cluster.ran) - 2


def test_software_that_is_not_that_of_the_night_is_refused(cluster):
    cluster.in_use = 'newer'
    with pytest.raises(InfrastructureError, match=r'p1, \S+/new: the nodes ran other software \(newer\) than that of the night'):
        experiment.run(design.of_incident(incident(cluster)))


def test_the_noise_of_nights_of_one_run_is_that_between_them(cluster):
    draw = np.random.default_rng(4)
    for value in 100 * np.exp(draw.normal(0, 0.05, 14)):
        cluster.stored.add(cluster.case(value, 'old', 'p1'), plan=[planned()], facts=cluster.facts('old'))
    one = design.between([toy(environ='distro')], ['distro', 'new'], {'distro', 'new'})
    assert one.cells[0].noise == pytest.approx(0.05, rel=0.2)


def test_a_round_takes_the_time_of_its_runs_and_of_their_start(cluster):
    """Four turns of a run of 60 s, and 10 s of ReFrame and the scheduler beside each."""
    one = design.of_incident(incident(cluster))
    assert (one.runs, one.seconds, one.wall_seconds(1), one.node_seconds(1)) == (1, 60.0, 280.0, 240.0)


def test_without_other_software_only_the_node_is_a_question(cluster):
    cluster.slow, cluster.in_use = {'p1': 0.10}, 'old'
    one, measured = found(cluster, new='old')
    assert one.before is None and {*cluster.ran} == {('p1', 'old'), ('p2', 'old')}
    assert answer.sentence(one, measured).startswith('the node: p1 is ') and 'software' not in answer.sentence(one, measured)


def test_the_experiment_counts_for_no_node_and_for_no_night(cluster):
    found(cluster)
    assert {*figures.of_system('local')['session']} == {*database.uuids()[:5]}
    assert figures.since('local', 'p1', 0.0)['Toy.hpl@local:default+distro (quick)'] == pytest.approx(90 * 1.01)


def test_settings_of_the_slow_node_stand_beside_the_answer(cluster):
    cluster.slow = {'p1': 0.10}
    one, measured = found(cluster)
    nodes = {'p1': {'node': 'p1', 'governor': 'powersave', 'kernel': '6.1'}, 'p2': {'node': 'p2', 'governor': 'performance', 'kernel': '6.1'}}
    assert answer.answer(one, replace(measured, nodes=nodes)).settings == ['governor powersave on p1, performance on p2']


@pytest.mark.parametrize(('given', 'kind', 'said'), [
    ({'state': 'over', 'events': [Event(what='new', session='', start=1), Event(what='over', session='', start=2)]}, UsageError, 'incident 1 is over'),
    ({'fault': {'word': 'failed'}}, UsageError, r'no slower figure \(failed\): only a slowdown can be measured; parity show 1'),
    ({'fault': {'cell': '', 'part': 'memory'}}, UsageError, 'of a node without a slower cell: parity node p1 --gate'),
    ({'where': Where(kind='node', name='p9')}, NothingMeasured, 'p9 is not listed by the scheduler')])
def test_what_cannot_be_measured_is_refused_in_a_sentence(cluster, given, kind, said):
    with pytest.raises(kind, match=said):
        design.of_incident(incident(cluster, **given))


def test_a_drained_node_a_case_on_all_nodes_and_software_that_is_gone_are_refused(cluster, monkeypatch):
    one = incident(cluster)
    states = (NodeState('p1', 'idle+drain', takes=False, reason='DIMM B2'), NodeState('p2', 'idle', takes=True))
    monkeypatch.setattr(of_scheduler, 'of_system', lambda _: Scheduled(tuple(states), ''))
    with pytest.raises(NothingMeasured, match=r'p1 takes no jobs: idle\+drain \(DIMM B2\); resume it'):
        design.of_incident(one)
    states = tuple(NodeState(name, 'idle', takes=True) for name in ('p1', 'p2'))
    monkeypatch.setattr(of_scheduler, 'of_system', lambda _: Scheduled(tuple(states), ''))
    cluster.night(90, 'new', 'p1,p2')
    with pytest.raises(NothingMeasured, match='runs on all nodes at once'):
        design.of_incident(one)


def test_earlier_software_takes_the_place_of_todays_until_it_is_gone(tmp_path, monkeypatch):
    from parity.measure.software.programs import Environ
    program = tmp_path / 'old' / 'bin' / 'xhpl'
    program.parent.mkdir(parents=True)
    program.write_text('1')
    digest = '6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b'
    facts = {'prefix': str(tmp_path / 'old'), 'view': str(program.parent), 'programs': {'xhpl': {'path': str(program), 'sha256': digest}}}
    (tmp_path / 'file').write_text(json.dumps({'a': facts}))
    today = [Environ(name=name, provider='prefix', software={'prefix': '/new'}, env_vars={'PATH': '/new/bin:$PATH', 'A': '1'}) for name in 'ab']
    assert earlier.restored(today) == today
    monkeypatch.setenv(earlier.VARIABLE, str(tmp_path / 'file'))
    a, b = earlier.restored(today)
    assert b == today[1] and a.software == facts and a.env_vars == {'PATH': f'{program.parent}:$PATH', 'A': '1'}
    assert not earlier.gone(facts) and earlier.label(facts) == str(tmp_path / 'old')
    program.write_text('2')
    assert 'is another program now' in earlier.gone(facts)
    for text in ('no JSON', '[]', '{"a": 1}'):
        (tmp_path / 'file').write_text(text)
        with pytest.raises(UsageError, match='must be a file that parity cause wrote'):
            earlier.restored(today)
    view = tmp_path / 'builds' / '41bc00' / 'view' / 'bin'
    of_spack = {'packages': {'hpl': {}}, 'view': str(view)}
    view.mkdir(parents=True)
    assert earlier.label(of_spack) == 'view 41bc' and 'no lock of it is kept' in earlier.gone(of_spack)
    (view / 'xhpl').symlink_to(program)
    assert not earlier.gone(of_spack)
    os.remove(view / 'xhpl')
    (view.parents[1] / 'spack.lock').write_text('{}')
    assert f'spack -e {view.parents[1]} install makes it again' in earlier.gone(of_spack)


def test_the_builds_of_the_last_different_nights_are_listed(stored, site):
    for build in ('a', 'b', 'b', 'c', 'experiment'):
        stored.add(case(), **({'parity_rerun_of': 'cause'} if build == 'experiment' else {}), facts={'software': {'spack': {'packages': {'hpl': {}}, 'view': f'/builds/{build}/view/bin'}, 'distro': {'programs': {}}}})
    assert retain.builds('local', 2) == [Path('/builds/c'), Path('/builds/b')] and len(retain.builds('local', 5)) == 3


def toy(environ: str = 'old', verdict: str = 'ok', **other):
    return cell(verdict, **{'case': 'Toy', 'metric': 'hpl', 'unit': 'Gflop/s', 'system': 'local', 'partition': 'default', 'environ': environ, **other})


def test_two_environments_are_compared_in_turns_on_one_node(cluster, monkeypatch):
    """Each environment's programs are its own: -p names it."""
    cluster.slow = {'new': 0.10}
    for _ in range(3):
        cluster.night(100, 'old', environ='old')

    def reframe(arguments, *rest, **variables):
        cluster.in_use = arguments[arguments.index('-p') + 1].strip('^$')
        return cluster.reframe(arguments, *rest, **variables)
    monkeypatch.setattr(runner, 'reframe', reframe)
    one = design.between([toy(), toy(metric='latency', better='lower', unit='us')], ['old', 'new'], {'old', 'new'})
    (said, style), (other, _) = answer.compared(one, experiment.run(one))
    assert re.fullmatch(r'Toy\.hpl@local:default: new is (9|10)\.\d % \[.*\] slower than old: speed old / new 1\.1\d* \[1\..*\]', said) and style, said
    assert other.startswith('Toy.latency@local:default: new and old are alike: speed old / new 1.000 [1.000, 1.00'), other
    assert {*cluster.ran} == {('p1', 'old'), ('p1', 'new')}
    assert [measured.weight for measured in one.cells] == [0.5, 0.5]
    assert not any(line.startswith('means') for line in map(str, answer.planned(one, 't')))


@pytest.mark.parametrize(('environs', 'said'), [(['old', 'nwe'], "unknown environment of Toy 'nwe'; did you mean 'new'"), (['old'], 'name two environments'),
                                                (['old', 'old'], 'name two environments')])
def test_environments_that_cannot_be_compared_are_refused(cluster, environs, said):
    cluster.night(100, 'old', environ='old')
    with pytest.raises(UsageError, match=said):
        design.between([toy()], environs, {'old', 'new'})


def test_the_command_prints_the_plan_measures_and_keeps_the_answer(cluster, monkeypatch, capsys):
    cluster.slow = {'p1': 0.10}
    incident(cluster)
    command.run('1', False, [], False, False, '')
    plan = capsys.readouterr().out
    assert all(word in plan for word in ('p1 (slow) and p2 (sound)', 'new and old (of 2026-', 'rounds, 1 run a turn', 'of 4 node-hours', 'means     the software',
                                         'parity cause 1 --run')) and not cluster.ran
    command.run('1', True, [], False, False, '')
    assert 'the node: p1 is' in capsys.readouterr().out and table.read('1').cause.word == 'node'
    with pytest.raises(UsageError, match=r'software is not known to be the cause \(the node: .*\); first: parity cause 1 --run'):
        command.run('1', False, [], True, False, '')
    with pytest.raises(UsageError, match='not of incident 1: name the case'):
        command.run('1', False, ['a', 'b'], False, False, '')
    with pytest.raises(UsageError, match='no incident 9; valid: 1'):
        command.run('9', True, [], False, False, '')


def test_a_budget_without_two_rounds_is_refused(cluster, site):
    site.write_text(SYSTEM.format(more='cause: {node_hours: 0.1}'))
    incident(cluster)
    with pytest.raises(UsageError, match=r'2 rounds take 0\.133\d* node-hours, and the budget is 0\.1: state cause: \{node_hours: 1\}'):
        command.run('1', True, [], False, False, '')
    site.write_text(SYSTEM.format(more='cause: {node_hours: 0}'))
    with pytest.raises(UsageError, match='system.yaml:4: cause.node_hours'):
        command.run('1', True, [], False, False, '')


def test_submit_sends_the_very_command_as_a_job(cluster, tmp_path, monkeypatch, capsys):
    incident(cluster)
    (tmp_path / 'jobs').symlink_to(TOP / 'jobs')
    scripts: list[str] = []
    monkeypatch.setattr(sent, 'submit', lambda job, system, request, script: scripts.append(script) or SimpleNamespace(id='7'))
    command.run('1', True, [], False, True, '')
    assert capsys.readouterr().out.splitlines()[-1] == '7' and not cluster.ran
    assert '\nexec .venv/bin/parity cause 1 --run\n' in scripts[0]
    assert '\n#SBATCH --exclude=p1,p2\n' in scripts[0], 'the nodes to measure would wait for its end'
    with pytest.raises(UsageError, match='--submit is for --run'):
        command.run('1', False, [], False, True, '')
    command.run('1', True, [], False, True, 'pair')
    assert '\nexec .venv/bin/parity cause 1 --reservation pair --run\n' in scripts[1]


def test_turns_load_the_checks_of_the_checkout_in_whatever_folder_they_are_begun(cluster, monkeypatch, tmp_path):
    incident(cluster)
    asked: list[list[str]] = []
    monkeypatch.setattr(runner, 'reframe', lambda arguments, *rest, **more: asked.append(arguments) or cluster.reframe(arguments, *rest, **more))
    monkeypatch.chdir(tmp_path)
    command.run('1', True, [], False, False, '')
    assert {words[words.index('-c') + 1] for words in asked} == {str(paths.root() / 'checks')}


def test_all_turns_run_in_the_reservation(cluster, monkeypatch):
    incident(cluster)
    asked: list[list[str]] = []
    monkeypatch.setattr(runner, 'reframe', lambda arguments, *rest, **more: asked.append(arguments) or cluster.reframe(arguments, *rest, **more))
    command.run('1', True, [], False, False, 'pair')
    assert len(asked) >= 8 and all('reservation=pair' in words and words[words.index('reservation=pair') - 1] == '-J' for words in asked)
    with pytest.raises(UsageError, match='--reservation is for --run'):
        command.run('1', False, [], False, False, 'pair')


def test_an_environment_that_never_ran_is_compared_where_it_can_run_the_case(monkeypatch):
    from parity.cli import cause
    from parity.measure.rfm import planning
    from parity.site.plan import Plan, PlannedCase
    about = {'check': 'Npb', 'unique_name': 'x', 'subsystem': 'compute', 'size': 'quick', 'file': 'f', 'needs': ['npb'], 'system': 'local',
             'partition': 'default', 'metrics': []}
    cases = [PlannedCase(case=name, environ=environ, **about) for name, environ in (
        ('Npb %benchmark=cg', 'spack'), ('Npb %benchmark=cg', 'mine'), ('Npb %benchmark=cg', ''), ('Npb %benchmark=ft', 'other'))]
    monkeypatch.setattr(planning, 'of_system', lambda place, *options: Plan(system='local', cases=cases, checks=[], problems=[]))
    assert cause._offering('local:default', 'Npb %benchmark=cg') == {'spack', 'mine'}
