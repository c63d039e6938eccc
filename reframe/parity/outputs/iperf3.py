"""iperf3's client with -J, 3.9 and later: one transfer over TCP or UDP, one stream or several, one way.

From 3.16 on every stream has a thread of its own, before all streams share one: figures of the two are
not those of one program, and the facts say which it was. iperf3 may end with exit code 0 although it
could not connect: its JSON then holds an `error`.
"""

from __future__ import annotations

from statistics import fmean
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from . import Incomplete, Wrong
from .reader import document, model

End = TypeVar('End')
THREADING = ('single-threaded', 'multi-threaded')
_SHORT = 0.01       # share by which a transfer may be shorter than asked: timers
_EXACT = 1e-6       # a rate is bytes over seconds, both printed with six decimals or more


class _Test(BaseModel, strict=True):
    protocol: Literal['TCP', 'UDP']
    num_streams: PositiveInt
    blksize: PositiveInt
    duration: NonNegativeFloat
    reverse: Literal[0] = 0
    bidir: Literal[0] = 0
    omit: Literal[0] = 0                    # with it, the sums of the two sides begin apart


class _Start(BaseModel, strict=True):
    version: Annotated[str, Field(pattern=r'^iperf 3\.\d{1,3}(\.\d{1,3})?\+?$')]
    connected: list[dict[str, Any]]
    test_start: _Test


class _Sum(BaseModel, strict=True):
    """Of one stream, or of all."""

    bytes: NonNegativeInt
    seconds: PositiveFloat
    bits_per_second: NonNegativeFloat


class _Sent(_Sum):
    retransmits: NonNegativeInt


class _Sender(_Sent):
    """With what its kernel knew, once a second: round-trip times in us, window in bytes."""

    min_rtt: NonNegativeInt
    mean_rtt: NonNegativeInt
    max_rtt: NonNegativeInt
    max_snd_cwnd: NonNegativeInt


class _Packets(_Sum):
    start: NonNegativeFloat
    end: NonNegativeFloat
    packets: NonNegativeInt
    lost_packets: NonNegativeInt
    jitter_ms: NonNegativeFloat


class _TcpStream(BaseModel, strict=True):
    sender: _Sender
    receiver: _Sum


class _TcpEnd(BaseModel, strict=True):
    streams: list[_TcpStream]
    sum_sent: _Sent
    sum_received: _Sum
    sender_tcp_congestion: str


class _UdpStream(BaseModel, strict=True):
    udp: _Packets


class _OldUdpEnd(BaseModel, strict=True):
    streams: list[_UdpStream]
    sum: _Packets


class _UdpEnd(_OldUdpEnd):                  # from 3.11 on
    sum_sent: _Sum
    sum_received: _Packets


class _Run(BaseModel, Generic[End], strict=True):
    start: _Start
    end: End


def parse(text: str) -> dict[str, float]:
    """rate: what the receiver took, and sent_rate, in MB/s (10^6 bytes) over all streams.

    TCP: retransmits; window (largest congestion window of a stream, bytes); rtt_min, rtt_mean, rtt_max
    (us) as the sender's kernel had them, once a second. UDP: loss (% of the packets sent), jitter (us).
    """
    return _read(text)[0]


def facts(text: str) -> dict[str, Any]:
    """version, threading, protocol, streams, seconds (asked for), block (bytes of a write), congestion (TCP).

    local and remote: addresses of the first stream; cpu_local and cpu_remote in %.
    """
    return _read(text)[1]


def threading(version: str) -> str:
    """Whether streams share one thread in this version, for instance 3.12, or have one each."""
    return THREADING[_release(version) >= (3, 16)]


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split('.')[:2]))


def _read(text: str) -> tuple[dict[str, float], dict[str, Any]]:
    values = document(text, repeats=True)       # before 3.16, of sockets for every stream
    if 'error' in values:
        raise Incomplete(f'iperf3: {str(values["error"])[:160]}')
    run = model(_Run[dict], values)
    test, version = run.start.test_start, run.start.version.removeprefix('iperf ').rstrip('+')
    if _release(version) < (3, 9):
        raise Wrong(f'iperf {version} is not read; valid is 3.9 and later')
    kind = _TcpEnd if test.protocol == 'TCP' else _UdpEnd if _release(version) >= (3, 11) else _OldUdpEnd
    end, connected = model(_Run[kind], values).end, run.start.connected
    if not test.num_streams == len(connected) == len(end.streams):
        raise Wrong(f'asked for {test.num_streams} streams; {len(connected)} connected, {len(end.streams)} ended')
    cpu = run.end.get('cpu_utilization_percent', {})
    return _tcp(end, test) if kind is _TcpEnd else _udp(end, test), {
        'version': version, 'threading': threading(version), 'protocol': test.protocol.lower(),
        'streams': test.num_streams, 'seconds': test.duration, 'block': test.blksize,
        **({'congestion': end.sender_tcp_congestion} if kind is _TcpEnd else {}),
        'local': connected[0].get('local_host'), 'remote': connected[0].get('remote_host'),
        'cpu_local': cpu.get('host_total'), 'cpu_remote': cpu.get('remote_total')}


def _tcp(end: _TcpEnd, test: _Test) -> dict[str, float]:
    sent, received, senders = end.sum_sent, end.sum_received, [each.sender for each in end.streams]
    _long_enough(sent, test)
    _agree('bytes sent', sent.bytes, sum(each.bytes for each in senders))
    _agree('retransmits', sent.retransmits, sum(each.retransmits for each in senders))
    _agree('bytes received', received.bytes, sum(each.receiver.bytes for each in end.streams))
    if received.bytes > sent.bytes + len(senders) * test.blksize:
        raise Wrong(f'{received.bytes} bytes received, {sent.bytes} sent')
    for each in senders:
        if not each.min_rtt <= each.mean_rtt <= each.max_rtt:
            raise Wrong(f'round-trip times: minimum {each.min_rtt}, mean {each.mean_rtt}, maximum {each.max_rtt}')
    return {'rate': _rate(received), 'sent_rate': _rate(sent), 'retransmits': float(sent.retransmits),
            'window': float(max(each.max_snd_cwnd for each in senders)),
            'rtt_min': float(min(each.min_rtt for each in senders)),
            'rtt_mean': sum(each.mean_rtt for each in senders) / len(senders),
            'rtt_max': float(max(each.max_rtt for each in senders))}


def _udp(end: _OldUdpEnd, test: _Test) -> dict[str, float]:
    """Loss is of all packets sent: iperf3's own leaves out the last ones, after which none came to show it."""
    told, streams, block = end.sum, [each.udp for each in end.streams], test.blksize
    _long_enough(streams[0], test)
    for name in ('bytes', 'packets', 'lost_packets'):
        _agree(name, getattr(told, name), sum(getattr(each, name) for each in streams))
    for what, one, other in (('jitter_ms', told.jitter_ms, fmean(each.jitter_ms for each in streams)),
                             ('seconds', told.seconds, told.end - told.start)):
        if abs(one - other) > _EXACT * max(other, 1e-3):
            raise Wrong(f'end.sum.{what} is {one:g}, {other:g} by what it is made of')
    # from 3.16 on a stream may have counted a packet that it no longer sent
    if not told.packets or not 0 <= told.packets * block - told.bytes <= len(streams) * block:
        raise Wrong(f'{told.packets} packets of {block} bytes are not {told.bytes} bytes')
    # before 3.11: bytes of the sender, losses and seconds of the receiver
    received, sent = told, told.model_copy(update={'seconds': streams[0].seconds})
    if isinstance(end, _UdpEnd):
        received, sent = end.sum_received, end.sum_sent
        _agree('lost packets', received.lost_packets, told.lost_packets)
        _agree('bytes sent', sent.bytes, told.bytes)
        _agree('bytes received', received.bytes, (received.packets - received.lost_packets) * block)
    came = received.packets - received.lost_packets
    if not 0 < came <= told.packets:
        raise (Wrong if came else Incomplete)(f'{came} packets came of {told.packets}')
    return {'rate': _rate(received) if received is not told else came * block / told.seconds / 1e6,
            'sent_rate': _rate(sent), 'loss': 100 * (1 - came / told.packets), 'jitter': 1000 * told.jitter_ms}


def _rate(told: _Sum) -> float:
    """MB/s (10^6 bytes), which its bytes and seconds make."""
    if not told.bits_per_second:
        raise Incomplete('bits_per_second is 0: nothing was transferred')
    expected = 8 * told.bytes / told.seconds
    if abs(told.bits_per_second - expected) > _EXACT * expected:
        raise Wrong(f'bits_per_second is {told.bits_per_second:g}, {expected:g} by bytes and seconds')
    return told.bits_per_second / 8e6


def _long_enough(told: _Sum, test: _Test) -> None:
    if told.seconds < test.duration * (1 - _SHORT):
        raise Incomplete(f'the transfer ended after {told.seconds:g} s of {test.duration:g} s')


def _agree(what: str, one: int, other: int) -> None:
    if one != other:
        raise Wrong(f'{what}: {one} and {other} in one output')
