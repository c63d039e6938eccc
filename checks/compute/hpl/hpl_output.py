"""HPL 2.3: the original's output, and Spack's with progress lines and detailed times. One HPL.dat may ask for many
problems, each with a result line and a residual. The figures of ``read`` are those of the line with the most
Gflop/s, as HPL's own rules have it; ``results`` has all lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product
from math import prod
from statistics import median

from parity.check import Incomplete, Lines, Read, Wrong, agree, number, whole

THRESHOLD = 16                  # HPL's own bound of scaled residuals; a looser one in HPL.dat does not excuse
_RESULT = r'(W[RC]\d+[0-5][LCR]\d+[LCR]\d+)' + r' (\S+)' * 6
_AS_PRINTED = r'\d\.\d{8}e[-+]\d\d|\d+\.\d{7}'              # by HPL 2.3, by older ones
_RESIDUAL = re.escape('||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=') + r' (\S+) \.{6} (\S+)'


@dataclass(frozen=True)
class HplResult:
    """One result line. ``residual`` is scaled by eps, the norms and N."""

    variant: str
    n: int
    nb: int
    p: int
    q: int
    seconds: float
    gflops: float
    residual: float


def read(text: str) -> Read:
    """gflops (Gflop/s), seconds and residual of the best line, once every line passed.
    gflops_median, gflops_worst: of all lines.
    Facts: its variant, n, nb, p, q and processes; the number of tests; HPL's version."""
    lines = results(text)
    best = max(lines, key=lambda each: each.gflops)
    rates = [each.gflops for each in lines]
    return {'gflops': best.gflops, 'gflops_median': median(rates), 'gflops_worst': min(rates),
            'seconds': best.seconds, 'residual': best.residual}, {
        'variant': best.variant, 'n': best.n, 'nb': best.nb, 'p': best.p, 'q': best.q,
        'processes': best.p * best.q, 'tests': len(lines), 'version': _version(Lines(text))}


def results(text: str) -> list[HplResult]:
    """Return every result line of one complete run, in order. Raises Incomplete where something is missing or
    memory could not be allocated. Raises Wrong for illegal input, a failed residual, or figures that
    contradict."""
    out = Lines(text)
    out.refuse('>>> .{,200}allocation failed', Incomplete)
    out.refuse('>>> .{,200} <<<|tests completed without checking')
    out.one(r'End of Tests\.')
    _version(out)
    tests = out.count(r'Finished (\S+) tests with the following results:')
    passed = out.count(r'(\S+) tests completed and passed residual checks,', zero=True)
    failed = out.count(r'(\S+) tests completed and failed residual checks,', zero=True)
    skipped = out.count(r'(\S+) tests skipped because of illegal input values\.', zero=True)
    rows, residuals = out.every(_RESULT), out.every(_RESIDUAL)
    if not len(rows) == len(residuals) == tests:
        told = f'{len(rows)} result lines and {len(residuals)} residuals of {tests} tests'
        raise Incomplete(f'line {out.end}: {told}')
    found = [_result(row.groups(), *residual.groups()) for row, residual in zip(rows, residuals, strict=True)]
    _as_listed(out, found)
    if (passed, failed, skipped) != (tests, 0, 0):
        raise Wrong(f'{tests} tests, {passed} passed, {failed} failed, {skipped} skipped by HPL\'s count')
    return found


def check(text: str, dat: str) -> None:
    """Raise Wrong unless the lines of an output are all that its input file asks for, and no others."""
    words = [line.split() for line in dat.splitlines()]
    try:
        # how many N, NB, grids, PFACT, NBMIN, NDIV, RFACT, BCAST, DEPTH: testing/ptest/HPL_pdinfo.c of HPL 2.3
        counts = [int(words[at][0]) for at in (4, 6, 9, 13, 15, 17, 19, 21, 23)]
        n, nb, p, q = ([int(word) for word in words[at][:counts[of]]]
                       for at, of in ((5, 0), (7, 1), (10, 2), (11, 2)))
        grids = list(zip(p, q, strict=True))
    except (IndexError, ValueError):
        raise Wrong('dat: this is no HPL.dat') from None
    asked = Counter({(*sizes, *grid): prod(counts[3:]) for *sizes, grid in product(n, nb, grids)})
    ran = Counter((line.n, line.nb, line.p, line.q) for line in results(text))
    if ran != asked:
        raise Wrong(f'ran {_by_problem(ran)}, asked for {_by_problem(asked)}')


def _as_listed(out: Lines, ran: list[HplResult]) -> None:
    """Raise Wrong unless the lines are all that HPL lists above them; it lists at most 8 values in a line."""
    others = [len(out.one(rf'{name} : (.+)', f'{name} :')[1].split())
              for name in ('PFACT', 'NBMIN', 'NDIV', 'RFACT', 'BCAST', 'DEPTH')]
    for name in ('N', 'NB', 'P', 'Q'):
        listed = {*out.one(rf'{name} : ([\d ]+)', f'{name} :')[1].split()}
        sizes = {str(getattr(each, name.lower())) for each in ran}
        if not listed <= sizes or len(listed) < 8 and listed != sizes:
            raise Wrong(f'{name}: {" ".join(sorted(listed))[:60]} is listed, {" ".join(sorted(sizes))[:60]} ran')
    if max(others) < 8 and len(ran) % prod(others):
        raise Wrong(f'{len(ran)} tests; HPL lists {prod(others)} variants')
    by_problem: dict[tuple[int, ...], Counter] = defaultdict(Counter)
    for each in ran:
        by_problem[each.n, each.nb, each.p, each.q][each.variant] += 1
    for problem, variants in by_problem.items():
        (most, times), (least, fewer) = variants.most_common()[0], variants.most_common()[-1]
        if times != fewer:
            raise Wrong(f'N, NB, P, Q {problem}: {most} ran {times} times, {least} {fewer}')


def _by_problem(lines: Counter) -> str:
    return '; '.join(f'{count} of N, NB, P, Q {each}' for each, count in lines.items())


def _version(out: Lines) -> str:
    return out.one(r'HPLinpack (\d+\.\d+\w?) -- .*')[1]


def _result(row: tuple[str, ...], residual: str, verdict: str) -> HplResult:
    n, nb, p, q = (whole(token, name) for token, name in zip(row[1:5], ('N', 'NB', 'P', 'Q'), strict=True))
    seconds, gflops = number(row[5], 'Time', zero=True, places=2), number(row[6], 'Gflops')
    work = (2 / 3 * n ** 3 + 3 / 2 * n ** 2) / 1e9
    agree(gflops, seconds, work, f'Gflop/s of N = {n}')
    value = number(residual, 'the residual', zero=True)
    if verdict != 'PASSED' or value >= THRESHOLD:
        raise Wrong(f'the residual of {row[0]} with N {n} is {float(value):g}: {verdict[:20]}')
    if not re.fullmatch(_AS_PRINTED, residual):
        raise Wrong(f'the residual of {row[0]} with N {n} is {residual[:40]!r}, a figure that was cut')
    seconds = float(seconds) or work / float(gflops)        # a run below 5 ms prints 0.00
    return HplResult(row[0], n, nb, p, q, seconds, float(gflops), float(value))
