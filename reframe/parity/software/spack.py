"""Spack: its place, and its command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from parity.base import yamlfile
from parity.base.errors import InfrastructureError
from parity.base.strict import Strict
from parity.software.blas import attempt

#: Spack starts a Python of its own and reads its configuration, perhaps from a shared file system.
_TIMEOUT = 20.0


class SpackFound(Strict):
    """An installation of Spack that starts."""

    path: str
    version: str


def candidates(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Return where a Spack may be; the first that starts is taken."""
    stated = env.get('SPACK_ROOT')
    places = [str(Path(stated, 'bin', 'spack')) if stated else None,
              shutil.which('spack', path=env.get('PATH')), str(root / '.spack' / 'bin' / 'spack')]
    yield from dict.fromkeys(place for place in places if place and os.access(place, os.X_OK))


def find(root: Path, env: Mapping[str, str]) -> tuple[SpackFound | None, list[str]]:
    """Return the first Spack that starts, and a sentence for each before it that does not."""
    notes = []
    stated = env.get('SPACK_ROOT')
    if stated and not Path(stated, 'bin', 'spack').exists():
        notes.append(f'SPACK_ROOT={stated} holds no bin/spack')
    for path in candidates(root, env):
        said = attempt([path, '--version'], env, _TIMEOUT)
        version = re.search(r'^(\d+\.\d[\w.]*)', said.out, re.MULTILINE) if said.ok else None
        if version:
            return SpackFound(path=path, version=version[1]), notes
        notes.append(f'Spack at {path} does not start: {said.why or "it prints no version"}')
    return None, notes


#: A line of Spack's, and what to print to whoever waits.
_TOLD = (
    (re.compile(r'==> Installing (\S+?)-(?:git\.\w+=)?([\d.]+\S*?)-\w{32} \[(\d+)/(\d+)\]'),
     'building {0} {1} ({2} of {3})'),
    (re.compile(r'==> Adding package (\S+)@(?:git\.\w+=)?(\S+) to mirror'), 'source of {0} {1}'),
    (re.compile(r'==> \[(\d+)/(\d+)\] Pushed (\S+)@(?:git\.\w+=)?(\S+?)/'), 'binaries of {2} {3} ({0} of {1})'),
)


class Spack(NamedTuple):
    """A Spack, the environment variables to run it with, and the versions of a bundle's recipes."""

    program: str
    environ: dict[str, str]
    recipes: Mapping[str, str] = MappingProxyType({})

    def run(self, place: Path, *arguments: str) -> None:
        """Run `spack -e PLACE ...`, with its output in PLACE/build.log. Raise InfrastructureError if it fails."""
        log = place / 'build.log'
        print(f'parity: spack {arguments[0]} ({log})', flush=True)
        said: list[str] = []
        command = [self.program, '-e', str(place), *arguments]
        with log.open('a') as out, subprocess.Popen(
                command, env=self.environ, text=True, errors='replace', stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            for line in process.stdout:
                out.write(line)
                said = [*said[-60:], line.rstrip()]
                for pattern, words in _TOLD:
                    if found := pattern.search(line):
                        print(f'parity: {words.format(*found.groups())}', flush=True)
        if process.returncode:
            raise InfrastructureError(f'spack {arguments[0]} fails: {_error(said)} (see {log})')

    def ask(self, place: Path, *arguments: str) -> str:
        """Return what `spack -e PLACE ...` prints. Raise InfrastructureError where it fails."""
        return self.say('-e', str(place), *arguments)

    def say(self, *arguments: str) -> str:
        """Return what `spack ...` prints. Raise InfrastructureError where it fails."""
        done = subprocess.run([self.program, *arguments], env=self.environ, text=True, errors='replace',
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise InfrastructureError(f'spack {" ".join(arguments)} fails: {_error(done.stderr.splitlines())}')
        return done.stdout.strip()

    def tree(self, place: Path) -> tuple[str, int]:
        """Return the folder that Spack installs into, and the length that it pads the path to, or 0."""
        config, _ = yamlfile.parse(Path('spack config get config'), self.ask(place, 'config', 'get', 'config'))
        tree = config['config']['install_tree']
        if not isinstance(tree, dict):                     # it may be the folder alone
            tree = {'root': tree}
        spack = str(Path(self.program).resolve().parents[1])
        return tree['root'].replace('$spack', spack), int(tree.get('padded_length') or 0)


def _error(said: list[str]) -> str:
    """Return Spack's first error and the line after it, which often names the package; else its last line."""
    at = next((i for i, line in enumerate(said) if line.startswith('==> Error')), len(said) - 1)
    return ' '.join(line.removeprefix('==> Error:').strip() for line in said[max(at, 0):at + 2])
