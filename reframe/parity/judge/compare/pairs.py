"""Pairs of partitions that are declared comparable: systems/<name>/pairs.yaml (docs/compare.md)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
        if self.at_least is None and self.at_most is None:
            raise ValueError('needs at_least or at_most')
        if self.against_parameters and not self.against:
            raise ValueError('against_parameters needs against: the figure of the baseline, as Check.metric')
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:
            raise ValueError(f'at_least {self.at_least:g} is above at_most {self.at_most:g}; exchange them')
        return self

    @property
    def bounds(self) -> str:
        both = ('at least', self.at_least), ('at most', self.at_most)
        return ' and '.join(f'{word} {bound:g}' for word, bound in both if bound is not None)

    @property
    def suffix(self) -> str:
        """The baseline's figure where it is another program's: 'BabelStream.triad threads=all'."""
        return ' '.join((self.against, *(f'{k}={v}' for k, v in self.against_parameters.items()))) \
            if self.against else ''

    def fits(self, row: 'Row') -> bool:
        return row.against == self.suffix and not row.changed \
            and self.metric in (named := f'{row.check}.{row.metric}', shared(named)) \
            and self.parameters.items() <= parameters(row.benchmark).items()

    def is_baseline(self, cell: 'Measured') -> bool:
        """Return whether the baseline's cell is the figure that ``against`` names."""
        return f'{cell.check}.{cell.metric}' == self.against and not cell.changed \
            and self.against_parameters.items() <= parameters(cell.case).items()

    def adds(self, cell: 'Measured') -> bool:
        """Return whether the candidate's cell is one device's share of ``metric``."""
        return shared(cell.metric) != cell.metric and f'{cell.check}.{shared(cell.metric)}' == self.metric \
            and not cell.changed and self.parameters.items() <= parameters(cell.case).items()

    def state(self, row: 'Row', confidence: float) -> tuple[State, str]:
        """Return ``regressed`` where the whole interval, of this ``confidence``, is beyond the bound, and why;
        ``insufficient`` where only the ratio is, where there is no interval, or where the sessions are few."""
        if row.low is None or row.label:
            return 'insufficient', _joined(row.reason or 'no ratio', row.with_left_out)
        said = (f'{with_interval(row.ratio, row.low, row.high)} ({100 * confidence:.4g} %, '
                f'{row.sessions_baseline} and {counted(row.sessions_candidate, "session")})')
        if min(row.sessions_baseline, row.sessions_candidate) < FEWEST:
            return 'insufficient', _joined(f'{said}: {FEWEST} sessions a side are needed', row.with_left_out)
        if bounds.side(row.high, self.at_least, None) or bounds.side(row.low, None, self.at_most):
            return 'regressed', _joined(said, row.with_left_out)
        if bounds.side(row.ratio, self.at_least, self.at_most):
            beyond = f'{said}: the ratio is beyond the bound, its interval is not: more nights will tell'
            return 'insufficient', _joined(beyond, row.with_left_out)
        return 'ok', _joined(said, row.with_left_out)


def with_interval(ratio: float | None, low: float | None, high: float | None) -> str:
    """Return '0.952 [0.946, 0.959]', as far as it is known."""
    if ratio is None:
        return 'no ratio'
    return f'{ratio:.3g}' if low is None or high is None else f'{ratio:.3g} [{low:.3g}, {high:.3g}]'


def _joined(*sentences: str) -> str:
    return '; '.join(filter(None, sentences))


class PairState(Strict):
    """The state of one expectation of a declared pair, for one case."""

    baseline: str                    # system:partition
    candidate: str
    subsystem: str
    benchmark: str                   # the case; the check where no case was measured
    metric: str
    against: str = ''                # the baseline's figure where another program made it
    expected: str                    # 'at least 0.97'
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


class Pair(Strict):
    baseline: Name
    candidate: Name
    expect: list[Expectation] = Field(min_length=1)


class Pairs(Strict):
    pairs: list[Pair]


def between(baseline: str, candidate: str) -> list[Pair]:
    """Return the declared pairs of two sides that are partitions, as system:partition; [] of others."""
    system = baseline.partition(':')[0]
    return [pair for pair in (read(systems.read(system)) if system in systems.names() else ())
            if (f'{system}:{pair.baseline}', f'{system}:{pair.candidate}') == (baseline, candidate)]


def file_of(system: str) -> Path:
    return systems.folder(system) / 'pairs.yaml'


def read(system: System) -> list[Pair]:
    """Return the declared pairs of a system, [] without a file. UsageError gives file, line and what is valid."""
    file = file_of(system.name)
    if not file.exists():
        return []
    found = yamlfile.read(file, Pairs).pairs
    valid, both, wrong = [p.name for p in system.partitions], [(p.baseline, p.candidate) for p in found], []
    for i, (baseline, candidate) in enumerate(both):
        wrong += [(('pairs', i, key), unknown('partition', name, valid))
                  for key, name in (('baseline', baseline), ('candidate', candidate)) if name not in valid]
        if baseline == candidate:
            wrong.append((('pairs', i, 'candidate'), f'{candidate} is its own baseline: name two partitions'))
        if (baseline, candidate) in both[:i]:
            wrong.append((('pairs', i), f'{baseline} and {candidate} are declared twice: join the two'))
    if wrong:
        node = yamlfile.load(file)[1]
        raise UsageError('\n'.join(f'{file}:{yamlfile.line_of(node, keys)}: {why}' for keys, why in wrong))
    return found


def problems(system: System, plan: Plan) -> list[str]:
    """Return a sentence with file and line for every expectation that fits no check, metric or parameter."""
    file, checks = file_of(system.name), {c.check: c for c in plan.checks}
    try:
        declared = read(system)
    except UsageError as err:
        return [str(err)]
    node = yamlfile.load(file)[1] if declared else None
    return [f'{file}:{yamlfile.line_of(node, ("pairs", i, "expect", j))}: {why}'
            for i, pair in enumerate(declared) for j, expected in enumerate(pair.expect)
            if (why := _fits_nothing(expected, checks))]


def _fits_nothing(expected: Expectation, checks: dict[str, LoadedCheck]) -> str:
    """Return why no figure of the checks can be what is expected, and what is valid; '' where one can."""
    sides = [('', expected.metric, expected.parameters)]
    sides += [('against: ', expected.against, expected.against_parameters)] if expected.against else []
    for where, named, given in sides:
        for kind, name, valid in _names(named, given, checks):
            if name not in valid:
                return where + unknown(kind, name, valid or ['none'])
    if not expected.against:
        return ''
    metrics = {f'{check.check}.{m.name}': m for check in checks.values() for m in check.metrics}
    found, beside = metrics[expected.metric], metrics[expected.against]
    able = [name for name, m in metrics.items() if shared(f'{name}0') == name and m.better == 'higher']
    alike = [name for name, m in metrics.items() if (m.unit, m.better) == (found.unit, found.better)]
    if expected.metric not in able:
        return f'{expected.metric} is no rate of several devices; valid: {", ".join(able) or "none"}'
    if expected.against not in alike:
        return (f'against: {expected.against} is in {beside.unit}, {beside.better} is better; {expected.metric} '
                f'is in {found.unit}, {found.better} is better; '
                f'valid: {", ".join(name for name in alike if name not in able) or "none"}')
    return ''


def _names(named: str, given: dict[str, str], checks: dict[str, LoadedCheck]) -> Iterator[tuple[str, str, list]]:
    """Yield kind, name and what is valid of each part of Check.metric with parameters; end at a wrong one."""
    check, metric = named.split('.')
    yield 'check', check, list(checks)
    yield 'metric', metric, [m.name for m in checks[check].metrics]
    for name, value in given.items():
        yield 'parameter', name, list(checks[check].parameters)
        yield name, value, checks[check].parameters[name]


def judged(pair: Pair, compared: 'Comparison') -> Iterator[PairState]:
    """Yield how every expectation of the pair stands: an outcome for each case that it speaks of."""
    names = {'baseline': compared.baseline.name, 'candidate': compared.candidate.name}
    for expected in pair.expect:
        both = {**names, 'expected': expected.bounds, 'against': expected.suffix}
        rows = [r for r in compared.rows if expected.fits(r)]
        for row in rows:
            state, why = expected.state(row, compared.confidence)
            yield PairState(**both, subsystem=row.subsystem, benchmark=row.benchmark, metric=row.metric,
                          ratio=row.ratio, low=row.low, high=row.high, n=row.n, state=state, why=why,
                          nodes={names['baseline']: row.nodes_baseline, names['candidate']: row.nodes_candidate})
        if not rows:
            check, metric = expected.metric.split('.')
            yield PairState(**both, subsystem='', benchmark=check, metric=metric, state='insufficient',
                          why='measured on neither side')
