"""Sizes of single checks: what a kernel walks over, OSU's collectives hold, a storage case may write."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from parity.base.figures import figure
from parity.base.sizing import STREAM_CACHE_MULTIPLE

LEAST = 64 << 20            # bytes of a thread: several blocks of the largest size, 10 MB
SHARE = 0.25                # of the memory, at most, for all threads
_PAGE = 4096


@dataclass(frozen=True)
class Walk:
    """``bytes`` of each thread, and the sentence that explains the number."""

    bytes: int
    why: str


def walk(threads: int, cache_bytes: int | None, memory_bytes: int | None) -> Walk:
    """So much that all ``threads`` together have four times the caches they can use, as STREAM's rules ask.

    A power of two, in which blocks of powers of two come in random order without a search for the next.
    At most a quarter of the memory: where that is less than four times the caches, the figures are no
    figures of memory, and the check labels them. None: not known."""
    cache = cache_bytes or 0
    size = 1 << (max(LEAST, -(-STREAM_CACHE_MULTIPLE * cache // threads)) - 1).bit_length()
    why = f'at least {STREAM_CACHE_MULTIPLE} x {cache / 1e6:.4g} MB of last-level caches, 64 MiB a thread'
    if memory_bytes and threads * size > SHARE * memory_bytes:
        size = int(SHARE * memory_bytes / threads) // _PAGE * _PAGE
        why = f'{100 * SHARE:g} % of {memory_bytes / 1e9:.4g} GB of memory'
    return Walk(size, f'{threads} x {size / 1e6:.4g} MB: {why}')


#: Ranks up to which a collective is repeated as often as a message between two.
_FEW = 8
_LEAST = 20


def collective_iterations(iterations: int, ranks: int) -> int:
    """Fewer on many ranks: the work of one operation grows with them. Never below 20, nor above ``iterations``."""
    return min(iterations, max(_LEAST, iterations * _FEW // max(ranks, _FEW)))


def alltoall_bytes(ranks: int, largest: int) -> int:
    """What one rank holds of osu_alltoall's buffers: it sends and receives ``largest`` bytes from every rank."""
    return 2 * ranks * largest


@dataclass(frozen=True)
class IoPlan:
    """What a case writes: bytes of one repetition (all ranks together), repetitions, and all of it; ``why``."""

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
        if room >= 1:
            fits = min(repetitions, room)
            changed = fits < repetitions or size < wanted[0]
            why = f'{fits} of {repetitions} repetitions of {figure(size, "B")}'
            if changed:
                asked = figure(wanted[0] * (repetitions + before), 'B')
                why += f': io_budget: case: {said}, asked for {asked}'
            return IoPlan(size, fits, size * (fits + before), why)
    return None


@dataclass
class Night:
    """The bytes that the cases of a session may write on one file system: what is left, in the cases' order."""

    budget: int
    said: str
    left: int = -1
    decided: dict[Hashable, str] = field(default_factory=dict)

    def take(self, case: Hashable, total: int, runs: int) -> str:
        """'' where all ``runs`` of the case fit, and takes their bytes; else why not. A case is decided once."""
        if case not in self.decided:
            left = self.budget if self.left < 0 else self.left
            fits = total * runs <= left
            self.left = left - total * runs * fits
            each = f'{runs} runs of {figure(total, "B")}' if runs > 1 else figure(total, 'B')
            why = f'io_budget: night: {each}, {figure(left, "B")} left of {self.said}'
            self.decided[case] = '' if fits else why
        return self.decided[case]
