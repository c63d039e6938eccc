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
    match = re.search(DISTRIBUTED, case)
    return (case[:match.start()], match[1]) if match else (case, '')


def shared(metric: str) -> str:
    """Return the name that the figures of all devices share: triad_gpu of triad_gpu0. Others keep theirs."""
    return re.sub(OF_DEVICE, '_gpu', metric)


def suffix(values: Mapping[str, str]) -> str:
    return ''.join(f' %{name}={value}' for name, value in values.items())


def swept_apart(case: str, names: Collection[str]) -> tuple[str, list[str]]:
    """Return the case without the parameters ``names``, and those parameters ('nodes=2').

    -P makes parameters after -n has selected: a selection must not name them."""
    check, *parameters = case.split(' %')
    kept, swept = [check], []
    for parameter in parameters:
        is_swept = parameter.partition('=')[0] in names
        (swept if is_swept else kept).append(parameter)
    return ' %'.join(kept), swept


def word(value: Any) -> str:
    """Return a value as one word of a case's name."""
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, Mapping):
        value = [f'{key}:{entry}' for key, entry in value.items()]
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        value = ','.join(map(str, value))
    return _SEPARATOR.sub(lambda match: f'%{ord(match[0]):02X}', str(value))


def renamed(report: dict[str, Any]) -> dict[str, Any]:
    """Name the cases of a stored session as today. Older sessions kept changed variables beside the name."""
    testcases = [testcase for run in report['runs'] for testcase in run['testcases']]
    names: dict[tuple[str, str, str], str] = {}
    for testcase in testcases:
        record = testcase.get('parity') or {}
        unusual = record.get('unusual')
        if not unusual:
            continue
        if not isinstance(unusual, dict):
            unusual = {'unusual': 'yes'}
        record['changed'] = {name: word(value) for name, value in unusual.items()}
        old_name = testcase.get('display_name') or testcase['name']
        case = case_name(old_name)
        lacking = {name: value for name, value in record['changed'].items() if f' %{name}=' not in case}
        testcase['display_name'] = old_name + suffix(lacking)
        names[case, testcase['partition'], testcase['environ']] = case_name(testcase['display_name'])
    if names:
        for session in (report, *testcases):
            _rename_planned(session.get('parity_session'), names)
    return report


def _rename_planned(session: dict[str, Any] | None, names: dict[tuple[str, str, str], str]) -> None:
    """Name the planned cases of a session anew. ``names``: new ones, by old name, partition and environment."""
    if not session:
        return
    for case in session['plan']['cases']:
        key = case['case'], case['partition'], case['environ']
        case['case'] = names.get(key, case['case'])


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
    """Return the files that decide the figures of a check."""
    check = Path(file)
    folder = check.parent
    if check != codes.check_of(folder):
        return [check]
    return sorted(path for path in folder.rglob('*') if _is_source(path, folder))


def _is_source(path: Path, folder: Path) -> bool:
    within = path.relative_to(folder).parts
    if 'outputs' in within or '__pycache__' in within:
        return False
    return path.suffix in _SOURCES and path.is_file()

#: Files beside a check that are no input: they hold checks, or explain something.
_NO_INPUT = re.compile(r'.*\.(py|md|rst)|adopt\.yaml')

#: Files that are no input anywhere: hidden ones, and those that Python compiled.
_PASSED_OVER = re.compile(r'(^|/)(\.|__pycache__/)')


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


#: Bytes at the begin and the end of a file that are read, files that are read, files that have a name here.
_READ, _MOST, _NAMED = 1 << 20, 1000, 20


@cache
def inputs(folder: str, sources: str) -> dict[str, str]:
    """Return a hash of each input file of a test that is not parity's, by name.

    These are the files in its ``folder`` and those below its ``sources`` ('' without any). Many files have one
    hash. Of a large file its begin and end count."""
    candidates = {file.name: file for file in Path(folder).iterdir() if not _NO_INPUT.fullmatch(file.name)}
    if sources:
        below = Path(folder, sources)
        candidates |= {str(file.relative_to(below)): file for file in below.rglob('*')}
    files = {}
    for name in sorted(candidates):
        if not _PASSED_OVER.search(name) and candidates[name].is_file():
            files[name] = candidates[name]
    read = len(files) <= _MOST
    hashes = {name: _of_file(file, read) for name, file in files.items()}
    if len(hashes) > _NAMED:
        return {'files': digest(repr(hashes).encode())}
    return hashes


def _of_file(file: Path, read: bool) -> str:
    """Return a hash of a file; of its size alone unless it is ``read``, and why where that fails."""
    try:
        with file.open('rb') as opened:
            size = opened.seek(0, os.SEEK_END)
            parts = [str(size).encode()]
            if read:
                for place in (0, max(0, size - _READ)):
                    opened.seek(place)
                    parts.append(opened.read(_READ))
        return digest(b''.join(parts))
    except OSError as err:
        return str(err.strerror)
