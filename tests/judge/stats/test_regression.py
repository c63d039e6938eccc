"""The judgement of a cell: its level, when a drop is believed, and what a history can show. `parity detect` on a file."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import parity
from conftest import TOP, shell
from judging import Cell, Night, judge
from mutations import examples
from parity.base.errors import UsageError
from parity.judge.stats import detect
from parity.judge.stats.judgement import Reference
from parity.judge.stats.node_effects import learned
from parity.judge.stats.spells import begun, spells
from parity.judge.verdict.reasons import warnings, why


def nights(levels, cv=0.01, seed=0, reruns=2, shared=0.0, events=None, nodes=None) -> tuple[Night, ...]:
    """Nights at 100 x level: three runs and so many reruns each, with a spread of ``cv``, normal noise."""
    rng = np.random.default_rng(seed)
    made = []
    for i, level in enumerate(levels):
        night = shared * rng.standard_normal()
        runs, again = (tuple((100 * level * (1 + cv * rng.standard_normal(n) + night)).tolist()) for n in (3, reruns))
        made.append(Night(runs, again, f'n{i + 1}', (events or {}).get(i, ''), nodes(i) if nodes else ''))
    return tuple(made)


def is_new(judgement) -> bool:
    """Return whether a slowdown was found tonight."""
    return judgement.state == 'slow' and judgement.detected == len(judgement.series.values) - 1


def after(*parts, better='higher', reference=None, **options) -> Cell:
    """after((40, 1.0), (3, 0.95)): forty nights at 1, then three at 0.95."""
    return Cell(nights([level for many, level in parts for _ in range(many)], **options), better, reference)


@pytest.mark.parametrize('verdict, parts, options', [
    ('insufficient', [(6, 1), (4, 0.5)], {}), ('ok', [(41, 1)], {}), ('regressed', [(11, 1), (3, 0.9)], {}), ('regressed', [(40, 1), (3, 0.95)], {}),
    ('ok', [(60, 1), (1, 0.5)], {}),                                          # one terrible night is no slowdown,
    ('regressed', [(60, 1), (2, 0.95)], {}),                                  # two are
    ('regressed', [(60, 1), (200, 0.95)], {}), ('ok', [(60, 1), (200, 0.95), (2, 1)], {}),      # never adopted as normal
    ('improved', [(60, 1), (3, 1.05)], {}), ('ok', [(60, 1), (60, 1.05)], {}), ('regressed', [(60, 1), (60, 1.05), (3, 1)], {}),
    ('ok', [(60, 1), (5, 1.05), (5, 1)], {}),                                 # an improvement on probation goes back without a word
    ('blind', [(60, 1)], {'cv': 0.05, 'shared': 0.03}), ('regressed', [(60, 1), (3, 0.7)], {'cv': 0.05, 'shared': 0.03}),
])
def test_a_step_is_believed(verdict, parts, options):
    assert judge(after(*parts, **options)).verdict == verdict


@pytest.mark.parametrize('more, share, state', [(4, 0.983, 'slow'), (6, 0.983, 'normal'), (30, 0.975, 'slow')])
def test_a_slowdown_that_turns_out_to_be_less_than_2_percent_is_a_level(more, share, state):
    told = judge(after((60, 1), (2, 0.97), (more, share), cv=0.003))
    assert told.state == state and (state == 'slow' or f'the level of {more + 2} nights' in why(told))


def test_an_event_begins_a_level():
    slow = [(60, 1), (5, 0.94), (10, 0.94)]
    assert judge(after(*slow)).verdict == 'regressed'
    accepted, by_hand = (judge(after(*slow, events=events)) for events in ({65: 'accepted'}, {60: 'level'}))
    assert accepted.verdict == by_hand.verdict == 'ok' and 'began with the value accepted of n61' in why(accepted)
    assert 'began with the level begun by hand of n61' in why(by_hand)
    assert 'begun by hand of n61' in why(judge(after(*slow, (5, 0.94), events={58: 'maintenance', 60: 'level'})))
    assert judge(after(*slow, (3, 0.89), events={65: 'accepted'})).verdict == 'regressed', 'a later slowdown is told'
    for word, changed, began in (('software', 'the software changed', 'the software change'), ('maintenance', 'maintenance was', 'the maintenance'),
                                 ('hardware', 'the hardware changed', 'the change of hardware')):
        told = judge(after((60, 1), (3, 0.95), events={60: word}))
        assert told.verdict == 'regressed' and why(told).endswith(f'; {changed} on n61')
        assert f'began with {began}' in why(judge(after((60, 1), (15, 1), events={60: word})))


def test_other_work_is_learnt_anew():
    learning, known, slow = (judge(after((60, 1), *parts, events={60: 'work'})) for parts in ([(10, 0.5)], [(15, 0.5)], [(20, 0.5), (3, 0.47)]))
    assert (learning.verdict, learning.state) == ('insufficient', 'learning') and '10 nights since other work of n61' in why(learning)
    assert (known.verdict, known.state) == ('ok', 'normal') and slow.verdict == 'regressed'


def test_what_comes_and_goes_is_one_state_until_14_nights_were_good():
    spell = [(5, 1), (3, 0.92)]
    low, good, over = (judge(after((40, 1), *3 * spell, (n, 1))) for n in (0, 4, 15))
    assert (low.verdict, low.state) == ('regressed', 'comes and goes') and why(low).endswith('comes and goes: 3 spells since n46')
    assert (good.verdict, good.state) == ('ok', 'comes and goes') and (over.verdict, over.state) == ('ok', 'normal')
    assert judge(after((40, 1), *2 * spell)).state == 'slow'
    assert judge(after((40, 1), (20, 0.9), (10, 1), (20, 0.9), (10, 1), (3, 0.92))).state == 'slow', 'weeks are no spell'
    usual = [judge(after(*many * [(6, 1), (2, 0.9)])) for many in (4, 5, 8)]
    assert [each.verdict for each in usual] == ['blind', 'regressed', 'regressed'], 'from the first nights on'
    assert usual[-1].state == 'comes and goes' and ': 8 spells since n7' in why(usual[-1])


@pytest.mark.parametrize('lasts, named', [(15, False), (3, True)])
def test_only_short_slowdowns_are_spells(lasts, named):
    assert spells([(20, 20 + lasts, -0.09)], np.zeros(40), np.arange(40), 40, -0.09) == [20] * named


@pytest.mark.parametrize('levels, scale, last_good, first_slow', [
    ([0] * 30 + [-0.06] * 3, 0.005, 129, 130),                   # a clear step
    ([0] * 30 + [-0.06] * 3, 0.020, 125, 131),                   # in noise the begin is known to some nights
    ([0] * 30 + [-0.06] * 3, 0.04, -1, -1),                      # or not at all
    ([0] * 20 + [-0.3] + [0] * 9 + [-0.06] * 3, 0.005, 129, 130),      # an outlier nine nights before begins nothing
    ([-0.06] * 33, 0.005, -1, 100),                              # the nights before are not known
    ([-0.02] * 9 + [0] * 5 + [-0.04] * 3, 0.01, -1, 114),        # all may be slow, or the last three: no night was surely good
    ([0] * 33, 0.005, -1, -1), ([0] * 30 + [0.06] * 3, 0.005, -1, -1),
])
def test_a_slowdown_surely_began_between_two_nights(levels, scale, last_good, first_slow):
    x = np.array([levels])
    at = np.arange(100, 100 + x.shape[1])[None]
    assert [int(each[0]) for each in begun(x, at, np.array([scale]))] == [last_good, first_slow]


def test_the_night_that_was_surely_good_and_the_one_that_was_surely_slow_are_told():
    told = judge(after((40, 1), (3, 0.94), cv=0.003))
    assert (told.last_good, told.first_slow) == (39, 40)
    assert (judge(after((43, 1), cv=0.003)).last_good, judge(after((43, 1), cv=0.003)).first_slow) == (-1, -1)


def test_a_node_that_ran_a_noisy_cell_is_not_slower_for_that():
    """Ten calm cells and a noisy one, whose nights on n3 were low by chance; n5 is 3 % slower."""
    rng = np.random.default_rng(1)
    scale, node = np.repeat([0.005, 0.06], [500, 60]), np.append(rng.permutation(np.repeat(np.arange(10), 50)), np.arange(60) % 10)
    node[:500][node[:500] == 3] = 4
    off = rng.standard_normal(560) * scale - 0.03 * (node == 5) - 0.05 * ((node == 3) & (scale > 0.01))
    effect = learned(off, scale, np.zeros(560, dtype=int), node, np.append(np.arange(500) % 50, np.arange(60)), (1, 11))[0]
    assert np.flatnonzero(effect).tolist() == [5] and effect[5] == pytest.approx(-0.03, abs=0.005)


def test_a_slow_node_that_comes_and_goes_hides_no_step_of_all():
    def visits(i):
        return 'slow' if i % 7 == 3 else f'n{i % 7}'

    levels = [0.94 if visits(i) == 'slow' else 1.0 for i in range(70)]
    calm, step = (judge(Cell(nights([v * (0.95 if i >= 67 and late else 1) for i, v in enumerate(levels)], nodes=visits))) for late in (False, True))
    assert calm.verdict == 'ok' and calm.visible < 0.03 and step.verdict == 'regressed'
    at_it = judge(Cell(nights(levels[:-3], nodes=visits)))        # its last night is on the slow node
    warning, = warnings(at_it)
    assert at_it.verdict == 'ok' and 'slow is 5.' in warning and 'slower here than the other nodes' in warning


def test_a_slowdown_on_many_nodes_that_ended_blames_none():
    def visits(i):
        return 'x' if 60 <= i < 84 and i % 3 == 0 or i >= 100 else f'n{i % 7}'

    told = judge(after((60, 1), (24, 0.6), (16, 1), (3, 0.95), nodes=visits))
    assert told.verdict == 'regressed' and not [*warnings(told)]


@pytest.mark.parametrize('parts, verdict, new, said', [
    ([(60, 1), (60, 1.1), (3, 1)], 'regressed', False, 'back to the level before n61'),       # a rise of months,
    ([(60, 1), (25, 1.1), (3, 1)], 'regressed', False, 'back to the level before n61'),       # or of weeks
    ([(60, 1), (60, 1.1), (3, 0.9)], 'regressed', False, '% worse than the level before, '),  # further than back
    ([(60, 1), (9, 0.8), (9, 0.9), (2, 1)], 'ok', False, 'the level of'),                     # back in two steps
    ([(6, 0.5), (8, 0.8), (40, 1), (3, 0.95)], 'regressed', False, 'worse since n55'),        # changes among the first nights
    ([(1, 100), (40, 1), (4, 0.95)], 'regressed', False, 'worse since n42'), ([(30, 1), (30, 0.9)], 'regressed', False, 'worse since n31'),
])
def test_changes_either_way_begin_levels(parts, verdict, new, said):
    told = judge(after(*parts))
    assert (told.verdict, is_new(told)) == (verdict, new) and said in why(told)


def test_a_red_cell_goes_on_living():
    further = [judge(after((60, 1), (9, 0.9), (n, 0.8))) for n in range(6)]
    assert all(told.alarm for told in further) and sum(map(is_new, further)) == 1, 'a further drop is new, once'


def test_a_blind_cell_says_what_hides_a_slowdown():
    rng = np.random.default_rng(3)
    low = rng.random(90) < 0.2
    for levels, said in ((np.where(low, 0.6, 1.0), '% lower, in '), (1 + 0.06 * rng.standard_normal(90), 'its nights scatter by ')):
        told = judge(Cell(nights(levels)))
        assert told.verdict == 'blind' and said in why(told)


def test_a_long_history_costs_seconds_and_one_of_ten_nights_is_too_short():
    assert judge(after((10_000, 1), (3, 0.95), reruns=0)).verdict == 'regressed'
    assert judge(after((10, 1))).verdict == 'insufficient' and judge(after((11, 1))).verdict == 'blind' and judge(after((15, 1))).verdict == 'ok'


def test_the_judgement_says_why():
    few = judge(after((6, 1), (4, 0.5)))
    assert why(few).startswith('10 nights of history: judging begins on night 11') and not few.alarm
    told = judge(after((60, 1), (3, 0.95)))
    assert why(told).startswith('worse since n61 (3 nights): ') and told.value / told.baseline == pytest.approx(0.95, abs=0.015)
    assert told.value < told.low < told.baseline < told.high
    assert is_new(judge(after((60, 1), (2, 0.95)))) and not is_new(told)
    assert why(judge(after((60, 1), (200, 0.95)))).startswith('worse since n61 (200 nights)')
    ends = [judge(after((60, 1), (200, 0.95), (n, 1), reruns=reruns)) for n, reruns in ((1, 0), (2, 0), (1, 2))]
    assert ['is not over' in why(told) for told in ends] == [told.state == 'slow' for told in ends] == [True, False, False]
    assert ends[0].needs_rerun, 'run again, one good night ends it'
    assert not judge(after((60, 1), (12, 0.55), (1, 1), (1, 0.97), cv=0.012, seed=37)).alarm, 'the last slow night is no part of the level'
    assert why(judge(after((60, 1), (3, 1.05)))).startswith('better since n61')
    low = judge(after((60, 1), (1, 0.85), reruns=0))
    assert low.needs_rerun and not judge(after((60, 1), (9, 0.85), reruns=0)).needs_rerun, 'a known slowdown needs none'
    for bad in (0.0, -1.0):
        told = judge(Cell(tuple(Night((bad, bad, bad)) for _ in range(60))))
        assert told.verdict == 'insufficient' and '0 or below' in why(told) and told.baseline is None
    same = judge(Cell(tuple(Night((5.0, 5.0, 5.0)) for _ in range(60))))
    assert same.verdict == 'ok' and 0 < same.visible < 0.025, 'no scatter is believed to be 0'


def test_one_night_among_good_ones():
    def tonight(runs, reruns=(), past=((60, 1),)):
        return judge(Cell((*after(*past).nights, Night(runs, reruns))))

    contradicted, low = tonight((85.0, 85.5, 84.8), (100.2, 99.7)), (94.0, 94.3, 93.8)
    assert contradicted.verdict == 'ok' and contradicted.value == pytest.approx(100, abs=0.5), 'the rerun stands'
    wild = tonight((100.1, 60.0, 99.8), (100.3, 99.6))
    assert wild.verdict == 'ok' and wild.value > 98, 'one wild run makes no night'
    assert tonight(low).needs_rerun and not tonight(low, (94.1, 94.4)).needs_rerun and not tonight((100.0, 100.2, 99.9)).needs_rerun


def test_many_cells_at_once_raise_the_bar_and_a_young_one_is_not_sure_of_its_noise():
    cell = after((40, 1), (3, 0.965), cv=0.015)
    assert judge(cell).verdict == 'regressed' and judge(cell, cells=1_000_000).verdict in ('ok', 'blind')
    assert judge(after((11, 1), (3, 0.95), seed=10, cv=0.02)).verdict == 'blind'


def test_the_level_is_judged_by_the_accepted_bound_and_one_night_by_the_noise():
    once = judge(after((60, 1), (1, 0.9), reruns=0))
    assert once.alone and (once.verdict, once.state) == ('ok', 'normal') and not judge(after((60, 1), (1, 0.93), cv=0.03, shared=0.03)).alone
    crept, near = (judge(after((60, level), reference=Reference(100, 97, None))) for level in (0.955, 0.968))
    assert (crept.verdict, crept.state) == ('regressed', 'slow') and 'the accepted 100, beyond its bound' in why(crept)
    assert near.verdict == 'ok', 'so little is chance'
    mended = judge(after((60, 1), (20, 0.9), (2, 1), reference=Reference(100, 95, None)))
    assert (mended.verdict, mended.state) == ('ok', 'normal'), 'nights of a former level never count'


def test_counts_are_judged_by_an_exact_test():
    rng = np.random.default_rng(1)
    calm, worse = (Cell(tuple(Night(tuple(map(float, rng.poisson(0.3 * (by if i >= 60 else 1), 3))), label=f'n{i}') for i in range(67)), 'lower')
                   for by in (1, 6))
    assert judge(calm).verdict == 'ok' and judge(worse).verdict == 'regressed' and 'exact test of counts' in why(judge(worse))


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from([0, -0.02, -0.05, -0.2, 0.1]), st.integers(41, 69), st.sampled_from([0.002, 0.01, 0.03]),
       st.sampled_from([2.0 ** -20, 0.25, 1024.0]))
def test_unit_and_direction_do_not_matter(seed, step, at, cv, unit):
    past = after((at, 1), (70 - at, 1 + step), cv=cv, seed=seed).nights

    def mapped(f):
        return tuple(n._replace(runs=tuple(map(f, n.runs)), reruns=tuple(map(f, n.reruns))) for n in past)

    told = judge(Cell(past))
    assert why(judge(Cell(mapped(lambda v: unit * v)))) == why(told)
    turned = judge(Cell(mapped(lambda v: 1 / v), 'lower'))       # 5 % less speed is 5.3 % more time: one may be blind
    assert {turned.verdict, told.verdict} in ({told.verdict}, {'ok', 'blind'})


HEAD, DIRECTED = 'series,night,kind,run,value\n', 'series,night,kind,run,value,direction\n'


def rows(*parts, series='a', night=lambda i: i + 1, **options) -> list[tuple]:
    return [(series, night(i), kind, run, value) for i, of in enumerate(after(*parts, **options).nights)
            for kind, values in (('run', of.runs), ('rerun', of.reruns)) for run, value in enumerate(values)]


def text(found: list[tuple], head: str = HEAD) -> str:
    return head + ''.join(','.join(map(str, row)) + '\n' for row in found)


def judged(found: list[tuple], head: str = HEAD) -> dict[str, detect.SeriesJudgement]:
    return detect.of_file(text(found, head).encode(), 'x.csv')


def test_the_readmes_line_finds_the_slowdown_and_nothing_else():
    done = shell('. ci/activate; parity detect tests/data/slow.csv --json', TOP)
    assert done.returncode == 1, done.stderr
    series = json.loads(done.stdout)['series']
    triad, latency = series.pop('stream.triad'), series.pop('osu.latency')
    assert not series and triad['alarms'] == ['2026-11-10', '2026-11-11', '2026-11-12']
    assert triad['verdict'] == 'regressed' and 'since 2026-11-09' in triad['why'] and (latency['alarms'], latency['verdict']) == ([], 'ok')
    read = parity('detect', str(TOP / 'tests' / 'data' / 'slow.csv'))
    lines = read.stdout.splitlines()
    assert read.returncode == 1 and lines[0] == '1 regressed · 1 ok' and lines[1] == 'stated rate: 1 new false alarm in 3000 nights of a series'
    assert lines[3].startswith('REGRESSED  stream.triad: worse since 2026-11-09 (4 nights)'), 'the worst first'


def test_nights_may_have_gaps_series_their_own_nights_and_directions_runs_no_rerun_and_files_what_excel_adds():
    found = judged(rows((45, 1), (3, 0.94), night=lambda i: 7 * i) + rows((60, 1), series='b', seed=1))
    assert set(found['a'].alarms) <= {7 * i for i in (45, 46, 47)} and 7 * 47 in found['a'].alarms
    assert found['b'].alarms == ()
    assert judged(rows((50, 1), (3, 0.94), reruns=0))['a'].alarms == (52, 53)
    assert not judged(rows((50, 1), (1, 0.80), reruns=0))['a'].alarms
    plain = text(rows((41, 1)))
    excel = b'\xef\xbb\xbf' + plain.replace('\n', '\r\n').encode() + b'\r\n'
    blanks = plain.replace(',', ' , ').encode()
    assert detect.of_file(excel, 'x.csv') == detect.of_file(blanks, 'x.csv') == detect.of_file(plain.encode(), 'x.csv')
    slower = [(*row, direction) for direction in ('lower', 'higher') for row in rows((50, 1), (3, 1.06), series=direction)]
    told = {name: each.judgement for name, each in judged(slower, DIRECTED).items()}
    assert (told['lower'].verdict, told['higher'].verdict) == ('regressed', 'improved') and told['lower'].value > told['lower'].baseline


@examples(20)
@given(st.randoms(use_true_random=False), st.integers(0, 10**6), st.sampled_from([0.93, 1.0, 1.06]), st.sampled_from([3, 45]))
def test_rows_in_any_order_alarm_as_when_each_night_was_the_last(rng: random.Random, seed, level, many):
    alone = rows((44, 1), (many, level), (5, 1), seed=seed)
    found = alone + rows((45, 1), (5, 1.04), series='b')
    whole = judged(found)
    rng.shuffle(found)
    assert judged(found) == whole
    for last in (43, 46, 47, 48, 40 + many, 47 + many):
        as_of = judged([row for row in found if row[1] <= last])['a']
        assert as_of.alarms == tuple(n for n in whole['a'].alarms if n <= last)
        assert as_of.judgement.alarm == (last in whole['a'].alarms)


@pytest.mark.parametrize('raw, where, said', [
    ('', 1, 'the file is empty'), (HEAD, 1, 'no rows'), ('"series\n",' + HEAD[7:], 1, 'no rows'), ('series,night,kind,value\na,1,run,5', 1, 'no column run; needed are series, night, kind, run, value'),
    ('series,night,kind,run,value,value\na,1,run,1,5,5', 1, 'column value is named twice'),
    ('series,night,kind,run,value,Direction\na,1,run,1,5,lower', 1, 'did you mean direction?'),
    (DIRECTED + 'a,1,run,1,5,up', 2, "direction 'up'; valid: higher, lower"), (DIRECTED + 'a,1,run,1,5,lower\na,2,run,1,5,', 3, 'must be one direction'),
    (HEAD.strip() + ',event\na,1,run,1,5,\na,2,run,1,5,reboot', 3, "event 'reboot'; valid: accepted, level, work, software, hardware, maintenance, or empty"),
    (HEAD.strip() + ',event\na,1,run,1,5,accepted\na,1,run,2,5,software', 3, 'another event on an earlier line'),
    (HEAD.strip() + ',group\na,1,run,1,5,x\na,2,run,1,5,y', 3, 'in another group on an earlier line'),
    ('\ufeff'.encode('utf-16-le') + b'x', 1, 'UTF-16'), (HEAD.encode() + b'a\xe4,1', 2, 'no UTF-8'),
    *((HEAD + text, line, said) for text, line, said in [
        ('a,1,run,1,5\na,2,run,1,nan', 3, 'value nan is not finite'), ('a,1,run,1,1e999', 2, 'not finite'), ('a,1,run,1,-1e101', 2, 'must be below 1e+100'),
        ('a,1,run,1,fast', 2, "value 'fast' is no number"), ('a,1,run,1,1_000', 2, 'is no number'), ('a,1,again,1,5', 2, "kind 'again'; valid: run, rerun"),
        ('a,1,run,1,5\na,1,run,01,6', 3, "run 01 of series 'a', night 1, stands on an earlier line"), ('a,1,run,one,5', 2, "run 'one' is no whole number"),
        ('a,monday,run,1,5', 2, 'neither a whole number nor a date'), ('a,2026-02-30,run,1,5', 2, 'neither a whole number nor a date'),
        ('a,1,run,1,5\na,2026-11-20,run,1,5', 3, 'the order of both together is not known'), ('a,1,rerun,1,5', 2, 'has reruns but no run'),
        (',1,run,1,5', 2, 'series is empty'), ('a,1,run,1', 2, '4 fields; must have 5 columns'), ('"a,1,run,1,5', 2, 'cannot be read as CSV'),
        ('a,1,run,1,5\n\na,2,run,1,5', 3, '0 fields'), ('a,1,run,1,x\n,2,run,1,5', 2, "value 'x'"), ('"a\nb",1,run,1,5\na,1,run,1,x', 4, "value 'x' is no number")])])
def test_a_bad_file_is_refused_by_line_and_column(raw, where, said):
    with pytest.raises(UsageError) as refused:
        detect.of_file(raw if isinstance(raw, bytes) else raw.encode(), 'x.csv')
    assert str(refused.value).startswith(f'x.csv:{where}:') and said in str(refused.value)


@examples(120)
@given(st.lists(st.lists(st.sampled_from(
    ['a', 'b', '1', '2', 'run', 'rerun', '5.5', 'nan', '', '"', '2026-11-20', '-1', 'é', '1e5']), max_size=6), max_size=6))
def test_whatever_is_in_a_file_it_is_judged_or_refused_with_its_name(found):
    try:
        detect.of_file((HEAD + '\n'.join(map(','.join, found))).encode(), 'x.csv')
    except UsageError as err:
        assert str(err).startswith('x.csv:'), 'a line is named'


@pytest.mark.parametrize('head, row, verdict, said', [
    (',event', lambda t: f'100,{"accepted" * (t == 1)}', 'ok', 'began with the value accepted of 1'),      # before there is a history
    (',event', lambda t: '100,software', 'ok', 'tonight is'), (',group', lambda t: '100,alone', 'ok', 'tonight is'),
    ('', lambda t: '5', 'ok', 'tonight is at the level'), ('', lambda t: '0', 'insufficient', '0 or below'),
    ('', lambda t: '-1' if t == 60 else '100', 'insufficient', '0 or below'), ('', lambda t: '-1' if t == 30 else '100', 'ok', 'level of 59 nights'),
    (',direction', lambda t: '0,lower', 'ok', 'exact test of counts'), (',direction', lambda t: f'{3 * (t > 54)},lower', 'regressed', 'exact test of counts'),
    ('', lambda t: f'{10.0 ** ((-1) ** t * 40)}', 'blind', 'no slowdown would show'),
])
def test_strange_figures_get_a_word_with_a_reason(head, row, verdict, said):
    raw = HEAD.strip() + head + '\n' + ''.join(f'a,{t},run,{run},{row(t)}\n' for t in range(60, 0, -1) for run in (0, 1))
    told = detect.of_file(raw.encode(), 'x.csv')['a'].judgement
    assert told.verdict == verdict and said in why(told)


def test_the_command_ends_0_without_an_alarm_tonight_and_a_name_cannot_command_the_terminal():
    for arguments, said in ((['/nonexistent.csv'], 'No such file'), (['.'], 'directory'), ([], 'Missing')):
        done = parity('detect', *arguments)
        assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr
    done = parity('detect', '-', '--json', stdin=text(rows((50, 1), (6, 0.93), (4, 1))))
    told = json.loads(done.stdout)['series']['a']
    assert done.returncode == 0 and told['verdict'] == 'ok'
    assert told['alarms'] and set(told['alarms']) <= set(range(51, 57)), 'integers stay integers'
    done = parity('detect', '-', stdin=(found := text(rows((3, 1), series='"a\x1b[31m,b"'))))
    assert '\x1b' not in done.stdout and 'INSUFFICIENT' in done.stdout
    assert list(json.loads(parity('detect', '-', '--json', stdin=found).stdout)['series']) == ['a\x1b[31m,b']


@pytest.mark.parametrize('part', ['--part stationary', pytest.param('', marks=pytest.mark.full)])
def test_the_stated_rate_is_held_by_the_small_operating_curve(part):
    done = shell(f'ci/operating-curve --small {part}', TOP)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert 'held everywhere' in done.stdout and 'oracle' in done.stdout
