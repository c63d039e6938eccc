"""The state of a declared pair: its ratios against the expected ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from parity.compare import join, pairs, resolve
from parity.compare.model import Comparison, Outcome, Row, State, newest_alike
from parity.compare.pairs import Expectation, Pair
from parity.stats import bounds
from parity.system import systems
from parity.system.schema import System


def judge(pair: Pair, compared: Comparison) -> list[Outcome]:
    """Return how every expectation of the pair stands: a row for each case that it speaks of."""
    return [outcome for expected in pair.expect for outcome in _outcomes(expected, compared)]


def _outcomes(expected: Expectation, compared: Comparison) -> Iterator[Outcome]:
    both = {'baseline': compared.baseline.name, 'candidate': compared.candidate.name, 'expected': expected.said}
    rows = [r for r in compared.rows if expected.fits(r)]
    for row in rows:
        state, why = _state(expected, row)
        yield Outcome(**both, subsystem=row.subsystem, benchmark=row.benchmark, metric=row.metric, ratio=row.ratio,
                      low=row.low, high=row.high, n=row.n, state=state, why=why)
    if not rows:
        check, metric = expected.metric.split('.')
        yield Outcome(**both, subsystem='', benchmark=check, metric=metric, state='insufficient',
                      why='measured on neither side')


def _state(expected: Expectation, row: Row) -> tuple[State, str]:
    """Return ``regressed`` where the whole interval is beyond the bound, and why.

    Where only the ratio is, or where there is no interval, it is ``insufficient``: nobody is woken by one bad
    run."""
    if row.low is None or row.label:
        return 'insufficient', row.reason or 'no ratio'
    said = f'{row.ratio:.3g} [{row.low:.3g}, {row.high:.3g}]'
    if bounds.side(row.high, expected.at_least, None) or bounds.side(row.low, None, expected.at_most):
        return 'regressed', f'{said}, expected {expected.said}'
    if bounds.side(row.ratio, expected.at_least, expected.at_most):
        return 'insufficient', f'{said}: not {expected.said}, but its interval may be: more runs will tell'
    return 'ok', said


def marked(compared: Comparison) -> Comparison:
    """Return the comparison; of two partitions that are a declared pair, rows have what was expected."""
    names = compared.baseline.name.split(':') + compared.candidate.name.split(':')
    kinds = {compared.baseline.kind, compared.candidate.kind}
    if kinds != {'partition'} or names[0] != names[2] or names[0] not in systems.names():
        return compared
    rows = list(compared.rows)
    for pair in pairs.read(systems.read(names[0])):
        for expected in pair.expect if [pair.baseline, pair.candidate] == [names[1], names[3]] else ():
            rows = [row.model_copy(update={'expected': expected.said, 'state': _state(expected, row)[0]})
                    if expected.fits(row) else row for row in rows]
    return compared.model_copy(update={'rows': rows})


def of_session(system: System, uuid: str, planned: list[Any]) -> list[Outcome]:
    """Return the declared pairs of a system as they stood with the session ``uuid``, whose plan is given.

    Only cases of this session are judged: what was not selected tonight is not judged again. The runs of
    both partitions go back ``resolve.DAYS`` days, as in `parity compare`."""
    cases = {(c.case, c.partition) for c in planned}
    checks = {(c.check, c.partition) for c in planned}
    outcomes = []
    for pair in pairs.read(system):
        spoken_of = frozenset(tuple(expected.metric.split('.')) for expected in pair.expect)
        both = (pair.baseline, pair.candidate)
        compared = of_partitions([f'{system.name}:{name}' for name in both], uuid, spoken_of)
        outcomes += [o for o in judge(pair, compared)
                     if any((o.benchmark, name) in cases or (not o.subsystem and (o.benchmark, name) in checks)
                            for name in both)]
    return outcomes


def of_partitions(both: Iterable[str], until: str, metrics: frozenset[resolve.Spoken] | None = None) -> Comparison:
    """Compare two partitions up to the session ``until``: of each cell the runs that are like its newest one."""
    sides = [resolve.partition(name, until, metrics) for name in both]
    for side in sides:
        newest_alike(side.cells)
    return join.compare(*sides)
