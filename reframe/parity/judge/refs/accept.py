"""Acceptance: proposals are merged into systems/<name>/references/<partition>.yaml. People write that file, and
every other character stays. ruamel.yaml, which keeps comments, was tried. It moves a comment away from the entry
above it when one is added there, and changes spaces and indents that nobody touched. It writes YAML 1.2, in
which `yes` and `1e-05` are not what ReFrame's YAML 1.1 reads. So the text is edited where PyYAML found each
entry, and refused unless PyYAML then reads from it what was meant."""

from __future__ import annotations

import datetime
import getpass
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from parity.base import files, yamlfile
from parity.base.errors import NothingMeasured, UsageError, near
from parity.base.figures import several
from parity.base.text import refuse
from parity.judge.refs import accepted, propose
from parity.judge.refs.accepted import PROVENANCE
from parity.judge.refs.propose import Proposal
from parity.site import systems
from parity.site.plan import Plan

#: What a new file begins with.
_HEAD = '# Accepted values of {}: ReFrame applies them. `parity refs accept` adds to them, and so may you.\n'
#: Half a year: systems are serviced once or twice in it, so that kernel, firmware or MPI are then others
#: than those that were measured, and a drift too slow for any night's bounds is looked at by a person.
LIFETIME = datetime.timedelta(days=183)


def reason(why: str, by: str = '', expires: str = '') -> dict[str, Any]:
    """Return who accepts, when, why, until when. UsageError for an empty reason, or a day that has passed."""
    today = datetime.date.today()
    try:
        why, by = ' '.join(why.split()), ' '.join(by.split()) or getpass.getuser()
    except (OSError, KeyError):
        raise UsageError('--by NAME is needed: this user has no name here') from None
    for option, text in (('--why', why), ('--by', by)):
        refuse(option, text)
    if not why:
        raise UsageError("--why '': say why these values are right; it stands beside them")
    try:
        until = datetime.date.fromisoformat(expires) if expires else today + LIFETIME
    except ValueError:
        raise UsageError(f'--expires {expires!r}: must be a date such as {today + LIFETIME}') from None
    if until <= today:
        raise UsageError(f'--expires {expires}: must be after today, {today}')
    return {'date': today, 'by': by, 'why': why, 'expires': until}


def run(system: str, cells: list[str], why: dict[str, Any], planned: Plan
        ) -> list[tuple[Path, list[Proposal]]]:
    """Accept the proposals for ``cells`` (all: none named); returns them by file. All or none are accepted.
    ``planned``: the system's plan, whose metrics and parameters the files may name. Raises
    UsageError for a cell that is not proposed, and where something changed since it was."""
    site = systems.read(system)
    waiting = {file.partition: file.proposals for file in propose.read(system)}
    chosen = _chosen(system, waiting, cells)
    _refuse(accepted.problems(site, planned))
    _refuse(_changed(system, chosen))
    new = {part: _with(system, part, found, why) for part, found in chosen.items()}
    for part, text in new.items():
        _refuse(accepted.problems_of(site, planned, _file(system, part), text))
    for part, text in new.items():
        files.write(_file(system, part), text)
    propose.write(system, {partition: [p for p in found if p not in chosen.get(partition, [])]
                           for partition, found in waiting.items()})
    return [(_file(system, partition), found) for partition, found in chosen.items()]


def _file(system: str, partition: str) -> Path:
    return systems.references(system) / f'{partition}.yaml'


def _chosen(system: str, waiting: dict[str, list[Proposal]], cells: list[str]) -> dict[str, list[Proposal]]:
    """Return the proposals by partition; a cell that is proposed in several sizes stands for all."""
    proposed = {proposal.cell for proposals in waiting.values() for proposal in proposals}
    if not proposed:
        raise NothingMeasured(f'nothing is proposed for {system}; run: parity refs propose --system {system}')
    for cell in cells:
        if cell not in proposed:
            valid = sorted(proposed)
            raise UsageError(f'{cell} is not proposed{near(cell, valid)}; proposed: {several(valid)}')
    chosen = {}
    for partition, proposals in waiting.items():
        of_partition = [proposal for proposal in proposals if not cells or proposal.cell in cells]
        if of_partition:
            chosen[partition] = of_partition
    return chosen


def _refuse(wrong: Iterable[str]) -> None:
    if found := list(wrong):
        raise UsageError('\n'.join([*found, 'nothing was accepted']))


def _changed(system: str, chosen: dict[str, list[Proposal]]) -> Iterator[str]:
    """Return a sentence for each proposal that no longer fits its sources."""
    there = {(reference.partition, reference.path): reference.reference
             for reference in accepted.of_system(system)}
    indexes = accepted.indexes(system)
    software_of = {cell.id: cell.nights[-1].software for cell in propose.cells(system) if cell.nights}
    again = f'propose again: parity refs propose --system {system}'
    for partition, proposals in chosen.items():
        for proposal in proposals:
            cell = proposal.cell
            other = indexes.get((partition, proposal.check))
            measured = proposal.observed.software
            if proposal.digest != proposal.expected_digest():
                yield (f'{propose.folder(system) / partition}.yaml: {cell} was edited by hand: '
                       f'a value of your own goes into {_file(system, partition)}')
            elif other and list(other.index) != list(proposal.index):
                yield (f'{other.file}:{other.index_line}: $index [{", ".join(other.index)}] does not fit {cell}; '
                       f'{again}')
            elif there.get((partition, proposal.path)) != proposal.replaces:
                yield f'{cell}: its accepted value changed since it was proposed; {again}'
            elif software_of.get(cell, measured) != measured:
                yield f'{cell}: its software changed since it was proposed; {again}'


def _with(system: str, partition: str, proposals: list[Proposal], why: dict[str, Any]) -> str:
    """Return the partition's file with the proposals, and with its own line ends."""
    indexes = accepted.indexes(system)
    tree: Tree = {}
    provenance = {}
    for proposal in proposals:
        level = tree.setdefault(proposal.check, {})
        if (partition, proposal.check) not in indexes:
            level.setdefault('$index', Flow(list(proposal.index)))
        for key in proposal.index.values():
            level = level.setdefault(key, {})
        level[proposal.metric] = Flow(list(proposal.reference))
        provenance[proposal.path] = Flow({**why, **proposal.observed.model_dump()})
    tree[PROVENANCE] = provenance
    file = _file(system, partition)
    text = file.read_bytes().decode() if file.exists() else _HEAD.format(f'{system}:{partition}')
    return merged(file, text, tree)


class Flow(NamedTuple):
    """A value that is written on its key's line."""

    value: Any


Tree = dict[str, Any]               # of Trees and Flows
Edit = tuple[int, int, str]         # from, to, what stands there instead


def merged(file: Path, text: str, tree: Tree) -> str:
    """Return ``text`` with what ``tree`` says: a Flow replaces the value that is there, or is added to its level.

    ``file`` is for the messages. New checks stand before `provenance`, which comes last in ``tree``. UsageError
    where the file is no YAML, or written so that nothing can be added to it."""
    data, root = yamlfile.parse(file, text)
    edits = _of_level(file, text, root, tree) if root else [(len(text), len(text), _block(tree, 0))]
    new, newline = text, '\r\n' if '\r\n' in text else '\n'
    for start, end, instead in reversed(sorted(edits, key=lambda edit: edit[:2])):      # of one place: in order
        gap = '\n' if start == end and start and new[start - 1] != '\n' else ''
        new = new[:start] + (gap + instead).replace('\n', newline) + new[end:]
    try:
        read, _ = yamlfile.parse(file, new)
    except UsageError as err:
        raise UsageError(f'{file}: nothing can be added to it as it is written: {err}; write each key on '
                         'a line of its own') from None
    if read != _over(data or {}, tree):
        raise UsageError(f'{file}: nothing can be added to it as it is written (an anchor that several entries '
                         'share?): write each reference out')
    return new


def _over(data: dict, tree: Tree) -> dict:
    """``data`` with what ``tree`` says, as it must be read back."""
    merged_data = dict(data)
    for key, sub in tree.items():
        merged_data[key] = sub.value if isinstance(sub, Flow) else _over(data.get(key) or {}, sub)
    return merged_data


def _of_level(file: Path, text: str, node: yaml.Node, tree: Tree) -> list[Edit]:
    """The edits that bring ``tree`` below ``node``; new entries stand behind the others, but before provenance."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        raise UsageError(f'{file}:{node.start_mark.line + 1}: nothing can be added to it as it is written: '
                         'write one entry a line, indented')
    there = {key.value: value for key, value in node.value}
    edits: list[Edit] = []
    new: Tree = {}
    for key, sub in tree.items():
        if key not in there:
            new[key] = sub
        elif isinstance(sub, Flow):
            edits.append((there[key].start_mark.index, _end(there[key]), flow(sub.value)))
        else:
            edits += _of_level(file, text, there[key], sub)
    if not new:
        return edits
    place = node.start_mark.index
    before = [value for key, value in node.value if key.value != PROVENANCE]
    if before:
        place = text.find('\n', _end(before[-1]) - 1) + 1 or len(text)        # the next line
    column = node.start_mark.column
    gap = '' if column else '\n'
    edits.append((place, place, gap + _block(new, column)))
    return edits


def _end(node: yaml.Node) -> int:
    """Return where the last value below ``node`` ends: PyYAML ends a block where the next entry begins."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _block(tree: Tree, column: int) -> str:
    lines = []
    for key, sub in tree.items():
        name = ' ' * column + flow(key)
        if isinstance(sub, Flow):
            lines.append(f'{name}: {flow(sub.value)}\n')
        else:
            lines.append(f'{name}:\n{_block(sub, column + 2)}')
    return ''.join(lines)


def flow(value: Any) -> str:
    """Return ``value`` on one line, as PyYAML reads it back."""
    said = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True, sort_keys=False)
    return said.removesuffix('\n').removesuffix('\n...')
