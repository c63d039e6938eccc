"""File copies as users make them: one large file, many of 1 KiB, and many of 1 KiB written.

The study of 2012 on physical and virtual nodes timed these on PVFS and Lustre with 1 to n clients.
`durable` stops the clock after fsync of files and folders; `as-is` stops where `cp` would, and
measures the page cache as much as the storage: it is labelled so.
"""

import shlex

import reframe as rfm
from filecopy_output import read
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Budget, Code, Metric, Workload

CODE = Code('filecopy', executable='python3', units={'seconds.*': 's', 'rate': 'MB/s', 'file_rate': 'files/s'},
            parts={'storage': ('FileCopy',)},
            headlines={r'FileCopy%mode=large-copy%clients=one%sync=durable\.rate': 'large copy, durable'})


# bytes of the large file, number of small files, iterations; by size
SIZES = {'quick': (64 << 20, 300, 3), 'nightly': (1 << 30, 4000, 10), 'acceptance': (8 << 30, 20000, 35)}


@rfm.simple_test
class FileCopy(rfm.RunOnlyRegressionTest, Workload, Budget):
    """Copy or write files between two named file systems, 1 or more clients at once."""

    programs = ('filetools.py', 'filecopy.py')
    executable = 'python3'
    mode = parameter(['large-copy', 'small-copy', 'small-write'])
    clients = parameter(['one', 'all'])
    sync = parameter(['durable', 'as-is'])
    source = variable(str, value='scratch')
    destination = variable(str, value='scratch')
    metrics = (
        Metric('seconds', 's', 'lower'),
        Metric('rate', 'MB/s', 'higher'),
        Metric('hangs', 'count', 'lower', zero=True),
        Metric('failed_writes', 'count', 'lower', zero=True),
    )

    @run_after('setup')
    def place(self):
        cores = self.extra('cores') or 1
        if self.clients == 'all' and cores == 1:
            self.skip_case('one core: the same as clients=one')
        self.without_launcher()
        self.num_cpus_per_task = cores if self.clients == 'all' else 1
        size, files, iterations = SIZES[self.size]
        clients = cores if self.clients == 'all' else 1
        one = clients * (size if self.mode == 'large-copy' else 4096 * files)       # small files: a block each
        written_first = 0 if self.mode == 'small-write' else 1                      # what is copied
        plan = self.plan_bytes([one], iterations, self.destination, written_first)
        options = {'mode': self.mode, 'bytes': size, 'files': files, 'iterations': plan.repetitions,
                   'clients': clients,
                   'source': self.filesystem(self.source), 'destination': self.filesystem(self.destination)}
        self.executable_opts = ['filecopy.py', *(shlex.quote(f'--{k}={v}') for k, v in options.items())]
        self.executable_opts += ['--durable'] if self.sync == 'durable' else []

    def parse(self, text):
        values, facts = read(text)
        self.note(facts)
        for end in ('destination', 'source'):
            if facts.get(f'{end} cached') == 'yes':
                self.label(['seconds', 'rate'], 'cached', f'the {end} is in the page cache')
        return values
