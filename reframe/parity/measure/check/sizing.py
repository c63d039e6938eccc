"""The size of a problem and what a case may write: arithmetic, with units in names and reasons in results."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field

from parity.base.codes import CACHE_MULTIPLE
from parity.base.figures import figure

# The blocking factor: inside the 32 to 256 that the benchmark's FAQ advises (netlib.org/benchmark), and a
# multiple of the register blocks (4, 6, 8, 12, 16, 24, 32, 48) of the DGEMM kernels of OpenBLAS, BLIS and MKL.
NB = 192


@dataclass(frozen=True)
class Dense:
    """A dense system solved by LU: order of the matrix, blocking factor, process grid of p rows by q columns."""

    n: int
    nb: int
    p: int
    q: int
    why: str

    def into(self, text: str) -> str:
        """Return ``text``, an input file of the benchmark, with this N, NB, P and Q."""
        for name in ('N', 'NB', 'P', 'Q'):
            text = re.sub(rf'^\d+ +{name}$', f'{getattr(self, name.lower()):<12} {name}', text, flags=re.MULTILINE)
        return text


def dense(memory_bytes: float, ranks: int, fraction: float, seconds_cap: float, gflops_guess: float,
        nb: int = NB) -> Dense:
    """Return the largest dense system that fits in memory and in time. Bytes and Gflop/s are of all ``ranks``. The
    matrix takes 8 N^2 bytes, at most ``fraction`` of the memory. Its solution takes about 2/3 N^3 flop (Dongarra,
    Luszczek, Petitet 2003), at most ``seconds_cap`` at ``gflops_guess``. The smaller N is rounded down to a
    multiple of ``nb``, at least one; the grid is the squarest."""
    p, q = grid(ranks)
    by_memory = math.isqrt(round(memory_bytes * fraction) // 8)
    by_time = _cube_root(1.5 * seconds_cap * gflops_guess * 1e9)
    largest = min(by_memory, by_time)
    n = max(nb, largest // nb * nb)
    memory = f'{100 * fraction:g} % of {memory_bytes / 1e9:.4g} GB hold N = {by_memory} (8 N^2 bytes)'
    time = f'{seconds_cap:g} s at {gflops_guess:g} Gflop/s reach N = {by_time} (2/3 N^3 flop)'
    bound, loose = (memory, time) if by_memory <= by_time else (time, memory)
    if largest < nb:
        rounding = f'below one block, so N is one block of {nb}'
    else:
        rounding = f'rounded down to a multiple of NB = {nb}'
    return Dense(n, nb, p, q, f'N = {n}: {bound}, {rounding}; {loose}; grid {p} x {q} for {ranks} ranks')


#: DGEMM of one core by its widest vectors, on the low side: a wrong guess costs size, never truth.
_GFLOPS_A_CORE = {'avx512f': 40.0, 'sve': 20.0, 'avx2': 20.0, 'asimd': 8.0, 'vsx': 8.0}


def gflops_guess(simd: Collection[str]) -> float:
    """Gflop/s of one core to size a problem by, from the processor's vector sets."""
    for name, rate in _GFLOPS_A_CORE.items():
        if name in simd:
            return rate
    return 4.0


def grid(ranks: int) -> tuple[int, int]:
    """(p, q) with p q = ranks, p <= q and p as large as possible."""
    p = next(p for p in range(math.isqrt(ranks), 0, -1) if ranks % p == 0)
    return p, ranks // p


def cached(vector_bytes_total: float, llc_bytes: float) -> str:
    """Return why an array, summed over all ranks of a run, may be in their last-level caches (McCalpin's run
    rules); '' where it cannot."""
    if vector_bytes_total >= CACHE_MULTIPLE * llc_bytes:
        return ''
    return (f'an array of {vector_bytes_total / 1e6:.4g} MB is less than {CACHE_MULTIPLE} x '
            f"{llc_bytes / 1e6:.4g} MB of last-level caches (McCalpin's run rules)")


def _cube_root(x: float) -> int:
    """The largest n with n^3 <= x; a product that misses a cube by rounding counts as that cube."""
    n = round(x ** (1 / 3))
    return n if n ** 3 <= x * (1 + 1e-12) else n - 1


@dataclass(frozen=True)
class IoPlan:
    """The bytes that a case writes: of one repetition by all ranks, and of all. ``why`` has the reason."""

    repetition_bytes: int
    repetitions: int
    total_bytes: int
    why: str


def fit(wanted: Sequence[int], repetitions: int, budget: int | None, said: str, before: int = 0) -> IoPlan | None:
    """The first of ``wanted`` (bytes of one repetition, best first) of which the budget holds one repetition.

    It gets as many of the ``repetitions`` as the budget holds. ``before`` are the repetitions' worth of bytes that
    are written once, before the first; None is no budget, ``said`` what the budget is. None where nothing fits."""
    for size in wanted:
        room = repetitions if budget is None else budget // size - before
        if room < 1:
            continue
        fits = min(repetitions, room)
        why = f'{fits} of {repetitions} repetitions of {figure(size, "B")}'
        if fits < repetitions or size < wanted[0]:
            asked = figure(wanted[0] * (repetitions + before), 'B')
            why += f': io_budget: case: {said}, asked for {asked}'
        return IoPlan(size, fits, size * (fits + before), why)
    return None


@dataclass
class NightBudget:
    """The bytes that the cases of a session may write on one file system: what is left, in the cases' order."""

    budget: int
    text: str
    left: int = -1
    decided: dict[Hashable, str] = field(default_factory=dict)

    def take(self, case: Hashable, total: int, runs: int) -> str:
        """'' where all ``runs`` of the case fit, and takes their bytes; else why not. A case is decided once."""
        if case not in self.decided:
            self.decided[case] = self._decide(total, runs)
        return self.decided[case]

    def _decide(self, total: int, runs: int) -> str:
        left = self.budget if self.left < 0 else self.left
        if total * runs <= left:
            self.left = left - total * runs
            return ''
        self.left = left
        needs = figure(total, 'B')
        if runs > 1:
            needs = f'{runs} runs of {needs}'
        return f'io_budget: night: {needs}, {figure(left, "B")} left of {self.text}'
