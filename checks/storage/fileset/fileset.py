"""A population of files of one size, read or read and written in random order, after the study of GPFS.

    reframe -c checks/ -n Fileset -P nodes=1,2,4,8,16,32,64 -r         # the study's sweep

Every node reads, in chunks of 32 KiB and no file twice, what another node wrote; between any two file
systems that the partition names (-S source=home -S destination=scratch). On the nodes' local disks:

    reframe -c checks/ -n Fileset -P nodes=1,2,4 -S source=local -S destination=local -S own_files=yes -r
"""

import shlex

import reframe as rfm
import reframe.utility.typecheck as typ
from fileset_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import parameter, run_after, variable

from parity.base.figures import amount, figure
from parity.check import Budget, Kind, Metric, Mpi, Wrong

BYTES = {'1B': 1, '1KB': 10**3, '10KB': 10**4, '100KB': 10**5, '1MB': 10**6, '10MB': 10**7, '100MB': 10**8,
         '1GB': 10**9}
# the files that are run, bytes of all files of a rank together, most files of a rank; by size
SIZES = {'quick': (('1B', '10KB', '1MB'), 64 * 10**6, 500),
         'nightly': (('1B', '1KB', '10KB', '100KB', '1MB', '10MB'), 10**9, 5000),
         'acceptance': (tuple(BYTES), 10**10, 20000)}


@rfm.simple_test
class Fileset(rfm.RunOnlyRegressionTest, Mpi, Budget):
    """One reader a node; aggregate rate in Mb/s (10^6 bit/s), and what a byte costs a reader in ns.

    ``chunk`` is what a read or write moves. ``repeats`` gives the median over so many populations of files, each
    read once; ``seconds`` ends a population early, if not all files are read by then. With ``own_files`` a node
    that does not see the others' files reads its own."""

    programs = ('files.py', 'filetools.py', 'room.py', 'fileset.py')
    ranks_a_node = '1'
    in_memory = ('chunk',)
    file = parameter(list(BYTES), type=str)
    mode = parameter(['read', 'read-write'], type=str)
    source = variable(str, value='scratch')
    destination = variable(str, value='scratch')
    chunk = variable(typ.Str[r'[1-9]\d{0,2}(B|KiB|MiB)'], value='32KiB')
    repeats = variable(typ.Str[r'[1-9]\d{0,3}'], value='1')
    seconds = variable(typ.Str[r'([1-9]\d{0,4})?'], value='')
    own_files = variable(typ.Bool, value=False)
    metrics = (
        Metric('rate', 'Mb/s', 'higher'),
        Metric('ns_per_byte', 'ns/byte', 'lower'),
        Metric('file_rate', 'files/s', 'higher'),
    )

    @run_after('setup')
    def place(self):
        run, total, most = SIZES[self.size]
        if self.file not in run:
            self.skip_case(f'size={self.size} runs files of {", ".join(run)}', Kind.SIZE)
        self.place_ranks()
        self.chunk_bytes = int(amount(self.chunk)[0])
        memory = self.extra('memory_bytes')
        if memory and self.chunk_bytes * self.num_tasks_per_node > memory:
            self.skip_case(f'chunk: {self.chunk} a rank, a node has {figure(memory, "B")} of memory')
        most = max(2, min(most, total // BYTES[self.file]))
        # what each rank writes, as blocks of 4 KiB: the population, and its copies
        copies = 2 if self.mode == 'read-write' else 1
        one = self.num_tasks * max(BYTES[self.file], 4096) * copies
        wanted = [one * files for files in dict.fromkeys((most, max(2, most // 10), 2))]
        plan = self.plan_bytes(wanted, int(self.repeats), self.source)
        self.files = plan.repetition_bytes // one
        self.populations = plan.repetitions
        options = {'iterations': self.populations, 'bytes': BYTES[self.file],
                   'files': self.files, 'chunk': self.chunk_bytes, 'seconds': self.seconds or 0,
                   'source': self.filesystem(self.source)}
        if self.mode == 'read-write':
            options['destination'] = self.filesystem(self.destination)
        self.executable = self.python()
        self.executable_opts = ['files.py', self.mode]
        self.executable_opts += [shlex.quote(f'--{name}={value}') for name, value in options.items()]
        if self.own_files:
            self.executable_opts.append('--own-files')

    def parse(self, text):
        values, facts = read(text)
        asked = {'mode': self.mode, 'bytes': BYTES[self.file], 'files': self.files, 'ranks': self.num_tasks,
                 'chunk': self.chunk_bytes, 'iterations': self.populations, 'time limit': int(self.seconds or 0)}
        ran = {name: facts.get(name, 0) for name in asked}
        if ran != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        own = facts['read_from'] == 'own'
        if facts['nodes'] > 1 and own and not self.own_files:
            raise Wrong('the nodes read their own files: own_files was not asked for')
        self.note(facts)
        if facts['nodes'] > 1 and own:
            self.label(values, 'own files', 'no node sees what another wrote')
        cached = facts['source cached']
        if cached == 'yes' or (cached == 'unknown' and own):
            self.label(values, 'cached', f'source in the page cache: {cached}, {facts["source cached why"]}')
        return values
