"""The known cause of a slower figure: the node, the partition, the part of the machine, and what changed."""

from __future__ import annotations

import json

import pytest

import nights
import sessions as made
from nights import cell, facts, figure, frame, rerun
from parity.base import codes
from parity.judge.report import answer
from parity.judge.store import changes, history
from parity.judge.verdict import cause, judge
from parity.judge.verdict.model import Attribution, Where

#: Night 10 is the bad one in all that follows.
BAD = 10
GOOD = [figure(n, 79.0 + 0.1 * (n % 3), node) for n in range(BAD) for node in ('v1', 'v2', 'v3', 'v4')]
BAND = {'low': 70.0, 'high': 90.0}
PHYSICAL = [figure(n, 90.0, 'p1', partition='physical') for n in range(BAD)]


def told(*rows, own=None, cells=None, sessions=(), known=GOOD) -> Attribution:
    own = own or cell()
    known_nights = [*sessions] or [facts(n) for n in range(BAD + 1)]
    figures = history.Parts([history.Part.from_scan(frame(*known, *rows).lazy())])
    return cause.of_cells([own], cells or [own], figures, known_nights, f'night-{BAD}')[0]


@pytest.mark.parametrize('rows, kind, name, why', [
    # a node whose values are apart
    ([figure(BAD, 71.2, 'v3'), rerun(BAD, 71.0, 'v3'), rerun(BAD, 79.0, 'v1')], 'node', 'v3', 'not slow on v1'),
    # of jobs on several nodes, the one that all slow ones share
    ([figure(BAD, 71.0, 'v1,v3'), rerun(BAD, 71.0, 'v3,v4'), rerun(BAD, 79.0, 'v1,v4')], 'node', 'v3', 'not slow on v1, v4'),
    # a node that was slow the night before, too
    ([figure(8, 71.0, 'v3', session='a', start=nights.start(9) + 1), figure(9, 79.0, 'v1', session='b', start=nights.start(9) + 2),
      figure(BAD, 71.2, 'v3')], 'node', 'v3', 'not slow on v1'),
    # most figures without the node are fine; of two slow nodes none is told
    ([figure(BAD, 71.0, 'v3'), rerun(BAD, 71.2, 'v3'), rerun(BAD, 71.2, 'v1'), rerun(BAD, 79.0, 'v1'), rerun(BAD, 79.0, 'v1')],
     'node', 'v3', 'slow in 1 of 3 figures on v1'),
    ([figure(BAD, 71.0, 'v3'), figure(BAD, 71.2, 'v1'), figure(BAD, 79.0, 'v2'), figure(BAD, 79.0, 'v4')], '', '', '2 of 4 figures of this night are slow'),
    # nothing to compare it with; some figures are fine; an accepted band decides
    ([figure(BAD, 71.2, 'v3')], '', '', 'only v3 was measured'),
    ([figure(BAD, 71.2, 'v3'), rerun(BAD, 79.0, 'v3'), rerun(BAD, 79.0, 'v1')], '', '', '1 of 3 figures of this night are slow'),
    ([figure(BAD, 79.0, 'v3'), rerun(BAD, 71.2, 'v3'), rerun(BAD, 79.0, 'v1')], '', '', '1 of 3 figures of this night are slow'),
    ([figure(BAD, 71.2, 'v3', **BAND), rerun(BAD, 79.0, 'v1', **BAND)], '', '', 'no figure of this night is known to be slow'),
    # all nodes of a partition; one that is slow and fine clears the other
    ([figure(BAD, 71.0, 'v3'), rerun(BAD, 71.0, 'v1'), rerun(BAD, 79.0, 'v1')], 'partition', 'virtual', 'slow on v1, v3; no other partition was measured'),
    ([figure(BAD, 71.0, 'v1'), figure(BAD, 71.0, 'v2'), rerun(BAD, 79.0, 'v3')],
     'partition', 'virtual', 'slow on v1, v2, v3; no other partition was measured'),
    ([figure(BAD, 71.0, 'v1'), figure(BAD, 71.0, 'v2'), *PHYSICAL, figure(BAD, 90.0, 'p1', partition='physical')],
     'partition', 'virtual', 'not slow on physical'),
    ([figure(BAD, 71.0, 'v1'), *PHYSICAL, figure(BAD, 80.0, 'p1', partition='physical')],
     'everything', 'physical, virtual', 'slow on physical, virtual'),
])
def test_where_a_slower_figure_comes_from(rows, kind, name, why):
    assert told(*rows).where == Where(kind=kind, name=name, why=why, alone='no other partition was measured' in why)
    turned = [[{**row, 'better': 'lower', 'value': 160 - row['value']} for row in figures] for figures in (rows, GOOD)]
    assert told(*turned[0], known=turned[1]).where.name == name


def test_a_slowdown_that_comes_and_goes_has_the_place_of_its_newest_spell():
    known = [figure(n, 71.0 if n in (4, 5, 7, 8) else 79.0, 'v3') for n in range(BAD)]     # two spells: the spread is wide
    own = cell(state='comes and goes', begin=nights.start(BAD), detected=nights.start(BAD), level=71.0, usual=79.0)
    rows = [figure(BAD, 71.2, 'v3'), rerun(BAD, 71.0, 'v3'), rerun(BAD, 79.0, 'v1')]
    assert told(*rows, own=own, known=known).where == Where(kind='node', name='v3', why='not slow on v1')


CELLS = {'triad': ('Stream %threads=all', 'triad'), 'mg': ('Npb %benchmark=mg', 'mops_total'), 'hpl': ('Hpl', 'gflops'),
         'ep': ('Npb %benchmark=ep', 'mops_total'), 'dgemm': ('Hpcc', 'dgemm_star'), 'within': ('Pingpong %where=within', 'latency_8B'), 'ior': ('Ior %api=POSIX', 'write'),
         'osu': ('OsuLatency %benchmark=latency %where=between', 'latency_8B'), 'pairs': ('PairsLatency %how=one-by-one', 'worst')}


@pytest.mark.parametrize('words, said', [
    ({'triad': 'regressed', 'hpl': 'regressed', 'mg': 'regressed', 'osu': 'ok'},
     'memory (memory and memory-bound codes slower, network not)'),
    ({'osu': 'regressed', 'pairs': 'regressed', 'hpl': 'ok', 'ep': 'ok'}, 'network (network slower, compute and memory-bound codes not)'),
    ({'ior': 'regressed', 'triad': 'ok'}, 'storage (storage slower, memory not)'),
    ({'osu': 'regressed', 'ior': 'regressed', 'ep': 'ok'}, 'network (network and storage slower, compute not)'),
    ({'within': 'regressed', 'ior': 'regressed', 'triad': 'ok'}, 'cannot be told (slower: within a node; that is no part of storage)'),
    ({'dgemm': 'regressed', 'ep': 'regressed', 'triad': 'ok'}, 'compute clock (compute slower, memory not)'),
    ({'ep': 'regressed', 'triad': 'regressed', 'osu': 'ok'}, 'compute and memory alike (compute and memory slower, network not)'),
    ({'triad': 'regressed'}, 'cannot be told (slower: memory; nothing else was judged)'),
    ({'triad': 'regressed', 'osu': 'unreferenced'}, 'cannot be told (slower: memory; nothing else was judged)'),
    ({'hpl': 'regressed', 'osu': 'ok'}, 'cannot be told (slower: memory-bound codes; these move together in no way that is known)'),
])
def test_which_part_of_the_machine_moves_with_the_cells(words, said):
    cells = [cell(word, *CELLS[name]) for name, word in words.items()]
    found = told(own=cells[0], cells=cells).subsystem
    assert str(found) == said
    if found.name:
        slower = [CELLS[name] for name, word in words.items() if word == 'regressed']
        assert sorted(found.cells) == sorted(f'{case.replace(" ", "")}.{metric}@onebox:virtual' for case, metric in slower)


def test_every_cell_of_ours_is_in_a_group(planned):
    names = [f'{case.case.replace(" ", "")}.{metric.name}' for system in ('local', 'example-slurm') for case in planned(system).cases for metric in case.metrics]
    assert not [name for name in names if not codes.group_of(f'{name}@onebox:virtual', '')] and len(names) > 1000
    assert [code.room for code in codes.every() if not code.parts] == ['mpip'], 'it profiles other codes'
    groups = {name: codes.group_of(name, '') for name in ('Ops%threads=all.double', 'GpuGemm.double_gpu0', 'Blocks%order=random.read_64B',
                                                     'Fio%access=random.rate', 'Tcp%where=between.rate_4', 'Pingpong%where=within.latency_8B')}
    assert [*groups.values()] == ['compute', 'compute', 'memory', 'storage', 'network', 'within a node']


def test_a_cell_of_a_foreign_check_counts_for_its_subsystem():
    cells = [cell('regressed', 'Zstd', 'rate', 'compute'), cell('ok', 'Copies', 'rate', 'memory')]
    assert str(told(own=cells[0], cells=cells).subsystem) == 'compute clock (compute slower, memory not)'


def kernels(*by_night: str, nodes=('v3',)):
    """Sessions whose last nights had these kernels; ReFrame and all before are 'a', '' is unknown."""
    names = ['a'] * (BAD + 1 - len(by_night)) + [*by_night]
    return [facts(n, {node: {'node': node, 'kernel': name} for node in nodes}) for n, name in enumerate(names)]


@pytest.mark.parametrize('sessions, said', [
    (kernels('b'), ['kernel a -> b on v3 since 2026-11-28']),
    (kernels('b', nodes=('v1', 'v3')), ['kernel a -> b on v1, v3 since 2026-11-28']),
    (kernels('b', nodes=('v3.site',)), ['kernel a -> b on v3.site since 2026-11-28']),
    ([*kernels('b'), facts(BAD + 1, {'v3': {'node': 'v3', 'kernel': 'c'}})], ['kernel a -> b on v3 since 2026-11-28']),
    (kernels('b', 'b', 'b'), []),                                     # before the last good night
    (kernels('b', 'a'), ['kernel b -> a on v3 since 2026-11-28']),
    (kernels('b', nodes=('v1',)), []),                                # on another node
    (kernels(''), []), (kernels(*[''] * BAD, 'b'), []),               # unknown on one side
])
def test_a_fact_that_changed_since_the_last_good_night_is_told_with_its_nodes_and_day(sessions, said):
    assert [str(change) for change in told(figure(BAD, 71.2, 'v3'), sessions=sessions).changes] == said
    failed = told(own=cell('failed', nodes=['v3']), sessions=sessions)           # it has no figure tonight
    assert [str(change) for change in failed.changes] == said and failed.where == Where() and not failed.subsystem.name


def test_only_changes_on_the_blamed_node_that_were_not_taken_back_are_told_and_other_nodes():
    rows = figure(BAD, 71.0, 'v1,v3'), rerun(BAD, 71.0, 'v3,v4'), rerun(BAD, 79.0, 'v1,v4')
    assert [len(told(*rows, sessions=kernels('b', nodes=(node,))).changes) for node in ('v1', 'v3')] == [0, 1]
    slow_since_9 = [row for row in GOOD if row['start'] < nights.start(9)] + [figure(9, 71.0, 'v3'), figure(BAD, 71.0, 'v3')]
    assert [[c.old for c in told(known=slow_since_9, sessions=kernels('b', last)).changes] for last in 'ab'] == [[], ['a']]
    for sessions in ((), [facts(99)]):                                # the second: the night is older than those that are compared
        found, = told(figure(BAD, 71.0, 'v9'), sessions=sessions).changes
        assert str(found) == 'nodes v1 v2 v3 v4 -> v9 since 2026-11-28'
    assert 'known to be slow' in told(figure(9, 79.0), figure(BAD, 71.0), known=[]).where.why         # a short history tells nothing


def test_machine_software_and_reframe_are_compared_and_the_head_node_is_not():
    def session(night, mpi, kernel, reframe):
        package = {'spec': 'hpl@2.3', 'hash': 'abcdefghij' if mpi == '4.1.4' else 'zyxwvutsrq'}
        software = {'distro': {'mpi': {'name': 'Open MPI', 'version': mpi}, 'packages': {'hpl': package}}}
        machine = {'hostname': 'v3', 'kernel': kernel, 'clocksource': None, 'memory_bytes': 2**34}
        return facts(night, machine=machine, software=software, reframe=reframe)
    sessions = [session(n, *(('4.1.4', '6.1', '4.10.4') if n < BAD else ('4.1.5', '6.2', '4.10.5'))) for n in range(BAD + 1)]
    elsewhere = ['hpl hpl@2.3 /abcdefg -> hpl@2.3 /zyxwvut since 2026-11-28', 'MPI Open MPI 4.1.4 -> Open MPI 4.1.5 since 2026-11-28',
                 'ReFrame 4.10.4 -> 4.10.5 since 2026-11-28']
    for node, said in (('v3', ['kernel 6.1 -> 6.2 on v3 since 2026-11-28', *elsewhere]), ('v1', elsewhere)):
        assert [str(change) for change in told(figure(BAD, 71.0, node), sessions=sessions).changes] == said


@pytest.mark.usefixtures('red_at_once')
def test_a_verdict_has_one_entry_for_cells_with_one_cause(stored):
    def night(uuid: str, fact: str, *figures: float) -> None:
        band = {'hpl': (100.0, -0.05, 0.05), 'latency': (1.5, -0.05, 0.05)}
        node = {'node': 'node01', **dict.fromkeys(changes.NODE[:6], fact)}
        stored(uuid, made.case(figures[0], latency=figures[1], refs=band, parity={'node': node}))
    for number in range(8):
        night(str(number), 'old', 100.0, 1.5)
    assert not any(c.cause for c in judge.newest().cells)
    night('bad', 'new', 80.0, 1.8)
    verdict = judge.newest()
    assert [str(c.cause.where) for c in verdict.cells] == ['partition default (slow on node01; no other node was measured)'] * 2
    entry, = answer.of(verdict).entries
    changed, *_, more = [text for text in entry.lines if text.startswith('changed: ')]
    assert changed.startswith('changed: kernel old -> new on node01 since ') and more == 'changed: 3 facts more'
    assert {row[0] for row in entry.figures} == {'Toy: latency', 'Toy: hpl'} and len(entry.cells) == 2
    assert json.loads(verdict.model_dump_json())['cells'][0]['cause']['changes'][-1]['new'] == 'new'


def test_an_accepted_value_is_no_change_that_slows():
    slow = [figure(BAD, 71.2, 'v3', **BAND, reference=80.0), rerun(BAD, 71.0, 'v3', **BAND, reference=80.0)]
    assert told(*slow).changes == []
