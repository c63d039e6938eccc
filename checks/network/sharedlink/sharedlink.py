"""A server that two clients share, over TCP: round trips from a third node, idle, while the first client sends and
after that, and what both clients get while both send.

The second client starts and ends within the transfer of the first one. The study of Murphy and Harton (2007)
measured a cluster's LAN so.
"""

import math
import re
from operator import mul
from statistics import fmean
from typing import NamedTuple

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, variable

from parity.check import Incomplete, Lines, Metric, Paired, Read, Wrong, number, same, sealed, sections

# seconds of a transfer, by size
SIZES = {'quick': 4, 'nightly': 10, 'acceptance': 60}
_THREE = r'parity-pair (\S+) (\S+) (\S+)'
_END = r'parity-pair-end (\S+) (\S+) (\S+) exit (?P<exit>-?\d+) seconds \d+\.\d{3}'
TRIPS = ('idle', 'loaded', 'after')
_TRIPS = rf'({"|".join(TRIPS)}) samples \d+ min \S+ median (\S+) p99 \S+ max \S+ us'
_SENT = r'(alone|first|second) asked (\d+) sent (\d+) received (\d+) seconds (\S+)'
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
        self.pair_up(3, 1, ["python3 sharedlink.py --nodes '{pair}'", f'--seconds {self.ran}', '--',
                            self.program('iperf3')], binding='none', cpus=self.extra('cores') or 1,
                     limit=120 + 4 * self.ran, group='three')

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
    outside = Lines([line.rstrip('\r') for line in text.split('\n')])
    outside.one('parity-pairs 1 nodes 3 in-flight 1')
    groups = list(sections(outside, _THREE, _END))
    if outside.count(r'parity-pairs-end failed (\d+)', zero=True) or len(groups) != 1:
        raise Incomplete(f'line {outside.end}: {len(groups)} groups of nodes ended, there must be 1')
    (nodes, own), = groups
    _, head, out = sealed(own, r'parity-shared ([12]) (\S+) seconds (\d+)', 'parity-shared-crc32 ([0-9a-f]{8})')
    same('the server', head[2], nodes[2])
    wanted = TRIPS if head[1] == '2' else TRIPS[:2]
    seconds, trips = int(head[3]), {row[1]: float(number(row[2], 'a round trip')) for row in out.every(_TRIPS)}
    asked = {'alone': seconds, 'first': seconds, 'second': seconds // 2}
    sent = {row[1]: row for row in out.every(_SENT)}
    if {*trips} != {*wanted} or {*sent} != {*asked} or len(out.every('whole')) != 2:
        raise Incomplete(f'line {out.end}: {", ".join([*trips, *sent])} of {", ".join([*wanted, *asked])}')
    parts = {name: _parts(out, row, asked[name]) for name, row in sent.items()}
    first, second = parts['first'], parts['second']
    if not first[0].begin <= second[0].begin < second[-1].end <= first[-1].end:
        raise Incomplete('the second transfer is not within the first one')
    theirs = [part.rate for part in second]
    own_rates = [_between(first, part.begin, part.end) for part in second]
    both = _between(first, second[0].begin, second[-1].end), _between(second, second[0].begin, second[-1].end)
    rate = int(sent['alone'][4]) / float(number(sent['alone'][5], 'seconds')) / 1e6
    return {**{f'rtt_{name}': trips[name] for name in wanted}, 'alone': rate, 'sum': sum(both),
            'first_share': both[0] / sum(both), 'opposed': 1 - _correlation(own_rates, theirs)}, {
        'nodes': ' '.join(nodes.groups()), 'seconds': seconds,
        'series': {name: [round(part.rate, 3) for part in of] for name, of in parts.items()}}


class _Part(NamedTuple):
    begin: float
    end: float
    rate: float         # MB/s


def _parts(out: Lines, sent: re.Match[str], asked: int) -> list[_Part]:
    """The parts of a transfer, which follow one another and have its bytes."""
    name, ran, of, received, seconds = sent.groups()
    if int(ran) != asked or float(number(seconds, 'seconds')) < asked * (1 - SHORT):
        raise Incomplete(f'{name}: {seconds} s, asked for {asked} s')
    found, total = [], 0
    for row in out.every(rf'{name} from (\S+) to (\S+) bytes (\d+)'):
        begin, end = (float(number(word, f'a part of {name}')) for word in row.groups()[:2])
        size = int(row[3])          # 0 where the other client took all
        if end <= begin or found and abs(begin - found[-1].end) > SHORT * asked:
            raise Wrong(f'{name}: a part from {begin:g} to {end:g} s')
        found.append(_Part(begin, end, size / (end - begin) / 1e6))
        total += size
    if not int(received) or int(received) > int(of) or abs(total - int(of)) > WHOLE * int(of):
        raise Wrong(f'{name}: {of} bytes sent, {received} received, {total} in its parts')
    return found


def _between(parts: list[_Part], begin: float, end: float) -> float:
    """The mean rate between two times."""
    return sum(max(0.0, min(end, p.end) - max(begin, p.begin)) * p.rate for p in parts) / (end - begin)


def _correlation(x: list[float], y: list[float]) -> float:
    """Pearson's correlation, 0 of a constant series."""
    dx, dy = [v - fmean(x) for v in x], [v - fmean(y) for v in y]
    spread = math.sqrt(sum(v * v for v in dx) * sum(v * v for v in dy))
    return max(-1.0, min(1.0, sum(map(mul, dx, dy)) / spread)) if spread else 0.0
