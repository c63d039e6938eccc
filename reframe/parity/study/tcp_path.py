"""A model of TCP between two hosts: the times of a frame on its way, the window that fills the path, the delay
that queues may add. Results have their units in their names; nothing is rounded on the way.

The equations are those of Murphy and Harton, 2007, whose numbers are its tests. An argument out of range is a
ValueError with the argument's name."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Of IP and TCP without options.
HEADER_BYTES = 40
#: Options in TCP's header (timestamps, RFC 7323), and the gap between frames (IEEE 802.3).
OPTION_BYTES, GAP_BYTES = 12, 12
#: Ethernet's of a frame: preamble, header, checksum, without the gap (eq. 2).
OVERHEAD_BYTES = 26
#: A whole frame without payload (eq. 3).
ACK_BYTES = 66
#: Time of a bit in a cable of 6.10 m (eq. 1, 15).
PROPAGATION_US = 6.10 * 5.48e-3


@dataclass(frozen=True)
class Path:
    """A link of ``rate_bits`` a second, perhaps with a switch between that stores and forwards."""

    mtu_bytes: float = 1500
    switch: bool = False
    rate_bits: float = 1e9              # eq. 2
    propagation_us = PROPAGATION_US

    def __post_init__(self) -> None:
        _demand_above(HEADER_BYTES, mtu_bytes=self.mtu_bytes)
        _demand_above(0, rate_bits=self.rate_bits)

    @property
    def frame_us(self) -> float:
        """Time of a full frame on the wire (eq. 2)."""
        return 8e6 * (self.mtu_bytes + OVERHEAD_BYTES) / self.rate_bits

    @property
    def ack_us(self) -> float:
        """Time of an acknowledgement on the wire (eq. 3)."""
        return 8e6 * ACK_BYTES / self.rate_bits

    @property
    def rtt_us(self) -> float:
        """Time from the first bit of a frame to the last one of its acknowledgement (eq. 17); a switch that stores
        and forwards has both on the wire twice (eq. 27)."""
        return (2 if self.switch else 1) * (self.frame_us + self.ack_us) + 2 * PROPAGATION_US

    @property
    def bdp_bytes(self) -> float:
        """Product of bandwidth and delay (eq. 18)."""
        return self.rate_bits * self.rtt_us / 8e6

    @property
    def segment_bytes(self) -> float:
        """Payload of a full frame (eq. 19)."""
        return self.mtu_bytes - HEADER_BYTES

    @property
    def window_segments(self) -> int:
        """Whole segments that hold the product of bandwidth and delay (eq. 19)."""
        return math.ceil(self.bdp_bytes / self.segment_bytes)

    @property
    def stop_and_wait_share(self) -> float:
        """Share of the link that is used if each segment waits for the acknowledgement before (5.1.2)."""
        return self.frame_us / self.rtt_us

    def queue_us(self, window_segments: float) -> float:
        """Return the delay that queues may add before a window of so many segments runs dry (eq. 13, 25, 30). It
        is negative where the window is too small."""
        _demand_above(0, window_segments=window_segments)
        return window_segments * (self.frame_us - self.ack_us) - self.rtt_us


def payload_bytes_s(mtu_bytes: float, rate_bits: float = 1e9) -> float:
    """Return the most payload a second over a link: full frames, with the gap between frames and TCP's options."""
    _demand_above(HEADER_BYTES + OPTION_BYTES, mtu_bytes=mtu_bytes)
    _demand_above(0, rate_bits=rate_bits)
    return rate_bits / 8 * (mtu_bytes - HEADER_BYTES - OPTION_BYTES) / (mtu_bytes + OVERHEAD_BYTES + GAP_BYTES)


def little_us(unacked_bytes: float, bytes_s: float) -> float:
    """Return the round-trip time of a transfer: bytes not yet acknowledged over the throughput (Little, 1961)."""
    _demand_above(0, unacked_bytes=unacked_bytes, bytes_s=bytes_s)
    return 1e6 * unacked_bytes / bytes_s


def _demand_above(least: float, **given: float) -> None:
    for name, value in given.items():
        if not least < value < math.inf:
            raise ValueError(f'{name} {value:g}: must be above {least:g}, and finite')
