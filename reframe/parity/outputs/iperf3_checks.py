"""Whether the figures of one iperf3 run agree with one another: it tells them by interval, stream and sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import Incomplete, Wrong
from .document import Object

if TYPE_CHECKING:
    from .iperf3 import Run

_EXACT = 1e-6       # a rate is bytes over seconds, both printed with six decimals or more
_SHORT = 0.01       # share by which a transfer may be shorter than asked: timers
_LATE = 0.05        # share that threads may send after the last interval was told (3.16 and later)


def tcp(run: Run) -> dict[str, float]:
    """The metrics of a transfer over TCP."""
    sent, received = run.end.object('sum_sent'), run.end.object('sum_received')
    _long_enough(run, sent)
    senders = [each.object('sender') for each in run.end.objects('streams')]
    _agree('bytes received', received.count('bytes'),
           _sum([each.object('receiver') for each in run.end.objects('streams')], 'bytes'))
    for name in ('bytes', 'retransmits'):
        _agree(f'{name} sent', sent.count(name), _sum(senders, name))
    _over_time(run, sent.count('bytes'))
    if received.count('bytes') > sent.count('bytes') + run.streams * run.test.count('blksize'):
        raise Wrong(f'{received.count("bytes")} bytes received, {sent.count("bytes")} sent')
    known = [_of_kernel(sender, [each.objects('streams')[at] for each in run.intervals])
             for at, sender in enumerate(senders)]
    return {'rate': _rate(received), 'sent_rate': _rate(sent), 'retransmits': float(sent.count('retransmits')),
            'window': max(k['window'] for k in known), 'rtt_min': min(k['min_rtt'] for k in known),
            'rtt_mean': sum(k['mean_rtt'] for k in known) / len(known),
            'rtt_max': max(k['max_rtt'] for k in known)}


def udp(run: Run) -> dict[str, float]:
    """The metrics of a transfer over UDP: loss is of all packets that were sent.

    iperf3's own lost_percent leaves out what was lost at the end, after which nothing came to show it.
    """
    told, block = run.end.object('sum'), run.test.count('blksize')
    streams = [each.object('udp') for each in run.end.objects('streams')]
    _long_enough(run, streams[0])
    for name in ('bytes', 'packets'):
        _agree(f'{name} sent', told.count(name), _sum(streams, name))
    _over_time(run, told.count('bytes'))
    _agree('lost packets', told.count('lost_packets'), _sum(streams, 'lost_packets'))
    _near('end.sum.jitter_ms', told.figure('jitter_ms'),
          sum(each.figure('jitter_ms') for each in streams) / len(streams))
    packets, lost = told.count('packets'), told.count('lost_packets')
    # from 3.16 on a stream may have counted a packet that it no longer sent
    if not packets or lost > packets or not 0 <= packets * block - told.count('bytes') <= run.streams * block:
        raise Wrong(f'{packets} packets of {block} bytes, {lost} lost, are not {told.count("bytes")} bytes')
    _near('end.sum.lost_percent', told.figure('lost_percent'), 100 * lost / packets)
    jitter = {'jitter': 1000 * told.figure('jitter_ms')}
    if run.release < (3, 11):                       # these tell the sender's bytes and the receiver's losses
        came, seconds = packets - lost, _seconds(told)
        _near(told.named('bits_per_second'), told.figure('bits_per_second'),
              8 * told.count('bytes') / _seconds(streams[0]))
        rates = {'rate': came * block / seconds / 1e6, 'sent_rate': told.figure('bits_per_second') / 8e6}
    else:
        sent, received = run.end.object('sum_sent'), run.end.object('sum_received')
        came = received.count('packets') - received.count('lost_packets')
        _agree('lost packets', lost, received.count('lost_packets'))
        _agree('bytes received', received.count('bytes'), came * block)
        _agree('bytes sent', told.count('bytes'), sent.count('bytes'))
        rates = {'rate': _rate(received), 'sent_rate': _rate(sent)}
    if not 0 < came <= packets:
        raise (Wrong if came else Incomplete)(f'{came} packets came of {packets}')
    return {**rates, 'loss': 100 * (1 - came / packets), **jitter}


def _of_kernel(sender: Object, samples: list[Object]) -> dict[str, float]:
    """Round-trip times (us) and the largest window (bytes) of a stream; its last sample may be in no interval."""
    least, mean, most, window = (sender.count(name) for name in ('min_rtt', 'mean_rtt', 'max_rtt', 'max_snd_cwnd'))
    trips = [sample.count('rtt') for sample in samples]
    if not least <= min(trips) <= max(trips) <= most or not least <= mean <= most:
        raise Wrong(f'{sender.named("mean_rtt")}: minimum {least}, mean {mean}, maximum {most}, samples {trips}')
    if (seen := max(sample.count('snd_cwnd') for sample in samples)) > window:
        raise Wrong(f'{sender.named("max_snd_cwnd")} is {window}: an interval had {seen}')
    return {'min_rtt': float(least), 'mean_rtt': float(mean), 'max_rtt': float(most), 'window': float(window)}


def _long_enough(run: Run, ended: Object) -> None:
    asked, ran = run.test.figure('duration'), ended.figure('seconds')
    if ran < asked * (1 - _SHORT):
        raise Incomplete(f'the transfer ended after {ran:g} s of {asked:g} s')


def _rate(told: Object) -> float:
    """MB/s (10^6 bytes)."""
    _near(told.named('bits_per_second'), told.figure('bits_per_second'),
          8 * told.count('bytes') / _seconds(told))
    return _positive(told, 'bits_per_second') / 8e6


def _seconds(told: Object) -> float:
    value = _positive(told, 'seconds')
    _near(told.named('seconds'), value, told.figure('end') - told.figure('start'))
    return value


def _positive(told: Object, name: str) -> float:
    value = told.figure(name)
    if not value:
        raise Incomplete(f'{told.named(name)} is 0: nothing was transferred')
    return value


def _sum(several: list[Object], name: str) -> int:
    return sum(each.count(name) for each in several)


def _over_time(run: Run, sent: int) -> None:
    """The intervals together are the transfer, but for what was sent after the last of them."""
    told = sum(_sum(each.objects('streams'), 'bytes') for each in run.intervals)
    if not sent * (1 - _LATE) <= told <= sent:
        raise Wrong(f'bytes sent: {told} by the intervals, {sent} by their sum')


def _agree(what: str, *told: int) -> None:
    if len(set(told)) > 1:
        raise Wrong(f'{what}: {" and ".join(map(str, told))} in one output')


def _near(what: str, told: float, expected: float) -> None:
    if abs(told - expected) > _EXACT * max(expected, 1e-3):
        raise Wrong(f'{what} is {told:g}, {expected:g} by what it is made of')
