"""File copies as users make them: one large file, many of 1 KiB, and many of 1 KiB written.

The study of 2012 on physical and virtual nodes timed these on PVFS and Lustre with 1 to n clients.
`durable` stops the clock after fsync of files and folders; `as-is` stops where `cp` would, and
measures the page cache as much as the storage: it is labelled so.

    reframe -c checks/ -n FileCopy -P client_nodes=1,2,3,4 -S destination=local -r     # a client a node
"""

import shlex

import reframe as rfm
import reframe.utility.typecheck as typ
from filecopy_output import PASSES, PROGRAM, read  # noqa: F401
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Budget, Kind, Metric, Workload, Wrong
from parity.measure.scheduler import placement

# bytes of the large file, number of small files, iterations; by size
SIZES = {'quick': (64 << 20, 300, 3), 'nightly': (1 << 30, 4000, 10), 'acceptance': (8 << 30, 20000, 35)}


@rfm.simple_test
class FileCopy(rfm.RunOnlyRegressionTest, Workload, Budget):
    """Copy or write files between two named file systems, 1 or more clients at once.

    ``client_nodes`` starts them together on so many nodes, and gives the mean of every client's own seconds, and
    the least and largest of one client. ``bytes``, ``files`` and ``passes`` replace what the size states.
    ``one_file`` is copied by all clients. ``overwrite`` writes the small files of the first pass again in the
    others; ``process_a_file`` starts cp or dd for each; ``pause`` seconds between passes are not timed."""

    programs = ('files.py', 'filetools.py', 'room.py', 'filecopy.py')
    executable = 'python3'
    mode = parameter(['large-copy', 'small-copy', 'small-write'], type=str)
    clients = parameter(['one', 'all'], type=str)
    sync = parameter(['durable', 'as-is'], type=str)
    source = variable(str, value='scratch')
    destination = variable(str, value='scratch')
    client_nodes = variable(typ.Str[r'([1-9]\d{0,5})?'], value='')
    bytes = variable(typ.Str[r'([1-9]\d{0,14})?'], value='')
    files = variable(typ.Str[r'([1-9]\d{0,7})?'], value='')
    passes = variable(typ.Str[r'([1-9]\d{0,5})?'], value='')
    one_file = variable(typ.Bool, value=False)
    overwrite = variable(typ.Bool, value=False)
    process_a_file = variable(typ.Bool, value=False)
    pause = variable(float, value=0.0)
    metrics = (
        Metric('seconds', 's', 'lower'),
        Metric('rate', 'MB/s', 'higher'),
        Metric('hangs', 'count', 'lower', zero=True),
        Metric('failed_writes', 'count', 'lower', zero=True),
    )

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare_clients(self):
        names = []
        if self.client_nodes:
            names += ['client_seconds', 'client_seconds_min', 'client_seconds_max']
        if self.overwrite:
            names.append('first_seconds')
        if self.overwrite and self.client_nodes:
            names.append('first_client_seconds')
            names += [f'{when}_client_seconds' for when in PASSES]
        self.metrics += tuple(Metric(name, 's', 'lower') for name in names)

    def node_count(self):
        return int(self.client_nodes or 1)

    @run_after('setup')
    def place(self):
        cores = self.extra('cores') or 1
        if self.clients == 'all' and cores == 1:
            self.skip_case('one core: the same as clients=one', Kind.SAME)
        if self.mode == 'large-copy' and (self.overwrite or self.process_a_file):
            self.skip_case('overwrite and process_a_file are of small files')
        if self.mode != 'large-copy' and self.one_file:
            self.skip_case('one_file is of the large copy')
        nodes = int(self.client_nodes or 1)
        if nodes > 1:
            self.launch(placement.RankLayout(nodes, nodes, 'none'))
            self.executable = self.python()
        else:
            self.without_launcher()
        self.num_cpus_per_task = cores if self.clients == 'all' else 1
        size, files, iterations = SIZES[self.size]
        size = int(self.bytes or size)
        files = int(self.files or files)
        iterations = int(self.passes or iterations)
        clients = cores if self.clients == 'all' else 1
        large = self.mode == 'large-copy'
        one = nodes * clients * (size if large else 4096 * files)                   # small files: a block each
        written_first = 0 if self.mode == 'small-write' else 1                      # what is copied
        plan = self.plan_bytes([one], iterations, self.destination, written_first)
        if self.overwrite and plan.repetitions < 2:
            self.skip_case(f'overwrite needs 2 passes: {plan.why}')
        self.wanted = {'mode': self.mode, 'iterations': plan.repetitions, 'clients': clients,
                       'files': 1 if large else files, 'file bytes': size if large else 1024,
                       'nodes': self.client_nodes, 'one file': 'yes' if self.one_file else '',
                       'overwrite': 'yes' if self.overwrite else '',
                       'process a file': 'yes' if self.process_a_file else '', 'pause': self.pause or ''}
        options = {'bytes': size, 'files': files, 'iterations': plan.repetitions,
                   'clients': clients, 'pause': self.pause, 'nodes': self.client_nodes or 0}
        if written_first:
            options['source'] = self.filesystem(self.source)
        options['destination'] = self.filesystem(self.destination)
        flags = {'durable': self.sync == 'durable', 'one-file': self.one_file, 'overwrite': self.overwrite,
                 'process-a-file': self.process_a_file}
        self.executable_opts = ['files.py', self.mode]
        self.executable_opts += [shlex.quote(f'--{name}={value}') for name, value in options.items()]
        self.executable_opts += [f'--{flag}' for flag, there in flags.items() if there]

    def parse(self, text):
        values, facts = read(text)
        for name, asked in self.wanted.items():
            if facts.get(name, '') != str(asked):
                raise Wrong(f'{name}: ran {facts.get(name, "none")}, asked for {asked or "none"}')
        if self.overwrite and 'first_seconds' not in values:
            first = [m.name for m in self.metrics if m.name.startswith('first_')]
            self.leave_out(first, 'the first pass did not write all')
        if self.overwrite and self.client_nodes:
            later = [f'{when}_client_seconds' for when in PASSES]
            none = [name for name in later if name not in values]
            self.leave_out(none, f'{facts["iterations"]} passes: none of these wrote all')
        self.note(facts)
        for end in ('destination', 'source'):
            if facts.get(f'{end} cached') == 'yes':
                timed = [m.name for m in self.metrics if m.unit in ('s', 'MB/s')]
                self.label(timed, 'cached', f'the {end} is in the page cache')
        return values
