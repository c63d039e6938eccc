"""Published studies: their files, figures in print beside measured ones, fits, numbers, findings."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import re
import shutil
import subprocess
import sys
import types
import zipfile
from dataclasses import replace
from statistics import NormalDist, fmean, geometric_mean, stdev

import pytest
import yaml

from commands import parity, process
from conftest import TOP, needs_cc
from parity.base import paths
from parity.base.errors import UsageError
from parity.judge.compare import join
from parity.judge.compare.model import Value
from parity.judge.report import drawings
from parity.judge.store import costs
from parity.measure.rfm import planning
from parity.site.plan import CaseAnswer, Plan
from parity.study import campaign, compared, conditions, page, published, wording
from parity.study.published import estimate, figures, findings, problems, quantities, rows
from parity.study.published.estimate import Estimate
from parity.study.published.model import Axis, Case, Study
from sessions import STUDY_HEAD, case, planned
from stored import Stored

#: Runs, ratio and word of each code.
CODES = {'BT': (35, 1.103, 'faster'), 'CG': (34, 0.738, 'slower'), 'EP': (35, 1.662, 'faster'), 'FT': (35, 0.476, 'slower'), 'IS': (32, 0.364, 'slower'),
         'LU': (35, 1.043, 'faster'), 'MG': (35, 0.500, 'slower'), 'SP': (34, 0.807, 'slower'), 'XHPL': (35, 0.467, 'slower')}


@pytest.fixture(scope='module')
def jungels():
    return compared.of_study('jungels2012').published


@pytest.fixture(scope='module')
def hpc():
    """(benchmark, side) to the totals, read without any of our code."""
    rows = list(csv.DictReader((TOP / 'studies' / 'jungels2012' / 'published.csv').open()))
    return {(code, side): [float(r['value']) for r in rows if (r['code'] or 'XHPL', r['side']) == (code, side) and r['experiment'] in ('npb', 'hpl')]
            for code in CODES for side in ('physical', 'virtual')}


def test_the_ratio_of_a_study_is_that_of_the_printed_rows(jungels, hpc):
    codes = [r for r in jungels.rows if r.subsystem == 'compute']
    assert {row.benchmark: (row.n, round(row.ratio, 3), row.verdict) for row in codes} == CODES
    for row in codes:
        physical, virtual = hpc[row.benchmark, 'physical'], hpc[row.benchmark, 'virtual']
        assert (row.metric, row.better, row.n_baseline, row.n_candidate) == ('total', 'higher', len(physical), len(virtual))
        assert row.ratio == pytest.approx(geometric_mean(virtual) / geometric_mean(physical)) and row.low < row.ratio < row.high < row.low * 1.1


def test_file_system_tests_are_by_clients_and_lower_is_better(jungels):
    rows = {r.benchmark: r for r in jungels.rows if r.subsystem == 'storage'}
    assert len(rows) == 3 * 3 * 4 and {r.metric for r in rows.values()} == {'seconds'}
    slower = rows['NFS large_copy %clients=1']
    assert (slower.ratio, slower.verdict, slower.better, slower.unit) == (pytest.approx(76 / 47, rel=0.003), 'slower', 'lower', 's')
    several = rows['Lustre small_write %clients=4']         # the fourth client has 26 values
    assert (several.n, several.n_baseline, several.n_candidate) == (26, 26, 35)
    timed = rows['Lustre small_copy %clients=1']            # a timer of whole seconds widens the interval
    assert timed.low < timed.ratio * 23.5 / 24 * 22 / 22.5 and timed.high > timed.ratio * 24.5 / 24 * 22 / 21.5
    lacking = {name: r.reason for name, r in rows.items() if r.ratio is None}
    assert set(lacking) == {'PVFS small_write %clients=1', *(f'PVFS small_copy %clients={n}' for n in range(1, 5))}
    assert 'not measured on physical' in lacking['PVFS small_write %clients=1'] and any('client 2 is on physical only' in n for n in jungels.notes)


def test_the_notes_name_the_confounders_and_the_averages_that_their_own_rows_do_not_give(jungels, hpc):
    about = ' '.join(jungels.notes)
    assert all(f'{what}: ' in about for what in ('clock', 'NIC', 'hosts')) and 'each ratio is of these two clusters as a whole' in about
    named = {tuple(n.partition(':')[0].split()): n for n in jungels.notes if 'the printed average' in n}
    assert set(named) == {*((code, 'physical') for code in ('CG', 'SP', 'IS')), *((code, 'virtual') for code in ('EP', 'MG', 'FT', 'LU'))}
    for code, printed, lost in (('CG', 91.76857143, 92.46), ('SP', 334.8657143, 333.54), ('IS', 4.274285714, 12.80)):
        rows = hpc[code, 'physical']
        assert all(said in named[code, 'physical'] for said in (str(printed), str(lost), f'the {len(rows)} printed rows, {fmean(rows)}'[:25]))
        assert printed * 35 - sum(rows) == pytest.approx(lost, abs=1e-3)
    assert fmean(hpc['MG', 'virtual'][1:]) == pytest.approx(233.6967647, abs=1e-6)
    assert fmean(hpc['EP', 'virtual'][:34]) / 4 == pytest.approx(10.52058824, abs=2e-3)


def test_the_command_prints_a_study():
    told = json.loads(parity('study', 'compare', 'jungels2012', '--json').stdout)
    needed = {'benchmark', 'metric', 'n', 'baseline', 'candidate', 'ratio', 'low', 'high', 'verdict'}
    assert all(needed <= set(row) for row in told['rows']) and all(isinstance(n, str) for n in told['notes'])
    text = parity('study', 'compare', 'jungels2012')
    assert text.returncode == 0 and 'jungels2012, as published (virtual / physical)' in text.stdout and re.search(r'NFS large_copy %clients=1: seconds +47\.6 s +76\.7 s +1\.613 \[', text.stdout)
    wrong = process('study', 'compare', 'jungels2021')
    assert wrong.returncode == 2 and "did you mean 'jungels2012'" in wrong.stderr
    assert parity('study', 'compare', '../jungels2012').returncode == 2


#: Of the rows that `compare jungels2012 --json` prints, floats to ten digits.
ROWS = '4a1e154f7f94a647411b1ad6cc24a278a3de7834c64e8892ddd926ead4319716'


def test_rows_of_the_first_study_keep_their_keys_and_values(jungels):
    rows = [{k: float(f'{v:.10g}') if isinstance(v, float) else v for k, v in row.model_dump(exclude={'against', 'kind', 'left_out', 'ratio_with_all', 'partition', 'nodes_baseline', 'nodes_candidate'}).items()} for row in jungels.rows]
    assert hashlib.sha256(json.dumps(rows).encode()).hexdigest() == ROWS


STUDY = """title: t
source: s
what: w
contrast: side
axes:
  side: {what: w, here: h, kind: partition, values: [a, b]}
  code: {what: w, here: h, kind: value, values: [X, Y]}
experiments:
  one: {what: w, where: p, subsystem: compute, axes: {side: all, code: all}, metrics: {rate: [rate]}}
findings:
  - {id: f, says: s, where: p, ratio: one.rate %code=X b / a, above: 1}
"""
HEAD = 'experiment,metric,unit,better,side,code,run,value,flag,where\n'
ROW = 'one,rate,s,higher,a,X,1,2,,\n'


@pytest.mark.parametrize('change, rows, said', [
    (None, 'x\n', r'published.csv:1: unknown column .x.; needed are experiment,'), (None, f'{HEAD}{ROW}{ROW}', ':3: .* has a run 1 above'),
    (None, HEAD + ROW.replace(',2,', ',nan,'), ":2: value 'nan' must be a finite number"), (None, HEAD + ROW.replace(',X,', ',Z,'), ":2: code 'Z': valid: X, Y"),
    (None, HEAD + ROW + ROW.replace(',s,1', ',ms,1').replace(',s,', ',MB,').replace(',1,2,', ',2,2,'), ":3: .* is in 'MB'.*; above it is in 's'"), (None, HEAD + ROW.replace(',s,', ',furlong,'), ":2: unknown unit 'furlong'; valid: %"), (None, HEAD + ROW.replace('one', 'two'), ":2: unknown experiment 'two'"),
    (None, HEAD + ROW.replace('rate', 'rat'), ":2: unknown metric 'rat'; did you mean 'rate'"), (None, HEAD + ROW.replace('higher', 'up'), ":2: unknown direction 'up'"),
    (('contrast: side', 'contrast: sid'), '', "study.yaml:4: contrast: unknown axis 'sid'; did you mean 'side'"),
    (('code: all', 'code: [Z]'), '', "study.yaml:9: .*unknown value of code 'Z'"), (('code: all', 'cod: all'), '', "study.yaml:9: .*unknown axis 'cod'"),
    (('kind: value', 'kind: valu'), '', 'study.yaml:7: .*kind'), (('title: t', 'titel: t'), '', 'study.yaml:1: .*titel'),
    ((', above: 1', ', at_least: 5, at_most: 2'), '', 'study.yaml:11: .*no figure can be at least 5 and at most 2'), ((', above: 1', ', above: 1, below: 1'), '', 'no figure can be above 1 and below 1'),
    (('ratio: one.rate %code=X b / a, above: 1', 'order: one.rate, along: code, rule: general'), '', 'study.yaml:11: .*order has no mean'), (('says: s', 'claim: s, quote: s'), '', 'study.yaml:11: .*a quote of the document, or a claim of ours: one'),
    ((', above: 1', ''), '', 'study.yaml:11: .*ratio needs bound'), (('ratio: ', 'order: a < b, ratio: '), '', 'study.yaml:11: .*2 functions'),
    (('metrics:', "row: '{x}: y', metrics:"), '', "study.yaml:9: .*unknown axis 'x'"), (('metrics:', 'set: {nodes: 4}, metrics:'), '', 'study.yaml:9: .*need a check')])
def test_a_bad_study_is_named_with_file_and_line(site, change, rows, said):
    trial(site, STUDY.replace(*change) if change else STUDY, rows or HEAD + ROW)
    with pytest.raises(UsageError, match=said):
        compared.of_study('trial')


def test_an_axis_of_series_that_ran_at_once_is_read_by_its_former_key():
    assert [Axis.model_validate({'what': 'w', 'here': 'h', 'kind': 'print', 'values': [1], key: True}).simultaneous for key in ('simultaneous', 'together')] == [True] * 2


@pytest.mark.parametrize('change, said', [
    (('one.rate %code=X b / a', 'one.rat b / a'), "study.yaml:11: findings.0.ratio: unknown metric of one 'rat'; did you mean 'rate'"),
    (('one.rate %code=X b / a', 'one.rate %cod=X b / a'), "unknown axis of one 'cod'"), (('one.rate %code=X b / a', 'one.rate %code=Z b / a'), "unknown value of code 'Z'"),
    (('one.rate %code=X b / a', 'one.rate b / c'), "'c' is a value of 0 axes: must be of one; valid: side=a,b; code=X,Y"), (('b / a', 'b'), 'must end in VALUE / VALUE'),
    (('b / a', 'b / X'), "'X' is a value of 0 axes"), (('%code=X b / a', 'b / X'), 'all must be values of the same axes'),
    (('ratio: one.rate %code=X b / a, above: 1', 'order: one.rate, along: cod'), "unknown axis 'cod'"),
    *((('findings:', f'numbers: [{{name: n, let: {{x: one.rate}}, formula: {formula}}}]\nfindings:'), said) for formula, said in [
        ("'x +'", 'is no formula'), ('f(x)', "unknown function 'f'"), ('open(x)', "unknown function 'open'"), ('y', "unknown name 'y'"), ('x % 2', r'only \+ - \*'), ('x.real', r'only \+ - \*'), ('"sum(x, x)"', 'sum takes 1')]),
    *((('findings:', f'functions: {{{declared}}}\nfindings:'), said) for declared, said in [
        ('f(a): a + b', r"study.yaml:10: functions.f\(a\): unknown name 'b'; valid: a"), ('f(a): f(a)', "unknown function 'f'"), ('f a: a', 'functions.f a'),
        ('"f(a)": g(a), "g(a)": a', "unknown function 'g'"), ('"g(a)": a, "f(a)": "g(a, a)"', 'g takes 1')])])
def test_a_statement_that_names_nothing_is_refused(site, change, said):
    trial(site, STUDY.replace(*change))
    with pytest.raises(UsageError, match=said):
        published.read('trial')


def trial(site, text=STUDY, rows=HEAD + ROW):
    folder = site.parents[2] / 'studies' / 'trial'
    folder.mkdir(parents=True)
    (folder / 'published.csv').write_text(rows)
    (folder / 'study.yaml').write_text(text)
    return folder


def analysed(findings_, values, numbers="", experiment="metrics: {rate: []}", here=None):
    """Judge findings on a study with the axes side (a, b) and n (1, 2, 4, 8); values by (side, n)."""
    text = f'''{{title: t, source: s, what: w, contrast: side, axes: {{side: {{what: w, here: h, kind: partition, values: [a, b]}},
      n: {{what: w, here: h, kind: value, values: [1, 2, 4, 8]}}}}, experiments: {{one: {{what: w, where: p, subsystem: compute,
      axes: {{side: all, n: all}}, {experiment}}}}}, findings: [{findings_}], {numbers}}}'''
    made = Study.model_validate(yaml.safe_load(text))
    assert not list(problems.of_study(made))
    cells = [figures.StudyCell('one', 'rate', {'side': side, 'n': n}, 'x', 'higher', apart(of), line='published.csv:2', text=f'{of[0]} x' * (len(of) == 1))
             for (side, n), of in values.items()]
    return findings.analysed(made, cells, here)


#: Normal, without a course in time, and enough for a word on a mean and on a spread.
RUNS = tuple(100 + .6 * NormalDist().inv_cdf((n * 13 % 32 + .5) / 32) for n in range(32))
NAMES = itertools.count()


def runs(level):
    return [level * v / 100 for v in RUNS]


def apart(values):
    """Each run a session of its own."""
    return [Value(v, session=str(next(NAMES))) for v in values]


@pytest.mark.parametrize('statement, values, word, said', [
    ('ratio: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): runs(2)}, 'holds', 'b/a 2'),
    ('ratio: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): runs(0.5)}, 'does not hold', 'b/a 0.5'),
    ('ratio: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): runs(1.001)}, 'not testable', 'straddles$'),
    ('ratio: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): [2, 3]}, 'not testable', 'no interval: 3 repeats are the least'),
    ('ratio: one.rate b / a, above: 1', {('a', '1'): [1.0], ('b', '1'): [2.0]}, 'holds', 'printed once: rounding only'),
    ('ratio: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): runs(2), ('a', '2'): runs(1), ('b', '2'): runs(.5)}, 'does not hold', r'n 2 .*\(1 of 2\)'),
    ('ratio: one.rate b / a, at_least: 1, at_most: 3', {('a', '1'): runs(1), ('b', '1'): runs(5)}, 'does not hold', 'b/a 5'),
    ('ratio: one.rate b / a, above: 1', {('a', '1'): runs(1)}, 'not printed', ''),
    ('ratio: one.rate b / a, at_least: .9, at_most: 1.1', {('a', '1'): runs(1), ('b', '1'): runs(1.02)}, 'holds', '1.02'),
    ('order: one.rate %side=a 1 < 2 < 4', {('a', '1'): runs(1), ('a', '2'): runs(2), ('a', '4'): runs(3)}, 'holds', '2/1 2 '),
    ('order: one.rate %side=a 1 < 2 < 4', {('a', '1'): runs(1), ('a', '2'): runs(2), ('a', '4'): runs(1.5)}, 'does not hold', '4/2 0.75'),
    ('order: one.rate, along: n', {('a', '1'): runs(1), ('a', '2'): runs(2), ('a', '4'): runs(4)}, 'holds', 'side a 2/1 2 '),
    ('order: one.rate, along: n', {('a', '1'): runs(4), ('a', '2'): runs(2)}, 'does not hold', ''),
    ('slope: one.rate, along: n, above: .9, below: 1.1', {('a', str(n)): runs(3 * n * f) for n, f in ((1, 1), (2, 1.001), (4, 1), (8, 1))}, 'holds', 'side a 1'),
    ('slope: one.rate, along: n, above: 1', {('a', '1'): runs(1), ('a', '2'): runs(2)}, 'not testable', 'needs at least 3'),
    ('knee: one.rate, along: n, at_most: 4', {('a', str(n)): runs(min(n, 4)) for n in (1, 2, 4, 8)}, 'holds', r'n 8/4 1 \['),
    ('knee: one.rate, along: n, at_most: 4', {('a', str(n)): runs(n) for n in (1, 2, 4, 8)}, 'does not hold', r'n 8/4 2 \['),
    ('knee: one.rate, along: n, at_most: 8', {('a', str(n)): runs(min(n, 2)) for n in (1, 2, 4)}, 'not testable', 'side a knee at 8: of n 1, 2, 4: a point at 8 and one above are needed'),
    ('variation: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): [100 + 5 * (v - 100) for v in runs(100)]}, 'holds', r'n 1 b/a 5\.'),
    ('variation: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): runs(7)}, 'not testable', r'b/a 1 \[0\.6.*straddles'),
    ('variation: one.rate b / a, above: 1', {('a', '1'): runs(1), ('b', '1'): [1, 2]}, 'not testable', '2 runs: no spread, 3 are needed'),
    ('variation: one.rate b / a, above: 1', {('a', '1'): runs(1)}, 'not printed', ''),
    ('ratio: one.rate b / a, rule: most, above: 1', {(side, n): runs(level) for n, level in (('1', 2), ('2', 3), ('4', .5)) for side, level in (('a', 1), ('b', level))}, 'holds', r'\(2 of 3\)'),
    ('ratio: one.rate b / a, rule: most, above: 1', {(side, n): runs(level) for n, level in (('1', 2), ('2', .3), ('4', .5)) for side, level in (('a', 1), ('b', level))}, 'does not hold', r'\(2 of 3\)'),
    ('ratio: one.rate b / a, rule: general, at_least: 1.9, at_most: 2.1', {(side, n): runs(level) for n, level in (('1', 4), ('2', 1)) for side, level in (('a', 1), ('b', level))}, 'holds', r'geometric mean of 2 2 \['),
    ('ratio: one.rate %side=a 4 / others, above: 1', {('a', '1'): runs(1), ('a', '2'): runs(2), ('a', '4'): runs(3)}, 'holds', '95 % for all 2 at once'),
    ('ratio: one.rate %side=a 1 / others, above: 1', {('a', '1'): runs(1), ('a', '2'): runs(2)}, 'does not hold', '1/2 0.5'),
    ('value: one.rate %side=a, at_least: 95', {('a', '1'): runs(100)}, 'holds', r'n 1 100.0 \['), ('value: one.rate %side=a, at_least: 950', {('a', '1'): runs(100)}, 'does not hold', r'\(x\)'),
    ('ratio: "one.rate %n=1,2 b / a", above: 1', {('a', '1'): runs(1), ('b', '1'): runs(2)}, 'holds', 'of n 1 only, not of 2'),
    ('count: one.rate, at_most: 0', {('a', '1'): [0, 0, 0]}, 'holds', r'0, exact \(in 3 runs\)'), ('count: one.rate, at_most: 0', {('a', '1'): [0, 1, 0]}, 'does not hold', r'1, exact \(in 3')])
def test_each_function_of_cells_has_its_word(statement, values, word, said):
    found, = analysed(f'{{id: f, says: s, where: p, {statement}}}', values).findings
    assert found.published == word and re.search(said, found.why_published), found


def test_a_finding_with_one_part_undecided_does_not_hold(site):
    """Code X is twice as fast on b, code Y as fast: no interval of Y is above 1."""
    text = STUDY.replace('one.rate %code=X b / a', 'one.rate b / a')
    ratio = {('a', 'X'): 1, ('b', 'X'): 2, ('a', 'Y'): 1, ('b', 'Y'): 1.001}
    trial(site, text, HEAD + ''.join(ROW.replace('a,X,1,2,', f'{side},{code},{run},{value},') for (side, code), level in ratio.items()
                                     for run, value in enumerate(runs(level), 1)))
    finding, = json.loads(parity('study', 'compare', 'trial', '--json').stdout)['findings']
    assert finding['published'] == 'not testable' and 'code Y b/a 1.001' in finding['why_published'] and '(1 of 2)' in finding['why_published'], finding


def test_findings_that_fail_on_their_own_figures_come_first_and_a_number_can_be_one():
    found = analysed('''{id: good, says: s, where: p, ratio: one.rate b / a, above: 1}, {id: bad, says: s, where: p, ratio: twice, below: 1}''',
                     {('a', '1'): runs(1), ('b', '1'): runs(2)}, "numbers: [{name: twice, let: {x: one.rate %side=b}, formula: sum(2 * x)}]")
    assert [(f.id, f.published) for f in found.findings] == [('bad', 'does not hold'), ('good', 'holds')]
    twice, = found.numbers
    assert (twice.name, twice.value) == ('twice', pytest.approx(4.0, rel=.01)) and twice.low < twice.value < twice.high


def test_sentences_that_fail_on_the_figures_of_their_own_document_are_found():
    printed = json.loads(parity('study', 'compare', 'jungels2012', '--json').stdout)
    words = {f['id']: f['published'] for f in printed['findings']}
    assert {id for id, word in words.items() if word == 'does not hold'} == {'ep-nearly-doubles', 'lu-thousand', 'large-copy-any', 'large-copy-similarly', 'large-copy-nfs-parallel',
                                                                               'small-copy-nfs-slowest'}
    assert words['hpl-loses'] == 'holds' and words['writes-never-fail'] == 'not printed' and words['is-varies-more'] == 'not testable'
    overwriting = next(f for f in printed['findings'] if f['id'] == 'overwriting-slower')
    assert overwriting['published'] == 'not testable' and '1.925' in overwriting['why_published'], 'on the virtual side it is less than twice'
    numbers = {n['name']: n['value'] for n in printed['numbers']}
    assert numbers['npb_speed'] == pytest.approx(0.748423, rel=1e-5) and printed['means'] == []
    fits = {f['name']: f for f in printed['fits']}
    assert len(fits) == 17 and fits['small_copy.seconds %side=physical %filesystem=NFS']['b'] == pytest.approx(0.9019193)
    assert {f['reason'] for f in fits.values()} == {'few points'}


@pytest.mark.parametrize('experiment, said', [('metrics: {rate: []}', 'nothing here measures it'), ('check: C, metrics: {rate: [r]}', 'not measured')])
def test_a_finding_that_no_case_was_planned_for_says_why(experiment, said):
    found = analysed('{id: f, says: s, where: p, ratio: one.rate b / a, above: 1}', {('a', '1'): runs(1), ('b', '1'): runs(2)}, experiment=experiment, here=[]).findings[0]
    assert (found.published, found.here, found.why_here) == ('holds', 'not testable', said)


def test_the_numbers_of_tessera_follow_from_what_it_prints():
    printed = json.loads(parity('study', 'compare', 'tessera', '--json').stdout)
    numbers = {n['name']: n for n in printed['numbers']}
    value = {name: n['value'] for name, n in numbers.items()}
    assert value['t_comp %kernel=LU %ranks=8'] == pytest.approx(934.971 / 8)
    for kernel, mflop, a0 in (('BT', 168275.6, 1859.514), ('EP', 536.8, 154.556), ('LU', 119298.7, 934.971), ('MG', 3889.3, 46.212)):
        assert value[f'mflops_a_processor %kernel={kernel}'] == pytest.approx(mflop / a0)
    flagged = numbers['wall_over_fit %kernel=EP %network=Ethernet %ranks=32']
    assert flagged['value'] == pytest.approx(3.452 / (154.556 / 32)) and 'below_own_fit' in flagged['note']
    ethernet, myrinet = (408 * (14.25 + 24.54) + 48 * (30.57 + 953.30)), (384 * (5.43 + 3.38) + 72 * (30.20 + 210.58))
    assert value['comm_ethernet_over_myrinet'] == pytest.approx(ethernet / myrinet)
    in_print = {(n['name'], n['published']) for n in printed['numbers'] if n['name'].startswith('lu_') and n['published']}
    assert len(in_print) == 6 and all(value[name] == pytest.approx(p, rel=0.01) for name, p in in_print)
    assert [value[f'group_size %network={network} %group={group}'] for network in ('Myrinet', 'Ethernet') for group in (1, 2)] == [384, 72, 408, 48]
    assert {f['name']: f['a'] for f in printed['fits']}['kernels.computation %kernel=MG'] == 46.212
    table = parity('study', 'compare', 'tessera').stdout
    assert all(f' {text} ' in table for text in ('6.23 ms', '166.20 s', '8 ms', '1859.514 /')) and '6230' not in table
    assert 'each=2: 3.452 s: below_own_fit' in parity('study', 'show', 'tessera').stdout
    words = {f['id']: f['published'] for f in printed['findings']}
    assert words['weather-five-times'] == words['weather-computation'] == 'not testable' and words['lu-other-way'] == words['ep-computes-longer'] == 'holds'
    assert words['ep-not-communication'] == 'does not hold' and value['ep_difference_by_communication'] == pytest.approx(1.2 / 1.332)


def test_the_local_rates_of_raicu_follow_from_what_is_extrapolated():
    printed = json.loads(parity('study', 'compare', 'raicu', '--json').stdout)
    numbers = {n['name']: n['value'] for n in printed['numbers']}
    assert numbers == numbers | {
        'local.rate_one_node %mode=read': pytest.approx(76 / 64), 'local.rate_one_node %mode=read-write': pytest.approx(25 / 64),
        'local.ns_per_byte %mode=read': pytest.approx(8 * 64 / 76), 'local.nodes_to_match_shared %mode=read': pytest.approx(3.4 * 64 / 76),
        'local.extrapolated %mode=read %nodes=64': pytest.approx(76)}
    assert {(f['points'], f['reason']) for f in printed['fits']} == {(0, 'not printed')}
    words = {f['id']: f['published'] for f in printed['findings']}
    assert {words.pop(id) for id in ('read-faster', 'local-passes-shared', 'small-files-almost-plateau')} == {'holds'}
    assert {words.pop(id) for id in ('local-twice', 'local-above-shared')} == {'not testable'}, 'the sentence is the only place of its figures'
    assert {*words.values()} == {'not printed'} and numbers['plateau.rate_100KB_over_rate'] == pytest.approx(3 / 3.4)


def test_a_study_of_file_systems_is_compared_with_its_own_figures():
    raicu = published.read('raicu')
    cells = [figures.StudyCell('files', 'rate', {'filesystem': side, 'mode': 'read', 'file': size, 'nodes': str(n)}, 'Mb/s', 'higher', apart(runs(rate * n)))
             for side, rate in (('shared', 100), ('local', 200)) for size in ('1B', '10KB', '1MB') for n in (1, 2, 4)]
    found = findings.analysed(raicu, [], cells)
    numbers = {n.name: n.value for n in found.numbers if n.of == 'here'}
    assert numbers['local.rate_one_node %mode=read'] == pytest.approx(.2, rel=.01) and numbers['local.nodes_to_match_shared %mode=read'] == pytest.approx(2)
    assert numbers['local.measured %mode=read %nodes=4'] == pytest.approx(numbers['local.extrapolated %mode=read %nodes=4'])
    by = {(f.name, f.along): f for f in found.fits if f.of == 'here'}
    assert by['files.rate %filesystem=local %mode=read %file=1B', 'nodes'].b == pytest.approx(1) and len(by) == 12
    assert by['files.rate %filesystem=shared %mode=read %nodes=2', 'file'] == by['files.rate %filesystem=shared %mode=read %nodes=2', 'file'].model_copy(update={'b': pytest.approx(0, abs=1e-9), 'reason': 'few points'})
    words = {f.id: (f.here, f.why_here) for f in found.findings}
    assert words['local-twice'][0] == words['local-is-linear'][0] == 'holds' and words['large-files-saturate'] == (
        'not testable', 'filesystem shared mode read file 1MB knee at 8: of nodes 1, 2, 4: a point at 8 and one above are needed')


def test_the_numbers_of_murphy2007_follow_from_its_tables_and_slips_are_named():
    printed = json.loads(parity('study', 'compare', 'murphy2007', '--json').stdout)
    numbers = {n['name']: n for n in printed['numbers']}
    value = {name: n['value'] for name, n in numbers.items()}
    frame = {mtu: (mtu + 26) * 8 / 1000 for mtu in (1500, 9000)}
    for mtu in frame:
        assert value[f'tcp_path.frame_us %mtu={mtu} %switch=no'] == pytest.approx(frame[mtu])
        assert value[f'tcp_path.rtt_us %mtu={mtu} %switch=yes'] == pytest.approx(2 * (frame[mtu] + .528 + 6.1 * 5.48e-3))
        assert value[f'tcp_path.bdp_bytes %mtu={mtu} %switch=no'] == pytest.approx(125 * (frame[mtu] + .528 + 2 * 6.1 * 5.48e-3))
        assert value[f'tcp_path.window_segments %mtu={mtu} %switch=yes'] == 3
    assert value['tcp_path.queue_us %mtu=1500 %switch=yes'] == pytest.approx(3 * (12.208 - .528) - 25.539, abs=1e-3)
    slips = {name: re.search('in print: (\\w+)', n['note'])[1] for name, n in numbers.items() if 'in print: ' in n['note']}
    assert slips == {'tcp_path.frame_us %mtu=1500 %switch=yes': 'misprint_of_12', 'tcp_path.rtt_us %mtu=9000 %switch=no': 'truncated',
                     'tcp_path.bdp_bytes %mtu=9000 %switch=no': 'from_truncated', 'tcp_path.bdp_bytes %mtu=9000 %switch=yes': 'misprint_of_18192',
                     'tcp_path.queue_us %mtu=1500 %switch=yes': 'does_not_follow_from_eq13', 'tcp_path.queue_jumbo_over_standard': 'uses_dq_max_standard',
                     'little.advertised_rtt_us': 'below_the_idle_ping'}
    assert all(n['value'] == pytest.approx(n['published'], rel=1e-3) for name, n in numbers.items()
               if n['published'] and name not in slips and name not in ('little.rtt_us', 'tcp_path.stop_and_wait_waste %mtu=9000 %switch=no'))
    assert value['little.rtt_us'] == pytest.approx(55745 / 117.640771) and value['throughput_over_ceiling'] == pytest.approx(.99962, abs=1e-5)
    rows = {tuple(r[a] for a in ('mode', 'GiB', 'direction', 'pair')): float(r['value']) for r in csv.DictReader((TOP / 'studies' / 'murphy2007' / 'published.csv').open())
            if r['experiment'] == 'transfer'}
    ratios = [math.log(rows['alone', '20', 'outbound', str(p)] / rows['alone', '20', 'inbound', str(p)]) for p in range(1, 11)]
    out = numbers['transfer.out_over_in %GiB=20']
    assert out['value'] == pytest.approx(math.exp(fmean(ratios)), rel=1e-5) and 0 < out['high'] - out['low'] < 1e-4 and 'printed once: rounding only' in out['note']
    assert value['transfer.at_once_over_alone %GiB=1.5 %direction=outbound'] == pytest.approx(1.01400, abs=1e-5)
    words = {f['id']: f['published'] for f in printed['findings']}
    assert {id for id, word in words.items() if word == 'does not hold'} == {'two-segments-standard', 'jumbo-over-standard', 'average-unacked', 'maxima-outbound'}
    assert value['transfer.over_the_rest_outbound %mode=at-once %pair=1'] == pytest.approx(32.79 / 33.06) and value['transfer.deviation %mode=alone %GiB=1.5 %direction=inbound'] == pytest.approx(stdev(
        [rows['alone', '1.5', 'inbound', str(p)] for p in range(1, 11)]))
    assert words['between-288-and-380'] == words['flamejets-below-range'] == 'holds' and value['transfer.rate %direction=outbound'] == pytest.approx(287.936, abs=1e-3)
    assert 'in print 95.35' in (text := parity('study', 'compare', 'murphy2007').stdout) and 'in print 18192.35' in text
    assert 'needs each below the next (print)' in parity('study', 'show', 'liu2017').stdout
    assert words['disk-is-bottleneck'] == 'not testable' and words['out-slower-large'] == words['out-not-slower-small'] == 'holds'


def test_a_case_of_several_experiments_takes_its_time_once():
    murphy = published.read('murphy2007')
    one, other, = [next(c for c in murphy.cases(None, True) if c.experiment == name) for name in ('traced', 'throughput')]
    assert one.runs == other.runs
    ready = [conditions.Planned(each, '', 20.0, False) for each in (one, other)]
    assert conditions.seconds([campaign.Step('alone', 1, [one, other])], ready) == costs.SESSION + 20
    assert 'quick: 2 cases, 75 s' in '\n'.join(map(str, wording.listed('murphy2007', murphy, {'quick': ready})))


def test_lists_of_a_number_count_the_points_that_all_have():
    values = {('a', '1'): [2.0], ('a', '2'): [3.0], ('b', '2'): [6.0], ('b', '4'): [9.0]}
    found = analysed('', values, "numbers: [{name: n, let: {x: 'one.rate %side=a', y: 'one.rate %side=b'}, formula: geometric_mean(y / x)}]").numbers
    assert [(n.value, n.low) for n in found if n.name == 'n'] == [(pytest.approx(2), pytest.approx(1.95, rel=1e-3))]
    judged, = analysed('{id: f, says: s, where: p, ratio: n %n=2, at_least: .9, at_most: 1.1}', values, """numbers: [{name: n, over: {n: [2, 4]},
      let: {x: 'one.rate %side=b %n={n}'}, formula: x / 6}]""").findings
    assert (judged.published, judged.why_published) == ('holds', 'n 2 1 [0.992, 1.008], printed once: rounding only')


def test_the_figures_of_liu2017_are_used_as_far_as_they_go():
    printed = json.loads(parity('study', 'compare', 'liu2017', '--json').stdout)
    numbers, fits = ({n['name']: n for n in printed[key]} for key in ('numbers', 'fits'))
    report = [r for r in csv.DictReader((TOP / 'studies' / 'liu2017' / 'published.csv').open()) if r['experiment'] == 'iozone' and not r['flag']]
    writer, rewriter = ({(r['file'], r['record']): float(r['value']) for r in report if r['report'] == which} for which in ('writer', 're-writer'))
    quotients = [rewriter[size] / rate for size, rate in writer.items()]
    assert len(quotients) == 126 and numbers['iozone.rewriter_over_writer']['value'] == pytest.approx(geometric_mean(quotients))
    assert numbers['udp_over_tcp %path=2_nodes']['value'] == pytest.approx(geometric_mean([80.21079625 / 98.19761525, 109.2866996 / 83.68993172, 94.79908392 / 74.25600443, 68.13947354 / 50.52308312]))
    assert fits['ops.rate %unit=GFLOPS']['b'] < 0 > fits['ops.rate %unit=GIOPS']['b']
    rows = {(r['benchmark'], r['metric']): r for r in printed['rows']}
    ratio = rows['memory_update %threads=2 %span=20MB %block=1KB', 'rate']
    assert ratio['baseline'] is None and ratio['ratio'] == pytest.approx(8.95e7 / 9.06e6), 'no figure that cannot be in MB/s'
    assert rows['hpl', 'gflops']['reason'] == '0.1179 Gflop/s, flagged N_35; 0.1399 Gflop/s, flagged N_35' and rows['network %protocol=TCP %path=2_nodes %at_once=1', 'rate']['baseline'] == 98.19761525
    words = {f['id']: f['published'] for f in printed['findings']}
    assert {id for id, word in words.items() if word != 'holds'} == {'disk-latency-falls', 'disk-rises', 'disk-average-latency', 'stream-average', 'few-dips', 'iozone-average', 'rewriter-above-everywhere'}
    assert words['few-dips'] == 'not printed' and words['disk-rises'] == 'not testable' and numbers['stream.mean']['value'] == pytest.approx(13241.225)
    assert '(7 of 8)' in next(f['why_published'] for f in printed['findings'] if f['id'] == 'udp-above-tcp')


def test_what_was_measured_is_divided_into_groups_of_each_side():
    tessera = published.read('tessera')
    cells = [figures.StudyCell('transforms', metric, {'network': network, 'grid': '128x64', 'levels': str(level), 'ranks': '4'}, 's', 'lower', [] if level == 9 else
                  [Value(times * (100 if level > 6 else 1) * (1 + level / 100))])
             for network in ('Myrinet', 'Ethernet') for level in (1, 2, 3, 7, 8, 9) for metric, times in (('computation', 1), ('transposition', 2))]
    value = {n.name.replace(' %network=Ethernet', ''): n.value for n in findings.analysed(tessera, [], cells).numbers if 'Ethernet' in n.name and n.of == 'here'}
    assert (value['group_size %group=1'], value['group_size %group=2']) == (3, 2)
    assert value['group_communication %group=1'] == pytest.approx(2.04) and value['group_computation %group=2'] == pytest.approx(107.5)
    assert not [n for n in findings.analysed(tessera, [], cells[:2]).numbers if n.of == 'here' and n.name.startswith('group_')]


MEASURED = STUDY.replace('metrics: {rate: [rate]}', '''metrics: {rate: [hpl, latency]}, check: Toy, parameters: {code: '{code}'}, set: {nodes: 2}, quick: {axes: {code: [X]}}''') \
    .replace('values: [a, b]', 'values: {a: physical, b: virtual}')


@pytest.fixture
def kept(results):
    """The sessions of the study trial."""
    with paths.of_study('trial'):
        return Stored()


@pytest.fixture
def answered(monkeypatch):
    """Toy answers what its cases can run; `real` asks the checks themselves."""
    monkeypatch.setattr(planning, 'of_command', lambda _, asked: loaded(asked))


@pytest.fixture
def measured(site, stored, kept, answered):
    """Two campaigns of a trial study, full and quick: a session a side and repeat; and a night beside them."""
    trial(site, MEASURED, HEAD + ''.join(ROW.replace(',a,X,1,2', f',{side},X,{run},{value}') for side, value in (('a', 200), ('b', 300)) for run in (1, 2, 3)))
    for mode, level in (('full', 100.0), ('quick', 10.0)):
        for repeat in (1, 2, 3):
            for side, factor in (('a', 1.0), ('b', 1.5)):
                kept.add(case(level * factor + repeat / 10, 'Toy', case='Toy %code=X %nodes=2', latency=level * factor), study='trial', mode=mode, run=mode, side=side, repeat=str(repeat),
                           uuid=f'{mode[0]}{side}{repeat}-0')
    stored.add(case(1.0), uuid='night-0')


def test_a_bundle_has_each_run_and_sums_that_hold(measured, results):
    done = parity('study', 'bundle', 'trial')
    assert done.returncode == 0 and done.stdout.strip().endswith('trial.zip'), done.stderr
    with zipfile.ZipFile(done.stdout.strip()) as archive:
        contents = {name.removeprefix('trial/'): archive.read(name) for name in archive.namelist()}
    assert {'study.yaml', 'published.csv', 'trial.html', 'trial.json', 'runs.csv', 'sessions.json', 'SHA256SUMS'} <= {*contents}
    for line in contents['SHA256SUMS'].decode().splitlines():
        digest, name = line.split('  ')
        assert hashlib.sha256(contents[name]).hexdigest() == digest
    header, *_ = csv.reader(io.StringIO(contents['runs.csv'].decode()))
    assert len({*header}) == len(header)
    runs = list(csv.DictReader(io.StringIO(contents['runs.csv'].decode())))
    assert {run['side'] for run in runs} == {'a', 'b'} and {run['repeat'] for run in runs} == {'1', '2', '3'} and all(run['session'] and run['value'] for run in runs)


def test_a_campaign_is_compared_and_full_and_quick_are_never_joined(measured):
    found = json.loads(parity('study', 'compare', 'trial', 'last', '--json').stdout)
    assert found['here']['mode'] == 'quick' and len(found['here']['sessions']) == 6
    rows = {r['metric']: r for r in found['here']['rows']}
    hpl = rows['rate (hpl)']
    assert hpl['n'] == 3 and hpl['ratio'] == pytest.approx(1.5, rel=.01) and hpl['baseline'] < 11
    finding, = found['findings']
    assert (finding['published'], finding['here']) == ('not testable', 'holds') and 'figure hpl' in finding['why_here'] and 'figure latency' in finding['why_here']
    full = json.loads(parity('study', 'compare', 'trial', 'fa1', '--json').stdout)
    assert full['here']['mode'] == 'full' and full['here']['rows'][0]['baseline'] > 99
    text = parity('study', 'compare', 'trial', 'last').stdout
    assert 'in print: not testable' in text and '  here: holds' in text and 'one %code=X: rate (latency)' in text and ' like' in text


def test_a_check_that_was_edited_while_its_study_ran_is_named(measured, kept):
    assert json.loads(parity('study', 'compare', 'trial', 'last', '--json').stdout)['here']['labels'] == []
    for repeat, version in (('1', 'old'), ('2', 'new')):
        kept.add(case(1.0, 'Toy', case='Toy %code=X %nodes=2', parity={'check': version}), study='trial', mode='full', run='edited', side='a', repeat=repeat)
    title, *_ = parity('study', 'compare', 'trial', 'last').stdout.splitlines()
    assert 'changed while it ran: Toy: check' in title


ONE = STUDY_HEAD + '''\
  one: {what: w, where: p, subsystem: compute, axes: {threads: all}, metrics: {rate: [hpl], table: [hpl], cached: [hpl], time: [latency], odd: [hpl]}, check: Toy, set: {threads: '{threads}'}}
findings:
  - {id: f, says: s, where: p, ratio: one.rate 2 / 1, above: 1}
numbers: [{name: n, let: {x: one.rate %threads=1}, formula: x}]
'''
ONES = '''experiment,metric,unit,better,threads,run,value,flag,use,where
one,rate,MB/s,higher,1,1,10,,,p
one,rate,MB/s,higher,2,1,20,,,p
one,table,MB/s,higher,1,1,5e9,,ratio_only,p
one,table,MB/s,higher,2,1,6e9,,ratio_only,p
one,cached,MB/s,higher,1,1,900,,page_cache,p
one,time,s,lower,1,1,3,,derived,p
one,odd,MB/s,higher,1,1,7,N_35,,p
'''


@pytest.fixture
def one_side(site, stored, kept, answered):
    trial(site, ONE, ONES)
    for run, sides in (('alone', ('node',)), ('both', ('node', 'other'))):
        for repeat in '123':
            for side in sides:
                for threads in (1, 2):
                    rate = (100.0 if side == 'node' else 300.0) * threads + int(repeat)
                    kept.add(case(rate, case=f'Toy %threads={threads}', latency=1 / rate), study='trial', mode='full', run=run, side=side, repeat=repeat, uuid=f'{run}{side}{threads}{repeat}-0')


def test_a_study_of_one_side_has_each_figure_in_print_beside_the_measured_one(one_side):
    found = json.loads(parity('study', 'compare', 'trial', 'alone', '--json').stdout)
    rows, ours = ({(r['benchmark'], r['metric']): r for r in of} for of in (found['rows'], found['here']['rows']))
    measured = ours['one %threads=1', 'rate']
    assert measured['baseline'] == pytest.approx(102, rel=1e-4) and measured['ratio'] is None and measured['low'] < 102 < measured['high'] and measured['n'] == 3
    table, here_too = rows['one %threads=2', 'table'], ours['one %threads=2', 'table']
    assert (table['baseline'], table['ratio']) == (None, pytest.approx(1.2)) and here_too['ratio'] == pytest.approx(202 / 102, rel=1e-4)
    assert rows['one %threads=1', 'odd']['reason'] == '7 MB/s, flagged N_35'
    assert {(n['of'], round(n['value'], 2)) for n in found['numbers']} == {('published', 10), ('here', 102)} and found['findings'][0]['here'] == 'holds'
    text = parity('study', 'compare', 'trial', 'alone').stdout
    lines = [re.split('  +', line.strip()) for line in text.splitlines()]
    divided = next(line for line in lines if line[0] == 'table, of the first')
    assert divided[1] == '1 | 102.0 Gflop/s, 1' and re.fullmatch(r'1\.2 \| 202 Gflop/s, 1\.980 \[1\.95\d, 2\.0\d+\]', divided[2]), divided
    assert next(line for line in lines if line[0] == 'time, s')[1] == '3 (derived) | 9.80e-9 [9.57e-9, 1.00e-8]'
    assert next(line for line in lines if line[0].startswith('cached') and '900' in line[1])[1].count('|') == 0, 'beside a cached figure stands a cached one only'
    assert next(line for line in lines if line[0] == 'odd')[1] == '7 MB/s, flagged N_35 | 102.0 Gflop/s [99.5, 104.5]'
    assert text.index('f: claim of ours') < text.index('one; higher is better: rate'), 'findings come first'
    printed = parity('study', 'compare', 'trial').stdout
    assert re.search(r'rate, MB/s +10 +20\n', printed) and '6e+09' not in printed and 'trial, as published\n' in printed


def test_two_partitions_of_a_study_of_one_side_are_compared(one_side):
    found = json.loads(parity('study', 'compare', 'trial', 'both', '--json').stdout)
    row = next(r for r in found['here']['rows'] if (r['benchmark'], r['metric']) == ('one %threads=1', 'rate'))
    assert (row['baseline'], row['candidate']) == pytest.approx((102, 302), rel=1e-4) and row['ratio'] == pytest.approx(302 / 102, rel=.01)
    assert {round(n['value'], 2) for n in found['numbers'] if n['name'] == 'n'} == {10, 102} and '(2 of' not in found['findings'][0]['why_here']
    assert '(other / node)' in parity('study', 'compare', 'trial', 'both').stdout and parity('study', 'report', 'trial').returncode == 0


def test_what_one_side_leaves_out_has_its_reason_beside_the_other(one_side, kept):
    for side in ('node', 'other'):
        lacking = {'latency': 'absent', 'parity': {'left_out': {'latency': 'no direct I/O'}}} if side == 'other' else {}
        kept.add(case(5.0, case='Toy %threads=1', **lacking), study='trial', mode='full', run='lacking', side=side, repeat='1', uuid=f'lacking{side}-0')
    reasons = {r['reason'] for r in json.loads(parity('study', 'compare', 'trial', 'lacking', '--json').stdout)['here']['rows'] if r['candidate'] is None and r['baseline']}
    assert reasons == {'not measured on other: skipped: no direct I/O'}


@pytest.mark.parametrize('words, code, said', [
    (('trial', 'night'), 2, "no session of the study trial starts with 'night'; valid: last, "),
    (('triall', 'last'), 2, "unknown study 'triall'; did you mean 'trial'")])
def test_a_session_of_another_study_is_refused(measured, words, code, said):
    done = parity('study', 'compare', *words)
    assert done.returncode == code and said in done.stderr


def test_a_study_that_was_never_measured_says_how_to_do_it(site, stored):
    trial(site, MEASURED)
    assert parity('study', 'compare', 'trial', 'beef').returncode == 3
    done = parity('study', 'compare', 'trial', 'last')
    assert done.returncode == 3 and 'run: parity study run trial --system NAME' in done.stderr


def loaded(asked, answers=lambda case: {}, problems=(), **changed):
    """The plan of a check Toy, whose cases only an environment of `physical` can run."""
    metrics = [{'name': name, 'unit': 's', 'better': 'lower'} for name in ('hpl', 'latency')]
    check = {'check': 'Toy', 'file': 'toy.py', 'needs': ['hpcc'], 'parameters': {'code': ['X', 'Y']}, 'metrics': metrics, **changed}
    said = [{'reason': 'no environment of virtual offers hpcc' if case.partition == 'virtual' else '', 'metrics': ['hpl', 'latency'], **answers(case)} for case in asked]
    return Plan(system='onebox', cases=[planned(system='onebox')], checks=[check], problems=list(problems), answers=said)


@pytest.fixture
def onebox(site, stored, monkeypatch):
    trial(site, MEASURED)
    (site.parents[1] / 'onebox').mkdir()
    (site.parents[1] / 'onebox' / 'system.yaml').write_text((TOP / 'systems' / 'onebox' / 'system.yaml').read_text())
    return lambda **changed: monkeypatch.setattr(planning, 'of_command', lambda _, asked: loaded(asked, **changed))


@pytest.fixture
def real(site, monkeypatch):
    """The checks and studies of this checkout, and the partitions of onebox with other nodes, cores and memory: {name: extras}."""
    def system(**partitions):
        for name in ('checks', 'studies', 'reframe'):
            (site.parents[2] / name).symlink_to(TOP / name)
        onebox = yaml.safe_load((TOP / 'systems' / 'onebox' / 'system.yaml').read_text())
        physical = onebox['partitions'][0]
        onebox['partitions'] = [{**physical, 'name': name, 'extras': {**physical['extras'], **extras}} for name, extras in partitions.items()]
        (site.parents[1] / 'onebox').mkdir()
        (site.parents[1] / 'onebox' / 'system.yaml').write_text(yaml.safe_dump(onebox))
    monkeypatch.delenv('RFM_CONFIG_FILES', raising=False)
    return system


def test_the_checks_themselves_say_what_a_partition_cannot_run(real):
    real(one={'nodes': 1, 'cores': 2, 'memory_bytes': 6 * 10**9}, two={'nodes': 2, 'cores': 1, 'memory_bytes': 7 * 10**9}, three={'nodes': 3, 'cores': 1, 'memory_bytes': 10**6})
    if not all(map(shutil.which, ('cc', 'mpirun'))):
        pytest.skip('needs a C compiler and an MPI')
    cases = [each for name in ('murphy2007', 'liu2017', 'tessera') for quick in (True, False) for each in published.read(name).cases(None, quick) if quick or each.experiment == 'transfer']
    asked = [each.model_copy(update={'partition': part}) for each in cases for part in ('one', 'two', 'three')]
    said = {}
    for each, answer in zip(asked, planning.of_cases(asked, 'onebox').answers, strict=True):
        said.setdefault((each.partition, answer.reason), set()).add((each.experiment, *each.point.values()))
    assert {('ops', '2'), ('iozone', 'fsync')} <= said['one', '']
    elsewhere = cases[0].model_copy(update={'environ': 'spack', 'partition': 'one'})
    assert planning.of_cases([elsewhere], 'onebox').answers[0].reason.startswith('no environment spack of one offers ')
    assert {('ops', '4'), ('memory_random', '4', '20MB')} <= said['one', '4 threads: a node has 2 cores']
    for part, needed, experiment in (('one', 2, 'transfer'), ('two', 4, 'within_group')):
        assert experiment in {name for name, *_ in said[part, f'nodes: needs {needed}, onebox:{part} has {needed // 2}, or does not state `nodes`']}
    assert {place[2] for place in said['two', 'one rank: nobody to send to'] if place[0] == 'messages'} == {'within'}
    beyond = {name for (part, reason), places in said.items() if part == 'three' and 'must be at most 977 KiB, the memory of a node of three' in reason for name, *_ in places}
    assert 'disk_random' in beyond, 'blocks of 1 MiB in memory of 1 MB'
    room = {reason for (part, reason), places in said.items() if part == 'two' for name, *_ in places if name == 'transfer' and reason.startswith('io_budget: case')}
    assert {re.search('needs at least (.*), has (.*);', reason)[1] for reason in room} == {'40 GiB', '60 GiB'}


@needs_cc
def test_what_could_not_be_measured_has_the_checks_reason_beside_the_figures(site, stored, kept, real):
    real(physical={'nodes': 1, 'cores': 2})
    with paths.of_study('liu2017'):
        Stored().add(case(1.0, case='Ops %threads=all %thread_count=2', system='onebox', partition='physical'), system='onebox', study='liu2017', mode='quick', run='1', side='node', repeat='1')
    rows = json.loads(parity('study', 'compare', 'liu2017', 'last', '--json').stdout)['here']['rows']
    assert '4 threads: a node has 2 cores' in {row['reason'] for row in rows if row['benchmark'].startswith('ops ')}


@pytest.mark.parametrize('runs, deviations', [(3, [1.0]), (2, [])])
def test_a_printed_standard_deviation_stands_beside_that_of_the_repeats(site, stored, kept, answered, runs, deviations):
    trial(site, MEASURED.replace('{rate: [hpl, latency]}', '{rate: [hpl], rate_sd: [hpl]}'), HEAD + ROW)
    for n in range(1, runs + 1):
        kept.add(case(float(n), 'Toy', case='Toy %code=X %nodes=2'), study='trial', mode='full', run='full', side='a', repeat=str(n), uuid=f'{n}-0')
    rows = json.loads(parity('study', 'compare', 'trial', 'last', '--json').stdout)['here']['rows']
    assert [r['baseline'] for r in rows if r['metric'] == 'rate_sd'] == deviations and rows[0]['n_baseline'] == runs


def test_what_a_system_can_run_and_how_long_it_takes(onebox, kept):
    onebox()
    for seconds, uuid, began in ((4.0, 'x-0', 0), (6.0, 'y-0', 130), (5.0, 'z-0', 9000)):
        kept.add(case(1.0, case='Toy %code=X %nodes=2', system='onebox', partition='physical', parity={'job': {'submitted': 1.0, 'waited': 0.0, 'ran': seconds}}), uuid=uuid, system='onebox', study='trial', mode='full', side='a', run='one', time_start_unix=began, time_end_unix=began + 100)
    read = published.read('trial')
    found = {(p.case.point['side'], p.case.point['code']): p for p in conditions.of_one(conditions.wanted(read, 'trial', 'onebox'))['full']}
    assert not found['a', 'X'].reason and found['b', 'X'].reason == 'no environment of virtual offers hpcc'
    assert found['a', 'X'].case.partition == 'physical' and found['a', 'X'].case.variables == {'nodes': '2'} and found['a', 'X'].case.parameters == {'code': 'X'}
    assert (found['a', 'X'].seconds, found['a', 'X'].guessed) == (100.0, False), 'a session took 100 s: 95 beside the case'
    assert (found['a', 'Y'].seconds, found['a', 'Y'].guessed) == (155.0, True)
    assert found['a', 'Y'].session == 30, 'from one session to the next; before the third one is a pause'
    assert [p.case.point['code'] for p in conditions.of_one(conditions.wanted(read, 'trial', 'onebox'))['quick']] == ['X', 'X']
    turned = conditions.of_one(conditions.wanted(read, 'trial', 'onebox', ['virtual', 'physical']))['full']
    assert {p.case.point['side']: p.case.partition for p in turned} == {'a': 'virtual', 'b': 'physical'}
    assert '  1 experiment, 1 can run, 1 measured here' in parity('study', 'list', '--system', 'onebox').stdout
    shown = parity('study', 'show', 'trial', '--system', 'onebox').stdout
    assert '2 of 4 cases not testable here: no environment of virtual offers hpcc' in shown and 'quick     code X; 3 repeats' in shown


@pytest.mark.parametrize('changed, said', [
    ({'check': 'Tod'}, "study.yaml:9: experiments.one.check: unknown check 'Toy'; did you mean 'Tod'"),
    ({'answers': lambda case: {'metrics': ['hpl']}}, "study.yaml:9: experiments.one.metrics.rate: unknown metric 'latency'; valid: hpl"),
    ({'parameters': {'code': ['X', 'Y'], 'how': ['u', 'v']}}, 'study.yaml:9: experiments.one.parameters: must name how, one of u, v'),
    ({'answers': lambda case: {'wrong': 'nodes', 'reason': "'2': must be of the form [3-9]"}}, "study.yaml:9: experiments.one.set.nodes: '2': must be of the form [3-9]"),
    ({'parameters': {}}, "study.yaml:9: experiments.one.parameters: unknown parameter 'code'"), ({'parameters': {'code': ['X']}}, "unknown value of code 'Y'")])
def test_a_check_metric_or_variable_that_is_not_there_is_named_with_its_line(onebox, changed, said):
    onebox(**changed)
    done = parity('study', 'list')
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.parametrize('quick, memory, said', [
    ('', 10**9, 'experiments.one.set.chunk'), ("set: {chunk: '2B,1GB'}, ", 10**8, 'experiments.one.quick.set.chunk'), ('', 2 * 10**9, ''), ('set: {chunk: 1GB}, ', 2 * 10**9, '')])
def test_a_size_beyond_the_memory_of_a_process_is_refused_before_anything_runs(onebox, site, quick, memory, said):
    def beyond(case):
        large = [text for text in case.variables.get('chunk', '').split(',') if {'1GB': 10**9, '2GB': 2 * 10**9}.get(text, 0) > memory]
        return {'beyond': 'chunk', 'reason': f'{large[0]!r}: must be at most the memory of a node of {case.partition}'} if large and case.partition else {}
    onebox(answers=beyond)
    folder = site.parents[2] / 'studies' / 'trial'
    (folder / 'study.yaml').write_text(MEASURED.replace('set: {nodes: 2}', "set: {nodes: 2, chunk: '2GB'}").replace('quick: {', f'quick: {{{quick}'))
    done = parity('study', 'run', 'trial', '--system', 'onebox', '--dry-run', *(['--quick'] if quick else []))
    assert done.returncode == (2 if said else 0) and (not said or f'study.yaml:9: {said}: ' in done.stderr and 'must be at most' in done.stderr and 'the memory of a node of physical' in done.stderr), done
    assert ("not testable here: '2" in parity('study', 'show', 'trial', '--system', 'onebox').stdout) == (memory < 2 * 10**9), 'a list goes on'


@pytest.mark.parametrize('second, word', [(2, 'holds'), (.5, 'does not hold')])
def test_points_that_were_measured_are_judged_and_the_others_are_named(second, word):
    of = {('a', '1'): runs(1), ('b', '1'): runs(second), ('a', '2'): runs(1), ('b', '2'): []}
    cells = [figures.StudyCell('one', 'rate', {'side': side, 'n': n}, 'x', 'higher', apart(values), reason='needs 2 nodes') for (side, n), values in of.items()]
    found = analysed('{id: f, says: s, where: p, ratio: one.rate b / a, above: 1}', {('a', '1'): runs(1)}, experiment='check: C, metrics: {rate: [r]}', here=cells).findings[0]
    assert found.here == word and found.why_here.endswith('; not measured (1 of 2): n 2 b/a: needs 2 nodes'), found


def test_an_unknown_system_or_study_names_the_nearest(onebox):
    onebox()
    for words, said in ((('list', '--system', 'onbox'), "unknown system 'onbox'; did you mean 'onebox'"), (('show', 'tral'), "did you mean 'trial'"), (('report', 'tral'), "did you mean 'trial'")):
        done = parity('study', *words)
        assert done.returncode == 2 and said in done.stderr


@pytest.mark.parametrize('partitions, said', [(['physcal', 'virtual'], "unknown partition 'physcal'; did you mean"), (['virtual', 'virtual'], 'given twice'), (['virtual'], '1 given; must be two')])
def test_wrong_partitions_are_refused(onebox, partitions, said):
    onebox()
    with pytest.raises(UsageError, match=said):
        conditions.wanted(published.read('trial'), 'trial', 'onebox', partitions)


def test_this_checkouts_own_studies_fit_its_checks():
    assert parity('study', 'list').returncode == 0


def test_the_report_of_a_study_shows_both_and_holds_no_script(measured, results):
    done = parity('study', 'report', 'trial')
    folder = results / 'report' / 'studies'
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == sorted(str(folder / f'trial{ending}') for ending in ('.html', '.csv', '-findings.csv', '.json'))
    text, rows = (folder / 'trial.html').read_text(), list(csv.DictReader((folder / 'trial.csv').open()))
    assert '<script' not in text and "default-src 'none'" in text and "script-src 'none'" in text
    assert '<h1>t</h1>' in text and 'trial, quick on local. Page of ' in text and '<b>holds</b>' in text and {r['of'] for r in rows} == {'published', 'here'}
    assert all(f'<a href="trial{ending}">' in text for ending in ('.csv', '-findings.csv', '.json'))
    assert 'is better: rate; b is better ' in text and text.count('<svg') == 3, 'one at the head; print and here have other units'
    assert text.index('<svg') < text.index('<h2>') and '<b>Here</b>: ' in text and 'parity study run trial --system ' in text and 'What --quick cut' in text
    assert json.loads((folder / 'trial.json').read_text())['here']['mode'] == 'quick'


def test_a_page_has_both_machines_and_says_where_the_document_is(measured, site):
    file = site.parents[2] / 'studies' / 'trial' / 'study.yaml'
    text, begin = file.read_text(), page.page(compared.of_study('trial', 'last'))
    assert 'No DOI or address of it is printed' in begin and re.search(r'<th scope="row">MPI</th><td data-of="in print">not printed</td>', begin)
    file.write_text(text.replace('source: ', 'link: http://a.example/1\nmachine: {processor: Pentium III, disk: of tin}\nsource: ', 1))
    found = page.page(compared.of_study('trial', 'last'))
    assert '<a href="http://a.example/1">' in found and '>Pentium III</td>' in found and '>of tin</td><td data-of="here"></td>' in found
    assert re.search(r'<th scope="row">date</th><td data-of="in print"></td><td data-of="here">20\d\d-\d\d-\d\d</td>', found) and re.search(r'ReFrame</th><td[^>]*></td><td[^>]*>\d', found)
    file.write_text(text.replace('source: ', 'link: "javascript:x"\nsource: ', 1))
    refused = parity('study', 'show', 'trial')
    assert refused.returncode == 2 and 'study.yaml:2: link' in refused.stderr, refused


def test_two_axes_of_a_page_are_rows_by_columns_and_each_figure_says_where_it_stands():
    liu = compared.of_study('liu2017')
    text, rows = page.page(liu), list(csv.DictReader(io.StringIO(page._rows(liu))))
    assert {r['where'] for r in rows if r['benchmark'].startswith('stream')} == {'STREAM'} and all(r['where'] for r in rows)
    heads = re.findall(r'<th scope="col" class="n">(.*?)</th>', text[text.index('<section id="of-disk_sequential">'):])
    assert heads[:4] == ['at_once 1', 'at_once 2', 'at_once 4', 'at_once 8']
    table = text[text.index('<section id="of-disk_sequential">'):text.index('<section id="of-disk_random">')]
    assert re.search(r'rate piece 1B, .*?MB/s', table) and table.count('<tr>') < 30
    assert 0 < text.count('<svg') < 60 and text.count('<tr') < 400, 'not a row for each of 679 figures'


def test_many_figures_of_two_sides_are_rows_by_columns_with_the_places_of_each(site, stored):
    text = STUDY.replace('  code: {', '  n: {what: w, here: h, kind: value, values: [1, 2, 3]}\n  code: {').replace('[X, Y]', '[X, Y, A, B, C, D]').replace('code: all}', 'code: all, n: all}')
    rows = ''.join(f'one,rate,s,higher,{side},{n},{code},1,{level}{n},,p. {n}\n' for side, level in (('a', 1), ('b', 2)) for n in '123' for code in 'XYABCD')
    trial(site, text, HEAD.replace('code', 'n,code') + rows)
    found = page.page(compared.of_study('trial'))
    assert re.findall(r'<th scope="col" class="n">(.*?)</th>', found) == ['code X', 'code Y', 'code A', 'code B', 'code C', 'code D']
    assert re.findall(r'<th scope="row">rate n (\d) <small>(.*?)</small></th><td class="n" data-of="code X">(.*?)</td>', found)[1] == ('2', 'p. 2', '12 s<br>22 s<br>1.833')
    assert 'a cell has in print a, in print b, in print ratio' in found


def test_a_plot_without_numbers_has_a_place_for_each_value_and_holds_its_runs():
    drawn = drawings.draw(drawings.Plot('', 't', 'code', '', 'rate', 's', '', ('BT', 'CG')), [
        drawings.PlotLine('a', {0.0: 10.0, 1.0: 300.0}, True, {}, runs={0.0: [5.0, 12.0], 1.0: [250.0, 400.0]})])
    assert [label for _, label in drawn.across] == ['BT', 'CG'] and drawn.scales == ('', 'logarithmic') and 'at BT' in drawn.text
    heights = [float(y) for y in re.findall(r'M[\d.]+ ([\d.]+)h0', drawn.marks[0].runs)]
    assert len(heights) == 4 and all(0 < y < drawings.HEIGHT for y in heights)


def test_points_in_print_are_hollow_and_have_the_colour_of_the_measured_ones():
    at, limits = {1.0: 10.0, 2.0: 20.0, 64.0: 640.0}, {1.0: (9.0, 11.0), 2.0: (20.0, 20.0), 64.0: (600.0, 700.0)}
    drawn = drawings.draw(drawings.Plot('', 't', 'clients', '', 'seconds', 's', ''), [
        drawings.PlotLine('a', at, True, limits, lambda x: 10 * x), drawings.PlotLine('b', {}, True, {}), drawings.PlotLine('a', {2.0: 21.0}, False, {})])
    assert [(m.colour, m.earlier, m.intervals.count('M')) for m in drawn.marks] == [(0, True, 2), (0, False, 0)] and len(drawn.paths) == 1
    places = [float(n) for m in drawn.marks for n in re.findall(r'M([\d.]+)', m.points)]
    assert len(places) == 4 and all(0 <= x <= drawings.WIDTH for x in places)
    assert drawings.draw(drawn.plot, []) is None and drawn.names == ['a']


def test_a_flagged_figure_is_shown_and_used_for_nothing(site, stored):
    trial(site, rows=HEAD + ''.join(f'one,rate,s,higher,{side},X,1,{value},{flag},p. 9\n' for side, value, flag in (('a', 1, ''), ('b', 2, 'below_own_fit'))))
    printed = json.loads(parity('study', 'compare', 'trial', '--json').stdout)
    assert printed['rows'][0]['ratio'] is None and printed['findings'][0]['published'] == 'not printed'
    told_ = wording.shown('trial', published.read('trial'), figures.published(published.read('trial'), 'trial')[0], None)
    assert '  flagged   one.rate %side=b %code=X: 2 s: below_own_fit' in list(told_)


def test_a_finding_on_a_cached_figure_says_so():
    ours = [figures.StudyCell('one', 'rate', {'side': side}, 's', '', apart(runs(level)), label='cached: in memory') for side, level in (('a', 1), ('b', 2))]
    group = quantities.Group(None, None, [], ['side'], 'here', '', ours)
    quotient, = group.quotient(ours[1], ours[0])
    assert '(cached: in memory)' in str(findings._part(quotient))


def test_the_report_escapes_what_a_study_says(site, stored, results):
    trial(site, STUDY.replace('title: t', "title: '<script>x</script>'"))
    parity('study', 'report')
    assert '<script>' not in (results / 'report' / 'studies' / 'trial.html').read_text()


def test_the_index_of_the_reports_has_a_line_a_study_with_its_words(measured, results):
    done = parity('study', 'report')
    file = results / 'report' / 'studies' / 'index.html'
    assert done.returncode == 0 and done.stdout.endswith(f'{file}\n')
    text = file.read_text()
    assert '<script' not in text and '<a href="trial.html">trial</a>' in text and '>quick on ' in text and text.count('>holds 1</td>') == 1
    assert '<a href="trial.csv">CSV</a> <a href="trial-findings.csv">findings</a> <a href="trial.json">JSON</a>' in text


def test_the_repeats_needed_end_the_straddling():
    row = Estimate(1.1, 1.0, 1.21, 6, runs=4)
    # of 13 runs: half a width of ln 1.21 / 2, times sqrt(4 / 13), times 2.09 / 2.447, the quantiles of 19.5 and 6 degrees
    # of freedom, is .045: ln(1.1 / 1.05) is .0465
    assert findings._repeats(row, {'above': 1.05}) == 'about 13 repeats would tell'
    assert findings._repeats(row, {'above': 1.1}) == 'no number of repeats would tell'


@pytest.mark.parametrize('having, fits', [
    ({'mode': 'x', 'clients': '2'}, True), ({'mode': 'x', 'clients': '2', 'files': '9'}, True), ({'mode': 'x'}, False), ({'clients': '2'}, False),
    ({'mode': 'x', 'clients': '1'}, False), ({'mode': 'x', 'clients': '2', 'files': '8'}, False), ({'mode': 'x', 'clients': '2', 'other': '1'}, False)])
def test_a_stored_case_stands_for_a_point_where_its_name_says_so(having, fits):
    wanted = Case(experiment='e', check='C', parameters={'mode': 'x'}, variables={'clients': '2', 'files': '9'}, swept=['clients'], point={})
    assert wanted.is_case('C', having) is fits and not wanted.is_case('D', having)
    in_one = wanted.model_copy(update={'environ': 'atlas'})
    assert in_one.is_case('C', having, 'atlas') is fits and not in_one.is_case('C', having, 'openblas')


#: N of a size depends on the block; the environment has the BLAS.
ENVIRONS = STUDY.replace('  code: {', '''  blas: {what: w, here: h, kind: environ, values: {ATLAS: atlas, Open: ''}}
  size: {what: w, here: h, kind: value, values: {small: {code: {X: 96, Y: 128}}, large: 999}}
  code: {''').replace('code: all}, metrics: {rate: [rate]}', "code: all, blas: all, size: all}, metrics: {rate: [rate]}, check: Toy, parameters: {code: '{code}'}, set: {n: '{size}'}")


def test_a_case_runs_in_the_environment_of_its_point_and_a_value_may_depend_on_another_axis(site):
    trial(site, ENVIRONS)
    cases = list(published.read('trial').cases({'blas': {'Open': 'distro'}}))
    assert {(c.point['blas'], c.environ) for c in cases} == {('ATLAS', 'atlas'), ('Open', 'distro')} and not any(c.reason for c in cases)
    assert {(c.point['code'], c.point['size'], c.variables['n']) for c in cases} == {('X', 'small', '96'), ('Y', 'small', '128'), ('X', 'large', '999'), ('Y', 'large', '999')}
    assert {c.reason for c in published.read('trial').cases() if c.point['blas'] == 'Open'} == {'Open: no environ here stands for it (--as blas.Open=NAME)'}
    assert len({c.runs for c in cases if c.point['side'] == 'a'}) == 8
    with pytest.raises(UsageError, match="unknown environ of local 'distr'; did you mean 'distro'"):
        conditions.given_names(published.read('trial'), 'local', ['blas.Open=distr'])


#: What HPL prints of a run, as far as the converter reads it.
HPL = '''T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR00L2L2        {n}   {nb}     2     2              10.00             {rate}
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   4.05557054e-03 ...... {word}
'''


def test_a_study_of_open_data_is_made_by_its_converter_and_says_how_without(site, tmp_path, results):
    folder = shutil.copytree(TOP / 'studies' / 'krpic2025', site.parents[2] / 'studies' / 'krpic2025', ignore=shutil.ignore_patterns('published.csv'))
    assert parity('study', 'report', 'krpic2025').returncode == 0
    for text in (parity('study', 'compare', 'krpic2025').stdout, (results / 'report' / 'studies' / 'krpic2025.html').read_text()):
        assert 'no figures in print: ' in text and 'python studies/krpic2025/convert.py PATH' in text

    def made(*words):
        return subprocess.run([sys.executable, folder / 'convert.py', *words], capture_output=True, text=True)
    assert made(tmp_path).returncode == made().returncode == 2 and 'raspi1B: no such folder; usage: python' in made(tmp_path).stderr
    for board in ('raspi1B', 'cubie', 'odroidU3', 'raspi3B', 'raspi4B', 'raspi5B'):
        for build, level in (('1-ATLAS-params/flags', 1), ('1-ALTAS-params-OMP/flags', 2), ('1-OpenBLAS-params/linux_OpenBLAS', 3), ('1-ATLAS-builds/flags', 9)):
            (of := tmp_path / 'raw-results' / board / build).mkdir(parents=True)
            for n, run in itertools.product((800, 900, 1000), range(5)):
                (of / f'HPL_N{n}-NB128-{run}.out').write_text(HPL.format(n=n - 32, nb=128, rate=f'{level + run / 100:.4e}', word='FAILED' if (n, run) == (900, 4) else 'PASSED'))
        (of.parents[1] / '1-OpenBLAS-params' / 'linux_OpenBLAS' / 'HPL_N77-NB128-0.out').write_text(HPL.format(n=77, nb=128, rate='1.0', word='PASSED'))
        (of.parents[1] / '1-OpenBLAS-params' / 'linux_OpenBLAS' / 'HPL_N800-NB256-0.out').write_text('T/V')
    said = made(tmp_path).stdout
    assert said.startswith('168 of 282 outputs in ') and all(line in said for line in ("  18 failed HPL's residual", '  6 have no result', '  6 are of another size', '  84 are of other builds or threads'))
    answer = json.loads(parity('study', 'compare', 'krpic2025', '--json').stdout)
    rows = {row['benchmark']: row for row in answer['rows']}
    middle = rows['hpl %board=cubie %nodes=1 %size=middle %nb=128']
    assert len(rows) == 18 and middle['n'] == 4 and middle['ratio'] == pytest.approx(1.5, rel=.01) and middle['low']
    newer = next(f for f in answer['findings'] if f['id'] == 'newer-openblas')
    assert newer['published'] == 'not testable' and '4 runs that are no pairs: 15 are the least' in newer['why_published']


@pytest.mark.parametrize('change, said', [
    (('{code: {X: 96, Y: 128}}', '{cod: {X: 96}}'), "study.yaml:8: axes.size.values.small: unknown axis of one 'cod'; did you mean 'code'"),
    (('X: 96, Y: 128', 'X: 96'), 'study.yaml:8: axes.size.values.small.code: must have code Y, too'), (('X: 96, Y: 128}', 'X: 96, Y: 128}, side: {a: 1}'), 'study.yaml:8: .*may depend on an axis, and on one'),
    (('{ATLAS: atlas', '{ATLAS: {code: {X: a, Y: b}}'), 'study.yaml:7: .*only a value of kind value may depend on an axis'), (('kind: environ', 'kind: environment'), 'study.yaml:7: .*kind')])
def test_a_value_that_depends_on_no_axis_of_its_experiment_is_named(site, change, said):
    trial(site, ENVIRONS.replace(*change))
    with pytest.raises(UsageError, match=said):
        published.read('trial')


def test_the_title_says_what_the_figures_are_of(onebox, kept):
    onebox()
    for side, partition, kind in (('a', 'physical', 'none'), ('b', 'virtual', 'uml')):
        for repeat in '123':
            ran = case(1.0 + int(repeat) / 100, case='Toy %code=X %nodes=2', system='onebox', partition=partition, parity={'node': {'node': 'n1', 'virtualisation': kind}, 'facts': {'destination filesystem': 'tmpfs'}})
            ran['perfvalues'] = {f'onebox:{partition}:{name.rpartition(":")[2]}': value for name, value in ran['perfvalues'].items()}
            kept.add(ran, system='onebox', facts={'machine': {'core_sets': [[0], [1]]}}, study='trial', mode='quick', run='1', side=side, repeat=repeat)
    said = 'trial, quick on onebox: both sides are on one host; User-mode Linux; 4 nodes on 2 cores: no figures of a cluster; local disk is memory (b / a)'
    text = parity('study', 'compare', 'trial', 'last').stdout.splitlines()
    assert text[0] == said and any(line.startswith('  here (both sides are on one host; User-mode Linux; 4 nodes on 2 cores') for line in text)


@pytest.mark.parametrize('bound, sentence', [
    ("ours: 'faster'", 'claim of ours: s'), ('print: 1.5', 'the document, in our words: s')])
def test_a_claim_says_whose_sentence_it_is(site, bound, sentence):
    trial(site, STUDY.replace('above: 1', f'above: 1, bound: "{bound}"'))
    judged = compared.of_study('trial').analysis.findings
    assert [finding.sentence for finding in judged] == [sentence]
    assert sentence in page.page(compared.of_study('trial'))


@pytest.mark.parametrize('experiment, extent, why', [
    ('check: C, metrics: {rate: [r]}', '1 of 1 whole, 0 in part, 0 missing', ''), ('metrics: {rate: [r]}', '0 of 1 whole, 0 in part, 1 missing', 'rate: nothing here measures it'),
    ('metrics: {rate: []}, here: worked out by n', '1 of 1 whole, 0 in part, 0 missing', 'worked out by n'), ('metrics: {rate: []}, lacks: ["a: b"]', '0 of 1 whole, 0 in part, 1 missing', 'a: b'),
    ('check: C, metrics: {rate: [r], also: []}', '0 of 1 whole, 1 in part, 0 missing', 'also: nothing here measures it'),
    ('check: C, metrics: {rate: [r]}, lacks: ["a: b", "c: d"]', '0 of 1 whole, 1 in part, 0 missing', 'a: b; c: d')])
def test_a_study_says_which_experiments_are_whole_in_part_and_missing(site, experiment, extent, why):
    trial(site, STUDY.replace('metrics: {rate: [rate]}', experiment))
    read = published.read('trial')
    counts, ((name, word, lacking),) = compared.experiments(read)
    assert (counts, name, lacking) == (extent, 'one', why) and f'1 {"of 1 " if word == "whole" else ""}{word}' in counts
    lines = list(wording.shown('trial', read, [], None))
    assert ('findings: 0 sentences of the document, 1 claim of ours; left out with the reason: 0', 'bold') in lines
    text = [line for line in lines if isinstance(line, str) and line.startswith('  one')]
    assert text and word in text[0] and why in text[0]
    assert f'Experiments: {extent}' in page.page(compared.of_study('trial'))


def test_an_experiment_counts_once_for_each_value_that_print_has_apart(site):
    trial(site, STUDY.replace('metrics: {rate: [rate]}', 'metrics: {rate: []}, here: h, printed_by: {code: all, side: [b]}').replace('experiments:', '''experiments:
  two: {what: w, where: not printed, subsystem: compute, axes: {}, metrics: {rate: []}}'''))
    counts, rows = compared.experiments(published.read('trial'))
    assert counts == '2 of 2 whole, 0 in part, 0 missing' and [row[0] for row in rows] == ['one %code=X %side=b', 'one %code=Y %side=b']
    with pytest.raises(UsageError, match="study.yaml:9: experiments.one.printed_by.code: unknown value of code 'Z'"):
        file = site.parents[2] / 'studies' / 'trial' / 'study.yaml'
        file.write_text(STUDY.replace('metrics: {rate: [rate]}', 'metrics: {rate: []}, printed_by: {code: [Z]}'))
        published.read('trial')


def test_a_list_says_why_an_experiment_cannot_be_tested():
    tessera = published.read('tessera')
    planned = conditions.of_one(conditions.wanted(tessera, 'tessera', 'onebox'))
    text = '\n'.join(map(str, wording.listed('tessera', tessera, {'full': planned['full']})))
    assert re.search(r'placement, placement_bt.*: no environment of physical offers mpip, npb\n', text)
    assert '  in print only: overhead, problem, ' in text and '--system' not in text


@pytest.mark.parametrize('apart, spread, word', [(1.0, .001, 'like'), (1.1, .001, 'unlike'), (1.1, .05, 'cannot tell'), (1.0, .05, 'cannot tell'), (1.0, None, 'cannot tell')])
def test_ratios_are_like_within_a_margin_that_their_intervals_show(apart, spread, word):
    rows = [types.SimpleNamespace(ratio=ratio, low=spread and ratio * (1 - spread), high=spread and ratio * (1 + spread), label='') for ratio in (1.0, apart)]
    assert join.like(*rows, .05) == word and join.like(rows[0], None, .05) == ''


def test_an_interval_that_reaches_0_tells_nothing_of_another():
    """Lustre small_copy of 3 clients in print: [-0.01, 100.4]."""
    rows = [types.SimpleNamespace(ratio=1.2, low=low, high=100.4, label='') for low in (1.1, -.01, 0.0)]
    assert {join.like(*pair, .05) for pair in itertools.permutations(rows, 2)} == {'cannot tell'}


def test_runs_that_depend_on_the_one_before_widen_an_interval():
    walk = [100.0, 101, 102, 101, 100, 99, 98, 97, 98, 99, 100, 101]
    cells = [figures.StudyCell('one', 'rate', {'side': side}, 's', 'higher', apart(of)) for side, of in (('a', walk), ('b', [v * 1.02 for v in sorted(walk, key=lambda v: hash((v, 'x')) % 7)]))]
    found = estimate.estimated(rows.ratio(cells[1], cells[0]))
    assert found.low < 1.02 / 1.05 and re.match(r'neighbours in time correlate by 0\.\d\d: interval \d', found.why), found
    calm = [replace(cell, values=apart(runs(1))) for cell in cells]
    assert estimate.estimated(rows.ratio(*calm)).why == ''


ONCE = STUDY.replace('metrics: {rate: [rate]}', 'metrics: {rate: [rate], rate_sd: []}')


@pytest.mark.parametrize('low, high, deviation, bound, word, said', [
    ('100', '300', '', 'above: 1', 'holds', 'b/a 3 [1.5, 6.5], printed once: rounding only,'),        # 50 to 150 and 250 to 350: zeros are no digits
    ('100', '300', '', 'above: 2', 'not testable', 'b/a 3 [1.5, 6.5], printed once: rounding only, straddles'),
    ('10.0', '30.0', '', 'above: 2', 'holds', 'b/a 3 [2.98, 3.02], printed once: rounding only,'),
    ('1.0E+2', '3.0E+2', '', 'above: 2', 'holds', 'b/a 3 [2.81, 3.21], printed once: rounding only,'),
    ('100.00', '300.00', '', 'above: 2', 'holds', 'b/a 3 [2.9998, 3.0002], printed once: rounding only,'),
    ('100.0', '300.0', '30', 'above: 2', 'not testable', 'b/a 3 [1.664, 5.40], printed once: by its standard deviation, straddles'),
    ('100.0', '300.0', '10', 'above: 2', 'holds', 'b/a 3 [2.46, 3.65], printed once: by its standard deviation,')])
def test_a_figure_that_is_printed_once_has_the_interval_that_print_leaves_open(site, low, high, deviation, bound, word, said):
    rows = [f'one,rate,s,higher,{side},X,1,{value},,\n' for side, value in (('a', low), ('b', high))]
    rows += [f'one,rate_sd,s,lower,a,X,1,{deviation},,\n'] if deviation else []
    trial(site, ONCE.replace('above: 1', bound), HEAD + ''.join(rows))
    found, = compared.of_study('trial').analysis.findings
    assert (found.published, compared.judged(found)[1].startswith(f'code X {said}')) == (word, True), found


def test_a_number_of_figures_printed_once_has_the_interval_of_their_digits_and_a_setting_is_exact(site):
    rows = 'one,rate,s,higher,a,X,1,8,,\none,link,s,,a,X,1,10,,\none,rate,s,higher,b,X,1,9,,\n'
    text = STUDY.replace('rate: [rate]', 'rate: [rate], link: []').replace('one.rate %code=X b / a, above: 1', 'share, above: .7')
    trial(site, text + 'numbers: [{name: share, let: {x: one.rate %side=a %code=X, y: one.link %side=a %code=X}, formula: x / y}]\n', HEAD + rows)
    share, = (of := compared.of_study('trial')).analysis.numbers
    assert (share.value, share.low, share.high) == pytest.approx((.8, .75, .85)) and share.note == 'printed once: rounding only'
    assert [(f.published, f.why_published) for f in of.analysis.findings] == [('holds', '0.8 [0.75, 0.85], printed once: rounding only')]


WIDE = 'board,BLAS,nodes,rate (Gflop/s),time (s)\npi4,atlas,1,10.50,3.2\npi4,openblas,1,12.5,\npi5,atlas,1,21.00,2\npi5,openblas,1,30,1\npi5,openblas,1,31,1\n'
LONG = 'metric,unit,better,board,value\nrate,MB/s,higher,pi4,5\nrate,MB/s,higher,pi5,6.0\ntime,s,lower,pi4,1\n'


@pytest.mark.parametrize('table, row, said', [
    (WIDE, 'boards,rate,Gflop/s,,pi4,atlas,1,1,10.50,,boards.csv:2', r'%BLAS=atlas %nodes=1: rate +10\.50 Gflop/s +21\.00 Gflop/s +2\n'),
    (WIDE, 'boards,time,s,,pi5,openblas,1,2,1,,boards.csv:6', r'%BLAS=openblas %nodes=1: rate +12\.5 Gflop/s +30\.5 Gflop/s'),
    (LONG, 'boards,rate,MB/s,higher,pi5,1,6.0,,boards.csv:3', r'boards: rate +5 MB/s +6\.0 MB/s +1\.2'), ('a,b\n1,2\n1,3\n', 'boards,b,,,1,2,3,,boards.csv:3', r'boards %a=1: b +2\.45'),
    ('', 'boards,rate,MB/s,,old,1,100.2,,the example:2', r'boards: rate +100\.2 MB/s +120\.4 MB/s')])
def test_a_study_is_made_of_a_table_outside_the_checkout(site, tmp_path, table, row, said):
    (tmp_path / 'boards.csv').write_text(table)
    outside = ['--studies', str(tmp_path / 'mine')]
    made = parity('study', 'new', 'boards', *(['--from', str(tmp_path / 'boards.csv')] if table else []), *outside)
    assert made.returncode == 0 and f'next: parity study compare boards --studies {tmp_path}/mine' in made.stdout
    assert row in (tmp_path / 'mine' / 'boards' / 'published.csv').read_text().splitlines()
    assert re.search(said, parity('study', 'compare', 'boards', *outside).stdout)
    again = parity('study', 'new', 'boards', *outside)
    assert again.returncode == 2 and 'it is there already' in again.stderr


@pytest.mark.parametrize('words, table, said', [
    (['new', '../x'], None, "'../x': the name of a study has letters"), (['new', 'x', '--from', 'no.csv'], None, 'no.csv: No such file'),
    (['new', 'x', '--from', 'x.csv'], '', 'x.csv:1: no rows'), (['new', 'x', '--from', 'x.csv'], 'a,b (s)\n1,two\n', "x.csv:2: b (s) 'two' must be a finite number"),
    (['new', 'x', '--from', 'x.csv'], 'a,b (furlong)\n1,2\n', "x.csv:2: 'furlong' is no unit"), (['new', 'x', '--from', 'x.csv'], 'a,b\n1\n', 'x.csv:2: 1 fields'),
    (['new', 'trial'], None, 'it is there already'), (['compare', 'trial', '--studies', 'nowhere'], None, 'nowhere: no such folder')])
def test_a_study_that_cannot_be_made_or_found_is_named(site, tmp_path, words, table, said):
    trial(site)
    (tmp_path / 'x.csv').write_text(table or '')
    done = parity('study', *(str(tmp_path / word) if word == 'x.csv' else word for word in words))
    assert done.returncode == 2 and said in done.stderr and not (site.parents[2] / 'studies' / 'x').exists(), done.stderr


def test_a_quote_is_found_in_its_document_and_a_changed_one_is_named(site, tmp_path):
    document = tmp_path / 'document.txt'
    document.write_text('It was *much*\nfast-\n\ner: about $18\\mu s$ in 1.5 of\nall cases.')
    trial(site, STUDY.replace('says: s', "quote: 'It was much faster: about 18 µs ... all cases'"))
    assert parity('study', 'check', 'trial', '--document', str(document)).stdout == f'trial: 1 quote is in {document}\n'
    (site.parents[2] / 'studies' / 'trial' / 'study.yaml').write_text(STUDY.replace('says: s', "quote: 'in 15 of all cases'"))
    done = parity('study', 'check', 'trial', '--document', str(document))
    assert done.returncode == 2 and f'study.yaml:11: findings.0.quote: {document} has no "in 15 of all cases"' in done.stderr
    shown = parity('study', 'compare', 'trial').stdout
    assert 'f: "in 15 of all cases" (p)' in shown and 'needs above 1 (ours)' in shown


def test_figures_of_disturbed_runs_are_shown_and_no_finding_rests_on_them(one_side, kept):
    for threads, repeat in itertools.product((1, 2), '123'):
        kept.add(case(100.0 * threads + int(repeat), case=f'Toy %threads={threads}', parity={'disturbed': f'others used {repeat} CPUs'}), study='trial', mode='full',
                 run='noisy', side='node', repeat=repeat, uuid=f'noisy{threads}{repeat}-0')
    lines = parity('study', 'compare', 'trial', 'noisy').stdout
    assert '102.0 Gflop/s [99.5, 104.5] (disturbed)' in lines
    assert re.search(r'here: not testable here: not measured \(1 of 1\): 2/1: disturbed: others used \d CPUs', lines), lines


def test_what_quick_leaves_out_is_among_what_was_not_measured(measured, site, monkeypatch):
    monkeypatch.setattr(planning, 'of_cases', lambda cases, _: types.SimpleNamespace(answers=[CaseAnswer()] * len(cases)))
    folder = site.parents[2] / 'studies' / 'trial'
    (folder / 'study.yaml').write_text(MEASURED.replace('one.rate %code=X b / a', 'one.rate b / a'))
    found, = json.loads(parity('study', 'compare', 'trial', 'last', '--json').stdout)['findings']
    assert found['here'] == 'holds' and 'not measured (2 of 4): code Y figure hpl b/a: --quick leaves it out' in found['why_here'], found


def test_two_file_systems_that_are_one_directory_are_not_compared(site, stored):
    site.write_text((TOP / 'systems' / 'local' / 'system.yaml').read_text().replace('\n        scratch: $PARITY_RESULTS/scratch', ' ' + '{scratch: /tmp, again: /tmp/../tmp}'))
    raicu = Study.model_validate(yaml.safe_load((TOP / 'studies' / 'raicu' / 'study.yaml').read_text()))
    wanted = conditions.wanted(raicu, 'raicu', 'local', names={'filesystem': {'local': 'again'}})
    reasons = {(c.experiment, c.reason) for c in wanted.cases}
    assert reasons == {('files', 'shared and local are one directory, /tmp/../tmp: name two by --as'), ('chunks', '')}


def test_a_list_has_the_other_studies_beside_a_broken_one(onebox, site):
    onebox()
    broken = site.parents[2] / 'studies' / 'broken'
    broken.mkdir()
    (broken / 'study.yaml').write_text(MEASURED.replace('title: t', 'titel: t'))
    done = parity('study', 'list')
    assert done.returncode == 2 and 'trial: t' in done.stdout and 'broken/study.yaml:1: ' in done.stderr and 'titel' in done.stderr


def test_a_unit_of_another_kind_than_the_metrics_is_refused(onebox, site):
    onebox()
    (site.parents[2] / 'studies' / 'trial' / 'published.csv').write_text(HEAD + ROW.replace(',s,', ',MB/s,'))
    done = parity('study', 'list')
    assert done.returncode == 2 and "published.csv:2: one.rate %side=a %code=X is in 'MB/s'; must be of the kind of 's', the unit of hpl of Toy" in done.stderr


def test_print_and_here_stand_in_one_unit(one_side, site):
    rows = ONES.replace('one,rate,MB/s,higher,2,1,20,', 'one,rate,kB/s,higher,2,1,20000,').replace('MB/s,higher,1,1,10', 'Mflop/s,higher,1,1,10').replace('kB/s', 'Gflop/s').replace('20000', '.02')
    (site.parents[2] / 'studies' / 'trial' / 'published.csv').write_text(rows)
    printed, here = (json.loads(parity('study', 'compare', 'trial', 'alone', '--json').stdout)[key] for key in ('rows', 'here'))
    of = {r['benchmark']: (r['baseline'], r['unit']) for r in printed if r['metric'] == 'rate'}
    assert of == {'one %threads=1': (10, 'Mflop/s'), 'one %threads=2': (20, 'Mflop/s')}
    assert {r['benchmark']: (round(r['baseline'] / 1000), r['unit']) for r in here['rows'] if r['metric'] == 'rate'} == {'one %threads=1': (102, 'Mflop/s'), 'one %threads=2': (202, 'Mflop/s')}
    row = next(line for line in parity('study', 'compare', 'trial', 'alone').stdout.splitlines() if line.startswith('  rate'))
    assert ' .02 Gflop/s | 202 Gflop/s [' in row
