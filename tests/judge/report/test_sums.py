"""Every cell is counted once: the figures, what was left out, and the cells without a figure are all cells."""

from __future__ import annotations

import csv
import io
import re
import shutil
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from commands import parity
from conftest import TOP
from nights import cell, verdict_of
from parity.judge.compare import join
from parity.judge.compare.model import Measured, Side, Value
from parity.judge.report import answer, export, summary
from parity.judge.store import database
from parity.judge.verdict import judge
from parity.judge.verdict.model import WORDS, Verdict
from sessions import planned
from stored import case

DATA = TOP / 'tests' / 'data' / 'nights-79e2061'
#: One figure that counts, one out of a cache; one that this size leaves out; a case without a program.
CACHED = {'labels': {'hpl': {'word': 'cached', 'reason': 'the arrays fit in the caches'}}}
LESS = {'left_out': {'hpl': 'size=quick'}}
PLAN = [planned(), planned('Small'), planned('None', environ='')]


def night(disturbed: str = '') -> list[dict]:
    also = {'disturbed': disturbed}
    return [case(parity={**CACHED, **also}), case('absent', name='Small', parity={**LESS, **also})]


def numbers(pattern: str, text: str) -> list[int]:
    found = re.search(pattern, text)
    return [int(number) for number in found.groups()] if found else []


def demand_sums(verdict: Verdict) -> None:
    """Add up what the first screen says."""
    told, cells = answer.of(verdict), verdict.cells
    notes = dict(told.notes)
    figures = sum(each.is_figure for each in cells)
    left_out, kinds = notes.get('left out', '0 cells: ').split(':', 1)
    none = [each for each in cells if each.value is None and each.verdict != 'skipped']
    assert int(left_out.split()[0]) == sum(map(int, re.findall(r'(\d+) ', kinds)))
    assert figures + int(left_out.split()[0]) + len(none) == len(cells) == sum(verdict.counts.values())
    judged = sum(map(int, re.findall(r'\d+', told.counts)))
    assert judged == sum(each.is_judged for each in cells) <= figures
    for measured in numbers(r'measured: (\d+) figure', told.sentence):
        assert measured == figures
    if found := numbers(r'^(\d+) of (\d+) figures? (?:is|are) judged', told.sentence):
        assert found == [judged, figures]


def recorded_cells() -> some.SearchStrategy:
    value = some.sampled_from([None, 1.0])
    return some.builds(
        lambda word, value, reference, known, label: cell(word, value=value, reference=reference, acknowledged=known, label=label),
        some.sampled_from(WORDS), value, value, some.sampled_from(['', 'until 2027-01-01']), some.sampled_from(['', 'cached']))


@given(some.lists(recorded_cells(), max_size=12))
def test_whatever_the_words_are_each_cell_is_counted_once(cells):
    demand_sums(verdict_of(cells))


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    shutil.unpack_archive(DATA / 'results.tar.gz', tmp_path)
    (tmp_path / 'systems').symlink_to(DATA / 'systems')
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    monkeypatch.setenv('PARITY_RESULTS', str(tmp_path / 'results'))


def test_the_sums_of_recorded_nights_add_up(recorded):
    for uuid in database.uuids():
        verdict = judge.newest(uuid)
        demand_sums(verdict)
        judged = sum(each.is_judged for each in verdict.cells)
        assert numbers(r'(\d+) of (\d+) judged', verdict.trust) == [judged, len(verdict.cells)]
    counts = re.findall(r'^parity_cells\{.*\} (\d+)$', export.openmetrics(), re.M)
    assert sum(map(int, counts)) == len(judge.newest(system='lab').cells)


def test_a_cached_figure_is_left_out_and_no_figure(stored):
    stored.add(*night(), plan=PLAN)
    demand_sums(judge.newest())
    said = parity('verdict').stdout
    assert said.startswith('This machine is measured: 2 figures, none wrong; ')
    assert 'left out  4 cells: 2 without a program, 1 cached, 1 ' in said and '0 of 6 judged' in said
    *_, coverage = summary._coverage(database.sessions('local'), '')
    assert coverage == '2 of 2 planned cells were measured'


def test_a_night_of_cached_figures_alone_says_why_none_counts(stored):
    stored.add(case('absent', name='Small', parity=LESS, latency='absent'), case(parity={'labels': dict.fromkeys(
        ('hpl', 'latency'), CACHED['labels']['hpl'])}), plan=[planned()])
    assert answer.of(judge.newest()).sentence == 'All that was measured is left out: cached: the arrays fit in the caches.'


def test_a_table_calls_a_cached_figure_skipped_whoever_used_the_cpus(stored):
    stored.add(*night(), plan=PLAN)
    stored.add(*night('others used 1.5 CPUs'), plan=PLAN)
    rows = [row for row in csv.DictReader(io.StringIO(export.table())) if row['label']]
    assert [row['verdict'] for row in rows] == ['skipped', 'skipped']


def test_a_comparison_counts_each_metric_once(stored):
    for name in ('aaaaaaaa-0', 'bbbbbbbb-0'):
        stored.add(*night(), plan=PLAN, uuid=name)
    said = parity('compare', 'aaaaaaaa', 'bbbbbbbb').stdout
    assert '3 metrics: 2 undecided · 1 cached' in said and 'note: 3 metrics were measured on neither side' in said


def test_a_metric_that_no_environment_of_two_sides_has_is_counted_once_for_each():
    lacking = Measured('memory', 'Toy', 'Toy', 'rate', 'MB/s', 'higher', environ='distro', status='skipped')
    other = replace(lacking, environ='spack')
    one, two = Side('A', 'partition', [lacking, other]), Side('B', 'partition', [replace(lacking), replace(other)])
    assert join.compare(one, two).notes == ['2 metrics were measured on neither side']
    measured = replace(other, values=[Value(1.0, session='x')])
    found = join.compare(one, Side('B', 'partition', [replace(lacking), measured]))
    assert len(found.rows) == 1 and found.notes[0] == '1 metric was measured on neither side'
