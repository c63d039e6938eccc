"""Read each run of a file apart, and lay their figures out as a table of nights."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from parity.base.codes import Code
from parity.base.units import stem
from parity.measure.check.program import Program, RunText
from parity.measure.check.reader import Read, Refused

#: Columns of the table: of a history and of a side of a comparison.
COLUMNS = ('series', 'night', 'kind', 'run', 'value', 'unit', 'direction', 'benchmark', 'metric', 'session')
_DATE = re.compile(r'20\d\d-?[01]\d-?[0-3]\d')
#: Facts that differ from run to run of one case.
_OF_A_RUN = ('command', 'path', 'version', 'note', 'seconds')


@dataclass(frozen=True)
class Run:
    """A run in a file: where it begins, and what was read or why it was refused."""

    file: str
    line: int
    metrics: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    refused: Refused | None = None


def of_file(module: ModuleType, read: Callable[[str], Read], file: str, text: str) -> list[Run]:
    """Return the runs in the text of a file: ``module`` is the code's."""
    program = getattr(module, 'PROGRAM', None)
    texts = program.runs(text) if isinstance(program, Program) else []
    if not texts:
        texts = [RunText(1, text)]
    return [_of_text(read, file, run_text) for run_text in texts]


def _of_text(read: Callable[[str], Read], file: str, run: RunText) -> Run:
    try:
        metrics, facts = read(run.text)
    except Refused as err:
        return Run(file, run.line, refused=err)
    return Run(file, run.line, metrics, facts)


def rows(code: Code, runs: Sequence[Run]) -> list[tuple[Any, ...]]:
    """Return the rows of a table, COLUMNS, of all runs that were read.

    A night is the date in a file's name, else the number of the file; of one file the number of the run. Runs with
    other settings are other series."""
    read = [run for run in runs if not run.refused]
    settings = _settings(read)
    nights = _nights(read)
    counts: dict[tuple[str, Any], int] = {}
    table = []
    for run, night in zip(read, nights, strict=True):
        benchmark = code.room + ''.join(f'%{name}={run.facts.get(name)}' for name in settings)
        for metric, value in run.metrics.items():
            if value <= 0:              # no rule judges it
                continue
            unit = code.unit(metric)
            direction = 'lower' if stem(unit) == 's' else 'higher'
            series = f'{benchmark}.{metric}'
            counts[series, night] = number = counts.get((series, night), 0) + 1
            table.append((series, night, 'run', number, value, unit, direction, benchmark, metric, night))
    return table


def _settings(runs: Sequence[Run]) -> list[str]:
    """Return the names of the facts that make runs different cases."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.facts.items():
            if isinstance(value, (str, int)) and name not in _OF_A_RUN:
                values.setdefault(name, set()).add(str(value))
    return [name for name, different in values.items() if len(different) > 1]


def _nights(runs: Sequence[Run]) -> list[str | int]:
    """Return the night of each run."""
    files = sorted({run.file for run in runs})
    if len(files) == 1:
        return list(range(1, len(runs) + 1))
    dates = [_date(run.file) for run in runs]
    if all(dates):
        return dates
    return [files.index(run.file) + 1 for run in runs]


def _date(file: str) -> str:
    """Return the date in a file's name, such as 2026-11-28; '' without one."""
    match = _DATE.search(file.rpartition('/')[2])
    if not match:
        return ''
    digits = match[0].replace('-', '')
    return f'{digits[:4]}-{digits[4:6]}-{digits[6:]}'
