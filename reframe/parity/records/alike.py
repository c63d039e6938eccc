"""Facts that make two runs like for like, from a session's record of each case. A fact that was not recorded is
absent: it counts as `not known`, never as equal."""

from __future__ import annotations

import re
from typing import Any

from parity.base import codes

#: What the node tells of itself that differs between partitions by nature: named, never refused.
_OF_NODE = ('virtualisation', 'processor', 'kernel', 'clocksource', 'governor', 'firmware', 'microcode',
            'gpu_driver')
_OF_MACHINE = {'processor': 'model_name', 'kernel': 'kernel', 'clocksource': 'clocksource', 'governor': 'governor'}


def of_run(raw: dict[str, Any], record: dict[str, Any], software: dict[str, Any]) -> dict[str, str]:
    """Return the facts that must be alike. ``raw``: ReFrame's record of the case, ``record``: the workload's own
    in it, ``software``: the session's facts of the environment."""
    placed = record.get('placement') or {}
    env = raw.get('env_vars') or {}
    ranks, each = raw.get('num_tasks'), raw.get('num_tasks_per_node')
    known = {
        **_software(record, software, bool(placed)),
        'size': record.get('size'),
        'ranks': placed.get('ranks') or ranks,
        'nodes': placed.get('nodes') or (ranks // each if ranks and each else None),
        'threads': env.get('OMP_NUM_THREADS') or raw.get('num_cpus_per_task'),
        'binding': placed.get('binding') or env.get('OMP_PROC_BIND'),
        'order': placed.get('order'),
        'profiled': 'yes' if record.get('profile') else 'no',
        'input': _input(record.get('sizing') or {}),
        'arguments': _arguments(raw.get('executable_opts')),
        'check': record.get('check'),
        'variant': ' '.join(f'{k}={v}' for k, v in (record.get('variant') or {}).items()),
    }
    return {fact: str(value) for fact, value in known.items() if value not in (None, '')}


def context(record: dict[str, Any], machine: dict[str, Any]) -> dict[str, str]:
    """Return the facts named beside the figures: the node, its kernel and hypervisor, the file systems."""
    node, said = record.get('node') or {}, record.get('facts') or {}
    known = {fact: node.get(fact) for fact in _OF_NODE}
    if not node and machine:        # the case ran on this very machine
        known |= {fact: machine.get(name) for fact, name in _OF_MACHINE.items()}
        known['virtualisation'] = machine.get('backend') or \
            {'physical': 'none', 'virtual': 'unknown'}.get(machine.get('kind', ''))
    known['file system'] = said.get('destination filesystem')
    return {fact: ' '.join(str(value).split()) for fact, value in known.items() if value}


def _software(record: dict[str, Any], found: dict[str, Any], mpi: bool) -> dict[str, str | None]:
    """The code with Spack's DAG hash, or its package's version and the program's SHA-256; MPI; BLAS."""
    needs = record.get('needs') or []
    own = [code for code in codes.every() if code.feature in needs]
    packages, programs = found.get('packages') or {}, found.get('programs') or {}
    built = [packages[name] for name in map(codes.package_of, needs) if name in packages]
    if built:
        blas = found.get('blas') if any(p.get('blas') for p in built) else None
        return {'software': ', '.join(f'{p["spec"]} /{p["hash"][:7]}' for p in built),
                'MPI': ' '.join(sorted({p['mpi'] for p in built if p.get('mpi')})), 'BLAS': _library(blas)}
    if found.get('modules'):
        return {'software': f'modules {" ".join(found["modules"])}'}
    said = [_program(programs[n], n) for n in needs if n in programs]
    if not said and 'python3' in programs and any(code.executable == 'python3' for code in own):
        said = [f'python {programs["python3"].get("version")}']
    identity = (record.get('software') or {}).get('identity')
    return {'software': ', '.join(said) or (f'identity {identity}' if identity else None),
            'MPI': _mpi(found, programs) if mpi else None,
            'BLAS': _library(found.get('blas')) if any(code.blas for code in own) else None}


def _program(program: dict[str, Any], name: str) -> str:
    version = program.get('package_version') or program.get('version') or ''
    return ' '.join(filter(None, (name, version, f'sha256 {str(program.get("sha256"))[:12]}')))


def _mpi(found: dict[str, Any], programs: dict[str, Any]) -> str | None:
    mpi = found.get('mpi') or {}
    package = (programs.get('mpirun') or {}).get('package_version')
    return ' '.join(filter(None, (mpi.get('name'), mpi.get('version'), package and f'({package})'))) or None


def _library(blas: dict[str, Any] | None) -> str | None:
    if not blas:
        return None
    core = f'as {blas["core"]}' if blas.get('core') else None
    return ' '.join(filter(None, (blas.get('name'), blas.get('version'), core)))


def _input(sizing: dict[str, dict[str, Any]]) -> str:
    """The sizes that a check derived, without the sentences that derive them."""
    return '; '.join(f'{what} ' + ' '.join(f'{k}={v}' for k, v in sized.items() if k != 'why')
                     for what, sized in sorted(sizing.items()) if isinstance(sized, dict))


def _arguments(options: Any) -> str | None:
    """Return the program's arguments without the places of files: the last part of a path, nothing of
    --source=PATH."""
    if not isinstance(options, list):
        return None
    words = ' '.join(map(str, options)).replace("'", '').split()
    words = [w.rpartition('/')[2] if w.startswith(('/', '"$', './')) else w for w in words]
    return ' '.join(w for w in words if not re.match(r'--?[\w.-]+=.*/', w))
