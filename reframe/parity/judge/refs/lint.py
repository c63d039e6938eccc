"""Warnings of accepted references: expired, of other software, or never applied by any case of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from parity.judge.refs import accepted
from parity.judge.refs.accepted import Accepted, Warned, expired_of
from parity.judge.store.plan_file import parameters
from parity.site import plan, systems
from parity.site.plan import Plan


class Linted(NamedTuple):
    """A system: how many references it has, the errors (a run refuses them) and the warnings."""

    system: str
    references: int = 0
    errors: list[str] = []
    warnings: list[str] = []


def lint(system: str, plan_of: Callable[[str], Plan]) -> list[Linted]:
    """Lint one system, or all that have references (''). ``plan_of`` returns the plan of a system. UsageError for
    an unknown one."""
    linted = []
    for name in [system] if system else [n for n in systems.names() if systems.references(n).is_dir()]:
        site = systems.read(name)
        planned = plan_of(name)
        if wrong := accepted.problems(site, planned):
            linted.append(Linted(name, errors=wrong))
        else:
            found = accepted.of_system(name)
            warned = [*warnings(found), *_against_plan(found, planned)]
            linted.append(Linted(name, len(found), warnings=[f'{each.where}: {what}' for each, what in warned]))
    return linted


def warnings(found: list[Accepted]) -> list[Warned]:
    """Return what has expired, and what the system measured with other software since."""
    if not found:
        return []
    from parity.judge.refs import propose  # a system without references needs no polars
    cells = [cell for cell in propose.cells(found[0].system) if cell.nights]
    return expired_of(found) + [
        (each, f'its software changed since it was accepted on {told.date}') for each in found
        if (told := each.provenance) and any(
            cell.has(each) and cell.nights[-1].software != told.software for cell in cells)]


def _against_plan(found: list[Accepted], planned: Plan) -> Iterator[Warned]:
    """A warning for a reference that no planned case has, and for one that two environments share."""
    variants = {check.check: check.variants for check in planned.checks}
    for each in found:
        wanted = {name: value for name, value in each.index.items()
                  if name not in ('size', '$environ', *variants[each.check])}
        own = [case for case in planned.cases if each.partition == case.partition and each.check == case.check
               and wanted.items() <= parameters(case.case).items()]
        environs = {case.environ for case in own} - {''}
        if '$environ' in each.index:
            environs &= {each.index['$environ']}
        if not environs:
            needs = sorted({need for case in own if not case.environ for need in case.needs})
            yield each, f'never applied: {plan.not_offered(needs) if needs else "no case of the plan is of it"}'
        elif len(environs) > 1:
            yield each, f'one value for {" and ".join(sorted(environs))}: put $environ into the $index'
