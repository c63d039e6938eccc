"""The identity of a case: its check, its parameters, and every variable that the command line changed."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from parity.base import codes

#: What ReFrame's --distribute adds to a case's name; the node is a group.
DISTRIBUTED = r' %part=\S+ %nid=(\S+)'
#: The figure of one device: triad_gpu0, triad_gpu1.
OF_DEVICE = r'_gpu\d+$'
#: The variables by which a launcher takes the placement of ranks. They are no part of the work: binding and order
#: are facts of their own, whichever launcher takes them.
PLACING = frozenset({
    'OMPI_MCA_hwloc_base_binding_policy', 'OMPI_MCA_rmaps_base_mapping_policy',                 # Open MPI 4
    'PRTE_MCA_hwloc_default_binding_policy', 'PRTE_MCA_rmaps_default_mapping_policy',           # Open MPI 5
    'HYDRA_BINDING', 'HYDRA_MAPPING', 'I_MPI_PIN_DOMAIN', 'I_MPI_PERHOST',                      # MPICH, Intel MPI
    'SLURM_CPU_BIND', 'SLURM_DISTRIBUTION',
})
_DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
_REPEAT = re.compile(r' %\.repeat_no=\d+')
#: Characters that would end a part of a case's name, or a column of a perflog.
_SEPARATOR = re.compile(r'[\s%|]')


def case_name(display_name: str) -> str:
    """Return a case's name: its check and every parameter, those of -P included. Repeats are one case."""
    return _REPEAT.sub('', display_name).replace(' %.', ' %')


def undistributed(case: str) -> tuple[str, str]:
    """Return the case as it is named where ReFrame does not distribute it, and its node; '' where it is not."""
    name, *node = re.split(DISTRIBUTED, case)
    return name, node[0] if node else ''


def shared(metric: str) -> str:
    """Return the name that the figures of all devices share: triad_gpu of triad_gpu0. Others keep theirs."""
    return re.sub(OF_DEVICE, '_gpu', metric)


def suffix(values: Mapping[str, str]) -> str:
    return ''.join(f' %{name}={value}' for name, value in values.items())


def swept_apart(case: str, names: Collection[str]) -> tuple[str, list[str]]:
    """Return the case without the parameters ``names``, and those parameters ('nodes=2').

    -P makes parameters after -n has selected: a selection must not name them."""
    parts = case.split(' %')
    swept = [part for part in parts[1:] if part.partition('=')[0] in names]
    return ' %'.join(part for part in parts if part not in swept), swept


def word(value: Any) -> str:
    """Return a value as one word of a case's name."""
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, Mapping):
        value = [f'{key}:{each}' for key, each in value.items()]
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    said = ','.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return _SEPARATOR.sub(lambda found: f'%{ord(found[0]):02X}', said)


def renamed(report: dict[str, Any]) -> dict[str, Any]:
    """Name the cases of a stored session as today. Older sessions kept changed variables beside the name."""
    names: dict[tuple[str, str, str], str] = {}
    for run in report['runs']:
        for raw in run['testcases']:
            record = raw.get('parity') or {}
            if not (told := record.get('unusual')):
                continue
            told = told if isinstance(told, dict) else {'unusual': 'yes'}
            record['changed'] = {name: word(value) for name, value in told.items()}
            name = raw.get('display_name') or raw['name']
            lacking = {k: v for k, v in record['changed'].items() if f' %{k}=' not in case_name(name)}
            raw['display_name'] = name + suffix(lacking)
            names[case_name(name), raw['partition'], raw['environ']] = case_name(raw['display_name'])
    if names:
        kept = [report.get('parity_session'), *(raw.get('parity_session') for run in report['runs']
                                                for raw in run['testcases'])]
        for case in (case for session in kept if session for case in session['plan']['cases']):
            case['case'] = names.get((case['case'], case['partition'], case['environ']), case['case'])
    return report


#: What a code's folder holds that decides its figures.
_SOURCES = ('.py', '.c', '.h', '.sh', '.dat', '.txt')


@cache
def version(file: str) -> str:
    """Return a hash of a check's file and, in the folder of a code, of its other sources. Checks of different
    versions may measure different things."""
    return digest(b''.join(path.read_bytes() for path in _sources(file)))


@cache
def code(file: str) -> str:
    """Return a hash of the same files without comments, docstrings and blanks of Python: what is other work."""
    return digest(b''.join(map(_code, _sources(file))))


def _code(path: Path) -> bytes:
    text = path.read_bytes()
    if path.suffix != '.py':
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree).encode()


def _sources(file: str) -> list[Path]:
    own, folder = Path(file), Path(file).parent
    files = [own]
    if own == codes.check_of(folder):
        files = sorted(f for f in folder.rglob('*') if f.is_file() and f.suffix in _SOURCES
                       and not {'outputs', '__pycache__'} & {*f.relative_to(folder).parts})
    return files


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


#: Files beside a check that are no input: they hold checks, or explain something; and those nowhere: hidden ones.
_NO_INPUT, _PASSED_OVER = re.compile(r'.*\.(py|md|rst)|adopt\.yaml'), re.compile(r'(^|/)(\.|__pycache__/)')
#: Bytes at the begin and the end of a file that are read, files that are read, files that have a name here.
_READ, _MOST, _NAMED = 1 << 20, 1000, 20


@cache
def inputs(folder: str, sources: str) -> dict[str, str]:
    """Return a hash of each input file of a test that is not parity's, by name.

    These are the files in its ``folder`` and those below its ``sources`` ('' without any). Many files have one
    hash. Of a large file its begin and end count."""
    below = Path(folder, sources)
    files = {f.name: f for f in Path(folder).iterdir() if not _NO_INPUT.fullmatch(f.name)}
    files |= {str(f.relative_to(below)): f for f in below.rglob('*')} if sources else {}
    files = {name: f for name, f in files.items() if not _PASSED_OVER.search(name) and f.is_file()}
    found = {name: _of_file(f, len(files) <= _MOST) for name, f in sorted(files.items())}
    return found if len(found) <= _NAMED else {'files': digest(repr(found).encode())}


def _of_file(file: Path, read: bool) -> str:
    try:
        with file.open('rb') as opened:
            size = opened.seek(0, os.SEEK_END)
            parts = [str(size).encode()]
            for place in (0, max(0, size - _READ)) if read else ():
                opened.seek(place)
                parts.append(opened.read(_READ))
        return digest(b''.join(parts))
    except OSError as err:
        return str(err.strerror)
