"""Warnings of accepted references: expired, of other software, or never applied by any case of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from parity.judge.refs import accepted
from parity.judge.refs.accepted import Accepted, Warned, expired_of
from parity.judge.store.plan_file import parameters
from parity.site import plan, systems
from parity.site.plan import Plan, PlannedCase


class Linted(NamedTuple):
    """A system: how many references it has, the errors (a run refuses them) and the warnings."""

    system: str
    references: int = 0
    errors: list[str] = []
    warnings: list[str] = []


def lint(system: str, plan_of: Callable[[str], Plan]) -> list[Linted]:
    """Lint one system, or all that have references (''). ``plan_of`` returns the plan of a system. UsageError for
    an unknown one."""
    if system:
        names = [system]
    else:
        names = [name for name in systems.names() if systems.references(name).is_dir()]
    linted = []
    for name in names:
        site = systems.read(name)
        planned = plan_of(name)
        errors = accepted.problems(site, planned)
        if errors:
            linted.append(Linted(name, errors=errors))
            continue
        references = accepted.of_system(name)
        sentences = []
        for reference, what in [*warnings(references), *_against_plan(references, planned)]:
            sentences.append(f'{reference.where}: {what}')
        linted.append(Linted(name, len(references), warnings=sentences))
    return linted


def warnings(references: list[Accepted]) -> list[Warned]:
    """Return what has expired, and what the system measured with other software since."""
    if not references:
        return []
    from parity.judge.refs import measured  # a system without references needs no polars
    system = references[0].system
    cells = [cell for cell in measured.cells(system) if cell.nights]
    warned = expired_of(references)
    for reference in references:
        accepted = reference.provenance
        if not accepted:
            continue
        software = {cell.nights[-1].software for cell in cells if cell.has(reference)}
        if software - {accepted.software}:
            what = f'its software changed since it was accepted on {accepted.date}'
            warned.append((reference, what))
    return warned


def _against_plan(references: list[Accepted], planned: Plan) -> Iterator[Warned]:
    """A warning for a reference that no planned case has, and for one that two environments share."""
    variants = {check.check: check.variants for check in planned.checks}
    for reference in references:
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
            yield reference, f'never applied: {_why_never(cases)}'
        elif len(environs) > 1:
            names = ' and '.join(sorted(environs))
            yield reference, f'one value for {names}: put $environ into the $index'


def _why_never(cases: list[PlannedCase]) -> str:
    """Say why a reference is applied by none of the cases that have its parameters."""
    needs = set()
    for case in cases:
        if not case.environ:
            needs.update(case.needs)
    if not needs:
        return 'no case of the plan is of it'
    return plan.not_offered(sorted(needs))
