"""A program's start, which alone proves that it works; the BLAS that it loads, and OpenBLAS's kernels."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

#: Seconds until a program that does not answer counts as not starting.
TIMEOUT = 10.0
#: Make a temporary folder to start a program in.
scratch = partial(tempfile.TemporaryDirectory, prefix='parity-probe-', ignore_cleanup_errors=True)


class ProgramRun(NamedTuple):
    """The outcome of a short run. ``why`` says what went wrong, or is empty."""

    ok: bool
    why: str
    out: str = ''
    err: str = ''
    ended: bool = True                  # False: parity killed it after its time
    code: int | None = None             # its exit code, below 0 for a signal; None where it has none


def attempt(command: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = TIMEOUT,
            cwd: str = '') -> ProgramRun:
    """Run ``command`` without input, in a temporary folder unless ``cwd`` names one."""
    try:
        with contextlib.nullcontext(cwd) if cwd else scratch() as folder:
            # a session of its own: mpirun's children must go with it
            process = subprocess.Popen(command, env=env, cwd=folder, text=True, errors='replace',
                                       start_new_session=True, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:       # Ctrl-C does not reach another session by itself
                _kill(process)
                raise
    except subprocess.TimeoutExpired:
        return ProgramRun(False, f'no answer within {timeout:g} s', ended=False)
    except OSError as error:            # no such file, not executable, wrong format, no /tmp
        return ProgramRun(False, error.strerror or str(error))
    code = process.returncode
    if code == 0:
        return ProgramRun(True, '', out, err, code=0)
    how = f'signal {-code}' if code < 0 else f'exit code {code}'
    complaint = _complaint(err.strip() or out)
    return ProgramRun(False, f'{how}: {complaint[:160]}' if complaint else how, out, err, code=code)


def _kill(process: subprocess.Popen) -> None:
    """End a program and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()              # an orphan may hold them open
    process.stderr.close()


def _complaint(printed: str) -> str:
    """Return the first line with words: mpirun frames its messages with dashes."""
    for line in printed.splitlines():
        if line.strip(' -*='):
            return line.strip()
    return ''


#: OpenBLAS's x86 kernels by the vectors they use; a newer kernel has a higher rank.
_RANKS = (
    ('katmai', 'coppermine', 'northwood', 'banias', 'atom', 'prescott', 'core2', 'penryn', 'dunnington',
     'opteron', 'opteron_sse3', 'athlon', 'nano', 'bobcat'),
    ('nehalem', 'barcelona'),
    ('sandybridge', 'bulldozer', 'piledriver', 'steamroller'),
    ('haswell', 'zen', 'excavator'),
    ('skylakex', 'cooperlake', 'sapphirerapids'),
)
#: The features that a processor must have for the kernels of a rank (those that they are compiled for).
_NEEDS = (
    ('SkylakeX', {'avx512f', 'avx512dq', 'avx512bw', 'avx512vl', 'avx512cd'}),
    ('Haswell', {'avx2', 'fma'}),
)
#: Run apart, so that a library that crashes takes only this process with it.
_ASK = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
for name in ('openblas_get_corename', 'openblas_get_config'):
    function = getattr(library, name)
    function.restype = ctypes.c_char_p
    print(function().decode())
"""


#: Words in the names of libraries. Debian's libblas.so.3 may stand for any: its folder has the word.
_LIBRARIES = {'openblas': 'OpenBLAS', 'mkl_rt': 'MKL', 'mkl_core': 'MKL', 'blis': 'BLIS', 'atlas': 'ATLAS',
              'armpl': 'Arm PL', 'essl': 'ESSL'}
_REFERENCE = 'reference BLAS'


def loaded(program: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the shared libraries that ``program`` loads: name -> path."""
    ldd = attempt(['ldd', program], env)
    if not ldd.ok:
        return {}
    return dict(re.findall(r'^\s*(\S+) => (/\S+) \(0x', ldd.out, re.MULTILINE))


def library(libraries: Mapping[str, str]) -> tuple[str, str]:
    """Return name and path of the BLAS among loaded libraries; two empty texts for none."""
    real = {soname: os.path.realpath(path) for soname, path in libraries.items() if soname.startswith('lib')}
    for word, name in _LIBRARIES.items():
        for soname, path in real.items():
            if word in soname:
                return name, path
    for soname, path in real.items():
        if soname.startswith('libblas.so'):
            return _by_folder(os.path.dirname(path)), path
    return '', ''


def _by_folder(folder: str) -> str:
    """Return the BLAS that libblas.so.3 is, by the folder that it lies in."""
    for word, name in _LIBRARIES.items():
        if word in folder:
            return name
    return _REFERENCE


#: The BLAS of a package of Spack.
_OF_SPACK = {'openblas': 'OpenBLAS', 'netlib-lapack': _REFERENCE, 'intel-oneapi-mkl': 'MKL', 'blis': 'BLIS',
             'amdblis': 'BLIS', 'atlas': 'ATLAS', 'armpl-gcc': 'Arm PL', 'essl': 'ESSL'}


def _of_spack(package: str) -> str:
    """Return the BLAS of a package of Spack, such as `openblas 0.3.21`; '' of another."""
    return _OF_SPACK.get(package.partition(' ')[0], '')


def another(package: str, program: str, env: Mapping[str, str]) -> str:
    """Return why a program does not use the BLAS that Spack's lock names (`openblas 0.3.21`); '' where it does, or
    where none tells."""
    wanted = _of_spack(package)
    name, path = library(loaded(os.path.realpath(program), env))
    if not wanted or not name or name == wanted:
        return ''
    return f'its lock has {package}, and it loads {name} ({path})'


class Use(NamedTuple):
    """The BLAS that a program uses: facts, the variables that it needs, and a note or ''."""

    facts: dict[str, Any] = {}
    variables: dict[str, str] = {}
    note: str = ''


def of(program: str, libraries: Mapping[str, str], env: Mapping[str, str],
       flags: frozenset[str], package: str = '') -> Use:
    """Return the BLAS among the ``libraries`` of a program.

    ``package``: the BLAS that Spack's lock names; the slow one needs no note where it was asked for."""
    name, path = library(libraries)
    if not name:
        return Use(note=f'the BLAS of {program} is unknown: ldd shows none')
    if name != 'OpenBLAS':
        note = ''
        if name == _REFERENCE and _of_spack(package) != _REFERENCE:
            note = f'{program} uses the slow reference BLAS (Debian and Ubuntu: apt install libopenblas0-pthread)'
        return Use({'name': name, 'version': None, 'library': path}, note=note)
    kernels = choose(path, flags, env)
    variables = {'OPENBLAS_NUM_THREADS': '1'}       # one thread a rank; a check that wants more says so
    if kernels.asked:
        variables['OPENBLAS_CORETYPE'] = kernels.asked
    return Use({'name': name, 'library': path, **kernels.facts()}, variables, kernels.note)


class Kernels(NamedTuple):
    """OpenBLAS's version, its kernels, and a note or ''."""

    version: str | None
    used: str | None
    unaided: str | None                 # its own choice
    asked: str = ''                     # the OPENBLAS_CORETYPE that makes it use them; '' where none need be set
    note: str = ''

    def facts(self) -> dict[str, str | None]:
        return {'version': self.version, 'core': self.used, 'core_unaided': self.unaided}


def choose(path: str, flags: frozenset[str], env: Mapping[str, str]) -> Kernels:
    """Return the kernels that OpenBLAS should use on a processor with these ``flags``."""
    stated = env.get('OPENBLAS_CORETYPE')
    without = {name: value for name, value in env.items() if name != 'OPENBLAS_CORETYPE'}
    unaided, version = _ask(path, without)
    wanted = stated or better(unaided, flags) or ''
    used = unaided
    if wanted:
        used, _ = _ask(path, {**without, 'OPENBLAS_CORETYPE': wanted})
    if wanted and not stated and (_rank(used) or 0) <= (_rank(unaided) or 0):
        note = f'OpenBLAS {version} picks its {unaided} kernels on this processor and has none better'
        return Kernels(version, unaided, unaided, note=note)
    note = ''
    if used is None:
        note = f'which kernels OpenBLAS uses is unknown: {path} does not answer'
    elif wanted and not stated:
        note = (f'OpenBLAS {version} does not know this processor and would use its {unaided} kernels; '
                f'OPENBLAS_CORETYPE={wanted} makes it use {used}')
    return Kernels(version, used, unaided, wanted, note)


def better(core: str | None, flags: frozenset[str]) -> str | None:
    """Return the kernels to ask for instead of ``core``; None where it is good enough or not known."""
    rank = _rank(core)
    if rank is None:
        return None
    for name, needed in _NEEDS:
        if needed <= flags:         # the best that this processor runs
            return name if rank < _rank(name) else None
    return None


def _rank(core: str | None) -> int | None:
    """Return the place of x86 kernels in the order of their vectors; None for a name not known."""
    for rank, names in enumerate(_RANKS):
        if (core or '').lower() in names:
            return rank
    return None


def _ask(path: str, env: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the kernels that OpenBLAS uses, and its version; None and None where it does not answer."""
    answer = attempt([sys.executable, '-I', '-S', '-c', _ASK, path], env)
    lines = answer.out.splitlines()
    if not answer.ok or len(lines) < 2:
        return None, None
    version = re.match(r'OpenBLAS (\S+)', lines[1])
    return lines[0], version[1] if version else None
