"""iperf3 over TCP and UDP, with 1 to 8 streams, and the round-trip time idle and while streams flow.

On one machine its loopback, else between two nodes, and between every two nodes of the partition. From
3.16 on iperf3 has a thread a stream: what came before is another program, and never compared with it.
"""

import reframe as rfm
import reframe.utility.typecheck as typ
from iperf3_output import PROGRAM, THREADING, of_path, read, read_ends  # noqa: F401
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Incomplete, Metric, Paired, Sweep, Wrong, by_pair

# its JSON before 3.9 lacks what is checked


STREAMS = (1, 2, 4, 8)
# of TcpPairs with `pairs`
OF_PATH = (*(Metric(name, 'B', 'higher') for name in ('window', 'window_mean', 'advertised', 'sent', 'mtu')),
           *(Metric(f'rtt_{which}', 'us', 'lower') for which in ('idle', 'min', 'mean', 'max')),
           Metric('retransmits', '1/GB', 'lower', zero=True), Metric('link', 'MB/s', 'higher'))
# figures of a path that are absent where they were not measured
NOT_MEASURED = {'rtt_idle': 'while other pairs send no path is idle',
                'advertised': 'iperf3 before 3.11 does not give it',
                'link': 'the kernel does not say how fast the link is'}
SENT = 1.1          # times what was offered, at most: the last datagram may be whole
BUSY = 80           # % of a core, above which nodes that share it disturb each other
# streams that are run, seconds of each run; by size
SIZES = {'quick': ((1, 4), 1), 'nightly': (STREAMS, 5), 'acceptance': (STREAMS, 30)}


class Iperf3(rfm.RunOnlyRegressionTest, Paired):
    """tcp.py at both ends; all CPUs of a node are free for it."""

    programs = ('tcp.py', *Paired.programs)
    variants = {'threading': THREADING}

    def command(self, runs, seconds, *options):
        return [*options, f'--runs {",".join(runs)} --seconds {seconds}', '--', self.program('iperf3')]

    def at_both_ends(self, nodes, in_flight, runs, seconds, *options, group=''):
        limit = 120 + 2 * seconds * (2 + len(runs))
        self.pair_up(nodes, in_flight, ["python3 tcp.py --pair '{pair}'", *self.command(runs, seconds, *options)],
                     binding='none', cpus=self.extra('cores') or 1, limit=limit, group=group)


@rfm.simple_test
class Tcp(Iperf3):
    """Rates of all streams together; of UDP what came, and the share that did not.

    ``streams`` and ``seconds`` (of each run) replace what the size states. ``length`` is the bytes of a write or
    datagram, of which a round trip is measured, too. ``offered`` is the bits a second of each stream of UDP. Both
    give the jitter of UDP."""

    where = parameter(['within', 'between'], type=str)
    protocol = parameter(['tcp', 'udp'], type=str)
    in_memory = ('length',)
    streams = variable(typ.Str[r'([1-9]\d{0,2}(,[1-9]\d{0,2})*)?'], value='')
    seconds = variable(typ.Str[r'([1-9]\d{0,4})?'], value='')
    length = variable(typ.Str[r'([1-9]\d{0,6})?'], value='')
    offered = variable(typ.Str[r'([1-9]\d{0,5}[KMG]?)?'], value='')

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        self.numbers = tuple(map(int, self.streams.split(','))) if self.streams else SIZES[self.size][0]
        self.metrics = self.of(sorted({*STREAMS, *self.numbers}))
        if self.protocol == 'tcp' and self.length:
            self.metrics += (Metric('round_trip', 'us', 'lower'),)
        if self.protocol == 'tcp':
            self.metrics += (Metric('retransmits', '1/GB', 'lower', zero=True), Metric('rtt_idle', 'us', 'lower'),
                             Metric('rtt_loaded', 'us', 'lower'))

    def of(self, streams):
        """The metrics of runs with so many streams."""
        limit = 'link_bandwidth' if self.where == 'between' else None
        rates = tuple(Metric(f'rate_{n}', 'MB/s', 'higher', limit=limit) for n in streams)
        if self.protocol == 'tcp':
            return rates
        loss = tuple(Metric(f'loss_{n}', '%', 'lower', zero=True, most=100) for n in streams)
        jitter = tuple(Metric(f'jitter_{n}', 'us', 'lower', zero=True) for n in streams)
        return rates + loss + (jitter if self.length or self.offered else ())

    def not_run(self):
        by = f'streams={self.streams}' if self.streams else f'size={self.size}'
        numbers = ' and '.join(map(str, self.numbers))
        run = self.of(self.numbers)
        left_out = [m.name for m in self.of(STREAMS) if m not in run]
        return dict.fromkeys(left_out, f'{by} runs {numbers} streams')

    @run_after('setup')
    def place(self):
        if self.offered and self.protocol == 'tcp':
            self.skip_case('offered: only UDP is offered at a rate')
        if self.protocol == 'udp' and self.where == 'within' and not self.offered:
            self.skip_case('offered: UDP at full rate within a node loses 70 to 92 % of its datagrams; '
                           'offered=1G paces each stream')
        seconds = int(self.seconds or SIZES[self.size][1])
        self.runs = [f'{self.protocol}:{n}' for n in self.numbers]
        options = ['--round-trips'] if self.protocol == 'tcp' else []
        options += [f'--{name} {given}' for name in ('length', 'offered') if (given := getattr(self, name))]
        if self.where == 'between':
            self.at_both_ends(2, 1, self.runs, seconds, *options)
        else:
            self.without_launcher()
            self.num_cpus_per_task = self.extra('cores') or 1
            self.executable = 'python3'
            self.executable_opts = ['tcp.py', *self.command(self.runs, seconds, *options)]

    def parse(self, text):
        own = text if self.where == 'within' else ''.join(by_pair(text).values())
        found = read_ends(own, self.runs)
        self.variant(threading=found.threading)
        facts = [found.facts[run] for run in self.runs]
        runs = {name: {**found.facts[name], **metrics} for name, metrics in found.metrics.items()}
        self.note({'runs': runs, 'round_trips': found.trips, 'seconds': max(each['seconds'] for each in facts)})
        others = {each['block'] for each in facts if self.length} - {int(self.length or 0)}
        if others:
            raise Wrong(f'ran with writes of {others} bytes, asked for {self.length}')
        metrics = {run[4:]: found.metrics[run] for run in self.runs}        # by the number of streams
        values = {f'rate_{n}': metric['rate'] for n, metric in metrics.items()}
        if self.protocol == 'udp':
            return values | self.of_udp(metrics)
        if self.length:
            values['round_trip'] = found.trips['length']['median']
        megabytes = facts[0]['seconds'] * sum(metric['sent_rate'] for metric in metrics.values())
        retransmits = sum(metric['retransmits'] for metric in metrics.values())
        values['retransmits'] = 1000 * retransmits / megabytes
        values['rtt_idle'] = found.trips['idle']['median']
        values['rtt_loaded'] = found.trips['loaded']['median']
        return values

    def of_udp(self, metrics):
        """Losses and jitter by the number of streams; labels the rates of an offered load."""
        if self.offered:
            self.compare_offered(metrics)
            rates = [f'rate_{n}' for n in metrics]
            self.label(rates, 'offered', f'each stream was offered {self.offered}bit/s: no capacity')
        values = {}
        for what in ('loss', 'jitter'):
            for n, metric in metrics.items():
                values[f'{what}_{n}'] = metric[what]
        return values

    def compare_offered(self, own):
        """Raise Wrong where more was sent than offered."""
        factor = {'K': 1e3, 'M': 1e6, 'G': 1e9}.get(self.offered[-1], 1)
        bits = int(self.offered.rstrip('KMG')) * factor
        for n, metrics in own.items():
            sent = 8 * metrics['sent_rate']
            if sent * 1e6 > SENT * bits * int(n):
                raise Wrong(f'sent {sent:.3g} Mbit/s, asked for {n} x {self.offered}')


@rfm.simple_test
class TcpPairs(Iperf3):
    """Four streams from one node to the other of every pair: one pair after another, and all nodes at once.

    ``streams`` and ``seconds`` (of each measurement) replace what the size states. ``pairs`` is a number: at most
    so many pairs, each node in one, the first half of the nodes against the second. Each pair has a metric; beside
    them stand the kernel's windows, round trips and retransmits, the bytes, the link and its MTU."""

    how = parameter(['one-by-one', 'at-once'], type=str)
    streams = variable(typ.Str[r'([1-9]\d{0,2})?'], value='')
    seconds = variable(typ.Str[r'([1-9]\d{0,4})?'], value='')
    pairs = variable(typ.Str[r'([1-9]\d{0,2})?'], value='')
    nodes = variable(typ.Str[r'([1-9]\d{0,5})?'], value='')
    metrics = (Metric('median', 'MB/s', 'higher', limit='link_bandwidth'),
               Metric('worst', 'MB/s', 'higher', limit='link_bandwidth'), Metric('worst_over_median', '', 'lower'))

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        self.runs = [f'tcp:{self.streams or 4}']
        if self.pairs:
            self.metrics += (*(Metric(f'pair_{n}', 'MB/s', 'higher', limit='link_bandwidth')
                               for n in range(1, int(self.pairs) + 1)), *OF_PATH)

    @run_after('setup')
    def place(self):
        alone = self.how == 'one-by-one'
        seconds = int(self.seconds or SIZES[self.size][1])
        if not self.pairs:
            self.at_both_ends(*self.all_pairs(alone), self.runs, seconds)
            return
        options = ['--idle'] if alone else []
        nodes, in_flight = self.disjoint_pairs(int(self.pairs), alone)
        self.at_both_ends(nodes, in_flight, self.runs, seconds, *options, group='disjoint')

    def parse(self, text):
        run, = self.runs
        found = {}
        for pair, own in by_pair(text, bool(self.pairs)).items():
            found[pair] = read_ends(own, self.runs)
        self.variant(threading='+'.join(sorted({ends.threading for ends in found.values()})))
        rates = {pair: ends.metrics[run]['rate'] for pair, ends in found.items()}
        sweep = Sweep(rates, is_time=False)
        pairs = {' '.join(pair): ends.metrics[run] for pair, ends in found.items()}
        self.note({'slowest': ' '.join(sweep.slowest()[1]), 'pairs': pairs})
        if not self.pairs:
            return sweep.metrics()
        return sweep.metrics() | self.of_path(found, run)

    def of_path(self, found, run):
        """The figures with ``pairs``: medians over the pairs, and the rate of each; their seconds are facts."""
        series = {' '.join(pair): ends.series[run].rates for pair, ends in found.items()}
        self.parity['facts'] |= {'series': series, 'link': next(iter(found.values())).link}
        busiest = max(ends.busiest or 0 for ends in found.values())
        if self.how == 'at-once' and self.extra('nodes_share_cpus') and busiest > BUSY:
            raise Incomplete(f'a core was {busiest:.0f} % busy: nodes that share it need it below {BUSY} %')
        values = {f'pair_{n}': ends.metrics[run]['rate'] for n, ends in enumerate(found.values(), 1)}
        values |= of_path(list(found.values()), run)
        none = [m.name for m in self.metrics if m.name.startswith('pair_') and m.name not in values]
        self.leave_out(none, f'there are {len(found)} pairs')
        for name, why in NOT_MEASURED.items():
            if name not in values:
                self.leave_out({name}, why)
        return values
