"""HPCC 1.5.0: HPL, DGEMM, PTRANS, RandomAccess, FFT, STREAM, latency and bandwidth in one output.

The text is a whole hpccoutf.txt, alone or inside a job's output. hpcc prints its figures twice: in the section
that measured them, and in the summary (six digits), whose figures are taken. Latencies have about three digits in
their section: a smaller change of the summary is not noticed.

``single`` is one rank, chosen by chance, while the others wait; ``star`` is the mean over all ranks, each working
alone at the same time; ``mpi`` is all ranks together. Three peculiarities of hpcc:
- stream_single is never below stream_star: hpcc keeps the best time of the star run as a start.
- fft_mpi uses the largest power of two of the ranks.
- ptrans is the lowest of five repetitions."""

from __future__ import annotations

from decimal import Decimal

from parity.check import Incomplete, Lines, Read, Wrong, agree, half, number

THRESHOLD = 16                  # HPL's bound of scaled residuals; a looser one in the input does not excuse
_SIXTH = 3e-5                   # by how much a product of five figures of six digits is unsure
_NO_MEMORY = 'Memory allocation failed|Failed to allocate|Malloc fails'
_FAILED = (r'FAILED|\bFailed\b|\(failed\)|ILLEGAL|BYPASS|without checking'
           r'|Node\(s\) with error (?!0$)')

_HPL_ROW = r'W[RC]\S+' + r' (\S+)' * 6
_HPL_RESIDUAL = r'\|\|Ax-b\|\|_oo/\(eps\S+= (\S+) \.{6} PASSED'
_PTRANS_ROW = r'WALL' + r' \S+' * 7 + r' PASSED (\S+) \S+'
_RANDOM = (('Single', r'Single GUP/s (\S+)'), ('Star', r'Average GUP/s (\S+)'),
           ('MPI', r'(\S+) Billion\(10\^9\) Updates per second \[GUP/s\]'))
_PINGPONG = (('latency', 'Latency_usec', 'Latency min / avg / max: #msecs', 3),
             ('bandwidth', 'Bandwidth_GBytes', 'Bandwidth min / avg / max: #MByte/s', -3))
_RING = r'On {} ordered ring: latency= (\S+) msec, bandwidth= (\S+) MB/s'
# metric: (key of the summary, section, its line, group of the line, power of ten from its unit to the metric's)
_METRICS = {
    'hpl': ('HPL_Tflops', 'HPL', _HPL_ROW, 6, 0),
    'hpl_time': ('HPL_time', 'HPL', _HPL_ROW, 5, 0),
    'dgemm_single': ('SingleDGEMM_Gflops', 'SingleDGEMM', r'Single DGEMM Gflop/s (\S+)', 1, 0),
    'dgemm_star': ('StarDGEMM_Gflops', 'StarDGEMM', r'Average Gflop/s (\S+)', 1, 0),
    'ptrans': ('PTRANS_GBs', 'PTRANS', _PTRANS_ROW, 1, 0),
    **{f'randomaccess_{kind}{how.lower()}': (f'{how}{name}_GUPs', f'{how}{name}', line, 1, 0)
       for kind, name in (('', 'RandomAccess'), ('lcg_', 'RandomAccess_LCG')) for how, line in _RANDOM},
    'fft_single': ('SingleFFT_Gflops', 'SingleFFT', r'Single FFT Gflop/s (\S+)', 1, 0),
    'fft_star': ('StarFFT_Gflops', 'StarFFT', r'Average Gflop/s (\S+)', 1, 0),
    'fft_mpi': ('MPIFFT_Gflops', 'MPIFFT', r'Gflop/s: (\S+)', 1, 0),
    **{f'stream_{how.lower()}_{kernel.lower()}':
       (f'{how}STREAM_{kernel}', f'{how}STREAM', rf'{line} {kernel} GB/s (\S+)', 1, 0)
       for how, line in (('Single', 'Single STREAM'), ('Star', 'Average'))
       for kernel in ('Copy', 'Scale', 'Add', 'Triad')},
    **{f'beff_pingpong_{what}_{which.lower()}':
       (f'{which}PingPong{key}', 'LatencyBandwidth', line.replace('#', r'(\S+) / (\S+) / (\S+) '), group, up)
       for what, key, line, up in _PINGPONG for group, which in enumerate(('Min', 'Avg', 'Max'), 1)},
    **{f'beff_ring_{metric}_{what}':
       (f'{order}OrderedRing{key}', 'LatencyBandwidth', _RING.format(order.lower()), group, up)
       for group, (what, key, _, up) in enumerate(_PINGPONG, 1)
       for metric, order in (('natural', 'Naturally'), ('random', 'Randomly'))},
}
# fact: (key of the summary, section, its line, group of the line)
_FACTS = {
    'processes': ('CommWorldProcs', 'MPIRandomAccess', r'Running on (\S+) processors.*', 1),
    **{fact: (f'HPL_{key}', 'HPL', _HPL_ROW, group)
       for group, (fact, key) in enumerate((('n', 'N'), ('nb', 'NB'), ('p', 'nprow'), ('q', 'npcol')), 1)},
    'stream_vector_length': ('STREAM_VectorSize', 'StarSTREAM', r'Array size = (\S+), Offset = \d+', 1),
}


def read(text: str) -> Read:
    """The metrics of one complete and verified run; ``hpl_residual`` has no unit.

    Gflop/s, GB/s, GUP/s (10^9 updates a second), us of latencies, s of hpl_time. With one process there is no
    network, and the ``beff_`` metrics are left out.

    Facts: processes, HPL's n, nb, p and q, elements of a STREAM array.

    Compare n, nb, p and q with what was asked: hpcc runs a problem of its own, and reports success,
    when it cannot read hpccinf.txt."""
    out = Lines(text)
    own = out.part('This is the DARPA/DOE HPC Challenge Benchmark.*', r'End of HPC Challenge tests\.')
    out.refuse(_NO_MEMORY, Incomplete)
    out.refuse('HPL (ERROR|WARNING) from process')
    own.refuse(_FAILED)
    parts = {name: own.part(f'Begin of {name} section\\.', f'End of {name} section\\.')
             for name in ('Summary', *dict.fromkeys(row[1] for row in _METRICS.values()))}
    if (success := parts['Summary'].one(r'Success=(.*)')[1]) != '1':
        raise Wrong(f'hpcc reports failure: Success={success[:40]}')
    ran = {fact: _fact(parts, *row) for fact, row in _FACTS.items()}
    if ran['p'] * ran['q'] != ran['processes']:
        raise Wrong(f'HPL ran on a grid of {ran["p"]} x {ran["q"]}, hpcc on {ran["processes"]} processes')
    network = parts.pop('LatencyBandwidth')
    if ran['processes'] > 1:
        parts['LatencyBandwidth'] = network.part('Detailed benchmark results:', 'Benchmark conditions:')
    values = {metric: _figure(parts, *row) for metric, row in _METRICS.items() if row[1] in parts}
    return values | {'hpl_residual': _verified(parts, ran['n'])}, ran


def _verified(parts: dict[str, Lines], n: int) -> float:
    """HPL's residual, once hpcc says that all passed and rates are those of the work."""
    parts['HPL'].one('1 tests completed and passed residual checks,')
    parts['PTRANS'].one(r'5 tests completed and passed residual checks\.')
    parts['StarSTREAM'].one('Solution Validates.*')
    summary = parts['Summary']
    work = 2 / 3 * n ** 3 + 3 / 2 * n ** 2
    agree(summary.figure(r'HPL_Tflops=(\S+)'), summary.figure(r'HPL_time=(\S+)'), work / 1e12, 'Tflop/s of HPL')
    for kind in ('MPIRandomAccess', 'MPIRandomAccess_LCG'):
        agree(summary.figure(rf'{kind}_GUPs=(\S+)'), summary.figure(rf'{kind}_time=(\S+)'),
              summary.count(rf'{kind}_ExeUpdates=(\S+)') / 1e9, f'GUP/s of {kind}')
    residual = parts['HPL'].figure(_HPL_RESIDUAL, zero=True, places=7)
    if residual >= THRESHOLD:
        raise Wrong(f'the scaled residual of HPL is {residual}, not below {THRESHOLD}')
    rest, eps, a, x, b = (float(summary.figure(rf'HPL_{key}=(\S+)', zero=key == 'RnormI'))
                          for key in ('RnormI', 'eps', 'AnormI', 'XnormI', 'BnormI'))
    if abs(float(residual) * (scale := eps * (a * x + b) * n) - rest) > half(residual) * scale + _SIXTH * rest:
        raise Wrong(f'the scaled residual of HPL is {residual}, {rest / scale:.5g} by the norms in the summary')
    return float(residual)


def _fact(parts: dict[str, Lines], key: str, section: str, line: str, group: int) -> int:
    found, told = parts['Summary'].count(rf'{key}=(\S+)'), parts[section].one(line)[group]
    if str(found) != told:
        raise Wrong(f'{key} is {found} in the summary, {told[:40]} in section {section}')
    return found


def _figure(parts: dict[str, Lines], key: str, section: str, line: str, group: int, up: int) -> float:
    """The summary's figure (%g: six digits, trailing zeros cut), once it rounds what the section's does."""
    found = parts['Summary'].figure(rf'{key}=(\S+)').scaleb(3 if key == 'HPL_Tflops' else 0)
    told = number(_row(parts[section], section, line)[group], f'{key} in section {section}', zero=True).scaleb(up)
    sixth = Decimal(5).scaleb(found.adjusted() - 6)
    if abs(found - told) > (float(sixth) + half(told)) * 1.01:
        raise Wrong(f'{key} is {found} in the summary, {told} in section {section}')
    return float(found)


def _row(part: Lines, section: str, line: str):
    """The one line; of PTRANS that of the lowest of five repetitions."""
    if section != 'PTRANS':
        return part.one(line)
    rows = part.every(line)
    if len(rows) != 5:
        raise Incomplete(f'line {part.end}: section PTRANS ends with {len(rows)} of 5 WALL rows')
    return min(rows, key=lambda row: number(row[1], 'a PTRANS rate'))
