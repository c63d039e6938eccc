"""iperf3's client with -J, 3.1 and later: one transfer over TCP or UDP, one stream or several, one way.

Bytes and seconds make each rate, and the streams make the sums. From 3.16 on every stream has a thread of its own,
before all streams share one: figures of the two are not those of one program, and the facts say which it was.
iperf3 may end with exit code 0 although it could not connect: its JSON then holds an `error`."""

import re
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from pydantic import AliasPath, BaseModel, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from parity.check import (
    Incomplete,
    Lines,
    Program,
    Read,
    Unread,
    Wrong,
    document,
    model,
    number,
    same,
    sealed,
    sections,
)

#: The version stands below the addresses of all streams.
PROGRAM = Program('iperf3', title=r'\{(?=\s*(?:\n.*)?"start"\s*:\s*\{).*', tried=('3.9', '3.21'))
TEXT = r'^Connecting to host \S+, port \d+|^Server listening on \d+|^\[ *\d+\] local \S+ port \d+ connected to '
IPERF2 = r'^(Client connecting to|Server listening on) .*(TCP|UDP) port \d+'
STREAMED = r'^\{"event":"start"'

THREADING = ('single-threaded', 'multi-threaded')
FIRST, FIRST_UDP = (3, 1), (3, 9)
_SHORT = 0.01       # share by which a transfer may be shorter than asked: timers
_CLOCK = 1e-6       # s: what the seconds are rounded to
_EXACT = 1e-6       # a rate is bytes over seconds, both printed with six decimals or more
_MEGABYTE = 8e6     # bits


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
    """Only Linux's kernel tells of retransmits."""

    retransmits: NonNegativeInt | None = None


class _Sender(_Sent):
    """A sender with its kernel's view, once a second: round-trip times in us, window in bytes; Linux's has one."""

    min_rtt: NonNegativeInt | None = None
    mean_rtt: NonNegativeInt | None = None
    max_rtt: NonNegativeInt | None = None
    max_snd_cwnd: NonNegativeInt | None = None


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
    protocol: str = _at('start.test_start.protocol')
    asked: PositiveInt = _at('start.test_start.num_streams')
    block: PositiveInt = _at('start.test_start.blksize')
    duration: NonNegativeFloat = _at('start.test_start.duration')
    reverse: NonNegativeInt = _at('start.test_start.reverse', default=0)
    bidir: NonNegativeInt = _at('start.test_start.bidir', default=0)
    omit: NonNegativeInt = _at('start.test_start.omit', default=0)
    connected: list[dict[str, Any]] = _at('start.connected')
    streams: list[dict[str, Any]] = _at('end.streams')
    cpu: dict[str, NonNegativeFloat] = _at('end.cpu_utilization_percent')


class _Window(BaseModel, strict=True, defer_build=True):
    """A second of a stream, as the sender's kernel has it."""

    snd_cwnd: NonNegativeInt | None = None
    snd_wnd: NonNegativeInt = 0         # from 3.11 on
    rtt: NonNegativeInt | None = None
    pmtu: NonNegativeInt = 0            # from 3.2 on


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
    congestion: str | None = _at('end.sender_tcp_congestion', default=None)     # from 3.2 on, of Linux


class _OldUdp(_Run):            # bytes of the sender, losses and seconds of the receiver
    streams: list[_PacketStream] = _at('end.streams')
    summary: _Packets = _at('end.sum')


class _Udp(_OldUdp):            # from 3.11 on
    sent: _Sum = _at('end.sum_sent')
    received: _Packets = _at('end.sum_received')


def read(text: str) -> Read:
    """rate: what the receiver took, and sent_rate, in MB/s (10^6 bytes) over all streams.

    TCP: retransmits; window (largest congestion window of a stream, bytes); rtt_min, rtt_mean, rtt_max (us) as the
    sender's kernel had them, once a second; none where it does not tell. UDP: loss (% of the packets sent), jitter
    (us).

    Facts: version, threading, protocol, streams, seconds (asked for), block (bytes of a write), congestion (TCP),
    local and remote: addresses of the first stream, cpu_local and cpu_remote in %."""
    _refuse_text(text)
    out = PROGRAM.output(text, fold=False)
    values = document(out.text)
    if 'error' in values:
        raise Incomplete(f'iperf3: {str(values["error"])[:160]}')
    version = _version(values)
    run = model(_Run, values)
    _refuse_kinds(run, version, values)
    if not run.asked == len(run.connected) == len(run.streams):
        raise Wrong(f'asked for {run.asked} streams; {len(run.connected)} connected, {len(run.streams)} ended')
    facts = {'version': version, **PROGRAM.untried(version), 'threading': threading(version),
             'protocol': run.protocol.lower(), 'streams': run.asked, 'seconds': run.duration, 'block': run.block}
    if run.protocol == 'TCP':
        tcp = model(_Tcp, values)
        metrics = _tcp(tcp)
        facts |= {'congestion': tcp.congestion} if tcp.congestion else {}
    else:
        metrics = _udp(_udp_model(values, version))
    first = run.connected[0]
    return metrics, facts | {
        'local': first.get('local_host'), 'remote': first.get('remote_host'),
        'cpu_local': run.cpu.get('host_total'), 'cpu_remote': run.cpu.get('remote_total')}


def _refuse_text(text: str) -> None:
    """Raise Unread for text, which has fewer digits, for iperf 2 and for events."""
    if '"start"' in text and not re.search(STREAMED, text, re.MULTILINE):
        return
    if re.search(STREAMED, text, re.MULTILINE):
        raise Unread("iperf3's events (--json-stream): run it with -J")
    if re.search(IPERF2, text, re.MULTILINE):
        raise Unread('iperf 2: iperf3 is read')
    if re.search(TEXT, text, re.MULTILINE):
        raise Unread("iperf3's text: run it with -J")


def _version(values: dict[str, Any]) -> str:
    """Return the version of iperf3, for instance 3.12."""
    start = values.get('start')
    version = start.get('version') if isinstance(start, dict) else None
    if version is None:
        raise Incomplete('start.version is absent')
    numbers = re.fullmatch(r'iperf (3\.\d{1,3}(\.\d{1,3})?)\+?', str(version), re.ASCII)
    if not numbers:
        raise Unread(f'{str(version)[:40]!r}: iperf 3.1 and later are read')
    return numbers[1]


def _refuse_kinds(run: _Run, version: str, values: dict[str, Any]) -> None:
    """Raise Unread for a transfer that is none of one way over TCP or UDP."""
    if 'accepted_connection' in values['start']:
        raise Unread("a server's output (-s): run the client with -J")
    for option, given in (('-R', run.reverse), ('--bidir', run.bidir), ('-O', run.omit)):
        if given:
            raise Unread(f'a transfer with {option}: one way from the client, from its begin on, is read')
    if run.protocol not in ('TCP', 'UDP'):
        raise Unread(f'{run.protocol[:20]} is not read; read are TCP and UDP')
    first = FIRST if run.protocol == 'TCP' else FIRST_UDP
    if _release(version) < first:
        raise Unread(f'iperf {version} over {run.protocol} is not read; '
                     f'{".".join(map(str, first))} and later are read')


def _udp_model(values: dict[str, Any], version: str) -> '_OldUdp':
    """Return the figures over UDP: those of the sender stand apart from 3.11 on."""
    if _release(version) >= (3, 11):
        return model(_Udp, values)
    if 'sum_sent' in values['end']:
        raise Wrong(f'iperf {version} over UDP has no end.sum_sent, this output has')
    return model(_OldUdp, values)


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
    total = sum(interval.sum.bytes for interval in run.intervals)
    if abs(total - run.sent.bytes) > _SHORT * run.sent.bytes:
        raise Wrong(f'the seconds have {total} bytes, the whole has {run.sent.bytes}')
    streams = []
    for interval in run.intervals:
        streams += interval.streams
    if not streams:
        raise Incomplete('the seconds have no streams')
    return Series(rates=[_rate(interval.sum) if interval.sum.bytes else 0.0 for interval in run.intervals],
                  window=fmean(stream.snd_cwnd or 0 for stream in streams),
                  mtu=max(stream.pmtu for stream in streams),
                  advertised=max(stream.snd_wnd for stream in streams),
                  sent=run.sent.bytes)


def threading(version: str) -> str:
    """Return how the streams of this version, for instance 3.12, share threads."""
    return THREADING[_release(version) >= (3, 16)]


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split('.')[:2]))


def _tcp(run: _Tcp) -> dict[str, float]:
    """Return the metrics over TCP."""
    sent, received = run.sent, run.received
    senders = [stream.sender for stream in run.streams]
    _demand_long_enough(sent, run)
    same('bytes sent', sent.bytes, sum(sender.bytes for sender in senders))
    same('bytes received', received.bytes, sum(stream.receiver.bytes for stream in run.streams))
    if received.bytes > sent.bytes + run.asked * run.block:
        raise Wrong(f'{received.bytes} bytes received, {sent.bytes} sent')
    for part in (sent, received):
        if abs(part.seconds - part.end) > _EXACT * part.end:
            raise Wrong(f'{part.seconds:g} seconds of a transfer that ended after {part.end:g}')
    same('streams of the intervals', {len(interval.streams) for interval in run.intervals}, {run.asked})
    metrics = {'rate': _rate(received), 'sent_rate': _rate(sent)}
    if _all_tell([part.retransmits for part in (sent, *senders)], 'retransmits'):
        same('retransmits', sent.retransmits, sum(sender.retransmits for sender in senders))
        metrics['retransmits'] = float(sent.retransmits)
    return metrics | _kernels_view(run, senders)


def _kernels_view(run: _Tcp, senders: list[_Sender]) -> dict[str, float]:
    """Return the windows and round trips, none where the kernel does not tell. Raise Wrong where they are not
    those of the intervals."""
    figures = []
    for sender in senders:
        figures += [sender.min_rtt, sender.mean_rtt, sender.max_rtt, sender.max_snd_cwnd]
    for interval in run.intervals:
        for stream in interval.streams:
            figures += [stream.rtt, stream.snd_cwnd]
    if not _all_tell(figures, 'round-trip times or windows'):
        return {}
    intervals = sum(interval.sum.seconds for interval in run.intervals)
    whole = abs(run.sent.seconds - intervals) < _CLOCK * len(run.intervals)
    for at, sender in enumerate(senders):
        samples = [interval.streams[at] for interval in run.intervals]
        _demand_round_trips(sender, [sample.rtt for sample in samples], whole)
        _demand_window(sender, max(sample.snd_cwnd for sample in samples), whole)
    return {'window': float(max(sender.max_snd_cwnd for sender in senders)),
            'rtt_min': float(min(sender.min_rtt for sender in senders)),
            'rtt_mean': sum(sender.mean_rtt for sender in senders) / len(senders),
            'rtt_max': float(max(sender.max_rtt for sender in senders))}


def _all_tell(figures: list[int | None], what: str) -> bool:
    """Return whether the kernel told all of these or none. Raise Incomplete for some."""
    absent = figures.count(None)
    if 0 < absent < len(figures):
        raise Incomplete(f'{what}: {absent} of {len(figures)} are absent')
    return not absent


def _demand_round_trips(sender: _Sender, trips: list[int], whole: bool) -> None:
    """Raise Wrong unless a sender's round-trip times are those of its intervals. Unless these are the ``whole``
    transfer, there was one sample more: iperf3 leaves out a last interval that is short and empty."""
    samples = [trips]
    if not whole:
        samples = [[*trips, last] for last in _last_trips(sender, trips)]
    for sample in samples:
        mean = sum(sample) // len(sample)
        if (sender.min_rtt, sender.mean_rtt, sender.max_rtt) == (min(sample), mean, max(sample)):
            return
    told = f'minimum {sender.min_rtt}, mean {sender.mean_rtt}, maximum {sender.max_rtt}'
    sampled = ', '.join(map(str, trips))
    raise Wrong(f'round-trip times: {told}; the intervals have {sampled}'[:178])


def _last_trips(sender: _Sender, trips: list[int]) -> list[int]:
    """Return what the sample that was left out may have been: the mean is rounded down."""
    least = sender.mean_rtt * (len(trips) + 1) - sum(trips)
    most = least + len(trips)
    return [trip for trip in (least, sender.min_rtt, sender.max_rtt) if least <= trip <= most]


def _demand_window(sender: _Sender, largest: int, whole: bool) -> None:
    """Raise Wrong unless a sender's largest window is that of its intervals, or of the one left out."""
    told = sender.max_snd_cwnd
    if told < largest or (whole and told > largest):
        raise Wrong(f'the largest window is {told}, {largest} in the intervals')


def _udp(run: _OldUdp) -> dict[str, float]:
    """Loss is of all packets sent: iperf3's own leaves out the last ones, after which none came to show it."""
    total = run.summary
    streams = [stream.udp for stream in run.streams]
    _demand_long_enough(streams[0], run)
    _demand_sums(run, streams)
    received = total
    sent = total.model_copy(update={'seconds': streams[0].seconds})
    if isinstance(run, _Udp):
        received, sent = run.received, run.sent
        same('lost packets', received.lost_packets, total.lost_packets)
        same('bytes sent', sent.bytes, total.bytes)
        same('bytes received', received.bytes, (received.packets - received.lost_packets) * run.block)
    came = received.packets - received.lost_packets
    if not came:
        raise Incomplete(f'0 packets came of {total.packets}')
    if not 0 < came <= total.packets:
        raise Wrong(f'{came} packets came of {total.packets}')
    rate = came * run.block / total.seconds / 1e6
    if isinstance(run, _Udp):
        rate = _rate(received)
    return {'rate': rate, 'sent_rate': _rate(sent), 'loss': 100 * (1 - came / total.packets),
            'jitter': 1000 * total.jitter_ms}


def _demand_sums(run: _OldUdp, streams: list[_Packets]) -> None:
    """Raise Wrong unless the sums over UDP are those of the streams, and packets make bytes."""
    total = run.summary
    for name in ('bytes', 'packets', 'lost_packets'):
        same(name, getattr(total, name), sum(getattr(stream, name) for stream in streams))
    _demand_near('jitter_ms', total.jitter_ms, fmean(stream.jitter_ms for stream in streams))
    _demand_near('seconds', total.seconds, total.end - total.start)
    # from 3.16 on a stream may have counted a packet that it no longer sent
    unsent = total.packets * run.block - total.bytes
    if not total.packets or not 0 <= unsent <= len(streams) * run.block:
        raise Wrong(f'{total.packets} packets of {run.block} bytes are not {total.bytes} bytes')


def _demand_near(what: str, told: float, expected: float) -> None:
    if abs(told - expected) > _EXACT * max(expected, 1e-3):
        raise Wrong(f'end.sum.{what} is {told:g}, {expected:g} by what it is made of')


def _rate(total: _Sum) -> float:
    """MB/s (10^6 bytes), which its bytes and seconds make."""
    if not total.bits_per_second:
        raise Incomplete('bits_per_second is 0: nothing was transferred')
    expected = 8 * total.bytes / total.seconds
    if abs(total.bits_per_second - expected) > _EXACT * expected:
        raise Wrong(f'bits_per_second is {total.bits_per_second:g}, {expected:g} by bytes and seconds')
    return total.bits_per_second / _MEGABYTE


def _demand_long_enough(total: _Sum, run: _Run) -> None:
    if total.seconds < run.duration * (1 - _SHORT):
        raise Incomplete(f'the transfer ended after {total.seconds:g} s of {run.duration:g} s')


def of_path(pairs: 'list[Ends]', run: str) -> dict[str, float]:
    """Return the medians over pairs: window, window_mean, advertised and sent (bytes), round trips (us), mtu
    (bytes), retransmits (a GB sent), link (MB/s). rtt_idle, advertised and link are absent where they were not
    measured."""
    metrics = [ends.metrics[run] for ends in pairs]
    series_of_pairs = [ends.series[run] for ends in pairs]
    found = {name: median(metric[name] for metric in metrics)
             for name in ('window', 'rtt_min', 'rtt_mean', 'rtt_max')}
    found['window_mean'] = median(pair.window for pair in series_of_pairs)
    found['mtu'] = float(min(pair.mtu for pair in series_of_pairs))
    found['sent'] = median(float(pair.sent) for pair in series_of_pairs)
    found['retransmits'] = median(_retransmits(ends, run) for ends in pairs)
    idle = [ends.trips['idle']['median'] for ends in pairs if 'idle' in ends.trips]
    if idle:
        found['rtt_idle'] = median(idle)
    advertised = [float(pair.advertised) for pair in series_of_pairs if pair.advertised]
    if advertised:
        found['advertised'] = median(advertised)
    links = [ends.link['rate'] for ends in pairs if 'rate' in ends.link]
    if links:
        found['link'] = min(links)
    return found


def _retransmits(ends: 'Ends', run: str) -> float:
    """Return the retransmits a GB that was sent."""
    metrics = ends.metrics[run]
    megabytes = metrics['sent_rate'] * ends.facts[run]['seconds']
    return 1e3 * metrics['retransmits'] / megabytes


_HEAD, _SEAL = r'parity-tcp 1 \S+ seconds (\d+) runs (\S+)', 'parity-tcp-crc32 ([0-9a-f]{8})'
_RUN, _END = r'parity-tcp-run (\S+)', r'parity-tcp-end (\S+) exit (?P<exit>-?\d+)'
_LINK = r'parity-tcp-link (\S+) driver (\S+) rate (\d+|-) (shaped|whole)'
_TRIPS = r'samples (?P<samples>\d+) min (?P<min>\S+) median (?P<median>\S+) p99 (?P<p99>\S+) max (?P<max>\S+) us'
_OF_TRIPS = ('idle', 'loaded', 'length')


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
    ends = Ends({}, {}, {}, {}, _link(out), _busiest(out))
    for begin, own in sections(out, _RUN, _END):
        if begin[1] in _OF_TRIPS:
            ends.trips[begin[1]] = _trips(own)
        else:
            _add_run(ends, begin[1], own, int(head[1]))
    failed = out.count(r'parity-tcp-last failed (\d+)', zero=True)
    if [name for name in ends.metrics if name in runs] != runs or failed:
        raise Incomplete(f'{failed} runs failed; asked for {", ".join(runs)}, found {", ".join(ends.metrics)}')
    return ends


def _add_run(ends: Ends, name: str, text: str, seconds: int) -> None:
    """Add a run of iperf3, which was asked for so many seconds."""
    metrics, facts = read(text)
    ran = f'{facts["protocol"]}:{facts["streams"]}'
    if ran != name.removeprefix('load-') or facts['seconds'] != seconds:
        raise Wrong(f'ran {ran} for {facts["seconds"]:g} s, asked for {name} for {seconds} s')
    ends.metrics[name] = metrics
    ends.facts[name] = facts
    if facts['protocol'] == 'tcp':
        ends.series[name] = series(text)


def _link(out: Lines) -> dict[str, float | str]:
    """Return the link between two ends, as the kernel has it."""
    match = out.maybe(_LINK)
    if not match:
        return {}
    link: dict[str, float | str] = {'interface': match[1], 'driver': match[2], 'shaped': match[4]}
    if match[3] != '-':
        link['rate'] = int(match[3]) / 1e6
    return link


def _busiest(out: Lines) -> float | None:
    """Return how busy the busiest core was (%), where it was measured."""
    match = out.maybe(r'parity-tcp-busiest (\S+) %')
    return float(number(match[1], 'the busiest core', zero=True)) if match else None


def _trips(text: str) -> dict[str, float]:
    """Return the round trips (us)."""
    figures = Lines(text).one(_TRIPS, 'samples of round trips').groupdict()
    return {name: float(number(figure, f'{name} of the round trips')) for name, figure in figures.items()}
