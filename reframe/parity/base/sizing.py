"""How large a problem: arithmetic with units in the names, and the reason in the result, for the log."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

# HPL's blocking factor: inside the 32 to 256 that the HPL FAQ advises, and a multiple of the
# register blocks (4, 6, 8, 12, 16, 24, 32, 48) of the DGEMM kernels of OpenBLAS, BLIS and MKL.
HPL_NB = 192

# McCalpin, STREAM run rules, https://www.cs.virginia.edu/stream/ref.html: each array at least four
# times the sum of all the last-level caches used in the run.
STREAM_CACHE_MULTIPLE = 4


@dataclass(frozen=True)
class HplProblem:
    """One HPL run: order of the matrix, blocking factor, process grid of p rows by q columns."""

    n: int
    nb: int
    p: int
    q: int
    why: str


def hpl(memory_bytes: float, ranks: int, fraction: float, seconds_cap: float, gflops_guess: float,
        nb: int = HPL_NB) -> HplProblem:
    """The largest HPL problem that fits in memory and in time; bytes and Gflop/s are of all ``ranks`` together.
    The matrix takes 8 N^2 bytes, at most ``fraction`` of the memory; the solution about 2/3 N^3 flop (HPL's own
    count, netlib.org/benchmark/hpl), at most ``seconds_cap`` at ``gflops_guess``. The smaller N is rounded down to
    a multiple of ``nb``, at least one ``nb``; the grid is the squarest. ValueError for what is not positive and
    finite."""
    _positive(memory_bytes=memory_bytes, ranks=ranks, fraction=fraction, seconds_cap=seconds_cap,
              gflops_guess=gflops_guess, nb=nb)
    if fraction > 1:
        raise ValueError(f'fraction is {fraction:g}: a share of the memory is at most 1')
    p, q = grid(ranks)
    by_memory = math.isqrt(round(memory_bytes * fraction) // 8)
    by_time = _cube_root(1.5 * seconds_cap * gflops_guess * 1e9)
    n = max(nb, min(by_memory, by_time) // nb * nb)
    return HplProblem(n, nb, p, q, _why(n, nb, (p, q), by_memory, by_time, memory_bytes, fraction,
                                        seconds_cap, gflops_guess))


#: DGEMM of one core by its widest vectors, on the low side: a wrong guess costs size, never truth.
_GFLOPS_A_CORE = {'avx512f': 40.0, 'sve': 20.0, 'avx2': 20.0, 'asimd': 8.0, 'vsx': 8.0}


def gflops_guess(simd: Collection[str]) -> float:
    """Gflop/s of one core to size a problem by, from the processor's vector sets."""
    return next((rate for name, rate in _GFLOPS_A_CORE.items() if name in simd), 4.0)


def grid(ranks: int) -> tuple[int, int]:
    """(p, q) with p q = ranks, p <= q and p as large as possible. Raises ValueError below one rank."""
    _positive(ranks=ranks)
    p = next(p for p in range(math.isqrt(ranks), 0, -1) if ranks % p == 0)
    return p, ranks // p


def fits_in_cache(vector_bytes_total: float, llc_bytes: float) -> bool:
    """True when a STREAM array, summed over all ranks that run at once, is too small beside their last-level
    caches to speak of memory (McCalpin's rule). ValueError for what is not positive and finite."""
    _positive(vector_bytes_total=vector_bytes_total, llc_bytes=llc_bytes)
    return vector_bytes_total < STREAM_CACHE_MULTIPLE * llc_bytes


def cached_reason(vector_bytes_total: float, llc_bytes: float) -> str:
    """Why an array that ``fits_in_cache`` says nothing about memory; same arguments, same errors."""
    _positive(vector_bytes_total=vector_bytes_total, llc_bytes=llc_bytes)
    return (f'an array of {vector_bytes_total / 1e6:.4g} MB is less than {STREAM_CACHE_MULTIPLE} x '
            f'{llc_bytes / 1e6:.4g} MB of last-level caches (STREAM run rules)')


def hpcc_input(problem: HplProblem) -> str:
    """An hpccinf.txt for one N, one NB and one grid, with HPL's threshold of 16. Compare them with the output:
    hpcc answers an input that it cannot read, or a grid larger than its ranks, with defaults, and reports
    success."""
    numbers = {'n': problem.n, 'nb': problem.nb, 'p': problem.p, 'q': problem.q}
    _positive(**numbers)
    return _HPCC_INPUT.format(**numbers)


def hpl_input(problem: HplProblem) -> str:
    """The text of an HPL.dat: the part of hpcc's input that is HPL's own, printed to standard output."""
    lines = hpcc_input(problem).splitlines()
    own = lines[:next(i for i, line in enumerate(lines) if line.startswith('-----'))]
    own[2:4] = ['HPL.out      output file name (unused)', '6            device out (6 = standard output)']
    return '\n'.join(own) + '\n'


# hpcc counts the lines and takes the first word of each. No line may exceed 80 characters: hpcc skips
# the HPL part with an 82-byte buffer, so that a longer line counts as two and shifts the PTRANS part.
_HPCC_INPUT = '''\
HPLinpack benchmark input file
written by parity
HPL.out      output file name (hpcc always writes hpccoutf.txt)
8            device out (ignored by hpcc)
1            number of problem sizes
{n:<12} N
1            number of block sizes
{nb:<12} NB
0            PMAP (0 = row-major)
1            number of process grids
{p:<12} P
{q:<12} Q
16.0         threshold of the scaled residual
1            number of panel factorisations
2            PFACT (2 = right)
1            number of recursive stopping criteria
8            NBMIN
1            number of panels in recursion
2            NDIV
1            number of recursive panel factorisations
1            RFACT (1 = Crout)
1            number of broadcasts
1            BCAST (1 = 1ringM)
1            number of lookahead depths
1            DEPTH
2            SWAP (2 = mix)
64           swapping threshold
0            L1 (0 = transposed)
0            U (0 = transposed)
1            equilibration (1 = yes)
8            memory alignment in doubles
-----        hpcc ignores this line
0            number of additional problem sizes for PTRANS
0            their values of N
0            number of additional block sizes for PTRANS
0            their values of NB
'''


def _why(n, nb, pq, by_memory, by_time, memory_bytes, fraction, seconds_cap, gflops_guess) -> str:
    memory = f'{100 * fraction:g} % of {memory_bytes / 1e9:.4g} GB hold N = {by_memory} (8 N^2 bytes)'
    time = f'{seconds_cap:g} s at {gflops_guess:g} Gflop/s reach N = {by_time} (2/3 N^3 flop)'
    bound, loose = (memory, time) if by_memory <= by_time else (time, memory)
    if min(by_memory, by_time) < nb:
        rounding = f'below one block, so N is one block of {nb}'
    else:
        rounding = f'rounded down to a multiple of NB = {nb}'
    return f'N = {n}: {bound}, {rounding}; {loose}; grid {pq[0]} x {pq[1]} for {pq[0] * pq[1]} ranks'


def _cube_root(x: float) -> int:
    """The largest n with n^3 <= x; a product that misses a cube by rounding counts as that cube."""
    n = round(x ** (1 / 3))
    return n if n ** 3 <= x * (1 + 1e-12) else n - 1


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f'{name} is {value}: it must be positive and finite')


STREAM_ARRAYS = 3                       # a, b and c
STREAM_MEMORY_SHARE = 0.6               # of the memory, at most, for all three arrays
STREAM_FEWEST = 1_000_000               # elements; STREAM's run rules, stream.c, instruction 1 (b)
_BYTES = 8
_STEP = 1_000_000                       # so that the number is readable in a spec
_STATIC_LIMIT = 2 ** 31                 # bytes of static data without -mcmodel=medium (x86-64 psABI)


@dataclass(frozen=True)
class StreamArrays:
    """``elements`` of 8 bytes in each of the three arrays, and the sentence that explains the number."""

    elements: int
    why: str


def stream_elements(llc_bytes: float, memory_bytes: float) -> StreamArrays:
    """The shortest arrays that measure memory, in whole millions: each at least four times the last-level caches.
    ValueError where they need more than STREAM_MEMORY_SHARE, or an argument is negative or not finite."""
    if not (math.isfinite(llc_bytes) and llc_bytes >= 0):
        raise ValueError(f'llc_bytes is {llc_bytes}: it must be finite and not negative')
    if not (math.isfinite(memory_bytes) and memory_bytes > 0):
        raise ValueError(f'memory_bytes is {memory_bytes}: it must be positive and finite')
    by_cache = math.ceil(STREAM_CACHE_MULTIPLE * llc_bytes / _BYTES)
    elements = -(-max(by_cache, STREAM_FEWEST) // _STEP) * _STEP
    total = STREAM_ARRAYS * _BYTES * elements
    why = (f'{elements} elements: {_BYTES * elements / 1e6:.4g} MB an array, at least {STREAM_CACHE_MULTIPLE} x '
           f'{llc_bytes / 1e6:.4g} MB of last-level caches (STREAM run rules); {total / 1e9:.3g} GB in all')
    if total > STREAM_MEMORY_SHARE * memory_bytes:
        raise ValueError(f'{why}, more than {100 * STREAM_MEMORY_SHARE:g} % of {memory_bytes / 1e9:.4g} GB')
    if total >= _STATIC_LIMIT:
        why += ', static: compile with -mcmodel=medium'
    return StreamArrays(elements, why)
