"""Pairs of partitions that are declared comparable: systems/<name>/pairs.yaml (docs/compare.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from parity.base import paths, yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.strict import Strict
from parity.compare.model import Comparison, Measured, Outcome, Row, State
from parity.plan import LoadedCheck, Plan, PlannedMetric
from parity.plan.identity import shared
from parity.records.outset import parameters
from parity.stats import bounds
from parity.system.systems import Name, System


def _words(given: Any) -> Any:
    """Return parameters as ReFrame prints them. YAML reads yes and no as truth values: those must be quoted."""
    if not isinstance(given, dict):
        return given
    if wrong := [name for name, value in given.items() if isinstance(value, bool) or value is None]:
        raise ValueError(f'{wrong[0]}: {given[wrong[0]]!r} is no text; put it in quotes')
    return {str(name): str(value) for name, value in given.items()}


Bound = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
_NAMED = StringConstraints(pattern=r'^\w+\.\w+$')
_TEXTS = BeforeValidator(_words)


class Expectation(Strict):
    """An expected ratio candidate / baseline, for every case of the check that has the parameters."""

    metric: Annotated[str, _NAMED]                      # Check.metric
    parameters: Annotated[dict[str, str], _TEXTS] = {}
    against: Annotated[str, _NAMED] | None = None       # the baseline's, beside the sum of the candidate's devices
    against_parameters: Annotated[dict[str, str], _TEXTS] = {}
    at_least: Bound = None
    at_most: Bound = None
    why: str = ''

    @model_validator(mode='after')
    def _bounded(self) -> Expectation:
        if self.at_least is None and self.at_most is None:
            raise ValueError('needs at_least or at_most')
        if self.against_parameters and not self.against:
            raise ValueError('against_parameters needs against')
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:
            raise ValueError(f'at_least {self.at_least:g} is above at_most {self.at_most:g}')
        return self

    @property
    def said(self) -> str:
        both = ('at least', self.at_least), ('at most', self.at_most)
        return ' and '.join(f'{word} {bound:g}' for word, bound in both if bound is not None)

    @property
    def beside(self) -> str:
        """The baseline's figure where it is another program's: 'BabelStream.triad threads=all'."""
        return ' '.join((self.against, *(f'{k}={v}' for k, v in self.against_parameters.items()))) \
            if self.against else ''

    def fits(self, row: Row) -> bool:
        return row.against == self.beside and not row.changed \
            and self.metric in (named := f'{row.check}.{row.metric}', shared(named)) \
            and self.parameters.items() <= parameters(row.benchmark).items()

    def stands(self, cell: Measured) -> bool:
        """Return whether the baseline's cell is the figure that ``against`` names."""
        return f'{cell.check}.{cell.metric}' == self.against and not cell.changed \
            and self.against_parameters.items() <= parameters(cell.case).items()

    def adds(self, cell: Measured) -> bool:
        """Return whether the candidate's cell is one device's share of ``metric``."""
        return shared(cell.metric) != cell.metric and f'{cell.check}.{shared(cell.metric)}' == self.metric \
            and not cell.changed and self.parameters.items() <= parameters(cell.case).items()

    def state(self, row: Row, confidence: float) -> tuple[State, str]:
        """Return ``regressed`` where the whole interval, of this ``confidence``, is beyond the bound, and why;
        ``insufficient`` where only the ratio is, or where there is no interval."""
        if row.low is None or row.label:
            return 'insufficient', row.reason or 'no ratio'
        said = (f'{row.ratio:.3g} [{row.low:.3g}, {row.high:.3g}] ({100 * confidence:.4g} %, '
                f'{row.sessions_baseline} and {row.sessions_candidate} sessions)')
        if bounds.side(row.high, self.at_least, None) or bounds.side(row.low, None, self.at_most):
            return 'regressed', f'{said}, expected {self.said}'
        if bounds.side(row.ratio, self.at_least, self.at_most):
            return 'insufficient', f'{said}: not {self.said}, but its interval may be: more nights will tell'
        return 'ok', said


class Pair(Strict):
    baseline: Name
    candidate: Name
    expect: list[Expectation] = Field(min_length=1)


class Pairs(Strict):
    pairs: list[Pair]


def file_of(system: str) -> Path:
    return paths.root() / 'systems' / system / 'pairs.yaml'


def read(system: System) -> list[Pair]:
    """Return the declared pairs of a system, [] without a file. UsageError gives file, line and what is valid."""
    file = file_of(system.name)
    if not file.exists():
        return []
    found = yamlfile.read(file, Pairs).pairs
    if wrong := list(_partitions_wrong(system, found)):
        node = yamlfile.load(file)[1]
        raise UsageError('\n'.join(f'{file}:{yamlfile.line_of(node, keys)}: {why}' for keys, why in wrong))
    return found


def _partitions_wrong(system: System, found: list[Pair]) -> Iterator[tuple[tuple, str]]:
    valid, seen = [p.name for p in system.partitions], set()
    for i, pair in enumerate(found):
        for key in ('baseline', 'candidate'):
            if getattr(pair, key) not in valid:
                yield ('pairs', i, key), unknown('partition', getattr(pair, key), valid)
        if pair.baseline == pair.candidate:
            yield ('pairs', i, 'candidate'), f'{pair.candidate} is its own baseline'
        if (both := (pair.baseline, pair.candidate)) in seen:
            yield ('pairs', i), f'{pair.baseline} and {pair.candidate} are declared twice'
        seen.add(both)


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
    found = _named(expected.metric, expected.parameters, checks)
    if isinstance(found, str) or not expected.against:
        return found if isinstance(found, str) else ''
    beside = _named(expected.against, expected.against_parameters, checks)
    if isinstance(beside, str):
        return f'against: {beside}'
    metrics = [(f'{check.check}.{m.name}', m) for check in checks.values() for m in check.metrics]
    if not _of_devices(found):
        valid, why = [n for n, m in metrics if _of_devices(m)], f'{expected.metric} is no rate of several devices'
    elif (found.unit, found.better) != (beside.unit, beside.better):
        valid = [n for n, m in metrics if (m.unit, m.better) == (found.unit, found.better) and not _of_devices(m)]
        why = (f'against: {expected.against} is in {beside.unit}, {beside.better} is better; {expected.metric} is '
               f'in {found.unit}, {found.better} is better')
    else:
        return ''
    return f'{why}; valid: {", ".join(valid) or "none"}'


def _of_devices(metric: PlannedMetric) -> bool:
    """Return whether the figures of devices can be added up."""
    return shared(f'{metric.name}0') == metric.name and metric.better == 'higher'


def _named(named: str, given: dict[str, str], checks: dict[str, LoadedCheck]) -> PlannedMetric | str:
    """Return the metric that a file names as Check.metric, or why there is none, or none with these parameters."""
    check, metric = named.split('.')
    if check not in checks:
        return unknown('check', check, list(checks))
    if metric not in (valid := {m.name: m for m in checks[check].metrics}):
        return unknown('metric', metric, list(valid))
    for name, value in given.items():
        of = checks[check].parameters
        if name not in of:
            return unknown('parameter', name, list(of) or ['none'])
        if value not in of[name]:
            return unknown(name, value, of[name])
    return valid[metric]


def judged(pair: Pair, compared: Comparison) -> Iterator[Outcome]:
    """Yield how every expectation of the pair stands: an outcome for each case that it speaks of."""
    names = {'baseline': compared.baseline.name, 'candidate': compared.candidate.name}
    for expected in pair.expect:
        both = {**names, 'expected': expected.said, 'against': expected.beside}
        rows = [r for r in compared.rows if expected.fits(r)]
        for row in rows:
            state, why = expected.state(row, compared.confidence)
            yield Outcome(**both, subsystem=row.subsystem, benchmark=row.benchmark, metric=row.metric,
                          ratio=row.ratio, low=row.low, high=row.high, n=row.n, state=state, why=why)
        if not rows:
            check, metric = expected.metric.split('.')
            yield Outcome(**both, subsystem='', benchmark=check, metric=metric, state='insufficient',
                          why='measured on neither side')
