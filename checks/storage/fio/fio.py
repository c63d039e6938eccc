"""fio 3 (Axboe): rates and latency percentiles of one node, by access pattern, block size and number of jobs.

All jobs are in one file that was written before, each in a part of its own, one operation at a time.
Writes end with fsync. Direct I/O where the file system takes it; else the file is twice the memory, or the
figures are labelled `cached`. The storage server's own cache cannot be seen from a client.
"""

import math

import reframe as rfm
from fio_output import read
from reframe.core.builtins import parameter, run_after, run_before

from parity.check import Code, Metric, Room, Workload, Wrong

# fio 3 is the first that counts in nanoseconds
CODE = Code('fio', spack='fio@3.37', binaries=('fio',), executable='fio', package='fio', beside=('python3',),
            starts=('--version',), version=r'^fio-(\d+\.\d+)', least=(3, 0),
            units={'.*_rate': 'MiB/s', '.*_iops': 'op/s', '.*': 'us'},
            headlines={r'Fio%access=random%operation=read\.rate_4KiB_1': '4 KiB random read',
                       r'Fio%access=sequential%operation=write\.rate_1MiB_1': '1 MiB sequential write'})


MIB = 1 << 20
BLOCKS = {'4KiB': 4096, '1MiB': MIB, '10MiB': 10 * MIB}
JOBS = (1, 2, 4, 8)
# blocks and jobs that are run, bytes of the file, milliseconds of each run; by size
SIZES = {'quick': (('4KiB', '1MiB'), (1,), 160 * MIB, 500),
         'nightly': (tuple(BLOCKS), (1, 8), 4000 * MIB, 5000),
         'acceptance': (tuple(BLOCKS), JOBS, 32000 * MIB, 30000)}
WORDS = {'read': 'read', 'write': 'write', 'mixed': 'rw'}


@rfm.simple_test
class Fio(rfm.RunOnlyRegressionTest, Workload, Room):
    """Rate of all jobs, of `mixed` read and written together; percentiles of the latency of one job alone."""

    access = parameter(['sequential', 'random'])
    operation = parameter(['read', 'write', 'mixed'])

    @run_after('init')
    def declare(self):
        self.metrics = self.of(BLOCKS, JOBS)

    def of(self, blocks, jobs):
        """The metrics of these runs."""
        kinds = ('read_', 'write_') if self.operation == 'mixed' else ('',)
        return (*(Metric(f'rate_{block}_{n}', 'MiB/s', 'higher') for block in blocks for n in jobs),
                *(Metric(f'{kind}{p}_{block}', 'us', 'lower')
                  for kind in kinds for p in ('p50', 'p99') for block in blocks))

    def not_run(self):
        blocks, jobs, *_ = SIZES[self.size]
        run = self.of(blocks, jobs)
        why = f'size={self.size} runs blocks of {", ".join(blocks)}; jobs: {", ".join(map(str, jobs))}'
        return {m.name: why for m in self.metrics if m not in run}

    @run_after('setup')
    def place(self):
        self.blocks, self.jobs, size, self.milliseconds = SIZES[self.size]
        self.without_launcher()
        self.num_cpus_per_task = self.extra('cores') or 1
        # 8 jobs, whole blocks of 10 MiB
        sizes = (math.ceil(each / (80 * MIB)) * 80 * MIB for each in (size, self.bytes_without_direct(size)))
        plans = self.plan_direct(*sizes, 1)     # of the file: what is written in it then is bounded by time
        self.take_room_for_direct(*(plan.repetition_bytes for plan in plans), files=1)
        self.prerun_cmds += [f'part_{jobs}=$((bytes / {jobs}))' for jobs in self.jobs]
        self.prerun_cmds += [f'export folder direct {" ".join(f"part_{jobs}" for jobs in self.jobs)}']
        self.executable, self.executable_opts = self.program('fio'), ['--output-format=json', 'case.fio']

    @run_before('run')
    def write_input(self):
        common = {'filename': '${folder}/data', 'ioengine': 'psync', 'direct': '${direct}', 'overwrite': 1,
                  'end_fsync': 1, 'time_based': 1, 'runtime': f'{self.milliseconds}ms', 'group_reporting': 1,
                  'rw': self.rw()}
        lines = ['[global]', *(f'{key}={value}' for key, value in common.items())]
        for block in self.blocks:
            for jobs in self.jobs:
                lines += [f'[{block}_{jobs}]', 'stonewall', 'new_group', f'bs={BLOCKS[block]}', f'numjobs={jobs}',
                          f'size=${{part_{jobs}}}', f'offset_increment=${{part_{jobs}}}']
        self.stage('case.fio', '\n'.join(lines) + '\n')

    def rw(self):
        return f'{"rand" if self.access == "random" else ""}{WORDS[self.operation]}'

    def parse(self, text):
        values, facts = read(text)
        direct = self.took_direct()
        asked = {f'{block}_{jobs}': (self.rw(), str(BLOCKS[block]), str(jobs), str(int(direct)))
                 for block in self.blocks for jobs in self.jobs}
        ran = {name: tuple(options.get(key) for key in ('rw', 'bs', 'numjobs', 'direct'))
               for name, options in facts['groups'].items()}
        if ran != asked:
            raise Wrong(f'ran rw, bs, numjobs, direct {ran}, asked for {asked}')
        size, *others = {int(options['size']) * int(options['numjobs']) for options in facts['groups'].values()}
        if others:
            raise Wrong(f'the runs had files of {sorted([size, *others])} bytes: it is one file')
        self.note({**facts, **self.caches_known(), 'bytes': size, 'figures': values})
        self.label_memory(direct, size)
        ways = {'mixed': ('read', 'write')}.get(self.operation, (self.operation,))
        rates = {f'rate_{name}': sum(values[f'{name}_{way}_rate'] for way in ways) for name in asked}
        prefix = {way: f'{way}_' if len(ways) > 1 else '' for way in ways}
        return rates | {f'{prefix[way]}{p}_{block}': values[f'{block}_1_{way}_{p}']
                        for way in ways for p in ('p50', 'p99') for block in self.blocks}

    def label_memory(self, direct, size):
        memory, every = self.extra('memory_bytes') or math.inf, [m.name for m in self.metrics]
        if self.is_memory():
            self.label(every, 'cached', f'{self.filesystem_type()} is memory')
        elif not direct and size < 2 * memory:
            self.label(every, 'cached', f'no direct I/O on {self.filesystem_type()}, and a file of '
                       f'{size / 1e9:.3g} GB is less than twice the memory')
