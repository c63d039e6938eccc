"""Files from node to node over TCP, file to file: one pair of nodes after another, and all pairs at once.

The source leaves its node's page cache before, the clock stops after fsync at the receiver, and the content is
compared after. With a cipher it passes over TLS, as scp's is ciphered. The study of Murphy and Harton (2007) moved
files of 1.5 and 20 GiB by scp.

    reframe -c checks/ -n FileTransfer -S source=local -S destination=local -S pairs=10 -r
"""

import shlex
from statistics import median
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Budget, Incomplete, Metric, Paired, Read, Wrong, by_pair, number, same, sealed

# bytes of a file, by size; most pairs
SIZES = {'quick': 64 << 20, 'nightly': 1 << 30, 'acceptance': 8 << 30}
PAIRS = 8
BUSY = 80           # % of a core, above which nodes that share it disturb each other
MEMORY = ('tmpfs', 'ramfs')
DISKS = ('read', 'written', 'disk')


@rfm.simple_test
class FileTransfer(rfm.RunOnlyRegressionTest, Paired, Budget):
    """Each node of the first half sends a file to its partner in the second half (inbound), or gets one back.

    ``source`` and ``destination`` are named file systems, ``bytes`` the size of a file. ``pairs`` is a number: at
    most so many, with a metric each. One by one, the file is then read and written apart from the network, too;
    `disk` is the lesser of both rates. ``half`` (first, second) has both nodes of a pair in that half. ``cipher``
    is a suite of OpenSSL that needs no certificate, such as AECDH-AES128-SHA (AES-128 in CBC mode, SHA-1)."""

    programs = ('files.py', 'filetools.py', 'room.py', 'filetransfer.py', 'tcp.py', *Paired.programs)
    how = parameter(['one-by-one', 'at-once'])
    direction = parameter(['inbound', 'outbound'])
    source = variable(str, value='scratch')
    destination = variable(str, value='scratch')
    bytes = variable(typ.Str[r'([1-9]\d{0,14})?'], value='')
    pairs = variable(typ.Str[r'([1-9]\d{0,2})?'], value='')
    half = variable(typ.Str[r'(first|second)?'], value='')
    cipher = variable(typ.Str[r'(AECDH-[A-Z0-9-]+)?'], value='')
    metrics = (Metric('seconds', 's', 'lower'), Metric('rate', 'MB/s', 'higher', limit='link_bandwidth'),
               Metric('worst', 'MB/s', 'higher', limit='link_bandwidth'))

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        if self.pairs:
            self.metrics += tuple(Metric(f'pair_{n}', 's', 'lower') for n in range(1, int(self.pairs) + 1))
        if self.pairs and self.how == 'one-by-one':
            self.metrics += tuple(Metric(name, 'MB/s', 'higher') for name in DISKS)

    @run_after('setup')
    def place(self):
        alone = self.how == 'one-by-one'
        each = 4 if self.half else 2
        nodes, flight = self.disjoint_pairs(int(self.pairs or PAIRS), alone, each)
        self.asked_bytes = int(self.bytes or SIZES[self.size])
        files = 3 if self.pairs and alone else 2
        self.plan_bytes([files * nodes // each * self.asked_bytes], 1, self.destination)
        options = {'at-once': flight, 'direction': self.direction, 'bytes': self.asked_bytes,
                   'source': self.filesystem(self.source), 'destination': self.filesystem(self.destination),
                   **({'cipher': self.cipher} if self.cipher else {})}
        command = ["python3 files.py send --pair '{pair}' --first '{first}'",
                   *(shlex.quote(f'--{name}={value}') for name, value in options.items()),
                   *(['--disks'] if files == 3 else [])]
        self.pair_up(nodes, flight, command, binding='none', cpus=self.extra('cores') or 1,
                     group=f'disjoint --half {self.half}' if self.half else 'disjoint',
                     limit=int(300 + 3 * self.asked_bytes / 1e6))

    def parse(self, text):
        values, facts = read(text)
        asked = self.direction, self.asked_bytes, self.cipher
        ran = facts['direction'], facts['bytes'], facts.get('cipher', '')
        if ran != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        if self.how == 'at-once' and self.extra('nodes_share_cpus') and facts['busiest'] > BUSY:
            busy = f'{facts["busiest"]:.0f} % busy'
            raise Incomplete(f'a core was {busy}: nodes that share it need it below {BUSY} %')
        self.note(facts)
        if self.pairs:
            values |= {f'pair_{n}': each for n, each in enumerate(facts['pairs'], 1)}
            named = [m.name for m in self.metrics if m.name.startswith('pair_')]
            none = [name for name in named if name not in values]
            self.leave_out(none, f'there are {len(facts["pairs"])} pairs')
        if why := in_memory(facts):
            self.label(values, 'cached', why)
        if why := why or ('one disk under all nodes' if self.extra('nodes_share_cpus') else ''):
            self.leave_out([name for name in DISKS if values.pop(name, None)], why)
        elif self.asked_bytes <= (self.extra('memory_bytes') or 0):
            self.label(DISKS, 'cached', 'perhaps: the file fits in memory')
        return values


def in_memory(facts):
    """Return why the files are not those of a disk; '' if they are."""
    if kinds := {facts['source filesystem'], facts['destination filesystem']} & {*MEMORY}:
        return f'the files are in memory: {", ".join(sorted(kinds))}'
    share = facts['source cached']
    return f'{share:.0f} % of the source is in the page cache' if share > 1 else ''


def read(text: str) -> Read:
    """seconds: the median over the pairs; rate and worst: MB/s (10^6 bytes) of the median and of the slowest pair.
    read, written: MB/s of the disks apart from the network, medians; disk: the lesser one.

    Facts: direction, bytes, cipher where there is one; pairs: seconds of each; busiest: the busiest core, %;
    source cached, the most: %; source filesystem, destination filesystem: types. Raises Wrong where the content
    that came is another."""
    found = [_pair(own) for own in by_pair(text, disjoint=True).values()]
    first, size, pairs = found[0], found[0]['bytes'], [pair['seconds'] for pair in found]
    alike = [name for name in ('direction', 'bytes', 'cipher', 'source filesystem', 'destination filesystem')
             if name in first]
    for name in alike:
        for pair in found:
            same(name, pair.get(name), first[name])
    values = {'seconds': median(pairs), 'rate': size / median(pairs) / 1e6, 'worst': size / max(pairs) / 1e6}
    if all('read' in pair for pair in found):
        values |= {name: size / median(pair[name] for pair in found) / 1e6 for name in ('read', 'written')}
        values['disk'] = min(values['read'], values['written'])
    return values, {
        **{name: first[name] for name in alike},
        'pairs': pairs, **{name: max(pair[name] for pair in found) for name in ('busiest', 'source cached')}}


_END = r'(source|destination) on (\S+) filesystem (\S+) sha256 ([0-9a-f]{64})'


def _pair(text: str) -> dict[str, Any]:
    """Read what one pair did, as ``read`` has it in its facts; read and written: seconds."""
    _, head, out = sealed(text, r'parity-transfer 1 (inbound|outbound) bytes (\d+)',
                          'parity-transfer-crc32 ([0-9a-f]{8})')
    ends = {row[1]: row for row in out.every(_END)}
    if {*ends} != {'source', 'destination'}:
        raise Incomplete(f'line {out.end}: the output ends without a source and a destination')
    if ends['source'][4] != ends['destination'][4]:
        raise Wrong(f'the content that {ends["destination"][2]} has differs from what {ends["source"][2]} sent')
    cached, cipher = out.one(r'source cached (\S+) %'), out.maybe(r'cipher (\S+)')
    took, disks = out.one(r'seconds (\S+) busiest (\S+) %'), out.maybe(r'read (\S+) written (\S+)')
    words = {'seconds': took[1], **({'read': disks[1], 'written': disks[2]} if disks else {})}
    seconds = {name: float(number(word, name)) for name, word in words.items()}
    shares = {'busiest': took[2], 'source cached': cached[1]}
    return {**seconds, 'direction': head[1], 'bytes': int(head[2]), **({'cipher': cipher[1]} if cipher else {}),
            **{name: float(number(word, name, zero=True)) for name, word in shares.items()},
            **{f'{name} filesystem': row[3] for name, row in ends.items()}}
