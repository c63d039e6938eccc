"""Tell beforehand of which programs the output will be read: by their versions, which the programs print.

A code's parser states the versions whose output was tried (PROGRAM.tried). A program whose version nobody can ask
without a launcher, or without a run of its own, is not asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from parity.base import codes
from parity.base.codes import Code
from parity.measure.check.program import Program
from parity.measure.check.reader import room
from parity.measure.software.blas import attempt
from parity.measure.software.programs import Environ, root_variables

#: Seconds that a program has to print its version.
_SECONDS = 5.0


@dataclass(frozen=True)
class ProgramVersion:
    """A code that an environment offers; ``version`` is '' where the program does not tell it."""

    code: Code
    environ: str
    version: str

    def __str__(self) -> str:
        return f'{self.code.room} {self.version}'.rstrip()

    @property
    def tried(self) -> tuple[str, str]:
        """Return the first and the last version whose output was tried; ('', '') where no parser states any."""
        program = _program(self.code)
        return program.tried if program else ('', '')

    @property
    def was_tried(self) -> bool:
        program = _program(self.code)
        return program is None or not program.tried[0] or program.was_tried(self.version)


def offered(environ: Environ, env: Mapping[str, str]) -> Iterator[ProgramVersion]:
    """Yield the codes that an environment offers, each with its version. ``env``: with its modules loaded."""
    packages = environ.software.get('packages') or {}
    installed = environ.software.get('programs') or {}
    for code in codes.every():
        if code.feature not in environ.features or not (code.spack or code.package):
            continue
        if code.spack_package in packages:
            spec = packages[code.spack_package]['spec']
            version = re.match(r'[\w.-]*', spec.partition('@')[2])
            yield ProgramVersion(code, environ.name, version[0])
            continue
        program = next((installed[name] for name in code.programs if name in installed), None)
        if program:
            version = program.get('version') or asked(code, program['path'], env)
            yield ProgramVersion(code, environ.name, version)


def asked(code: Code, path: str, env: Mapping[str, str]) -> str:
    """Return the version that a program prints by its own option; '' where it has none, or is too slow."""
    if not code.version_args:
        return ''
    ran = attempt([path, *code.version_args], {**os.environ, **env, **root_variables()}, _SECONDS)
    match = re.search(code.version_says, ran.out, re.MULTILINE)
    return match[1] if match else ''


def _program(code: Code) -> Program | None:
    return getattr(room(code), 'PROGRAM', None)
