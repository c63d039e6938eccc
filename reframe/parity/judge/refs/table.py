"""Proposals, refusals, accepted references and what is wrong with them, as lines of text."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from parity.base import paths
from parity.base.figures import change, counted, figure, percent
from parity.base.groups import grouped
from parity.base.text import columns
from parity.judge.refs import accepted as references
from parity.judge.refs import propose
from parity.judge.refs.accepted import Accepted, Reference
from parity.judge.refs.lint import Linted
from parity.judge.refs.propose import MeasuredCell, Proposal, Proposed, signed
from parity.judge.stats import bounds
from parity.site import systems


def lines(answer: Proposed) -> Iterator[str]:
    """Yield the proposals, the refusals with their reasons, and the next command."""
    if answer.proposals:
        yield from ('PROPOSED', *columns([_proposal(cell.size, proposal) for cell, proposal in answer.proposals]))
        yield from ([f'  {bounds.STATED}'] if any(p.reference[0] for _, p in answer.proposals) else [])
        yield ''
    if answer.refused:
        # cells of one check that are refused alike are one row
        alike = grouped(answer.refused, lambda each: (each[0].check, each[0].partition, each[0].size, each[1]))
        yield from ('NOT PROPOSED', *columns([
            (cells[0][0].id if len(cells) == 1 else f'{check}: {len(cells)} metrics on {partition}', size, why)
            for (check, partition, size, why), cells in alike.items()]), '')
    yield (f'{len(answer.proposals)} of {counted(len(answer.proposals) + len(answer.refused), "cell")} proposed'
           + (f', in {" ".join(map(str, answer.files))}' if answer.files else ''))
    yield f'next: {_next(answer)}'


def _next(answer: Proposed) -> str:
    if not answer.proposals:
        return f'{paths.nightly(answer.system)} (more nights)'
    if paths.checkout() is None:        # ReFrame applies accepted values where it runs the checks
        return 'write these values into `reference` of your tests; parity import reads it with each run'
    return f"parity refs accept --all --system {answer.system} --why '...'"


def _proposal(size: str, p: Proposal) -> tuple[str, ...]:
    middle, was = p.observed.median, 'new'
    if p.replaces:
        moved = change(p.reference[0], p.replaces[0]) if p.reference[3] == p.replaces[3] else ''
        was = f'was {_value(p.replaces)} ({_limits(p.replaces)})' + (f', {moved}' if moved else '')
    return (p.cell, size, _value(p.reference), _limits(p.reference), f'n {p.observed.n}',
            f'spread {percent(p.observed.spread / abs(middle)) if middle else 0}', was, '; '.join(p.remarks))


def _value(ref: Reference) -> str:
    return figure(ref[0], ref[3])


def _limits(ref: Reference) -> str:
    """The bounds as they stand in the file: shares of the value, absolute where that is 0."""
    middle, *bounds, unit = ref
    low, high = ('none' if bound is None else signed(bound) if middle else f'{bound:g} {unit}' for bound in bounds)
    return f'{low} .. {high}'


def accepted(system: str, files: list[tuple[Path, list[Proposal]]]) -> Iterator[str]:
    """Yield the accepted values and their present state."""
    for file, found in files:
        yield from (str(file), *columns([(p.cell, p.index['size'], _value(p.reference), _limits(p.reference))
                                         for p in found]))
    yield from ('', f'next: git diff, commit; parity refs lint --system {system}')


def linted(found: list[Linted]) -> Iterator[str]:
    """Yield errors, warnings, and how many references there are."""
    if not found:
        yield 'no reference has been accepted'
    for each in found:
        yield from (*(f'error: {what}' for what in each.errors), *(f'warning: {what}' for what in each.warnings))
        yield f'{each.system}: {counted(len(each.errors), "error")}' if each.errors else \
            f'{each.system}: {counted(each.references, "reference")}, no error, ' \
            f'{counted(len(each.warnings), "warning")}'


def shown(system: str = '') -> Iterator[str]:
    """Yield the references of one system, or of all. UsageError for an unknown one."""
    every = {name: references.of_system(name)
             for name in ([systems.read(system).name] if system else systems.names())}
    for name, found in every.items():
        cells = propose.cells(name) if found else []
        for file, own in grouped(sorted(found, key=lambda each: each.file), lambda each: each.file).items():
            rows = columns([_row(each, cells) for each in own])
            yield from (str(file), *(line for both in zip(rows, map(_why, own), strict=True) for line in both))
    if not any(every.values()):
        yield 'no reference has been accepted' + (f' for {system}' if system else '')
        yield f'next: parity refs propose --system {system or "NAME"}'


def _row(each: Accepted, cells: list[MeasuredCell]) -> tuple[str, ...]:
    used = max((n.night for cell in cells if cell.has(each) for n in cell.nights if n.applied), default='')
    life = 'by hand'
    if told := each.provenance:
        word = 'expired' if told.expires < datetime.date.today() else 'expires'
        life = f'accepted {told.date} ({_days(told.date)})   {word} {told.expires} ({_days(told.expires)})'
    return (each.path, _value(each.reference), _limits(each.reference), life,
            f'last applied {used}' if used else 'never applied')


def _days(day: datetime.date) -> str:
    days = (day - datetime.date.today()).days
    return f'in {days} days' if days > 0 else f'{counted(-days, "day")} ago' if days else 'today'


def _why(each: Accepted) -> str:
    if not (told := each.provenance):
        return '      nothing tells who accepted it, why, or until when'
    figures = f'n {told.n}, median {told.median:g}, spread {told.spread:g} {each.reference[3]}'
    return (f'      by {told.by}: {told.why} · {figures} · {told.nights}, sessions {told.sessions} · '
            f'nodes {told.nodes} · software {told.software}')
