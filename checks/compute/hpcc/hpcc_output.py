"""HPCC 1.4 and 1.5: HPL, DGEMM, PTRANS, RandomAccess, FFT, STREAM, latency and bandwidth in one output.

The text is a whole hpccoutf.txt, alone or inside a job's output. hpcc prints its figures twice: in the section
that measured them, and in the summary (six digits), whose figures are taken. Latencies have about three digits in
their section: a smaller change of the summary is not noticed.

``single`` is one rank, chosen by chance, while the others wait; ``star`` is the mean over all ranks, each working
alone at the same time; ``mpi`` is all ranks together. Three peculiarities of hpcc:
- stream_single is never below stream_star: hpcc keeps the best time of the star run as a start.
- fft_mpi uses the largest power of two of the ranks.
- ptrans is the lowest of five repetitions, on HPL's grid."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from parity.check import (
    Incomplete,
    Lines,
    Program,
    Read,
    Refused,
    Unread,
    Wrong,
    agree,
    half,
    near,
    number,
    same,
)

PROGRAM = Program('HPCC', title=r'This is the DARPA/DOE HPC Challenge Benchmark version (?P<version>\d\S*) .*',
                  tried=('1.4', '1.5'), alone='CommWorldProcs=1')

END = r'End of HPC Challenge tests\.'
THRESHOLD = 16                  # HPL's bound of scaled residuals; a looser one in the input does not excuse
SIXTH = 3e-5                    # by how much a product of five figures of six digits is unsure
REPETITIONS = 5                 # of PTRANS
NO_MEMORY = 'Memory allocation failed|Failed to allocate|Malloc fails'
HPL_COMPLAINTS = 'HPL (ERROR|WARNING) from process'
FAILED = (r'FAILED|\bFailed\b|\(failed\)|ILLEGAL|BYPASS|without checking'
          r'|Node\(s\) with error (?!0$)')

HPL_ROW = r'W[RC]\S+' + r' (\S+)' * 6
HPL_RESIDUAL = r'\|\|Ax-b\|\|_oo/\(eps\S+= (\S+) \.{6} PASSED'
PTRANS_ROW = r'WALL' + r' \S+' * 7 + r' PASSED (\S+) \S+'


@dataclass(frozen=True)
class Printed:
    """A figure that hpcc prints twice: by its key in the summary, and in a line of its section."""

    key: str
    section: str
    line: str                   # the expression of the line
    group: int = 1              # of the expression
    power: int = 0              # of ten, from the section's unit to that of the metric


def _randomaccess() -> dict[str, Printed]:
    """Two generators of random numbers, each in three ways."""
    lines = {'Single': r'Single GUP/s (\S+)', 'Star': r'Average GUP/s (\S+)',
             'MPI': r'(\S+) Billion\(10\^9\) Updates per second \[GUP/s\]'}
    metrics = {}
    for how, line in lines.items():
        name = how.lower()
        section = f'{how}RandomAccess'
        metrics[f'randomaccess_{name}'] = Printed(f'{section}_GUPs', section, line)
        metrics[f'randomaccess_lcg_{name}'] = Printed(f'{section}_LCG_GUPs', f'{section}_LCG', line)
    return metrics


def _stream() -> dict[str, Printed]:
    """STREAM's four kernels, by one rank and by all."""
    metrics = {}
    for kernel in ('Copy', 'Scale', 'Add', 'Triad'):
        name = kernel.lower()
        metrics[f'stream_single_{name}'] = Printed(
            f'SingleSTREAM_{kernel}', 'SingleSTREAM', rf'Single STREAM {kernel} GB/s (\S+)')
        metrics[f'stream_star_{name}'] = Printed(
            f'StarSTREAM_{kernel}', 'StarSTREAM', rf'Average {kernel} GB/s (\S+)')
    return metrics


def _network() -> dict[str, Printed]:
    """Ping-pong between pairs of ranks, and rings of all ranks: latency (printed in ms), bandwidth (in MB/s)."""
    metrics = {}
    three = r'(\S+) / (\S+) / (\S+)'
    latency = rf'Latency min / avg / max: {three} msecs'
    bandwidth = rf'Bandwidth min / avg / max: {three} MByte/s'
    for group, which in enumerate(('Min', 'Avg', 'Max'), 1):
        name = which.lower()
        metrics[f'beff_pingpong_latency_{name}'] = Printed(
            f'{which}PingPongLatency_usec', 'LatencyBandwidth', latency, group, power=3)
        metrics[f'beff_pingpong_bandwidth_{name}'] = Printed(
            f'{which}PingPongBandwidth_GBytes', 'LatencyBandwidth', bandwidth, group, power=-3)
    for name, order in (('natural', 'Naturally'), ('random', 'Randomly')):
        ring = rf'On {order.lower()} ordered ring: latency= (\S+) msec, bandwidth= (\S+) MB/s'
        metrics[f'beff_ring_{name}_latency'] = Printed(
            f'{order}OrderedRingLatency_usec', 'LatencyBandwidth', ring, 1, power=3)
        metrics[f'beff_ring_{name}_bandwidth'] = Printed(
            f'{order}OrderedRingBandwidth_GBytes', 'LatencyBandwidth', ring, 2, power=-3)
    return metrics


HPL_METRICS = {
    'hpl': Printed('HPL_Tflops', 'HPL', HPL_ROW, 6),
    'hpl_time': Printed('HPL_time', 'HPL', HPL_ROW, 5),
}
METRICS = HPL_METRICS | {
    'dgemm_single': Printed('SingleDGEMM_Gflops', 'SingleDGEMM', r'Single DGEMM Gflop/s (\S+)'),
    'dgemm_star': Printed('StarDGEMM_Gflops', 'StarDGEMM', r'Average Gflop/s (\S+)'),
    'ptrans': Printed('PTRANS_GBs', 'PTRANS', PTRANS_ROW),
    'fft_single': Printed('SingleFFT_Gflops', 'SingleFFT', r'Single FFT Gflop/s (\S+)'),
    'fft_star': Printed('StarFFT_Gflops', 'StarFFT', r'Average Gflop/s (\S+)'),
    'fft_mpi': Printed('MPIFFT_Gflops', 'MPIFFT', r'Gflop/s: (\S+)'),
    **_randomaccess(), **_stream(), **_network(),
}
FACTS = {
    'processes': Printed('CommWorldProcs', 'MPIRandomAccess', r'Running on (\S+) processors.*'),
    'n': Printed('HPL_N', 'HPL', HPL_ROW, 1),
    'nb': Printed('HPL_NB', 'HPL', HPL_ROW, 2),
    'p': Printed('HPL_nprow', 'HPL', HPL_ROW, 3),
    'q': Printed('HPL_npcol', 'HPL', HPL_ROW, 4),
    'stream_vector_length': Printed('STREAM_VectorSize', 'StarSTREAM', r'Array size = (\S+), Offset = \d+'),
}
#: In units of the summary; the metric is in Gflop/s.
TERA = {'HPL_Tflops'}


def read(text: str) -> Read:
    """The metrics of one complete and verified run; ``hpl_residual`` has no unit.

    Gflop/s, GB/s, GUP/s (10^9 updates a second), us of latencies, s of hpl_time. With one process there is no
    network, and the ``beff_`` metrics are left out. Where HPL ran on fewer processes than hpcc, its metrics are.

    Facts: processes, HPL's n, nb, p and q, elements of a STREAM array, version; left_out: HPL's grid if small.

    Compare n, nb, p and q with what was asked: hpcc runs a problem of its own, and reports success,
    when it cannot read hpccinf.txt."""
    out = PROGRAM.output(text)
    _refuse_in_job(text, NO_MEMORY, Incomplete)
    _refuse_in_job(text, HPL_COMPLAINTS, Wrong)
    out.ends_with(END, 'End of HPC Challenge tests.')
    own = _part(out, 'This is the DARPA/DOE HPC Challenge Benchmark.*', END)
    own.refuse(FAILED)
    sections = _sections(own)
    success = sections['Summary'].one(r'Success=(.*)')[1]
    if success != '1':
        raise Wrong(f'hpcc reports failure: Success={success[:40]}')
    _demand_version(sections['Summary'], out.version)
    facts: dict[str, int | str] = {}
    for name, printed in FACTS.items():
        facts[name] = _count(sections, printed)
    _demand_verified(sections)
    residual = _residual(sections, int(facts['n']))
    figures = {'hpl_residual': residual}
    for metric, printed in METRICS.items():
        if printed.section in sections:
            figures[metric] = _figure(sections, printed)
    grid = _small_grid(sections, facts)
    if grid:
        for metric in ('hpl_residual', *HPL_METRICS):
            del figures[metric]
        facts['left_out'] = grid
    return figures, {**facts, 'version': out.version, **PROGRAM.untried(out.version)}


def _refuse_in_job(text: str, complaint: str, error: type[Refused]) -> None:
    """Raise ``error`` with the first line that has the complaint, above the report too: the job prints it last."""
    match = re.search(complaint, text, re.ASCII)
    if not match:
        return
    begin = text.rfind('\n', 0, match.start()) + 1
    number_of_line = text.count('\n', 0, begin) + 1
    line = ' '.join(text[begin:begin + 1000].partition('\n')[0].split())
    raise error(f'line {number_of_line}: {line[:160]}')


def _part(lines: Lines, begin: str, end: str) -> Lines:
    """Return the lines between two lines of an output that has its end."""
    part = lines.part(begin, end)
    part.ended = True
    return part


def _sections(own: Lines) -> dict[str, Lines]:
    """Return the sections by their names; that of the network only where there are several processes."""
    sections = {}
    for name in ('Summary', *(printed.section for printed in METRICS.values())):
        if name not in sections:
            sections[name] = _part(own, rf'Begin of {name} section\.', rf'End of {name} section\.')
    network = sections.pop('LatencyBandwidth')
    if _count(sections, FACTS['processes']) > 1:
        sections['LatencyBandwidth'] = _part(network, 'Detailed benchmark results:', 'Benchmark conditions:')
    return sections


def _demand_version(summary: Lines, version: str) -> None:
    """Raise Wrong unless the summary tells the version of the title."""
    numbers = [summary.count(rf'Version{name}=(\S+)', zero=True) for name in ('Major', 'Minor', 'Micro')]
    same('version', version, '.'.join(map(str, numbers)))


def _small_grid(sections: dict[str, Lines], facts: dict[str, int | str]) -> str:
    """Return what to say where HPL ran on fewer processes than hpcc; '' if it ran on all."""
    p, q, processes = int(facts['p']), int(facts['q']), int(facts['processes'])
    if p * q == processes:
        return ''
    if p * q > processes:
        raise Wrong(f'HPL ran on a grid of {p} x {q}, hpcc on {processes} processes')
    same('processes of HPL', p * q, sections['Summary'].count(r'HPLMaxProcs=(\S+)'))
    return f'HPL: on {p} x {q} of {processes} processes'


def _demand_verified(sections: dict[str, Lines]) -> None:
    """Raise Unread unless hpcc says that all passed, and Wrong for rates that are not those of the work."""
    sections['HPL'].one('1 tests completed and passed residual checks,')
    sections['PTRANS'].one(rf'{REPETITIONS} tests completed and passed residual checks\.')
    sections['StarSTREAM'].one('Solution Validates.*')
    summary = sections['Summary']
    n = summary.count(r'HPL_N=(\S+)')
    work = 2 / 3 * n ** 3 + 3 / 2 * n ** 2
    agree(summary.figure(r'HPL_Tflops=(\S+)'), summary.figure(r'HPL_time=(\S+)'), work / 1e12, 'Tflop/s of HPL')
    for kind in ('MPIRandomAccess', 'MPIRandomAccess_LCG'):
        rate = summary.figure(rf'{kind}_GUPs=(\S+)')
        seconds = summary.figure(rf'{kind}_time=(\S+)')
        updates = summary.count(rf'{kind}_ExeUpdates=(\S+)')
        agree(rate, seconds, updates / 1e9, f'GUP/s of {kind}')


def _residual(sections: dict[str, Lines], n: int) -> float:
    """Return the scaled residual of HPL, which the norms in the summary make."""
    residual = sections['HPL'].figure(HPL_RESIDUAL, zero=True, places=7)
    if residual >= THRESHOLD:
        raise Wrong(f'the scaled residual of HPL is {residual}, not below {THRESHOLD}')
    summary = sections['Summary']
    rest = float(summary.figure(r'HPL_RnormI=(\S+)', zero=True))
    eps = float(summary.figure(r'HPL_eps=(\S+)'))
    a = float(summary.figure(r'HPL_AnormI=(\S+)'))
    x = float(summary.figure(r'HPL_XnormI=(\S+)'))
    b = float(summary.figure(r'HPL_BnormI=(\S+)'))
    by_norms = rest / (eps * (a * x + b) * n)
    near('the scaled residual of HPL', residual, by_norms, slack=SIXTH * by_norms)
    return float(residual)


def _count(sections: dict[str, Lines], printed: Printed) -> int:
    """Return a count that stands in the summary and in its section."""
    count = sections['Summary'].count(rf'{printed.key}=(\S+)')
    in_section = sections[printed.section].one(printed.line)[printed.group]
    if str(count) != in_section:
        raise Wrong(f'{printed.key} is {count} in the summary, {in_section[:40]} in section {printed.section}')
    return count


def _figure(sections: dict[str, Lines], printed: Printed) -> float:
    """Return the summary's figure (%g: six digits, trailing zeros cut), once it rounds what the section's does."""
    figure = sections['Summary'].figure(rf'{printed.key}=(\S+)')
    if printed.key in TERA:
        figure = figure.scaleb(3)
    row = _row(sections[printed.section], printed)
    what = f'{printed.key} in section {printed.section}'
    in_section = number(row[printed.group], what, zero=True).scaleb(printed.power)
    sixth = Decimal(5).scaleb(figure.adjusted() - 6)
    rounded = float(sixth) + half(in_section)
    if abs(figure - in_section) > rounded * 1.01:
        raise Wrong(f'{printed.key} is {figure} in the summary, {in_section} in section {printed.section}')
    return float(figure)


def _row(part: Lines, printed: Printed) -> re.Match[str]:
    """Return the line of the section; of PTRANS that of the lowest of its repetitions."""
    if printed.section != 'PTRANS':
        return part.one(printed.line)
    rows = part.every(printed.line)
    if len(rows) != REPETITIONS:
        raise Unread(f'section PTRANS has {len(rows)} of {REPETITIONS} WALL rows')
    return min(rows, key=lambda row: number(row[1], 'a PTRANS rate'))
