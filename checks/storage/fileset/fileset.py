"""A population of files of one size, read or read and written in random order, after the study of GPFS.

    reframe -c checks/ -n Fileset -P nodes=1,2,4,8,16,32,64 -r         # the study's sweep

Every node reads, in chunks of 32 KiB and no file twice, what another node wrote; between any two file
systems that the partition names (-S source=home -S destination=scratch).
"""

import shlex

import reframe as rfm
from fileset_output import read
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Budget, Code, Metric, Mpi, Wrong

CODE = Code('fileset', executable='python3', beside=('mpirun',),
            units={'seconds': 's', 'rate': 'Mb/s', 'file_rate': 'files/s', 'ns_per_byte': 'ns/byte'},
            parts={'storage': ('Fileset',)})


BYTES = {'1B': 1, '1KB': 10**3, '10KB': 10**4, '100KB': 10**5, '1MB': 10**6, '10MB': 10**7, '100MB': 10**8,
         '1GB': 10**9}
# the files that are run, bytes of all files of a rank together, most files of a rank; by size
SIZES = {'quick': (('1B', '10KB', '1MB'), 64 * 10**6, 500),
         'nightly': (('1B', '1KB', '10KB', '100KB', '1MB', '10MB'), 10**9, 5000),
         'acceptance': (tuple(BYTES), 10**10, 20000)}


@rfm.simple_test
class Fileset(rfm.RunOnlyRegressionTest, Mpi, Budget):
    """One reader a node; aggregate rate in Mb/s (10^6 bit/s), and what a byte costs a reader in ns."""

    programs = ('filetools.py', 'fileset.py')
    ranks_a_node = '1'
    file = parameter(list(BYTES))
    mode = parameter(['read', 'read-write'])
    source = variable(str, value='scratch')
    destination = variable(str, value='scratch')
    metrics = (
        Metric('rate', 'Mb/s', 'higher'),
        Metric('ns_per_byte', 'ns/byte', 'lower'),
        Metric('file_rate', 'files/s', 'higher'),
    )

    @run_after('setup')
    def place(self):
        run, total, most = SIZES[self.size]
        if self.file not in run:
            self.skip_case(f'size={self.size} runs files of {", ".join(run)}')
        self.place_ranks()
        most = max(2, min(most, total // BYTES[self.file]))
        # what each rank writes, as blocks of 4 KiB: the population, and its copies
        one = self.num_tasks * max(BYTES[self.file], 4096) * (2 if self.mode == 'read-write' else 1)
        wanted = [one * files for files in dict.fromkeys((most, max(2, most // 10), 2))]
        self.files = self.plan_bytes(wanted, 1, self.source).repetition_bytes // one
        # once: a second time the reader's own cache would answer; --repeat makes a new population
        options = {'iterations': 1, 'mode': self.mode, 'bytes': BYTES[self.file], 'files': self.files,
                   'source': self.filesystem(self.source)}
        if self.mode == 'read-write':
            options['destination'] = self.filesystem(self.destination)
        self.executable = self.python()
        self.executable_opts = ['fileset.py', *(shlex.quote(f'--{k}={v}') for k, v in options.items())]

    def parse(self, text):
        values, facts = read(text)
        asked = (self.mode, BYTES[self.file], self.files, self.num_tasks)
        if (ran := tuple(facts[name] for name in ('mode', 'bytes', 'files', 'ranks'))) != asked:
            raise Wrong(f'ran mode, bytes, files, ranks {ran}, asked for {asked}')
        self.note(facts)
        if facts['source cached'] == 'yes' or (facts['source cached'], facts['read_from']) == ('unknown', 'own'):
            self.label(values, 'cached',
                       f'source in the page cache: {facts["source cached"]}, {facts["source cached why"]}')
        return values
