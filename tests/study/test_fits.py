"""The laws behind published figures: planted truths come back, what cannot be answered is refused, print is met."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.cluster.vq import kmeans2

import replay
from mutations import examples
from parity.judge.stats.laws import lu_messages, outliers
from parity.measure.check import Wrong
from parity.study.published import fits
from parity.study.published.fits import clusters, inverse, power

RANKS = (4, 8, 16, 32, 64, 128)
#: The study tessera, section 3: computation time a0 / p of NPB class A, seconds.
A0 = {'BT': 1859.514, 'EP': 154.556, 'LU': 934.971, 'MG': 46.212}
#: The study tessera, Table 3, Myrinet: n_sim; t_comp, t_send, t_recv, n_comms, ndata in MB.
TABLE3 = {384: (52.65, 5.43, 3.38, 90, 1.59), 72: (642.13, 30.20, 210.58, 37, 9.53)}
different = st.lists(st.integers(1, 1000), min_size=3, max_size=12, unique=True)
positive = st.floats(1e-6, 1e6)


@given(different, positive, st.floats(-3, 3))
def test_power_returns_the_planted_law(x, a, b):
    fit = power(x, [a * v ** b for v in x])
    assert fit.a == pytest.approx(a, rel=1e-6) and fit.b == pytest.approx(b, abs=1e-8)
    assert (fit.points, fit.reason) == (len(x), 'few points' if len(x) < 5 else '')
    assert fit.r2 is None or abs(b) < 1e-6 or fit.r2 == pytest.approx(1)


@given(different, positive, st.integers(0, 1000))
def test_inverse_returns_the_planted_law(p, a0, seed):
    t = a0 / np.array(p)
    fit = inverse(p, t)
    assert fit.a == pytest.approx(a0) and fit.b == -1
    noisy = inverse(p, t * np.exp(np.random.default_rng(seed).normal(0, 0.1, len(p))))
    assert noisy.r2 <= 1


def test_another_law_than_inverse_is_noticed():
    flat = inverse(RANKS, [7.0, 7.1, 6.9, 7.0, 7.1, 7.0])
    assert flat.r2 < 0
    assert power(RANKS, [7] * 6).r2 is None


def test_repeats_at_three_numbers_of_clients_are_few_points():
    assert power([1, 2, 4] * 5, [10, 21, 39] * 5)[4:6] == (15, 'few points')


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_outliers_are_at_most_one_in_a_hundred_and_the_largest(values):
    found = outliers(values)
    assert found.dropped == len(values) - len(found.kept) <= math.ceil(len(values) / 100)
    assert bool(found.reason) == (len(values) < 100) and not (found.reason and found.dropped)
    assert sorted(found.kept) == sorted(values)[:len(found.kept)] and found.before.mean == pytest.approx(np.mean(values))


@given(st.permutations([10 + i / 197 for i in range(198)] + [1e4, 2e4]))
def test_planted_outliers_are_dropped(values):
    found = outliers(values)
    assert found.dropped == 2 and found.kept == tuple(v for v in values if v < 100)
    assert found.after == (pytest.approx(10.5), pytest.approx(12 ** -0.5 / 10.5, rel=0.02)) and found.before.cv > 5
    assert outliers([1, 3]).before.cv == pytest.approx(0.5 ** 0.5)
    assert outliers([3.0])[1:] == (0, (3, None), (3, None), 'fewer than 100 values: none dropped')


@examples(32)
@given(st.lists(st.integers(2, 40), min_size=1, max_size=4), st.lists(st.floats(0.01, 1e5), min_size=2, max_size=6), st.integers(0, 10 ** 6))
def test_planted_groups_come_back(sizes, units, seed):
    rng, scale = np.random.default_rng(seed), np.array(units)
    groups = [scale * (100 * g + rng.uniform(-1, 1, (size, len(units)))) for g, size in enumerate(sizes)]
    rows = np.vstack(groups)
    order = rng.permutation(len(rows))
    found = clusters(rows[order], len(sizes))
    assert {tuple(sorted(order[list(c.rows)])) for c in found} == {tuple(range(sum(sizes[:g]), sum(sizes[:g + 1]))) for g in range(len(sizes))}
    assert [c.size for c in found] == sorted(sizes, reverse=True)
    for c in found:
        assert np.allclose(c.centroid, rows[order][list(c.rows)].mean(axis=0))


def test_units_and_an_unlucky_start_do_not_matter():
    seconds_and_bytes = [(1 + i % 2, 1000 * i) for i in range(50)]
    assert [set(np.array(c.rows) % 2) for c in clusters(seconds_and_bytes, 2)] == [{0}, {1}]
    nine = [(x + d, y + d) for x in (0, 1, 2) for y in (0, 1, 2) for d in (-0.2, 0, 0.2)]
    assert [c.rows for c in clusters(nine, 9)] == [(i, i + 1, i + 2) for i in range(0, 27, 3)]


@examples(32)
@given(st.lists(st.tuples(*[st.floats(-1e3, 1e3)] * 3), min_size=4, max_size=40), st.integers(1, 4))
def test_centroids_weighted_by_size_are_the_means_of_all_rows(rows, k):
    assume(len(set(rows)) >= 2 * k)
    found = clusters(rows, k)
    assert found == clusters(rows, k) and sum(c.size for c in found) == len(rows)
    assert np.allclose(sum(c.size * np.array(c.centroid) for c in found) / len(rows), np.mean(rows, axis=0), atol=1e-9)


@pytest.mark.parametrize('call, said', [
    (lambda: power([1, 2], [1, 2]), '2 different x'), (lambda: power([1, 2, 2], [1, 2, 3]), '2 different x'), (lambda: inverse([], []), '0 different x'),
    (lambda: power([1, 2, 3], [1, 2]), '3 x and 2 y'), (lambda: power([0, 1, 2], [1, 2, 3]), 'x must be above 0, and one is 0'),
    (lambda: inverse([1, 2, 3], [1, -2, 3]), 'y must be above 0'), (lambda: power([1, 2, 3], [1, math.nan, 3]), 'y must be finite'),
    (lambda: power([1, 2, 3], ['a', 1, 2]), 'finite'), (lambda: power([1000, 1001, 1002], [1e-300, 1, 1e300]), 'too far apart'),
    (lambda: outliers([]), 'no values'), (lambda: outliers([1, math.inf]), 'finite'),
    (lambda: clusters([[1], [1], [2]], 3), '3 clusters of 2 different rows'), (lambda: clusters([[1], [2]], 0), '0 clusters'),
    (lambda: clusters([[1, 2], [3]], 1), 'as many in each'), (lambda: clusters([[1], [math.nan]], 1), 'finite'), (lambda: clusters([1, 2], 1), 'finite'),
    (lambda: clusters(np.empty((0, 2)), 1), 'no rows'), (lambda: clusters([[1e-200], [0]], 2), '2 clusters of 1 different'),
    (lambda: lu_messages(64, 250, 0), 'at least 1'), (lambda: lu_messages(64, 250, 7), '7 ranks form no grid'),
    (lambda: lu_messages(64, 250, 1024), '64 points over 32 ranks: a block needs 3')])
def test_what_cannot_be_answered_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# ---- figures in print

@pytest.mark.parametrize('kernel, a0', A0.items())
def test_times_by_the_printed_law_give_the_printed_a0(kernel, a0):
    """The study prints the law and no table of times; milliseconds are what a clock of the time would keep."""
    fit = inverse(RANKS, [round(a0 / p, 3) for p in RANKS])
    assert fit.a == pytest.approx(a0, rel=3e-4) and not fit.reason


def test_groups_around_the_printed_centroids_give_table_3():
    """The 456 simulations are not printed: they are planted in pairs, mirrored about the centroids."""
    rows = [[v * (1 + side * 0.2 * (i % 5) / 5) for v in centre] for n, centre in TABLE3.items() for i in range(n // 2) for side in (-1, 1)]
    found = clusters(rows, 2)
    assert [c.size for c in found] == list(TABLE3) and [c.centroid for c in found] == [pytest.approx(c) for c in TABLE3.values()]


@pytest.mark.parametrize('ranks, what, printed, unit', [      # tessera, section 3: "31,000", "1240 B", "1 KB", "130 KB", "56,000", "235 B"
    (4, 'blocking', 31000, 1), (4, 'blocking_bytes', 1240, 1), (8, 'blocking_bytes', 1000, 100),
    (8, 'nonblocking_bytes', 130000, 10000), (128, 'blocking', 56000, 1000), (128, 'blocking_bytes', 235, 1)])
def test_messages_of_lu_are_those_in_print(ranks, what, printed, unit):
    assert round(getattr(lu_messages(64, 250, ranks), what) / unit) * unit == printed


@pytest.mark.parametrize('ranks, receives, irecvs, sent', [(4, 124496, 2040, 4.873e8), (6, 217868, 3569, 7.31e8), (8, 311240, 5098, 9.746e8)])
def test_messages_of_lu_are_those_that_mpip_counts(ranks, receives, irecvs, sent):
    """mpiP 3.5 under NPB 3.4.3 LU, class A, on 2 x 2, 3 x 2 and 4 x 2 ranks, with the warm-up and the surface integral."""
    m, (edges, sides) = lu_messages(64, 250, ranks, warm_up=1), {4: (4, 2), 6: (7, 3), 8: (10, 4)}[ranks]
    assert round(m.blocking * ranks) == receives and round(m.nonblocking * ranks) + edges + 2 * sides == irecvs
    assert ranks * (m.blocking * m.blocking_bytes + m.nonblocking * m.nonblocking_bytes) == pytest.approx(sent, rel=2e-4)
    assert lu_messages(64, 250, 1) == (0, 0, 0, 0)


def test_a_profile_of_lu_gives_its_time_in_receives_and_refuses_another_count():
    calls = replay.room('mpip').read((replay.recorded('mpip') / 'lu.A.4.txt').read_text())[1]['calls']
    receive_seconds = replay.room('npb').receive_seconds
    assert receive_seconds(calls, 'A', 4) == pytest.approx(35.783578 / 4, abs=1e-6)
    with pytest.raises(Wrong, match='124496 receives of LU class A on 8 ranks: must be 310000 or 311240'):
        receive_seconds(calls, 'A', 8)


@pytest.mark.parametrize('seed', range(5))
def test_a_start_that_ends_once_settled_has_the_clusters_of_all_steps(seed):
    points = np.random.default_rng(seed).normal(size=(40, 3))
    centres, cluster_of = fits._settled(points, 4, np.random.default_rng(seed))
    all_steps = kmeans2(points, 4, iter=fits.STEPS, minit='++', missing='raise', rng=np.random.default_rng(seed))
    assert np.array_equal(centres, all_steps[0]) and np.array_equal(cluster_of, all_steps[1])
