"""What stands beside the verdict on its page: changes, differences, nights, curves, nodes, pairs."""

from __future__ import annotations

import json
import math
import random
import sqlite3

import polars as pl
import pytest

import sessions as made
from parity import report
from parity.base import paths
from parity.compare.model import Outcome
from parity.records import record
from parity.records.history import SCHEMA
from parity.records.record import Session
from parity.report import beside, drawings, facts, nights, rows
from parity.verdict import judge
from test_report import _cell, _page, _verdict

DIGITS = nights._DIGITS


# What changed

def _changed(before, now):
    given, _ = rows.of_cells(now)
    return rows.changes(given, _verdict(before))


def test_what_became_worse_comes_first_and_the_worst_of_it_first():
    words = {'a': ('ok', 'failed'), 'b': ('regressed', 'ok'), 'c': ('ok', 'wrong'), 'd': ('ok', 'ok'),
             'e': ('unreferenced', 'ok')}
    found = _changed([_cell(metric=m, verdict=was) for m, (was, _) in words.items()],
                     [_cell(metric=m, verdict=now) for m, (_, now) in words.items()])
    assert [(t.before, t.now) for t in found.turns] == [
        ('ok', 'wrong'), ('ok', 'failed'), ('regressed', 'ok'), ('unreferenced', 'ok')]


def test_a_change_tells_both_figures():
    found = _changed([_cell(value=77500.0)], [_cell(value=71200.0, verdict='regressed')])
    change = found.turns[0].changes[0]
    assert (change.before, change.row.value, change.off) == ('77.5 GB/s', '71.2', '')


@pytest.mark.parametrize('judged, said', [
    ({'reference': 80000.0, 'low': 76000.0, 'high': 84000.0}, '-11.0 % of the accepted 80 GB/s'),
    ({'usual': 75000.0}, '-5.1 % of the usual 75 GB/s'),
    ({'reference': 72000.0, 'low': 68000.0, 'high': 76000.0, 'usual': 75000.0}, '-5.1 % of the usual 75 GB/s'),
])
def test_the_change_beside_a_word_is_against_what_it_is_judged_by(tmp_path, judged, said):
    """Yesterday's figure judges nothing: a slow drift is never far from it."""
    found = _changed([_cell(value=71300.0)], [_cell(value=71200.0, verdict='regressed', **judged)])
    change = found.turns[0].changes[0]
    assert change.off == said and change.row.change == said.split(' of ')[0]
    page = _page(_verdict([_cell(value=71200.0, verdict='regressed', **judged)]), tmp_path)
    attention, = page.all('section', id='attention')
    assert said.split(' of ')[0] in attention['text']


def test_an_improved_cell_is_listed_with_its_change(tmp_path):
    page = _page(_verdict([_cell(value=80000.0, verdict='improved', reference=70000.0, reason='+14.3 % of the reference')]),
                 tmp_path)
    attention, = page.all('section', id='attention')
    assert 'improved' in attention['text'] and 'triad' in attention['text'] and '+14.3 %' in attention['text']


def test_cells_that_are_new_or_gone_are_told_apart_from_changed_ones():
    found = _changed([_cell(metric='old'), _cell(metric='both')], [_cell(metric='both'), _cell(metric='new')])
    assert [r.cell.metric for r in found.new] == ['new'] and found.turns == []
    assert found.gone == [('Stream %threads=all on onebox:virtual', ['old'])]


def test_the_same_case_on_another_partition_is_another_cell():
    assert _changed([_cell(partition='physical', verdict='failed')], [_cell()]).turns == []


# The session before

@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Puts sessions into a database as ReFrame has it; each begins a day after the one before."""
    monkeypatch.setenv('PARITY_RESULTS', str(tmp_path / 'results'))
    paths.results().mkdir()
    database = sqlite3.connect(paths.database())
    database.execute('CREATE TABLE sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, json_blob TEXT)')
    database.execute('CREATE TABLE testcases(session_uuid TEXT, system TEXT, partition TEXT)')

    def store(uuid, cases=None, plan=None, **info):
        start = 1795190000.0 + 86400 * database.execute('SELECT count(*) FROM sessions').fetchone()[0]
        told = made.report(cases or [_case()], plan or [made.planned()], uuid=uuid, time_start_unix=start, **info)
        database.execute('INSERT INTO sessions VALUES (?, ?, ?)', (uuid, start, json.dumps(told)))
        database.execute('INSERT INTO testcases VALUES (?, ?, ?)', (uuid, 'local', 'default'))
        database.commit()
        return told
    return store


def _case(**given):
    metrics = {m['name']: {'unit': m['unit'], 'better': m['better']} for m in made.METRICS}
    return made.ran(parity={'metrics': metrics, 'size': 'quick'}, **given)


def _before(told):
    found = beside.before(record.of_report(told), 'local')
    return found and found.uuid


def test_the_session_before_is_the_newest_earlier_one(stored):
    stored('a')
    stored('b')
    told = stored('c')
    stored('d')
    assert _before(told) == 'b'


def test_another_selection_a_confirmation_and_another_system_are_not_the_session_before(stored):
    stored('a')
    stored('b', plan=[made.planned('Other')], cmdline='reframe -c checks/ -n Other -r')
    stored('c', parity_rerun_of='a')
    told = stored('d')
    assert _before(told) == 'a'
    assert beside.before(record.of_report(told), 'elsewhere') is None


def test_a_new_check_or_another_number_of_repeats_leaves_the_selection_the_same(stored):
    stored('a', cmdline='/one/reframe -c checks/ --repeat 3 -r')
    assert _before(stored('b', plan=[made.planned(), made.planned('New')],
                          cmdline='/other/reframe -r -c /elsewhere/checks --repeat=5')) == 'a'


def test_the_first_session_has_none_before_it(stored):
    assert _before(stored('a')) is None


def test_a_page_of_stored_sessions(stored, tmp_path):
    stored('a', [_case(hpl=100.0)])
    stored('b', [_case(hpl=90.0, refs={'hpl': (100.0, -0.05, 0.1)})])
    files = report.of_session(judge.newest())
    assert [f.name for f in files] == ['index.html', 'verdict.json', 'junit.xml']
    page = files[0].read_text()
    assert 'Changed since 2026-' in page and 'There is no earlier session' not in page
    data = json.loads(page.split('id="data">')[1].split('</script>')[0])
    assert [label[1] for label in data['nights']] == ['a', 'b'] and data['cells'][0][1:3] == [90.0, 100.0]


def test_a_session_before_that_cannot_be_read_leaves_the_page_whole(stored, tmp_path):
    stored('a', plan=[{'of': 'another version'}])
    stored('b')
    assert 'session a is not one that parity can read' in report.of_session(judge.newest())[0].read_text()


# What else is different

def _facts(**given):
    return Session(**{'uuid': 'a', 'start': 0.0, 'system': 'onebox', 'cmdline': 'reframe -r', 'reframe': '4.10.4', **given})


def test_a_fact_that_changed_on_several_nodes_is_told_once():
    before = _facts(nodes={n: {'node': n, 'kernel': '6.1.187'} for n in ('v1', 'v2', 'v3')})
    now = _facts(nodes={n: {'node': n, 'kernel': '6.1.192' if n != 'v1' else '6.1.187'} for n in ('v1', 'v2', 'v3')})
    assert facts.differences(before, now) == [
        facts.Difference('kernel', '6.1.187', '6.1.192', ['v2', 'v3'])]


def test_facts_of_the_machine_are_named_by_their_path():
    found = facts.differences(
        _facts(facts={'machine': {'clock': {'max_hz': 1}, 'memory_available_bytes': 1}}),
        _facts(facts={'machine': {'clock': {'max_hz': 2}, 'memory_available_bytes': 2}, 'limits': {'x': None}}))
    assert [(d.fact, d.before, d.now) for d in found] == [('machine clock max hz', '1', '2')]


# The nights of a cell

def _unpacked(packed):
    """What the page's script makes of it: (night, value)."""
    first, least, most, marks, _, _ = packed
    steps = [(first + i // 2, marks[i:i + 2]) for i in range(0, len(marks), 2)]
    return {night: least + (most - least) * (64 * DIGITS.index(m[0]) + DIGITS.index(m[1])) / 4095
            for night, m in steps if m != '..'}


def test_a_packed_series_is_read_back_within_a_step():
    rng = random.Random(1)
    for _ in range(50):
        at = sorted(rng.sample(range(90), rng.randint(1, 90)))
        value = [rng.lognormvariate(5, 2) for _ in at]
        packed = nights.packed(at, value, [None] * len(at), [None] * len(at), 'x')
        read = _unpacked(packed)
        assert list(read) == at and packed[4] == []
        step = (max(value) - min(value)) / 4095
        assert all(abs(read[n] - v) <= 0.51 * step + 2e-6 * v for n, v in zip(at, value, strict=True))


def test_a_packed_series_is_in_the_unit_of_the_page_and_tells_each_band_once():
    packed = nights.packed([0, 1, 2], [71e3, 72e3, 71.2e3], [70e3, 70e3, None], [80e3, 80e3, None], 'MB/s')
    assert packed[0] == 0 and packed[1:3] == [71.0, 72.0] and packed[5] == 'GB/s'
    assert packed[4] == [[0, 70.0, 80.0], [2, None, None]]


def _history(nights, **given):
    row = {'rerun_of': '', 'system': 'onebox', 'partition': 'virtual', 'environ': 'distro', 'check': 'Stream',
           'case': 'Stream %threads=all', 'size': 'quick', 'metric': 'triad', 'unit': 'MB/s', 'better': 'higher',
           'run': 0, 'node': 'v1', 'jobid': '', 'software': '', 'label': '', 'changed': ''}
    return pl.DataFrame([{**row, 'session': f's{n}', 'start': float(n), 'night': f'n{n}', 'value': v, **given, **more}
                         for n, v, more in nights], schema=SCHEMA)


def test_a_night_is_the_median_of_its_runs_without_confirmations():
    frame = _history([(0, 1.0, {}), (0, 2.0, {}), (0, 9.0, {}), (2, 4.0, {}),
                      (3, 7.0, {'rerun_of': 's2'}), (4, 8.0, {})])
    past = nights.of_recent(nights.recent(frame, 's2', 2.0))
    assert past.labels == [('n0', 's0'), ('n2', 's2')]
    (key, packed), = past.cells.items()
    assert key == rows.key(_cell()) and _unpacked(packed) == {0: 2.0, 1: 4.0}


def test_no_more_than_ninety_nights():
    past = nights.of_recent(nights.recent(_history([(n, 1.0 + n, {}) for n in range(200)]), 's150', 150.0))
    assert len(past.labels) == 90 and past.labels[-1] == ('n150', 's150')


def test_what_is_packed_cannot_end_its_element():
    key = ('</script>', '', '', '', '')
    past = nights.Nights([('<!--', '</script>')], {key: nights.packed([0], [1.0], [None], [None], '</script>')})
    text = nights.as_json(past, [key], {1: '</script><script>alert(1)'})
    assert '<' not in text and json.loads(text)['reasons']['1'] == '</script><script>alert(1)'


# Curves

def _run(case, values, partition='default', facts=None, **metrics):
    record = {'subsystem': 'network', 'facts': facts or {},
              'metrics': {m: {'unit': 'us', 'better': 'lower', **metrics} for m in values}}
    perf = {f'local:{partition}:{m}': [v, 0, None, None, 'us', None] for m, v in values.items()}
    return {**made.ran(case), 'partition': partition, 'perfvalues': perf, 'parity': record}


def _plots(cases, before=None):
    tonight, earlier = (told and record.of_report(made.report(told, [])) for told in (cases, before))
    return drawings.of_sessions(tonight, earlier)


def test_the_curve_that_a_case_noted_is_a_plot_with_the_unit_of_the_metric_judged_from_it():
    curve = {'bw_1': 1.0, 'bw_8192': 20.0, 'bw_1048576': 300.0, 'rate_1': 5.0}
    plot, = _plots([_run('Osu %where=within', {'bandwidth_8KiB': 20.0}, facts={'curve': curve})])
    assert (plot.title, plot.what, plot.metric, plot.unit) == ('Osu %where=within', 'message size', 'bandwidth', 'us')
    assert plot.lines[0].points == {1.0: 1.0, 8192.0: 20.0, 1048576.0: 300.0} and plot.lines[0].name == 'default'


def test_cases_along_a_parameter_of_numbers_are_a_curve_for_each_partition():
    cases = [_run(f'Fileset %file={f} %mode={m}', {'rate': v}, partition=p)
             for p in ('one', 'two') for m in ('read', 'write')
             for f, v in (('1B', 1.0), ('10KB', 2.0), ('1MiB', 3.0))]
    plots = _plots(cases)
    assert {p.title for p in plots} == {'Fileset %mode=read', 'Fileset %mode=write'}
    assert [line.name for line in plots[0].lines] == ['one', 'two']
    assert plots[0].lines[0].points == {1.0: 1.0, 1e4: 2.0, 2.0 ** 20: 3.0} and plots[0].x_unit == 'B'


def test_threads_that_a_case_counted_are_its_axis():
    cases = [_run(f'Stream %threads={t}', {'triad': v}, facts={'threads': n})
             for t, n, v in (('one', 1.0, 5.0), ('half', 8.0, 9.0), ('all', 16.0, 11.0))]
    plot, = _plots(cases, before=cases)
    assert plot.lines[0].points == {1.0: 5.0, 8.0: 9.0, 16.0: 11.0} and plot.what == 'threads'
    assert [line.earlier for line in plot.lines] == [False, True]


def test_repeats_are_one_point_and_failures_are_none():
    good = [_run(f'Stream %threads={n}', {'triad': v}) for n in (1, 2, 4) for v in (1.0, 2.0, 9.0)]
    plot, = _plots([*good, {**good[0], 'result': 'fail', 'fail_phase': 'run'}])
    assert plot.lines[0].points == {1.0: 2.0, 2.0: 2.0, 4.0: 2.0}


def test_two_points_and_words_are_no_curve():
    assert _plots([_run(f'Stream %threads={t}', {'triad': 1.0}) for t in (1, 2)]) == []
    assert _plots([_run(f'Npb %benchmark={t}', {'mops': 1.0}) for t in ('cg', 'ep', 'mg')]) == []


def test_a_plot_is_drawn_inside_its_picture_and_says_what_it_shows():
    plot = drawings.Plot('network', 'Osu', 'message size', 'B', 'latency', 'us', 'lower', [
        drawings.Line('a', {2.0 ** i: 1.0 + 2 ** i / 1000 for i in range(21)}),
        drawings.Line('a', {1.0: math.inf, 2.0: 3.0}, earlier=True)])
    drawn = drawings.draw(plot)
    numbers = [float(n) for p in drawn.paths for n in p.d[1:].replace('L', ' ').split()]
    assert all(0 <= n <= drawings.WIDTH for n in numbers)
    assert drawn.paths[0].earlier and drawn.paths[0].colour == drawn.paths[1].colour
    assert [label for _, label in drawn.across] == ['1 B', '32 B', '1 KiB', '32 KiB', '1 MiB']
    assert drawn.said == 'latency by message size: a: 1.001 us at 1 B, 1050 us at 1 MiB'


def test_a_plot_of_nothing_finite_is_not_drawn():
    assert drawings.draw(drawings.Plot('', '', '', '', '', '', '', [drawings.Line('a', {1.0: math.nan})])) is None


@pytest.mark.parametrize('ys', [[0.0, 0.0, 0.0], [5.0, 5.0, 5.0], [-3.0, 2.0, 1.0], [1e-300, 1.0, 1e300]])
def test_any_finite_curve_can_be_drawn(ys):
    line = drawings.Line('a', dict(zip((0.0, 1.0, 1e12), ys, strict=True)))
    assert drawings.draw(drawings.Plot('', '', 'x', '', 'm', 's', '', [line])).paths


# Nodes

def test_nodes_come_worst_first_with_what_they_measured():
    found = nights.nodes([_cell(nodes=['n1']), _cell(nodes=['n2'], verdict='failed', check='Hpl'),
                              _cell(nodes=['n3', 'n1'], metric='b', verdict='unreferenced')],
                             _facts(nodes={n: {'node': n, 'kernel': '6.1', 'microcode': n} for n in ('n1', 'n3')}),
                             {'n3': (0.9, 5)})
    assert [n.name for n in found.rows] == ['n2', 'n3', 'n1']
    assert found.rows[0].checks == ['Hpl'] and found.rows[2].words == [('unreferenced', 1), ('ok', 1)]
    assert found.common == {'kernel': '6.1'} and found.columns == ['microcode']


def test_speed_is_beside_the_median_of_the_nodes_whichever_way_is_better():
    higher = [(n, v, {'node': node}) for n in range(3) for node, v in (('a', 10.0), ('b', 10.0), ('c', 8.0))]
    lower = [(n, v, {'node': node, 'metric': 'time', 'better': 'lower'}) for n in range(3)
             for node, v in (('a', 4.0), ('b', 4.0), ('c', 5.0))]
    found = nights.speeds(_history(higher + lower))
    assert found['c'] == (pytest.approx(0.8), 2) and found['a'] == (1.0, 2)


def test_of_two_nodes_nobody_says_which_is_slow():
    assert nights.speeds(_history([(0, 1.0, {'node': 'a'}), (0, 2.0, {'node': 'b'})])) == {}
    assert nights.speeds(_history([(0, 1.0, {'node': 'a,b'}), (0, 2.0, {'node': ''})])) == {}


# Pairs

def test_ratios_stand_on_an_axis_around_one():
    chart = drawings.chart(drawings.Pair('b / a', [drawings.Ratio('x', 0.5, 0.4, 0.6), drawings.Ratio('y', 2.0, 1.7, 2.5),
                                               drawings.Ratio('z', None)]))
    low, high, none = chart.dots
    assert 0 < low.low < low.at < low.high < chart.one < high.low < high.at < high.high < drawings.WIDE
    assert none.at is None and none.interval == '' and (low.at + high.at) / 2 == pytest.approx(chart.one, abs=0.1)
    assert (chart.one, '1') in chart.ticks


def test_the_pairs_of_a_verdict_are_on_the_page(tmp_path):
    outcome = Outcome(baseline='onebox:physical', candidate='onebox:virtual', subsystem='memory',
                      benchmark='Stream %threads=all', metric='triad', expected='at least 0.97', ratio=0.9, low=0.88,
                      high=0.92, n=5, state='regressed', why='0.9 [0.88, 0.92], expected at least 0.97')
    page = _page(_verdict([_cell()], pairs=[outcome]), tmp_path)
    row = page.all('tr', **{'class': 'regressed'})[0]['text']
    for said in ('Stream %threads=all: triad', '0.900', '0.880 .. 0.920', 'at least 0.97', 'regressed'):
        assert said in row
    assert len(page.all('circle')) == 1
