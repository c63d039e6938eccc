"""HPCC 1.5.0: HPL, DGEMM, PTRANS, RandomAccess, FFT, STREAM, latency and bandwidth in one output.

The text is a whole hpccoutf.txt, alone or inside a job's output. Figures come from the summary (six
digits) once hpcc_same has found them in their sections too; where a section prints fewer digits
(latencies: about three), a summary that was altered by less than those digits is not noticed.

What the names mean: ``single`` is one rank, chosen by chance, while the others wait; ``star`` is the mean
over all ranks, each working alone at the same time; ``mpi`` is all ranks together. Three peculiarities
of hpcc, so that nobody reads more into the figures:
- stream_single is never below stream_star: hpcc keeps the best time of the star run as a start.
- fft_mpi uses the largest power of two of the ranks (fact ``fft_processes``).
- ptrans is the lowest of five repetitions.
"""

from __future__ import annotations

from . import Wrong
from .hpcc_checks import hpl_residual, verify
from .hpcc_same import KERNELS, NETWORK_KEYS
from .hpcc_text import Output, read

# metric: (key of the summary, power of ten from its unit to the metric's)
_METRICS = {
    'hpl': ('HPL_Tflops', 3),                                             # Gflop/s
    'hpl_time': ('HPL_time', 0),                                          # s
    'dgemm_single': ('SingleDGEMM_Gflops', 0),                            # Gflop/s
    'dgemm_star': ('StarDGEMM_Gflops', 0),                                # Gflop/s of one process
    'ptrans': ('PTRANS_GBs', 0),                                          # GB/s
    'randomaccess_single': ('SingleRandomAccess_GUPs', 0),                # GUP/s
    'randomaccess_star': ('StarRandomAccess_GUPs', 0),                    # GUP/s of one process
    'randomaccess_mpi': ('MPIRandomAccess_GUPs', 0),                      # GUP/s
    'randomaccess_lcg_single': ('SingleRandomAccess_LCG_GUPs', 0),
    'randomaccess_lcg_star': ('StarRandomAccess_LCG_GUPs', 0),
    'randomaccess_lcg_mpi': ('MPIRandomAccess_LCG_GUPs', 0),
    'fft_single': ('SingleFFT_Gflops', 0),                                # Gflop/s
    'fft_star': ('StarFFT_Gflops', 0),                                    # Gflop/s of one process
    'fft_mpi': ('MPIFFT_Gflops', 0),                                      # Gflop/s
    **{f'stream_single_{k.lower()}': (f'SingleSTREAM_{k}', 0) for k in KERNELS},   # GB/s
    **{f'stream_star_{k.lower()}': (f'StarSTREAM_{k}', 0) for k in KERNELS},       # GB/s of one process
    **{f'beff_pingpong_latency_{m.lower()}': (f'{m}PingPongLatency_usec', 0)       # us
       for m in ('Min', 'Avg', 'Max')},
    **{f'beff_pingpong_bandwidth_{m.lower()}': (f'{m}PingPongBandwidth_GBytes', 0)  # GB/s
       for m in ('Min', 'Avg', 'Max')},
    'beff_ring_natural_latency': ('NaturallyOrderedRingLatency_usec', 0),          # us
    'beff_ring_random_latency': ('RandomlyOrderedRingLatency_usec', 0),            # us
    'beff_ring_natural_bandwidth': ('NaturallyOrderedRingBandwidth_GBytes', 0),    # GB/s
    'beff_ring_random_bandwidth': ('RandomlyOrderedRingBandwidth_GBytes', 0),      # GB/s
}
_FACTS = {
    'processes': 'CommWorldProcs', 'threads': 'STREAM_Threads', 'n': 'HPL_N', 'nb': 'HPL_NB',
    'p': 'HPL_nprow', 'q': 'HPL_npcol', 'stream_vector_length': 'STREAM_VectorSize',
    'fft_processes': 'MPIFFT_Procs',
}


def parse(text: str) -> dict[str, float]:
    """The metrics of one complete and verified run, in the units above; ``hpl_residual`` has none.

    With one process there is no network, and the ``beff_`` metrics are left out.
    Raises Incomplete with the line where something is missing, Wrong when the run's answer is bad.
    """
    out = _verified(text)
    metrics = {name: _positive(out, key, up) for name, (key, up) in _METRICS.items()
               if not (key in NETWORK_KEYS and out.whole('CommWorldProcs') == 1)}
    return {**metrics, 'hpl_residual': float(hpl_residual(out))}


def facts(text: str) -> dict[str, float]:
    """What was run: ranks, STREAM's OpenMP threads, HPL's N, NB, P and Q, elements of a STREAM array.

    Compare n, nb, p and q with what was asked: hpcc runs a problem of its own, and reports success,
    when it cannot read hpccinf.txt. Raises as ``parse`` does.
    """
    out = _verified(text)
    return {name: float(out.whole(key)) for name, key in _FACTS.items()}


def _verified(text: str) -> Output:
    out = read(text)
    verify(out)
    return out


def _positive(out: Output, key: str, up: int) -> float:
    value = float(out.real(key).scaleb(up))
    if not value > 0:
        raise Wrong(f'{key}={out.word(key)} in the summary: a rate or a time is above zero')
    return value
