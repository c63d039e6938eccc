"""The verdict as JUnit's XML, which CI servers read: a test suite a partition, a test case a cell.

The form is the one that Jenkins, GitLab and pytest share; metrics are properties of their case."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter

from parity.base.text import visible
from parity.report import rows
from parity.verdict.model import Cell, Verdict

#: What a word is in JUnit; every other one is a case that passed.
_OUTCOME = {'regressed': 'failure', 'wrong': 'failure', 'impossible': 'failure', 'failed': 'error',
            'missing': 'error', 'skipped': 'skipped', 'disturbed': 'skipped'}
_TOTALS = {'failure': 'failures', 'error': 'errors', 'skipped': 'skipped'}
_PROPERTIES = ('verdict', 'value', 'unit', 'better', 'reference', 'low', 'high', 'limit', 'efficiency', 'label',
               'size', 'attempt', 'jobid')


def render(verdict: Verdict) -> bytes:
    """The document, UTF-8; what a job printed is text in it, whatever it holds."""
    suites: dict[str, list[Cell]] = {}
    for cell in verdict.cells:
        suites.setdefault(rows.place(cell), []).append(cell)
    session = verdict.session
    top = _element('testsuites', name=f'parity {session.system}', time=f'{session.elapsed:.3f}',
                   **_totals(verdict.cells))
    for place, cells in suites.items():
        suite = _element('testsuite', name=place, timestamp=session.start[:19], hostname=session.system,
                         time=f'{session.run_time:.3f}', **_totals(cells))
        _properties(suite, {'session': session.uuid, 'coverage': verdict.coverage.line, 'trust': verdict.trust})
        suite.extend(_case(cell) for cell in cells)
        top.append(suite)
    ET.indent(top, ' ')
    return ET.tostring(top, encoding='utf-8', xml_declaration=True) + b'\n'


def _totals(cells: list[Cell]) -> dict[str, str]:
    counts = Counter(map(_outcome, cells))
    return {'tests': str(len(cells)), **{total: str(counts[outcome]) for outcome, total in _TOTALS.items()}}


def _outcome(cell: Cell) -> str:
    """failure, error, skipped or '': what is acknowledged is no failure, as it does not set the exit code."""
    outcome = _OUTCOME.get(cell.verdict, '')
    return 'skipped' if outcome and cell.acknowledged else outcome


def _case(cell: Cell) -> ET.Element:
    environ = f' +{cell.environ}' if cell.environ else ''
    case = _element('testcase', classname='.'.join((rows.place(cell), cell.subsystem, cell.check)),
                    name=f'{cell.case}{environ}: {cell.metric}')
    _properties(case, {name: value for name in _PROPERTIES if (value := getattr(cell, name)) not in (None, '')}
                | ({'nodes': ' '.join(cell.nodes)} if cell.nodes else {}))
    outcome = _outcome(cell)
    if cell.verdict == 'improved':                  # passed, and somebody should know of it
        better = ET.SubElement(case, 'system-out')
        better.text = visible(f'improved: {cell.reason}')
    if outcome:
        known = f'acknowledged {cell.acknowledged}' if cell.acknowledged else ''
        said = _element(outcome, message='; '.join(filter(None, (cell.reason or cell.verdict, known))),
                        type=cell.verdict)
        said.text = visible(f'output: {cell.outputdir}') if cell.outputdir else None
        case.append(said)
    return case


def _properties(of: ET.Element, values: dict[str, object]) -> None:
    properties = ET.SubElement(of, 'properties')
    for name, value in values.items():
        properties.append(_element('property', name=name, value=str(value)))


def _element(tag: str, **attributes: str) -> ET.Element:
    return ET.Element(tag, {name: visible(value) for name, value in attributes.items()})
