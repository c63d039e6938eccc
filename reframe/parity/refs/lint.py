"""What is wrong with the accepted references, and what of them deserves a look."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity import plan
from parity.base import paths
from parity.base.errors import UsageError
from parity.base.figures import percent
from parity.plan import Plan
from parity.records.cells import parameters
from parity.refs import accepted
from parity.refs.accepted import Accepted
from parity.system import systems
from parity.system.schema import System

if TYPE_CHECKING:
    from parity.refs.nights import Cell

#: A reference that so many sessions in a row did not apply is of nothing that is measured.
UNUSED = 14
#: A bound so many times as wide as the noise needs lets a real change pass.
_TOO_WIDE = 2


@dataclass(frozen=True)
class Warned:
    """Something a person should look at; the reference is applied all the same."""

    reference: Accepted
    what: str

    def __str__(self) -> str:
        return f'{self.reference.where}: {self.what}'


@dataclass(frozen=True)
class Linted:
    """Of one system: how many references it has, what is wrong (a run refuses it), what is to be looked at."""

    system: str
    references: int = 0
    errors: list[str] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)


def run(system: str = '') -> list[Linted]:
    """Lint one system, or all that have references. UsageError for an unknown one."""
    return [_of_system(systems.read(name)) for name in ([system] if system else systems.names())
            if system or systems.references(name).is_dir()]


def _of_system(site: System) -> Linted:
    if not systems.references(site.name).is_dir():
        return Linted(site.name)
    planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', '--system', site.name])
    if wrong := accepted.problems(site, planned):
        return Linted(site.name, errors=wrong)
    found = accepted.of_system(site.name)
    return Linted(site.name, len(found), warnings=[*warnings(found), *_against_plan(found, planned)])


def warnings(found: list[Accepted]) -> list[Warned]:
    """What the references of a system say of themselves, and what its history says of them."""
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
        if each.provenance and any(cell.nights[-1].software != each.provenance.software for cell in own):
            warned.append(Warned(each, f'its software changed since it was accepted on {each.provenance.date}'))
        warned += [Warned(each, what) for what in (*_width(each, own), *_unused(each, own, began))]
    return warned


def _width(each: Accepted, own: list[Cell]) -> Iterator[str]:
    """The bound where worse lies is far wider than the nights that there are ask for."""
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


def _unused(each: Accepted, own: list[Cell], began: list[str]) -> Iterator[str]:
    """No session applied it, of those that could."""
    since = [n for n in began if not each.provenance or n[:10] > str(each.provenance.date)]
    used = max((n.night for cell in own for n in cell.nights if n.applied), default='')
    if len(since) >= UNUSED and used < since[-UNUSED]:
        yield f'not applied by the last {UNUSED} sessions' + (f', not since {used[:10]}' if used else '')


def _against_plan(found: list[Accepted], planned: Plan) -> Iterator[Warned]:
    """References of what a whole run does not measure, and of two things at once."""
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
    today = datetime.date.today()
    return [Warned(each, f'expired on {each.provenance.expires}; it is applied all the same: '
                         f'parity refs propose --system {each.system}')
            for each in references if each.provenance and today > each.provenance.expires]


def grouped(warned: Iterable[Warned]) -> list[str]:
    """One sentence for all references of a file of which the same is said."""
    groups: dict[tuple, list[Warned]] = {}
    for each in warned:
        groups.setdefault((each.reference.file, each.what), []).append(each)
    return [str(first) if not more else
            f'{first.reference.where}, and {len(more)} more reference{"s" if len(more) > 1 else ""}: {first.what}'
            for first, *more in groups.values()]


def expired(system: str) -> list[str]:
    """What a verdict says of the system's references; a file that cannot be read, the next run refuses."""
    try:
        return grouped(_expired(accepted.of_system(system)))
    except UsageError as err:
        return [str(err)]
