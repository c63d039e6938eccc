"""The classes of the NAS Parallel Benchmarks: size, iterations and operations of each problem.

Sizes and iterations: sys/setparams.c and IS/is.c of NPB 3.4.3; NPB 3.3.1 has the same up to class E
(IS: D). Operations: what each program divides by its time, at its end (BT/bt.f90 and so on).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

BENCHMARKS = ('bt', 'cg', 'ep', 'ft', 'is', 'lu', 'mg', 'sp')
CLASSES = 'SWABCDEF'


class Problem(NamedTuple):
    """``size``: grid points in x, y and z, or one number (rows of CG, keys of IS, random numbers of EP).
    ``iterations`` as printed (EP: 0); ``nonzeros`` of a row of CG's matrix, as setparams counts them."""

    size: tuple[int, ...]
    iterations: int
    nonzeros: int = 0


def problem(benchmark: str, npb_class: str) -> Problem:
    """The problem of one of BENCHMARKS and one of CLASSES; raises KeyError if there is none."""
    return _PROBLEMS[benchmark, npb_class]


def exists(benchmark: str, npb_class: str) -> bool:
    return (benchmark, npb_class) in _PROBLEMS


def million_operations(benchmark: str, npb_class: str) -> float:
    """Mop of the timed part, by NPB's own count: Mop/s total is this over the time."""
    given = problem(benchmark, npb_class)
    return _OPERATIONS[benchmark](given) * 1e-6


def _cubes(sides: tuple[int, ...], iterations: tuple[int, ...]) -> list[Problem]:
    return [Problem((n, n, n), count) for n, count in zip(sides, iterations, strict=True)]


_GRID = (64, 102, 162, 408, 1020, 2560)                               # A to F of BT, LU and SP
_TABLE = {
    'bt': _cubes((12, 24, *_GRID), (60, 200, 200, 200, 200, 250, 250, 250)),
    'sp': _cubes((12, 36, *_GRID), (100, 400, 400, 400, 400, 500, 500, 500)),
    'lu': _cubes((12, 33, *_GRID), (50, 300, 250, 250, 250, 300, 300, 300)),
    'mg': _cubes((32, 128, 256, 256, 512, 1024, 2048, 4096), (4, 4, 4, 20, 20, 50, 50, 50)),
    'ft': [Problem((64, 64, 64), 6), Problem((128, 128, 32), 6), Problem((256, 256, 128), 6),
           Problem((512, 256, 256), 20), Problem((512, 512, 512), 20), Problem((2048, 1024, 1024), 25),
           Problem((4096, 2048, 2048), 25), Problem((8192, 4096, 4096), 25)],
    'cg': [Problem((1400,), 15, 7), Problem((7000,), 15, 8), Problem((14000,), 15, 11),
           Problem((75000,), 75, 13), Problem((150000,), 75, 15), Problem((1500000,), 100, 21),
           Problem((9000000,), 100, 26), Problem((54000000,), 100, 31)],
    'ep': [Problem((2 ** (m + 1),), 0) for m in (24, 25, 28, 30, 32, 36, 40, 44)],
    'is': [Problem((2 ** k,), 10) for k in (16, 20, 23, 25, 27, 31, 35)],      # there is no class F
}
_PROBLEMS = {(name, letter): given for name, row in _TABLE.items()
             for letter, given in zip(CLASSES, row, strict=False)}


def _polynomial(*factors: float) -> Callable[[Problem], float]:
    """Operations of an iteration of BT, SP and LU, by powers of the grid points in x."""
    return lambda p: p.iterations * sum(factor * p.size[0] ** power for power, factor in enumerate(factors))


def _ft(p: Problem) -> float:
    points = math.prod(p.size)
    log = math.log(points)
    return points * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * p.iterations)


def _cg(p: Problem) -> float:
    row = p.nonzeros * (p.nonzeros + 1)
    return 2 * p.iterations * p.size[0] * (3 + row + 25 * (5 + row) + 3)


_OPERATIONS = {
    'bt': _polynomial(0, 28023.7, -17655.7, 3478.8), 'sp': _polynomial(-19272.4, 11484.5, -4683.91, 881.174),
    'lu': _polynomial(-144010, 27770.9, -10923.3, 1984.77), 'ft': _ft, 'cg': _cg,
    'mg': lambda p: 58 * p.iterations * math.prod(p.size), 'is': lambda p: p.iterations * p.size[0],
    'ep': lambda p: p.size[0],
}
