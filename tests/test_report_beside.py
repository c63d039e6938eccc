"""What stands beside the verdict on its page: changes, differences, nights, curves, nodes, pairs."""

from __future__ import annotations

import json
import math
import random
import re

import pytest

import sessions as made
from nights import figure, frame
from parity import report
from parity.compare.model import Outcome
from parity.records import database, record
from parity.records.record import Session
from parity.report import beside, drawings, nights
from parity.report import page as pages
from parity.verdict import judge
from stored import case
from test_report import cell, page_of, verdict_of

# What changed


def _changed(before, now):
    return pages.changes(pages.of_cells(now)[0], verdict_of(before))


def test_what_became_worse_comes_first_and_the_worst_of_it_first():
    words = {'a': ('ok', 'failed'), 'b': ('regressed', 'ok'), 'c': ('ok', 'wrong'), 'd': ('ok', 'ok'), 'e': ('unreferenced', 'ok')}
    found = _changed([cell(metric=m, verdict=was) for m, (was, _) in words.items()], [cell(metric=m, verdict=now) for m, (_, now) in words.items()])
    assert list(found.turns) == [('ok', 'wrong'), ('ok', 'failed'), ('regressed', 'ok'), ('unreferenced', 'ok')]


@pytest.mark.parametrize('judged, said', [
    ({}, ''), ({'reference': 80000.0, 'low': 76000.0, 'high': 84000.0}, '-11.0 %'), ({'usual': 75000.0}, '-5.1 %'),
    ({'reference': 72000.0, 'low': 68000.0, 'high': 76000.0, 'usual': 75000.0}, '-5.1 %'),
])
def test_a_change_tells_both_figures_and_how_far_it_is_from_what_judges_it(tmp_path, judged, said):
    """Yesterday's figure judges nothing: a slow drift is never far from it."""
    now = cell(value=71200.0, verdict='regressed', **judged)
    page = page_of(verdict_of([now]), tmp_path, beside=beside.Beside(before=verdict_of([cell(value=77500.0)])))
    changed, = (section['text'] for section in page.all('section', id='changed'))
    assert '71.2 GB/s' in changed and 'it was 77.5 GB/s' in changed
    assert re.findall(r'[-+][\d.]+ %', changed) == ([said] if said else [])


def test_cells_that_are_new_or_gone_are_told_apart_from_changed_ones():
    found = _changed([cell(metric='old'), cell(metric='both')], [cell(metric='both'), cell(metric='new')])
    assert [r.cell.metric for r in found.new] == ['new'] and found.turns == {}
    assert [row.name for row in found.gone] == ['Stream%threads=all.old@onebox:virtual']
    assert _changed([cell(partition='physical', verdict='failed')], [cell()]).turns == {}, 'on another partition it is another cell'


# The session before

def _before(uuid, system='local'):
    found = beside.before(database.read(uuid), system)
    return found and found.uuid


def test_the_session_before_is_the_newest_earlier_one_of_the_same_system_and_selection(stored):
    first = stored.add(case(), cmdline='/one/reframe -c checks/ --repeat 3 -r')
    assert _before(first) is None
    second = stored.add(case(), plan=[made.planned(), made.planned('New')], cmdline='/other/reframe -r -c /elsewhere/checks --repeat=5')
    assert _before(second) == first, 'a new check or more repeats is the same selection'
    stored.add(case(), plan=[made.planned('Other')], cmdline='reframe -c checks/ -n Other -r')
    stored.add(case(), parity_rerun_of=second)
    third = stored.add(case(), cmdline='reframe -c checks/ -r')
    stored.add(case())
    assert _before(third) == second and _before(third, 'elsewhere') is None


def test_a_page_of_stored_sessions(stored):
    stored.add(case(100.0), uuid='a')
    stored.add(case(90.0, refs={'hpl': (100.0, -0.05, 0.1)}), uuid='b')
    page = report.of_session(judge.newest())[0].read_text()
    assert 'Changed since 2026-' in page and 'There is no earlier session' not in page
    data = json.loads(page.split('id="data">')[1].split('</script>')[0])
    assert [label[1] for label in data['nights']] == ['a', 'b'] and data['cells'][0][1:3] == [90.0, 100.0]


def test_a_session_before_that_cannot_be_read_leaves_the_page_whole(stored):
    stored.add(case(), plan=[{'of': 'another version'}], uuid='a')
    stored.add(case())
    assert 'session a is not one that parity can read' in report.of_session(judge.newest())[0].read_text()


# What else is different

def _facts(start, kernels, machine):
    return Session('a', start, 'onebox', 'reframe -r', '4.10.4', machine, {n: {'node': n, 'kernel': k} for n, k in zip(('v1', 'v2', 'v3'), kernels, strict=True)})


def test_a_fact_that_changed_is_told_once_for_all_its_nodes_or_for_the_machine():
    software = {'software': {env: {'programs': {'xhpl': {'version': '2.3'}}} for env in ('one', 'two')}}
    later = {'software': {env: {'programs': {'xhpl': {'version': '2.4'}}} for env in ('one', 'two')}}
    before, now = _facts(0.0, ['6.1'] * 3, software), _facts(86400.0, ['6.1', '6.2', '6.2'], later)
    assert [said.partition(' since ')[0] for said in beside.differences(before, now)] == ['kernel 6.1 -> 6.2 on v2, v3', 'xhpl 2.3 -> 2.4']


# The nights of a cell

def _unpacked(packed):
    """What the page's script makes of it: {night: value}."""
    first, least, most, marks, _, _ = packed
    steps = [(first + i // 3, marks[i:i + 3]) for i in range(0, len(marks), 3)]
    return {night: least + (most - least) * int(mark, 16) / 4095 for night, mark in steps if mark != '...'}


def test_a_packed_series_is_read_back_within_a_step():
    rng = random.Random(1)
    for _ in range(50):
        at = sorted(rng.sample(range(90), rng.randint(1, 90)))
        value = [rng.lognormvariate(5, 2) for _ in at]
        packed = nights.packed(at, value, [None] * len(at), [None] * len(at), 'x')
        read, step = _unpacked(packed), (max(value) - min(value)) / 4095
        assert list(read) == at and packed[4] == []
        assert all(abs(read[n] - v) <= 0.51 * step + 2e-6 * v for n, v in zip(at, value, strict=True))


def test_a_packed_series_is_in_the_unit_of_the_page_and_tells_each_band_once():
    packed = nights.packed([0, 1, 2], [71e3, 72e3, 71.2e3], [70e3, 70e3, None], [80e3, 80e3, None], 'MB/s')
    assert [*packed[:3], *packed[4:]] == [0, 71.0, 72.0, [[0, 70.0, 80.0], [2, None, None]], 'GB/s']


def _history(figures):
    return frame(*(figure(n, v, **{'session': f's{n}', 'start': float(n), 'unit': 'MB/s', **other}) for n, v, other in figures))


def test_a_night_is_the_median_of_its_runs_without_confirmations_and_ninety_are_the_most():
    frame = _history([(0, 1.0, {}), (0, 2.0, {}), (0, 9.0, {}), (1, 7.0, {'rerun_of': 's0'}), (2, 4.0, {}), (4, 8.0, {})])
    past = nights.of_recent(nights.recent(frame, 's2', 2.0))
    assert past.labels == [('n0', 's0'), ('n2', 's2')]
    assert {key: _unpacked(packed) for key, packed in past.cells.items()} == {pages.key(cell()): {0: 2.0, 1: 4.0}}
    many = nights.of_recent(nights.recent(_history([(n, 1.0 + n, {}) for n in range(200)]), 's150', 150.0))
    assert len(many.labels) == 90 and many.labels[-1] == ('n150', 's150')


# Curves

def _run(name, values, partition='default', facts=None):
    noted = {'subsystem': 'network', 'facts': facts or {}, 'metrics': {m: {'unit': 'us', 'better': 'lower'} for m in values}}
    perf = {f'local:{partition}:{m}': [v, 0, None, None, 'us', None] for m, v in values.items()}
    return {**made.ran(name), 'partition': partition, 'perfvalues': perf, 'parity': noted}


def _plots(cases, before=None):
    tonight, earlier = (told and record.of_report(made.report(told, [])) for told in (cases, before))
    return drawings.of_sessions(tonight, earlier)


def test_the_curve_that_a_case_noted_is_a_plot_with_the_unit_of_the_metric_judged_from_it():
    curve = {'bw_1': 1.0, 'bw_8192': 20.0, 'bw_1048576': 300.0, 'rate_1': 5.0}
    (plot, lines), = _plots([_run('Osu %where=within', {'bandwidth_8KiB': 20.0}, facts={'curve': curve})]).items()
    assert (plot.title, plot.what, plot.metric, plot.unit) == ('Osu %where=within', 'message size', 'bandwidth', 'us')
    assert [(line.name, line.points) for line in lines] == [('default+distro', {1.0: 1.0, 8192.0: 20.0, 1048576.0: 300.0})]


def test_cases_along_a_parameter_of_numbers_are_a_curve_for_each_partition():
    plots = _plots([_run(f'Fileset %file={f} %mode={m}', {'rate': v}, partition=p) for p in ('one', 'two') for m in ('read', 'write')
                    for f, v in (('1B', 1.0), ('10KB', 2.0), ('1MiB', 3.0))])
    assert {p.title for p in plots} == {'Fileset %mode=read', 'Fileset %mode=write'}
    assert all([line.name for line in lines] == ['one+distro', 'two+distro'] and plot.x_unit == 'B' for plot, lines in plots.items())
    assert next(iter(plots.values()))[0].points == {1.0: 1.0, 1e4: 2.0, 2.0 ** 20: 3.0}


def test_threads_that_a_case_counted_are_its_axis():
    cases = [_run(f'Stream %threads={t}', {'triad': v}, facts={'threads': n})
             for t, n, v in (('one', 1.0, 5.0), ('half', 8.0, 9.0), ('all', 16.0, 11.0))]
    (plot, lines), = _plots(cases, before=cases).items()
    assert lines[0].points == {1.0: 5.0, 8.0: 9.0, 16.0: 11.0} and plot.what == 'threads'
    assert [line.earlier for line in lines] == [False, True]


def test_repeats_are_one_point_and_failures_two_points_and_words_are_no_curve():
    good = [_run(f'Stream %threads={n}', {'triad': v}) for n in (1, 2, 4) for v in (1.0, 2.0, 9.0)]
    lines, = _plots([*good, {**good[0], 'result': 'fail', 'fail_phase': 'run'}]).values()
    assert lines[0].points == {1.0: 2.0, 2.0: 2.0, 4.0: 2.0}
    assert _plots([_run(f'Stream %threads={t}', {'triad': 1.0}) for t in (1, 2)]) == {}
    assert _plots([_run(f'Npb %benchmark={t}', {'mops': 1.0}) for t in ('cg', 'ep', 'mg')]) == {}


def test_a_plot_is_drawn_inside_its_picture_and_says_what_it_shows():
    drawn = drawings.draw(drawings.Plot('network', 'Osu', 'message size', 'B', 'latency', 'us', 'lower'), [
        drawings.Line('a', {2.0 ** i: 1.0 + 2 ** i / 1000 for i in range(21)}), drawings.Line('a', {1.0: math.inf, 2.0: 3.0}, earlier=True)])
    assert all(0 <= float(n) <= drawings.WIDTH for p in drawn.paths for n in p.d[1:].replace('L', ' ').split())
    assert drawn.paths[0].earlier and drawn.paths[0].colour == drawn.paths[1].colour
    assert [label for _, label in drawn.across] == ['1 B', '32 B', '1 KiB', '32 KiB', '1 MiB']
    assert drawn.said == 'latency by message size: a: 1.001 us at 1 B, 1050 us at 1 MiB'


@pytest.mark.parametrize('ys', [[0.0, 0.0, 0.0], [5.0, 5.0, 5.0], [-3.0, 2.0, 1.0], [1e-300, 1.0, 1e300], [math.nan]])
def test_any_finite_curve_can_be_drawn(ys):
    line = drawings.Line('a', dict(zip((0.0, 1.0, 1e12), ys, strict=False)))
    drawn = drawings.draw(drawings.Plot('', '', 'x', '', 'm', 's', ''), [line])
    assert drawn is None if math.isnan(ys[0]) else drawn.paths


# Nodes

def test_nodes_come_worst_first_with_what_they_measured_and_what_only_they_state():
    facts = {'n1': {'node': 'n1', 'kernel': '6.1', 'microcode': '0x1'}, 'n3': {'node': 'n3', 'kernel': '6.1', 'microcode': '0x2'}}
    found = nights.nodes([cell(nodes=['n1']), cell(nodes=['n2'], verdict='failed', check='Hpl'), cell(nodes=['n3', 'n1'], verdict='unreferenced')],
                         Session('a', 0.0, 'onebox', '', '', {}, facts), {'n3': (0.9, 5)})
    assert [(n.name, n.checks, n.words, n.facts) for n in found] == [
        ('n2', ['Hpl'], [('failed', 1)], []), ('n3', ['Stream'], [('unreferenced', 1)], ['microcode 0x2']),
        ('n1', ['Stream'], [('unreferenced', 1), ('ok', 1)], ['microcode 0x1'])]


def test_speed_is_beside_the_median_of_three_nodes_or_more_whichever_way_is_better():
    higher = [(n, v, {'node': node}) for n in range(3) for node, v in (('a', 10.0), ('b', 10.0), ('c', 8.0))]
    lower = [(n, v, {'node': node, 'metric': 'time', 'better': 'lower'}) for n in range(3) for node, v in (('a', 4.0), ('b', 4.0), ('c', 5.0))]
    found = nights.speeds(_history(higher + lower))
    assert found['c'] == (pytest.approx(0.8), 2) and found['a'] == (1.0, 2)
    for first, second in (('a', 'b'), ('a,b', '')):      # of two nodes nobody says which is slow
        assert nights.speeds(_history([(0, 1.0, {'node': first}), (0, 2.0, {'node': second})])) == {}


# Pairs

def test_the_pairs_of_a_verdict_are_on_the_page(tmp_path):
    outcome = Outcome(baseline='onebox:physical', candidate='onebox:virtual', subsystem='memory', benchmark='Stream %threads=all',
                      metric='triad', expected='at least 0.97', ratio=0.9, low=0.88, high=0.92, n=5, state='regressed',
                      why='0.9 [0.88, 0.92], expected at least 0.97')
    page = page_of(verdict_of([cell()], pairs=[outcome]), tmp_path)
    row = page.all('tr', **{'class': 'regressed'})[0]['text']
    assert all(said in row for said in ('Stream %threads=all: triad', '0.900', '0.880 .. 0.920', 'at least 0.97', 'regressed'))
