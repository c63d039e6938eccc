"""`parity detect`: a history in a file, judged as of each of its nights."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import parity
from conftest import TOP, shell
from mutations import examples
from parity.base.errors import UsageError
from parity.stats import judgement

HEAD = 'series,night,kind,run,value\n'


def rows(levels, series='a', cv=0.01, seed=0, reruns=2, night=lambda i: i + 1) -> list[tuple]:
    rng = np.random.default_rng(seed)
    return [(series, night(i), kind, run + 1, round(float(100 * level * (1 + cv * rng.standard_normal())), 4))
            for i, level in enumerate(levels) for kind, n in (('run', 3), ('rerun', reruns)) for run in range(n)]


def text(found: list[tuple], head: str = HEAD) -> str:
    return head + ''.join(','.join(map(str, row)) + '\n' for row in found)


def judged(found: list[tuple], head: str = HEAD) -> dict[str, judgement.Series]:
    return judgement.of_table(judgement.read(text(found, head).encode(), 'x.csv'))


def levels(*parts) -> list[float]:
    return [level for many, level in parts for _ in range(many)]


def test_the_readmes_line_finds_the_slowdown_and_nothing_else():
    done = shell('. ci/activate; parity detect tests/data/slow.csv --json', TOP)
    assert done.returncode == 1, done.stderr
    series = json.loads(done.stdout)['series']
    assert set(series) == {'stream.triad', 'osu.latency'}
    assert series['stream.triad']['alarms'] == ['2026-11-10', '2026-11-11', '2026-11-12']
    assert series['stream.triad']['verdict'] == 'regressed' and 'since 2026-11-09' in series['stream.triad']['why']
    assert series['osu.latency']['alarms'] == [] and series['osu.latency']['verdict'] == 'ok'


def test_a_person_reads_the_worst_first_with_the_stated_rate():
    done = parity('detect', str(TOP / 'tests' / 'data' / 'slow.csv'))
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[0] == '1 regressed · 1 ok' and lines[1].startswith('stated false-alarm rate: 1 per 1000 nights')
    assert lines[3].startswith('REGRESSED  stream.triad: worse since 2026-11-09 (4 nights)')


def test_without_an_alarm_on_the_last_night_the_exit_code_is_0():
    done = parity('detect', '-', '--json', stdin=text(rows(levels((50, 1), (6, 0.93), (4, 1)))))
    told = json.loads(done.stdout)['series']['a']
    assert done.returncode == 0 and told['verdict'] == 'ok'
    assert told['alarms'] and set(told['alarms']) <= set(range(51, 57)), 'integers stay integers'


def test_nights_may_have_gaps_series_their_own_nights_and_runs_no_rerun():
    found = judged(rows(levels((45, 1), (3, 0.94)), night=lambda i: 7 * i) + rows(levels((60, 1)), series='b', seed=1))
    assert set(found['a'].alarms) <= {7 * i for i in (45, 46, 47)} and 7 * 47 in found['a'].alarms
    assert found['b'].alarms == ()
    assert judged(rows(levels((50, 1), (3, 0.94)), reruns=0))['a'].alarms == (53,)
    assert not judged(rows(levels((50, 1), (1, 0.80)), reruns=0))['a'].alarms


def test_lower_may_be_better():
    for direction, verdict in (('lower', 'regressed'), ('higher', 'improved')):
        more = [(*row, direction) for row in rows(levels((50, 1), (3, 1.06)))]
        told = judged(more, HEAD.replace('value', 'value,direction'))['a'].judgement
        assert told.verdict == verdict and told.value > told.baseline


@examples(20)
@given(st.randoms(use_true_random=False), st.integers(0, 10**6), st.sampled_from([0.93, 1.0]))
def test_rows_in_any_order_alarm_as_when_each_night_was_the_last(rng: random.Random, seed, level):
    found = rows(levels((44, 1), (3, level), (5, 1)), seed=seed) + rows(levels((45, 1), (5, 1.04)), series='b')
    whole = judged(found)
    rng.shuffle(found)
    assert judged(found) == whole
    for last in (43, 45, 46, 47, 49):
        as_of = judged([row for row in found if row[1] <= last])['a']
        assert as_of.alarms == tuple(n for n in whole['a'].alarms if n <= last)
        assert as_of.judgement.alarm == (last in whole['a'].alarms)


@pytest.mark.parametrize('raw, where, said', [
    ('', ':1:', 'the file is empty'), (HEAD, ':1:', 'no rows'),
    ('series,night,kind,value\na,1,run,5\n', ':1:', 'no column run; needed are series, night, kind, run, value'),
    ('series,night,kind,run,value,value\na,1,run,1,5,5\n', ':1:', 'column value stands there twice'),
    ('series,night,kind,run,value,Direction\na,1,run,1,5,lower\n', ':1:', 'did you mean direction?'),
    (HEAD + 'a,1,run,1,5\na,2,run,1,nan\n', ':3:', 'value nan is not finite'),
    (HEAD + 'a,1,run,1,1e999\n', ':2:', 'not finite'), (HEAD + 'a,1,run,1,-1e101\n', ':2:', 'must be below 1e+100'),
    (HEAD + 'a,1,run,1,fast\n', ':2:', "value 'fast' is no number"), (HEAD + 'a,1,run,1,1_000\n', ':2:', 'is no number'),
    (HEAD + 'a,1,run,1,5\na,1,run,01,6\n', ':3:', 'run 01 of series \'a\', night 1, was on line 2 already'),
    (HEAD + 'a,1,again,1,5\n', ':2:', "kind 'again'; valid: run, rerun"), (HEAD + 'a,1,run,one,5\n', ':2:', "run 'one' is no whole number"),
    (HEAD + 'a,monday,run,1,5\n', ':2:', 'neither a whole number nor a date'), (HEAD + 'a,2026-02-30,run,1,5\n', ':2:', 'neither a whole number nor a date'),
    (HEAD + 'a,1,run,1,5\na,2026-11-20,run,1,5\n', ':3:', 'is a date, but those before are whole numbers'),
    (HEAD + 'a,1,rerun,1,5\n', ':2:', 'has reruns but no run'), (HEAD + ',1,run,1,5\n', ':2:', 'series is empty'),
    (HEAD + 'a,1,run,1\n', ':2:', '4 fields; must have 5 columns'), (HEAD + 'a,1,run,1,5\n\na,2,run,1,5\n', ':3:', '0 fields'),
    (HEAD + '"a,1,run,1,5\n', ':2:', 'no CSV'), ('series,night,kind,run,value,direction\na,1,run,1,5,up\n', ':2:', "direction 'up'; valid: higher, lower"),
    ('series,night,kind,run,value,direction\na,1,run,1,5,lower\na,2,run,1,5,\n', ':3:', 'must be one direction'),
])
def test_a_bad_file_is_refused_by_line_and_column(raw, where, said):
    with pytest.raises(UsageError) as refused:
        judgement.read(raw.encode(), 'x.csv')
    assert str(refused.value).startswith(f'x.csv{where}') and said in str(refused.value)


def test_text_must_be_utf_8_and_what_excel_adds_does_no_harm():
    for raw, said in (('\ufeff'.encode('utf-16-le') + b'x', 'UTF-16'), (HEAD.encode() + b'a\xe4,1', ':2:')):
        with pytest.raises(UsageError, match=said):
            judgement.read(raw, 'x.csv')
    plain = text(rows(levels((41, 1))))
    excel = b'\xef\xbb\xbf' + plain.replace('\n', '\r\n').encode() + b'\r\n'
    assert judgement.of_table(judgement.read(excel, 'x.csv')) == judgement.of_table(judgement.read(plain.encode(), 'x.csv'))


@examples(120)
@given(st.lists(st.lists(st.sampled_from(
    ['a', 'b', '1', '2', 'run', 'rerun', '5.5', 'nan', '', '"', '2026-11-20', '-1', 'é', '1e5']), max_size=6), max_size=6))
def test_whatever_is_in_a_file_it_is_judged_or_refused_with_its_name(found):
    raw = HEAD + ''.join(','.join(row) + '\n' for row in found)
    try:
        judgement.of_table(judgement.read(raw.encode(), 'x.csv'))
    except UsageError as err:
        assert str(err).startswith('x.csv:'), 'a line is named'


@pytest.mark.parametrize('arguments, said', [(['/nonexistent.csv'], 'No such file'), (['.'], 'directory'), ([], 'Missing')])
def test_a_file_that_cannot_be_read_is_usage(arguments, said):
    done = parity('detect', *arguments)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr


def test_a_name_cannot_command_the_terminal():
    found = text(rows(levels((3, 1)), series='"a\x1b[31m,b"'))
    done = parity('detect', '-', stdin=found)
    assert '\x1b' not in done.stdout and 'INSUFFICIENT' in done.stdout
    assert list(json.loads(parity('detect', '-', '--json', stdin=found).stdout)['series']) == ['a\x1b[31m,b']


def test_the_stated_rate_is_held_by_the_small_operating_curve():
    done = shell('ci/operating-curve --small', TOP)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert 'held everywhere' in done.stdout and 'oracle' in done.stdout
