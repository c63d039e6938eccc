"""All examinations of a system, in the order in which one rests on the other."""

from __future__ import annotations

from collections.abc import Iterator

from parity.base import paths
from parity.base.errors import INFRASTRUCTURE, USAGE, InfrastructureError, UsageError
from parity.nightly.doctor import here, plan, queue
from parity.nightly.doctor.model import Finding, lacking, note, ok
from parity.probe.model import TODO
from parity.system import systems


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
    for examination in (queue.findings, here.software, plan.findings, here.folders):
        try:
            yield from examination(system)
        except (UsageError, InfrastructureError) as err:
            code = USAGE if isinstance(err, UsageError) else INFRASTRUCTURE
            yield lacking('system', str(err), '', code)
