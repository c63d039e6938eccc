"""The listing of nodes beside their peers, their turns in a night, the gate of one node."""

from __future__ import annotations

import datetime
import re
import time
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import sessions
from commands import parity
from conftest import TOP
from nights import figure, frame, start
from parity.base.errors import UsageError
from parity.judge.nodes import figures, listing, words
from parity.judge.stats import peers
from parity.judge.store import changes, database, history, record
from parity.judge.store.incidents import Fault, Incident
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
NAMES = [f'p{i}' for i in range(1, 7)]


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
    node, = pbs.nodes(told)
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


def test_a_node_that_came_back_with_other_hardware_is_told_with_its_first_night(stored, site):
    for microcode, firmware in (('0x1', 'A 1'), ('0x2', 'A 1')):
        stored.add(sessions.case(job_nodelist=['c3'], parity={'node': {'node': 'c3', 'microcode': microcode, 'firmware': firmware, 'kernel': microcode}}))
    found = changes.steps(database.sessions('local'), '')
    at = {fact.fact: fact for fact in found}
    assert set(at) == {'microcode', 'kernel'}
    told = [str(line) for line in words.lines(systems.read('local'), [], Scheduled(), [at['microcode'].model_copy(update={'since': time.time() - day * 86400}) for day in (3, 40)])]
    assert sum('other hardware under the same name: microcode 0x1 -> 0x2 on c3 since' in line for line in told) == 1, told
    said = parity('nodes', '--system', 'local').stdout
    assert said.count('other hardware') == (time.time() - at['microcode'].since < 30 * 86400), said


def known_nodes(monkeypatch, *states: NodeState, system=None) -> list[listing.ListedNode]:
    """Return the listing of a system whose scheduler has nodes in these states."""
    monkeypatch.setattr(of_scheduler, 'of_system', lambda _: Scheduled(tuple(states), ''))
    system = system or systems.read('onebox')
    return listing.of_system(system, of_scheduler.of_system(system))


def rows(night: int, value: float, node: str, **other):
    return figure(night, value, node, **{'partition': 'physical', 'system': 'onebox', 'subsystem': 'memory', **other})


@pytest.fixture
def known(monkeypatch):
    """Six nodes, of which p3 has half the speed since night 2, and whose p6 was measured last of all in night 0."""
    found = [rows(night, value * (0.5 if node == 'p3' and night else 1), node)
             for night in (0, 1) for node, value in zip(NAMES, (100, 101, 100, 99.5, 100.5, 99), strict=True) if (node, night) != ('p6', 1)]
    # a job on several nodes is as slow as its slowest node
    found += [rows(1, 5.0, 'p1,p3', metric='exchange'), rows(0, 10.0, 'p1,p2', metric='exchange'),
              rows(1, 10.0, 'p2,p4', metric='exchange'), rows(0, 4.9, 'p3,p4', metric='exchange'), rows(0, 10.1, 'p4,p5', metric='exchange')]
    monkeypatch.setattr(history, 'load', lambda *_, **__: frame(*found))
    return found


def test_a_node_stands_beside_its_peers_newest_figures(known, monkeypatch):
    system = systems.read('onebox')
    assert not any(each.slower for each in known_nodes(monkeypatch)), 'p3 was slow in one night only'
    known += [rows(night, 50 if node == 'p3' else 100 + night / 4, node) for night in (2, 3) for node in NAMES[:5]]
    found = {each.name: each for each in known_nodes(monkeypatch, NodeState('p7', 'down', False))}
    assert [name for name, each in found.items() if each.slower] == ['p3']
    assert found['p3'].parts['memory'].share == pytest.approx(0.5, rel=0.02)
    assert found['p6'].measured == start(0) and found['p1'].measured == start(3) and found['p7'].measured is None
    with pytest.raises(UsageError, match='unknown node .p9.; valid: p1, p2'):
        listing.of_system(system, only='p9')


def test_the_newest_night_of_a_node_stands_beside_its_mean(known, monkeypatch):
    """On the morning on which a node is slow, its mean is as before."""
    known[:] = [rows(night, 88 if (node, night) == ('p1', 7) else 100, node) for night in range(8) for node in NAMES]
    found = known_nodes(monkeypatch)
    assert found[0].parts['memory'].newest == pytest.approx(0.88, abs=0.001) and found[0].parts['memory'].share > 0.98
    head, *_ = (line for line in (str(one) for one, *_ in words.lines(systems.read('onebox'), found, Scheduled())) if 'p1 ' in line)
    assert '(-12' in head, head


@pytest.mark.parametrize('slow, named', ((range(4, 12), True), (range(2, 11), False), (range(8, 12), False), ((5,), False), (range(4, 8), False), ((), False)))
def test_a_node_is_named_twice_where_two_listings_of_different_jobs_name_it(known, slow, named):
    noise = np.random.default_rng(3).normal(scale=0.005, size=(12, 16))
    known[:] = [rows(night, 100 * np.exp(noise[night, at]) * (0.92 if at == 3 and night in slow else 1), f'n{at}') for night in range(12) for at in range(16)]
    known += [rows(night, 50.0, 'n5', session=f'again-{night}', rerun_of=f'night-{night}') for night in (11,) for _ in range(9)]
    found = listing.twice('onebox', listing.well_since('onebox'))
    assert [*found] == ([('n3', 'memory')] if named else [])
    stays = {('n3', 'memory')} if len(slow) > 7 else set()
    assert {*listing.twice('onebox', {}, [('n3', 'memory')])} == stays, 'older nights keep the name'
    assert not named or found['n3', 'memory'] == pytest.approx(0.92, abs=0.01)
    before = {('n3', 'memory'): 0.92, ('n4', 'memory'): 0.92, ('n9', 'network'): 0.9, ('gone', 'memory'): 0.9}
    assert 'n4' not in listing.mended('onebox', before, {'n4': start(11)}), 'nights before its fault say nothing'
    assert listing.mended('onebox', before, {}) == {'n4'} | ({'n3'} if {10, 11}.isdisjoint(slow) else set())


def test_a_node_is_mended_in_all_its_parts_also_in_one_without_a_night_since(known, monkeypatch):
    noise = np.random.default_rng(3).normal(scale=0.005, size=(2, 14, 16))
    known[:] = [rows(night, 100 * np.exp(noise[int(metric == 'rate'), night, at]) * (0.92 if at == 3 and night < 12 else 1), f'n{at}', metric=metric, subsystem=part, case=part, check=part)
                for night in range(14) for at in range(16) for metric, part in (('triad', 'memory'), ('rate', 'storage'))
                if (metric, night > 10, at) != ('rate', True, 3)]
    slow = {('n3', 'memory'): 0.92, ('n3', 'storage'): 0.92}
    assert [*listing.twice('onebox', listing.well_since('onebox'))] == [('n3', 'storage')] and listing.mended('onebox', slow, listing.well_since('onebox')) == {'n3'}
    last = Fault(word='regressed', since=start(8), measured=start(11), part='memory', nodes=['n3'], well=True)
    monkeypatch.setattr(listing.incidents, 'of_system', lambda _: [Incident(
        number=1, uuid='', system='onebox', key=['regressed', 'node', 'n3', 'memory'], begin=0, faults={'node n3: memory': last},
        title='', events=[])])
    assert not listing.twice('onebox', listing.well_since('onebox'))
    assert not any(each.slower for each in known_nodes(monkeypatch))


def test_figures_that_no_peer_has_change_no_standing(known, monkeypatch):
    def shares():
        return {each.name: each.parts['memory'].share for each in known_nodes(monkeypatch) if each.name in NAMES}
    before = shares()
    known += [rows(0, 100.0 + at, f'q{at}', metric=f'only_{at}') for at in range(20)]
    assert shares() == before


@pytest.mark.parametrize('seed', range(4))
def test_a_listing_of_many_sound_nodes_names_none(known, results, seed):
    """Of 30 nodes that scatter by 3 %, one in three listings would name one if each had the chance of a listing."""
    speeds = 100 * np.exp(np.random.default_rng(seed).normal(scale=0.03, size=30))
    known[:] = [rows(0, speed, f'n{at}') for at, speed in enumerate(speeds)]
    listed = parity('nodes', '--system', 'onebox')
    assert '30 nodes' in listed.stdout and 'slower' not in listed.stdout, listed.stdout + listed.stderr


def test_a_job_on_several_nodes_counts_for_each_by_its_best(known, monkeypatch):
    best = figures.by_node(figures.of_system('onebox')).filter(metric='exchange').group_by('node').last()
    told = {node: round(float(np.exp(log)), 1) for node, log in best.select('node', 'log').iter_rows()}
    assert told == {'p1': 10.0, 'p2': 10.0, 'p3': 5.0, 'p4': 10.1}, 'p5 had one job only: it may be its partner'
    known[:] = [row for row in known if row['metric'] == 'exchange']
    shares = {each.name: each.parts.get('memory') for each in known_nodes(monkeypatch)}
    assert shares['p1'].share == pytest.approx(1, abs=0.02) and shares['p3'].share == pytest.approx(0.5, abs=0.02)


def test_turns_that_a_silent_scheduler_prevents_are_told(known, results, monkeypatch, capsys):
    system = systems.read('onebox').model_copy(update={'nightly': Nightly(node_hours=1.0)})
    monkeypatch.setattr(of_scheduler, 'of_system', lambda system: Scheduled(tuple([]), 'scontrol: no answer'))
    monkeypatch.setattr(turns, '_costs', lambda *_: (75.0, {CASE: 100.0}))
    assert turns.by_turns(system, ['-r'], 'night-1', 3600.0) == 'scontrol: no answer'
    assert 'parity: nodes: the state of the nodes is not known: scontrol: no answer' in capsys.readouterr().out


CASE = ('physical', 'distro', 'Stream %threads=all')


@pytest.mark.parametrize('hours, suspects, chosen', (
    (1.0, [], ['p2', 'p3', 'p6']), (0.1, [], ['p2', 'p3']), (0.021, [], []), (0.05, ['p6'], ['p6']), (0.1, ['p6'], ['p6', 'p2'])))
def test_a_night_measures_suspects_and_those_longest_unmeasured_within_its_budget(known, monkeypatch, capsys, hours, suspects, chosen):
    """100 s a node; the night itself took 75 s on p1, p4 and p5. On a suspect alone a case was slow tonight."""
    system = systems.read('onebox').model_copy(update={'nightly': Nightly(node_hours=hours)})
    states = [NodeState(name, 'idle', True, ('physical',)) for name in NAMES] + [NodeState('p0', 'down', False, ('physical',), 'no power')]
    asked = []
    known[:] = [row for row in known if row['metric'] != 'exchange' and row['node'] != 'p3' and (row['node'] != 'p2' or row['session'] == 'night-0')]
    known += [rows(night, 50.0, 'p3') for night in (-3, -2, -1, 0)]
    monkeypatch.setattr(of_scheduler, 'of_system', lambda system: Scheduled(tuple(states), ''))
    monkeypatch.setattr(database, 'starts', lambda: {f'night-{night}': start(night) for night in range(-3, 2)})
    monkeypatch.setattr(history, 'rows', lambda _: frame(*known).cast({history.TEXT: pl.String}).lazy().with_columns(kind=pl.lit('')))
    monkeypatch.setattr(turns, '_costs', lambda *_: (75.0, {CASE: 100.0}))

    def measured(arguments, *_):
        asked.append(arguments)
        known.extend(rows(1, 50.0 if name == 'p3' else 100.0, name) for name in chosen)
    monkeypatch.setattr(runner, 'reframe', measured)
    turns.by_turns(system, ['-c', 'x', '-r', '-n', 'Stream', '--repeat=3', '-J', 'x=y'], 'night-1', 3600.0, suspects)
    assert [words[words.index('-J') + 1] for words in asked] == ([f'nodelist={",".join(chosen)}'] if chosen else [])
    assert all(words[2:5] == ['-r', '-n', 'Stream'] and words[-1] == 'parity_rerun_of=nodes' and 'x=y' not in words for words in asked)
    said = capsys.readouterr().out
    left = [name for name in ('p2', 'p3', 'p6') if name not in chosen]
    assert (f'left for the next night: {", ".join(left)}' in said) is bool(left)
    assert ('now p6, slow tonight, and then those longest unmeasured' in said) is bool(suspects)
    assert 'p0 takes no jobs: down: no power' in said and re.search('p3 is slower: memory -(50.0|49.[89]) %', said)


def test_turns_whose_figures_were_all_disturbed_say_so(known, monkeypatch, capsys):
    system = systems.read('onebox').model_copy(update={'nightly': Nightly(node_hours=1.0)})
    states = (NodeState(name, 'idle', True, ('physical',)) for name in ('p1', 'p2'))
    nodes = [node for node in known_nodes(monkeypatch, *states) if node.state]
    monkeypatch.setattr(turns, '_costs', lambda *_: (75.0, {CASE: 100.0}))
    monkeypatch.setattr(turns, '_without_turn', lambda *_: nodes if not ran else [])
    ran: list[str] = []

    def on_nodes(chosen, *_):
        ran.extend(node.name for node in chosen)
        runs = {name: [SimpleNamespace(case='Stream', status='', disturbed=why) for why in whys]
                for name, whys in (('p1', ('others used 2 CPUs', 'others used 1 CPUs')), ('p2', ('others used 2 CPUs', '')))}
        return '', [], runs
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
    ran = [*(on(node, 'B') for node in NAMES if node != 'p1'), on('p1'), on('p2', result='abort', perfvalues={}),
           on('p3', **failed, parity=cancelled), on('p4'), on('p5', **failed, parity=broken), on('p6', parity={'disturbed': 'others used 2 CPUs'})]
    stored.add(*ran, system='onebox', plan=[sessions.planned(case_name(each['name']), partition='physical') for each in ran])
    states = known_nodes(monkeypatch, *(NodeState(name, 'idle', True, ('physical',)) for name in NAMES))
    onebox, costs = systems.read('onebox'), {('physical', 'distro', name): 1.0 for name in 'AB'}
    left = turns._without_turn(onebox, states, costs, night)
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


@pytest.mark.parametrize('share, nights, named', ((0.5, 10, True), (0.85, 3, True), (0.5, 2, False), (0.95, 10, False), (1.0, 10, False)))
def test_one_run_of_three_far_off_on_the_same_node_each_night_is_that_node(known, share, nights, named):
    noise = np.random.default_rng(4).normal(scale=0.005, size=(12, 3))
    known[:] = [rows(night, 100 * np.exp(noise[night, at]) * (share if at == 2 and night >= 12 - nights else 1), f'n{at}', run=at)
                for night in range(12) for at in range(3)]
    found = listing.twice('onebox', {})
    assert found == ({('n2', 'memory'): pytest.approx(share, rel=0.02)} if named else {})
    assert listing.mended('onebox', {('n2', 'memory'): 0.5, ('n1', 'memory'): 0.5}, {}) == {'n1'} | (set() if share < 0.83 else {'n2'})
    assert not listing.twice('onebox', {'n2': start(11)}), 'nights before it was mended say nothing'


@pytest.mark.parametrize('which', ('turns', 'noisy'))
def test_three_nodes_whose_runs_scatter_or_are_low_by_turns_name_none(known, which):
    noise = np.random.default_rng(5).normal(scale=0.15 if which == 'noisy' else 0.005, size=(60, 3))
    for last in range(3, 60):
        known[:] = [rows(night, 100 * np.exp(noise[night, at]) * (0.5 if which == 'turns' and at == night // 2 % 3 else 1), f'n{at}', run=at)
                    for night in range(max(0, last - 16), last) for at in range(3)]
        assert not listing.twice('onebox', {}), last


def test_a_listing_and_two_in_a_row_share_their_chance_among_all_nodes_that_they_compare(known, monkeypatch):
    asked, listed = [], peers.listed
    monkeypatch.setattr(peers, 'listed', lambda logs, errors, chance, *only: asked.append((len(logs), chance)) or listed(logs, errors, chance, *only))
    known_nodes(monkeypatch)
    compared = sum(count for count, _ in asked)
    assert compared >= len(NAMES) and all(chance == pytest.approx(peers.CHANCE / compared) for _, chance in asked)
    asked.clear()
    listing.twice('onebox', {})
    assert asked and all(chance == pytest.approx(peers.CHANCE / compared) for _, chance in asked)
