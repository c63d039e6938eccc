"""First and second writes of files, by records: fio writes what IOZone's automatic mode writes.

A new file has to be given room; one that is there only takes new contents. Small files are many, so that there
is time to measure.
"""

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, variable

from parity.base import codes
from parity.base.figures import amount
from parity.check import Code, Metric, Room, Workload, Wrong
from parity.check.reader import room

CODE = Code('rewrite', beside=('python3',), units={'.*_rate': 'MiB/s', '.*_iops': 'op/s', '.*': 'us'},
            parts={'storage': ('Rewrite',)})

MIB = 1 << 20
_BLOCK = r'[1-9]\d{0,6}(B|KiB|MiB)'
#: The reader of fio's report: groups with their rates and latencies.
read = room(codes.named('fio')).read
# files and records, by size; IOZone's own of its automatic mode are acceptance's
_POWERS = tuple(f'{1 << n}KiB' if n < 10 else f'{1 << n - 10}MiB' for n in range(2, 20))
SIZES = {'quick': (('64KiB', '8MiB'), ('4KiB', '1MiB')),
            'nightly': (('64KiB', '8MiB', '512MiB'), ('4KiB', '64KiB', '1MiB', '16MiB')),
            'acceptance': (_POWERS[4:], _POWERS[:13])}
WRITTEN = 16 * MIB          # bytes of a group at least: so many small files


@rfm.simple_test
class Rewrite(rfm.RunOnlyRegressionTest, Workload, Room):
    """Write new files by records, and write them again, as IOZone's writer and re-writer do.

    `buffered` is the time of the writes alone, into the page cache; `fsync` that of making, writing and syncing
    the files. ``files`` and ``records`` replace the sizes of these. Of small files there are many."""

    needs = frozenset({'fio'})
    sync = parameter(['buffered', 'fsync'])
    files = variable(typ.Str[rf'({_BLOCK}(,{_BLOCK})*)?'], value='')
    records = variable(typ.Str[rf'({_BLOCK}(,{_BLOCK})*)?'], value='')

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        files, records = (tuple(given.split(',')) if given else known for given, known in
                          zip((self.files, self.records), SIZES[self.size], strict=True))
        self.pairs = {f'{file}_{record}': (int(amount(file)[0]), int(amount(record)[0]))
                      for file in files for record in records}
        self.metrics = tuple(Metric(f'{what}_{pair}', 'MiB/s', 'higher') for what in ('write', 'rewrite')
                             for pair in self.pairs)

    def not_run(self):
        return {f'{what}_{pair}': why for pair, (file, record) in self.pairs.items()
                if (why := beyond(file, record)) for what in ('write', 'rewrite')}

    @run_after('setup')
    def place(self):
        self.without_launcher()
        self.num_cpus_per_task = self.extra('cores') or 1
        ran = [max(WRITTEN, file) for file, record in self.pairs.values() if not beyond(file, record)]
        if not ran:
            self.skip_case('files: none holds one of the records')
        self.plan_bytes([2 * sum(ran)], 1, self.on)
        self.take_room(max(ran), files=max(copies(file) for file, _ in self.pairs.values()))
        self.prerun_cmds += ['export folder']
        self.executable, self.executable_opts = self.program('fio'), ['--output-format=json', 'case.fio']

    @run_before('run')
    def write_input(self):
        # opened when they are written: fio would write the files of the second group before the first one begins
        lines = ['[global]', 'directory=${folder}', 'filename_format=f.$filenum', 'ioengine=psync', 'rw=write',
                 'direct=0', 'create_on_open=1', 'fallocate=none', 'invalidate=0', 'file_service_type=sequential',
                 'group_reporting=1', f'end_fsync={int(self.sync == "fsync")}']
        for name, (record, size, file) in self.groups().items():
            lines += [f'[{name}]', 'stonewall', 'new_group', f'bs={record}', f'filesize={file}',
                      f'nrfiles={copies(file)}', f'size={size}', *(['unlink=1'] if name[0] == 'r' else [])]
        self.stage('case.fio', '\n'.join(lines) + '\n')

    def groups(self):
        """Return the bytes of a record, of all files and of a file of each group that runs, in order."""
        return {f'{what}_{pair}': (record, file * copies(file), file)
                for pair, (file, record) in self.pairs.items() if not beyond(file, record)
                for what in ('write', 'rewrite')}

    def parse(self, text):
        values, facts = read(text)
        asked = {name: ('write', str(record), str(size), '0') for name, (record, size, _) in self.groups().items()}
        ran = {name: tuple(options.get(key) for key in ('rw', 'bs', 'size', 'direct'))
               for name, options in facts['groups'].items()}
        if ran != asked:
            raise Wrong(f'ran rw, bs, size, direct {ran}, asked for {asked}')
        self.note({**facts, **self.caches_known(), 'figures': values})
        every = [m.name for m in self.metrics]
        if self.sync == 'buffered':
            self.label(every, 'cached', 'into the page cache, without fsync')
        elif self.is_memory():
            self.label(every, 'cached', f'{self.filesystem_type()} is memory')
        if self.sync == 'fsync':
            return {name: values[f'{name}_write_rate'] for name in asked}
        return {name: record / values[f'{name}_write_mean'] * 1e6 / MIB
                for name, (record, *_) in self.groups().items()}


def copies(file):
    """Return how many files of so many bytes are written."""
    return max(1, WRITTEN // file)


def beyond(file, record):
    """Return why a file is not written by these records, '' where it is; both in bytes. IOZone, too, leaves small
    records of large files out."""
    if record > file:
        return 'a record is larger than its file'
    if record < 1 << 16 and file >= 1 << 25:
        return 'records below 64 KiB are not run for files of 32 MiB on'
    return ''
