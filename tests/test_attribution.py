"""What is known of the cause: the node, the partition, the part of the machine, and what changed."""

from __future__ import annotations

import json

import pytest

import nights
import sessions as made
from nights import cell, facts, figure, frame, rerun
from parity.verdict import judge, terminal
from parity.verdict.attribution import cause
from parity.verdict.attribution import changes as changed
from parity.verdict.attribution import where as places
from parity.verdict.attribution.cause import Night
from parity.verdict.attribution.changes import Attribution, Change, Where


def between(sessions, good, bad, environ, nodes):
    return changed.on(changed.since(changed.known(sessions, bad, environ), good), nodes)


GOOD = [figure(n, 79.0 + 0.1 * (n % 3), node) for n in range(10) for node in ('v1', 'v2', 'v3', 'v4')]


def of_cell(own, cells, frame, sessions, session):
    return Night(cells, frame, sessions, session, [own]).of(own)


#: Night 10 is the bad one in all that follows.
BAD = 10


def told(*rows, cells=None, sessions=(), word='regressed'):
    own = cell(word)
    known = [*sessions] or [facts(n) for n in range(BAD + 1)]
    return of_cell(own, [own] if cells is None else cells, frame(*GOOD, *rows), known, f'night-{BAD}')


def where(*rows, **options):
    found = told(*rows, **options).where
    return found.kind, found.name


def test_a_node_whose_values_are_apart_is_named():
    assert where(figure(BAD, 71.2, 'v3'), rerun(BAD, 71.0, 'v3'), rerun(BAD, 79.0, 'v1')) == ('node', 'v3')


def test_of_jobs_on_several_nodes_the_one_that_all_slow_ones_share_is_named():
    assert where(figure(BAD, 71.0, 'v1,v3'), rerun(BAD, 71.0, 'v3,v4'), rerun(BAD, 79.0, 'v1,v4')) == ('node', 'v3')


def test_a_slow_node_is_known_from_the_nights_since_it_became_slow():
    nights_since = [figure(8, 71.0, 'v3', session='a', start=nights.start(9) + 1),
                    figure(9, 79.0, 'v1', session='b', start=nights.start(9) + 2)]
    assert where(*nights_since, figure(BAD, 71.2, 'v3')) == ('node', 'v3')


def test_a_node_that_nobody_can_be_compared_with_is_not_named():
    found = told(figure(BAD, 71.2, 'v3')).where
    assert found.kind == '' and found.why == 'only v3 was measured'


def test_a_node_of_which_some_figures_are_fine_is_not_named():
    assert where(figure(BAD, 71.2, 'v3'), rerun(BAD, 79.0, 'v3'), rerun(BAD, 79.0, 'v1')) == ('', '')


def test_all_nodes_of_a_partition():
    slow_ones = [figure(BAD, 71.0, node) for node in ('v1', 'v2')]
    assert where(*slow_ones) == ('partition', 'virtual')
    physical = [figure(n, 90.0, 'p1', partition='physical') for n in range(BAD + 1)]
    found = told(*slow_ones, *physical).where
    assert (found.kind, found.name, found.why) == ('partition', 'virtual', 'not slow on physical')


def test_everything():
    physical = [figure(n, 90.0, 'p1', partition='physical') for n in range(BAD)]
    assert where(figure(BAD, 71.0, 'v1'), *physical, figure(BAD, 80.0, 'p1', partition='physical')) \
        == ('everything', 'physical, virtual')


def test_cases_that_each_ran_on_one_node_tell_it_together():
    cells = [cell(), cell(case='Stream %threads=one'), cell('ok', case='Stream %threads=half')]
    rows = [figure(BAD, 71.0, 'v3'), figure(BAD, 9.0, 'v3', case='Stream %threads=one'),
            figure(BAD, 40.0, 'v1', case='Stream %threads=half')]
    assert where(*rows, cells=cells) == ('node', 'v3')
    assert where(*rows[:1], figure(BAD, 9.0, 'v2', case='Stream %threads=one'), cells=cells) == ('', '')


def test_a_node_is_not_named_where_reruns_were_slow_on_other_nodes_too():
    cells = [cell(), cell(case='Stream %threads=one'), cell('ok', case='Stream %threads=half')]
    rows = [figure(BAD, 71.2, 'v3'), figure(BAD, 9.0, 'v3', case='Stream %threads=one'),
            figure(BAD, 40.0, 'v1', case='Stream %threads=half')]
    found = told(*rows, rerun(BAD, 71.0, 'v1'), cells=cells).where
    assert (found.kind, found.name, found.why) == ('partition', 'virtual', 'slow on v1, v3; no other partition was measured')
    assert where(*rows, rerun(BAD, 71.0, 'v3'), cells=cells) == ('node', 'v3')
    # the case that was run again tells it of the others, too
    one = cell(case='Stream %threads=one')
    rows += [figure(n, 10.0, 'v3', case='Stream %threads=one') for n in range(BAD)]
    night = Night([*cells[::2], one], frame(*GOOD, *rows, rerun(BAD, 71.0, 'v1')),
                  [facts(n) for n in range(BAD + 1)], f'night-{BAD}', [one])
    assert night.of(one).where.kind == ''


def test_an_accepted_band_decides_what_is_slow_and_its_direction_counts():
    band = {'low': 70.0, 'high': 90.0}
    assert where(figure(BAD, 71.2, 'v3', **band), rerun(BAD, 79.0, 'v1', **band)) == ('', '')
    lower = places.level([{'start': n, 'value': 1.5, 'better': 'lower', 'low': None, 'high': None}
                          for n in range(8)], 8)
    assert lower.slow(1.6) and not lower.slow(1.4) and not lower.slow(1.52)


def test_a_short_history_tells_nothing():
    assert places.level(GOOD[:places.ENOUGH - 1], nights.start(20)) is None
    own = cell()
    found = of_cell(own, [own], frame(figure(9, 79.0), figure(BAD, 71.0)), [facts(9), facts(BAD)], f'night-{BAD}')
    assert found.where.kind == '' and 'known to be slow' in found.where.why


NPB = 'Npb %benchmark={}'


def part(**words):
    """The subsystem that cells tell; words by the short name of a cell."""
    known = {'triad': ('Stream %threads=all', 'triad'), 'mg': (NPB.format('mg'), 'mops_total'),
             'hpl': ('Hpl', 'gflops'), 'ep': (NPB.format('ep'), 'mops_total'), 'dgemm': ('Hpcc', 'dgemm_star'),
             'osu': ('OsuLatency %benchmark=latency %where=between', 'latency_8B'),
             'pairs': ('PairsLatency %how=one-by-one', 'worst'), 'ior': ('Ior %api=POSIX', 'write')}
    cells = [cell(word, *known[name]) for name, word in words.items()]
    return of_cell(cells[0], cells, frame(*GOOD), [], 'night-9').subsystem


@pytest.mark.parametrize('words, name', [
    ({'triad': 'regressed', 'hpl': 'regressed', 'mg': 'regressed', 'osu': 'ok'}, 'memory'),
    ({'osu': 'regressed', 'pairs': 'regressed', 'hpl': 'ok', 'ep': 'ok'}, 'network'),
    ({'ior': 'regressed', 'triad': 'ok'}, 'storage'),
    ({'dgemm': 'regressed', 'ep': 'regressed', 'triad': 'ok'}, 'compute clock'),
    ({'ep': 'regressed', 'triad': 'regressed', 'osu': 'ok'}, 'compute and memory alike'),
    ({'triad': 'regressed'}, ''),                                   # nothing else was judged
    ({'triad': 'regressed', 'osu': 'unreferenced'}, ''),
    ({'hpl': 'regressed', 'osu': 'ok'}, ''),                        # HPL alone may be anything
    ({'triad': 'regressed', 'osu': 'regressed', 'ep': 'ok'}, ''),
])
def test_which_part_of_the_machine_moves_with_the_cells(words, name):
    assert part(**words).name == name


def test_what_nothing_judged_is_not_fine():
    def told(word):
        cells = [cell(), cell(word, 'OsuLatency %benchmark=latency %where=between', 'latency_8B')]
        return of_cell(cells[0], cells, frame(*GOOD), [], 'night-9').subsystem.name
    assert told('ok') == 'memory' and told('unreferenced') == ''


def test_a_subsystem_names_the_cells_that_support_it_and_an_unknown_one_says_why():
    found = part(triad='regressed', hpl='regressed', osu='ok')
    assert found.cells == ['Stream%threads=all.triad@onebox:virtual', 'Hpl.gflops@onebox:virtual']
    assert str(found) == 'memory (memory and bound by memory slower, network not)'
    assert 'nothing else was judged' in part(triad='regressed').why


def test_every_case_of_ours_is_in_one_group():
    for case in ('Hpcc.hpl', 'Npb%benchmark=ep.seconds', 'Stream%threads=one.copy', 'FileCopy%mode=a.rate',
                 'Fileset%bytes=1.rate', 'Mdtest%span=1.file_stat', 'Imb%benchmark=PingPong%where=within.time_8B',
                 'OsuAtOnce%where=all-nodes%benchmark=mbw_mr.bandwidth_8B', 'PairsBandwidth%how=in-flight.median',
                 'Hpcc.randomaccess_mpi', 'Hpcc.beff_ring_random_latency'):
        assert places.group_of(f'{case}@onebox:virtual'), case


def kernels(before: str, after: str, since: int = 9, nodes=('v3',)):
    return [facts(n, {node: {'node': node, 'kernel': after if n >= since else before} for node in nodes})
            for n in range(BAD + 1)]


def changes(sessions, *rows, **options):
    return [str(c) for c in told(*(rows or (figure(BAD, 71.2, 'v3'),)), sessions=sessions, **options).changes]


def test_a_fact_that_changed_since_the_last_good_night_is_told_with_its_node_and_day():
    assert changes(kernels('6.1.187', '6.1.192', since=10)) == ['kernel 6.1.187 -> 6.1.192 on v3 since 2026-11-28']


def test_what_changed_before_the_last_good_night_or_on_other_nodes_is_no_change():
    assert changes(kernels('6.1.187', '6.1.192', since=5)) == []
    assert changes(kernels('6.1.187', '6.1.192', since=10, nodes=('v1',))) == []


def test_nodes_that_changed_alike_are_named_together():
    assert changes(kernels('a', 'b', since=10, nodes=('v1', 'v3'))) == ['kernel a -> b on v1, v3 since 2026-11-28']


def test_what_is_unknown_on_one_side_is_no_change():
    known_late = [facts(n, {'v3': {'node': 'v3', 'microcode': '0x1'}} if n == BAD else {}) for n in range(BAD + 1)]
    known_early = [facts(n, {'v3': {'node': 'v3', 'microcode': '0x1'}} if n < BAD else {}) for n in range(BAD + 1)]
    assert changes(known_late) == changes(known_early) == []


def test_a_change_that_was_taken_back_is_none():
    kernels_of = [facts(n, {'v3': {'node': 'v3', 'kernel': 'b' if n == 9 else 'a'}}) for n in range(BAD + 1)]
    assert between(kernels_of, nights.start(8), nights.start(9), 'distro', {'v3'})
    assert not between(kernels_of, nights.start(8), nights.start(BAD), 'distro', {'v3'})


def test_machine_software_and_reframe_are_compared_and_the_head_node_is_not():
    def session(night, mpi, kernel, reframe):
        software = {'distro': {'mpi': {'name': 'Open MPI', 'version': mpi},
                               'packages': {'hpl': {'spec': 'hpl@2.3', 'hash': 'abcdefghij' if mpi == '4.1.4'
                                                    else 'zyxwvutsrq'}}}}
        machine = {'hostname': 'v3', 'kernel': kernel, 'clocksource': None, 'memory_bytes': 2**34}
        return facts(night, machine=machine, software=software, reframe=reframe)
    sessions = [session(n, *(('4.1.4', '6.1', '4.10.4') if n < BAD else ('4.1.5', '6.2', '4.10.5')))
                for n in range(BAD + 1)]
    assert changes(sessions) == [
        'kernel 6.1 -> 6.2 on v3 since 2026-11-28',
        'hpl hpl@2.3 /abcdefg -> hpl@2.3 /zyxwvut since 2026-11-28',
        'MPI Open MPI 4.1.4 -> Open MPI 4.1.5 since 2026-11-28',
        'ReFrame 4.10.4 -> 4.10.5 since 2026-11-28']
    assert all('kernel' not in c for c in changes(sessions, figure(BAD, 71.0, 'v1')))


def test_other_nodes_than_on_the_good_night_are_told():
    assert changes([facts(n) for n in range(BAD + 1)], figure(BAD, 71.0, 'v9')) \
        == ['nodes v1 v2 v3 v4 -> v9 since 2026-11-28']


def test_a_cell_that_failed_tells_what_changed_since_its_last_figure():
    own = cell('failed', nodes=['v3'])
    found = of_cell(own, [own], frame(*GOOD), kernels('a', 'b', since=10), f'night-{BAD}')
    assert [str(c) for c in found.changes] == ['kernel a -> b on v3 since 2026-11-28']
    assert found.where.kind == found.subsystem.name == ''


def test_a_verdict_says_where_and_what_changed_once_for_rows_that_follow_one_another(stored, monkeypatch):
    band = {'hpl': (100.0, -0.05, 0.05), 'latency': (1.5, -0.05, 0.05)}
    for night in range(8):
        stored(str(night), made.case(100.0, refs=band, parity={'node': {'node': 'node01', 'kernel': 'old'}}))
    with monkeypatch.context() as nothing_is_slower:
        nothing_is_slower.setattr(cause, 'Night', None)
        assert not any(c.cause for c in judge.newest().cells)
    stored('bad', made.case(80.0, latency=1.8, refs=band, parity={'node': {'node': 'node01', 'kernel': 'new'}}))
    verdict = judge.newest()
    assert [str(c.cause.where) for c in verdict.cells] == ['cannot be told (only node01 was measured)'] * 2
    told = [text.strip() for text, _ in terminal.lines(verdict)]
    changed, = [text for text in told if text.startswith('changed: kernel old -> new on node01 since ')]
    assert [told.index(changed) - i for i, text in enumerate(told) if text.startswith('Toy: ')] == [3, 2]
    assert json.loads(verdict.model_dump_json())['cells'][0]['cause']['changes'][0]['new'] == 'new'


def test_of_many_facts_that_changed_the_first_are_told():
    changed = [Change(fact=f'fact {n}', old='a', new='b', since=0.0) for n in range(6)]
    told = Attribution(where=Where(why='only v3 was measured'), changes=changed)
    assert told.lines(4)[-1] == 'changed: 2 facts more' and len(told.lines(4)) == 6
    assert told.lines()[-1].startswith('changed: fact 5') and len(told.lines()) == 7
