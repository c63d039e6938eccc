"""fio 3 (Axboe): rates and latency percentiles of one node, by access pattern, block size and number of jobs.

All jobs are in one file that was written before, each in a part of its own, one operation at a time.
Writes end with fsync. Direct I/O where the file system takes it; else the file is twice the memory, or the
figures are labelled `cached`. The storage server's own cache cannot be seen from a client.
"""

import math
from statistics import fmean

import reframe as rfm
import reframe.utility.typecheck as typ
from fio_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import parameter, run_after, run_before, variable

from parity.base.figures import amount
from parity.check import Metric, Room, Workload, Wrong

# fio 3 is the first that counts in nanoseconds


MIB = 1 << 20
BLOCKS = {'4KiB': 4096, '1MiB': MIB, '10MiB': 10 * MIB}
JOBS = (1, 2, 4, 8)
# blocks and jobs that are run, bytes of the file, milliseconds of each run; by size
SIZES = {'quick': (('4KiB', '1MiB'), (1,), 160 * MIB, 500),
         'nightly': (tuple(BLOCKS), (1, 8), 4000 * MIB, 5000),
         'acceptance': (tuple(BLOCKS), JOBS, 32000 * MIB, 30000)}
WORDS = {'read': 'read', 'write': 'write', 'mixed': 'rw'}
LEAST_DIRECT = 4096         # bytes of a block
_BLOCK = r'[1-9]\d{0,6}(B|KiB|MiB)'


@rfm.simple_test
class Fio(rfm.RunOnlyRegressionTest, Workload, Room):
    """Rate of all jobs, of `mixed` read and written together; percentiles of the latency of one job alone.

    ``blocks`` runs these instead, through the page cache and by direct I/O, each job in ``bytes`` of its own; with
    the mean latency of an operation. ``jobs`` are their numbers."""

    access = parameter(['sequential', 'random'], type=str)
    operation = parameter(['read', 'write', 'mixed'], type=str)
    in_memory = ('blocks',)
    blocks = variable(typ.Str[rf'({_BLOCK}(,{_BLOCK})*)?'], value='')
    bytes = variable(typ.Str[r'[1-9]\d{0,6}(KiB|MiB|GiB)'], value='20MiB')
    jobs = variable(typ.Str[r'[1-9]\d{0,2}(,[1-9]\d{0,2})*'], value='1,2,4,8')

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        if self.blocks:
            self.block_bytes = {name: int(amount(name)[0]) for name in self.blocks.split(',')}
            self.numbers = tuple(map(int, self.jobs.split(',')))
            kinds = ('rate', 'MiB/s', 'higher'), ('latency', 'us', 'lower')
            groups = [f'{block}_{n}' for block in self.block_bytes for n in self.numbers]
            self.metrics = tuple(Metric(f'{way}{what}_{group}', unit, better) for way in ('', 'direct_')
                                 for what, unit, better in kinds for group in groups)
            return
        names, self.numbers = SIZES[self.size][:2]
        self.block_bytes = {name: BLOCKS[name] for name in names}
        self.metrics = self.of(BLOCKS, JOBS)

    def of(self, blocks, jobs):
        """The metrics of these runs."""
        kinds = ('read_', 'write_') if self.operation == 'mixed' else ('',)
        return (*(Metric(f'rate_{block}_{n}', 'MiB/s', 'higher') for block in blocks for n in jobs),
                *(Metric(f'{kind}{p}_{block}', 'us', 'lower')
                  for kind in kinds for p in ('p50', 'p99') for block in blocks))

    def not_run(self):
        if self.blocks:
            return self.not_direct()
        blocks, jobs, *_ = SIZES[self.size]
        run = self.of(blocks, jobs)
        why = f'size={self.size} runs blocks of {", ".join(blocks)}; jobs: {", ".join(map(str, jobs))}'
        return {m.name: why for m in self.metrics if m not in run}

    def not_direct(self):
        """The metrics of blocks that direct I/O does not take, and why."""
        why = f'direct I/O takes blocks of {LEAST_DIRECT} bytes'
        left_out = {}
        for name, size in self.block_bytes.items():
            if size % LEAST_DIRECT:
                mine = [m.name for m in self.metrics if m.name.startswith('direct') and f'_{name}_' in m.name]
                left_out |= dict.fromkeys(mine, why)
        return left_out

    @run_after('setup')
    def place(self):
        size, self.milliseconds = SIZES[self.size][2:]
        self.without_launcher()
        self.num_cpus_per_task = self.extra('cores') or 1
        # 8 jobs, whole blocks of 10 MiB
        sizes = [math.ceil(each / (80 * MIB)) * 80 * MIB for each in (size, self.bytes_without_direct(size))]
        if self.blocks:
            self.part = int(amount(self.bytes)[0])
            if large := [name for name, each in self.block_bytes.items() if self.part % each]:
                self.skip_case(f'bytes: {self.bytes} are no whole blocks of {large[0]}')
            sizes = 2 * [self.part * max(self.numbers)]
            self.milliseconds //= 2             # of each way
        plans = self.plan_direct(*sizes, 1)     # of the file: what is written in it then is bounded by time
        self.take_room_for_direct(*(plan.repetition_bytes for plan in plans), files=1)
        self.prerun_cmds += [f'part_{jobs}={self.part if self.blocks else f"$((bytes / {jobs}))"}'
                             for jobs in self.numbers]
        self.prerun_cmds += [f'export folder direct {" ".join(f"part_{jobs}" for jobs in self.numbers)}']
        if self.blocks:                         # fio itself would write it in blocks of 1 B
            self.prerun_cmds += ['head -c "$bytes" /dev/urandom >"$folder/data" && sync "$folder/data" || exit 2']
        self.executable, self.executable_opts = self.program('fio'), ['--output-format=json', 'case.fio']

    @run_before('run')
    def write_input(self):
        common = {'filename': '${folder}/data', 'ioengine': 'psync', 'direct': '${direct}', 'overwrite': 1,
                  'end_fsync': 1, 'time_based': 1, 'runtime': f'{self.milliseconds}ms', 'group_reporting': 1,
                  'rw': self.rw()}
        lines = ['[global]']
        lines += [f'{key}={value}' for key, value in common.items()]
        for name, (block, jobs, more) in self.groups().items():
            part = f'${{part_{jobs}}}'
            lines += [f'[{name}]', 'stonewall', 'new_group', f'bs={block}', f'numjobs={jobs}']
            lines += [f'size={part}', f'offset_increment={part}', *more]
        self.stage('case.fio', '\n'.join(lines) + '\n')

    def groups(self):
        """Return the bytes of a block, the jobs and more options of each group that runs, by its name."""
        more = ['direct=0', 'invalidate=0'] if self.blocks else []
        groups, direct = {}, {}
        for name, size in self.block_bytes.items():
            for jobs in self.numbers:
                groups[f'{name}_{jobs}'] = (size, jobs, more)
                if self.blocks and not size % LEAST_DIRECT:
                    direct[f'direct_{name}_{jobs}'] = (size, jobs, [])
        return groups | direct

    def rw(self):
        return f'{"rand" if self.access == "random" else ""}{WORDS[self.operation]}'

    def parse(self, text):
        values, facts = read(text)
        direct = self.took_direct()
        self.compare_asked(facts['groups'], direct)
        size = self.file_bytes(facts['groups'])
        self.note({**facts, **self.caches_known(), 'bytes': size, 'figures': values})
        ways = {'mixed': ('read', 'write')}.get(self.operation, (self.operation,))
        if self.blocks:
            return self.of_blocks(values, ways, direct, size)
        self.label_memory(direct, size)
        rates = {f'rate_{name}': sum(values[f'{name}_{way}_rate'] for way in ways) for name in self.groups()}
        latencies = {}
        for way in ways:
            prefix = f'{way}_' if len(ways) > 1 else ''
            for block in self.block_bytes:
                for p in ('p50', 'p99'):
                    latencies[f'{prefix}{p}_{block}'] = values[f'{block}_1_{way}_{p}']
        return rates | latencies

    def compare_asked(self, ran, direct):
        """Raise Wrong unless the groups that ran are those that were asked for."""
        asked = {}
        for name, (block, jobs, more) in self.groups().items():
            asked[name] = (self.rw(), str(block), str(jobs), '0' if more else str(int(direct)))
        keys = ('rw', 'bs', 'numjobs', 'direct')
        ran = {name: tuple(map(options.get, keys)) for name, options in ran.items()}
        if ran != asked:
            raise Wrong(f'ran rw, bs, numjobs, direct {ran}, asked for {asked}')

    def file_bytes(self, groups):
        """The bytes of the file that all groups share; with `blocks`, of a job's part."""
        sizes = set()
        for options in groups.values():
            jobs = 1 if self.blocks else int(options['numjobs'])
            sizes.add(int(options['size']) * jobs)
        if len(sizes) > 1:
            raise Wrong(f'the runs had files of {sorted(sizes)} bytes: it is one file')
        return sizes.pop()

    def of_blocks(self, values, ways, direct, size):
        """Rate and mean latency of each group; labels those of the page cache."""
        if size != self.part:
            raise Wrong(f'each job had {size} bytes, asked for {self.part}')
        by_way = {'direct_': [], '': []}
        for m in self.metrics:
            by_way['direct_' if m.name.startswith('direct_') else ''].append(m.name)
        file = size * max(self.numbers)
        self.label(by_way[''], 'cached', f'through the page cache, in a file of {file / 1e6:.3g} MB')
        if not direct:
            self.leave_out(by_way['direct_'], f'no direct I/O on {self.filesystem_type()}')
        elif self.is_memory():
            self.label(by_way['direct_'], 'cached', f'{self.filesystem_type()} is memory')
        found = {}
        for group in self.groups():
            prefix, name = ('direct_', group[7:]) if group.startswith('direct_') else ('', group)
            counts = [values[f'{group}_{way}_iops'] for way in ways]
            means = [values[f'{group}_{way}_mean'] for way in ways]
            found[f'{prefix}rate_{name}'] = sum(values[f'{group}_{way}_rate'] for way in ways)
            found[f'{prefix}latency_{name}'] = fmean(means, counts)
        return found

    def label_memory(self, direct, size):
        memory, every = self.extra('memory_bytes') or math.inf, [m.name for m in self.metrics]
        if self.is_memory():
            self.label(every, 'cached', f'{self.filesystem_type()} is memory')
        elif not direct and size < 2 * memory:
            self.label(every, 'cached', f'no direct I/O on {self.filesystem_type()}, and a file of '
                       f'{size / 1e9:.3g} GB is less than twice the memory')
