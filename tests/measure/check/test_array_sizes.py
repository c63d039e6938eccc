"""The sizes of arrays beside the caches, and the guesses that a problem is sized by."""

from __future__ import annotations

import pytest

from parity.measure.check import sizing


def test_an_array_of_four_times_the_caches_is_not_in_them():
    assert sizing.cached(400e6, 100e6) == ''
    assert sizing.cached(399e6, 100e6).startswith('an array of 399 MB is less than 4 x 100 MB of last-level caches')


@pytest.mark.parametrize('ranks, grid', [(1, (1, 1)), (12, (3, 4)), (16, (4, 4)), (7, (1, 7)), (18, (3, 6))])
def test_the_grid_of_ranks_is_the_squarest_with_more_columns(ranks, grid):
    assert sizing.grid(ranks) == grid


@pytest.mark.parametrize('simd, gflops', [({'avx2', 'avx512f'}, 40.0), ({'avx2', 'sse4_2'}, 20.0), ({'asimd'}, 8.0), ((), 4.0)])
def test_the_widest_vectors_of_a_core_give_the_guess(simd, gflops):
    assert sizing.gflops_guess(simd) == gflops
