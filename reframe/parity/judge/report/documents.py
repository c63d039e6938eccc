"""A verdict for other programs: JSON, and JUnit's XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from operator import attrgetter
from typing import Any

from pydantic_core import PydanticSerializationError

from parity.base.groups import grouped
from parity.base.text import visible
from parity.judge.report import answer
from parity.judge.verdict import model
from parity.judge.verdict.incidents import turn
from parity.judge.verdict.model import CellText, Verdict


def as_json(full: answer.Answered) -> str:
    """Return a verdict with its answer."""
    try:
        return full.model_dump_json(indent=1)
    except PydanticSerializationError:
        # Half a surrogate pair: Python's way to carry a path or an argument that is not UTF-8.
        encodable = _encodable(full.model_dump())
        return answer.Answered.model_validate(encodable).model_dump_json(indent=1)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode('utf-8', 'backslashreplace').decode()
    if isinstance(value, dict):
        return {_encodable(name): _encodable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(member) for member in value]
    return value


# ---- JUnit's XML: a test suite a partition, a test case a cell, in the form that Jenkins, GitLab and pytest share

#: JUnit's name for a word; every other word is a passed case.
_OUTCOME = {'regressed': 'failure', 'wrong': 'failure', 'impossible': 'failure', 'failed': 'error',
            'missing': 'error', 'skipped': 'skipped', 'disturbed': 'skipped'}
_PROPERTIES = ('verdict', 'value', 'unit', 'better', 'reference', 'low', 'high', 'visible', 'limit', 'efficiency',
               'label', 'size', 'attempt', 'jobid')


def junit(verdict: Verdict) -> bytes:
    """Return the document, UTF-8; whatever a job printed is text in it."""
    session = verdict.session
    table = model.rows(verdict.cells)
    title = f'parity {session.system}'
    top = _element(None, 'testsuites', name=title, time=f'{session.elapsed:.3f}', **_totals(table))
    properties = {'session': session.uuid, 'coverage': verdict.coverage.line, 'trust': verdict.trust}
    news = _news(verdict)
    if news:
        properties['incidents'] = news
    by_place = grouped(table, attrgetter('place'))
    for place, of_place in by_place.items():
        suite = _element(top, 'testsuite', name=place, timestamp=session.start[:19], hostname=session.system,
                         time=f'{session.run_time:.3f}', **_totals(of_place))
        _properties(suite, properties)
        for row in of_place:
            _case(suite, row)
    ET.indent(top, ' ')
    document = ET.tostring(top, encoding='utf-8', xml_declaration=True)
    return document + b'\n'


def _news(verdict: Verdict) -> str:
    news = []
    for incident in verdict.incidents:
        word = turn(incident, verdict.session.uuid)
        if word:
            news.append(f'{incident.number} {word}')
    return ', '.join(news)


def _totals(table: list[CellText]) -> dict[str, str]:
    counts = Counter(map(_outcome, table))
    failures = str(counts['failure'])
    errors = str(counts['error'])
    skipped = str(counts['skipped'])
    return {'tests': str(len(table)), 'failures': failures, 'errors': errors, 'skipped': skipped}


def _outcome(row: CellText) -> str:
    """An acknowledged cell is no failure, as it does not set the exit code."""
    outcome = _OUTCOME.get(row.word, '')
    if outcome and row.cell.acknowledged:
        return 'skipped'
    return outcome


def _case(suite: ET.Element, row: CellText) -> None:
    cell = row.cell
    environ = f' +{cell.environ}' if cell.environ else ''
    case = _element(suite, 'testcase', classname=f'{row.place}.{cell.subsystem}.{cell.check}',
                    name=f'{cell.case}{environ}: {cell.metric}')
    properties = {}
    for name in _PROPERTIES:
        value = getattr(cell, name)
        if value not in (None, ''):
            properties[name] = value
    if cell.incident:
        properties['incident'] = cell.incident
    if cell.nodes:
        properties['nodes'] = ' '.join(cell.nodes)
    _properties(case, properties)
    if row.word in ('improved', 'blind'):           # passed, and somebody should know
        output = _element(case, 'system-out')
        output.text = visible(f'{row.word}: {row.reason}')
    outcome = _outcome(row)
    if outcome:
        message = row.reason or row.word
        if cell.acknowledged:
            message += f'; acknowledged {cell.acknowledged}'
        element = _element(case, outcome, message=message, type=row.word)
        if cell.outputdir:
            element.text = visible(f'output: {cell.outputdir}')


def _properties(parent: ET.Element, values: dict[str, object]) -> None:
    properties = ET.SubElement(parent, 'properties')
    for name, value in values.items():
        _element(properties, 'property', name=name, value=str(value))


def _element(parent: ET.Element | None, tag: str, **attributes: str) -> ET.Element:
    shown = {name: visible(value) for name, value in attributes.items()}
    if parent is None:
        return ET.Element(tag, shown)
    return ET.SubElement(parent, tag, shown)
