"""The verdict as JUnit's XML, which CI servers read: a test suite a partition, a test case a cell.

The form is the one that Jenkins, GitLab and pytest share; metrics are properties of their case."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter

from parity.base.text import visible
from parity.verdict.model import Row, Verdict, rows

#: JUnit's name for a word; every other word is a passed case.
_OUTCOME = {'regressed': 'failure', 'wrong': 'failure', 'impossible': 'failure', 'failed': 'error',
            'missing': 'error', 'skipped': 'skipped', 'disturbed': 'skipped'}
_TOTALS = {'failure': 'failures', 'error': 'errors', 'skipped': 'skipped'}
_PROPERTIES = ('verdict', 'value', 'unit', 'better', 'reference', 'low', 'high', 'limit', 'efficiency', 'label',
               'size', 'attempt', 'jobid')


def render(verdict: Verdict) -> bytes:
    """Return the document, UTF-8; whatever a job printed is text in it."""
    session, table = verdict.session, rows(verdict.cells)
    suites: dict[str, list[Row]] = {}
    for row in table:
        suites.setdefault(row.place, []).append(row)
    top = _element(None, 'testsuites', name=f'parity {session.system}', time=f'{session.elapsed:.3f}',
                   **_totals(table))
    for place, own in suites.items():
        suite = _element(top, 'testsuite', name=place, timestamp=session.start[:19], hostname=session.system,
                         time=f'{session.run_time:.3f}', **_totals(own))
        _properties(suite, {'session': session.uuid, 'coverage': verdict.coverage.line, 'trust': verdict.trust})
        for row in own:
            _case(suite, row)
    ET.indent(top, ' ')
    return ET.tostring(top, encoding='utf-8', xml_declaration=True) + b'\n'


def _totals(table: list[Row]) -> dict[str, str]:
    counts = Counter(map(_outcome, table))
    return {'tests': str(len(table)), **{total: str(counts[outcome]) for outcome, total in _TOTALS.items()}}


def _outcome(row: Row) -> str:
    """An acknowledged cell is no failure, as it does not set the exit code."""
    outcome = _OUTCOME.get(row.word, '')
    return 'skipped' if outcome and row.cell.acknowledged else outcome


def _case(suite: ET.Element, row: Row) -> None:
    cell = row.cell
    environ = f' +{cell.environ}' if cell.environ else ''
    case = _element(suite, 'testcase', classname=f'{row.place}.{cell.subsystem}.{cell.check}',
                    name=f'{cell.case}{environ}: {cell.metric}')
    known = {name: value for name in _PROPERTIES if (value := getattr(cell, name)) not in (None, '')}
    _properties(case, known | ({'nodes': ' '.join(cell.nodes)} if cell.nodes else {}))
    if row.word == 'improved':                      # passed, and somebody should know
        _element(case, 'system-out').text = visible(f'improved: {row.reason}')
    if outcome := _outcome(row):
        message = (row.reason or row.word) + (f'; acknowledged {cell.acknowledged}' if cell.acknowledged else '')
        said = _element(case, outcome, message=message, type=row.word)
        said.text = visible(f'output: {cell.outputdir}') if cell.outputdir else None


def _properties(parent: ET.Element, values: dict[str, object]) -> None:
    properties = ET.SubElement(parent, 'properties')
    for name, value in values.items():
        _element(properties, 'property', name=name, value=str(value))


def _element(parent: ET.Element | None, tag: str, **attributes: str) -> ET.Element:
    shown = {name: visible(value) for name, value in attributes.items()}
    return ET.Element(tag, shown) if parent is None else ET.SubElement(parent, tag, shown)
