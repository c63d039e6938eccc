"""First and second writes of files, by records: IOZone 3 (Norcott, Capps) in automatic mode, or fio in its place.

A new file has to be given room; one that is there only takes new contents. IOZone writes one file of each size.
fio writes many small ones, so that there is time to measure.
"""

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, variable
from rewrite_output import PROGRAM, TOOLS, name_of, read  # noqa: F401

from parity.base.figures import amount
from parity.check import Metric, Room, Workload, Wrong

# 3.489 is the oldest release whose report was recorded

MIB = 1 << 20
_BLOCK = r'[1-9]\d{0,6}(B|KiB|MiB)'
# files and records, by size; IOZone's own of its automatic mode are acceptance's
_POWERS = tuple(f'{1 << n}KiB' if n < 10 else f'{1 << n - 10}MiB' for n in range(2, 20))
SIZES = {'quick': (('64KiB', '8MiB'), ('4KiB', '1MiB')),
            'nightly': (('64KiB', '8MiB', '512MiB'), ('4KiB', '64KiB', '1MiB', '16MiB')),
            'acceptance': (_POWERS[4:], _POWERS[:13])}
WRITES = ('write', 'rewrite')
ODD = 'IOZone writes whole records of whole KiB, up to 16 MiB'
WRITTEN = 16 * MIB          # bytes of a group of fio's at least: so many small files


@rfm.simple_test
class Rewrite(rfm.RunOnlyRegressionTest, Workload, Room):
    """Write new files by records, and write them again, as IOZone's writer and re-writer do.

    `buffered` is the time of the writes alone, into the page cache; `fsync` that of writing and syncing the files,
    and with fio of making them. ``files`` and ``records`` replace the sizes of these."""

    needs, instead = frozenset({'fio'}), {'fio': 'iozone'}
    variants = {'tool': TOOLS}
    sync = parameter(['buffered', 'fsync'], type=str)
    files = variable(typ.Str[rf'({_BLOCK}(,{_BLOCK})*)?'], value='')
    records = variable(typ.Str[rf'({_BLOCK}(,{_BLOCK})*)?'], value='')

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        files, records = SIZES[self.size]
        if self.files:
            files = self.files.split(',')
        if self.records:
            records = self.records.split(',')
        self.pairs = {}
        for file in files:
            for record in records:
                self.pairs[f'{file}_{record}'] = int(amount(file)[0]), int(amount(record)[0])
        names = [f'{what}_{pair}' for what in WRITES for pair in self.pairs]
        self.metrics = tuple(Metric(name, 'MiB/s', 'higher') for name in names)

    def not_run(self):
        left_out = {}
        for pair, sizes in self.pairs.items():
            why = beyond(*sizes)
            if why:
                left_out |= {f'{what}_{pair}': why for what in WRITES}
        return left_out

    @run_after('setup')
    def place(self):
        self.without_launcher()
        self.num_cpus_per_task = self.extra('cores') or 1
        if self.by_iozone():
            for pair, sizes in self.pairs.items():
                if odd(*sizes):
                    self.leave_out([f'{what}_{pair}' for what in WRITES], ODD)
        files = [file for file, _ in self.written().values()]
        if not files:
            self.skip_case('files: none holds one of the records')
        at_once = {file: 1 if self.by_iozone() else copies(file) for file in files}
        written = sum(file * at_once[file] for file in files)
        self.plan_bytes([2 * written], 1, self.on)
        self.take_room(max(file * several for file, several in at_once.items()), files=max(at_once.values()))
        self.prerun_cmds += ['export folder']
        if self.by_iozone():
            self.executable, self.executable_opts = self.program('iozone'), [self.iozone_options()]
        else:
            self.executable, self.executable_opts = self.program('fio'), ['--output-format=json', 'case.fio']

    def by_iozone(self):
        """Return whether the environment has IOZone."""
        return 'iozone' in self.needs

    def written(self):
        """Return the bytes of the file and of the record of each pair that runs, by its name."""
        written = {}
        for pair, sizes in self.pairs.items():
            left_out = beyond(*sizes) or (self.by_iozone() and odd(*sizes))
            if not left_out:
                written[pair] = sizes
        return written

    def iozone_options(self):
        """Return the options of IOZone, which is started anew for each size of a file; -R repeats its rates."""
        records = {}
        for file, record in sorted(set(self.written().values())):
            records.setdefault(file, []).append(f'-r {record >> 10}k')
        fsync = '-e ' if self.sync == 'fsync' else ''
        commands = []
        for at, (file, own) in enumerate(records.items(), 1):
            path = f'"$folder/{at}-of-{len(records)}"'
            commands.append(f'-a -R {fsync}-i 0 -s {file >> 10}k {" ".join(own)} -f {path}')
        return f' && {self.program("iozone")} '.join(commands)

    @run_before('run')
    def write_input(self):
        if self.by_iozone():
            return
        # opened when they are written: fio would write the files of the second group before the first one begins
        lines = ['[global]', 'directory=${folder}', 'filename_format=f.$filenum', 'ioengine=psync', 'rw=write',
                 'direct=0', 'create_on_open=1', 'fallocate=none', 'invalidate=0', 'file_service_type=sequential',
                 'group_reporting=1', f'end_fsync={int(self.sync == "fsync")}']
        for name, (record, size, file) in self.groups().items():
            lines += [f'[{name}]', 'stonewall', 'new_group', f'bs={record}', f'filesize={file}',
                      f'nrfiles={copies(file)}', f'size={size}']
            if name.startswith('rewrite'):
                lines.append('unlink=1')
        self.stage('case.fio', '\n'.join(lines) + '\n')

    def groups(self):
        """Return the bytes of a record, of all files and of a file of each group that runs, in order."""
        groups = {}
        for pair, (file, record) in self.written().items():
            for what in WRITES:
                groups[f'{what}_{pair}'] = record, file * copies(file), file
        return groups

    def parse(self, text):
        values, facts = read(text)
        self.note({**facts, **self.caches_known(), 'figures': values})
        self.variant(tool=facts['tool'])
        tool = 'iozone' if self.by_iozone() else 'fio'
        if facts['tool'] != tool:
            raise Wrong(f'ran {facts["tool"]}, asked for {tool}')
        rates = self.iozone_rates(values, facts) if self.by_iozone() else self.fio_rates(values, facts)
        every = [m.name for m in self.metrics]
        if self.sync == 'buffered':
            self.label(every, 'cached', 'into the page cache, without fsync')
        elif self.is_memory():
            self.label(every, 'cached', f'{self.filesystem_type()} is memory')
        return rates

    def iozone_rates(self, values, facts):
        names = {}
        for pair, sizes in self.written().items():
            names |= {f'{what}_{pair}': name_of(what, *sizes) for what in WRITES}
        fsync = 'yes' if self.sync == 'fsync' else 'no'
        if facts['fsync'] != fsync:
            raise Wrong(f'ran fsync {facts["fsync"]}, asked for {fsync}')
        asked = sorted(set(names.values()))
        if sorted(values) != asked:
            raise Wrong(f'ran rates {sorted(values)}, asked for {asked}')
        return {name: values[own] for name, own in names.items()}

    def fio_rates(self, values, facts):
        asked = {name: ('write', str(record), str(size), '0') for name, (record, size, _) in self.groups().items()}
        keys = ('rw', 'bs', 'size', 'direct')
        ran = {name: tuple(map(options.get, keys)) for name, options in facts['groups'].items()}
        if ran != asked:
            raise Wrong(f'ran rw, bs, size, direct {ran}, asked for {asked}')
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


def odd(file, record):
    """Return whether IOZone cannot write a file by these records; both in bytes."""
    return bool(file % 1024 or record % 1024 or file % record or record > 16 * MIB)
