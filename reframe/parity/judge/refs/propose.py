"""References proposed from the history: one a cell, from its nights that are alike, or the reason for none."""

from __future__ import annotations

import datetime
import json
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import polars as pl
import yaml
from pydantic import Field

from parity.base import files, paths, yamlfile
from parity.base.errors import NothingMeasured, UsageError, near, unknown
from parity.base.figures import counted, percent, several
from parity.base.strict import Strict
from parity.base.text import node_name
from parity.judge.refs import accepted
from parity.judge.refs.accepted import Accepted, Observed, Reference
from parity.judge.stats import bounds
from parity.judge.store import database, history
from parity.judge.store.plan_file import parameters
from parity.site import identity, systems
from parity.site.identity import undistributed
from parity.site.systems import System

#: libyaml's, where PyYAML has it: it takes less than half the time.
_Dumper = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)
#: Characters of a line, in the largest C integer: no line is folded.
_WIDTH = 2 ** 31 - 1


@dataclass
class Proposed:
    """All proposals that the history gives, for the whole system or the named part."""

    system: str
    proposals: list[tuple[MeasuredCell, Proposal]] = field(default_factory=list)
    refused: list[tuple[MeasuredCell, str]] = field(default_factory=list)
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
    known, kinds = cells(site.name, begin), _kinds(system)
    chosen = _chosen(site, known, partition, check)
    have, indexes = accepted.of_system(system), accepted.indexes(system)
    own: dict[str, set[str]] = {}       # the parameters of each check itself: -P makes more
    for cell in known:
        own[cell.check] = min(own.get(cell.check, set(cell.parameters)), set(cell.parameters), key=len)
    answer = Proposed(system)
    for cell in chosen:
        try:
            index = _index(cell, indexes.get((cell.partition, cell.check)), own[cell.check])
            there = next((a for a in have if cell.has(a)), None)
            kept = alike(cell, kinds)
            answer.proposals.append((cell, _proposal(cell, index, kept, there, _nodes_of(site, known, cell))))
        except Refused as why:
            answer.refused.append((cell, str(why)))
    answer.files = write(system, {part: [p for cell, p in answer.proposals if cell.partition == part]
                                  for part in {cell.partition for cell in chosen}})
    return answer


def _chosen(system: System, known: list[MeasuredCell], partition: str, check: str) -> list[MeasuredCell]:
    if partition and partition not in (valid := [p.name for p in system.partitions]):
        raise UsageError(unknown('partition', partition, valid))
    if not known:
        raise NothingMeasured(f'{paths.database()}: no figure of {system.name} that nobody disturbed is stored; '
                              f'run: {paths.nightly(system.name)}')
    wanted, cases = check.replace(' ', ''), {c.case.replace(' ', ''): c.check for c in known}
    if wanted and wanted not in (*cases, *cases.values()):
        raise UsageError(f'--check {check}: no figure is stored for it{near(wanted, [*cases, *cases.values()])}; '
                         f'stored: {", ".join(sorted({*cases.values()}))}')
    return [c for c in known if partition in ('', c.partition)
            and wanted in ('', c.check, c.case.replace(' ', ''))]


def _index(cell: MeasuredCell, there: Accepted | None, own: set[str]) -> dict[str, str]:
    """Return the keys that lead to the cell's reference, as the file has them, or in our own order."""
    if cell.changed:
        raise Refused(f'set on the command line: {cell.changed}; a reference is of the check without')
    if more := set(cell.parameters) - own:
        raise Refused(f'-P made {", ".join(sorted(more))} a parameter: its reference is that of the case without')
    has = cell.index
    needed = [name for name in has if name != '$environ' or cell.by_environ]
    names = list(there.index) if there else needed
    if set(needed) - set(names) or set(names) - set(has):
        raise Refused(f'{there.file}:{there.index_line}: $index [{", ".join(names)}] must name '
                      f'{" and ".join(needed)}: a reference would be of several cases, or of none')
    return {name: has[name] for name in names}


@dataclass(frozen=True)
class PartitionNodes:
    """The nodes of a partition: those that its figures name, and how many there are at least."""

    measured: set[str]
    count: int


def _nodes_of(system: System, known: list[MeasuredCell], cell: MeasuredCell) -> PartitionNodes:
    seen = {node_name(node) for other in known if other.partition == cell.partition and other.recent
            for night in other.nights for node in _nodes(night)}
    stated = next((p.extras.nodes for p in system.partitions if p.name == cell.partition), None)
    return PartitionNodes(seen, max(len(seen), stated or 0))


def _on_some_nodes(cell: MeasuredCell, kept: list[MeasuredNight], partition: PartitionNodes) -> str:
    """Say on how many of the partition's nodes the nights ran, and what the others lack; '' where on all."""
    nights = Counter(node for night in kept for node in {*map(node_name, _nodes(night))})
    if undistributed(cell.case)[1] or not nights or len(nights) >= partition.count:
        return ''
    others = sorted(partition.measured - nights.keys())
    named = f' ({several(others)})' if others else ''
    return (f'on {len(nights)} of {counted(partition.count, "node")}: whether the others{named} are as fast is '
            f'not known; {bounds.SIDE} nights on a node would tell')


def _proposal(cell: MeasuredCell, index: dict[str, str], kept: list[MeasuredNight],
              there: Accepted | None, partition: PartitionNodes) -> Proposal:
    reference, remarks = of_nights(kept)
    if on_some := _on_some_nodes(cell, kept, partition):
        remarks = [*remarks, on_some]
    if there and there.value and there.reference[3] == reference[3]:
        gain = (reference[0] - there.value) / abs(there.value) * (1 if kept[-1].better == 'higher' else -1)
        if gain <= -bounds.LEAST_EFFECT:        # slow drift is not normal
            remarks = [*remarks, f'worse than the accepted value by {percent(-gain)}']
    proposal = Proposal(cell=cell.id, check=cell.check, metric=cell.metric, index=index, reference=reference,
                        replaces=there and there.reference, observed=_observed(kept), remarks=remarks)
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
        return identity.digest(json.dumps(said, sort_keys=True).encode())


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
            text = yaml.dump(said, Dumper=_Dumper, default_flow_style=None, width=_WIDTH, allow_unicode=True,
                             sort_keys=False)
            written.append(folder(system) / f'{partition}.yaml')
            head = '# Proposed, not accepted.'
            if paths.checkout():
                head += f' To accept: parity refs accept CELL ... | --all --system {system} --why TEXT'
            files.write(written[-1], f'{head}\n{text}')
    return written


class MeasuredNight(NamedTuple):
    """One session's figure of a cell; ``value`` is the median of its ``runs``."""

    session: str
    night: str                      # local date and time of its start
    unit: str
    better: str
    variant: str                    # of the check: 'threading=one', '' where it has none
    value: float
    runs: list[float]
    applied: bool                   # a reference was
    labels: list[str]               # of the runs: [''], ['cached'], or both
    software: str
    node: str                       # all that its runs were on


class MeasuredCell(NamedTuple):
    """A cell with its nights, oldest first."""

    system: str
    check: str
    partition: str
    environ: str
    case: str
    size: str
    metric: str
    changed: str                    # what the command line changed in the case: 'destination=other'
    several: bool                   # environments run this case on this partition
    by_environ: bool                # environments run this check on this partition
    recent: bool                    # it was measured in one of the newest sessions
    nights: list[MeasuredNight]

    @property
    def id(self) -> str:
        return history.cell_id(self._asdict(), self.several)

    @property
    def parameters(self) -> dict[str, str]:
        return parameters(self.case)

    @property
    def index(self) -> dict[str, str]:
        """All that may lead to its reference, as the newest night has it."""
        variant = self.nights[-1].variant.replace(',', ' %') if self.nights else ''
        return {'size': self.size, **parameters(f' %{variant}'), '$environ': self.environ, **self.parameters}

    def has(self, reference: Accepted) -> bool:
        """Return whether ReFrame applies the reference to its runs."""
        of = reference.partition, reference.check, reference.metric
        return of == (self.partition, self.check, self.metric) and not self.changed \
            and reference.index.items() <= self.index.items()


#: Sessions of a system that tell what it measures today.
RECENT = 2 * bounds.MOST
_WHERE = ['system', 'check', *history.CELL, 'changed']


def cells(system: str, since: str = '') -> list[MeasuredCell]:
    """Return every measured cell of the system, with its nights from ``since`` (a date) on. Cells whose nights are
    all older are in the list, too."""
    frame = history.load(system, labelled=True).cast({history.TEXT: pl.String}).with_columns(
        pl.col('metric').str.replace(identity.OF_DEVICE, '_gpu'))       # one value for all devices
    nights = history.nights(frame.filter(pl.col('night') >= since), *_WHERE).select(
        *_WHERE, *MeasuredNight._fields)
    every = frame.select(_WHERE).unique(maintain_order=True).rows()
    found: dict[tuple, list[MeasuredNight]] = {where: [] for where in every}
    for row in nights.collect().iter_rows(named=True):
        found[tuple(row.pop(name) for name in _WHERE)].append(MeasuredNight(**row))
    newest = frame.unique('session').sort('start').tail(RECENT)['session'].implode()
    recent = set(frame.filter(pl.col('session').is_in(newest)).select(_WHERE).unique().rows())
    environs = defaultdict(set)
    for _, check, partition, environ, case, *_ in recent:
        environs[partition, check].add(environ)
        environs[partition, case].add(environ)
    return [MeasuredCell(*where, len(environs[where[2], where[4]]) > 1, len(environs[where[2], where[1]]) > 1,
                 where in recent, own) for where, own in found.items()]


_WORDS = {'software': 'the software', 'unit': 'the unit', 'better': 'the direction', 'variant': 'the variant'}


class Refused(Exception):
    """The reason why no reference is proposed for a cell."""


def alike(cell: MeasuredCell, kinds: dict[tuple[str, str], str]) -> list[MeasuredNight]:
    """Return the newest nights of ``cell`` that are of one software, unit and kind of node.

    ``kinds`` tells the kind of each node. Raises Refused where the nights are too few or of several
    kinds, or where their figures are never judged."""
    if not cell.nights:
        raise Refused('no night counts: all are older than --since')
    if not cell.recent:
        raise Refused(f'not in the last {RECENT} sessions; its last night is {cell.nights[-1].night[:10]}')
    kept, why = _since_the_last_change(cell.nights)
    kept = kept[-bounds.MOST:]
    labels = {label for night in kept for label in night.labels}
    if word := max(labels):
        raise Refused(f'{word}: such a figure is never judged' if labels == {word} else
                      f'not alike: {sum(word in n.labels for n in kept)} of {len(kept)} nights are {word}')
    if len(kept) < bounds.FEWEST:
        raise Refused(f'{counted(len(kept), "night")}{why}; {bounds.FEWEST} are needed')
    seen = {kind: f'{node} on {night.night[:10]}' for night in kept for node in _nodes(night)
            if (kind := kinds.get((night.session, node)))}
    if len(seen) > 1:
        said = '; '.join(f'{kind} ({where})' for kind, where in list(seen.items())[:3])
        raise Refused(f'not alike: nodes of several kinds: {said}')
    return kept


def _nodes(night: MeasuredNight) -> list[str]:
    return night.node.replace(',', ' ').split()


def _since_the_last_change(every: list[MeasuredNight]) -> tuple[list[MeasuredNight], str]:
    """Return the nights that ran the same as the newest one, and the first of those."""
    for at in range(len(every) - 1, 0, -1):
        for what, said in _WORDS.items():
            if getattr(every[at - 1], what) != getattr(every[-1], what):
                return every[at:], f' since {said} changed ({every[at].night[:10]})'
    return every, ''


def _kinds(system: str) -> dict[tuple[str, str], str]:
    """The kind of each node, by session and node: virtual or not, and its processor. A node of a batch system says
    so in its job; a case on this very machine is on what the session found."""
    found = {}
    for session in database.sessions(system, last=RECENT):
        machine: dict[str, Any] = session.facts.get('machine') or {}
        own = {'virtualisation': machine.get('backend') or machine.get('kind'),
               'processor': machine.get('model_name')}
        for name, said in {machine.get('hostname'): own, **session.nodes}.items():
            words = said.get('virtualisation'), said.get('processor')
            found[session.uuid, name] = ', '.join(word for word in words if word and word != 'none')
    return found


def of_nights(kept: list[MeasuredNight]) -> tuple[Reference, list[str]]:
    """Return the median of the nights' medians between two bounds, and what a reviewer should know.

    A figure that is always 0 (hangs, failed writes) may not rise: its bound is absolute, 0. Raises Refused where a
    change, another node or the noise keeps one value from speaking for all nights."""
    values, runs, last = [n.value for n in kept], [v for n in kept for v in n.runs], kept[-1]
    middle = median(values)
    if not middle:
        if other := sum(v != 0 for v in runs):
            raise Refused(f'its median is 0, and {other} of {len(runs)} runs are not: a share of 0 is no bound; '
                          'write an absolute one by hand')
        if last.better == 'higher':
            raise Refused('always 0, and higher is better: there is nothing to fall from')
        return (0.0, None, 0.0, last.unit), []
    if other := bounds.other_place(values, [n.node for n in kept]):
        raise Refused(f'not alike: {other[0]} is {signed(other[1])} beside the other nodes')
    if changed := bounds.most_likely_change(values):
        since = kept[changed.at].night
        raise Refused(f'a change on {since[:10]}: {signed(changed.effect)} (p {changed.p:.2g}); if it stays: '
                      f"--since '{since}', with {bounds.FEWEST} such nights")
    wide = bounds.share(values, runs)
    if wide > bounds.WIDEST:
        raise Refused(f'noise: nights of {min(values):.4g} .. {max(values):.4g} {last.unit} would need bounds of '
                      f'± {percent(wide)}, more than {percent(bounds.WIDEST)}: measure longer, or more often')
    beyond = [f'{n.night[:10]} {signed((n.value - middle) / abs(middle))}' for n in kept
              if abs(n.value - middle) > wide * abs(middle)]
    if len(beyond) > 1:      # no chance
        raise Refused(f'{len(beyond)} of {counted(len(kept), "night")} lie beyond the bounds of the others '
                      f'(± {percent(wide)}): {", ".join(beyond[:3])}')
    remarks = [f'one night lies beyond, {night}: unless it was a fault, there will be more' for night in beyond]
    if (days := len({n.night[:10] for n in kept})) < 5:
        remarks.append(f'on {counted(days, "day")} only: how days differ is not in it')
    rounded = float(f'{middle:.3e}')        # the last of four digits is less than 0.05 %
    return (rounded, -wide, wide, last.unit), remarks


def _observed(kept: list[MeasuredNight]) -> Observed:
    first, last, values = kept[0], kept[-1], [night.value for night in kept]
    same_day = first.night[:10] == last.night[:10]
    return Observed(
        n=len(kept), median=float(f'{median(values):.6g}'), spread=float(f'{bounds.spread(values):.3g}'),
        nights='..'.join(n.night if same_day else n.night[:10] for n in (first, last)),
        sessions=f'{first.session[:8]}..{last.session[:8]}',
        nodes=several(sorted({node for n in kept for node in _nodes(n)})), software=last.software)


def signed(share: float) -> str:
    """Return a share in percent, with its sign."""
    return ('+' if share > 0 else '') + percent(share)
