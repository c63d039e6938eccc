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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from parity.base import files, yamlfile
from parity.base.errors import NothingMeasured, UsageError, near
from parity.base.figures import several
from parity.base.text import refuse
from parity.judge.refs import accepted, measured, propose
from parity.judge.refs.accepted import PROVENANCE, Accepted, Reference
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
    why = ' '.join(why.split())
    by = ' '.join(by.split()) or _user()
    for option, text in (('--why', why), ('--by', by)):
        refuse(option, text)
    if not why:
        raise UsageError("--why '': say why these values are right; it stands beside them")
    until = today + LIFETIME
    if expires:
        try:
            until = datetime.date.fromisoformat(expires)
        except ValueError:
            raise UsageError(f'--expires {expires!r}: must be a date such as {until}') from None
        if until <= today:
            raise UsageError(f'--expires {expires}: must be after today, {today}')
    return {'date': today, 'by': by, 'why': why, 'expires': until}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise UsageError('--by NAME is needed: this user has no name here') from None


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
    texts = {}
    for partition, proposals in chosen.items():
        file = _file(system, partition)
        texts[file] = _with(system, partition, proposals, why)
    for file, text in texts.items():
        wrong = accepted.problems_of(site, planned, file, text)
        _refuse(wrong)
    for file, text in texts.items():
        files.write(file, text)
    left = {}
    for partition, proposals in waiting.items():
        accepted_now = chosen.get(partition, [])
        left[partition] = [proposal for proposal in proposals if proposal not in accepted_now]
    propose.write(system, left)
    return [(_file(system, partition), proposals) for partition, proposals in chosen.items()]


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
    sentences = list(wrong)
    if sentences:
        raise UsageError('\n'.join([*sentences, 'nothing was accepted']))


def _changed(system: str, chosen: dict[str, list[Proposal]]) -> Iterator[str]:
    """Return a sentence for each proposal that no longer fits its sources."""
    sources = _Sources.of(system)
    for partition, proposals in chosen.items():
        for proposal in proposals:
            why = sources.why_other(partition, proposal)
            if why:
                yield why


@dataclass
class _Sources:
    """The sources of a system's proposals, as they are now."""

    system: str
    accepted: dict[tuple[str, str], Reference]      # by partition and path
    indexes: dict[tuple[str, str], Accepted]        # by partition and check
    software: dict[str, str]                        # that each cell ran last

    @classmethod
    def of(cls, system: str) -> _Sources:
        references = {}
        for reference in accepted.of_system(system):
            references[reference.partition, reference.path] = reference.reference
        software = {cell.id: cell.nights[-1].software for cell in measured.cells(system) if cell.nights}
        return cls(system, references, accepted.indexes(system), software)

    def why_other(self, partition: str, proposal: Proposal) -> str:
        """Say why a proposal no longer fits; '' where it does."""
        cell = proposal.cell
        again = f'propose again: parity refs propose --system {self.system}'
        if proposal.digest != proposal.expected_digest():
            return (f'{propose.folder(self.system) / partition}.yaml: {cell} was edited by hand: '
                    f'a value of your own goes into {_file(self.system, partition)}')
        of_check = self.indexes.get((partition, proposal.check))
        if of_check and list(of_check.index) != list(proposal.index):
            index = ', '.join(of_check.index)
            return f'{of_check.file}:{of_check.index_line}: $index [{index}] does not fit {cell}; {again}'
        there = self.accepted.get((partition, proposal.path))
        if there != proposal.replaces:
            return f'{cell}: its accepted value changed since it was proposed; {again}'
        software = proposal.observed.software
        if self.software.get(cell, software) != software:
            return f'{cell}: its software changed since it was proposed; {again}'
        return ''


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
        observed = proposal.observed.model_dump()
        provenance[proposal.path] = Flow({**why, **observed})
    tree[PROVENANCE] = provenance
    file = _file(system, partition)
    if file.exists():
        text = file.read_bytes().decode()
    else:
        text = _HEAD.format(f'{system}:{partition}')
    return merged(file, text, tree)


class Flow(NamedTuple):
    """A value that is written on its key's line."""

    value: Any


Tree = dict[str, Any]               # of Trees and Flows


class Edit(NamedTuple):
    """A part of a text, and what stands there instead."""

    start: int
    end: int
    instead: str


def merged(file: Path, text: str, tree: Tree) -> str:
    """Return ``text`` with what ``tree`` says: a Flow replaces the value that is there, or is added to its level.

    ``file`` is for the messages. New checks stand before `provenance`, which comes last in ``tree``. UsageError
    where the file is no YAML, or written so that nothing can be added to it."""
    data, root = yamlfile.parse(file, text)
    if root:
        edits = _of_level(file, text, root, tree)
    else:
        at_the_end = Edit(len(text), len(text), _block(tree, 0))
        edits = [at_the_end]
    new = _edited(text, edits)
    try:
        read, _ = yamlfile.parse(file, new)
    except UsageError as err:
        raise UsageError(f'{file}: nothing can be added to it as it is written: {err}; write each key on '
                         'a line of its own') from None
    if read != _over(data or {}, tree):
        raise UsageError(f'{file}: nothing can be added to it as it is written (an anchor that several entries '
                         'share?): write each reference out')
    return new


def _edited(text: str, edits: list[Edit]) -> str:
    """Return the text with all edits, which have its own line ends. Those of one place are in order."""
    newline = '\r\n' if '\r\n' in text else '\n'
    in_order = sorted(edits, key=lambda edit: (edit.start, edit.end))
    for start, end, instead in reversed(in_order):
        before, after = text[:start], text[end:]
        is_new = start == end
        if is_new and before and not before.endswith('\n'):
            instead = f'\n{instead}'
        text = before + instead.replace('\n', newline) + after
    return text


def _over(data: dict, tree: Tree) -> dict:
    """``data`` with what ``tree`` says, as it must be read back."""
    merged_data = dict(data)
    for key, sub in tree.items():
        if isinstance(sub, Flow):
            merged_data[key] = sub.value
        else:
            below = data.get(key) or {}
            merged_data[key] = _over(below, sub)
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
            old = there[key]
            start, end = old.start_mark.index, _end(old)
            edits.append(Edit(start, end, flow(sub.value)))
        else:
            edits += _of_level(file, text, there[key], sub)
    if not new:
        return edits
    place = node.start_mark.index
    before = [value for key, value in node.value if key.value != PROVENANCE]
    if before:
        last = _end(before[-1]) - 1
        end_of_line = text.find('\n', last)
        place = len(text) if end_of_line < 0 else end_of_line + 1
    column = node.start_mark.column
    gap = '' if column else '\n'
    edits.append(Edit(place, place, gap + _block(new, column)))
    return edits


def _end(node: yaml.Node) -> int:
    """Return where the last value below ``node`` ends: PyYAML ends a block where the next entry begins."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    if isinstance(node, yaml.MappingNode):
        _, last = last
    return _end(last)


def _block(tree: Tree, column: int) -> str:
    lines = []
    for key, sub in tree.items():
        name = ' ' * column + flow(key)
        if isinstance(sub, Flow):
            value = flow(sub.value)
            lines.append(f'{name}: {value}\n')
        else:
            below = _block(sub, column + 2)
            lines.append(f'{name}:\n{below}')
    return ''.join(lines)


def flow(value: Any) -> str:
    """Return ``value`` on one line, as PyYAML reads it back."""
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True, sort_keys=False)
    return text.removesuffix('\n').removesuffix('\n...')
