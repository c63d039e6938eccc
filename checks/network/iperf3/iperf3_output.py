"""iperf3's client with -J, 3.9 and later: one transfer over TCP or UDP, one stream or several, one way. From 3.16
on every stream has a thread of its own, before all streams share one: figures of the two are not those of one
program, and the facts say which it was. iperf3 may end with exit code 0 although it could not connect: its JSON
then holds an `error`."""

from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal

from pydantic import AliasPath, BaseModel, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from parity.check import Incomplete, Lines, Read, Wrong, document, model, number, same, sealed, sections

THREADING = ('single-threaded', 'multi-threaded')
_SHORT = 0.01       # share by which a transfer may be shorter than asked: timers
_CLOCK = 1e-6       # s: what the seconds are rounded to
_EXACT = 1e-6       # a rate is bytes over seconds, both printed with six decimals or more


def _at(path: str, **more: Any) -> Any:
    """The value at this place of the document."""
    return Field(validation_alias=AliasPath(*path.split('.')), **more)


class _Sum(BaseModel, strict=True, defer_build=True):
    """The sums of one stream, or of all."""

    bytes: NonNegativeInt
    end: NonNegativeFloat
    seconds: PositiveFloat
    bits_per_second: NonNegativeFloat


class _Sent(_Sum):
    retransmits: NonNegativeInt


class _Sender(_Sent):
    """A sender with its kernel's view, once a second: round-trip times in us, window in bytes."""

    min_rtt: NonNegativeInt
    mean_rtt: NonNegativeInt
    max_rtt: NonNegativeInt
    max_snd_cwnd: NonNegativeInt


class _Stream(BaseModel, strict=True, defer_build=True):
    sender: _Sender
    receiver: _Sum


class _Packets(_Sum):
    start: NonNegativeFloat
    end: NonNegativeFloat
    packets: NonNegativeInt
    lost_packets: NonNegativeInt
    jitter_ms: NonNegativeFloat


class _PacketStream(BaseModel, strict=True, defer_build=True):
    udp: _Packets


class _Run(BaseModel, strict=True, defer_build=True):
    version: str = _at('start.version', pattern=r'^iperf 3\.\d{1,3}(\.\d{1,3})?\+?$')
    protocol: Literal['TCP', 'UDP'] = _at('start.test_start.protocol')
    asked: PositiveInt = _at('start.test_start.num_streams')
    block: PositiveInt = _at('start.test_start.blksize')
    duration: NonNegativeFloat = _at('start.test_start.duration')
    reverse: Literal[0] = _at('start.test_start.reverse', default=0)
    bidir: Literal[0] = _at('start.test_start.bidir', default=0)
    omit: Literal[0] = _at('start.test_start.omit', default=0)      # with it, the two sides' sums begin apart
    connected: list[dict[str, Any]] = _at('start.connected')
    streams: list[dict[str, Any]] = _at('end.streams')
    cpu: dict[str, NonNegativeFloat] = _at('end.cpu_utilization_percent')


class _Window(BaseModel, strict=True, defer_build=True):
    snd_cwnd: NonNegativeInt
    snd_wnd: NonNegativeInt = 0         # from 3.11 on
    rtt: NonNegativeInt
    pmtu: NonNegativeInt


class _Second(BaseModel, strict=True, defer_build=True):
    sum: _Sum
    streams: list[_Window]


class _Seconds(BaseModel, strict=True, defer_build=True):
    intervals: list[_Second] = Field(min_length=1)
    sent: _Sum = _at('end.sum_sent')


class _Tcp(_Run, _Seconds):
    streams: list[_Stream] = _at('end.streams')
    sent: _Sent = _at('end.sum_sent')
    received: _Sum = _at('end.sum_received')
    congestion: str = _at('end.sender_tcp_congestion')


class _OldUdp(_Run):            # bytes of the sender, losses and seconds of the receiver
    streams: list[_PacketStream] = _at('end.streams')
    summary: _Packets = _at('end.sum')


class _Udp(_OldUdp):            # from 3.11 on
    sent: _Sum = _at('end.sum_sent')
    received: _Packets = _at('end.sum_received')


def read(text: str) -> Read:
    """rate: what the receiver took, and sent_rate, in MB/s (10^6 bytes) over all streams.

    TCP: retransmits; window (largest congestion window of a stream, bytes); rtt_min, rtt_mean, rtt_max
    (us) as the sender's kernel had them, once a second. UDP: loss (% of the packets sent), jitter (us).

    Facts: version, threading, protocol, streams, seconds (asked for), block (bytes of a write), congestion (TCP),
    local and remote: addresses of the first stream, cpu_local and cpu_remote in %."""
    values = document(text)
    if 'error' in values:
        raise Incomplete(f'iperf3: {str(values["error"])[:160]}')
    run = model(_Run, values)
    version = run.version.removeprefix('iperf ').rstrip('+')
    if _release(version) < (3, 9):
        raise Wrong(f'iperf {version} is not read; valid is 3.9 and later')
    if not run.asked == len(run.connected) == len(run.streams):
        raise Wrong(f'asked for {run.asked} streams; {len(run.connected)} connected, {len(run.streams)} ended')
    tcp, sums = model(_Tcp, values) if run.protocol == 'TCP' else None, _release(version) >= (3, 11)
    if not (tcp or sums) and 'sum_sent' in values['end']:
        raise Wrong(f'iperf {version} over UDP has no end.sum_sent, this output has')
    metrics = _tcp(tcp) if tcp else _udp(model(_Udp if sums else _OldUdp, values))
    first = run.connected[0]
    return metrics, {
        'version': version, 'threading': threading(version), 'protocol': run.protocol.lower(),
        'streams': run.asked, 'seconds': run.duration, 'block': run.block,
        **({'congestion': tcp.congestion} if tcp else {}),
        'local': first.get('local_host'), 'remote': first.get('remote_host'),
        'cpu_local': run.cpu.get('host_total'), 'cpu_remote': run.cpu.get('remote_total')}


@dataclass(frozen=True)
class Series:
    """MB/s (10^6 bytes) that all streams sent in each second, as iperf3 counts them; ``window``: the mean
    congestion window of a stream, bytes; ``mtu`` of the path, bytes; ``advertised``: the largest window that the
    receiver offered, bytes, 0 before 3.11; ``sent``: bytes."""

    rates: list[float]
    window: float
    mtu: int
    advertised: int
    sent: int


def series(text: str) -> Series:
    """Read the seconds of a transfer over TCP. Raises as ``read`` does; seconds must add up to the whole."""
    run = model(_Seconds, document(text))
    total = sum(each.sum.bytes for each in run.intervals)
    streams = [stream for each in run.intervals for stream in each.streams]
    if abs(total - run.sent.bytes) > _SHORT * run.sent.bytes:
        raise Wrong(f'the seconds have {total} bytes, the whole has {run.sent.bytes}')
    if not streams:
        raise Incomplete('the seconds have no streams')
    return Series([_rate(each.sum) if each.sum.bytes else 0.0 for each in run.intervals],
                  fmean(each.snd_cwnd for each in streams), max(each.pmtu for each in streams),
                  max(each.snd_wnd for each in streams), run.sent.bytes)


def threading(version: str) -> str:
    """Return how the streams of this version, for instance 3.12, share threads."""
    return THREADING[_release(version) >= (3, 16)]


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split('.')[:2]))


def _tcp(run: _Tcp) -> dict[str, float]:
    sent, received, senders = run.sent, run.received, [each.sender for each in run.streams]
    _long_enough(sent, run)
    same('bytes sent', sent.bytes, sum(each.bytes for each in senders))
    same('retransmits', sent.retransmits, sum(each.retransmits for each in senders))
    same('bytes received', received.bytes, sum(each.receiver.bytes for each in run.streams))
    if received.bytes > sent.bytes + run.asked * run.block:
        raise Wrong(f'{received.bytes} bytes received, {sent.bytes} sent')
    for each in (sent, received):
        if abs(each.seconds - each.end) > _EXACT * each.end:
            raise Wrong(f'{each.seconds:g} seconds of a transfer that ended after {each.end:g}')
    same('streams of the intervals', {len(each.streams) for each in run.intervals}, {run.asked})
    whole = abs(sent.seconds - sum(each.sum.seconds for each in run.intervals)) < _CLOCK * len(run.intervals)
    for at, sender in enumerate(senders):
        _as_sampled(sender, [each.streams[at] for each in run.intervals], whole)
    return {'rate': _rate(received), 'sent_rate': _rate(sent), 'retransmits': float(sent.retransmits),
            'window': float(max(each.max_snd_cwnd for each in senders)),
            'rtt_min': float(min(each.min_rtt for each in senders)),
            'rtt_mean': sum(each.mean_rtt for each in senders) / len(senders),
            'rtt_max': float(max(each.max_rtt for each in senders))}


def _as_sampled(told: _Sender, samples: list[_Window], whole: bool) -> None:
    """Raise Wrong unless a sender's round-trip times and window are those of its intervals; unless these are the
    ``whole`` transfer, there was one sample more: iperf3 leaves out a last interval that is short and empty."""
    trips = [each.rtt for each in samples]
    last = told.mean_rtt * (len(trips) + 1) - sum(trips)            # at least, and at most len(trips) more
    more = [each for each in (last, told.min_rtt, told.max_rtt) if 0 <= each - last <= len(trips)]
    if (told.min_rtt, told.mean_rtt, told.max_rtt) not in [
            (min(each), sum(each) // len(each), max(each))
            for each in ([trips] if whole else [[*trips, one] for one in more])]:
        raise Wrong(f'round-trip times: minimum {told.min_rtt}, mean {told.mean_rtt}, maximum {told.max_rtt}; the '
                    f'intervals have {", ".join(map(str, trips))}'[:160])
    most = max(each.snd_cwnd for each in samples)
    if told.max_snd_cwnd < most or whole and told.max_snd_cwnd > most:
        raise Wrong(f'the largest window is {told.max_snd_cwnd}, {most} in the intervals')


def _udp(run: _OldUdp) -> dict[str, float]:
    """Loss is of all packets sent: iperf3's own leaves out the last ones, after which none came to show it."""
    told, streams, block = run.summary, [each.udp for each in run.streams], run.block
    _long_enough(streams[0], run)
    for name in ('bytes', 'packets', 'lost_packets'):
        same(name, getattr(told, name), sum(getattr(each, name) for each in streams))
    for what, one, other in (('jitter_ms', told.jitter_ms, fmean(each.jitter_ms for each in streams)),
                             ('seconds', told.seconds, told.end - told.start)):
        if abs(one - other) > _EXACT * max(other, 1e-3):
            raise Wrong(f'end.sum.{what} is {one:g}, {other:g} by what it is made of')
    # from 3.16 on a stream may have counted a packet that it no longer sent
    if not told.packets or not 0 <= told.packets * block - told.bytes <= len(streams) * block:
        raise Wrong(f'{told.packets} packets of {block} bytes are not {told.bytes} bytes')
    received, sent = told, told.model_copy(update={'seconds': streams[0].seconds})
    if isinstance(run, _Udp):
        received, sent = run.received, run.sent
        same('lost packets', received.lost_packets, told.lost_packets)
        same('bytes sent', sent.bytes, told.bytes)
        same('bytes received', received.bytes, (received.packets - received.lost_packets) * block)
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


def _long_enough(told: _Sum, run: _Run) -> None:
    if told.seconds < run.duration * (1 - _SHORT):
        raise Incomplete(f'the transfer ended after {told.seconds:g} s of {run.duration:g} s')


def of_path(pairs: 'list[Ends]', run: str) -> dict[str, float]:
    """Return the medians over pairs: window, window_mean, advertised and sent (bytes), round trips (us), mtu
    (bytes), retransmits (a GB sent), link (MB/s). rtt_idle, advertised and link are absent where they were not
    measured."""
    metrics = [ends.metrics[run] for ends in pairs]
    found = {name: median(each[name] for each in metrics) for name in ('window', 'rtt_min', 'rtt_mean', 'rtt_max')}
    found |= {'window_mean': median(ends.series[run].window for ends in pairs),
              'mtu': float(min(ends.series[run].mtu for ends in pairs)),
              'sent': median(float(ends.series[run].sent) for ends in pairs),
              'retransmits': median(1e3 * each['retransmits'] / (each['sent_rate'] * ends.facts[run]['seconds'])
                                    for each, ends in zip(metrics, pairs, strict=True))}
    idle = [ends.trips['idle']['median'] for ends in pairs if 'idle' in ends.trips]
    rates = [ends.link['rate'] for ends in pairs if 'rate' in ends.link]
    offered = [float(size) for ends in pairs if (size := ends.series[run].advertised)]
    few = {'rtt_idle': idle, 'advertised': offered}
    return found | {name: median(of) for name, of in few.items() if of} | ({'link': min(rates)} if rates else {})


_HEAD, _SEAL = r'parity-tcp 1 \S+ seconds (\d+) runs (\S+)', 'parity-tcp-crc32 ([0-9a-f]{8})'
_RUN, _END = r'parity-tcp-run (\S+)', r'parity-tcp-end (\S+) exit (?P<exit>-?\d+)'
_LINK = r'parity-tcp-link (\S+) driver (\S+) rate (\d+|-) (shaped|whole)'
_TRIPS = r'samples (\d+) min (\S+) median (\S+) p99 (\S+) max (\S+) us'


@dataclass(frozen=True)
class Ends:
    """The figures between two ends: iperf3's by run (tcp:4, udp:1), round trips in us."""

    metrics: dict[str, dict[str, float]]
    facts: dict[str, dict[str, float | str]]
    trips: dict[str, dict[str, float]]      # idle and loaded: samples, min, median, p99, max
    series: dict[str, Series]               # of the runs over TCP
    link: dict[str, float | str]            # interface, driver, shaped; rate: MB/s where it is known
    busiest: float | None                   # % of the busiest core of the first end, in the runs

    @property
    def threading(self) -> str:
        """Threads of iperf3: all runs have one version."""
        return next(iter(self.facts.values()))['threading']


def read_ends(text: str, runs: list[str]) -> Ends:
    """Read the output of tcp.py, which was asked for ``runs``. Raises as ``read`` does, too."""
    _, head, out = sealed(text, _HEAD, _SEAL)
    if head[2] != ','.join(runs):
        raise Wrong(f'ran {head[2].replace(",", ", ")}, asked for {", ".join(runs)}')
    busiest = out.maybe(r'parity-tcp-busiest (\S+) %')
    found = Ends({}, {}, {}, {}, {}, float(number(busiest[1], 'the busiest core', zero=True)) if busiest else None)
    if link := out.maybe(_LINK):
        found.link.update(interface=link[1], driver=link[2], shaped=link[4])
        found.link.update({} if link[3] == '-' else {'rate': int(link[3]) / 1e6})
    for begin, own in sections(out, _RUN, _END):
        if begin[1] in ('idle', 'loaded', 'length'):
            words = Lines(own).one(_TRIPS, 'samples of round trips').groups()
            found.trips[begin[1]] = {name: float(number(word, f'{name} of the round trips')) for name, word in zip(
                ('samples', 'min', 'median', 'p99', 'max'), words, strict=True)}
            continue
        metrics, facts = read(own)
        ran = f'{facts["protocol"]}:{facts["streams"]}'
        if ran != begin[1].removeprefix('load-') or facts['seconds'] != int(head[1]):
            raise Wrong(f'ran {ran} for {facts["seconds"]:g} s, asked for {begin[1]} for {head[1]} s')
        found.metrics[begin[1]], found.facts[begin[1]] = metrics, facts
        if facts['protocol'] == 'tcp':
            found.series[begin[1]] = series(own)
    failed = out.count(r'parity-tcp-last failed (\d+)', zero=True)
    if [name for name in found.metrics if name in runs] != runs or failed:
        raise Incomplete(f'{failed} runs failed; asked for {", ".join(runs)}, found {", ".join(found.metrics)}')
    return found
