"""The listing of nodes beside their peers: which are slower, and in what words."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

import sessions
from commands import parity
from nights import NODES, frame, node_figure, six_nodes, start
from parity.base.errors import UsageError
from parity.judge.nodes import figures, listing, words
from parity.judge.stats import peers
from parity.judge.store import changes, database, history
from parity.judge.store.incidents import Fault, Incident
from parity.site import systems
from parity.site.nodes import NodeState, Scheduled


@pytest.fixture
def known(monkeypatch):
    """Six nodes, of which p3 has half the speed since night 2, and whose p6 was measured last of all in night 0."""
    found = six_nodes()
    monkeypatch.setattr(history, 'load', lambda *_, **__: frame(*found))
    return found


def listed(*states: NodeState) -> list[listing.ListedNode]:
    """Return the listing of onebox, whose scheduler has nodes in these states."""
    return listing.of_system(systems.read('onebox'), Scheduled(tuple(states), ''))


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


def test_a_node_stands_beside_its_peers_newest_figures(known):
    system = systems.read('onebox')
    assert not any(each.slower for each in listed()), 'p3 was slow in one night only'
    known += [node_figure(night, 50 if node == 'p3' else 100 + night / 4, node) for night in (2, 3) for node in NODES[:5]]
    found = {each.name: each for each in listed(NodeState('p7', 'down', False))}
    assert [name for name, each in found.items() if each.slower] == ['p3']
    assert found['p3'].parts['memory'].share == pytest.approx(0.5, rel=0.02)
    assert found['p6'].measured == start(0) and found['p1'].measured == start(3) and found['p7'].measured is None
    with pytest.raises(UsageError, match='unknown node .p9.; valid: p1, p2'):
        listing.of_system(system, only='p9')


def test_the_last_sessions_of_a_node_stand_beside_its_peers(known):
    known += [node_figure(night, 50 if node == 'p3' else 100, node) for night in (2, 3) for node in NODES[:5]]
    slow, = (node for node in listed() if node.name == 'p3')
    newest, before = listing.sessions(slow, 'onebox', 2)
    assert (newest.measured, before.measured) == (start(3), start(2))
    assert newest.parts['memory'].share == before.parts['memory'].share == pytest.approx(0.5)


def test_a_listing_begins_with_slower_nodes_then_those_out_of_service_then_those_long_unmeasured():
    in_order = [('a', True, False, 9.0), ('e', False, True, 9.0), ('d', False, False, None), ('c', False, False, 5.0), ('b', False, False, 9.0)]
    nodes = [SimpleNamespace(name=name, slower=slower, out=out, measured=measured) for name, slower, out, measured in in_order]
    assert sorted(reversed(nodes), key=words._urgency) == nodes


def test_the_newest_night_of_a_node_stands_beside_its_mean(known):
    """On the morning on which a node is slow, its mean is as before."""
    known[:] = [node_figure(night, 88 if (node, night) == ('p1', 7) else 100, node) for night in range(8) for node in NODES]
    found = listed()
    assert found[0].parts['memory'].newest == pytest.approx(0.88, abs=0.001) and found[0].parts['memory'].share > 0.98
    head, *_ = (line for line in (str(one) for one, *_ in words.lines(systems.read('onebox'), found, Scheduled())) if 'p1 ' in line)
    assert '(-12' in head, head


@pytest.mark.parametrize('slow, named', ((range(4, 12), True), (range(2, 11), False), (range(8, 12), False), ((5,), False), (range(4, 8), False), ((), False)))
def test_a_node_is_named_twice_where_two_listings_of_different_jobs_name_it(known, slow, named):
    noise = np.random.default_rng(3).normal(scale=0.005, size=(12, 16))
    known[:] = [node_figure(night, 100 * np.exp(noise[night, at]) * (0.92 if at == 3 and night in slow else 1), f'n{at}') for night in range(12) for at in range(16)]
    known += [node_figure(night, 50.0, 'n5', session=f'again-{night}', rerun_of=f'night-{night}') for night in (11,) for _ in range(9)]
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
    known[:] = [node_figure(night, 100 * np.exp(noise[int(metric == 'rate'), night, at]) * (0.92 if at == 3 and night < 12 else 1), f'n{at}', metric=metric, subsystem=part, case=part, check=part)
                for night in range(14) for at in range(16) for metric, part in (('triad', 'memory'), ('rate', 'storage'))
                if (metric, night > 10, at) != ('rate', True, 3)]
    slow = {('n3', 'memory'): 0.92, ('n3', 'storage'): 0.92}
    assert [*listing.twice('onebox', listing.well_since('onebox'))] == [('n3', 'storage')] and listing.mended('onebox', slow, listing.well_since('onebox')) == {'n3'}
    last = Fault(word='regressed', since=start(8), measured=start(11), part='memory', nodes=['n3'], well=True)
    monkeypatch.setattr(listing.incidents, 'of_system', lambda _: [Incident(
        number=1, uuid='', system='onebox', key=['regressed', 'node', 'n3', 'memory'], begin=0, faults={'node n3: memory': last},
        title='', events=[])])
    assert not listing.twice('onebox', listing.well_since('onebox'))
    assert not any(each.slower for each in listed())


def test_figures_that_no_peer_has_change_no_standing(known):
    def shares():
        return {each.name: each.parts['memory'].share for each in listed() if each.name in NODES}
    before = shares()
    known += [node_figure(0, 100.0 + at, f'q{at}', metric=f'only_{at}') for at in range(20)]
    assert shares() == before


@pytest.mark.parametrize('seed', range(4))
def test_a_listing_of_many_sound_nodes_names_none(known, results, seed):
    """Of 30 nodes that scatter by 3 %, one in three listings would name one if each had the chance of a listing."""
    speeds = 100 * np.exp(np.random.default_rng(seed).normal(scale=0.03, size=30))
    known[:] = [node_figure(0, speed, f'n{at}') for at, speed in enumerate(speeds)]
    said = parity('nodes', '--system', 'onebox')
    assert '30 nodes' in said.stdout and 'slower' not in said.stdout, said.stdout + said.stderr


def test_a_job_on_several_nodes_counts_for_each_by_its_best(known):
    best = figures.by_node(figures.of_system('onebox')).filter(metric='exchange').group_by('node').last()
    told = {node: round(float(np.exp(log)), 1) for node, log in best.select('node', 'log').iter_rows()}
    assert told == {'p1': 10.0, 'p2': 10.0, 'p3': 5.0, 'p4': 10.1}, 'p5 had one job only: it may be its partner'
    known[:] = [row for row in known if row['metric'] == 'exchange']
    shares = {each.name: each.parts.get('memory') for each in listed()}
    assert shares['p1'].share == pytest.approx(1, abs=0.02) and shares['p3'].share == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize('share, nights, named', ((0.5, 10, True), (0.85, 3, True), (0.5, 2, False), (0.95, 10, False), (1.0, 10, False)))
def test_one_run_of_three_far_off_on_the_same_node_each_night_is_that_node(known, share, nights, named):
    noise = np.random.default_rng(4).normal(scale=0.005, size=(12, 3))
    known[:] = [node_figure(night, 100 * np.exp(noise[night, at]) * (share if at == 2 and night >= 12 - nights else 1), f'n{at}', run=at)
                for night in range(12) for at in range(3)]
    found = listing.twice('onebox', {})
    assert found == ({('n2', 'memory'): pytest.approx(share, rel=0.02)} if named else {})
    assert listing.mended('onebox', {('n2', 'memory'): 0.5, ('n1', 'memory'): 0.5}, {}) == {'n1'} | (set() if share < 0.83 else {'n2'})
    assert not listing.twice('onebox', {'n2': start(11)}), 'nights before it was mended say nothing'


@pytest.mark.parametrize('which', ('turns', 'noisy'))
def test_three_nodes_whose_runs_scatter_or_are_low_by_turns_name_none(known, which):
    noise = np.random.default_rng(5).normal(scale=0.15 if which == 'noisy' else 0.005, size=(60, 3))
    for last in range(3, 60):
        known[:] = [node_figure(night, 100 * np.exp(noise[night, at]) * (0.5 if which == 'turns' and at == night // 2 % 3 else 1), f'n{at}', run=at)
                    for night in range(max(0, last - 16), last) for at in range(3)]
        assert not listing.twice('onebox', {}), last


def test_a_listing_and_two_in_a_row_share_their_chance_among_all_nodes_that_they_compare(known, monkeypatch):
    asked, of_peers = [], peers.listed
    monkeypatch.setattr(peers, 'listed', lambda logs, errors, chance, *only: asked.append((len(logs), chance)) or of_peers(logs, errors, chance, *only))
    listed()
    compared = sum(count for count, _ in asked)
    assert compared >= len(NODES) and all(chance == pytest.approx(peers.CHANCE / compared) for _, chance in asked)
    asked.clear()
    listing.twice('onebox', {})
    assert asked and all(chance == pytest.approx(peers.CHANCE / compared) for _, chance in asked)


def test_a_night_on_which_all_nodes_are_slower_makes_none_slower(known):
    known[:] = [node_figure(night, 80.0 if night == 7 else 100.0, f'n{at}') for night in range(8) for at in range(16)]
    assert {round(node.parts['memory'].newest, 6) for node in listed()} == {1.0}


def test_a_retired_node_that_nobody_knows_is_named_with_what_is_valid(results, monkeypatch):
    system = systems.read('onebox')
    monkeypatch.setattr(listing, '_retired', lambda _: [('n9', ('retired', 0))])
    monkeypatch.setattr(systems, 'line', lambda *_: 'system.yaml:7')
    assert [*listing.unknown_retired(system, Scheduled())] == ['system.yaml:7: unknown node n9; valid: none is known']
    known_to_scheduler = Scheduled((NodeState('n1', 'idle', True), NodeState('n2', 'idle', True)), '')
    warning, = listing.unknown_retired(system, known_to_scheduler)
    assert warning.endswith('valid: n1, n2')
