"""NPB: how many ranks each benchmark takes, and how much memory each class needs.

All rules and dimensions are those of NPB 3.4.3 (MPI); the file that has them is named beside each."""

from __future__ import annotations

import math

from npb_output import BENCHMARKS, CLASSES, PROBLEMS, Problem

CLASS_BY_SIZE = {'quick': 'A', 'nightly': 'B', 'acceptance': 'D'}
D_RANKS = 16        # class D is 16 to 21 times the work of C: with fewer ranks a benchmark takes hours

_REAL, _INTEGER, _COMPLEX = 8, 4, 16                # bytes
# IS/is.c, MAX_PROCS and MIN_PROCS: more or fewer are refused
_IS_MOST = {'S': 128}
_IS_LEAST = {'D': 4, 'E': 64}
_MG_MOST = 131072                                   # MG/mg_data.f90, maxprocs


def class_of(size: str, benchmark: str, available: int, memory: int) -> str:
    """Return the class that a size runs on so many ranks: acceptance runs D where D_RANKS are there and ``memory``
    (bytes) holds it, else C."""
    letter = CLASS_BY_SIZE[size]
    if letter != 'D':
        return letter
    fits = available >= D_RANKS and memory_bytes(benchmark, 'D', most_ranks(benchmark, available, 'D')) <= memory
    return 'D' if fits else 'C'


def most_ranks(benchmark: str, available: int, npb_class: str = '', nodes: int = 1) -> int:
    """The largest number of ranks, not above ``available`` and as many on each of ``nodes``, that it accepts.

    BT, SP: squares. CG, FT, IS, MG: powers of two. LU: products n1 x n2 with n2 <= n1 <= 2 n2
    (common/get_active_nprocs.f90, kinds 1 to 3). EP: any. With ``npb_class`` also small enough for
    the class: cells of three points at least (BT, LU, SP), a batch for each rank (EP), keys for 128
    ranks (IS, class S). Raises ValueError for an unknown benchmark or class, or when no number fits."""
    _demand_known(benchmark, npb_class)
    if available >= 1:
        most = min(available, _most(benchmark, npb_class))
        for ranks in range(most, _IS_LEAST.get(npb_class, 1) - 1 if benchmark == 'is' else 0, -1):
            if ranks % nodes == 0 and _allowed(benchmark, ranks, npb_class):
                return ranks
    evenly = f', as many on each of {nodes} nodes' if nodes > 1 else ''
    raise ValueError(f'NPB {benchmark.upper()} {npb_class} cannot run on {available} ranks or fewer{evenly}')


def memory_bytes(benchmark: str, npb_class: str, ranks: int = 1) -> int:
    """Bytes of the arrays of all ``ranks`` together; program and MPI come on top, about 15 MB a rank.

    Computed from what each program allocates. Measured with one rank, classes A and B: the resident
    peak was 4 to 16 MB above this. It was less where a program does not touch all that it allocates (CG B, IS).
    Ghost points, buffers and tables that every rank has whole make it grow with the ranks. Raise ValueError for
    an unknown benchmark or class, or for ranks that the benchmark does not accept."""
    _demand_known(benchmark, npb_class or '?')
    if not _allowed(benchmark, ranks, ''):
        raise ValueError(f'NPB {benchmark.upper()} does not run on {ranks} ranks')
    return ranks * _BYTES_A_RANK[benchmark](PROBLEMS[benchmark, npb_class], ranks)


def _demand_known(benchmark: str, npb_class: str) -> None:
    if benchmark not in BENCHMARKS:
        raise ValueError(f'{benchmark!r} is no NPB benchmark; valid are {", ".join(BENCHMARKS)}')
    if npb_class and (benchmark, npb_class) not in PROBLEMS:
        raise ValueError(f'NPB {benchmark.upper()} has no class {npb_class!r}; valid are {", ".join(CLASSES)}')


def _allowed(benchmark: str, ranks: int, npb_class: str) -> bool:
    if ranks < 1:
        return False
    if benchmark == 'ep':
        return True
    if benchmark in ('cg', 'ft', 'is', 'mg'):
        return ranks & (ranks - 1) == 0
    wide, narrow = _grid(ranks)
    if not npb_class:
        points = math.inf
    else:
        points = PROBLEMS[benchmark, npb_class].size[0] // wide
    # BT/make_set.f90 "Cell size too small. Min size is 3"; LU/subdomain.f90 likewise
    return points >= 3 and (wide <= 2 * narrow if benchmark == 'lu' else wide == narrow)


def _grid(ranks: int) -> tuple[int, int]:
    """The squarest (wide, narrow) with wide x narrow = ranks, as LU/proc_grid.f90 chooses it."""
    narrow = next(n for n in range(math.isqrt(ranks), 0, -1) if ranks % n == 0)
    return ranks // narrow, narrow


def _most(benchmark: str, npb_class: str) -> float:
    if benchmark == 'ep' and npb_class:
        return PROBLEMS['ep', npb_class].size[0] >> 17     # EP/ep_data.f90: 2^16 pairs a batch
    return {'is': _IS_MOST.get(npb_class, 1024), 'mg': _MG_MOST}.get(benchmark, math.inf)


def _bt(p: Problem, ranks: int) -> int:
    """BT/bt_data.f90, alloc_space."""
    cells = math.isqrt(ranks)
    m = p.size[0] // cells + 1
    volume = 5 * m ** 3 + 5 * (m + 4) ** 3 + (5 + 25) * (m + 1) ** 3 + 6 * (m + 2) ** 3
    surface = 5 * (m + 1) ** 2
    lines = (6 + 2 * 5) * (m + 4) + 2 * 25 * (m + 4) + 2 * 25 * (m + 2)
    buffers = 2 * (m * m * (cells - 1) * 60 + 1)
    return _REAL * (cells * (volume + surface) + buffers + lines) + _INTEGER * 21 * cells


def _sp(p: Problem, ranks: int) -> int:
    """SP/sp_data.f90, alloc_space."""
    cells = math.isqrt(ranks)
    m = p.size[0] // cells + 1
    odd = m // 2 * 2 + 1
    volume = 5 * (odd + 4) ** 2 * (m + 4) + 8 * (m + 2) ** 3 + (5 + 5 + 15) * odd ** 2 * m
    buffers = 2 * (m * m * (cells - 1) * 120 + 1)
    return _REAL * (cells * volume + buffers + 16 * (m + 4)) + _INTEGER * 21 * cells


def _lu(p: Problem, ranks: int) -> int:
    """LU/lu_data.f90, alloc_space, with the subdomain of LU/proc_grid.f90."""
    nz = p.size[0]
    nx, ny = (-(-nz // side) for side in _grid(ranks))
    grid = 3 * 5 * (nx + 4) * (ny + 4) * nz + 5 * (nx + 2) * (ny + 2) * nz
    return _REAL * (grid + 4 * 25 * nx + 2 * (ny + 2) * (nz + 2) + 2 * 5 * 2 * ny * nz)


def _cg(p: Problem, ranks: int) -> int:
    """CG/cg_data.f90, alloc_space: every rank has the whole row pointers and random vector."""
    rows = 2 ** (int(math.log2(ranks)) // 2)
    n, nonzeros = p.size[0], p.nonzeros
    nz = (n * (nonzeros + 1) // ranks * (nonzeros + 1) + nonzeros
          + n * (nonzeros + 2 + ranks // 256) // (ranks // rows))
    integers = 3 * nz + (n + 1) + (2 * n + 1)
    return _INTEGER * integers + _REAL * ((n + 1) + 2 * nz + 6 * (n // rows + 2))


def _ft(p: Problem, ranks: int) -> int:
    """FT/ft_data.f90, alloc_space: three complex arrays and the twiddle factors."""
    points = p.size[0] * p.size[1] // ranks * p.size[2]
    return _COMPLEX * 3 * (points + 3) + _REAL * points + _COMPLEX * max(p.size)


def _mg(p: Problem, ranks: int) -> int:
    """MG/mg_data.f90, alloc_space."""
    log_size, log_ranks = p.size[0].bit_length() - 1, ranks.bit_length() - 1
    lm = log_size - log_ranks // 3
    nm = 2 + 2 ** lm
    nv = nm * (2 + 2 ** (log_size - (log_ranks + 1) // 3)) * (2 + 2 ** (log_size - (log_ranks + 2) // 3))
    nr = 8 * (nv + nm ** 2 + 5 * nm + 14 * log_size - 7 * lm) // 7
    return _REAL * (2 * nr + nv + 4 * 2 * nm * nm)


def _is(p: Problem, ranks: int) -> int:
    """IS/is.c, alloc_space: three arrays of keys, larger than their share because keys are not even."""
    share = p.size[0] // ranks
    bounds = ((256, 3), (512, 5), (1024, 8), (math.inf, 13))
    return _INTEGER * (3 * next(halves for below, halves in bounds if ranks < below) * share // 2 + 4 * ranks)


def _ep(p: Problem, ranks: int) -> int:
    """EP/ep_data.f90: one batch of 2^16 pairs, counts, and 10000 numbers; no class needs more."""
    return _REAL * (2 * 2 ** 16 + 10 + 10000)


_BYTES_A_RANK = {'bt': _bt, 'cg': _cg, 'ep': _ep, 'ft': _ft, 'is': _is, 'lu': _lu, 'mg': _mg, 'sp': _sp}
