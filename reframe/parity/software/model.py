"""Software as data."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from parity.base import codes
from parity.base.strict import Strict


class Environ(Strict):
    """An environment in ReFrame's sense: a provider's programs, how to run them, and facts (``software``)."""

    name: str
    provider: str
    features: list[str] = []
    modules: list[str] = []
    env_vars: dict[str, str] = {}
    software: dict[str, Any] = {}
    parts: dict[str, list[str]] = {}    # of a feature: the programs or packages that make it

    @property
    def identity(self) -> str:
        """A hash over what decides the figures: equal for like and like, on any machine, wherever files lie. Of
        Python only the version counts: its security updates are no reason to break a history."""
        return self._hash(self.software)

    def identity_of(self, feature: str) -> str:
        """The same over what makes this feature alone: another code's new version does not break it either."""
        if feature not in self.parts:
            return self.identity
        own, facts = set(self.parts[feature]), dict(self.software)
        for kind in ('programs', 'packages'):
            if kind in facts:
                facts[kind] = {name: of for name, of in facts[kind].items() if name in own}
        using = {'mpi': {'mpirun'}, 'blas': {name for code in codes.every() if code.blas
                                             for name in (code.executable, code.spack_package)}}
        for kind, users in using.items():
            if not own & users:
                facts.pop(kind, None)
        return self._hash(facts)

    def _hash(self, software: dict[str, Any]) -> str:
        facts = json.loads(json.dumps(software))
        for program in facts.get('programs', {}).values():
            program.pop('path', None)
        facts.get('blas', {}).pop('library', None)
        for name in ('view', 'tools', 'newer_build'):      # what a recipe changes, the DAG hash tells
            facts.pop(name, None)
        python = facts.get('programs', {}).get('python3')
        if python:
            facts['programs']['python3'] = python.get('version')
        if 'blas' in facts:
            facts['env_vars'] = {k: v for k, v in self.env_vars.items() if k.startswith('OPENBLAS_')}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


class SpackFound(Strict):
    """An installation of Spack that starts."""

    path: str
    version: str


class Software(Strict):
    """Every environment found, what should be known about them, and one line for people."""

    environs: list[Environ]
    spack: SpackFound | None
    notes: list[str]
    announcement: str
