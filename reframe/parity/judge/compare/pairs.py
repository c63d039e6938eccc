"""Pairs of partitions that are declared comparable: systems/<name>/pairs.yaml (docs/compare.md)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints, model_validator

from parity.base import yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.figures import counted
from parity.base.strict import Strict
from parity.base.yamlfile import Text
from parity.judge.stats import bounds
from parity.judge.store.plan_file import parameters
from parity.site import systems
from parity.site.identity import shared
from parity.site.plan import LoadedCheck, Plan
from parity.site.systems import Name, System

if TYPE_CHECKING:       # a verdict needs the state of a pair, and seldom a comparison
    from parity.judge.compare.model import Comparison, Measured, Row

#: How an expectation of a declared pair stands.
State = Literal['ok', 'regressed', 'insufficient']
#: The title over a ratio of devices to the cores of another node.
SPEEDUP = 'different processors: a speed-up'
Bound = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
_NAMED = StringConstraints(pattern=r'^\w+\.\w+$')
#: Fewer sessions of a side judge no pair: its first two nights are no alarm.
FEWEST = 3


class Expectation(Strict):
    """An expected ratio candidate / baseline, for every case of the check that has the parameters."""

    metric: Annotated[str, _NAMED]                      # Check.metric
    parameters: dict[str, Text] = {}
    against: Annotated[str, _NAMED] | None = None       # the baseline's, beside the sum of the candidate's devices
    against_parameters: dict[str, Text] = {}
    at_least: Bound = None
    at_most: Bound = None
    why: str = ''

    @model_validator(mode='after')
    def _bounded(self) -> 'Expectation':
        least, most = self.at_least, self.at_most
        if least is None and most is None:
            raise ValueError('needs at_least or at_most')
        if self.against_parameters and not self.against:
            raise ValueError('against_parameters needs against: the figure of the baseline, as Check.metric')
        if least is not None and most is not None and least > most:
            raise ValueError(f'at_least {least:g} is above at_most {most:g}; exchange them')
        return self

    @property
    def bounds(self) -> str:
        parts = []
        if self.at_least is not None:
            parts.append(f'at least {self.at_least:g}')
        if self.at_most is not None:
            parts.append(f'at most {self.at_most:g}')
        return ' and '.join(parts)

    @property
    def suffix(self) -> str:
        """The baseline's figure where it is another program's: 'BabelStream.triad threads=all'."""
        if not self.against:
            return ''
        parameters = [f'{name}={value}' for name, value in self.against_parameters.items()]
        return ' '.join([self.against, *parameters])

    def fits(self, row: 'Row') -> bool:
        """Return whether the row is of this figure: of all devices together, or of each of several."""
        if row.changed or row.against != self.suffix:
            return False
        name = f'{row.check}.{row.metric}'
        if self.metric not in (name, shared(name)):
            return False
        return _has(row.benchmark, self.parameters)

    def is_baseline(self, cell: 'Measured') -> bool:
        """Return whether the baseline's cell is the figure that ``against`` names: of a case that the command line
        did not change."""
        name = f'{cell.check}.{cell.metric}'
        if cell.changed or name != self.against:
            return False
        return _has(cell.case, self.against_parameters)

    def adds(self, cell: 'Measured') -> bool:
        """Return whether the candidate's cell is one device's share of ``metric``."""
        metric = shared(cell.metric)
        if cell.changed or metric == cell.metric:
            return False
        if f'{cell.check}.{metric}' != self.metric:
            return False
        return _has(cell.case, self.parameters)

    def state(self, row: 'Row', confidence: float) -> tuple[State, str]:
        """Return ``regressed`` where the whole interval, of this ``confidence``, is beyond the bound, and why;
        ``insufficient`` where only the ratio is, where there is no interval, or where the sessions are few."""
        if row.low is None or row.label:
            state, why = 'insufficient', row.reason or 'no ratio'
        else:
            state, why = self._with_interval(row, confidence)
        parts = why, row.with_left_out
        return state, '; '.join(filter(None, parts))

    def _with_interval(self, row: 'Row', confidence: float) -> tuple[State, str]:
        of_candidate = counted(row.sessions_candidate, 'session')
        sessions = f'{row.sessions_baseline} and {of_candidate}'
        ratio = with_interval(row.ratio, row.low, row.high)
        why = f'{ratio} ({100 * confidence:.4g} %, {sessions})'
        fewest = min(row.sessions_baseline, row.sessions_candidate)
        if fewest < FEWEST:
            return 'insufficient', f'{why}: {FEWEST} sessions a side are needed'
        too_low = bounds.side(row.high, self.at_least, None)
        too_high = bounds.side(row.low, None, self.at_most)
        if too_low or too_high:
            return 'regressed', why
        if bounds.side(row.ratio, self.at_least, self.at_most):
            beyond = 'the ratio is beyond the bound, its interval is not: more nights will tell'
            return 'insufficient', f'{why}: {beyond}'
        return 'ok', why


def _has(case: str, wanted: dict[str, str]) -> bool:
    """Return whether a case has these parameters, whatever else it has."""
    return wanted.items() <= parameters(case).items()


def with_interval(ratio: float | None, low: float | None, high: float | None) -> str:
    """Return '0.952 [0.946, 0.959]', as far as it is known."""
    if ratio is None:
        return 'no ratio'
    if low is None or high is None:
        return f'{ratio:.3g}'
    return f'{ratio:.3g} [{low:.3g}, {high:.3g}]'


class PairState(Strict):
    """The state of one expectation of a declared pair, for one case."""

    baseline: str                    # system:partition
    candidate: str
    subsystem: str
    benchmark: str                   # the case; the check where no case was measured
    metric: str
    against: str = ''                # the baseline's figure where another program made it
    expected: str                    # 'at least 0.97'
    at_least: float | None = None    # the bounds that this is
    at_most: float | None = None
    better: Literal['higher', 'lower', ''] = ''
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0                       # runs of the side that has fewer
    nodes: dict[str, list[str]] = {}        # by side, as `baseline` and `candidate` name it: where it ran
    state: State
    why: str = ''
    incident: int = 0                # its number; 0: of none
    acknowledged: str = ''           # until when, by whom and why it is a known fault (acks.yaml)

    @property
    def suffix(self) -> str:
        """Words for a title where the sides are different programs."""
        return f' against {self.against} ({SPEEDUP})' if self.against else ''


#: Fields that a state has of the row of its figure.
_OF_ROW = ('subsystem', 'benchmark', 'metric', 'better', 'ratio', 'low', 'high', 'n')


class Pair(Strict):
    baseline: Name
    candidate: Name
    expect: list[Expectation] = Field(min_length=1)


class Pairs(Strict):
    pairs: list[Pair]


def between(baseline: str, candidate: str) -> list[Pair]:
    """Return the declared pairs of two sides that are partitions, as system:partition; [] of others."""
    system, _, _ = baseline.partition(':')
    if system not in systems.names():
        return []
    declared = []
    for pair in read(systems.read(system)):
        partitions = f'{system}:{pair.baseline}', f'{system}:{pair.candidate}'
        if partitions == (baseline, candidate):
            declared.append(pair)
    return declared


def file_of(system: str) -> Path:
    return systems.folder(system) / 'pairs.yaml'


def read(system: System) -> list[Pair]:
    """Return the declared pairs of a system, [] without a file. UsageError gives file, line and what is valid."""
    file = file_of(system.name)
    if not file.exists():
        return []
    declared = yamlfile.read(file, Pairs).pairs
    partitions = [partition.name for partition in system.partitions]
    mistakes = list(_mistakes(declared, partitions))
    if not mistakes:
        return declared
    _, node = yamlfile.load(file)
    lines = []
    for keys, why in mistakes:
        line = yamlfile.line_of(node, keys)
        lines.append(f'{file}:{line}: {why}')
    raise UsageError('\n'.join(lines))


def _mistakes(declared: list[Pair], valid: list[str]) -> Iterator[tuple[tuple, str]]:
    """Yield the keys of each wrong entry, and why it is wrong; ``valid``: partitions."""
    before = set()
    for number, pair in enumerate(declared):
        entry = 'pairs', number
        both = pair.baseline, pair.candidate
        for key, name in zip(('baseline', 'candidate'), both, strict=True):
            if name not in valid:
                yield (*entry, key), unknown('partition', name, valid)
        if pair.baseline == pair.candidate:
            yield (*entry, 'candidate'), f'{pair.candidate} is its own baseline: name two partitions'
        if both in before:
            yield entry, f'{pair.baseline} and {pair.candidate} are declared twice: join the two'
        before.add(both)


def problems(system: System, plan: Plan) -> list[str]:
    """Return a sentence with file and line for every expectation that fits no check, metric or parameter."""
    file = file_of(system.name)
    checks = {check.check: check for check in plan.checks}
    try:
        declared = read(system)
    except UsageError as err:
        return [str(err)]
    if not declared:
        return []
    _, node = yamlfile.load(file)
    sentences = []
    for number, pair in enumerate(declared):
        for place, expected in enumerate(pair.expect):
            why = _fits_nothing(expected, checks)
            if why:
                line = yamlfile.line_of(node, ('pairs', number, 'expect', place))
                sentences.append(f'{file}:{line}: {why}')
    return sentences


def _fits_nothing(expected: Expectation, checks: dict[str, LoadedCheck]) -> str:
    """Return why no figure of the checks can be what is expected, and what is valid; '' where one can."""
    why = _unknown_part(expected.metric, expected.parameters, checks)
    if why or not expected.against:
        return why
    why = _unknown_part(expected.against, expected.against_parameters, checks)
    if why:
        return f'against: {why}'
    return _not_comparable(expected, checks)


def _unknown_part(figure: str, given: dict[str, str], checks: dict[str, LoadedCheck]) -> str:
    """Return which part of Check.metric with parameters no check has, and what is valid; '' where all have."""
    for part in _parts(figure, given, checks):
        if part.name not in part.valid:
            return unknown(part.kind, part.name, part.valid or ['none'])
    return ''


def _not_comparable(expected: Expectation, checks: dict[str, LoadedCheck]) -> str:
    """Return why the sum of devices cannot stand beside the figure that ``against`` names; '' where it can."""
    metrics = {}
    for check in checks.values():
        for metric in check.metrics:
            metrics[f'{check.check}.{metric.name}'] = metric
    summed, other = metrics[expected.metric], metrics[expected.against]
    rates, alike = [], []           # of several devices; of no device, in the unit of the sum
    for name, metric in metrics.items():
        is_of_devices = shared(f'{name}0') == name
        is_alike = metric.unit == summed.unit and metric.better == summed.better
        if is_of_devices and metric.better == 'higher':
            rates.append(name)
        elif is_alike:
            alike.append(name)
    if expected.metric not in rates:
        valid = ', '.join(rates) or 'none'
        return f'{expected.metric} is no rate of several devices; valid: {valid}'
    if other.unit == summed.unit and other.better == summed.better:
        return ''
    valid = ', '.join(alike) or 'none'
    return (f'against: {expected.against} is in {other.unit}, {other.better} is better; {expected.metric} '
            f'is in {summed.unit}, {summed.better} is better; valid: {valid}')


class _Part(NamedTuple):
    """A part of Check.metric with parameters."""

    kind: str
    name: str
    valid: list[str]


def _parts(figure: str, given: dict[str, str], checks: dict[str, LoadedCheck]) -> Iterator[_Part]:
    """Yield each part of Check.metric with parameters; end at one that is not valid."""
    check, metric = figure.split('.')
    yield _Part('check', check, list(checks))
    loaded = checks[check]
    metrics = [metric.name for metric in loaded.metrics]
    yield _Part('metric', metric, metrics)
    parameters = loaded.parameters
    for name, value in given.items():
        yield _Part('parameter', name, list(parameters))
        yield _Part(name, value, parameters[name])


def judged(pair: Pair, compared: 'Comparison') -> Iterator[PairState]:
    """Yield how every expectation of the pair stands: an outcome for each case that it speaks of."""
    one, other = compared.baseline.name, compared.candidate.name
    for expected in pair.expect:
        common = {'baseline': one, 'candidate': other, 'expected': expected.bounds, 'against': expected.suffix,
                  'at_least': expected.at_least, 'at_most': expected.at_most}
        rows = [row for row in compared.rows if expected.fits(row)]
        for row in rows:
            yield _judged_row(common, row, expected, compared.confidence)
        if rows:
            continue
        check, metric = expected.metric.split('.')
        why = 'measured on neither side'
        yield PairState(**common, subsystem='', benchmark=check, metric=metric, state='insufficient', why=why)


def _judged_row(common: dict[str, Any], row: 'Row', expected: Expectation, confidence: float) -> PairState:
    """Return how an expectation stands in a row; ``common``: the fields of all its rows."""
    state, why = expected.state(row, confidence)
    baseline, candidate = common['baseline'], common['candidate']
    nodes = {baseline: row.nodes_baseline, candidate: row.nodes_candidate}
    fields = {name: getattr(row, name) for name in _OF_ROW}
    return PairState(**common, **fields, nodes=nodes, state=state, why=why)
