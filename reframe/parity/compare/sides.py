"""What one side measured: runs of cells, with the facts that make them like or unlike others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Facts = dict[str, str]


@dataclass(frozen=True)
class Value:
    """One run's figure. ``when``: the job's end, Unix seconds; None where it is not known."""

    value: float
    when: float | None = None
    session: str = ''
    #: What must be alike: software, MPI, ranks, size ... What is not known is not in it.
    facts: Facts = field(default_factory=dict, hash=False, compare=False)


@dataclass
class Measured:
    """One metric of one case on one side; without values ``reason`` says why there are none."""

    subsystem: str
    check: str
    case: str
    metric: str
    unit: str
    better: str
    place: str = ''                  # system:partition
    environ: str = ''
    values: list[Value] = field(default_factory=list)
    label: str = ''
    reason: str = ''
    step: float | None = None        # what the timer resolves, where it is stated
    changed: bool = False            # the command line made it another case than its check has by itself

    @property
    def facts(self) -> Facts:
        return self.values[-1].facts if self.values else {}


@dataclass
class Side:
    """One side of a comparison. ``context`` says what differs between partitions by nature."""

    name: str
    kind: Literal['partition', 'session', 'file', 'published']
    cells: list[Measured]
    sessions: list[str] = field(default_factory=list)
    context: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def places(self) -> list[str]:
        """The partitions that it was measured on."""
        return sorted({c.place for c in self.cells if c.place})


def differing(one: Facts, other: Facts) -> list[str]:
    """The facts that are known of both and not equal, in the order of the first."""
    return [fact for fact, value in one.items() if fact in other and other[fact] != value]


def newest_alike(cells: Iterable[Measured]) -> int:
    """Keep of every cell the runs that are like its newest one; returns how many runs were left out.

    A window of nights may hold an upgrade: what was measured before it is another experiment.
    """
    left_out = 0
    for cell in cells:
        kept = [v for v in cell.values if not differing(v.facts, cell.facts)]
        left_out += len(cell.values) - len(kept)
        cell.values = kept
    return left_out
