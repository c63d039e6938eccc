"""HPCC prints its figures twice, in the section that measured them and in the summary: both must agree."""

from __future__ import annotations

from decimal import Decimal

from . import Wrong
from .hpcc_text import Output, number, whole

RANDOM_ACCESS = ('RandomAccess', 'RandomAccess_LCG')
KERNELS = ('Copy', 'Scale', 'Add', 'Triad')

# summary key, section, line, which # of the line, power of ten from the line's unit to the key's
_REAL = (
    ('HPL_time', 'HPL', 'W# # # # # # #', 5, 0),
    ('HPL_Tflops', 'HPL', 'W# # # # # # #', 6, -3),
    ('StarDGEMM_Gflops', 'StarDGEMM', 'Average Gflop/s #', 0, 0),
    ('SingleDGEMM_Gflops', 'SingleDGEMM', 'Single DGEMM Gflop/s #', 0, 0),
    ('StarFFT_Gflops', 'StarFFT', 'Average Gflop/s #', 0, 0),
    ('SingleFFT_Gflops', 'SingleFFT', 'Single FFT Gflop/s #', 0, 0),
    ('MPIFFT_Gflops', 'MPIFFT', 'Gflop/s: #', 0, 0),
    ('MPIFFT_maxErr', 'MPIFFT', 'max(|x-x0|): #', 0, 0),
    *((f'MPI{ra}_GUPs', f'MPI{ra}', '# Billion(10^9) Updates per second [GUP/s]', 0, 0)
      for ra in RANDOM_ACCESS),
    *((f'Star{ra}_GUPs', f'Star{ra}', 'Average GUP/s #', 0, 0) for ra in RANDOM_ACCESS),
    *((f'Single{ra}_GUPs', f'Single{ra}', 'Single GUP/s #', 0, 0) for ra in RANDOM_ACCESS),
    *((f'StarSTREAM_{k}', 'StarSTREAM', f'Average {k} GB/s #', 0, 0) for k in KERNELS),
    *((f'SingleSTREAM_{k}', 'SingleSTREAM', f'Single STREAM {k} GB/s #', 0, 0) for k in KERNELS),
)
_NETWORK = (
    *((f'{which}PingPongLatency_usec', 'Latency min / avg / max: # / # / # msecs', i, 3)
      for i, which in enumerate(('Min', 'Avg', 'Max'))),
    *((f'{which}PingPongBandwidth_GBytes', 'Bandwidth min / avg / max: # / # / # MByte/s', i, -3)
      for i, which in enumerate(('Min', 'Avg', 'Max'))),
    *((f'{order}OrderedRing{key}', f'On {order.lower()} ordered ring: latency= # msec, bandwidth= # MB/s',
       i, up)
      for order in ('Naturally', 'Randomly')
      for i, (key, up) in enumerate((('Latency_usec', 3), ('Bandwidth_GBytes', -3)))),
)
NETWORK_KEYS = tuple(key for key, *_ in _NETWORK)
_WHOLE = (
    ('HPL_N', 'HPL', 'W# # # # # # #', 1),
    ('HPL_NB', 'HPL', 'W# # # # # # #', 2),
    ('HPL_nprow', 'HPL', 'W# # # # # # #', 3),
    ('HPL_npcol', 'HPL', 'W# # # # # # #', 4),
    ('CommWorldProcs', 'MPIRandomAccess', 'Running on # processors*', 0),
    ('STREAM_VectorSize', 'StarSTREAM', 'Array size = #, Offset = #', 0),
    ('MPIFFT_Procs', 'MPIFFT', 'Number of nodes: #', 0),
    ('MPIFFT_N', 'MPIFFT', 'Vector size: #', 0),
    ('FFT_N', 'StarFFT', 'Vector size: #', 0),
)


def same_figures(out: Output) -> None:
    for key, name, line, at, up in _REAL:
        agree(out, key, out.sections[name].one(line)[at], f'section {name}', up)
    for key, name, line, at in _WHOLE:
        token = out.sections[name].one(line)[at]
        if out.whole(key) != whole(token, f'{key} in section {name}'):
            raise Wrong(f'{key} is {out.whole(key)} in the summary, {token} in section {name}')
    _network(out)


def agree(out: Output, key: str, token: str, where: str, up: int) -> None:
    """The summary (%g: six digits, trailing zeros cut) and the section round the same number."""
    summary, section = out.real(key), number(token, f'{key} in {where}').scaleb(up)
    half_sixth_digit = Decimal(5).scaleb(summary.adjusted() - 6) if summary else Decimal(0)
    half_last_digit = Decimal(5).scaleb(section.as_tuple().exponent - 1)
    if abs(summary - section) > (half_sixth_digit + half_last_digit) * Decimal('1.01'):
        raise Wrong(f'{key} is {summary} in the summary, {section} in {where}')


def _network(out: Output) -> None:
    """One process has no network: hpcc then prints no section and -1 for each figure."""
    if out.whole('CommWorldProcs') == 1:
        if any(out.word(key) != '-1' for key in NETWORK_KEYS):
            raise Wrong('the summary has network figures of one process')
        return
    detailed = out.sections['LatencyBandwidth'].after('Detailed benchmark results:')
    for key, line, at, up in _NETWORK:
        agree(out, key, detailed.one(line)[at], 'section LatencyBandwidth', up)
