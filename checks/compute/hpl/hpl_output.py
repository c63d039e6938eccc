"""HPL 2.0 to 2.3: the original's output, and Spack's with progress lines and detailed times.

One HPL.dat may ask for many problems, each with a result line and a residual. The figures of ``read`` are those of
the line with the most Gflop/s, as HPL's own rules have it; ``results`` has all lines. The operations over the
seconds are the rate."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import prod
from statistics import median

from parity.check import Incomplete, Lines, Output, Program, Read, Unread, Wrong, agree, number, whole

PROGRAM = Program('HPL', title=r'HPL(?P<kind>inpack|-\w+) (?P<version>\d\S*) -- .*', tried=('2.0', '2.3'),
                  alone=r'>>> Need at least \d+ processes for these tests <<<')

THRESHOLD = 16                  # HPL's own bound of scaled residuals; a looser one in HPL.dat does not excuse
COMPLAINTS = '>>> .{,200} <<<|tests completed without checking'
NO_MEMORY = '>>> .{,200}allocation failed'
VARIANT = r'W[RC]\d+[0-5][LCR]\d+[LCR]\d+'
ROW = rf'({VARIANT}) (?P<n>\S+) (?P<nb>\S+) (?P<p>\S+) (?P<q>\S+) (?P<seconds>\S+) (?P<gflops>\S+)'
RESIDUAL = re.escape('||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=') + r' (\S+) \.{6} (\S+)'
RATE_AS_PRINTED = r'\d\.\d{3,4}e[-+]\d\d'
RESIDUAL_AS_PRINTED = r'\d\.\d{8}e[-+]\d\d|\d+\.\d{7}'     # by HPL 2.3, by older ones
MOST_LISTED = 8                 # values that HPL lists in a line
#: What HPL.dat varies beside the problem, as HPL lists it.
VARIANTS = ('PFACT', 'NBMIN', 'NDIV', 'RFACT', 'BCAST', 'DEPTH')


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

    @property
    def problem(self) -> tuple[int, int, int, int]:
        """Return N, NB, P and Q."""
        return self.n, self.nb, self.p, self.q


def read(text: str) -> Read:
    """gflops (Gflop/s), seconds and residual of the best line, once every line passed.
    gflops_median, gflops_worst: of all lines.

    Facts: its variant, n, nb, p, q and processes; the number of tests; HPL's version."""
    out = _output(text)
    lines = _results(out)
    best = max(lines, key=lambda line: line.gflops)
    rates = [line.gflops for line in lines]
    figures = {
        'gflops': best.gflops,
        'gflops_median': median(rates),
        'gflops_worst': min(rates),
        'seconds': best.seconds,
        'residual': best.residual,
    }
    facts = {name: getattr(best, name) for name in ('variant', 'n', 'nb', 'p', 'q')}
    facts['processes'] = best.p * best.q
    facts['tests'] = len(lines)
    facts['version'] = out.version
    facts |= PROGRAM.untried(out.version)
    return figures, facts


def results(text: str) -> list[HplResult]:
    """Return every result line of one complete run, in order.

    Raise Incomplete where the output ends early or memory could not be allocated. Raise Wrong for illegal input, a
    failed residual, or figures that contradict."""
    return _results(_output(text))


def _output(text: str) -> Output:
    """Return the program's lines. Raise Wrong for an input that HPL refused before its title."""
    try:
        out = PROGRAM.output(text)
    except Incomplete:
        Lines(text).refuse(COMPLAINTS)
        raise
    if out.title['kind'] != 'inpack':
        raise Unread(f"HPL{out.title['kind'][:20]} is not read; read is the original's HPLinpack")
    if out.version.startswith('1.'):
        raise Unread(f'HPL {out.version[:20]} is not read; read are 2.0 to 2.3')
    return out


def _results(out: Output) -> list[HplResult]:
    out.refuse(NO_MEMORY, Incomplete)
    out.refuse(COMPLAINTS)
    out.ends_with(r'End of Tests\.', 'End of Tests.')
    tests = out.count(r'Finished (\S+) tests with the following results:')
    passed = out.count(r'(\S+) tests completed and passed residual checks,', zero=True)
    failed = out.count(r'(\S+) tests completed and failed residual checks,', zero=True)
    skipped = out.count(r'(\S+) tests skipped because of illegal input values\.', zero=True)
    rows, residuals = out.every(ROW), out.every(RESIDUAL)
    if not len(rows) == len(residuals) == tests:
        raise Unread(f'{len(rows)} result lines and {len(residuals)} residuals of {tests} tests')
    lines = [_result(row, residual) for row, residual in zip(rows, residuals, strict=True)]
    _demand_listed(out, lines)
    _demand_even(lines)
    if (passed, failed, skipped) != (tests, 0, 0):
        raise Wrong(f'{tests} tests, {passed} passed, {failed} failed, {skipped} skipped by HPL\'s count')
    return lines


def _result(row: re.Match[str], residual: re.Match[str]) -> HplResult:
    """Return a result, whose rate is the work over the seconds and whose residual passed."""
    sizes = {}
    for name in ('n', 'nb', 'p', 'q'):
        sizes[name] = whole(row[name], name.upper())
    seconds = number(row['seconds'], 'Time', zero=True, places=2)
    gflops = _gflops(row['gflops'])
    n = sizes['n']
    work = (2 / 3 * n ** 3 + 3 / 2 * n ** 2) / 1e9
    agree(gflops, seconds, work, f'Gflop/s of N = {n}')
    duration = float(seconds) or work / float(gflops)       # a run below 5 ms prints 0.00
    passed = _residual(f'{row[1]} with N {n}', residual)
    return HplResult(row[1], **sizes, seconds=duration, gflops=float(gflops), residual=passed)


def _gflops(token: str) -> Decimal:
    gflops = number(token, 'Gflops')
    if not re.fullmatch(RATE_AS_PRINTED, token):
        raise Wrong(f'Gflops is {token[:40]!r}, a figure that was cut')
    return gflops


def _residual(line: str, residual: re.Match[str]) -> float:
    """Return the scaled residual of a line. Raise Wrong unless it passed."""
    token, verdict = residual.groups()
    value = number(token, 'the residual', zero=True)
    if verdict != 'PASSED' or value >= THRESHOLD:
        raise Wrong(f'the residual of {line} is {float(value):g}: {verdict[:20]}')
    if not re.fullmatch(RESIDUAL_AS_PRINTED, token):
        raise Wrong(f'the residual of {line} is {token[:40]!r}, a figure that was cut')
    return float(value)


def _demand_listed(out: Output, ran: list[HplResult]) -> None:
    """Raise Wrong unless the lines are of all the values that HPL lists above them."""
    for name in ('N', 'NB', 'P', 'Q'):
        _demand_sizes(name, _listed(out, name, r'[\d ]+'), ran)
    counts = [len(_listed(out, name, '.+')) for name in VARIANTS]
    variants = prod(counts)
    if max(counts) < MOST_LISTED and len(ran) % variants:
        raise Wrong(f'{len(ran)} tests; HPL lists {variants} variants')


def _demand_sizes(name: str, listed: list[str], ran: list[HplResult]) -> None:
    """Raise Wrong unless the sizes that ran are those listed; a list of MOST_LISTED may go on."""
    sizes = {str(getattr(line, name.lower())) for line in ran}
    lacking = set(listed) - sizes
    others = sizes - set(listed)
    if lacking or (others and len(set(listed)) < MOST_LISTED):
        asked = ' '.join(sorted(set(listed)))
        found = ' '.join(sorted(sizes))
        raise Wrong(f'{name}: {asked[:60]} is listed, {found[:60]} ran')


def _listed(out: Output, name: str, values: str) -> list[str]:
    return out.one(rf'{name} : ({values})', f'{name} :')[1].split()


def _demand_even(ran: list[HplResult]) -> None:
    """Raise Wrong unless each variant of a problem ran as often as the others."""
    by_problem: dict[tuple[int, ...], Counter[str]] = defaultdict(Counter)
    for line in ran:
        by_problem[line.problem][line.variant] += 1
    for problem, variants in by_problem.items():
        often = variants.most_common()
        most, times = often[0]
        least, fewer = often[-1]
        if times != fewer:
            raise Wrong(f'N, NB, P, Q {problem}: {most} ran {times} times, {least} {fewer}')


def update_gflops(text: str, ranks: int) -> float:
    """Return the Gflop/s of all ranks that ran programs/dgemm.py together; 0 where a rank printed none."""
    rates = re.findall(r'^dgemm \d+ \d+ calls \d+ seconds \S+ gflops (\d+\.\d+)$', text, re.MULTILINE)
    return sum(map(float, rates)) if len(rates) == ranks else 0.0


def check(text: str, dat: str) -> None:
    """Raise Wrong unless the lines of an output are all that its input file asks for, and no others."""
    try:
        asked = _asked(dat)
    except (IndexError, ValueError):
        raise Wrong('dat: this is no HPL.dat') from None
    ran = Counter(line.problem for line in results(text))
    if ran != asked:
        raise Wrong(f'ran {_by_problem(ran)}, asked for {_by_problem(asked)}')


def _asked(dat: str) -> Counter[tuple[int, ...]]:
    """Return how many lines of N, NB, P and Q an HPL.dat asks for: testing/ptest/HPL_pdinfo.c of HPL 2.3."""
    words = [line.split() for line in dat.splitlines()]
    orders = _values(words[5], words[4])
    blocks = _values(words[7], words[6])
    rows = _values(words[10], words[9])
    columns = _values(words[11], words[9])
    variants = prod(int(words[line][0]) for line in (13, 15, 17, 19, 21, 23))
    problems: Counter[tuple[int, ...]] = Counter()
    for n, nb in product(orders, blocks):
        for p, q in zip(rows, columns, strict=True):
            problems[n, nb, p, q] += variants
    return problems


def _values(words: list[str], count: list[str]) -> list[int]:
    """Return the values in a line of HPL.dat; the line of their count stands above."""
    return [int(word) for word in words[:int(count[0])]]


def _by_problem(lines: Counter[tuple[int, ...]]) -> str:
    return '; '.join(f'{count} of N, NB, P, Q {problem}' for problem, count in lines.items())
