"""A model of TCP between two hosts: the times of a frame on its way, the window that fills the path, the delay
that queues may add. Arguments and results have their units in their names; nothing is rounded on the way.

The equations are those of Murphy and Harton, 2007, whose numbers are its tests. An argument out of range is a
ValueError with the argument's name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

#: Of IP and TCP without options.
HEADER_BYTES = 40


class Queue(NamedTuple):
    """``us``: the delay that queues may add before a window runs dry. It is negative where the window is too
    small: ``why`` says so. ``enough``: the smallest window, in segments, of which it is not."""

    us: float
    enough: int
    why: str = ''


class RoundTrip(NamedTuple):
    """A round-trip time; ``why`` says that it cannot be one."""

    us: float
    why: str = ''


@dataclass(frozen=True)
class Path:
    """A link of ``rate_bits`` a second and ``cable_m`` from end to end, perhaps with a switch between that stores
    and forwards. ``overhead_bytes``: Ethernet's of a frame; ``ack_bytes``: a whole frame without payload."""

    mtu_bytes: float = 1500
    switch: bool = False
    overhead_bytes: float = 26          # eq. 2: preamble, header, checksum; without the gap between frames
    ack_bytes: float = 66               # eq. 3
    rate_bits: float = 1e9              # eq. 2
    cable_m: float = 6.10               # eq. 15
    cable_ns_m: float = 5.48            # eq. 1

    def __post_init__(self) -> None:
        _above_zero(mtu_bytes=self.mtu_bytes, overhead_bytes=self.overhead_bytes, ack_bytes=self.ack_bytes,
                    rate_bits=self.rate_bits, cable_m=self.cable_m, cable_ns_m=self.cable_ns_m)
        _room(self.mtu_bytes)

    @property
    def frame_us(self) -> float:
        """Time of a full frame on the wire (eq. 2)."""
        return self._on_wire_us(self.mtu_bytes + self.overhead_bytes)

    @property
    def ack_us(self) -> float:
        """Time of an acknowledgement on the wire (eq. 3)."""
        return self._on_wire_us(self.ack_bytes)

    @property
    def propagation_us(self) -> float:
        """Time of a bit in the cable (eq. 15)."""
        return self.cable_m * self.cable_ns_m / 1e3

    @property
    def rtt_us(self) -> float:
        """Time from the first bit of a frame to the last one of its acknowledgement (eq. 17); a switch that stores
        and forwards has both on the wire twice (eq. 27)."""
        return (2 if self.switch else 1) * (self.frame_us + self.ack_us) + 2 * self.propagation_us

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

    def queue(self, window_segments: float) -> Queue:
        """Return the delay that queues may add with a window of so many segments (eq. 13, 25, 30).

        Raise ValueError where no window is enough: frames that take no longer than their acknowledgements."""
        _above_zero(window_segments=window_segments)
        gain = self.frame_us - self.ack_us
        if gain <= 0:
            raise ValueError(f'ack_bytes {self.ack_bytes:g}: a frame of {self.mtu_bytes + self.overhead_bytes:g} '
                             'bytes must be longer')
        us, enough = window_segments * gain - self.rtt_us, math.ceil(self.rtt_us / gain)
        return Queue(us, enough, '' if us >= 0 else
                     f'{window_segments:g} segments are too few: {enough} are the least')

    def _on_wire_us(self, size_bytes: float) -> float:
        return 8e6 * size_bytes / self.rate_bits


def payload_bytes_s(mtu_bytes: float, rate_bits: float = 1e9, overhead_bytes: float = 26, gap_bytes: float = 12,
                    option_bytes: float = 12) -> float:
    """Return the most payload a second over a link: full frames, the gap between frames (IEEE 802.3: 12 bytes),
    and options in TCP's header (timestamps: 12 bytes, RFC 7323)."""
    _above_zero(mtu_bytes=mtu_bytes, rate_bits=rate_bits, overhead_bytes=overhead_bytes)
    _room(mtu_bytes, option_bytes)
    return rate_bits / 8 * (mtu_bytes - HEADER_BYTES - option_bytes) / (mtu_bytes + overhead_bytes + gap_bytes)


def little(unacked_bytes: float, bytes_s: float, idle_us: float = 0.0) -> RoundTrip:
    """Return the round-trip time of a transfer: bytes not yet acknowledged over the throughput (Little, 1961).

    It cannot be below the round trip of an idle path."""
    _above_zero(unacked_bytes=unacked_bytes, bytes_s=bytes_s)
    us = 1e6 * unacked_bytes / bytes_s
    return RoundTrip(us, '' if us >= idle_us else f'{us:.4g} us is below the idle round trip of {idle_us:g} us: '
                                                  f'{unacked_bytes:g} bytes do not bound this transfer')


def _above_zero(**given: float) -> None:
    for name, value in given.items():
        if not 0 < value < math.inf:
            raise ValueError(f'{name} {value}: must be above 0, and finite')


def _room(mtu_bytes: float, option_bytes: float = 0) -> None:
    if mtu_bytes <= (headers := HEADER_BYTES + option_bytes):
        raise ValueError(f'mtu_bytes {mtu_bytes:g}: must be above {headers:g}, the headers of IP and TCP')
