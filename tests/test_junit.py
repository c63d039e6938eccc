"""The verdict as JUnit's XML: what a CI server makes of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from parity.report import junit
from parity.verdict.model import WORDS
from test_report import HOSTILE, _cell, _hostile, _verdict


def _read(verdict):
    return ET.fromstring(junit.render(verdict))


def _cases(verdict):
    return {case.get('name').rpartition(' ')[2]: case for case in _read(verdict).iter('testcase')}


def test_a_suite_is_a_partition_and_a_case_a_cell():
    top = _read(_verdict([_cell(), _cell(metric='copy'), _cell(partition='physical')]))
    assert top.tag == 'testsuites' and [s.get('name') for s in top] == ['onebox:virtual', 'onebox:physical']
    assert [len(s.findall('testcase')) for s in top] == [2, 1]
    case = top.find('.//testcase')
    assert case.get('classname') == 'onebox:virtual.memory.Stream'
    assert case.get('name') == 'Stream %threads=all +distro: triad'


def test_words_are_failures_errors_and_skips():
    cases = _cases(_verdict([_cell(metric=word, verdict=word, reason=f'because {word}') for word in WORDS]))
    outcome = {name: [e.tag for e in case if e.tag != 'properties'] for name, case in cases.items()}
    assert outcome == {'regressed': ['failure'], 'wrong': ['failure'], 'impossible': ['failure'], 'failed': ['error'],
                       'missing': ['error'], 'skipped': ['skipped'], 'ok': [], 'improved': ['system-out'], 'unreferenced': [],
                       'insufficient': [], 'disturbed': ['skipped']}
    assert cases['skipped'].find('skipped').get('message') == 'because skipped'
    assert cases['failed'].find('error').get('type') == 'failed'
    assert cases['improved'].find('system-out').text == 'improved: because improved'


def test_totals_are_counted_for_each_suite_and_for_all():
    top = _read(_verdict([_cell(metric=w, verdict=w) for w in ('ok', 'regressed', 'wrong', 'failed', 'skipped')]))
    for element in (top, top[0]):
        assert {k: element.get(k) for k in ('tests', 'failures', 'errors', 'skipped')} == {
            'tests': '5', 'failures': '2', 'errors': '1', 'skipped': '1'}


def test_what_is_acknowledged_fails_nothing():
    cell = _cell(verdict='regressed', reason='-9 %', acknowledged='until 2026-12-01 by me: fan')
    top = _read(_verdict([cell]))
    assert top.get('failures') == '0'
    assert top.find('.//skipped').get('message') == '-9 %; acknowledged until 2026-12-01 by me: fan'


def test_figures_are_properties():
    cell = _cell(value=71.2, reference=77.7, low=75.9, high=79.5, nodes=['v1', 'v2'], jobid='17', label='cached')
    said = {p.get('name'): p.get('value') for p in _read(_verdict([cell])).iterfind('.//testcase/properties/property')}
    assert said == {'verdict': 'ok', 'value': '71.2', 'unit': 'MB/s', 'better': 'higher', 'reference': '77.7',
                    'low': '75.9', 'high': '79.5', 'label': 'cached', 'size': 'quick', 'attempt': '1', 'jobid': '17',
                    'nodes': 'v1 v2'}


def test_hostile_text_is_text():
    top = _read(_hostile())
    tags = {e.tag for e in top.iter()}
    assert tags <= {'testsuites', 'testsuite', 'properties', 'property', 'testcase', 'failure', 'error', 'skipped',
                    'system-out'}
    everything = ' '.join(v for e in top.iter() for v in e.attrib.values())
    for hostile in HOSTILE[:8]:
        assert hostile in everything
    assert r'nul \x00 bell \x07 escape \x1b[31m' in everything


def test_a_verdict_without_cells_is_a_document():
    assert len(_read(_verdict([]))) == 0
