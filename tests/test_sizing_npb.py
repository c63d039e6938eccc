"""Ranks and memory of NPB, lengths of STREAM's arrays: worked examples."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.base.sizing import StreamArrays, stream_elements
from parity.check.sizing_npb import BENCHMARKS, NPB_CLASS_BY_SIZE, npb_memory_bytes, npb_ranks
from parity.outputs import npb

MIB = 2 ** 20
GB = 10 ** 9


# ---- ranks

@pytest.mark.parametrize('benchmarks, available, ranks', [
    ('bt sp', 1, 1), ('bt sp', 3, 1), ('bt sp', 4, 4), ('bt sp', 63, 49), ('bt sp', 64, 64), ('bt sp', 1000, 961),
    ('cg ft is mg', 1, 1), ('cg ft is mg', 3, 2), ('cg ft is mg', 64, 64), ('cg ft is mg', 1000, 512),
    ('ep', 1, 1), ('ep', 97, 97), ('ep', 1000, 1000),
    # LU: n1 x n2 with n2 <= n1 <= 2 n2; 3, 5, 7, 10, 11, 14, 21 and 22 have no such grid
    ('lu', 1, 1), ('lu', 2, 2), ('lu', 3, 2), ('lu', 5, 4), ('lu', 7, 6), ('lu', 11, 9), ('lu', 14, 12), ('lu', 15, 15),
    ('lu', 17, 16), ('lu', 23, 20), ('lu', 48, 48), ('lu', 97, 96), ('lu', 1000, 1000),
    # IS/is.c knows at most 1024, MG/mg_data.f90 131072
    ('is', 5000, 1024), ('mg', 10 ** 6, 131072), ('cg', 5000, 4096)])
def test_ranks(benchmarks, available, ranks):
    assert {npb_ranks(name, available) for name in benchmarks.split()} == {ranks}


def test_the_grids_of_lu_are_those_of_its_source():
    """Every number up to 60 that get_active_nprocs and proc_grid of NPB 3.4.3 accept."""
    assert sorted({npb_ranks('lu', n) for n in range(1, 61)}) == [
        1, 2, 4, 6, 8, 9, 12, 15, 16, 18, 20, 24, 25, 28, 30, 32, 35, 36, 40, 42, 45, 48, 49, 50, 54, 56, 60]


@pytest.mark.parametrize('benchmark, npb_class, available, ranks', [
    ('bt', 'S', 64, 16),            # 12 / 4 = 3 points a cell, 12 / 5 = 2 are too few
    ('sp', 'A', 512, 441),          # 64 / 21 = 3
    ('bt', 'B', 512, 484), ('lu', 'S', 64, 16), ('lu', 'A', 512, 441),
    ('is', 'S', 512, 128), ('is', 'D', 4, 4), ('ep', 'S', 1000, 256), ('ep', 'A', 10000, 4096)])
def test_ranks_small_enough_for_the_class(benchmark, npb_class, available, ranks):
    assert npb_ranks(benchmark, available, npb_class) == ranks


@pytest.mark.parametrize('arguments, message', [
    (('xx', 4), 'no NPB benchmark; valid are bt, cg'), (('bt', 0), 'cannot run on 0 ranks'), (('bt', -4), 'cannot run'),
    (('bt', 4, 'Z'), "no class 'Z'"), (('is', 4, 'F'), "no class 'F'"), (('is', 3, 'D'), 'IS D cannot run on 3 ranks')])
def test_ranks_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        npb_ranks(*arguments)


@settings(deadline=None)
@given(st.sampled_from(BENCHMARKS), st.integers(1, 3000))
def test_the_ranks_are_allowed_and_no_larger_allowed_number_fits(benchmark, available):
    ranks = npb_ranks(benchmark, available)
    assert 1 <= ranks <= available
    assert npb_ranks(benchmark, ranks) == ranks
    if benchmark in ('bt', 'sp'):
        assert ranks == math.isqrt(available) ** 2
    elif benchmark in ('cg', 'ft', 'mg'):
        assert ranks == 2 ** (available.bit_length() - 1)


# ---- memory

def test_the_class_of_a_size():
    assert NPB_CLASS_BY_SIZE == {'quick': 'A', 'nightly': 'B', 'acceptance': 'C'}


@pytest.mark.parametrize('benchmark, npb_class, ranks, expected', [
    # FT: three complex arrays and a real one over all points, each padded by 3, and one line of 512
    ('ft', 'C', 1, 16 * 3 * (512 ** 3 + 3) + 8 * 512 ** 3 + 16 * 512),
    ('ft', 'A', 4, 4 * (16 * 3 * (2 ** 23 // 4 + 3) + 8 * 2 ** 23 // 4 + 16 * 256)),
    # IS: three arrays of 4-byte keys, 3/2 of the share, and four words of counts a rank
    ('is', 'A', 1, 3 * 4 * 3 * 2 ** 23 // 2 + 16), ('is', 'A', 4, 4 * (3 * 4 * 3 * 2 ** 21 // 2 + 64)),
    ('is', 'B', 512, 512 * (3 * 4 * 4 * 2 ** 16 + 16 * 512)),
    ('ep', 'D', 2, 2 * 8 * (2 ** 17 + 10 + 10000))])
def test_memory_worked_examples(benchmark, npb_class, ranks, expected):
    assert npb_memory_bytes(benchmark, npb_class, ranks) == expected


# Peak resident memory of one process of NPB 3.4.3 (Spack, Open MPI), sampled from /proc: MB
@pytest.mark.parametrize('benchmark, npb_class, measured', [
    ('bt', 'A', 119.0), ('bt', 'B', 422.2), ('cg', 'A', 73.5), ('ep', 'A', 16.7), ('ft', 'A', 485.9), ('lu', 'A', 61.1),
    ('lu', 'B', 193.0), ('mg', 'A', 471.7), ('mg', 'B', 471.8), ('sp', 'A', 101.7), ('sp', 'B', 353.7)])
def test_memory_is_what_was_measured_less_the_program_itself(benchmark, npb_class, measured):
    assert 3 < measured - npb_memory_bytes(benchmark, npb_class) / 1e6 < 17


@pytest.mark.parametrize('benchmark', BENCHMARKS)
def test_memory_grows_with_the_class_and_the_ranks(benchmark):
    by_class = [npb_memory_bytes(benchmark, letter) for letter in 'SWABCD']
    assert by_class == sorted(by_class)
    assert npb_memory_bytes(benchmark, 'B', 64) >= npb_memory_bytes(benchmark, 'B')


@pytest.mark.parametrize('arguments, message', [
    (('bt', 'Z'), 'no class'), (('bt', ''), 'no class'), (('xx', 'A'), 'no NPB benchmark'), (('bt', 'A', 2), 'does not run on 2'),
    (('ep', 'A', 0), 'does not run on 0')])
def test_memory_of_what_is_not(arguments, message):
    with pytest.raises(ValueError, match=message):
        npb_memory_bytes(*arguments)


def test_operations_of_is_and_ep_are_their_size():
    assert npb.million_operations('is', 'A') == pytest.approx(83.88608)
    assert npb.million_operations('ep', 'A') == pytest.approx(536.870912)


# ---- STREAM

@pytest.mark.parametrize('llc_bytes, memory_bytes, elements', [
    (32 * MIB, 16 * GB, 17_000_000),            # 4 x 33.55 MB = 134.2 MB = 16.8 million elements
    (2 * MIB, 16 * GB, 2_000_000), (0, 16 * GB, 1_000_000), (4_000_000, 40_000_000 * 2, 2_000_000),
    (260 * MIB, 16 * GB, 137_000_000)])
def test_arrays_of_stream(llc_bytes, memory_bytes, elements):
    arrays = stream_elements(llc_bytes, memory_bytes)
    assert isinstance(arrays, StreamArrays) and arrays.elements == elements
    assert f'{elements} elements' in arrays.why and 'STREAM run rules' in arrays.why


def test_long_arrays_say_how_to_compile_them():
    assert 'mcmodel' in stream_elements(260 * MIB, 16 * GB).why
    assert 'mcmodel' not in stream_elements(32 * MIB, 16 * GB).why


@pytest.mark.parametrize('llc_bytes, memory_bytes, message', [
    (260 * MIB, 5 * GB, 'more than 60 % of 5 GB'), (-1, GB, 'llc_bytes'), (math.nan, GB, 'llc_bytes'), (1, 0, 'memory_bytes'),
    (1, math.inf, 'memory_bytes'), (0, 39_999_999, 'more than 60 %')])
def test_arrays_that_cannot_be(llc_bytes, memory_bytes, message):
    with pytest.raises(ValueError, match=message):
        stream_elements(llc_bytes, memory_bytes)


@settings(deadline=None)
@given(st.integers(0, 2 ** 40), st.integers(1, 2 ** 45))
def test_arrays_keep_both_bounds(llc_bytes, memory_bytes):
    try:
        elements = stream_elements(llc_bytes, memory_bytes).elements
    except ValueError:
        return
    assert 8 * elements >= 4 * llc_bytes and 24 * elements <= 0.6 * memory_bytes
