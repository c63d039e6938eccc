"""The listing of nodes beside their peers, their turns in a night, the gate of one node."""

from __future__ import annotations

import datetime
import re
from types import SimpleNamespace

import polars as pl
import pytest

import sessions
from conftest import TOP
from nights import NODES, frame, node_figure, six_nodes, start
from parity.judge.nodes import listing
from parity.judge.store import database, history, record
from parity.judge.store.incidents import Fault
from parity.judge.store.record import Session
from parity.measure.nodes import gate, measure, turns
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.scheduler import pbs, slurm
from parity.measure.session import runner
from parity.site import systems
from parity.site.identity import case_name
from parity.site.nodes import NodeState, Scheduled
from parity.site.systems import Nightly

RECORDED = TOP / 'tests' / 'recorded'


def test_the_word_of_the_scheduler_on_its_nodes():
    found = {node.name: node for node in slurm.nodes((RECORDED / 'slurm' / 'node-drained.txt').read_text())}
    assert found['p1'].takes and not found['p1'].reason
    p4 = found['p4']
    assert (p4.state, p4.takes, p4.reason, p4.by, p4.queues) == ('idle+drain', False, 'DIMM B2 reports errors, ticket 4711', 'root', ('physical',))
    assert datetime.datetime.fromtimestamp(p4.since).year == 2026
    others = {'IDLE+DRAIN Reason=disk: State=IDLE soon [root@2026-11-26T20:34:39] Comment=Reason=none': (False, 'disk: State=IDLE soon', 'root'),
              'IDLE Comment=old Reason': (True, '', ''), 'ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP': (True, '', ''), 'IDLE+BLOCKED': (True, '', ''),
              'IDLE+NOT_RESPONDING': (False, '', '')}
    for state, expected in others.items():
        node, = slurm.nodes(f'NodeName=p1 State={state} \n')
        assert (node.takes, node.reason, node.by) == expected, state
    for version in ('22.05', '26.05'):
        site = {node.name: node for node in slurm.nodes((RECORDED / 'slurm' / f'site-nodes-{version}.txt').read_text())}
        assert (site['old1'].takes, site['old1'].reason, site['old1'].by) == (False, 'fan is broken, RMA 12', ''), 'slurm.conf gave it'
    told = 'n1\n     state = offline,down\n     comment = node down: communication closed\n     resources_available.host = n1\n'
    host, = pbs.hosts(told)
    node = host.as_state()
    assert (node.name, node.takes, node.state, node.reason) == ('n1', False, 'down,offline', 'node down: communication closed')


def test_the_short_and_the_full_name_of_a_node_are_one(stored, site, monkeypatch):
    full, address = 'c3.cluster.example', '10.0.0.3'
    for name in ('c3', full, address):
        stored.add(sessions.case(job_nodelist=[name], parity={'node': {'node': name}, 'watched': {'node': name, 'throttled': 0}}))
    of = [database.read(uuid) for uuid in database.uuids()]
    assert [each.runs[0].nodes for each in of] == [('c3',), ('c3',), (address,)] and [[*each.nodes] for each in of] == [['c3'], ['c3'], [address]]
    system = systems.read('local')
    assert [(each.name, each.asked) for each in known_nodes(monkeypatch, NodeState(full, 'idle', takes=True), system=system)] == [(address, address), ('c3', full)]
    assert [each.name for each in listing.of_system(system, of_scheduler.of_system(system), full)] == ['c3']
    assert Fault(word='regressed', since=0, measured=0, nodes=[full]).nodes == ['c3'], 'an incident that was stored before'


def known_nodes(monkeypatch, *states: NodeState, system=None) -> list[listing.ListedNode]:
    """Return the listing of a system whose scheduler has nodes in these states."""
    monkeypatch.setattr(of_scheduler, 'of_system', lambda _: Scheduled(tuple(states), ''))
    system = system or systems.read('onebox')
    return listing.of_system(system, of_scheduler.of_system(system))


@pytest.fixture
def known(monkeypatch):
    """Six nodes, of which p3 has half the speed since night 2, and whose p6 was measured last of all in night 0."""
    found = six_nodes()
    monkeypatch.setattr(history, 'load', lambda *_, **__: frame(*found))
    return found


def test_turns_that_a_silent_scheduler_prevents_are_told(known, results, monkeypatch, capsys):
    system = systems.read('onebox').model_copy(update={'nightly': Nightly(node_hours=1.0)})
    monkeypatch.setattr(of_scheduler, 'of_system', lambda system: Scheduled(tuple([]), 'scontrol: no answer'))
    monkeypatch.setattr(turns, '_night', lambda *_: NIGHT)
    assert turns.by_turns(system, ['-r'], 'night-1', 3600.0) == 'scontrol: no answer'
    assert 'parity: nodes: the state of the nodes is not known: scontrol: no answer' in capsys.readouterr().out


NIGHT = turns.Night('night-1', 75.0, {turns.Case('physical', 'distro', 'Stream %threads=all'): 100.0})


@pytest.mark.parametrize('hours, suspects, chosen', (
    (1.0, [], ['p2', 'p3', 'p6']), (0.1, [], ['p2', 'p3']), (0.021, [], []), (0.05, ['p6'], ['p6']), (0.1, ['p6'], ['p6', 'p2'])))
def test_a_night_measures_suspects_and_those_longest_unmeasured_within_its_budget(known, monkeypatch, capsys, hours, suspects, chosen):
    """100 s a node; the night itself took 75 s on p1, p4 and p5. On a suspect alone a case was slow tonight."""
    system = systems.read('onebox').model_copy(update={'nightly': Nightly(node_hours=hours)})
    states = [NodeState(name, 'idle', True, ('physical',)) for name in NODES] + [NodeState('p0', 'down', False, ('physical',), 'no power')]
    asked = []
    known[:] = [row for row in known if row['metric'] != 'exchange' and row['node'] != 'p3' and (row['node'] != 'p2' or row['session'] == 'night-0')]
    known += [node_figure(night, 50.0, 'p3') for night in (-3, -2, -1, 0)]
    monkeypatch.setattr(of_scheduler, 'of_system', lambda system: Scheduled(tuple(states), ''))
    monkeypatch.setattr(database, 'starts', lambda: {f'night-{night}': start(night) for night in range(-3, 2)})
    monkeypatch.setattr(history, 'rows', lambda _: frame(*known).cast({history.TEXT: pl.String}).lazy().with_columns(kind=pl.lit('')))
    monkeypatch.setattr(turns, '_night', lambda *_: NIGHT)

    def measured(arguments, *_):
        asked.append(arguments)
        known.extend(node_figure(1, 50.0 if name == 'p3' else 100.0, name) for name in chosen)
    monkeypatch.setattr(runner, 'reframe', measured)
    turns.by_turns(system, ['-c', 'x', '-r', '-n', 'Stream', '--repeat=3', '-J', 'x=y'], 'night-1', 3600.0, suspects)
    assert [words[words.index('-J') + 1] for words in asked] == ([f'nodelist={",".join(chosen)}'] if chosen else [])
    assert all(words[2:5] == ['-r', '-n', 'Stream'] and words[-1] == 'parity_rerun_of=nodes' and 'x=y' not in words for words in asked)
    said = capsys.readouterr().out
    left = [name for name in ('p2', 'p3', 'p6') if name not in chosen]
    assert (f'left for the next night: {", ".join(left)}' in said) is bool(left)
    assert ('now p6, slow tonight, and then those longest unmeasured' in said) is bool(suspects)
    assert 'p0 takes no jobs: down: no power' in said and re.search('p3 is slower: memory -(50.0|49.[89]) %', said)


@pytest.mark.parametrize('at_once, count', [(1, 2), (2, 4)])
def test_jobs_that_run_at_once_bring_more_nodes_into_the_time_that_is_left(monkeypatch, at_once, count):
    """100 s a node, and 200 s are left."""
    onebox = systems.read('onebox')
    partitions = [part.model_copy(update={'max_jobs': at_once}) for part in onebox.partitions]
    system = onebox.model_copy(update={'nightly': Nightly(node_hours=1.0), 'partitions': partitions})
    states = [NodeState(f'p{number}', 'idle', True, ('physical',)) for number in range(1, 7)]
    chosen = turns._chosen(system, known_nodes(monkeypatch, *states, system=system), NIGHT, 200.0)
    assert len(chosen) == count


def test_turns_whose_figures_were_all_disturbed_say_so(known, monkeypatch, capsys):
    system = systems.read('onebox').model_copy(update={'nightly': Nightly(node_hours=1.0)})
    states = (NodeState(name, 'idle', True, ('physical',)) for name in ('p1', 'p2'))
    nodes = [node for node in known_nodes(monkeypatch, *states) if node.state]
    monkeypatch.setattr(turns, '_night', lambda *_: NIGHT)
    monkeypatch.setattr(turns, '_without_turn', lambda *_: nodes if not ran else [])
    ran: list[str] = []

    def on_nodes(chosen, *_):
        ran.extend(node.name for node in chosen)
        runs = {name: [SimpleNamespace(case='Stream', status='', disturbed=why) for why in whys]
                for name, whys in (('p1', ('others used 2 CPUs', 'others used 1 CPUs')), ('p2', ('others used 2 CPUs', '')))}
        return measure.Measured('', [], runs)
    monkeypatch.setattr(measure, 'on', on_nodes)
    turns.by_turns(system, ['-r'], 'night-1', 3600.0)
    said = capsys.readouterr().out
    assert '2 of 2 had their turn' in said and 'p1: others used its CPUs in all runs of Stream\n' in said and 'p2: ' not in said


def on(node: str, name: str = 'A', **other) -> dict:
    """Return a case that ReFrame distributed to the node."""
    return sessions.case(name=f'{name} %.part=onebox:physical %.nid={node}', system='onebox', partition='physical', job_nodelist=[node], **other)


def test_a_node_has_had_its_turn_once_each_case_has_run_there(stored, monkeypatch):
    """Nodes: p1 lacks a case, p2's was stopped, p3's cancelled, p5's failed, p6's was disturbed."""
    failed = {'result': 'fail', 'fail_phase': 'sanity', 'perfvalues': {}}
    cancelled, broken = ({'metrics': {}, 'status': 'failed', 'reason': why} for why in ('cancelled (job 7 on p3: CANCELLED)', 'a node failed'))
    night = stored.add(uuid='night-0', system='onebox')
    ran = [*(on(node, 'B') for node in NODES if node != 'p1'), on('p1'), on('p2', result='abort', perfvalues={}),
           on('p3', **failed, parity=cancelled), on('p4'), on('p5', **failed, parity=broken), on('p6', parity={'disturbed': 'others used 2 CPUs'})]
    stored.add(*ran, system='onebox', plan=[sessions.planned(case_name(each['name']), partition='physical') for each in ran])
    states = known_nodes(monkeypatch, *(NodeState(name, 'idle', True, ('physical',)) for name in NODES))
    costed = turns.Night(night, 0.0, {turns.Case('physical', 'distro', name): 1.0 for name in 'AB'})
    left = turns._without_turn(systems.read('onebox'), states, costed)
    assert [each.name for each in left] == ['p1', 'p2', 'p3']


def at_the_gate(monkeypatch, states: list[NodeState], *runs: dict) -> int:
    """Call the gate of the first node, or of p3; the session of its ``runs`` has the figures of night 1."""
    night = Session('night-1', start(1), 'onebox', 'reframe -c checks -r -n Stream --repeat=3', '4.10', selection='x')
    monkeypatch.setattr(of_scheduler, 'of_system', lambda _: Scheduled(tuple(states), '' if states else 'scontrol is not on PATH'))
    monkeypatch.setattr(runner, 'lock_results', lambda *_: type('Lock', (), {'release': lambda self: None})())
    monkeypatch.setattr(runner, 'reframe', lambda *_, **__: monkeypatch.setattr(database, 'uuids', lambda: ['night-1']) or '')
    monkeypatch.setattr(database, 'sessions', lambda *_: [night])
    monkeypatch.setattr(database, 'read', lambda uuid: record.of_report(sessions.report([*runs], [], uuid=uuid)))
    return gate.gate(states[0].name if states else 'p3', systems.read('onebox'))


@pytest.mark.parametrize('states, code, said', (
    ([NodeState('p3', 'idle', True)], 1, 'p3: slower than its peers'), ([NodeState('p1', 'idle', True)], 0, 'p1: like its peers'),
    ([NodeState('p3', 'idle+drain', False, reason='bad DIMM')], 4, 'not measurable: it takes no jobs: idle+drain (bad DIMM); put it into'),
    ([], 4, 'not measurable: scontrol is not on PATH')))
def test_the_gate(known, results, monkeypatch, capsys, states, code, said):
    assert at_the_gate(monkeypatch, states) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize('name, status, code, said', (
    ('p1', 'failed', 4, 'p1: not measurable: Stream: failed: for a reason (and 1 more run)'), ('p1', 'wrong', 1, 'p1: Stream: wrong: for a reason'),
    ('p3', 'failed', 1, 'p3: slower than its peers; Stream: failed: for a reason'), ('p1', '', 3, "p1: others used its CPUs in all runs of Stream")))
def test_the_gate_passes_no_node_on_which_a_case_failed_or_was_disturbed(known, results, monkeypatch, capsys, name, status, code, said):
    noted = {'status': status, 'reason': 'for a reason'} if status else {'disturbed': 'others used 2 CPUs'}
    bad = on(name, 'Stream', result='fail' if status else 'pass', fail_phase='sanity' if status else None, parity=noted)
    others = on('p2', 'Stream', result='fail', fail_phase='sanity', parity={'status': 'failed', 'reason': 'of another node'})
    assert at_the_gate(monkeypatch, [NodeState(name, 'idle', True)], bad, bad, on(name, 'Stream %size=1'), others) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize('state, reservation, refused', (
    ('maintenance+reserved', 'night', False), ('idle', 'night', False), ('down', 'night', True), ('idle+drain', 'night', True),
    ('reserved', '', True), ('idle', '', False), ('maintenance', '', True)))
def test_a_node_in_maintenance_is_measured_in_a_reservation_alone(monkeypatch, state, reservation, refused):
    node, = (each for each in known_nodes(monkeypatch, NodeState('p1', state, takes=slurm.takes(state))) if each.state)
    assert bool(gate._refusal(node, systems.read('onebox'), reservation)) is refused


@pytest.mark.parametrize('queues, seconds', (((), {'physical': 100.0}), (('physical', 'other'), {'physical': 100.0}), (('virtual',), {})))
def test_a_node_costs_the_cases_of_the_partitions_whose_queue_it_serves(monkeypatch, queues, seconds):
    node, = (each for each in known_nodes(monkeypatch, NodeState('p1', 'idle', True, queues)) if each.state)
    assert turns._seconds_on(node, systems.read('onebox'), NIGHT) == seconds


def test_a_night_is_charged_for_each_node_of_its_jobs_and_of_their_reruns(stored):
    def job(name: str, *nodes: str, **other) -> dict:
        return sessions.case(name=name, system='onebox', partition='physical', job_nodelist=[*nodes],
                             parity={'job': {'submitted': 1.0, 'waited': 0.0, 'ran': 10.0}}, **other)
    night = stored.add(job('A', 'p1', jobid='1'), job('B', 'p1', 'p2', jobid='2'), system='onebox')
    stored.add(job('B', 'p1', 'p2', 'p3', jobid='3'), system='onebox', parity_rerun_of=night)
    tonight = turns._night(systems.read('onebox'), night)
    assert tonight.node_seconds == 10 + 2 * 10 + 3 * 10 and tonight.costs == {turns.Case('physical', 'distro', 'A'): 10.0}
