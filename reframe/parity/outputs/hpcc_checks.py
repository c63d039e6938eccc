"""What makes a complete HPCC output wrong: failed verification, or figures that contradict each other.

hpcc prints residuals of rank 0 only: for the other ranks its ``Success=`` has to be believed.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from . import Incomplete, Wrong
from .hpcc_same import KERNELS, RANDOM_ACCESS, agree, same_figures
from .hpcc_text import Output, Section, number, whole

THRESHOLD = 16.0                # HPL's bound on scaled residuals; a looser one in the input does not excuse
EPS_MAX = 2.3e-16               # compilers make hpcc find 2^-53 or 2^-52 as its HPL_eps
SAME = 1e-4                     # a rate against its work and time, each printed with six digits
LAST_DIGIT = Decimal('1e-6')    # of Minimum, Average and Maximum, which are rounded one by one

_HPL_RESIDUAL = '||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= # ...... #'
# hpcc's words where an allocation failed: the node's trouble (infrastructure), not a bad answer
_NO_MEMORY = re.compile(r'.*(?:Memory allocation failed|Failed to allocate|Malloc fails).*')
_FAILED = re.compile(r'FAILED|\bFailed\b|\(failed\)|ILLEGAL|BYPASS|ERROR|without checking'
                     r'|Node\(s\) with error (?!0$)')

_SPREAD = (
    ('StarDGEMM', '', 'Gflop/s'), ('StarFFT', '', 'Gflop/s'),
    *((f'Star{ra}', '', 'GUP/s') for ra in RANDOM_ACCESS), *(('StarSTREAM', k, 'GB/s') for k in KERNELS),
)


def verify(out: Output) -> None:
    """Raise Wrong, or Incomplete for an absent line, unless this output can be believed."""
    _own_words(out)
    bound = _threshold(out)
    same_figures(out)
    _grid(out)
    _hpl(out, bound)
    _ptrans(out, bound)
    _dgemm(out, bound)
    _fft(out, bound)
    for ra in RANDOM_ACCESS:
        _random_access(out, ra)
    _stream(out)
    _spreads(out)


def hpl_residual(out: Output) -> Decimal:
    """||Ax-b|| / (eps (||A|| ||x|| + ||b||) N), as printed."""
    return number(out.sections['HPL'].one(_HPL_RESIDUAL)[0], 'the HPL residual')


def _own_words(out: Output) -> None:
    """What hpcc itself says: failures in any section, errors of HPL anywhere, Success in the summary."""
    if short := _NO_MEMORY.search(out.text):
        raise Incomplete(f'the node had too little memory: {short[0].strip()}')
    said = [f'{name}: {line}' for name, section in out.sections.items() for line in section.lines
            if _FAILED.search(line)]
    said += re.findall(r'HPL (?:ERROR|WARNING) from process.*', out.text)
    success = out.word('Success')
    if said or success != '1':
        why = said[0][:120] if said else 'no line says why'
        raise Wrong(f'hpcc reports failure (Success={success[:40]}): {why}')
    for name, section in out.sections.items():
        if name.startswith(('Star', 'Single')):
            section.one('Node(s) with error 0')


def _threshold(out: Output) -> float:
    line = '- Computational tests pass if scaled residuals are less than #'
    asked = float(number(out.sections['HPL'].one(line)[0], 'the threshold of the residuals'))
    if not asked > 0:
        raise Wrong(f'the threshold of the residuals is {asked:g}: nothing was verified')
    return min(asked, THRESHOLD)


def _eps(out: Output) -> float:
    eps = float(out.real('HPL_eps'))
    if not 0 < eps <= EPS_MAX:
        raise Wrong(f'HPL_eps={eps:g} is not the precision of a double')
    return eps


def _grid(out: Output) -> None:
    p, q, ranks = (out.whole(key) for key in ('HPL_nprow', 'HPL_npcol', 'CommWorldProcs'))
    if p * q != ranks:
        raise Wrong(f'HPL ran on a grid of {p} x {q}, hpcc on {ranks} processes')


def _hpl(out: Output, bound: float) -> None:
    _counts(out.sections['HPL'], 1)
    residual, n = hpl_residual(out), out.whole('HPL_N')
    _residual(float(residual), bound, 'HPL')
    if out.sections['HPL'].one(_HPL_RESIDUAL)[1] != 'PASSED':
        raise Wrong('the HPL residual is not PASSED')
    r, a, x, b = (float(out.real(f'HPL_{norm}')) for norm in ('RnormI', 'AnormI', 'XnormI', 'BnormI'))
    scale = _eps(out) * (a * x + b) * n
    if not (scale > 0 and math.isclose(r / scale, residual, rel_tol=SAME, abs_tol=1e-7)):
        raise Wrong(f'the HPL residual is {residual}, its norms in the summary say otherwise')
    _rate(out, 'HPL_Tflops', 1e12, 'HPL_time', 2 / 3 * n ** 3 + 3 / 2 * n ** 2)


def _ptrans(out: Output, bound: float) -> None:
    """Five repetitions; GB/s is the lowest so far, so the last row is the result."""
    section = out.sections['PTRANS']
    _counts(section, 5)
    rows = section.every('WALL # # # # # # # # # #')
    if len(rows) < 5:
        raise Incomplete(f'line {section.end}: section PTRANS ends with {len(rows)} of 5 WALL rows')
    keys = ('PTRANS_n', 'PTRANS_n', 'PTRANS_nb', 'PTRANS_nb', 'PTRANS_nprow', 'PTRANS_npcol')
    shape = [out.whole(key) for key in keys]
    for row in rows:
        if [whole(token, 'a size of PTRANS') for token in row[:6]] != shape or row[7] != 'PASSED':
            raise Wrong(f'PTRANS: "{" ".join(row)}" is another problem than the summary has, or not PASSED')
        _residual(float(number(row[9], 'a PTRANS residual')), bound, 'PTRANS')
    rates = [number(row[8], 'a PTRANS rate') for row in rows]
    if len(rows) > 5 or min(rates) != rates[-1]:
        raise Wrong(f'PTRANS has {len(rows)} rows of which the last is not the lowest, or more than 5')
    agree(out, 'PTRANS_GBs', rows[-1][8], 'section PTRANS', 0)
    _residual(float(out.real('PTRANS_residual')) / (_eps(out) * max(shape[0], 1)), bound, 'PTRANS')


def _dgemm(out: Output, bound: float) -> None:
    """The residual of rank 0; hpcc prints those of the other ranks only as Success."""
    residuals = [out.sections['StarDGEMM'].one('Scaled residual: #')]
    residuals += out.sections['SingleDGEMM'].every('Scaled residual: #')
    for (token,) in residuals:
        _residual(float(number(token, 'the DGEMM residual')), bound, 'DGEMM')


def _fft(out: Output, bound: float) -> None:
    """hpcc's rule: the largest error of forth and back, over eps ln n, is below the threshold."""
    line = 'max(|x-x0|): #'
    errors = [('MPIFFT', 'MPIFFT_N', out.sections['MPIFFT'].one(line))]
    errors += [('StarFFT', 'FFT_N', out.sections['StarFFT'].one(line))]
    errors += [('SingleFFT', 'FFT_N', found) for found in out.sections['SingleFFT'].every(line)]
    for name, key, (token,) in errors:
        log_n = math.log(max(out.whole(key), 2))
        _residual(float(number(token, f'the error of {name}')) / log_n / _eps(out), bound, name)


def _random_access(out: Output, ra: str) -> None:
    """At most 1 % of the table may differ: updates race, by the rules of the benchmark."""
    line = 'Found # errors in # locations (#).'
    mpi = out.sections[f'MPI{ra}'].one(line)
    if mpi[0] != out.word(f'MPI{ra}_Errors'):
        raise Wrong(f'MPI{ra}: {mpi[0]} errors in its section, {out.word(f"MPI{ra}_Errors")} in the summary')
    tables = [(f'MPI{ra}_N', mpi), (f'{ra}_N', out.sections[f'Star{ra}'].one(line))]
    tables += [(f'{ra}_N', found) for found in out.sections[f'Single{ra}'].every(line)]
    for key, (errors, locations, verdict) in tables:
        bad, size = whole(errors, f'the errors of {ra}'), whole(locations, f'the table of {ra}')
        if size != out.whole(key) or verdict != 'passed' or bad > 0.01 * size:
            raise Wrong(f'{ra}: {bad} errors in {size} locations ({verdict}), {key}={out.word(key)}')
    _rate(out, f'MPI{ra}_GUPs', 1e9, f'MPI{ra}_time', out.whole(f'MPI{ra}_ExeUpdates'))


def _stream(out: Output) -> None:
    """A build without OpenMP prints no threads and runs one."""
    out.sections['StarSTREAM'].one('Solution Validates*')
    threads = {found[0] for found in out.sections['StarSTREAM'].every('Number of Threads requested = #')}
    if out.word('STREAM_Threads') not in (threads or {'1'}):
        raise Wrong(f'STREAM_Threads={out.word("STREAM_Threads")[:40]}, but StarSTREAM says otherwise')


def _spreads(out: Output) -> None:
    for name, kernel, unit in _SPREAD:
        lines = (f'{which} {kernel} {unit} #' for which in ('Minimum', 'Average', 'Maximum'))
        low, mean, high = (number(out.sections[name].one(line)[0], f'{name} "{line}"') for line in lines)
        if not 0 < low <= mean + LAST_DIGIT or mean > high + LAST_DIGIT:
            raise Wrong(f'{name} {kernel}: minimum {low}, average {mean}, maximum {high}')


def _counts(section: Section, expected: int) -> None:
    """One problem size and one grid make one HPL test and five of PTRANS, all passed."""
    lines = ('Finished # tests*', '# tests completed and passed residual checks*',
             '# tests completed and failed residual checks*', '# tests skipped because of illegal*')
    counts = [whole(section.one(line)[0], f'a count of {section.name}') for line in lines]
    if counts != [expected, expected, 0, 0]:
        raise Wrong('{}: {} tests, {} passed, {} failed, {} skipped; one problem makes {}'.format(
            section.name, *counts, expected))


def _residual(value: float, bound: float, name: str) -> None:
    if not 0 <= value < bound:
        raise Wrong(f'the scaled residual of {name} is {value:g}, not below {bound:g}')


def _rate(out: Output, rate_key: str, unit: float, time_key: str, work: float) -> None:
    rate, seconds = float(out.real(rate_key)), float(out.real(time_key))
    if not math.isclose(rate * unit * seconds, work, rel_tol=SAME):
        raise Wrong(f'{rate_key}={rate:g} for {seconds:g} s is not the work of {work:g}')
