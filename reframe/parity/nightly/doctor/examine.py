"""All examinations of a system, in the order in which one rests on the other."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from parity import plan
from parity.base import paths
from parity.base.codes import FEATURES, OFFERED_BY
from parity.base.errors import INFRASTRUCTURE, MISSING, USAGE, InfrastructureError, UsageError
from parity.compare import pairs
from parity.nightly import guard
from parity.nightly.doctor import Finding, here, lacking, note, ok, queue
from parity.plan import Plan
from parity.probe.model import TODO
from parity.system import systems
from parity.system.schema import System
from parity.verdict import acks


def findings(name: str) -> Iterator[Finding]:
    """One thing after another, as it is found out."""
    yield from here.python()
    try:
        system = systems.read(name)
    except UsageError as err:
        yield from (lacking('system', line, '', USAGE) for line in str(err).splitlines())
        yield note('system', 'the rest was not examined: it rests on system.yaml')
        return
    file = paths.root() / 'systems' / name / 'system.yaml'
    yield ok('system', f'{file}: valid, partitions {", ".join(p.name for p in system.partitions)}')
    left = [str(n) for n, line in enumerate(file.read_text().splitlines(), 1) if TODO in line and n > 2]
    if left:
        yield note('system', f'{len(left)} lines with {TODO}: {", ".join(left)}', f'edit {file}')
    for examination in (queue.findings, here.software, _plan, here.folders):
        try:
            yield from examination(system)
        except (UsageError, InfrastructureError) as err:
            code = USAGE if isinstance(err, UsageError) else INFRASTRUCTURE
            yield lacking('system', str(err), '', code)


def _plan(system: System) -> Iterator[Finding]:
    """ReFrame reads the settings and every check, as the nightly lets it; nothing is run."""
    options = ['--system', system.name]
    try:
        planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', *options])
    except UsageError as err:
        yield lacking('settings', str(err), '', USAGE)
        return
    cells = sum(len(c.metrics) for c in planned.cases)
    try:
        guard.everything(planned, options)
        yield ok('settings', f'ReFrame reads them: {len(planned.checks)} checks, {len(planned.cases)} cases, '
                             f'{cells} cells')
        yield from _files(system)
    except UsageError as err:
        yield from (lacking('files', line, '', USAGE) for line in str(err).splitlines())
    yield from _codes(system, planned)


def _files(system: System) -> Iterator[Finding]:
    folder = paths.root() / 'systems' / system.name
    accepted = sorted(f.name for f in (folder / 'references').glob('*.yaml'))
    if accepted:
        yield ok('references', f'{", ".join(accepted)}: valid')
    else:
        yield note('references', 'none is accepted: everything will be `unreferenced`',
                   'after some nights: parity refs propose')
    if declared := pairs.read(system):
        yield ok('pairs', f'{len(declared)} declared, valid')
    today = datetime.date.today()
    if known := acks.read(system.name):
        over = [ack.cell for ack in known if not ack.holds(today)]
        yield note('acks', f'over: {", ".join(over)}', 'parity ack --list') if over \
            else ok('acks', f'{len(known)} known faults, valid')


def _codes(system: System, planned: Plan) -> Iterator[Finding]:
    """Each code on each partition: offered, missing although required, waived, or not asked for."""
    required = systems.required(system, set(planned.providers))
    waived, expired = systems.waived(system, datetime.date.today())
    without: dict[str, set[str]] = {}
    for case in planned.cases:
        for need in case.needs:
            lacks = without.setdefault(need, set())
            lacks |= {case.partition} if not case.environ else set()
    planned_codes = [code for code in FEATURES if code in without]
    offered = [code for code in planned_codes if not without[code]]
    yield ok('codes', f'{len(offered)} of {len(planned_codes)} that checks need are offered: '
                      f'{" ".join(offered) or "none"}')
    missing = [code for code in planned_codes if without[code] and code in required and code not in waived]
    if missing:
        yield lacking('codes', f'required, and no environment offers them: {_named(missing, without, system)}',
                      _build(missing, system), MISSING)
    others = [code for code in planned_codes if without[code] and code not in required]
    if others:
        yield note('codes', f'not required, skipped: {_named(others, without, system)}', _build(others, system))
    yield from (note('codes', f'{code}: {why}') for code, why in waived.items())
    yield from (note('codes', text, f'systems/{system.name}/system.yaml: waivers') for text in expired)


def _named(codes: list[str], without: dict[str, set[str]], system: System) -> str:
    """The codes, with the partitions where those are not all that lack one."""
    where = {code: '' if len(without[code]) == len(system.partitions) else f' ({", ".join(sorted(without[code]))})'
             for code in codes}
    return ' '.join(code + partitions for code, partitions in where.items())


def _build(codes: list[str], system: System) -> str:
    built = [code for code in codes if code in OFFERED_BY['spack']]
    return f'parity software build --system {system.name}' if built \
        else f'systems/{system.name}/system.yaml: environments with modules that bring them'
