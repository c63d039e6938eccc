"""The programs to look for on PATH, how each is tried, and the features that they make together."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from parity.base import codes
from parity.base.codes import Code
from parity.software.blas import attempt


class Found(NamedTuple):
    """A program that was looked at. ``path`` is what runs, behind wrappers and links."""

    ok: bool
    why: str = ''
    version: str | None = None
    path: str | None = None
    name: str | None = None             # of an MPI: Open MPI, MPICH, Intel MPI


#: First line of `mpirun --version`.
_MPI_VERSIONS = (
    ('Open MPI', r'\(Open ?(?:MPI|RTE)\) (\d[\w.]*)'),
    ('Intel MPI', r'Intel\(R\) MPI Library.*?Version ([\d.]+)'),
    ('MPICH', r'HYDRA build details:\s+Version:\s+([\w.]+)'),
)


def mpirun(path: str, env: Mapping[str, str]) -> Found:
    """Starts one process for real: a mere --version works in places where nothing else does."""
    said = attempt([path, '--version'], env)
    if not said.ok:
        return Found(False, said.why)
    known = ((name, re.search(pattern, said.out + said.err)) for name, pattern in _MPI_VERSIONS)
    name, version = next(((name, match[1]) for name, match in known if match), ('MPI', None))
    true = shutil.which('true', path=env.get('PATH')) or '/bin/true'
    ran = attempt([path, '-np', '1', true], env)
    why = '' if ran.ok else f'mpirun -np 1 true: {ran.why}'
    return Found(ran.ok, why, version, path, name)


_ASK_PYTHON = 'import json, os, sys; print(json.dumps([sys.version_info[:3], os.path.realpath(sys.executable)]))'


def python(path: str, env: Mapping[str, str]) -> Found:
    """The interpreter itself, behind a virtual environment's link or a pyenv shim."""
    said = attempt([path, '-I', '-c', _ASK_PYTHON], env)
    if not said.ok:
        return Found(False, said.why)
    try:
        version, executable = json.loads(said.out)
    except ValueError:
        return Found(False, f'unexpected answer: {said.out[:80]!r}')
    return _of_version('.'.join(map(str, version)), (3, 9), executable)


def _of_version(version: str, least: tuple[int, ...], path: str) -> Found:
    if tuple(map(int, version.split('.'))) < least:
        needed = '.'.join(map(str, least))
        return Found(False, f'version {version}; {needed} or later is needed', version, path)
    return Found(True, '', version, path)


def benchmark(code: Code, path: str, env: Mapping[str, str]) -> Found:
    """Run a code's program as its `CODE` says, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix='parity-probe-', ignore_cleanup_errors=True) as folder:
        for name in code.files:
            shutil.copy(code.file.parent / name, folder)
        ran = attempt([path, *code.starts], env, cwd=folder)
        if not ran.ok:
            return Found(False, ran.why)
        try:
            text = Path(folder, code.result).read_text(errors='replace') if code.result else ran.out
        except OSError as error:
            return Found(False, f'{code.result}: {error.strerror}')
    if code.says and code.says not in text.splitlines():
        return Found(False, f'ran, but its output does not say {code.says}')
    match = re.search(code.version, text, re.MULTILINE)
    if not match:
        return Found(False, f'unexpected answer: {text[:80]!r}')
    return _of_version('.'.join(match.groups()), code.least, path)


#: What our kernels ask of a compiler: OpenMP, and a program that then runs.
_TINY_C = """\
#include <omp.h>
#include <stdio.h>
int main(void) { printf("%s\\n", __VERSION__); return omp_get_max_threads() < 1; }
"""


def compiler(path: str, env: Mapping[str, str]) -> Found:
    """Compiles and runs a program of one line with OpenMP."""
    with tempfile.TemporaryDirectory(prefix='parity-probe-', ignore_cleanup_errors=True) as folder:
        Path(folder, 'tiny.c').write_text(_TINY_C)
        made = attempt([path, '-fopenmp', '-o', 'tiny', 'tiny.c'], env, cwd=folder)
        if not made.ok:
            return Found(False, f'a program with OpenMP (-fopenmp) does not compile: {made.why}')
        ran = attempt([f'{folder}/tiny'], env)
    return Found(ran.ok, ran.why, ran.out.strip() or None, path)


class Program(NamedTuple):
    """An executable, how to try it, and where it comes from on a distribution."""

    executable: str
    probe: Callable[[str, Mapping[str, str]], Found]
    get: str


@cache
def programs() -> dict[str, Program]:
    """Return the programs to look for on PATH, by their names: TOOLS and the codes' programs."""
    known = {code.executable: (partial(benchmark, code), code.package)
             for code in codes.every() if code.package}
    known |= {'mpirun': (mpirun, 'openmpi-bin'), 'python3': (python, 'python3-minimal'),
              'cc': (compiler, 'gcc libc6-dev')}
    return {name: Program(name, probe, f'Debian and Ubuntu: apt install {package}')
            for name, (probe, package) in known.items()}


def features() -> dict[str, tuple[str, ...]]:
    """The features that programs on PATH can offer, with the programs that must all start."""
    of_codes = {code.feature: (*filter(None, [code.executable]), *code.beside) for code in codes.every()}
    return {name: (tool,) for tool, name in codes.TOOLS.items()} | {k: v for k, v in of_codes.items() if v}


def root_variables() -> dict[str, str]:
    """Return the variables that MPI programs need here: otherwise Open MPI refuses root."""
    root = os.geteuid() == 0
    return {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'} if root else {}
