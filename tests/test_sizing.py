"""Sizes of problems: worked examples, the bounds they keep, and an input that the real hpcc reads."""

import math
import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import PATIENCE
from parity.base.sizing import HplProblem, cached_reason, fits_in_cache, grid, hpcc_input, hpl
from parity.check import sizing
from parity.outputs import hpcc

GB = 1e9
MIB = 2 ** 20

# memory_bytes, ranks, fraction, seconds_cap, gflops_guess, nb -> n, p, q, what the reason says
EXAMPLES = [
    # 8 x 40000^2 = 12.8e9 = 80 % of 16 GB; 40000 = 208.3 blocks of 192; 2/3 39936^3 flop take 42 s
    (16 * GB, 2, 0.8, 300, 1000, 192, 39936, 1, 2, '80 % of 16 GB hold N = 40000'),
    # 1.5 x 300 s x 100e9 = 4.5e13 = 35568^3; 35568 = 185.25 blocks
    (16 * GB, 2, 0.8, 300, 100, 192, 35520, 1, 2, '300 s at 100 Gflop/s reach N = 35568'),
    # exact fit: 8 x 1920^2 = 29491200, and 2/3 1920^3 = 4718592000
    (29491200, 4, 1.0, 1e6, 1, 192, 1920, 2, 2, 'hold N = 1920'),
    (GB, 4, 1.0, 1, 4.718592, 192, 1920, 2, 2, 'reach N = 1920'),
    # one byte less than that loses a block
    (29491199, 4, 1.0, 1e6, 1, 192, 1728, 2, 2, 'hold N = 1919'),
    # less than one block is one block
    (1000, 1, 0.5, 300, 100, 192, 192, 1, 1, 'below one block'),
    (GB, 12, 0.5, 300, 1e-9, 64, 64, 3, 4, 'below one block'),
    # grids: a prime has one row; 24 = 4 x 6
    (16 * GB, 7, 0.8, 300, 1000, 100, 40000, 1, 7, 'grid 1 x 7 for 7 ranks'),
    (16 * GB, 24, 0.8, 300, 1000, 100, 40000, 4, 6, 'grid 4 x 6 for 24 ranks'),
]


@pytest.mark.parametrize('memory, ranks, fraction, seconds, gflops, nb, n, p, q, why', EXAMPLES)
def test_hpl_worked_examples(memory, ranks, fraction, seconds, gflops, nb, n, p, q, why):
    problem = hpl(memory, ranks, fraction, seconds, gflops, nb)
    assert (problem.n, problem.nb, problem.p, problem.q) == (n, nb, p, q)
    assert why in problem.why and f'N = {n}' in problem.why


@settings(deadline=None)                            # a busy machine is not an error
@given(memory=st.integers(1, 10 ** 15), ranks=st.integers(1, 10 ** 4), fraction=st.floats(0.01, 1),
       seconds=st.floats(0.001, 1e5), gflops=st.floats(0.001, 1e7), nb=st.integers(1, 512))
def test_hpl_is_the_largest_problem_within_both_bounds(memory, ranks, fraction, seconds, gflops, nb):
    problem = hpl(memory, ranks, fraction, seconds, gflops, nb)

    def fits(n, slack):                             # of a byte, and of the last bits of a float
        return (8 * n ** 2 <= memory * fraction + slack
                and 2 / 3 * n ** 3 <= seconds * gflops * 1e9 * (1 + slack * 1e-9))
    assert problem.n % nb == 0
    assert problem.n == nb or fits(problem.n, +1)
    assert not fits(problem.n + nb, -1)


@pytest.mark.parametrize('ranks, expected', [
    (1, (1, 1)), (2, (1, 2)), (6, (2, 3)), (16, (4, 4)), (28, (4, 7)), (97, (1, 97)), (128, (8, 16)),
    (1000, (25, 40))])
def test_grid_is_the_squarest(ranks, expected):
    assert grid(ranks) == expected


@pytest.mark.parametrize('change', [{'memory_bytes': 0}, {'memory_bytes': -1}, {'ranks': 0}, {'fraction': 0},
                                    {'fraction': 1.01}, {'seconds_cap': 0}, {'seconds_cap': math.inf},
                                    {'gflops_guess': math.nan}, {'nb': 0}])
def test_hpl_refuses_impossible_arguments_by_name(change):
    good = {'memory_bytes': GB, 'ranks': 1, 'fraction': 0.5, 'seconds_cap': 1, 'gflops_guess': 1}
    with pytest.raises(ValueError, match=next(iter(change))):
        hpl(**{**good, **change})


@pytest.mark.parametrize('vector_bytes, llc_bytes, expected', [
    (4 * 32 * MIB, 32 * MIB, False),          # exactly four times is large enough
    (4 * 32 * MIB - 8, 32 * MIB, True),
    (8 * 393216 * 2, 260 * MIB, True),        # np2.txt: 6 MB an array on a 260 MB cache
    (8 * 10_000_000, 20 * 10 ** 6, False),    # STREAM's own default of 10 million for 20 MB
])
def test_stream_needs_arrays_of_four_times_the_caches(vector_bytes, llc_bytes, expected):
    assert fits_in_cache(vector_bytes, llc_bytes) is expected


@pytest.mark.parametrize('vector_bytes, llc_bytes', [(0, 1), (1, 0), (-1, 1), (1, math.nan)])
def test_cache_rule_refuses_nonsense(vector_bytes, llc_bytes):
    with pytest.raises(ValueError, match='bytes'):
        fits_in_cache(vector_bytes, llc_bytes)


def test_a_cached_array_says_both_sizes():
    assert cached_reason(8 * 393216 * 2, 260 * MIB) == (
        'an array of 6.291 MB is less than 4 x 272.6 MB of last-level caches (STREAM run rules)')


def test_hpcc_input_has_every_value_in_its_line():
    lines = hpcc_input(HplProblem(1536, 128, 3, 4, '')).splitlines()
    assert len(lines) == 36 and max(map(len, lines)) < 80     # hpcc counts lines, with an 82-byte buffer
    assert [line.split()[0] for line in lines[4:31]] == (
        '1 1536 1 128 0 1 3 4 16.0 1 2 1 8 1 2 1 1 1 1 1 1 2 64 0 0 1 8'.split())
    assert [line.split()[0] for line in lines[32:]] == ['0', '0', '0', '0']


def test_hpcc_input_refuses_an_empty_problem():
    with pytest.raises(ValueError, match='n is 0'):
        hpcc_input(HplProblem(0, 128, 1, 1, ''))


@pytest.mark.skipif(not (shutil.which('hpcc') and shutil.which('mpirun')), reason='hpcc or mpirun is absent')
def test_the_real_hpcc_runs_the_problem_it_was_given(tmp_path):
    problem = hpl(memory_bytes=4 * MIB, ranks=2, fraction=0.8, seconds_cap=10, gflops_guess=1, nb=32)
    (tmp_path / 'hpccinf.txt').write_text(hpcc_input(problem))
    subprocess.run(['mpirun', '--oversubscribe', '-np', '2', 'hpcc'], cwd=tmp_path, check=True, timeout=PATIENCE,
                   env={**os.environ, 'OPENBLAS_NUM_THREADS': '1', 'OMPI_ALLOW_RUN_AS_ROOT': '1',
                        'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'})
    facts = hpcc.read((tmp_path / 'hpccoutf.txt').read_text())[1]
    assert [facts[name] for name in ('n', 'nb', 'p', 'q')] == [problem.n, problem.nb, problem.p, problem.q]


@pytest.mark.parametrize('iterations, ranks, expected', [
    (500, 2, 500), (500, 8, 500), (500, 16, 250), (500, 256, 20), (10000, 256, 312), (10, 256, 10)])
def test_collectives_are_repeated_less_on_many_ranks(iterations, ranks, expected):
    assert sizing.collective_iterations(iterations, ranks) == expected


def test_alltoall_holds_what_it_sends_and_receives():
    assert sizing.alltoall_bytes(256, 1 << 20) == 512 << 20
