"""Incidents in words: since when, what they wait for, their cells and their life."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from parity.base import figures, times
from parity.base.console import Line
from parity.base.figures import counted, several
from parity.base.text import columns
from parity.judge.store.incidents import Fault, Incident
from parity.judge.verdict.incidents import FaultGroup, acknowledgeable
from parity.judge.verdict.model import Attribution, Cell, Subsystem, Verdict

#: Changed facts, and cells, that are listed.
_CHANGES, _CELLS = 4, 40


def since(incident: Incident) -> str:
    """Return since when an incident is open, and what it waits for."""
    newest = times.day(_last_bad(incident))
    today = times.day(time.time())
    if incident.waits or newest < today:
        return f'{incident.since_text}, {waits(incident)}'
    return incident.since_text


def waits(incident: Incident) -> str:
    """Return what an open incident waits for, where none of its cells is bad tonight."""
    newest = times.day(_last_bad(incident))
    if not incident.waits:
        return f'bad on {newest} last'
    nodes = several(incident.waits)
    return f'in order elsewhere, not measured again on {nodes} since {newest}'


def _last_bad(incident: Incident) -> float:
    faults = incident.left or incident.faults
    return max(fault.measured for fault in faults.values())


def numbers(incidents: Iterable[Incident | int], kind: str) -> str:
    """Return '2 known incidents: 3, 7'; '' for none."""
    listed = [str(getattr(incident, 'number', incident)) for incident in incidents]
    if not listed:
        return ''
    count = counted(len(listed), f'{kind} incident')
    return f'{count}: {", ".join(listed)}'


def lines(incident: Incident) -> Iterator[Line]:
    """Yield the lines about one incident: what, where, its cells, its life, what to do."""
    yield f'incident {incident.number}   {incident.title}', 'bold'
    is_known = incident.state == 'known'
    state = f'KNOWN   acknowledged {incident.ack}' if is_known else incident.state.upper()
    yield state if incident.closed else f'{state}   {since(incident)}'
    yield from about(incident, _CELLS)
    yield ''
    for event in incident.events:
        line = f'{times.minute(event.start)}   {event.what}'
        if event.text:
            line += f': {event.text}'
        if event.session:
            line += f' · session {event.session[:8]}'
        yield line
    if acknowledgeable(incident):
        yield ''
        slower = any(fault.cell and fault.word == 'regressed' for fault in incident.left.values())
        if slower and not incident.cause:
            yield f'parity cause {incident.number}'
        if is_known:
            yield f'parity unack {incident.number}'
        else:
            yield f'parity ack {incident.number} --until DATE --why TEXT'


def about(incident: Incident, most: int) -> list[str]:
    """Return lines with the place, the part, the changes and at most so many cells of an incident."""
    facts: list[tuple[str, str]] = []
    if incident.where.kind:
        facts.append(('where', str(incident.where)))
    facts.append(('part', incident.part))
    facts += [('changed', str(change)) for change in incident.changes[:_CHANGES]]
    facts += _cause(incident)
    facts = [(label, text) for label, text in facts if text]
    facts += _pairs(incident)
    texts = [f'{label:8} {text}' for label, text in facts]
    faults = worst(incident)
    shown, rest = faults[:most], faults[most:]
    if shown:
        table = [_fault(fault) for fault in shown]
        texts += columns(table)
        if rest:
            count = counted(len(rest), 'more cell')
            texts.append(f'and {count}: parity show {incident.number} --json')
    return texts


def _pairs(incident: Incident) -> Iterator[tuple[str, str]]:
    """Yield the figures of the pairs of an incident, and the nodes of both sides."""
    for fault in incident.faults.values():
        if fault.pair is None:
            continue
        yield 'expected', fault.pair.expected
        yield 'ratio', fault.pair.why
        for side, nodes in fault.pair.nodes.items():
            yield 'nodes', f'{side}: {several(nodes) or "not known"}'


def _cause(incident: Incident) -> Iterator[tuple[str, str]]:
    """Yield the answer of `parity cause`, and the settings that differ."""
    cause = incident.cause
    if cause is None:
        return
    turns = counted(cause.turns, 'turn')
    yield 'cause', f'{cause.text} ({turns}, {times.day(cause.measured)})'
    if cause.package:
        yield '', f'package: {cause.package}'
    for setting in cause.settings:
        yield '', setting


def as_whole(cause: Attribution, whole: Incident | FaultGroup) -> Attribution:
    """Return the cause of a cell with the place and the part that its incident has, where that has any."""
    where = whole.where
    if not where.kind and not cause.where.kind:
        where = cause.where
    part = cause.subsystem
    if whole.part and part.name != whole.part:
        part = Subsystem(name=whole.part)
    return cause.model_copy(update={'where': where, 'subsystem': part})


def agreeing(verdict: Verdict) -> list[Cell]:
    """Return the cells of a verdict, those of an incident with its place and its part."""
    by_number = {incident.number: incident for incident in verdict.incidents}
    cells = []
    for cell in verdict.cells:
        incident = by_number.get(cell.incident)
        if incident and cell.cause:
            whole = as_whole(cell.cause, incident)
            cell = cell.model_copy(update={'cause': whole})
        cells.append(cell)
    return cells


def worst(incident: Incident) -> list[Fault]:
    """Return the cells of an incident, those that have not ended and the worst first."""
    cells = [fault for fault in incident.faults.values() if fault.cell]
    return sorted(cells, key=lambda fault: (fault.well, -fault.loss, fault.cell))


def _fault(fault: Fault) -> tuple[str, ...]:
    (before, now), unit = figures.alike(fault.unit, fault.expected, fault.value)
    figure = ''
    if fault.value is not None:
        figure = f'{now} {unit}'
        if fault.expected is not None:
            figure = f'{before} -> {figure}'
    change = figures.change(fault.value, fault.expected)
    return fault.cell, figure, change, _state(fault)


def _state(fault: Fault) -> str:
    if fault.well:
        last_bad = times.day(fault.measured)      # the figure is of that night
        return f'{fault.word} on {last_bad}, {ended(fault)}'
    if fault.acknowledged:
        return f'known, {fault.word}'
    return fault.word


def ended(fault: Fault) -> str:
    """Return how a fault ended."""
    if fault.retired:
        return 'retired'
    return 'another incident has it' if fault.moved else 'in order again'
