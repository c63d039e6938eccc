"""The functions that murphy2007 declares, a model of a TCP path: the numbers that Murphy and Harton print, their slips, what holds for every path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.study import published
from parity.study.published import formula

FUNCTIONS = formula.functions(published.read('murphy2007').functions)
mtus, rates, switches = st.floats(53, 65535), st.floats(1e3, 1e12), st.integers(0, 1)


def of(name, *given):
    return formula.value(f'{name}({", ".join(map(repr, given))})', {}, FUNCTIONS)


@pytest.mark.parametrize('computed, printed', [
    (of('frame_us', 1500, 1e9), 12.208), (of('ack_us', 1e9), .528), (of('propagation_us'), .0334), (of('rtt_us', 1500, 0, 1e9), 12.803),
    (100 * of('stop_and_wait_share', 1500, 0, 1e9), 95.35), (of('bdp_bytes', 1500, 0, 1e9), 1600.375), (of('segment_bytes', 1500), 1460),
    (of('window_segments', 1500, 0, 1e9), 2), (of('frame_us', 9000, 1e9), 72.208), (of('rtt_us', 9000, 0, 1e9), 72.8028),
    (1000 * of('stop_and_wait_share', 9000, 0, 1e9), 992), (of('segment_bytes', 9000), 8960), (of('window_segments', 9000, 0, 1e9), 2),
    (of('queue_us', 9000, 0, 1e9, 2), 70.557), (of('rtt_us', 9000, 1, 1e9), 145.539), (of('bdp_bytes', 9000, 1, 1e9), 18192.375),
    (of('window_segments', 9000, 1, 1e9), 3), (of('queue_us', 9000, 1, 1e9, 3), 69.501), (400 - of('rtt_us', 1500, 1, 1e9), 374.46)])
def test_the_printed_numbers_follow(computed, printed):
    assert computed == pytest.approx(printed, rel=2e-4, abs=5e-5)


def test_the_printed_delay_of_standard_frames_does_not_follow():
    switched = of('queue_us', 1500, 1, 1e9, 3)
    assert of('queue_us', 1500, 1, 1e9, 2) == pytest.approx(-2.179, abs=5e-4)
    assert of('window_segments', 1500, 1, 1e9) == 3 and switched == pytest.approx(9.501, abs=5e-4)
    assert of('frame_us', 1500, 1e9) != pytest.approx(12.280) and switched != pytest.approx(11.152, rel=.1)
    assert of('queue_us', 9000, 1, 1e9, 3) / switched == pytest.approx(7.315, abs=1e-3), 'print says 6.23'


def test_the_traced_transfer_fills_the_link_and_the_advertised_window_does_not_bound_it():
    standard, jumbo = (of('payload_bytes_s', mtu, 1e9) for mtu in (1500, 9000))
    assert 117_640_771 / standard == pytest.approx(.99962, abs=1e-5) and jumbo > standard
    assert of('little_us', 55_745, 117_640_771) == pytest.approx(473.86, abs=.01)
    assert of('little_us', 5_888, 117_640_771) == pytest.approx(50.05, abs=.01), 'below the round trip of an idle path, 100 us'


@given(st.tuples(mtus, switches, rates))
def test_a_window_holds_the_product_and_one_segment_less_does_not(path):
    window, product, segment = of('window_segments', *path), of('bdp_bytes', *path), of('segment_bytes', path[0])
    assert (window - 1) * segment < product * (1 + 1e-9) and window * segment >= product * (1 - 1e-9)
    assert product == pytest.approx(of('rtt_us', *path) * path[2] / 8e6) and 0 < of('stop_and_wait_share', *path) < 1


@given(st.tuples(mtus, switches, rates, st.integers(1, 100)))
def test_a_larger_window_lets_queues_add_more_where_a_frame_is_longer_than_its_acknowledgement(path):
    more = of('queue_us', *path[:3], path[3] + 1) > of('queue_us', *path)
    assert more == (of('frame_us', path[0], path[2]) > of('ack_us', path[2]))


@given(mtus, rates)
def test_a_switch_has_frame_and_ack_on_the_wire_twice(mtu, rate):
    straight, switched = (of('rtt_us', mtu, switch, rate) for switch in (0, 1))
    assert switched - straight == pytest.approx(of('frame_us', mtu, rate) + of('ack_us', rate))
    assert of('window_segments', mtu, 1, rate) >= of('window_segments', mtu, 0, rate)


@given(mtus, rates, st.floats(1, 1e9))
def test_payload_is_below_the_link_and_littles_law_turns_round(mtu, rate, unacked):
    ceiling = of('payload_bytes_s', mtu, rate)
    assert 0 < ceiling < rate / 8 and of('payload_bytes_s', mtu, 2 * rate) == pytest.approx(2 * ceiling)
    assert of('little_us', unacked, ceiling) * ceiling / 1e6 == pytest.approx(unacked)
