"""Errors in the accepted references, and warnings about those that deserve a look."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from parity import plan
from parity.base import paths
from parity.base.errors import UsageError
from parity.base.figures import percent
from parity.plan import Plan
from parity.records.cells import parameters
from parity.refs import accepted
from parity.refs.accepted import Accepted
from parity.system import systems

if TYPE_CHECKING:
    from parity.refs.nights import Cell

#: A reference that so many sessions in a row did not apply is of nothing that is measured.
UNUSED = 14
#: A bound so many times as wide as the noise needs lets a real change pass.
_TOO_WIDE = 2


class Warned(NamedTuple):
    """A warning for a person to look at; the reference is applied all the same."""

    reference: Accepted
    what: str

    def __str__(self) -> str:
        return f'{self.reference.where}: {self.what}'


class Linted(NamedTuple):
    """A system: how many references it has, the errors (a run refuses them) and the warnings."""

    system: str
    references: int = 0
    errors: list[str] = []
    warnings: list[Warned] = []


def run(system: str = '') -> list[Linted]:
    """Lint one system, or all that have references. UsageError for an unknown one."""
    linted = []
    for name in [system] if system else [n for n in systems.names() if systems.references(n).is_dir()]:
        site = systems.read(name)
        planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', '--system', name])
        if wrong := accepted.problems(site, planned):
            linted.append(Linted(name, errors=wrong))
        else:
            found = accepted.of_system(name)
            linted.append(Linted(name, len(found), warnings=[*warnings(found), *_against_plan(found, planned)]))
    return linted


def warnings(found: list[Accepted]) -> list[Warned]:
    """Return what has expired, and what no longer fits the history of the system."""
    if not found:
        return []
    from parity.records import history  # a first verdict, which asks only what has expired, loads no polars
    from parity.refs import nights
    frame = history.load(found[0].system)
    cells = nights.cells(frame)
    began = sorted(frame['night'].unique())
    warned = _expired(found)
    for each in found:
        own = [cell for cell in cells if each.is_of(cell) and cell.nights]
        told = each.provenance
        if told and any(cell.nights[-1].software != told.software for cell in own):
            warned.append(Warned(each, f'its software changed since it was accepted on {told.date}'))
        warned += [Warned(each, what) for what in _width(each, own)]
        since = [night for night in began if not told or night[:10] > str(told.date)]
        used = max((n.night for cell in own for n in cell.nights if n.applied), default='')
        if len(since) >= UNUSED and used < since[-UNUSED]:
            warned.append(Warned(each, f'not applied by the last {UNUSED} sessions'
                                 + (f', not since {used[:10]}' if used else '')))
    return warned


def _width(each: Accepted, own: list[Cell]) -> Iterator[str]:
    """A word where the bound on the worse side is far wider than the nights need."""
    if not each.value or not own:
        return
    from parity.refs import nights
    bound = each.lower if own[0].nights[-1].better == 'higher' else each.upper
    try:
        needed = [nights.of_nights(nights.alike(cell, {})) for cell in own]
    except nights.Refused:
        return
    widest = max(found.reference[2] for found in needed)
    if bound is not None and widest and abs(bound) > _TOO_WIDE * widest:
        yield (f'a bound of {percent(abs(bound))} is wider than the noise needs: '
               f'{needed[0].observed.n} nights ask for {percent(widest)}')


def _against_plan(found: list[Accepted], planned: Plan) -> Iterator[Warned]:
    """A warning for a reference that no planned case has, and for one that two environments share."""
    variants = {check.check: check.variants for check in planned.checks}
    for each in found:
        wanted = {name: v for name, v in each.parameters.items() if name not in variants[each.check]}
        own = [case for case in planned.cases if each.partition == case.partition and each.check == case.check
               and wanted.items() <= parameters(case.case).items()]
        environs = {case.environ for case in own} - {''}
        if not environs:
            needs = ', '.join(sorted({need for case in own for need in case.needs}))
            yield Warned(each, f'never applied: no environment offers {needs}' if needs else
                         'never applied: no case of the plan is of it')
        elif '$environ' in each.index and each.index['$environ'] not in environs:
            yield Warned(each, f'never applied: the case runs in {", ".join(sorted(environs))}')
        elif '$environ' not in each.index and len(environs) > 1:
            yield Warned(each, f'one value for {" and ".join(sorted(environs))}: put $environ into the $index')


def _expired(references: Iterable[Accepted]) -> list[Warned]:
    return [Warned(each, f'expired on {each.provenance.expires}; it is applied all the same: '
                         f'parity refs propose --system {each.system}')
            for each in references if each.provenance and each.provenance.expires < datetime.date.today()]


def grouped(warned: Iterable[Warned]) -> list[str]:
    """Return one sentence for all references of a file that have the same warning."""
    groups: dict[tuple, list[Warned]] = {}
    for each in warned:
        groups.setdefault((each.reference.file, each.what), []).append(each)
    return [str(first) if not more else
            f'{first.reference.where}, and {len(more)} more reference{"s" if len(more) > 1 else ""}: {first.what}'
            for first, *more in groups.values()]


def expired(system: str) -> list[str]:
    """Return what a verdict says about the references; a file that cannot be read, the next run refuses."""
    try:
        return grouped(_expired(accepted.of_system(system)))
    except UsageError as err:
        return [str(err)]
