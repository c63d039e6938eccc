"""A campaign's steps: one case list on one partition and node count, again and again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from parity.base import errors
from parity.base.strict import Strict
from parity.jobs.settings import Settings
from parity.system.schema import Partition

#: The node counts of a campaign where nobody asks for others, as far as the partition has them.
_USUAL_NODES = (1, 2, 4)


@dataclass(frozen=True)
class Step:
    """What one run of ci/nightly measures; ``repeat`` counts from 1."""

    partition: str
    nodes: int
    repeat: int


#: The end of a pattern that names a whole case; its name goes on where a step sets the number of nodes.
WHOLE = '(%|$)'


class Covered(Strict):
    """What a campaign measures. ``check`` is a pattern as `reframe -n` takes it, '' for all checks."""

    name: str
    partitions: list[str]
    nodes: list[int]
    check: str

    def overlaps(self, other: Covered) -> bool:
        """True where some case would be measured twice; a campaign of another name is meant to."""
        return (self.name == other.name and bool(set(self.partitions) & set(other.partitions))
                and bool(set(self.nodes) & set(other.nodes))
                and (_selects(self.check, other.check) or _selects(other.check, self.check)))


def _selects(pattern: str, other: str) -> bool:
    """Whether a case that ``other`` names is one of ``pattern``'s."""
    return bool(re.match(pattern, re.sub(r'\\(.)', r'\1', other.removesuffix(WHOLE))))


def covered(planned: list[Step], check: str, name: str) -> Covered:
    """What the steps measure."""
    return Covered(name=name, check=check, partitions=sorted({s.partition for s in planned}),
                   nodes=sorted({s.nodes for s in planned}))


def steps(partitions: list[Partition], asked: Settings, detected: bool) -> list[Step]:
    """Every repeat on every node count, the partitions in turn; each second repeat turns them round.

    So a drift in time weighs on all partitions alike. ``detected``: the one machine that this is.
    Raises UsageError for a node count that a partition does not have.
    """
    have = {part.name: 1 if detected else part.extras.nodes for part in partitions}
    for name, most in have.items():
        never = [n for n in asked.nodes or () if most and n > most]
        if never:
            raise errors.UsageError(f'{never[0]} nodes can never be had: partition {name} has {most}')
    counts = asked.nodes or [n for n in _USUAL_NODES if all(n <= (most or 1) for most in have.values())]
    return [Step(name, nodes, repeat) for repeat in range(1, (asked.repeats or 1) + 1) for nodes in counts
            for name in (have if repeat % 2 else reversed(have))]
