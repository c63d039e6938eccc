"""Incidents in words: since when, what they wait for, their cells and their life."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from parity.base import figures, times
from parity.base.console import Line
from parity.base.figures import counted, several
from parity.base.text import columns
from parity.judge.store.incidents import Fault, Incident
from parity.judge.verdict.incidents import acknowledgeable

#: Changed facts, and cells, that are listed.
_CHANGES, _CELLS = 4, 40

def since(incident: Incident) -> str:
    """Return since when an incident is open, and what it waits for."""
    newest = max(fault.measured for fault in (incident.left or incident.faults).values())
    begin = incident.since_text
    late = incident.waits or times.day(newest) < times.day(time.time())
    return f'{begin}, {waits(incident)}' if late else begin


def waits(incident: Incident) -> str:
    """Return what an open incident waits for, where none of its cells is bad tonight."""
    newest = times.day(max(fault.measured for fault in (incident.left or incident.faults).values()))
    if incident.waits:
        return f'in order elsewhere, not measured again on {several(incident.waits)} since {newest}'
    return f'bad on {newest} last'


def numbers(found: Iterable[Incident | int], kind: str) -> str:
    """Return '2 known incidents: 3, 7'; '' for none."""
    listed = [str(getattr(each, 'number', each)) for each in found]
    return f'{counted(len(listed), f"{kind} incident")}: {", ".join(listed)}' if listed else ''


def lines(incident: Incident) -> Iterator[Line]:
    """Yield the lines about one incident: what, where, its cells, its life, what to do."""
    state = incident.state.upper() if incident.state != 'known' else f'KNOWN   acknowledged {incident.ack}'
    yield from ((f'incident {incident.number}   {incident.title}', 'bold'),
                f'{state}   {"" if incident.closed else since(incident)}'.rstrip(), *about(incident, _CELLS), '')
    for event in incident.events:
        of = f' · session {event.session[:8]}' if event.session else ''
        yield f'{times.minute(event.start)}   {event.what}{f": {event.text}" if event.text else ""}{of}'
    if acknowledgeable(incident):
        slower = any(fault.cell and fault.word == 'regressed' for fault in incident.left.values())
        yield ''
        if slower and not incident.cause:
            yield f'parity cause {incident.number}'
        yield f'parity unack {incident.number}' if incident.state == 'known' else \
            f'parity ack {incident.number} --until DATE --why TEXT'


def about(incident: Incident, most: int) -> list[str]:
    """Return lines with the place, the part, the changes and at most so many cells of an incident."""
    texts = [f'{label:8} {text}' for label, text in (
        ('where', str(incident.where) if incident.where.kind else ''), ('part', incident.part),
        *(('changed', str(change)) for change in incident.changes[:_CHANGES]), *_cause(incident)) if text]
    texts += [f'{label:8} {text}' for label, text in _pairs(incident)]
    faults = worst(incident)
    if not faults[:most]:
        return texts
    rest = f'and {counted(len(faults) - most, "more cell")}: parity show {incident.number} --json'
    return texts + columns([*map(_fault, faults[:most])]) + ([rest] if faults[most:] else [])


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
    if found := incident.cause:
        yield 'cause', f'{found.text} ({counted(found.turns, "turn")}, {times.day(found.measured)})'
        yield from (('', text) for text in [found.package and f'package: {found.package}', *found.settings])


def worst(incident: Incident) -> list[Fault]:
    """Return the cells of an incident, those that have not ended and the worst first."""
    return sorted((f for f in incident.faults.values() if f.cell), key=lambda f: (f.well, -f.loss, f.cell))


def _fault(fault: Fault) -> tuple[str, ...]:
    (before, now), unit = figures.alike(fault.unit, fault.expected, fault.value)
    before = f'{before} -> ' if fault.expected is not None else ''
    figure = '' if fault.value is None else f'{before}{now} {unit}'
    word = f'{"known, " * fault.acknowledged}{fault.word}'
    if fault.well:      # the figure is of the last night that was bad
        now = 'retired' if fault.retired else 'another incident has it' if fault.moved else 'in order again'
        word = f'{fault.word} on {times.day(fault.measured)}, {now}'
    return fault.cell, figure, figures.change(fault.value, fault.expected), word
