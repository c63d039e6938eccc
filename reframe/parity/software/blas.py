"""The BLAS that a program loads, and OpenBLAS's choice of kernels by CPU model. A version older than the processor
falls back, without a word, to Prescott's (SSE3): HPL at 28 Gflop/s where 110 are possible (Debian 12's 0.3.21 on a
Xeon of model 207). https://github.com/OpenMathLib/OpenBLAS/issues/4267"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

from parity.software.probe import attempt

#: OpenBLAS's x86 kernels by the vectors they use; a newer kernel has a higher rank.
_RANKS = (
    ('katmai', 'coppermine', 'northwood', 'banias', 'atom', 'prescott', 'core2', 'penryn', 'dunnington',
     'opteron', 'opteron_sse3', 'athlon', 'nano', 'bobcat'),
    ('nehalem', 'barcelona'),
    ('sandybridge', 'bulldozer', 'piledriver', 'steamroller'),
    ('haswell', 'zen', 'excavator'),
    ('skylakex', 'cooperlake', 'sapphirerapids'),
)
#: What a processor must have for the kernels of a rank (what the kernels are compiled for).
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
    """Name and path of the BLAS among loaded libraries. Debian's libblas.so.3 may stand for any."""
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
    """What OpenBLAS picks on this processor, and what it should be told to pick."""
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
