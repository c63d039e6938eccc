"""HPC Challenge (Luszczek, Dongarra et al., 2006): seven codes in one program.

HPL, DGEMM, STREAM, PTRANS, RandomAccess, FFT, and b_eff's latency and bandwidth. `single` figures
are of one rank while the others idle, `star` figures are a rank's while all ranks run.
"""

from pathlib import Path

import reframe as rfm
from hpcc_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import run_after, run_before

from parity.check import Metric, Mpi, Wrong

STREAM = [Metric(f'stream_{how}_{kernel}', 'GB/s', 'higher', limit='memory_bandwidth')
          for how in ('single', 'star') for kernel in ('copy', 'scale', 'add', 'triad')]
# share of memory, and seconds that HPL itself may take, by size; RandomAccess takes as long again
SIZES = {'quick': (0.20, 5), 'nightly': (0.50, 60), 'acceptance': (0.80, 3600)}


@rfm.simple_test
class Hpcc(rfm.RunOnlyRegressionTest, Mpi):
    """HPCC on all cores, one rank a core, one thread a rank."""

    executable = 'hpcc'
    postrun_cmds = ['cat hpccoutf.txt']
    metrics = (
        Metric('hpl', 'Gflop/s', 'higher', limit='peak_flops', ceiling='dgemm_star', ceiling_times_ranks=True),
        Metric('dgemm_single', 'Gflop/s', 'higher', limit='peak_flops_core'),
        Metric('dgemm_star', 'Gflop/s', 'higher', limit='peak_flops_core'),
        *STREAM,
        Metric('ptrans', 'GB/s', 'higher'),
        Metric('randomaccess_single', 'GUP/s', 'higher'),
        Metric('randomaccess_star', 'GUP/s', 'higher'),
        Metric('randomaccess_mpi', 'GUP/s', 'higher'),
        Metric('fft_single', 'Gflop/s', 'higher', limit='peak_flops_core'),
        Metric('fft_star', 'Gflop/s', 'higher', limit='peak_flops_core'),
        Metric('fft_mpi', 'Gflop/s', 'higher', limit='peak_flops'),
        Metric('beff_pingpong_latency_avg', 'us', 'lower'),
        Metric('beff_pingpong_bandwidth_avg', 'GB/s', 'higher'),
        Metric('beff_ring_random_latency', 'us', 'lower'),
        Metric('beff_ring_random_bandwidth', 'GB/s', 'higher'),
    )

    @run_after('setup')
    def place(self):
        self.place_ranks()
        if self.num_tasks == 1:
            network = [metric.name for metric in self.metrics if metric.name.startswith('beff_')]
            self.leave_out(network, 'one rank')

    @run_before('run')
    def write_input(self):
        self.problem = self.dense_problem(*SIZES[self.size])
        self.derive('hpl', self.problem)
        template = Path(self.prefix, 'hpccinf.txt').read_text()
        self.stage('hpccinf.txt', self.problem.into(template))

    def parse(self, text):
        values, facts = read(text)
        for name in ('n', 'nb', 'p', 'q'):  # hpcc answers an input it cannot read with defaults of its own
            if facts[name] != getattr(self.problem, name):
                raise Wrong(f'ran {name.upper()} {facts[name]}, asked for {getattr(self.problem, name)}')
        if facts['processes'] != self.num_tasks:
            raise Wrong(f'ran {facts["processes"]} processes, asked for {self.num_tasks}')
        self.note(facts)
        vector = 8 * facts['stream_vector_length']
        single = [metric.name for metric in STREAM[:4]]
        star = [metric.name for metric in STREAM[4:]]
        self.label_cached(single, vector, self.extra('llc_one_bytes') or self.extra('llc_bytes'))
        self.label_cached(star, vector * self.num_tasks, self.extra('llc_bytes'))
        return values
