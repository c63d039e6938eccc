"""A node beside its peers: how often a sound one is called slower, and a slow one is found."""

from __future__ import annotations

import numpy as np
import pytest

from parity.judge.stats import peers


@pytest.mark.parametrize('count', (4, 8, 40))
def test_a_slow_node_is_told_and_sound_ones_are_not(count):
    """Nodes that scatter by 1 %: at chance 1/100 sound ones are called slower about so often, a slow one is found."""
    random, trials = np.random.default_rng(2026), 400
    logs = random.normal(scale=0.01, size=(trials, count, 2))
    sound = sum(each.slower for logs in logs for each in [peers.relative_speed(logs, 0, 0.01)])
    logs[:, 0] -= 0.15
    found = sum(peers.relative_speed(each, 0, 0.01).slower for each in logs)
    assert sound <= 0.02 * trials and found >= 0.95 * trials


#: Tails of what nights scatter by, and the share of jobs that are 10 to 40 % slower.
TAILS = [(tail, share) for tail in ('normal', 't3', 'exponential') for share in (0.0, 0.003, 0.02)]


def nights_of(random, tail: str, share: float, *shape: int) -> np.ndarray:
    drawn = {'normal': random.standard_normal, 't3': lambda size: random.standard_t(3, size) / np.sqrt(3),
             'exponential': lambda size: 1 - random.exponential(size=size)}[tail](shape)
    return 0.01 * drawn + np.where(random.random(shape) < share, np.log1p(-random.uniform(0.1, 0.4, shape)), 0.0)


@pytest.mark.parametrize('tail, share', TAILS)
def test_a_listing_names_no_sound_node_for_its_outliers_and_finds_a_slow_one(tail, share):
    """40 nodes that differ by 0.5 %, with 1 to 8 nights each of 1 %. One in 100 listings may name a sound node."""
    random, trials, wrong, found = np.random.default_rng(2026), 60, 0, 0
    for _ in range(trials):
        logs = nights_of(random, tail, share, 40, 8) + random.normal(scale=0.005, size=(40, 1))
        logs[1:][np.arange(8) >= random.integers(1, 9, 39)[:, None]] = np.nan
        errors = np.full(logs.shape, 1.4826 * np.nanmedian(abs(logs - np.nanmedian(logs))))
        wrong += any(each.slower for each in peers.listed(logs, errors, 0.01 / 40))
        logs[0] -= 0.04
        found += peers.listed(logs, errors, 0.01 / 40, np.array([0]))[0].slower
    assert wrong <= 3 and found >= 0.7 * trials, (wrong, found)


def test_one_night_names_no_node_and_two_that_agree_do():
    logs, errors = np.random.default_rng(1).normal(scale=0.01, size=(40, 8)), np.full((40, 8), 0.01)
    for nights, named in (([-0.4], False), ([-0.4, 0.0], False), ([-0.4, -0.3], True), ([-0.4, 0.0, 0.01], False)):
        logs[0] = [*nights, *[np.nan] * (8 - len(nights))]
        assert peers.listed(logs, errors, 0.01 / 40)[0].slower == named, nights


@pytest.mark.parametrize('mended, named', [(1, 1.0), (2, 0.0)])
def test_a_mended_node_is_named_until_two_good_nights(mended, named):
    random, found = np.random.default_rng(1), []
    for _ in range(50):
        logs = random.normal(scale=0.01, size=(40, 8))
        logs[0, mended:] -= 0.1
        found.append(peers.listed(logs, np.full(logs.shape, 0.01), 0.01 / 40, np.array([0]))[0].slower)
    assert abs(np.mean(found) - named) <= 0.06


def test_two_nights_that_a_quarter_of_the_peers_nights_are_as_low_as_name_no_node():
    logs, errors = np.random.default_rng(1).normal(scale=0.01, size=(40, 8)), np.full((40, 8), 0.01)
    logs[1:, 3:5] = -0.4
    logs[0] = [-0.4, -0.4, *[np.nan] * 6]
    assert not peers.listed(logs, errors, 0.01 / 40)[0].slower


def test_the_chance_that_both_of_two_nights_are_so_low():
    # none of four nights is 10 errors low; one in 50 counts as 25 nights
    pool = np.array([-2.0, -1.0, 0.0, 1.0])
    assert peers._agreed(np.array([-0.1, -0.1]), np.array([0.01, 0.01]), -0.1, pool) == pytest.approx((0.5 / 29) ** 2)
    assert peers._agreed(np.array([-0.015, -0.015]), np.array([0.01, 0.01]), -0.015, pool) == pytest.approx((1.5 / 29) ** 2)
    assert peers._agreed(np.array([-0.1]), np.array([0.01]), -0.1, pool) == 1, 'one night is never enough'


def test_too_few_peers_say_nothing():
    assert peers.relative_speed(np.array([[0.0], [0.0], [-0.7]]), 2, 0.01) is None
    own = np.array([[np.nan, 1.0], [0.0, np.nan], [0.0, np.nan], [0.0, np.nan], [-0.5, np.nan]])
    assert [each and each.slower for each in (peers.relative_speed(own, at, 0.01) for at in range(5))] == [None, False, False, False, True]


@pytest.mark.parametrize('good, share, found', [(2, 0.9, True), (1, 0.9, False), (2, 0.99, False)])
def test_two_nights_clear_of_its_former_speed_show_a_node_mended(good, share, found):
    logs = np.tile(np.linspace(-0.004, 0.004, 8), (10, 1))
    logs[0, good:] = np.log(share)
    assert peers.mended([(logs, np.full(logs.shape, 0.01), 0, share)]) == found
    assert not peers.mended([(logs[:2], np.full((2, 8), 0.01), 0, share)]), 'one peer says nothing'


@pytest.mark.parametrize('drop, slower', [(0.025, False), (0.0295, False), (0.0305, True)])
def test_a_drop_of_less_than_3_percent_names_no_node_however_close_its_peers_are(drop, slower):
    logs = np.random.default_rng(1).normal(scale=0.0001, size=(40, 8))
    logs[0] += np.log1p(-drop)
    told = peers.relative_speed(logs, 0, 0.01), peers.listed(logs, np.full(logs.shape, 0.001), 0.01 / 40)[0]
    assert [each.slower for each in told] == [slower] * 2 and all(each.clear == pytest.approx(0.03) for each in told)


def test_of_many_nodes_one_stands_beside_all_as_beside_the_others(monkeypatch):
    """1,100 nodes, one 5 % slower. Their own scores move the centre by less than a thousandth of what shows."""
    random = np.random.default_rng(2026)
    logs = nights_of(random, 'normal', 0.0, 1100, 3)
    logs[7] -= 0.05
    errors = np.full(logs.shape, 0.01)
    beside_all = peers.listed(logs, errors, 0.01 / 1100)
    monkeypatch.setattr(peers, '_LARGE', 1100)
    beside_others = peers.listed(logs, errors, 0.01 / 1100)
    assert beside_all != beside_others
    assert [place for place, speed in enumerate(beside_all) if speed.slower] == [7]
    assert [place for place, speed in enumerate(beside_others) if speed.slower] == [7]
    for one, other in zip(beside_all, beside_others, strict=True):
        assert one.peers == other.peers == 1099
        assert one[:1] + one[2:3] == pytest.approx(other[:1] + other[2:3], abs=1e-4)
