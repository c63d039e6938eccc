"""A server that two clients share, over TCP: round trips from a third node, idle, while the first client sends and
after that, and what both clients get while both send.

The second client starts and ends within the transfer of the first one. The study of Murphy and Harton (2007)
measured a cluster's LAN so.
"""

import math
import re
from dataclasses import dataclass
from statistics import fmean

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, variable

from parity.check import Incomplete, Lines, Metric, Paired, Program, Read, Wrong, number, same, sealed, sections

# seconds of a transfer, by size
SIZES = {'quick': 4, 'nightly': 10, 'acceptance': 60}
PROGRAM = Program('sharedlink', title='parity-pairs 1 nodes 3 in-flight 1')
_THREE = r'parity-pair (\S+) (\S+) (\S+)'
_END = r'parity-pair-end (\S+) (\S+) (\S+) exit (?P<exit>-?\d+) seconds \d+\.\d{3}'
TRIPS = ('idle', 'loaded', 'after')
_TRIPS = rf'({"|".join(TRIPS)}) samples \d+ min \S+ median (\S+) p99 \S+ max \S+ us'
_SENT = (r'(?P<name>alone|first|second) asked (?P<asked>\d+) sent (?P<sent>\d+) received (?P<received>\d+) '
         r'seconds (?P<seconds>\S+)')
SHORT = 0.01        # share by which a transfer may be shorter than asked: timers
WHOLE = 0.02        # share of the bytes that may lie outside the parts of a second


@rfm.simple_test
class Shared(rfm.RunOnlyRegressionTest, Paired):
    """The first node and the third one send to the second one. ``seconds`` replaces what the size states."""

    programs = ('tcp.py', 'sharedlink.py', *Paired.programs)
    needs = frozenset({'iperf3'})
    seconds = variable(typ.Str[r'([4-9]|[1-9]\d{1,4})?'], value='')
    metrics = (*(Metric(f'rtt_{name}', 'us', 'lower') for name in TRIPS),
               Metric('alone', 'MB/s', 'higher', limit='link_bandwidth'),
               Metric('sum', 'MB/s', 'higher', limit='link_bandwidth'),
               Metric('first_share', '', 'higher', most=1), Metric('opposed', '', 'higher', zero=True, most=2))

    @run_after('setup')
    def place(self):
        self.ran = int(self.seconds or SIZES[self.size])
        command = ["python3 sharedlink.py --nodes '{pair}'", f'--seconds {self.ran}', '--', self.program('iperf3')]
        self.pair_up(3, 1, command, binding='none', cpus=self.extra('cores') or 1, limit=120 + 4 * self.ran,
                     group='three')

    def parse(self, text):
        values, facts = read(text)
        if facts['seconds'] != self.ran:
            raise Wrong(f'ran for {facts["seconds"]} s, asked for {self.ran} s')
        self.note(facts)
        return values


def read(text: str) -> Read:
    """rtt_idle, rtt_loaded, rtt_after: medians in us, from the third node. alone: MB/s of the first client. sum:
    MB/s of both clients while both send, of which the first one gets first_share. opposed: 1 - the correlation of
    both rates there: 2 where one gets what the other loses.

    Format 1 has no rtt_after. Facts: nodes, seconds; series: of each transfer the MB/s of its parts."""
    nodes, own = _group(PROGRAM.output(text, fold=False).text)
    _, head, out = sealed(own, r'parity-shared ([12]) (\S+) seconds (\d+)', 'parity-shared-crc32 ([0-9a-f]{8})')
    same('the server', head[2], nodes[1])
    seconds = int(head[3])
    trips = _trips(out, TRIPS if head[1] == '2' else TRIPS[:2])
    transfers = _transfers(out, seconds)
    first, second = transfers['first'].parts, transfers['second'].parts
    begin, end = second[0].begin, second[-1].end
    if not first[0].begin <= begin < end <= first[-1].end:
        raise Incomplete('the second transfer is not within the first one')
    own_rates = [_between(first, part.begin, part.end) for part in second]
    first_rate = _between(first, begin, end)
    both = first_rate + _between(second, begin, end)
    values = {f'rtt_{name}': median for name, median in trips.items()}
    values |= {'alone': transfers['alone'].rate, 'sum': both, 'first_share': first_rate / both,
               'opposed': 1 - _correlation(own_rates, [part.rate for part in second])}
    series = {name: [round(part.rate, 3) for part in transfer.parts] for name, transfer in transfers.items()}
    return values, {'nodes': ' '.join(nodes), 'seconds': seconds, 'series': series}


@dataclass(frozen=True)
class Part:
    """A part of a transfer: when it began and ended (s)."""

    begin: float
    end: float
    rate: float         # MB/s


@dataclass(frozen=True)
class Transfer:
    """A transfer: what was received a second (MB/s), and its parts."""

    rate: float
    parts: list[Part]


def _group(text: str) -> tuple[tuple[str, ...], str]:
    """Return the three nodes, and what they printed."""
    out = Lines([line.rstrip('\r') for line in text.split('\n')])
    groups = list(sections(out, _THREE, _END))
    failed = out.count(r'parity-pairs-end failed (\d+)', zero=True)
    if failed or len(groups) != 1:
        raise Incomplete(f'line {out.end}: {len(groups)} groups of nodes ended, there must be 1')
    (match, own), = groups
    return match.groups(), own


def _trips(out: Lines, wanted: tuple[str, ...]) -> dict[str, float]:
    """Return the median round trips (us)."""
    trips = {row[1]: float(number(row[2], 'a round trip')) for row in out.every(_TRIPS)}
    if set(trips) != set(wanted):
        raise Incomplete(f'line {out.end}: {", ".join(trips) or "none"} of {", ".join(wanted)}')
    return {name: trips[name] for name in wanted}


def _transfers(out: Lines, seconds: int) -> dict[str, Transfer]:
    """Return the transfers, of which the second one takes half as long."""
    asked = {'alone': seconds, 'first': seconds, 'second': seconds // 2}
    rows = {row['name']: row for row in out.every(_SENT)}
    if set(rows) != set(asked) or len(out.every('whole')) != 2:
        raise Incomplete(f'line {out.end}: {", ".join(rows) or "none"} of {", ".join(asked)}')
    return {name: _transfer(out, row, asked[name]) for name, row in rows.items()}


def _transfer(out: Lines, row: re.Match[str], asked: int) -> Transfer:
    """Return a transfer, of which the parts have all bytes."""
    name = row['name']
    seconds = float(number(row['seconds'], 'seconds'))
    if int(row['asked']) != asked or seconds < asked * (1 - SHORT):
        raise Incomplete(f'{name}: {row["seconds"]} s, asked for {asked} s')
    parts: list[Part] = []
    total = 0
    for match in out.every(rf'{name} from (\S+) to (\S+) bytes (\d+)'):
        begin = float(number(match[1], f'a part of {name}'))
        end = float(number(match[2], f'a part of {name}'))
        gap = abs(begin - parts[-1].end) if parts else 0.0
        if end <= begin or gap > SHORT * asked:
            raise Wrong(f'{name}: a part from {begin:g} to {end:g} s')
        size = int(match[3])            # 0 where the other client took all
        parts.append(Part(begin, end, size / (end - begin) / 1e6))
        total += size
    sent, received = int(row['sent']), int(row['received'])
    if not received or received > sent or abs(total - sent) > WHOLE * sent:
        raise Wrong(f'{name}: {sent} bytes sent, {received} received, {total} in its parts')
    return Transfer(received / seconds / 1e6, parts)


def _between(parts: list[Part], begin: float, end: float) -> float:
    """The mean rate between two times."""
    megabytes = 0.0
    for part in parts:
        seconds = min(end, part.end) - max(begin, part.begin)
        megabytes += max(0.0, seconds) * part.rate
    return megabytes / (end - begin)


def _correlation(x: list[float], y: list[float]) -> float:
    """Pearson's correlation, 0 of a constant series."""
    x_mean, y_mean = fmean(x), fmean(y)
    dx = [value - x_mean for value in x]
    dy = [value - y_mean for value in y]
    spread = math.sqrt(sum(d * d for d in dx) * sum(d * d for d in dy))
    if not spread:
        return 0.0
    together = sum(one * other for one, other in zip(dx, dy, strict=True))
    return max(-1.0, min(1.0, together / spread))
