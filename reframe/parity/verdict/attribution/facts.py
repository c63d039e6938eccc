"""The facts of a session as pairs of name and text, by node: what two nights are compared by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parity.records.record import Session

#: Facts of no node in particular.
ANYWHERE = ''
#: What programs/node.sh and watch.py say, in the order in which a person looks for a cause.
NODE = ('kernel', 'virtualisation', 'processor', 'microcode', 'firmware', 'governor', 'clocksource', 'gpu_driver',
        'vulnerable', 'throttled')


def of(session: Session, environ: str) -> dict[str, dict[str, str]]:
    """{node or ANYWHERE: {fact: text}} of what is known; ``environ``: whose software counts.

    What is unknown has no entry: it can differ from nothing.
    """
    found = {node: _known({name: said.get(name) for name in NODE}) for node, said in session.nodes.items()}
    machine = session.facts.get('machine') or {}
    if here := _machine(machine) | _known({'throttled': session.throttled}):
        found.setdefault(machine.get('hostname') or ANYWHERE, {}).update(here)
    software = (session.facts.get('software') or {}).get(environ) or {}
    found[ANYWHERE] = found.get(ANYWHERE, {}) | _known({
        **dict(_software(software)), 'ReFrame': session.reframe, 'parity': session.facts.get('parity')})
    return found


def _known(facts: dict[str, Any]) -> dict[str, str]:
    return {name: str(text) for name, text in facts.items() if text not in (None, '')}


def _machine(machine: dict[str, Any]) -> dict[str, str]:
    """Of the machine that ReFrame ran on: the node itself where no scheduler is."""
    gib = machine.get('memory_bytes')
    return _known({
        'kernel': machine.get('kernel'), 'virtualisation': machine.get('backend'),
        'processor': machine.get('model_name'), 'governor': machine.get('governor'),
        'clocksource': machine.get('clocksource'), 'mitigations': machine.get('mitigations'),
        'cores': len(machine.get('core_sets') or ()) or None, 'cpu quota': machine.get('cpu_quota'),
        # the kernel's own share differs from kernel to kernel: not by a tenth of a GiB
        'memory': gib and f'{gib / 2**30:.1f} GiB'})


def _software(software: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What an environment runs; where its files lie does not count."""
    for name, program in (software.get('programs') or {}).items():
        if name == 'python3':       # its patches do not make other software (parity.software.model)
            yield name, program.get('version') or ''
        else:
            yield name, _told(program.get('package_version') or program.get('version'), program.get('sha256'))
    for name, package in (software.get('packages') or {}).items():
        yield name, _package(package) if isinstance(package, dict) else str(package)
    for name in ('mpi', 'blas'):
        if said := software.get(name):
            yield name.upper(), ' '.join(str(said[k]) for k in ('name', 'version', 'core') if said.get(k))
    if modules := software.get('modules'):
        yield 'modules', ' '.join(modules)


def _package(package: dict[str, Any]) -> str:
    return _told(package.get('spec'), package.get('hash'), 7) + ''.join(
        f' {package[key]}' for key in ('compiler', 'mpi') if package.get(key))


def _told(version: str | None, digest: str | None, length: int = 8) -> str:
    return ' '.join(filter(None, (version, f'/{digest[:length]}' if digest else '')))
