"""Messages between two ranks, every one timed: comms1 and comms2 of ParkBench (Hockney and Berry, 1994).

A program of ours (programs/comms.py). Its first rank keeps every time; what is above the 99th percentile
is dropped, and a mean of the others is judged. Tessera measured two networks so (studies/tessera).

    reframe -c checks/ -n Comms -P network=fast,slow -r
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.check import Lines, Metric, Mpi, Program, Read, Wrong, number, sealed, whole

DECADES = {'1B': 1, '10B': 10, '100B': 100, '1KB': 1000, '10KB': 10**4, '100KB': 10**5, '1MB': 10**6,
           '10MB': 10**7}
#: A rank that is alone says so on standard error.
PROGRAM = Program('comms', title=r'comms 1 (?:sendrecv|send) .+', alone=r'comms: 1 ranks of \w+; must be 2, .*')
LEAST = 3
# most repeats of a size, and bytes that pass one way before there are fewer; by size
REPEATS = {'quick': (200, 10**7), 'nightly': (1000, 10**8), 'acceptance': (10000, 10**9)}


@rfm.simple_test
class Comms(rfm.RunOnlyRegressionTest, Mpi):
    """`send`: half the time of a message that comes back. `sendrecv`: the time of both ranks' exchange."""

    programs = ('comms.py',)
    two_ranks = True
    where = parameter(['within', 'between'], type=str)
    call = parameter(['send', 'sendrecv'], type=str)
    metrics = (*(Metric(f'time_{size}', 'us', 'lower') for size in DECADES),
               Metric('bandwidth_10MB', 'MB/s', 'higher'))

    @run_after('init')
    def bound(self):
        if self.where == 'between':
            self.limit_to('link_bandwidth', 'MB/s')

    @run_after('setup')
    def place(self):
        self.place_where()
        most, passed = REPEATS[self.size]
        self.repeats = {size: max(LEAST, min(most, passed // size)) for size in DECADES.values()}
        self.sent_bytes = sum(size * repeats for size, repeats in self.repeats.items())
        self.executable = self.python()
        repeats = [f'{size}:{n}' for size, n in self.repeats.items()]
        self.executable_opts = [f'comms.py {self.call}', *repeats]

    def parse(self, text):
        values, facts = read(text)
        repeats = {DECADES[name]: times['repeats'] for name, times in facts['times'].items()}
        ran = facts['call'], repeats
        asked = self.call, self.repeats
        if ran != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        self.note(facts)
        return values


def read(text: str) -> Read:
    """time_<size> in us, the mean without outliers (`judge.stats.laws.outliers`); of `send` half of both ways.
    bandwidth_10MB in MB/s (10^6 bytes) each way. Facts: call, mpi, nodes, and times by size: repeats, dropped
    (above the 99th percentile), mean (us) and cv (a share) of all, cv of those that are left."""
    from parity.judge.stats import laws
    Lines(text).refuse(r'comms: message \d+ of \d+ B arrived altered')      # it stands above the title
    own = PROGRAM.output(text, fold=False).text
    _, first, out = sealed(own, r'comms 1 (sendrecv|send) (.+)', r'comms end crc32 ([0-9a-f]{8})')
    call, mpi = first.groups()
    nodes = out.one('nodes ((.+) (.+))')[1]
    rows = out.every(r'(\d+) B (\d+) times, us: ([\d. ]+)')
    sizes = [whole(row[1], 'bytes') for row in rows]
    if sizes != list(DECADES.values()) or len(rows) != len(out.lines) - 1:
        raise Wrong(f'{len(rows)} sizes in {len(out.lines) - 1} lines; must be one a line: {", ".join(DECADES)}')
    values: dict[str, float] = {}
    times = {}
    for name, row in zip(DECADES, rows, strict=True):
        ways = 2 if call == 'send' else 1
        taken = [float(number(token, f'a time of {name}', places=3)) / ways for token in row[3].split()]
        if len(taken) != whole(row[2], 'times'):
            raise Wrong(f'{len(taken)} times of {name}; must be {row[2]}')
        kept = laws.outliers(taken)
        values[f'time_{name}'] = kept.after.mean
        times[name] = {'repeats': len(taken), 'dropped': kept.dropped, 'mean': kept.before.mean,
                       'cv': kept.before.cv, 'cv_after': kept.after.cv}
    values['bandwidth_10MB'] = DECADES['10MB'] / values['time_10MB']
    return values, {'call': call, 'mpi': mpi, 'nodes': nodes.split(), 'times': times}
