"""The model of a comparison, from the runs of its sides to the rows that the terminal, JSON and the page
render."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from parity.base import paths
from parity.base.reasons import Kind
from parity.base.strict import Strict
from parity.judge.compare.pairs import PairState, State

SideKind = Literal['partition', 'session', 'file', 'published']
Word = Literal['faster', 'slower', 'equivalent', 'undecided']
#: In the order in which they are counted.
WORDS: tuple[Word, ...] = ('faster', 'slower', 'equivalent', 'undecided')


class Difference(Strict):
    """A fact that makes two measurements unlike."""

    fact: str                        # software, MPI, ranks, size ...
    baseline: str
    candidate: str
    metrics: int = 1                 # how many rows it concerns


class Row(Strict):
    """One metric of one case on both sides. A side without a figure is None, and ``reason`` says why."""

    subsystem: str
    check: str
    benchmark: str                   # the case: the check with its parameters
    metric: str
    partition: str = ''              # its name, where a side has several
    against: str = ''                # the baseline's figure where another program made it: pairs.SPEEDUP
    unit: str
    better: Literal['higher', 'lower', '']      # '': the direction is not known
    n: int                           # runs of the side that has fewer
    n_baseline: int
    n_candidate: int
    sessions_baseline: int = 0       # sessions with these runs: what an interval counts
    sessions_candidate: int = 0
    baseline: float | None = None    # the mean that the ratio divides; without a ratio, the median of the runs
    candidate: float | None = None
    spread_baseline: float | None = None        # robust standard deviation as a share of the median
    spread_candidate: float | None = None
    ratio: float | None = None       # candidate / baseline
    low: float | None = None         # its interval; of a side alone, that of its median
    high: float | None = None
    left_out: str = ''               # nights on nodes that incidents name
    ratio_with_all: str = ''         # the ratio with these nights, and its interval
    nodes_baseline: list[str] = Field(default_factory=list)
    nodes_candidate: list[str] = Field(default_factory=list)
    paired: bool = False             # both sides were measured in the same sessions, and compared in each
    verdict: Word = 'undecided'
    kind: Kind = Kind.NONE     # of the reason, where a side stands alone
    reason: str = ''                 # why there is no ratio, no interval, or no verdict
    notes: list[str] = Field(default_factory=list)
    refused: bool = False            # not like for like
    label: str = ''                  # 'cached': the figure is not what it seems
    changed: bool = False            # the command line changed the case: no pair is declared for it
    differs: list[Difference] = Field(default_factory=list)
    expected: str = ''               # of the declared pair (systems/<name>/pairs.yaml): 'at least 0.97'
    state: State | Literal[''] = ''  # how that stands

    @property
    def title(self) -> str:
        """Return the case, with its partition where a side has several."""
        return f'{self.benchmark} ({self.partition})' if self.partition else self.benchmark

    @property
    def with_left_out(self) -> str:
        """Say which nights were left out, and what the ratio is with them; '' where none were."""
        return f'{self.left_out}: with them {self.ratio_with_all}' if self.left_out else ''


class Mean(Strict):
    """The geometric mean of a subsystem's speeds; each check counts once, whatever its cases and metrics."""

    subsystem: str
    speed: float                     # of the candidate, the baseline being 1
    checks: dict[str, float]         # what is in it
    metrics: int
    low: float | None = None         # the interval of the speed
    high: float | None = None
    sessions_baseline: int = 0       # sessions that have all these metrics
    sessions_candidate: int = 0
    reason: str = ''                 # why there is no interval


Facts = dict[str, str]


@dataclass(frozen=True)
class Value:
    """One run's figure. ``when``: the job's end, Unix seconds; None where it is not known."""

    value: float
    when: float | None = None
    session: str = ''
    #: What must be alike: software, MPI, ranks, size ... What is not known is not in it.
    facts: Facts = field(default_factory=dict, hash=False, compare=False)
    nodes: tuple[str, ...] = field(default=(), hash=False, compare=False)


@dataclass
class Measured:
    """One metric of one case on one side; without values ``reason`` says why."""

    subsystem: str
    check: str
    case: str
    metric: str
    unit: str
    better: str
    place: str = ''                  # system:partition
    environ: str = ''
    values: list[Value] = field(default_factory=list)
    past: list[Value] = field(default_factory=list)      # of earlier nights, where the values are of one
    every: list[Value] = field(default_factory=list)     # where some were left out: the values, and those
    left_out: str = ''               # these, in words
    label: str = ''
    status: str = ''                 # without values: missing, skipped, failed, wrong or disturbed
    kind: Kind = Kind.NONE
    reason: str = ''
    step: float | None = None        # what the timer resolves, where it is stated
    changed: bool = False            # the command line made it another case than its check has by itself

    @property
    def facts(self) -> Facts:
        return self.values[-1].facts if self.values else {}

    @property
    def nodes(self) -> list[str]:
        return sorted({node for value in self.values for node in value.nodes})


@dataclass
class Side:
    """One side of a comparison; JSON has neither its cells nor its notes."""

    name: str
    kind: SideKind
    cells: Annotated[list[Measured], Field(exclude=True)]
    sessions: list[str] = field(default_factory=list)
    facts: dict[str, list[str]] = field(default_factory=dict)       # virtualisation, kernel, file system ...
    notes: Annotated[list[str], Field(exclude=True)] = field(default_factory=list)
    results: Annotated[Path | None, Field(exclude=True)] = None     # another folder than this checkout's

    def where(self) -> AbstractContextManager:
        """Return a context in which its results folder is the one that is read."""
        return paths.of_results(self.results) if self.results else nullcontext()

    @property
    def systems(self) -> list[str]:
        return sorted({place.partition(':')[0] for place in self.places})

    @property
    def places(self) -> list[str]:
        """The partitions that it was measured on."""
        return sorted({c.place for c in self.cells if c.place})


class Comparison(Strict):
    """The whole answer about two sides. ``notes`` are part of the answer."""

    baseline: Side
    candidate: Side
    confidence: float
    margin: float                    # equivalent: the whole interval is within it of 1
    alike: dict[str, str]            # what all rows that were compared have in common
    differs: list[Difference]        # what makes them unlike, refused or labelled
    labelled: bool                   # what differs was compared all the same
    rows: list[Row]
    means: list[Mean]
    notes: list[str]
    expectations: list[PairState] = []      # of the declared pairs: one for each case
    answer: str = ''                 # the first sentence (judge.compare.sentence)

    def expectation(self, row: Row) -> PairState | None:
        """Return what a declared pair expects of a row; None where it expects nothing."""
        for expected in self.expectations:
            if (expected.benchmark, expected.metric, expected.against) == (row.benchmark, row.metric, row.against):
                return expected
        return None


def differing(one: Facts, other: Facts) -> list[str]:
    """The facts that are known of both and not equal, in the order of the first."""
    return [fact for fact, value in one.items() if fact in other and other[fact] != value]
