"""HPCG 3.0 and 3.1: the report that it writes to a file.

The rating is the operations over the time with a share of the setup. The raw rate and the rate with this share
make the same bytes. 3.0 writes YAML, 3.1 the same keys as paths, `Machine Summary::Threads per processes=1`."""

from __future__ import annotations

from decimal import Decimal

from parity.check import Lines, Output, Program, Read, Wrong, agree, half, same

PROGRAM = Program('HPCG', title=r'(?:HPCG-Benchmark|n\d+-\d+p-\d+t)(?: version: V?(?P<version>\d\S*))?',
                  tried=('3.0', '3.1'), alone='Distributed Processes(?:=|: )1')

TESTS = ('Spectral Convergence Tests', r'Departure from Symmetry \S+', 'Iteration Count Information',
         'Reproducibility Information')
RATING = 'Final Summary::HPCG result is VALID with a GFLOP/s rating of'
#: The last line: of a short run, of a quick one, of an official one.
END = r'.*::(Official results|You have selected|Please upload).*'
MOVED = 2e-5                # how far two ways to the same bytes may differ: figures of six digits


def read(text: str) -> Read:
    """gflops is HPCG's rating: operations over the time with a share of the setup. bandwidth counts the bytes that
    HPCG says it read and wrote.

    Facts: nx, ny, nz (of a rank), ranks, threads, data_bytes, seconds, version."""
    out = PROGRAM.output(text, fold=False)
    report = _report(out)
    report.refuse('Result=FAILED|HPCG result is=INVALID')
    report.ends_with(END, 'Final Summary::Official results')
    for test in TESTS:
        report.one(rf'{test}::Result=PASSED')
    version = out.version or report.one(r'version=(\d\S*)')[1]
    seconds = six_digits(report.figure(r'Benchmark Time Summary::Total=(\S+)'))
    rated_seconds = seconds + _shares_of_setup(report)
    rating = _rating(report, rated_seconds)
    bandwidth = _bandwidth(report, seconds, rated_seconds)
    gigabytes = report.figure(r'.*::Total memory used for data \(Gbytes\)=(\S+)')
    facts = {name: report.count(rf'Local Domain Dimensions::{name}=(\S+)') for name in ('nx', 'ny', 'nz')}
    facts |= {
        'ranks': report.count(r'Machine Summary::Distributed Processes=(\S+)'),
        'threads': report.count(r'Machine Summary::Threads per processes=(\S+)'),
        'data_bytes': int(gigabytes * 10**9), 'seconds': float(seconds),
        'version': version, **PROGRAM.untried(version)}
    return {'gflops': float(rating), 'bandwidth': float(bandwidth)}, facts


def _report(out: Output) -> Lines:
    """Return the report as paths, in which way it was written."""
    if out.version:
        paths = _paths(out.lines)
    else:
        paths = [line.strip() for line in out.lines]
    return Lines(paths, out.first)


def _paths(lines: list[str]) -> list[str]:
    """Return the lines of YAML as paths: each key with those above it that have no value."""
    paths = []
    above: list[tuple[int, str]] = []           # keys without a value, and their indents
    for line in lines:
        key, colon, value = line.partition(':')
        indent = len(key) - len(key.lstrip())
        above = [(other, name) for other, name in above if other < indent]
        name = key.strip(' _')
        parts = [name for _, name in above] + [name]
        paths.append('::'.join(parts) + '=' + value.strip() if colon else line.strip())
        if colon and not value.strip():
            above.append((indent, name))
    return paths


def _shares_of_setup(report: Lines) -> Decimal:
    """Return the seconds that HPCG adds: for each set of iterations a tenth of setup and optimization."""
    iterations = report.count(r'.*::Total number of optimized iterations=(\S+)')
    a_set = report.count(r'.*::Optimized CG iterations per set=(\S+)')
    same('iterations beyond whole sets', iterations % a_set, 0)
    setup = report.figure(r'Setup Information::Setup Time=(\S+)', zero=True)
    optimization = report.figure(r'Benchmark Time Summary::Optimization phase=(\S+)', zero=True)
    return iterations // a_set * (setup + optimization) / 10


def _rating(report: Lines, seconds: Decimal) -> Decimal:
    """Return the rating (Gflop/s), which is the operations over the seconds."""
    rating = six_digits(report.figure(rf'{RATING}=(\S+)'))
    overhead = r'Floating Point Operations Summary::Total with convergence overhead=(\S+)'
    operations = six_digits(report.figure(overhead))
    agree(rating, seconds, float(operations) / 1e9, 'the rating', unsure=half(operations) / 1e9)
    return rating


def _bandwidth(report: Lines, seconds: Decimal, rated_seconds: Decimal) -> Decimal:
    """Return the GB/s read and written. Both times make the same bytes."""
    read = _raw(report, 'Read')
    written = _raw(report, 'Write')
    total = _raw(report, 'Total')
    rounded = half(read) + half(written) + half(total)
    if abs(read + written - total) > rounded:
        raise Wrong(f'{read} GB/s read and {written} GB/s written are not {total} GB/s')
    rated = report.figure(r'GB/s Summary::Total with .* overhead=(\S+)')
    moved = float(total) * float(seconds)
    moved_with_overhead = float(rated) * float(rated_seconds)
    if abs(moved / moved_with_overhead - 1) > MOVED:
        raise Wrong(f'{total} GB/s moved {moved:.6g} GB, with the overhead {moved_with_overhead:.6g} GB')
    return total


def _raw(report: Lines, what: str) -> Decimal:
    return six_digits(report.figure(rf'GB/s Summary::Raw {what} B/W=(\S+)'))


def six_digits(figure: Decimal) -> Decimal:
    """Return a figure with the zeros at its end, which C++ does not print."""
    sixth = figure.adjusted() - 5
    return figure.quantize(Decimal(1).scaleb(sixth))
