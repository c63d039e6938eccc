"""What `parity show` says of a cell, as data."""

from __future__ import annotations

from parity.base.strict import Strict
from parity.verdict.attribution.model import Attribution
from parity.verdict.model import Cell


class Night(Strict):
    """The median of a cell's first attempts in one session, and what its reruns gave."""

    session: str
    night: str                       # local date and time of its begin, to the minute
    value: float
    runs: list[float]
    nodes: list[str]
    disturbed: bool = False          # every run was; else those that were are left out
    reruns: list[tuple[float, str]] = []     # value and node


class View(Strict):
    """One cell of one session; ``nights`` ends with that session where the cell has a figure in it."""

    name: str
    session: str
    start: str
    cell: Cell
    nights: list[Night]
    attribution: Attribution
    output: dict[str, list[str]]     # the last lines of what the job printed, by file
    output_note: str
    rerun: str                       # a line for bash; '' where no environment can run the case
