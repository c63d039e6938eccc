"""Intel MPI Benchmarks 2021 (IMB-MPI1): one pair to and fro, a chain, an exchange with two neighbours.

The whole curve up to 16 MiB is stored with the case; three sizes are judged.
"""

import reframe as rfm
from imb_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import parameter, run_after

from parity.check import Metric, Mpi, Wrong

LARGEST = 1 << 24
JUDGED = {'8B': 8, '1MiB': 1 << 20, '16MiB': LARGEST}
BANDWIDTHS = ('1MiB', '16MiB')
# most repetitions of a message size; IMB makes fewer where 40 MB have passed
ITERATIONS = {'quick': 200, 'nightly': 1000, 'acceptance': 4000}


@rfm.simple_test
class Imb(rfm.RunOnlyRegressionTest, Mpi):
    """Two ranks for PingPong, all for Sendrecv and Exchange; time of the smallest message, rate of the larger."""

    benchmark = parameter(['PingPong', 'Sendrecv', 'Exchange'], type=str)
    where = parameter(['within', 'between'], type=str)
    metrics = (Metric('time_8B', 'us', 'lower'),
               *(Metric(f'bandwidth_{size}', 'MB/s', 'higher') for size in BANDWIDTHS))

    @property
    def two_ranks(self):
        return self.benchmark == 'PingPong'

    @run_after('init')
    def bound(self):
        if self.where == 'between' and self.benchmark == 'PingPong':
            self.limit_to('link_bandwidth', 'MB/s')

    @run_after('setup')
    def place(self):
        self.place_where()
        self.executable = self.program('IMB-MPI1')
        iterations, power = ITERATIONS[self.size], LARGEST.bit_length() - 1
        self.executable_opts = [f'-npmin {self.num_tasks}', f'-iter {iterations}', f'-msglog 0:{power}']
        self.executable_opts.append(self.benchmark)

    def parse(self, text):
        curve, facts = read(text, LARGEST)
        ran = f'{facts["benchmark"]} of {facts["processes"]} processes'
        asked = f'{self.benchmark} of {self.num_tasks}'
        if ran != f'{asked} processes':
            raise Wrong(f'ran {ran}, asked for {asked}')
        self.note({**facts, 'curve': curve})
        name = self.benchmark.lower()
        figures = {'time_8B': curve.get(f'{name}_time_8')}
        for size in BANDWIDTHS:
            figures[f'bandwidth_{size}'] = curve.get(f'{name}_bandwidth_{JUDGED[size]}')
        return figures
