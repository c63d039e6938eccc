"""HPC Challenge (Luszczek, Dongarra et al., 2006): seven codes in one program.

HPL, DGEMM, STREAM, PTRANS, RandomAccess, FFT, and b_eff's latency and bandwidth. `single` figures
are of one rank while the others idle, `star` figures are a rank's while all ranks run.
"""

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from parity import sizing
from parity.metric import Metric
from parity.outputs import Wrong, hpcc
from parity.workload import Workload

STREAM = [Metric(f'stream_{how}_{kernel}', 'GB/s', 'higher', limit='memory_bandwidth')
          for how in ('single', 'star') for kernel in ('copy', 'scale', 'add', 'triad')]
# share of memory, and seconds that HPL itself may take, by size; RandomAccess takes as long again
SIZES = {'quick': (0.20, 5), 'nightly': (0.50, 60), 'acceptance': (0.80, 3600)}


@rfm.simple_test
class Hpcc(rfm.RunOnlyRegressionTest, Workload):
    """HPCC on all cores, one rank a core, one thread a rank."""

    needs = frozenset({'hpcc'})
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
        self.num_tasks = self.num_tasks_per_node = self.extra('cores') or 1
        self.num_cpus_per_task = 1
        self.env_vars['OPENBLAS_NUM_THREADS'] = self.env_vars['OMP_NUM_THREADS'] = 1

    @run_before('run')
    def write_input(self):
        fraction, seconds = SIZES[self.size]
        guess = self.num_tasks * sizing.gflops_guess((self.extra('machine') or {}).get('simd', ()))
        self.problem = sizing.hpl(self.extra('memory_bytes'), self.num_tasks, fraction, seconds, guess)
        self.derive('hpl', self.problem)
        self.stage('hpccinf.txt', sizing.hpcc_input(self.problem))

    def parse(self, text):
        values, facts = hpcc.parse(text), hpcc.facts(text)
        for name in ('n', 'nb', 'p', 'q'):  # hpcc answers an input it cannot read with defaults of its own
            if facts[name] != getattr(self.problem, name):
                raise Wrong(f'ran {name.upper()} {facts[name]:g}, asked for {getattr(self.problem, name)}')
        self.note(facts)
        vector = 8 * facts['stream_vector_length']
        self.judge_caches('single', vector, self.extra('llc_one_bytes') or self.extra('llc_bytes'))
        self.judge_caches('star', vector * self.num_tasks, self.extra('llc_bytes'))
        if self.num_tasks == 1:
            self.leave_out([m.name for m in self.metrics if m.name.startswith('beff_')], 'one rank')
        return values

    def judge_caches(self, how, array_bytes, cache_bytes):
        """Label STREAM figures whose arrays the last-level caches may hold."""
        names = [m.name for m in STREAM if m.name.startswith(f'stream_{how}_')]
        if not cache_bytes:
            self.label(names, 'cached', 'perhaps: the size of the last-level caches is not known')
        elif sizing.fits_in_cache(array_bytes, cache_bytes):
            self.label(names, 'cached', sizing.cached_reason(array_bytes, cache_bytes))
