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


def _cell_name(cell: str) -> str:
    if not NAME.fullmatch(cell):
        raise ValueError(f'{cell!r} is no cell; valid: CASE.METRIC@SYSTEM:PARTITION, as parity verdict names it')
    return cell


CellName = Annotated[str, AfterValidator(_cell_name)]
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
        text = _text_of(file)
        if _empty(text):
            return ()
        return _parsed(self, system, file, text)

    def problems(self, system: System, plan: Plan) -> list[str]:
        """Return a sentence with file and line for each cell of an unknown check, metric or partition."""
        metrics_of: dict[str, list[str]] = {}
        for check in plan.checks:
            metrics_of[check.check] = [metric.name for metric in check.metrics]
        valid = {'check': list(metrics_of), 'partition': [partition.name for partition in system.partitions]}
        sentences = []
        for place, entry in self.placed(system.name):
            if not entry.cell:
                continue
            parts = NAME.fullmatch(entry.cell)
            valid['metric'] = metrics_of.get(parts['check'], [parts['metric']])
            for kind in ('check', 'metric', 'partition'):
                name = parts[kind]
                if name not in valid[kind]:
                    sentences.append(f'{place}{entry.cell}: {unknown(kind, name, valid[kind])}')
        return sentences

    def write(self, system: str, new: Sequence[Entry]) -> Path:
        """Add ``new``, or put them in the place of the old ones with their keys; comments stay. Returns the file.

        Raises UsageError where the file is written in a way that cannot be added to."""
        keys = set(map(self.key, new))
        texts = []
        for entry in new:
            fields = entry.model_dump(exclude_none=True)
            text = yaml.safe_dump([fields], sort_keys=False, allow_unicode=True, width=1000)
            texts.append(text)

        def is_replaced(entry: Any) -> bool:
            return self.key(entry) in keys

        return self._edited(system, is_replaced, new, ''.join(texts), 'added to')

    def remove(self, system: str, gone: Callable[[Any], bool]) -> Path:
        """Take the entries of which ``gone`` is true out of the file; comments stay. Returns the file."""
        return self._edited(system, gone, [], '', 'taken out of')

    def _edited(self, system: str, gone: Callable[[Any], bool], new: Sequence[Entry], entries: str,
                what: str) -> Path:
        file = self.path(system)
        lock = file.with_name(f'.{self.name}.lock')
        with files.alone(lock, f'writes {file.name}'):
            listed = self.read(system)
            is_gone = [gone(entry) for entry in listed]
            kept = [entry for entry, out in zip(listed, is_gone, strict=True) if not out]
            before = _text_of(file)
            if _empty(before):
                head = before.rstrip() or f'# {self.about}'
                text = f'{head}\n{self.name}:\n{indent(entries, "  ")}'
            else:
                text = self._added(file, is_gone, entries)
            if not self._is_read_as(file, text, [*kept, *new]):
                raise UsageError(f'{file}: cannot be {what} as it is written; below {self.name}, by hand:\n'
                                 f'{entries}')
            return files.write(file, text)

    def _is_read_as(self, file: Path, text: str, wanted: list[Any]) -> bool:
        """Return whether a text of the file has the wanted entries."""
        try:
            data, _ = yamlfile.parse(file, text)
            valid = self.model.model_validate(data)
            entries = getattr(valid, self.name)
        except (UsageError, ValueError, AttributeError, TypeError):
            return False
        return (entries or []) == wanted

    def _added(self, file: Path, gone: list[bool], entries: str) -> str:
        """The file's text with ``entries`` at its end, and without the lines of the entries that are ``gone``."""
        _, node = yamlfile.load(file)
        lines = file.read_text(encoding='utf-8').splitlines()
        listed = next((value for key, value in node.value if key.value == self.name), None)
        items = listed.value if isinstance(listed, yaml.SequenceNode) else []
        placed = list(zip(items, gone, strict=True))
        for item, is_gone in reversed(placed):
            if is_gone:
                first = item.start_mark.line
                last = max(value.end_mark.line for _, value in item.value)
                del lines[first:1 + last]
        column = listed.start_mark.column if items else 2
        text = '\n'.join(lines)
        return f'{text}\n{indent(entries, " " * column)}'


def _text_of(file: Path) -> str:
    return yamlfile.text_of(file) if file.exists() else ''


def _empty(text: str) -> bool:
    """Return whether a file has nothing but comments: somebody took all entries out by hand."""
    for line in text.splitlines():
        content = line.strip()
        if content and not content.startswith('#'):
            return False
    return True


@lru_cache(maxsize=8)       # a verdict reads them several times
def _parsed(listed: Listed, system: str, file: Path, text: str) -> tuple[tuple[str, Any], ...]:
    valid, node = yamlfile.valid(file, text, listed.model)
    entries = getattr(valid, listed.name) or ()
    parsed: dict[Hashable, tuple[str, Any]] = {}
    for number, entry in enumerate(entries):
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
