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
    warned = expired_of(found)
    for reference in found:
        accepted = reference.provenance
        if not accepted:
            continue
        ran = {cell.nights[-1].software for cell in cells if cell.has(reference)}
        if ran - {accepted.software}:
            warned.append((reference, f'its software changed since it was accepted on {accepted.date}'))
    return warned


def _against_plan(found: list[Accepted], planned: Plan) -> Iterator[Warned]:
    """A warning for a reference that no planned case has, and for one that two environments share."""
    variants = {check.check: check.variants for check in planned.checks}
    for reference in found:
        no_parameters = ('size', '$environ', *variants[reference.check])
        wanted = {name: value for name, value in reference.index.items() if name not in no_parameters}
        cases = []
        for case in planned.cases:
            alike = (case.partition, case.check) == (reference.partition, reference.check)
            if alike and wanted.items() <= parameters(case.case).items():
                cases.append(case)
        environs = {case.environ for case in cases} - {''}
        if '$environ' in reference.index:
            environs &= {reference.index['$environ']}
        if not environs:
            needs = {need for case in cases if not case.environ for need in case.needs}
            why = plan.not_offered(sorted(needs)) if needs else 'no case of the plan is of it'
            yield reference, f'never applied: {why}'
        elif len(environs) > 1:
            named = ' and '.join(sorted(environs))
            yield reference, f'one value for {named}: put $environ into the $index'
