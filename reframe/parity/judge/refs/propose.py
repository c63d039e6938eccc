"""References proposed from the history: one a cell, from its nights that are alike, or the reason for none."""

from __future__ import annotations

import datetime
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from pydantic import Field

from parity.base import files, paths, yamlfile
from parity.base.errors import NothingMeasured, UsageError, near, unknown
from parity.base.figures import counted, percent, several
from parity.base.strict import Strict
from parity.base.text import node_name
from parity.judge.refs import accepted
from parity.judge.refs.accepted import Accepted, Observed, Reference
from parity.judge.refs.measured import RECENT, MeasuredCell, MeasuredNight, cells
from parity.judge.stats import bounds
from parity.judge.store import database
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
    begin = _minute(since) if since else ''
    measured = cells(site.name, begin)
    kinds = _kinds(system)
    chosen = _chosen(site, measured, partition, check)
    references = accepted.of_system(system)
    indexes = accepted.indexes(system)
    parameters_of = _parameters_of_checks(measured)
    nodes_of = _nodes_of_partitions(site, measured)
    answer = Proposed(system)
    by_partition: dict[str, list[Proposal]] = {cell.partition: [] for cell in chosen}
    for cell in chosen:
        of_check = indexes.get((cell.partition, cell.check))
        try:
            index = _index(cell, of_check, parameters_of[cell.check])
            there = next((reference for reference in references if cell.has(reference)), None)
            kept = alike(cell, kinds)
            proposal = _proposal(cell, index, kept, there, nodes_of[cell.partition])
        except Refused as why:
            answer.refused.append((cell, str(why)))
            continue
        answer.proposals.append((cell, proposal))
        by_partition[cell.partition].append(proposal)
    answer.files = write(system, by_partition)
    return answer


def _minute(since: str) -> str:
    """Return a day, or a time, as the history writes its nights."""
    try:
        begin = datetime.datetime.fromisoformat(since)
    except ValueError:
        raise UsageError(f"--since {since!r}: must be a date such as 2026-11-20, or '2026-11-20 02:14'") from None
    return begin.strftime('%Y-%m-%d %H:%M')


def _parameters_of_checks(measured: list[MeasuredCell]) -> dict[str, set[str]]:
    """Return the parameters of each check itself, the fewest of its cells: -P makes more."""
    fewest: dict[str, set[str]] = {}
    for cell in measured:
        of_cell = set(cell.parameters)
        of_others = fewest.get(cell.check, of_cell)
        fewest[cell.check] = min(of_others, of_cell, key=len)
    return fewest


def _chosen(system: System, measured: list[MeasuredCell], partition: str, check: str) -> list[MeasuredCell]:
    partitions = [part.name for part in system.partitions]
    if partition and partition not in partitions:
        raise UsageError(unknown('partition', partition, partitions))
    if not measured:
        raise NothingMeasured(f'{paths.database()}: no figure of {system.name} that nobody disturbed is stored; '
                              f'run: {paths.nightly(system.name)}')
    wanted = check.replace(' ', '')
    checks = sorted({cell.check for cell in measured})
    cases = [cell.case.replace(' ', '') for cell in measured]
    names = list(dict.fromkeys([*cases, *checks]))
    if wanted and wanted not in names:
        raise UsageError(f'--check {check}: no figure is stored for it{near(wanted, names)}; '
                         f'stored: {", ".join(checks)}')
    chosen = []
    for cell, case in zip(measured, cases, strict=True):
        is_wanted = wanted in ('', cell.check, case)
        if is_wanted and partition in ('', cell.partition):
            chosen.append(cell)
    return chosen


def _index(cell: MeasuredCell, there: Accepted | None, own: set[str]) -> dict[str, str]:
    """Return the keys that lead to the cell's reference, as the file has them, or in our own order."""
    if cell.changed:
        raise Refused(f'set on the command line: {cell.changed}; a reference is of the check without')
    added = set(cell.parameters) - own
    if added:
        raise Refused(f'-P made {", ".join(sorted(added))} a parameter: its reference is that of the case without')
    has = cell.index
    needed = list(has)
    if not cell.by_environ:
        needed.remove('$environ')
    names = list(there.index) if there else needed
    lacks_one = not set(needed) <= set(names)
    has_unknown = not set(names) <= set(has)
    if lacks_one or has_unknown:
        raise Refused(f'{there.file}:{there.index_line}: $index [{", ".join(names)}] must name '
                      f'{" and ".join(needed)}: a reference would be of several cases, or of none')
    return {name: has[name] for name in names}


@dataclass(frozen=True)
class PartitionNodes:
    """The nodes of a partition: those that its figures name, and how many there are at least."""

    measured: set[str]
    count: int


def _nodes_of_partitions(system: System, measured: list[MeasuredCell]) -> dict[str, PartitionNodes]:
    """Return the nodes of each partition, as the newest sessions and system.yaml name them."""
    names: dict[str, set[str]] = {}
    for cell in measured:
        of_partition = names.setdefault(cell.partition, set())
        if cell.recent:
            of_partition.update(_names_of_nodes(cell.nights))
    stated = {partition.name: partition.extras.nodes for partition in system.partitions}
    nodes = {}
    for partition, measured_nodes in names.items():
        count = stated.get(partition) or 0
        nodes[partition] = PartitionNodes(measured_nodes, max(len(measured_nodes), count))
    return nodes


def _names_of_nodes(nights: list[MeasuredNight]) -> set[str]:
    names = set()
    for night in nights:
        names.update(map(node_name, night.nodes))
    return names


def _on_some_nodes(cell: MeasuredCell, kept: list[MeasuredNight], partition: PartitionNodes) -> str:
    """Say on how many of the partition's nodes the nights ran, and what the others lack; '' where on all."""
    _, distribution = undistributed(cell.case)
    nodes = _names_of_nodes(kept)
    if distribution or not nodes or len(nodes) >= partition.count:
        return ''
    others = sorted(partition.measured - nodes)
    names = f' ({several(others)})' if others else ''
    return (f'on {len(nodes)} of {counted(partition.count, "node")}: whether the others{names} are as fast is '
            f'not known; {bounds.SIDE} nights on a node would tell')


def _proposal(cell: MeasuredCell, index: dict[str, str], kept: list[MeasuredNight],
              there: Accepted | None, partition: PartitionNodes) -> Proposal:
    reference, remarks = of_nights(kept)
    on_some = _on_some_nodes(cell, kept, partition)
    if on_some:
        remarks.append(on_some)
    worse = _worse(reference, kept[-1].better, there)
    if worse:
        remarks.append(worse)
    proposal = Proposal(
        cell=cell.id,
        check=cell.check,
        metric=cell.metric,
        index=index,
        reference=reference,
        replaces=there and there.reference,
        observed=_observed(kept),
        remarks=remarks)
    return proposal.model_copy(update={'digest': proposal.expected_digest()})


def _worse(reference: Reference, better: str, there: Accepted | None) -> str:
    """Say how much worse a reference is than the accepted one; '' where it is not, or none is."""
    value, _, _, unit = reference
    if not there or not there.value or there.reference[3] != unit:
        return ''
    change = (value - there.value) / abs(there.value)
    gain = change if better == 'higher' else -change
    if gain > -bounds.LEAST_EFFECT:
        return ''
    return f'worse than the accepted value by {percent(-gain)}'         # slow drift is not normal


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
        others = self.model_dump(mode='json', exclude={'digest'})
        text = json.dumps(others, sort_keys=True)
        return identity.digest(text.encode())


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
    head = '# Proposed, not accepted.'
    if paths.checkout():
        head += f' To accept: parity refs accept CELL ... | --all --system {system} --why TEXT'
    written = []
    for partition, proposals in sorted(by_partition.items()):
        if not proposals:
            continue
        content = File(system=system, partition=partition, proposals=proposals)
        text = yaml.dump(
            content.model_dump(mode='json'),
            Dumper=_Dumper,
            default_flow_style=None,
            width=_WIDTH,
            allow_unicode=True,
            sort_keys=False)
        file = folder(system) / f'{partition}.yaml'
        files.write(file, f'{head}\n{text}')
        written.append(file)
    return written


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
        raise Refused(f'not in the last {RECENT} sessions; its last night is {cell.nights[-1].day}')
    kept, why = _since_the_last_change(cell.nights)
    kept = kept[-bounds.MOST:]
    labels = {label for night in kept for label in night.labels}
    word = max(labels)
    if word and labels == {word}:
        raise Refused(f'{word}: such a figure is never judged')
    if word:
        labelled = sum(word in night.labels for night in kept)
        raise Refused(f'not alike: {labelled} of {len(kept)} nights are {word}')
    if len(kept) < bounds.FEWEST:
        raise Refused(f'{counted(len(kept), "night")}{why}; {bounds.FEWEST} are needed')
    _refuse_several_kinds(kept, kinds)
    return kept


def _refuse_several_kinds(kept: list[MeasuredNight], kinds: dict[tuple[str, str], str]) -> None:
    where = {}      # the last node and night of each kind
    for night in kept:
        for node in night.nodes:
            kind = kinds.get((night.session, node))
            if kind:
                where[kind] = f'{node} on {night.day}'
    if len(where) > 1:
        first_kinds = [f'{kind} ({place})' for kind, place in where.items()][:3]
        raise Refused(f'not alike: nodes of several kinds: {"; ".join(first_kinds)}')


def _since_the_last_change(nights: list[MeasuredNight]) -> tuple[list[MeasuredNight], str]:
    """Return the nights that ran the same as the newest one, and the first of those."""
    newest = nights[-1]
    for first in range(len(nights) - 1, 0, -1):
        before = nights[first - 1]
        for name, words in _WORDS.items():
            if getattr(before, name) != getattr(newest, name):
                return nights[first:], f' since {words} changed ({nights[first].day})'
    return nights, ''


def _kinds(system: str) -> dict[tuple[str, str], str]:
    """The kind of each node, by session and node: virtual or not, and its processor. A node of a batch system says
    so in its job; a case on this very machine is on what the session found."""
    kinds = {}
    for session in database.sessions(system, last=RECENT):
        machine: dict[str, Any] = session.facts.get('machine') or {}
        this_node = {
            'virtualisation': machine.get('backend') or machine.get('kind'),
            'processor': machine.get('model_name')}
        nodes = {machine.get('hostname'): this_node, **session.nodes}
        for name, facts in nodes.items():
            words = facts.get('virtualisation'), facts.get('processor')
            kinds[session.uuid, name] = ', '.join(word for word in words if word and word != 'none')
    return kinds


def of_nights(kept: list[MeasuredNight]) -> tuple[Reference, list[str]]:
    """Return the median of the nights' medians between two bounds, and what a reviewer should know.

    A figure that is always 0 (hangs, failed writes) may not rise: its bound is absolute, 0. Raises Refused where a
    change, another node or the noise keeps one value from speaking for all nights."""
    values = [night.value for night in kept]
    runs = [run for night in kept for run in night.runs]
    unit, better = kept[-1].unit, kept[-1].better
    middle = median(values)
    if not middle:
        return _of_zeros(runs, unit, better), []
    _refuse_change(kept, values)
    wide = bounds.share(values, runs)
    if wide > bounds.WIDEST:
        raise Refused(f'noise: nights of {min(values):.4g} .. {max(values):.4g} {unit} would need bounds of '
                      f'± {percent(wide)}, more than {percent(bounds.WIDEST)}: measure longer, or more often')
    beyond = []
    for night in kept:
        away = night.value - middle
        if abs(away) > wide * abs(middle):
            share = away / abs(middle)
            beyond.append(f'{night.day} {signed(share)}')
    if len(beyond) > 1:      # no chance
        raise Refused(f'{len(beyond)} of {counted(len(kept), "night")} lie beyond the bounds of the others '
                      f'(± {percent(wide)}): {", ".join(beyond[:3])}')
    remarks = [f'one night lies beyond, {night}: unless it was a fault, there will be more' for night in beyond]
    days = len({night.day for night in kept})
    if days < 5:
        remarks.append(f'on {counted(days, "day")} only: how days differ is not in it')
    rounded = float(f'{middle:.3e}')        # the last of four digits is less than 0.05 %
    return (rounded, -wide, wide, unit), remarks


def _refuse_change(kept: list[MeasuredNight], values: list[float]) -> None:
    """Refuse nights of which some are of another level. ``values``: of the nights."""
    nodes = [night.node for night in kept]
    other = bounds.other_place(values, nodes)
    if other:
        node, share = other
        raise Refused(f'not alike: {node} is {signed(share)} beside the other nodes')
    changed = bounds.most_likely_change(values)
    if changed:
        since = kept[changed.at]
        raise Refused(f'a change on {since.day}: {signed(changed.effect)} (p {changed.p:.2g}); if it stays: '
                      f"--since '{since.night}', with {bounds.FEWEST} such nights")


def _of_zeros(runs: list[float], unit: str, better: str) -> Reference:
    """Return the reference of a figure that is always 0."""
    others = sum(value != 0 for value in runs)
    if others:
        raise Refused(f'its median is 0, and {others} of {len(runs)} runs are not: a share of 0 is no bound; '
                      'write an absolute one by hand')
    if better == 'higher':
        raise Refused('always 0, and higher is better: there is nothing to fall from')
    return 0.0, None, 0.0, unit


def _observed(kept: list[MeasuredNight]) -> Observed:
    first, last = kept[0], kept[-1]
    begin, end = first.day, last.day
    if begin == end:
        begin, end = first.night, last.night
    values = [night.value for night in kept]
    middle = median(values)
    spread = bounds.spread(values)
    nodes = set()
    for night in kept:
        nodes.update(night.nodes)
    return Observed(
        n=len(kept),
        median=float(f'{middle:.6g}'),
        spread=float(f'{spread:.3g}'),
        nights=f'{begin}..{end}',
        sessions=f'{first.session[:8]}..{last.session[:8]}',
        nodes=several(sorted(nodes)),
        software=last.software)


def signed(share: float) -> str:
    """Return a share in percent, with its sign."""
    sign = '+' if share > 0 else ''
    return f'{sign}{percent(share)}'
