"""The verdict as data, and its table of cells: terminal, page, `parity show`, JUnit and notices print these."""

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import Field

from parity.base import figures
from parity.base.limits import MARGIN
from parity.base.reasons import Kind
from parity.base.strict import Strict
from parity.judge.compare.pairs import PairState
from parity.judge.stats import bounds
from parity.judge.store.incidents import Change, Incident, Where
from parity.judge.store.plan_file import cell_id
from parity.site.plan import PASSED

#: Every word, worst first: the order in which a person reads them.
Word = Literal['wrong', 'impossible', 'regressed', 'failed', 'missing', 'insufficient',
               'blind', 'disturbed', 'unreferenced', 'skipped', 'improved', 'ok']
WORDS: tuple[Word, ...] = get_args(Word)
#: Words of a figure that bounds, a history or a limit judged.
JUDGED: tuple[Word, ...] = ('impossible', 'regressed', 'blind', 'improved', 'ok')
#: The style of each word on a terminal.
STYLES = {'wrong': 'bold red', 'impossible': 'bold red', 'regressed': 'bold red', 'failed': 'bold yellow',
          'missing': 'bold yellow', 'insufficient': 'cyan', 'blind': 'cyan', 'disturbed': 'yellow',
          'unreferenced': 'cyan', 'skipped': 'dim', 'improved': 'bold green', 'ok': 'green'}
#: The states of a cell: '' where no history judges it.
State = Literal['', 'learning', 'normal', 'slow', 'fast', 'comes and goes']
#: The state of a cell whose slowdowns come and go. No good night ends it until GOOD_NIGHTS were good.
COMES: State = 'comes and goes'
#: Nights in a row after which a disturbed cell, or one that was left out, is no accident any more.
TOO_OFTEN = 3
#: A cell that learned anew so often in a row, and never learned, can not be judged.
RESTARTS = 3
#: Slowdowns that begin within so long began together; after so long the level of one is sure.
BEGAN_WITHIN = datetime.timedelta(days=3)


class Subsystem(Strict):
    """The part of a machine that moves with the slower cells; '' where that is not known."""

    name: str = ''
    why: str = ''
    cells: list[str] = []            # the cells that support it, by name

    def __str__(self) -> str:
        return f'{self.name or "cannot be told"} ({self.why})' if self.why else self.name


class Attribution(Strict):
    """The cause of one slower figure: where, in what part of the machine, and what changed."""

    where: Where = Where()
    subsystem: Subsystem = Subsystem()
    changes: list[Change] = []

    def lines(self, changes: int | None = None) -> list[str]:
        """Return a line for each known part, with at most ``changes`` facts that changed."""
        lines = [f'where: {self.where}']
        if str(self.subsystem):
            lines.append(f'part: {self.subsystem}')
        shown = self.changes[:changes]
        lines += [f'changed: {change}' for change in shown]
        left = len(self.changes) - len(shown)
        if left:
            lines.append(f'changed: {left} facts more')
        return lines


class Cell(Strict):
    """Case x metric: what gets exactly one verdict."""

    check: str                       # class name of the workload
    case: str                        # display name with parameters, as ReFrame prints it
    subsystem: str                   # compute, memory, network, storage, gpu, other
    system: str
    partition: str
    environ: str                     # '' where no environment offers what the check needs
    size: str                        # quick, nightly, acceptance; own: a foreign test's
    metric: str
    unit: str
    better: Literal['higher', 'lower', '']      # '': not known
    value: float | None = None
    reference: float | None = None
    reference_source: str = ''       # "the check's own"; '' for an accepted value
    low: float | None = None         # accepted band, absolute, in the metric's unit
    high: float | None = None
    visible: float | None = None     # the smallest slowdown (a share) that three nights show; None: not known
    limit: float | None = None
    limit_source: str = ''
    limit_certain: bool = False
    efficiency: float | None = None  # value / limit
    label: str = ''                  # e.g. 'cached': why a figure is not judged as what it seems
    verdict: Word
    kind: Kind = Kind.NONE           # of the reason
    reason: str = ''                 # for people
    acknowledged: str = ''           # until when, by whom and why a bad word is a known fault (acks.yaml)
    incident: int = 0                # its number; 0: of none yet
    attempt: int = 1                 # 1: first run; more: how many runs were needed
    history: str = ''                # what its last nights say: ok, improved, regressed, insufficient; '' unknown
    state: State = ''                # of its life: what all its nights say together
    begin: float = 0.0               # when the first night of its slow or fast level began (Unix time); 0: of none
    detected: float = 0.0            # when that level, or the newest drop below it, was found
    last_good: float = 0.0           # of the nights before it, the newest that was surely good; 0: not known
    first_slow: float = 0.0          # the first night that was surely slow; 0: not known
    level: float | None = None       # of the newest nights of that level, in the metric's unit
    once: float | None = None        # the share by which tonight is low, too few nights for a slowdown
    slight: float | None = None      # the share that its level lost, too small a slowdown to alarm
    new_reference: Change | None = None     # of the reference that the check has itself
    restarts: int = 0                # times in a row that it learns anew without having learned
    anew: list[Change] = []          # other work: it learns anew, or its accepted value is of the work before
    usual: float | None = None       # the median of the nights that judge it, in the metric's unit; None: too few
    usual_low: float | None = None   # band of a single night around it, three spreads wide
    usual_high: float | None = None
    disturbed_nights: int = 0        # nights in a row, this one the last, in which every run was disturbed
    skipped_nights: int = 0          # nights in a row, this one the last, that left out what was measured before
    cause: Attribution | None = None # the known cause of a slower figure
    suspicious: bool = False         # low among the nights before: worth another run before the verdict
    nodes: list[str] = Field(default_factory=list)
    ran_on: list[str] = Field(default_factory=list)     # the nodes of all its runs
    virtualisation: str = ''         # of the node, as it says itself: none, kvm, uml; '' where it was not asked
    stopped: bool = False            # the session ended before the case did
    jobid: str = ''
    outputdir: str = ''              # where script and outputs are kept ('' if nothing ran)

    @property
    def is_figure(self) -> bool:
        """Return whether the cell counts as a figure: it was measured, and is not left out, as a cached one is."""
        return self.value is not None and self.verdict != 'skipped'

    @property
    def is_judged(self) -> bool:
        """Return whether bounds, a history or a limit judged the figure."""
        return self.is_figure and bool(self.judged_by) and self.verdict in JUDGED

    @property
    def unknown(self) -> bool:
        """Return whether it was not measured for so many nights that nobody knows its speed."""
        return max(self.disturbed_nights, self.skipped_nights) >= TOO_OFTEN

    @property
    def beyond_reference(self) -> bool:
        """Return whether its reference, and no limit, makes it impossible: the reference may be of other work."""
        if self.verdict != 'impossible':
            return False
        if self.limit_certain and self.efficiency > 1 + MARGIN:
            return False
        if not bounds.says_usual(self.better, self.low, self.high):
            return False
        times = bounds.absurd(self.better, self.value, self.reference, self.unit)
        return times is not None

    @property
    def judged_by(self) -> Literal['limit', 'reference', 'history', '']:
        """Return what judges the value; '' for nothing.

        The limit judges where the value exceeds a certain one. The history judges where there is no reference, or
        where only the nights before call the value changed."""
        if self.verdict == 'impossible' and self.limit_certain:
            return 'limit'
        has_history = self.usual is not None
        if self.reference is None:
            return 'history' if has_history else ''
        is_within = self.value is None or not bounds.side(self.value, self.low, self.high)
        is_changed = self.verdict in ('regressed', 'improved')
        if has_history and is_changed and is_within:
            return 'history'
        return 'reference'

    @property
    def expected(self) -> float | None:
        """Return the value that judges it, in the metric's unit."""
        return {'limit': self.limit, 'reference': self.reference, 'history': self.usual, '': None}[self.judged_by]


#: The reason of a code that the session did not ask for.
NOT_SELECTED = 'not selected'


class CodeCoverage(Strict):
    """One of the codes that parity is made for: whether this session measured it, and how."""

    code: str                        # its name
    measured: bool
    by: str = ''                     # what measured it: the code, or one that stands in for it
    reason: str = ''                 # why not, if not
    lacking: bool = False            # it was asked for, and no environment has its program or a stand-in


class Coverage(Strict):
    line: str                        # '3 of 13 codes (A stands in for B; no Spack: C D)'
    codes: list[CodeCoverage]        # whose checks were loaded
    measured: int
    total: int                       # number of codes that the session was to measure
    cells: int                       # number of planned cells

    @property
    def lacking(self) -> list[str]:
        """The names of the codes that have no program here."""
        return [code.code for code in self.codes if code.lacking]


class JudgedSession(Strict):
    """The judged ReFrame session, and the facts of its machine."""

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


class AlarmBudget(Strict):
    """The false alarms that chance may give. ``rate``: of each history, bound and pair, in a night."""

    a_month: float = 1.0             # false alarms a month and system (`alarms` in system.yaml)
    histories: int = 0
    bounds: int = 0                  # cells with accepted bounds
    pairs: int = 0                   # figures that declared pairs speak of
    rate: float = 1 / 30
    bounds_alone: int = 0            # cells without a history: stats.bounds.CHANCE instead of ``rate``
    nights: int = 2                  # bad ones that turn a cell red


class Verdict(Strict):
    """Everything that parity says about one session. ``warnings`` are part of the answer."""

    session: JudgedSession
    coverage: Coverage
    counts: dict[Word, int]
    trust: str                       # how far to trust it: the stated error rate, or that none is
    budget: AlarmBudget = AlarmBudget()
    warnings: list[str]
    next: str                        # the next command
    exit_code: int
    cells: list[Cell]
    retired: list[Cell] = Field(default_factory=list)      # absent, as system.yaml says: they count as nothing
    pairs: list[PairState] = Field(default_factory=list)     # declared pairs of partitions, how they stand
    incidents: list[Incident] = Field(default_factory=list)      # open ones, and those that this session ended


@dataclass(eq=False)
class CellText:
    """One cell as text; '' where nothing is known."""

    cell: Cell
    several: bool = False            # environments of the case on its partition

    @property
    def name(self) -> str:
        """The name that `parity show` takes: with the environment only if there are several."""
        return cell_id(vars(self.cell), self.several)

    @property
    def word(self) -> str:
        return self.cell.verdict

    @property
    def reason(self) -> str:
        return self.cell.reason

    @property
    def title(self) -> str:
        return f'{self.cell.case}: {self.cell.metric}'

    @property
    def place(self) -> str:
        return f'{self.cell.system}:{self.cell.partition}' if self.cell.partition else self.cell.system

    @property
    def figure(self) -> str:
        none = self.cell.value is None or self.cell.label == PASSED
        return '' if none else figures.figure(self.cell.value, self.cell.unit)

    @property
    def bound(self) -> str:
        """The limit with its kind: only a 'limit' is certain."""
        kind = 'limit' if self.cell.limit_certain else 'ceiling'
        return '' if self.cell.efficiency is None else f'{kind} {figures.figure(self.cell.limit, self.cell.unit)}'


def rows(cells: Iterable[Cell]) -> list[CellText]:
    """Return the table of cells."""
    cells = list(cells)
    figures = [(cell.system, cell.partition, cell.case, cell.metric) for cell in cells]
    environs = Counter(figures)
    table = []
    for cell, figure in zip(cells, figures, strict=True):
        several = environs[figure] > 1
        table.append(CellText(cell, several))
    return table


def name(cell: Cell, cells: Iterable[Cell]) -> str:
    """Return the name of one cell among all cells of its session."""
    same_case = [other for other in cells if other.case == cell.case]
    return next(row.name for row in rows(same_case) if row.cell is cell)


def names(cells: Iterable[Cell]) -> dict[str, Cell]:
    return {row.name: row.cell for row in rows(cells)}


def loss(cell: Cell, value: float | None) -> float:
    """Return by which share of its expected value ``value`` is worse; 0 where nothing is known."""
    if value is None or not cell.expected:
        return 0.0
    share = (value - cell.expected) / abs(cell.expected)
    if cell.better != 'lower':
        share = -share
    return max(0.0, share)
