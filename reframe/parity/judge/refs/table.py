"""Proposals, refusals, accepted references and what is wrong with them, as lines of text."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from parity.base import paths
from parity.base.figures import change, counted, figure, percent
from parity.base.groups import grouped
from parity.base.text import columns
from parity.judge.refs import accepted as references
from parity.judge.refs import measured
from parity.judge.refs.accepted import Accepted, Reference
from parity.judge.refs.lint import Linted
from parity.judge.refs.measured import MeasuredCell
from parity.judge.refs.propose import Proposal, Proposed, signed
from parity.judge.stats import bounds
from parity.site import systems


def lines(answer: Proposed) -> Iterator[str]:
    """Yield the proposals, the refusals with their reasons, and the next command."""
    proposals, refused = answer.proposals, answer.refused
    if proposals:
        rows = [_proposal(cell.size, proposal) for cell, proposal in proposals]
        yield 'PROPOSED'
        yield from columns(rows)
        if any(proposal.reference[0] for _, proposal in proposals):
            yield f'  {bounds.STATED}'
        yield ''
    if refused:
        yield 'NOT PROPOSED'
        yield from columns(_refused(refused))
        yield ''
    files = ''
    if answer.files:
        names = ' '.join(map(str, answer.files))
        files = f', in {names}'
    cells = len(proposals) + len(refused)
    yield f'{len(proposals)} of {counted(cells, "cell")} proposed{files}'
    yield f'next: {_next(answer)}'


def _refused(refused: list[tuple[MeasuredCell, str]]) -> list[tuple[str, str, str]]:
    """Return a row of each refusal; cells of one check that are refused alike are one row."""
    alike: dict[tuple, list[MeasuredCell]] = {}
    for cell, why in refused:
        key = cell.check, cell.partition, cell.size, why
        alike.setdefault(key, []).append(cell)
    rows = []
    for (check, partition, size, why), cells in alike.items():
        if len(cells) == 1:
            name = cells[0].id
        else:
            name = f'{check}: {len(cells)} metrics on {partition}'
        rows.append((name, size, why))
    return rows


def _next(answer: Proposed) -> str:
    if not answer.proposals:
        return f'{paths.nightly(answer.system)} (more nights)'
    if paths.checkout() is None:        # ReFrame applies accepted values where it runs the checks
        return 'write these values into `reference` of your tests; parity import reads it with each run'
    return f"parity refs accept --all --system {answer.system} --why '...'"


def _proposal(size: str, proposal: Proposal) -> tuple[str, ...]:
    reference, observed = proposal.reference, proposal.observed
    spread: str | int = 0
    if observed.median:
        spread = percent(observed.spread / abs(observed.median))
    remarks = '; '.join(proposal.remarks)
    return (proposal.cell, size, _value(reference), _limits(reference), f'n {observed.n}',
            f'spread {spread}', _before(proposal), remarks)


def _before(proposal: Proposal) -> str:
    """Say which accepted value a proposal replaces."""
    replaces = proposal.replaces
    if not replaces:
        return 'new'
    was = f'was {_value(replaces)} ({_limits(replaces)})'
    value, _, _, unit = proposal.reference
    value_before, _, _, unit_before = replaces
    moved = change(value, value_before) if unit == unit_before else ''
    return f'{was}, {moved}' if moved else was


def _value(ref: Reference) -> str:
    return figure(ref[0], ref[3])


def _limits(reference: Reference) -> str:
    """The bounds as they stand in the file: shares of the value, absolute where that is 0."""
    middle, low, high, unit = reference
    texts = []
    for bound in (low, high):
        if bound is None:
            texts.append('none')
        elif middle:
            texts.append(signed(bound))
        else:
            texts.append(f'{bound:g} {unit}')
    return ' .. '.join(texts)


def accepted(system: str, files: list[tuple[Path, list[Proposal]]]) -> Iterator[str]:
    """Yield the accepted values and their present state."""
    for file, proposals in files:
        yield str(file)
        rows = []
        for proposal in proposals:
            reference = proposal.reference
            rows.append((proposal.cell, proposal.index['size'], _value(reference), _limits(reference)))
        yield from columns(rows)
    yield ''
    yield f'next: git diff, commit; parity refs lint --system {system}'


def linted(answers: list[Linted]) -> Iterator[str]:
    """Yield errors, warnings, and how many references there are."""
    if not answers:
        yield 'no reference has been accepted'
    for system in answers:
        for error in system.errors:
            yield f'error: {error}'
        for warning in system.warnings:
            yield f'warning: {warning}'
        counts = counted(len(system.errors), 'error')
        if not system.errors:
            warnings = counted(len(system.warnings), 'warning')
            counts = f'{counted(system.references, "reference")}, no error, {warnings}'
        yield f'{system.system}: {counts}'


def shown(system: str = '') -> Iterator[str]:
    """Yield lines on the references of one system, or of all. UsageError for an unknown one."""
    has_references = False
    for name in systems.asked(system):
        of_system = references.of_system(name)
        if of_system:
            has_references = True
            yield from _by_file(of_system, measured.cells(name))
    if not has_references:
        for_system = f' for {system}' if system else ''
        yield f'no reference has been accepted{for_system}'
        yield f'next: parity refs propose --system {system or "NAME"}'


def _by_file(accepted: list[Accepted], cells: list[MeasuredCell]) -> Iterator[str]:
    """Yield the name of each file, then two lines on each reference in it. ``cells``: of their system."""
    file_of = attrgetter('file')
    by_file = grouped(sorted(accepted, key=file_of), file_of)
    for file, of_file in by_file.items():
        yield str(file)
        rows = columns([_row(reference, cells) for reference in of_file])
        for row, reference in zip(rows, of_file, strict=True):
            yield row
            yield _why(reference)


def _row(reference: Accepted, cells: list[MeasuredCell]) -> tuple[str, ...]:
    last_applied = ''
    for cell in cells:
        if cell.has(reference):
            nights = [night.night for night in cell.nights if night.applied]
            last_applied = max([last_applied, *nights])
    applied = f'last applied {last_applied}' if last_applied else 'never applied'
    life = 'by hand'
    accepted = reference.provenance
    if accepted:
        until = accepted.expires
        word = 'expired' if until < datetime.date.today() else 'expires'
        life = f'accepted {accepted.date} ({_days(accepted.date)})   {word} {until} ({_days(until)})'
    return reference.path, _value(reference.reference), _limits(reference.reference), life, applied


def _days(day: datetime.date) -> str:
    days = (day - datetime.date.today()).days
    if days > 0:
        return f'in {days} days'
    return f'{counted(-days, "day")} ago' if days else 'today'


def _why(reference: Accepted) -> str:
    accepted = reference.provenance
    if not accepted:
        return '      nothing tells who accepted it, why, or until when'
    unit = reference.reference[3]
    spread = f'{accepted.spread:g} {unit}'
    figures = f'n {accepted.n}, median {accepted.median:g}, spread {spread}'
    measured = f'{accepted.nights}, sessions {accepted.sessions}'
    return (f'      by {accepted.by}: {accepted.why} · {figures} · {measured} · '
            f'nodes {accepted.nodes} · software {accepted.software}')
