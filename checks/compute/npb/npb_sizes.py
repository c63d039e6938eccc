"""NPB: how many ranks each benchmark takes, and how much memory each class needs.

All rules and dimensions are those of NPB 3.4.3 (MPI); the file that has them is named beside each."""

from __future__ import annotations

import math

from npb_problems import BENCHMARKS, CLASSES, PROBLEMS, Problem

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
    least = _IS_LEAST.get(npb_class, 1) if benchmark == 'is' else 1
    if available >= 1:
        most = min(available, _most(benchmark, npb_class))
        for ranks in range(most, least - 1, -1):
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
        pairs = PROBLEMS['ep', npb_class].size[0] // 2
        return pairs >> 16                      # EP/ep_data.f90: 2^16 pairs a batch
    if benchmark == 'is':
        return _IS_MOST.get(npb_class, 1024)
    return _MG_MOST if benchmark == 'mg' else math.inf


def _bt(p: Problem, ranks: int) -> int:
    """BT/bt_data.f90, alloc_space."""
    cells = math.isqrt(ranks)
    side = p.size[0] // cells + 1
    volume = 5 * side ** 3
    volume += 5 * (side + 4) ** 3
    volume += (5 + 25) * (side + 1) ** 3
    volume += 6 * (side + 2) ** 3
    surface = 5 * (side + 1) ** 2
    lines = (6 + 2 * 5) * (side + 4)
    lines += 2 * 25 * (side + 4)
    lines += 2 * 25 * (side + 2)
    buffer = side ** 2 * (cells - 1) * 60 + 1
    reals = cells * (volume + surface) + lines + 2 * buffer
    return _REAL * reals + _INTEGER * 21 * cells


def _sp(p: Problem, ranks: int) -> int:
    """SP/sp_data.f90, alloc_space."""
    cells = math.isqrt(ranks)
    side = p.size[0] // cells + 1
    odd = side // 2 * 2 + 1
    volume = 5 * (odd + 4) ** 2 * (side + 4)
    volume += 8 * (side + 2) ** 3
    volume += (5 + 5 + 15) * odd ** 2 * side
    buffer = side ** 2 * (cells - 1) * 120 + 1
    lines = 16 * (side + 4)
    reals = cells * volume + lines + 2 * buffer
    return _REAL * reals + _INTEGER * 21 * cells


def _lu(p: Problem, ranks: int) -> int:
    """LU/lu_data.f90, alloc_space, with the subdomain of LU/proc_grid.f90."""
    wide, narrow = _grid(ranks)
    nz = p.size[0]
    nx = math.ceil(nz / wide)
    ny = math.ceil(nz / narrow)
    reals = 3 * 5 * (nx + 4) * (ny + 4) * nz
    reals += 5 * (nx + 2) * (ny + 2) * nz
    reals += 4 * 25 * nx
    reals += 2 * (ny + 2) * (nz + 2)
    reals += 2 * 5 * 2 * ny * nz
    return _REAL * reals


def _cg(p: Problem, ranks: int) -> int:
    """CG/cg_data.f90, alloc_space: every rank has the whole row pointers and random vector."""
    rows = 2 ** (int(math.log2(ranks)) // 2)
    columns = ranks // rows
    n, nonzeros = p.size[0], p.nonzeros
    elements = n * (nonzeros + 1) // ranks * (nonzeros + 1) + nonzeros
    elements += n * (nonzeros + 2 + ranks // 256) // columns
    integers = 3 * elements + 3 * n + 2
    vector = n // rows + 2
    reals = 2 * elements + n + 1 + 6 * vector
    return _INTEGER * integers + _REAL * reals


def _ft(p: Problem, ranks: int) -> int:
    """FT/ft_data.f90, alloc_space: three complex arrays and the twiddle factors."""
    points = p.size[0] * p.size[1] // ranks * p.size[2]
    return _COMPLEX * 3 * (points + 3) + _REAL * points + _COMPLEX * max(p.size)


def _mg(p: Problem, ranks: int) -> int:
    """MG/mg_data.f90, alloc_space."""
    log_size = p.size[0].bit_length() - 1
    log_ranks = ranks.bit_length() - 1
    log_x = log_size - log_ranks // 3
    log_y = log_size - (log_ranks + 1) // 3
    log_z = log_size - (log_ranks + 2) // 3
    nx, ny, nz = 2 ** log_x + 2, 2 ** log_y + 2, 2 ** log_z + 2
    volume = nx * ny * nz
    levels = volume + nx ** 2 + 5 * nx + 14 * log_size - 7 * log_x
    all_levels = 8 * levels // 7
    buffers = 4 * 2 * nx ** 2
    return _REAL * (2 * all_levels + volume + buffers)


def _is(p: Problem, ranks: int) -> int:
    """IS/is.c, alloc_space: three arrays of keys, larger than their share because keys are not even."""
    share = p.size[0] // ranks
    if ranks < 256:
        halves = 3
    elif ranks < 512:
        halves = 5
    elif ranks < 1024:
        halves = 8
    else:
        halves = 13
    keys = 3 * halves * share // 2
    return _INTEGER * (keys + 4 * ranks)


def _ep(p: Problem, ranks: int) -> int:
    """EP/ep_data.f90: one batch of 2^16 pairs, counts, and 10000 numbers; no class needs more."""
    return _REAL * (2 * 2 ** 16 + 10 + 10000)


_BYTES_A_RANK = {'bt': _bt, 'cg': _cg, 'ep': _ep, 'ft': _ft, 'is': _is, 'lu': _lu, 'mg': _mg, 'sp': _sp}
