"""What a verdict is: data that the terminal, JSON and the page render alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from parity.base.strict import Strict
from parity.compare.model import Outcome
from parity.records.cells import cell_id
from parity.verdict.attribution.changes import Attribution

Word = Literal['ok', 'improved', 'regressed', 'impossible', 'wrong', 'failed', 'missing',
               'skipped', 'disturbed', 'unreferenced', 'insufficient']

#: Every word, worst first: the order in which a person reads them.
WORDS: tuple[Word, ...] = ('wrong', 'impossible', 'regressed', 'failed', 'missing', 'insufficient',
                           'disturbed', 'unreferenced', 'skipped', 'improved', 'ok')


class Cell(Strict):
    """Case x metric: what gets exactly one verdict."""

    check: str                       # class name of the workload
    case: str                        # display name with parameters, as ReFrame prints it
    subsystem: str                   # compute, memory, network, storage, gpu
    system: str
    partition: str
    environ: str                     # '' where no environment offers what the check needs
    size: str                        # quick, nightly, acceptance
    metric: str
    unit: str
    better: Literal['higher', 'lower']
    value: float | None = None
    reference: float | None = None
    low: float | None = None         # accepted band, absolute, in the metric's unit
    high: float | None = None
    limit: float | None = None
    limit_source: str = ''
    limit_certain: bool = False
    efficiency: float | None = None  # value / limit
    label: str = ''                  # e.g. 'cached': why a figure is not judged as what it seems
    verdict: Word
    reason: str = ''
    acknowledged: str = ''           # until when, by whom and why a bad word is a known fault (acks.yaml)
    outgrown: str = ''               # it is plainly worse than when it was acknowledged: both levels
    attempt: int = 1                 # 1: first run; more: how many runs were needed
    history: str = ''                # what its last nights say: ok, improved, regressed, insufficient; '' unknown
    usual: float | None = None       # the median of the nights that judge it, in the metric's unit; None: too few
    usual_low: float | None = None   # band of a single night around it, three spreads wide
    usual_high: float | None = None
    disturbed_nights: int = 0        # nights in a row, this one the last, in which every run was disturbed
    cause: Attribution | None = None # what is known of it where the figure is slower
    suspicious: bool = False         # low among the nights before: worth another run before anything is said
    nodes: list[str] = Field(default_factory=list)
    ran_on: list[str] = Field(default_factory=list)     # the nodes of all its runs
    virtualisation: str = ''         # of the node, as it says itself: none, kvm, uml; '' where it was not asked
    jobid: str = ''
    outputdir: str = ''              # where script and outputs are kept ('' if nothing ran)

    @property
    def judged_by(self) -> Literal['limit', 'reference', 'history', '']:
        """The limit that its value exceeds, the accepted value, or the nights before where these alone say that it
        changed; '' where nothing judges it."""
        if self.verdict == 'impossible':
            return 'limit'
        within = (self.low is None or self.value is None or self.value >= self.low) \
            and (self.high is None or self.value is None or self.value <= self.high)
        by_history = self.reference is None or self.verdict in ('regressed', 'improved') and within
        if by_history and self.usual is not None:
            return 'history'
        return '' if self.reference is None else 'reference'

    @property
    def expected(self) -> float | None:
        """What its value is judged by, in the metric's unit; None: nothing judges it."""
        return {'limit': self.limit, 'reference': self.reference, 'history': self.usual, '': None}[self.judged_by]


class CodeCoverage(Strict):
    """One of the codes parity is made for: is it measured in this session, and by what?"""

    code: str                        # e.g. 'HPL'
    measured: bool
    by: str = ''                     # what measured it: 'hpcc' stands in for HPL
    reason: str = ''                 # why not, if not


class Coverage(Strict):
    line: str                        # '3 of 13 codes (HPL by hpcc; no Spack: NPB OSU IOR mdtest)'
    codes: list[CodeCoverage]
    measured: int
    total: int
    cells: int                       # number of planned cells


class Session(Strict):
    """The ReFrame session that is judged, and the facts of the machine it ran on."""

    uuid: str
    system: str
    start: str                       # local time, ISO 8601 to the second
    end: str
    elapsed: float                   # seconds
    age: float = 0.0                 # seconds since it ended, when it was judged
    run_time: float                  # seconds that the benchmarks themselves ran
    wait_time: float = 0.0           # seconds in which jobs waited in queues and none ran
    interrupted: bool = False        # recovered from the perflogs after a kill
    cmdline: str = ''
    reframe: str = ''
    software: str = ''               # the line that announces the providers
    facts: dict[str, Any] = Field(default_factory=dict)  # nested, of the machine: JSON values


class Verdict(Strict):
    """Everything that is said of one session. ``warnings`` are part of the answer."""

    session: Session
    coverage: Coverage
    counts: dict[Word, int]
    trust: str                       # how far to trust it: the stated error rate, or that none is
    warnings: list[str]
    next: str                        # the next command
    exit_code: int
    cells: list[Cell]
    retired: list[Cell] = Field(default_factory=list)      # absent, as system.yaml says: they count as nothing
    pairs: list[Outcome] = Field(default_factory=list)     # declared pairs of partitions, how they stand


def names(cells: Iterable[Cell]) -> dict[str, Cell]:
    """The cells by name; the environment is part of it only where a case has several on its partition."""
    cells = list(cells)
    environs = Counter((c.system, c.partition, c.case, c.metric) for c in cells)
    return {cell_id(vars(c), environs[c.system, c.partition, c.case, c.metric] > 1): c for c in cells}
