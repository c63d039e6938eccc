"""Sizes of problems: worked examples, the bounds they keep, and an input that the real hpcc reads."""

import runpy
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.judge.store.case_record import MetricRecord
from parity.measure.check.sizing import Dense, dense
from replay import Replay, check, room

hpcc, npb, osu, stream = map(room, ('hpcc', 'npb', 'osu', 'stream'))
output = sys.modules['npb_output']
HPCCINF = (Path(hpcc.__file__).parent / 'hpccinf.txt').read_text()

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
    problem = dense(memory, ranks, fraction, seconds, gflops, nb)
    assert (problem.n, problem.nb, problem.p, problem.q) == (n, nb, p, q)
    assert why in problem.why and f'N = {n}' in problem.why


SIZED = Dense(4032, 192, 1, 2, 'sized')


@pytest.mark.parametrize('n, nb, ran', [('0', '0', SIZED), ('2048', '0', Dense(2048, 192, 1, 2, "as asked for: {'n': 2048}; sized")),
                                        ('1000', '64', Dense(1000, 64, 1, 2, "as asked for: {'n': 1000, 'nb': 64}; sized"))])
def test_hpl_takes_the_order_and_the_block_that_are_asked_for(tmp_path, n, nb, ran):
    folder = Path(room('hpl').__file__).parent
    made = Replay(check('hpl', 'Hpl'), {}, asked={'n': n, 'nb': nb, 'dense_problem': SIZED, 'run_update': None, 'stagedir': tmp_path, 'prefix': folder})
    made.write_input()
    assert made.problem == ran and made.parity['sizing']['hpl'] == vars(ran)
    rows = dict(line.split()[:2][::-1] for line in (tmp_path / 'HPL.dat').read_text().splitlines() if line.split()[1:] in (['N'], ['NB']))
    assert rows == {'N': str(ran.n), 'NB': str(ran.nb)}


@pytest.mark.parametrize('stated, rate, n', [({}, 2 * 40, 24192), ({'gflops_a_core': 70.5}, 2 * 70.5, 29376)])
def test_a_site_states_the_rate_by_which_hpl_is_sized(stated, rate, n):
    """1.5 x 120 s x 80e9 = 24328^3, and x 141e9 = 29391^3; less than a block more."""
    extras = {'memory_bytes': 64 * 10 ** 9, 'machine': {'simd': ['avx512f']}, **stated}
    made = Replay(check('hpl', 'Hpl'), {}, asked={'nodes': '1', 'num_tasks': 2})
    made.extra = extras.get
    problem = made.dense_problem(0.5, 120)
    assert problem.n == n and f'120 s at {rate:g} Gflop/s' in problem.why


@pytest.mark.parametrize('asked, why', [({'n': '20000'}, 'memory: N = 20000 takes 3.2 GB of 2 GB'), ({'n': '15000'}, ''), ({'n': '0'}, ''),
                                        ({'dat': 'HPL.dat', 'nb': '64'}, 'dat=HPL.dat has its own N and NB: leave out n and nb')])
def test_hpl_is_left_out_where_what_is_asked_for_cannot_run(asked, why):
    made, skipped = Replay(check('hpl', 'Hpl'), {}, {'memory_bytes': 10 ** 9}, {'nodes': '2', 'place_ranks': '', 'program': 'xhpl', **asked}), []
    made.skip_case = skipped.append
    made.place()
    assert skipped == ([why] if why else [])


@settings(deadline=None)                            # a busy machine is not an error
@given(memory=st.integers(1, 10 ** 15), ranks=st.integers(1, 10 ** 4), fraction=st.floats(0.01, 1),
       seconds=st.floats(0.001, 1e5), gflops=st.floats(0.001, 1e7), nb=st.integers(1, 512))
def test_hpl_is_the_largest_problem_within_both_bounds(memory, ranks, fraction, seconds, gflops, nb):
    problem = dense(memory, ranks, fraction, seconds, gflops, nb)

    def fits(n, slack):                             # of a byte, and of the last bits of a float
        return (8 * n ** 2 <= memory * fraction + slack
                and 2 / 3 * n ** 3 <= seconds * gflops * 1e9 * (1 + slack * 1e-9))
    assert problem.n % nb == 0
    assert problem.n == nb or fits(problem.n, +1)
    assert not fits(problem.n + nb, -1)


def test_hpcc_input_has_every_value_in_its_line():
    lines = Dense(1536, 128, 3, 4, '').into(HPCCINF).splitlines()
    assert len(lines) == 36 and max(map(len, lines)) < 80     # hpcc counts lines, with an 82-byte buffer
    assert [line.split()[0] for line in lines[4:31]] == (
        '1 1536 1 128 0 1 3 4 16.0 1 2 1 8 1 2 1 1 1 1 1 1 2 64 0 0 1 8'.split())
    assert [line.split()[0] for line in lines[32:]] == ['0', '0', '0', '0']


@pytest.mark.parametrize('iterations, ranks, expected', [
    (500, 2, 500), (500, 8, 500), (500, 16, 250), (500, 256, 20), (10000, 256, 312), (10, 256, 10)])
def test_collectives_are_repeated_less_on_many_ranks(iterations, ranks, expected):
    assert osu.collective_iterations(iterations, ranks) == expected


# ---- NPB

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
    assert {npb.most_ranks(name, available) for name in benchmarks.split()} == {ranks}


def test_the_grids_of_lu_are_those_of_its_source():
    """Every number up to 60 that get_active_nprocs and proc_grid of NPB 3.4.3 accept."""
    assert sorted({npb.most_ranks('lu', n) for n in range(1, 61)}) == [
        1, 2, 4, 6, 8, 9, 12, 15, 16, 18, 20, 24, 25, 28, 30, 32, 35, 36, 40, 42, 45, 48, 49, 50, 54, 56, 60]


@pytest.mark.parametrize('benchmark, npb_class, available, ranks', [
    ('bt', 'S', 64, 16),            # 12 / 4 = 3 points a cell, 12 / 5 = 2 are too few
    ('sp', 'A', 512, 441),          # 64 / 21 = 3
    ('bt', 'B', 512, 484), ('lu', 'S', 64, 16), ('lu', 'A', 512, 441),
    ('is', 'S', 512, 128), ('is', 'D', 4, 4), ('ep', 'S', 1000, 256), ('ep', 'A', 10000, 4096)])
def test_ranks_small_enough_for_the_class(benchmark, npb_class, available, ranks):
    assert npb.most_ranks(benchmark, available, npb_class) == ranks


@pytest.mark.parametrize('benchmark, nodes, ranks', [('bt', 4, 400), ('sp', 2, 400), ('lu', 4, 420), ('mg', 4, 512), ('ep', 3, 510), ('bt', 7, 441)])
def test_as_many_ranks_on_each_node(benchmark, nodes, ranks):
    assert npb.most_ranks(benchmark, 512, 'A', nodes) == ranks


@pytest.mark.parametrize('cores, nodes, ranks', [(1, 11, 1), (1, 9, 9), (127, 4, 504), (17, 3, 48)])
def test_hpcg_has_as_many_ranks_on_each_node(cores, nodes, ranks):
    assert room('hpcg').most_ranks(cores * nodes, nodes) == ranks


@pytest.mark.parametrize('arguments, message', [
    (('is', 512, 'A', 3), 'IS A cannot run on 512 ranks or fewer, as many on each of 3 nodes'), (('xx', 4), 'no NPB benchmark; valid are bt, cg'), (('bt', 0), 'cannot run on 0 ranks'), (('bt', -4), 'cannot run'),
    (('bt', 4, 'Z'), "no class 'Z'"), (('is', 4, 'F'), "no class 'F'"), (('is', 3, 'D'), 'IS D cannot run on 3 ranks')])
def test_ranks_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        npb.most_ranks(*arguments)


# ---- memory

@pytest.mark.parametrize('benchmark, npb_class, ranks, expected', [
    # FT: three complex arrays and a real one over all points, each padded by 3, and one line of 512
    ('ft', 'C', 1, 16 * 3 * (512 ** 3 + 3) + 8 * 512 ** 3 + 16 * 512),
    ('ft', 'A', 4, 4 * (16 * 3 * (2 ** 23 // 4 + 3) + 8 * 2 ** 23 // 4 + 16 * 256)),
    # IS: three arrays of 4-byte keys, 3/2 of the share, and four words of counts a rank
    ('is', 'A', 1, 3 * 4 * 3 * 2 ** 23 // 2 + 16), ('is', 'A', 4, 4 * (3 * 4 * 3 * 2 ** 21 // 2 + 64)),
    ('is', 'B', 512, 512 * (3 * 4 * 4 * 2 ** 16 + 16 * 512)),
    ('ep', 'D', 2, 2 * 8 * (2 ** 17 + 10 + 10000))])
def test_memory_worked_examples(benchmark, npb_class, ranks, expected):
    assert npb.memory_bytes(benchmark, npb_class, ranks) == expected


# Peak resident memory of one process of NPB 3.4.3 (Spack, Open MPI), sampled from /proc: MB
@pytest.mark.parametrize('benchmark, npb_class, measured', [
    ('bt', 'A', 119.0), ('bt', 'B', 422.2), ('cg', 'A', 73.5), ('ep', 'A', 16.7), ('ft', 'A', 485.9), ('lu', 'A', 61.1),
    ('lu', 'B', 193.0), ('mg', 'A', 471.7), ('mg', 'B', 471.8), ('sp', 'A', 101.7), ('sp', 'B', 353.7)])
def test_memory_is_what_was_measured_less_the_program_itself(benchmark, npb_class, measured):
    assert 3 < measured - npb.memory_bytes(benchmark, npb_class) / 1e6 < 17


# ---- arrays that are compiled in

@pytest.mark.parametrize('size, cache_bytes, edge', [
    ('quick', 0, 32), ('quick', 16 << 20, 48), ('quick', 240 << 20, 64), ('nightly', 0, 104), ('nightly', 240 << 20, 104),
    ('acceptance', 1 << 30, 104)])
def test_hpcg_is_beyond_the_caches_as_far_as_its_size_allows(size, cache_bytes, edge):
    assert room('hpcg').edge_of(size, cache_bytes) == edge


@pytest.mark.parametrize('llc_bytes, memory_bytes, elements', [
    (32 * MIB, 16 * GB, 17_000_000),            # 4 x 33.55 MB = 134.2 MB = 16.8 million elements
    (2 * MIB, 16 * GB, 2_000_000), (0, 16 * GB, 1_000_000), (4_000_000, 40_000_000 * 2, 2_000_000),
    (260 * MIB, 16 * GB, 137_000_000), (260 * MIB, 5 * GB, 0), (0, 39_999_999, 0)])
def test_arrays_are_four_times_the_caches_or_what_the_memory_does_not_hold(llc_bytes, memory_bytes, elements):
    array_elements = runpy.run_path(str(Path(stream.__file__).with_name('build.py')))['array_elements']
    assert array_elements(llc_bytes, memory_bytes) == elements


@pytest.mark.parametrize('llc_bytes, memory_bytes, words', [
    (480 * MIB, 8 * GB, '80000000'),            # the pinned ones, which the memory holds
    (480 * MIB, 1200 * MIB, '31000000'),        # 60 % of 1258 MB are 755 MB, 252 MB an array
    (480 * MIB, 8 * MIB, '1000000'), (2 * MIB, 1200 * MIB, '2000000'),
    (None, 1200 * MIB, '31000000'), (None, 8 * GB, '80000000')])          # a cluster whose caches nobody stated
def test_arrays_are_never_longer_than_the_memory_of_a_node(llc_bytes, memory_bytes, words):
    sized = runpy.run_path(str(Path(stream.__file__).with_name('build.py')))['sized']
    facts = {'memory_bytes': memory_bytes, **({'llc_bytes': llc_bytes} if llc_bytes else {})}
    assert sized('stream@5.10 +openmp stream_array_size=80000000', facts) == f'stream@5.10 +openmp stream_array_size={words}'


def test_stream_keeps_the_flags_of_an_environment_beside_those_of_long_arrays():
    sized = runpy.run_path(str(Path(stream.__file__).with_name('build.py')))['sized']
    spec = sized('stream@5.10 stream_array_size=80000000 cflags="-O2 --param=a=0"', {'llc_bytes': 260 * MIB, 'memory_bytes': 16 * GB})
    assert spec == 'stream@5.10 stream_array_size=137000000 cflags="-O2 --param=a=0" cflags="-mcmodel=medium"'


@pytest.mark.parametrize('size, benchmark, ranks, memory, letter', [
    ('quick', 'bt', 64, 1e12, 'A'), ('nightly', 'bt', 64, 1e12, 'B'), ('acceptance', 'bt', 64, 1e12, 'D'), ('acceptance', 'bt', 8, 1e12, 'C'),
    ('acceptance', 'ft', 64, 64e9, 'C'), ('acceptance', 'ft', 64, 128e9, 'D'), ('acceptance', 'ep', 15, 1e12, 'C'), ('acceptance', 'is', 64, 0, 'C')])
def test_npb_runs_class_d_where_ranks_and_memory_are_enough(size, benchmark, ranks, memory, letter):
    assert npb.class_of(size, benchmark, ranks, memory) == letter


def test_stream_says_how_much_of_the_memorys_traffic_it_counts():
    made = Replay(check('stream', 'Stream'), {})
    peak = {'value': 38.4, 'unit': 'GB/s', 'source': 'dmidecode: 2 channels of DDR4-2400', 'certain': True}
    made.parity.metrics.update(triad=MetricRecord('GB/s', 'higher', limit=peak), copy=MetricRecord('GB/s', 'higher'))
    made.say_what_counts()
    assert made.parity.metrics['triad'].limit == {**peak, 'source': f'{peak["source"]}; STREAM counts 3/4 unless stores are non-temporal'}
    assert made.parity.metrics['copy'].limit is None and peak['source'].endswith('DDR4-2400')
