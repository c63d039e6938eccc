"""What was proposed and waits for review: results/references/<system>/<partition>.yaml."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from pydantic import Field

from parity.base import paths, yamlfile
from parity.base.strict import Strict
from parity.refs import edit
from parity.refs.accepted import Observed

Number = float | None
Reference = tuple[float, Number, Number, str]      # value, lower, upper, unit: as ReFrame has it


class Proposal(Strict):
    """A reference that the history gives for a cell, and the one that it would replace."""

    cell: str
    check: str
    metric: str
    index: dict[str, str]                           # size, $environ where there are several, parameters
    reference: Reference
    replaces: Reference | None
    observed: Observed
    remarks: list[str] = []                         # what a reviewer should know
    digest: str = ''

    def sealed(self) -> Proposal:
        return self.model_copy(update={'digest': self.expected_digest()})

    def expected_digest(self) -> str:
        """Of all that it says: one that was edited by hand is not what the history gave."""
        said = self.model_dump(mode='json', exclude={'digest'})
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


class File(Strict):
    system: str
    partition: str
    proposals: list[Proposal] = Field(min_length=1)


def folder(system: str) -> Path:
    return paths.results() / 'references' / system


def read(system: str) -> list[File]:
    """What waits, a file a partition. UsageError for a file that is none."""
    return [yamlfile.read(file, File) for file in sorted(folder(system).glob('*.yaml'))]


def write(system: str, by_partition: dict[str, list[Proposal]]) -> list[Path]:
    """Put these in the place of all that waited; returns the files."""
    shutil.rmtree(folder(system), ignore_errors=True)
    return [_write(system, partition, found) for partition, found in sorted(by_partition.items()) if found]


def _write(system: str, partition: str, found: list[Proposal]) -> Path:
    """A line for each part of a proposal: what it is of, what it says, what it stands on."""
    file = folder(system) / f'{partition}.yaml'
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ['# Proposed, not accepted. To accept: parity refs accept CELL ... | --all '
             f'--system {system} --why TEXT', f'system: {system}', f'partition: {partition}', 'proposals:']
    for each in found:
        said = each.model_dump(mode='json')
        first, *more = [f'{key}: {edit.flow(value)}' for key, value in said.items()]
        lines += [f'  - {first}', *(f'    {line}' for line in more)]
    file.write_text('\n'.join(lines) + '\n')
    return file
