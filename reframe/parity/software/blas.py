"""Start a program, as a file that is there proves nothing; the BLAS that it loads, and OpenBLAS's kernels."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Seconds until a program that does not answer counts as not starting.
TIMEOUT = 10.0


class Outcome(NamedTuple):
    """The result of a short run. ``why`` says what went wrong, in words, or is empty."""

    ok: bool
    why: str
    out: str = ''
    err: str = ''


def attempt(command: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = TIMEOUT,
            cwd: str = '') -> Outcome:
    """Run ``command`` without input, in a temporary folder unless ``cwd`` names one."""
    try:
        with contextlib.nullcontext(cwd) if cwd else tempfile.TemporaryDirectory(
                prefix='parity-probe-', ignore_cleanup_errors=True) as folder:
            return _run(command, env, timeout, folder)
    except OSError as error:            # no such file, not executable, wrong format, no /tmp
        return Outcome(False, error.strerror or str(error))


def _run(command: Sequence[str], env: Mapping[str, str] | None, timeout: float, cwd: str) -> Outcome:
    # a session of its own: mpirun's children must go with it
    process = subprocess.Popen(command, env=None if env is None else dict(env), cwd=cwd,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, errors='replace', start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        return Outcome(False, f'no answer within {timeout:g} s')
    except BaseException:               # Ctrl-C does not reach another session by itself
        _end(process)
        raise
    if process.returncode == 0:
        return Outcome(True, '', out, err)
    how = f'signal {-process.returncode}' if process.returncode < 0 else f'exit code {process.returncode}'
    return Outcome(False, f'{how}{_complaint(err.strip() or out)}', out, err)


def _end(process: subprocess.Popen) -> None:
    """Kill the program with its children, and do not wait for pipes that an orphan may hold."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()


def _complaint(text: str) -> str:
    """The first line that says something: mpirun frames its messages with dashes."""
    lines = [line.strip() for line in text.splitlines() if line.strip(' -*=')]
    return f': {lines[0][:160]}' if lines else ''


#: OpenBLAS's x86 kernels by the vectors they use; a newer kernel has a higher rank.
_RANKS = (
    ('katmai', 'coppermine', 'northwood', 'banias', 'atom', 'prescott', 'core2', 'penryn', 'dunnington',
     'opteron', 'opteron_sse3', 'athlon', 'nano', 'bobcat'),
    ('nehalem', 'barcelona'),
    ('sandybridge', 'bulldozer', 'piledriver', 'steamroller'),
    ('haswell', 'zen', 'excavator'),
    ('skylakex', 'cooperlake', 'sapphirerapids'),
)
#: The features that a processor needs for the kernels of a rank, which are compiled for them.
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


class Choice(NamedTuple):
    """OpenBLAS's kernels as it picks them itself, as used with ``coretype`` set, and a sentence."""

    unaided: str | None
    used: str | None
    version: str | None
    coretype: str | None = None
    note: str = ''


def loaded(program: str, env: Mapping[str, str]) -> dict[str, str]:
    """The shared libraries that ``program`` loads: name -> path."""
    said = attempt(['ldd', program], env)
    return dict(re.findall(r'^\s*(\S+) => (/\S+) \(0x', said.out, re.MULTILINE)) if said.ok else {}


def library(libraries: Mapping[str, str]) -> tuple[str, str] | None:
    """Return name and path of the BLAS among loaded libraries. Debian's libblas.so.3 may stand for any."""
    real = {name: os.path.realpath(path) for name, path in libraries.items()}
    for word, name in (('openblas', 'OpenBLAS'), ('mkl_rt', 'MKL'), ('mkl_core', 'MKL'), ('blis', 'BLIS'),
                       ('atlas', 'ATLAS'), ('armpl', 'Arm PL'), ('essl', 'ESSL')):
        for soname, path in real.items():
            if soname.startswith('lib') and word in soname:
                return name, path
    for soname, path in real.items():
        if soname.startswith('libblas.so'):
            folder = path.rpartition('/')[0]
            return next((name for word, name in (('openblas', 'OpenBLAS'), ('atlas', 'ATLAS'), ('blis', 'BLIS'))
                         if word in folder), 'reference BLAS'), path
    return None


def choose(path: str, flags: frozenset[str], env: Mapping[str, str]) -> Choice:
    """Return the kernel that OpenBLAS picks on this processor, and the one that it should pick."""
    stated = env.get('OPENBLAS_CORETYPE')
    without = {key: value for key, value in env.items() if key != 'OPENBLAS_CORETYPE'}
    unaided, version = _ask(path, without)
    wanted = stated or better(unaided, flags)
    if not wanted:
        doubt = f'whether the {unaided} kernels of OpenBLAS {version} suit this processor is unknown: ' \
                'no /proc/cpuinfo' if unaided and not flags else ''
        return Choice(unaided, unaided, version, None, doubt)
    used, _ = _ask(path, {**without, 'OPENBLAS_CORETYPE': wanted})
    if stated:
        return Choice(unaided, used, version, stated,
                      f'OpenBLAS {version} uses its {used} kernels as OPENBLAS_CORETYPE={stated} is set '
                      f'in the environment; by itself it picks {unaided}')
    if used is None or (rank(used) or 0) <= (rank(unaided) or 0):
        return Choice(unaided, unaided, version, None,
                      f'OpenBLAS {version} picks its {unaided} kernels on this processor and has none better')
    return Choice(unaided, used, version, wanted,
                  f'OpenBLAS {version} does not know this processor and would use its {unaided} kernels; '
                  f'OPENBLAS_CORETYPE={wanted} makes it use {used}')


def better(core: str | None, flags: frozenset[str]) -> str | None:
    """The kernels to ask for instead of ``core``; None where it is good enough or not known."""
    if rank(core) is None:
        return None
    for name, needed in _NEEDS:
        if needed <= flags:
            return name if rank(core) < rank(name) else None
    return None


def rank(core: str | None) -> int | None:
    """Place of x86 kernels in the order of their vectors; None for a name not known."""
    return next((place for place, names in enumerate(_RANKS) if (core or '').lower() in names), None)


def _ask(path: str, env: Mapping[str, str]) -> tuple[str | None, str | None]:
    said = attempt([sys.executable, '-I', '-S', '-c', _ASK, path], env)
    lines = said.out.splitlines()
    if not said.ok or len(lines) < 2:
        return None, None
    version = re.match(r'OpenBLAS (\S+)', lines[1])
    return lines[0], version[1] if version else None
