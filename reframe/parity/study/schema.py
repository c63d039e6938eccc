"""The schema of studies/<name>/study.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from parity.base import paths, yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.strict import Strict

#: The name of a column, or text with names of columns in braces.
COLUMN = re.compile(r'\{([A-Za-z_]\w*)\}')
File = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_-]+\.csv$')]
Digits = Annotated[str, StringConstraints(pattern=r'^\d+(\.\d+)?$')]


class Table(Strict):
    """A CSV with a row for each run. ``benchmark``, ``metric`` and ``unit`` may hold {columns}."""

    file: File
    subsystem: str
    benchmark: str
    metric: str
    unit: str
    side: str                           # the column that names the side
    value: str                          # the column of the figure
    order: str                          # the column that counts the runs of a series
    at_once: str = ''                   # the column of series that ran together: a run is their mean
    direction: Literal['higher', 'lower']
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None      # what the timer resolves
    only: dict[str, str] = {}           # rows that are compared; the others are there for `printed`


class Printed(Strict):
    """An average of the document, to the digits that it prints, and what is known of how it came about."""

    benchmark: str
    metric: str
    side: str
    mean: Digits
    why: str


class Confounder(Strict):
    """What differs between the sides beside what the study set out to compare."""

    what: str
    why: str


class Study(Strict):
    title: str
    source: str
    what: str
    baseline: str
    candidate: str
    tables: list[Table] = Field(min_length=1)
    printed: list[Printed] = []
    confounders: list[Confounder] = []
    notes: list[str] = []


def folder() -> Path:
    return paths.root() / 'studies'


def names() -> list[str]:
    """Every study that there is."""
    return sorted(file.parent.name for file in folder().glob('*/study.yaml'))


def read(name: str) -> Study:
    """The study as its file states it. UsageError names what is valid, or file, line and key."""
    if name not in names():
        raise UsageError(unknown('study', name, names() or ['none']))
    return yamlfile.read(folder() / name / 'study.yaml', Study)
