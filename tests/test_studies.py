"""Published studies: their files, figures in print beside measured ones, fits, numbers, findings."""

from __future__ import annotations

import csv
import hashlib
import json
from statistics import fmean, median

import pytest

from commands import parity, process
from conftest import TOP
from parity.base.errors import UsageError
from parity.study import figures

#: Runs, ratio and word of each code.
CODES = {'BT': (35, 1.101, 'faster'), 'CG': (34, 0.735, 'slower'), 'EP': (35, 1.659, 'faster'), 'FT': (35, 0.476, 'slower'), 'IS': (32, 0.366, 'slower'),
         'LU': (35, 1.045, 'faster'), 'MG': (35, 0.500, 'slower'), 'SP': (34, 0.809, 'slower'), 'XHPL': (35, 0.467, 'slower')}


@pytest.fixture(scope='module')
def jungels():
    return figures.of_study('jungels2012')


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
        assert row.ratio == pytest.approx(median(virtual) / median(physical)) and row.low < row.ratio < row.high < row.low * 1.06


def test_file_system_tests_are_by_clients_and_lower_is_better(jungels):
    rows = {r.benchmark: r for r in jungels.rows if r.subsystem == 'storage'}
    assert len(rows) == 3 * 3 * 4 and {r.metric for r in rows.values()} == {'seconds'}
    slower = rows['NFS large_copy %clients=1']
    assert (slower.ratio, slower.verdict, slower.better, slower.unit) == (pytest.approx(76 / 47), 'slower', 'lower', 's')
    several = rows['Lustre small_write %clients=4']         # the fourth client has 26 values
    assert (several.n, several.n_baseline, several.n_candidate) == (26, 26, 35)
    timed = rows['Lustre small_copy %clients=1']            # a timer of whole seconds widens the interval
    assert timed.low < 1.091 * 23.5 / 24 * 22 / 22.5 and timed.high > 1.091 * 24.5 / 24 * 22 / 21.5
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
    assert text.returncode == 0 and 'physical against virtual' in text.stdout and 'lower is better' in text.stdout
    wrong = process('study', 'compare', 'jungels2021')
    assert wrong.returncode == 2 and "did you mean 'jungels2012'" in wrong.stderr
    assert parity('study', 'compare', '../jungels2012').returncode == 2


#: Of the rows that `compare jungels2012 --json` printed before studies had one schema, floats to ten digits.
ROWS = 'ac80967efc5b807861d36cc439eb88eb8c32c83e5d94b5f9e2551d207ec0947d'


def test_rows_of_the_first_study_keep_their_keys_and_values(jungels):
    rows = [{k: float(f'{v:.10g}') if isinstance(v, float) else v for k, v in row.model_dump().items()} for row in jungels.rows]
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
    (None, 'x\n', r'published.csv:1: columns must be experiment,'), (None, f'{HEAD}{ROW}{ROW}', ':3: .* has a run 1 before'),
    (None, HEAD + ROW.replace(',2,', ',nan,'), ":2: value 'nan' is no finite number"), (None, HEAD + ROW.replace(',X,', ',Z,'), ":2: code 'Z': valid: X, Y"),
    (None, HEAD + ROW + ROW.replace(',s,', ',ms,'), ":3: .* is in 'ms'"), (None, HEAD + ROW.replace('one', 'two'), ":2: unknown experiment 'two'"),
    (None, HEAD + ROW.replace('rate', 'rat'), ":2: unknown metric 'rat'; did you mean 'rate'"), (None, HEAD + ROW.replace('higher', 'up'), ":2: unknown direction 'up'"),
    (('contrast: side', 'contrast: sid'), '', "study.yaml:4: contrast: unknown axis 'sid'; did you mean 'side'"),
    (('code: all', 'code: [Z]'), '', "study.yaml:9: .*unknown value of code 'Z'"), (('code: all', 'cod: all'), '', "study.yaml:9: .*unknown axis 'cod'"),
    (('kind: value', 'kind: valu'), '', 'study.yaml:7: .*kind'), (('title: t', 'titel: t'), '', 'study.yaml:1: .*titel'),
    ((', above: 1', ''), '', 'study.yaml:11: .*ratio needs bound'), (('ratio: ', 'order: a < b, ratio: '), '', 'study.yaml:11: .*2 kinds'),
    (('metrics:', "row: '{x}: y', metrics:"), '', "study.yaml:9: .*unknown axis 'x'"), (('metrics:', 'set: {nodes: 4}, metrics:'), '', 'study.yaml:9: .*need a check')])
def test_a_bad_study_is_named_with_file_and_line(site, change, rows, said):
    folder = site.parents[2] / 'studies' / 'trial'
    folder.mkdir(parents=True)
    (folder / 'published.csv').write_text(rows or HEAD + ROW)
    (folder / 'study.yaml').write_text(STUDY.replace(*change) if change else STUDY)
    with pytest.raises(UsageError, match=said):
        figures.of_study('trial')
