"""References proposed from the history: one a cell, or the reason for none."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import Field

from parity.base import files, paths, yamlfile
from parity.base.errors import NothingMeasured, UsageError, near
from parity.base.figures import percent
from parity.base.strict import Strict
from parity.records import history
from parity.refs import accepted, nights
from parity.refs.accepted import Accepted, Index, Observed, Reference
from parity.refs.nights import Cell, Night, Refused
from parity.stats import bounds
from parity.system import systems
from parity.system.systems import System


@dataclass
class Proposed:
    """All proposals that the history gives, for the whole system or the named part."""

    system: str
    found: list[tuple[Cell, Proposal]] = field(default_factory=list)
    refused: list[tuple[Cell, str]] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def run(system: str, partition: str = '', check: str = '', since: str = '') -> Proposed:
    """Propose for every cell of the system that was measured, and keep it for review. ``since`` (a date, or date
    and time) leaves out older nights. Raises UsageError for a name that fits nothing, NothingMeasured where there
    is no history."""
    site = systems.read(system)
    try:
        begin = datetime.datetime.fromisoformat(since).strftime('%Y-%m-%d %H:%M') if since else ''
    except ValueError:
        raise UsageError(f"--since {since!r}: must be a date such as 2026-11-20, or '2026-11-20 02:14'") from None
    known = nights.cells(history.load(site.name), begin)
    chosen = _chosen(site, known, partition, check)
    kinds = nights.kinds(system, {n.session for cell in chosen for n in cell.nights[-bounds.MOST:]})
    have, indexes = accepted.of_system(system), accepted.indexes(system)
    own: dict[str, set[str]] = {}       # the parameters of each check itself: -P makes more
    for cell in known:
        own[cell.check] = min(own.get(cell.check, set(cell.parameters)), set(cell.parameters), key=len)
    answer = Proposed(system)
    for cell in chosen:
        try:
            index = _index(cell, indexes.get((cell.partition, cell.check)), own[cell.check])
            there = next((a for a in have if a.is_of(cell)), None)
            answer.found.append((cell, _proposal(cell, index, nights.alike(cell, kinds), there)))
        except Refused as why:
            answer.refused.append((cell, str(why)))
    answer.files = write(system, {part: [p for cell, p in answer.found if cell.partition == part]
                                  for part in {cell.partition for cell in chosen}})
    return answer


def _chosen(system: System, known: list[Cell], partition: str, check: str) -> list[Cell]:
    parts = [p.name for p in system.partitions]
    if partition and partition not in parts:
        raise UsageError(f'no partition {partition!r} in {system.name}; valid: {", ".join(parts)}')
    if not known:
        raise NothingMeasured(f'{paths.database()}: no figure of {system.name} is stored; '
                              f'run: ci/nightly --system {system.name}')
    wanted = check.replace(' ', '')
    fitting = [c for c in known if not wanted or wanted in (c.check, c.case.replace(' ', ''))]
    if not fitting:
        names = sorted({c.check for c in known} | {c.case.replace(' ', '') for c in known})
        raise UsageError(f'--check {check}: no figure is stored for it{near(wanted, names)}; '
                         f'stored: {", ".join(sorted({c.check for c in known}))}')
    return [c for c in fitting if not partition or c.partition == partition]


def _index(cell: Cell, there: Index | None, own: set[str]) -> dict[str, str]:
    """Return the keys that lead to the cell's reference, as the file has them, or in our own order."""
    if cell.changed:
        raise Refused(f'set on the command line: {cell.changed}; a reference is of the check without')
    if more := set(cell.parameters) - own:
        raise Refused(f'-P made {", ".join(sorted(more))} a parameter: its reference is that of the case without')
    has = cell.index
    needed = [name for name in has if name != '$environ' or cell.by_environ]
    names = there.names if there else needed
    if lacking := [name for name in needed if name not in names]:
        raise Refused(f'{there.file}:{there.line}: $index [{", ".join(names)}] does not tell '
                      f'{" and ".join(lacking)}: a reference would be of several cases')
    if unknown := [name for name in names if name not in has]:
        raise Refused(f'{there.file}:{there.line}: $index: {unknown[0]} is nothing that this case has')
    return {name: has[name] for name in names}


def _proposal(cell: Cell, index: dict[str, str], kept: list[Night], there: Accepted | None) -> Proposal:
    found = nights.of_nights(kept)
    remarks, new, old = found.remarks, found.reference, there.reference if there else None
    if old and old[0] and old[3] == new[3]:
        gain = (new[0] - old[0]) / abs(old[0]) * (1 if kept[-1].better == 'higher' else -1)
        if gain <= -bounds.LEAST_EFFECT:        # slow drift is not normal
            remarks = [*remarks, f'worse than the accepted value by {percent(-gain)}']
    proposal = Proposal(cell=cell.id, check=cell.check, metric=cell.metric, index=index, reference=new,
                        replaces=old, observed=found.observed, remarks=remarks)
    return proposal.model_copy(update={'digest': proposal.expected_digest()})


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

    @property
    def path(self) -> str:
        """Its name in the file of accepted values, as Accepted.path."""
        return '/'.join((self.check, *self.index.values(), self.metric))

    def expected_digest(self) -> str:
        """Return a digest of the rest: a proposal that was edited by hand has another one."""
        said = self.model_dump(mode='json', exclude={'digest'})
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


class File(Strict):
    """The proposals for a partition."""

    system: str
    partition: str
    proposals: list[Proposal] = Field(min_length=1)


def folder(system: str) -> Path:
    return paths.results() / 'references' / system


def read(system: str) -> list[File]:
    """Return the waiting proposals, a file a partition. Raise UsageError for a wrong file."""
    return [yamlfile.read(file, File) for file in sorted(folder(system).glob('*.yaml'))]


def write(system: str, by_partition: dict[str, list[Proposal]]) -> list[Path]:
    """Replace all that waited by these proposals; returns the files."""
    shutil.rmtree(folder(system), ignore_errors=True)
    written = []
    for partition, found in sorted(by_partition.items()):
        if found:
            said = File(system=system, partition=partition, proposals=found).model_dump(mode='json')
            text = yaml.safe_dump(said, default_flow_style=None, width=math.inf, allow_unicode=True,
                                  sort_keys=False)
            written.append(folder(system) / f'{partition}.yaml')
            files.write(written[-1], '# Proposed, not accepted. To accept: parity refs accept CELL ... | --all '
                                     f'--system {system} --why TEXT\n{text}')
    return written
