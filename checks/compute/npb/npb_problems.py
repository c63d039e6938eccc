"""The problems of the NAS Parallel Benchmarks: the size and the operations of each benchmark and class.

Sizes and iterations of the classes: sys/setparams.c and IS/is.c of NPB 3.4.3; NPB 3.3.1 has the same up to class E
(IS: D). Operations: what each program divides by its time, at its end (BT/bt.f90 and so on)."""

from __future__ import annotations

import math
from typing import NamedTuple

BENCHMARKS = ('bt', 'cg', 'ep', 'ft', 'is', 'lu', 'mg', 'sp')
CLASSES = 'SWABCDEF'


class Problem(NamedTuple):
    """``size``: grid points in x, y and z, or one number (rows of CG, keys of IS, random numbers of EP).
    ``iterations`` as printed (EP: 0); ``nonzeros`` of a row of CG's matrix, as setparams counts them."""

    size: tuple[int, ...]
    iterations: int
    nonzeros: int = 0


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


def _by_class() -> dict[tuple[str, str], Problem]:
    problems = {}
    for name, row in _TABLE.items():
        for letter, problem in zip(CLASSES, row, strict=False):
            problems[name, letter] = problem
    return problems


#: By one of BENCHMARKS and one of CLASSES.
PROBLEMS = _by_class()

#: Operations of an iteration of BT, LU and SP: the factors of the powers of the grid points in x, from 0 on.
_FACTORS = {
    'bt': (0, 28023.7, -17655.7, 3478.8),
    'lu': (-144010, 27770.9, -10923.3, 1984.77),
    'sp': (-19272.4, 11484.5, -4683.91, 881.174),
}


def million_operations(benchmark: str, npb_class: str) -> float:
    """Mop of the timed part, by NPB's own count: Mop/s total is this over the time."""
    return _operations(benchmark, PROBLEMS[benchmark, npb_class]) / 1e6


def _operations(benchmark: str, problem: Problem) -> float:
    if benchmark in _FACTORS:
        return _polynomial(_FACTORS[benchmark], problem)
    if benchmark == 'cg':
        return _cg(problem)
    if benchmark == 'ft':
        return _ft(problem)
    points = math.prod(problem.size)
    if benchmark == 'ep':
        return points
    an_iteration = {'is': 1, 'mg': 58}[benchmark]
    return an_iteration * problem.iterations * points


def _polynomial(factors: tuple[float, ...], problem: Problem) -> float:
    side = problem.size[0]
    an_iteration = 0.0
    for power, factor in enumerate(factors):
        an_iteration += factor * side ** power
    return problem.iterations * an_iteration


def _ft(problem: Problem) -> float:
    points = math.prod(problem.size)
    log = math.log(points)
    begin = 14.8157 + 7.19641 * log
    an_iteration = 5.23518 + 7.21113 * log
    return points * (begin + an_iteration * problem.iterations)


def _cg(problem: Problem) -> float:
    row = problem.nonzeros * (problem.nonzeros + 1)
    inner = 25 * (5 + row)                          # 25 inner iterations in each
    a_row = 3 + row + inner + 3
    return 2 * problem.iterations * problem.size[0] * a_row
