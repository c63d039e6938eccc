"""The file of a system's acknowledgements: read, checked, added to as people write it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from parity.base import files, paths, yamlfile
from parity.base.errors import UsageError
from parity.base.strict import Strict
from parity.plan import Plan
from parity.records.cells import NAME
from parity.system.schema import System

#: Words that can be acknowledged. What never ran can not: for codes that may be absent there are waivers.
BAD = ('wrong', 'impossible', 'regressed', 'failed')
_HEAD = '# Known faults, acknowledged until a day: parity ack CELL --until DATE --why TEXT\nacks:\n'


def _named(cell: str) -> str:
    if not NAME.fullmatch(cell):
        raise ValueError(f'{cell!r} is no cell; valid: CASE.METRIC@SYSTEM:PARTITION, as parity verdict names it')
    return cell


Text = Annotated[str, StringConstraints(strip_whitespace=True)]


class Ack(Strict):
    """One known fault."""

    cell: Annotated[str, AfterValidator(_named)]
    until: datetime.date             # the last day on which it holds
    why: Annotated[Text, Field(min_length=3)]
    by: Annotated[Text, Field(min_length=1)]
    since: datetime.date
    #: The word that is known; none: all of them. A cell that was slower and is `wrong` now has another fault.
    word: Literal[BAD] | None = None
    #: The figure when it was acknowledged. One that is plainly worse counts again; without it none does.
    value: Annotated[float, Field(allow_inf_nan=False)] | None = None
    #: What that figure was judged by: the accepted value, the level of the nights before, or the limit.
    expected: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @model_validator(mode='after')
    def _both_or_none(self) -> Ack:
        if (self.value is None) != (self.expected is None):
            raise ValueError('value and expected: must be there both, or neither')
        return self

    def holds(self, day: datetime.date) -> bool:
        return day <= self.until

    def __str__(self) -> str:
        return f'until {self.until} by {self.by}: {self.why}'


class Acks(Strict):
    acks: list[Ack]

    @model_validator(mode='before')
    @classmethod
    def _may_be_empty(cls, data: dict) -> dict:
        return {**data, 'acks': []} if data.get('acks', ()) is None else data


def path(system: str) -> Path:
    return paths.root() / 'systems' / system / 'acks.yaml'


def read(system: str) -> list[Ack]:
    """The acknowledgements of a system; none without a file. UsageError names file, line and key."""
    file = path(system)
    if not file.exists():
        return []
    found = yamlfile.read(file, Acks).acks
    _, node = yamlfile.load(file)
    seen: set[str] = set()
    for i, ack in enumerate(found):
        where = f'{file}:{yamlfile.line_of(node, ("acks", i, "cell"))}: '
        if (of := NAME.fullmatch(ack.cell)['system']) != system:
            raise UsageError(f'{where}{ack.cell} is of system {of!r}, this file of {system!r}')
        if ack.cell in seen:
            raise UsageError(f'{where}{ack.cell} is acknowledged twice')
        seen.add(ack.cell)
    return found


def problems(system: System, plan: Plan) -> list[str]:
    """A sentence with file and line for each cell whose check, metric or partition there is not."""
    found = read(system.name)
    if not found:
        return []
    file = path(system.name)
    _, node = yamlfile.load(file)
    return [f'{file}:{yamlfile.line_of(node, ("acks", i, "cell"))}: {what}'
            for i, ack in enumerate(found) for what in _unknown(ack.cell, system, plan)]


def _unknown(cell: str, system: System, plan: Plan) -> Iterator[str]:
    parts = NAME.fullmatch(cell)
    checks = {c.check: [m.name for m in c.metrics] for c in plan.checks}
    for kind, valid in (('check', list(checks)), ('metric', checks.get(parts['check'], [parts['metric']])),
                        ('partition', [p.name for p in system.partitions])):
        if parts[kind] not in valid:
            near = get_close_matches(parts[kind], valid, n=1)
            hint = f'; did you mean {near[0]!r}?' if near else ''
            yield f'unknown {kind} {parts[kind]!r}{hint} valid: {", ".join(sorted(valid))}'


def write(system: str, ack: Ack) -> Path:
    """Add ``ack``, or put it in the place of the one of that cell; comments stay. Returns the file.

    UsageError where the file is written in a way that cannot be added to.
    """
    file = path(system)
    wanted = [a for a in read(system) if a.cell != ack.cell] + [ack]
    entry = yaml.safe_dump([ack.model_dump(exclude_none=True)], sort_keys=False, allow_unicode=True, width=1000)
    text = _added(file, ack.cell, entry) if file.exists() else _HEAD + _indented(entry, 2)
    try:
        if Acks.model_validate(yamlfile.parse(file, text)[0]).acks != wanted:
            raise ValueError
    except (UsageError, ValueError, AttributeError, TypeError):
        raise UsageError(f'{file}: cannot be added to as it is written; below acks, by hand:\n{entry}') from None
    return files.write(file, text)


def _added(file: Path, cell: str, entry: str) -> str:
    """The file's text with ``entry`` at its end, and without the lines of the entry that it replaces."""
    data, node = yamlfile.load(file)
    lines = file.read_text(encoding='utf-8').splitlines()
    listed = next((value for key, value in node.value if key.value == 'acks'), None)
    items = listed.value if isinstance(listed, yaml.SequenceNode) else []
    for item, known in zip(items, data['acks'] or (), strict=True):
        if known['cell'] == cell:
            del lines[item.start_mark.line:1 + max(value.end_mark.line for _, value in item.value)]
    column = listed.start_mark.column if items else 2
    return '\n'.join(lines) + '\n' + _indented(entry, column)


def _indented(entry: str, column: int) -> str:
    return ''.join(f'{" " * column}{line}\n' for line in entry.splitlines())
