"""HPL 2.3 and its kin: the original's output, and Spack's with progress lines and detailed times.

One HPL.dat may ask for many problems: N, NB and grids, each with a result line and a residual. The
figures of ``parse`` are those of the BEST line, that with the most Gflop/s, as HPL's own rules have
it; ``results`` has them all. Times have two decimals and residuals nothing to compare with: below
that a change is not noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from . import Incomplete, Wrong
from .hpcc_text import number, whole
from .printed import best_known_seconds, duration, positive, rate_agrees

THRESHOLD = 16.0                # HPL's own bound of scaled residuals; a looser one in HPL.dat does not excuse
END = 'End of Tests.'
_BANNER = re.compile(r'HPLinpack (\d+\.\d+\w?) -- .*', re.ASCII)
_ERROR = re.compile(r'>>> (.*?) <<<')
_THRESHOLD = re.compile(r'- Computational tests pass if scaled residuals are less than\s+(\S+)')
_RESULT = re.compile(r'(W[RC]\d+[0-5][LCR]\d+[LCR]\d+)' + r'\s+(\S+)' * 6)
_RESIDUAL = re.compile(re.escape('||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=')
                       + r'\s*(\S+)\s+\.{6}\s+(\S+)')
_DIGITS = re.compile(r'\d\.(\d{3,4}|\d{8})[eE][-+]\d{2,3}|\d+\.\d{7}', re.ASCII)     # 2.3; before 2.3: .7f
_COUNTS = ('Finished # tests with the following results:', '# tests completed and passed residual checks,',
           '# tests completed and failed residual checks,', '# tests skipped because of illegal input values.')
_ASKED = 'The following parameter values will be used:'


@dataclass(frozen=True)
class HplResult:
    """One result line. ``residual`` is scaled by eps, the norms and N; ``passed``: HPL said so and it is
    below the threshold."""

    variant: str
    n: int
    nb: int
    p: int
    q: int
    seconds: float
    gflops: float
    residual: float
    passed: bool


def parse(text: str) -> dict[str, float]:
    """gflops (Gflop/s), seconds and residual of the best line, once every line passed.

    Raises Incomplete with the line where something is missing or memory could not be allocated, Wrong
    for illegal input, a residual that is not PASSED, or figures that contradict each other.
    """
    best = _best(text)
    return {'gflops': best.gflops, 'seconds': best.seconds, 'residual': best.residual}


def facts(text: str) -> dict[str, float | str]:
    """The best line's variant, n, nb, p, q and processes; the number of tests; HPL's version.

    Raises as ``parse`` does.
    """
    best = _best(text)
    version = next(found[1] for found in map(_BANNER.fullmatch, _lines(text)) if found)
    return {'variant': best.variant, 'n': float(best.n), 'nb': float(best.nb), 'p': float(best.p),
            'q': float(best.q), 'processes': float(best.p * best.q), 'tests': float(len(results(text))),
            'version': version}


def results(text: str) -> list[HplResult]:
    """Every result line of one complete run, in its order; one that failed has ``passed`` False.

    Raises Incomplete or Wrong as ``parse`` does, except for a residual that is too large.
    """
    lines = _lines(text)
    _own_errors(lines)
    _one_whole_run(lines)
    bound = _threshold(lines)
    found = [_result(row, residual, verdict, bound) for row, residual, verdict in _pairs(lines)]
    _counts(lines, found)
    _asked_for(lines, found)
    return found


def _best(text: str) -> HplResult:
    found = results(text)
    for each in found:
        if not each.passed:
            raise Wrong(f'the residual of {each.variant} with N {each.n} is {each.residual:g}: FAILED')
    return max(found, key=lambda each: each.gflops)


def _lines(text: str) -> list[str]:
    return [' '.join(line.split()) for line in text.split('\n')]


def _own_errors(lines: list[str]) -> None:
    """What HPL says between >>> and <<<: lack of memory is the machine's, all else the input's."""
    said = [(at, found[1]) for at, line in enumerate(lines, 1) if (found := _ERROR.search(line))]
    for at, sentence in said:
        if 'allocation failed' in sentence:
            raise Incomplete(f'line {at}: {sentence[:160]}')
    if said:
        raise Wrong('HPL: ' + '; '.join(dict.fromkeys(sentence[:160] for _, sentence in said)))


def _one_whole_run(lines: list[str]) -> None:
    runs = sum(bool(_BANNER.fullmatch(line)) for line in lines)
    ends = [at for at, line in enumerate(lines, 1) if line == END]
    if runs > 1 or len(ends) > 1:
        raise Wrong(f'{runs} runs with {len(ends)} ends in one output')
    if not ends:
        raise Incomplete(f'line {len(lines)}: "{END}" is absent: the output is cut before its end')
    if not runs:
        raise Incomplete('line 1: the banner "HPLinpack" is absent: the output lacks its beginning')


def _one(lines: list[str], pattern: re.Pattern, what: str) -> str:
    """The number in the one line that is ``pattern``."""
    found = [match[1] for match in map(pattern.fullmatch, lines) if match]
    if not found:
        raise Incomplete(f'line {len(lines)}: the output ends without "{what}"')
    if len(found) > 1:
        raise Wrong(f'{len(found)} lines "{what}"')
    return found[0]


def _threshold(lines: list[str]) -> float:
    if any('tests completed without checking' in line for line in lines):
        raise Wrong('HPL.dat has a threshold of zero: no residual was computed')
    token = _one(lines, _THRESHOLD, 'Computational tests pass if scaled residuals are less than')
    return min(float(positive(token, 'the threshold of the residuals')), THRESHOLD)


def _pairs(lines: list[str]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Each result line with the residual that follows it."""
    row, begun = None, 0
    for at, line in enumerate([*lines, END], 1):
        new, residual = _RESULT.fullmatch(line), _RESIDUAL.fullmatch(line)
        if (new or line == END) and row:
            raise Incomplete(f'line {at}: no residual for the result of line {begun}')
        if residual and not row:
            raise Incomplete(f'line {at}: a residual without its result line')
        if new:
            row, begun = new.groups(), at
        elif residual:
            yield row, residual[1], residual[2]
            row = None


def _result(row: tuple[str, ...], residual: str, verdict: str, bound: float) -> HplResult:
    n, nb, p, q = (whole(token, name) for token, name in zip(row[1:5], ('N', 'NB', 'P', 'Q'), strict=True))
    seconds, gflops = duration(row[5], 'Time', places=2), positive(_as_printed(row[6]), 'Gflops')
    work = (2 / 3 * n ** 3 + 3 / 2 * n ** 2) / 1e9
    if not rate_agrees(gflops, seconds, work):
        raise Wrong(f'{gflops} Gflop/s for {seconds} s is not the work of N = {n}, {work:.6g} Gflop')
    value = float(number(_as_printed(residual), 'the residual'))
    return HplResult(row[0], n, nb, p, q, best_known_seconds(gflops, seconds, work), float(gflops), value,
                     verdict == 'PASSED' and 0 <= value < bound)


def _as_printed(token: str) -> str:
    """The token, if it has the digits that HPL prints: a rate has four or five, a residual seven or more."""
    if not _DIGITS.fullmatch(token):
        raise Wrong(f'{token[:40]!r} is no rate and no residual as HPL prints them')
    return token


def _counts(lines: list[str], found: list[HplResult]) -> None:
    """HPL's own sums agree with its lines: failures hide neither in the one nor in the other."""
    patterns = [re.compile(re.escape(line).replace(r'\#', '(.*)')) for line in _COUNTS]
    tests, passed, failed, skipped = (
        whole(_one(lines, pattern, line), f'"{line}"') for pattern, line in zip(patterns, _COUNTS, strict=True))
    good = sum(each.passed for each in found)
    if (tests, passed, failed, skipped) != (len(found), good, len(found) - good, 0) or not tests:
        raise Wrong(f'{tests} tests, {passed} passed, {failed} failed, {skipped} skipped by HPL\'s count; '
                    f'{len(found)} result lines, {good} good')


def _asked_for(lines: list[str], found: list[HplResult]) -> None:
    """HPL prints the N, NB, P and Q that it read: each result is one of them."""
    asked = _parameters(lines)
    grids = set(zip(asked['P'], asked['Q'], strict=False))
    for each in found:
        if each.n not in asked['N'] or each.nb not in asked['NB'] or (each.p, each.q) not in grids:
            raise Wrong(f'a result of N {each.n}, NB {each.nb}, {each.p} x {each.q} that was not asked for')


def _parameters(lines: list[str]) -> dict[str, list[int]]:
    """The values of N, NB, P and Q; more than eight go on in lines of their own."""
    start = lines.index(_ASKED) if _ASKED in lines else len(lines)
    values: dict[str, list[int]] = {}
    name = ''
    for line in lines[start + 1:]:
        if line.startswith('---'):
            break
        label, colon, rest = line.partition(':')
        name = label.strip() if colon else name
        if name in ('N', 'NB', 'P', 'Q'):
            values.setdefault(name, []).extend(whole(word, name) for word in (rest if colon else line).split())
    missing = [each for each in ('N', 'NB', 'P', 'Q') if not values.get(each)]
    if missing:
        raise Incomplete(f'line {start + 1}: the values of {", ".join(missing)} are absent')
    return values
