"""The model of a TCP path: the numbers that Murphy and Harton print, their slips, and what holds for every path."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.study.tcp_path import Path, little_us, payload_bytes_s

STANDARD, JUMBO = Path(), Path(mtu_bytes=9000)
SWITCHED, JUMBO_SWITCHED = Path(switch=True), Path(mtu_bytes=9000, switch=True)
paths = st.builds(Path, mtu_bytes=st.floats(41, 65535), switch=st.booleans(), rate_bits=st.floats(1e3, 1e12))


@pytest.mark.parametrize('computed, printed', [
    (STANDARD.frame_us, 12.208), (STANDARD.ack_us, .528), (STANDARD.propagation_us, .0334), (STANDARD.rtt_us, 12.803), (100 * STANDARD.stop_and_wait_share, 95.35),
    (STANDARD.bdp_bytes, 1600.375), (STANDARD.segment_bytes, 1460), (STANDARD.window_segments, 2), (JUMBO.frame_us, 72.208), (JUMBO.rtt_us, 72.8028),
    (1000 * JUMBO.stop_and_wait_share, 992), (JUMBO.segment_bytes, 8960), (JUMBO.window_segments, 2), (JUMBO.queue_us(2), 70.557), (JUMBO_SWITCHED.rtt_us, 145.539),
    (JUMBO_SWITCHED.bdp_bytes, 18192.375), (JUMBO_SWITCHED.window_segments, 3), (JUMBO_SWITCHED.queue_us(3), 69.501), (400 - SWITCHED.rtt_us, 374.46)])
def test_the_printed_numbers_follow(computed, printed):
    assert computed == pytest.approx(printed, rel=2e-4, abs=5e-5)


def test_the_printed_delay_of_standard_frames_does_not_follow():
    assert SWITCHED.queue_us(2) == pytest.approx(-2.179, abs=5e-4)
    assert SWITCHED.window_segments == 3 and SWITCHED.queue_us(3) == pytest.approx(9.501, abs=5e-4)
    assert STANDARD.frame_us != pytest.approx(12.280) and SWITCHED.queue_us(3) != pytest.approx(11.152, rel=.1)
    assert JUMBO_SWITCHED.queue_us(3) / SWITCHED.queue_us(3) == pytest.approx(7.315, abs=1e-3), 'print says 6.23'


def test_the_traced_transfer_fills_the_link_and_the_advertised_window_does_not_bound_it():
    assert 117_640_771 / payload_bytes_s(1500) == pytest.approx(.99962, abs=1e-5) and payload_bytes_s(9000) > payload_bytes_s(1500)
    assert little_us(55_745, 117_640_771) == pytest.approx(473.86, abs=.01)
    assert little_us(5_888, 117_640_771) == pytest.approx(50.05, abs=.01), 'below the round trip of an idle path, 100 us'


@given(paths)
def test_a_window_holds_the_product_and_one_segment_less_does_not(path):
    assert (path.window_segments - 1) * path.segment_bytes < path.bdp_bytes * (1 + 1e-9) and path.window_segments * path.segment_bytes >= path.bdp_bytes
    assert path.bdp_bytes == pytest.approx(path.rtt_us * path.rate_bits / 8e6) and 0 < path.stop_and_wait_share < 1


@given(paths, st.integers(1, 100))
def test_a_larger_window_lets_queues_add_more_where_a_frame_is_longer_than_its_acknowledgement(path, window):
    assert (path.queue_us(window + 1) > path.queue_us(window)) == (path.frame_us > path.ack_us)


@given(st.floats(41, 65535), st.floats(1e3, 1e12))
def test_a_switch_has_frame_and_ack_on_the_wire_twice(mtu, rate):
    straight, switched = (Path(mtu_bytes=mtu, rate_bits=rate, switch=switch) for switch in (False, True))
    assert switched.rtt_us - straight.rtt_us == pytest.approx(straight.frame_us + straight.ack_us)
    assert switched.frame_us == straight.frame_us and switched.window_segments >= straight.window_segments


@given(st.floats(53, 65535), st.floats(1e3, 1e12), st.floats(1, 1e9))
def test_payload_is_below_the_link_and_littles_law_turns_round(mtu, rate, unacked):
    ceiling = payload_bytes_s(mtu, rate)
    assert 0 < ceiling < rate / 8 and payload_bytes_s(mtu, 2 * rate) == pytest.approx(2 * ceiling)
    assert little_us(unacked, ceiling) * ceiling / 1e6 == pytest.approx(unacked)


@pytest.mark.parametrize('wrong, name', [
    (lambda: Path(mtu_bytes=0), 'mtu_bytes'), (lambda: Path(mtu_bytes=40), 'mtu_bytes 40: must be above 40'), (lambda: Path(rate_bits=-1), 'rate_bits'),
    (lambda: Path(rate_bits=math.nan), 'rate_bits nan'), (lambda: Path(rate_bits=math.inf), 'rate_bits inf'),
    (lambda: STANDARD.queue_us(0), 'window_segments'),
    (lambda: payload_bytes_s(52), 'mtu_bytes'), (lambda: payload_bytes_s(1500, 0), 'rate_bits'), (lambda: little_us(0, 1), 'unacked_bytes'), (lambda: little_us(1, 0), 'bytes_s')])
def test_an_argument_out_of_range_is_named(wrong, name):
    with pytest.raises(ValueError, match=name):
        wrong()
