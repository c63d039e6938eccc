"""iperf3 over TCP and UDP, with 1 to 8 streams, and the round-trip time idle and while streams flow.

On one machine its loopback, else between two nodes, and between every two nodes of the partition. From
3.16 on iperf3 has a thread a stream: what came before is another program, and never compared with it.
"""

import reframe as rfm
from iperf3_output import THREADING, read_ends
from iperf3_output import read as read
from reframe.core.builtins import parameter, run_after

from parity.check import Code, Metric, Paired, Sweep, by_pair

# its JSON before 3.9 lacks what is checked
CODE = Code('iperf3', spack='iperf3@3.17.1', binaries=('iperf3',), executable='iperf3', package='iperf3',
            beside=('python3',), starts=('--version',), version=r'^iperf (\d+\.\d+)', least=(3, 9),
            units={'.*rate': 'MB/s', 'rtt_.*|jitter': 'us', 'window': 'B', 'loss': '%'},
            headlines={r'Tcp%where=between%protocol=tcp\.rate_4': 'TCP between two nodes, 4 streams',
                       r'Tcp%where=within%protocol=tcp\.rate_4': 'TCP within a node, 4 streams'})


STREAMS = (1, 2, 4, 8)
# streams that are run, seconds of each run; by size
SIZES = {'quick': ((1, 4), 1), 'nightly': (STREAMS, 5), 'acceptance': (STREAMS, 30)}


class Iperf3(rfm.RunOnlyRegressionTest, Paired):
    """programs/tcp.py at both ends; all CPUs of a node are free for it."""

    programs = ('tcp.py', *Paired.programs)
    variants = {'threading': THREADING}

    def command(self, runs, seconds, *options):
        return [*options, f'--runs {",".join(runs)} --seconds {seconds}', '--', self.program('iperf3')]

    def at_both_ends(self, nodes, in_flight, runs, seconds, *options):
        limit = 120 + 2 * seconds * (2 + len(runs))
        self.pair_up(nodes, in_flight, ["python3 tcp.py --pair '{pair}'", *self.command(runs, seconds, *options)],
                     binding='none', cpus=self.extra('cores') or 1, limit=limit)


@rfm.simple_test
class Tcp(Iperf3):
    """Rates of all streams together; of UDP what came, and the share that did not."""

    where = parameter(['within', 'between'])
    protocol = parameter(['tcp', 'udp'])

    @run_after('init')
    def declare(self):
        self.metrics = self.of(STREAMS)
        if self.protocol == 'tcp':
            self.metrics += (Metric('retransmits', '1/GB', 'lower', zero=True), Metric('rtt_idle', 'us', 'lower'),
                             Metric('rtt_loaded', 'us', 'lower'))

    def of(self, streams):
        """The metrics of runs with so many streams."""
        limit = 'link_bandwidth' if self.where == 'between' else None
        rates = tuple(Metric(f'rate_{n}', 'MB/s', 'higher', limit=limit) for n in streams)
        return rates + tuple(Metric(f'loss_{n}', '%', 'lower', zero=True, most=100)
                             for n in streams if self.protocol == 'udp')

    def not_run(self):
        streams = SIZES[self.size][0]
        why, run = f'size={self.size} runs {" and ".join(map(str, streams))} streams', self.of(streams)
        return {m.name: why for m in self.of(STREAMS) if m not in run}

    @run_after('setup')
    def place(self):
        streams, seconds = SIZES[self.size]
        self.runs = [f'{self.protocol}:{n}' for n in streams]
        options = ['--round-trips'] if self.protocol == 'tcp' else []
        if self.where == 'between':
            self.at_both_ends(2, 1, self.runs, seconds, *options)
        else:
            self.without_launcher()
            self.num_cpus_per_task = self.extra('cores') or 1
            self.executable = 'python3'
            self.executable_opts = ['tcp.py', *self.command(self.runs, seconds, *options)]

    def parse(self, text):
        found = read_ends(text if self.where == 'within' else ''.join(by_pair(text).values()), self.runs)
        self.variant(threading=found.threading)
        self.note({'runs': {name: {**found.facts[name], **found.metrics[name]} for name in found.metrics},
                   'round_trips': found.trips})
        own = {run[4:]: found.metrics[run] for run in self.runs}
        values = {f'rate_{n}': metrics['rate'] for n, metrics in own.items()}
        if self.protocol == 'udp':
            return values | {f'loss_{n}': metrics['loss'] for n, metrics in own.items()}
        sent = SIZES[self.size][1] * sum(metrics['sent_rate'] for metrics in own.values()) / 1000
        return values | {'retransmits': sum(metrics['retransmits'] for metrics in own.values()) / sent,
                         'rtt_idle': found.trips['idle']['median'], 'rtt_loaded': found.trips['loaded']['median']}


@rfm.simple_test
class TcpPairs(Iperf3):
    """Four streams from one node to the other of every pair: one pair after another, and all nodes at once."""

    how = parameter(['one-by-one', 'at-once'])
    metrics = (Metric('median', 'MB/s', 'higher', limit='link_bandwidth'),
               Metric('worst', 'MB/s', 'higher', limit='link_bandwidth'), Metric('worst_over_median', '', 'lower'))

    @run_after('setup')
    def place(self):
        self.at_both_ends(*self.all_pairs(self.how == 'one-by-one'), ['tcp:4'], SIZES[self.size][1])

    def parse(self, text):
        found = {pair: read_ends(own, ['tcp:4']) for pair, own in by_pair(text).items()}
        self.variant(threading='+'.join(sorted({ends.threading for ends in found.values()})))
        sweep = Sweep({pair: ends.metrics['tcp:4']['rate'] for pair, ends in found.items()}, is_time=False)
        self.note({'slowest': ' '.join(sweep.slowest()[1]),
                   'pairs': {' '.join(pair): ends.metrics['tcp:4'] for pair, ends in found.items()}})
        return sweep.metrics()
