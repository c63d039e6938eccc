"""Entries about cells, which people make: a list in a file of systems/<name>/. Adding to it keeps its comments."""

import datetime
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field, StringConstraints

from parity.base import files, yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.strict import Strict
from parity.judge.store.plan_file import NAME
from parity.site import systems
from parity.site.plan import Plan
from parity.site.systems import System


def _named(cell: str) -> str:
    if not NAME.fullmatch(cell):
        raise ValueError(f'{cell!r} is no cell; valid: CASE.METRIC@SYSTEM:PARTITION, as parity verdict names it')
    return cell


CellName = Annotated[str, AfterValidator(_named)]
Text = Annotated[str, StringConstraints(strip_whitespace=True)]


class Entry(Strict):
    """An entry about a cell."""

    cell: CellName
    why: Annotated[Text, Field(min_length=3)]
    by: Annotated[Text, Field(min_length=1)]
    since: datetime.date

    @property
    def name(self) -> str:
        return self.cell


@dataclass(frozen=True)
class Listed:
    """A file systems/<system>/<name>.yaml, whose one key is ``name``."""

    name: str
    model: type[Strict]                          # of the file
    about: str                                   # a comment at the head of a new file
    what: str                                    # that a cell cannot be twice
    key: Callable[[Any], Hashable]               # what no two entries share

    def path(self, system: str) -> Path:
        return systems.folder(system) / f'{self.name}.yaml'

    def read(self, system: str) -> list[Any]:
        """Return the entries of a system; none without a file. UsageError names file, line and key."""
        return [entry for _, entry in self.placed(system)]

    def placed(self, system: str) -> tuple[tuple[str, Any], ...]:
        """Each entry, after its file and line."""
        file = self.path(system)
        text = yamlfile.text_of(file) if file.exists() else ''
        return () if _empty(text) else _parsed(self, system, file, text)

    def problems(self, system: System, plan: Plan) -> list[str]:
        """Return a sentence with file and line for each cell of an unknown check, metric or partition."""
        checks = {c.check: [m.name for m in c.metrics] for c in plan.checks}
        said = []
        for place, entry in self.placed(system.name):
            if not entry.cell:
                continue
            parts = NAME.fullmatch(entry.cell)
            for kind, valid in (('check', list(checks)), ('metric', checks.get(parts['check'], [parts['metric']])),
                                ('partition', [p.name for p in system.partitions])):
                if parts[kind] not in valid:
                    said.append(f'{place}{entry.cell}: {unknown(kind, parts[kind], valid)}')
        return said

    def write(self, system: str, new: Sequence[Entry]) -> Path:
        """Add ``new``, or put them in the place of the old ones with their keys; comments stay. Returns the file.

        Raises UsageError where the file is written in a way that cannot be added to."""
        keys = set(map(self.key, new))
        texts = []
        for entry in new:
            fields = entry.model_dump(exclude_none=True)
            texts.append(yaml.safe_dump([fields], sort_keys=False, allow_unicode=True, width=1000))
        return self._edited(system, lambda entry: self.key(entry) in keys, new, ''.join(texts), 'added to')

    def remove(self, system: str, gone: Callable[[Any], bool]) -> Path:
        """Take the entries of which ``gone`` is true out of the file; comments stay. Returns the file."""
        return self._edited(system, gone, [], '', 'taken out of')

    def _edited(self, system: str, gone: Callable[[Any], bool], new: Sequence[Entry], entries: str,
                what: str) -> Path:
        file = self.path(system)
        with files.alone(file.with_name(f'.{self.name}.lock'), f'writes {file.name}'):
            known = self.read(system)
            wanted = [entry for entry in known if not gone(entry)] + [*new]
            before = yamlfile.text_of(file) if file.exists() else ''
            if _empty(before):
                text = f'{before.rstrip() or f"# {self.about}"}\n{self.name}:\n' + indent(entries, '  ')
            else:
                text = self._added(file, [gone(entry) for entry in known], entries)
            try:
                if (getattr(self.model.model_validate(yamlfile.parse(file, text)[0]), self.name) or []) != wanted:
                    raise ValueError
            except (UsageError, ValueError, AttributeError, TypeError):
                raise UsageError(f'{file}: cannot be {what} as it is written; below {self.name}, by hand:\n'
                                 f'{entries}') from None
            return files.write(file, text)

    def _added(self, file: Path, gone: list[bool], entries: str) -> str:
        """The file's text with ``entries`` at its end, and without the lines of the entries that are ``gone``."""
        _, node = yamlfile.load(file)
        lines = file.read_text(encoding='utf-8').splitlines()
        listed = next((value for key, value in node.value if key.value == self.name), None)
        items = listed.value if isinstance(listed, yaml.SequenceNode) else []
        for item, out in reversed([*zip(items, gone, strict=True)]):
            if out:
                last = max(value.end_mark.line for _, value in item.value)
                del lines[item.start_mark.line:1 + last]
        column = listed.start_mark.column if items else 2
        return '\n'.join(lines) + '\n' + indent(entries, ' ' * column)


def _empty(text: str) -> bool:
    """Return whether a file has nothing but comments: somebody took all entries out by hand."""
    return all(not line or line.startswith('#') for line in map(str.strip, text.splitlines()))


@lru_cache(maxsize=8)       # a verdict reads them several times
def _parsed(listed: Listed, system: str, file: Path, text: str) -> tuple[tuple[str, Any], ...]:
    valid, node = yamlfile.valid(file, text, listed.model)
    parsed: dict[Hashable, tuple[str, Any]] = {}
    for number, entry in enumerate(getattr(valid, listed.name) or ()):
        line = yamlfile.line_of(node, (listed.name, number, 'cell'))
        place = f'{file}:{line}: '
        other = NAME.fullmatch(entry.cell)['system'] if entry.cell else system
        if other != system:
            raise UsageError(f'{place}{entry.cell} is of system {other!r}, this file of {system!r}; move it')
        key = listed.key(entry)
        if key in parsed:
            raise UsageError(f'{place}{entry.name} {listed.what} twice: remove one')
        parsed[key] = place, entry
    return tuple(parsed.values())
